"""Local ascent: a smooth function, not concave, over a simple set, from one start to one local maximum.

    maximise   f(x)   over the block's ball or box

Each step maximises f's first-order model less a quadratic whose matrix learns f's curvature (BFGS, damped so that it
stays positive definite, after Powell), over the set, exactly (`blocks.model_minimum`), and goes as far along it as f
rises. The iterates never leave the set. Where f has kinks the steps shorten; the answer says how it ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.outcomes import Ended
from tutelage.solvers.blocks import Block, model_minimum

MAX_STEPS = 100
# The first step goes about this far, relative to the size of the set.
FIRST_STEP = 0.25
SourceT = TypeVar("SourceT")


@dataclass(frozen=True, slots=True, eq=False)
class Slope(Generic[SourceT]):
    """f and its gradient at a point, and whatever else was computed there."""

    value: float
    gradient: Vector
    source: SourceT


@dataclass(frozen=True, slots=True, eq=False)
class LocalMaximum(Generic[SourceT]):
    """A local maximum x (n,). promised: what the model says is still to be gained."""

    x: Vector
    slope: Slope[SourceT]
    promised: float
    n_evaluations: int
    ended: Ended


def ascend(
    evaluate: Callable[[Vector, SourceT | None], Slope[SourceT]],
    block: Block,
    start: Vector,
    *,
    tolerance: float,
    opening: Slope[SourceT] | None = None,
) -> LocalMaximum[SourceT]:
    """The local maximum that is uphill from a start in the set, until the model promises a gain below `tolerance`.

    evaluate: f; it is also given the source of the last point, to start from. opening: f at the start, where known.
    """
    x, here, n_evaluations = start, opening, 0
    if here is None:
        here, n_evaluations = evaluate(start, None), 1
    bend = _first_bend(here.gradient, block)
    for _ in range(MAX_STEPS):
        step = model_minimum(-here.gradient, bend, [block], x) - x
        promised = float(here.gradient @ step)
        if promised <= tolerance:
            return LocalMaximum(x, here, promised, n_evaluations, Ended.CONVERGED)
        share = 1.0
        while True:
            new = evaluate(x + share * step, here.source)
            n_evaluations += 1
            if new.value >= here.value + 1e-4 * share * promised:
                break
            # The parabola through both values and the slope, kept within a tenth and a half.
            fall = here.value + share * promised - new.value
            share *= min(max(0.5 * share * promised / fall, 0.1), 0.5)
            if share * promised <= tolerance:
                return LocalMaximum(x, here, promised, n_evaluations, Ended.SETTLED)
        bend = _learned(bend, share * step, here.gradient - new.gradient)
        x, here = x + share * step, new
    return LocalMaximum(x, here, promised, n_evaluations, Ended.STEP_LIMIT)


def _first_bend(gradient: Vector, block: Block) -> Matrix:
    """The curvature with which the first step goes a fair part of the way across the set."""
    steepness = float(np.linalg.norm(gradient))
    return max(steepness, np.finfo(np.float64).tiny) / (FIRST_STEP * block.radius) * np.eye(len(gradient))


def _learned(bend: Matrix, step: Vector, change: Vector) -> Matrix:
    """BFGS's update, with Powell's damping: change @ step is at least a fifth of what the old matrix says.

    No direction may bend 1e8 times less than another, or rounding would make the matrix singular.
    """
    along = bend @ step
    expected, seen = float(step @ along), float(change @ step)
    share = 1.0 if seen >= 0.2 * expected else 0.8 * expected / (expected - seen)
    damped = share * change + (1 - share) * along
    learned = bend - np.outer(along, along) / expected + np.outer(damped, damped) / float(damped @ step)
    return learned + 1e-8 * float(np.trace(learned)) * np.eye(len(step))
