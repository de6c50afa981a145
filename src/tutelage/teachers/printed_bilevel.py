"""Aware-BiL as Appendix G prints it: the Frank-Wolfe method over the learner's multipliers, in two branches.

With lambda = (alpha^low, alpha^up, beta) and pi_lambda the soft policy of the weights (alpha^low - alpha^up, -beta),

    step i     maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,   0 <= beta <= C_c,   mu_c(pi_lambda) <= delta
    step ii    maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,       beta  = C_c,    mu_c(pi_lambda) >= delta
    step iii   the better of the two

each by `convex.frank_wolfe` from two starts: all zero, and the alpha that the learner infers from the agnostic lesson,
with beta zero. The appendix requires a feasible start but does not say how to find one. Here, if the start of step i
violates a limit, beta is first set to C_c. A start that is still infeasible goes to `frank_wolfe.restore`; points that
remain infeasible are discarded. Constraints hold to 1e-6: with delta = 0 and non-negative features no soft policy
satisfies step i exactly, since it visits every state. The rewards in the paper, all for delta = 0, need only step ii.

The branches are not the learner's optimality (KKT) conditions. For each preference j these are one of

    beta_j = 0          and  mu_c[j] <= delta_j        it does not matter
    0 < beta_j < C_c    and  mu_c[j] =  delta_j        it binds
    beta_j = C_c        and  mu_c[j] >= delta_j        it is paid for

and unless delta = 0 the branches differ from them in two ways.

*Step i omits complementarity.* It admits beta_j > 0 with mu_c[j] < delta_j, where the learner's beta_j is zero. No
response of the learner has such a lambda, and its reward is not achieved. Example: in the published 10x10 world of seed
0, L3 with C_r = 5, C_c = 10 and an allowance of 2.5 is predicted to earn 7.42, and earns 7.26.

*The two steps omit every mixed response*: all preferences must be kept, or all paid for. Example: in the published 6x6
world of seed 1, L3 with the same penalties and an allowance of 0.5. The start is near green, which alone contributes 1,
so no policy satisfies step i. At beta = C_c the learner avoids green and yellow cells for every alpha, so none
satisfies step ii, and `printed_bilevel` raises `NotConverged`. Yet the learner responds: shown the soft policy of
weights (-5, 5, -5) it earns 7.51, with beta = (0, 0, 10, 0.75) and mu_c = (0.00, 0.00, 1.00, 0.50). Feasible points may
also be poor. With C_r = 10, C_c = 1 and an allowance of 2.5, this method teaches L5 to earn 2.22 on average over the
ten published worlds. Shown the optimal policy, L5 earns 8.50, and all ten responses are mixed.

The exact method of `BilevelTeacher` avoids both errors, because its beta is the learner's own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tutelage.arrays import ArrayLike, Indices, Vector, freeze
from tutelage.bellman.equations import Optimum, solve_soft
from tutelage.bellman.soft_expectations import combined_features
from tutelage.chains.expectations import Expectation, expectation
from tutelage.constrained.occupancy_polytope import reward_vector
from tutelage.convex import frank_wolfe
from tutelage.convex.frank_wolfe import Evaluation, NonlinearProgram
from tutelage.model.mdp import Domain, endless
from tutelage.outcomes import Ended, InvalidModel, NotConverged
from tutelage.roles import Multipliers
from tutelage.teachers.base import KnownEntropyLearner

# Accuracy of the soft value; finite differences magnify its error.
VALUE_ACCURACY = 1e-10
# The largest tolerated violation of mu_c <= delta or mu_c >= delta.
BRANCH_TOLERANCE = 1e-6
# The gain in reward at which the ascent stops; ten times the error of the finite differences.
BRANCH_GAIN = 1e-6
# The soft optimum at some multipliers, and the expectation of its policy.
Reached = tuple[Optimum, Expectation]


class Branch(Enum):
    """The two cases that Appendix G solves separately, as a sentence for a person."""

    KEPT = "step i: 0 <= beta <= C_c, and every preference is kept, mu_c <= delta"
    PAID = "step ii: beta = C_c, and every preference is paid for, mu_c >= delta"


@dataclass(frozen=True, slots=True, eq=False)
class BranchOptimum:
    """The result of one branch from one start.

    multipliers: lambda. policy: (C,), pi_lambda. expectation: that of the policy. reward: <w*, mu_r(pi_lambda)>, which
    the learner earns if its response satisfies the branch's conditions. violation: the largest violation of these.
    gap: the gain that the last linear program predicts, or, where no feasible start was found, the violation.
    n_steps: of the Frank-Wolfe method. ended: of the Frank-Wolfe method, or, if it found no start, of the restoration.
    """

    branch: Branch
    multipliers: Multipliers
    policy: Vector
    expectation: Expectation
    reward: float
    violation: float
    gap: float
    n_steps: int
    ended: Ended

    @property
    def is_feasible(self) -> bool:
        return self.violation <= BRANCH_TOLERANCE


def check_soft(learner: KnownEntropyLearner) -> None:
    """Refuse every learner but that of Sec. 3.2."""
    mismatch, preference = learner.mismatch.on(learner.domain), learner.preference
    is_plain = (
        not np.any(np.asarray(mismatch.on(learner.domain).allowance))
        and preference.rows is None
        and preference.on(learner.domain).names == learner.domain.preference_names
    )
    are_finite = math.isfinite(mismatch.penalty) and math.isfinite(preference.penalty)
    if not (is_plain and are_finite and mismatch.norm == preference.norm == 1):
        raise InvalidModel(
            "Appendix G is for the learner of Sec. 3.2: finite 1-norm penalties on each preference feature; "
            "use method='exact'"
        )


def printed_bilevel(
    learner: KnownEntropyLearner, true_weights: ArrayLike, agnostic_weights: ArrayLike
) -> BranchOptimum:
    """Step iii: the best point of either branch from either start, with the steps of all four.

    agnostic_weights: (d_r,), the reward weights that the learner infers from the agnostic lesson.
    Raises `NotConverged` where no start leads to a feasible point.
    """
    return best_of(branch_optima(learner, true_weights, agnostic_weights))


def best_of(tried: Sequence[BranchOptimum]) -> BranchOptimum:
    """The feasible point with the most reward, with the steps of all."""
    feasible = [point for point in tried if point.is_feasible]
    n_steps = sum(point.n_steps for point in tried)
    if not feasible:
        nearest = min(tried, key=lambda point: point.violation)
        raise NotConverged(
            "neither branch of Appendix G has a point here: all preferences cannot be kept at once, nor all paid for; "
            f"the nearest found ({nearest.branch.value}) violates its condition by {nearest.violation:.3g}",
            residual=nearest.violation,
            n_steps=n_steps,
        )
    return replace(max(feasible, key=lambda point: point.reward), n_steps=n_steps)


def branch_optima(
    learner: KnownEntropyLearner, true_weights: ArrayLike, agnostic_weights: ArrayLike
) -> tuple[BranchOptimum, ...]:
    """Steps i and ii from both starts; without preferences the two branches are equal, and only one is solved."""
    problem, starts = branch_starts(learner, true_weights, agnostic_weights)
    return tuple(_branch_optimum(problem, branch, x) for branch, x in starts)


def branch_starts(
    learner: KnownEntropyLearner, true_weights: ArrayLike, agnostic_weights: ArrayLike
) -> tuple["BranchProblem", list[tuple[Branch, Vector]]]:
    """The teacher's problem, and for each branch its two starts x = (alpha^low, alpha^up, beta)."""
    check_soft(learner)
    domain, preference = learner.domain, learner.preference
    weights = reward_vector(domain, true_weights, "true_weights")
    inferred = reward_vector(domain, agnostic_weights, "agnostic_weights")
    allowance = preference.on(domain).allowance
    problem = BranchProblem(domain, weights, learner.mismatch.penalty, preference.penalty, allowance)
    alphas = np.zeros(2 * domain.n_reward), np.concatenate([np.maximum(inferred, 0.0), np.maximum(-inferred, 0.0)])
    branches = tuple(Branch) if domain.n_preference else (Branch.KEPT,)
    return problem, [(branch, problem.start(branch, alpha)) for branch in branches for alpha in alphas]


@dataclass(frozen=True, slots=True, eq=False)
class BranchProblem:
    """The teacher's problem as a function of x = (alpha^low, alpha^up, beta), (2 d_r + d_c,)."""

    domain: Domain
    true_weights: Vector
    mismatch_penalty: float
    violation_penalty: float
    allowance: Vector

    def program(self, branch: Branch) -> NonlinearProgram[Reached]:
        """Step i or ii."""
        n_alpha, d_c = 2 * self.domain.n_reward, self.domain.n_preference
        sign = 1.0 if branch is Branch.KEPT else -1.0
        limited, features = self._limited(sign), combined_features(self.domain)

        def evaluate(x: Vector, near: Reached | None) -> Evaluation[Reached]:
            low, up, beta = self.split(x)
            reward = features @ np.concatenate([low - up, -beta])
            start = None if near is None else near[0].value
            solved = solve_soft(self.domain.mdp, reward, accuracy=VALUE_ACCURACY, start=start)
            reached = expectation(self.domain, solved.policy)
            excess = sign * (reached.preference - self.allowance)[limited]
            return Evaluation(float(self.true_weights @ reached.reward), excess, (solved, reached))

        upper = np.repeat([self.mismatch_penalty, self.violation_penalty], [n_alpha, d_c])
        lower = np.repeat([0.0, 0.0 if branch is Branch.KEPT else self.violation_penalty], [n_alpha, d_c])
        return NonlinearProgram(evaluate, lower, upper)

    def start(self, branch: Branch, alpha: Vector) -> Vector:
        """x with beta zero, or C_c where that violates a limit."""
        program = self.program(branch)
        x = np.clip(np.concatenate([alpha, np.zeros(len(program.lower) - len(alpha))]), program.lower, program.upper)
        if program.evaluate(x, None).violation > BRANCH_TOLERANCE:
            x[len(alpha) :] = self.violation_penalty
        return np.asarray(x)

    def _limited(self, sign: float) -> Indices:
        """The preferences j for which some policy may violate sign * (mu_c[j] - delta_j) <= 0."""
        most = (sign * endless(self.domain.mdp, self.domain.preference_features)).max(axis=0, initial=-math.inf)
        return np.flatnonzero(most > sign * self.allowance)

    def split(self, x: Vector) -> Sequence[Vector]:
        """alpha^low, alpha^up and beta."""
        return np.split(x, [self.domain.n_reward, 2 * self.domain.n_reward])


def _branch_optimum(problem: BranchProblem, branch: Branch, x: Vector) -> BranchOptimum:
    """One branch from one start: initialisation, then optimisation (App. G)."""
    program = problem.program(branch)
    found = frank_wolfe.restore(program, x, feasibility_tolerance=BRANCH_TOLERANCE)
    n_steps = found.n_steps
    if found.ended is Ended.CONVERGED:
        found = frank_wolfe.maximise(
            program, found.answer.x, feasibility_tolerance=BRANCH_TOLERANCE, stop_tolerance=BRANCH_GAIN
        )
        n_steps += found.n_steps
    here, (solved, reached) = found.answer.here, found.answer.here.source
    return BranchOptimum(
        branch=branch,
        multipliers=Multipliers(*(freeze(part.copy()) for part in problem.split(found.answer.x))),
        policy=solved.policy,
        expectation=reached,
        reward=here.value,
        violation=here.violation,
        gap=found.residual,
        n_steps=n_steps,
        ended=found.ended,
    )
