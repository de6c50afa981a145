"""The cells of tables, from rows: the mean over worlds, the printed mean, and whether they agree. Runs no algorithm.

Each cell has two deviations. The standard error of the mean of n worlds is std / sqrt(n), where std has n - 1 degrees
of freedom. The paper's printed convention is std / n, where std has n.

Table 1's worlds are the paper's, so there two means agree up to rounding and the learners' accuracy: 0.011. The worlds
of Sec. 6.2 are not known, so there two means agree within two standard errors of their difference, or 0.05 if that is
more. The printed deviation in that section has the size of a true standard error.

The print says "i = 3rd round" and "end", which can be read in several ways. A column of an adaptive teacher is one of
these readings, and each is compared with the same printed number.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from tutelage.experiments import settings
from tutelage.experiments.settings import LearnerSetting, RowKey, Task, TeacherSetting
from tutelage.experiments.store import Row
from tutelage.experiments.worlds import WORLD_SETS
from tutelage.outcomes import InvalidInput

Rows = Mapping[RowKey, Row]
SAME_WORLDS, OTHER_WORLDS = 0.011, 0.05


class Printed(NamedTuple):
    """A printed entry: a mean and the deviation after its plus-minus sign.

    In Table 1 the deviation is std / 10 of ten worlds, not std / sqrt(10).
    """

    mean: float
    deviation: float


@cache
def _printed() -> dict[str, Any]:
    text = files("tutelage.experiments").joinpath("printed.json").read_text(encoding="utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables


def printed_known(mismatch_penalty: float, violation_penalty: float, teacher: str, learner: str) -> Printed:
    """An entry of Table 1 or Table 2 (App. B.1); teacher: "agnostic" or "bilevel"."""
    for block in _printed()["known"]:
        if (block["C_r"], block["C_c"]) == (mismatch_penalty, violation_penalty):
            return Printed(*block[teacher][learner])
    raise InvalidInput(f"the paper has no table for C_r = {mismatch_penalty}, C_c = {violation_penalty}")


def printed_unknown(learner: str, teacher: str, size: int) -> Printed:
    """An entry of the table inside Figure 3, 4 or 5; teacher: such as "aware_cmdp" or "line_search_end"."""
    return Printed(*_printed()["unknown"][learner][teacher][str(size)])


@dataclass(frozen=True, slots=True)
class Reading:
    """Which round of a row a column shows, and the printed column that it is compared with.

    at: the lesson, counted from one (0: the last). eps: the distance at which the rounds end, if it is not the row's.
    is_rising: the rounds end before the first lesson that earns less than the one before it. is_print: whether the
    print has this reading, as far as we can tell (docs/reproduction.md).
    """

    suffix: str
    printed: str
    at: int = 0
    eps: float = 0.0
    is_rising: bool = False
    is_print: bool = True

    def reward(self, result: Mapping[str, Any]) -> float:
        """The learner's reward in that round; in the last one where the rounds ended before."""
        rewards = result["learner_rewards"]
        n_rounds = len(rewards)
        if self.eps:
            n_rounds = next((n for n, gap in enumerate(result["distances"], 1) if gap <= self.eps), n_rounds)
        if self.is_rising:
            n_rounds = next((n for n, (now, then) in enumerate(pairwise(rewards), 1) if then < now), n_rounds)
        return float(rewards[: min(n_rounds, self.at or n_rounds)][-1])


ONE_LESSON = Reading("", "")
EARLY = (Reading("_round_3", "_round_3", at=3, is_print=False), Reading("_round_4", "_round_3", at=4))
END = Reading("_end", "_end")
# "AdAware-Lin performance always increases when teaching for more rounds" (Sec. 6.2).
RISING = Reading("_rising", "_round_3", at=4, is_rising=True, is_print=False)
# The paper states no eps, and as printed only eps ends the rounds. Of these, 0.15 fits the print.
EPS = (0.1, 0.15, 0.2)
PRINTED_ENDS = (
    replace(END, is_print=False),
    *(Reading(f"_end_{eps}", "_end", eps=eps, is_print=eps == 0.15) for eps in EPS),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One mean of a table.

    where: its other coordinates, such as C_r or the size. teacher: its column. rewards: one per world. n_refused: the
    number of worlds without a result, as where no policy keeps the preferences. printed: the paper's entry, if any.
    tolerance: the largest difference at which the two agree. entry: the name of the printed column. is_same: whether
    the print has the same learner and the same reading of the rounds; without that a difference says nothing about the
    teacher.
    """

    where: Mapping[str, Any]
    learner: str
    teacher: str
    rewards: tuple[float, ...]
    n_refused: int
    printed: Printed | None
    tolerance: float
    entry: str = ""
    is_same: bool = True

    @property
    def mean(self) -> float:
        """The mean over the worlds."""
        return float(np.mean(self.rewards)) if self.rewards else math.nan

    @property
    def counted(self) -> str:
        """How many worlds the mean is over, such as "5 of 10"."""
        return f"{len(self.rewards)} of {len(self.rewards) + self.n_refused}"

    @property
    def standard_error(self) -> float:
        """std / sqrt(n); NaN for a single world."""
        n = len(self.rewards)
        return float(np.std(self.rewards, ddof=1)) / math.sqrt(n) if n > 1 else math.nan

    @property
    def as_printed(self) -> float:
        """std / n, as the paper prints it after the plus-minus sign."""
        return float(np.std(self.rewards)) / len(self.rewards) if self.rewards else math.nan

    @property
    def difference(self) -> float:
        """Our mean minus the paper's."""
        return self.mean - self.printed.mean if self.printed else math.nan

    @property
    def verdict(self) -> str:
        """Whether our mean agrees with the paper's, is better or differs; empty where the paper has none.

        "other": it does not agree, and the print has another learner or another reading.
        """
        if self.printed is None:
            return ""
        if abs(self.difference) <= self.tolerance:
            return "agrees"
        if not self.is_same:
            return "other"
        return "better" if self.difference > 0 else "differs"

    def as_data(self) -> dict[str, Any]:
        """The cell for JSON; unknown numbers are null."""
        numbers = {
            "mean": self.mean,
            "standard_error": self.standard_error,
            "as_printed": self.as_printed,
            "printed": self.printed.mean if self.printed else math.nan,
            "printed_deviation": self.printed.deviation if self.printed else math.nan,
            "difference": self.difference,
        }
        known = {name: None if math.isnan(number) else number for name, number in numbers.items()}
        counts = {"n_worlds": len(self.rewards), "n_refused": self.n_refused}
        return {**self.where, "learner": self.learner, "teacher": self.teacher, **known, **counts} | (
            {"verdict": self.verdict} if self.verdict else {}
        )


def table_1(rows: Rows, n_worlds: int) -> Iterator[Cell]:
    """Table 1 and Table 2 (App. B.1). The worlds of the text are not the paper's."""
    for world_set, penalties in settings.KNOWN_WORLDS:
        worlds = WORLD_SETS[world_set](settings.SIZES[0], n_worlds)
        for (c_r, c_c), column, learner in product(penalties, settings.TABLE_1_COLUMNS, settings.LEARNERS):
            model = settings.soft_setting(column.model, c_r, c_c)
            tasks = [Task(world, learner, model, column.teacher) for world in worlds]
            rewards, n_refused = _rewards(rows, tasks, ONE_LESSON)
            printed = printed_known(c_r, c_c, column.printed, learner) if column.printed else None
            where = {"worlds": world_set, "C_r": _plain(c_r), "C_c": _plain(c_c)}
            tolerance = SAME_WORLDS if printed is None or world_set == "seeds" else two_errors(rewards, true(printed))
            yield Cell(where, learner, column.name, rewards, n_refused, printed, tolerance)


def unknown(rows: Rows, n_worlds: int) -> Iterator[Cell]:
    """The tables inside Figures 3, 4 and 5. A column is left out where the rows do not have all its worlds."""
    for world_set, size, model, teacher in _taught():
        where = {"worlds": world_set, "size": size, "model": model.model}
        worlds = WORLD_SETS[world_set](size, n_worlds)
        for reading, learner in product(readings(teacher), settings.UNKNOWN_LEARNERS):
            tasks = [Task(world, learner, model, teacher) for world in worlds]
            if any(task.key not in rows for task in tasks):
                continue
            rewards, n_refused = _rewards(rows, tasks, reading)
            entry = teacher.name.removesuffix("_printed") + reading.printed
            printed = printed_unknown(learner, entry, size)
            is_same = reading.is_print and model.model != "hard"
            limit = two_errors(rewards, printed)
            yield Cell(
                where, learner, teacher.name + reading.suffix, rewards, n_refused, printed, limit, entry, is_same
            )


def beyond(rows: Rows, n_worlds: int) -> Iterator[Cell]:
    """Soft learners with unknown parameters; the paper has no such numbers."""
    worlds, (c_r, c_c) = WORLD_SETS["seeds"](settings.SIZES[0], n_worlds), settings.PENALTIES[0]
    where = {"worlds": "seeds", "C_r": _plain(c_r), "C_c": _plain(c_c)}
    for teacher, learner in product(settings.UNTOLD_TEACHERS, settings.UNTOLD_LEARNERS):
        tasks = [Task(world, "L5", settings.untold(learner), teacher) for world in worlds]
        for reading in (ONE_LESSON,) if teacher.max_rounds == 1 else (EARLY[0], END):
            rewards, n_refused = _rewards(rows, tasks, reading)
            yield Cell(where, learner, teacher.name + reading.suffix, rewards, n_refused, None, SAME_WORLDS)


def _taught() -> Iterator[tuple[str, int, LearnerSetting, TeacherSetting]]:
    """Each set of worlds, size, learner model and teacher; the teachers of a model are together."""
    for world_set, sizes in settings.UNKNOWN_WORLDS:
        for size in sizes:
            teachers: dict[LearnerSetting, list[TeacherSetting]] = {}
            for model, several in chain(settings.quick_models(world_set, size), settings.slow_models(world_set, size)):
                teachers.setdefault(model, []).extend(several)
            for model in teachers:
                yield from ((world_set, size, model, teacher) for teacher in teachers[model])


def readings(teacher: TeacherSetting) -> tuple[Reading, ...]:
    """The columns of a teacher. A few rounds have no end that could be compared."""
    if teacher.max_rounds == 1:
        return (ONE_LESSON,)
    early = (*EARLY, RISING) if teacher.name.startswith("line_search") else EARLY
    ends = PRINTED_ENDS if teacher.name == settings.VOLUME_PRINTED.name else (END,)
    return early if teacher.max_rounds == settings.FEW_ROUNDS else (*early, *ends)


def _rewards(rows: Rows, tasks: list[Task], reading: Reading) -> tuple[tuple[float, ...], int]:
    """The learner's reward in each world, and the number of refused worlds."""
    outcomes = [rows[task.key].outcome for task in tasks]
    taught = [result for result in outcomes if "refused" not in result]
    return tuple(map(reading.reward, taught)), len(outcomes) - len(taught)


def by_entry(cells: Iterable[Cell]) -> dict[tuple[str, str, int], list[Cell]]:
    """Every reading of each printed number of Sec. 6.2, by learner, printed column and size."""
    entries: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        if cell.entry:
            entries.setdefault((cell.learner, cell.entry, cell.where["size"]), []).append(cell)
    return entries


def true(printed: Printed) -> Printed:
    """An entry of Table 1 with its true standard error, std / sqrt(10)."""
    return Printed(printed.mean, printed.deviation * math.sqrt(settings.N_WORLDS))


def two_errors(rewards: tuple[float, ...], printed: Printed) -> float:
    """Two standard errors of the difference between our mean and the printed one."""
    if len(rewards) < 2:
        return OTHER_WORLDS
    ours = float(np.var(rewards, ddof=1)) / len(rewards)
    return max(OTHER_WORLDS, 2 * math.sqrt(ours + printed.deviation**2))


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number
