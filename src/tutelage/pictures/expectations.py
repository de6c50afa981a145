"""Reward expectations in the plane of stars and pluses: reachable sets, feasible sets and pushes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon
from matplotlib.transforms import Bbox

from tutelage.arrays import ArrayLike, Matrix, Vector, floats
from tutelage.pictures.rounds import COLOURS, MARKERS

MARK: dict[str, Any] = {"markeredgecolor": "black", "markersize": 11, "zorder": 4}
# The box behind a label hides the stripes.
BACKING = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
# The sides of a point where its label may stand, as unit steps, best first.
SIDES = ((1, 1), (1, 0), (1, -1), (-1, 1), (-1, -1), (-1, 0), (0, 1), (0, -1))


@dataclass(frozen=True, slots=True)
class DrawnPush:
    """One step of the line search (App. C.2), in the plane.

    start: (2,), mu_L, the learner's expectation. aim: (2,), mu_L + alpha w*. lesson: (2,), mu_T, the next lesson.
    is_realised: whether some policy has the expectation of the aim, which is then the lesson.
    """

    start: Sequence[float]
    aim: Sequence[float]
    lesson: Sequence[float]
    is_realised: bool


def draw_reachable(
    axes: Axes,
    reachable: ArrayLike,
    feasible: ArrayLike | None,
    points: Mapping[str, Sequence[float]],
    arrows: Sequence[tuple[str, str]] = (),
    *,
    labels: tuple[str, str] = ("discounted star count", "discounted plus count"),
) -> None:
    """Draw Omega_r, the subset that the learner accepts, and single policies.

    reachable, feasible: (n, 2), corners of convex polygons, in any order; the second is striped, and None if unknown.
    labels: of the axes.
    points: the expectation of each policy, by its label. arrows: pairs of labels, each joined by an arrow.
    """
    places = {label: floats(point, label, ndim=1) for label, point in points.items()}
    corners = polygon(reachable)
    accepted = corners if feasible is None else polygon(feasible)
    _add_polygon(axes, corners)
    stripes: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.35", "hatch": "///", "linewidth": 1.0}
    if feasible is not None:
        axes.add_patch(Polygon(accepted, zorder=2, label="accepted by the learner", **stripes))
    _set_plane(axes, np.concatenate([corners, accepted, *(place[None] for place in places.values())]))
    axes.set(xlabel=labels[0], ylabel=labels[1])
    taken = [_sides(corners), _sides(accepted)]
    for start, end in arrows:
        # Curved: a straight arrow could lie on a side of the polygon.
        taken.append(_add_arrow(axes, places[start], places[end], linestyle="dashed", gap=6.0, curvature=0.15))
    for index, (label, (x, y)) in enumerate(places.items()):
        marker, colour = MARKERS[index % len(MARKERS)], COLOURS[index % len(COLOURS)]
        axes.plot(x, y, marker, color=colour, **MARK, clip_on=False, label=label)
    _add_labels(axes, places, np.concatenate(taken))


def draw_pushes(axes: Axes, reachable: ArrayLike, cases: Sequence[DrawnPush], weights: ArrayLike) -> None:
    """Draw each push from the learner's point along the true weights, and its lesson.

    reachable: (n, 2), corners of a convex polygon. weights: (2,), w*, drawn once as a direction.
    """
    corners, direction = polygon(reachable), floats(weights, "weights", ndim=1)
    _add_polygon(axes, corners)
    ends = np.array([[case.start, case.aim, case.lesson] for case in cases], dtype=np.float64).reshape(-1, 3, 2)
    _set_plane(axes, np.concatenate([corners, ends.reshape(-1, 2)]))
    # The direction is drawn outside the convex set, at the upper right corner of its bounding box.
    tip, span = corners.max(axis=0), float(np.ptp(corners, axis=0).max()) or 1.0
    step = 0.12 * span * direction / (np.linalg.norm(direction) or 1.0)
    _add_arrow(axes, tip - step, tip, gap=0.0)
    axes.annotate("$w^*$", tuple(tip - step / 2), (6, -6), textcoords="offset points", va="top")
    taken = [ends.reshape(-1, 2), _sides(corners)]
    labels: dict[str, Vector] = {}
    for index, (case, (start, aim, lesson)) in enumerate(zip(cases, ends, strict=True), 1):
        taken.append(_add_arrow(axes, start, aim, gap=5.0 if case.is_realised else 0.0))
        labels |= {rf"$\mu_L^{{{index}}}$": start, rf"$\mu_T^{{{index}}}$": lesson}
        if not case.is_realised:
            labels[rf"$\mu_L^{{{index}}} + \alpha\,w^*$"] = aim
            dashed: dict[str, Any] = {"color": "0.3", "linewidth": 0.9, "linestyle": (0, (2, 2)), "zorder": 3}
            axes.plot(*np.stack([aim, lesson]).T, **dashed, label="from an aim out of reach to its lesson")
        # A ring, so that a lesson at the learner's own point is visible inside it.
        ring: dict[str, Any] = {"color": "white", "markeredgecolor": COLOURS[0], "mew": 2, "markersize": 12}
        axes.plot(*start, "o", zorder=4, label="learner", **ring)
        axes.plot(*lesson, "*", color=COLOURS[1], **MARK, label="lesson")
    _add_labels(axes, labels, np.concatenate(taken))


def polygon(corners: ArrayLike) -> Matrix:
    """(n, 2), the corners of a convex polygon in anticlockwise order."""
    points = floats(corners, "corners", ndim=2)
    outward = points - points.mean(axis=0)
    return points[np.argsort(np.arctan2(outward[:, 1], outward[:, 0]), kind="stable")]


def _add_polygon(axes: Axes, corners: Matrix) -> None:
    style: dict[str, Any] = {"facecolor": "#e4e4e4", "edgecolor": "black", "linewidth": 1.2}
    axes.add_patch(Polygon(corners, zorder=1, label="reachable", **style))


def _add_arrow(
    axes: Axes, start: Vector, end: Vector, *, gap: float, linestyle: str = "solid", curvature: float = 0.0
) -> Matrix:
    """Draw an arrow that leaves `gap` printer's points free at both ends, and return points along it (n, 2)."""
    arrow = FancyArrowPatch((start[0], start[1]), (end[0], end[1]), arrowstyle="-|>", shrinkA=gap, shrinkB=gap)
    arrow.set(color="black", linestyle=linestyle, linewidth=1.3, zorder=3, mutation_scale=13)
    arrow.set_connectionstyle(f"arc3,rad={curvature}")
    axes.add_patch(arrow)
    # A quadratic Bezier curve: its middle is half as far from the chord as its control point.
    chord, along = end - start, np.linspace(0.0, 1.0, 15)[:, None]
    points: Matrix = start + along * chord + 2 * along * (1 - along) * curvature * np.array([chord[1], -chord[0]])
    return points


def _sides(corners: Matrix) -> Matrix:
    """(n, 2), points along the sides of a polygon with these corners (k, 2)."""
    share = np.linspace(0.0, 1.0, 25)[:, None, None]
    return np.concatenate(list((1 - share) * np.roll(corners, -1, axis=0) + share * corners))


def _set_plane(axes: Axes, points: Matrix) -> None:
    """Set limits with a margin around the points, in equal units, so that distances on the page are true."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (float((high - low).max()) or 1.0)
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin), aspect="equal")
    axes.set(xlabel="discounted star count", ylabel="discounted plus count")
    axes.spines[["top", "right"]].set_visible(False)


def _add_labels(axes: Axes, labels: Mapping[str, Vector], taken: Matrix) -> None:
    """Write each label beside its point (2,), where it covers no other point, no place taken (n, 2) and no label.

    The limits of the axes must be set before, because distances on the page depend on them.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    boxes = []
    for places, margin in ((np.array(list(labels.values())).reshape(-1, 2), 7.0), (taken, 1.5)):
        for place in axes.transData.transform(places):
            boxes.append(Bbox.from_extents(*(place - margin), *(place + margin)))
    for label, point in labels.items():
        style: dict[str, Any] = {"textcoords": "offset points", "zorder": 6, "bbox": BACKING}
        text = axes.annotate(label, (float(point[0]), float(point[1])), (0.0, 0.0), **style)
        covered = [_covered(_moved(text, *side), boxes, axes.bbox) for side in SIDES]
        boxes.append(_moved(text, *SIDES[int(np.argmin(covered))]))


def _moved(text: Any, across: int, up: int) -> Bbox:
    """The box in pixels of a label on this side of its point."""
    reach = 9.0 / np.hypot(across, up)  # in printer's points
    level, upright = {-1: "right", 0: "center", 1: "left"}, {-1: "top", 0: "center", 1: "bottom"}
    text.set(position=(reach * across, reach * up), ha=level[across], va=upright[up])
    box: Bbox = text.get_window_extent()
    return box


def _covered(box: Bbox, boxes: Sequence[Bbox], frame: Bbox) -> float:
    """The area in pixels of a label's box that overlaps other boxes or lies outside the frame."""
    inside = Bbox.intersection(box, frame)
    outside = box.width * box.height - (inside.width * inside.height if inside else 0.0)
    common = (Bbox.intersection(box, other) for other in boxes)
    return float(outside + sum(part.width * part.height for part in common if part))
