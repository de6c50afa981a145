"""A user's sweep: rows of a plan, as data, files, a table and pictures. A task that fails is a row that says why."""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tutelage.arrays import Readable
from tutelage.data.files import AnyPath, write_table, write_whole
from tutelage.experiments import means
from tutelage.experiments.means import Mean, MeanCurve
from tutelage.experiments.plans import Players, read_plan
from tutelage.experiments.run import Backend, run
from tutelage.experiments.settings import ALLOWANCE, RowKey, Task
from tutelage.experiments.store import Row, Store
from tutelage.experiments.worlds import ALL
from tutelage.model.allowances import OTHERS
from tutelage.outcomes import InvalidInput, needed_for

FORMATS = (".csv", ".jsonl", ".json", ".parquet")
SHORT = {"mismatch_penalty": "C_r", "violation_penalty": "C_c", ALLOWANCE: "allowance"}
# What a row has of every round beside the metrics: the name of its column, and of the list in the result.
EXTENTS = ("n_demonstrations", "n_steps")
BY_ROUND = {"reward": "learner_rewards", "lesson_reward": "lesson_rewards"} | {name: name for name in EXTENTS}


class SweepRow(dict[str, Any]):
    """The row of one task: names and plain values. Rows that differ in `seconds` alone are equal."""

    def __eq__(self, other: object) -> bool:
        same = {"seconds": None}
        return dict.__eq__(self | same, other | same) if isinstance(other, dict) else NotImplemented


@dataclass(frozen=True, slots=True, eq=False)
class Sweep(Readable):
    """The rows of a sweep, in the order of its plan. rows: one mapping of names to plain values for each task."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def failed(self) -> tuple[Mapping[str, Any], ...]:
        """The rows without a result; `failed` says why."""
        return tuple(row for row in self.rows if row["failed"])

    def means(self, of: str = "reward", *, against: str | None = None) -> list[Mean]:
        """The mean of a column by group, learner and teacher. against: whom differences are from; the first if None."""
        if not any(isinstance(row.get(of), int | float) for row in self.rows):
            raise InvalidInput(f"no row has a number {of!r}")
        if against is not None and against not in {row["teacher"] for row in self.rows}:
            raise InvalidInput(f"no row has the teacher {against!r}, so there is no difference from it")
        return [mean for learner in means.by_learner(self.rows) for mean in means.means_of(learner, of, against)]

    def curves(self, of: str = "reward", *, by: str = "round", within: float = 0.01) -> list[MeanCurve]:
        """The mean of the reward, or of a metric, after each round, or by what was shown until then.

        by: "round", "n_demonstrations" or "n_steps", so that teachers are compared at equal budgets. within: the share
        of the best reward that may be missing where a curve counts as having reached it.
        """
        if self.rows and not any(f"{of}_by_round" in row for row in self.rows):
            raise InvalidInput(f"no row has a number {of!r} in rounds")
        if by not in ("round", *EXTENTS):
            raise InvalidInput(f"by must be 'round', 'n_demonstrations' or 'n_steps', got {by!r}")
        return [curve for each in means.by_learner(self.rows) for curve in means.curves_of(each, of, by, within)]

    def to_file(self, path: AnyPath) -> None:
        """Write the rows: .csv, .jsonl, .json, or .parquet, which needs pyarrow."""
        suffix = Path(path).suffix
        if suffix not in FORMATS:
            raise InvalidInput(f"rows are written to {', '.join(FORMATS)}, not to {Path(path).name!r}")
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        if suffix == ".json":
            write_whole(path, json.dumps([dict(row) for row in self.rows], indent=1).encode())
        elif suffix == ".parquet":
            with needed_for("a Parquet file", "parquet"):
                import pyarrow.parquet
            # A column of texts and numbers, such as names and seeds of replicates, is one of texts.
            for name, values in columns.items():
                if any(isinstance(value, str) for value in values):
                    columns[name] = [None if value is None else str(value) for value in values]
            buffer = io.BytesIO()
            pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
            write_whole(path, buffer.getvalue())
        else:
            if suffix == ".csv":
                for name, values in columns.items():
                    columns[name] = [json.dumps(value) if isinstance(value, list) else value for value in values]
            write_table(columns, path)

    def picture(self, of: str = "reward") -> Figure:
        """The mean of each teacher, in panels; a heat map for each teacher where two numbers of the learner vary."""
        plane = means.swept(self.rows)
        if plane:
            return means.draw_plane(self.rows, self.means(of), plane, of)
        return means.draw_means(self.means(of), of)

    def curve_picture(self, of: str = "reward", *, by: str = "round") -> Figure:
        """The curves, one panel for each group of domains and learner."""
        curves = self.curves(of, by=by)
        if not curves:
            raise InvalidInput("no row has a result, so there are no curves to draw; `failed` says why")
        return means.draw_curves(curves, of)


def sweep(
    plan: AnyPath | Mapping[str, Any],
    *,
    learners: Players | None = None,
    teachers: Players | None = None,
    metrics: Players | None = None,
    seeds: Iterable[int] | None = None,
    version: str = "",
    out: AnyPath = "results",
    jobs: int = 1,
    address: str = "",
    retry: bool = False,
    on_row: Callable[[Row], object] = lambda row: None,
) -> Sweep:
    """Compute every task of a plan that the store in the folder `out` does not have, and return all rows.

    plan: a TOML file, or its data (see `plans`). learners: by name, classes or functions that make a learner of a
    domain. teachers: of a domain and the true weights. Both may also have arguments `seed` or `rng`, and a teacher
    `learner` or `preference_features`. metrics: by name, functions of a round that return a number; by the names of
    their arguments they may ask for response, lesson, transcript, domain, true_weights, learner or seed. seeds: in
    place of the plan's. version: what rows say of the code that is given here. Without it they have a digest of the
    code, and are computed again when the code changes. jobs: processes on this machine. address: of a Dask scheduler,
    in their place. retry: compute the rows that failed again. on_row: called after each row is stored.
    """
    players = {"learners": learners, "teachers": teachers, "metrics": metrics}
    tasks, store = open_sweep(plan, out, retry=retry, **players, seeds=seeds, version=str(version))
    run(tasks, store, Backend(jobs, address), on_row=on_row)
    return collected(tasks, store.rows())


def open_sweep(
    plan: AnyPath | Mapping[str, Any], out: AnyPath, *, retry: bool, **given: Any
) -> tuple[list[Task], Store]:
    """Every task of a plan, and the store in the folder `out`; retry: without the rows that failed."""
    store = Store(Path(out) / "sweep.sqlite")
    tasks = read_plan(plan, Path(out) / "domains", **given)
    if retry:
        store.drop(key for key, row in store.rows().items() if "refused" in row.outcome)
    return tasks, store


def collected(tasks: Sequence[Task], rows: Mapping[RowKey, Row]) -> Sweep:
    """The rows of these tasks, all of which are there. Each row has every column; None where it has no value."""
    limits = {(_label(task.teacher.name, task.teacher.options), task.teacher.max_rounds) for task in tasks}
    n_limits = Counter(label for label, _ in limits)
    asked = [_asked(task, n_limits) for task in tasks]
    results = [_results(task, rows[task.key], told) for task, told in zip(tasks, asked, strict=True)]
    empty = dict.fromkeys(name for part in (*asked, *results) for name in part)
    return Sweep(tuple(SweepRow(empty | told | result) for told, result in zip(asked, results, strict=True)))


def _asked(task: Task, n_limits: Mapping[str, int]) -> dict[str, Any]:
    """What was asked, as plain values. n_limits: how many limits of rounds the teachers of each label have."""
    model, teacher = task.model, task.teacher
    prefix = "learner." if model.given else ""
    label = _label(teacher.name, teacher.options)
    told: dict[str, Any] = {"domain": str(task.world), "group": task.group, "replicate": task.replicate}
    told |= {"learner": _learner_label(task), "model": model.model, "preferences": task.learner}
    told |= {f"{prefix}{name}": value for name, value in model.options if name != ALLOWANCE}
    if model.allowances:
        told["allowance"] = model.limit(OTHERS)
    told["n_sampled"] = model.n_sampled
    told["teacher"] = _label(label, [("max_rounds", teacher.max_rounds)]) if n_limits[label] > 1 else label
    told["max_rounds"] = teacher.max_rounds
    told |= {f"teacher.{name}": value for name, value in teacher.options}
    return told | {"seed": task.seed}


def _results(task: Task, row: Row, asked: Mapping[str, Any]) -> dict[str, Any]:
    result = row.outcome
    counts = result.get("counts", {})
    by_round = {name: result.get(key, []) for name, key in BY_ROUND.items()}
    values = {name: result.get(name) for name in ("reward", "bound", "gap", "residual")}
    values["arrival"], values["arrival_steps"] = result.get("arrival") or (None, None)
    values |= {f"count.{name}": count for name, count in counts.items()}
    if task.model.allowances:
        values |= {f"allowance.{name}": task.model.limit(name) for name in counts}
    values["n_rounds"] = len(by_round["reward"])
    for name in EXTENTS:
        shown = by_round[name]
        values[name] = sum(shown) if shown and None not in shown else None
    values |= {"seconds": row.seconds, "ended": result.get("ended"), "failed": result.get("refused", "")}
    for name, each in result.get("metrics", {}).items():
        # A metric with the name of another column is told apart from it.
        free = f"metric.{name}" if name in values or name in asked else name
        values[free] = each[-1]
        by_round[free] = each
    return values | {f"{name}_by_round": each for name, each in by_round.items()}


def _learner_label(task: Task) -> str:
    model = task.model
    name = model.model if task.learner == ALL else f"{model.model}, {task.learner}"
    numbers: list[tuple[str, Any]] = []
    for option, value in model.options:
        if isinstance(value, tuple):
            numbers += value
        elif value or model.given:
            numbers.append((SHORT.get(option, option), value))
    if model.n_sampled:
        numbers.append(("n_sampled", model.n_sampled))
    return _label(name, numbers)


def _label(name: str, options: Iterable[tuple[str, float | str]]) -> str:
    told = (f"{key} {value if isinstance(value, str) else format(value, 'g')}" for key, value in options)
    return ", ".join([name, *told])
