"""What the page draws of a domain; and convex sets cut by half-spaces, compared with linear programs."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from playground_support import beyond
from scipy.optimize import linprog
from strategies import SEEDS

import tutelage as tl
from tutelage.playground import grounds
from tutelage.playground.grounds import clipped, corners, described, shadows

CUBE = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
DIRECTIONS = np.random.default_rng(0).normal(size=(6, 3))


@st.composite
def flat_sets(draw: st.DrawFn) -> np.ndarray:
    """(n, 3), points of a set of dimension 0 to 3; some are repeated."""
    rng = np.random.default_rng(draw(SEEDS))
    rank, n = draw(st.integers(0, 3)), draw(st.integers(1, 9))
    inner = rng.integers(-2, 3, size=(n, rank)).astype(float)
    return rng.integers(-3, 4, size=3) + inner @ rng.integers(-2, 3, size=(rank, 3))


@st.composite
def cut_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Such a set and up to three half-spaces; some touch it, contain it or exclude it."""
    points = draw(flat_sets())
    rng = np.random.default_rng(draw(SEEDS))
    normals = rng.integers(-2, 3, size=(draw(st.integers(0, 3)), 3)).astype(float)
    through = points[rng.integers(len(points), size=len(normals))]
    return points, normals, (normals * through).sum(axis=1) + rng.integers(-2, 3, size=len(normals))


def furthest(points, normals, offsets, direction) -> float | None:
    """The maximum in a direction within the cuts, over convex weights of the points; None if the cuts exclude all."""
    found = linprog(
        -points @ direction,
        A_ub=normals @ points.T if len(normals) else None,
        b_ub=offsets if len(normals) else None,
        A_eq=np.ones((1, len(points))),
        b_eq=[1.0],
    )
    assert found.status in (0, 2)
    return -found.fun if found.status == 0 else None


@settings(max_examples=40)
@given(flat_sets())
def test_corners_are_the_fewest_points_with_the_same_hull(points):
    """Every point lies in the hull of the corners, and no corner in the hull of the others, whatever the dimension."""
    found = corners(points)
    for point in points:
        assert beyond(found, point) < 1e-8
    for number, corner in enumerate(found):
        assert (points == corner).all(axis=1).any()
        others = np.delete(found, number, axis=0)
        assert not len(others) or beyond(others, corner) > 1e-6


@settings(max_examples=40)
@given(cut_sets())
def test_what_cuts_leave_reaches_as_far_as_linear_programs_say(problem):
    """Convex sets with the same support function are equal; tested in six directions and along the cuts."""
    points, normals, offsets = problem
    left = clipped(points, normals, offsets)
    for direction in [*DIRECTIONS, *normals]:
        most = furthest(points, normals, offsets, direction)
        if most is None:
            assert len(left) == 0
        else:
            assert (left @ direction).max() == pytest.approx(most, abs=1e-6)


def test_a_cube_without_its_corner_has_three_more():
    """x + y + z <= 5/2 cuts the far corner off, at the middles of its three edges."""
    left = clipped(CUBE, np.ones((1, 3)), np.array([2.5]))
    assert {tuple(corner) for corner in left} == {
        *(tuple(corner) for corner in CUBE[:-1]),
        (0.5, 1.0, 1.0),
        (1.0, 0.5, 1.0),
        (1.0, 1.0, 0.5),
    }


@pytest.mark.parametrize(("offset", "n_corners"), [(-0.5, 0), (0.0, 4), (0.5, 8), (1.0, 8), (2.0, 8)], ids=str)
def test_a_cut_may_miss_touch_or_leave_nothing(offset, n_corners):
    """x <= offset: none of the cube below zero, one face at zero, all of it from one on."""
    assert len(clipped(CUBE, np.array([[1.0, 0.0, 0.0]]), np.array([offset]))) == n_corners


def test_what_is_left_of_nothing_is_nothing():
    """Two cuts that exclude each other leave no corner; a third cut changes nothing."""
    normals, offsets = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]]), np.array([0.25, -0.75, 0.5])
    left = clipped(CUBE, normals, offsets)
    assert left.shape == (0, 3)
    assert [len(polygon) for polygon in shadows(left)] == [0, 0, 0]


@settings(max_examples=25)
@given(flat_sets())
def test_shadows_are_polygons_around_the_projected_points(points):
    """Each pair of axes: the projection's hull, its corners in order around it, so that they can be drawn."""
    found = shadows(points)
    assert len(found) == 3
    for pair, polygon in zip(combinations(range(3), 2), found, strict=True):
        flat, drawn = points[:, list(pair)], np.array(polygon)
        for point in flat:
            assert beyond(drawn, point) < 1e-8
        for corner in drawn:
            assert (flat == corner).all(axis=1).any()
        edges = np.roll(drawn, -1, axis=0) - drawn
        following = np.roll(edges, -1, axis=0)
        turns = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
        if len(drawn) > 2:
            assert (turns > 0).all() or (turns < 0).all()
            assert_allclose(np.abs(turns_in_all(edges)), 2 * np.pi)


def test_a_domain_is_a_grid_where_its_states_are_cells():
    """An object world and a cliff are grids, by the names of their cells; a road map and a queue are not."""
    world = tl.object_world(6, 0).domain("L1")
    found = described(world)["map"]
    assert found["is_grid"] and found["places"][7] == [1.0, -1.0] and found["places"][36] is None
    names = [(row, column) for row in range(2) for column in range(3)]
    steps = np.zeros((6, 2, 6))
    steps[range(6), 0, [1, 2, 2, 4, 5, 5]] = steps[range(6), 1, [3, 4, 0, 3, 4, 0]] = 1.0
    mdp = tl.MDP.from_arrays(steps, np.eye(6)[0], 0.9)
    assert described(tl.Domain(mdp, np.eye(6), state_names=names))["map"]["is_grid"]
    places = np.random.default_rng(0).uniform(0, 9, (37, 2))
    assert not described(replace(world, positions=places))["map"]["is_grid"]
    assert described(replace(world, state_names=[f"place {k}" for k in range(37)]))["map"] is None


def turns_in_all(edges: np.ndarray) -> float:
    """The total turning angle along a polygon; 2 pi for a simple one."""
    angles = np.arctan2(edges[:, 1], edges[:, 0])
    return float(((np.diff(angles, append=angles[0]) + np.pi) % (2 * np.pi) - np.pi).sum())


def test_the_page_refuses_the_files_that_the_server_refuses():
    """The page has the limit too, so that a large file is refused before it is sent."""
    script = (Path(grounds.__file__).parent / "page" / "grounds.js").read_text(encoding="utf-8")
    factors = re.search(r"^const LARGEST = ([\d *]+);$", script, flags=re.MULTILINE)[1].split("*")
    assert np.prod([int(factor) for factor in factors]) == grounds.LARGEST_FILE
