"""Linear systems by sweeps: exact where a chain mixes, and honest where it does not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import spsolve

from benchmarks.families import family_domain
from tutelage.bellman.equations import plan_hard, solve_hard
from tutelage.bellman.operators import bellman_operators
from tutelage.chains.chain import discounted_rows
from tutelage.chains.mixing import mixed_values, mixed_visits

N_STATES, ACCURACY = 700, 1e-11


def some_moves(name):
    domain = family_domain(name, N_STATES)
    mdp = domain.mdp
    choice = mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state)
    return domain, discounted_rows(mdp, choice)


@pytest.mark.parametrize("has_start", [False, True])
def test_sweeps_solve_the_systems_of_a_chain_that_mixes(has_start):
    domain, moves = some_moves("garnet")
    right = np.hstack([domain.reward_features, domain.preference_features])
    exact = spsolve(sparse.csc_array(sparse.eye_array(len(right)) - moves), right)
    start = exact + 0.1 * np.random.default_rng(1).normal(size=exact.shape) if has_start else np.zeros_like(exact)
    found, is_exact = mixed_values(moves, domain.mdp.discount, right, start, ACCURACY)
    assert is_exact
    # The bound is on the largest error of a column, relative to its largest entry.
    assert (np.abs(found - exact).max(axis=0) <= ACCURACY * np.abs(exact).max(axis=0)).all()
    visits = mixed_visits(moves, domain.mdp.discount, domain.mdp.initial, ACCURACY)
    exact_visits = spsolve(sparse.csc_array(sparse.eye_array(len(right)) - moves.T), domain.mdp.initial)
    assert np.abs(visits - exact_visits).sum() <= 2 * ACCURACY * exact_visits.sum()


@pytest.mark.parametrize("name", ["slippery grid", "queue", "roads"])
def test_where_a_chain_mixes_slowly_sweeps_say_so(name):
    domain, moves = some_moves(name)
    right = domain.reward_features
    _, is_exact = mixed_values(moves, domain.mdp.discount, right, np.zeros_like(right), ACCURACY)
    assert not is_exact
    assert mixed_visits(moves, domain.mdp.discount, domain.mdp.initial, ACCURACY) is None


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "queue", "roads", "maintenance"])
def test_the_hard_value_is_that_of_its_policy_and_no_choice_is_better(name):
    """However it was found: the Bellman equation has one solution."""
    domain = family_domain(name, N_STATES)
    mdp, reward = domain.mdp, domain.reward_features @ [1.0, 0.9, 0.2]
    found = solve_hard(mdp, reward, accuracy=1e-9)
    plan = plan_hard(bellman_operators(mdp, reward[mdp.state_of_choice]), mdp, accuracy=1e-9)
    moves = discounted_rows(mdp, plan.choice)
    value = spsolve(sparse.csc_array(sparse.eye_array(mdp.n_states) - moves), reward)
    assert_allclose(found.value, value, atol=2e-9)
    ahead = reward[mdp.state_of_choice] + discounted_rows(mdp, np.arange(mdp.n_choices)) @ value
    assert (ahead <= value[mdp.state_of_choice] + 2e-9).all()
