"""Compiled Bellman operators: in blocks of states as in one, and against the library's exponential."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build_mdp

from tutelage import compiling
from tutelage.bellman.backups import CompiledOperators
from tutelage.model.policy import sum_by_state

N_STATES, DISCOUNT = 2_000, 0.99


def test_backups_in_blocks_are_the_same_to_the_last_bit(monkeypatch):
    rng = np.random.default_rng(9)
    mdp = build_mdp(rng, rng.integers(1, 5, size=N_STATES), DISCOUNT)
    reward, value = 30 * rng.normal(size=mdp.n_choices), 100 * rng.normal(size=N_STATES)
    whole, choice = CompiledOperators(mdp, reward), mdp.first_choice[:-1]
    soft, hard = whole.soft_backup(value), whole.hard_backup(value, choice, 0.0)
    monkeypatch.setattr(compiling, "BLOCKS_ABOVE", 100)
    monkeypatch.setattr(compiling, "thread_count", lambda: 3)
    parts = CompiledOperators(mdp, reward)
    for found, right in ((parts.soft_backup(value), soft), (parts.hard_backup(value, choice, 0.0), hard)):
        assert_array_equal(found[0], right[0])
        assert_array_equal(found[1], right[1])


def test_compiled_soft_policies_are_those_of_the_library_exponential():
    """Also where the exponential of a choice's advantage is a subnormal number."""
    rng = np.random.default_rng(10)
    mdp = build_mdp(rng, rng.integers(1, 5, size=N_STATES), DISCOUNT)
    reward = rng.normal(size=mdp.n_choices) * 10.0 ** rng.integers(-3, 4, size=mdp.n_choices)
    value, policy = CompiledOperators(mdp, reward).soft_backup(np.zeros(N_STATES))
    best = np.repeat(np.maximum.reduceat(reward, mdp.first_choice[:-1]), mdp.choices_per_state)
    power = np.exp(reward - best)
    total = sum_by_state(mdp, power)
    assert_allclose(policy, power / np.repeat(total, mdp.choices_per_state), rtol=1e-14, atol=1e-300)
    assert_allclose(value, best[mdp.first_choice[:-1]] + np.log(total), rtol=1e-14, atol=1e-14)
