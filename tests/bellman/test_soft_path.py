"""Along a path of rewards, each soft optimum is that of `solve_soft`, whatever the chain."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import lattice
from strategies import random_mdp

from benchmarks.families import family_domain
from tutelage.bellman import soft_path
from tutelage.bellman.equations import solve_soft
from tutelage.bellman.soft_path import SoftPath
from tutelage.chains.expectations import occupancy
from tutelage.model.mdp import MDP


def dense(rng):
    return MDP.from_arrays(rng.dirichlet(np.ones(30), size=(30, 3)), np.full(30, 1 / 30), 0.95)


def assert_follows(mdp, rng):
    path, reward = SoftPath.of(mdp), np.zeros(mdp.n_choices)
    for size in (1.0, 0.1, 0.1, 3.0, 1e-3, 0.0):
        reward = reward + size * rng.normal(size=mdp.n_choices)
        path = path.at(reward)
        solved = solve_soft(mdp, reward)
        assert_allclose(path.value, solved.value, atol=2e-8)
        assert_allclose(path.policy, solved.policy, atol=1e-7)
        assert_allclose(path.occupancy, occupancy(mdp, path.policy), atol=1e-9 * mdp.horizon)


@pytest.mark.parametrize("make", [random_mdp, dense, lambda rng: lattice(12, slip=0.2)])
def test_each_optimum_is_that_of_the_reward_alone(make):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        assert_follows(make(rng), rng)


@pytest.mark.parametrize("family", ["queue", "garnet", "roads", "maintenance"])
def test_other_chains_too(family):
    assert_follows(family_domain(family, 300).mdp, np.random.default_rng(0))


def test_without_factors_the_general_solver_takes_the_steps(monkeypatch):
    """Where the factors have too many entries, or the corrections do not converge, the answers are the same."""
    rng = np.random.default_rng(0)
    mdp = lattice(6)
    monkeypatch.setattr(soft_path, "_corrected", lambda *given: False)
    assert_follows(mdp, rng)
    monkeypatch.setattr(soft_path, "_pattern", lambda mdp: None)
    assert SoftPath.of(mdp).factors is None
    assert_follows(mdp, rng)
