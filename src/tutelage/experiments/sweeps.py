"""A user's sweep: the rows of a plan, as data, as files, as a table and as a picture.

The rows are computed and stored as those of the paper's tables are: by processes or on a cluster, each committed at
once, and continued by the same call. A task that fails is a row that says why.
"""

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tutelage.data.files import AnyPath, write_table, write_whole
from tutelage.experiments.plans import read_plan
from tutelage.experiments.run import Backend, run
from tutelage.experiments.settings import LearnerSetting, Task
from tutelage.experiments.store import Row, Store
from tutelage.outcomes import InvalidInput, MissingExtra
from tutelage.registry import TEACHERS

FORMATS = (".csv", ".jsonl", ".json", ".parquet")


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean reward of one teacher with one learner in one domain, over the seeds.

    standard_error: of that mean; NaN for one seed. share: the mean as a share of the certified bound, where one is
    known and positive. n_failed: rows without a result.
    """

    domain: str
    learner: str
    teacher: str
    reward: float
    standard_error: float
    share: float
    n_failed: int


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The rows of a sweep, in the order of its plan. rows: one mapping of names to plain values for each task."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def failed(self) -> tuple[Mapping[str, Any], ...]:
        """The rows without a result; `failed` says why."""
        return tuple(row for row in self.rows if row["failed"])

    def means(self) -> list[Mean]:
        """One for each domain, learner and teacher."""
        groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for row in self.rows:
            groups.setdefault((row["domain"], row["learner"], row["teacher"]), []).append(row)
        return [_mean(*key, several) for key, several in groups.items()]

    def to_file(self, path: AnyPath) -> None:
        """Write the rows: .csv, .jsonl, .json, or .parquet, which needs pyarrow."""
        suffix = Path(path).suffix
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        if suffix == ".parquet":
            write_whole(path, _as_parquet(columns))
        elif suffix == ".json":
            write_whole(path, json.dumps([dict(row) for row in self.rows], indent=1).encode())
        elif suffix in FORMATS:
            write_table(columns, path)
        else:
            raise InvalidInput(f"rows are written to {', '.join(FORMATS)}, not to {Path(path).name!r}")

    def picture(self) -> Figure:
        """The mean reward of each teacher, one group of bars for each domain and learner."""
        return _bars(self.means())


def sweep(
    plan: AnyPath | Mapping[str, Any],
    *,
    out: AnyPath = "results",
    jobs: int = 1,
    address: str = "",
    retry: bool = False,
    on_row: Callable[[Row], object] = lambda row: None,
) -> Sweep:
    """Compute every task of a plan that the store in the folder `out` does not have, and return all rows.

    plan: a TOML file, or its data (see `plans`). jobs: processes on this machine. address: of a Dask scheduler, in
    their place. retry: compute the rows that failed again. on_row: called after each row is stored.
    """
    tasks, store = open_sweep(plan, out, retry=retry)
    run(tasks, store, Backend(jobs, "dask" if address else "processes", address), on_row=on_row)
    return collected(tasks, store)


def open_sweep(plan: AnyPath | Mapping[str, Any], out: AnyPath, *, retry: bool) -> tuple[list[Task], Store]:
    """Every task of a plan, and the store in the folder `out`. retry: without the rows that failed."""
    store = Store(Path(out) / "sweep.sqlite")
    tasks = read_plan(plan if isinstance(plan, Mapping) else Path(plan), Path(out) / "domains")
    if retry:
        store.drop(key for key, row in store.rows().items() if "refused" in row.outcome)
    return tasks, store


def collected(tasks: Sequence[Task], store: Store) -> Sweep:
    """The rows of these tasks, all of which the store has."""
    rows = store.rows()
    return Sweep(tuple(_as_data(task, rows[task.key]) for task in tasks))


def _as_data(task: Task, row: Row) -> dict[str, Any]:
    """A row as plain values: what was asked, and the result."""
    result, model = row.outcome, task.model
    values = {field.name: getattr(model, field.name) for field in fields(LearnerSetting)}
    asked = {"domain": str(task.world), "learner": _label(task), "preferences": task.learner} | values
    asked["allowances"] = json.dumps(dict(model.allowances)) if model.allowances else ""
    options = json.dumps(dict(task.teacher.options)) if task.teacher.options else ""
    asked |= {"teacher": task.teacher.name, "options": options, "seed": task.seed}
    results = ("reward", "bound", "gap", "residual", "ended")
    return asked | {
        **{name: result.get(name) for name in results},
        "n_rounds": len(result.get("learner_rewards", ())),
        "failed": result.get("refused", ""),
    }


def _label(task: Task) -> str:
    """The learner in words: its model, its preferences, and the numbers that are not zero."""
    model = task.model
    numbers = [
        f"{name} {getattr(model, field):g}"
        for field, name in (("mismatch_penalty", "C_r"), ("violation_penalty", "C_c"), ("allowance", "allowance"))
        if getattr(model, field)
    ]
    each = [f"{name} {allowance:g}" for name, allowance in model.allowances]
    return ", ".join([model.model, task.learner, *numbers, *each])


def _mean(domain: str, learner: str, teacher: str, rows: Sequence[Mapping[str, Any]]) -> Mean:
    known = [row for row in rows if not row["failed"]]
    rewards = np.array([row["reward"] for row in known])
    if not len(rewards):
        return Mean(domain, learner, teacher, math.nan, math.nan, math.nan, len(rows))
    error = float(rewards.std(ddof=1)) / math.sqrt(len(rewards)) if len(rewards) > 1 else math.nan
    bounds = [row["bound"] for row in known]
    is_known = all(bound is not None and bound > 0 for bound in bounds)
    share = float(rewards.mean() / np.mean(bounds)) if is_known else math.nan
    return Mean(domain, learner, teacher, float(rewards.mean()), error, share, len(rows) - len(known))


def _as_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("a Parquet file", "parquet") from error
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def _bars(means: Sequence[Mean]) -> Figure:
    """Groups of bars with standard errors; hatches repeat the information of the colours."""
    teachers = list(dict.fromkeys(mean.teacher for mean in means))
    groups = list(dict.fromkeys((mean.domain, mean.learner) for mean in means))
    figure = Figure(figsize=(max(6.0, 1.2 * len(groups) + 3), 4.5), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(teachers)
    for number, teacher in enumerate(teachers):
        of_teacher = {(mean.domain, mean.learner): mean for mean in means if mean.teacher == teacher}
        shown = [(i, of_teacher[group]) for i, group in enumerate(groups) if group in of_teacher]
        places = [i + (number - (len(teachers) - 1) / 2) * width for i, _ in shown]
        errors = [0.0 if math.isnan(mean.standard_error) else mean.standard_error for _, mean in shown]
        rewards = [mean.reward for _, mean in shown]
        label = TEACHERS[teacher].label
        hatch = ("", "//", "..", "xx", "\\\\", "oo", "++")[number % 7]
        axes.bar(places, rewards, width, yerr=errors, label=label, hatch=hatch, edgecolor="white", capsize=2)
        for place, (_, mean) in zip(places, shown, strict=True):
            # A mean over fewer seeds than its neighbours says so.
            if mean.n_failed:
                axes.annotate(f"{mean.n_failed} failed", (place, 0.0), ha="center", va="bottom", rotation=90, size=6)
    axes.set_xticks(range(len(groups)), [f"{domain}\n{learner.replace(', ', chr(10))}" for domain, learner in groups])
    axes.tick_params(axis="x", labelsize=7)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_ylabel("the learner's true reward")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    return figure


def reasons(failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rows failed: one sentence for each reason, with the number of rows and the first of them."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in failed:
        groups.setdefault(row["failed"], []).append(row)
    return [
        f"{len(rows)} rows failed, the first {first['domain']}, {first['learner']}, {first['teacher']}: {reason}"
        for reason, rows in groups.items()
        for first in rows[:1]
    ]


def table_rows(means: Sequence[Mean]) -> Iterator[tuple[str, ...]]:
    """The means as texts, for a table: the learner in its domain, then one column for each teacher."""
    teachers = list(dict.fromkeys(mean.teacher for mean in means))
    groups: dict[tuple[str, str], dict[str, Mean]] = {}
    for mean in means:
        groups.setdefault((mean.domain, mean.learner), {})[mean.teacher] = mean
    yield ("domain", "learner", *(TEACHERS[teacher].label for teacher in teachers))
    for (domain, learner), by_teacher in groups.items():
        yield (domain, learner, *(_text(by_teacher.get(teacher)) for teacher in teachers))


def _text(mean: Mean | None) -> str:
    if mean is None:
        return ""
    if math.isnan(mean.reward):
        return "failed"
    error = "" if math.isnan(mean.standard_error) else f" ±{mean.standard_error:.2g}"
    share = "" if math.isnan(mean.share) else f" ({100 * mean.share:.0f} %)"
    failed = f", {mean.n_failed} failed" if mean.n_failed else ""
    return f"{mean.reward:.4g}{error}{share}{failed}"
