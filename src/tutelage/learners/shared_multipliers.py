"""A first guess of a soft learner: one that pays the same multipliers q in all its answers.

    minimise over C_r, q >= 0 and the free a_i     1/2 sum over answers i of |W (mu(a_i, -q) - mu_i)|^2

mu(a, -q) is the expectation of the soft policy with these weights. a_ik = C_r sign(mu_hat_ik - mu_ik) where the answer
misses the lesson, and any number where it matches. So an evaluation takes one soft policy for each answer, while the
learner's own answer takes a program, and there are no kinks. What is left of the kinks is which preferences are paid
for in full (q_j = C_c), in part (at mu_c[j] = delta_j), or not at all: `guesses` has a learner for each reading.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Flags, Matrix, Vector
from tutelage.learners.fitting import LARGEST, SMALLEST, TYPICAL, FitProblem
from tutelage.solvers.least_squares import LeastSquares, Residuals, least_squares
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features, soft_expansion

# The weight that prefers small multipliers where the answers do not determine them.
PREFERENCE = 1e-4
# The evaluations, the relative decrease that is too small for one more, the cost at which the search ends, and the
# multipliers to start from.
EVALUATIONS, GAIN, ENOUGH, STARTS = 10, 1e-3, 1e-6, (0.1, 1.0)
# The longest step: this share of a variable, or this.
SHARE, SHORTEST = 0.6, 0.5
# Multipliers from the first of these shares of the largest on are paid in full, and up to the second not at all.
READINGS = ((0.7, 0.1), (0.5, 0.5), (np.inf, 0.05))

Expansions = tuple[SoftExpansion, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """The program in z = (C_r, q, free a) in the units of `FitProblem`. signs: (n, d_r), zero where a is free."""

    problem: FitProblem
    signs: Matrix

    @property
    def is_free(self) -> Flags:
        return np.asarray(self.signs == 0)

    def lift(self, i: int) -> Matrix:
        """(d, len(z)), the weights of answer i as a linear function of z."""
        d_r, d_c, unit = self.problem.domain.n_reward, self.problem.domain.n_preference, self.problem.unit
        free, before = np.flatnonzero(self.is_free[i]), 1 + d_c + int(self.is_free[:i].sum())
        lift = np.zeros((d_r + d_c, 1 + d_c + int(self.is_free.sum())))
        lift[:d_r, 0] = unit[0] * self.signs[i]
        lift[d_r:, 1 : 1 + d_c] = -unit[1] * np.eye(d_c)
        lift[free, before + np.arange(len(free))] = unit[0]
        return lift

    def evaluate(self, z: Vector, last: Expansions | None) -> Residuals[Expansions]:
        """The weighted misfits and their derivative in z."""
        domain, found = self.problem.domain, list[SoftExpansion]()
        features, values, slopes = combined_features(domain), list[Vector](), list[Matrix]()
        for i, one in enumerate(self.problem.seen):
            lift, near = self.lift(i), None if last is None else last[i]
            soft = soft_expansion(domain.mdp, features, lift @ z, accuracy=1e-9, near=near)
            values.append(one.weight @ (soft.expectation - one.target))
            slopes.append(one.weight @ soft.jacobian @ lift)
            found.append(soft)
        values.append(PREFERENCE * z)
        slopes.append(PREFERENCE * np.eye(len(z)))
        return Residuals(np.concatenate(values), np.vstack(slopes), tuple(found))

    def near(self, z: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from z."""
        d_c, longest = self.problem.domain.n_preference, np.maximum(SHARE * np.abs(z), SHORTEST)
        n_free = len(z) - 1 - d_c
        lower = np.concatenate([SMALLEST[:1], np.zeros(d_c), np.full(n_free, -LARGEST[0])])
        upper = np.concatenate([LARGEST[:1], np.full(d_c, LARGEST[1]), np.full(n_free, LARGEST[0])])
        return np.maximum(lower, z - longest), np.minimum(upper, z + longest)


def guesses(problem: FitProblem, matched: float) -> list[Vector]:
    """u of learners that give about these answers, one for each reading of the multipliers.

    matched: an answer this close to its lesson, relative to the range of the feature, matches it.
    """
    domain, unit = problem.domain, problem.unit
    apart = np.array([(one.shown - one.target[: domain.n_reward]) for one in problem.seen])
    signs = np.where(np.abs(apart) > matched * problem.scales.unit[: domain.n_reward], np.sign(apart), 0.0)
    shared, d_c = _Shared(problem, signs), domain.n_preference
    ends = list[LeastSquares[Expansions]]()
    for multiplier in STARTS:
        start = np.concatenate([TYPICAL[:1], np.full(d_c, multiplier), np.zeros(int(shared.is_free.sum()))])
        ends.append(
            least_squares(shared.evaluate, start, shared.near, enough=ENOUGH, gain=GAIN, max_evaluations=EVALUATIONS)
        )
        if ends[-1].residuals.cost <= ENOUGH:
            break
    best = min(ends, key=lambda end: end.residuals.cost)
    q = best.x[1 : 1 + d_c]
    largest = max(float(q.max(initial=0.0)), float(SMALLEST[1]))
    done = np.mean([soft.expectation[domain.n_reward :] for soft in best.residuals.source], axis=0) / unit[2:]
    found = []
    for full, absent in READINGS:
        delta = np.where(q >= full * largest, 0.0, np.where(q <= absent * largest, problem.limits[1][2:], done))
        violation = largest if np.isfinite(full) else 1.5 * largest
        found.append(np.clip(np.concatenate([[best.x[0], violation], delta]), *problem.limits))
    return found
