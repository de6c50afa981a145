"""The cells of tables, from rows: the mean over worlds, the printed mean, and whether they agree. Runs no algorithm.

Each cell has two deviations. The standard error of the mean of n worlds is std / sqrt(n), where std has n - 1 degrees
of freedom. The paper's printed convention is std / n, where std has n.

Table 1's worlds are the paper's, so there two means agree up to rounding and the learners' accuracy: 0.011. The worlds
of Sec. 6.2 are not known, so there two means agree within two standard errors of their difference, or 0.05 if that is
more. The printed deviation in that section has the size of a true standard error.

The rows of Sec. 6.2 are read in `readings`.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri

from tutelage.experiments import settings
from tutelage.experiments.settings import N_WORLDS, RowKey, Task
from tutelage.experiments.store import Row
from tutelage.experiments.worlds import WORLD_SETS
from tutelage.outcomes import InvalidInput

Rows = Mapping[RowKey, Row]
SAME_WORLDS, OTHER_WORLDS = 0.011, 0.05
# Half of the last printed digit.
HALF_A_DIGIT = 0.005


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
class Cell:
    """One mean of a table.

    where: its other coordinates, such as C_r or the size. teacher: its column. rewards: one per world. n_refused: the
    number of worlds without a result, as where no policy keeps the preferences. printed: the paper's entry, if any.
    tolerance: the largest difference at which the two agree.
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
        """Whether our mean agrees with the paper's, is better or differs; empty where the paper has none."""
        if self.printed is None:
            return ""
        if abs(self.difference) <= self.tolerance:
            return "agrees"
        return "better" if self.difference > 0 else "differs"

    @property
    def spread(self) -> str:
        """Whether our standard error agrees with the printed one, as in Sec. 6.2, or is "wider" or "narrower".

        They agree if an F-test of equal variances, with n - 1 and nine degrees of freedom, does not reject at 0.05 for
        some deviation that rounds to the printed one.
        """
        if self.printed is None or len(self.rewards) < 2:
            return ""
        n, ours = len(self.rewards) - 1, self.standard_error
        if ours > (self.printed.deviation + HALF_A_DIGIT) * math.sqrt(fdtri(n, N_WORLDS - 1, 0.975)):
            return "wider"
        is_narrow = ours < (self.printed.deviation - HALF_A_DIGIT) * math.sqrt(fdtri(n, N_WORLDS - 1, 0.025))
        return "narrower" if is_narrow else "agrees"

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
            rewards, n_refused = _rewards(rows, tasks)
            printed = printed_known(c_r, c_c, column.printed, learner) if column.printed else None
            where = {"worlds": world_set, "C_r": _plain(c_r), "C_c": _plain(c_c)}
            tolerance = SAME_WORLDS if printed is None or world_set == "seeds" else two_errors(rewards, true(printed))
            yield Cell(where, learner, column.name, rewards, n_refused, printed, tolerance)


def beyond(rows: Rows, n_worlds: int) -> Iterator[Cell]:
    """Soft learners with unknown parameters; the paper has no such numbers."""
    worlds, (c_r, c_c) = WORLD_SETS["seeds"](settings.SIZES[0], n_worlds), settings.PENALTIES[0]
    where = {"worlds": "seeds", "C_r": _plain(c_r), "C_c": _plain(c_c)}
    for teacher, learner in product(settings.UNTOLD_TEACHERS, settings.UNTOLD_LEARNERS):
        tasks = [Task(world, "L5", settings.untold(learner), teacher) for world in worlds]
        for suffix, n_lessons in ({"": None} if teacher.max_rounds == 1 else {"_round_3": 3, "_end": None}).items():
            rewards, n_refused = _rewards(rows, tasks, n_lessons)
            yield Cell(where, learner, teacher.name + suffix, rewards, n_refused, None, SAME_WORLDS)


def _rewards(rows: Rows, tasks: list[Task], n_lessons: int | None = None) -> tuple[tuple[float, ...], int]:
    """The learner's reward after this many lessons, or the last, in each world; and the number of refused worlds."""
    outcomes = [rows[task.key].outcome for task in tasks]
    taught = [result for result in outcomes if "refused" not in result]
    return tuple(float(result["learner_rewards"][:n_lessons][-1]) for result in taught), len(outcomes) - len(taught)


def true(printed: Printed) -> Printed:
    """An entry of Table 1 with its true standard error, std / sqrt(10)."""
    return Printed(printed.mean, printed.deviation * math.sqrt(N_WORLDS))


def two_errors(rewards: tuple[float, ...], printed: Printed) -> float:
    """Two standard errors of the difference between our mean and the printed one."""
    if len(rewards) < 2:
        return OTHER_WORLDS
    ours = float(np.var(rewards, ddof=1)) / len(rewards)
    return max(OTHER_WORLDS, 2 * math.sqrt(ours + printed.deviation**2))


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number
