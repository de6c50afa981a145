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
    corners = polygon(reachable)
    _add_polygon(axes, corners)
    ends = np.array([[case.start, case.aim, case.lesson] for case in cases], dtype=np.float64).reshape(-1, 2)
    _set_plane(axes, np.concatenate([corners, ends]))
    taken = [ends, _sides(corners), *(_draw_push(axes, case) for case in cases)]
    _draw_direction(axes, corners, floats(weights, "weights", ndim=1))
    labels = {label: place for index, case in enumerate(cases, 1) for label, place in _push_labels(case, index)}
    _add_labels(axes, labels, np.concatenate(taken))


def polygon(corners: ArrayLike) -> Matrix:
    """(n, 2), the corners of a convex polygon in anticlockwise order."""
    points = floats(corners, "corners", ndim=2)
    outward = points - points.mean(axis=0)
    return points[np.argsort(np.arctan2(outward[:, 1], outward[:, 0]), kind="stable")]


def _push_labels(case: DrawnPush, index: int) -> list[tuple[str, Vector]]:
    labels = [(rf"$\mu_L^{{{index}}}$", case.start), (rf"$\mu_T^{{{index}}}$", case.lesson)]
    if not case.is_realised:
        labels.append((rf"$\mu_L^{{{index}}} + \alpha\,w^*$", case.aim))
    return [(label, np.asarray(place, dtype=np.float64)) for label, place in labels]


def _draw_push(axes: Axes, case: DrawnPush) -> Matrix:
    """Draw one push, and return points along its arrow."""
    start, aim, lesson = (np.asarray(end, dtype=np.float64) for end in (case.start, case.aim, case.lesson))
    taken = _add_arrow(axes, start, aim, gap=5.0 if case.is_realised else 0.0)
    if not case.is_realised:
        dashed: dict[str, Any] = {"color": "0.3", "linewidth": 0.9, "linestyle": (0, (2, 2)), "zorder": 3}
        axes.plot(*np.stack([aim, lesson]).T, **dashed, label="from an aim out of reach to its lesson")
    # A ring, so that a lesson at the learner's own point is visible inside it.
    axes.plot(*start, "o", color="white", markeredgecolor=COLOURS[0], mew=2, markersize=12, zorder=4, label="learner")
    axes.plot(*lesson, "*", color=COLOURS[1], **MARK, label="lesson")
    return taken


def _draw_direction(axes: Axes, corners: Matrix, weights: Vector) -> None:
    """Draw the direction of the weights outside the convex set, at the upper right corner of its bounding box."""
    span = float(np.ptp(corners, axis=0).max()) or 1.0
    step = 0.12 * span * weights / (np.linalg.norm(weights) or 1.0)
    tip = corners.max(axis=0)
    _add_arrow(axes, tip - step, tip, gap=0.0)
    axes.annotate("$w^*$", tuple(tip - step / 2), (6, -6), textcoords="offset points", va="top")


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
    points = np.array(list(labels.values()), dtype=np.float64).reshape(-1, 2)
    boxes = [*_boxes(axes, points, margin=7.0), *_boxes(axes, taken, margin=1.5)]
    for label, point in labels.items():
        boxes.append(_add_label(axes, label, point, boxes))


def _boxes(axes: Axes, points: Matrix, *, margin: float) -> list[Bbox]:
    return [Bbox.from_extents(*(place - margin), *(place + margin)) for place in axes.transData.transform(points)]


def _add_label(axes: Axes, label: str, point: Vector, boxes: Sequence[Bbox]) -> Bbox:
    """Write the label on the side where it covers the least area, and return its box in pixels."""
    style: dict[str, Any] = {"textcoords": "offset points", "zorder": 6, "bbox": BACKING}
    text = axes.annotate(label, (float(point[0]), float(point[1])), (0.0, 0.0), **style)
    best, least = SIDES[0], np.inf
    for across, up in SIDES:
        _move(text, across, up)
        cost = _covered(text.get_window_extent(), boxes, axes.bbox)
        if cost < least:
            best, least = (across, up), cost
    _move(text, *best)
    return text.get_window_extent()


def _move(text: Any, across: int, up: int) -> None:
    reach = 9.0 / np.hypot(across, up)  # in printer's points
    level, upright = {-1: "right", 0: "center", 1: "left"}, {-1: "top", 0: "center", 1: "bottom"}
    text.set(position=(reach * across, reach * up), ha=level[across], va=upright[up])


def _covered(box: Bbox, boxes: Sequence[Bbox], frame: Bbox) -> float:
    """The area in pixels of a label's box that overlaps other boxes or lies outside the frame."""
    inside = Bbox.intersection(box, frame)
    outside = box.width * box.height - (inside.width * inside.height if inside else 0.0)
    common = (Bbox.intersection(box, other) for other in boxes)
    return float(outside + sum(part.width * part.height for part in common if part))
