"""An upper bound on the reward of any lesson: branch and bound over the learner's reward weights.

A learner with reward weights a earns R(a) = w @ grad phi(a), with phi convex (`learners.reduction`). Therefore

    R(a) <= (phi(a + t w) - phi(a)) / t                                              for every t > 0      (convexity)
         <= (phi(a + t w) - L(a)) / t                                                 for every tangent L of phi

and the last is convex in a: over a box its maximum is at a corner. A few values of phi thus bound R over a *cell*. The
bound is tighter for smaller cells, and exact where phi is linear (`CellSearch` splits them).

R never decreases along w, so only the border points where w leads out of the set are searched: for a box, the *forward
faces*, which are boxes of one dimension less. Cells inside a ball and cells outside it are skipped.

The same cells bound the reward of every learner of a version space (`robust_bounding`).
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.blocks import Block
from tutelage.learners.dual import Reduction, Settled
from tutelage.outcomes import Ended, EndlessValue, NotConverged, Solution
from tutelage.teachers.climbing import ReducedProblem

# Relative accuracy of the functions bounded.
CELL_ACCURACY = 1e-9
# Cells of more dimensions have too many corners, 2^(d - 1) each.
MOST_DIMENSIONS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The weights from low to high, (d_r,) each; equal in the coordinates that are fixed on a face."""

    low: Vector
    high: Vector

    @property
    def centre(self) -> Vector:
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        return float((self.high - self.low).max())

    def corners(self) -> Iterator[Vector]:
        sides = [(low,) if low == high else (low, high) for low, high in zip(self.low, self.high, strict=True)]
        return (np.array(corner) for corner in product(*sides))

    def halves(self) -> tuple["Cell", "Cell"]:
        """The cell cut across its longest side."""
        longest = np.arange(len(self.low)) == (self.high - self.low).argmax()
        upper_end, lower_end = np.where(longest, self.centre, self.high), np.where(longest, self.centre, self.low)
        return Cell(self.low, upper_end), Cell(lower_end, self.high)

    def meets_border(self, block: Block) -> bool:
        """Whether the cell may contain border points of the block's ball; always true for the faces of a box."""
        if not block.is_ball:
            return True
        nearest = np.clip(0.0, self.low, self.high)
        furthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return block.size(nearest) <= float(block.radius) <= block.size(furthest)


def opening_cells(block: Block, weights: Vector) -> tuple[Cell, ...]:
    """The forward faces of a box; around a ball, the whole box."""
    high = np.full(len(weights), block.radius)
    if block.is_ball:
        return (Cell(-high, high),)
    faces = []
    for i in np.flatnonzero(weights):
        fixed, end = np.arange(len(weights)) == i, np.copysign(block.radius, weights[i])
        faces.append(Cell(np.where(fixed, end, -high), np.where(fixed, end, high)))
    return tuple(faces)


@dataclass(slots=True, eq=False)
class CellSearch:
    """Branch and bound: iterate over the cells to evaluate, and `add` what each is found to be.

    fresh: the cells to begin with. value, bound: of the function, known before. enough: the bound at which the search
    ends, given the largest value. best: the centre of the largest value, None where no centre exceeds the first value.
    """

    fresh: tuple[Cell, ...]
    value: float
    bound: float
    enough: Callable[[float], float]
    max_cells: int
    best: Vector | None = None
    n_cells: int = 0
    ended: Ended = Ended.STEP_LIMIT
    queue: list[tuple[float, int, Cell]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Cell]:
        while self.fresh:
            watch.report("cells", self.n_cells, self.bound - self.value)
            yield from self.fresh
            if not self.queue or -self.queue[0][0] <= self.enough(self.value):
                self.ended = Ended.CONVERGED
                return
            if self.n_cells >= self.max_cells or self.queue[0][2].width == 0:
                return
            negative, _, cell = heapq.heappop(self.queue)
            self.fresh, self.bound = cell.halves(), -negative

    def add(self, cell: Cell, bound: float, value: float = -np.inf) -> None:
        """A bound over a cell, and a value at its centre."""
        self.value, self.best = (value, cell.centre) if value > self.value else (self.value, self.best)
        heapq.heappush(self.queue, (-min(self.bound, bound), self.n_cells, cell))
        self.n_cells += 1

    def give_up(self) -> None:
        """End where a cell cannot be evaluated: the bound of the cell that it is a half of holds."""
        heapq.heappush(self.queue, (-self.bound, self.n_cells, self.fresh[0]))

    def solution(self) -> Solution[Vector | None]:
        """The best centre, its value, and the bound on all cells."""
        highest = max(self.value, -self.queue[0][0]) if self.queue else self.value
        return Solution(self.best, self.value, highest, highest - self.value, self.ended, self.n_cells)


@dataclass(slots=True, eq=False)
class StepSearch:
    """The least bound over t: iterate over t = step, doubled and halved while that helps, and `add` each bound.

    It ends at the value known: where nothing can be gained, ever longer steps would approach it for ever.
    """

    step: float
    value: float
    bound: float = np.inf

    def __iter__(self) -> Iterator[float]:
        yield self.step
        enough = self.value + CELL_ACCURACY * (1 + abs(self.value))
        for factor in (2.0, 0.5):
            t, before = factor * self.step, np.inf
            while self.bound > enough and self.bound < before - CELL_ACCURACY * (1 + abs(self.bound)):
                before = self.bound
                yield t
                t *= factor

    def add(self, bound: float) -> None:
        """The bound that the last t gives."""
        self.bound = min(self.bound, bound)


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
    except (NotConverged, EndlessValue):
        # Also at the time limit, and where a learner with some weights would go on for ever.
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
