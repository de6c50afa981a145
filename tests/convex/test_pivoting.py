"""Principal pivoting: every entry satisfies its own optimality condition, and other routes find the same point."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear
from strategies import SEEDS

from tutelage.convex import pivoting
from tutelage.convex.pivoting import SeparableProgram, box_minima


def random_program(seed, n, *, spread, with_slopes=True):
    """A positive definite program whose diagonal spans `spread` decades; bounds finite, infinite and of no width."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    unit = 10 ** rng.uniform(-spread / 2, spread / 2, size=n)
    hessian = (root @ root.T + 0.1 * np.eye(n)) * np.outer(unit, unit)
    slope = unit * rng.exponential(size=n) * (rng.random(n) < 0.5) * with_slopes
    kind = rng.integers(4, size=n)
    width = rng.exponential(size=(2, n)) / unit
    lower = np.choose(kind, [-width[0], np.full(n, -np.inf), np.zeros(n), -width[0]])
    upper = np.choose(kind, [width[1], np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)])
    # Without a kink the bounds need not surround zero.
    shift = np.where((slope == 0) & np.isfinite(lower), rng.normal(size=n) / unit, 0.0)
    return SeparableProgram(hessian, 3 * unit * rng.normal(size=n), slope, lower + shift, upper + shift)


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
@given(SEEDS, st.integers(1, 12), st.sampled_from([0.0, 4.0, 12.0]))
def test_every_entry_satisfies_its_optimality_condition(seed, n, spread):
    program = random_program(seed, n, spread=spread)
    rng = np.random.default_rng(seed + 1)
    for start in (np.zeros(n), np.clip(10 * rng.normal(size=n), program.lower, program.upper)):
        assert_optimal(program, program.solve(start))


@pytest.mark.parametrize("seed", range(40))
def test_brute_force_over_all_active_sets_finds_the_same_point(seed):
    program = random_program(seed, 1 + seed % 4, spread=2.0)
    expected = by_enumeration(program)
    assert_allclose(program.solve(np.zeros(len(expected))), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(30))
def test_without_kinks_bounded_least_squares_finds_the_same_point(seed):
    """1/2 z H z + g z = 1/2 |L'z + L^-1 g|^2 + constant, where H = L L'."""
    program = random_program(seed, 1 + seed % 12, spread=0.0, with_slopes=False)
    # The library wants bounds of some width.
    program = SeparableProgram(
        program.hessian, program.gradient, program.slope, program.lower, np.maximum(program.upper, program.lower + 1e-3)
    )
    factor = np.linalg.cholesky(program.hessian)
    target = -np.linalg.solve(factor, program.gradient)
    library = lsq_linear(factor.T, target, (program.lower, program.upper), method="bvls", tol=1e-14)
    assert_allclose(program.solve(np.zeros(len(target))), library.x, rtol=1e-7, atol=1e-8)


def test_entries_of_very_different_scale_are_each_exact():
    """Curvatures 1e-8 and 1e4 side by side, uncoupled: soft thresholding and clipping, to the last digits."""
    curvature = np.array([1e-8, 1e4, 1e-8, 1e4])
    program = SeparableProgram(
        np.diag(curvature),
        np.array([-3e-8, -5e4, 2e-8, 1e4]),
        np.array([1e-8, 2e4, 3e-8, 0.0]),
        np.array([-np.inf, -np.inf, -1.0, 0.5]),
        np.array([np.inf, 2.0, 1.0, np.inf]),
    )
    assert_allclose(program.solve(np.ones(4)), [2.0, 2.0, 0.0, 0.5], rtol=1e-14)


@given(SEEDS, st.integers(1, 8))
def test_the_minimum_is_where_it_stays(seed, n):
    program = random_program(seed, n, spread=4.0)
    first = program.solve(np.zeros(n))
    assert_allclose(program.solve(first), first, rtol=1e-10, atol=1e-12 * np.abs(first).max())


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize("all_at_once", [0, 6])
def test_several_programs_at_once_have_the_minima_of_each(n, all_at_once, monkeypatch):
    """Whether misplaced entries change all at once or one at a time, from a start inside or on the bounds."""
    monkeypatch.setattr(pivoting, "ALL_AT_ONCE", all_at_once)
    monkeypatch.setattr(pivoting, "MOST_ROUNDS", 2_000)
    rng = np.random.default_rng(n)
    programs = [random_program(seed, n, spread=6, with_slopes=False) for seed in range(200)]
    starts = [np.clip(rng.normal(size=n), one.lower, one.upper) for one in programs]
    hessian = np.array([one.hessian for one in programs])
    gradient = np.array([one.gradient + one.hessian @ start for one, start in zip(programs, starts, strict=True)])
    lower = np.array([one.lower - start for one, start in zip(programs, starts, strict=True)])
    upper = np.array([one.upper - start for one, start in zip(programs, starts, strict=True)])
    steps, is_found = box_minima(hessian, gradient, lower, upper)
    assert is_found.all()
    for one, start, step in zip(programs, starts, steps, strict=True):
        unit = 1 / np.sqrt(np.diag(one.hessian))
        assert_allclose((start + step) / unit, one.solve(start) / unit, atol=1e-7)


def test_programs_on_which_changes_all_at_once_cycle():
    """Nearly singular ones; entries then change one at a time."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(200, 9, 3))
    hessian = root @ root.transpose(0, 2, 1) + 1e-2 * np.eye(9)
    gradient, lower, upper = rng.normal(size=(200, 9)), -rng.exponential(size=(200, 9)), rng.exponential(size=(200, 9))
    steps, is_found = box_minima(hessian, gradient, lower, upper)
    assert is_found.all()
    for one, step in enumerate(steps):
        assert_optimal(SeparableProgram(hessian[one], gradient[one], np.zeros(9), lower[one], upper[one]), step)


def test_a_minimum_that_was_not_found_is_said(monkeypatch):
    monkeypatch.setattr(pivoting, "MOST_ROUNDS", 1)
    hessian = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    _, is_found = box_minima(hessian, np.array([[5.0, 0.0], [0.1, 0.1]]), np.full((2, 2), -1.0), np.full((2, 2), 1.0))
    assert is_found.tolist() == [False, True]
