"""Many journeys, one preference: shared weights against a plain likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import road
from scipy.optimize import minimize
from strategies import add_features, build_mdp

import tutelage as tl

TRUE = np.array([-1.2, -0.8])


def recorded(domain, n, seed):
    """n journeys of drivers who pay 1.2 for a unit of length and 0.8 for a turn."""
    policy = tl.solve_soft(domain.mdp, tl.combined_features(domain) @ TRUE).policy
    return tl.sample_demonstrations(domain, policy, n, rng=seed)


def log_likelihood(weights, pairs):
    """By plain sums: z by a dense solution for each destination, and the probability of each choice."""
    total = 0.0
    for domain, walks in pairs:
        mdp, reward = domain.mdp, tl.combined_features(domain) @ weights
        matrix, after = np.zeros((mdp.n_states, mdp.n_states)), mdp.transition.indices
        np.add.at(matrix, (mdp.state_of_choice, after), np.exp(reward))
        end = int(mdp.ends[0])
        matrix[end] = 0.0
        z = np.linalg.solve(np.eye(mdp.n_states) - matrix, np.eye(mdp.n_states)[end])
        if z.min() <= 0:
            return -np.inf
        for walk in walks:
            for state, choice in zip(walk.states, walk.choices, strict=True):
                if state != end:
                    total += reward[choice] + np.log(z[after[choice]]) - np.log(z[state])
    return total


@pytest.mark.parametrize("at_side", [False, True])
def test_journeys_to_several_places_have_the_weights_of_the_greatest_likelihood(at_side):
    pairs = [(road(2, goal, at_side=at_side), None) for goal in (3, 8, 11)]
    pairs = [(domain, recorded(domain, 40 + 10 * k, k)) for k, (domain, _) in enumerate(pairs)]
    found = tl.infer_preferences(pairs)
    weights = np.concatenate([found.reward_weights, -found.strength])
    best = minimize(
        lambda w: -log_likelihood(w, pairs), TRUE, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    )
    assert_allclose(weights, best.x, atol=2e-5)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-6) and found.n == 150
    # The standard errors are those of the Fisher information, by second differences.
    step, size = 1e-3 * np.eye(2), range(2)
    second = [
        [
            sum(
                a * b * log_likelihood(weights + a * step[i] + b * step[j], pairs) / 4e-6
                for a in (1, -1)
                for b in (1, -1)
            )
            for j in size
        ]
        for i in size
    ]
    errors = np.sqrt(np.diag(np.linalg.inv(-np.array(second))))
    assert_allclose([found.reward_error[0], found.standard_error[0]], errors, rtol=1e-3)
    assert (np.abs(weights - TRUE) <= 4 * errors).all() and found.explained


def test_one_list_of_parts_tells_the_same_as_the_whole():
    domain = road(3, 5)
    walks = recorded(domain, 60, 0)
    whole, alone = tl.infer_preferences(domain, walks), tl.infer_preferences([(domain, walks)])
    parts = tl.infer_preferences([(domain, walks[:20]), (domain, walks[20:])])
    for other in (alone, parts):
        assert_allclose(other.strength, whole.strength, rtol=1e-6)
        assert_allclose(other.standard_error, whole.standard_error, rtol=1e-5)
        assert other.log_likelihood == pytest.approx(whole.log_likelihood)


def test_domains_with_a_discount_share_weights_too():
    """Three random domains, each with 60 walks: both weights within four standard errors (failure below 3e-4)."""
    pairs = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        mdp = build_mdp(rng, rng.integers(2, 4, size=8), 0.8)
        domain = add_features(rng, mdp, n_reward=1, n_preference=1, reward_on_choices=True, preference_on_choices=True)
        policy = tl.solve_soft(mdp, tl.combined_features(domain) @ [1.0, -0.8]).policy
        pairs.append((domain, tl.sample_demonstrations(domain, policy, 60, rng=rng, truncation_bias=1e-6)))
    found = tl.infer_preferences(pairs)
    assert abs(found.strength[0] - 0.8) <= 4 * found.standard_error[0]
    assert abs(found.reward_weights[0] - 1.0) <= 4 * found.reward_error[0]
    single = tl.infer_preferences(*pairs[0])
    assert found.standard_error[0] < single.standard_error[0]


def test_a_wrong_family_is_refused_with_a_sentence():
    domain = road(3, 5)
    walks = recorded(domain, 4, 0)
    other = tl.Domain(domain.mdp, domain.reward_features, domain.preference_features, ("length",), ("bend",))
    for given, message in (
        (([(domain, walks), (other, walks)],), "domain 1 has the features .* weights are shared by name"),
        (([(domain, walks)], walks), "or one list of such pairs, not both"),
        (([],), "needs a domain and demonstrations"),
        (([domain],), "pair 0 must be a domain and its demonstrations"),
        ((domain,), "pair 0 must be a domain and its demonstrations"),
    ):
        with pytest.raises(tl.InvalidInput, match=message):
            tl.infer_preferences(*given)


def test_a_discount_for_each_choice_is_as_good_as_one_for_all():
    """Where discounts differ there is no linear system that journeys share; the answer does not depend on it."""
    rng = np.random.default_rng(4)
    mdp, kinds = build_mdp(rng, rng.integers(2, 4, size=8), 0.9), {"reward_on_choices": True}
    domain = add_features(rng, mdp, n_reward=2, n_preference=1, preference_on_choices=True, **kinds)
    each = replace(domain, mdp=replace(mdp, discount=np.nextafter(0.9, np.arange(mdp.n_choices) % 2)))
    policy = tl.solve_soft(mdp, tl.combined_features(domain) @ [1.0, -0.5, -2.0]).policy
    seen = tl.sample_demonstrations(domain, policy, 300, rng=4)
    one, other = tl.infer_preferences(domain, seen), tl.infer_preferences(each, seen)
    assert_allclose(other.reward_weights, one.reward_weights, atol=1e-5)
    assert_allclose(other.strength, one.strength, atol=1e-5)
