"""Sec. 6.2 under one joint reading: what the paper leaves open, as choices, and the values that fit the print best.

A joint reading has one value of every choice, for all 63 numbers. Every combination that the rows reach is compared
with the print, and the one whose means agree most often is reported, with what each single choice changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise, product
from typing import Any

from tutelage.experiments import settings
from tutelage.experiments.settings import N_WORLDS, SIZES, UNKNOWN_LEARNERS, LearnerSetting, TeacherSetting, tasks_in
from tutelage.experiments.tables import Cell, Grid, Rows, printed_unknown
from tutelage.experiments.worlds import worlds_in


def _before_a_loss(rewards: Sequence[float]) -> int:
    """The number of lessons before the first one that earns less than the one before it."""
    return next((n for n, (now, then) in enumerate(pairwise(rewards), 1) if then < now), len(rewards))


# What Sec. 6.2 leaves open, and the values tried.
MODELS = {"footnote 1, exactly": settings.FOOTNOTE, "exact projection": settings.EXACT}
MODELS |= {f"footnote 1, {n} steps": model for n, model in zip(settings.STEPS, settings.PUBLISHED, strict=True)}
CHOICES: dict[str, dict[str, Any]] = {
    "worlds": {"reachable": "reachable", "seeds 0 to 9": "seeds"},
    "learner of one lesson": MODELS,
    "learner in rounds": MODELS,
    "3rd round": {"the third lesson": 3, "i = 3, the fourth": 4},
    "volume search": {"as printed": settings.VOLUME_PRINTED, "ours": settings.VOLUME},
    "eps": {f"{eps:g}": eps for eps in (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)},
    "pushes": {"exact": settings.LINE}
    | {f"Algorithm 2, at most {dict(teacher.options)['longest_push']:g}": teacher for teacher in settings.LINE_PRINTED},
    "line search ends": {"with its best lesson again": len, "before a loss": _before_a_loss}
    | {f"after {n} lessons": lambda rewards, n=n: min(n, len(rewards)) for n in (6, 9, 12, 20)},
}
# The choices that each printed column depends on.
BY_VOLUME = ("worlds", "learner in rounds", "volume search", "eps")
BY_LINE = ("worlds", "learner in rounds", "pushes", "line search ends")
NEEDS = {
    **{teacher.name: ("worlds", "learner of one lesson") for teacher in settings.KNOWING},
    "volume_search_round_3": (*BY_VOLUME, "3rd round"),
    "volume_search_end": BY_VOLUME,
    "line_search_round_3": (*BY_LINE, "3rd round"),
    "line_search_end": BY_LINE,
}
# The learner of Eq. 2, and our own teachers.
OURS = {name: next(iter(values)) for name, values in CHOICES.items()} | {"volume search": "ours"}
OURS |= dict.fromkeys(("learner of one lesson", "learner in rounds"), "exact projection")
# A label for each choice, or for those of a column.
Reading = Mapping[str, str]
Labels = tuple[str, ...]
# By column and the labels of what it needs: its cells, where the rows have all of their worlds.
Survey = Mapping[tuple[str, Labels], tuple[Cell, ...]]


def survey(rows: Rows, n_worlds: int = N_WORLDS, sizes: Sequence[int] = SIZES, batch: int = 0) -> Survey:
    """Every printed column under every reading that the rows have. batch: which n_worlds worlds, counted from zero."""
    knowing = {teacher.name: teacher for teacher in settings.KNOWING}

    @cache
    def outcomes(
        worlds: str, size: int, learner: str, model: LearnerSetting, teacher: TeacherSetting
    ) -> list[Mapping[str, Any]] | None:
        tasks = tasks_in(worlds, size, n_worlds * (batch + 1), learner, model, teacher)
        keys = [task.key for task in tasks[n_worlds * batch :]]
        return [rows[key].outcome for key in keys] if all(key in rows for key in keys) else None

    def cells(column: str, values: Mapping[str, Any]) -> Iterator[Cell]:
        model = values.get("learner in rounds") or values["learner of one lesson"]
        teacher = values.get("pushes") or values.get("volume search") or knowing[column]
        for size, learner in product(sizes, UNKNOWN_LEARNERS):
            results = outcomes(values["worlds"], size, learner, model, teacher)
            if results is None or (column == "line_search_end" and teacher.max_rounds == settings.FEW_ROUNDS):
                return
            taught = [result for result in results if "refused" not in result]
            rewards = tuple(_reward(result, values, is_end=not column.endswith("_round_3")) for result in taught)
            printed, where = printed_unknown(learner, column, size), {"worlds": values["worlds"], "size": size}
            yield Cell(where, learner, column, rewards, len(results) - len(taught), printed)

    surveyed: dict[tuple[str, Labels], tuple[Cell, ...]] = {}
    for column, needs in NEEDS.items():
        for labels in product(*(CHOICES[name] for name in needs)):
            several = tuple(cells(column, {n: CHOICES[n][label] for n, label in zip(needs, labels, strict=True)}))
            if len(several) == len(sizes) * len(UNKNOWN_LEARNERS):
                surveyed[column, labels] = several
    return surveyed


def _reward(result: Mapping[str, Any], values: Mapping[str, Any], *, is_end: bool) -> float:
    """The learner's reward where the rounds end, or in the "3rd round", if they have not ended before."""
    rewards = result["learner_rewards"]
    n_lessons = len(rewards)
    if "eps" in values:
        n_lessons = next((n for n, gap in enumerate(result["distances"], 1) if gap <= values["eps"]), n_lessons)
    elif "pushes" in values:
        n_lessons = values["line search ends"](rewards)
    return float(rewards[(n_lessons if is_end else min(n_lessons, values["3rd round"])) - 1])


def part(surveyed: Survey, reading: Reading, column: str) -> tuple[Cell, ...]:
    """The nine cells of a column under one reading; none where the rows do not have all."""
    return surveyed.get((column, tuple(reading.get(name, "") for name in NEEDS[column])), ())


def under(surveyed: Survey, reading: Reading) -> list[Cell]:
    """The 63 cells under one reading; none where the rows do not have all."""
    parts = [part(surveyed, reading, column) for column in NEEDS]
    return list(chain.from_iterable(parts)) if all(parts) else []


def best(surveyed: Survey) -> tuple[Reading, int]:
    """The joint reading under which most means agree, then most spreads, and how many readings were compared."""
    scores = {place: _tally(cells)[:2] for place, cells in surveyed.items()}
    compared = dict[Labels, tuple[int, ...]]()
    for labels in product(*CHOICES.values()):
        reading = dict(zip(CHOICES, labels, strict=True))
        counts = [scores.get((column, tuple(reading[name] for name in needs))) for column, needs in NEEDS.items()]
        if None not in counts:
            compared[labels] = tuple(map(sum, zip(*filter(None, counts), strict=True)))
    most = max(compared, key=lambda labels: compared[labels], default=())
    return dict(zip(CHOICES, most, strict=False)), len(compared)


def cells(rows: Rows, n_worlds: int) -> tuple[list[Cell], list[Grid]]:
    """The tables inside Figures 3, 4 and 5: under the joint reading, and with the exact learner and our teachers.

    Beside them the joint reading: what it chooses, what each other value changes, every printed number; and with twenty
    worlds and more, the same reading on each further ten worlds.
    """
    surveyed = survey(rows, min(n_worlds, N_WORLDS))
    reading, n_compared = best(surveyed)
    joint, ours = under(surveyed, reading), [replace(cell, printed=None) for cell in under(surveyed, OURS)]
    if not joint:
        return [], []
    means, spreads, both = _tally(joint)
    title = f"of {n_compared} compared: {means} of {len(joint)} means agree, {spreads} spreads, {both} both"
    title = f"Sec. 6.2: the joint reading with the most agreement, {title}"
    choices = ("choice", "value", "numbers", "means", "spreads", "both", "gained", "lost")
    chosen = Grid(title, choices, tuple(_choices(surveyed, reading)))
    columns = ("printed number", "paper", "ours", "mean", "spread", "readings that agree", "with one other choice")
    numbers = Grid("Sec. 6.2: every printed number", columns, tuple(_numbers(surveyed, reading)))
    batches = []
    for size, batch in product(SIZES, range(n_worlds // N_WORLDS)):
        same = under(survey(rows, N_WORLDS, (size,), batch), reading)
        worlds = worlds_in("reachable", size, N_WORLDS * (batch + 1))[N_WORLDS * batch :]
        if same:
            batches.append((f"{size}x{size}", f"{worlds[0].seed} to {worlds[-1].seed}", *map(str, _tally(same))))
    sizes = ("size", "worlds", "means", "spreads", "both")
    every = [
        replace(cell, where={**cell.where, "reading": name})
        for name, several in {"joint reading": joint, "exact projection, our teachers": ours}.items()
        for cell in sorted(several, key=lambda cell: cell.where["size"])
    ]
    return every, [chosen, numbers, Grid("Sec. 6.2: the same reading on other worlds", sizes, tuple(batches))]


def _tally(cells: Sequence[Cell]) -> tuple[int, int, int]:
    """How many means agree, how many spreads, and how many of both."""
    means, spreads = [cell.verdict == "agrees" for cell in cells], [cell.spread == "agrees" for cell in cells]
    return sum(means), sum(spreads), sum(map(min, means, spreads))


def _choices(surveyed: Survey, reading: Reading) -> Iterator[tuple[str, ...]]:
    """Each value of each choice, the others as in the reading; compared are the numbers whose rows are there."""
    for name, label in ((name, label) for name, values in CHOICES.items() for label in values):
        parts = [[part(surveyed, each, column) for each in (reading, {**reading, name: label})] for column in NEEDS]
        pairs = [pair for before, after in parts for pair in zip(before, after, strict=False)]
        agree = [(now.verdict == "agrees", then.verdict == "agrees") for now, then in pairs]
        counts = (*_tally([then for _, then in pairs]), agree.count((False, True)), agree.count((True, False)))
        yield name, f"{label} (chosen)" if reading[name] == label else label, *map(str, (len(pairs), *counts))


def _numbers(surveyed: Survey, reading: Reading) -> Iterator[tuple[str, ...]]:
    """Each printed number beside ours; where its mean differs, the single choices with which it would agree."""
    for column, needs in NEEDS.items():
        every = [cells for (name, _), cells in surveyed.items() if name == column]
        others = [(n, v) for n in needs for v in CHOICES[n] if v != reading[n]]
        single = {f"{n}: {value}": part(surveyed, {**reading, n: value}, column) for n, value in others}
        for place, cell in enumerate(part(surveyed, reading, column)):
            near = [change for change, cells in single.items() if cells and cells[place].verdict == "agrees"]
            printed, size = cell.printed, cell.where["size"]
            yield (
                f"{cell.learner}, {size}x{size}, {cell.teacher}",
                f"{printed.mean:.2f} ±{printed.deviation:.2f}" if printed else "",
                f"{cell.estimate.mean:.2f} ±{cell.estimate.error:.2f}",
                cell.verdict,
                cell.spread,
                f"{sum(cells[place].verdict == 'agrees' for cells in every)} of {len(every)}",
                "" if cell.verdict == "agrees" else "; ".join(near) or "none",
            )
