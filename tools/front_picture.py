"""The picture of the README, docs/story.png: a lesson that a robot cannot use, and one that it can.

    python tools/front_picture.py [FILE]

The walks are computed: an optimal policy, the answer of a learner that never steps on grass, and the lesson of a
teacher that knows it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyBboxPatch, Polygon, Rectangle

import tutelage as tl

# Top row first: a dot is a paved cell, g is grass, S the start, B the big gift, and s the small one.
GARDEN = ("........", ".gggggg.", "SgggBgg.", ".gggggg.", ".......s")
POINTS = {"big gift": 10.0, "small gift": 6.0}
MOVES = {"up": (0, 1), "right": (1, 0), "down": (0, -1), "left": (-1, 0)}
# The steps of a walk that are drawn, for one that never ends.
MOST_STEPS = 15
Cell = tuple[int, int]
GRASS, PAVED, TEACHER, ROBOT, RED, BLUE, INK = (
    "#8fc47a",
    "#f3ead8",
    "#2b6cb0",
    "#e07b1f",
    "#c53030",
    "#5a67d8",
    "#2d3748",
)


def at(cell: Cell) -> str:
    return GARDEN[len(GARDEN) - 1 - cell[1]][cell[0]]


def cells() -> Iterator[Cell]:
    yield from ((x, y) for y in range(len(GARDEN)) for x in range(len(GARDEN[0])))


def after(cell: Cell, move: str) -> Cell:
    x, y = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
    return (x, y) if 0 <= x < len(GARDEN[0]) and 0 <= y < len(GARDEN) else cell


def garden() -> tl.Domain:
    """Both gifts end the walk. The robot sees which gift was taken, and limits its steps on grass."""
    (start,) = (cell for cell in cells() if at(cell) == "S")
    return tl.explore(
        start,
        lambda cell: () if at(cell) in "Bs" else tuple(MOVES),
        lambda cell, move: [(1.0, after(cell, move))],
        discount=0.97,
        reward=lambda cell, move: {
            "big gift": float(at(after(cell, move)) == "B"),
            "small gift": float(at(after(cell, move)) == "s"),
        },
        preference=lambda cell, move: {"grass": float(at(after(cell, move)) in "gB")},
    )


@dataclass(frozen=True)
class Story:
    """Walks, cell by cell, and what each earns: shown first, then done; shown instead, then done."""

    shown: list[Cell]
    done: list[Cell]
    shown_instead: list[Cell]
    done_then: list[Cell]
    points: tuple[float, float]


def story() -> Story:
    """Two lessons for a learner that never steps on grass."""
    domain = garden()
    weights = [POINTS[name] for name in domain.reward_names]
    robot = tl.HardLearner(domain, {"grass": 0.0})
    agnostic = tl.teach(tl.AgnosticTeacher(domain, weights), robot).final
    aware = tl.teach(tl.AwareCmdpTeacher(domain, weights, robot), robot).final
    policies = (agnostic.lesson.policy, agnostic.response.policy, aware.lesson.policy, aware.response.policy)
    walks = [walk(domain, policy) for policy in policies if policy is not None]
    return Story(*walks, (points(domain, agnostic.response.policy), points(domain, aware.response.policy)))


def walk(domain: tl.Domain, policy: Any) -> list[Cell]:
    """The cells of one walk."""
    (trajectory,) = tl.sample_demonstrations(domain, policy, 1, rng=4)
    names = [domain.state_names[state] for state in trajectory.states]
    ends = [number for number, cell in enumerate(names) if at(cell) in "Bs"]
    return names[: min([MOST_STEPS, *ends]) + 1]


def points(domain: tl.Domain, policy: Any) -> float:
    """What a walk earns in the end, without discount."""
    last = walk(domain, policy)[-1]
    return POINTS["big gift"] * (at(last) == "B") + POINTS["small gift"] * (at(last) == "s")


def draw(told: Story) -> Figure:
    """Three panels, from left to right."""
    figure = Figure(figsize=(13.2, 3.7), dpi=110, facecolor="white")
    captions = (
        "The teacher shows\nthe best way to the big gift.",
        "But the robot never steps on grass.\nIt does not know what else to do.",
        "A teacher who knows this shows\nanother way. The robot follows.",
    )
    panels = [_panel(figure, number, caption) for number, caption in enumerate(captions)]
    _trail(panels[0], told.shown, TEACHER)
    _person(panels[0], told.shown[-3])
    _robot(panels[0], told.done[0])
    _trail(panels[1], told.done, ROBOT)
    _robot(panels[1], told.done[-1])
    _thought(panels[1], told.done[-1])
    _earned(panels[1], told.points[0], RED)
    _trail(panels[2], told.shown_instead, TEACHER, shift=0.12)
    _trail(panels[2], told.done_then, ROBOT, shift=-0.14)
    _person(panels[2], told.shown_instead[-5])
    _robot(panels[2], told.done_then[-2])
    _earned(panels[2], told.points[1], "#2f855a")
    return figure


def _panel(figure: Figure, number: int, caption: str) -> Axes:
    """An empty garden."""
    width, height = len(GARDEN[0]), len(GARDEN)
    axes = figure.add_axes((0.01 + 0.335 * number, 0.24, 0.31, 0.72))
    axes.set(xlim=(-0.6, width - 0.4), ylim=(-0.6, height - 0.4), aspect="equal")
    axes.axis("off")
    for x, y in cells():
        is_grass = at((x, y)) in "gB"
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=GRASS if is_grass else PAVED, linewidth=0))
        if is_grass and (x + y) % 2:
            _tuft(axes, x - 0.15, y - 0.25, 0.9, "#6ba857")
        elif not is_grass:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="#e2d5bb", linewidth=1))
        if at((x, y)) in "Bs":
            _gift(axes, (x, y), is_big=at((x, y)) == "B")
    badge = {"boxstyle": "circle,pad=0.25", "color": INK}
    figure.text(
        0.03 + 0.335 * number, 0.125, f"{number + 1}", ha="center", va="center", size=13, color="white", bbox=badge
    )
    figure.text(0.052 + 0.335 * number, 0.12, caption, ha="left", va="center", size=13, color=INK, linespacing=1.3)
    return axes


def _tuft(axes: Axes, x: float, y: float, size: float, colour: str) -> None:
    for lean in (-0.12, 0.0, 0.12):
        axes.plot([x, x + size * lean], [y, y + 0.25 * size], color=colour, linewidth=1.6, solid_capstyle="round")


def _gift(axes: Axes, cell: Cell, *, is_big: bool) -> None:
    """A parcel with its points above it."""
    (x, y), half, colour = cell, 0.42 if is_big else 0.3, RED if is_big else BLUE
    value = POINTS["big gift" if is_big else "small gift"]
    axes.text(
        x, y + 1.35 * half, f"{value:g}", size=12, weight="bold", color=colour, ha="center", va="bottom", zorder=9
    )
    axes.add_patch(Rectangle((x - half, y - half), 2 * half, 1.6 * half, color=colour, zorder=3))
    axes.add_patch(Rectangle((x - 0.16 * half, y - half), 0.32 * half, 1.6 * half, color="#fbd38d", zorder=4))
    axes.add_patch(Rectangle((x - half, y - 0.3 * half), 2 * half, 0.26 * half, color="#fbd38d", zorder=4))
    for side in (-1, 1):
        bow = Ellipse((x + 0.35 * side * half, y + 0.8 * half), 0.65 * half, 0.4 * half, angle=25.0 * side)
        bow.set(color="#fbd38d", zorder=4)
        axes.add_patch(bow)


def _trail(axes: Axes, cells_of_walk: Sequence[Cell], colour: str, shift: float = 0.0) -> None:
    """A dotted way with an arrow at its end."""
    way = np.array(cells_of_walk, dtype=float) + shift
    if len(np.unique(way, axis=0)) < 2:
        return
    way[-1] = 0.5 * way[-2] + 0.5 * way[-1]  # it ends beside the gift
    axes.plot(*way.T, color=colour, linewidth=3.2, linestyle=(0, (1, 1.6)), dash_capstyle="round", zorder=5)
    axes.annotate(
        "", way[-1], way[-2], zorder=5, arrowprops={"arrowstyle": "-|>", "color": colour, "mutation_scale": 22}
    )


def _person(axes: Axes, cell: Cell) -> None:
    """A teacher with a square cap, who points ahead."""
    x, y = cell
    axes.add_patch(FancyBboxPatch((x - 0.14, y - 0.28), 0.28, 0.42, "round,pad=0.08", color=TEACHER, zorder=8))
    axes.add_patch(Circle((x, y + 0.42), 0.21, color="#f6c9a3", zorder=8))
    cap = [(x - 0.34, y + 0.62), (x, y + 0.76), (x + 0.34, y + 0.62), (x, y + 0.5)]
    axes.add_patch(Polygon(cap, color=INK, zorder=9))
    arm = [x + 0.16, x + 0.52], [y + 0.06, y + 0.2]
    axes.plot(*arm, color=TEACHER, linewidth=4, zorder=9, solid_capstyle="round")


def _robot(axes: Axes, cell: Cell) -> None:
    x, y = cell
    axes.add_patch(FancyBboxPatch((x - 0.2, y - 0.22), 0.4, 0.36, "round,pad=0.09", color=ROBOT, zorder=8))
    axes.plot([x, x], [y + 0.2, y + 0.42], color=ROBOT, linewidth=2.5, zorder=8)
    axes.add_patch(Circle((x, y + 0.44), 0.07, color=ROBOT, zorder=8))
    for side in (-1, 1):
        axes.add_patch(Circle((x + 0.12 * side, y + 0.04), 0.085, color="white", zorder=9))
        axes.add_patch(Circle((x + 0.12 * side + 0.02, y + 0.03), 0.04, color=INK, zorder=10))
        axes.add_patch(Circle((x + 0.18 * side, y - 0.34), 0.1, color=INK, zorder=8))


def _thought(axes: Axes, cell: Cell) -> None:
    """A thought of the robot: no grass; and no idea."""
    x, y = cell
    for step, radius in ((0.5, 0.07), (0.72, 0.1)):
        axes.add_patch(Circle((x + 0.7 * step, y + step), radius, color="white", ec=INK, zorder=11))
    bubble = Ellipse((x + 1.75, y + 1.45), 2.5, 1.3)
    bubble.set(facecolor="white", edgecolor=INK, linewidth=1.4, zorder=11)
    axes.add_patch(bubble)
    for lean in (-0.2, 0.0, 0.2):
        blade = [x + 1.25, x + 1.25 + lean], [y + 1.2, y + 1.72]
        axes.plot(*blade, color="#4c9a34", linewidth=3, zorder=12, solid_capstyle="round")
    axes.add_patch(Circle((x + 1.25, y + 1.45), 0.43, fill=False, ec=RED, linewidth=3, zorder=13))
    axes.plot([x + 0.95, x + 1.55], [y + 1.75, y + 1.15], color=RED, linewidth=3, zorder=13)
    axes.text(x + 2.25, y + 1.43, "?", size=26, weight="bold", color=INK, ha="center", va="center", zorder=13)


def _earned(axes: Axes, earned: float, colour: str) -> None:
    badge = {"boxstyle": "round,pad=0.35", "color": colour}
    said = f"the robot gets {earned:g}"
    axes.text(7.35, 4.1, said, size=13, weight="bold", color="white", ha="right", va="center", zorder=14, bbox=badge)


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "story.png")
    draw(story()).savefig(file)
