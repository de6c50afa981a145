"""Tables, figures and the report as files: every cell beside the paper's, every figure, and the origin of the rows.

It reads existing rows, and runs no algorithm.
"""

import base64
import html
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tutelage.data.files import write_whole
from tutelage.experiments.settings import N_WORLDS
from tutelage.experiments.tables import Cell, Rows, by_entry
from tutelage.experiments.targets import MODEL_NAMES, TARGETS, column_label, tasks_of
from tutelage.pictures.files import save_picture

WORLD_SET_NAMES = {"seeds": "seeds 0 to 9", "reachable": "reachable worlds", "text": "the text's worlds"}

FEW_WORLDS = "Fewer worlds"
LOCAL_OPTIMUM = "Another local optimum"
UNCONVERGED = "A learner that had not converged"
OUT_OF_REACH = "Worlds where objects are out of reach"
THIRD_ROUND = "The third round of line search"
TEXT_WORLDS = "The worlds of the text"
UNKNOWN = "Not explained"

# Why our mean is lower than the paper's: headings of docs/reproduction.md. The first rule that applies counts.
RULES: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    (FEW_WORLDS, lambda cell: len(cell.rewards) < N_WORLDS),
    (TEXT_WORLDS, lambda cell: cell.where.get("worlds") == "text"),
    (LOCAL_OPTIMUM, lambda cell: cell.teacher == "bilevel_frank_wolfe"),
    (UNCONVERGED, lambda cell: cell.teacher == "agnostic" and cell.where.get("model") in ("hard", "footnote")),
    (OUT_OF_REACH, lambda cell: cell.learner == "L3" and cell.where.get("worlds") == "seeds"),
    (OUT_OF_REACH, lambda cell: cell.teacher == "conservative" and cell.where.get("worlds") == "seeds"),
    (THIRD_ROUND, lambda cell: cell.entry == "line_search_round_3"),
)


def reason(cell: Cell) -> str:
    """The heading of docs/reproduction.md that explains a lower mean."""
    return next((heading for heading, applies in RULES if applies(cell)), UNKNOWN)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of texts, under a caption; the first column names the rows."""

    caption: str
    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As a Markdown table."""
        rule = ("---", *["---:"] * (len(self.header) - 1))
        lines = [" | ".join(row) for row in (self.header, rule, *self.body)]
        return "\n".join([f"**{self.caption}**", "", *(f"| {line} |" for line in lines), ""])

    def page(self) -> str:
        """As an HTML table."""
        head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in self.header)
        body = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{html.escape(t)}</td>" for t in texts)
            + "</tr>"
            for name, *texts in self.body
        )
        caption = html.escape(self.caption)
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def number(value: float, digits: int = 2) -> str:
    """The value with this many digits, or a dash where it is not known."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def place(cell: Cell) -> str:
    """The place of a cell in its table, apart from the learner and the teacher."""
    where = dict(cell.where)
    if "C_r" in where:
        worlds = "" if where["worlds"] == "seeds" else f", {WORLD_SET_NAMES[where['worlds']]}"
        return f"C_r = {where['C_r']}, C_c = {where['C_c']}{worlds}"
    size = where["size"]
    return f"{size}x{size}, {WORLD_SET_NAMES[where['worlds']]}, {MODEL_NAMES[where['model']]}"


def overview(cells: Iterable[Cell]) -> list[Grid]:
    """One grid for each place: a row per teacher, a column per learner, the paper's mean in brackets."""
    grids = []
    for caption, group in groupby(cells, place):
        members = list(group)
        learners = tuple(dict.fromkeys(cell.learner for cell in members))
        by_teacher = {name: {c.learner: c for c in members if c.teacher == name} for name in _teachers(members)}
        body = tuple((column_label(name), *(_entry(row[x]) for x in learners)) for name, row in by_teacher.items())
        grids.append(Grid(caption, ("teacher", *learners), body))
    return grids


def _teachers(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cell.teacher for cell in cells))


def _entry(cell: Cell) -> str:
    mark = {"agrees": "=", "better": "+", "differs": "!", "other": "~", "": ""}[cell.verdict]
    printed = f" ({cell.printed.mean:.2f}) {mark}" if cell.printed else ""
    return f"{_mean(cell)}{printed}"


def _mean(cell: Cell) -> str:
    """The mean ± its standard error; with the number of worlds where some were refused."""
    counted = f" [{cell.counted} worlds]" if cell.n_refused else ""
    return f"{number(cell.mean)} ±{number(cell.standard_error)}{counted}"


VERDICTS = ("agrees", "better", "differs", "other")
DETAIL = ("where", "learner", "teacher", "ours", "paper", "difference", "std. error", "as printed", "paper's ±")


def details(title: str, cells: Iterable[Cell]) -> Grid:
    """Every cell that the paper has, in full."""
    body = tuple(
        (
            place(cell),
            cell.learner,
            column_label(cell.teacher),
            number(cell.mean, 3),
            number(cell.printed.mean),
            f"{cell.difference:+.3f}",
            number(cell.standard_error, 3),
            number(cell.as_printed, 3),
            number(cell.printed.deviation),
            f"{cell.verdict}: {reason(cell)}" if cell.verdict == "differs" else cell.verdict,
            cell.counted,
        )
        for cell in cells
        if cell.printed
    )
    return Grid(title, (*DETAIL, "verdict", "worlds"), body)


def verdicts(title: str, cells: Sequence[Cell]) -> Grid:
    """How many cells agree, are better, differ and have another reading, by teacher, learner model and worlds."""
    body = []
    for key, group in groupby(sorted(cells, key=_family), _family):
        counts = Counter(cell.verdict for cell in group if cell.printed)
        if counts:
            body.append((key, *(str(counts[verdict]) for verdict in VERDICTS)))
    return Grid(title, ("column", *VERDICTS), tuple(body))


def readings(cells: Sequence[Cell]) -> Grid:
    """For each printed number of Sec. 6.2: how many of our readings agree with it, and the nearest one."""
    body = []
    for (learner, column, size), members in by_entry(cells).items():
        nearest = min(members, key=lambda cell: abs(cell.difference) / cell.tolerance)
        printed = nearest.printed
        n_agreeing = sum(cell.verdict == "agrees" for cell in members)
        body.append(
            (
                f"{learner}, {size}x{size}, {column_label(column).replace('3rd lesson', '3rd')}",
                f"{printed.mean:.2f} ±{printed.deviation:.2f}" if printed else "-",
                f"{n_agreeing} of {len(members)}",
                _mean(nearest),
                f"{column_label(nearest.teacher)}, {place(nearest)}",
            )
        )
    n_agreeing = sum(any(cell.verdict == "agrees" for cell in members) for members in by_entry(cells).values())
    caption = f"Readings: {n_agreeing} of {len(body)} printed numbers agree with at least one"
    return Grid(caption, ("printed number", "paper", "readings that agree", "nearest", "its reading"), tuple(body))


def _family(cell: Cell) -> str:
    where = dict(cell.where)
    model = f", {MODEL_NAMES[where['model']]}" if "model" in where else ""
    return f"{column_label(cell.teacher)}{model}, {WORLD_SET_NAMES[where['worlds']]}"


def summaries(cells: Sequence[Cell]) -> list[Grid]:
    """The verdicts where the paper has numbers, the readings of Sec. 6.2, and the overview."""
    grids = [verdicts("Verdicts", cells)] if any(cell.printed for cell in cells) else []
    grids += [readings(cells)] if any(cell.entry for cell in cells) else []
    return [*grids, *overview(cells)]


LEGEND = (
    "An entry is our mean ± its standard error, with the paper's mean in brackets: = agrees, + ours is better, "
    "! ours is lower, ~ they differ and the print has another learner or another round; the last table names the "
    "heading of docs/reproduction.md that says why. [5 of 10 worlds]: the others were refused, because no policy there "
    "keeps the preferences, so this mean is over other worlds than its neighbours."
)


def markdown(cells: Mapping[str, Sequence[Cell]], pictures: Mapping[str, Sequence[Path]], origin: str) -> str:
    """The report as Markdown; the pictures are in the same folder."""
    parts = ["# Reproduction report", "", origin, "", LEGEND, ""]
    for name, members in cells.items():
        parts += [f"## {name}: {TARGETS[name].title}", ""]
        parts += [grid.markdown() for grid in summaries(members)]
        parts += ["### Every printed entry", "", details(TARGETS[name].title, members).markdown()]
    for name, paths in pictures.items():
        parts += [f"## {name}: {TARGETS[name].title}", ""]
        parts += [f"![{path.stem}]({path.name})\n" for path in paths if path.suffix == ".png"]
    return "\n".join(parts)


def page(cells: Mapping[str, Sequence[Cell]], pictures: Mapping[str, Sequence[Path]], origin: str) -> str:
    """The report as one self-contained HTML page."""
    parts = [f"<h1>Reproduction report</h1><p>{html.escape(origin)}</p><p>{html.escape(LEGEND)}</p>"]
    for name, members in cells.items():
        parts += [f"<h2>{name}: {html.escape(TARGETS[name].title)}</h2>"]
        parts += [grid.page() for grid in summaries(members)]
        parts += [f"<details><summary>Every printed entry</summary>{details('', members).page()}</details>"]
    for name, paths in pictures.items():
        parts += [f"<h2>{name}: {html.escape(TARGETS[name].title)}</h2>"]
        parts += [_image(path, TARGETS[name].title) for path in paths if path.suffix == ".png"]
    return PAGE.replace("BODY", "\n".join(parts))


def _image(path: Path, title: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{html.escape(title)}: {path.stem}" src="data:image/png;base64,{data}"></figure>'


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Reproduction report</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0; }
main { max-width: 75rem; margin: 0 auto; padding: 1rem 1.5rem 4rem; }
table { border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; }
table { display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
thead th { border-bottom: 2px solid #444; }
tbody th, thead th:first-child { text-align: left; font-weight: 500; }
img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; }
summary { cursor: pointer; font-weight: 600; }
</style>
</head>
<body><main>
BODY
</main></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Products:
    """The tables and figures of these names, in a folder. cells: those of each table, by its name."""

    names: Sequence[str]
    rows: Rows
    n_worlds: int
    folder: Path
    cells: dict[str, list[Cell]] = field(init=False)

    def __post_init__(self) -> None:
        made = {name: TARGETS[name].cells for name in self.names}
        cells = {name: list(make(self.rows, self.n_worlds)) for name, make in made.items() if make}
        object.__setattr__(self, "cells", cells)

    @property
    def origin(self) -> str:
        """The version and the revisions of the package that computed the rows."""
        tasks = tasks_of(self.names, self.n_worlds, is_slow=True)
        used = [self.rows[task.key] for task in tasks if task.key in self.rows]
        version = ", ".join(sorted({row.version for row in used}))
        revision = ", ".join(sorted({row.revision for row in used} - {""})) or "unknown"
        return f"{len(used)} rows of {self.n_worlds} worlds, computed by Tutelage {version}, revision {revision}."

    def write(self, *, with_report: bool) -> list[Path]:
        """Write every table as JSON and Markdown, every figure as PNG and SVG, and on request the report."""
        written = [path for name, cells in self.cells.items() for path in self._table(name, cells)]
        pictures: dict[str, list[Path]] = {}
        for name in self.names:
            if draw := TARGETS[name].figures:
                figures = draw(self.rows, self.n_worlds)
                pictures[name] = [path for stem in figures for path in save_picture(figures[stem], self.folder / stem)]
        written += [path for paths in pictures.values() for path in paths]
        if with_report:
            texts = {"report.md": markdown, "report.html": page}
            written += [self._text(name, make(self.cells, pictures, self.origin)) for name, make in texts.items()]
        return written

    def _table(self, name: str, cells: list[Cell]) -> list[Path]:
        data = {"table": name, "origin": self.origin, "cells": [cell.as_data() for cell in cells]}
        text = "\n".join([LEGEND, "", *(grid.markdown() for grid in summaries(cells))])
        return [self._text(f"{name}.json", json.dumps(data, indent=1) + "\n"), self._text(f"{name}.md", text)]

    def _text(self, name: str, text: str) -> Path:
        path = self.folder / name
        write_whole(path, text.encode())
        return path
