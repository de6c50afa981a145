"""Writes tables, figures and the report from computed rows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from tutelage.data.files import write_whole
from tutelage.experiments import report
from tutelage.experiments.tables import Cell, Rows
from tutelage.experiments.targets import TARGETS, tasks_of
from tutelage.pictures.files import save_picture


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
        pictures = {
            name: [
                path for stem, figure in draw(self.rows, self.n_worlds).items() for path in self._picture(stem, figure)
            ]
            for name in self.names
            if (draw := TARGETS[name].figures)
        }
        written += [path for paths in pictures.values() for path in paths]
        if with_report:
            texts = {"report.md": report.markdown, "report.html": report.page}
            written += [self._text(name, make(self.cells, pictures, self.origin)) for name, make in texts.items()]
        return written

    def _table(self, name: str, cells: list[Cell]) -> list[Path]:
        data = {"table": name, "origin": self.origin, "cells": [cell.as_data() for cell in cells]}
        text = "\n".join([report.LEGEND, "", *(grid.markdown() for grid in report.summaries(cells))])
        return [self._text(f"{name}.json", json.dumps(data, indent=1) + "\n"), self._text(f"{name}.md", text)]

    def _picture(self, stem: str, figure: Figure) -> list[Path]:
        return save_picture(figure, self.folder / stem)

    def _text(self, name: str, text: str) -> Path:
        path = self.folder / name
        write_whole(path, text.encode())
        return path
