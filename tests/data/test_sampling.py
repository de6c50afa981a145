"""Sampled demonstrations: possible, with the right frequencies, repeatable, of the stated length; and a few of them."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp, without_ends
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from strategies import (
    SEEDS,
    domains_with_policy,
    mdps_with_policy,
    random_deterministic_policy,
    random_domain,
    random_mdp,
    random_policy,
    some_of,
)

import tutelage as tl
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import preference_limits
from tutelage.data import sampling
from tutelage.data.empirical import empirical_expectation, trajectory_counts
from tutelage.data.sampling import ends, horizon, row_sampler, sample_demonstrations
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput, InvalidModel
from tutelage.roles import Lesson, select_demonstrations

# State 0 moves on or stays, state 1 moves to 2 or back, state 2 is absorbing with two choices.
LINE = MDP.from_choices(
    [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 2, 4, 6], [1, 0, 0], 0.9
)


@given(mdps_with_policy(), SEEDS)
def test_samples_are_possible_follow_the_policy_and_end_where_promised(mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    # By name, since two states with two actions each would leave open what the rows of a matrix are.
    domain = Domain(mdp, {f"state {s}": column for s, column in enumerate(np.eye(mdp.n_states))})
    demonstrations = sample_demonstrations(domain, policy, 20, rng=np.random.default_rng(seed), truncation_bias=0.1)
    demonstrations.checked_against(mdp)
    assert demonstrations.n == 20
    assert (policy[demonstrations.choices] > 0).all()
    assert (mdp.initial[demonstrations.states[demonstrations.offsets[:-1]]] > 0).all()
    is_absorbing = ends(domain)
    stopped = is_absorbing[demonstrations.last_states]
    assert (demonstrations.lengths <= horizon(mdp.contraction, 0.1)).all()
    discounts = np.broadcast_to(mdp.discount, mdp.n_choices)
    for trajectory in (demonstrations[int(i)] for i in np.flatnonzero(~stopped)):
        weights = mdp.horizon * np.cumprod(discounts[trajectory.choices])
        assert weights[-1] <= 0.1 * (1 + 1e-12) and (weights[:-1] > 0.1 * (1 - 1e-12)).all()
    assert not is_absorbing[demonstrations.states[demonstrations.is_followed]].any()


@given(st.floats(0.01, 0.9999), st.floats(1e-9, 10.0))
def test_the_horizon_is_the_first_time_at_which_the_tail_keeps_the_promise(discount, bias):
    steps = horizon(discount, bias)
    assert discount**steps / (1 - discount) <= bias
    assert steps == 1 or discount ** (steps - 1) / (1 - discount) > bias * (1 - 1e-9)


def test_the_same_generator_state_gives_the_same_demonstrations():
    mdp = random_mdp(np.random.default_rng(0), max_states=10)
    first, second, other = (
        sample_demonstrations(mdp, uniform_policy(mdp), 30, rng=np.random.default_rng(seed), truncation_bias=1.0)
        for seed in (5, 5, 6)
    )
    assert_array_equal(first.states, second.states)
    assert_array_equal(first.choices, second.choices)
    assert len(first.states) != len(other.states) or (first.states != other.states).any()


def test_a_long_trajectory_is_cut_where_it_is_asked_for(monkeypatch):
    """Features in [0, 1], so the discounted count of the whole walk is close to the horizon."""
    mdp = MDP.from_choices([[0, 1.0], [1.0, 0], [0, 1.0]], [0, 1, 3], [1, 0], 0.9999)
    policy, n_steps = [1.0, 0.5, 0.5], horizon(0.9999, 1e-3)
    cut = sample_demonstrations(mdp, policy, 2, rng=3, max_steps=1_000)
    assert cut.lengths.tolist() == [1_000] * 2
    seen = empirical_expectation(Domain(mdp, [0.5, 1.0]), cut)
    assert seen.reward_bias == pytest.approx(0.9999**1_000 / (1 - 0.9999)), "what was cut off counts as bias"
    demonstrations = sample_demonstrations(mdp, policy, 2, rng=3)
    assert demonstrations.lengths.tolist() == [n_steps] * 2
    # State 1 keeps the walk with probability one half: two visits on average for each visit of state 0.
    assert abs((demonstrations.states == 1).mean() - 2 / 3) < 0.004
    monkeypatch.setattr(sampling, "LONGEST", 1_000)
    with pytest.raises(InvalidInput, match=rf"longer than 1000 visits, and may have {n_steps}; give max_steps, or"):
        sample_demonstrations(mdp, policy, 2, rng=3)


def test_a_trajectory_that_ends_early_may_have_any_horizon():
    mdp = MDP.from_choices([[0.5, 0.5], [0, 1.0]], [0, 1, 2], [1, 0], 1 - 1e-9)
    assert sample_demonstrations(mdp, [1.0, 1.0], 50, rng=0).lengths.max() < 100


@pytest.mark.parametrize("discount", [0.9, [0.9, 0.9, 0.5]])
def test_absorbing_states_whose_choices_differ_do_not_end_a_trajectory(discount):
    """Two states; the second is absorbing, its two choices have different features, or different discounts."""
    mdp = MDP.from_choices([[0.5, 0.5], [0, 1.0], [0, 1.0]], [0, 1, 3], [1, 0], discount)
    features = np.array([[0.0], [1.0], [0.0 if isinstance(discount, float) else 1.0]])
    domain, policy = Domain(mdp, features), [1.0, 0.7, 0.3]
    seen = empirical_expectation(domain, sample_demonstrations(domain, policy, 4_000, rng=1))
    error = seen.reward_standard_error + 0.2 * seen.reward_bias
    assert np.abs(seen.reward - expectation(domain, policy).reward) < 5 * error
    assert seen.reward_bias < 1e-2
    alike = Domain(mdp, np.array([[0.0], [1.0], [1.0]]))
    if isinstance(discount, float):
        assert (sample_demonstrations(alike, policy, 500, rng=1).lengths <= 30).all()


def test_lengths_are_ragged_and_geometric_where_the_walk_is_absorbed():
    """The first choice of state 0 leaves it with probability 1/2, that of state 1 ends the walk."""
    policy = np.array([1.0, 0.0, 1.0, 0.0, 0.5, 0.5])
    demonstrations = sample_demonstrations(Domain(LINE, np.eye(3)), policy, 4_000, rng=np.random.default_rng(3))
    lengths = demonstrations.lengths
    assert lengths.min() == 3
    assert (demonstrations.last_states[lengths < horizon(0.9, 1e-3)] == 2).all()
    # 2 + Geometric(1/2): mean 4, variance 2; five standard errors, probability of failure below 1e-6.
    assert abs(lengths.mean() - 4) < 5 * np.sqrt(2 / 4_000)


def test_a_row_sampler_draws_with_the_given_frequencies_and_never_what_has_no_probability():
    """Chi-square over four rows; its 12 degrees of freedom exceed 50 with probability 2e-6."""
    mdp = MDP.from_choices(
        [[0.1, 0.2, 0.3, 0.4], [0, 0.5, 0, 0.5], [1, 0, 0, 0], [0.25] * 4], [0, 1, 2, 3, 4], [1, 0, 0, 0], 0.9
    )
    rows = np.tile(np.arange(4), 20_000)
    drawn = row_sampler(mdp.transition)(rows, np.random.default_rng(4))
    counts = np.zeros((4, 4))
    np.add.at(counts, (rows, drawn), 1)
    expected = 20_000 * mdp.transition.toarray()
    assert (counts[expected == 0] == 0).all()
    assert (((counts - expected) ** 2)[expected > 0] / expected[expected > 0]).sum() < 50


class _OnTheEdge(np.random.Generator):
    """A generator whose uniform draws are all the same extreme number."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size=None):
        return np.full(size, self.value)


@pytest.mark.parametrize("draw", [0.0, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("seed", range(10))
def test_the_most_extreme_draws_stay_within_their_row_and_its_positive_entries(seed, draw):
    """Row + draw may round up to the start of the next row; the sampler must not draw an impossible choice there."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, max_states=60)
    rows = np.arange(mdp.n_choices)
    drawn = row_sampler(mdp.transition)(rows, _OnTheEdge(draw))
    assert (mdp.transition[rows, drawn] > 0).all()
    policy = random_deterministic_policy(rng, mdp)
    choose = sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice), shape=(mdp.n_states, mdp.n_choices))
    assert_array_equal(row_sampler(choose)(np.arange(mdp.n_states), _OnTheEdge(draw)), np.flatnonzero(policy))


def test_the_distribution_functions_of_many_rows_keep_their_steps():
    """Thirds and sevenths do not sum to one in binary; over 40,000 rows the rounding error must not accumulate."""
    weights, columns = np.tile([1 / 3, 1 / 3, 1 / 3, 1 / 7, 6 / 7], 20_000), np.tile([0, 1, 2, 3, 4], 20_000)
    starts = np.concatenate([[0], np.cumsum(np.tile([3, 2], 20_000))])
    draw = row_sampler(sparse.csr_array((weights, columns, starts), shape=(40_000, 5)))
    for step, kind, below in ((1 / 3, 0, 0), (2 / 3, 0, 1), (1 / 7, 1, 3)):
        rows = np.arange(kind, 40_000, 2)
        assert (draw(rows, _OnTheEdge(step - 1e-10)) == below).all()
        assert (draw(rows, _OnTheEdge(step + 1e-10)) == below + 1).all()


@pytest.mark.parametrize(("n", "bias"), [(0, 1e-3), (2.5, 1e-3), (3, 0.0), (3, -1.0), (3, np.nan), (3, np.inf)])
def test_a_senseless_number_or_bias_is_refused(n, bias):
    with pytest.raises(InvalidInput, match=r"number of demonstrations|truncation_bias"):
        sample_demonstrations(LINE, uniform_policy(LINE), n, rng=np.random.default_rng(0), truncation_bias=bias)


def test_a_seed_stands_for_its_generator():
    by_seed = sample_demonstrations(LINE, uniform_policy(LINE), 30, rng=5)
    assert_array_equal(
        by_seed.states, sample_demonstrations(LINE, uniform_policy(LINE), 30, rng=np.random.default_rng(5)).states
    )


@pytest.mark.parametrize("rng", [True, -1, 0.0, None, "0", np.random.RandomState(0)])
def test_anything_but_a_seed_or_a_generator_is_refused(rng):
    with pytest.raises(InvalidInput, match=r"rng must be a non-negative int or a numpy\.random\.Generator"):
        sample_demonstrations(LINE, uniform_policy(LINE), 3, rng=rng)


@pytest.mark.parametrize("make", [ending_mdp, endless_mdp])
def test_episodes_without_discount_are_sampled_to_their_end(make):
    """All trajectories reach an end, and their mean counts are the expectation, within five standard errors."""
    rng = np.random.default_rng(3)
    mdp = make(rng, 12)
    domain = Domain(mdp, without_ends(mdp, rng.normal(size=(mdp.n_choices, 2))))
    policy = uniform_policy(mdp)
    shown = sample_demonstrations(domain, policy, 4_000, rng=1, truncation_bias=1e-9)
    assert np.isin(shown.last_states, mdp.ends).all()
    counted, exact = empirical_expectation(domain, shown), expectation(domain, policy).reward
    assert (np.abs(counted.reward - exact) <= 5 * counted.reward_standard_error).all()
    assert (counted.reward_bias == 0).all()
    # A cut-off episode is counted with a bound on what is left out, if every policy ends.
    short = sample_demonstrations(mdp, policy, 10, rng=1, truncation_bias=0.9 * mdp.steps)
    bias = empirical_expectation(domain, short).reward_bias
    assert (bias > 0).all() and np.isfinite(bias).all() == np.isfinite(mdp.horizon)


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
    offsets = trajectory_counts(domain, recorded)[0] - lesson.expectation
    every = np.sort([np.linalg.norm(offsets[list(four)].mean(axis=0)) for four in combinations(range(14), 4)])
    assert every[0] - 1e-12 <= found.distance <= every[len(every) // 100]
    assert found.pool_size == 14


def test_one_demonstration_is_the_nearest_of_the_pool():
    rng = np.random.default_rng(3)
    domain = random_domain(rng, max_states=8)
    recorded = sample_demonstrations(domain.mdp, random_policy(rng, domain.mdp), 50, rng=rng)
    lesson = Lesson.from_demonstrations(domain, recorded)
    apart = np.linalg.norm(trajectory_counts(domain, recorded)[0] - lesson.expectation, axis=1)
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


def test_recordings_of_states_are_selected_where_only_preferences_are_on_choices():
    mdp = MDP.from_choices([[0, 1.0], [1.0, 0], [1.0, 0], [0, 1.0]], [0, 2, 4], [1, 0], 0.9)
    domain = Domain(mdp, np.eye(2), np.ones((4, 1)), ("first", "second"))
    recorded = tl.Demonstrations.from_sequences(mdp, [[0, 1, 0], [0, 0, 0], [0, 1, 1]])
    lesson = Lesson.from_demonstrations(replace(domain, preference_features=np.ones((2, 1))), recorded)
    assert select_demonstrations(domain, lesson, 2).demonstrations.n == 2
