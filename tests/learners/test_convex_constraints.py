"""Convex preferences by hand: gradients, Hessians and moving tangents, against differences."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference

import tutelage as tl
from tutelage.learners.convex_constraints import ConvexConstraint, Moving, distance_constraint, quadratic_constraint

CONSTRAINTS = [
    distance_constraint("near", [1.0, -2.0]),
    distance_constraint("near, in other units", [1.0, -2.0], scale=[3.0, 0.5]),
    quadratic_constraint("bowl", [[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0]),
    quadratic_constraint("not symmetric", [[2.0, 1.0], [0.0, 1.0]], [0.0, 0.0]),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
def test_the_gradient_of_a_convex_constraint_is_that_of_central_differences(constraint):
    for point in np.random.default_rng(0).normal(size=(5, 2)):
        assert_allclose(constraint.slope(point), central_difference(constraint.value, point), atol=1e-8)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
def test_the_hessian_of_a_convex_constraint_is_that_of_central_differences(constraint):
    for point in np.random.default_rng(1).normal(size=(5, 2)):
        rows = [central_difference(lambda x, i=i: constraint.slope(x)[i], point) for i in range(2)]
        unknown = replace(constraint, second=None)
        for given in (constraint, unknown):
            assert_allclose(given.hessian(point, np.full(2, 1e-5)), rows, atol=1e-6)


def test_beside_the_end_of_its_domain_a_constraint_has_no_curvature_to_use():
    point, steps = np.array([4.0, 2.0]), np.full(2, 1e-5)
    walled = ConvexConstraint("wall", lambda x: -np.log(x[0]), lambda x: np.array([-1 / (x[0] >= 4.0), 0.0]))
    assert not walled.hessian(point, steps).any()


def test_a_distance_is_least_at_its_centre():
    near = distance_constraint("near", [1.0, -2.0], scale=[3.0, 0.5])
    centre = np.array([1.0, -2.0])
    assert near.value(centre) == 0.0 and not near.slope(centre).any()
    assert near.value(np.array([2.0, 6.0])) == pytest.approx(5.0)


def test_the_derivatives_of_moving_tangents_are_those_of_differences():
    functions = (
        tl.distance_constraint("near", [1.0, -2.0]),
        tl.quadratic_constraint("bowl", [[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0]),
    )
    moving, reached = Moving(functions, np.array([3.0, 1.0]), np.full(2, 4.0)), np.array([2.0, 2.0])
    x = np.array([0.7, 1.3, 0.5, -0.2])
    touch = moving.touch(x)
    for i in range(2):
        slope = central_difference(lambda z, i=i: moving.touch(z).weights[i], x)
        assert_allclose(touch.jacobian[i], slope, atol=1e-6)
    # With mu_c = reached, the derivative of the dual is that of weights @ reached + value.
    slope = central_difference(lambda z: float(moving.touch(z).weights @ reached) + moving.touch(z).value, x)
    assert_allclose(touch.jacobian.T @ reached + touch.slope, slope, atol=1e-6)
