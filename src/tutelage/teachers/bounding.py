"""An upper bound on the reward of any lesson: branch and bound over the learner's reward weights.

A learner with reward weights a earns R(a) = w @ grad phi(a), with phi convex (`learners.reduction`). Therefore

    R(a) <= (phi(a + t w) - phi(a)) / t                                              for every t > 0      (convexity)
         <= (phi(a + t w) - L(a)) / t                                                 for every tangent L of phi

and the last is convex in a: over a box its maximum is at a corner. A few values of phi thus bound R over a *cell*. The
bound is tighter for smaller cells, and exact where phi is linear (`convex.cells` splits them).

R never decreases along w, so only the border points where w leads out of the set are searched: for a box, the *forward
faces*, which are boxes of one dimension less. Cells inside a ball and cells outside it are skipped.
"""

from dataclasses import dataclass, field

import numpy as np

from tutelage.arrays import Vector
from tutelage.convex.cells import CELL_ACCURACY, Cell, CellSearch, StepSearch, opening_cells
from tutelage.learners.dual import Reduction, Settled
from tutelage.outcomes import NotConverged, Solution
from tutelage.teachers.climbing import ReducedProblem


def search(
    problem: ReducedProblem, *, achieved: float, ceiling: float, max_cells: int, tolerance: float = 0.01
) -> Solution[Vector | None]:
    """A bound on R over the set; its answer has the weights with the most reward, where that exceeds `achieved`.

    achieved: the reward of a known lesson. ceiling: a known bound. tolerance: the gap at which the search ends,
    relative to 1 + |reward|.
    """
    block, weights, convex = problem.block, problem.true_weights, _Tangents(problem.reduction)
    cells = CellSearch(
        opening_cells(block, weights),
        value=achieved,
        bound=ceiling,
        enough=lambda value: value + tolerance * (1 + abs(value)),
        max_cells=max_cells,
    )
    try:
        for cell in cells:
            if cell.meets_border(block):
                reward = float(weights @ convex.at([cell.centre])[0].slope)
                here = reward if block.size(cell.centre) <= block.radius else -np.inf
                cells.add(cell, _bound(convex, cell, weights, max(cells.value, here)), here)
    except NotConverged:
        # Also at the time limit.
        cells.give_up()
    return cells.solution()


def _bound(convex: "_Tangents", cell: Cell, weights: Vector, achieved: float) -> float:
    """The least bound over the tangents at centre and corners, and over t."""
    if cell.width == 0:
        return float(weights @ convex.at([cell.centre])[0].slope)
    corners = list(cell.corners())
    tangents = convex.at([cell.centre, *corners])
    lower = np.array([[t.value + float(t.slope @ (corner - t.point)) for corner in corners] for t in tangents])
    steps = StepSearch(cell.width / float(np.abs(weights).max()), achieved)
    for t in steps:
        ahead = np.array([tangent.value for tangent in convex.at([corner + t * weights for corner in corners])])
        slack = CELL_ACCURACY * (1 + float(np.abs(ahead).max()))
        steps.add((float((ahead - lower).max(axis=1).min()) + slack) / t)
    return steps.bound


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

    def at(self, points: list[Vector]) -> list[_Tangent]:
        for point in points:
            if point.tobytes() not in self.known:
                self.last = self.reduction.settle(point, near=self.last)
                self.known[point.tobytes()] = _Tangent(point, self.last.value, self.last.expectation.reward)
        return [self.known[point.tobytes()] for point in points]
