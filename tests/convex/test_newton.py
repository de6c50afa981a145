"""Proximal Newton, local ascent and least squares on functions whose minima or maxima are known."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares as reference
from scipy.special import expit, xlogy

from tutelage.convex import newton
from tutelage.convex.blocks import Block, contained, model_minimum
from tutelage.convex.newton import Expansion, Residuals, Slope, ascend, least_squares, proximal_newton
from tutelage.outcomes import Ended, NotConverged, OutOfTime

TOLERANCE = 1e-10


def free(n, *, slope=0.0, curvature=0.0):
    return Block(np.full(n, slope), math.inf, math.inf, True, np.arange(n), curvature)


def ball(n, norm, radius, *, is_signed=True):
    return Block(np.zeros(n), radius, norm, is_signed, np.arange(n))


def function(value, gradient, hessian):
    """f from three functions of x, with no noise and nothing to hand on."""
    return lambda x, _: Expansion(float(value(x)), gradient(x), np.atleast_2d(hessian(x)), 0.0, 0.0, None)


def linear(weights):
    return function(lambda x: weights @ x, lambda x: weights, lambda x: np.zeros((len(x), len(x))))


@pytest.mark.parametrize("seed", range(20))
def test_a_quadratic_is_minimised_in_a_few_steps(seed):
    """Condition numbers up to 1e8, and never more steps than the damping takes to vanish."""
    rng = np.random.default_rng(seed)
    n = 1 + seed % 8
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    hessian = basis @ np.diag(10 ** rng.uniform(-4, 4, size=n)) @ basis.T
    best = rng.normal(size=n)
    quadratic = function(
        lambda x: 0.5 * (x - best) @ hessian @ (x - best), lambda x: hessian @ (x - best), lambda x: hessian
    )
    found = proximal_newton(quadratic, [free(n)], np.zeros(n), tolerance=TOLERANCE)
    assert found.ended is Ended.CONVERGED and found.residual <= TOLERANCE
    assert found.n_steps <= 15
    assert_allclose(found.answer.x, best, atol=1e-5)


def test_a_kink_holds_the_minimum_of_a_quadratic():
    """Soft thresholding: 1/2 |x - c|^2 + s |x| is least at sign(c) (|c| - s)+."""
    centre = np.array([3.0, -0.5, 0.2, -2.0])
    quadratic = function(lambda x: 0.5 * (x - centre) @ (x - centre), lambda x: x - centre, lambda x: np.eye(4))
    found = proximal_newton(quadratic, [free(4, slope=1.0)], np.ones(4), tolerance=TOLERANCE)
    assert_allclose(found.answer.x, [2.0, 0.0, 0.0, -1.0], atol=1e-9)
    assert found.answer.x[1] == 0


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.3, 0.5, 0.9999])
def test_the_logistic_loss_is_least_at_the_log_odds(share):
    """log(1 + e^x) - share x, whose least value is the entropy of (share, 1 - share)."""
    loss = function(
        lambda x: np.logaddexp(0.0, x).sum() - share * x.sum(),
        lambda x: expit(x) - share,
        lambda x: np.diag(expit(x) * expit(-x)),
    )
    found = proximal_newton(loss, [free(1)], np.zeros(1), tolerance=1e-13)
    assert found.residual <= 1e-13 and found.n_steps <= 40
    assert_allclose(found.answer.x, math.log(share / (1 - share)), rtol=1e-6)
    assert found.answer.here.value == pytest.approx(-xlogy(share, share) - xlogy(1 - share, 1 - share), abs=1e-12)


@pytest.mark.parametrize("radius", [5.0, 15.0, 30.0])
def test_an_exponential_runs_to_the_end_of_its_box_faster_than_newton_would(radius):
    """exp(-x) is least at the bound; pure Newton steps have length one, so they are stretched."""
    falling = function(lambda x: np.exp(-x).sum(), lambda x: -np.exp(-x), lambda x: np.diag(np.exp(-x)))
    found = proximal_newton(falling, [ball(2, math.inf, radius)], np.zeros(2), tolerance=1e-300)
    assert_allclose(found.answer.x, radius)
    assert found.residual == 0 and found.n_steps <= 15


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_a_linear_function_ends_on_the_surface_of_each_ball(norm, seed):
    """Its least value is minus the radius times the dual norm of the weights."""
    rng = np.random.default_rng(seed)
    weights, radius = rng.normal(size=4), float(10 ** rng.uniform(-2, 2))
    found = proximal_newton(linear(weights), [ball(4, norm, radius)], np.zeros(4), tolerance=TOLERANCE)
    dual_norm = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[norm]
    assert weights @ found.answer.x == pytest.approx(-radius * np.linalg.norm(weights, dual_norm), rel=1e-8)
    assert found.residual <= TOLERANCE and found.n_steps <= 30


def test_a_linear_function_of_what_may_not_be_negative():
    weights = np.array([1.0, -2.0, -0.5])
    found = proximal_newton(linear(weights), [ball(3, 1.0, 4.0, is_signed=False)], np.zeros(3), tolerance=TOLERANCE)
    assert_allclose(found.answer.x, [0.0, 4.0, 0.0], atol=1e-9)


def test_a_square_gives_a_linear_function_a_minimum():
    """w x + c/2 |x|^2 is least at -w / c."""
    weights = np.array([1.0, -20.0])
    found = proximal_newton(linear(weights), [free(2, curvature=0.01)], np.zeros(2), tolerance=TOLERANCE)
    assert_allclose(found.answer.x, -weights / 0.01, rtol=1e-7)


def test_a_function_without_a_minimum_is_an_error_that_says_how_far_it_ran():
    with pytest.raises(NotConverged, match=r"residual is 1, with weights up to .*e\+") as caught:
        proximal_newton(linear(np.array([1.0, 0.0])), [free(2)], np.zeros(2), tolerance=TOLERANCE)
    assert caught.value.residual == pytest.approx(1.0)
    assert caught.value.n_steps <= 300


def test_noise_ends_the_search_and_is_said_to():
    """A gradient known to 1e-4 only: no promise beyond that is kept, and none is made."""
    noisy = lambda x, _: Expansion(float(0.5 * x @ x), x + 5e-5, np.eye(1), 1e-4, 0.0, None)  # noqa: E731
    found = proximal_newton(noisy, [free(1)], np.ones(1), tolerance=1e-12)
    assert found.ended in (Ended.ROUNDING, Ended.CONVERGED)
    assert found.residual <= 1e-4


def test_steps_that_are_too_long_are_not_taken_for_noise():
    """f = sqrt(1 + x^2): from 10, a Newton step ends at -1000. The noise is large, but no reason to stop there."""

    def smooth(x, _):
        size = np.sqrt(1 + x * x)
        return Expansion(float(size.sum()), x / size, np.diag(size**-3), 1e-3, 1e-16, None)

    found = proximal_newton(smooth, [free(1)], np.array([10.0]), tolerance=1e-12)
    assert abs(found.answer.x[0]) <= 1e-3


def test_the_last_source_is_handed_on_to_start_from():
    seen = []

    def counted(x, last):
        seen.append(last)
        return Expansion(float(0.5 * x @ x), x, np.eye(2), 0.0, 0.0, len(seen))

    proximal_newton(counted, [free(2)], np.ones(2), tolerance=TOLERANCE)
    assert seen[0] is None and seen[1] == 1 and None not in seen[1:]


def test_the_start_may_be_the_answer():
    block = ball(3, 2.0, 1.0)
    start = contained([block], np.array([-3.0, 0.0, 0.0]))
    found = proximal_newton(linear(np.array([2.0, 0.0, 0.0])), [block], start, tolerance=TOLERANCE)
    assert found.n_steps == 0
    assert_allclose(found.answer.x, start)


def test_an_end_by_noise_is_not_called_convergence():
    """A gradient with an error of 1e-5 that changes with every bit of x: its residual never reaches 1e-12."""

    def noisy(x, _):
        return Expansion(float(0.5 * x @ x), x + 1e-5 * (2 + np.sin(1e12 * x)), np.eye(1), 1e-4, 0.0, None)

    found = proximal_newton(noisy, [free(1)], np.ones(1), tolerance=1e-12, gap_tolerance=1e-30)
    assert found.ended is Ended.ROUNDING and 1e-12 < found.residual <= 1e-4


def test_the_predicted_decrease_of_a_quadratic_is_its_decrease():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    hessian, slope = root @ root.T, rng.normal(size=3)
    f = lambda x: float(slope @ x + 0.5 * x @ hessian @ x)  # noqa: E731
    x, there = rng.normal(size=(2, 3))
    here = Expansion(f(x), slope + hessian @ x, hessian, 0.0, 0.0, None)
    kinked = [Block(np.ones(3), np.inf, np.inf, True, np.arange(3))]
    expected = f(x) + np.abs(x).sum() - f(there) - np.abs(there).sum()
    assert newton._predicted_decrease(here, kinked, x, there) == pytest.approx(expected)


def climbed(function, n, radius, norm, start, tolerance=1e-12):
    """The maximum, and every point that was asked for."""
    asked = []

    def evaluate(x, _):
        asked.append(x)
        return Slope(*function(x), None)

    def model_step(gradient, hessian, x):
        return model_minimum(gradient, hessian, [ball(n, norm, radius)], x) - x

    found = ascend(evaluate, model_step, np.array(start), radius=radius, tolerance=tolerance)
    assert len(asked) == found.n_steps
    for x in asked:
        assert np.linalg.norm(x, norm) <= radius * (1 + 1e-12)
    return found


@pytest.mark.parametrize("norm", (1, 2, math.inf))
def test_a_linear_function_goes_to_the_end_of_the_set(norm):
    """max of c @ x over the ball is radius times the dual norm of c."""
    slope = np.array([3.0, -1.0, 0.5])
    found = climbed(lambda x: (float(slope @ x), slope), 3, 2.0, norm, [0.1, 0.1, -0.3])
    dual = {1: math.inf, 2: 2, math.inf: 1}[norm]
    assert_allclose(found.value, 2.0 * np.linalg.norm(slope, dual), rtol=1e-9)
    assert found.ended is Ended.CONVERGED


@pytest.mark.parametrize("norm", (1, 2, math.inf))
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
    assert_allclose(found.answer.x, top, atol=1e-5)


def test_a_wave_is_climbed_to_a_crest_and_not_beyond():
    """Of sin's many crests the one uphill from the start, never losing height on the way."""
    found = climbed(lambda x: (float(np.sin(3 * x).sum()), 3 * np.cos(3 * x)), 2, 5.0, math.inf, [0.1, -0.2])
    assert_allclose(found.value, 2.0, atol=1e-9)


def test_at_a_kink_it_settles_and_says_so():
    """-|x - 1| has its maximum where no slope vanishes."""
    found = climbed(lambda x: (-abs(x[0] - 1), np.array([-np.sign(x[0] - 1.0)])), 1, 3.0, math.inf, [-2.0], 1e-9)
    assert_allclose(found.answer.x, [1.0], atol=1e-6)
    assert found.ended is Ended.SETTLED and found.gap > 1e-9


def test_on_a_plateau_there_is_nothing_to_do():
    found = climbed(lambda x: (7.0, np.zeros(2)), 2, 1.0, 2, [0.3, 0.3])
    assert_allclose(found.answer.x, [0.3, 0.3])
    assert found.n_steps == 1 and found.gap == 0 and found.ended is Ended.CONVERGED


def test_where_a_model_is_not_maximised_the_best_point_so_far_is_returned():
    """The gap is then what a linear function of this slope could gain anywhere in the region."""

    region, n_left = ball(2, 2, 3.0), [2]

    def model_step(gradient, hessian, x):
        n_left[0] -= 1
        if n_left[0] < 0:
            raise NotConverged("no step", residual=1.0, n_steps=1)
        return model_minimum(gradient, hessian, [region], x) - x

    top = np.array([1.0, -0.5])

    def hill(x, _):
        return Slope(-float(np.cosh(x - top).sum()), -np.sinh(x - top), None)

    found = ascend(hill, model_step, np.zeros(2), radius=3.0, tolerance=1e-9)
    assert found.ended is Ended.STEP_LIMIT and found.value > -float(np.cosh(top).sum())
    assert found.gap == pytest.approx(6.0 * math.sqrt(2) * np.linalg.norm(found.answer.here.gradient))
    assert found.value + found.gap >= -2.0


def test_an_ascent_that_runs_out_of_steps_says_so():
    """The gap is the gain that the model of the last step predicts."""
    region, top = ball(2, 2, 3.0), np.array([1.0, -0.5])

    def hill(x, _):
        return Slope(-float(np.cosh(x - top).sum()), -np.sinh(x - top), None)

    def model_step(gradient, hessian, x):
        return model_minimum(gradient, hessian, [region], x) - x

    found = ascend(hill, model_step, np.zeros(2), radius=3.0, tolerance=1e-9, max_evaluations=2)
    assert found.ended is Ended.STEP_LIMIT and found.gap > 0
    assert found.value > hill(np.zeros(2), None).value


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
