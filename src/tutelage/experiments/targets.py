"""The tables and figures by name: the tasks that each needs, and how it is made from their rows. Runs no algorithm."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from matplotlib.figure import Figure

from tutelage.experiments import figures, settings, tables
from tutelage.experiments.settings import AnyTask, LearnerSetting, Task, TeacherSetting
from tutelage.experiments.tables import Cell, Rows
from tutelage.experiments.worlds import WORLD_SETS
from tutelage.pictures.rounds import Curve, Panel
from tutelage.registry import TEACHERS

# The columns of tables that are a teacher under certain conditions.
VARIANTS = {"_exact_learner": ", exact learner", "_round_3": " (3rd)", "_end": " (end)"}
MODEL_NAMES = {
    "footnote": "footnote 1's learner, exactly",
    "footnote_published": "footnote 1's learner, published schedule",
    "hard": "exact projection",
}


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
    figures: its figures by file name, from the same rows.
    """

    title: str
    tasks: Callable[[int], Iterator[AnyTask]]
    cells: Callable[[Rows, int], Iterator[Cell]] | None = None
    figures: Callable[[Rows, int], Mapping[str, Figure]] | None = None


def figure_1(rows: Rows, n_worlds: int) -> dict[str, Figure]:
    """The world and the reachable set."""
    task, _ = settings.illustrations()
    return {"figure1": figures.figure1(task.world, rows[task.key].found)}


def line_search(rows: Rows, n_worlds: int) -> dict[str, Figure]:
    """The two cases of a push (App. C.2)."""
    _, task = settings.illustrations()
    return {"line_search": figures.line_search_figure(rows[task.key].found)}


def figure_3(rows: Rows, _: int) -> dict[str, Figure]:
    """Worlds and inferred rewards, L1 .. L5."""
    tasks = list(settings.figure_3())
    weights: dict[str, dict[str, list[float]]] = {}
    for task in tasks:
        weights.setdefault(column_label(task.teacher.name), {})[task.learner] = rows[task.key].found["weights"]
    titles = ("world", *weights)
    return {"figure3": figures.figure3(tasks[0].world.make(), weights, titles)}


def figure_4(rows: Rows, n_worlds: int) -> dict[str, Figure]:
    """Rewards over rounds: L2 in the paper's text, L1 and L3 in its appendix."""
    models = (settings.EXACT, settings.FOOTNOTE)
    return {
        f"figure4_{learner}": figures.figure4([panel(rows, learner, model, n_worlds) for model in models])
        for learner in ("L2", "L1", "L3")
    }


def panel(rows: Rows, learner: str, model: LearnerSetting, n_worlds: int) -> Panel:
    """The curves of the adaptive teachers and the levels of the others, each a mean over the worlds."""

    def found(teacher: TeacherSetting, what: str) -> list[list[float]]:
        worlds = WORLD_SETS[settings.FIGURE_4_WORLDS](settings.SIZES[0], n_worlds)
        return [rows[Task(world, learner, model, teacher).key].found[what] for world in worlds]

    levels = {
        column_label(teacher.name): float(np.mean(found(teacher, "learner_rewards"))) for teacher in settings.KNOWING
    }
    curves = [
        mean_curve(column_label(teacher.name), found(teacher, "learner_rewards"), found(teacher, "lesson_rewards"))
        for teacher in settings.ADAPTIVE
    ]
    return Panel(f"{learner}, {MODEL_NAMES[model.model]}", curves, levels)


def mean_curve(label: str, learner: Sequence[Sequence[float]], teacher: Sequence[Sequence[float]]) -> Curve:
    """The mean over worlds, round by round; a world whose rounds have ended keeps its last reward."""
    n_rounds = max(map(len, learner))
    learners, teachers = (
        np.array([[*rewards, *[rewards[-1]] * (n_rounds - len(rewards))] for rewards in some])
        for some in (learner, teacher)
    )
    error = learners.std(axis=0, ddof=1) / np.sqrt(len(learners)) if len(learners) > 1 else np.zeros(n_rounds)
    return Curve(label, learners.mean(axis=0).tolist(), teachers.mean(axis=0).tolist(), error.tolist())


TARGETS: Mapping[str, Target] = {
    "table1": Target("Teaching under known constraints (Table 1, App. B.1)", settings.table_1, cells=tables.table_1),
    "table2": Target("Teaching under unknown constraints (Fig. 4, App. B.2)", settings.table_2, cells=tables.table_2),
    "figure1": Target("Why teaching must know the learner", lambda _: settings.illustrations(), figures=figure_1),
    "figure3": Target("Inferred rewards", lambda _: settings.figure_3(), figures=figure_3),
    "figure4": Target("Rewards over teaching rounds", settings.figure_4, figures=figure_4),
    "line_search": Target("The line search's two cases", lambda _: settings.illustrations(), figures=line_search),
}


def tasks_of(names: Sequence[str], n_worlds: int) -> list[AnyTask]:
    """Every task that these targets need, without duplicates."""
    every = chain.from_iterable(TARGETS[name].tasks(n_worlds) for name in names)
    return list({task.key: task for task in every}.values())
