"""Labels next to points, where they cover neither each other nor a point."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from tutelage.arrays import Matrix, Vector

# Where a label may stand, as a unit step from its point, in the order of preference.
SIDES = ((1, 1), (1, 0), (1, -1), (-1, 1), (-1, -1), (-1, 0), (0, 1), (0, -1))
DISTANCE = 9.0


def add_labels(axes: Axes, labels: Mapping[str, Vector], *, taken: Matrix, **style: Any) -> None:
    """Write each label beside its point (2,), clear of the other points, of the places taken (n, 2) and of each other.

    The limits of the axes must be set, because what is near depends on them.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    points = np.array(list(labels.values()), dtype=np.float64).reshape(-1, 2)
    boxes = [*_boxes(axes, points, margin=7.0), *_boxes(axes, taken, margin=1.5)]
    for label, point in labels.items():
        boxes.append(_add_label(axes, label, point, boxes, style))


def _boxes(axes: Axes, points: Matrix, *, margin: float) -> list[Bbox]:
    return [Bbox.from_extents(*(place - margin), *(place + margin)) for place in axes.transData.transform(points)]


def _add_label(axes: Axes, label: str, point: Vector, boxes: Sequence[Bbox], style: Mapping[str, Any]) -> Bbox:
    """Write the label on the side where it covers least, and return what it covers, in pixels."""
    text = axes.annotate(label, (float(point[0]), float(point[1])), (0.0, 0.0), textcoords="offset points", **style)
    best, least = SIDES[0], np.inf
    for across, up in SIDES:
        _move(text, across, up)
        cost = _covered(text.get_window_extent(), boxes, axes.bbox)
        if cost < least:
            best, least = (across, up), cost
    _move(text, *best)
    return text.get_window_extent()


def _move(text: Any, across: int, up: int) -> None:
    reach = DISTANCE / np.hypot(across, up)
    text.set(
        position=(reach * across, reach * up),
        ha={-1: "right", 0: "center", 1: "left"}[across],
        va={-1: "top", 0: "center", 1: "bottom"}[up],
    )


def _covered(box: Bbox, boxes: Sequence[Bbox], frame: Bbox) -> float:
    """The area in pixels that a label has in common with others, and what of it is outside the frame."""
    inside = Bbox.intersection(box, frame)
    outside = box.width * box.height - (inside.width * inside.height if inside else 0.0)
    common = (Bbox.intersection(box, other) for other in boxes)
    return float(outside + sum(part.width * part.height for part in common if part))
