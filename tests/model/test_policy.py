"""Policies: sums over the choices of a state, uniform and greedy policies, and policies from occupancies."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from strategies import SEEDS, mdps, mdps_with_policy

from tutelage.chains.expectations import occupancy, state_occupancy
from tutelage.model.mdp import MDP
from tutelage.model.policy import (
    check_policy,
    greedy_policy,
    max_by_state,
    policy_from_occupancy,
    sum_by_state,
    uniform_policy,
)
from tutelage.outcomes import InvalidModel

TWO_STATES = MDP.from_choices([[0, 1], [1, 0], [1, 0], [0, 1], [0.5, 0.5]], [0, 2, 5], [1, 0], 0.9)


def test_sums_and_maxima_by_hand():
    values = np.array([1.0, 2.0, -3.0, -4.0, -5.0])
    assert_array_equal(sum_by_state(TWO_STATES, values), [3.0, -12.0])
    assert_array_equal(max_by_state(TWO_STATES, values), [2.0, -3.0])


def test_the_uniform_policy_by_hand():
    assert_array_equal(uniform_policy(TWO_STATES), [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])


def test_the_greedy_policy_splits_ties_within_the_tolerance_only():
    values = np.array([1.0, 2.0, 5.0, 5.0 - 1e-9, 4.0])
    assert_array_equal(greedy_policy(TWO_STATES, values, tie_tolerance=1e-8), [0, 1, 0.5, 0.5, 0])
    assert_array_equal(greedy_policy(TWO_STATES, values, tie_tolerance=0.0), [0, 1, 1, 0, 0])


@given(mdps(), SEEDS)
def test_the_greedy_policy_is_a_policy_of_greatest_value(mdp, seed):
    values = np.random.default_rng(seed).normal(size=mdp.n_choices)
    policy = check_policy(mdp, greedy_policy(mdp, values, tie_tolerance=0.0))
    assert_array_equal(sum_by_state(mdp, policy * values), max_by_state(mdp, values))


@given(mdps_with_policy())
def test_a_policy_read_off_its_occupancy_has_that_occupancy(mdp_and_policy):
    """App. F: z determines the policy in every visited state, and this policy has occupancy z."""
    mdp, policy = mdp_and_policy
    visits = occupancy(mdp, policy)
    again = policy_from_occupancy(mdp, visits)
    assert_allclose(occupancy(mdp, again), visits, atol=1e-9 * mdp.horizon)


@given(mdps_with_policy())
def test_where_every_state_is_visited_the_occupancy_determines_the_policy(mdp_and_policy):
    mdp, policy = mdp_and_policy
    is_visited = np.repeat(state_occupancy(mdp, policy) > 1e-3, mdp.choices_per_state)
    again = policy_from_occupancy(mdp, occupancy(mdp, policy))
    assert_allclose(again[is_visited], policy[is_visited], atol=1e-9)


def test_a_state_never_visited_gets_the_uniform_choice():
    policy = policy_from_occupancy(TWO_STATES, [3.0, 1.0, 0.0, 0.0, 0.0])
    assert_allclose(policy, [0.75, 0.25, 1 / 3, 1 / 3, 1 / 3])


def test_visits_below_zero_by_rounding_count_as_none():
    assert_array_equal(policy_from_occupancy(TWO_STATES, [10.0, -1e-9, 1.0, 0.0, 0.0]), [1, 0, 1, 0, 0])


@given(mdps_with_policy())
def test_a_checked_policy_is_a_read_only_copy_that_is_settled(mdp_and_policy):
    """A second check changes no bit, so two ways to compute one result agree exactly."""
    mdp, policy = mdp_and_policy
    checked = check_policy(mdp, policy)
    assert not checked.flags.writeable
    assert policy.flags.writeable
    assert_array_equal(check_policy(mdp, checked), checked)
    assert_allclose(sum_by_state(mdp, checked), 1.0, atol=1e-15 * mdp.choices_per_state.max())


def test_a_policy_is_refused_or_renormalised_at_the_door():
    """No probability is negative, a sum is one in each state, and single precision is made exact."""
    with pytest.raises(InvalidModel, match=r"policy\[1\] is -0\.5; a probability cannot be negative"):
        check_policy(TWO_STATES, [1.5, -0.5, 1.0, 0.0, 0.0])
    with pytest.raises(InvalidModel, match=r"the policy sums to 0\.9 in state 1"):
        check_policy(TWO_STATES, [1.0, 0.0, 0.5, 0.4, 0.0])
    rough = np.array([0.1, 0.9, 0.3, 0.3, 0.4], dtype=np.float32)
    assert abs(float(rough[:2].sum(dtype=np.float64)) - 1) > 1e-9
    assert_allclose(sum_by_state(TWO_STATES, check_policy(TWO_STATES, rough)), 1.0, rtol=1e-15)
