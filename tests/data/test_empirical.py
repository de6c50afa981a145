"""Empirical expectations: against exact expectations, against a plain loop, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import SEEDS, add_features, domains_with_policy, random_domain, random_policy

from tutelage.chains.expectations import expectation, state_occupancy
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import EmpiricalExpectation, empirical_expectation
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidModel

# State 0 moves on or stays, state 1 moves to 2 or back, state 2 is absorbing with two choices.
LINE = MDP.from_choices(
    [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 2, 4, 6], [1, 0, 0], 0.9
)


def count_by_loop(
    mdp: MDP, features: np.ndarray, states: list[int], choices: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Discounted counts of one trajectory and the bound on its tail, by a plain loop; all choices are known."""
    on_choices = per_choice(mdp, features)
    discounts = np.broadcast_to(mdp.discount, mdp.n_choices)
    total, weight = np.zeros(features.shape[1]), 1.0
    for choice in choices:
        total, weight = total + weight * on_choices[choice], weight * discounts[choice]
    missing = weight * mdp.horizon * np.abs(features).max(axis=0)
    offered = range(mdp.first_choice[states[-1]], mdp.first_choice[states[-1] + 1])
    if all(mdp.transition[[c]].toarray()[0, states[-1]] > 1 - 1e-12 for c in offered):
        for j in range(features.shape[1]):
            if len({(on_choices[c, j], discounts[c]) for c in offered}) == 1:
                total[j] += weight / (1 - discounts[offered[0]]) * on_choices[offered[0], j]
                missing[j] = 0.0
    return total, missing


@pytest.mark.parametrize("on_choices", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_sampled_counts_are_within_five_standard_errors_of_the_exact_expectation(seed, on_choices):
    """Twelve fixed samples of 5 features; with free seeds, normal means fail with probability 60 * 6e-7 = 4e-5."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=30, on_choices=on_choices)
    mdp = MDP(domain.mdp.transition, domain.mdp.first_choice, domain.mdp.initial, np.minimum(domain.mdp.discount, 0.97))
    domain = Domain(mdp, domain.reward_features, domain.preference_features)
    policy = random_policy(rng, mdp)
    found = empirical_expectation(domain, sample_demonstrations(mdp, policy, 2_000, rng=rng))
    exact = expectation(domain, policy)
    assert (np.abs(found.reward - exact.reward) <= 5 * found.reward_standard_error + found.reward_bias).all()
    assert (
        np.abs(found.preference - exact.preference) <= 5 * found.preference_standard_error + found.preference_bias
    ).all()
    assert found.reward_standard_error.max() < 0.1 * found.reward.max()


def test_the_standard_error_covers_as_often_as_a_normal_law_says():
    """400 samples of 50 trajectories: 1.96 errors hold the truth in 95% of them; 5 sigma of that binomial is 5.4%."""
    rng = np.random.default_rng(11)
    domain = random_domain(rng, max_states=8, n_reward=1, n_preference=0)
    mdp = MDP(domain.mdp.transition, domain.mdp.first_choice, domain.mdp.initial, 0.8)
    domain, policy = Domain(mdp, domain.reward_features), random_policy(rng, mdp)
    exact = expectation(domain, policy).reward
    hits = 0
    for stream in rng.spawn(400):
        found = empirical_expectation(domain, sample_demonstrations(mdp, policy, 50, rng=stream))
        hits += int(np.abs(found.reward - exact)[0] <= 1.96 * found.reward_standard_error[0] + found.reward_bias[0])
    assert abs(hits / 400 - 0.95) < 0.054


@given(domains_with_policy(), SEEDS, st.floats(0.01, 5.0))
def test_counts_equal_a_plain_loop(domain_and_policy, seed, bias):
    domain, policy = domain_and_policy
    mdp = domain.mdp
    demonstrations = sample_demonstrations(mdp, policy, 7, rng=np.random.default_rng(seed), truncation_bias=bias)
    found = empirical_expectation(domain, demonstrations)
    cuts = demonstrations.offsets[1:-1]
    pairs = zip(np.split(demonstrations.states, cuts), np.split(demonstrations.choices, cuts), strict=True)
    counted = [count_by_loop(mdp, domain.reward_features, s.tolist(), c.tolist()) for s, c in pairs]
    counts, missing = np.array([c for c, _ in counted]), np.array([m for _, m in counted])
    assert_allclose(found.reward, counts.mean(axis=0), rtol=1e-12, atol=1e-12)
    assert_allclose(found.reward_standard_error, counts.std(axis=0, ddof=1) / np.sqrt(7), rtol=1e-9, atol=1e-12)
    assert_allclose(found.reward_bias, missing.mean(axis=0), rtol=1e-12, atol=1e-12)


def test_an_absorbed_trajectory_counts_for_ever():
    """0, 1, 2, 2, 2, ... : 1 + 0.9 * 10 + 0.81 * 100 / 0.1, exactly and without bias."""
    domain = Domain(LINE, [1.0, 10.0, 100.0], [[3.0], [3.0], [5.0], [5.0], [7.0], [7.0]])
    found = empirical_expectation(domain, Demonstrations.from_sequences(LINE, [[0, 1, 2]], [[0, 0, 1]]))
    assert_allclose(found.reward, [1 + 9 + 810])
    assert_allclose(found.preference, [3 + 0.9 * 5 + 8.1 * 7])
    assert_array_equal(found.reward_bias, [0.0])
    assert_array_equal(found.preference_bias, [0.0])


def test_stopping_earlier_or_later_in_an_absorbing_state_is_the_same_demonstration():
    domain = Domain(LINE, [1.0, 10.0, 100.0], [0.5, 0.0, 2.0])
    found = [
        empirical_expectation(domain, Demonstrations.from_sequences(LINE, [[0, 0, 1] + [2] * n])) for n in (1, 2, 30)
    ]
    for other in found[1:]:
        assert_allclose(other.reward, found[0].reward, rtol=1e-13)
        assert_allclose(other.preference, found[0].preference, rtol=1e-13)


def test_a_feature_that_differs_among_the_choices_of_an_absorbing_state_has_no_known_tail():
    """The first feature differs between the choices of state 2, so its tail is unknown; the second has a known tail."""
    on_choices = [[1, 1], [1, 1], [1, 1], [1, 1], [0, 1], [4, 1]]
    found = empirical_expectation(
        Domain(LINE, on_choices), Demonstrations.from_sequences(LINE, [[0, 1, 2]], [[0, 0, 1]])
    )
    assert_allclose(found.reward, [1 + 0.9 + 0.81 * 4, 1 / (1 - 0.9)])
    assert_allclose(found.reward_bias, [4 * 0.9**3 / 0.1, 0.0])


def test_the_last_state_counts_for_features_on_states_but_not_its_unknown_choice():
    """One action fewer than states: T = 2 for features on choices, T = 3 for features on states."""
    domain = Domain(LINE, np.ones(3), np.ones(6))
    found = empirical_expectation(domain, Demonstrations.from_sequences(LINE, [[0, 0, 1]], [[1, 0]]))
    assert_allclose(found.reward, [1 + 0.9 + 0.81])
    assert_allclose(found.reward_bias, [0.9**3 / 0.1])
    assert_allclose(found.preference, [1 + 0.9])
    assert_allclose(found.preference_bias, [0.9**2 / 0.1])


def test_an_unknown_choice_in_an_absorbing_state_is_no_loss_if_they_are_all_alike():
    domain = Domain(LINE, [1.0, 1.0, 1.0, 1.0, 3.0, 3.0])
    found = empirical_expectation(domain, Demonstrations.from_sequences(LINE, [[0, 1, 2]], [[0, 0]]))
    assert_allclose(found.reward, [1 + 0.9 + 8.1 * 3])
    assert_array_equal(found.reward_bias, [0.0])


@given(domains_with_policy(), SEEDS)
def test_the_bias_bounds_what_any_truncation_left_out(domain_and_policy, seed):
    """Long trajectories cut at every length: the difference never exceeds the two bounds together."""
    domain, policy = domain_and_policy
    long = sample_demonstrations(domain.mdp, policy, 5, rng=np.random.default_rng(seed), truncation_bias=1e-6)
    complete = empirical_expectation(domain, long)
    cuts = long.offsets[1:-1]
    states, choices = np.split(long.states, cuts), np.split(long.choices, cuts)
    for length in (1, 2, 3, 5, 9, 17):
        short = Demonstrations.from_choice_sequences(
            domain.mdp, [s[:length] for s in states], [c[:length] for c in choices]
        )
        found = empirical_expectation(domain, short)
        slack = complete.reward_bias + 1e-9
        assert (np.abs(found.reward - complete.reward) <= found.reward_bias + slack).all()
        slack = complete.preference_bias + 1e-9
        assert (np.abs(found.preference - complete.preference) <= found.preference_bias + slack).all()


def test_the_bias_is_attained_by_a_feature_that_is_always_there():
    """The bound is tight: with phi = 1 everywhere it equals the error."""
    mdp = MDP.from_choices([[0, 1], [1, 0]], [0, 1, 2], [1, 0], 0.8)
    found = empirical_expectation(Domain(mdp, [1.0, 1.0]), Demonstrations.from_sequences(mdp, [[0, 1, 0], [1]]))
    assert_allclose(found.reward + found.reward_bias, 1 / (1 - 0.8))


def test_the_bias_of_a_negative_feature_is_as_large_as_that_of_its_opposite():
    domain = Domain(LINE, [[1.0, -1.0], [0.5, -0.5], [0.0, 0.0]], reward_names=["up", "down"])
    found = empirical_expectation(domain, Demonstrations.from_sequences(LINE, [[0, 0], [0, 1]]))
    assert_allclose(found.reward_bias, [0.9**2 / 0.1, 0.9**2 / 0.1])
    assert_allclose(found.reward[0], -found.reward[1])


def test_one_trajectory_says_nothing_about_the_spread():
    found = empirical_expectation(Domain(LINE, np.eye(3)), Demonstrations.from_sequences(LINE, [[0, 1]]))
    assert_array_equal(found.reward_standard_error, [np.inf] * 3)
    assert found.preference_standard_error.shape == (0,)


def test_the_mean_over_trajectories_does_not_depend_on_their_order():
    rng = np.random.default_rng(12)
    domain = Domain(LINE, rng.random((3, 2)), rng.random((6, 2)), reward_names=["a", "b"])
    demonstrations = sample_demonstrations(LINE, uniform_policy(LINE), 40, rng=rng)
    cuts = demonstrations.offsets[1:-1]
    states, choices = np.split(demonstrations.states, cuts), np.split(demonstrations.choices, cuts)
    turned = Demonstrations.from_choice_sequences(LINE, states[::-1], choices[::-1])
    assert_allclose(empirical_expectation(domain, turned).reward, empirical_expectation(domain, demonstrations).reward)
    assert_array_equal(turned.lengths, demonstrations.lengths[::-1])


def test_an_indicator_of_a_state_counts_its_occupancy():
    """4,000 trajectories, three states; five standard errors."""
    rng = np.random.default_rng(13)
    found = empirical_expectation(
        Domain(LINE, np.eye(3)), sample_demonstrations(LINE, uniform_policy(LINE), 4_000, rng=rng)
    )
    exact = state_occupancy(LINE, uniform_policy(LINE))
    assert (np.abs(found.reward - exact) <= 5 * found.reward_standard_error + found.reward_bias).all()


def test_features_on_choices_need_choices_where_the_next_state_does_not_tell_them():
    twice = MDP.from_choices(np.eye(2)[[1, 1, 1]], [0, 2, 3], [1.0, 0.0], 0.5, choice_names=["walk", "ride", "stay"])
    domain, states = Domain(twice, np.ones(2), np.ones(3)), Demonstrations.from_sequences(twice, [[0, 1]])
    with pytest.raises(InvalidModel, match=r"preference features are on choices.*step 0.*may be 'walk' or 'ride'"):
        empirical_expectation(domain, states)
    known = Demonstrations.from_sequences(LINE, [[0, 1, 2], [1, 0]])
    assert known.choices is None
    assert known.determined(LINE).choices is not None


def test_results_are_read_only():
    rng = np.random.default_rng(14)
    domain = add_features(rng, LINE, n_reward=2, n_preference=1, reward_on_choices=True, preference_on_choices=False)
    demonstrations = sample_demonstrations(LINE, uniform_policy(LINE), 3, rng=rng)
    found = empirical_expectation(domain, demonstrations)
    assert isinstance(found, EmpiricalExpectation)
    for array in (
        demonstrations.states,
        demonstrations.choices,
        demonstrations.offsets,
        found.reward,
        found.reward_bias,
    ):
        assert not array.flags.writeable
