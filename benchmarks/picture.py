"""Time against states, both in logarithms: a line for each task, with its exponent. Runs no benchmark."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure as Picture

from benchmarks.measure import Figure
from benchmarks.scale import EXPONENT
from tutelage.pictures.rounds import COLOURS, DASHES, MARKERS


def draw_growth(rows: Sequence[Figure]) -> Picture:
    """Every task that was timed at several sizes; readable in grey, by markers and dashes."""
    picture = Picture(figsize=(7.6, 5.0), layout="constrained")
    axes = picture.subplots()
    # Four colours for six lines, each with a marker and dashes of its own.
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
    """Seconds by number of states, of every task without a rival that was timed at more than one size."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.ours is not None and not row.rival:
            found.setdefault(row.what, {})[row.size**2 + 1] = row.ours
    return {name: times for name, times in found.items() if len(times) > 1}


def _label(name: str, rows: Sequence[Figure]) -> str:
    power = next((row.value for row in rows if row.what == f"{name}: {EXPONENT}"), None)
    return name if power is None else rf"{name}: states$^{{{power:.2f}}}$"
