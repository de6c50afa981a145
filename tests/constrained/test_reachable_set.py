"""The reachable set's vertices: no policy outside their hull, each of them reached, also for flat sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import deterministic_expectations, lattice
from strategies import random_domain, some_of

from tutelage.constrained.occupancy_polytope import best_policy, least_violation
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel


@pytest.mark.parametrize("n_reward", [2, 3])
@pytest.mark.parametrize("seed", some_of(range(10), range(5)))
def test_vertices_are_those_of_the_hull_of_every_deterministic_policy(seed, n_reward):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=6, max_choices=3, n_reward=n_reward, n_preference=0)
    reached = deterministic_expectations(domain)
    found = vertices(domain, no_limits(domain))
    size = max(1e-3, np.ptp(reached, axis=0).max())
    for normal in np.vstack([np.eye(n_reward), rng.normal(size=(200, n_reward))]):
        assert (found @ normal).max() == pytest.approx((reached @ normal).max(), abs=1e-5 * size)
    distances = np.linalg.norm(found[:, None] - reached[None], axis=2).min(axis=1)
    assert distances.max() <= 1e-6 * size


@pytest.mark.parametrize("seed", some_of(range(5), range(2)))
def test_the_feasible_part_supports_what_the_constrained_best_policy_earns(seed):
    rng = np.random.default_rng(40 + seed)
    domain = random_domain(rng, max_states=12, n_reward=2, n_preference=1)
    least = least_violation(domain, preference_limits(domain, 0.0)).value
    limits = preference_limits(domain, least + 0.2 * domain.mdp.horizon)
    found = vertices(domain, limits)
    for direction in rng.normal(size=(20, 2)):
        assert (found @ direction).max() == pytest.approx(best_policy(domain, direction, limits).value, abs=1e-5)


def test_vertices_in_the_plane_run_counter_clockwise():
    rng = np.random.default_rng(2)
    domain = random_domain(rng, max_states=20, n_reward=2, n_preference=0)
    x, y = vertices(domain, no_limits(domain)).T
    assert x @ np.roll(y, -1) - y @ np.roll(x, -1) > 0


def test_flat_sets_are_found_in_their_own_dimension():
    """Two proportional features trace a segment, a constant one a point, and a plane in space stays a polygon."""
    mdp = lattice(3, discount=0.9)
    indicator = np.eye(9)[:, :2]
    line = vertices(Domain(mdp, indicator[:, [0, 0]] * [1.0, 2.0]), no_limits(Domain(mdp, indicator)))
    assert_allclose(line[:, 1], 2 * line[:, 0])
    assert len(line) == 2 and np.ptp(line[:, 0]) == pytest.approx(0.9**2 / 0.1)
    constant = Domain(mdp, np.ones((9, 2)))
    assert_allclose(vertices(constant, no_limits(constant)), [[10.0, 10.0]])
    sheet = Domain(mdp, np.column_stack([indicator, indicator.sum(axis=1)]))
    corners = vertices(sheet, no_limits(sheet))
    assert_allclose(corners[:, 2], corners[:, 0] + corners[:, 1], atol=1e-9)
    assert len(corners) >= 3


def test_more_than_three_features_are_refused():
    domain = random_domain(np.random.default_rng(0), max_states=4, n_reward=4)
    with pytest.raises(InvalidModel, match="at most 3 reward features"):
        vertices(domain, no_limits(domain))
