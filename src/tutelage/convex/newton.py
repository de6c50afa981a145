"""Proximal Newton method for a smooth convex function plus simple terms: the solver of every entropy learner.

    minimise   f(x) + sum over blocks of h(x_block)

f is smooth and convex, with exact gradient and Hessian; each h is a weighted 1-norm, perhaps a square, on a norm ball
(`blocks`). A step minimises the damped second-order model of f plus the terms h exactly. The damping grows where the
model predicts a larger decrease than f shows, and vanishes where the model is right (Levenberg and Marquardt). The last
steps are therefore Newton steps. If the optimal weights are infinite, f falls like an exponential. Newton steps then
have length one and decrease f more than predicted, and the step length is doubled each time. The error measure is the
residual of the optimality conditions (`blocks.residual`), which is zero exactly at the minimum. Where rounding hides
any further progress, the best point is returned, and `ended` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypedDict, TypeVar

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Vector
from tutelage.convex.blocks import Block, contained, gap, model_minimum, residual, terms
from tutelage.outcomes import Ended, NotConverged

MAX_STEPS = 300
LARGEST = 1e60
# After this many steps without a residual half as large, within so many times the noise, rounding hides the rest.
PATIENCE, NOISY = 3, 1e3
# Where so many steps no longer decrease f, a residual below the first of these, or a relative gap below the second, is
# rounding as well.
LONG_PATIENCE, ACCEPTABLE, SMALL_GAP = 12, 1e-7, 1e-10
# The least factor of the damping after a refused step, and the largest power of ten by which refused steps raise it.
CAUTIOUS, FASTEST = 0.3, 4
SourceT = TypeVar("SourceT")


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
class Minimum(Generic[SourceT]):
    """The minimum x, f's expansion there, the residual of the optimality conditions, and f + h."""

    x: Vector
    expansion: Expansion[SourceT]
    residual: float
    n_steps: int
    ended: Ended
    value: float = np.inf


class Tolerances(TypedDict):
    """When to stop: at this residual and this duality gap."""

    tolerance: float
    gap_tolerance: float


def proximal_newton(
    smooth: Callable[[Vector, SourceT | None], Expansion[SourceT]],
    blocks: Sequence[Block],
    start: Vector,
    *,
    tolerance: float,
    gap_tolerance: float = np.inf,
    max_steps: int = MAX_STEPS,
) -> Minimum[SourceT]:
    """Minimise to a residual of `tolerance` and a duality gap of `gap_tolerance`, or as far as noise allows.

    smooth: f, given the source of the last expansion as a warm start. start: a point of the set. Raises `NotConverged`
    where x diverges or the step limit is reached, with the best point as its answer; `OutOfTime` at the time limit.
    """
    x, here = start, smooth(start, None)
    value = here.value + terms(blocks, x)
    damping, stretch, refused = 1e-3 * float(np.diag(here.hessian).max(initial=0.0)), 1.0, 0
    best, closest, since, gained, rounding = Minimum(x, here, np.inf, 0, Ended.STEP_LIMIT), np.inf, 0, 0.0, 0.0
    for n_steps in range(max_steps):
        error, apart = residual(here.gradient, blocks, x), abs(gap(here.gradient, blocks, x))
        # A step that was too long says nothing about rounding: the next one is shorter.
        is_progress = error <= 0.5 * best.residual or apart <= 0.5 * closest or gained > 10 * rounding
        since = 0 if is_progress else since + (gained >= -10 * rounding)
        is_good = error <= tolerance and apart <= gap_tolerance
        if is_good or error + apart < best.residual + closest:
            best, closest = Minimum(x, here, error, n_steps, Ended.STEP_LIMIT, value), apart
        if is_good:
            return replace(best, ended=Ended.CONVERGED)
        is_noise = best.residual <= here.noise and closest <= gap_tolerance
        is_stuck = since >= PATIENCE and best.residual <= NOISY * here.noise
        is_close = best.residual <= ACCEPTABLE or closest <= SMALL_GAP * (1 + abs(best.value))
        if is_noise or is_stuck or (since >= LONG_PATIENCE and is_close):
            return replace(best, n_steps=n_steps, ended=Ended.ROUNDING)
        watch.report("Newton steps", n_steps, error, replace(best, ended=Ended.TIME_LIMIT))
        # Flat directions need some curvature, and damping below 1e-14 of the Hessian's diagonal is lost to rounding.
        flat = 1e-5 * error / (1 + float(np.abs(x).max(initial=0.0)))
        damping = max(damping, flat, 1e-14 * float(np.diag(here.hessian).max(initial=0.0)))
        there = model_minimum(here.gradient, here.hessian + damping * np.eye(len(x)), blocks, x)
        predicted = _predicted_decrease(here, blocks, x, there)
        if stretch > 1:
            there = contained(blocks, x + stretch * (there - x))
        new = smooth(there, here.source)
        decrease = value - (new.value + terms(blocks, there))
        # Close to the minimum the decrease is smaller than the rounding error of f; the model is then trusted.
        rounding, gained = 1e-13 * (1 + abs(value)) + new.value_noise + here.value_noise, decrease
        is_taken, damping, stretch, refused = _adapted(damping, stretch, refused, decrease, predicted, rounding)
        if is_taken:
            x, here, value = there, new, value - decrease
        if np.abs(x).max(initial=0.0) > LARGEST or damping > LARGEST * (1 + np.diag(here.hessian).max(initial=0.0)):
            break
    if best.residual <= ACCEPTABLE and closest <= ACCEPTABLE * abs(best.value):
        return replace(best, n_steps=n_steps + 1, ended=Ended.ROUNDING)
    raise _unfinished(Minimum(x, here, residual(here.gradient, blocks, x), n_steps + 1, Ended.STEP_LIMIT, value), error)


def _adapted(
    damping: float, stretch: float, refused: int, decrease: float, predicted: float, rounding: float
) -> tuple[bool, float, float, int]:
    """Whether the step is taken, and the damping, the stretch and the number of refused steps before the next one.

    Damping grows faster with each refused step; after one, it does not fall at once to where steps were refused.
    """
    if decrease >= 1e-4 * predicted - rounding:
        factor = 1e-3 if decrease >= 0.99 * predicted else 0.05 if decrease >= 0.75 * predicted - rounding else 1.0
        factor = max(factor, CAUTIOUS) if refused else factor
        return True, factor * damping, 2 * stretch if decrease > 1.1 * predicted + rounding else 1.0, 0
    if stretch > 1:
        return False, damping, 1.0, refused
    return False, 10.0 ** min(refused + 1, FASTEST) * damping, stretch, refused + 1


def _unfinished(last: Minimum[SourceT], error: float) -> NotConverged:
    largest = np.abs(last.x).max()
    message = f"after {last.n_steps} Newton steps the residual is {error:.3g}, with weights up to {largest:.3g}"
    return NotConverged(message, residual=error, n_steps=last.n_steps, answer=last)


def _predicted_decrease(here: Expansion[SourceT], blocks: Sequence[Block], x: Vector, there: Vector) -> float:
    """The decrease of f + h that the second-order model predicts for the step."""
    step = there - x
    second_order = 0.5 * float(step @ here.hessian @ step)
    return -(float(here.gradient @ step) + second_order + terms(blocks, there) - terms(blocks, x))
