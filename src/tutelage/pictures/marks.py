"""Shapes on a grid: the marks of objects and distractors, and the arrows of a policy.

Lengths are in cells, so that shapes keep their proportions on a grid of any size. In the plane of a world x is the
column and y the row, which grows downwards; the centre of a cell has whole coordinates.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb

from tutelage.arrays import Flags, Indices, Matrix, Vector

SQUARE = 0.5 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])

# Outer and inner corners alternate; the first points up, to the smaller rows.
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

# Two ends per stripe: rising stripes for green, level stripes for yellow.
RISING = 0.35 * np.array([[[-0.8, 0.0], [0.0, -0.8]], [[-0.8, 0.8], [0.8, -0.8]], [[0.0, 0.8], [0.8, 0.0]]])
LEVEL = 0.35 * np.array([[[-0.8, y], [0.8, y]] for y in (-0.55, 0.0, 0.55)])

# Columns to the right and rows down, in the order of the world's actions; the last action stays.
STEPS = np.array([[0.0, -1.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])

# An arrow of unit length: the coordinates of its corners along it and across it, from the tail; the fourth is the tip.
ARROW = np.array([[0.0, 0.12], [0.5, 0.12], [0.5, 0.36], [1.0, 0.0], [0.5, -0.36], [0.5, -0.12], [0.0, -0.12]])

PURPLE = "#7b2a8b"
# The length of an arrow and the radius of a disc at probability one; arrows start FREE away from the cell's centre.
LENGTH, RADIUS, FREE = 0.38, 0.11, 0.11
# Choices with a smaller probability are left out.
SMALLEST_PROBABILITY = 0.05


def centres(cells: Sequence[int] | Indices, size: int) -> Matrix:
    """(n, 2), the column and the row of each cell."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), size)
    return np.column_stack([columns, rows]).astype(np.float64)


def placed(shape: Matrix, cells: Sequence[int] | Indices, size: int) -> Matrix:
    """(n, k, 2), a shape (k, 2) at each of the cells."""
    return centres(cells, size)[:, None, :] + shape


def line_width(size: int) -> float:
    """The width of lines in points; lines are thinner on a finer grid."""
    return float(np.clip(9.0 / size, 0.25, 1.3))


def add_polygons(axes: Axes, corners: Matrix, **style: Any) -> None:
    """Fill n polygons (n, k, 2)."""
    axes.add_collection(PolyCollection(list(corners), **style))


def add_segments(axes: Axes, ends: Matrix, **style: Any) -> None:
    """Draw n lines (n, 2, 2)."""
    axes.add_collection(LineCollection(list(ends), **style))


def outline(mask: Flags) -> Matrix:
    """(n, 2, 2), the sides between a cell in the mask (rows, columns) and a cell outside it or the grid's edge."""
    padded = np.pad(mask, 1)
    below = np.argwhere(padded[1:, :] != padded[:-1, :])[:, None, ::-1]
    beside = np.argwhere(padded[:, 1:] != padded[:, :-1])[:, None, ::-1]
    return np.concatenate([below - [[1.5, 0.5], [0.5, 0.5]], beside - [[0.5, 1.5], [0.5, 0.5]]])


def draw_arrows(axes: Axes, policy: Matrix) -> None:
    """Draw a policy (n, n, 5): an arrow for each move, a disc for staying, as large and opaque as it is probable."""
    size = len(policy)
    chosen = policy.reshape(size * size, len(STEPS))
    cells, actions = np.nonzero(chosen >= SMALLEST_PROBABILITY)
    probability, places, steps = chosen[cells, actions], centres(cells, size), STEPS[actions]
    opacity, moves = np.clip(0.3 + 0.7 * probability, 0.0, 1.0), steps.any(axis=1)
    colours = np.column_stack([np.tile(to_rgb(PURPLE), (len(cells), 1)), opacity])
    style = {"edgecolors": "white", "linewidths": 0.3 * line_width(size), "zorder": 5}
    arrows = _arrows(places[moves], steps[moves], probability[moves])
    discs = places[~moves, None, :] + RADIUS * np.sqrt(probability[~moves, None, None]) * CIRCLE
    add_polygons(axes, arrows, facecolors=colours[moves], label="moves", **style)
    add_polygons(axes, discs, facecolors=colours[~moves], label="stays", **style)


def _arrows(places: Matrix, steps: Matrix, probability: Vector) -> Matrix:
    """(n, 7, 2), arrows with length proportional to probability, and width to its root, so that all are visible."""
    sideways = steps[:, ::-1] * [1.0, -1.0]
    along = FREE + LENGTH * probability[:, None] * ARROW[:, 0]
    across = LENGTH * np.sqrt(probability)[:, None] * ARROW[:, 1]
    return np.asarray(places[:, None] + along[:, :, None] * steps[:, None] + across[:, :, None] * sideways[:, None])
