"""The Bellman equations of episodes without discount, against linear programs, value iteration and linear systems."""

from dataclasses import replace

import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp, without_ends
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import tutelage as tl
from tutelage.outcomes import Ended

SIZES = (6, 40, 260)


def program_value(mdp, reward):
    """The least V with V >= reward + K V for all choices, by HiGHS."""
    lead = np.zeros((mdp.n_choices, mdp.n_states))
    lead[np.arange(mdp.n_choices), mdp.state_of_choice] = 1
    system = lead - np.asarray(mdp.discount).reshape(-1, 1) * mdp.continuing.toarray()
    return linprog(np.ones(mdp.n_states), A_ub=-system, b_ub=-reward, bounds=(None, None))


def check_hard(mdp, reward):
    solved = tl.solve_hard(mdp, reward)
    exact = program_value(mdp, reward).x
    size = 1 + np.abs(exact).max()
    assert solved.ended is Ended.CONVERGED
    assert np.abs(solved.value - exact).max() <= 1e-8 * size + solved.error_bound
    # The policy that splits ties ends, and has this value.
    assert_allclose(tl.expected_reward(mdp, solved.policy, reward), mdp.initial @ exact, atol=2e-8 * size)


def check_soft(mdp, reward):
    """V = log z, where z solves a linear system if each choice leads to one state; in general B V = V."""
    solved = tl.solve_soft(mdp, reward)
    assert solved.ended is Ended.CONVERGED and solved.error_bound <= 1e-8
    ahead = reward + mdp.continuing @ solved.value
    starts = mdp.first_choice[:-1]
    backed = np.logaddexp.reduceat(ahead, starts)
    # Nothing is chosen in an end.
    backed[mdp.ends] = 0.0
    assert np.abs(backed - solved.value).max() <= solved.error_bound
    # The value of its own policy, with its entropy, is the soft value.
    own = tl.expected_reward(mdp, solved.policy, reward) + tl.causal_entropy(mdp, solved.policy)
    assert_allclose(own, mdp.initial @ solved.value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_all_policies_end(seed):
    rng = np.random.default_rng(seed)
    mdp = ending_mdp(rng, SIZES[seed % 3])
    reward = without_ends(mdp, rng.normal(size=mdp.n_choices))
    check_hard(mdp, reward)
    check_soft(mdp, reward)


@pytest.mark.parametrize("seed", range(12))
def test_some_policies_go_on_for_ever_at_a_cost(seed):
    rng = np.random.default_rng(100 + seed)
    mdp = endless_mdp(rng, SIZES[seed % 3])
    assert mdp.horizon == np.inf
    cost = without_ends(mdp, rng.uniform(0.1, 2, size=mdp.n_choices))
    check_hard(mdp, -cost)
    check_soft(mdp, -cost - without_ends(mdp, np.full(mdp.n_choices, 1.5)))


@pytest.mark.parametrize("seed", range(6))
def test_going_round_for_nothing_is_no_way_to_avoid_the_cost_of_ending(seed):
    """Only policies that end have a value here; those of the program."""
    rng = np.random.default_rng(200 + seed)
    mdp = endless_mdp(rng, SIZES[seed % 3])
    # Only moves that may end cost; so does no cycle.
    may_end = np.asarray(mdp.transition[:, mdp.ends].sum(axis=1)).ravel() > 0
    check_hard(mdp, without_ends(mdp, -1.0 * may_end))
    check_hard(mdp, np.zeros(mdp.n_choices))


@pytest.mark.parametrize("seed", range(12))
def test_a_model_in_which_going_on_pays_is_refused_by_name(seed):
    rng = np.random.default_rng(300 + seed)
    mdp = endless_mdp(rng, SIZES[seed % 3])
    gain = without_ends(mdp, rng.uniform(0.1, 2, size=mdp.n_choices))
    for solve in (tl.solve_hard, tl.solve_soft):
        with pytest.raises(tl.EndlessValue, match=r"grows without limit in the cycle state \d+"):
            solve(mdp, gain)
    # A cycle of this length pays by a little in all.
    ring = tl.MDP.from_choices(
        [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]], [0, 1, 2, 4, 5], [1, 0, 0, 0], 1
    )
    with pytest.raises(tl.EndlessValue, match="cycle state"):
        tl.solve_hard(ring, [-1.0, 0.5, 0.51, -3.0, 0.0])
    assert_allclose(tl.solve_hard(ring, [-1.0, 0.5, 0.49, -3.0, 0.0]).value, [-3.5, -2.5, -3, 0])
    # Soft values count entropy: log 2 of each round.
    with pytest.raises(tl.EndlessValue, match="which counts entropy"):
        tl.solve_soft(ring, [-0.1, 0.0, 0.11, 0.0, 0.0])
    value = tl.solve_soft(ring, [-0.1, 0.0, 0.0, 0.0, 0.0]).value
    # z = exp(V): z2 = exp(-0.1) z2 + 1.
    assert_allclose(value[2], -np.log(-np.expm1(-0.1)), atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [ending_mdp, endless_mdp])
def test_without_discount_is_the_limit_of_discounts(seed, make):
    """With discount 1 - 10^-k the value differs by about 10^-k times steps times value."""
    rng = np.random.default_rng(400 + seed)
    mdp = make(rng, 12)
    cost = without_ends(mdp, rng.uniform(1.5, 3, size=mdp.n_choices))
    hard, soft = tl.solve_hard(mdp, -cost), tl.solve_soft(mdp, -cost)
    counted = ~np.isin(mdp.state_of_choice, mdp.ends)
    gaps = []
    for k in (3, 5, 7):
        near = replace(mdp, discount=1 - 10.0**-k)
        visits = np.abs(tl.occupancy(near, soft.policy) - tl.occupancy(mdp, soft.policy))[counted]
        # In an end with several choices, entropy counts for ever with a discount and never without.
        entropy = np.zeros(mdp.n_states)
        entropy[mdp.ends] = np.log(mdp.choices_per_state[mdp.ends])
        reward = -cost - np.repeat(entropy, mdp.choices_per_state)
        away = np.delete(tl.solve_soft(near, reward).value - soft.value, mdp.ends)
        gaps.append([np.abs(tl.solve_hard(near, -cost).value - hard.value).max(), visits.max(), np.abs(away).max()])
    gaps = np.array(gaps)
    assert (gaps[1:] <= 0.02 * gaps[:-1] + 1e-7).all()
