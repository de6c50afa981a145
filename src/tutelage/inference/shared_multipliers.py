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
from tutelage.bellman.soft_expectations import SoftExpansions, combined_features, soft_expansions
from tutelage.convex.least_squares import LeastSquares, Residuals, least_squares
from tutelage.inference.answering import Answers
from tutelage.inference.fitting import LARGEST, SMALLEST, TYPICAL, FitProblem

# The weight that prefers small multipliers where the answers do not determine them.
PREFERENCE = 1e-4
# The evaluations, the relative decrease that is too small for one more, the cost at which the search ends, and the
# multipliers to start from.
EVALUATIONS, GAIN, ENOUGH, STARTS = 10, 1e-3, 1e-6, (0.1, 1.0)
# The longest step: this share of a variable, or this.
SHARE, SHORTEST = 0.6, 0.5
# Multipliers from the first of these shares of the largest on are paid in full, and up to the second not at all.
READINGS = ((0.7, 0.1), (0.5, 0.5), (np.inf, 0.05))


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

    def evaluate(self, z: Vector, last: SoftExpansions | None) -> Residuals[SoftExpansions]:
        """The weighted misfits and their derivative in z."""
        domain, seen = self.problem.domain, self.problem.seen
        lifts = np.array([self.lift(i) for i in range(len(seen))])
        soft = soft_expansions(domain.mdp, combined_features(domain), lifts @ z, accuracy=1e-9, near=last)
        values = [one.weight @ (mu - one.target) for one, mu in zip(seen, soft.expectation, strict=True)]
        slopes = [one.weight @ slope for one, slope in zip(seen, soft.jacobian @ lifts, strict=True)]
        values.append(PREFERENCE * z)
        slopes.append(PREFERENCE * np.eye(len(z)))
        return Residuals(np.concatenate(values), np.vstack(slopes), soft)

    def near(self, z: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from z."""
        d_c, longest = self.problem.domain.n_preference, np.maximum(SHARE * np.abs(z), SHORTEST)
        n_free = len(z) - 1 - d_c
        lower = np.concatenate([SMALLEST[:1], np.zeros(d_c), np.full(n_free, -LARGEST[0])])
        upper = np.concatenate([LARGEST[:1], np.full(d_c, LARGEST[1]), np.full(n_free, LARGEST[0])])
        return np.maximum(lower, z - longest), np.minimum(upper, z + longest)


def guesses(problem: FitProblem, matched: float) -> list[tuple[Vector, Answers]]:
    """u of learners that give about these answers, one for each reading of the multipliers, and about their answers.

    matched: an answer this close to its lesson, relative to the range of the feature, matches it.
    """
    domain, unit = problem.domain, problem.unit
    apart = np.array([(one.shown - one.target[: domain.n_reward]) for one in problem.seen])
    signs = np.where(np.abs(apart) > matched * problem.scales.unit[: domain.n_reward], np.sign(apart), 0.0)
    shared, d_c = _Shared(problem, signs), domain.n_preference
    ends = list[LeastSquares[SoftExpansions]]()
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
    done = best.residuals.source.expectation[:, domain.n_reward :].mean(axis=0) / unit[2:]
    found = []
    for full, absent in READINGS:
        delta = np.where(q >= full * largest, 0.0, np.where(q <= absent * largest, problem.limits[1][2:], done))
        violation = largest if np.isfinite(full) else 1.5 * largest
        u = np.clip(np.concatenate([[best.x[0], violation], delta]), *problem.limits)
        found.append((u, _as_answers(problem.unit * u, best.residuals.source, domain.n_reward)))
    return found


def _as_answers(theta: Vector, soft: SoftExpansions, d_r: int) -> Answers:
    """Soft policies near the answers of a learner, as a warm start."""
    low = np.where(np.arange(soft.weights.shape[1]) < d_r, -1.0, 0.0)
    size = np.where(low < 0, theta[0], -theta[1])
    unmoved = np.zeros((*soft.weights.shape, len(theta)))
    return Answers(theta, np.clip(soft.weights / size, low, 1.0), soft.expectation, soft, unmoved, unmoved)
