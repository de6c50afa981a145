"""Compiled Bellman operators against the library's exponential."""

import numpy as np
from numpy.testing import assert_allclose
from strategies import build_mdp

from tutelage.bellman.backups import CompiledOperators
from tutelage.model.policy import sum_by_state

N_STATES, DISCOUNT = 2_000, 0.99


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
