"""Cells of a box or of a ball's border, for branch and bound over the weights of a learner."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage.arrays import Vector
from tutelage.convex.blocks import Block

# Relative accuracy of phi.
ACCURACY = 1e-9


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
