"""Pictures as files, and what a notebook shows of an object: its picture, its table, or its text.

A file is written completely or not at all, with the same bytes for the same picture.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage.arrays import Readable, brief
from tutelage.data.files import AnyPath, write_whole
from tutelage.environments.object_world import ObjectWorld
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput
from tutelage.pictures.domains import draw_map
from tutelage.pictures.plots import draw_rounds
from tutelage.pictures.world import draw_world
from tutelage.roles import Lesson, Response
from tutelage.transcripts import Transcript

SVG_METADATA = {"Date": None, "Creator": "Tutelage"}
PNG_METADATA = {"Software": None}


def save_picture(figure: Figure, stem: AnyPath) -> list[Path]:
    """Write stem.png and stem.svg, and return their paths; the layout of the figure is fixed from then on."""
    place = Path(stem)
    if not place.name:
        raise InvalidInput(f"a picture needs a file name, such as {place / 'picture'}, got {str(stem)!r}")
    contents = {"png": _rendered(figure, "png", dpi=150, metadata=PNG_METADATA), "svg": as_svg(figure).encode()}
    # A dot in the stem does not start a suffix.
    paths = {suffix: place.with_name(f"{place.name}.{suffix}") for suffix in contents}
    place.parent.mkdir(parents=True, exist_ok=True)
    for suffix, path in paths.items():
        write_whole(path, contents[suffix])
    return list(paths.values())


def as_svg(figure: Figure) -> str:
    """The picture as an SVG text; letters are paths, so that it needs no font."""
    # Without a salt the identifiers in an SVG are random.
    with rc_context({"svg.hashsalt": "tutelage", "svg.fonttype": "path"}):
        return _rendered(figure, "svg", metadata=SVG_METADATA).decode()


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    # A layout engine starts from its last result, and would move the artists a little in every drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def as_html(value: Any) -> str:
    """The HTML of a public object: its picture and its numbers, its text, or a table of its fields."""
    kind: Any = type(value)
    if isinstance(value, ObjectWorld):
        return _picture(lambda axes: draw_world(axes, value))
    if isinstance(value, Transcript):
        rows: Iterable[Sequence[Any]] = [
            (number, taught.lesson_reward, taught.response_reward, taught.distance, taught.bound, taught.reason)
            for number, taught in enumerate(value.rounds, start=1)
        ]
        drawn = _picture(lambda axes: draw_rounds(axes, value)) if value.rounds else ""
        head = ("round", "lesson", "learner", "distance", "bound", "reason")
        return f"{drawn}{table(head, rows)}<p>Ended: {escape(value.ended)}.</p>"
    if isinstance(value, Response):
        rows = zip(value.reward_names, value.lesson.expectation, value.compared, strict=True)
        proof = "no certificate" if value.certificate is None else f"certified gap {value.certificate.gap:.2g}"
        return f"{table(('feature', 'shown', 'done'), rows)}<p>{proof}</p>"
    if isinstance(value, Lesson):
        names = range(len(value.expectation)) if value.domain is None else value.domain.reward_names
        rows = zip(names, value.expectation, value.uncertainty, strict=True)
        return table(("feature", "shown", "uncertainty"), rows)
    if isinstance(value, Domain):
        kinds = [("reward", value.reward_names, value.reward_features)]
        kinds += [("preference", value.preference_names, value.preference_features)]
        columns = ((kind, *pair) for kind, names, features in kinds for pair in zip(names, features.T, strict=True))
        rows = ((kind, name, float(column.min()), float(column.max())) for kind, name, column in columns)
        drawn = "" if value.positions is None else _picture(lambda axes: draw_map(axes, value))
        return f"<p>{escape(repr(value.mdp))}</p>{table(('kind', 'feature', 'least', 'largest'), rows)}{drawn}"
    if kind.__str__ is not object.__str__ or kind.__repr__ is not Readable.__repr__:
        return f"<pre>{escape(str(value))}</pre>"
    return table(
        ("field", "value"), [(part.name, brief(getattr(value, part.name))) for part in fields(kind) if part.repr]
    )


def _picture(draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    draw(figure.subplots())
    svg = as_svg(figure)
    return svg[svg.index("<svg") :]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 12) -> str:
    """An HTML table of at most this many rows; numbers have four digits."""
    given = list(rows)

    def row(kind: str, cells: Sequence[Any]) -> str:
        texts = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)}</tr>"

    more = f"<p>and {len(given) - most} more</p>" if len(given) > most else ""
    return f"<table>{row('th', head)}{''.join(row('td', cells) for cells in given[:most])}</table>{more}"
