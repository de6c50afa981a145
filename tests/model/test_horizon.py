"""Episodes that end, without discount: what is refused, the horizon, and policies that end."""

from fractions import Fraction

import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp
from numpy.testing import assert_allclose

import tutelage as tl
from tutelage.chains.expectations import successor_features
from tutelage.model.policy import ending_choice


def test_the_horizon_is_the_longest_expected_time_of_any_policy():
    # From 0, "try" ends with probability 1/4 (four steps), "go" leads to 1, which ends with probability 1/2: three.
    rows = [[0.75, 0, 0.25], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    mdp = tl.MDP.from_choices(rows, [0, 2, 3, 4], [1, 0, 0], 1)
    assert_allclose(mdp.horizon, 4, rtol=1e-8)
    assert mdp.ends.tolist() == [2]
    assert_allclose(tl.occupancy(mdp, [1, 0, 1, 1]), [4, 0, 0, 0])
    assert_allclose(tl.occupancy(mdp, [0, 1, 1, 1]), [0, 1, 2, 0])


@pytest.mark.parametrize("seed", range(20))
def test_the_horizon_is_that_of_value_iteration(seed):
    mdp = ending_mdp(np.random.default_rng(seed), n_states=int(5 + 30 * (seed % 5)))
    steps = np.zeros(mdp.n_states)
    for _ in range(100_000):
        ahead = np.maximum.reduceat(1 + mdp.continuing @ steps, mdp.first_choice[:-1])
        if np.abs(ahead - steps).max() < 1e-13 * ahead.max():
            break
        steps = ahead
    assert_allclose(mdp.horizon, steps.max(), rtol=1e-8)
    assert mdp.steps == mdp.horizon and mdp.contraction == 1 - 1 / mdp.horizon


def test_a_policy_that_can_go_on_for_ever_makes_the_horizon_infinite():
    # Between 0 and 1 one can go to and fro; the walk that takes all choices alike ends.
    mdp = tl.MDP.from_choices([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 1, 3, 4], [1, 0, 0], 1)
    assert mdp.horizon == np.inf
    assert_allclose(mdp.steps, 4)
    with pytest.raises(tl.InvalidModel, match="goes on for ever from state 0"):
        tl.occupancy(mdp, [1, 1, 0, 1])
    assert_allclose(tl.occupancy(mdp, [1, 0, 1, 1]), [1, 0, 1, 0])


def test_the_walk_through_many_states_takes_as_long_as_said_or_a_little_less():
    """Above 200 states the steps are iterated: from the far end of a line, where a walk turns back, (n - 1)^2."""
    n = 400
    rows = np.zeros((2 * n - 1, n))
    rows[[0, 1], [1, 1]] = 1
    for s in range(1, n - 1):
        rows[[2 * s, 2 * s + 1], [s - 1, s + 1]] = 1
    rows[-1, -1] = 1
    mdp = tl.MDP.from_choices(rows, [*range(0, 2 * n, 2), 2 * n - 1], np.eye(n)[0], 1)
    assert mdp.horizon == np.inf
    assert (n - 1) ** 2 * (1 - 1e-9) <= mdp.steps <= (n - 1) ** 2 * 1.002


def test_where_a_policy_goes_on_for_ever_does_not_matter_if_it_never_gets_there():
    rows = [[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    mdp = tl.MDP.from_choices(rows, [0, 1, 3, 4], [1, 0, 0], 1)
    assert_allclose(tl.occupancy(mdp, [1, 1, 0, 1]), [1, 0, 0, 0])


@pytest.mark.parametrize("seed", range(10))
def test_an_ending_choice_ends(seed):
    mdp = endless_mdp(np.random.default_rng(seed), n_states=30)
    assert mdp.horizon == np.inf
    choice = ending_choice(mdp, np.ones(mdp.n_choices, dtype=bool))
    moves = mdp.continuing[choice].toarray()
    assert np.abs(np.linalg.eigvals(moves)).max() < 1


def test_a_state_without_a_way_to_an_end_is_named():
    rows = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    with pytest.raises(tl.InvalidModel, match=r"from state 0 \('north'\) no end can be reached \(nor from 1 more\)"):
        tl.MDP.from_choices(rows, [0, 1, 2, 3], [1, 0, 0], 1, state_names=["north", "south", "end"])
    with pytest.raises(tl.InvalidModel, match="no end can be reached"):
        tl.MDP.from_choices([[0, 1], [1, 0]], [0, 1, 2], [1, 0], 1)


def test_a_feature_in_an_end_is_refused_by_name():
    mdp = tl.MDP.from_choices([[0, 1], [0, 1]], [0, 1, 2], [1, 0], 1, state_names=["begin", "end"])
    with pytest.raises(tl.InvalidModel, match=r"'score' is 2 in state 1 \('end'\), an end, where"):
        tl.Domain(mdp, [[1.0], [2.0]], reward_names=("score",))
    with pytest.raises(tl.InvalidModel, match="'reward' is 1 in state 1"):
        tl.solve_hard(mdp, [0.0, 1.0])
    assert tl.solve_hard(mdp, [3.0, 0.0]).value.tolist() == [3.0, 0.0]


def test_single_choices_may_be_without_discount_if_others_are_not():
    # A choice with a discount is a chance to end: 0 -> 1 without, 1 -> 0 with the discount 0.5.
    mdp = tl.MDP.from_choices([[0, 1], [1, 0]], [0, 1, 2], [1, 0], [1.0, 0.5])
    assert_allclose(mdp.horizon, 4, rtol=1e-8)
    assert not len(mdp.ends)
    assert_allclose(tl.occupancy(mdp, [1, 1]), [2, 2])
    assert_allclose(tl.solve_hard(mdp, [1.0, 0.0]).value, [2, 1])
    with pytest.raises(tl.InvalidModel, match="no end can be reached"):
        tl.MDP.from_choices([[0, 1, 0], [0, 0, 1], [0, 1, 0]], [0, 1, 2, 3], [1, 0, 0], [0.5, 1, 1])


def test_a_share_of_the_time_needs_a_discount():
    mdp = tl.MDP.from_choices([[0, 1], [0, 1]], [0, 1, 2], [1, 0], 1)
    domain = tl.Domain(mdp, [[1.0], [0.0]], [[1.0], [0.0]])
    with pytest.raises(tl.InvalidModel, match="without discount each policy takes its own; give a count"):
        tl.preference_limits(domain, tl.share(0.1))


def line(n, onward):
    """n states in a row and an end; each step goes on with this probability, and otherwise back."""
    rows = np.zeros((n + 1, n + 1))
    rows[np.arange(n), np.arange(1, n + 1)] = onward
    rows[np.arange(n), np.maximum(np.arange(n) - 1, 0)] += 1 - onward
    rows[n, n] = 1
    return tl.MDP.from_choices(rows, range(n + 2), np.eye(n + 1)[0], 1)


def steps_along(n, onward):
    """The expected steps, in exact fractions: to the next state (1 + back * those of the state before) / onward."""
    ahead, total, forward = Fraction(0), Fraction(0), Fraction(onward)
    for _ in range(n):
        ahead = (1 + (1 - forward) * ahead) / forward
        total += ahead
    return total


@pytest.mark.parametrize("n", [3, 8, 12, 14, 15, 16, 18, 20, 60, 250])
def test_a_horizon_is_never_shorter_than_the_exact_number_of_steps(n):
    """A linear system of a chain that practically never ends gives any number, also 1, and every bound would be false.

    So an MDP whose steps rounding hides is refused once they are needed.
    """
    mdp, exact = line(n, 0.1), steps_along(n, 0.1)
    assert mdp.horizon >= exact * (1 - Fraction(1, 10**9))
    if exact < 1e13:
        assert_allclose(mdp.horizon, float(exact), rtol=0.1)
        value = tl.solve_hard(mdp, [1.0] * n + [0.0])
        assert abs(value.value[0] - float(exact)) <= value.error_bound
    elif exact > 1e16:
        with pytest.raises(tl.InvalidModel, match="policies of this MDP practically never do"):
            tl.solve_hard(mdp, [1.0] * n + [0.0])


@pytest.mark.parametrize("n", [3, 8, 12, 18, 20, 60, 250])
def test_what_a_policy_collects_is_right_or_refused(n):
    """Visits of a chain that practically never ends came out negative; they are refused, as the model is."""
    mdp, exact, policy = line(n, 0.1), float(steps_along(n, 0.1)), np.ones(n + 1)
    domain = tl.Domain(mdp, np.append(np.ones(n), 0.0))
    if n <= 12:
        assert_allclose(tl.expectation(domain, policy).reward, exact, rtol=1e-4)
        assert_allclose(successor_features(domain, policy)[0], exact, rtol=1e-4)
        return
    for asked in (lambda: tl.occupancy(mdp, policy), lambda: successor_features(domain, policy)):
        with pytest.raises(tl.InvalidModel, match="practically never end"):
            asked()
