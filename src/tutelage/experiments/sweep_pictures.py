"""Pictures of a sweep, in panels of a size that can be read. They are made from means alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage.experiments.figures import legend
from tutelage.experiments.means import Mean, MeanCurve, teacher_label
from tutelage.experiments.settings import NUMBERS
from tutelage.pictures.plots import COLOURS, MARKERS


def points(means: Sequence[Mean], of: str, *, most: int = 12) -> Figure:
    """The means with their standard errors, learners below each other. most: of them in one panel."""
    teachers, parts = _distinct(mean.teacher for mean in means), []
    for domain in _distinct(mean.domain for mean in means):
        learners = _distinct(mean.learner for mean in means if mean.domain == domain)
        size = math.ceil(len(learners) / math.ceil(len(learners) / most))
        parts += [(domain, learners[first : first + size]) for first in range(0, len(learners), size)]
    longest = max(len(learners) for _, learners in parts)
    figure, panels = _panels(parts, 4.8, longest * (0.1 * len(teachers) + 0.25) + 0.9)
    for axes, (domain, learners) in panels:
        shown = [mean for mean in means if mean.domain == domain]
        ends = [mean.reward + side * np.nan_to_num(mean.standard_error) for mean in shown for side in (-1, 1)]
        for mean in (mean for mean in shown if mean.learner in learners):
            number = teachers.index(mean.teacher)
            place = learners.index(mean.learner) + 0.7 * ((number + 0.5) / len(teachers) - 0.5)
            value, error = np.nan_to_num([mean.reward, mean.standard_error])
            if not math.isnan(mean.reward):
                axes.errorbar(value, place, xerr=error, capsize=2, markersize=5, **_look(number, mean.teacher))
            # A mean over fewer cases than its neighbours says so.
            if mean.n_failed:
                axes.annotate(f"  {mean.n_failed} failed", (value + error, place), va="center", size=6)
        axes.set_yticks(range(len(learners)), [learner.replace(", ", "\n", 1) for learner in learners], fontsize=7)
        axes.set(title=domain, xlabel=_words(of), ylim=(longest - 0.5, -0.5), xlim=_scale([0.0, *ends], 0.12))
        axes.grid(axis="x", alpha=0.4)
    _legend(figure)
    return figure


def curves(several: Sequence[MeanCurve], of: str) -> Figure:
    """One panel for each group of domains and learner, with a band of one standard error around each mean."""
    teachers = _distinct(curve.teacher for curve in several)
    figure, panels = _panels(_distinct((curve.domain, curve.learner) for curve in several), 4.6, 3.2)
    for axes, place in panels:
        here = [curve for curve in several if (curve.domain, curve.learner) == place]
        for curve in here:
            budgets = [*curve.budgets, *([curve.budgets[0] + 1] if len(curve.budgets) == 1 else [])]
            middle, error = (np.resize(np.nan_to_num(part), len(budgets)) for part in (curve.values, curve.errors))
            look = _look(teachers.index(curve.teacher), curve.teacher) | {"markevery": max(1, len(budgets) // 10)}
            axes.step(budgets, middle, where="post", **look)
            band = {"step": "post", "color": look["color"], "alpha": 0.2, "linewidth": 0}
            axes.fill_between(budgets, middle - error, middle + error, **band)
        axes.set_title("\n".join(place), fontsize="small")
        axes.set(xlabel="round" if here[0].by == "round" else f"{here[0].by[2:]} shown", ylabel=_words(of))
        axes.locator_params(axis="x", integer=True)
        # One scale for all learners of a group.
        same = [(curve.values, np.nan_to_num(curve.errors)) for curve in several if curve.domain == place[0]]
        ends = np.concatenate([np.add(values, sign * errors) for values, errors in same for sign in (-1.05, 1.05)])
        axes.set_ylim(*_scale(ends, 0.05))
    _legend(figure)
    return figure


def swept(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The two columns of numbers by which the learners differ; None where others differ, or where there are few."""
    learners = {row["learner"]: row for row in rows}
    columns = [name for name in rows[0] if name in (*NUMBERS, "allowance", "n_sampled") or name.startswith("learner.")]
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
    figure, panels = _panels(parts, 2.0 + 0.5 * len(across), 1.3 + 0.35 * len(up))
    for axes, (domain, teacher) in panels:
        known = [mean.reward for mean in means if mean.domain == domain and not math.isnan(mean.reward)] or [0.0]
        low, high = _scale(known)
        digits = max(0, 2 - math.floor(math.log10(max(map(abs, known)) or 1.0)))
        table = np.full((len(up), len(across)), np.nan)
        for mean in (mean for mean in means if (mean.domain, mean.teacher) == (domain, teacher)):
            x, y = (line.index(value) for line, value in zip((across, up), places[mean.learner], strict=True))
            table[y, x] = mean.reward
            colour = "white" if mean.reward < low + 0.6 * (high - low) else "black"
            text = "failed" if math.isnan(mean.reward) else f"{mean.reward:.{digits}f}"
            axes.text(x, y, text, ha="center", va="center", size=6, color=colour)
        image = axes.imshow(table, origin="lower", aspect="auto", vmin=low, vmax=high)
        axes.set_xticks(range(len(across)), [f"{value:g}" for value in across])
        axes.set_yticks(range(len(up)), [f"{value:g}" for value in up])
        axes.set(xlabel=_words(names[0]), ylabel=_words(names[1]))
        axes.set_title(f"{domain}\n{teacher_label(teacher)}", fontsize="small")
        figure.colorbar(image, ax=axes)
    figure.suptitle(_words(of), fontsize="medium")
    return figure


def _scale(values: Iterable[float], margin: float = 0.0) -> tuple[float, float]:
    """The limits of a scale, at least a thousandth of the largest value apart: rounding errors are not magnified."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    width = max(known) - min(known)
    least = 1e-3 * max(map(abs, known)) or 1.0
    room = max(margin * width, (least - width) / 2)
    return min(known) - room, max(known) + room


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _look(number: int, teacher: str) -> dict[str, Any]:
    turn, place = divmod(number, len(COLOURS))
    colour, marker = COLOURS[place], MARKERS[(place + turn) % len(MARKERS)]
    return {"color": colour, "marker": marker, "label": teacher_label(teacher)}


def _panels(keys: Sequence[Any], width: float, height: float) -> tuple[Figure, Iterator[tuple[Axes, Any]]]:
    """One panel for each key, at most three beside each other. width, height: of one, in inches."""
    n_columns = min(len(keys), 3)
    n_rows = math.ceil(len(keys) / n_columns)
    figure = Figure(figsize=(max(6.0, n_columns * width), n_rows * height + 0.6), layout="constrained")
    grid = [figure.add_subplot(n_rows, n_columns, number + 1) for number in range(len(keys))]
    return figure, zip(grid, keys, strict=True)


def _legend(figure: Figure) -> None:
    n_columns = max(1, int(figure.get_figwidth() // 2))
    legend(figure, *figure.axes, loc="outside upper center", ncols=n_columns, fontsize=8)


def _words(column: str) -> str:
    return "the learner's true reward" if column == "reward" else column.removeprefix("learner.").replace("_", " ")
