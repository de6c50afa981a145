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
from tutelage.convex.pivoting import SeparableProgram
from tutelage.outcomes import Ended, OutOfTime

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


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares(Generic[SourceT]):
    """The best point x (n,), the residuals there, the number of evaluations and how the search ended."""

    x: Vector
    residuals: Residuals[SourceT]
    n_evaluations: int
    ended: Ended


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
    ends of the box of a step from a point. source: a warm start of the first evaluation.
    """
    x, here, damping = start, evaluate(start, source), 1e-2
    for n_evaluations in range(1, max_evaluations):
        if here.cost <= enough:
            return LeastSquares(x, here, n_evaluations, Ended.CONVERGED)
        hessian, gradient = here.jacobian.T @ here.jacobian, here.jacobian.T @ here.value
        diagonal = np.maximum(np.diag(hessian), 1e-6 * max(float(np.diag(hessian).max(initial=0.0)), 1e-300))
        curved = hessian + np.diag(damping * diagonal)
        there = SeparableProgram(curved, gradient - curved @ x, np.zeros(len(x)), *limits(x)).solve(x)
        step = there - x
        predicted = -float(gradient @ step + 0.5 * step @ hessian @ step)
        if predicted <= gain * here.cost:
            return LeastSquares(x, here, n_evaluations, Ended.SETTLED)
        try:
            new = evaluate(there, here.source)
        except OutOfTime:
            return LeastSquares(x, here, n_evaluations, Ended.TIME_LIMIT)
        decrease = here.cost - new.cost
        if decrease > 1e-3 * predicted:
            x, here = there, new
            damping *= 0.1 if decrease > 0.5 * predicted else 1.0
        else:
            damping *= 8
        damping = max(damping, 1e-9)
    return LeastSquares(x, here, max_evaluations, Ended.STEP_LIMIT)
