"""The variant of the Frank-Wolfe method in Appendix G: nonlinear constraints are linearised.

    maximise   f(x)   subject to   h(x) <= 0,   lower <= x <= upper

Each step takes the gradient g of f and the Jacobian A of h at x, solves the direction-finding linear program

    maximise   g @ v   subject to   h(x) + A (v - x) <= 0,   lower <= v <= upper;

and moves to the best feasible point between x and the vertex v that solves it. With linear constraints this is the
Frank-Wolfe method with line search. f need not be concave: the result depends on the start, and its `gap` g @ (v - x)
is the gain that the last linear program predicts. Constraints hold to a stated tolerance. From a feasible x all points
are feasible, so x satisfies its linear program. Where an active constraint is curved, the segment to the vertex may
leave the feasible set at once. The ascent then stops before it reaches the maximum.

A start need not be feasible. As long as x is not, the linear program minimises the sum of the linearised violations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.newton import Reached
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.outcomes import Ended, Solution

# A line search evaluates N_SPACED evenly spaced points, and then N_SECTIONS golden sections around the best.
N_SPACED, N_SECTIONS = 20, 12
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

    def merit(self, tolerance: float) -> tuple[float, float]:
        """Larger at the better of two points: less violation, or, where both are feasible, a larger value."""
        if self.violation <= tolerance:
            return 0.0, self.value
        return -float(np.maximum(self.excess, 0.0).sum()), 0.0


@dataclass(frozen=True, slots=True, eq=False)
class NonlinearProgram(Generic[SourceT]):
    """f and h over the box from lower to upper (n,).

    evaluate: f and h at a point of the box, given the source of a nearby point as a warm start. derivatives: of f (n,)
    and of h (m, n), at a point that was evaluated.
    """

    evaluate: Callable[[Vector, SourceT | None], Evaluation[SourceT]]
    derivatives: Callable[[Evaluation[SourceT]], tuple[Vector, Matrix]]
    lower: Vector
    upper: Vector


Climb = Solution[Reached[Evaluation[SourceT]]]


def maximise(
    program: NonlinearProgram[SourceT],
    start: Vector,
    *,
    feasibility_tolerance: float,
    stop_tolerance: float,
    max_steps: int = 50,
) -> Climb[SourceT]:
    """Climb from a start in the box until a step gains, or is predicted to gain, at most `stop_tolerance`.

    CONVERGED: the linear program predicts no larger gain. SETTLED: it does, but the line search finds none; or a step
    lowered the violation by less than a hundredth, and there may be no feasible point. Where the result is not
    feasible, its residual is the remaining violation.
    """
    x, here = start, program.evaluate(start, None)

    def ended(how: Ended, n_steps: int) -> Climb[SourceT]:
        residual = here.violation if here.violation > feasibility_tolerance else gap
        return Solution(Reached(x, here), here.value, here.value + residual, residual, how, n_steps)

    for n_steps in range(max_steps):
        vertex, gap = direction_vertex(program, x, here, feasibility_tolerance)
        short, before = here.merit(feasibility_tolerance)
        if short == 0 and gap <= stop_tolerance:
            return ended(Ended.CONVERGED, n_steps)
        x, here = line_search(program, x, here, vertex, feasibility_tolerance)
        left, value = here.merit(feasibility_tolerance)
        if left < 0.99 * short or (short == 0 and value - before <= stop_tolerance):
            return ended(Ended.SETTLED, n_steps + 1)
    return ended(Ended.STEP_LIMIT, max_steps)


def direction_vertex(
    program: NonlinearProgram[SourceT], x: Vector, here: Evaluation[SourceT], tolerance: float
) -> tuple[Vector, float]:
    """The vertex (n,) of the direction-finding linear program, or of the one for an x that is not feasible; its gap."""
    gradient, jacobian = program.derivatives(here)
    # Half the tolerance is reserved for the rounding of the linear program; a feasible x stays feasible.
    room = np.maximum(tolerance / 2 - here.excess, 0.0)
    rows, slope = jacobian, -gradient
    if here.violation > tolerance:
        # With one slack for each constraint, in units of its row.
        room = -here.excess
        size = np.maximum(np.abs(jacobian).max(axis=1, initial=0.0), np.abs(room))
        rows, slope = np.hstack([jacobian, -np.diag(size)]), np.append(np.zeros(len(x)), size)
    constraints = LinearConstraints(
        lower=np.zeros(len(slope)),
        within=np.vstack([np.eye(len(x), len(slope)), rows]),
        bound=np.concatenate([program.upper - program.lower, room + jacobian @ (x - program.lower)]),
    )
    try:
        vertex = minimise_linear(slope, constraints).answer.x[: len(x)]
    except InfeasibleProgram:
        # A feasible x satisfies its program, by less than the solver can see where it is the only point.
        return x, 0.0
    vertex = np.clip(program.lower + vertex, program.lower, program.upper)
    return vertex, float(gradient @ (vertex - x))


def line_search(
    program: NonlinearProgram[SourceT], x: Vector, here: Evaluation[SourceT], vertex: Vector, tolerance: float
) -> tuple[Vector, Evaluation[SourceT]]:
    """The best point between x and the vertex: the first best of the evenly spaced ones, refined."""

    def at(share: float) -> Vector:
        # Rounding must not move the vertex out of the box.
        return np.clip(x + share * (vertex - x), program.lower, program.upper)

    share, best, last = 0.0, here, here
    for k in range(1, N_SPACED + 1):
        last = program.evaluate(at(k / N_SPACED), last.source)
        if last.merit(tolerance) > best.merit(tolerance):
            share, best = k / N_SPACED, last
    low, high = max(share - 1 / N_SPACED, 0.0), min(share + 1 / N_SPACED, 1.0)
    for _ in range(N_SECTIONS):
        goes_up = high - share > share - low
        probe = share + GOLDEN * (high - share if goes_up else low - share)
        there = program.evaluate(at(probe), best.source)
        if there.merit(tolerance) > best.merit(tolerance):
            low, high = (share, high) if goes_up else (low, share)
            share, best = probe, there
        else:
            low, high = (low, probe) if goes_up else (probe, high)
    return at(share), best
