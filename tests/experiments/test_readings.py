"""The joint reading: found where one was planted, compared exactly, and every printed number has its two verdicts."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tutelage.experiments import readings, settings
from tutelage.experiments.readings import CHOICES, NEEDS, best, survey, under
from tutelage.experiments.settings import SIZES, UNKNOWN_LEARNERS, Task
from tutelage.experiments.store import Row
from tutelage.experiments.tables import printed_unknown
from tutelage.experiments.worlds import worlds_in

# The planted reading. Its published learner has the printed rewards; every other learner has others.
PLANTED = {
    "worlds": "reachable",
    "learner of one lesson": "footnote 1, 1000 steps",
    "learner in rounds": "footnote 1, 300 steps",
    "3rd round": "i = 3, the fourth",
    "volume search": "as printed",
    "eps": "0.15",
    "pushes": "exact",
    "line search ends": "before a loss",
}
# Ten worlds with mean zero and a standard error of one.
SPREAD = np.linspace(-1, 1, 10) / np.std(np.linspace(-1, 1, 10), ddof=1) * np.sqrt(10)


def outcome(task, place):
    """Rounds in which only the planted lesson has the printed reward; of another learner, none has."""
    steps, name, size = (
        dict(task.model.options).get("max_steps", 0),
        task.teacher.name.removesuffix("_printed"),
        task.world.size,
    )

    def printed(column):
        entry = printed_unknown(task.learner, column, size)
        return entry.mean + entry.deviation * SPREAD[place]

    if task.teacher.max_rounds == 1:
        rewards = [printed(name) if steps == 1000 else 100.0]
    elif steps != 300:
        rewards = [100.0] * 25
    elif name == "volume_search":
        rewards = [100.0, 100.0, 100.0, printed("volume_search_round_3"), printed("volume_search_end"), 100.0]
    else:
        # It rises to the end, and then there is a loss.
        third, end = printed("line_search_round_3"), printed("line_search_end")
        rewards = [third - 3, third - 2, third - 1, third, end, -100.0] if end >= third else [end, -100.0, -100.0]
    return {"learner_rewards": rewards, "distances": [9.0, 8.0, 7.0, 6.0, 0.15, 0.04, *[0.3] * 20][: len(rewards)]}


def planted_rows(n_worlds=10):
    rows = {}
    taught = product(
        (settings.FOOTNOTE, *settings.PUBLISHED), (*settings.KNOWING, settings.VOLUME_PRINTED, settings.LINE)
    )
    for (model, teacher), size, learner in product(taught, SIZES, UNKNOWN_LEARNERS):
        for place, world in enumerate(worlds_in("reachable", size, n_worlds)):
            task = Task(world, learner, model, teacher)
            rows[task.key] = Row(task.key, "", json.dumps(outcome(task, place % 10)), "", "")
    return rows


@pytest.fixture(scope="module")
def rows():
    return planted_rows()


def test_the_planted_reading_is_the_best_and_agrees_in_means_and_spreads(rows):
    found = survey(rows)
    reading, n_compared = best(found)
    assert reading == PLANTED
    # Five learners, for one lesson and in rounds; two rounds, seven eps, six ends.
    assert n_compared == 5 * 5 * 2 * 7 * 6
    cells = under(found, reading)
    assert len(cells) == 63
    assert {cell.verdict for cell in cells} == {cell.spread for cell in cells} == {"agrees"}
    assert [(cell.learner, cell.teacher, cell.where["size"]) for cell in cells] == [
        (learner, column, size) for column in NEEDS for size in SIZES for learner in UNKNOWN_LEARNERS
    ]


def test_no_reading_is_better_than_the_best(rows):
    """Every combination by itself, without the tables of scores."""
    found = survey(rows)
    most = -1
    for labels in product(*(list(values) for values in CHOICES.values())):
        reading = dict(zip(CHOICES, labels, strict=True))
        if reading["learner in rounds"] == PLANTED["learner in rounds"] and (cells := under(found, reading)):
            most = max(most, sum(cell.verdict == "agrees" for cell in cells))
    assert most == sum(cell.verdict == "agrees" for cell in under(found, best(found)[0]))


def test_a_choice_changes_only_the_columns_that_depend_on_it(rows):
    found = survey(rows)
    before = under(found, PLANTED)
    for name, values in CHOICES.items():
        for label in values:
            after = under(found, PLANTED | {name: label})
            changed = (
                {old.teacher for old, new in zip(before, after, strict=True) if old.rewards != new.rewards}
                if after
                else set()
            )
            assert changed <= {column for column, needs in NEEDS.items() if name in needs}


def test_the_tables_say_what_each_choice_changes_and_name_every_number(rows):
    _, (choices, numbers, batches) = readings.cells(rows, 10)
    assert "of 2100 compared" in choices.caption and "63 of 63 means agree" in choices.caption
    body = {(name, value): counts for name, value, *counts in choices.body}
    assert len(body) == sum(map(len, CHOICES.values()))
    chosen = {name: value.removesuffix(" (chosen)") for name, value in body if value.endswith("(chosen)")}
    assert chosen == PLANTED
    # Without the published learner the 27 numbers of one lesson are lost, and none is gained.
    assert body["learner of one lesson", "footnote 1, exactly"][-2:] == ["0", "27"]
    # There are no such rows: line search is not compared.
    assert body["pushes", "Algorithm 2, at most 4"] == ["45", "45", "45", "45", "0", "0"]
    assert len(numbers.body) == 63 and {row[4] for row in numbers.body} >= {"agrees"}
    assert [row[0] for row in batches.body] == ["10x10", "15x15", "20x20"]


def test_a_number_that_agrees_with_another_value_only_is_named(rows):
    changed = dict(rows)
    for world in worlds_in("reachable", 10, 10):
        key = Task(world, "L2", settings.PUBLISHED[3], settings.AGNOSTIC).key
        other = Task(world, "L2", settings.PUBLISHED[1], settings.AGNOSTIC).key
        changed[other], changed[key] = replace(rows[key], key=other), replace(rows[other], key=key)
    numbers = {row[0]: row for row in readings.cells(changed, 10)[1][1].body}
    row = numbers["L2, 10x10, agnostic"]
    assert row[3] == "better" and row[6] == "learner of one lesson: footnote 1, 300 steps"
    assert row[5] == "1 of 5"


def test_few_worlds_have_a_reading_and_missing_rows_have_none(rows):
    assert len(readings.cells(rows, 3)[0]) == 63
    assert best(survey({}))[0] == {} and readings.cells({}, 10) == ([], [])
