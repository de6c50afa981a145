"""Sec. 6.2 under one joint reading: a value for each choice that the paper leaves open, with which most means agree."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product
from typing import Any

from tutelage.experiments import settings
from tutelage.experiments.settings import N_WORLDS, SIZES, UNKNOWN_LEARNERS, tasks_in
from tutelage.experiments.tables import Cell, Grid, Outcome, Rows, printed_unknown
from tutelage.experiments.worlds import worlds_in


def _every_lesson(result: Outcome) -> int:
    return len(result["learner_rewards"])


def _before_a_loss(result: Outcome) -> int:
    """The number of lessons before the first one that earns less than the one before it."""
    rewards = result["learner_rewards"]
    return next((n for n, (now, then) in enumerate(pairwise(rewards), 1) if then < now), len(rewards))


def _within(eps: float, result: Outcome) -> int:
    distances = result["distances"]
    return next((n for n, distance in enumerate(distances, 1) if distance <= eps), len(distances))


# What Sec. 6.2 leaves open, and the values tried. Where rounds end, a value gives the number of lessons of a result.
MODELS = {"footnote 1, exactly": settings.FOOTNOTE, "exact projection": settings.EXACT}
MODELS |= {f"footnote 1, {n} steps": model for n, model in zip(settings.STEPS, settings.PUBLISHED, strict=True)}
CHOICES: dict[str, dict[str, Any]] = {
    "worlds": {"reachable": "reachable", "seeds 0 to 9": "seeds"},
    "learner of one lesson": MODELS,
    "learner in rounds": MODELS,
    "3rd round": {"the third lesson": 3, "i = 3, the fourth": 4},
    "volume search": {"as printed": settings.VOLUME_PRINTED, "ours": settings.VOLUME},
    "eps": {f"{eps:g}": partial(_within, eps) for eps in (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)},
    "pushes": {"exact": settings.LINE}
    | {f"Algorithm 2, at most {dict(teacher.options)['longest_push']:g}": teacher for teacher in settings.LINE_PRINTED},
    "line search ends": {"with its best lesson again": _every_lesson, "before a loss": _before_a_loss}
    | {f"after {n} lessons": lambda _, n=n: n for n in (6, 9, 12, 20)},
}
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
Reading = Mapping[str, str]
Labels = tuple[str, ...]
# By column and the labels of what it needs: its nine cells, where the rows have all of their worlds.
Survey = Mapping[tuple[str, Labels], tuple[Cell, ...]]


def survey(rows: Rows, n_worlds: int = N_WORLDS, sizes: Sequence[int] = SIZES, batch: int = 0) -> Survey:
    """Every printed column under every reading that the rows have. batch: which n_worlds worlds, counted from zero."""
    knowing = {teacher.name: teacher for teacher in settings.KNOWING}

    @cache
    def results(worlds: str, size: int, *taught: Any) -> list[Outcome] | None:
        keys = [task.key for task in tasks_in(worlds, size, n_worlds * (batch + 1), *taught)[n_worlds * batch :]]
        return [rows[key].outcome for key in keys] if all(key in rows for key in keys) else None

    def cells(column: str, labels: Labels) -> tuple[Cell, ...]:
        values = {name: CHOICES[name][label] for name, label in zip(NEEDS[column], labels, strict=True)}
        worlds = values["worlds"]
        model = values.get("learner in rounds") or values["learner of one lesson"]
        teacher = values.get("pushes") or values.get("volume search") or knowing[column]
        ends = values.get("eps") or values.get("line search ends") or _every_lesson
        last = values.get("3rd round", math.inf)
        if column == "line_search_end" and teacher.max_rounds == settings.FEW_ROUNDS:
            return ()
        several = []
        for size, learner in product(sizes, UNKNOWN_LEARNERS):
            found = results(worlds, size, learner, model, teacher)
            if found is None:
                return ()
            printed = printed_unknown(learner, column, size)
            cell = Cell({"worlds": worlds, "size": size}, learner, column, printed=printed)
            several.append(cell.measured(found, lambda result: min(ends(result), last)))
        return tuple(several)

    places = [(column, labels) for column in NEEDS for labels in product(*(CHOICES[name] for name in NEEDS[column]))]
    return {place: several for place in places if (several := cells(*place))}


def place_of(column: str, reading: Reading) -> tuple[str, Labels]:
    return column, tuple(reading[name] for name in NEEDS[column])


def under(surveyed: Survey, reading: Reading) -> list[Cell]:
    """The 63 cells under one reading; none where the rows do not have all."""
    parts = [surveyed.get(place_of(column, reading), ()) for column in NEEDS]
    return [cell for cells in parts for cell in cells] if all(parts) else []


def best(surveyed: Survey) -> tuple[Reading, int]:
    """The joint reading under which most means agree, then most spreads, and how many readings were compared."""
    scores = {place: _tally(cells) for place, cells in surveyed.items()}
    totals = {}
    for labels in product(*CHOICES.values()):
        reading = dict(zip(CHOICES, labels, strict=True))
        found = [scores.get(place_of(column, reading)) for column in NEEDS]
        if None not in found:
            means, spreads, _ = zip(*filter(None, found), strict=True)
            totals[labels] = (sum(means), sum(spreads))
    most = max(totals, key=lambda labels: totals[labels], default=())
    return dict(zip(CHOICES, most, strict=False)), len(totals)


def cells(rows: Rows, n_worlds: int) -> tuple[list[Cell], list[Grid]]:
    """The tables inside Figures 3, 4 and 5 under the joint reading and under ours, and what the joint reading is."""
    surveyed = survey(rows, min(n_worlds, N_WORLDS))
    reading, n_compared = best(surveyed)
    if not reading:
        return [], []
    joint = under(surveyed, reading)
    ours = [replace(cell, printed=None) for cell in under(surveyed, OURS)]
    every = [
        replace(cell, where={**cell.where, "reading": name})
        for name, several in {"joint reading": joint, "exact projection, our teachers": ours}.items()
        for cell in sorted(several, key=lambda cell: cell.where["size"])
    ]
    batches = []
    for size, batch in product(SIZES, range(n_worlds // N_WORLDS)):
        same = under(survey(rows, N_WORLDS, (size,), batch), reading)
        if same:
            worlds = worlds_in("reachable", size, N_WORLDS * (batch + 1))[N_WORLDS * batch :]
            batches.append((f"{size}x{size}", f"{worlds[0].seed} to {worlds[-1].seed}", *map(str, _tally(same))))
    means, spreads, both = _tally(joint)
    counted = f"of {n_compared} compared: {means} of {len(joint)} means agree, {spreads} spreads, {both} both"
    title = f"Sec. 6.2: the joint reading with the most agreement, {counted}"
    choices = ("choice", "value", "numbers", "means", "spreads", "both", "gained", "lost")
    columns = ("printed number", "paper", "ours", "mean", "spread", "readings that agree", "with one other choice")
    sizes = ("size", "worlds", "means", "spreads", "both")
    return every, [
        Grid(title, choices, tuple(_choices(surveyed, reading))),
        Grid("Sec. 6.2: every printed number", columns, tuple(_numbers(surveyed, reading))),
        Grid("Sec. 6.2: the same reading on other worlds", sizes, tuple(batches)),
    ]


def _agrees(cell: Cell) -> bool:
    return cell.verdict == "agrees"


def _tally(cells: Sequence[Cell]) -> tuple[int, int, int]:
    """How many means agree, how many spreads, and how many of both."""
    spreads = [cell for cell in cells if cell.spread == "agrees"]
    return sum(map(_agrees, cells)), len(spreads), sum(map(_agrees, spreads))


def _choices(surveyed: Survey, reading: Reading) -> Iterator[tuple[str, ...]]:
    """Each value of each choice, the others as in the reading; compared are the numbers whose rows are there."""
    for name, label in ((name, label) for name, values in CHOICES.items() for label in values):
        places = [(place_of(column, reading), place_of(column, {**reading, name: label})) for column in NEEDS]
        pairs = [pair for before, now in places for pair in zip(surveyed[before], surveyed.get(now, ()), strict=False)]
        gained = sum(_agrees(now) and not _agrees(before) for before, now in pairs)
        lost = sum(_agrees(before) and not _agrees(now) for before, now in pairs)
        counts = (len(pairs), *_tally([now for _, now in pairs]), gained, lost)
        yield name, f"{label} (chosen)" if reading[name] == label else label, *map(str, counts)


def _numbers(surveyed: Survey, reading: Reading) -> Iterator[tuple[str, ...]]:
    """Each printed number beside ours; where its mean differs, the single choices with which it would agree."""
    for column, needs in NEEDS.items():
        every = [cells for (name, _), cells in surveyed.items() if name == column]
        others = [(name, label) for name in needs for label in CHOICES[name] if label != reading[name]]
        single = {f"{n}: {label}": surveyed.get(place_of(column, {**reading, n: label})) for n, label in others}
        for place, cell in enumerate(surveyed[place_of(column, reading)]):
            agree = [_agrees(cells[place]) for cells in every]
            near = [change for change, cells in single.items() if cells and _agrees(cells[place])]
            size = cell.where["size"]
            yield (
                f"{cell.learner}, {size}x{size}, {cell.teacher}",
                f"{cell.printed.mean:.2f} ±{cell.printed.deviation:.2f}" if cell.printed else "",
                f"{cell.estimate.mean:.2f} ±{cell.estimate.error:.2f}",
                cell.verdict,
                cell.spread,
                f"{sum(agree)} of {len(agree)}",
                "" if _agrees(cell) else "; ".join(near) or "none",
            )
