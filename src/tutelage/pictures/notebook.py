"""What a notebook shows of an object: its picture, its table, or its text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import singledispatch
from html import escape
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage.arrays import Readable, brief
from tutelage.environments.object_world import ObjectWorld
from tutelage.model.mdp import Domain
from tutelage.pictures.domains import draw_map
from tutelage.pictures.files import as_svg
from tutelage.pictures.rounds import draw_rounds
from tutelage.pictures.world import draw_world
from tutelage.roles import Lesson, Response
from tutelage.transcripts import Transcript


@singledispatch
def as_html(value: Any) -> str:
    """The HTML of a public object: by default its text, or a table of its fields."""
    kind: Any = type(value)
    if kind.__str__ is not object.__str__ or kind.__repr__ is not Readable.__repr__:
        return f"<pre>{escape(str(value))}</pre>"
    names = [part.name for part in fields(kind) if part.repr]
    return table(("field", "value"), [(name, brief(getattr(value, name))) for name in names])


@as_html.register
def _(value: ObjectWorld) -> str:
    return _picture(lambda axes: draw_world(axes, value))


@as_html.register
def _(value: Transcript) -> str:
    rows = [
        (number, taught.lesson_reward, taught.response_reward, taught.distance, taught.bound, taught.reason)
        for number, taught in enumerate(value.rounds, start=1)
    ]
    drawn = _picture(lambda axes: draw_rounds(axes, value)) if rows else ""
    head = ("round", "lesson", "learner", "distance", "bound", "reason")
    return f"{drawn}{table(head, rows)}<p>Ended: {escape(value.ended)}.</p>"


@as_html.register
def _(value: Response) -> str:
    rows = zip(value.reward_names, value.lesson.expectation, value.compared, strict=True)
    proof = "no certificate" if value.certificate is None else f"certified gap {value.certificate.gap:.2g}"
    return f"{table(('feature', 'shown', 'done'), rows)}<p>{proof}</p>"


@as_html.register
def _(value: Lesson) -> str:
    names = range(len(value.expectation)) if value.domain is None else value.domain.reward_names
    return table(("feature", "shown", "uncertainty"), zip(names, value.expectation, value.uncertainty, strict=True))


@as_html.register
def _(value: Domain) -> str:
    kinds = [("reward", value.reward_names, value.reward_features)]
    kinds += [("preference", value.preference_names, value.preference_features)]
    columns = ((kind, *pair) for kind, names, features in kinds for pair in zip(names, features.T, strict=True))
    rows = ((kind, name, float(column.min()), float(column.max())) for kind, name, column in columns)
    drawn = "" if value.positions is None else _picture(lambda axes: draw_map(axes, value))
    return f"<p>{escape(repr(value.mdp))}</p>{table(('kind', 'feature', 'least', 'largest'), rows)}{drawn}"


def _picture(draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    draw(figure.subplots())
    svg = as_svg(figure)
    return svg[svg.index("<svg") :]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 12) -> str:
    """An HTML table of at most so many rows; numbers have four digits."""
    given = list(rows)

    def row(kind: str, cells: Sequence[Any]) -> str:
        texts = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)}</tr>"

    more = f"<p>and {len(given) - most} more</p>" if len(given) > most else ""
    return f"<table>{row('th', head)}{''.join(row('td', cells) for cells in given[:most])}</table>{more}"
