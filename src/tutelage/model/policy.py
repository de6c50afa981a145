"""Policies: one probability per choice; those of a state sum to one."""

import numpy as np

from tutelage.arrays import ArrayLike, Flags, Indices, Vector, check_length, divisors, floats, freeze, sum_tolerance
from tutelage.model.episodes import ways_to_end
from tutelage.model.mdp import MDP, per_choice
from tutelage.outcomes import InvalidModel


def sum_by_state(mdp: MDP, values: Vector) -> Vector:
    """(S, ...), the sum of values on choices (C, ...) over the choices of each state."""
    return np.add.reduceat(values, mdp.first_choice[:-1], axis=0)


def max_by_state(mdp: MDP, values: Vector) -> Vector:
    """(S, ...), the maximum of values on choices (C, ...) over the choices of each state."""
    return np.maximum.reduceat(values, mdp.first_choice[:-1], axis=0)


def first_maximum(mdp: MDP, values: Vector) -> Indices:
    """(S,), the first choice of each state with the maximum of values on choices (C,)."""
    is_best = np.flatnonzero(values == per_choice(mdp, max_by_state(mdp, values)))
    # Both the best choices and the first choices of the states ascend.
    return np.asarray(is_best[np.searchsorted(is_best, mdp.first_choice[:-1])])


def uniform_policy(mdp: MDP) -> Vector:
    """(C,), the policy that takes every choice of a state with the same probability."""
    return freeze(per_choice(mdp, 1.0 / mdp.choices_per_state))


def ending_choice(mdp: MDP, is_taken: Flags) -> Indices:
    """(S,), one choice per state that ends, among those which are taken (C,); -1 where these never end."""
    return ways_to_end(mdp.continuing, mdp.first_choice, mdp.discount, is_taken)


def greedy_policy(mdp: MDP, choice_value: Vector, *, tie_tolerance: float) -> Vector:
    """(C,), the policy that takes the choices within `tie_tolerance` of the best value, with equal probabilities."""
    return evenly(mdp, choice_value >= per_choice(mdp, max_by_state(mdp, choice_value)) - tie_tolerance)


def evenly(mdp: MDP, is_taken: Flags) -> Vector:
    """(C,), the policy that takes the given choices of each state, at least one, with equal probabilities."""
    return freeze(is_taken / per_choice(mdp, sum_by_state(mdp, is_taken.astype(np.float64))))


def policy_from_occupancy(mdp: MDP, occupancy: ArrayLike) -> Vector:
    """The policy with occupancy z (C,): pi(c) = z(c) / sum of z over the state's choices (App. F).

    In a state that is never visited the policy is uniform. Entries below zero by rounding count as zero.
    """
    visits = floats(occupancy, "occupancy", ndim=1)
    check_length(visits, mdp.n_choices, "occupancy", "choices")
    if visits.min() < -1e-6 * max(1.0, visits.max()):
        raise InvalidModel(f"occupancy[{visits.argmin()}] is {visits.min()}; visits cannot be negative")
    visits = np.maximum(visits, 0.0)
    total = sum_by_state(mdp, visits)
    # Below this the sum is subnormal, and the quotient has few correct digits.
    is_unvisited = ~(total > np.finfo(np.float64).tiny)
    # A large MDP has room for few arrays over its choices.
    policy = np.repeat(np.where(is_unvisited, 1.0, total), mdp.choices_per_state)
    np.divide(visits, policy, out=policy)
    count = mdp.choices_per_state[is_unvisited]
    policy[np.repeat(is_unvisited, mdp.choices_per_state)] = np.repeat(1.0 / count, count)
    return freeze(policy)


def check_policy(mdp: MDP, policy: ArrayLike) -> Vector:
    """A read-only policy (C,), refused unless it sums to one in each state; the message names the first wrong state."""
    values = floats(policy, "policy", ndim=1)
    check_length(values, mdp.n_choices, "policy", "choices")
    if values.min() < 0:
        raise InvalidModel(f"policy[{values.argmin()}] is {values.min()}; a probability cannot be negative")
    totals = sum_by_state(mdp, values)
    wrong = np.flatnonzero(np.abs(totals - 1) > sum_tolerance(mdp.choices_per_state))
    if len(wrong):
        place = mdp.names.describe_state(int(wrong[0]))
        raise InvalidModel(f"the policy sums to {totals[wrong[0]]:.10g} in {place}; it must sum to one")
    return freeze(values / per_choice(mdp, divisors(totals, mdp.choices_per_state)))
