"""Penalties and convex preferences by hand: costs, excesses, gradients, and the multipliers of tangents."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference, lattice

from tutelage.learners.convex_constraints import ConvexConstraint, distance_constraint, quadratic_constraint
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.tangents import ConvexTangents
from tutelage.model.mdp import Domain

DOMAIN = Domain(lattice(2, discount=0.9), np.eye(4)[:, :2], np.eye(4)[:, 2:])


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


@pytest.mark.parametrize(("norm", "size"), [(1, 7.0), (2, 5.0), (math.inf, 4.0)])
def test_costs_by_hand(norm, size):
    """Beyond an allowance of one, a deviation of (4, -5) is (3, 4), and preferences of (4, 5) are too."""
    mismatch = Mismatch(norm=norm, penalty=10.0, allowance=1.0).on(DOMAIN)
    deviation = np.array([4.0, -5.0])
    assert_allclose(mismatch.excess(deviation), [3.0, 4.0])
    assert_allclose(mismatch.excess(np.array([0.5, -1.5])), [0.0, 0.5])
    assert mismatch.cost(deviation) == pytest.approx(10 * size)
    constraints = Preference(norm=norm, penalty=10.0, allowance=[1.0, 1.0]).on(DOMAIN)
    assert_allclose(constraints.excess(np.array([4.0, 5.0])), [3.0, 4.0])
    assert_allclose(constraints.excess(np.array([0.5, 1.5])), [0.0, 0.5])
    assert constraints.preference.cost(np.array([3.0, 4.0])) == pytest.approx(10 * size)
    if norm == 2:
        squared = Mismatch(norm=2, penalty=10.0, allowance=1.0, squared=True).on(DOMAIN)
        assert squared.cost(deviation) == pytest.approx(250.0)


def test_the_multipliers_of_a_constraint_s_tangents_are_summed():
    constraints = Preference(allowance=1.0, functions=(distance_constraint("near", [0.0, 0.0]),)).on(DOMAIN)
    tangents = ConvexTangents(constraints, np.ones((4, 2)), np.ones(4), np.array([0, 1, 2, 2]))
    assert_allclose(tangents.by_constraint(np.array([1.0, 2.0, 3.0, 5.0])), [1.0, 2.0, 8.0])


def test_a_tangent_touches_its_function_and_lies_below_it():
    ball = distance_constraint("near", [0.0, 0.0])
    constraints = Preference(rows=np.zeros((0, 2)), allowance=[1.0], functions=(ball,)).on(DOMAIN)
    point = np.array([3.0, 4.0])
    tangents, multipliers = ConvexTangents.opening(constraints).fixed().tightened(point, np.zeros(1))
    assert len(multipliers) == len(tangents.offsets) == 2
    normal, offset = tangents.normals[-1], tangents.offsets[-1]
    # g(x) - allowance >= normal @ x - offset, with equality at the point.
    assert normal @ point - offset == pytest.approx(ball.value(point) - 1.0)
    for other in np.random.default_rng(0).normal(size=(20, 2)) * 5:
        assert normal @ other - offset <= ball.value(other) - 1.0 + 1e-12


def test_a_moved_tangent_touches_where_it_moved_to():
    ball = distance_constraint("near", [0.0, 0.0])
    opening = ConvexTangents.opening(Preference(rows=np.zeros((0, 2)), allowance=[1.0], functions=(ball,)).on(DOMAIN))
    there, y = opening.touched(np.array([5.0, *(np.array([3.0, 4.0]) - opening.centre)]))
    assert_allclose(there.normals, [[0.6, 0.8]])
    assert_allclose(there.offsets, [1.0])
    assert_allclose(y, [5.0])
