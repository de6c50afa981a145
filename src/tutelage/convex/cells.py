"""Branch and bound over the border of a box or ball: a bound on a function that is known cell by cell.

Cells are split, the one with the largest bound first, until no bound is much above the largest value known or the limit
on cells is reached. The bound of a cell also holds for its halves.

A bound on a directional derivative, as (phi(x + t w) - tangent(x)) / t over a cell, holds for every t > 0
(`StepSearch`).
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.blocks import Block
from tutelage.outcomes import Ended, Solution

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
