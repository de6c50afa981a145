"""Derivatives of the soft policy's expectations: exact, and equal to what differences say; journeys on one network."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from problems import road
from strategies import add_features, random_domain, random_mdp, some_of

from benchmarks.families import family_domain
from tutelage.bellman.soft_expectations import Journeys, expectation_derivative, soft_expansion
from tutelage.chains.expectations import expectation, occupancy
from tutelage.chains.resolvent import chain
from tutelage.model.mdp import MDP, Domain, combined_features, per_choice
from tutelage.outcomes import EndlessValue

WEIGHTS = np.array([-1.5, -0.7])


@pytest.mark.parametrize("seed", some_of(range(200), range(40)))
def test_gradient_and_hessian_agree_with_central_differences(seed):
    """The gradient of the soft return is the feature expectation, its Hessian the expectation's derivative."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, n_reward=2, n_preference=1, on_choices=bool(seed % 2))
    mdp, features, weights = domain.mdp, combined_features(domain), rng.normal(size=3)
    here = soft_expansion(mdp, features, weights)
    assert_allclose(here.expectation, expectation(domain, here.solved.policy).both, rtol=1e-9)
    # The error of a central difference is of third order in the horizon; measured against the size of what it measures.
    horizon = mdp.horizon
    step = 1e-3 / horizon
    gradient = central_difference(lambda w: soft_expansion(mdp, features, w).soft_return, weights, step=step)
    assert_allclose(gradient, here.expectation, atol=1e-5 * max(1, np.abs(here.expectation).max()))
    jacobian = central_difference(lambda w: soft_expansion(mdp, features, w).expectation, weights, step=step)
    assert_allclose(jacobian, here.jacobian, atol=1e-5 * max(1, np.abs(here.jacobian).max()))


@pytest.mark.parametrize("seed", range(30))
def test_policy_gradient_of_other_features_agrees_with_central_differences(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=20, n_reward=2, n_preference=2)
    mdp, features, weights = domain.mdp, domain.reward_features, rng.normal(size=2)
    here = soft_expansion(mdp, features, weights)
    exact = expectation_derivative(mdp, here, domain.preference_features)

    def others(w):
        return expectation(domain, soft_expansion(mdp, features, w).solved.policy).preference

    numerical = central_difference(others, weights, step=1e-3 / mdp.horizon).T
    assert_allclose(exact, numerical, atol=1e-5 * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("seed", range(20))
def test_hessian_is_the_covariance_of_the_choices_counts(seed):
    """DESIGN's form of it: sum over states of d(s) Cov of G(c), with G = features + discount T F."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=15, on_choices=True)
    mdp, features = domain.mdp, combined_features(domain)
    here = soft_expansion(mdp, features, rng.normal(size=features.shape[1]))
    policy, visits = here.solved.policy, occupancy(mdp, here.solved.policy)
    owner = mdp.state_of_choice
    dense, moves = np.zeros((mdp.n_states, mdp.n_states)), (mdp.transition.toarray().T * mdp.discount).T
    np.add.at(dense, owner, policy[:, None] * moves)
    averaged = np.zeros((mdp.n_states, features.shape[1]))
    np.add.at(averaged, owner, policy[:, None] * features)
    counts = features + moves @ np.linalg.solve(np.eye(mdp.n_states) - dense, averaged)
    total = np.zeros((features.shape[1],) * 2)
    for state in range(mdp.n_states):
        mine = owner == state
        mean = policy[mine] @ counts[mine]
        total += visits[mine].sum() * (counts[mine] - mean).T @ (policy[mine][:, None] * (counts[mine] - mean))
    assert_allclose(here.jacobian, total, rtol=1e-8, atol=1e-9 * np.abs(total).max())
    assert np.linalg.eigvalsh(here.jacobian).min() >= -1e-9 * np.abs(total).max()


def test_features_of_mixed_kinds_are_spread_to_choices():
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, max_states=6)
    domain = add_features(rng, mdp, n_reward=2, n_preference=1, reward_on_choices=False, preference_on_choices=True)
    both = combined_features(domain)
    assert_allclose(both[:, :2], per_choice(mdp, domain.reward_features))
    assert_allclose(both[:, 2:], domain.preference_features)


def test_the_expectation_keeps_full_accuracy_where_derivatives_are_rough():
    """Where a chain takes iterations, F has five digits: mu = P0 @ F + z @ A is still exact."""
    domain = family_domain("garnet", 500)
    mdp, features = domain.mdp, combined_features(domain)
    rough = soft_expansion(mdp, features, np.random.default_rng(3).normal(size=features.shape[1]))
    assert not rough.inverse.is_exact
    system = np.eye(mdp.n_states) - chain(mdp, mdp.discount * rough.solved.policy).toarray()
    ahead = np.linalg.solve(system, features)
    assert_allclose(rough.ahead, ahead, atol=1e-5 * np.abs(ahead).max())
    exact, size = mdp.initial @ ahead, np.abs(ahead).max()
    assert np.abs(mdp.initial @ rough.ahead - exact).max() > 1e-10 * size
    assert_allclose(rough.expectation, exact, atol=1e-11 * size)


@pytest.mark.parametrize("seed", range(24))
def test_an_expansion_from_a_neighbour_is_that_from_no_start(seed):
    """Of features on states or on choices, with one discount or many."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, max_states=40, max_choices=4)
    if seed % 3 == 0:
        mdp = replace(mdp, discount=rng.uniform(0.5, 0.95, mdp.n_choices))
    features = rng.normal(size=(mdp.n_choices if seed % 2 else mdp.n_states, 3))
    weights = rng.normal(size=3)
    near = soft_expansion(mdp, features, weights, near=soft_expansion(mdp, features, weights + 0.1))
    alone = soft_expansion(mdp, features, weights)
    assert_allclose(near.soft_return, alone.soft_return, atol=1e-9)
    assert_allclose(near.expectation, alone.expectation, atol=1e-8)
    assert_allclose(near.jacobian, alone.jacobian, atol=1e-7)
    assert_allclose(near.solved.value, alone.solved.value, atol=1e-9)
    assert_allclose(near.ahead, alone.ahead, atol=1e-7)


@pytest.mark.parametrize("at_side", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_one_factorisation_gives_the_soft_policies_of_all_destinations(seed, at_side):
    domains = [road(seed, goal, at_side=at_side) for goal in (3, 8, 11)]
    journeys = Journeys.of(domains)
    assert journeys.network is not None
    for domain, shared in zip(domains, journeys.expand(WEIGHTS, ()), strict=True):
        alone = soft_expansion(domain.mdp, combined_features(domain), WEIGHTS, accuracy=1e-12)
        assert_allclose(shared.solved.value, alone.solved.value, atol=1e-10)
        assert_allclose(shared.solved.policy, alone.solved.policy, atol=1e-10)
        for part in ("expectation", "jacobian", "advantages", "visits", "ahead"):
            assert_allclose(getattr(shared, part), getattr(alone, part), atol=1e-8, err_msg=part)
        assert np.abs(shared.solved.value - alone.solved.value).max() <= shared.solved.error_bound + 1e-11


def test_domains_that_differ_in_more_than_their_ends_share_nothing():
    """Other lengths, a discount, or a chance of going astray: each domain is then solved by itself."""
    first, other = road(0, 3), road(0, 8)
    assert Journeys.of([first, road(0, 8, twisted=True)]).network is None
    mdp = other.mdp
    late = MDP.from_choices(mdp.transition, mdp.first_choice, mdp.initial, 0.99)
    assert Journeys.of([first, Domain(late, *(other.reward_features, other.preference_features))]).network is None
    mixed = Journeys.of([first, road(0, 8, twisted=True)])
    values = [soft.soft_return for soft in mixed.expand(WEIGHTS, ())]
    assert_allclose(values[0], soft_expansion(first.mdp, combined_features(first), WEIGHTS).soft_return)


def test_weights_for_which_going_round_pays_are_refused_by_the_name_of_a_cycle():
    journeys = Journeys.of([road(1, 3), road(1, 8)])
    with pytest.raises(EndlessValue, match=r"going on for ever pays: .* in the cycle state"):
        list(journeys.expand(np.array([0.5, 0.5]), ()))
