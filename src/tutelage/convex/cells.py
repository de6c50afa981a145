"""Branch and bound over the border of a box or ball: a bound on a function that is known cell by cell.

Cells are split, the one with the largest bound first, until no bound is much above the largest value known or the limit
on cells is reached. The bound of a cell also holds for its halves.

A bound on a directional derivative, as (phi(x + t w) - tangent(x)) / t over a cell, holds for every t > 0
(`least_over_steps`).
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.blocks import Block
from tutelage.outcomes import Ended, Solution, TutelageError

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


def branch_and_bound(
    cells: tuple[Cell, ...],
    evaluate: Callable[[Cell, float], tuple[float, float]],
    *,
    value: float,
    bound: float,
    enough: Callable[[float], float],
    max_cells: int,
) -> Solution[Vector | None]:
    """A bound on a function over all cells.

    evaluate: a bound over a cell, -inf where the cell does not count, given the largest value so far; and the value at
    the cell's centre, or -inf. value, bound: those known before. enough: the bound at which the search ends, given the
    largest value. The answer is the centre of the largest value, None where no centre exceeds `value`. At the time
    limit, or where a cell cannot be evaluated, the bound of the cell that it is a half of holds.
    """
    queue: list[tuple[float, int, Cell]] = []
    fresh, parent, n_cells, best, ended = cells, bound, 0, None, Ended.STEP_LIMIT
    while fresh:
        try:
            watch.report("cells", n_cells, parent - value)
            for cell in fresh:
                above, here = evaluate(cell, value)
                value, best = (here, cell.centre) if here > value else (value, best)
                if above > -np.inf:
                    heapq.heappush(queue, (-min(parent, above), n_cells, cell))
                    n_cells += 1
        except TutelageError:
            heapq.heappush(queue, (-parent, n_cells, fresh[0]))
            break
        if not queue or -queue[0][0] <= enough(value):
            ended = Ended.CONVERGED
            break
        if n_cells >= max_cells or queue[0][2].width == 0:
            break
        negative, _, cell = heapq.heappop(queue)
        fresh, parent = cell.halves(), -negative
    highest = max(value, -queue[0][0]) if queue else value
    return Solution(best, value, highest, highest - value, ended, n_cells)


def least_over_steps(reaching: Callable[[float], float], step: float, value: float) -> float:
    """The least of the bounds reaching(t) over t = step, doubled and halved while that helps.

    It ends at the value known: where nothing can be gained, ever longer steps would approach it for ever.
    """
    bound, enough = reaching(step), value + CELL_ACCURACY * (1 + abs(value))
    for factor in (2.0, 0.5):
        t = factor * step
        while bound > enough and (closer := reaching(t)) < bound - CELL_ACCURACY * (1 + abs(bound)):
            bound, t = closer, factor * t
    return bound
