"""Figures as a table, as files, as a picture, and as sentences about missed limits. Runs no benchmark."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Picture

from benchmarks.measure import Figure
from benchmarks.scale import EXPONENT
from tutelage.data.files import write_whole
from tutelage.experiments.tables import Grid
from tutelage.pictures.domains import save_picture
from tutelage.pictures.plots import COLOURS, DASHES, MARKERS

HEADER = ("what", "grid", "rival", "ours", "theirs", "figure", "spread", "must hold", "note")


def grid(name: str, rows: Sequence[Figure]) -> Grid:
    """The table of all figures, for a terminal or Markdown."""
    return Grid(f"python -m benchmarks {name}", HEADER, tuple(_texts(row) for row in rows))


def notes(rows: Sequence[Figure]) -> list[str]:
    """The notes of the figures, each after the name of its figure."""
    return [f"{row.what}, {row.grid}: {row.note}" for row in rows if row.note]


def as_data(name: str, rows: Sequence[Figure]) -> dict[str, Any]:
    """All figures and a description of the machine, for JSON."""
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    holds = all(row.holds for row in rows)
    return {"benchmark": name, "holds": holds, "machine": machine, "rows": [row.as_data() for row in rows]}


def misses(rows: Sequence[Figure]) -> list[str]:
    """A sentence for each figure that misses its limit."""
    return [
        f"{row.what}{f' at {row.grid}' if row.size else ''}{f' against {row.rival}' if row.rival else ''}: "
        f"{_figure(row) or duration(row.ours)}, but must be {row.must_hold}"
        for row in rows
        if not row.holds
    ]


def write(name: str, rows: Sequence[Figure], folder: Path) -> list[Path]:
    """Write bench_<name>.json and .md to the folder, for `scale` also the picture; return the paths."""
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
    """Seconds with three digits; milliseconds below one second."""
    if time is None:
        return ""
    return f"{time:.3g} s" if time >= 1 else f"{1e3 * time:.3g} ms"


def _texts(row: Figure) -> tuple[str, ...]:
    verdict = row.must_hold if row.holds else f"{row.must_hold}: FAILS"
    times = duration(row.ours), duration(row.theirs)
    return (
        row.what,
        row.grid,
        row.rival,
        *times,
        _figure(row),
        _spread(row),
        verdict,
        row.note,
    )


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


def draw_growth(rows: Sequence[Figure]) -> Picture:
    """Time against states on logarithmic axes, a line for each task; markers and dashes make it readable in grey."""
    picture = Picture(figsize=(7.6, 5.0), layout="constrained")
    axes = picture.subplots()
    # Six lines share four colours, so each line also has its own marker and dashes.
    styles = zip(cycle(COLOURS), cycle((*MARKERS, "v", "P")), cycle((*DASHES, "solid", "dotted")), strict=False)
    for (name, times), (colour, marker, dashes) in zip(curves(rows).items(), styles, strict=False):
        states, seconds = list(times), list(times.values())
        axes.plot(states, seconds, color=colour, marker=marker, linestyle=dashes, label=_label(name, rows))
    axes.set(xscale="log", yscale="log", xlabel="states", ylabel="seconds")
    axes.set_title("Time against states, object worlds, discount 0.99", fontsize="medium")
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        picture.legend(loc="outside lower center", ncols=2, frameon=False, handlelength=4)
    return picture


def curves(rows: Sequence[Figure]) -> Mapping[str, Mapping[int, float]]:
    """Seconds by number of states, for each task without a rival that was timed at several sizes."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.ours is not None and not row.rival:
            found.setdefault(row.what, {})[row.size**2 + 1] = row.ours
    return {name: times for name, times in found.items() if len(times) > 1}


def _label(name: str, rows: Sequence[Figure]) -> str:
    power = next((row.value for row in rows if row.what == f"{name}: {EXPONENT}"), None)
    return name if power is None else rf"{name}: states$^{{{power:.2f}}}$"
