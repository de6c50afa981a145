"""Methods whose steps minimise a quadratic model over a simple set: proximal Newton, local ascent, least squares.

Proximal Newton is the solver of every entropy learner:

    minimise   f(x) + sum over blocks of h(x_block)

f is smooth and convex, with exact gradient and Hessian; each h is a weighted 1-norm, perhaps a square, on a norm ball
(`blocks`). A step minimises the damped second-order model of f plus the terms h exactly. The damping grows where the
model predicts a larger decrease than f shows, and vanishes where the model is right (Levenberg and Marquardt). The last
steps are therefore Newton steps. If the optimal weights are infinite, f falls like an exponential. Newton steps then
have length one and decrease f more than predicted, and the step length is doubled each time. The error measure is the
residual of the optimality conditions (`blocks.residual`), which is zero exactly at the minimum. Where rounding hides
any further progress, the best point is returned, and `ended` says so.

Local ascent maximises a smooth f that need not be concave over a convex region. Each step maximises a quadratic model
of f over the region, and then searches along the segment to that maximum. The model's Hessian is estimated by BFGS
updates with Powell's damping, which keep it definite. At a kink of f the steps become short.

Least squares minimise 1/2 |r(x)|^2 on a box, by the Levenberg-Marquardt method with exact derivatives. A step minimises
1/2 |r + J s|^2 + damping / 2 * |D s|^2 over the box exactly, with D^2 the diagonal of J'J. The damping falls where the
model is right and grows where it is not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from tutelage import outcomes
from tutelage.arrays import SMALLEST, Matrix, Vector, max_abs
from tutelage.convex.blocks import Block, box_minimum, contained, gap, model_minimum, residual, terms
from tutelage.outcomes import Ended, NotConverged, OutOfTime, Solution

# A residual of the optimality conditions, or a duality gap relative to the value, that rounding may leave.
LEFT_BY_ROUNDING = 1e-7
# The least factor of the damping after a refused step: a fall at once to where steps were refused costs evaluations.
CAUTIOUS = 0.3
# This many steps without progress close to the minimum are rounding.
PATIENT_STEPS = 6
# The step of an ascent must gain this share of what the model predicts at least.
ARMIJO = 1e-4
SourceT = TypeVar("SourceT")
PlaceT = TypeVar("PlaceT")


@dataclass(frozen=True, slots=True, eq=False)
class Reached(Generic[PlaceT]):
    """A point x (n,), and the function there."""

    x: Vector
    here: PlaceT


@dataclass(frozen=True, slots=True, eq=False)
class Expansion(Generic[SourceT]):
    """f to second order at a point, and whatever else was computed there.

    noise: the rounding error of the gradient's entries. value_noise: the error of the value.
    """

    value: float
    gradient: Vector
    hessian: Matrix
    noise: float
    value_noise: float
    source: SourceT


@dataclass(frozen=True, slots=True, eq=False)
class Slope(Generic[SourceT]):
    """f and its gradient at a point, and whatever else was computed there. f is -inf where it is not defined."""

    value: float
    gradient: Vector
    source: SourceT


Minimum = Solution[Reached[Expansion[SourceT]]]
LocalMaximum = Solution[Reached[Slope[SourceT]]]


def proximal_newton(
    smooth: Callable[[Vector, SourceT | None], Expansion[SourceT]],
    blocks: Sequence[Block],
    start: Vector,
    *,
    tolerance: float,
    gap_tolerance: float = math.inf,
    max_steps: int = 300,
    lowest: float = -math.inf,
) -> Minimum[SourceT]:
    """Minimise to a residual of `tolerance` and a duality gap of `gap_tolerance`, or as far as noise allows.

    smooth: f, given the source of the last expansion as a warm start. start: a point of the set. The value is f + h.
    lowest: no minimum is below. Raises `NotConverged` where f + h is, x diverges or the step limit is reached, with the
    best point as its answer; `OutOfTime` at the time limit.
    """
    here = smooth(start, None)
    last = _minimum(start, here, blocks, 0)
    damping = _Damping(1e-3 * _largest_curvature(here))
    best = _Best(last)
    while True:
        if last.residual <= tolerance and last.gap <= gap_tolerance:
            return replace(last, ended=Ended.CONVERGED)
        if best.is_rounding(last, gap_tolerance):
            return replace(best.solution, n_steps=last.n_steps, ended=Ended.ROUNDING)
        if last.n_steps == max_steps or last.value < lowest or damping.is_lost(last):
            break
        outcomes.report("Newton steps", last.n_steps, last.residual, replace(best.solution, ended=Ended.TIME_LIMIT))
        x, here = last.answer.x, last.answer.here
        model = here.hessian + damping.at(last) * np.eye(len(x))
        there = model_minimum(here.gradient, model, blocks, x)
        predicted = _predicted_decrease(here, blocks, x, there)
        if damping.stretch > 1:
            there = contained(blocks, x + damping.stretch * (there - x))
        new = smooth(there, here.source)
        # Close to the minimum the decrease is smaller than the rounding error of f; the model is then trusted.
        rounding = 1e-13 * (1 + abs(last.value)) + new.value_noise + here.value_noise
        decrease = last.value - new.value - terms(blocks, there)
        is_taken = damping.adapt(decrease, predicted, rounding)
        last = replace(last, n_steps=last.n_steps + 1)
        if is_taken:
            last = _minimum(there, new, blocks, last.n_steps)
        best.update(last, decrease, rounding)
    least = best.solution
    if max(least.residual, least.gap / (abs(least.value) or 1.0)) <= LEFT_BY_ROUNDING:
        return replace(least, n_steps=last.n_steps, ended=Ended.ROUNDING)
    message = f"after {last.n_steps} Newton steps the residual is {last.residual:.3g}, with weights up to "
    message += f"{max_abs(last.answer.x):.3g}"
    raise NotConverged(message, residual=last.residual, n_steps=last.n_steps, answer=last)


def _minimum(x: Vector, here: Expansion[SourceT], blocks: Sequence[Block], n_steps: int) -> Minimum[SourceT]:
    """A point with its residual and its duality gap."""
    value = here.value + terms(blocks, x)
    bound = value - abs(gap(here.gradient, blocks, x))
    wrong = residual(here.gradient, blocks, x)
    return Solution(Reached(x, here), value, bound, wrong, Ended.STEP_LIMIT, n_steps)


def _largest_curvature(here: Expansion[SourceT]) -> float:
    return float(np.diag(here.hessian).max(initial=0.0))


class _Best(Generic[SourceT]):
    """The best point so far, and for how many steps nothing improved: neither residual nor gap halved, nor did f fall.

    A step that was too long says nothing about rounding: the next one is shorter.
    """

    def __init__(self, solution: Minimum[SourceT]) -> None:
        self.solution, self.n_idle = solution, 0

    def update(self, last: Minimum[SourceT], decrease: float, rounding: float) -> None:
        best = self.solution
        has_halved = last.residual <= 0.5 * best.residual or last.gap <= 0.5 * best.gap
        self.n_idle = 0 if has_halved or decrease > 10 * rounding else self.n_idle + (decrease >= -10 * rounding)
        if last.residual + last.gap < best.residual + best.gap:
            self.solution = last

    def is_rounding(self, last: Minimum[SourceT], gap_tolerance: float) -> bool:
        """Whether rounding hides the rest: the residual is noise, or steps are idle close to the minimum."""
        best, noise = self.solution, last.answer.here.noise
        if best.residual <= noise and best.gap <= gap_tolerance:
            return True
        is_close = best.residual <= max(LEFT_BY_ROUNDING, 1e3 * noise) or best.gap <= 1e-10 * (1 + abs(best.value))
        return self.n_idle >= PATIENT_STEPS and is_close


class _Damping:
    """The damping of the model, the factor by which steps are stretched, and how many steps were refused in a row."""

    def __init__(self, size: float) -> None:
        self.size, self.stretch, self.n_refused = size, 1.0, 0

    def at(self, last: Minimum[SourceT]) -> float:
        """At least what flat directions need and rounding does not hide, and never zero: every model has a minimum."""
        flat = 1e-5 * last.residual / (1 + max_abs(last.answer.x))
        self.size = max(self.size, flat, 1e-14 * _largest_curvature(last.answer.here), SMALLEST)
        return self.size

    def is_lost(self, last: Minimum[SourceT]) -> bool:
        """Whether x or the damping has left the range of sensible numbers."""
        x, curvature = last.answer.x, _largest_curvature(last.answer.here)
        return bool(max_abs(x) > 1e60 or self.size > 1e60 * (1 + curvature))

    def adapt(self, decrease: float, predicted: float, rounding: float) -> bool:
        """Whether the step is taken. Damping grows tenfold and faster with refused steps, and falls where f agrees."""
        if decrease >= 1e-4 * predicted - rounding:
            factor = 0.1 if decrease >= 0.75 * predicted - rounding else 1.0
            if decrease >= 0.99 * predicted:
                factor = 1e-3
            self.size *= max(factor, CAUTIOUS) if self.n_refused else factor
            self.stretch = 2 * self.stretch if decrease > 1.1 * predicted + rounding else 1.0
            self.n_refused = 0
            return True
        if self.stretch > 1:
            self.stretch = 1.0
            return False
        self.n_refused += 1
        self.size *= 10.0**self.n_refused
        return False


def _predicted_decrease(here: Expansion[SourceT], blocks: Sequence[Block], x: Vector, there: Vector) -> float:
    """The decrease of f + h that the second-order model predicts for the step."""
    step = there - x
    second_order = 0.5 * float(step @ here.hessian @ step)
    return -(float(here.gradient @ step) + second_order + terms(blocks, there) - terms(blocks, x))


def ascend(
    evaluate: Callable[[Vector, SourceT | None], Slope[SourceT]],
    model_step: Callable[[Vector, Matrix, Vector], Vector],
    start: Vector,
    *,
    radius: float,
    tolerance: float,
    opening: Slope[SourceT] | None = None,
    max_evaluations: int = 300,
) -> LocalMaximum[SourceT]:
    """Climb from a start in the region until the predicted gain is at most `tolerance`.

    evaluate: f at a point, given the source of the last point as a warm start. opening: f at the start, where known.
    model_step: argmin over steps s with x + s in the region of gradient @ s + 1/2 s @ hessian @ s, for (gradient,
    hessian, x). radius: the size of the region. The gap of the result is the gain that the first-order model predicts.
    CONVERGED: it is within the tolerance. SETTLED: the line search found no gain above the tolerance. TIME_LIMIT or
    STEP_LIMIT: the time or the budget of steps ended, or a model was not maximised; x is the best so far.
    """
    first = evaluate(start, None) if opening is None else opening
    # No step within the region is longer. An unconstrained first step is a quarter of the radius long.
    longest, steepness = 2 * radius * math.sqrt(len(start)), float(np.linalg.norm(first.gradient))
    last = _top(Reached(start, first), longest * steepness, int(opening is None))
    if last.residual <= tolerance:
        return replace(last, ended=Ended.CONVERGED)
    hessian = steepness / (0.25 * radius) * np.eye(len(start))
    step, share = None, 1.0
    while last.n_steps < max_evaluations:
        x, here = last.answer.x, last.answer.here
        if step is None:
            try:
                step = model_step(-here.gradient, hessian, x)
            except NotConverged:
                return _top(last.answer, longest * float(np.linalg.norm(here.gradient)), last.n_steps)
            last = _top(last.answer, float(here.gradient @ step), last.n_steps)
        if share * last.residual <= tolerance:
            return replace(last, ended=Ended.CONVERGED if share == 1 else Ended.SETTLED)
        try:
            outcomes.report("steps of an ascent", last.n_steps, last.residual)
            new = evaluate(x + share * step, here.source)
        except OutOfTime:
            return replace(last, ended=Ended.TIME_LIMIT if outcomes.is_over() else Ended.STEP_LIMIT)
        last, expected = replace(last, n_steps=last.n_steps + 1), share * last.residual
        if new.value >= here.value + ARMIJO * expected:
            hessian = _updated(hessian, share * step, here.gradient - new.gradient)
            last = _top(Reached(x + share * step, new), last.residual, last.n_steps)
            step, share = None, 1.0
        else:
            # Maximum of the parabola through both values and the slope, kept between a tenth and a half of the step.
            share *= min(max(0.5 * expected / (here.value + expected - new.value), 0.1), 0.5)
    return last


def _top(reached: Reached[Slope[SourceT]], gain: float, n_evaluations: int) -> LocalMaximum[SourceT]:
    """A point of an ascent with the gain that its model predicts."""
    return Solution(reached, reached.here.value, reached.here.value + gain, gain, Ended.STEP_LIMIT, n_evaluations)


def _updated(hessian: Matrix, step: Vector, change: Vector) -> Matrix:
    """BFGS update with Powell's damping: change @ step is at least a fifth of step @ hessian @ step.

    The added multiple of the identity keeps the condition number below 1e8: rounding cannot make the matrix singular.
    """
    along = hessian @ step
    expected, seen = float(step @ along), float(change @ step)
    share = 1.0 if seen >= 0.2 * expected else 0.8 * expected / (expected - seen)
    damped = share * change + (1 - share) * along
    updated = hessian - np.outer(along, along) / expected + np.outer(damped, damped) / float(damped @ step)
    return updated + 1e-8 * float(np.trace(updated)) * np.eye(len(step))


@dataclass(frozen=True, slots=True, eq=False)
class Residuals(Generic[SourceT]):
    """r (m,) and its Jacobian (m, n) at a point, and whatever else was computed there."""

    value: Vector
    jacobian: Matrix
    source: SourceT

    @property
    def cost(self) -> float:
        return 0.5 * float(self.value @ self.value)


LeastSquares = Solution[Reached[Residuals[SourceT]]]


def least_squares(
    evaluate: Callable[[Vector, SourceT | None], Residuals[SourceT]],
    start: Vector,
    limits: Callable[[Vector], tuple[Vector, Vector]],
    *,
    enough: float,
    gain: float,
    max_evaluations: int,
    source: SourceT | None = None,
) -> LeastSquares[SourceT]:
    """Minimise from a start until 1/2 |r|^2 <= enough, or a step promises less than gain of it, or a limit.

    evaluate: r and its Jacobian at a point, given the source of the last accepted point as a warm start. limits: both
    ends of the box of a step from a point. source: a warm start of the first evaluation. The value is 1/2 |r|^2.
    """
    x, here, damping = start, evaluate(start, source), 1e-2

    def ended(how: Ended, n_evaluations: int) -> LeastSquares[SourceT]:
        return Solution(Reached(x, here), here.cost, 0.0, here.cost, how, n_evaluations)

    for n_evaluations in range(1, max_evaluations):
        if here.cost <= enough:
            return ended(Ended.CONVERGED, n_evaluations)
        hessian = here.jacobian.T @ here.jacobian
        gradient = here.jacobian.T @ here.value
        diagonal = np.diag(hessian)
        diagonal = np.maximum(diagonal, 1e-6 * max(max_abs(diagonal), 1e-300))
        lower, upper = limits(x)
        step = box_minimum(hessian + np.diag(damping * diagonal), gradient, lower - x, upper - x)
        predicted = 0.0 if step is None else -float(gradient @ step + 0.5 * step @ hessian @ step)
        if step is None or predicted <= gain * here.cost:
            return ended(Ended.SETTLED, n_evaluations)
        there = np.clip(x + step, lower, upper)
        try:
            new = evaluate(there, here.source)
        except OutOfTime:
            return ended(Ended.TIME_LIMIT, n_evaluations)
        decrease = here.cost - new.cost
        if decrease > 1e-3 * predicted:
            x, here = there, new
            damping *= 0.1 if decrease > 0.5 * predicted else 1.0
        else:
            damping *= 8
        damping = max(damping, 1e-9)
    return ended(Ended.STEP_LIMIT, max_evaluations)
