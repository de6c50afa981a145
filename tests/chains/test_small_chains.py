"""Chains of at most 500 states: within a band, dense or sparse, both systems are solved."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from strategies import some_of

from tutelage.chains import chain, small_chains
from tutelage.model.mdp import MDP


def banded_mdp(rng, n_states, width, *, n_discounts=1):
    """One to three choices per state, with next states at most `width` away, before the states are shuffled."""
    n_choices = rng.integers(1, 4, n_states)
    first = np.concatenate([[0], np.cumsum(n_choices)])
    state = np.repeat(np.arange(n_states), n_choices)
    steps = rng.integers(-width, width + 1, (len(state), 3))
    to, chance = np.clip(state[:, None] + steps, 0, n_states - 1), rng.dirichlet(np.ones(3), len(state))
    shuffled = rng.permutation(n_states)
    by_state = np.argsort(shuffled[state], kind="stable")
    rows = np.repeat(np.arange(len(state)), 3)
    transition = sparse.csr_array(
        (chance[by_state].ravel(), (rows, shuffled[to[by_state]].ravel())), (len(state), n_states)
    )
    counts = np.empty(n_states, dtype=int)
    counts[shuffled] = n_choices
    first = np.concatenate([[0], np.cumsum(counts)])
    discount = 0.97 if n_discounts == 1 else rng.uniform(0.3, 0.99, len(state))
    return MDP.from_choices(transition, first, np.full(n_states, 1 / n_states), discount)


@pytest.mark.parametrize("seed", some_of(range(60), range(12)))
def test_both_systems_are_solved_for_any_width(seed):
    """Against a dense solve. Narrow bands are found in shuffled states; wide ones are solved dense or sparse."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(31, 500)), int(rng.choice([1, 4, 12, 100]))
    mdp = banded_mdp(rng, n, min(width, n - 1), n_discounts=1 + seed % 2)
    weights = rng.random(mdp.n_choices)
    policy = weights / np.repeat(np.add.reduceat(weights, mdp.first_choice[:-1]), mdp.choices_per_state)
    if width == 1:
        assert small_chains.band(mdp).width <= 2
    system = np.eye(n) - chain.chain(mdp, mdp.discount * policy).toarray()
    right, many = rng.normal(size=n), rng.normal(size=(n, 4))
    choice = mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)
    one_each = np.eye(n) - chain.discounted_rows(mdp, choice).toarray()
    for inverse, matrix in (
        (chain.policy_resolvent(mdp, policy), system),
        (chain.choice_resolvent(mdp, choice), one_each),
    ):
        assert_allclose(inverse.values(right), np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-10)
        assert_allclose(inverse.values(many), np.linalg.solve(matrix, many), rtol=1e-9, atol=1e-10)
        assert (inverse.visits(mdp.initial) >= 0).all() and (inverse.values(np.abs(many)) >= 0).all()
        assert_allclose(inverse.visits(right), np.linalg.solve(matrix.T, right), rtol=1e-9, atol=1e-10)


def test_a_chain_without_a_narrow_band_has_none():
    """Every state leads to every other: a band as wide as the chain would take more operations than a dense solve."""
    n = 60
    mdp = MDP.from_choices(np.full((n, n), 1 / n), np.arange(n + 1), np.full(n, 1 / n), 0.9)
    assert small_chains.band(mdp) is None
