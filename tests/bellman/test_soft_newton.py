"""Newton's method from a nearby value reaches the soft optimum, whatever the chain, or says that it did not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import lattice
from strategies import random_mdp

from benchmarks.families import family_domain
from tutelage.bellman.backups import CompiledOperators, soft_newton
from tutelage.bellman.equations import solve_soft
from tutelage.model.mdp import MDP


def dense(rng):
    return MDP.from_arrays(rng.dirichlet(np.ones(30), size=(30, 3)), np.full(30, 1 / 30), 0.95)


MAKERS = [random_mdp, dense, lambda rng: lattice(12, slip=0.2)]
MAKERS += [lambda rng, name=name: family_domain(name, 300).mdp for name in ("queue", "garnet", "roads", "maintenance")]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", range(2))
def test_each_optimum_along_a_path_of_rewards_is_that_of_the_reward_alone(make, seed):
    rng = np.random.default_rng(seed)
    mdp = make(rng)
    reward = np.zeros(mdp.n_choices)
    value = solve_soft(mdp, reward).value.copy()
    for size in (0.1, 0.1, 1.0, 1e-3, 0.0):
        reward = reward + size * rng.normal(size=mdp.n_choices)
        policy = np.empty(mdp.n_choices)
        residual = soft_newton(CompiledOperators(mdp, reward).problem, value, policy)
        solved = solve_soft(mdp, reward)
        assert residual * mdp.horizon <= 1e-8
        assert_allclose(value, solved.value, atol=2e-8)
        assert_allclose(policy, solved.policy, atol=1e-7)
