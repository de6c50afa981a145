"""The printed Frank-Wolfe variant: closed forms, the standard method with linear constraints, and where it stops."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import central_difference
from scipy.optimize import linprog

from tutelage.convex import frank_wolfe
from tutelage.convex.frank_wolfe import Evaluation, NonlinearProgram
from tutelage.outcomes import Ended

TOLERANCES = {"feasibility_tolerance": 1e-9, "stop_tolerance": 1e-9}


def program(value, excess=lambda x: np.zeros(0), *, lower, upper):
    """f and h as plain functions, with numerical derivatives; the source is the point itself."""

    def evaluate(x, near):
        return Evaluation(float(value(x)), np.asarray(excess(x), dtype=float), x.copy())

    def derivatives(here):
        return central_difference(value, here.source), central_difference(excess, here.source).T

    return NonlinearProgram(evaluate, derivatives, np.asarray(lower, dtype=float), np.asarray(upper, dtype=float))


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_function_on_a_box_goes_to_its_vertex_in_one_step(seed):
    rng = np.random.default_rng(seed)
    slope, lower = rng.normal(size=4), rng.normal(size=4)
    upper = lower + rng.uniform(0.5, 2, size=4)
    found = frank_wolfe.maximise(
        program(lambda x: slope @ x, lower=lower, upper=upper), (lower + upper) / 2, **TOLERANCES
    )
    assert_allclose(found.answer.x, np.where(slope > 0, upper, lower), atol=1e-12)
    assert (found.n_steps, found.ended) == (1, Ended.CONVERGED)
    assert found.residual <= 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_a_concave_quadratic_is_maximised_and_the_gap_bounds_what_is_missing(seed):
    """Concavity: f* - f(x) <= g @ (v - x), the bound of the standard method, up to the error of the differences."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-0.5, 1.5, size=3)
    best = -(((np.clip(centre, 0, 1) - centre) ** 2).sum())
    found = frank_wolfe.maximise(
        program(lambda x: -((x - centre) ** 2).sum(), lower=np.zeros(3), upper=np.ones(3)),
        np.full(3, 0.5),
        **TOLERANCES,
    )
    assert -1e-9 <= best - found.answer.here.value <= found.residual + 1e-4
    assert best - found.answer.here.value <= 1e-3


def test_a_maximum_inside_the_box_is_reached():
    centre = np.array([0.3, 0.6])
    found = frank_wolfe.maximise(
        program(lambda x: -((x - centre) ** 2).sum(), lower=np.zeros(2), upper=np.ones(2)),
        np.zeros(2),
        feasibility_tolerance=0.0,
        stop_tolerance=1e-12,
    )
    assert_allclose(found.answer.x, centre, atol=1e-3)
    assert found.ended in (Ended.SETTLED, Ended.STEP_LIMIT)


@pytest.mark.parametrize("seed", range(5))
def test_with_linear_constraints_a_linear_function_takes_one_step_to_the_optimum_of_the_linear_program(seed):
    """Appendix G's remark: linearisation is exact, so this is the standard method."""
    rng = np.random.default_rng(seed)
    slope, rows = rng.normal(size=4), rng.normal(size=(3, 4))
    bound = rng.uniform(0.1, 1.0, size=3)
    found = frank_wolfe.maximise(
        program(lambda x: slope @ x, lambda x: rows @ x - bound, lower=-np.ones(4), upper=np.ones(4)),
        np.zeros(4),
        feasibility_tolerance=1e-7,
        stop_tolerance=1e-5,
    )
    exact = linprog(-slope, A_ub=rows, b_ub=bound, bounds=[(-1, 1)] * 4)
    assert found.answer.here.value == pytest.approx(-exact.fun, abs=1e-4)
    assert found.answer.here.violation <= 1e-7
    assert found.n_steps <= 2


def test_with_a_linear_constraint_a_quadratic_approaches_its_closed_form_as_the_standard_method_does():
    """The point of x + y + z <= 1 nearest to (1, 1, 1) is (1/3, 1/3, 1/3), with -4/3.

    Standard Frank-Wolfe is within 2 L D^2 / (t + 2) after t steps; here L = 2 and D^2 = 2.
    """
    found = frank_wolfe.maximise(
        program(lambda x: -((x - 1) ** 2).sum(), lambda x: [x.sum() - 1], lower=np.zeros(3), upper=np.ones(3)),
        np.array([0.5, 0.0, 0.0]),
        **TOLERANCES,
    )
    missing = -4 / 3 - found.answer.here.value
    assert -1e-8 <= missing <= 2 * 2 * 2 / (found.n_steps + 2)
    assert missing <= found.residual
    assert_allclose(found.answer.x, np.full(3, 1 / 3), atol=2e-2)
    assert found.answer.here.violation <= 1e-9


DISC = {"value": lambda x: x.sum(), "excess": lambda x: [x @ x - 1], "lower": np.zeros(2), "upper": np.ones(2)}


def test_the_line_search_stops_where_the_disc_does():
    """From the centre straight to (1, 1), as far as x^2 + y^2 <= 1 allows."""
    found = frank_wolfe.maximise(program(**DISC), np.zeros(2), **TOLERANCES)
    # Golden sections know the end of the feasible points to 1/20 of the way times 0.62^12, and value to twice that.
    assert np.sqrt(2) - 3.2e-4 <= found.answer.here.value <= np.sqrt(2)
    assert found.answer.here.violation <= 1e-9


def test_on_a_curved_edge_the_printed_method_settles_short_of_the_maximum():
    """At (1, 0) the tangent leaves the disc at once: f stays at 1, though sqrt(2) can be had."""
    found = frank_wolfe.maximise(program(**DISC), np.array([1.0, 0.0]), **TOLERANCES)
    assert found.answer.here.value == pytest.approx(1.0, abs=1e-3)
    assert found.ended is Ended.SETTLED
    assert found.residual > 0.5


def test_a_start_that_is_not_feasible_is_restored_and_then_climbed_from():
    outside = program(lambda x: -x.sum(), lambda x: [1 - x.sum()], lower=np.zeros(2), upper=np.ones(2))
    found = frank_wolfe.maximise(outside, np.zeros(2), **TOLERANCES)
    assert found.answer.here.violation <= 1e-9
    assert found.value == pytest.approx(-1.0, abs=1e-4)


def test_a_curved_constraint_is_reached_from_outside():
    ring = program(lambda x: 0.0, lambda x: [0.81 - x @ x, x @ x - 1], lower=np.zeros(2), upper=np.ones(2))
    for start in ([0.1, 0.2], [1.0, 1.0], [0.95, 0.0]):
        found = frank_wolfe.maximise(ring, np.array(start), **TOLERANCES)
        assert (found.ended, found.residual) == (Ended.CONVERGED, 0.0)
        assert 0.9 - 1e-8 <= np.linalg.norm(found.answer.x) <= 1 + 1e-8
    assert_array_equal(found.answer.x, [0.95, 0.0])


def test_it_settles_at_the_least_violation_where_nothing_is_feasible():
    """x + y >= 3 in the unit square: at best one is missing."""
    never = program(lambda x: 0.0, lambda x: [3 - x.sum()], lower=np.zeros(2), upper=np.ones(2))
    found = frank_wolfe.maximise(never, np.zeros(2), **TOLERANCES)
    assert found.ended is Ended.SETTLED
    assert found.residual == pytest.approx(1.0)


def test_a_corner_that_just_satisfies_a_constraint_is_its_own_vertex():
    """-x / 2 - y <= -10 in [0, 10] x [0, 5] holds at one corner only, also with an entry that is rounding."""
    rows = np.array([[-0.5, -1.0, 2e-10]])
    tight = program(lambda x: x[2], lambda x: rows @ x + 10, lower=np.zeros(3), upper=[10.0, 5.0, 10.0])
    x = np.array([10.0, 5.0, 0.0])
    exact = replace(tight, derivatives=lambda _: (np.array([-1.0, -1.0, 1.0]), rows))
    vertex, _ = frank_wolfe.direction_vertex(exact, x, tight.evaluate(x, None), 0.0)
    assert_allclose(vertex[:2], [10, 5], atol=1e-8)
    assert 0 <= vertex[2] <= 10
    assert (rows @ vertex + 10 <= 1e-8).all()


def test_the_only_feasible_point_is_its_own_vertex_where_rounding_hides_it():
    """Of a 10x10 world without an allowance: features that are hardly met have derivatives of 1e-17 beside 1e-7."""
    x = np.array([0, 0, 10, 9.99999996, 10, 0, 4.99999999, 5])
    row = [2.147e-21, 3.07e-17, -3.951e-07, -2.147e-21, -3.07e-17, 3.951e-07, -2.739e-18, -7.819e-07]
    gradient = np.array([8.2e-22, 2.5e-13, 8.6e-3, -8.2e-22, -2.5e-13, -8.6e-3, 1.9e-19, 7.9e-8])
    upper = np.repeat([10.0, 5.0], [6, 2])
    hidden = program(lambda x: 0.0, lambda x: [7.87e-7], lower=np.zeros(8), upper=upper)
    exact = replace(hidden, derivatives=lambda _: (gradient, np.array([row])))
    vertex, _ = frank_wolfe.direction_vertex(exact, x, hidden.evaluate(x, None), 1e-6)
    assert_allclose(vertex[[2, 5, 7]], [10, 0, 5], atol=1e-6)
    assert (vertex >= 0).all() and (vertex <= upper).all()


def test_a_flat_function_has_converged_where_it_starts():
    found = frank_wolfe.maximise(program(lambda x: 7.0, lower=[0.0], upper=[1.0]), np.array([0.25]), **TOLERANCES)
    assert (found.n_steps, found.residual, found.ended) == (0, 0.0, Ended.CONVERGED)
    assert_array_equal(found.answer.x, [0.25])
