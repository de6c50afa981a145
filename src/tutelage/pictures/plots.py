"""Rewards over rounds (Figures 3 to 5), and reward expectations in the plane of two features (Figures 1 and 6)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tutelage.arrays import ArrayLike, Matrix, Vector, floats
from tutelage.transcripts import Transcript

# Of the palette of Okabe and Ito, which colour-blind readers can distinguish: blue, vermilion, green and purple first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "*")
COUNTS = ("discounted star count", "discounted plus count")
Style = dict[str, Any]
MARK: Style = {"markeredgecolor": "black", "markersize": 11, "zorder": 4}
DASHES = ((0, (8, 2)), (0, (5, 2, 1, 2)), (0, (3, 3)), (0, (1, 1, 4, 1)))


@dataclass(frozen=True, slots=True)
class Curve:
    """The rewards of an adaptive teacher in rounds 1 .. n: of the learner's responses, and of the lessons, or empty.

    error: the standard error of each reward of the learner, or empty. budgets: what was shown, in place of the round.
    """

    label: str
    learner: Sequence[float]
    teacher: Sequence[float] = ()
    error: Sequence[float] = ()
    budgets: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves, and as lines the reward of each teacher that does not adapt. Panels of one group have one scale."""

    title: str
    curves: Sequence[Curve]
    lines: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, str] = ("teaching round", "expected reward")
    group: str = ""


def look(number: int) -> Style:
    """A colour and a marker; 36 pairs differ."""
    turn, place = divmod(number, len(COLOURS))
    return {"color": COLOURS[place], "marker": MARKERS[(place + turn) % len(MARKERS)]}


def scale(values: Iterable[float], margin: float = 0.0) -> tuple[float, float]:
    """The limits of a scale, at least a thousandth of the largest value apart: rounding errors are not magnified."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    width = max(known) - min(known)
    least = 1e-3 * max(map(abs, known)) or 1.0
    room = max(margin * width, (least - width) / 2)
    return min(known) - room, max(known) + room


def draw_curves(axes: Axes, panel: Panel) -> None:
    """Draw the curves without a legend, because several panels may share one."""
    for index, (label, height) in enumerate(panel.lines.items()):
        dashes = DASHES[index % len(DASHES)]
        axes.axhline(height, color="0.25", linewidth=1.1, linestyle=dashes, label=label, zorder=1.5)
    for index, curve in enumerate(panel.curves):
        places = curve.budgets or range(1, len(curve.learner) + 1)
        # About a dozen markers per curve, shifted between curves so that the markers of close curves do not overlap.
        step = max(1, len(places) // 12)
        style = look(index) | {"markevery": (index * step // 2 % step, step), "markersize": 5.0}
        name = f"{curve.label}: learner" if curve.teacher else curve.label
        axes.plot(places, curve.learner, linewidth=1.8, label=name, zorder=3, **style)
        if curve.teacher:
            style |= {"label": f"{curve.label}: teacher", "linestyle": ":", "markerfacecolor": "white"}
            axes.plot(places, curve.teacher, linewidth=1.4, zorder=2.5, **style)
        if np.isfinite(curve.error).any():
            low, high = np.subtract(curve.learner, curve.error), np.add(curve.learner, curve.error)
            axes.fill_between(places, low, high, color=style["color"], alpha=0.2, linewidth=0, zorder=2)
    axes.margins(x=0.02)
    left, right = axes.get_xlim()
    if right - left < 1:
        axes.set_xlim(left - 0.5, right + 0.5)
    axes.set_title(panel.title, fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    axes.set_ylim(*scale(axes.get_ylim()))
    set_frame(axes, *panel.labels)


def set_frame(axes: Axes, across: str, up: str = "") -> None:
    axes.set(xlabel=across, ylabel=up)
    axes.spines[["top", "right"]].set_visible(False)


def draw_rounds(axes: Axes, transcript: Transcript) -> None:
    """Draw the true reward of each lesson and of the learner's response to it, and the bound, if there is one."""
    done = [taught.response_reward for taught in transcript.rounds]
    shown = [taught.lesson_reward for taught in transcript.rounds]
    bound = transcript.final.bound
    lines = {"no lesson gets more": bound} if math.isfinite(bound) else {}
    draw_curves(axes, Panel("true reward", [Curve("rounds", done, shown)], lines))
    for line in axes.lines:
        line.set_label(str(line.get_label()).removeprefix("rounds: "))
    add_legend(axes)


def add_legend(axes: Axes) -> None:
    """A legend below the name of the axis, where it covers nothing; the room above it is in sizes of its letters."""
    below: Style = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 4.5}
    axes.legend(fontsize="small", frameon=False, ncols=2, **below)


def draw_reachable(
    axes: Axes,
    reachable: ArrayLike,
    feasible: ArrayLike | None,
    points: Mapping[str, Sequence[float]],
    arrows: Sequence[tuple[str, str]] = (),
    *,
    labels: tuple[str, str] = COUNTS,
) -> None:
    """Draw Omega_r, the subset that the learner accepts, and single policies.

    reachable, feasible: (n, 2), corners of convex polygons, in any order; the second is striped, and None if unknown.
    points: the expectation of each policy, by its label. arrows: pairs of labels, each joined by an arrow.
    """
    places = {label: floats(point, label, ndim=1) for label, point in points.items()}
    corners = [polygon(part) for part in (reachable, feasible) if part is not None]
    _set_plane(axes, [*corners, *places.values()], labels)
    for accepted in corners[1:]:
        stripes: Style = {"facecolor": "white", "edgecolor": "0.35", "hatch": "///"}
        axes.fill(*accepted.T, zorder=2, label="accepted by the learner", linewidth=1.0, **stripes)
    span = float(np.ptp(corners[0], axis=0).max())
    together: dict[str, list[str]] = {}
    for label, place in places.items():
        # Labels of places as close as their markers would be printed over each other.
        near = (name for name in together if np.linalg.norm(places[name] - place) <= 0.05 * span)
        together.setdefault(next(near, label), []).append(label)
    for start, end in arrows:
        # Curved: a straight arrow could lie on a side of the polygon.
        _add_arrow(axes, places[start], places[end], gap=6.0, linestyle="dashed", connectionstyle="arc3,rad=0.15")
    for index, (label, place) in enumerate(places.items()):
        axes.plot(*place, linestyle="", **look(index), **MARK, clip_on=False, label=label)
    for first, labels_there in together.items():
        _add_label(axes, ", ".join(labels_there), places[first])


def draw_pushes(axes: Axes, reachable: ArrayLike, cases: Sequence[Mapping[str, Any]], weights: ArrayLike) -> None:
    """Draw each push of the line search (App. C.2) from the learner's point along the true weights, and its lesson.

    reachable: (n, 2), corners of a convex polygon. weights: (2,), w*, drawn once as a direction.
    cases: of each push "start", mu_L, the learner's expectation; "aim", mu_L + alpha w*; "lesson", mu_T, the next
    lesson; and "is_realised", whether some policy has the expectation of the aim, which is then the lesson.
    """
    corners = polygon(reachable)
    _set_plane(axes, [corners, *(case[name] for case in cases for name in ("start", "aim", "lesson"))])
    # The direction is drawn outside the convex set, at the upper right corner of its bounding box.
    tip = corners.max(axis=0)
    span = float(np.ptp(corners, axis=0).max()) or 1.0
    direction = floats(weights, "weights", ndim=1)
    step = 0.12 * span * direction / (np.linalg.norm(direction) or 1.0)
    _add_arrow(axes, tip - step, tip, gap=0.0)
    _add_label(axes, "$w^*$", tip - step / 2, (8, -8))
    for index, case in enumerate(cases, 1):
        start, aim, lesson, is_realised = (case[name] for name in ("start", "aim", "lesson", "is_realised"))
        learner = rf"\mu_L^{{{index}}}"
        _add_arrow(axes, start, aim, gap=5.0 if is_realised else 0.0)
        _add_label(axes, f"${learner}$", start, (-8, -8))
        _add_label(axes, rf"$\mu_T^{{{index}}}$", lesson, (8, 8 if is_realised else -8))
        if not is_realised:
            _add_label(axes, rf"${learner} + \alpha\,w^*$", aim)
            dashed: Style = {"color": "0.3", "linewidth": 0.9, "linestyle": (0, (2, 2))}
            axes.plot(*np.transpose([aim, lesson]), label="from an aim out of reach to its lesson", zorder=3, **dashed)
        # A ring, so that a lesson at the learner's own point is visible inside it.
        ring: Style = {"color": "white", "markeredgecolor": COLOURS[0], "mew": 2, "markersize": 12}
        axes.plot(*start, "o", zorder=4, label="learner", **ring)
        axes.plot(*lesson, "*", color=COLOURS[1], label="lesson", **MARK)


def polygon(corners: ArrayLike) -> Matrix:
    """(n, 2), the corners of a convex polygon in anticlockwise order."""
    points = floats(corners, "corners", ndim=2)
    outward = points - points.mean(axis=0)
    return points[np.argsort(np.arctan2(outward[:, 1], outward[:, 0]), kind="stable")]


def _set_plane(axes: Axes, parts: Sequence[ArrayLike], labels: tuple[str, str] = COUNTS) -> None:
    """Draw the first part, what is reachable, with a margin around all parts, (n, 2) or (2,); distances are true."""
    axes.fill(*np.transpose(parts[0]), zorder=1, label="reachable", fc="#e4e4e4", ec="black", linewidth=1.2)
    points = np.vstack(parts)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (float((high - low).max()) or 1.0)
    (left, bottom), (right, top) = low - margin, high + margin
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    set_frame(axes, *labels)


def _add_arrow(axes: Axes, start: Vector, end: Vector, *, gap: float, **style: Any) -> None:
    """Draw an arrow that leaves `gap` printer's points free at both ends."""
    style |= {"arrowstyle": "-|>", "color": "black", "linewidth": 1.3, "mutation_scale": 13}
    axes.annotate("", tuple(end), tuple(start), zorder=3, arrowprops={"shrinkA": gap, "shrinkB": gap, **style})


def _add_label(axes: Axes, label: str, place: Vector, offset: tuple[int, int] = (8, 8)) -> None:
    """Write a label beside a place, at this offset in printer's points; the box behind it hides the stripes."""
    side: Style = {"ha": "left" if offset[0] > 0 else "right", "va": "bottom" if offset[1] > 0 else "top"}
    backing = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
    axes.annotate(label, tuple(place), offset, textcoords="offset points", zorder=6, bbox=backing, **side)
