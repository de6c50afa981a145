"""Aware-BiL as Appendix G prints it: the Frank-Wolfe method over the learner's multipliers, in two branches.

With lambda = (alpha^low, alpha^up, beta) and pi_lambda the soft policy of the weights (alpha^low - alpha^up, -beta),

    step i     maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,   0 <= beta <= C_c,   mu_c(pi_lambda) <= delta
    step ii    maximise <w*, mu_r(pi_lambda)>   over   0 <= alpha <= C_r,       beta  = C_c,    mu_c(pi_lambda) >= delta
    step iii   the better of the two

each by `convex.frank_wolfe` from two starts: all zero, and the alpha that the learner infers from the agnostic lesson,
with beta zero. If the start of step i violates a limit, beta is first set to C_c. From a start that is still infeasible
the method first lowers the violation; points that remain infeasible are discarded. Constraints hold to 1e-6: with
delta = 0 no soft policy satisfies step i exactly, since it visits every state.

The branches are not the learner's optimality (KKT) conditions: beta_j = 0 and mu_c[j] <= delta_j, or 0 < beta_j < C_c
and mu_c[j] = delta_j, or beta_j = C_c and mu_c[j] >= delta_j, for each preference j.

*Step i omits complementarity*: it admits beta_j > 0 with mu_c[j] < delta_j, and may predict a reward that is not
achieved. *The two steps omit every mixed response*: all preferences must be kept, or all paid for. Where no response is
either, `printed_bilevel` raises `NotConverged`.
"""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Vector, freeze
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.convex.frank_wolfe import Evaluation, NonlinearProgram, maximise
from tutelage.model.mdp import combined_features, endless, reward_vector
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.roles import Multipliers
from tutelage.teachers.base import KnownEntropyLearner
from tutelage.teachers.climbing import LocalOptimum

# The largest tolerated violation of mu_c <= delta or mu_c >= delta, and the gain in reward at which the ascent stops.
BRANCH_TOLERANCE = 1e-6
BRANCH_GAIN = 1e-6


class Branch(Enum):
    """The two cases that Appendix G solves separately, as a sentence for a person."""

    KEPT = "step i: 0 <= beta <= C_c, and every preference is kept, mu_c <= delta"
    PAID = "step ii: beta = C_c, and every preference is paid for, mu_c >= delta"


@dataclass(frozen=True, slots=True, eq=False)
class BranchOptimum(LocalOptimum):
    """The result of one branch from one start.

    multipliers: lambda. preference: (d_c,), mu_c(pi_lambda). violation: the largest one of the branch's conditions; the
    learner earns the reward if there is none. gap, ended: of Frank-Wolfe; without a feasible start, the violation.
    """

    branch: Branch
    multipliers: Multipliers
    preference: Vector
    violation: float

    @property
    def is_feasible(self) -> bool:
        return self.violation <= BRANCH_TOLERANCE


def check_soft(learner: KnownEntropyLearner) -> None:
    """Refuse every learner but that of Sec. 3.2."""
    domain, preference = learner.domain, learner.preference
    mismatch = learner.mismatch.on(domain)
    is_plain = preference.rows is None and preference.on(domain).names == domain.preference_names
    are_finite = math.isfinite(mismatch.penalty) and not preference.is_hard
    is_exact = not np.any(np.asarray(mismatch.allowance))
    if not (is_plain and are_finite and is_exact and mismatch.norm == preference.norm == 1):
        raise InvalidModel(
            "Appendix G is for the learner of Sec. 3.2: finite 1-norm penalties on each preference feature; "
            "use method='exact'"
        )


def printed_bilevel(
    learner: KnownEntropyLearner, true_weights: ArrayLike, agnostic_weights: ArrayLike
) -> BranchOptimum:
    """Step iii: the best of either branch from either start; `NotConverged` if infeasible. agnostic_weights: (d_r,)."""
    tried = branch_optima(learner, true_weights, agnostic_weights)
    best = max(tried, key=lambda point: (point.is_feasible, point.reward if point.is_feasible else -point.violation))
    if not best.is_feasible:
        told = "neither branch of Appendix G has a point here: all preferences cannot be kept at once, nor all paid for"
        nearest = f"the nearest found ({best.branch.value}) violates its condition by {best.violation:.3g}"
        raise NotConverged(f"{told}; {nearest}", residual=best.violation, n_steps=len(tried))
    return best


def branch_optima(
    learner: KnownEntropyLearner, true_weights: ArrayLike, agnostic_weights: ArrayLike
) -> list[BranchOptimum]:
    """Steps i and ii, each from all zero and from the agnostic weights; without preferences the steps are equal."""
    check_soft(learner)
    inferred = reward_vector(learner.domain, agnostic_weights, "agnostic_weights")
    alphas = np.zeros(2 * len(inferred)), np.maximum(np.concatenate([inferred, -inferred]), 0.0)
    branches = tuple(Branch) if learner.domain.n_preference else (Branch.KEPT,)
    programs = [(branch, branch_program(learner, true_weights, branch)) for branch in branches]
    return [_branch_optimum(branch, program, alpha) for branch, program in programs for alpha in alphas]


def branch_program(
    learner: KnownEntropyLearner, true_weights: ArrayLike, branch: Branch
) -> NonlinearProgram[SoftExpansion]:
    """Step i or ii, as a function of x = (alpha^low, alpha^up, beta), (2 d_r + d_c,)."""
    domain, d_r = learner.domain, learner.domain.n_reward
    sign = 1.0 if branch is Branch.KEPT else -1.0
    weights = reward_vector(domain, true_weights, "true_weights")
    features = combined_features(domain)
    most_paid = learner.preference.penalty
    allowance = learner.preference.on(domain).allowance
    # The preferences for which some policy may violate sign * (mu_c[j] - delta_j) <= 0.
    most = (sign * endless(domain.mdp, domain.preference_features)).max(axis=0, initial=-math.inf)
    limited = most > sign * allowance
    sizes = [2 * d_r, domain.n_preference]
    # The weights of all features are (alpha^low - alpha^up, -beta) = lift @ x.
    both = np.eye(d_r + domain.n_preference)
    lift = np.hstack([both[:, :d_r], -both])

    def evaluate(x: Vector, near: SoftExpansion | None) -> Evaluation[SoftExpansion]:
        reached = soft_expansion(domain.mdp, features, lift @ x, near=near)
        excess = sign * (reached.expectation[d_r:] - allowance)[limited]
        return Evaluation(float(weights @ reached.expectation[:d_r]), excess, reached)

    def derivatives(here: Evaluation[SoftExpansion]) -> tuple[Vector, Matrix]:
        slopes = here.source.jacobian @ lift
        return weights @ slopes[:d_r], sign * slopes[d_r:][limited]

    lower = np.repeat([0.0, 0.0 if branch is Branch.KEPT else most_paid], sizes)
    return NonlinearProgram(evaluate, derivatives, lower, np.repeat([learner.mismatch.penalty, most_paid], sizes))


def branch_start(program: NonlinearProgram[SoftExpansion], alpha: Vector) -> Vector:
    """x with beta zero, or C_c where that violates a limit."""
    x = np.clip(np.append(alpha, np.zeros(len(program.lower) - len(alpha))), program.lower, program.upper)
    if program.evaluate(x, None).violation > BRANCH_TOLERANCE:
        x[len(alpha) :] = program.upper[len(alpha) :]
    return np.asarray(x)


def _branch_optimum(branch: Branch, program: NonlinearProgram[SoftExpansion], alpha: Vector) -> BranchOptimum:
    """One branch from one start: initialisation, then optimisation (App. G)."""
    start = branch_start(program, alpha)
    top = maximise(program, start, feasibility_tolerance=BRANCH_TOLERANCE, stop_tolerance=BRANCH_GAIN)
    here = top.answer.here
    reached, preference = np.split(here.source.expectation, [len(alpha) // 2])
    low, up, beta = (freeze(part.copy()) for part in np.split(top.answer.x, [len(alpha) // 2, len(alpha)]))
    return BranchOptimum(
        weights=low - up,
        expectation=reached,
        reward=here.value,
        policy=here.source.solved.policy,
        gap=top.residual,
        ended=top.ended,
        branch=branch,
        multipliers=Multipliers(low, up, beta),
        preference=preference,
        violation=here.violation,
    )
