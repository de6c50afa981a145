"""Steps on norm balls: the exact minimum of a quadratic plus simple terms, for every pair of kinds of term."""

import math
import warnings
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import SEEDS, some_of

from tutelage.convex.blocks import Block, contained, free_directions, model_minimum, slices, terms

NORMS = (1.0, 2.0, math.inf)
# signed, norm, radius, slope, curvature, grouped. Groups belong to entries of one sign, and not to a box.
KINDS = [
    kind
    for kind in product((True, False), NORMS, (0.7, math.inf), (0.0, 0.4), (0.0, 0.5), (False, True))
    if not (kind[5] and (kind[0] or math.isinf(kind[1])))
]


def make_block(rng, n, is_signed, norm, radius, slope, curvature, is_grouped):
    """One block; an unsigned one may be drawn by its slope as well as held back."""
    sign = 1.0 if is_signed else np.where(rng.random(n) < 0.3, -1.0, 1.0)
    groups = np.sort(rng.integers(2, size=n)) if is_grouped else np.arange(n)
    groups = np.unique(groups, return_inverse=True)[1]
    return Block(slope * rng.exponential(size=n) * sign, radius, norm, is_signed, groups, curvature)


def random_model(rng, n, *, pull=2.0):
    root = rng.normal(size=(n, n))
    return pull * rng.normal(size=n), root @ root.T + 0.1 * np.eye(n)


def by_cone_program(gradient, hessian, blocks, x):
    z = cp.Variable(len(x))
    objective = gradient @ z + 0.5 * cp.sum_squares(np.linalg.cholesky(hessian).T @ (z - x))
    rules = []
    for block, part in zip(blocks, slices(blocks), strict=True):
        size = cp.abs(z[part]) if block.is_signed else z[part]
        objective += block.slope @ size + block.curvature / 2 * cp.sum_squares(z[part])
        if not block.is_signed:
            rules.append(z[part] >= 0)
        if math.isfinite(block.radius):
            add_up = (np.arange(block.groups.max() + 1)[:, None] == block.groups).astype(float)
            rules.append(cp.norm(add_up @ z[part], block.norm) <= block.radius)
    problem = cp.Problem(cp.Minimize(objective), rules)
    with warnings.catch_warnings():
        # Clarabel may stop short of 1e-12 and say so.
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return z.value


def feasible_points(rng, blocks, count):
    n = sum(len(block.slope) for block in blocks)
    for scale in 10 ** rng.uniform(-2, 1, size=count):
        yield contained(blocks, scale * rng.normal(size=n))


def natural_step(gradient, blocks, x):
    """argmin over z of 1/2 |z - (x - gradient)|^2 + h(z): equal to x exactly at the minimum of f + h."""
    return model_minimum(gradient, np.eye(len(x)), blocks, x)


def assert_minimal(rng, gradient, hessian, blocks, x, z):
    """In the set, and <grad f(z), v - z> + h(v) - h(z) >= 0 for feasible v (for convex h this is the minimum)."""
    for block, part in zip(blocks, slices(blocks), strict=True):
        assert block.is_signed or (z[part] >= 0).all()
        assert block.size(z[part]) <= block.radius * (1 + 1e-12)
    push = gradient + hessian @ (z - x)
    for v in feasible_points(rng, blocks, 20):
        gain = push @ (v - z) + terms(blocks, v) - terms(blocks, z)
        assert gain >= -1e-9 * (1 + np.abs(push) @ (np.abs(v) + np.abs(z)))


@pytest.mark.parametrize("first", some_of(range(len(KINDS)), range(0, len(KINDS), 5)))
def test_every_pair_of_blocks_is_minimised(first):
    """The variational inequality for every other pair, in either order, and the cone program for some."""
    rng = np.random.default_rng(first)
    for second in range(first, len(KINDS), 2):
        kinds = [KINDS[first], KINDS[second]][:: rng.choice([-1, 1])]
        blocks = [make_block(rng, 3, *kinds[0]), make_block(rng, 2, *kinds[1])]
        gradient, hessian = random_model(rng, 5)
        x = contained(blocks, rng.normal(size=5))
        z = model_minimum(gradient, hessian, blocks, x)
        assert_minimal(rng, gradient, hessian, blocks, x, z)
        if (first + second) % 12 == 0:
            assert_allclose(z, by_cone_program(gradient, hessian, blocks, x), atol=1e-6)


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_the_natural_step_stays_exactly_at_minimisers(seed, first, second):
    """x minimises f + h if and only if it is its own natural step; away from it the step moves."""
    rng = np.random.default_rng(seed)
    blocks = [make_block(rng, 3, *first), make_block(rng, 3, *second)]
    gradient, hessian = random_model(rng, 6)
    x = contained(blocks, rng.normal(size=6))
    z = model_minimum(gradient, hessian, blocks, x)
    push = gradient + hessian @ (z - x)
    assert_allclose(natural_step(push, blocks, z), z, atol=1e-10 * (1 + np.abs(push).max()))
    elsewhere = contained(blocks, z + 0.1 * rng.normal(size=6))
    moved = natural_step(gradient + hessian @ (elsewhere - x), blocks, elsewhere)
    if np.abs(elsewhere - z).max() > 1e-6:
        assert np.abs(moved - elsewhere).max() > 1e-9


@pytest.mark.parametrize("flatness", [1e-6, 1e-9])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("norm", NORMS)
def test_a_flat_model_ends_where_the_linear_function_is_least(norm, seed, flatness):
    """A corner of the box, a corner of the 1-ball, the point of the sphere opposite the gradient."""
    rng = np.random.default_rng(seed)
    n, radius = 4, float(10 ** rng.uniform(-1, 1))
    gradient = rng.normal(size=n)
    block = Block(np.zeros(n), radius, norm, True, np.arange(n))
    least = {
        1.0: -radius * np.sign(gradient) * (np.arange(n) == np.abs(gradient).argmax()),
        2.0: -radius * gradient / np.linalg.norm(gradient),
        math.inf: -radius * np.sign(gradient),
    }[norm]
    found = model_minimum(gradient, flatness * np.eye(n), [block], np.zeros(n))
    assert_allclose(found, least, atol=1e-4 * radius * flatness / 1e-9)
    assert_minimal(rng, gradient, flatness * np.eye(n), [block], np.zeros(n), found)


@given(SEEDS, st.sampled_from(KINDS), st.floats(-20, 20))
def test_other_units_give_the_same_term(seed, kind, exponent):
    rng = np.random.default_rng(seed)
    block, unit = make_block(rng, 3, *kind), 2.0 ** round(exponent)
    z = rng.normal(size=3) if block.is_signed else rng.random(3)
    assert block.in_units(unit).value(z) == pytest.approx(block.value(unit * z), rel=1e-12, abs=1e-300)
    assert_allclose(unit * block.in_units(unit).contain(z / unit), block.contain(z), rtol=1e-12)


@given(SEEDS, st.sampled_from(KINDS))
def test_containing_a_point_of_the_set_leaves_it_alone(seed, kind):
    block = make_block(np.random.default_rng(seed), 3, *kind)
    inside = block.contain(np.random.default_rng(seed + 1).normal(size=3))
    assert block.size(inside) <= block.radius * (1 + 1e-15)
    assert_allclose(block.contain(inside), inside, rtol=1e-15)


@pytest.mark.parametrize("first", some_of(range(len(KINDS)), range(0, len(KINDS), 5)))
def test_the_minimum_moves_as_its_free_directions_say(first):
    """dx = -Z (Z' (hessian + B) Z)^-1 Z' dg, against minima for nearby gradients, away from kinks."""
    rng = np.random.default_rng(100 + first)
    n_checked = 0
    others = some_of(range(len(KINDS)), range(first % 4, len(KINDS), 4))
    for second in others:
        blocks = [make_block(rng, 3, *KINDS[first]), make_block(rng, 2, *KINDS[second])]
        gradient, hessian = random_model(rng, 5)
        start, push = np.zeros(5), rng.normal(size=5)

        def minimum(t, blocks=blocks, gradient=gradient, hessian=hessian, start=start, push=push):
            return model_minimum(gradient + t * push, hessian, blocks, start)

        z, ahead, behind = minimum(0.0), minimum(1e-5), minimum(-1e-5)
        forward, backward = (ahead - z) / 1e-5, (z - behind) / 1e-5
        if np.abs(forward - backward).max() > 1e-3:
            continue  # a kink: no derivative
        free, curved = free_directions(blocks, z, gradient + hessian @ z)
        curvature = free.T @ (hessian + curved) @ free
        moved = -free @ np.linalg.solve(curvature, free.T @ push)
        assert_allclose(moved, (ahead - behind) / 2e-5, atol=1e-4 * (1 + np.abs(moved).max()))
        n_checked += 1
    assert n_checked >= len(others) // 2
