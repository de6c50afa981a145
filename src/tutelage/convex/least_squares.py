"""Nonlinear least squares on a box: the Levenberg-Marquardt method with exact derivatives.

    minimise   1/2 |r(x)|^2      subject to   lower <= x <= upper

A step minimises 1/2 |r + J s|^2 + damping / 2 * |D s|^2 over the box exactly, with D^2 the diagonal of J'J. The damping
falls where the model is right and grows where it is not. `ended` says how the search ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.models import box_minima
from tutelage.convex.newton import Reached
from tutelage.outcomes import Ended, OutOfTime, Solution

SourceT = TypeVar("SourceT")


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
        hessian, gradient = here.jacobian.T @ here.jacobian, here.jacobian.T @ here.value
        diagonal = np.maximum(np.diag(hessian), 1e-6 * max(float(np.diag(hessian).max(initial=0.0)), 1e-300))
        curved, (lower, upper) = hessian + np.diag(damping * diagonal), limits(x)
        step = box_minima(curved[None], gradient[None], (lower - x)[None], (upper - x)[None])[0][0]
        predicted = -float(gradient @ step + 0.5 * step @ hessian @ step)
        if predicted <= gain * here.cost:
            return ended(Ended.SETTLED, n_evaluations)
        try:
            new = evaluate(np.clip(x + step, lower, upper), here.source)
        except OutOfTime:
            return ended(Ended.TIME_LIMIT, n_evaluations)
        decrease = here.cost - new.cost
        if decrease > 1e-3 * predicted:
            x, here = np.clip(x + step, lower, upper), new
            damping *= 0.1 if decrease > 0.5 * predicted else 1.0
        else:
            damping *= 8
        damping = max(damping, 1e-9)
    return ended(Ended.STEP_LIMIT, max_evaluations)
