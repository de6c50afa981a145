"""Tables, figures and the report as files: every cell beside the paper's, every figure, and the origin of the rows.

It reads existing rows, and runs no algorithm.
"""

import base64
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tutelage.data.files import write_whole
from tutelage.experiments.tables import Cell, Rows
from tutelage.experiments.targets import TARGETS, column_label, tasks_of
from tutelage.pictures.files import save_picture

WORLD_SET_NAMES = {"seeds": "seeds 0 to 9", "reachable": "reachable worlds", "text": "the text's worlds"}


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
    return f"{where['size']}x{where['size']}, {WORLD_SET_NAMES[where['worlds']]}, {where['reading']}"


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
    mark = {"agrees": "=", "better": "+", "differs": "!", "": ""}[cell.verdict]
    printed = f" ({cell.printed.mean:.2f}) {mark}" if cell.printed else ""
    return f"{_mean(cell)}{printed}"


def _mean(cell: Cell) -> str:
    """The mean ± its standard error; with the number of worlds where some were refused."""
    counted = f" [{cell.counted} worlds]" if cell.n_refused else ""
    return f"{number(cell.mean)} ±{number(cell.standard_error)}{counted}"


LEGEND = (
    "An entry is our mean ± its standard error, with the paper's mean in brackets: = agrees, + ours is better, "
    "! ours is lower; docs/reproduction.md says why. [5 of 10 worlds]: the others were refused, because no policy "
    "there keeps the preferences, so this mean is over other worlds than its neighbours."
)


def page(grids: Mapping[str, Sequence[Grid]], pictures: Mapping[str, Sequence[Path]], origin: str) -> str:
    """The report as one self-contained HTML page."""
    parts = [f"<h1>Reproduction report</h1><p>{html.escape(origin)}</p><p>{html.escape(LEGEND)}</p>"]
    for name, members in grids.items():
        parts += [f"<h2>{name}: {html.escape(TARGETS[name].title)}</h2>"]
        parts += [grid.page() for grid in members]
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

    def grids(self, name: str) -> list[Grid]:
        """How a table compares with the print as a whole, where the paper leaves things open, and its cells."""
        compare = TARGETS[name].compare
        whole = compare(self.rows, self.n_worlds) if compare else []
        return [*(Grid(*table) for table in whole), *overview(self.cells[name])]

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
            grids = {name: self.grids(name) for name in self.cells}
            written.append(self._text("report.html", page(grids, pictures, self.origin)))
        return written

    def _table(self, name: str, cells: list[Cell]) -> list[Path]:
        data = {"table": name, "origin": self.origin, "cells": [cell.as_data() for cell in cells]}
        text = "\n".join([LEGEND, "", *(grid.markdown() for grid in self.grids(name))])
        return [self._text(f"{name}.json", json.dumps(data, indent=1) + "\n"), self._text(f"{name}.md", text)]

    def _text(self, name: str, text: str) -> Path:
        path = self.folder / name
        write_whole(path, text.encode())
        return path
