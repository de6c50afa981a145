"""An object world as a picture: objects, distractors, the cells a learner avoids, a policy, or a reward.

Lengths are in cells, so that shapes keep their proportions on a grid of any size. In the plane of a world x is the
column and y the row, which grows downwards; the centre of a cell has whole coordinates. No information is in colour
alone: types differ in shape, distractors in their stripes, and cells of negative reward have a minus.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from numpy.typing import NDArray

from tutelage.arrays import ArrayLike, Flags, Indices, Matrix
from tutelage.environments.object_world import ACTIONS, ObjectWorld
from tutelage.environments.placement import preference_features
from tutelage.outcomes import InvalidModel

SQUARE = 0.5 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
CIRCLE: Matrix = np.asarray(Path.unit_regular_polygon(48).vertices)
# The first corner of the star points up, to the smaller rows. The arms of a plus are three times as long as half their
# width.
STAR: Matrix = np.asarray(Path.unit_regular_star(5, 0.45).vertices) * [0.42, -0.42]
PLUS = 0.12 * np.array(
    [[-1, -3], [1, -3], [1, -1], [3, -1], [3, 1], [1, 1], [1, 3], [-1, 3], [-1, 1], [-3, 1], [-3, -1], [-1, -1]]
)
SHAPES = {"star": STAR, "plus": PLUS, "dot": 0.2 * CIRCLE}

# Rising stripes for green, level stripes for yellow.
FILLS: dict[str, dict[str, Any]] = {
    "green": {"facecolor": "#3f9b57", "hatch": "///"},
    "yellow": {"facecolor": "#f4d64e", "hatch": "---"},
}
# On a heat map a distractor is a frame, so that the colour of its cell stays visible.
FRAMES: dict[str, dict[str, Any]] = {
    "green": {"edgecolors": "#1b7837", "linestyles": "solid"},
    "yellow": {"edgecolors": "#b58900", "linestyles": (0, (2.0, 1.0))},
}
AVOIDED_GREY = "#c4c4c4"

# Columns to the right and rows down, in the order of the world's actions; the last action stays.
STEPS = np.array([[0.0, -1.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
# An arrow of probability one: the coordinates of its corners along it, from a tail that leaves the centre of the cell
# free, and across it; the fourth is the tip.
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
    size, width, is_filled = world.size, _line_width(world.size), reward is None
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    for lines in (axes.hlines, axes.vlines):
        lines(np.arange(1, size) - 0.5, -0.5, size - 0.5, colors="0.75", linewidths=0.5 * width, zorder=1.5)
    if reward is not None:
        _draw_reward(axes, world, _on_grid(reward, world, "reward"), vmax, has_arrows=policy is not None)
    if avoided is not None:
        mask = avoided_cells(world, avoided)
        if is_filled:
            cells = _placed(SQUARE, np.flatnonzero(mask), size)
            _add_polygons(axes, cells, facecolors=AVOIDED_GREY, linewidths=0, zorder=1, label="avoided")
        axes.add_collection(LineCollection(list(_outline(mask)), colors="0.3", linewidths=width, zorder=2))
    _draw_distractors(axes, world, is_filled=is_filled)
    fill, edge = ("black", "white") if policy is None else ("0.65", "black")
    style: dict[str, Any] = {"facecolors": fill, "edgecolors": edge, "linewidths": 0.7 * width, "zorder": 4}
    for kind, held in world.objects.items():
        _add_polygons(axes, _placed((1.0 if is_filled else 0.75) * SHAPES[kind], held, size), label=kind, **style)
    for colour, wide in (("white", 2.2), ("black", 1.2)):
        style = {"facecolors": "none", "edgecolors": colour, "linewidths": wide * max(width, 0.7), "zorder": 4.5}
        _add_polygons(axes, _placed(0.43 * CIRCLE, [world.start], size), label="start", **style)
    if policy is not None:
        _draw_arrows(axes, _on_grid(policy, world, "policy", len(ACTIONS)))


def avoided_cells(world: ObjectWorld, avoided: str | ArrayLike) -> Flags:
    """(n, n), the cells where any preference feature of a learner is not zero; or a mask (S,) by rows and columns."""
    if isinstance(avoided, str):
        avoided = preference_features(avoided, world.distractors, world.size).any(axis=1)
    return _on_grid(avoided, world, "avoided").astype(np.bool_)


def reward_scale(vmax: float) -> ScalarMappable:
    """The colours of rewards from -vmax to vmax, for a heat map or a colour bar; larger rewards are clipped."""
    return ScalarMappable(Normalize(-vmax, vmax), "RdBu")


def world_key() -> list[Artist]:
    """The handles of a legend of the picture."""
    points: dict[str, Any] = {"linestyle": "", "color": "black"}
    area: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6}
    return [
        Line2D([], [], marker="*", markersize=9.0, label="star", **points),
        Line2D([], [], marker="P", markersize=7.0, label="plus", **points),
        Line2D([], [], marker="o", markersize=4.5, label="dot", **points),
        Line2D([], [], marker="o", markersize=9.0, label="start", fillstyle="none", **points),
        *(Patch(label=f"{colour} distractor", **fill, **area) for colour, fill in FILLS.items()),
        Patch(facecolor=AVOIDED_GREY, label="avoided by the learner", **area),
    ]


def _on_grid(values: ArrayLike, world: ObjectWorld, name: str, n_each: int = 1) -> NDArray[Any]:
    """(n, n, n_each), the entries of the cells without those of the terminal state; (n, n) where n_each is 1."""
    array = np.asarray(values)
    if array.shape not in ((n_each * world.terminal,), (n_each * (world.terminal + 1),)):
        needed = f"{n_each} entries for each of the {world.terminal + 1} states, of which the last is terminal"
        raise InvalidModel(f"{name} has shape {array.shape}; it must be a vector with {needed}")
    shape = (world.size, world.size) if n_each == 1 else (world.size, world.size, n_each)
    return array[: n_each * world.terminal].reshape(shape)


def _draw_reward(axes: Axes, world: ObjectWorld, values: Matrix, vmax: float | None, *, has_arrows: bool) -> None:
    """Draw the heat map, and a minus in each cell of negative reward, lower in the cells that hold another mark."""
    # Zero rewards are white with any positive limit.
    limit = vmax or float(np.abs(values).max()) or 1.0
    edges = np.arange(world.size + 1) - 0.5
    axes.pcolormesh(edges, edges, values, vmin=-limit, vmax=limit, cmap="RdBu", zorder=1, label="reward")
    held = range(world.terminal) if has_arrows else [cell for kind in world.objects.values() for cell in kind]
    cells = np.flatnonzero(values < -FAINTEST * limit)
    bars = _placed(np.array([[-0.2, 0.0], [0.2, 0.0]]), cells, world.size)
    bars[..., 1] += np.where(np.isin(cells, held), 0.37, 0.0)[:, None]
    colours = np.where(values.ravel()[cells] < -0.6 * limit, "white", "0.25").tolist()
    width = 1.2 * _line_width(world.size)
    axes.add_collection(LineCollection(list(bars), colors=colours, linewidths=width, zorder=2, label="minus"))


def _draw_distractors(axes: Axes, world: ObjectWorld, *, is_filled: bool) -> None:
    """Draw distractors smaller than their cells, so that the grey of an avoided cell is visible around them."""
    width = _line_width(world.size)
    for colour, cells in world.distractors.items():
        squares = _placed((0.7 if is_filled else 0.9) * SQUARE, cells, world.size)
        if is_filled:
            style = {**FILLS[colour], "edgecolors": "black", "linewidths": 0.4 * width}
        else:
            _add_polygons(axes, squares, facecolors="none", edgecolors="white", linewidths=3.0 * width, zorder=3)
            style = {"facecolors": "none", "linewidths": 1.6 * width, **FRAMES[colour]}
        _add_polygons(axes, squares, zorder=3, label=colour, **style)


def _draw_arrows(axes: Axes, policy: Matrix) -> None:
    """Draw a policy (n, n, 5): an arrow for each move, a disc for staying, as large and opaque as it is probable."""
    size, chosen = len(policy), policy.reshape(-1, len(STEPS))
    cells, actions = np.nonzero(chosen >= FAINTEST)
    probability, places = chosen[cells, actions][:, None], _placed(np.zeros((1, 2)), cells, size)
    steps = STEPS[actions][:, None]
    # Length grows with probability, and width with its root, so that all are visible.
    along, across = (0.11 + probability * ARROW[:, 0])[..., None], (np.sqrt(probability) * ARROW[:, 1])[..., None]
    arrows = places + along * steps + across * steps[:, :, ::-1] * [1.0, -1.0]
    discs = places + 0.11 * np.sqrt(probability)[..., None] * CIRCLE
    opacity, is_move = np.clip(0.3 + 0.7 * probability, 0.0, 1.0), steps.any(axis=(1, 2))
    colours = np.column_stack([np.tile(to_rgb("#7b2a8b"), (len(cells), 1)), opacity])
    style = {"edgecolors": "white", "linewidths": 0.3 * _line_width(size), "zorder": 5}
    _add_polygons(axes, arrows[is_move], facecolors=colours[is_move], label="moves", **style)
    _add_polygons(axes, discs[~is_move], facecolors=colours[~is_move], label="stays", **style)


def _placed(shape: Matrix, cells: Sequence[int] | Indices, size: int) -> Matrix:
    """(n, k, 2), a shape (k, 2) at each of the cells: at its column and its row."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), size)
    return np.column_stack([columns, rows])[:, None, :] + shape


def _line_width(size: int) -> float:
    """The width of lines in points; lines are thinner on a finer grid."""
    return float(np.clip(9.0 / size, 0.25, 1.3))


def _add_polygons(axes: Axes, corners: Matrix, **style: Any) -> None:
    """Fill n polygons (n, k, 2)."""
    axes.add_collection(PolyCollection(list(corners), **style))


def _outline(mask: Flags) -> Matrix:
    """(n, 2, 2), the sides between a cell in the mask (rows, columns) and a cell outside it or the grid's edge."""
    padded = np.pad(mask, 1)
    below = np.argwhere(padded[1:, :] != padded[:-1, :])[:, None, ::-1]
    beside = np.argwhere(padded[:, 1:] != padded[:, :-1])[:, None, ::-1]
    return np.concatenate([below - [[1.5, 0.5], [0.5, 0.5]], beside - [[0.5, 1.5], [0.5, 0.5]]])
