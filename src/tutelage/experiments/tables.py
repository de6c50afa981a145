"""Tables, from rows: the mean over worlds, the printed mean, and whether they agree.

Table 1's worlds are the paper's, so there two means agree up to rounding and the learners' accuracy: 0.011. The worlds
of Sec. 6.2 are not known: there they agree within two standard errors of their difference, or 0.05 if that is more.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri

from tutelage.arrays import finite_or_none
from tutelage.experiments import settings
from tutelage.experiments.settings import N_WORLDS, RowKey, Task, tasks_in
from tutelage.experiments.store import Row
from tutelage.registry import TEACHERS

Rows = Mapping[RowKey, Row]
Outcome = Mapping[str, Any]
PRINTED = json.loads(files("tutelage.experiments").joinpath("printed.json").read_text(encoding="utf-8"))
SAME_WORLDS, OTHER_WORLDS = 0.011, 0.05
VARIANTS = {"_exact_learner": ", exact learner", "_round_3": " (3rd)", "_end": " (end)"}
MARKS = {"agrees": "=", "better": "+", "differs": "!"}
WORLD_SET_NAMES = {"seeds": "seeds 0 to 9", "reachable": "reachable worlds", "text": "the text's worlds"}
LEGEND = (
    "An entry is our mean ± its standard error, with the paper's mean in brackets: = agrees, + ours is better, "
    "! ours is lower; docs/reproduction.md says why. [5 of 10 worlds]: the others were refused, because no policy "
    "there keeps the preferences, so this mean is over other worlds than its neighbours."
)


class Estimate(NamedTuple):
    """The mean of n numbers. error: its standard error, with n - 1 degrees of freedom; NaN for one number."""

    mean: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Estimate":
        several = np.array([*values])
        n = len(several)
        error = float(several.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return cls(float(several.mean()) if n else math.nan, error, n)


class Printed(NamedTuple):
    """A printed mean and the deviation after ±: in Table 1 std / 10 of ten worlds, not std / sqrt(10)."""

    mean: float
    deviation: float


def printed_known(mismatch_penalty: float, violation_penalty: float, teacher: str, learner: str) -> Printed:
    """An entry of Table 1 or Table 2 (App. B.1); teacher: "agnostic" or "bilevel"."""
    return Printed(*PRINTED["known"][f"{mismatch_penalty:g}, {violation_penalty:g}"][teacher][learner])


def printed_unknown(learner: str, teacher: str, size: int) -> Printed:
    """An entry of the table inside Figure 3, 4 or 5; teacher: such as "aware_cmdp" or "line_search_end"."""
    return Printed(*PRINTED["unknown"][learner][teacher][str(size)])


@dataclass(frozen=True, slots=True)
class Cell:
    """One mean of a table. where: its other coordinates, such as C_r or the size. teacher: its column.

    rewards: one per world, but for the n_refused worlds without a result, as where no policy keeps the preferences.
    printed: the paper's entry, if any. tasks: one for each world, of a cell whose rewards are not known yet.
    """

    where: Mapping[str, Any]
    learner: str
    teacher: str
    rewards: tuple[float, ...] = ()
    n_refused: int = 0
    printed: Printed | None = None
    tasks: Sequence[Task] = ()

    def computed(self, rows: Rows) -> "Cell":
        """With the learner's rewards in the round of this column."""
        results = [rows[task.key].outcome for task in self.tasks]
        return self.measured(results, lambda _: 3 if self.teacher.endswith("_round_3") else None)

    def measured(self, results: Sequence[Outcome], n_lessons: Callable[[Outcome], int | None]) -> "Cell":
        """With the learner's rewards after the lessons that count of each result; None for all of them."""
        taught = [result for result in results if "refused" not in result]
        rewards = tuple(float(result["learner_rewards"][: n_lessons(result)][-1]) for result in taught)
        return replace(self, rewards=rewards, n_refused=len(results) - len(taught))

    @property
    def estimate(self) -> Estimate:
        return Estimate.of(self.rewards)

    @property
    def tolerance(self) -> float:
        is_table_1 = "C_r" in self.where
        if self.printed is None or (is_table_1 and self.where["worlds"] == "seeds"):
            return SAME_WORLDS
        # Table 1 prints std / 10; its true standard error is std / sqrt(10).
        error = self.printed.deviation * (math.sqrt(N_WORLDS) if is_table_1 else 1.0)
        return max(OTHER_WORLDS, 2 * math.hypot(self.estimate.error, error))

    @property
    def verdict(self) -> str:
        """Our mean beside the paper's: "agrees", "better" or "differs"; empty where the paper has none."""
        if self.printed is None:
            return ""
        difference = self.estimate.mean - self.printed.mean
        if abs(difference) <= self.tolerance:
            return "agrees"
        return "better" if difference > 0 else "differs"

    @property
    def spread(self) -> str:
        """Our standard error beside the printed one, by an F-test at 0.05: "agrees", "wider" or "narrower"."""
        if self.printed is None or len(self.rewards) < 2:
            return ""
        least, most = (math.sqrt(fdtri(len(self.rewards) - 1, N_WORLDS - 1, level)) for level in (0.025, 0.975))
        # The test may use any deviation that rounds to the printed one.
        if self.estimate.error > most * (self.printed.deviation + 0.005):
            return "wider"
        return "narrower" if self.estimate.error < least * (self.printed.deviation - 0.005) else "agrees"

    @property
    def place(self) -> str:
        worlds = WORLD_SET_NAMES[self.where["worlds"]]
        if "C_r" in self.where:
            others = "" if self.where["worlds"] == "seeds" else f", {worlds}"
            return f"C_r = {self.where['C_r']}, C_c = {self.where['C_c']}{others}"
        return f"{self.where['size']}x{self.where['size']}, {worlds}, {self.where['reading']}"

    def __str__(self) -> str:
        """The mean ± its standard error, with the number of worlds where some were refused; and the paper's mean."""
        mean, error = ("-" if math.isnan(value) else f"{value:.2f}" for value in self.estimate[:2])
        n = len(self.rewards)
        counted = f" [{n} of {n + self.n_refused} worlds]" if self.n_refused else ""
        beside = f" ({self.printed.mean:.2f}) {MARKS[self.verdict]}" if self.printed else ""
        return f"{mean} ±{error}{counted}{beside}"

    def as_data(self) -> dict[str, Any]:
        """The cell for JSON; unknown numbers are null."""
        mean, error, n = self.estimate
        printed, deviation = self.printed or (math.nan, math.nan)
        as_printed = float(np.std(self.rewards)) / n if n else math.nan
        numbers = {"mean": mean, "standard_error": error, "as_printed": as_printed}
        numbers |= {"printed": printed, "printed_deviation": deviation, "difference": mean - printed}
        data = {**self.where, "learner": self.learner, "teacher": self.teacher}
        data |= {name: finite_or_none(number) for name, number in numbers.items()}
        data |= {"n_worlds": n, "n_refused": self.n_refused}
        return data | ({"verdict": self.verdict} if self.verdict else {})


class Grid(NamedTuple):
    """A table of texts, under a caption; the first column names the rows."""

    caption: str
    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        rule = ("---", *["---:"] * (len(self.header) - 1))
        lines = [" | ".join(row) for row in (self.header, rule, *self.body)]
        return "\n".join([f"**{self.caption}**", "", *(f"| {line} |" for line in lines), ""])


def pivot(caption: str, corner: tuple[str, ...], texts: Mapping[tuple[str, ...], str]) -> Grid:
    """A grid of texts by the names of their row, whose headings are the corner, and of their column."""
    rows = dict.fromkeys(place[:-1] for place in texts)
    columns = dict.fromkeys(place[-1] for place in texts)
    body = tuple((*row, *(texts.get((*row, column), "") for column in columns)) for row in rows)
    return Grid(caption, (*corner, *columns), body)


def column_label(column: str) -> str:
    """The heading of a column, such as "AdAware-Vol (end)" for "volume_search_end"; options behind a comma stay."""
    name, *options = column.split(", ")
    suffix = next((suffix for suffix in VARIANTS if name.endswith(suffix)), "")
    known = TEACHERS.get(name.removesuffix(suffix))
    return ", ".join([known.label + VARIANTS.get(suffix, "") if known else name, *options])


def overview(cells: Iterable[Cell]) -> list[Grid]:
    """One grid for each place: a row per teacher, a column per learner, the paper's mean in brackets."""
    return [
        pivot(caption, ("teacher",), {(column_label(cell.teacher), cell.learner): str(cell) for cell in group})
        for caption, group in groupby(cells, lambda cell: cell.place)
    ]


def table_1(n_worlds: int = N_WORLDS) -> Iterator[Cell]:
    """Table 1 and Table 2 (App. B.1): every pair of penalties; on the text's worlds only that of Sec. 6.1."""
    places = [("seeds", *penalties) for penalties in settings.PENALTIES] + [("text", *settings.PENALTIES[0])]
    for (world_set, c_r, c_c), name, learner in product(places, settings.TABLE_1_COLUMNS, settings.LEARNERS):
        model, teacher, known = settings.TABLE_1_COLUMNS[name]
        soft = settings.soft_setting(model, c_r, c_c)
        tasks = tasks_in(world_set, settings.SIZES[0], n_worlds, learner, soft, teacher)
        where = {"worlds": world_set, "C_r": int(c_r), "C_c": int(c_c)}
        printed = printed_known(c_r, c_c, known, learner) if known else None
        yield Cell(where, learner, name, printed=printed, tasks=tasks)


def beyond(n_worlds: int = N_WORLDS) -> Iterator[Cell]:
    """Soft learners with unknown parameters; of their teachers Aware-BiL knows everything. Not in the paper."""
    c_r, c_c = settings.PENALTIES[0]
    where = {"worlds": "seeds", "C_r": int(c_r), "C_c": int(c_c)}
    for teacher, learner in product(settings.UNTOLD_TEACHERS, settings.UNTOLD_LEARNERS):
        tasks = tasks_in("seeds", settings.SIZES[0], n_worlds, "L5", settings.untold(learner), teacher)
        for suffix in [""] if teacher.max_rounds == 1 else ["_round_3", "_end"]:
            yield Cell(where, learner, teacher.name + suffix, tasks=tasks)
