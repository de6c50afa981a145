"""Proximal Newton for a smooth convex function plus simple terms: the one solver behind every entropy learner.

    minimise   f(x) + sum over blocks of h(x_block)

f is smooth and convex, with exact gradient and Hessian; each h is a weighted 1-norm, perhaps a square, on a norm ball
(`blocks`). A step minimises the second-order model of f, damped, plus the h's themselves, exactly. The damping grows
when the model promised more than f gave and vanishes as it proves right (Levenberg and Marquardt), so that the last
steps are Newton's. Where f falls like an exponential, as it does in weights that a learner would rather have infinite,
Newton's steps have length one for ever and gain more than promised; then they are stretched, twice as far each time.
The answer is judged by the natural residual,

    x - argmin over z of  1/2 |z - (x - grad f(x))|^2 + h(z),

which is zero exactly at the minimum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.outcomes import Ended, NotConverged
from tutelage.solvers.blocks import Block, contained, model_minimum, natural_step, terms

MAX_STEPS = 300
LARGEST = 1e12
SourceT = TypeVar("SourceT")


@dataclass(frozen=True, slots=True, eq=False)
class Expansion(Generic[SourceT]):
    """f to second order at some point, and whatever else was computed there.

    noise: how much of the gradient's entries is rounding. value_noise: how much of the value is.
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


def minimise(
    smooth: Callable[[Vector, SourceT | None], Expansion[SourceT]],
    blocks: Sequence[Block],
    start: Vector,
    *,
    tolerance: float,
) -> Minimum[SourceT]:
    """The minimum to a natural residual of `tolerance`, or to the noise of the gradient where that is more.

    smooth: f; it is also given the source of the last expansion, to start from. start: a point of the set.
    Raises `NotConverged` where x runs off to infinity or the steps run out.
    """
    x, here = start, smooth(start, None)
    height = here.value + terms(blocks, x)
    damping, stretch = 1e-3 * float(np.diag(here.hessian).max(initial=0.0)), 1.0
    for n_steps in range(MAX_STEPS):
        residual = float(np.abs(x - natural_step(here.gradient, blocks, x)).max(initial=0.0))
        if residual <= max(tolerance, here.noise):
            ended = Ended.CONVERGED if residual <= tolerance else Ended.ROUNDING
            return Minimum(x, here, residual, n_steps, ended)
        # Not less than the residual calls for, so that flat directions have an end too, nor than rounding would undo.
        flat, bend = 1e-5 * residual / (1 + np.abs(x).max(initial=0.0)), np.diag(here.hessian).max(initial=0.0)
        damping = max(damping, float(flat), 1e-14 * float(bend))
        there = model_minimum(here.gradient, here.hessian + damping * np.eye(len(x)), blocks, x)
        promised = _promised(here, blocks, x, there)
        if stretch > 1:
            there = contained(blocks, x + stretch * (there - x))
        new = smooth(there, here.source)
        gain = height - (new.value + terms(blocks, there))
        # Close to the minimum the gain drowns in the rounding of f; there the model is to be trusted.
        rounding = 1e-13 * (1 + abs(height)) + new.value_noise
        if gain >= 1e-4 * promised - rounding:
            x, here, height = there, new, height - gain
            damping *= 0.05 if gain >= 0.75 * promised - rounding else 1.0
            stretch = 2 * stretch if gain > 1.1 * promised + rounding else 1.0
        elif stretch > 1:
            stretch = 1.0
        else:
            damping *= 10
        if np.abs(x).max(initial=0.0) > LARGEST or damping > LARGEST:
            break
    raise NotConverged(
        f"after {n_steps + 1} Newton steps the residual is {residual:.3g}, with weights up to {np.abs(x).max():.3g}",
        residual=residual,
        n_steps=n_steps + 1,
    )


def _promised(here: Expansion[SourceT], blocks: Sequence[Block], x: Vector, there: Vector) -> float:
    """By how much the second-order model says that the step lowers the sum."""
    step = there - x
    bend = 0.5 * float(step @ here.hessian @ step)
    return -(float(here.gradient @ step) + bend + terms(blocks, there) - terms(blocks, x))
