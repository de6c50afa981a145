"""The Bellman equations, hard and soft, solved to a stated accuracy of the value.

    hard   V(s) = max over choices c of s of Q(c)            Q(c) = reward(c) + discount * T(c) @ V
    soft   V(s) = log sum over choices c of s of exp Q(c)    policy exp(Q - V)                          (App. D.3)

Both operators B are monotone and B(V + k) = B V + discount * k, hence contractions by `discount`. With r = B V - V,

    discount / (1 - discount) * min r  <=  V* - B V  <=  discount / (1 - discount) * max r

(MacQueen's bounds). The mean of the two bounds is therefore a better estimate, and `max |r| / (1 - discount)` bounds
the error of any V. That bound is computed for the value returned, with an allowance for rounding. Where choices have
different discounts, it has the largest one, by which B still contracts; MacQueen's bounds need one discount.

Newton's method on V - B V = 0 has the Jacobian I - discount * P_pi. For the hard operator it is Howard's policy
iteration, for the soft operator soft policy iteration. A step is a sparse direct solve for a small MDP, and a rough
solve by compiled Krylov steps (inexact Newton) for a large one.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tutelage import watch
from tutelage.arrays import EPSILON, Indices, Matrix, Vector, check_length, floats, freeze
from tutelage.bellman.operators import COMPILED_ABOVE, Operators, bellman_operators
from tutelage.chains.resolvent import discounted_rows, policy_resolvent
from tutelage.model.mdp import MDP, by_row, choice_reward, per_choice
from tutelage.model.policy import evenly, sum_by_state
from tutelage.outcomes import Ended, InvalidModel, NotConverged

MAX_STEPS = 1_000
INNER_TOLERANCE = 0.02
# Modified policy iteration: sweeps for each policy, the factor of the error from policy to policy that is quick, and
# the number of policies before which it need not be.
N_SWEEPS, QUICKLY, PATIENCE = 10, 0.75, 4
# The mean number of next states of a choice from which on modified policy iteration is tried.
SEVERAL = 1.5
# The residual of a policy's evaluation beside that of the hard Bellman equation.
EVALUATED = 0.01
# Accuracy of the hard value relative to the largest possible one, where the caller asks for less.
NINE_DIGITS = 1e-9
# Choices this close, relative to the largest value, may be tied.
SAME = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """A solved Bellman equation.

    value: (S,). choice_value: (C,), Q. policy: (C,), for the hard equation greedy with ties split.
    residual: the largest |B V - V|. error_bound: the bound on |V - V*| that it implies, with rounding.
    """

    value: Vector
    choice_value: Vector
    policy: Vector
    residual: float
    error_bound: float
    n_steps: int
    ended: Ended


def solve_hard(mdp: MDP, reward: ArrayLike, *, accuracy: float = 1e-8) -> Optimum:
    """The optimal value, |value - V*| <= accuracy, and an optimal policy that splits ties evenly.

    The policy's own value is as close to V* as `value` is: choices that differ by more are no tie.
    reward: on states (S,) or on choices (C,). Small rewards are solved to nine digits, whatever the accuracy.
    """
    _check_accuracy(accuracy)
    given = choice_reward(mdp, reward)
    largest = float(np.abs(given).max()) * mdp.horizon
    asked = min(accuracy, NINE_DIGITS * largest) if largest > 0 else accuracy
    plan = plan_hard(bellman_operators(mdp, given), mdp, accuracy=asked)
    choice_value = given + mdp.discount * (mdp.transition @ plan.value)
    policy = _tie_splitting(mdp, given, plan, choice_value, max(asked, plan.error_bound))
    ended = Ended.CONVERGED if plan.error_bound <= accuracy else plan.ended
    end = (plan.residual, plan.error_bound, plan.n_steps, ended)
    return Optimum(freeze(plan.value), freeze(choice_value), policy, *end)


def _tie_splitting(mdp: MDP, reward: Vector, plan: "Plan", choice_value: Vector, allowed: float) -> Vector:
    """(C,), the greedy policy with ties split evenly, whose value is at most `allowed` below the optimal one.

    A policy that gives up at most x at each step loses at most x / (1 - discount). Values that were computed by
    iteration differ more between tied choices than the policy loses, so the loss is computed before ties are rejected.
    """
    wide = 2 * plan.error_bound + SAME * float(np.abs(plan.value).max())
    worse = per_choice(mdp, choice_value[plan.choice]) - choice_value
    may_be_tied = worse <= wide
    policy = evenly(mdp, may_be_tied)
    if float((worse * may_be_tied).max()) * mdp.horizon <= allowed:
        return policy
    own = policy_resolvent(mdp, policy).values(sum_by_state(mdp, policy * reward))
    if float((plan.value - own).max()) <= allowed:
        return policy
    return evenly(mdp, worse <= allowed / mdp.horizon)


def solve_soft(mdp: MDP, reward: ArrayLike, *, accuracy: float = 1e-8, start: ArrayLike | None = None) -> Optimum:
    """The soft value, |value - V*| <= accuracy, and the softmax policy.

    reward: on states (S,) or on choices (C,). start: (S,), a value to start from, such as that of a similar reward.
    """
    _check_accuracy(accuracy)
    given = choice_reward(mdp, reward)
    if start is None:
        # For each state, the soft value of reward zero if all states had its number of choices.
        first = np.log(mdp.choices_per_state) * mdp.horizon
    else:
        first = floats(start, "start", ndim=1)
        check_length(first, mdp.n_states, "start", "states")
    common = np.zeros(()) if start is None else _common_part(first)
    rest = _without(mdp, given, common)
    found = _soft_policy_iteration(bellman_operators(mdp, rest), mdp, rest, first - common, accuracy)
    if start is None and found.ended is not Ended.CONVERGED and _common_part(found.value):
        return solve_soft(mdp, given, accuracy=accuracy, start=found.value)
    return _with(found, common, accuracy)


def solve_soft_each(mdp: MDP, rewards: Matrix, first: Matrix, *, accuracy: float) -> Optimum:
    """As `solve_soft` for several rewards on choices (C, n), from the values first (S, n), all in one iteration.

    For small MDPs, where a call takes longer than its arithmetic. The optimum's arrays have a column for each reward,
    its residual and its error bound are the largest.
    """
    common = _common_part(first)
    rest = _without(mdp, rewards, common)
    found = _soft_policy_iteration(Operators(mdp, rest), mdp, rest, first - common, accuracy)
    return _with(found, common, accuracy)


def _without(mdp: MDP, reward: Vector, common: Vector) -> Vector:
    """The reward of V - k, where V has the reward (C,) or (C, n), and k is its common part, () or (n,).

    It is r(c) - (1 - discount) k. The policy depends on the differences of V alone, and these lose no digits to a k of
    many horizons.
    """
    return reward - (1 - by_row(mdp.discount, reward)) * common


def _with(found: Optimum, common: Vector, accuracy: float) -> Optimum:
    """The optimum of V, from that of V - k."""
    bound = found.error_bound + 2 * EPSILON * float(np.abs(common).max())
    return replace(
        found,
        value=freeze(found.value + common),
        choice_value=freeze(found.choice_value + common),
        error_bound=bound,
        ended=found.ended if bound <= accuracy else Ended.ROUNDING,
    )


def _common_part(value: Vector) -> Vector:
    """The middle of the values (S,) or (S, n), if they differ by less than a tenth of it; else zero."""
    low, high = value.min(axis=0), value.max(axis=0)
    middle = (low + high) / 2
    return np.where(high - low <= 0.1 * np.abs(middle), middle, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A hard optimum with one choice per state, as pricing needs it."""

    value: Vector
    choice: Indices
    residual: float
    error_bound: float
    n_steps: int
    ended: Ended


def plan_hard(operators: Operators, mdp: MDP, *, accuracy: float, start: Plan | None = None) -> Plan:
    """Howard's policy iteration, with in-place sweeps before each evaluation where sweeps are cheap.

    A policy that will change is evaluated only until its residual is small beside that of the Bellman equation.
    """
    discount = mdp.largest_discount
    tolerance = 0.1 * accuracy * (1 - discount)
    choice = before = mdp.first_choice[:-1] if start is None else start.choice
    if start is not None:
        value = operators.sweep(operators.evaluate(start.choice, start.value, tolerance), tolerance)
    elif mdp.n_states > COMPILED_ABOVE and isinstance(mdp.discount, float) and _is_random(mdp):
        value, choice = _quickly_mixed(operators, mdp, accuracy)
    else:
        value = operators.sweep(operators.guess(), tolerance)
    goal = tolerance
    for n_steps in range(1, MAX_STEPS + 1):
        slack = 4 * EPSILON * float(np.abs(value).max())
        backed, moved = operators.hard_backup(value, choice, slack)
        residual = float(np.abs(backed - value).max())
        bound, ended = _verdict(residual, value, discount, accuracy, 0.0)
        is_same = n_steps > 1 and np.array_equal(moved, choice)
        is_alternating = n_steps > 2 and np.array_equal(moved, before)
        is_settled = is_same or is_alternating
        if ended is None and is_settled and goal == tolerance:
            # The policy repeats or alternates between two: the remaining residual is the evaluation's rounding error.
            ended = Ended.ROUNDING
        if ended is not None:
            return Plan(value, moved, residual, bound, n_steps, ended)
        watch.report("policy iterations", n_steps, bound)
        before, choice = choice, moved
        goal = tolerance if is_settled else max(tolerance, EVALUATED * residual)
        value = operators.sweep(operators.evaluate(choice, value, goal), tolerance)
    message = f"after {MAX_STEPS} policy iterations the error bound is still {bound:.3g}; ask for a larger accuracy"
    raise NotConverged(message, residual=residual, n_steps=n_steps)


def _is_random(mdp: MDP) -> bool:
    """Whether choices have several next states. Otherwise a chain forgets nothing, and does not mix."""
    return bool(mdp.transition.nnz > SEVERAL * mdp.n_choices)


def _quickly_mixed(operators: Operators, mdp: MDP, accuracy: float) -> tuple[Vector, Indices]:
    """A value and its choices by modified policy iteration, as long as that converges quickly.

    Where a chain forgets its start within a few moves, B V - V soon is nearly the same number in all states, and with
    MacQueen's bounds V + a number is the solution. Evaluating a policy by a few sweeps is enough.
    """
    discount = mdp.largest_discount
    value, choice = np.zeros(mdp.n_states), mdp.first_choice[:-1]
    ahead, last, n_policies = discount / (1 - discount), np.inf, 0
    while True:
        slack = 4 * EPSILON * float(np.abs(value).max())
        backed, choice = operators.hard_backup(value, choice, slack)
        low, high = float((change := backed - value).min()), float(change.max())
        value = backed + ahead * (low + high) / 2
        if ahead * (high - low) <= 0.1 * accuracy:
            return value, choice
        if n_policies >= PATIENCE and high - low > QUICKLY * last:
            return operators.sweep(value, 0.1 * accuracy * (1 - discount)), choice
        last, n_policies = high - low, n_policies + 1
        moves, reward = discounted_rows(mdp, choice), operators.reward[choice]
        for _ in range(N_SWEEPS):
            value = reward + moves @ value


def _soft_policy_iteration(operators: Operators, mdp: MDP, reward: Vector, value: Vector, accuracy: float) -> Optimum:
    """Inexact Newton on the soft Bellman equation. A residual above twice the best one tightens the inner tolerance.

    reward, value: (C,) and (S,), or (C, n) and (S, n) for several rewards.
    """
    inner_tolerance, best = INNER_TOLERANCE, np.inf
    discount, unit = mdp.largest_discount, max(1.0, float(np.abs(reward).max()))
    # MacQueen's bounds need one discount for all choices.
    has_bounds, ahead = isinstance(mdp.discount, float), discount / (1 - discount)
    for n_steps in range(1, MAX_STEPS + 1):
        backed, policy = operators.soft_backup(value)
        change = backed - value
        residual = float(np.abs(change).max())
        bound, ended = _verdict(residual, value, discount, accuracy, unit)
        if ended is not None:
            choice_value = operators.choice_value(value)
            return Optimum(freeze(value), freeze(choice_value), freeze(policy), residual, bound, n_steps, ended)
        low, high = float(change.min()), float(change.max())
        if has_bounds and ahead * (high - low) <= accuracy:
            value = backed + ahead * (low + high) / 2
            continue
        watch.report("soft policy iterations", n_steps, bound)
        if residual > 2 * best:
            inner_tolerance = max(0.3 * inner_tolerance, 1e-8)
        best = min(best, residual)
        value = value + operators.solve(policy, change, inner_tolerance)
    message = f"after {MAX_STEPS} Newton steps the error bound is still {bound:.3g}; ask for a larger accuracy"
    raise NotConverged(message, residual=residual, n_steps=n_steps)


def _verdict(
    residual: float, value: Vector, discount: float, accuracy: float, unit: float
) -> tuple[float, Ended | None]:
    """The error bound that a residual implies, and the reason to stop, if any.

    unit: the size of the rewards, and of the logarithm of a few choices; zero where the value is larger than both.
    """
    rounding = 4 * EPSILON * max(unit, float(np.abs(value).max())) / (1 - discount)
    bound = residual / (1 - discount) + rounding
    if bound <= accuracy:
        return bound, Ended.CONVERGED
    return bound, Ended.ROUNDING if bound <= 8 * rounding else None


def _check_accuracy(accuracy: float) -> None:
    if not accuracy > 0:
        raise InvalidModel(f"accuracy must be positive, got {accuracy}")
