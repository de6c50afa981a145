"""An object world as a picture: objects, distractors, the cells a learner avoids, a policy, or a reward.

Lengths are in cells. No information is in colour alone: types differ in shape, distractors in their stripes, and cells
of negative reward have a minus.
"""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from tutelage.arrays import Flags, Matrix
from tutelage.environments.object_world import ACTIONS, ObjectWorld
from tutelage.environments.placement import preference_features
from tutelage.outcomes import InvalidModel
from tutelage.pictures import marks

SHAPES = {"star": marks.STAR, "plus": marks.PLUS, "dot": marks.DOT}
FILLS = {"green": "#3f9b57", "yellow": "#f4d64e"}
STRIPES = {"green": marks.RISING, "yellow": marks.LEVEL}
# On a heat map a distractor is a frame, so that the colour of its cell stays visible.
FRAMES: dict[str, dict[str, Any]] = {
    "green": {"edgecolors": "#1b7837", "linestyles": "solid"},
    "yellow": {"edgecolors": "#b58900", "linestyles": (0, (2.0, 1.0))},
}
AVOIDED_GREY = "#c4c4c4"
COLOUR_MAP = "RdBu"

# A negative reward above minus this share of the limit gets no minus.
SMALLEST_SHARE = 0.05


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
    _draw_grid(axes, world.size)
    if reward is not None:
        _draw_reward(axes, world, _on_grid(reward, world, "reward"), vmax, has_arrows=policy is not None)
    if avoided is not None:
        _draw_avoided(axes, avoided_cells(world, avoided), is_filled=reward is None)
    _draw_distractors(axes, world, is_filled=reward is None)
    _draw_objects(axes, world, scale=1.0 if reward is None else 0.75, fill="black" if policy is None else "0.65")
    _draw_start(axes, world)
    if policy is not None:
        marks.draw_arrows(axes, _on_grid(policy, world, "policy", len(ACTIONS)))


def avoided_cells(world: ObjectWorld, avoided: str | ArrayLike) -> Flags:
    """(n, n), the cells where any preference feature of a learner is not zero; or a mask (S,) by rows and columns."""
    if isinstance(avoided, str):
        avoided = preference_features(avoided, world.distractors, world.size).any(axis=1)
    return _on_grid(avoided, world, "avoided").astype(np.bool_)


def reward_scale(vmax: float) -> ScalarMappable:
    """The colours of rewards from -vmax to vmax, for a heat map or a colour bar; larger rewards are clipped."""
    return ScalarMappable(Normalize(-vmax, vmax), COLOUR_MAP)


def world_key(*, has_avoided: bool = True) -> list[Artist]:
    """The handles of a legend that explains the marks."""
    points: dict[str, Any] = {"linestyle": "", "color": "black"}
    area: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6}
    handles: list[Artist] = [
        Line2D([], [], marker="*", markersize=9.0, label="star", **points),
        Line2D([], [], marker="P", markersize=7.0, label="plus", **points),
        Line2D([], [], marker="o", markersize=4.5, label="dot", **points),
        Line2D([], [], marker="o", markersize=9.0, label="start", fillstyle="none", **points),
        Patch(facecolor=FILLS["green"], hatch="////", label="green distractor", **area),
        Patch(facecolor=FILLS["yellow"], hatch="---", label="yellow distractor", **area),
    ]
    return handles + ([Patch(facecolor=AVOIDED_GREY, label="avoided by the learner", **area)] if has_avoided else [])


def _on_grid(values: ArrayLike, world: ObjectWorld, name: str, n_each: int = 1) -> NDArray[Any]:
    """(n, n, n_each), the entries of the cells without those of the terminal state; (n, n) where n_each is 1."""
    array = np.asarray(values)
    if array.shape not in ((n_each * world.terminal,), (n_each * (world.terminal + 1),)):
        needed = f"{n_each} entries for each of the {world.terminal + 1} states, of which the last is terminal"
        raise InvalidModel(f"{name} has shape {array.shape}; it must be a vector with {needed}")
    shape = (world.size, world.size) if n_each == 1 else (world.size, world.size, n_each)
    return array[: n_each * world.terminal].reshape(shape)


def _draw_grid(axes: Axes, size: int) -> None:
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    edges = np.arange(1, size) - 0.5
    upright = np.stack([np.column_stack([edges, np.full_like(edges, end)]) for end in (-0.5, size - 0.5)], axis=1)
    lines = np.concatenate([upright, upright[:, :, ::-1]])
    marks.add_segments(axes, lines, colors="0.75", linewidths=0.5 * marks.line_width(size), zorder=1.5)


def _draw_reward(axes: Axes, world: ObjectWorld, values: Matrix, vmax: float | None, *, has_arrows: bool) -> None:
    """Draw the heat map, and a minus in each cell of negative reward, lower in the cells that hold another mark."""
    limit = float(np.abs(values).max()) if vmax is None else vmax
    # Zero rewards are white with any positive limit.
    scale = Normalize(-limit, limit) if limit > 0 else Normalize(-1.0, 1.0)
    edges = np.arange(world.size + 1) - 0.5
    axes.pcolormesh(edges, edges, values, norm=scale, cmap=COLOUR_MAP, zorder=1, label="reward")
    held = range(world.terminal) if has_arrows else [cell for kind in world.objects.values() for cell in kind]
    cells = np.flatnonzero(values < -SMALLEST_SHARE * limit)
    bars = marks.centres(cells, world.size)
    bars[:, 1] += np.where(np.isin(cells, held), 0.37, 0.0)
    lines = bars[:, None] + np.array([[-0.2, 0.0], [0.2, 0.0]])
    colours = np.where(values.ravel()[cells] < -0.6 * limit, "white", "0.25").tolist()
    width = 1.2 * marks.line_width(world.size)
    marks.add_segments(axes, lines, colors=colours, linewidths=width, zorder=2, label="minus")


def _draw_avoided(axes: Axes, mask: Flags, *, is_filled: bool) -> None:
    if is_filled:
        cells = marks.placed(marks.SQUARE, np.flatnonzero(mask), len(mask))
        marks.add_polygons(axes, cells, facecolors=AVOIDED_GREY, linewidths=0, zorder=1, label="avoided")
    marks.add_segments(axes, marks.outline(mask), colors="0.3", linewidths=marks.line_width(len(mask)), zorder=2)


def _draw_distractors(axes: Axes, world: ObjectWorld, *, is_filled: bool) -> None:
    """Draw distractors smaller than their cells, so that the grey of an avoided cell is visible around them."""
    width = marks.line_width(world.size)
    for colour, cells in world.distractors.items():
        squares = marks.placed((0.7 if is_filled else 0.9) * marks.SQUARE, cells, world.size)
        if is_filled:
            style = {"facecolors": FILLS[colour], "edgecolors": "black", "linewidths": 0.4 * width}
            stripes = marks.placed(STRIPES[colour].reshape(-1, 2), cells, world.size).reshape(-1, 2, 2)
            marks.add_segments(axes, stripes, colors="black", linewidths=0.7 * width, zorder=3.5)
        else:
            marks.add_polygons(axes, squares, facecolors="none", edgecolors="white", linewidths=3.0 * width, zorder=3)
            style = {"facecolors": "none", "linewidths": 1.6 * width, **FRAMES[colour]}
        marks.add_polygons(axes, squares, zorder=3, label=colour, **style)


def _draw_objects(axes: Axes, world: ObjectWorld, *, scale: float, fill: str) -> None:
    edge = "white" if fill == "black" else "black"
    style = {"facecolors": fill, "edgecolors": edge, "linewidths": 0.7 * marks.line_width(world.size), "zorder": 4}
    for kind, cells in world.objects.items():
        marks.add_polygons(axes, marks.placed(scale * SHAPES[kind], cells, world.size), label=kind, **style)


def _draw_start(axes: Axes, world: ObjectWorld) -> None:
    ring = marks.placed(0.43 * marks.CIRCLE, [world.start], world.size)
    style = {"facecolors": "none", "zorder": 4.5, "label": "start"}
    for colour, width in (("white", 2.2), ("black", 1.2)):
        marks.add_polygons(
            axes, ring, edgecolors=colour, linewidths=width * max(marks.line_width(world.size), 0.7), **style
        )
