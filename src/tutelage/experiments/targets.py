"""The tables and figures by name: the tasks that each needs, how it is made from their rows, and its files.

Runs no algorithm: `tutelage reproduce` and `tutelage demo` compute the rows first.
"""

import base64
import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tutelage.data.files import write_whole
from tutelage.experiments import figures, readings, settings, tables
from tutelage.experiments.illustrations import WORLD, AnyTask, Illustration
from tutelage.experiments.settings import LEARNERS, LearnerSetting, Task, TeacherSetting
from tutelage.experiments.tables import LEGEND, Cell, Grid, Rows, column_label
from tutelage.experiments.worlds import WORLD_SETS, WorldName
from tutelage.outcomes import Unavailable
from tutelage.pictures.files import save_picture
from tutelage.pictures.plots import Curve, Panel

# The result of each task.
Outcomes = Mapping[Task, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """A table or a figure.

    tasks: those that it needs, for a number of worlds. cells: the cells of a table, from the rows of those tasks.
    draw: its figure, from the same rows. slow: tasks that are computed on request and add readings. compare: further
    tables, of how the rows compare with the print as a whole.
    """

    title: str
    tasks: Callable[[int], Iterator[AnyTask]]
    slow: Callable[[int], Iterator[AnyTask]] = lambda _: iter(())
    cells: Callable[[Rows, int], Iterator[Cell]] | None = None
    compare: Callable[[Rows, int], list[Grid]] | None = None
    draw: Callable[[Rows, int], Figure] | None = None


def figure_2(rows: Rows, _: int) -> Figure:
    """Worlds and inferred rewards, L1 .. L5."""
    weights: dict[str, dict[str, list[float]]] = {}
    for task in settings.figure_2():
        weights.setdefault(column_label(task.teacher.name), {})[task.learner] = _result(rows, task)["weights"]
    return figures.figure2(settings.FIGURE_2_WORLD.make(), weights, ("world", *weights))


def illustration(title: str, name: str, draw: Callable[[Mapping[str, Any]], Figure]) -> Target:
    """A drawing in the plane of stars and pluses."""
    task = Illustration(name)
    return Target(title, lambda _: iter((task,)), draw=lambda rows, _: draw(_result(rows, task)))


def _result(rows: Rows, task: AnyTask) -> dict[str, Any]:
    """The result of a task that a figure cannot do without."""
    outcome = rows[task.key].outcome
    if "refused" in outcome:
        raise Unavailable(f"this cannot be drawn, because {task.key.teacher} has no result: {outcome['refused']}")
    return outcome


def rounds_target(learner: str) -> Target:
    """Rewards over rounds of one learner: Figure 3 (a), or the same part of Figure 4 or 5."""
    names = {settings.EXACT: "exact projection", settings.FOOTNOTE: "footnote 1's learner, exactly"}
    panels = {f"{learner}, {name}": (learner, model) for model, name in names.items()}
    draw = partial(_panels, settings.ROUNDS_WORLDS, panels, settings.EVERY_TEACHER)
    return Target(f"Rewards over teaching rounds, {learner}", partial(settings.rounds_of, learner), draw=draw)


def _panels(
    worlds: str,
    learners: Mapping[str, tuple[str, LearnerSetting]],
    teachers: Sequence[TeacherSetting],
    rows: Rows,
    n_worlds: int,
) -> Figure:
    """Rewards over rounds, one panel for each learner. learners: preferences and model, by the titles of panels."""
    names, panels = WORLD_SETS[worlds](settings.SIZES[0], n_worlds), []
    for title, (learner, model) in learners.items():
        tasks = {teacher: [Task(world, learner, model, teacher) for world in names] for teacher in teachers}
        results = {teacher: [rows[task.key].outcome for task in several] for teacher, several in tasks.items()}
        panels.append(panel(title, results))
    return figures.rounds_figure(panels)


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
            curves.append(mean_curve(label, several))
        else:
            levels[label] = float(np.mean([result["reward"] for result in several]))
    counted = title if len(worlds) == len(every) else f"{title} ({len(worlds)} of {len(every)} worlds)"
    return Panel(counted, curves, levels)


def mean_curve(label: str, results: Sequence[Mapping[str, Any]]) -> Curve:
    """The mean over worlds, round by round; a world whose rounds have ended keeps its last reward."""
    n_rounds = max(len(result["learner_rewards"]) for result in results)
    learners, teachers = (
        np.array([[*result[name], *[result[name][-1]] * (n_rounds - len(result[name]))] for result in results])
        for name in ("learner_rewards", "lesson_rewards")
    )
    error = learners.std(axis=0, ddof=1) / np.sqrt(len(learners)) if len(learners) > 1 else np.zeros(0)
    return Curve(label, learners.mean(axis=0).tolist(), teachers.mean(axis=0).tolist(), error.tolist())


UNTOLD = {f"{learner}, soft, unknown": ("L5", settings.untold(learner)) for learner in settings.UNTOLD_LEARNERS}
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
    "figure1": illustration("Why teaching must know the learner", "figure1", partial(figures.figure1, WORLD)),
    "figure2": Target("Inferred rewards", lambda _: settings.figure_2(), draw=figure_2),
    **{name: rounds_target(learner) for name, learner in settings.ROUNDS_FIGURES.items()},
    "figure6": illustration("The line search's two cases", "figure6", figures.line_search_figure),
    "figure7": illustration("The proof of Proposition 1", "figure7", figures.proof_figure),
    "beyond": Target(
        "Beyond the paper: soft learners with unknown parameters",
        settings.beyond,
        cells=tables.beyond,
        draw=partial(_panels, "seeds", UNTOLD, settings.UNTOLD_TEACHERS),
    ),
}


def tasks_of(names: Sequence[str], n_worlds: int, *, is_slow: bool = False) -> list[AnyTask]:
    """Every task that these targets need, without duplicates. is_slow: with the tasks that take longer, last."""
    every = [TARGETS[name].tasks(n_worlds) for name in names]
    every += [TARGETS[name].slow(n_worlds) for name in names if is_slow]
    return list({task.key: task for task in chain.from_iterable(every)}.values())


@dataclass(frozen=True)
class Products:
    """The tables and figures of these names, in a folder."""

    names: Sequence[str]
    rows: Rows
    n_worlds: int
    folder: Path

    @cached_property
    def cells(self) -> dict[str, list[Cell]]:
        """The cells of each table, by its name."""
        made = {name: TARGETS[name].cells for name in self.names}
        return {name: list(make(self.rows, self.n_worlds)) for name, make in made.items() if make}

    @cached_property
    def grids(self) -> dict[str, list[Grid]]:
        """How a table compares with the print as a whole, where the paper leaves things open, and its cells."""
        compare = {name: TARGETS[name].compare for name in self.cells}
        whole = {name: make(self.rows, self.n_worlds) if make else [] for name, make in compare.items()}
        return {name: whole[name] + tables.overview(cells) for name, cells in self.cells.items()}

    @cached_property
    def origin(self) -> str:
        """The version and the revisions of the package that computed the rows."""
        tasks = tasks_of(self.names, self.n_worlds, is_slow=True)
        used = [self.rows[task.key] for task in tasks if task.key in self.rows]
        version = ", ".join(sorted({row.version for row in used}))
        revision = ", ".join(sorted({row.revision for row in used} - {""})) or "unknown"
        return f"{len(used)} rows of {self.n_worlds} worlds, computed by Tutelage {version}, revision {revision}."

    def write(self, *, with_report: bool) -> list[Path]:
        """Write every table as JSON and Markdown, every figure as PNG and SVG, and on request the report."""
        texts, pictures = dict[str, str](), dict[str, list[Path]]()
        for name, cells in self.cells.items():
            data = {"table": name, "origin": self.origin, "cells": [cell.as_data() for cell in cells]}
            texts[f"{name}.json"] = json.dumps(data, indent=1) + "\n"
            texts[f"{name}.md"] = "\n".join([LEGEND, "", *(grid.markdown() for grid in self.grids[name])])
        for name in self.names:
            if draw := TARGETS[name].draw:
                pictures[name] = save_picture(draw(self.rows, self.n_worlds), self.folder / name)
        if with_report:
            texts["report.html"] = self._page(pictures)
        for name, text in texts.items():
            write_whole(self.folder / name, text.encode())
        return [*(self.folder / name for name in texts), *chain.from_iterable(pictures.values())]

    def _page(self, pictures: Mapping[str, Sequence[Path]]) -> str:
        """The report as one self-contained HTML page."""
        parts = [f"<h1>Reproduction report</h1><p>{html.escape(self.origin)}</p><p>{html.escape(LEGEND)}</p>"]
        images = {name: [_image(path) for path in paths if path.suffix == ".png"] for name, paths in pictures.items()}
        shown = {name: [grid.page() for grid in grids] for name, grids in self.grids.items()}
        for name, members in chain(shown.items(), images.items()):
            parts += [f"<h2>{name}: {html.escape(TARGETS[name].title)}</h2>", *members]
        template = files("tutelage.experiments").joinpath("report.html").read_text(encoding="utf-8")
        return template.replace("BODY", "\n".join(parts))


def _image(path: Path) -> str:
    data, title = base64.b64encode(path.read_bytes()).decode(), html.escape(TARGETS[path.stem].title)
    return f'<figure><img alt="{title}: {path.stem}" src="data:image/png;base64,{data}"></figure>'


@dataclass(frozen=True, slots=True)
class Demo:
    """What `tutelage demo` shows: five soft learners in one world, and L2, which adaptive teachers identify.

    allowance: the discounted visits that the identified learner allows to each kind of cell it avoids.
    """

    world: WorldName
    allowance: float

    def known(self, learner: str) -> tuple[Task, Task]:
        """A soft learner, taught by a teacher that ignores its preferences and by one that knows them."""
        soft = settings.soft_setting("soft", *settings.PENALTIES[0])
        return Task(self.world, learner, soft, settings.AGNOSTIC), Task(self.world, learner, soft, settings.BILEVEL)

    def unknown(self) -> tuple[Task, ...]:
        """A hard learner: three teachers with one lesson each, and the two that adapt."""
        hard = LearnerSetting.of("hard", violation_allowance=self.allowance)
        return tuple(Task(self.world, "L2", hard, teacher) for teacher in settings.KNOWING + settings.ADAPTIVE)

    def tasks(self) -> list[Task]:
        """Every task."""
        return [task for learner in LEARNERS for task in self.known(learner)] + list(self.unknown())

    def rows(self, outcomes: Outcomes) -> list[dict[str, Any]]:
        """For each learner its reward under both teachers, and the bound that no lesson exceeds."""
        pairs = {learner: [outcomes[task] for task in self.known(learner)] for learner in LEARNERS}
        return [
            {"learner": learner, "optimal": agnostic["lesson_rewards"][0], "agnostic": agnostic["reward"]}
            | {"aware": aware["reward"], "bound": aware["bound"]}
            for learner, (agnostic, aware) in pairs.items()
        ]

    def rounds(self, outcomes: Outcomes) -> dict[str, dict[str, Any]]:
        """The result of each teacher of the identified learner, by the teacher's name."""
        return {task.teacher.name: outcomes[task] for task in self.unknown()}

    def tables(self, outcomes: Outcomes) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]], str] | str]:
        """Title, header, body and caption of both tables; a sentence where no policy keeps the learner's limits."""
        header = ("learner", "optimal policy", "agnostic lesson", "aware lesson", "bound on any lesson")
        rows = [tuple(row.values()) for row in self.rows(outcomes)]
        caption = "Expected discounted reward of a soft learner (C_r = 5, C_c = 10)."
        yield (
            f"World {self.world}",
            header,
            [(name, *(f"{value:.3f}" for value in values)) for name, *values in rows],
            caption,
        )
        body = []
        for name, result in self.rounds(outcomes).items():
            if "refused" in result:
                yield f"L2: {result['refused']}"
                return
            rewards = result["learner_rewards"]
            shown = (f"{reward:.3f}" for reward in (rewards[0], rewards[:3][-1], rewards[-1]))
            body.append((column_label(name), *shown, str(len(rewards))))
        title = f"L2 with hard limits of {self.allowance:g} discounted visits to each kind of cell"
        caption = "Reward of the learner. The last two teachers know only its responses."
        yield title, ("teacher", "first round", "third", "last", "rounds"), body, caption

    def picture(self, outcomes: Outcomes) -> Figure:
        """The world, the reward that L3 infers under both teachers, and rewards over rounds."""
        weights = [outcomes[task]["weights"] for task in self.known("L3")]
        title = f"L2 allows {self.allowance:g} visits to each kind of cell; two teachers identify that"
        taught = {t.teacher: [outcomes[t]] for t in self.unknown() if "refused" not in outcomes[t]}
        return figures.demo_picture(self.world.make(), weights, panel(title, taught))
