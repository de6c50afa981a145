"""Means over the cases of a sweep: with their errors, over complete cases, as paired differences, and round by round.

They are also told as texts, for tables.

A case is a replicate of a group of domains, and its number is the mean over its seeds. Where a group has one replicate
only, each seed is a case. So a seed that changes nothing in a domain is not counted as one more observation of it.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tutelage.arrays import Vector
from tutelage.outcomes import InvalidInput
from tutelage.registry import TEACHERS

AnyRow = Mapping[str, Any]
# A case, and the one row of a learner and a teacher in it.
Spot = tuple[Hashable, Hashable]


class Estimate(NamedTuple):
    """The mean of n cases. error: its standard error; NaN for one case."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one teacher with one learner in one group of domains.

    standard_error: of the mean of n cases; NaN for one case. share: the reward as a share of the certified bound, where
    one is known and positive. n_failed: rows without a result. complete: the mean over the n_complete cases in which
    every teacher of this learner has all its results. difference: the mean excess over another teacher, in the n_pairs
    cases that both have; difference_error: its standard error.
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

    by: "round", "n_demonstrations" or "n_steps". budgets: (k,), ascending, equal for all teachers of a learner. values,
    errors: (k,), the mean and its standard error; a case whose rounds have ended keeps its last value. Of rewards only,
    and against the best that any teacher reached with this learner in the same case: until, the mean budget from which
    on the reward is close to it, over the n_reached cases in which it is; regret, what is missing in total, each unit
    of the budget counted, and its standard error.
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


def means(rows: Sequence[AnyRow], of: str, against: str | None) -> list[Mean]:
    """One for each group, learner and teacher. against: the teacher of the differences; by default the first."""
    if not any(isinstance(row.get(of), int | float) for row in rows):
        raise InvalidInput(f"no row has a number {of!r}")
    if against is not None and against not in {row["teacher"] for row in rows}:
        raise InvalidInput(f"no row has the teacher {against!r}, so there is no difference from it")
    return [mean for several in _by_learner(rows).values() for mean in _of_learner(several, of, against)]


def _of_learner(rows: Mapping[str, list[tuple[Spot, AnyRow]]], of: str, against: str | None) -> Iterator[Mean]:
    """The means of each teacher of one learner in one group."""
    known = {
        teacher: {spot: float(row[of]) for spot, row in several if not _is_missing(row, of)}
        for teacher, several in rows.items()
    }
    missing = {spot[0] for several in rows.values() for spot, row in several if _is_missing(row, of)}
    base = known.get(next(iter(rows)) if against is None else against, {})
    for teacher, several in rows.items():
        first, values = several[0][1], known[teacher]
        each = estimate(values)
        whole = estimate({spot: value for spot, value in values.items() if spot[0] not in missing})
        paired = estimate({spot: value - base[spot] for spot, value in values.items() if spot in base})
        bounds = [row["bound"] for _, row in several if not _is_missing(row, of)] if of == "reward" else []
        is_bounded = bool(bounds) and all(bound is not None and bound > 0 for bound in bounds)
        share = each.mean / float(np.mean(bounds)) if is_bounded else math.nan
        of_all = (each.mean, each.error, share, len(several) - len(values), each.n, whole.mean, whole.n)
        yield Mean(first["group"], first["learner"], teacher, *of_all, *paired)


def _is_missing(row: AnyRow, of: str) -> bool:
    return bool(row["failed"]) or row[of] is None


def estimate(values: Mapping[Spot, float]) -> Estimate:
    """The mean over cases of the mean within each case."""
    cases: dict[Hashable, list[float]] = {}
    for (case, _), value in values.items():
        cases.setdefault(case, []).append(value)
    averages = np.array([np.mean(several) for several in cases.values()])
    n = len(averages)
    if not n:
        return Estimate(math.nan, math.nan, 0)
    error = float(averages.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(float(averages.mean()), error, n)


def curves(rows: Sequence[AnyRow], of: str, by: str, within: float) -> list[MeanCurve]:
    """The mean of a column round by round, or at equal numbers of demonstrations or steps shown.

    within: how close to the best is close, as a share of it.
    """
    if not any(f"{of}_by_round" in row for row in rows):
        raise InvalidInput(f"no row has a number {of!r} in rounds")
    if by not in ("round", "n_demonstrations", "n_steps"):
        raise InvalidInput(f"by must be 'round', 'n_demonstrations' or 'n_steps', got {by!r}")
    return [curve for several in _by_learner(rows).values() for curve in _curves_of_learner(several, of, by, within)]


def _curves_of_learner(
    rows: Mapping[str, list[tuple[Spot, AnyRow]]], of: str, by: str, within: float
) -> Iterator[MeanCurve]:
    """The curves of each teacher of one learner in one group, from the first budget at which every case has a value."""
    paths = {
        teacher: {spot: _path(row, of, by) for spot, row in several if not row["failed"]}
        for teacher, several in rows.items()
    }
    every = [path for each in paths.values() for path in each.values()]
    start, end = max((path[0][0] for path in every), default=0), max((path[0][-1] for path in every), default=0) + 1
    budgets = sorted({float(spent) for path in every for spent in path[0] if spent >= start})
    best: dict[Spot, float] = {}
    for spot, (_, values) in (item for each in paths.values() for item in each.items()):
        best[spot] = max(best.get(spot, -math.inf), *values)
    for teacher, each in paths.items():
        if not each:
            continue
        table = {spot: values[np.searchsorted(spent, budgets, "right") - 1] for spot, (spent, values) in each.items()}
        at = [estimate({spot: row[k] for spot, row in table.items()}) for k in range(len(budgets))]
        missing = {spot: best[spot] - row for spot, row in table.items()} if of == "reward" else {}
        late = {spot: np.flatnonzero(row > within * abs(best[spot])) for spot, row in missing.items()}
        reached = {spot: places[-1] + 1 if len(places) else 0 for spot, places in late.items()}
        until = estimate({spot: budgets[k] for spot, k in reached.items() if k < len(budgets)})
        regret = estimate({spot: float(row @ np.diff([*budgets, end])) for spot, row in missing.items()})
        first = rows[teacher][0][1]
        curve = (tuple(budgets), tuple(each.mean for each in at), tuple(each.error for each in at), at[0].n)
        yield MeanCurve(
            *(first["group"], first["learner"], teacher, by), *curve, until.mean, until.n, regret.mean, regret.error
        )


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


def _by_learner(rows: Sequence[AnyRow]) -> dict[tuple[str, str], dict[str, list[tuple[Spot, AnyRow]]]]:
    """The rows of each group and learner, of each teacher, with their spots."""
    replicates: dict[str, set[Hashable]] = {}
    for row in rows:
        replicates.setdefault(row["group"], set()).add(row["replicate"])
    grouped: dict[tuple[str, str], dict[str, list[tuple[Spot, AnyRow]]]] = {}
    for row in rows:
        case = row["replicate"] if len(replicates[row["group"]]) > 1 else row["seed"]
        several = grouped.setdefault((row["group"], row["learner"]), {}).setdefault(row["teacher"], [])
        # Domains of one replicate, and its seeds, are in the same order for every teacher.
        several.append(((case, sum(spot[0] == case for spot, _ in several)), row))
    return grouped


def teacher_label(teacher: str) -> str:
    """A teacher as in the paper's tables, with its options."""
    name, *options = teacher.split(", ")
    return ", ".join([TEACHERS[name].label if name in TEACHERS else name, *options])


def reasons(failed: Sequence[AnyRow]) -> list[str]:
    """Why rows failed: one sentence for each reason, with the number of rows and the first of them."""
    groups: dict[str, list[AnyRow]] = {}
    for row in failed:
        groups.setdefault(row["failed"], []).append(row)
    return [
        f"{len(rows)} rows failed, the first {first['domain']}, {first['learner']}, {first['teacher']}: {reason}"
        for reason, rows in groups.items()
        for first in rows[:1]
    ]


def table_rows(several: Sequence[Mean]) -> Iterator[tuple[str, ...]]:
    """The means as texts, for a table: the learner in its domain, then one column for each teacher."""
    yield from _by_teacher(several, _text)


def difference_rows(several: Sequence[Mean]) -> Iterator[tuple[str, ...]]:
    """The paired differences as texts, where there are any."""
    sizes = [(mean, max(abs(mean.difference), mean.difference_error)) for mean in several if mean.n_pairs > 1]
    told = [mean for mean, size in sizes if size > 1e-9 * abs(mean.reward)]
    if told:
        yield from _by_teacher(told, lambda m: f"{m.difference:+.4g} ±{m.difference_error:.2g}, n {m.n_pairs}")


def _by_teacher(several: Sequence[Mean], text: Callable[[Mean], str]) -> Iterator[tuple[str, ...]]:
    teachers = list(dict.fromkeys(mean.teacher for mean in several))
    texts = {(mean.domain, mean.learner, mean.teacher): text(mean) for mean in several}
    yield ("domain", "learner", *map(teacher_label, teachers))
    for place in dict.fromkeys((mean.domain, mean.learner) for mean in several):
        yield (*place, *(texts.get((*place, teacher), "") for teacher in teachers))


def _text(mean: Mean) -> str:
    if math.isnan(mean.reward):
        return "failed"
    error = "" if math.isnan(mean.standard_error) else f" ±{mean.standard_error:.2g}"
    share = "" if math.isnan(mean.share) else f" ({100 * mean.share:.0f} %)"
    failed = f", {mean.n_failed} failed" if mean.n_failed else ""
    whole = f"; {mean.complete:.4g} in {mean.n_complete} complete cases" if 0 < mean.n_complete < mean.n else ""
    return f"{mean.reward:.4g}{error}{share}{failed}{whole}"
