"""Local ascent: from a start to a local maximum of a smooth function over a convex region.

    maximise   f(x)   over a region

f need not be concave. Each step maximises a quadratic model of f over the region, exactly, and then searches along the
segment to that maximum. The model's Hessian is estimated by BFGS updates with Powell's damping, which keep it definite.
All iterates lie in the region. At a kink of f the steps become short; `ended` and `gap` say how the ascent ended.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Vector
from tutelage.outcomes import Ended, NotConverged, OutOfTime

MAX_STEPS = 100
# Length of the first step, relative to the radius of the region.
FIRST_STEP = 0.25
SourceT = TypeVar("SourceT")


class Region(Protocol):
    """A convex set over which quadratic models can be minimised. radius: its size, for the length of the first step."""

    @property
    def radius(self) -> float | Vector: ...

    def model_step(self, gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
        """argmin over steps s with x + s in the region of gradient @ s + 1/2 s @ hessian @ s."""


@dataclass(frozen=True, slots=True, eq=False)
class Slope(Generic[SourceT]):
    """f and its gradient at a point, and whatever else was computed there. f is -inf where it is not defined."""

    value: float
    gradient: Vector
    source: SourceT


@dataclass(frozen=True, slots=True, eq=False)
class LocalMaximum(Generic[SourceT]):
    """A local maximum x (n,). gap: the gain that the first-order model predicts for one more step."""

    x: Vector
    slope: Slope[SourceT]
    gap: float
    n_evaluations: int
    ended: Ended


def ascend(
    evaluate: Callable[[Vector, SourceT | None], Slope[SourceT]],
    region: Region,
    start: Vector,
    *,
    tolerance: float,
    opening: Slope[SourceT] | None = None,
) -> LocalMaximum[SourceT]:
    """Climb from a start in the region until the predicted gain is at most `tolerance`.

    evaluate: f at a point, given the source of the last point as a warm start. opening: f at the start, where known.
    CONVERGED: the predicted gain is within the tolerance. SETTLED: the line search found no gain above the tolerance.
    TIME_LIMIT or STEP_LIMIT: the time or the budget of steps ended, or a model was not maximised; x is the best so far.
    """
    x, here, n_evaluations = start, opening, 0
    if here is None:
        here, n_evaluations = evaluate(start, None), 1
    steepness, radius = float(np.linalg.norm(here.gradient)), float(np.max(region.radius))
    # No step within the region is longer.
    longest = 2 * radius * math.sqrt(len(start))
    if longest * steepness <= tolerance:
        return LocalMaximum(x, here, longest * steepness, n_evaluations, Ended.CONVERGED)
    # A multiple of the identity, with which an unconstrained first step has length FIRST_STEP * radius.
    hessian = steepness / (FIRST_STEP * radius) * np.eye(len(start))
    for _ in range(MAX_STEPS):
        try:
            step = region.model_step(-here.gradient, hessian, x)
        except NotConverged:
            most = longest * float(np.linalg.norm(here.gradient))
            return LocalMaximum(x, here, most, n_evaluations, Ended.STEP_LIMIT)
        gap = float(here.gradient @ step)
        if gap <= tolerance:
            return LocalMaximum(x, here, gap, n_evaluations, Ended.CONVERGED)
        share = 1.0
        while True:
            try:
                watch.report("steps of an ascent", n_evaluations, gap)
                new = evaluate(x + share * step, here.source)
            except OutOfTime:
                ended = Ended.TIME_LIMIT if watch.is_over() else Ended.STEP_LIMIT
                return LocalMaximum(x, here, gap, n_evaluations, ended)
            n_evaluations += 1
            if new.value >= here.value + 1e-4 * share * gap:
                break
            # Maximum of the parabola through both values and the slope, kept between a tenth and a half of the step.
            fall = here.value + share * gap - new.value
            share *= min(max(0.5 * share * gap / fall, 0.1), 0.5)
            if share * gap <= tolerance:
                return LocalMaximum(x, here, gap, n_evaluations, Ended.SETTLED)
        hessian = _updated(hessian, share * step, here.gradient - new.gradient)
        x, here = x + share * step, new
    return LocalMaximum(x, here, gap, n_evaluations, Ended.STEP_LIMIT)


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
