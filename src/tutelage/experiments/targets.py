"""The tables and figures by name: the tasks that each needs, how it is made from their rows, and its files."""

import base64
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain, product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import tutelage
from tutelage.data.files import write_whole
from tutelage.experiments import figures, readings, run, settings, tables
from tutelage.experiments.settings import LEARNERS, LearnerSetting, RowKey, Task, TeacherSetting, tasks_in
from tutelage.experiments.store import Row
from tutelage.experiments.sweeps import Sweep, collected
from tutelage.experiments.tables import LEGEND, Cell, Grid, Rows, column_label
from tutelage.experiments.worlds import WorldName
from tutelage.outcomes import Unavailable
from tutelage.pictures.domains import save_picture, table
from tutelage.pictures.plots import Curve, Panel

# Of Figure 2. The paper does not say which world it shows; this is our choice.
SHOWN = WorldName("published", 0, settings.SIZES[0])


@dataclass(frozen=True, slots=True)
class Target:
    """A table or a figure: the tasks it needs, those on request, its cells with further tables, and how it is drawn."""

    title: str
    tasks: Callable[[int], Iterable[Task]] = lambda _: ()
    slow: Callable[[int], Iterable[Task]] = lambda _: ()
    cells: Callable[[Rows, int], tuple[list[Cell], list[Grid]]] | None = None
    draw: Callable[[Rows, int], Figure] | None = None


def table_target(title: str, cells: Callable[[int], Iterator[Cell]]) -> Target:
    return Target(
        title,
        lambda n_worlds: chain.from_iterable(cell.tasks for cell in cells(n_worlds)),
        cells=lambda rows, n_worlds: ([cell.computed(rows) for cell in cells(n_worlds)], []),
    )


def figure_2(world: WorldName) -> dict[tuple[str, str], Task]:
    soft = settings.soft_setting("soft", *settings.PENALTIES[0])
    pairs = product((settings.AGNOSTIC, settings.BILEVEL), LEARNERS)
    return {(teacher.name, learner): Task(world, learner, soft, teacher) for teacher, learner in pairs}


def draw_figure_2(rows: Rows, _: int) -> Figure:
    weights: dict[str, dict[str, list[float]]] = {}
    for (teacher, learner), task in figure_2(SHOWN).items():
        outcome = rows[task.key].outcome
        if "refused" in outcome:
            raise Unavailable(f"this cannot be drawn, because {teacher} has no result: {outcome['refused']}")
        weights.setdefault(column_label(teacher), {})[learner] = outcome["weights"]
    return figures.figure2(SHOWN.make(), weights)


def rounds_target(
    title: str, world_set: str, panels: Mapping[str, tuple[str, LearnerSetting]], teachers: Sequence[TeacherSetting]
) -> Target:
    """Rewards over rounds, one panel for each learner. panels: preferences and model, by their titles."""

    def tasks(title: str, n_worlds: int) -> list[Task]:
        size = settings.SIZES[0]
        return [task for each in teachers for task in tasks_in(world_set, size, n_worlds, *panels[title], each)]

    def draw(rows: Rows, n_worlds: int) -> Figure:
        return figures.rounds_figure([panel(title, collected(tasks(title, n_worlds), rows)) for title in panels])

    return Target(title, lambda n: chain.from_iterable(tasks(each, n) for each in panels), draw=draw)


def panel(title: str, sweep: Sweep) -> Panel:
    """A curve for each teacher of several rounds, a level for the others; a world that refused one counts for none."""
    refused = {row["replicate"] for row in sweep.failed}
    whole = Sweep(tuple(row for row in sweep.rows if row["replicate"] not in refused))
    curves = []
    levels = {}
    for curve, lessons in zip(whole.curves(), whole.curves("lesson_reward"), strict=True):
        label = column_label(curve.teacher)
        several = [row for row in whole.rows if row["teacher"] == curve.teacher]
        if several[0]["max_rounds"] > 1:
            n = max(row["n_rounds"] for row in several)
            curves.append(Curve(label, curve.values[:n], lessons.values[:n], curve.errors[:n]))
        else:
            levels[label] = curve.values[0]
    n_worlds = len({row["replicate"] for row in sweep.rows})
    counted = f" ({n_worlds - len(refused)} of {n_worlds} worlds)" if refused else ""
    return Panel(title + counted, curves, levels)


def _rounds_of(learner: str) -> Target:
    """Figure 3 (a), or the same part of Figure 4 or 5. The paper does not say in which worlds."""
    names = {settings.EXACT: "exact projection", settings.FOOTNOTE: "footnote 1's learner, exactly"}
    panels = {f"{learner}, {name}": (learner, model) for model, name in names.items()}
    return rounds_target(f"Rewards over teaching rounds, {learner}", "reachable", panels, settings.EVERY_TEACHER)


BEYOND = "Beyond the paper: soft learners with unknown parameters"
UNTOLD = {f"{learner}, soft, unknown": ("L5", settings.untold(learner)) for learner in settings.UNTOLD_LEARNERS}
TARGETS: Mapping[str, Target] = {
    "table1": table_target("Teaching under known constraints (Table 1, and Table 2 of App. B.1)", tables.table_1),
    "figure3-table": Target(
        "Teaching under unknown constraints (the tables inside Figures 3, 4 and 5)",
        settings.unknown,
        settings.unknown_slow,
        cells=readings.cells,
    ),
    "figure1": Target(
        "Why teaching must know the learner", draw=lambda *_: figures.figure1(figures.WORLD, figures.illustrated())
    ),
    "figure2": Target("Inferred rewards", lambda _: figure_2(SHOWN).values(), draw=draw_figure_2),
    "figure3": _rounds_of("L2"),
    "figure4": _rounds_of("L1"),
    "figure5": _rounds_of("L3"),
    "figure6": Target("The line search's two cases", draw=lambda *_: figures.line_search_figure(figures.illustrated())),
    "figure7": Target("The proof of Proposition 1", draw=lambda *_: figures.proof_figure(figures.illustrated())),
    "beyond": replace(
        table_target(BEYOND, tables.beyond),
        draw=rounds_target(BEYOND, "seeds", UNTOLD, settings.UNTOLD_TEACHERS).draw,
    ),
}


def tasks_of(names: Sequence[str], n_worlds: int, *, is_slow: bool = False) -> list[Task]:
    """Every task that these targets need, without duplicates. is_slow: with the tasks that take longer, last."""
    every = [TARGETS[name].tasks for name in names]
    every += [TARGETS[name].slow for name in names if is_slow]
    return list({task.key: task for tasks in every for task in tasks(n_worlds)}.values())


def produce(
    names: Sequence[str], rows: Rows, n_worlds: int, folder: Path, *, with_report: bool
) -> tuple[dict[str, Any], list[Grid], list[Path]]:
    """Write all tables and figures, and on request the report; the cells with their origin, the tables, the files."""
    used = [rows[task.key] for task in tasks_of(names, n_worlds, is_slow=True) if task.key in rows]
    commits = ", ".join(sorted({row.revision for row in used} - {""})) or "unknown"
    # The version is that of the package which computed the rows, since it is in their keys.
    origin = f"{len(used)} rows of {n_worlds} worlds, computed by Tutelage {tutelage.__version__}, revision {commits}."
    report = [f"<h1>Reproduction report</h1><p>{html.escape(origin)}</p><p>{html.escape(LEGEND)}</p>"]
    every: list[dict[str, Any]] = []
    grids: list[Grid] = []
    texts: dict[str, str] = {}
    pictures: list[Path] = []
    for name in names:
        target = TARGETS[name]
        title = f"{name}: {html.escape(target.title)}"
        report.append(f"<h2>{title}</h2>")
        if target.cells is not None:
            cells, compared = target.cells(rows, n_worlds)
            data = [cell.as_data() for cell in cells]
            own = compared + tables.overview(cells)
            texts[f"{name}.json"] = json.dumps({"table": name, "origin": origin, "cells": data}, indent=1) + "\n"
            texts[f"{name}.md"] = "\n".join([LEGEND, "", *(grid.markdown() for grid in own)])
            report += [f"<h3>{html.escape(g.caption)}</h3>{table(g.header, g.body, len(g.body))}" for g in own]
            every += data
            grids += own
        if target.draw is not None:
            pictures += save_picture(target.draw(rows, n_worlds), folder / name)
            image = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
            report.append(f'<img alt="{title}" src="data:image/png;base64,{image}">')
    if with_report:
        template = files("tutelage.experiments").joinpath("report.html").read_text(encoding="utf-8")
        texts["report.html"] = template.replace("BODY", "\n".join(report))
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    return {"cells": every, "origin": origin}, grids, [*(folder / name for name in texts), *pictures]


# Title, header, body and caption of a printed table; or a sentence.
Part = tuple[str, tuple[str, ...], list[tuple[str, ...]], str] | str
N_DEMO_TASKS = 2 * len(LEARNERS) + len(settings.KNOWING + settings.ADAPTIVE)


def demo(
    world: WorldName, allowance: float, done: Callable[[str], object]
) -> tuple[dict[str, Any], list[Part], Figure]:
    """What `tutelage demo` shows: soft learners, and L2 with an allowance of visits. done: called after each task."""
    soft = figure_2(world)
    model = LearnerSetting("hard", ((settings.ALLOWANCE, allowance),))
    hard = [Task(world, "L2", model, teacher) for teacher in settings.KNOWING + settings.ADAPTIVE]
    rows = dict[RowKey, Row]()
    for task in (*soft.values(), *hard):
        rows[task.key] = run.compute_row(task)
        done(f"{task.learner}, {task.teacher.name}")
    results = {pair: rows[task.key].outcome for pair, task in soft.items()}
    shown = []
    for learner in LEARNERS:
        agnostic, aware = results["agnostic", learner], results["bilevel", learner]
        rewards = {"optimal": agnostic["lesson_rewards"][0], "agnostic": agnostic["reward"], "aware": aware["reward"]}
        shown.append({"learner": learner, **rewards, "bound": aware["bound"]})
    rounds = {task.teacher.name: rows[task.key].outcome for task in hard}
    data = {"world": str(world), "allowance": allowance, "rows": shown, "rounds": rounds}
    header = ("learner", "optimal policy", "agnostic lesson", "aware lesson", "bound on any lesson")
    body = [(name, *(f"{value:.3f}" for value in values)) for name, *values in (row.values() for row in shown)]
    parts: list[Part] = [
        (f"World {world}", header, body, "Expected discounted reward of a soft learner (C_r = 5, C_c = 10)."),
        _rounds_part(rounds, f"L2 with hard limits of {allowance:g} discounted visits to each kind of cell"),
    ]
    title = f"L2 allows {allowance:g} visits to each kind of cell; two teachers identify that"
    taught = Sweep(tuple(row for row in collected(hard, rows).rows if not row["failed"]))
    weights = [results[teacher, "L3"]["weights"] for teacher in ("agnostic", "bilevel")]
    return data, parts, figures.demo_picture(world.make(), weights, panel(title, taught))


def _rounds_part(rounds: Mapping[str, Mapping[str, Any]], title: str) -> Part:
    body = []
    for name, result in rounds.items():
        if "refused" in result:
            return f"L2: {result['refused']}"
        rewards = result["learner_rewards"]
        shown = (f"{reward:.3f}" for reward in (rewards[0], rewards[:3][-1], rewards[-1]))
        body.append((column_label(name), *shown, str(len(rewards))))
    caption = "Reward of the learner. The last two teachers know only its responses."
    return title, ("teacher", "first round", "third", "last", "rounds"), body, caption
