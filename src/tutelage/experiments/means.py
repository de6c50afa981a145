"""What the rows of a sweep tell: means over cases, as numbers, as texts for tables, and as pictures.

A case is a replicate of a group of domains, with the mean over its seeds; of one replicate only, each seed is a case.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tutelage.arrays import Vector
from tutelage.experiments.figures import legend, panels_of, rounds_figure
from tutelage.experiments.settings import NUMBERS
from tutelage.experiments.tables import Estimate, Grid, column_label, pivot
from tutelage.outcomes import InvalidInput
from tutelage.pictures.plots import Curve, Panel, look, scale

AnyRow = Mapping[str, Any]
# A case, and the number of a row in it.
Spot = tuple[Hashable, Hashable]
# The rows of one learner in one group, by teacher; and the names of the group and the learner.
Taught = dict[str, dict[Spot, AnyRow]]
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one teacher with one learner in one group of domains, over n cases.

    standard_error: NaN for one case. share: of the certified bound, if it is positive. n_failed: rows without a result.
    complete: the mean over the n_complete cases in which every teacher of this learner has all its results. difference:
    the mean excess over another teacher, in the n_pairs cases that both have; difference_error: its standard error.
    """

    domain: str
    learner: str
    teacher: str
    reward: float
    standard_error: float
    share: float
    n_failed: int
    n: int = 0
    complete: float = math.nan
    n_complete: int = 0
    difference: float = math.nan
    difference_error: float = math.nan
    n_pairs: int = 0


@dataclass(frozen=True, slots=True)
class MeanCurve:
    """A mean over n cases as it changes with what was shown: the rewards of the learner, or a metric.

    budgets: (k,), ascending, equal for all teachers of a learner. values, errors: (k,), the mean and its standard
    error; a case whose rounds have ended keeps its last value. Of rewards only, and against the best that any teacher
    reached with this learner in the same case: until, the mean budget from which on the reward is close to it, over the
    n_reached cases in which it is; regret, what is missing in total, each unit of the budget counted.
    """

    domain: str
    learner: str
    teacher: str
    by: str
    budgets: tuple[float, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    n: int
    until: float = math.nan
    n_reached: int = 0
    regret: float = math.nan
    regret_error: float = math.nan


def means_of(learner: tuple[Place, Taught], of: str, against: str | None) -> Iterator[Mean]:
    (domain, name), taught = learner
    known = {
        teacher: {spot: float(row[of]) for spot, row in several.items() if not row["failed"] and row[of] is not None}
        for teacher, several in taught.items()
    }
    missing = {case for teacher, several in taught.items() for case, _ in several.keys() - known[teacher].keys()}
    base = known.get(against or next(iter(taught)), {})
    for teacher, values in known.items():
        each = estimate(values)
        whole = estimate({spot: value for spot, value in values.items() if spot[0] not in missing})
        paired = estimate({spot: value - base[spot] for spot, value in values.items() if spot in base})
        bounds = [taught[teacher][spot]["bound"] or 0.0 for spot in values] if of == "reward" else []
        share = each.mean / float(np.mean(bounds)) if min(bounds, default=0.0) > 0 else math.nan
        n_failed = len(taught[teacher]) - len(values)
        yield Mean(domain, name, teacher, each.mean, each.error, share, n_failed, each.n, whole.mean, whole.n, *paired)


def estimate(values: Mapping[Spot, float]) -> Estimate:
    """The mean over cases of the mean within each."""
    cases: dict[Hashable, list[float]] = {}
    for (case, _), value in values.items():
        cases.setdefault(case, []).append(value)
    return Estimate.of(float(np.mean(several)) for several in cases.values())


def curves_of(learner: tuple[Place, Taught], of: str, by: str, within: float) -> Iterator[MeanCurve]:
    """From the first budget at which every case has a value. within: how close to the best is close, as a share."""
    (domain, name), taught = learner
    paths = {
        teacher: {spot: _path(row, of, by) for spot, row in several.items() if not row["failed"]}
        for teacher, several in taught.items()
    }
    every = [path for each in paths.values() for path in each.items()]
    start = max((spent[0] for _, (spent, _) in every), default=0.0)
    budgets = sorted({at for _, (spent, _) in every for at in spent.tolist() if at >= start})
    # Each value counts up to the next budget, and the last one once.
    weights = np.diff([*budgets, *(at + 1 for at in budgets[-1:])])
    best: dict[Spot, float] = {}
    for spot, (_, values) in every:
        best[spot] = max(best.get(spot, -math.inf), *values)
    for teacher, each in paths.items():
        if not each:
            continue
        table = {spot: values[np.searchsorted(spent, budgets, "right") - 1] for spot, (spent, values) in each.items()}
        at = [estimate({spot: row[k] for spot, row in table.items()}) for k in range(len(budgets))]
        means, errors, counts = zip(*at, strict=True)
        missing = {spot: best[spot] - row for spot, row in table.items()} if of == "reward" else {}
        late = {spot: np.flatnonzero(row > within * abs(best[spot])) for spot, row in missing.items()}
        reached = {spot: budgets[places.max(initial=-1) + 1 :] for spot, places in late.items()}
        until = estimate({spot: left[0] for spot, left in reached.items() if left})
        regret = estimate({spot: float(row @ weights) for spot, row in missing.items()})
        shown = (tuple(budgets), means, errors, counts[0])
        yield MeanCurve(domain, name, teacher, by, *shown, until.mean, until.n, regret.mean, regret.error)


def _path(row: AnyRow, of: str, by: str) -> tuple[Vector, Vector]:
    """What was shown up to the end of each round, and the value after it."""
    values = row[f"{of}_by_round"]
    spent = [1] * len(values) if by == "round" else row[f"{by}_by_round"]
    if None in spent:
        sentence = f"{row['teacher']!r} shows {row['learner']!r} exact expectations, which have no {by}"
        raise InvalidInput(f"{sentence}; use by='round', or learners with n_sampled")
    if None in values:
        raise InvalidInput(f"{of!r} is not a number in every round of {row['learner']!r} with {row['teacher']!r}")
    return np.cumsum(spent, dtype=float), np.array(values, dtype=float)


def by_learner(rows: Sequence[AnyRow]) -> Iterable[tuple[Place, Taught]]:
    n_replicates = Counter(group for group, _ in {(row["group"], row["replicate"]) for row in rows})
    grouped: dict[Place, Taught] = {}
    for row in rows:
        case = row["replicate"] if n_replicates[row["group"]] > 1 else row["seed"]
        several = grouped.setdefault((row["group"], row["learner"]), {}).setdefault(row["teacher"], {})
        # Domains of one replicate, and its seeds, are in the same order for every teacher.
        several[case, sum(spot[0] == case for spot in several)] = row
    return grouped.items()


def reasons(failed: Sequence[AnyRow]) -> list[str]:
    """Why rows failed: one sentence for each reason, with the number of rows and the first of them."""
    first = {row["failed"]: f"{row['domain']}, {row['learner']}, {row['teacher']}" for row in reversed(failed)}
    counts = Counter(row["failed"] for row in failed)
    rows = {reason: f"{n} rows failed, the first" if n > 1 else "1 row failed," for reason, n in counts.items()}
    return [f"{told} {first[reason]}: {reason}" for reason, told in rows.items()]


def tables_of(several: Sequence[Mean]) -> list[Grid]:
    """The means as texts, a column for each teacher; and the paired differences, where there are any."""
    texts: dict[tuple[str, ...], str] = {}
    differences: dict[tuple[str, ...], str] = {}
    for mean in several:
        place = (mean.domain, mean.learner, column_label(mean.teacher))
        texts[place] = as_text(mean)
        if mean.n_pairs > 1 and max(abs(mean.difference), mean.difference_error) > 1e-9 * abs(mean.reward):
            differences[place] = f"{mean.difference:+.4g} ±{mean.difference_error:.2g}, n {mean.n_pairs}"
    tables = {
        "Mean reward of the learner (share of the certified bound)": texts,
        f"More than with {several[0].teacher}, in the cases that both have": differences,
    }
    return [pivot(title, ("domain", "learner"), shown) for title, shown in tables.items() if shown]


def as_text(mean: Mean) -> str:
    if math.isnan(mean.reward):
        return "failed"
    error = "" if math.isnan(mean.standard_error) else f" ±{mean.standard_error:.2g}"
    share = "" if math.isnan(mean.share) else f" ({100 * mean.share:.0f} %)"
    failed = f", {mean.n_failed} failed" if mean.n_failed else ""
    whole = f"; {mean.complete:.4g} in {mean.n_complete} complete cases" if 0 < mean.n_complete < mean.n else ""
    return f"{mean.reward:.4g}{error}{share}{failed}{whole}"


def draw_means(means: Sequence[Mean], of: str) -> Figure:
    """The means with their standard errors, learners below each other, at most twelve of them in one panel."""
    teachers = list(dict.fromkeys(mean.teacher for mean in means))
    parts = []
    for domain in dict.fromkeys(mean.domain for mean in means):
        learners = list(dict.fromkeys(mean.learner for mean in means if mean.domain == domain))
        parts += [(domain, part.tolist()) for part in np.array_split(learners, math.ceil(len(learners) / 12))]
    longest = max(len(learners) for _, learners in parts)
    figure, panels = panels_of(len(parts), 4.8, longest * (0.1 * len(teachers) + 0.25) + 0.9)
    for axes, (domain, learners) in zip(panels, parts, strict=True):
        shown = [mean for mean in means if mean.domain == domain]
        ends = [mean.reward + side * np.nan_to_num(mean.standard_error) for mean in shown for side in (-1, 1)]
        for mean in (mean for mean in shown if mean.learner in learners):
            number = teachers.index(mean.teacher)
            place = learners.index(mean.learner) + 0.7 * ((number + 0.5) / len(teachers) - 0.5)
            value, error = np.nan_to_num([mean.reward, mean.standard_error])
            if not math.isnan(mean.reward):
                style = look(number) | {"capsize": 2, "markersize": 5, "label": column_label(mean.teacher)}
                axes.errorbar(value, place, xerr=error, **style)
            if mean.n_failed:
                axes.annotate(f"  {mean.n_failed} failed", (value + error, place), va="center", size=6)
        axes.set_yticks(range(len(learners)), [learner.replace(", ", "\n", 1) for learner in learners], fontsize=7)
        axes.set(title=domain, xlabel=_words(of), ylim=(longest - 0.5, -0.5), xlim=scale([0.0, *ends], 0.12))
        axes.grid(axis="x", alpha=0.4)
    legend(figure, *panels, loc="outside upper center", ncols=max(1, int(figure.get_figwidth() // 2)), fontsize=8)
    return figure


def draw_curves(several: Sequence[MeanCurve], of: str) -> Figure:
    """One panel for each group of domains and learner, with a band of one standard error around each mean."""
    # A teacher that failed everywhere keeps its colour, and has no line.
    none = {curve.teacher: Curve(column_label(curve.teacher), ()) for curve in several}
    places: dict[tuple[str, str], dict[str, Curve]] = {}
    for curve in several:
        drawn = Curve(column_label(curve.teacher), curve.values, error=curve.errors, budgets=curve.budgets)
        places.setdefault((curve.domain, curve.learner), dict(none))[curve.teacher] = drawn
    by = several[0].by
    labels = ("round" if by == "round" else f"{by[2:]} shown", _words(of))
    shown = [Panel("\n".join(place), [*each.values()], labels=labels, group=place[0]) for place, each in places.items()]
    return rounds_figure(shown)


def swept(rows: Sequence[AnyRow]) -> tuple[str, str] | None:
    """The two columns of numbers by which the learners differ; None where others differ, or where there are few."""
    learners = {row["learner"]: row for row in rows}
    columns = [name for name in rows[0] if name in (*NUMBERS, "allowance", "n_sampled") or name.startswith("learner.")]
    differing = [name for name in columns if len({row[name] for row in learners.values()}) > 1]
    pairs = {tuple(row[name] for name in differing) for row in learners.values()}
    are_numbers = all(isinstance(value, int | float) for pair in pairs for value in pair)
    is_plane = len(differing) == 2 and are_numbers and len(pairs) == len(learners) > 4
    return (differing[0], differing[1]) if is_plane else None


def draw_plane(rows: Sequence[AnyRow], means: Sequence[Mean], names: tuple[str, str], of: str) -> Figure:
    """One for each group of domains and teacher, in one scale of colours for each group. names: of the axes."""
    across = sorted({row[names[0]] for row in rows})
    up = sorted({row[names[1]] for row in rows})
    places = {row["learner"]: (up.index(row[names[1]]), across.index(row[names[0]])) for row in rows}
    parts: dict[tuple[str, str], list[Mean]] = {}
    for mean in means:
        parts.setdefault((mean.domain, mean.teacher), []).append(mean)
    figure, panels = panels_of(len(parts), 2.0 + 0.5 * len(across), 1.3 + 0.35 * len(up))
    for axes, ((domain, teacher), several) in zip(panels, parts.items(), strict=True):
        low, high = scale(mean.reward for mean in means if mean.domain == domain)
        digits = max(0, 2 - math.floor(math.log10(max(-low, high))))
        table = np.full((len(up), len(across)), np.nan)
        for mean in several:
            place = places[mean.learner]
            table[place] = mean.reward
            colour = "white" if mean.reward < low + 0.6 * (high - low) else "black"
            text = "failed" if math.isnan(mean.reward) else f"{mean.reward:.{digits}f}"
            axes.text(*place[::-1], text, ha="center", va="center", size=6, color=colour)
        image = axes.imshow(table, origin="lower", aspect="auto", vmin=low, vmax=high)
        axes.set_xticks(range(len(across)), [f"{value:g}" for value in across])
        axes.set_yticks(range(len(up)), [f"{value:g}" for value in up])
        axes.set(xlabel=_words(names[0]), ylabel=_words(names[1]))
        axes.set_title(f"{domain}\n{column_label(teacher)}", fontsize="small")
        figure.colorbar(image, ax=axes)
    figure.suptitle(_words(of), fontsize="medium")
    return figure


def _words(column: str) -> str:
    return "the learner's true reward" if column == "reward" else column.removeprefix("learner.").replace("_", " ")
