"""Reward expectations in the plane of two reward features: what is reachable, what a learner accepts, and pushes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, floats
from tutelage.pictures.labels import add_labels

MARKERS = ("*", "s", "o", "^", "D", "v")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
REACHABLE_GREY = "#e4e4e4"
# Of an arrow between two policies, which may both lie on one side of the polygon.
BEND = 0.15
# Behind a label, so that stripes do not run through it.
BACKING = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}


@dataclass(frozen=True, slots=True)
class Push:
    """One step of the line search (App. C.2), in the plane.

    start: (2,), mu_L, where the learner is; aim: (2,), mu_L + alpha w*; lesson: (2,), mu_T, what is then taught.
    is_realised: whether some policy has the expectations of the aim, which the lesson then meets.
    """

    start: Sequence[float]
    aim: Sequence[float]
    lesson: Sequence[float]
    is_realised: bool


def draw_reachable(
    axes: Axes,
    reachable: ArrayLike,
    feasible: ArrayLike,
    points: Mapping[str, Sequence[float]],
    names: tuple[str, str] = ("star", "plus"),
    arrows: Sequence[tuple[str, str]] = (),
) -> None:
    """Draw Omega_r, its part that the learner accepts, and single policies.

    reachable, feasible: (n, 2), corners of convex polygons, in any order; the second is striped.
    points: where each policy lies, by its label; arrows: pairs of labels, to be joined.
    names: of the two features.
    """
    places = {label: floats(point, label, ndim=1) for label, point in points.items()}
    corners, accepted = polygon(reachable), polygon(feasible)
    _add_polygon(axes, corners)
    stripes = Polygon(accepted, facecolor="white", edgecolor="0.35", hatch="///", linewidth=1.0, zorder=2)
    stripes.set_label("accepted by the learner")
    axes.add_patch(stripes)
    _set_plane(axes, np.concatenate([corners, accepted, *(place[None] for place in places.values())]), names)
    taken = [_along(np.roll(corners, -1, axis=0), corners), _along(np.roll(accepted, -1, axis=0), accepted)]
    for one, other in arrows:
        taken.append(_add_arrow(axes, places[one], places[other], linestyle="dashed", gap=6.0, bend=BEND))
    for index, (label, (x, y)) in enumerate(places.items()):
        marker, colour = MARKERS[index % len(MARKERS)], COLOURS[index % len(COLOURS)]
        axes.plot(
            x, y, marker, color=colour, markeredgecolor="black", markersize=11, zorder=4, clip_on=False, label=label
        )
    add_labels(axes, places, taken=np.concatenate(taken), zorder=6, bbox=BACKING)


def draw_pushes(
    axes: Axes,
    reachable: ArrayLike,
    cases: Sequence[Push],
    weights: ArrayLike,
    names: tuple[str, str] = ("star", "plus"),
) -> None:
    """Draw each push from the learner's point along the true weights, and the lesson that comes of it.

    reachable: (n, 2), corners of a convex polygon; weights: (2,), w*, drawn once as a direction.
    """
    corners = polygon(reachable)
    _add_polygon(axes, corners)
    ends = np.array([[case.start, case.aim, case.lesson] for case in cases], dtype=np.float64).reshape(-1, 2)
    _set_plane(axes, np.concatenate([corners, ends]), names)
    taken = [ends, _along(np.roll(corners, -1, axis=0), corners), *(_draw_push(axes, case) for case in cases)]
    _draw_direction(axes, corners, floats(weights, "weights", ndim=1))
    labels = {label: place for index, case in enumerate(cases, 1) for label, place in _push_labels(case, index)}
    add_labels(axes, labels, taken=np.concatenate(taken), zorder=6, bbox=BACKING)


def polygon(corners: ArrayLike) -> Matrix:
    """(n, 2), the corners of a convex polygon, one after the other as one walks around it."""
    points = floats(corners, "corners", ndim=2)
    outward = points - points.mean(axis=0)
    return points[np.argsort(np.arctan2(outward[:, 1], outward[:, 0]), kind="stable")]


def _push_labels(case: Push, index: int) -> list[tuple[str, Vector]]:
    labels = [(rf"$\mu_L^{{{index}}}$", case.start), (rf"$\mu_T^{{{index}}}$", case.lesson)]
    if not case.is_realised:
        labels.append((rf"$\mu_L^{{{index}}} + \alpha\,w^*$", case.aim))
    return [(label, np.asarray(place, dtype=np.float64)) for label, place in labels]


def _draw_push(axes: Axes, case: Push) -> Matrix:
    """Draw one push, and return points along its arrow."""
    start, aim, lesson = (np.asarray(end, dtype=np.float64) for end in (case.start, case.aim, case.lesson))
    taken = _add_arrow(axes, start, aim, gap=5.0 if case.is_realised else 0.0)
    if not case.is_realised:
        axes.plot(
            *np.stack([aim, lesson]).T,
            color="0.3",
            linewidth=0.9,
            linestyle=(0, (2, 2)),
            zorder=3,
            label="from an aim out of reach to its lesson",
        )
    # A ring, in which a lesson that leaves the learner where it is can still be seen.
    axes.plot(*start, "o", color="white", markeredgecolor=COLOURS[0], mew=2, markersize=12, zorder=4, label="learner")
    axes.plot(*lesson, "*", color=COLOURS[1], markeredgecolor="black", markersize=11, zorder=4, label="lesson")
    return taken


def _draw_direction(axes: Axes, corners: Matrix, weights: Vector) -> None:
    """The direction of the weights, outside the convex set: beside the corner of the frame where they point."""
    span = float(np.ptp(corners, axis=0).max()) or 1.0
    step = 0.12 * span * weights / (np.linalg.norm(weights) or 1.0)
    tip = corners.max(axis=0)
    _add_arrow(axes, tip - step, tip, gap=0.0)
    axes.annotate("$w^*$", tuple(tip - step / 2), (6, -6), textcoords="offset points", va="top")


def _add_polygon(axes: Axes, corners: Matrix) -> None:
    axes.add_patch(
        Polygon(corners, facecolor=REACHABLE_GREY, edgecolor="black", linewidth=1.2, zorder=1, label="reachable")
    )


def _add_arrow(
    axes: Axes, start: Vector, end: Vector, *, gap: float, linestyle: str = "solid", bend: float = 0.0
) -> Matrix:
    """Draw an arrow that stays `gap` printer's points off both ends, and return points along it (n, 2)."""
    bow = f"arc3,rad={bend}"
    arrow = FancyArrowPatch(
        (start[0], start[1]),
        (end[0], end[1]),
        arrowstyle="-|>",
        mutation_scale=13,
        shrinkA=gap,
        shrinkB=gap,
        connectionstyle=bow,
    )
    arrow.set(color="black", linestyle=linestyle, linewidth=1.3, zorder=3)
    axes.add_patch(arrow)
    # A quadratic Bezier curve, whose middle is half as far off the chord as its control point.
    chord, along = end - start, np.linspace(0.0, 1.0, 15)[:, None]
    points: Matrix = start + along * chord + 2 * along * (1 - along) * bend * np.array([chord[1], -chord[0]])
    return points


def _along(starts: Matrix, ends: Matrix) -> Matrix:
    """(n, 2), points along the lines from each start (k, 2) to its end (k, 2)."""
    share = np.linspace(0.0, 1.0, 25)[:, None, None]
    return np.concatenate(list((1 - share) * starts + share * ends))


def _set_plane(axes: Axes, points: Matrix, names: tuple[str, str]) -> None:
    """Limits with a margin around the points, in equal units: what is nearest is then nearest to the eye."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (float((high - low).max()) or 1.0)
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin), aspect="equal")
    axes.set(xlabel=f"discounted {names[0]} count", ylabel=f"discounted {names[1]} count")
    axes.spines[["top", "right"]].set_visible(False)
