"""Figures as a table, as files, and as a sentence about those that miss what must hold. Runs no benchmark."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.picture import draw_growth
from tutelage.experiments.report import Grid
from tutelage.mdp.files import write_whole
from tutelage.pictures.files import save_picture

HEADER = ("what", "grid", "rival", "ours", "theirs", "figure", "spread", "must hold", "note")


def grid(name: str, rows: Sequence[Figure]) -> Grid:
    """For a terminal or for Markdown."""
    return Grid(f"python -m benchmarks {name}", HEADER, tuple(_texts(row) for row in rows))


def notes(rows: Sequence[Figure]) -> list[str]:
    """What is to be said of some figures besides, each under its name."""
    return [f"{row.what}, {row.size}x{row.size}: {row.note}" for row in rows if row.note]


def as_data(name: str, rows: Sequence[Figure]) -> dict[str, Any]:
    """For machines: every figure, and the machine."""
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    holds = all(row.holds for row in rows)
    return {"benchmark": name, "holds": holds, "machine": machine, "rows": [row.as_data() for row in rows]}


def misses(rows: Sequence[Figure]) -> list[str]:
    """A sentence for each figure that misses what must hold."""
    return [
        f"{row.what} at {row.size}x{row.size}{f' against {row.rival}' if row.rival else ''}: "
        f"{_figure(row) or duration(row.ours)}, but must be {row.must_hold}"
        for row in rows
        if not row.holds
    ]


def write(name: str, rows: Sequence[Figure], folder: Path) -> list[Path]:
    """bench_<name>.json and .md, and for `scale` the picture, in the folder; and where they are."""
    texts = {
        "json": json.dumps(as_data(name, rows), indent=1, allow_nan=False) + "\n",
        "md": grid(name, rows).markdown(),
    }
    stem = folder / f"bench_{name}"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, text in texts.items():
        path = stem.with_suffix(f".{suffix}")
        write_whole(path, text.encode())
        written.append(path)
    return written + (save_picture(draw_growth(rows), stem) if name == "scale" else [])


def duration(time: float | None) -> str:
    """Three digits, in milliseconds below one second."""
    if time is None:
        return ""
    return f"{time:.3g} s" if time >= 1 else f"{1e3 * time:.3g} ms"


def _texts(row: Figure) -> tuple[str, ...]:
    verdict = row.must_hold if row.holds else f"{row.must_hold}: FAILS"
    times = duration(row.ours), duration(row.theirs)
    return row.what, f"{row.size}x{row.size}", row.rival, *times, _figure(row), _spread(row), verdict, row.note


def _figure(row: Figure) -> str:
    if row.ratio is not None:
        return f"{row.ratio:.1f} times"
    return "" if row.value is None else f"{row.value:.3g} {row.unit}".rstrip()


def _spread(row: Figure) -> str:
    if row.spread is None:
        return ""
    if row.ratio is None and row.value is None:
        return " to ".join(duration(end) for end in row.spread)
    return "{:.3g} to {:.3g}".format(*row.spread)
