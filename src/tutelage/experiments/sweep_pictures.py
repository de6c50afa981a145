"""Pictures of a sweep, in panels of a size that can be read. They are made from means alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage.experiments.means import Mean, MeanCurve
from tutelage.pictures.rounds import COLOURS, MARKERS
from tutelage.registry import TEACHERS

HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++")


def teacher_label(teacher: str) -> str:
    """A teacher as in the paper's tables, with its options."""
    name, *options = teacher.split(", ")
    return ", ".join([TEACHERS[name].label if name in TEACHERS else name, *options])


def bars(means: Sequence[Mean], of: str, *, most_learners: int = 10) -> Figure:
    """Horizontal bars with standard errors; hatches repeat the information of the colours.

    most_learners: in one panel, so that each can be read.
    """
    teachers, parts = _distinct(mean.teacher for mean in means), []
    for domain in _distinct(mean.domain for mean in means):
        learners = _distinct(mean.learner for mean in means if mean.domain == domain)
        size = math.ceil(len(learners) / math.ceil(len(learners) / most_learners))
        parts += [(domain, learners[first : first + size]) for first in range(0, len(learners), size)]
    most = max(len(learners) for _, learners in parts)
    figure, panels = _panels(len(parts), 4.8, most * (0.15 * len(teachers) + 0.25) + 0.9)
    for axes, (domain, learners) in zip(panels, parts, strict=True):
        for number, teacher in enumerate(teachers):
            shown = [mean for mean in means if (mean.domain, mean.teacher) == (domain, teacher)]
            _draw_bars(axes, [mean for mean in shown if mean.learner in learners], learners, number, len(teachers))
        axes.set_yticks(range(len(learners)), [learner.replace(", ", "\n", 1) for learner in learners], fontsize=7)
        axes.set(title=domain, xlabel=_words(of), ylim=(most - 0.5, -0.5), xlim=_span(means, domain))
        axes.axvline(0.0, color="black", linewidth=0.8)
    _legend(figure, panels)
    return figure


def _draw_bars(axes: Axes, means: Sequence[Mean], learners: Sequence[str], number: int, n_teachers: int) -> None:
    """The bars of one teacher. A mean over fewer cases than its neighbours says so."""
    width = 0.8 / n_teachers
    places = [learners.index(mean.learner) + (number - (n_teachers - 1) / 2) * width for mean in means]
    look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
    rewards, errors = ([getattr(mean, name) for mean in means] for name in ("reward", "standard_error"))
    label = teacher_label(means[0].teacher) if means else ""
    axes.barh(places, rewards, width, xerr=np.nan_to_num(errors), label=label, capsize=2, edgecolor="white", **look)
    for place, mean in zip(places, means, strict=True):
        if mean.n_failed:
            end = np.nan_to_num(mean.reward) + np.nan_to_num(mean.standard_error)
            axes.annotate(f" {mean.n_failed} failed", (end, place), va="center", size=6)


def _span(means: Sequence[Mean], domain: str) -> tuple[float, float]:
    """One scale for all panels of a group, from zero, with room for the errors."""
    known = [mean for mean in means if mean.domain == domain and not math.isnan(mean.reward)]
    ends = [mean.reward + sign * np.nan_to_num(mean.standard_error) for mean in known for sign in (-1, 1)]
    low, high = 1.15 * min([0.0, *ends]), 1.15 * max([0.0, *ends])
    return (low, high) if high > low else (0.0, 1.0)


def curves(several: Sequence[MeanCurve], of: str) -> Figure:
    """One panel for each group of domains and learner, with a band of one standard error around each mean."""
    places = _distinct((curve.domain, curve.learner) for curve in several)
    teachers = _distinct(curve.teacher for curve in several)
    figure, panels = _panels(len(places), 4.6, 3.2)
    for axes, place in zip(panels, places, strict=True):
        here = [curve for curve in several if (curve.domain, curve.learner) == place]
        last = max(curve.budgets[-1] for curve in here)
        for curve in here:
            number = teachers.index(curve.teacher)
            # A learner that is shown no more keeps what it does.
            budgets = [*curve.budgets, max(last, curve.budgets[0] + 1)]
            middle, error = (np.nan_to_num([*part, part[-1]]) for part in (curve.values, curve.errors))
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            look |= {"markevery": max(1, len(budgets) // 10), "label": teacher_label(curve.teacher)}
            axes.step(budgets, middle, where="post", **look)
            axes.fill_between(
                budgets, middle - error, middle + error, step="post", color=look["color"], alpha=0.2, linewidth=0
            )
        axes.set_title("\n".join(place), fontsize="small")
        axes.set(xlabel="round" if here[0].by == "round" else f"{here[0].by[2:]} shown", ylabel=_words(of))
        axes.locator_params(axis="x", integer=True)
        axes.set_ylim(*_wide(axes.get_ylim(), [value for curve in here for value in curve.values]))
    _legend(figure, panels)
    return figure


def swept(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The two columns of numbers by which the learners differ; None where others differ, or where bars are as good."""
    learners = {row["learner"]: row for row in rows}
    fields = ("mismatch_penalty", "violation_penalty", "allowance", "max_steps", "n_sampled")
    columns = [name for name in rows[0] if name in fields or name.startswith("learner.")]
    differing = [name for name in columns if len({row[name] for row in learners.values()}) > 1]
    pairs = {tuple(row[name] for name in differing) for row in learners.values()}
    are_numbers = all(isinstance(value, int | float) for pair in pairs for value in pair)
    is_plane = len(differing) == 2 and are_numbers and len(pairs) == len(learners) > 4
    return (differing[0], differing[1]) if is_plane else None


def heat_maps(rows: Sequence[Mapping[str, Any]], means: Sequence[Mean], names: tuple[str, str], of: str) -> Figure:
    """One for each group of domains and teacher, in one scale of colours for each group. names: of the axes."""
    places = {row["learner"]: (row[names[0]], row[names[1]]) for row in rows}
    across, up = (sorted({place[axis] for place in places.values()}) for axis in (0, 1))
    parts = _distinct((mean.domain, mean.teacher) for mean in means)
    figure, panels = _panels(len(parts), 2.0 + 0.5 * len(across), 1.3 + 0.35 * len(up))
    for axes, (domain, teacher) in zip(panels, parts, strict=True):
        here = [mean for mean in means if mean.domain == domain]
        known = [mean.reward for mean in here if not math.isnan(mean.reward)] or [0.0]
        low, high = _wide((min(known), max(known)), known)
        image = axes.imshow(np.full((len(up), len(across)), np.nan), origin="lower", vmin=low, vmax=high)
        table = np.full((len(up), len(across)), np.nan)
        digits = max(0, 2 - math.floor(math.log10(max(map(abs, known)) or 1.0)))
        for mean in here:
            if mean.teacher == teacher:
                x, y = (line.index(value) for line, value in zip((across, up), places[mean.learner], strict=True))
                table[y, x] = mean.reward
                colour = "white" if mean.reward < low + 0.6 * (high - low) else "black"
                text = "failed" if math.isnan(mean.reward) else f"{mean.reward:.{digits}f}"
                axes.text(x, y, text, ha="center", va="center", size=6, color=colour)
        image.set_data(table)
        axes.set_xticks(range(len(across)), [f"{value:g}" for value in across])
        axes.set_yticks(range(len(up)), [f"{value:g}" for value in up])
        axes.set(xlabel=_words(names[0]), ylabel=_words(names[1]), aspect="auto")
        axes.set_title(f"{domain}\n{teacher_label(teacher)}", fontsize="small")
        figure.colorbar(image, ax=axes)
    figure.suptitle(_words(of), fontsize="medium")
    return figure


def _wide(limits: tuple[float, float], values: Sequence[float], share: float = 1e-3) -> tuple[float, float]:
    """The limits of a scale, at least this share of the largest value apart: it does not magnify rounding errors."""
    least = share * max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    missing = max(0.0, least - (limits[1] - limits[0])) / 2
    return limits[0] - missing, limits[1] + missing


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _panels(n: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """n panels, at most three beside each other. width, height: of one, in inches."""
    n_columns = min(n, 3)
    n_rows = math.ceil(n / n_columns)
    figure = Figure(figsize=(max(6.0, n_columns * width), n_rows * height + 0.6), layout="constrained")
    grid = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for axes in grid[n:]:
        axes.set_axis_off()
    return figure, grid[:n]


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    handles = {name: handle for axes in panels for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    n_columns = max(1, min(len(handles), int(figure.get_figwidth() // 2)))
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=n_columns, frameon=False, fontsize=8)


def _words(column: str) -> str:
    return "the learner's true reward" if column == "reward" else column.removeprefix("learner.").replace("_", " ")
