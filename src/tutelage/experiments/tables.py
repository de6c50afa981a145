"""The cells of tables, from rows: the mean over worlds, the printed mean, and whether they agree. Runs no algorithm.

Each cell has two deviations. The standard error of the mean of n worlds is std / sqrt(n), where std has n - 1 degrees
of freedom. The paper's printed convention is std / n, where std has n.

Table 1's worlds are the paper's, so there two means agree up to rounding and the learners' accuracy: 0.011. The worlds
of Sec. 6.2 are not known, so there two means agree within two standard errors of their difference, or 0.05 if that is
more. The printed deviation in that section has the size of a true standard error.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tutelage.experiments import settings
from tutelage.experiments.printed import Printed, printed_known, printed_unknown
from tutelage.experiments.settings import LearnerSetting, RowKey, Task, TeacherSetting
from tutelage.experiments.store import Row
from tutelage.experiments.worlds import WORLD_SETS, WorldName

Rows = Mapping[RowKey, Row]
SAME_WORLDS, OTHER_WORLDS = 0.011, 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One mean of a table.

    where: its other coordinates, such as C_r or the size. teacher: its column. rewards: one per world. n_refused: the
    number of worlds where no policy keeps the preferences. printed: the paper's entry, if any. tolerance: the largest
    difference at which the two agree.
    """

    where: Mapping[str, Any]
    learner: str
    teacher: str
    rewards: tuple[float, ...]
    n_refused: int
    printed: Printed | None
    tolerance: float

    @property
    def mean(self) -> float:
        """The mean over the worlds."""
        return float(np.mean(self.rewards)) if self.rewards else math.nan

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
        """Whether our mean agrees with the paper's, is better or differs; empty where the paper has none."""
        if self.printed is None:
            return ""
        if abs(self.difference) <= self.tolerance:
            return "agrees"
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
    """Table 1 and Appendix B.1."""
    worlds = WORLD_SETS["seeds"](10, n_worlds)
    for (c_r, c_c), column, learner in product(settings.PENALTIES, settings.TABLE_1_COLUMNS, settings.LEARNERS):
        model = settings.soft_setting(column.model, c_r, c_c)
        rewards, n_refused = _rewards(rows, worlds, learner, model, column.teacher, None)
        printed = printed_known(c_r, c_c, column.printed, learner) if column.printed else None
        where = {"C_r": _plain(c_r), "C_c": _plain(c_c)}
        yield Cell(where, learner, column.name, rewards, n_refused, printed, SAME_WORLDS)


def table_2(rows: Rows, n_worlds: int) -> Iterator[Cell]:
    """Figure 4's table and Appendix B.2."""
    for world_set, size in product(WORLD_SETS, settings.SIZES):
        worlds = WORLD_SETS[world_set](size, n_worlds)
        for model, teachers in settings.models_of(size):
            for (name, teacher, at), learner in product(_columns(teachers), settings.UNKNOWN_LEARNERS):
                rewards, n_refused = _rewards(rows, worlds, learner, model, teacher, at)
                where = {"worlds": world_set, "size": size, "model": model.model}
                printed = printed_unknown(learner, name, size)
                yield Cell(where, learner, name, rewards, n_refused, printed, two_errors(rewards, printed))


def _columns(teachers: tuple[TeacherSetting, ...]) -> Iterator[tuple[str, TeacherSetting, int | None]]:
    """Each column: its printed name, its teacher, and the round whose reward it shows (None: the last)."""
    for teacher in teachers:
        if teacher.max_rounds == 1:
            yield teacher.name, teacher, None
        else:
            yield f"{teacher.name}_round_3", teacher, 3
            yield f"{teacher.name}_end", teacher, None


def _rewards(
    rows: Rows,
    worlds: tuple[WorldName, ...],
    learner: str,
    model: LearnerSetting,
    teacher: TeacherSetting,
    at: int | None,
) -> tuple[tuple[float, ...], int]:
    """The learner's reward in each world after the round `at` or the last, and the number of refused worlds."""
    found = [rows[Task(world, learner, model, teacher).key].found for world in worlds]
    taught = [result["learner_rewards"] for result in found if "refused" not in result]
    return tuple(rewards[:at][-1] for rewards in taught), len(found) - len(taught)


def two_errors(rewards: tuple[float, ...], printed: Printed) -> float:
    """Two standard errors of the difference between our mean and the printed one."""
    if len(rewards) < 2:
        return OTHER_WORLDS
    ours = float(np.var(rewards, ddof=1)) / len(rewards)
    return max(OTHER_WORLDS, 2 * math.sqrt(ours + printed.deviation**2))


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number
