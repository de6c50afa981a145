"""Aware-BiL as Appendix G prints it: the Frank-Wolfe method over the learner's multipliers, in two branches.

With lambda = (alpha^low, alpha^up, beta) and pi_lambda the soft policy of the weights (alpha^low - alpha^up, -beta),

    step i     maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,   0 <= beta <= C_c,   mu_c(pi_lambda) <= delta
    step ii    maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,       beta  = C_c,    mu_c(pi_lambda) >= delta
    step iii   the better of the two

each by `solvers.frank_wolfe` from two starts: all zero, and the alpha that the learner infers when it is taught by the
agnostic teacher, with beta zero. The appendix asks for a feasible start without saying how to find one. Here, where
step i's start violates a limit, beta is first raised to C_c; a start that is still not feasible, in either step, goes
to `frank_wolfe.restore`. What is not feasible in the end does not count. Constraints hold to a millionth: with delta =
0 and features that are not negative step i has no point at all without a tolerance, for a soft policy goes everywhere;
step ii then has no constraint but its box, and none is linearised. The printed rewards, all of them for delta = 0, need
step ii alone.

The branches are not the learner's optimality (KKT) conditions. Those are, for each preference j by itself, one of

    beta_j = 0          and  mu_c[j] <= delta_j        it does not matter
    0 < beta_j < C_c    and  mu_c[j] =  delta_j        it binds
    beta_j = C_c        and  mu_c[j] >= delta_j        it is paid for

and the branches fall short of them in two ways, unless delta = 0.

*Step i leaves out complementarity.* It admits beta_j > 0 with mu_c[j] < delta_j, where the learner would let beta_j go:
it does not keep away for nothing from what it is granted. Such a lambda is no answer of the learner, and its reward is
only predicted. In the published 10x10 world of seed 0, L3 with C_r = 5, C_c = 10 and an allowance of 2.5 is predicted
to earn 7.42, and when shown that very policy earns 7.26.

*The two steps leave out every mixed answer*: all preferences must be kept, or all paid for. In the published 6x6 world
of seed 1 the start itself lies within two cells of green, which alone counts 1. For L3 with the same penalties and an
allowance of 0.5 no policy satisfies step i, and at beta = C_c the learner keeps off green and yellow themselves
whatever alpha is, so that none satisfies step ii: there is no lambda, and `printed_bilevel` says so. The learner has
answers all the same. Shown the soft policy of weights (-5, 5, -5) it earns 7.51, with beta = (0, 0, 10, 0.75) and mu_c
= (0.00, 0.00, 1.00, 0.50), one preference paid for, one that binds and two that do not matter. Where a step has points
they may all be poor: with C_r = 10, C_c = 1 and an allowance of 2.5, L5 earns 2.22 on average over the ten published
worlds when taught like this, and 8.50 when simply shown the optimal policy, to which each of its ten answers is mixed.

`BilevelTeacher` with its exact method has neither gap: its beta is the learner's own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Indices, Matrix, Vector, check_length, floats, freeze
from tutelage.learners.penalties import Preference
from tutelage.mdp.expectations import Expectation, expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import Ended, InvalidModel, NotConverged
from tutelage.roles import Multipliers
from tutelage.solvers import frank_wolfe
from tutelage.solvers.bellman import Optimum, solve_soft
from tutelage.solvers.frank_wolfe import Evaluation, Program
from tutelage.solvers.soft_expectations import combined_features

# Of the soft value; finite differences magnify what is missing.
VALUE_ACCURACY = 1e-10
# By how much mu_c may be on the wrong side of delta.
FEASIBILITY_TOLERANCE = 1e-6
# The reward that a last step may still promise or gain; ten times what finite differences cannot see.
STOP_TOLERANCE = 1e-6


class Branch(Enum):
    """The two cases that Appendix G solves separately, as a sentence for a person."""

    KEPT = "step i: 0 <= beta <= C_c, and every preference is kept, mu_c <= delta"
    PAID = "step ii: beta = C_c, and every preference is paid for, mu_c >= delta"


@dataclass(frozen=True, slots=True, eq=False)
class BranchOptimum:
    """What one branch comes to from one start.

    multipliers: lambda. policy: (C,), pi_lambda, and expectation, its own. reward: <w*, mu_r(pi_lambda)>, what the
    learner earns if the branch's conditions are those of its answer.
    violation: by how much mu_c is on the wrong side of delta; a point counts only where that is tolerated.
    gap: the reward that the last linear program promised, or, where no feasible start was found, the violation left.
    n_evaluations: of soft policies. ended: the Frank-Wolfe method, or, where that failed, the search for a start.
    """

    branch: Branch
    multipliers: Multipliers
    policy: Vector
    expectation: Expectation
    reward: float
    violation: float
    gap: float
    n_evaluations: int
    ended: Ended

    @property
    def is_feasible(self) -> bool:
        return self.violation <= FEASIBILITY_TOLERANCE


def printed_bilevel(
    domain: Domain,
    true_weights: ArrayLike,
    mismatch_penalty: float,
    violation_penalty: float,
    allowance: ArrayLike,
    agnostic_weights: ArrayLike,
) -> BranchOptimum:
    """Step iii: the best point of either branch from either start, with the evaluations of all four.

    allowance: delta, (d_c,) or a scalar for all. agnostic_weights: (d_r,), the reward weights that the learner infers
    when it is taught by the agnostic teacher. Raises `NotConverged` where no start leads to a feasible point.
    """
    tried = branch_optima(domain, true_weights, mismatch_penalty, violation_penalty, allowance, agnostic_weights)
    feasible = [point for point in tried if point.is_feasible]
    n_evaluations = sum(point.n_evaluations for point in tried)
    if not feasible:
        nearest = min(tried, key=lambda point: point.violation)
        raise NotConverged(
            "neither branch of Appendix G has a point here: all preferences cannot be kept at once, nor all paid for; "
            f"the nearest found ({nearest.branch.value}) violates its condition by {nearest.violation:.3g}",
            residual=nearest.violation,
            n_steps=n_evaluations,
        )
    return replace(max(feasible, key=lambda point: point.reward), n_evaluations=n_evaluations)


def branch_optima(
    domain: Domain,
    true_weights: ArrayLike,
    mismatch_penalty: float,
    violation_penalty: float,
    allowance: ArrayLike,
    agnostic_weights: ArrayLike,
) -> tuple[BranchOptimum, ...]:
    """Steps i and ii from both starts; the branches are one and the same where there are no preferences."""
    for name, penalty in (("mismatch_penalty", mismatch_penalty), ("violation_penalty", violation_penalty)):
        if not 0 < penalty < math.inf:
            raise InvalidModel(f"{name} must be positive and finite for Appendix G, got {penalty}")
    weights, inferred = (
        _reward_weights(domain, values, name)
        for values, name in ((true_weights, "true_weights"), (agnostic_weights, "agnostic_weights"))
    )
    limits = Preference(penalty=violation_penalty, allowance=allowance).on(domain).allowance
    problem = _Problem(domain, weights, mismatch_penalty, violation_penalty, limits)
    starts = np.zeros(2 * domain.n_reward), np.concatenate([np.maximum(inferred, 0.0), np.maximum(-inferred, 0.0)])
    branches = tuple(Branch) if domain.n_preference else (Branch.KEPT,)
    return tuple(_branch_optimum(problem, branch, start) for branch in branches for start in starts)


@dataclass(frozen=True, slots=True, eq=False)
class _Reached:
    """The soft optimum at some multipliers, and what its policy expects."""

    solved: Optimum
    expectation: Expectation


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The teacher's problem as a function of x = (alpha^low, alpha^up, beta), (2 d_r + d_c,)."""

    domain: Domain
    true_weights: Vector
    mismatch_penalty: float
    violation_penalty: float
    allowance: Vector
    features: Matrix = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", combined_features(self.domain))

    def program(self, branch: Branch) -> Program[_Reached]:
        """Step i or ii."""
        n_alpha, d_c = 2 * self.domain.n_reward, self.domain.n_preference
        sign = 1.0 if branch is Branch.KEPT else -1.0
        limited = self._limited(sign)

        def evaluate(x: Vector, near: _Reached | None) -> Evaluation[_Reached]:
            here = self._reached(x, near)
            excess = sign * (here.expectation.preference - self.allowance)[limited]
            return Evaluation(float(self.true_weights @ here.expectation.reward), excess, here)

        upper = np.repeat([self.mismatch_penalty, self.violation_penalty], [n_alpha, d_c])
        lower = np.repeat([0.0, 0.0 if branch is Branch.KEPT else self.violation_penalty], [n_alpha, d_c])
        return Program(evaluate, lower, upper)

    def _limited(self, sign: float) -> Indices:
        """The preferences with sign * (mu_c[j] - delta_j) <= 0 for some policies only; for all it is no constraint."""
        most = (sign * self.domain.preference_features).max(axis=0, initial=-math.inf) / (1 - self.domain.mdp.discount)
        return np.flatnonzero(most > sign * self.allowance)

    def _reached(self, x: Vector, near: _Reached | None) -> _Reached:
        low, up, beta = self.split(x)
        reward = self.features @ np.concatenate([low - up, -beta])
        start = None if near is None else near.solved.value
        solved = solve_soft(self.domain.mdp, reward, accuracy=VALUE_ACCURACY, start=start)
        return _Reached(solved, expectation(self.domain, solved.policy))

    def split(self, x: Vector) -> Sequence[Vector]:
        """alpha^low, alpha^up and beta."""
        return np.split(x, [self.domain.n_reward, 2 * self.domain.n_reward])


def _branch_optimum(problem: _Problem, branch: Branch, alpha: Vector) -> BranchOptimum:
    """One branch from one start: initialisation, then optimisation (App. G)."""
    program = problem.program(branch)
    n_alpha = len(alpha)
    x = np.clip(np.concatenate([alpha, np.zeros(len(program.lower) - n_alpha)]), program.lower, program.upper)
    if program.evaluate(x, None).violation > FEASIBILITY_TOLERANCE:
        x[n_alpha:] = problem.violation_penalty
    found = frank_wolfe.restore(program, x, feasibility_tolerance=FEASIBILITY_TOLERANCE)
    n_evaluations = 1 + found.n_evaluations
    if found.ended is Ended.CONVERGED:
        found = frank_wolfe.maximise(
            program, found.x, feasibility_tolerance=FEASIBILITY_TOLERANCE, stop_tolerance=STOP_TOLERANCE
        )
        n_evaluations += found.n_evaluations
    here = found.here
    return BranchOptimum(
        branch=branch,
        multipliers=Multipliers(*(freeze(part.copy()) for part in problem.split(found.x))),
        policy=here.source.solved.policy,
        expectation=here.source.expectation,
        reward=here.value,
        violation=here.violation,
        gap=found.gap,
        n_evaluations=n_evaluations,
        ended=found.ended,
    )


def _reward_weights(domain: Domain, values: ArrayLike, name: str) -> Vector:
    weights = floats(values, name, ndim=1)
    check_length(weights, domain.n_reward, name, "reward features")
    return weights
