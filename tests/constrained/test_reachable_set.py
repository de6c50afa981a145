"""The reachable set's vertices: no policy outside their hull, each of them reached, also for flat sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import deterministic_expectations, lattice
from strategies import random_domain, some_of

from tutelage.constrained.occupancy_polytope import best_policy, least_violation
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.explore import explore
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


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e-9, 1e-9, 1e-9), (1e-7, 1.0, 1e6)])
@pytest.mark.parametrize(
    "mix", [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1), (1, 2, 3), (0, 1, 2), (1, 0, 2), (1, 2, 1)]
)
def test_sets_of_any_dimension_are_found_whole_in_any_units(mix, units):
    """What is off a flat set by rounding, or small in its unit, must not hide a part of the set.

    mix: of a constant (0) and of three features: two equal numbers are the same feature.
    """
    rng = np.random.default_rng([8, *mix])
    base = random_domain(rng, max_states=6, max_choices=3, n_reward=3, n_preference=0, on_choices=True)
    features = np.column_stack([np.ones(base.mdp.n_choices), base.reward_features])[:, list(mix)] * units
    domain = Domain(base.mdp, features, reward_names=["x", "y", "z"])
    reached = deterministic_expectations(domain)
    found = vertices(domain, no_limits(domain))
    size = np.abs(reached).max(axis=0)
    for normal in np.vstack([np.eye(3), -np.eye(3), rng.normal(size=(50, 3))]) / size:
        assert (found @ normal).max() == pytest.approx((reached @ normal).max(), abs=1e-5)
    nearest = np.abs((found[:, None] - reached[None]) / size).max(axis=2).min(axis=1)
    assert nearest.max() <= 1e-6
    assert len(found) == len(
        vertices(Domain(base.mdp, features / units, reward_names=["x", "y", "z"]), no_limits(domain))
    )


def test_more_than_three_features_are_refused():
    domain = random_domain(np.random.default_rng(0), max_states=4, n_reward=4)
    with pytest.raises(InvalidModel, match="at most 3 reward features"):
        vertices(domain, no_limits(domain))


# Deep Sea Treasure (Vamplew et al. 2011; the convex values of Yang et al. 2019): the treasures from left to right, each
# on the sea floor, and the steps of the shortest dive to it. The fronts are those that MO-Gymnasium lists.
SEA_FLOOR = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10, 10)
DIVES = (1, 3, 5, 7, 8, 9, 13, 14, 17, 19)
CONVEX = (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7)
CONCAVE = (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 24.0, 50.0, 74.0, 124.0)
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))


def deep_sea(treasures, discount):
    found = dict(zip(enumerate(SEA_FLOOR), treasures, strict=False))

    def after(at, step):
        x, y = at[0] + step[0], at[1] + step[1]
        return (x, y) if 0 <= x <= 10 and 0 <= y <= SEA_FLOOR[x] else at

    return explore(
        (0, 0),
        lambda at: () if at in found else STEPS,
        lambda at, step: [(1.0, after(at, step))],
        discount=discount,
        reward=lambda at, step: {"treasure": found.get(after(at, step), 0.0), "time": -1.0},
    )


@pytest.mark.parametrize("discount", [0.9, 0.99])
@pytest.mark.parametrize(("treasures", "n_on_hull"), [(CONVEX, 10), (CONCAVE, 2)])
def test_vertices_support_the_known_front_of_deep_sea_treasure(treasures, n_on_hull, discount):
    domain = deep_sea(treasures, discount)
    n_steps = np.array(DIVES)
    front = np.column_stack([treasures * discount ** (n_steps - 1), -(1 - discount**n_steps) / (1 - discount)])
    found = vertices(domain, no_limits(domain))
    for weights in np.random.default_rng(0).random((200, 2)):
        assert (found @ weights).max() == pytest.approx((front @ weights).max(), abs=1e-9)
    distances = np.abs(found[:, None] - front[None]).max(axis=2).min(axis=0)
    assert np.count_nonzero(distances < 1e-9) == n_on_hull


# Resource Gathering (Barrett and Narayanan 2008): R gold, D a diamond, H home; an enemy, E, kills in one of ten visits.
FIELD = ("  RE ", "  E D", "     ", "     ", "  H  ")


def resource_gathering(discount):
    def after(at, step):
        y, x = at[0] + step[1], at[1] + step[0]
        y, x = (y, x) if 0 <= y < 5 and 0 <= x < 5 else at[:2]
        return y, x, at[2] or FIELD[y][x] == "R", at[3] or FIELD[y][x] == "D"

    def outcomes(at, step):
        y, x, *load = after(at, step)
        if FIELD[y][x] == "E":
            return [(0.9, (y, x, *load)), (0.1, ("killed", False, False))]
        return [(1.0, ("home", *load) if FIELD[y][x] == "H" else (y, x, *load))]

    return explore(
        (4, 2, False, False),
        lambda at: () if at[0] in ("home", "killed") else STEPS,
        outcomes,
        discount=discount,
        reward=lambda at, step, to: {
            "killed": -float(to[0] == "killed"),
            "gold": float(to[0] == "home" and to[1]),
            "diamond": float(to[0] == "home" and to[2]),
        },
    )


def listed_gatherings(discount):
    """The six trips that MO-Gymnasium lists, with the last step of a trip of n steps discounted n - 1 times."""
    trips = (
        [(10, 1.0, 0, 0, 1)],
        [(12, 0.81, 0, 1, 1), (7, 0.1, -1, 0, 0), (9, 0.09, -1, 0, 0)],
        [(8, 0.81, 0, 1, 0), (3, 0.1, -1, 0, 0), (5, 0.09, -1, 0, 0)],
        [(14, 0.9, 0, 1, 1), (7, 0.1, -1, 0, 0)],
        [(12, 1.0, 0, 1, 0)],
        [(10, 0.9, 0, 1, 0), (7, 0.1, -1, 0, 0)],
    )
    return np.array([sum(p * discount ** (n - 1) * np.array(gained) for n, p, *gained in trip) for trip in trips])


def test_vertices_support_the_known_front_of_resource_gathering():
    domain = resource_gathering(0.9)
    found, listed = vertices(domain, no_limits(domain)), listed_gatherings(0.9)
    for weights in np.random.default_rng(0).random((200, 3)):
        assert (found @ weights).max() == pytest.approx((listed @ weights).max(), abs=1e-9)
    assert np.abs(found[:, None] - listed[None]).max(axis=2).min(axis=0).max() < 1e-9


def test_with_little_discount_a_trip_of_18_steps_joins_the_known_front():
    """It passes no enemy and brings both. At 0.9 a mixture of the two safe trips is better."""
    domain, safe = resource_gathering(0.99), 0.99**17 * np.array([0.0, 1.0, 1.0])
    found = vertices(domain, no_limits(domain))
    assert np.abs(found - safe).max(axis=1).min() < 1e-9
    front = np.vstack([listed_gatherings(0.99), safe])
    for weights in np.random.default_rng(0).random((200, 3)):
        assert (found @ weights).max() == pytest.approx((front @ weights).max(), abs=1e-9)
