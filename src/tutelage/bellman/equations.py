"""The Bellman equations, hard and soft, solved to a stated accuracy of the value.

    hard   V(s) = max over choices c of s of Q(c)            Q(c) = reward(c) + discount * T(c) @ V
    soft   V(s) = log sum over choices c of s of exp Q(c)    policy exp(Q - V)                          (App. D.3)

At an end V is zero. Both operators B are monotone and B(V + k) = B V + discount * k, hence contractions by `discount`.
With r = B V - V,

    discount / (1 - discount) * min r  <=  V* - B V  <=  discount / (1 - discount) * max r

(MacQueen's bounds). The mean of the two bounds is therefore a better estimate, and `max |r| / (1 - discount)` bounds
the error of any V. That bound is computed for the value returned, with an allowance for rounding. Where choices have
different discounts, it has the largest one, by which B still contracts; MacQueen's bounds need one discount.

Newton's method on V - B V = 0 has the Jacobian I - discount * P_pi. For the hard operator it is Howard's policy
iteration, for the soft operator soft policy iteration. A step is a sparse direct solve for a small MDP, and a rough
solve by compiled Krylov steps (inexact Newton) for a large one.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tutelage import outcomes
from tutelage.arrays import EPSILON, ArrayLike, Indices, Readable, Vector, freeze, max_abs, vector
from tutelage.bellman.endless import EndingOperators
from tutelage.chains.resolvent import choice_resolvent, discounted_rows, has_dense_moves, policy_resolvent
from tutelage.model.mdp import MDP, choice_reward, discounted, per_choice
from tutelage.model.policy import evenly, first_maximum, max_by_state, sum_by_state, uniform_policy
from tutelage.outcomes import Ended, InvalidModel, NotConverged

# Above this many states, compiled loops save more within a few calls than the half second of loading the compiler.
COMPILED_ABOVE = 200
# The most Newton steps of the soft equation, and the first accuracy of their linear systems.
MAX_NEWTON_STEPS, INNER_TOLERANCE = 1_000, 0.02
# Accuracy of the hard value relative to the largest possible one, where the caller asks for less.
NINE_DIGITS = 1e-9
# Choices this close, relative to the largest value, may be tied.
NEARLY_TIED = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Optimum(Readable):
    """A solved Bellman equation.

    value: (S,). choice_value: (C,), Q. policy: (C,), for the hard equation greedy with ties split.
    residual: the largest |B V - V|. error_bound: the bound on |V - V*| that it implies, with rounding, where V* is the
    value for rows that sum to one exactly. Stored rows do so within rounding, which over a long horizon matters more.
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
    largest = max_abs(given) * mdp.steps
    asked = min(accuracy, NINE_DIGITS * largest) if largest > 0 else accuracy
    plan = plan_hard(mdp, given, accuracy=asked)
    choice_value = given + discounted(mdp, mdp.rows @ plan.value)
    policy = _tie_splitting(mdp, given, plan, choice_value, max(asked, plan.error_bound))
    ended = Ended.CONVERGED if plan.error_bound <= accuracy else plan.ended
    end = (plan.residual, plan.error_bound, plan.n_steps, ended)
    return Optimum(freeze(plan.value), freeze(choice_value), policy, *end)


def _tie_splitting(mdp: MDP, reward: Vector, plan: "HardOptimum", choice_value: Vector, allowed: float) -> Vector:
    """(C,), the greedy policy with ties split evenly, whose value is at most `allowed` below the optimal one.

    A policy that gives up at most x at each step loses at most x / (1 - discount). Values that were computed by
    iteration differ more between tied choices than the policy loses, so the loss is computed before ties are rejected.
    """
    wide = 2 * plan.error_bound + NEARLY_TIED * max_abs(plan.value)
    worse = per_choice(mdp, choice_value[plan.choice]) - choice_value
    may_be_tied = worse <= wide
    policy = evenly(mdp, may_be_tied)
    if float((worse * may_be_tied).max()) * mdp.steps <= allowed:
        return policy
    own = policy_resolvent(mdp, policy).values(sum_by_state(mdp, policy * reward))
    if float((plan.value - own).max()) <= allowed:
        return policy
    return evenly(mdp, worse <= allowed / mdp.steps)


def solve_soft(mdp: MDP, reward: ArrayLike, *, accuracy: float = 1e-8, start: ArrayLike | None = None) -> Optimum:
    """The soft value, |value - V*| <= accuracy, and the softmax policy.

    reward: on states (S,) or on choices (C,). start: (S,), a value to start from, such as that of a similar reward.
    """
    _check_accuracy(accuracy)
    given, aside, common = choice_reward(mdp, reward), uncounted(mdp), 0.0
    rest = given - aside
    if start is None:
        first = _first_value(mdp, rest)
    else:
        first = vector(start, "start", mdp.n_states, "states")
        common = _common_part(first)
    if common:
        # The reward of V - k is r(c) - (1 - discount) k, where what leads to an end is left out of the discount. The
        # policy depends on the differences of V alone, and these lose no digits to a k of many horizons.
        stays = 1.0 if mdp.continuing is mdp.transition else mdp.continuing.sum(axis=1)
        rest = rest - common * (1 - mdp.discount * stays)
    solved = _soft_policy_iteration(bellman_operators(mdp, rest), first - common, accuracy)
    if start is None and solved.ended is not Ended.CONVERGED and _common_part(solved.value):
        return solve_soft(mdp, given, accuracy=accuracy, start=solved.value)
    bound = solved.error_bound + 2 * EPSILON * abs(common)
    return replace(
        solved,
        value=freeze(solved.value + common),
        choice_value=freeze(solved.choice_value + common + aside),
        error_bound=bound,
        ended=solved.ended if bound <= accuracy else Ended.ROUNDING,
    )


def uncounted(mdp: MDP) -> Vector:
    """(C,), the entropy of the choices of an end, log of their number, which does not count: there V is zero."""
    entropy = np.zeros(mdp.n_states)
    entropy[mdp.ends] = np.log(mdp.choices_per_state[mdp.ends])
    return per_choice(mdp, entropy)


def _first_value(mdp: MDP, reward: Vector) -> Vector:
    """(S,), where the soft iteration of a reward (C,) starts.

    For each state, the soft value of reward zero if all states had its number of choices. Where some policy goes on for
    ever, it must not be above the solution, and is the value of the policy that takes all choices alike.
    """
    entropy = np.log(mdp.choices_per_state)
    if np.isfinite(mdp.horizon):
        return np.asarray(entropy * mdp.steps)
    uniform = uniform_policy(mdp)
    return policy_resolvent(mdp, uniform).values(sum_by_state(mdp, uniform * reward) + entropy)


def _common_part(value: Vector) -> float:
    """The middle of the values (S,), if they differ by less than a tenth of it; else zero."""
    low, high = float(value.min()), float(value.max())
    return (low + high) / 2 if high - low <= 0.05 * abs(low + high) else 0.0


@dataclass(frozen=True, eq=False)
class Operators:
    """The Bellman operators of one MDP and one reward on choices (C,), by NumPy, with one factorisation per policy."""

    mdp: MDP
    reward: Vector

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        """log sum exp of Q within each state, (S,), and the policy exp(Q - V), (C,)."""
        choice_value = self.reward + discounted(self.mdp, self.mdp.rows @ value)
        best = max_by_state(self.mdp, choice_value)
        policy = np.exp(choice_value - per_choice(self.mdp, best))
        total = sum_by_state(self.mdp, policy)
        return best + np.log(total), policy / per_choice(self.mdp, total)

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        """max of Q within each state, (S,), and the choice that attains it, (S,).

        The given choice is kept where it is within `slack` of the best, so that the choice among ties does not change.
        """
        choice_value = self.reward + discounted(self.mdp, self.mdp.rows @ value)
        best = max_by_state(self.mdp, choice_value)
        return best, np.where(best > choice_value[choice] + slack, first_maximum(self.mdp, choice_value), choice)

    def guess(self) -> Vector:
        """A value (S,) to start from."""
        # The value of the uniform policy depends on rewards at any distance; from zero, each policy iteration would
        # carry them one step further.
        mean_reward = sum_by_state(self.mdp, self.reward) / self.mdp.choices_per_state
        return self.solve(uniform_policy(self.mdp), mean_reward, 0.0)

    def sweep(self, value: Vector, tolerance: float, n_least: int = 3) -> Vector:
        """A value closer to the hard optimum, by at least n_least pairs of in-place sweeps where these are cheap."""
        return value

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        """About (I - discount P)^-1 right, with a residual of `tolerance` relative to `right` in the 2-norm."""
        return policy_resolvent(self.mdp, policy).solve(right, False)


def bellman_operators(mdp: MDP, reward: Vector) -> Any:
    """Compiled above COMPILED_ABOVE states; by NumPy otherwise, and where dense LU takes no longer than Krylov steps.

    These take ten products with all rows: with 42 entries in each of 2,240 rows of 715 states, a third of the time.
    With care where some policy goes on for ever.
    """
    is_dense = has_dense_moves(mdp) and 2 * mdp.transition.nnz > mdp.n_states**2
    operators: Any = Operators(mdp, reward)
    if mdp.n_states > COMPILED_ABOVE and not is_dense:
        from tutelage.bellman.backups import CompiledOperators

        operators = CompiledOperators(mdp, reward)
    return operators if np.isfinite(mdp.horizon) else EndingOperators(mdp, reward, operators)


def _evaluated(mdp: MDP, reward: Vector, choice: Indices, value: Vector, tolerance: float) -> Vector:
    """The value (S,) of always taking the given choices, from `value` until the residual is within `tolerance`."""
    here = reward[choice]
    if not here.any():
        # The price of limits that do not bind: iterations would approach the value zero without end.
        return np.zeros_like(value)
    accuracy = tolerance * mdp.steps / max(max_abs(value), max_abs(here))
    return choice_resolvent(mdp, choice, accuracy).values(here, value, accuracy)


def _swept(mdp: MDP, reward: Vector, choice: Indices, value: Vector, n_sweeps: int) -> Vector:
    """The value (S,) after this many sweeps with the given choices."""
    moves, here = discounted_rows(mdp, choice), reward[choice]
    for _ in range(n_sweeps):
        value = here + moves @ value
    return value


@dataclass(frozen=True, slots=True, eq=False)
class HardOptimum:
    """A solved hard equation with one choice per state, as pricing needs it."""

    value: Vector
    choice: Indices
    residual: float
    error_bound: float
    n_steps: int
    ended: Ended


@dataclass(frozen=True, slots=True)
class PolicySteps:
    """How policies are improved; the numbers change the time, not the result.

    most: policies. n_sweeps: of one policy, as long as the span of the residual falls to the share `falling` from
    policy to policy; the first `patience` policies need not. branching: the mean number of next states from which on
    chains may mix. evaluated: the residual of an evaluation beside that of the Bellman equation.
    """

    most: int = 1_000
    n_sweeps: int = 10
    falling: float = 0.75
    patience: int = 4
    branching: float = 1.5
    evaluated: float = 0.01


STEPS = PolicySteps()


def plan_hard(mdp: MDP, reward: Vector, *, accuracy: float, start: HardOptimum | None = None) -> HardOptimum:
    """Policy iteration for a reward on choices (C,), from the optimum of a similar reward.

    Where a chain forgets its start within a few moves, B V - V soon is nearly the same number in all states, and with
    MacQueen's bounds V + a number is the solution: a few sweeps of each policy are enough. Otherwise a policy is
    evaluated, until its residual is small beside that of the Bellman equation, and improved by in-place sweeps.
    """
    operators = bellman_operators(mdp, reward)
    horizon, steps = mdp.steps, STEPS
    goal = tolerance = 0.1 * accuracy / horizon
    is_mixing, span = start is None and _may_mix(mdp), np.inf
    if start is not None:
        choice = start.choice
        value = operators.sweep(_evaluated(mdp, reward, choice, start.value, tolerance), tolerance)
    else:
        choice = mdp.first_choice[:-1]
        value = np.zeros(mdp.n_states) if is_mixing else operators.sweep(operators.guess(), tolerance)
    before = choice
    for n_steps in range(1, steps.most + 1):
        backed, moved = operators.hard_backup(value, choice, 4 * EPSILON * max_abs(value))
        change = backed - value
        low, high = float(change.min()), float(change.max())
        residual = max(abs(low), abs(high))
        bound, ended = _verdict(residual, value, horizon, accuracy, 0.0)
        # The policy repeats or alternates between two: the remaining residual is the evaluation's rounding error.
        is_settled = n_steps > 1 and (np.array_equal(moved, choice) or (n_steps > 2 and np.array_equal(moved, before)))
        if ended is None and is_settled and goal == tolerance and not is_mixing:
            ended = Ended.ROUNDING
        if ended is not None:
            return HardOptimum(value, moved, residual, bound, n_steps, ended)
        outcomes.report("policy iterations", n_steps, bound)
        before, choice = choice, moved
        if is_mixing:
            is_mixing = n_steps <= steps.patience or high - low <= steps.falling * span
            value, span = _centred(mdp, backed, low, high), high - low
            if is_mixing:
                value = _swept(mdp, reward, choice, value, steps.n_sweeps)
                continue
        else:
            goal = tolerance if is_settled else max(tolerance, steps.evaluated * residual)
            value = _evaluated(mdp, reward, choice, value, goal)
        value = operators.sweep(value, tolerance)
    message = f"after {steps.most} policy iterations the error bound is still {bound:.3g}; ask for a larger accuracy"
    raise NotConverged(message, residual=residual, n_steps=n_steps)


def _centred(mdp: MDP, backed: Vector, low: float, high: float) -> Vector:
    """The mean of MacQueen's bounds for B V, where B V - V lies between two numbers; for one discount."""
    return backed + mdp.contraction * mdp.steps * (low + high) / 2


def _may_mix(mdp: MDP) -> bool:
    """Whether choices have several next states, and one discount; otherwise a chain forgets nothing."""
    is_random = mdp.transition.nnz > STEPS.branching * mdp.n_choices
    return bool(mdp.n_states > COMPILED_ABOVE and mdp.has_one_discount and is_random)


def _soft_policy_iteration(operators: Any, value: Vector, accuracy: float) -> Optimum:
    """Inexact Newton on the soft Bellman equation. A residual above twice the best one tightens the inner tolerance."""
    mdp, reward = operators.mdp, operators.reward
    inner_tolerance, best = INNER_TOLERANCE, np.inf
    unit = max(1.0, max_abs(reward))
    ahead = mdp.contraction * mdp.steps
    for n_steps in range(1, MAX_NEWTON_STEPS + 1):
        backed, policy = operators.soft_backup(value)
        change = backed - value
        residual = max_abs(change)
        steps = mdp.steps if np.isfinite(mdp.horizon) else _proven_steps(operators, value, backed, policy, accuracy)
        bound, ended = _verdict(residual, value, steps, accuracy, unit)
        if np.isinf(steps) and best <= residual <= 16 * EPSILON * max(unit, max_abs(value)):
            # The steps are so many that rounding allows no bound.
            ended = Ended.ROUNDING
        if ended is not None:
            choice_value = reward + discounted(mdp, mdp.rows @ value)
            return Optimum(freeze(value), freeze(choice_value), freeze(policy), residual, bound, n_steps, ended)
        low, high = float(change.min()), float(change.max())
        if mdp.has_one_discount and ahead * (high - low) <= accuracy:
            value = _centred(mdp, backed, low, high)
            continue
        outcomes.report("soft policy iterations", n_steps, bound)
        if residual > 2 * best:
            inner_tolerance = max(0.3 * inner_tolerance, 1e-8)
        best = min(best, residual)
        value = value + operators.solve(policy, change, inner_tolerance)
    message = f"after {MAX_NEWTON_STEPS} Newton steps the error bound is still {bound:.3g}; ask for a larger accuracy"
    raise NotConverged(message, residual=residual, n_steps=n_steps)


def _proven_steps(operators: Any, value: Vector, backed: Vector, policy: Vector, accuracy: float) -> float:
    """What the residual of a soft value is to be multiplied by, where some policy goes on for ever (see `endless`).

    Infinite as long as no V + t e is shown to be above the solution.
    """
    change = max_abs(backed - value)
    rounding = 4 * EPSILON * max(1.0, max_abs(value))
    if change > max(accuracy, 4 * rounding):
        return np.inf
    steps = operators.solve(policy, np.ones_like(value), 0.0)
    for factor in (2.0, 8.0, 32.0):
        above = value + factor * (change + rounding) * steps
        if (operators.soft_backup(above)[0] <= above - rounding).all():
            return factor * float(steps.max())
    return np.inf


def _verdict(
    residual: float, value: Vector, horizon: float, accuracy: float, unit: float
) -> tuple[float, Ended | None]:
    """The error bound that a residual implies, and the reason to stop, if any.

    unit: the size of the rewards, and of the logarithm of a few choices; zero where the value is larger than both.
    """
    rounding = 4 * EPSILON * max(unit, max_abs(value)) * horizon
    bound = residual * horizon + rounding
    if bound <= accuracy:
        return bound, Ended.CONVERGED
    return bound, Ended.ROUNDING if bound <= 8 * rounding < np.inf else None


def _check_accuracy(accuracy: float) -> None:
    if not accuracy > 0:
        raise InvalidModel(f"accuracy must be positive, got {accuracy}")
