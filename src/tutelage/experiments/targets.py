"""The tables and figures by name: the tasks that each needs, and how it is made from their rows. Runs no algorithm."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tutelage.experiments import figures, readings, settings, tables
from tutelage.experiments.settings import AnyTask, Illustration, Task, TeacherSetting
from tutelage.experiments.tables import Cell, Rows
from tutelage.experiments.worlds import WORLD_SETS
from tutelage.outcomes import Unavailable
from tutelage.pictures.rounds import Curve, Panel
from tutelage.registry import TEACHERS

# The columns of tables that are a teacher under certain conditions.
VARIANTS = {"_exact_learner": ", exact learner", "_round_3": " (3rd)", "_end": " (end)"}
ROUND_REWARDS = ("learner_rewards", "lesson_rewards")
MODEL_NAMES = {"footnote": "footnote 1's learner, exactly", "hard": "exact projection"}


def column_label(column: str) -> str:
    """The heading of a table's column, such as "AdAware-Vol (end)" for "volume_search_end"."""
    for suffix, text in VARIANTS.items():
        if column.endswith(suffix):
            return TEACHERS[column.removesuffix(suffix)].label + text
    return TEACHERS[column].label


@dataclass(frozen=True, slots=True)
class Target:
    """A table or a figure.

    tasks: those that it needs, for a number of worlds. cells: the cells of a table, from the rows of those tasks.
    figures: its figures by file name, from the same rows. slow: tasks that are computed on request and add readings.
    compare: further tables, of how the rows compare with the print as a whole.
    """

    title: str
    tasks: Callable[[int], Iterator[AnyTask]]
    slow: Callable[[int], Iterator[AnyTask]] = lambda _: iter(())
    cells: Callable[[Rows, int], Iterator[Cell]] | None = None
    compare: Callable[[Rows, int], list[readings.Table]] | None = None
    figures: Callable[[Rows, int], Mapping[str, Figure]] | None = None


def figure_2(rows: Rows, _: int) -> dict[str, Figure]:
    """Worlds and inferred rewards, L1 .. L5."""
    tasks = list(settings.figure_2())
    weights: dict[str, dict[str, list[float]]] = {}
    for task in tasks:
        weights.setdefault(column_label(task.teacher.name), {})[task.learner] = _result(rows, task)["weights"]
    titles = ("world", *weights)
    return {"figure2": figures.figure2(settings.FIGURE_2_WORLD.make(), weights, titles)}


def illustration(name: str, title: str, draw: Callable[[Illustration, Mapping[str, Any]], Figure]) -> Target:
    """A drawing in the plane of stars and pluses."""
    (task,) = (task for task in settings.illustrations() if task.name == name)
    return Target(title, lambda _: iter((task,)), figures=lambda rows, _: {name: draw(task, _result(rows, task))})


def _result(rows: Rows, task: AnyTask) -> dict[str, Any]:
    """The result of a task that a figure cannot do without."""
    outcome = rows[task.key].outcome
    if "refused" in outcome:
        raise Unavailable(f"this cannot be drawn, because {task.key.teacher} has no result: {outcome['refused']}")
    return outcome


def rounds_target(name: str, learner: str) -> Target:
    """Rewards over rounds of one learner: Figure 3 (a), or the same part of Figure 4 or 5."""

    def draw(rows: Rows, n_worlds: int) -> dict[str, Figure]:
        worlds = WORLD_SETS[settings.ROUNDS_WORLDS](settings.SIZES[0], n_worlds)
        panels = []
        for model in (settings.EXACT, settings.FOOTNOTE):
            results = {
                teacher: [rows[Task(world, learner, model, teacher).key].outcome for world in worlds]
                for teacher in settings.EVERY_TEACHER
            }
            panels.append(panel(f"{learner}, {MODEL_NAMES[model.model]}", results))
        return {name: figures.rounds_figure(panels)}

    title = f"Rewards over teaching rounds, {learner}"
    return Target(title, lambda n_worlds: settings.rounds_of(learner, n_worlds), figures=draw)


def beyond_figure(rows: Rows, n_worlds: int) -> dict[str, Figure]:
    """Rewards over rounds of soft learners with unknown parameters, one panel for each."""
    worlds = WORLD_SETS["seeds"](settings.SIZES[0], n_worlds)
    panels = []
    for learner in settings.UNTOLD_LEARNERS:
        results = {
            teacher: [rows[Task(world, "L5", settings.untold(learner), teacher).key].outcome for world in worlds]
            for teacher in settings.UNTOLD_TEACHERS
        }
        panels.append(panel(f"{learner}, soft, unknown", results))
    return {"beyond": figures.rounds_figure(panels)}


def panel(title: str, results: Mapping[TeacherSetting, Sequence[Mapping[str, Any]]]) -> Panel:
    """A curve for each teacher of several rounds and a level for each of the others: means over the same worlds.

    results: of each teacher, one for each world. A world that any teacher was refused in counts for none.
    """
    every = list(zip(*results.values(), strict=True))
    worlds = [world for world in every if not any("refused" in result for result in world)]
    taught = dict(zip(results, zip(*worlds, strict=True), strict=False))
    curves, levels = [], {}
    for teacher, several in taught.items():
        label = column_label(teacher.name)
        if teacher.max_rounds > 1:
            curves.append(mean_curve(label, *([result[what] for result in several] for what in ROUND_REWARDS)))
        else:
            levels[label] = float(np.mean([result["reward"] for result in several]))
    counted = title if len(worlds) == len(every) else f"{title} ({len(worlds)} of {len(every)} worlds)"
    return Panel(counted, curves, levels)


def mean_curve(label: str, learner: Sequence[Sequence[float]], teacher: Sequence[Sequence[float]]) -> Curve:
    """The mean over worlds, round by round; a world whose rounds have ended keeps its last reward."""
    n_rounds = max(map(len, learner))
    learners, teachers = (
        np.array([[*rewards, *[rewards[-1]] * (n_rounds - len(rewards))] for rewards in some])
        for some in (learner, teacher)
    )
    error = learners.std(axis=0, ddof=1) / np.sqrt(len(learners)) if len(learners) > 1 else np.zeros(0)
    return Curve(label, learners.mean(axis=0).tolist(), teachers.mean(axis=0).tolist(), error.tolist())


TARGETS: Mapping[str, Target] = {
    "table1": Target(
        "Teaching under known constraints (Table 1, and Table 2 of App. B.1)", settings.table_1, cells=tables.table_1
    ),
    "figure3-table": Target(
        "Teaching under unknown constraints (the tables inside Figures 3, 4 and 5)",
        settings.unknown,
        settings.unknown_slow,
        cells=readings.cells,
        compare=readings.compare,
    ),
    "figure1": illustration(
        "figure1", "Why teaching must know the learner", lambda task, got: figures.figure1(task.world, got)
    ),
    "figure2": Target("Inferred rewards", lambda _: settings.figure_2(), figures=figure_2),
    **{name: rounds_target(name, learner) for name, learner in settings.ROUNDS_FIGURES.items()},
    "figure6": illustration("figure6", "The line search's two cases", lambda _, got: figures.line_search_figure(got)),
    "figure7": illustration("figure7", "The proof of Proposition 1", lambda _, got: figures.proof_figure(got)),
    "beyond": Target(
        "Beyond the paper: soft learners with unknown parameters",
        settings.beyond,
        cells=tables.beyond,
        figures=beyond_figure,
    ),
}


def tasks_of(names: Sequence[str], n_worlds: int, *, is_slow: bool = False) -> list[AnyTask]:
    """Every task that these targets need, without duplicates. is_slow: with the tasks that take longer, last."""
    every = [TARGETS[name].tasks(n_worlds) for name in names]
    if is_slow:
        every += [TARGETS[name].slow(n_worlds) for name in names]
    return list({task.key: task for task in chain.from_iterable(every)}.values())
