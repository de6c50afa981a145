"""Sampled demonstrations: possible, with the right frequencies, repeatable, and of the stated length."""

import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp, without_ends
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from strategies import SEEDS, mdps_with_policy, random_deterministic_policy, random_mdp

from tutelage.chains.expectations import expectation
from tutelage.data.empirical import empirical_expectation
from tutelage.data.sampling import RowSampler, _walk, ends, horizon, sample_demonstrations
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput

# State 0 moves on or stays, state 1 moves to 2 or back, state 2 is absorbing with two choices.
LINE = MDP.from_choices(
    [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 2, 4, 6], [1, 0, 0], 0.9
)


@given(mdps_with_policy(), SEEDS)
def test_samples_are_possible_follow_the_policy_and_end_where_promised(mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    domain = Domain(mdp, np.eye(mdp.n_states))
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


def test_a_long_trajectory_is_cut_where_it_is_asked_for():
    """Features in [0, 1], so the discounted count of the whole walk is close to the horizon."""
    mdp = MDP.from_choices([[0, 1.0], [1.0, 0], [0, 1.0]], [0, 1, 3], [1, 0], 0.9999)
    policy, n_steps = [1.0, 0.5, 0.5], horizon(0.9999, 1e-3)
    cut = sample_demonstrations(mdp, policy, 2, rng=3, max_steps=1_000)
    assert cut.lengths.tolist() == [1_000] * 2
    seen = empirical_expectation(Domain(mdp, [0.5, 1.0]), cut)
    assert seen.reward_bias == pytest.approx(0.9999**1_000 / (1 - 0.9999)), "what was cut off counts as bias"
    with pytest.raises(InvalidInput, match=rf"longer than 1000 visits, and may have {n_steps}; give max_steps, or"):
        _walk(mdp, np.array(policy), ends(mdp), 2, 1e-3, None, np.random.default_rng(3), longest=1_000)
    demonstrations = sample_demonstrations(mdp, policy, 2, rng=3)
    assert demonstrations.lengths.tolist() == [n_steps] * 2
    # State 1 keeps the walk with probability one half: two visits on average for each visit of state 0.
    assert abs((demonstrations.states == 1).mean() - 2 / 3) < 0.004


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
    drawn = RowSampler.of(mdp.transition).draw(rows, np.random.default_rng(4))
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
    drawn = RowSampler.of(mdp.transition).draw(rows, _OnTheEdge(draw))
    assert (mdp.transition[rows, drawn] > 0).all()
    policy = random_deterministic_policy(rng, mdp)
    choose = sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice), shape=(mdp.n_states, mdp.n_choices))
    assert_array_equal(RowSampler.of(choose).draw(np.arange(mdp.n_states), _OnTheEdge(draw)), np.flatnonzero(policy))


def test_the_distribution_functions_of_many_rows_stay_sorted_and_in_their_places():
    """Thirds and sevenths do not sum to one in binary; over 40,000 rows the rounding error must not accumulate."""
    weights = np.tile([1 / 3, 1 / 3, 1 / 3, 1 / 7, 6 / 7], 20_000)
    starts = np.concatenate([[0], np.cumsum(np.tile([3, 2], 20_000))])
    rows = sparse.csr_array((weights, np.zeros(len(weights), dtype=np.int64), starts), shape=(40_000, 1))
    sampler = RowSampler.of(rows)
    row = np.repeat(np.arange(40_000), np.diff(starts))
    assert (np.diff(sampler.cumulative) >= 0).all()
    assert (sampler.cumulative <= row + 1).all()
    assert np.abs(sampler.cumulative[starts[1:] - 1] - np.arange(1, 40_001)).max() < 1e-10


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
