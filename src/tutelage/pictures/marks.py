"""Shapes of one cell, in units of cells, so that they keep their proportions on a grid of any size.

The plane of a world: x is the column, y the row and grows downwards, and a cell's centre has whole coordinates.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from tutelage.arrays import Flags, Indices, Matrix

SQUARE = 0.5 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])

# Outer and inner corners in turn; the first points up, to the smaller rows.
_FIFTHS = np.arange(10) * np.pi / 5
STAR = 0.42 * np.where(np.arange(10) % 2, 0.45, 1.0)[:, None] * np.column_stack([np.sin(_FIFTHS), -np.cos(_FIFTHS)])

_ARM, _HALF = 0.36, 0.12
PLUS = np.array(
    [
        [-_HALF, -_ARM], [_HALF, -_ARM], [_HALF, -_HALF], [_ARM, -_HALF], [_ARM, _HALF], [_HALF, _HALF],
        [_HALF, _ARM], [-_HALF, _ARM], [-_HALF, _HALF], [-_ARM, _HALF], [-_ARM, -_HALF], [-_HALF, -_HALF],
    ]
)  # fmt: skip

_TURN = np.linspace(0.0, 2 * np.pi, 48, endpoint=False)
CIRCLE = np.column_stack([np.cos(_TURN), np.sin(_TURN)])
DOT = 0.2 * CIRCLE

# Two ends per stripe: rising for green, level for yellow.
RISING = 0.35 * np.array([[[-0.8, 0.0], [0.0, -0.8]], [[-0.8, 0.8], [0.8, -0.8]], [[0.0, 0.8], [0.8, 0.0]]])
LEVEL = 0.35 * np.array([[[-0.8, y], [0.8, y]] for y in (-0.55, 0.0, 0.55)])


def centres(cells: Sequence[int] | Indices, size: int) -> Matrix:
    """(n, 2), the column and the row of each cell."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), size)
    return np.column_stack([columns, rows]).astype(np.float64)


def placed(shape: Matrix, cells: Sequence[int] | Indices, size: int) -> Matrix:
    """(n, k, 2), a shape (k, 2) at each of the cells."""
    return centres(cells, size)[:, None, :] + shape


def line_width(size: int) -> float:
    """In points, thin on a fine grid."""
    return float(np.clip(9.0 / size, 0.25, 1.3))


def add_polygons(axes: Axes, corners: Matrix, **style: Any) -> None:
    """Fill n polygons (n, k, 2)."""
    axes.add_collection(PolyCollection(list(corners), **style))


def add_segments(axes: Axes, ends: Matrix, **style: Any) -> None:
    """Draw n lines (n, 2, 2)."""
    axes.add_collection(LineCollection(list(ends), **style))


def outline(mask: Flags) -> Matrix:
    """(n, 2, 2), the sides between a cell of the mask (rows, columns) and one that is none, or the grid's edge."""
    padded = np.pad(mask, 1)
    rows, columns = np.nonzero(padded[1:, :] != padded[:-1, :])
    level = [[[column - 1.5, row - 0.5], [column - 0.5, row - 0.5]] for row, column in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(padded[:, 1:] != padded[:, :-1])
    upright = [
        [[column - 0.5, row - 1.5], [column - 0.5, row - 0.5]] for row, column in zip(rows, columns, strict=True)
    ]
    return np.array(level + upright, dtype=np.float64).reshape(-1, 2, 2)
