"""The variant of the Frank-Wolfe method in Appendix G: nonlinear constraints are linearised.

    maximise   f(x)   subject to   h(x) <= 0,   lower <= x <= upper

Each step computes the gradient g of f and the Jacobian A of h at x by finite differences, from the same evaluations,
solves the direction-finding linear program

    maximise   g @ v   subject to   h(x) + A (v - x) <= 0,   lower <= v <= upper;

and moves to the best feasible point between x and the vertex v that solves it. With linear constraints this is the
Frank-Wolfe method with line search. f need not be concave: the result depends on the start, and its `gap` g @ (v - x)
is the gain that the last linear program predicts. Constraints hold to a stated tolerance at every point, so x is always
feasible in the linear program. Where an active constraint is curved, the segment to the vertex may leave the feasible
set at once. The ascent then stops before it reaches the maximum.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.newton import Reached
from tutelage.convex.programs import LinearConstraints, minimise_linear
from tutelage.outcomes import Ended, InvalidModel, Solution

# Step of the finite differences, relative to the width of the box.
DIFFERENCE = 1e-5
# A line search evaluates N_SPACED evenly spaced points, and then N_SECTIONS golden sections around the best.
N_SPACED = 20
N_SECTIONS = 12
GOLDEN = (3 - math.sqrt(5)) / 2
SourceT = TypeVar("SourceT")


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation(Generic[SourceT]):
    """value: f(x). excess: (m,), h(x). source: whatever else was computed there."""

    value: float
    excess: Vector
    source: SourceT

    @property
    def violation(self) -> float:
        """The largest violation of a constraint."""
        return float(self.excess.max(initial=0.0))

    @property
    def total_violation(self) -> float:
        """The sum of all violations."""
        return float(np.maximum(self.excess, 0.0).sum())


@dataclass(frozen=True, slots=True, eq=False)
class NonlinearProgram(Generic[SourceT]):
    """f and h over the box from lower to upper (n,).

    evaluate: f and h at a point of the box, given the source of a nearby point as a warm start.
    """

    evaluate: Callable[[Vector, SourceT | None], Evaluation[SourceT]]
    lower: Vector
    upper: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """The derivatives of f, (n,), and of h, (m, n)."""

    gradient: Vector
    jacobian: Matrix


Climb = Solution[Reached[Evaluation[SourceT]]]


def maximise(
    program: NonlinearProgram[SourceT],
    start: Vector,
    *,
    feasibility_tolerance: float,
    stop_tolerance: float,
    max_steps: int = 50,
) -> Climb[SourceT]:
    """Climb from a feasible start until a step gains, or is predicted to gain, at most `stop_tolerance`.

    CONVERGED: the linear program predicts no larger gain. SETTLED: it does, but the line search finds none.
    """
    x, here = start, program.evaluate(start, None)
    if here.violation > feasibility_tolerance:
        raise InvalidModel(f"the start violates a constraint by {here.violation:.3g}; call restore() first")

    def score(there: Evaluation[SourceT]) -> float:
        return there.value if there.violation <= feasibility_tolerance else -math.inf

    for n_steps in range(max_steps):
        slopes = differences(program, x, here)
        vertex = ascent_vertex(program, x, here, slopes, feasibility_tolerance)
        gap, before = float(slopes.gradient @ (vertex - x)), here.value
        if gap <= stop_tolerance:
            return _climb(x, here, gap, n_steps, Ended.CONVERGED)
        x, here = line_search(program, x, here, vertex, score)
        if here.value - before <= stop_tolerance:
            return _climb(x, here, gap, n_steps + 1, Ended.SETTLED)
    return _climb(x, here, gap, max_steps, Ended.STEP_LIMIT)


def restore(
    program: NonlinearProgram[SourceT], start: Vector, *, feasibility_tolerance: float, max_steps: int = 50
) -> Climb[SourceT]:
    """Search for a feasible point from any start in the box, by the same steps on the violation.

    The linear program minimises the sum of the linearised violations, and the line search takes the first feasible
    point, or else the one with the least violation. CONVERGED: a feasible point was found. SETTLED: a step lowered
    the violation by less than a hundredth; there may be no feasible point. The residual is the remaining violation.
    """
    x, here, n_steps, ended = start, program.evaluate(start, None), 0, Ended.STEP_LIMIT

    def score(there: Evaluation[SourceT]) -> float:
        return 0.0 if there.violation <= feasibility_tolerance else -there.total_violation

    while here.violation > feasibility_tolerance and n_steps < max_steps and ended is Ended.STEP_LIMIT:
        slopes, before = differences(program, x, here), here.total_violation
        x, here = line_search(program, x, here, restoring_vertex(program, x, here, slopes), score)
        n_steps += 1
        if here.total_violation > 0.99 * before:
            ended = Ended.SETTLED
    if here.violation <= feasibility_tolerance:
        ended = Ended.CONVERGED
    return _climb(x, here, here.violation, n_steps, ended)


def _climb(x: Vector, here: Evaluation[SourceT], gap: float, n_steps: int, ended: Ended) -> Climb[SourceT]:
    return Solution(Reached(x, here), here.value, here.value + gap, gap, ended, n_steps)


def differences(program: NonlinearProgram[SourceT], x: Vector, here: Evaluation[SourceT]) -> Slopes:
    """Finite differences in each coordinate, central where the box allows it; zero where the box has no width."""
    step = DIFFERENCE * (program.upper - program.lower)
    below, above = np.maximum(x - step, program.lower), np.minimum(x + step, program.upper)
    gradient, jacobian = np.zeros(len(x)), np.zeros((len(here.excess), len(x)))
    for i in np.flatnonzero(above > below):
        low, high = x.copy(), x.copy()
        low[i], high[i] = below[i], above[i]
        left, right = (program.evaluate(point, here.source) for point in (low, high))
        gradient[i] = (right.value - left.value) / (above[i] - below[i])
        jacobian[:, i] = (right.excess - left.excess) / (above[i] - below[i])
    return Slopes(gradient, jacobian)


def ascent_vertex(
    program: NonlinearProgram[SourceT], x: Vector, here: Evaluation[SourceT], slopes: Slopes, tolerance: float
) -> Vector:
    """(n,), the vertex of the direction-finding linear program; x where the gradient is zero."""
    steepest = np.abs(slopes.gradient).max(initial=0.0)
    if steepest == 0:
        return x
    # Half the tolerance is reserved for the rounding of the linear program; x stays feasible.
    rows, room, _ = _scaled(slopes.jacobian, np.maximum(tolerance / 2 - here.excess, 0.0))
    return _vertex(program, x, rows, room, -slopes.gradient / steepest)


def restoring_vertex(
    program: NonlinearProgram[SourceT], x: Vector, here: Evaluation[SourceT], slopes: Slopes
) -> Vector:
    """(n,), the point of the box with the least sum of linearised violations."""
    rows, room, size = _scaled(slopes.jacobian, -here.excess)
    # Slacks in units of the violations, which may be far larger than the steps.
    unit = np.maximum(np.abs(room), 1.0)
    costs = size * unit / (size * unit).max()
    return _vertex(program, x, np.hstack([rows, -np.diag(unit)]), room, np.concatenate([np.zeros(len(x)), costs]))


def _vertex(program: NonlinearProgram[SourceT], x: Vector, rows: Matrix, room: Vector, slope: Vector) -> Vector:
    """(n,), the point v of the box in argmin slope @ (v, s) where rows @ (v - x, s) <= room, for slacks s >= 0."""
    n = len(x)
    constraints = LinearConstraints(
        lower=np.zeros(len(slope)),
        within=np.vstack([np.eye(n, len(slope)), rows]),
        bound=np.concatenate([program.upper - program.lower, room + rows[:, :n] @ (x - program.lower)]),
    )
    vertex = minimise_linear(slope, constraints).answer.x
    return np.clip(program.lower + vertex[:n], program.lower, program.upper)


def line_search(
    program: NonlinearProgram[SourceT],
    x: Vector,
    here: Evaluation[SourceT],
    vertex: Vector,
    score: Callable[[Evaluation[SourceT]], float],
) -> tuple[Vector, Evaluation[SourceT]]:
    """The point between x and the vertex with the highest score: the first best of the evenly spaced ones, refined."""

    def at(share: float) -> Vector:
        # Rounding must not move the vertex out of the box.
        return np.clip(x + share * (vertex - x), program.lower, program.upper)

    share, best, last = 0.0, here, here
    for k in range(1, N_SPACED + 1):
        last = program.evaluate(at(k / N_SPACED), last.source)
        if score(last) > score(best):
            share, best = k / N_SPACED, last
    low, high = max(share - 1 / N_SPACED, 0.0), min(share + 1 / N_SPACED, 1.0)
    for _ in range(N_SECTIONS):
        goes_up = high - share > share - low
        probe = share + GOLDEN * (high - share if goes_up else low - share)
        there = program.evaluate(at(probe), best.source)
        if score(there) > score(best):
            low, high = (share, high) if goes_up else (low, share)
            share, best = probe, there
        else:
            low, high = (low, probe) if goes_up else (probe, high)
    return at(share), best


def _scaled(jacobian: Matrix, room: Vector) -> tuple[Matrix, Vector, Vector]:
    """jacobian @ step <= room with each row scaled to a largest entry of one, and the scales (m,).

    Rows below 1e-9 are noise and are not scaled. Entries below 1e-7 of their row are set to zero: the library would
    drop such entries on one side of the inequality only.
    """
    size = np.abs(jacobian).max(axis=1, initial=0.0)
    size = np.where(size > 1e-9, size, 1.0)
    rows = jacobian / size[:, None]
    return np.where(np.abs(rows) > 1e-7, rows, 0.0), room / size, size
