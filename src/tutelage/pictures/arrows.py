"""A policy on a grid: an arrow for each move, as long and as opaque as it is probable, and a disc for staying."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from tutelage.arrays import Matrix, Vector
from tutelage.pictures.marks import CIRCLE, add_polygons, centres, line_width

# Columns to the right and rows down, in the order of the world's actions; the last is to stay.
STEPS = np.array([[0.0, -1.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])

# An arrow of unit length, from the tail, as steps along it and across it; its tip is the fourth corner.
ARROW = np.array([[0.0, 0.12], [0.5, 0.12], [0.5, 0.36], [1.0, 0.0], [0.5, -0.36], [0.5, -0.12], [0.0, -0.12]])

PURPLE = "#7b2a8b"
# Of a sure move and of a sure stay, in cells; arrows leave the middle of the cell free.
LENGTH, RADIUS, FREE = 0.38, 0.11, 0.11
SMALLEST_PROBABILITY = 0.05


def draw_arrows(axes: Axes, policy: Matrix) -> None:
    """Draw the choices of a policy (n, n, 5) but those of less than the smallest probability."""
    size = len(policy)
    chosen = policy.reshape(size * size, len(STEPS))
    cells, actions = np.nonzero(chosen >= SMALLEST_PROBABILITY)
    probability, places, steps = chosen[cells, actions], centres(cells, size), STEPS[actions]
    colours, moves = _fading(probability), steps.any(axis=1)
    style = {"edgecolors": "white", "linewidths": 0.3 * line_width(size), "zorder": 5}
    arrows = _arrows(places[moves], steps[moves], probability[moves])
    discs = places[~moves, None, :] + RADIUS * np.sqrt(probability[~moves, None, None]) * CIRCLE
    add_polygons(axes, arrows, facecolors=colours[moves], label="moves", **style)
    add_polygons(axes, discs, facecolors=colours[~moves], label="stays", **style)


def _arrows(places: Matrix, steps: Matrix, probability: Vector) -> Matrix:
    """(n, 7, 2), as long as they are probable; their width falls more slowly, so that short ones are still seen."""
    sideways = steps[:, ::-1] * [1.0, -1.0]
    along = FREE + LENGTH * probability[:, None] * ARROW[:, 0]
    across = LENGTH * np.sqrt(probability)[:, None] * ARROW[:, 1]
    corners: Matrix = places[:, None] + along[:, :, None] * steps[:, None] + across[:, :, None] * sideways[:, None]
    return corners


def _fading(probability: Vector) -> Matrix:
    """(n, 4), one colour, the more opaque the more probable the choice."""
    return np.column_stack([np.tile(to_rgb(PURPLE), (len(probability), 1)), np.clip(0.3 + 0.7 * probability, 0.0, 1.0)])
