"""An object world as a picture: objects, distractors, the cells a learner avoids, a policy, or a reward.

Lengths are in cells: x is the column and y the row, which grows downwards; the centre of a cell has whole coordinates.
No information is in colour alone: types differ in shape, distractors in stripes, and negative rewards have a minus.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from numpy.typing import NDArray

from tutelage.arrays import ArrayLike, Flags, Indices, Matrix
from tutelage.environments.object_world import ACTIONS, ObjectWorld
from tutelage.environments.placement import preference_features
from tutelage.outcomes import InvalidModel
from tutelage.pictures.plots import Style

SQUARE = 0.5 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
CIRCLE: Matrix = np.asarray(Path.unit_regular_polygon(48).vertices)
# The first corner of the star points up, to the smaller rows.
STAR: Matrix = np.asarray(Path.unit_regular_star(5, 0.45).vertices) * [0.42, -0.42]
PLUS = 0.12 * np.array(
    [[-1, -3], [1, -3], [1, -1], [3, -1], [3, 1], [1, 1], [1, 3], [-1, 3], [-1, 1], [-3, 1], [-3, -1], [-1, -1]]
)
SHAPES = {"star": STAR, "plus": PLUS, "dot": 0.2 * CIRCLE}

FILLS: dict[str, Style] = {
    "green": {"facecolor": "#3f9b57", "hatch": "///"},
    "yellow": {"facecolor": "#f4d64e", "hatch": "---"},
}
# On a heat map a distractor is a frame, so that the colour of its cell stays visible.
FRAMES: dict[str, Style] = {
    "green": {"edgecolors": "#1b7837"},
    "yellow": {"edgecolors": "#b58900", "linestyles": (0, (2.0, 1.0))},
}
AVOIDED_GREY = "#c4c4c4"

# Columns to the right and rows down, in the order of the world's actions; the last action stays.
STEPS = np.array([[0, -1], [-1, 0], [0, 1], [1, 0], [0, 0]])
# An arrow of probability one: its corners along it, from a tail that leaves the cell's centre free, and across it.
ARROW = 0.38 * np.array([[0.0, 0.12], [0.5, 0.12], [0.5, 0.36], [1.0, 0.0], [0.5, -0.36], [0.5, -0.12], [0.0, -0.12]])
# Rewards between zero and minus this share of the limit have no minus, and choices of a smaller probability no arrow.
FAINTEST = 0.05


def draw_world(
    axes: Axes,
    world: ObjectWorld,
    *,
    avoided: str | ArrayLike | None = None,
    policy: ArrayLike | None = None,
    reward: ArrayLike | None = None,
    vmax: float | None = None,
) -> None:
    """Draw the grid with its objects and distractors, and any of these:

    avoided: one of L1 .. L5, or (S,) booleans: these cells in grey, or only their outline over a reward.
    policy: (C,), an arrow per move, as long and as opaque as it is probable, and a disc for "stay".
    reward: (S,), a heat map from red (negative) over white to blue, with a minus in each negative cell.
    vmax: the reward of the deepest colour; by default the largest absolute reward.
    The entries of the terminal state, which come last, may be left out.
    """
    size, width = world.size, _line_width(world)
    is_filled = reward is None
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    for lines in (axes.hlines, axes.vlines):
        lines(np.arange(1, size) - 0.5, -0.5, size - 0.5, colors="0.75", linewidths=0.5 * width, zorder=1.5)
    if reward is not None:
        _draw_reward(axes, world, reward, vmax, has_arrows=policy is not None)
    if avoided is not None:
        mask = avoided_cells(world, avoided)
        if is_filled:
            cells = np.flatnonzero(mask)
            _add_shapes(axes, world, SQUARE, cells, facecolors=AVOIDED_GREY, linewidths=0, zorder=1, label="avoided")
        axes.add_collection(LineCollection(list(_outline(mask)), colors="0.3", linewidths=width, zorder=2))
    _draw_distractors(axes, world, is_filled=is_filled)
    fill, edge = ("black", "white") if policy is None else ("0.65", "black")
    style: Style = {"facecolors": fill, "edgecolors": edge, "linewidths": 0.7 * width, "zorder": 4}
    for kind, held in world.objects.items():
        shape = SHAPES[kind] if is_filled else 0.75 * SHAPES[kind]
        _add_shapes(axes, world, shape, held, label=kind, **style)
    for colour, wide in (("white", 2.2), ("black", 1.2)):
        style = {"facecolors": "none", "edgecolors": colour, "linewidths": wide * max(width, 0.7), "zorder": 4.5}
        _add_shapes(axes, world, 0.43 * CIRCLE, [world.start], label="start", **style)
    if policy is not None:
        _draw_arrows(axes, world, policy)


def avoided_cells(world: ObjectWorld, avoided: str | ArrayLike) -> Flags:
    """(n, n), the cells where any preference feature of a learner is not zero; or a mask (S,) by rows and columns."""
    if isinstance(avoided, str):
        avoided = preference_features(avoided, world.distractors, world.size).any(axis=1)
    return _on_grid(avoided, world, "avoided")[:, :, 0].astype(np.bool_)


def deepest(world: ObjectWorld, *rewards: ArrayLike) -> float:
    """The largest absolute reward; where all are rounding, below 1e-9 of the largest true weight, this weight."""
    unit = float(np.abs(world.true_weights).max()) or 1.0
    largest = max(float(np.abs(reward).max()) for reward in rewards)
    return largest if largest > 1e-9 * unit else unit


def reward_scale(vmax: float) -> ScalarMappable:
    """The colours of rewards from -vmax to vmax, for a heat map or a colour bar; larger rewards are clipped."""
    return ScalarMappable(Normalize(-vmax, vmax), "RdBu")


def world_key() -> list[Artist]:
    """The handles of a legend of the picture."""
    marks = (("star", "*", 9.0), ("plus", "P", 7.0), ("dot", "o", 4.5))
    points: Style = {"linestyle": "", "color": "black"}
    area: Style = {"edgecolor": "black", "linewidth": 0.6}
    return [
        *(Line2D([], [], marker=marker, markersize=size, label=kind, **points) for kind, marker, size in marks),
        Line2D([], [], marker="o", markersize=9.0, label="start", fillstyle="none", **points),
        *(Patch(label=f"{colour} distractor", **fill, **area) for colour, fill in FILLS.items()),
        Patch(facecolor=AVOIDED_GREY, label="avoided by the learner", **area),
    ]


def _on_grid(values: ArrayLike, world: ObjectWorld, name: str, n_each: int = 1) -> NDArray[Any]:
    """(n, n, n_each), the entries of the cells without those of the terminal state."""
    array = np.asarray(values)
    if array.shape not in ((n_each * world.terminal,), (n_each * (world.terminal + 1),)):
        needed = f"{n_each} entries for each of the {world.terminal + 1} states, of which the last is terminal"
        raise InvalidModel(f"{name} has shape {array.shape}; it must be a vector with {needed}")
    return array[: n_each * world.terminal].reshape(world.size, world.size, n_each)


def _draw_reward(axes: Axes, world: ObjectWorld, reward: ArrayLike, vmax: float | None, *, has_arrows: bool) -> None:
    values = _on_grid(reward, world, "reward")[:, :, 0]
    limit = vmax or deepest(world, values)
    edges = np.arange(world.size + 1) - 0.5
    axes.pcolormesh(edges, edges, values, vmin=-limit, vmax=limit, cmap="RdBu", zorder=1, label="reward")
    # A minus is lower in the cells that hold another mark.
    is_held = np.full(values.shape, has_arrows)
    is_held.flat[np.concatenate([*world.objects.values()]).astype(int)] = True
    rows, columns = np.nonzero(values < -FAINTEST * limit)
    heights = rows + 0.37 * is_held[rows, columns]
    colours = np.where(values[rows, columns] < -0.6 * limit, "white", "0.25").tolist()
    width = 1.2 * _line_width(world)
    axes.hlines(heights, columns - 0.2, columns + 0.2, colours, linewidths=width, zorder=2, label="minus")


def _draw_distractors(axes: Axes, world: ObjectWorld, *, is_filled: bool) -> None:
    """Draw distractors smaller than their cells, so that the grey of an avoided cell is visible around them."""
    width = _line_width(world)
    for colour, cells in world.distractors.items():
        if is_filled:
            style = {**FILLS[colour], "edgecolors": "black", "linewidths": 0.4 * width, "zorder": 3}
            _add_shapes(axes, world, 0.7 * SQUARE, cells, label=colour, **style)
        else:
            style = {"facecolors": "none", "zorder": 3}
            frame = 0.9 * SQUARE
            _add_shapes(axes, world, frame, cells, edgecolors="white", linewidths=3.0 * width, **style)
            _add_shapes(axes, world, frame, cells, linewidths=1.6 * width, label=colour, **style, **FRAMES[colour])


def _draw_arrows(axes: Axes, world: ObjectWorld, policy: ArrayLike) -> None:
    chosen = _on_grid(policy, world, "policy", len(ACTIONS)).reshape(world.terminal, len(ACTIONS))
    cells, actions = np.nonzero(chosen >= FAINTEST)
    probability = chosen[cells, actions][:, None, None]
    steps = STEPS[actions][:, None, :]
    # Length grows with probability, and width with its root, so that all are visible.
    across = np.sqrt(probability)
    arrows = (0.11 + probability * ARROW[:, :1]) * steps + across * ARROW[:, 1:] * steps[:, :, ::-1] * [1, -1]
    discs = 0.11 * across * CIRCLE
    colours = np.array([to_rgba("#7b2a8b", min(0.3 + 0.7 * share, 1.0)) for share in probability.ravel()])
    is_move = steps.any(axis=(1, 2))
    style: Style = {"edgecolors": "white", "linewidths": 0.3 * _line_width(world), "zorder": 5}
    for name, shapes, drawn in (("moves", arrows, is_move), ("stays", discs, ~is_move)):
        _add_shapes(axes, world, shapes[drawn], cells[drawn], facecolors=colours[drawn], label=name, **style)


def _line_width(world: ObjectWorld) -> float:
    """The width of lines in points; lines are thinner on a finer grid."""
    return float(np.clip(9.0 / world.size, 0.25, 1.3))


def _add_shapes(axes: Axes, world: ObjectWorld, shapes: Matrix, cells: Sequence[int] | Indices, **style: Any) -> None:
    """Fill a shape (k, 2), or shapes (n, k, 2), at the column and the row of each of n cells."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), world.size)
    places = np.column_stack([columns, rows])[:, None, :]
    axes.add_collection(PolyCollection(list(places + shapes), **style))


def _outline(mask: Flags) -> Matrix:
    """(n, 2, 2), the sides between a cell in the mask (rows, columns) and a cell outside it or the grid's edge."""
    padded = np.pad(mask, 1)
    below = np.argwhere(padded[1:, :] != padded[:-1, :])[:, None, ::-1]
    beside = np.argwhere(padded[:, 1:] != padded[:, :-1])[:, None, ::-1]
    return np.concatenate([below - [[1.5, 0.5], [0.5, 0.5]], beside - [[0.5, 1.5], [0.5, 0.5]]])
