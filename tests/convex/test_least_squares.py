"""Nonlinear least squares on a box: agreement with SciPy, and an honest end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares as reference

from tutelage.convex.least_squares import Residuals, least_squares
from tutelage.outcomes import Ended, OutOfTime

LOWER, UPPER = np.array([-2.0, 0.5]), np.array([2.0, 3.0])


def rosenbrock(x, last=None):
    return Residuals(np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([[-20 * x[0], 10], [-1, 0]]), None)


@pytest.mark.parametrize("upper", [[2.0, 3.0], [2.0, 0.8], [0.5, 3.0]])
def test_the_minimum_is_that_of_scipy(upper):
    """Inside the box, and on its boundary."""
    start, ends = np.array([-1.2, 0.7]), (LOWER, np.array(upper))
    start = np.minimum(start, ends[1])
    found = least_squares(rosenbrock, start, lambda _: ends, enough=1e-20, gain=1e-14, max_evaluations=200)
    best = reference(lambda x: rosenbrock(x).value, start, bounds=ends, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert found.ended in (Ended.CONVERGED, Ended.SETTLED)
    assert found.value == pytest.approx(best.cost, abs=1e-9)
    assert_allclose(found.answer.x, best.x, atol=1e-5)


def test_too_few_evaluations_are_said():
    found = least_squares(
        rosenbrock, np.array([-1.2, 0.7]), lambda _: (LOWER, UPPER), enough=1e-20, gain=1e-14, max_evaluations=3
    )
    assert found.ended is Ended.STEP_LIMIT and found.n_steps == 3
    assert found.value <= rosenbrock(np.array([-1.2, 0.7])).cost


def test_a_search_without_time_keeps_its_best_point():
    """A teacher's round is limited; what was found until then must not be lost."""
    costs = []

    def slow(x, last):
        if len(costs) == 4:
            raise OutOfTime("steps", 4, 1.0)
        costs.append(rosenbrock(x).cost)
        return rosenbrock(x)

    start = np.array([-1.2, 0.7])
    found = least_squares(slow, start, lambda _: (LOWER, UPPER), enough=1e-20, gain=1e-14, max_evaluations=200)
    assert found.ended is Ended.TIME_LIMIT
    assert found.value == min(costs) < costs[0]
