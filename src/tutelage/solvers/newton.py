"""Proximal Newton method for a smooth convex function plus simple terms: the solver of every entropy learner.

    minimise   f(x) + sum over blocks of h(x_block)

f is smooth and convex, with exact gradient and Hessian; each h is a weighted 1-norm, perhaps a square, on a norm ball
(`blocks`). A step minimises the damped second-order model of f plus the terms h exactly. The damping grows where the
model predicts a larger decrease than f shows, and vanishes where the model is right (Levenberg and Marquardt). The last
steps are therefore Newton steps. If the optimal weights are infinite, f falls like an exponential. Newton steps then
have length one and decrease f more than predicted, and the step length is doubled each time. The error measure is the
natural residual, which is zero exactly at the minimum:

    x - argmin over z of  1/2 |z - (x - grad f(x))|^2 + h(z)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Vector
from tutelage.outcomes import Ended, NotConverged
from tutelage.solvers.blocks import Block, contained, model_minimum, natural_step, terms

MAX_STEPS = 300
LARGEST = 1e12
SourceT = TypeVar("SourceT")


@dataclass(frozen=True, slots=True, eq=False)
class Expansion(Generic[SourceT]):
    """f to second order at a point, and whatever else was computed there.

    noise: the rounding error of the gradient's entries. value_noise: the rounding error of the value.
    """

    value: float
    gradient: Vector
    hessian: Matrix
    noise: float
    value_noise: float
    source: SourceT


@dataclass(frozen=True, slots=True, eq=False)
class Minimum(Generic[SourceT]):
    """The minimum x, f's expansion there, and the largest entry of the natural residual."""

    x: Vector
    expansion: Expansion[SourceT]
    residual: float
    n_steps: int
    ended: Ended


def proximal_newton(
    smooth: Callable[[Vector, SourceT | None], Expansion[SourceT]],
    blocks: Sequence[Block],
    start: Vector,
    *,
    tolerance: float,
) -> Minimum[SourceT]:
    """Minimise to a natural residual of `tolerance`, or of the gradient's noise where that is larger.

    smooth: f, given the source of the last expansion as a warm start. start: a point of the set. Raises `NotConverged`
    where x diverges or the step limit is reached, and `OutOfTime` at the time limit.
    """
    x, here = start, smooth(start, None)
    value = here.value + terms(blocks, x)
    damping, stretch = 1e-3 * float(np.diag(here.hessian).max(initial=0.0)), 1.0
    for n_steps in range(MAX_STEPS):
        residual = float(np.abs(x - natural_step(here.gradient, blocks, x)).max(initial=0.0))
        if residual <= max(tolerance, here.noise):
            ended = Ended.CONVERGED if residual <= tolerance else Ended.ROUNDING
            return Minimum(x, here, residual, n_steps, ended)
        watch.report("Newton steps", n_steps, residual)
        # Flat directions need some curvature, and damping below 1e-14 of the Hessian's diagonal is lost to rounding.
        flat = 1e-5 * residual / (1 + float(np.abs(x).max(initial=0.0)))
        damping = max(damping, flat, 1e-14 * float(np.diag(here.hessian).max(initial=0.0)))
        there = model_minimum(here.gradient, here.hessian + damping * np.eye(len(x)), blocks, x)
        predicted = _predicted_decrease(here, blocks, x, there)
        if stretch > 1:
            there = contained(blocks, x + stretch * (there - x))
        new = smooth(there, here.source)
        decrease = value - (new.value + terms(blocks, there))
        # Close to the minimum the decrease is smaller than the rounding error of f; the model is then trusted.
        rounding = 1e-13 * (1 + abs(value)) + new.value_noise
        if decrease >= 1e-4 * predicted - rounding:
            x, here, value = there, new, value - decrease
            damping *= 0.05 if decrease >= 0.75 * predicted - rounding else 1.0
            stretch = 2 * stretch if decrease > 1.1 * predicted + rounding else 1.0
        elif stretch > 1:
            stretch = 1.0
        else:
            damping *= 10
        if np.abs(x).max(initial=0.0) > LARGEST or damping > LARGEST:
            break
    largest = np.abs(x).max()
    message = f"after {n_steps + 1} Newton steps the residual is {residual:.3g}, with weights up to {largest:.3g}"
    raise NotConverged(message, residual=residual, n_steps=n_steps + 1)


def _predicted_decrease(here: Expansion[SourceT], blocks: Sequence[Block], x: Vector, there: Vector) -> float:
    """The decrease of f + h that the second-order model predicts for the step."""
    step = there - x
    second_order = 0.5 * float(step @ here.hessian @ step)
    return -(float(here.gradient @ step) + second_order + terms(blocks, there) - terms(blocks, x))
