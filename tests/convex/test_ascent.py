"""Local ascent over boxes and balls: known maxima, never out of the set, never down."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tutelage.convex.ascent import Slope, ascend
from tutelage.convex.blocks import Block
from tutelage.outcomes import Ended, NotConverged

NORMS = (1, 2, math.inf)


def block(n, radius, norm):
    return Block(np.zeros(n), radius, norm, True, np.arange(n))


def climbed(function, n, radius, norm, start, tolerance=1e-12):
    """The maximum, and every point that was asked for."""
    asked = []

    def evaluate(x, _):
        asked.append(x)
        return Slope(*function(x), None)

    found = ascend(evaluate, block(n, radius, norm), np.array(start), tolerance=tolerance)
    assert len(asked) == found.n_evaluations
    for x in asked:
        assert np.linalg.norm(x, norm) <= radius * (1 + 1e-12)
    return found


@pytest.mark.parametrize("norm", NORMS)
def test_a_linear_function_goes_to_the_end_of_the_set(norm):
    """max of c @ x over the ball is radius times the dual norm of c."""
    slope = np.array([3.0, -1.0, 0.5])
    found = climbed(lambda x: (float(slope @ x), slope), 3, 2.0, norm, [0.1, 0.1, -0.3])
    dual = {1: math.inf, 2: 2, math.inf: 1}[norm]
    assert_allclose(found.slope.value, 2.0 * np.linalg.norm(slope, dual), rtol=1e-9)
    assert found.ended is Ended.CONVERGED


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(5))
def test_an_inner_maximum_of_an_ill_conditioned_quadratic_is_found(norm, seed):
    """Curvatures a thousand times apart, the maximum inside."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    hessian = basis @ np.diag([1e-2, 0.1, 1.0, 10.0]) @ basis.T
    top = 0.1 * rng.uniform(-1, 1, 4)
    found = climbed(
        lambda x: (float(-0.5 * (x - top) @ hessian @ (x - top)), -hessian @ (x - top)),
        4,
        1.0,
        norm,
        np.zeros(4),
        1e-16,
    )
    assert_allclose(found.x, top, atol=1e-5)


def test_a_wave_is_climbed_to_a_crest_and_not_beyond():
    """Of sin's many crests the one uphill from the start, never losing height on the way."""
    found = climbed(lambda x: (float(np.sin(3 * x).sum()), 3 * np.cos(3 * x)), 2, 5.0, math.inf, [0.1, -0.2])
    assert_allclose(found.slope.value, 2.0, atol=1e-9)


def test_at_a_kink_it_settles_and_says_so():
    """-|x - 1| has its maximum where no slope vanishes."""
    found = climbed(lambda x: (-abs(x[0] - 1), np.array([-np.sign(x[0] - 1.0)])), 1, 3.0, math.inf, [-2.0], 1e-9)
    assert_allclose(found.x, [1.0], atol=1e-6)
    assert found.ended is Ended.SETTLED and found.gap > 1e-9


def test_on_a_plateau_there_is_nothing_to_do():
    found = climbed(lambda x: (7.0, np.zeros(2)), 2, 1.0, 2, [0.3, 0.3])
    assert_allclose(found.x, [0.3, 0.3])
    assert found.n_evaluations == 1 and found.gap == 0 and found.ended is Ended.CONVERGED


def test_where_a_model_is_not_maximised_the_best_point_so_far_is_returned():
    """The gap is then what a linear function of this slope could gain anywhere in the region."""

    class Failing(Block):
        n_left = 2

        def model_step(self, gradient, hessian, x):
            Failing.n_left -= 1
            if Failing.n_left < 0:
                raise NotConverged("no step", residual=1.0, n_steps=1)
            return super().model_step(gradient, hessian, x)

    region = Failing(np.zeros(2), 3.0, 2, True, np.arange(2))
    top = np.array([1.0, -0.5])
    found = ascend(
        lambda x, _: Slope(-float(np.cosh(x - top).sum()), -np.sinh(x - top), None), region, np.zeros(2), tolerance=1e-9
    )
    assert found.ended is Ended.STEP_LIMIT and found.slope.value > -float(np.cosh(top).sum())
    assert found.gap == pytest.approx(6.0 * math.sqrt(2) * np.linalg.norm(found.slope.gradient))
    assert found.slope.value + found.gap >= -2.0
