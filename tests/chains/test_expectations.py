"""Occupancies, feature expectations and causal entropy against results by hand and by other methods."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build_mdp, domains_with_policy, mdps, mdps_with_policy, random_domain, random_mdp, random_policy

from tutelage.chains.expectations import (
    Expectation,
    causal_entropy,
    expectation,
    expectation_of_occupancy,
    expected_reward,
    feature_counts,
    occupancy,
    state_occupancy,
    successor_features,
)
from tutelage.chains.resolvent import chain, policy_resolvent
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.policy import sum_by_state, uniform_policy


def two_state_chain(leave: float, come_back: float, discount: float) -> MDP:
    """One choice per state: state 0 is left with one probability, state 1 with another."""
    rows = [[1 - leave, leave], [come_back, 1 - come_back]]
    return MDP.from_choices(rows, [0, 1, 2], [1.0, 0.0], discount)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99, 0.9999])
def test_a_state_left_once_and_for_all(discount):
    """Staying with probability 0.9 and discount g gives 1 / (1 - 0.9 g) visits, 9.174 at 0.99."""
    mdp = two_state_chain(0.1, 0.0, discount)
    expected = 1 / (1 - 0.9 * discount)
    assert_allclose(state_occupancy(mdp, [1, 1]), [expected, 1 / (1 - discount) - expected], rtol=1e-11)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_two_states_that_alternate(discount):
    """Visits at even times 1 + g^2 + ... = 1 / (1 - g^2), at odd times g / (1 - g^2)."""
    visits = state_occupancy(two_state_chain(1.0, 1.0, discount), [1, 1])
    assert_allclose(visits, np.array([1, discount]) / (1 - discount**2), rtol=1e-12)


def test_two_states_in_general_by_cramers_rule():
    leave, come_back, discount = 0.3, 0.2, 0.8
    a, b, c, d = (1 - discount * (1 - leave), -discount * come_back, -discount * leave, 1 - discount * (1 - come_back))
    determinant = a * d - b * c
    visits = state_occupancy(two_state_chain(leave, come_back, discount), [1, 1])
    assert_allclose(visits, [d / determinant, -c / determinant], rtol=1e-12)


@given(mdps_with_policy())
def test_occupancies_sum_to_the_discounted_length_and_are_never_negative(mdp_and_policy):
    """Occupancies are unnormalised: they sum to 1 / (1 - discount), so that allowances such as 2.5 can bind."""
    mdp, policy = mdp_and_policy
    visits = occupancy(mdp, policy)
    assert_allclose(((1 - mdp.discount) * visits).sum(), 1.0, rtol=1e-10)
    assert 1 / (1 - np.min(mdp.discount)) <= visits.sum() * (1 + 1e-10) and visits.sum() <= mdp.horizon * (1 + 1e-10)
    assert visits.min() >= -1e-12
    assert not visits.flags.writeable
    assert_allclose(sum_by_state(mdp, visits), state_occupancy(mdp, policy), atol=1e-10)


@given(mdps_with_policy())
def test_occupancy_obeys_the_flow_equation(mdp_and_policy):
    """The flow into a state, initial + discount * T'z, equals the flow out of it (App. F)."""
    mdp, policy = mdp_and_policy
    visits = occupancy(mdp, policy)
    inflow = mdp.initial + mdp.transition.T @ (mdp.discount * visits)
    assert_allclose(sum_by_state(mdp, visits), inflow, atol=1e-11 * mdp.horizon)


@given(mdps_with_policy())
def test_occupancy_is_the_sum_of_the_discounted_series(mdp_and_policy):
    """The linear solve against the definition, summed until the rest is below 1e-10."""
    mdp, policy = mdp_and_policy
    step = sum_by_state(mdp, (mdp.discount * policy)[:, None] * mdp.transition.toarray())
    n_terms = int(np.ceil(np.log(1e-10 / mdp.horizon) / np.log(mdp.contraction)))
    now, total = mdp.initial.copy(), np.zeros(mdp.n_states)
    for _ in range(n_terms):
        total += now
        now = now @ step
    assert_allclose(state_occupancy(mdp, policy), total, atol=2e-10)


@given(mdps_with_policy())
def test_the_chain_of_a_policy_is_stochastic_and_a_mixture_of_its_choices(mdp_and_policy):
    mdp, policy = mdp_and_policy
    step = chain(mdp, policy).toarray()
    assert_allclose(step.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(step, sum_by_state(mdp, policy[:, None] * mdp.transition.toarray()), atol=1e-15)


@given(domains_with_policy())
def test_expectations_are_occupancy_times_features_wherever_the_features_sit(domain_and_policy):
    domain, policy = domain_and_policy
    mdp, visits = domain.mdp, occupancy(domain.mdp, policy)
    found = expectation(domain, policy)
    assert_allclose(found.reward, visits @ per_choice(mdp, domain.reward_features), rtol=1e-12)
    assert_allclose(found.preference, visits @ per_choice(mdp, domain.preference_features), rtol=1e-12)
    assert_array_equal(found.both, np.concatenate([found.reward, found.preference]))
    assert_array_equal(expectation_of_occupancy(domain, visits).both, found.both)
    assert_array_equal(feature_counts(mdp, domain.reward_features, visits), found.reward)


@given(domains_with_policy())
def test_expected_reward_is_linear_in_the_expectation(domain_and_policy):
    """R(pi) = <w, mu_r(pi)> (Sec. 2)."""
    domain, policy = domain_and_policy
    weights = np.linspace(-1, 2, domain.n_reward)
    reward = domain.reward_features @ weights
    assert_allclose(
        expected_reward(domain.mdp, policy, reward), weights @ expectation(domain, policy).reward, atol=1e-9
    )


@given(mdps_with_policy())
def test_the_value_route_and_the_visit_route_agree(mdp_and_policy):
    """initial @ (A^-1 r) = (A'^-1 initial) @ r: values and visits of one factorisation agree."""
    mdp, policy = mdp_and_policy
    reward = np.cos(np.arange(mdp.n_states))
    solve = policy_resolvent(mdp, policy)
    value = solve.values(reward)
    assert_allclose(mdp.initial @ value, state_occupancy(mdp, policy) @ reward, atol=1e-9)
    both = solve.values(np.column_stack([reward, 2 * reward]))
    assert_allclose(both, np.column_stack([value, 2 * value]), atol=1e-9)


@given(mdps())
def test_the_entropy_of_the_uniform_policy_is_its_expected_log_number_of_choices(mdp):
    """H = sum over s of d(s) log(number of choices of s), from the definition."""
    policy = uniform_policy(mdp)
    expected = state_occupancy(mdp, policy) @ np.log(mdp.choices_per_state)
    assert_allclose(causal_entropy(mdp, policy), expected, atol=1e-10)


def test_an_absorbing_state_goes_on_earning_entropy():
    """With five actions in it, log 5 / (1 - discount), as in the paper's terminal state."""
    mdp = MDP.from_arrays(np.ones((1, 5, 1)), [1.0], 0.99)
    assert_allclose(causal_entropy(mdp, np.full(5, 0.2)), np.log(5) / 0.01, rtol=1e-12)


@given(mdps())
def test_a_policy_without_doubt_has_no_entropy(mdp):
    policy = np.zeros(mdp.n_choices)
    policy[mdp.first_choice[:-1]] = 1.0
    assert causal_entropy(mdp, policy) == 0.0


@given(mdps_with_policy())
def test_entropy_never_exceeds_that_of_endless_uniform_choice(mdp_and_policy):
    mdp, policy = mdp_and_policy
    most = np.log(mdp.choices_per_state.max()) * mdp.horizon
    assert -1e-12 <= causal_entropy(mdp, policy) <= most * (1 + 1e-12) + 1e-12


def test_a_large_occupancy_sums_to_the_discounted_length():
    rng = np.random.default_rng(8)
    mdp = build_mdp(rng, rng.integers(1, 4, size=1_000), 0.99)
    assert_allclose(occupancy(mdp, uniform_policy(mdp)).sum(), 100.0, rtol=1e-9)


def test_an_expectation_is_frozen():
    found = Expectation(np.ones(2), np.zeros(1))
    with pytest.raises(ValueError, match="read-only"):
        found.reward[0] = 0
    with pytest.raises(AttributeError):
        found.reward = np.zeros(2)


def test_no_preference_features_means_an_empty_expectation():
    mdp = random_mdp(np.random.default_rng(3))
    assert expectation(Domain(mdp, np.ones(mdp.n_states)), uniform_policy(mdp)).preference.shape == (0,)


@pytest.mark.parametrize("on_choices", [False, True])
def test_successor_features_are_what_each_state_leads_to(on_choices):
    """From every state they are the expectation of the domain that starts there."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        domain = random_domain(rng, max_states=12, on_choices=on_choices)
        policy = random_policy(rng, domain.mdp)
        ahead = successor_features(domain, policy)
        for state in range(domain.mdp.n_states):
            assert_allclose(ahead[state], expectation(domain.starting_in(state), policy).both, rtol=1e-9, atol=1e-9)
        assert_allclose(domain.mdp.initial @ ahead, expectation(domain, policy).both, rtol=1e-9, atol=1e-9)
