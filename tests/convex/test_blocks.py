"""Exact minima of small quadratics plus simple terms: every pair of kinds of term, boxes, and other routes."""

import math
import warnings
from dataclasses import dataclass
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear
from strategies import SEEDS, some_of

from tutelage.convex.blocks import (
    Block,
    box_minimum,
    contained,
    model_minimum,
    parts,
    sensitivity,
    terms,
)

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
    for block, part in parts(blocks):
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
    for block, part in parts(blocks):
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
def test_the_minimum_moves_as_its_sensitivity_says(first):
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
        moved = -sensitivity(blocks, z, gradient + hessian @ z, hessian) @ push
        assert_allclose(moved, (ahead - behind) / 2e-5, atol=1e-4 * (1 + np.abs(moved).max()))
        n_checked += 1
    assert n_checked >= len(others) // 2


@dataclass(frozen=True)
class Program:
    """1/2 z @ hessian @ z + gradient @ z + slope @ |z| on a box."""

    hessian: np.ndarray
    gradient: np.ndarray
    slope: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def solve(self, start):
        """By the public functions: several blocks where there are kinks, otherwise a step from the start."""
        if not self.slope.any():
            push = self.gradient + self.hessian @ start
            step = box_minimum(self.hessian, push, self.lower - start, self.upper - start)
            z = np.where(step == self.lower - start, self.lower, start + step)
            return np.clip(np.where(step == self.upper - start, self.upper, z), self.lower, self.upper)
        blocks = [Block(self.slope[[i]], self.upper[i], np.inf, True, np.arange(1)) for i in range(len(start))]
        return model_minimum(self.gradient + self.hessian @ start, self.hessian, blocks, start)


def random_program(seed, n, *, spread, has_kinks=True):
    """A positive definite program whose diagonal spans `spread` decades; bounds finite, infinite and of no width.

    With kinks the bounds are symmetric.
    """
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    unit = 10 ** rng.uniform(-spread / 2, spread / 2, size=n)
    hessian = (root @ root.T + 0.1 * np.eye(n)) * np.outer(unit, unit)
    slope = unit * rng.exponential(size=n) * (rng.random(n) < 0.5) * has_kinks
    kind = rng.integers(4, size=n)
    width = rng.exponential(size=(2, n)) / unit
    gradient = 3 * unit * rng.normal(size=n)
    if has_kinks:
        upper = np.where(kind < 2, np.inf, width[0])
        return Program(hessian, gradient, slope, -upper, upper)
    lower = np.choose(kind, [-width[0], np.full(n, -np.inf), np.zeros(n), -width[0]])
    upper = np.choose(kind, [width[1], np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)])
    # Without a kink the bounds need not surround zero.
    shift = np.where(np.isfinite(lower), rng.normal(size=n) / unit, 0.0)
    return Program(hessian, gradient, slope, lower + shift, upper + shift)


def assert_optimal(program, z):
    """Within the bounds; the one-sided derivatives do not point downhill, each relative to the terms it is made of."""
    assert ((z >= program.lower) & (z <= program.upper)).all()
    push = program.hessian @ z + program.gradient
    noise = 1e-10 * (np.abs(program.hessian) @ np.abs(z) + np.abs(program.gradient) + program.slope)
    ahead = push + np.where(z >= 0, program.slope, -program.slope)
    behind = push + np.where(z > 0, program.slope, -program.slope)
    ulps = 1e-15 * np.abs(z)
    assert (ahead >= -noise)[z < program.upper - ulps].all()
    assert (behind <= noise)[z > program.lower + ulps].all()


def by_enumeration(program):
    """The minimum over every way of resting at a bound or at the kink, or being free on one side of it."""
    best, least = None, np.inf
    places = [
        [place for place in (low, high) if np.isfinite(place)] + ([0.0] if slope > 0 else []) + ["below", "above"]
        for low, high, slope in zip(program.lower, program.upper, program.slope, strict=True)
    ]
    for guess in product(*places):
        is_free = np.array([isinstance(place, str) for place in guess])
        side = np.array([{"below": -1.0, "above": 1.0}.get(place, 0.0) for place in guess])
        z = np.array([0.0 if isinstance(place, str) else place for place in guess])
        pull = program.gradient + side * program.slope + program.hessian @ z
        z[is_free] = np.linalg.solve(program.hessian[np.ix_(is_free, is_free)], -pull[is_free])
        value = 0.5 * z @ program.hessian @ z + program.gradient @ z + program.slope @ np.abs(z)
        if value < least and ((z >= program.lower) & (z <= program.upper)).all():
            best, least = z, value
    return best


@settings(max_examples=300)
@given(SEEDS, st.integers(1, 12), st.sampled_from([0.0, 4.0, 12.0]), st.booleans())
def test_every_entry_satisfies_its_optimality_condition(seed, n, spread, has_kinks):
    program = random_program(seed, n, spread=spread, has_kinks=has_kinks)
    # The rounding error of a step is that of its start.
    far = 10 * np.random.default_rng(seed + 1).normal(size=n) / np.sqrt(np.diag(program.hessian))
    for start in (np.zeros(n), far):
        assert_optimal(program, program.solve(np.clip(start, program.lower, program.upper)))


@pytest.mark.parametrize("has_kinks", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_brute_force_over_all_active_sets_finds_the_same_point(seed, has_kinks):
    program = random_program(seed, 1 + seed % 4, spread=2.0, has_kinks=has_kinks)
    expected = by_enumeration(program)
    found = program.solve(np.clip(np.zeros(len(expected)), program.lower, program.upper))
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(30))
def test_without_kinks_bounded_least_squares_finds_the_same_point(seed):
    """1/2 z H z + g z = 1/2 |L'z + L^-1 g|^2 + constant, where H = L L'."""
    program = random_program(seed, 1 + seed % 12, spread=0.0, has_kinks=False)
    # The library wants bounds of some width.
    upper = np.maximum(program.upper, program.lower + 1e-3)
    program = Program(program.hessian, program.gradient, program.slope, program.lower, upper)
    factor = np.linalg.cholesky(program.hessian)
    target = -np.linalg.solve(factor, program.gradient)
    library = lsq_linear(factor.T, target, (program.lower, program.upper), method="bvls", tol=1e-14)
    start = np.clip(np.zeros(len(target)), program.lower, program.upper)
    assert_allclose(program.solve(start), library.x, rtol=1e-7, atol=1e-8)


def test_entries_of_very_different_scale_are_each_exact():
    """Curvatures 1e-8 and 1e4 side by side, uncoupled: soft thresholding and clipping, to the last digits."""
    program = Program(
        np.diag([1e-8, 1e4, 1e-8, 1e4]),
        np.array([-3e-8, -5e4, 2e-8, 1e4]),
        np.array([1e-8, 2e4, 3e-8, 0.0]),
        np.array([-np.inf, -2.0, -1.0, -0.5]),
        np.array([np.inf, 2.0, 1.0, 0.5]),
    )
    assert_allclose(program.solve(np.zeros(4)), [2.0, 2.0, 0.0, -0.5], rtol=1e-12)


@given(SEEDS, st.integers(1, 8), st.booleans())
def test_the_minimum_is_where_it_stays(seed, n, has_kinks):
    program = random_program(seed, n, spread=4.0, has_kinks=has_kinks)
    first = program.solve(np.clip(np.zeros(n), program.lower, program.upper))
    assert_allclose(program.solve(first), first, rtol=1e-10, atol=1e-12 * np.abs(first).max())


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize("n_together", [0, 6])
def test_boxes_of_any_units_have_their_minima(n, n_together):
    """Whether misplaced entries change all at once or one at a time, from a start inside or on the bounds."""
    rng = np.random.default_rng(n)
    for seed in range(200):
        program = random_program(seed, n, spread=6, has_kinks=False)
        start = np.clip(rng.normal(size=n), program.lower, program.upper)
        push, ends = program.gradient + program.hessian @ start, (program.lower - start, program.upper - start)
        step = box_minimum(program.hessian, push, *ends, n_together=n_together)
        assert_optimal(Program(program.hessian, push, np.zeros(n), *ends), step)


def test_programs_on_which_changes_all_at_once_cycle():
    """Nearly singular ones; entries then change one at a time."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(200, 9, 3))
    hessian = root @ root.transpose(0, 2, 1) + 1e-2 * np.eye(9)
    gradient, lower, upper = rng.normal(size=(200, 9)), -rng.exponential(size=(200, 9)), rng.exponential(size=(200, 9))
    for k in range(200):
        step = box_minimum(hessian[k], gradient[k], lower[k], upper[k])
        assert_optimal(Program(hessian[k], gradient[k], np.zeros(9), lower[k], upper[k]), step)


def test_a_minimum_that_was_not_found_is_said():
    ends = np.full(2, -1.0), np.full(2, 1.0)
    assert box_minimum(np.eye(2), np.array([5.0, 0.0]), *ends, max_rounds=1) is None
    assert box_minimum(np.eye(2), np.array([0.1, 0.1]), *ends, max_rounds=1) is not None


@pytest.mark.parametrize("seed", [8, 9])
def test_many_correlated_entries_take_many_rounds(seed):
    """After 200 rounds their active set is not known; a step that is not exact loses the digits of small entries."""
    rng, n = np.random.default_rng(seed), 41
    root = rng.normal(size=(n, 6))
    hessian, gradient = root @ root.T + 1e-6 * np.eye(n), 10 * rng.normal(size=n)
    lower, upper = (rng.exponential(size=n) * 10.0 ** rng.uniform(-3, 2, size=n) for _ in range(2))
    assert box_minimum(hessian, gradient, -lower, upper, max_rounds=200) is None
    step = box_minimum(hessian, gradient, -lower, upper)
    assert_optimal(Program(hessian, gradient, np.zeros(n), -lower, upper), step)


def test_a_singular_quadratic_on_a_box_is_still_minimised():
    """Curvature that rounding made singular: the least 1/2 s^2 + 2 s, with s the sum of two entries in [-1, 1], is -2.

    A library refuses the linear system, and the learner that asks must not see that.
    """
    step = box_minimum(np.ones((2, 2)), np.full(2, 2.0), np.full(2, -1.0), np.full(2, 1.0))
    assert_allclose(0.5 * step.sum() ** 2 + 2 * step.sum(), -2.0, atol=1e-9)
    assert (np.abs(step) <= 1).all()
