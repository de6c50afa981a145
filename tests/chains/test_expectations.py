"""Occupancies, feature expectations, causal entropy and arrival against results by hand and by other methods."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from strategies import (
    build_mdp,
    domains_with_policy,
    mdps,
    mdps_with_policy,
    random_domain,
    random_mdp,
    random_policy,
    some_of,
)

import tutelage as tl
from benchmarks.families import family_domain
from tutelage.chains import expectations
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
from tutelage.outcomes import InvalidModel


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


def with_goal(seed: int, *, leak: float = 0.0) -> tl.MDP:
    """A random MDP whose last state absorbs; with a leak, the state before it absorbs too, and many rows lead there."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(1, 4, size=rng.integers(4, 12)), 0.9)
    rows = 0.9 * mdp.transition.toarray()
    rows[:, -1] += 0.1 - leak
    rows[:, -2] += leak
    for state in (-1, -2) if leak else (-1,):
        first, end = mdp.first_choice[state - 1], mdp.first_choice[mdp.n_states + state + 1]
        rows[first:end] = np.eye(mdp.n_states)[state]
    times = rng.uniform(0.1, 3, size=mdp.n_choices)
    return tl.MDP.from_choices(rows, mdp.first_choice, mdp.initial, 0.9, duration=times, goals=[mdp.n_states - 1])


def test_a_coin_that_is_tossed_until_heads():
    """Arrival with probability one, after 1 / p steps on average, each of which takes 2.5 units of time."""
    for p in (1.0, 0.5, 1e-6):
        mdp = tl.MDP.from_choices([[1 - p, p], [0, 1]], [0, 1, 2], [1, 0], 0.9, duration=[2.5, 1.0])
        found = tl.arrival(mdp, [1, 1])
        assert found.probability == 1.0 and found.is_certain
        assert (found.steps, found.duration) == pytest.approx((1 / p, 2.5 / p), rel=1e-9)


def test_the_gamblers_ruin():
    """From k of n, a fair game reaches n before 0 with probability k / n; either end comes after k (n - k) rounds."""
    n, k = 9, 4
    rows = np.eye(n + 1)
    for state in range(1, n):
        rows[state] = 0.5 * (np.eye(n + 1)[state - 1] + np.eye(n + 1)[state + 1])
    mdp = tl.MDP.from_choices(rows, np.arange(n + 2), np.eye(n + 1)[k], 0.9)
    won = tl.arrival(mdp, np.ones(n + 1), goals=[n])
    assert won.probability == pytest.approx(k / n, abs=1e-12) and math.isinf(won.steps) and math.isinf(won.duration)
    assert str(won) == "may never arrive: it arrives with probability 0.4444"
    ended = tl.arrival(mdp, np.ones(n + 1))
    assert ended.probability == 1.0 and ended.steps == ended.duration == pytest.approx(k * (n - k))
    assert str(ended) == "arrives with probability 1, after 20 steps on average"


@pytest.mark.parametrize("seed", some_of(range(100), range(10)))
def test_expected_steps_and_duration_are_limits_of_discounted_visits(seed):
    """As the discount tends to one, the discounted visits before the goal tend to the expected ones."""
    mdp = with_goal(seed)
    policy = random_policy(np.random.default_rng(seed), mdp)
    found = tl.arrival(mdp, policy)
    visits = tl.occupancy(replace(mdp, discount=1 - 1e-9), policy)
    before = mdp.state_of_choice != mdp.n_states - 1
    assert found.probability == 1.0
    assert found.steps == pytest.approx(visits[before].sum(), rel=1e-6)
    assert found.duration == pytest.approx((visits * mdp.duration)[before].sum(), rel=1e-6)


@pytest.mark.parametrize("seed", some_of(range(100), range(10)))
def test_the_probability_is_the_share_of_discounted_visits_in_the_end(seed):
    """Of two absorbing states, the visits to the goal tend to the probability of arrival / (1 - discount)."""
    mdp = with_goal(seed, leak=0.04)
    policy = random_policy(np.random.default_rng(seed), mdp)
    found = tl.arrival(mdp, policy)
    there = tl.occupancy(replace(mdp, discount=1 - 1e-9), policy)[mdp.state_of_choice == mdp.n_states - 1].sum() * 1e-9
    assert found.probability == pytest.approx(there, abs=1e-6) and found.probability < 1
    assert math.isinf(found.steps) and math.isinf(found.duration)
    # Either absorbing state is reached with probability one.
    either = tl.arrival(mdp, policy, goals=[mdp.n_states - 2, mdp.n_states - 1])
    assert either.probability == 1.0


def test_certainty_is_decided_on_the_graph_and_not_by_rounding():
    """A trap that is reached with probability 1e-17 makes arrival uncertain; an unreachable one does not."""
    rows = [[0, 1 - 1e-17, 1e-17], [0, 1, 0], [0, 0, 1]]
    mdp = tl.MDP.from_choices(rows, [0, 1, 2, 3], [1, 0, 0], 0.9)
    found = tl.arrival(mdp, [1, 1, 1], goals=[1])
    assert found.probability < 1 and math.isinf(found.steps)
    assert "1 - " in str(found)
    assert tl.arrival(replace(mdp, initial=np.array([0, 1.0, 0])), [1, 1, 1], goals=[1]) == tl.Arrival(1.0, 0.0, 0.0)
    lost = tl.arrival(replace(mdp, initial=np.array([0, 0, 1.0])), [1, 1, 1], goals=[1])
    assert lost.probability == 0.0 and str(lost) == "never arrives"


def test_a_policy_that_turns_in_a_circle_never_arrives():
    """Two junctions and a goal: one choice goes on, the other back."""
    rows = np.eye(3)[[1, 0, 2, 2]]
    mdp = tl.MDP.from_choices(rows, [0, 1, 3, 4], [1, 0, 0], 0.9, goals=[2])
    assert tl.arrival(mdp, [1, 1, 0, 1]).probability == 0.0
    assert tl.arrival(mdp, [1, 0, 1, 1]) == tl.Arrival(1.0, 2.0, 2.0)
    # Half of the time back: 2 steps a turn, two turns on average.
    assert tl.arrival(tl.Domain(mdp, [0, 0, 1]), [1, 0.5, 0.5, 1]).steps == pytest.approx(4.0)


def test_a_dead_end_is_no_goal_where_the_model_has_goals():
    mdp = tl.MDP.from_choices(np.eye(3)[[1, 1, 2]], [0, 1, 2, 3], [1, 0, 0], 0.9)
    assert tl.arrival(mdp, [1, 1, 1]).probability == 1.0
    assert tl.arrival(replace(mdp, goals=np.array([2])), [1, 1, 1]).probability == 0.0


@pytest.mark.parametrize(
    ("goals", "message"),
    [([], "goals must be states"), ([3], "goals must be states"), ([-1], "goals must be states"), ([0.5], "whole")],
)
def test_wrong_goals_are_refused(goals, message):
    mdp = tl.MDP.from_choices(np.eye(3)[[1, 1, 2]], [0, 1, 2, 3], [1, 0, 0], 0.9)
    with pytest.raises(InvalidModel, match=message):
        tl.arrival(mdp, [1, 1, 1], goals=goals)
    with pytest.raises(InvalidModel, match="no state is absorbing; give the states of arrival as goals"):
        tl.arrival(tl.MDP.from_choices(np.eye(2)[[1, 0]], [0, 1, 2], [1, 0], 0.9), [1, 1])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1.0, 0.0, 1.0], r"duration\[1\] is 0.0; a choice must take a positive time"),
        ([1.0, -2.0, 1.0], r"duration\[1\] is -2.0"),
        ([1.0, 1.0], "duration has 2 entries, but there are 3 choices"),
        ([1.0, np.inf, 1.0], r"duration\[1\] is inf"),
        ([1.0, 1e-18, 1.0], r"duration\[1\] is 1e-18, and 0.9\*\*1e-18 rounds to 1; measure time in another unit"),
        ([1.0, 1e6, 1.0], "rounds to 0"),
    ],
)
def test_wrong_durations_are_refused_by_choice(times, message):
    with pytest.raises(InvalidModel, match=message):
        tl.MDP.from_choices(np.eye(3)[[1, 1, 2]], [0, 1, 2, 3], [1, 0, 0], 0.9, duration=times)


def test_durations_give_discounts_and_survive_a_file(tmp_path):
    mdp = with_goal(3)
    assert np.allclose(mdp.discount, 0.9**mdp.duration, rtol=1e-15)
    domain = tl.Domain(mdp, np.arange(mdp.n_states))
    tl.save(domain, tmp_path / "timed.npz")
    again = tl.load(tmp_path / "timed.npz").mdp
    for name in ("discount", "duration", "goals"):
        assert np.array_equal(getattr(again, name), getattr(mdp, name))
    with pytest.raises(InvalidModel, match="goals has state 99"):
        replace(mdp, goals=np.array([99]))
    with pytest.raises(InvalidModel, match="discount must be one number"):
        tl.MDP.from_choices(mdp.transition, mdp.first_choice, mdp.initial, mdp.discount, duration=mdp.duration)


def test_actions_may_take_different_times_in_a_table():
    mdp = tl.MDP.from_arrays(np.ones((1, 2, 1)), [1.0], 0.5, duration=[[1.0, 2.0]])
    assert list(mdp.discount) == [0.5, 0.25] and list(mdp.duration) == [1.0, 2.0]
    assert tl.MDP.from_arrays(np.ones((1, 2, 1)), [1.0], 0.5, duration=2.0).discount == 0.25


def exact_totals(rows, is_goal, initial):
    """The probability of arrival and the expected steps of a chain with rows of fractions, by Gauss' method."""
    n = len(rows)
    rows = [[Fraction(p) for p in row] for row in rows]
    rows = [[p / sum(row) for p in row] for row in rows]
    can = set(np.flatnonzero(is_goal))
    while len(more := {s for s in range(n) if any(rows[s][t] for t in can)} | can) > len(can):
        can = more
    inner = [s for s in can if not is_goal[s]]
    table = [[(s == t) - rows[s][t] for t in inner] for s in inner]
    right = [[sum(rows[s][g] for g in range(n) if is_goal[g]), Fraction(1)] for s in inner]
    for i in range(len(inner)):
        for k in range(i):
            factor = table[i][k] / table[k][k]
            table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
            right[i] = [a - factor * b for a, b in zip(right[i], right[k], strict=True)]
    answer = {}
    for i in reversed(range(len(inner))):
        later = [(table[i][j], answer[inner[j]]) for j in range(i + 1, len(inner))]
        answer[inner[i]] = [
            (right[i][m] - sum(share * total[m] for share, total in later)) / table[i][i] for m in range(2)
        ]
    starts = [(Fraction(initial[s]), s) for s in range(n) if initial[s] > 0]
    reached = sum(p * (1 if is_goal[s] else answer[s][0] if s in answer else 0) for p, s in starts)
    return reached, sum(p * answer[s][1] for p, s in starts if s in answer)


def stiff_chain(seed):
    """A chain whose probabilities go down to 1e-300: cycles, states that are hardly left, and sometimes a trap."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    rows = np.where(rng.random((n, n)) < 0.5, 10.0 ** -rng.uniform(0, 300, (n, n)), 0.0)
    rows[:, 0] += 10.0 ** -rng.uniform(0, 290, n)
    rows[np.arange(n), rng.integers(n, size=n)] += 1.0
    rows[0] = np.eye(n)[0]
    if seed % 3 == 0:
        rows[1] = np.eye(n)[1]
    rows /= rows.sum(axis=1, keepdims=True)
    return rows, np.arange(n) == 0, rng.dirichlet(np.ones(n))


@pytest.mark.parametrize("seed", range(200))
def test_arrival_is_that_of_exact_fractions_for_probabilities_down_to_1e_300(seed, monkeypatch):
    """By Python and by compiled loops. No digit is lost to a subtraction; totals beyond any double are infinite."""
    rows, is_goal, initial = stiff_chain(seed)
    mdp = tl.MDP.from_choices(rows, np.arange(len(rows) + 1), initial, 0.9)
    reached, steps = exact_totals(mdp.transition.toarray(), is_goal, mdp.initial)
    for limit in (len(rows), 0):
        monkeypatch.setattr(expectations, "DENSE_LIMIT", limit)
        found = tl.arrival(mdp, np.ones(len(rows)), goals=[0])
        assert abs(Fraction(found.probability) - reached) <= Fraction(1e-9) * reached
        assert found.is_certain == (seed % 3 > 0)
        if math.isinf(found.steps):
            assert steps > Fraction(1.7e308) or not found.is_certain
        else:
            assert abs(Fraction(found.steps) - steps) <= Fraction(1e-9) * steps
        assert found.is_endless == (steps > Fraction(2**52) or not found.is_certain)
        assert ("practically endless" in str(found)) == (found.is_endless and found.is_certain)


@pytest.mark.parametrize("size", [300, 600])
def test_elimination_by_compiled_loops_and_by_python_agree_on_a_road_map(size, monkeypatch):
    """One component of all junctions, under a policy that takes every choice; against discounts towards one."""
    mdp = family_domain("roads", size).mdp
    policy, goals = tl.solve_soft(mdp, np.zeros(mdp.n_states)).policy, [0, 1]
    found = tl.arrival(mdp, policy, goals=goals)
    monkeypatch.setattr(expectations, "DENSE_LIMIT", size)
    slowly = tl.arrival(mdp, policy, goals=goals)
    assert (found.probability, found.steps) == pytest.approx((slowly.probability, slowly.steps), rel=1e-11)
