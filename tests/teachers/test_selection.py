"""Selected demonstrations: much closer to the lesson than random ones, near the brute-force optimum, repeatable."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import SEEDS, domains_with_policy, random_domain, random_policy, some_of

from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import preference_limits
from tutelage.data import selection
from tutelage.data.empirical import empirical_expectation, reward_counts
from tutelage.data.sampling import sample_demonstrations
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput, InvalidModel
from tutelage.roles import Lesson
from tutelage.teachers.selection import select_demonstrations


@cache
def lessons(seed: int) -> tuple[Domain, dict[str, Lesson]]:
    """A 10x10 world, and two lessons: its optimal policy, and the best policy within limits, which is stochastic."""
    world = object_world(size=10, seed=seed)
    domain = world.domain("L2")
    optimal = solve_hard(domain.mdp, domain.reward_features @ world.true_weights).policy
    limited = best_policy(domain, world.true_weights, preference_limits(domain, 2.5)).policy
    return domain, {"optimal": Lesson.from_policy(domain, optimal), "limited": Lesson.from_policy(domain, limited)}


def missed(domain: Domain, lesson: Lesson, demonstrations) -> float:
    return float(np.linalg.norm(empirical_expectation(domain, demonstrations).reward - lesson.expectation))


@pytest.mark.parametrize("kind", ["optimal", "limited"])
@pytest.mark.parametrize("seed", some_of(range(10), range(4)))
def test_twenty_chosen_are_fifty_times_closer_than_twenty_sampled(seed, kind):
    domain, taught = lessons(seed)
    lesson = taught[kind]
    found = select_demonstrations(domain, lesson, 20)
    streams = np.random.default_rng(seed + 100).spawn(50)
    sampled = np.mean([missed(domain, lesson, lesson.demonstrations(20, rng=stream)) for stream in streams])
    assert found.demonstrations.n == 20
    assert_allclose(found.distance, missed(domain, lesson, found.demonstrations), rtol=1e-9, atol=1e-12)
    assert found.distance <= sampled / 50
    # A mean of 50 distances, each spread by about half its size: five standard errors are 35 %.
    assert_allclose(found.random_distance, sampled, rtol=0.35)


def test_the_same_call_chooses_the_same_and_another_generator_another():
    domain, taught = lessons(0)
    first, again = (select_demonstrations(domain, taught["limited"], 20) for _ in range(2))
    other = select_demonstrations(domain, taught["limited"], 20, rng=np.random.default_rng(1))
    seeded = select_demonstrations(domain, taught["limited"], 20, rng=np.random.default_rng(0))
    for same in (again, seeded):
        assert_array_equal(first.demonstrations.states, same.demonstrations.states)
        assert (first.distance, first.random_distance) == (same.distance, same.random_distance)
    assert first.random_distance != other.random_distance


@pytest.mark.parametrize("seed", range(6))
def test_no_exchange_helps_and_brute_force_finds_little_better(seed):
    """Of all selections of 4 out of 14, the result is among the nearest 1%."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, n_reward=2)
    recorded = sample_demonstrations(domain.mdp, random_policy(rng, domain.mdp), 14, rng=rng)
    lesson = Lesson.from_demonstrations(domain, recorded)
    found = select_demonstrations(domain, lesson, 4)
    offsets = reward_counts(domain, recorded) - lesson.expectation
    every = np.sort([np.linalg.norm(offsets[list(four)].mean(axis=0)) for four in combinations(range(14), 4)])
    assert every[0] - 1e-12 <= found.distance <= every[len(every) // 100]
    assert found.pool_size == 14


def test_one_demonstration_is_the_nearest_of_the_pool():
    rng = np.random.default_rng(3)
    domain = random_domain(rng, max_states=8)
    recorded = sample_demonstrations(domain.mdp, random_policy(rng, domain.mdp), 50, rng=rng)
    lesson = Lesson.from_demonstrations(domain, recorded)
    apart = np.linalg.norm(reward_counts(domain, recorded) - lesson.expectation, axis=1)
    found = select_demonstrations(domain, lesson, 1)
    assert found.distance == pytest.approx(apart.min(), rel=1e-12)
    assert found.random_distance == pytest.approx(apart.mean(), rel=0.25)


def test_all_that_was_recorded_is_the_lesson_itself():
    rng = np.random.default_rng(4)
    domain = random_domain(rng, max_states=8)
    recorded = sample_demonstrations(domain.mdp, random_policy(rng, domain.mdp), 9, rng=rng)
    found = select_demonstrations(domain, Lesson.from_demonstrations(domain, recorded), 9)
    assert found.distance <= 1e-12 and found.random_distance <= 1e-12
    assert_array_equal(found.demonstrations.states, recorded.states)


def test_where_all_trajectories_are_the_same_nothing_can_be_gained():
    ring = MDP.from_choices([[0, 1], [1, 0]], [0, 1, 2], [1, 0], 0.9)
    domain = Domain(ring, [1.0, 0.0])
    found = select_demonstrations(domain, Lesson.from_policy(domain, [1.0, 1.0]), 7)
    assert found.demonstrations.n == 7
    # What was cut off at the horizon is missing from each of them alike.
    assert found.distance == pytest.approx(found.random_distance, rel=1e-12)
    assert found.distance <= 1e-3


def test_an_expectation_alone_is_shown_by_the_nearest_policy():
    domain, taught = lessons(1)
    target = taught["limited"].expectation
    found = select_demonstrations(domain, Lesson.from_expectation(target), 20)
    assert found.distance <= found.random_distance / 50
    assert_allclose(found.expectation, target, atol=found.distance * (1 + 1e-9))


def test_an_expectation_that_no_policy_has_is_approached():
    """In a deterministic world no trajectory, and so no selection, is nearer than the nearest policy."""
    ring = MDP.from_choices([[1, 0], [0, 1], [1, 0], [0, 1]], [0, 2, 4], [1, 0], 0.5)
    domain = Domain(ring, [0.0, 1.0])
    found = select_demonstrations(domain, Lesson.from_expectation([3.0]), 5)
    assert found.distance == pytest.approx(3.0 - 1.0, abs=2e-3)


@given(domains_with_policy(), SEEDS, st.integers(1, 12))
def test_on_any_domain_the_result_is_what_it_says(domain_and_policy, seed, n):
    """Features on states or on choices, one or several: never farther than the random selections."""
    domain, policy = domain_and_policy
    rng = np.random.default_rng(seed)
    recorded = sample_demonstrations(domain.mdp, policy, 40, rng=rng, truncation_bias=0.1)
    lesson = Lesson.from_demonstrations(domain, recorded)
    found = select_demonstrations(domain, lesson, n, rng=rng)
    assert found.demonstrations.n == n
    assert_allclose(found.expectation, empirical_expectation(domain, found.demonstrations).reward, atol=1e-12)
    assert found.distance == pytest.approx(missed(domain, lesson, found.demonstrations), abs=1e-9)
    assert found.distance <= found.random_distance + 1e-12


def test_a_sampled_pool_works_with_features_on_choices():
    rng = np.random.default_rng(6)
    domain = random_domain(rng, max_states=10, n_reward=1, on_choices=True)
    lesson = Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    found = select_demonstrations(domain, lesson, 3)
    assert found.demonstrations.choices is not None
    assert found.distance <= found.random_distance / 20
    assert_allclose(found.expectation, lesson.expectation, atol=found.distance * (1 + 1e-9))


@pytest.mark.parametrize("n", [0, -3, 2.5, "4", True, None])
def test_a_number_of_demonstrations_that_means_nothing_is_refused(n):
    domain, taught = lessons(0)
    with pytest.raises(InvalidInput, match="must be a whole number of at least 1"):
        select_demonstrations(domain, taught["optimal"], n)


def test_other_refusals():
    rng = np.random.default_rng(7)
    domain = random_domain(rng, max_states=8)
    lesson = Lesson.from_demonstrations(
        domain, sample_demonstrations(domain.mdp, uniform_policy(domain.mdp), 5, rng=rng)
    )
    with pytest.raises(InvalidInput, match="the lesson has only 5 demonstrations, so n must not be 6"):
        select_demonstrations(domain, lesson, 6)
    with pytest.raises(InvalidInput, match=r"rng must be a non-negative int or a numpy\.random\.Generator"):
        select_demonstrations(domain, lesson, 2, rng=None)
    with pytest.raises(InvalidModel, match="expectation has 1 entries, but there are 3 reward features"):
        select_demonstrations(domain, Lesson.from_expectation([1.0]), 2)


def test_a_lesson_samples_its_own_demonstrations():
    """Twenty thousand trajectories of a lesson's policy, three features: within five standard errors of the exact."""
    domain, taught = lessons(2)
    lesson = taught["limited"]
    shown = lesson.demonstrations(20_000, rng=np.random.default_rng(8))
    assert shown.n == 20_000
    seen = empirical_expectation(domain, shown)
    gap = np.abs(seen.reward - expectation(domain, lesson.policy).reward)
    assert (gap <= 5 * seen.reward_standard_error + seen.reward_bias).all()
    again = lesson.demonstrations(20_000, rng=np.random.default_rng(8))
    assert_array_equal(again.states, shown.states)


def test_a_lesson_without_a_policy_has_nothing_to_sample():
    with pytest.raises(InvalidModel, match="has no policy, so it cannot be sampled"):
        Lesson.from_expectation([1.0]).demonstrations(3, rng=np.random.default_rng(0))


def test_greedy_adds_the_trajectory_that_brings_the_sum_closest_to_zero():
    """Herding, written out: each trajectory at most once, and each chosen for the sum of all before it."""
    rng = np.random.default_rng(0)
    offsets, left, total = rng.normal(size=(12, 2)), list(range(12)), np.zeros(2)
    for chosen in selection._greedy(offsets, 12):
        assert chosen == min(left, key=lambda i: np.linalg.norm(total + offsets[i]))
        left.remove(chosen)
        total = total + offsets[chosen]
