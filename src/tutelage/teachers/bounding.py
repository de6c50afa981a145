"""An upper bound on the reward of any lesson: branch and bound over the learner's reward weights.

A learner with reward weights a earns R(a) = w @ grad phi(a), with phi convex (`learners.reduction`). Therefore

    R(a) <= (phi(a + t w) - phi(a)) / t                                              for every t > 0      (convexity)
         <= (phi(a + t w) - L(a)) / t                                                 for every tangent L of phi

and the last is convex in a: over a box its maximum is at a corner. A few values of phi thus bound R over a *cell*. The
bound is tighter for smaller cells, and exact where phi is linear. Cells are split, the one with the largest bound
first, until no bound is much above the reward achieved or the limit on cells is reached.

R never decreases along w, so only the border points where w leads out of the set are searched: for a box, the *forward
faces*, which are boxes of one dimension less. Cells inside a ball and cells outside it are skipped.
"""

import heapq
from dataclasses import dataclass, field

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.cells import ACCURACY, Cell, opening_cells
from tutelage.learners.reduction import Reduction, Settled
from tutelage.outcomes import NotConverged
from tutelage.teachers.climbing import ReducedProblem

# The search for a tighter bound ends at this relative gap.
GAP_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """A bound on R over the set. better: the cells' centre with the most reward, where that exceeds `achieved`."""

    bound: float
    n_cells: int
    better: Vector | None


def search(
    problem: ReducedProblem, *, achieved: float, ceiling: float, max_cells: int, tolerance: float = GAP_TOLERANCE
) -> Ceiling:
    """Split cells until every bound is within `tolerance * (1 + |achieved|)` of `achieved`, or up to `max_cells`.

    At the time limit, or where phi cannot be computed, the search ends with the bound that it has. achieved: the reward
    of a known lesson. ceiling: a known bound.
    """
    block, weights, better = problem.block, problem.true_weights, None
    convex = _Tangents(problem.reduction)
    queue: list[tuple[float, int, Cell]] = []
    fresh, parent, n_cells = opening_cells(block, weights), ceiling, 0
    while fresh:
        try:
            watch.report("cells", n_cells, parent - achieved)
            for cell in (cell for cell in fresh if cell.meets_border(block)):
                reward = float(weights @ convex.at(cell.centre).slope)
                if reward > achieved and block.size(cell.centre) <= block.radius:
                    achieved, better = reward, cell.centre
                heapq.heappush(queue, (-min(parent, _bound(convex, cell, weights, achieved)), n_cells, cell))
                n_cells += 1
        except NotConverged:
            # Also at the time limit. The bound of their parent holds for the cells that were not finished.
            heapq.heappush(queue, (-parent, n_cells, fresh[0]))
            break
        if not queue or -queue[0][0] <= achieved + tolerance * (1 + abs(achieved)) or n_cells >= max_cells:
            break
        negative, _, cell = heapq.heappop(queue)
        fresh, parent = cell.halves(), -negative
    bound = max(achieved, -queue[0][0]) if queue else achieved
    return Ceiling(bound, n_cells, better)


def _bound(convex: "_Tangents", cell: Cell, weights: Vector, achieved: float) -> float:
    """The least bound over the tangents at centre and corners, and over t, doubled and halved while that helps."""
    if cell.width == 0:
        return float(weights @ convex.at(cell.centre).slope)
    corners = list(cell.corners())
    tangents = [convex.at(point) for point in (cell.centre, *corners)]
    lower = np.array([[t.value + float(t.slope @ (corner - t.point)) for corner in corners] for t in tangents])

    def reaching(t: float) -> float:
        ahead = np.array([convex.at(corner + t * weights).value for corner in corners])
        slack = ACCURACY * (1 + float(np.abs(ahead).max()))
        return (float((ahead - lower).max(axis=1).min()) + slack) / t

    step = cell.width / float(np.abs(weights).max())
    bound = reaching(step)
    # Where no reward can be gained, the bound would approach the reward achieved for ever longer steps.
    enough = achieved + ACCURACY * (1 + abs(achieved))
    for factor in (2.0, 0.5):
        t = factor * step
        while bound > enough and (closer := reaching(t)) < bound - ACCURACY * (1 + abs(bound)):
            bound, t = closer, factor * t
    return bound


@dataclass(frozen=True, slots=True, eq=False)
class _Tangent:
    """phi and its gradient at a point: a lower bound on phi everywhere."""

    point: Vector
    value: float
    slope: Vector


@dataclass(slots=True, eq=False)
class _Tangents:
    """Evaluated tangents of phi, which neighbouring cells share. Only the last learner is kept, as a warm start."""

    reduction: Reduction
    last: Settled | None = None
    known: dict[bytes, _Tangent] = field(default_factory=dict)

    def at(self, point: Vector) -> _Tangent:
        key = point.tobytes()
        if key not in self.known:
            self.last = self.reduction.settle(point, near=self.last)
            self.known[key] = _Tangent(point, self.last.value, self.last.expectation.reward)
        return self.known[key]
