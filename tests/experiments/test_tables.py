"""Rows into cells: the mean, both deviations, the paper's numbers, and the verdict. No algorithm runs here."""

import json
import math
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tutelage.experiments import settings, tables
from tutelage.experiments.report import overview
from tutelage.experiments.store import Row
from tutelage.experiments.tables import Cell, Printed, printed_known, printed_unknown


def made_up(tasks):
    """Rows as if every learner earned, round by round, a number that tells where it comes from."""
    rows = {}
    for task in tasks:
        rewards = (
            [1.0, 2.0, 3.0, 4.0 + task.world.seed / 100] if task.teacher.max_rounds > 1 else [task.world.seed / 10]
        )
        result = {"reward": rewards[-1], "learner_rewards": rewards, "lesson_rewards": rewards, "weights": [0.0] * 3}
        result["distances"] = [6.0, 0.3, 0.15, 0.12][: len(rewards)]
        rows[task.key] = Row(task.key, task.settings, json.dumps(result), "1.0", "abc")
    return rows


ONE = Printed(1.0, 0.1)


def cell(rewards, printed=ONE, tolerance=0.011):
    return Cell({"C_r": 5, "C_c": 10}, "L2", "bilevel", tuple(rewards), 0, printed, tolerance)


def test_both_deviations():
    """Of 0, 1, 2: variance 1 with two degrees of freedom, 2/3 with three."""
    found = cell([0.0, 1.0, 2.0])
    assert found.mean == 1.0
    assert found.standard_error == pytest.approx(1 / math.sqrt(3))
    assert found.as_printed == pytest.approx(math.sqrt(2 / 3) / 3)


@pytest.mark.parametrize(
    ("mean", "verdict"), [(1.0, "agrees"), (1.0109, "agrees"), (0.9891, "agrees"), (1.02, "better"), (0.98, "differs")]
)
def test_verdicts(mean, verdict):
    assert cell([mean]).verdict == verdict


def test_what_the_paper_does_not_print_has_no_verdict_and_no_number():
    found = cell([1.0], printed=None).as_data()
    assert found["printed"] is None and found["difference"] is None and "verdict" not in found
    assert found["standard_error"] is None


def test_table_1_averages_its_own_rows():
    found = list(tables.table_1(made_up(settings.table_1()), 10))
    assert len(found) == (6 + 1) * 4 * 5
    assert {cell.mean for cell in found} == {np.mean(np.arange(10) / 10)}
    assert sum(cell.printed is not None for cell in found) == (6 + 1) * 3 * 5
    first, text = found[0].as_data(), found[-1]
    assert {"C_r": 5, "C_c": 10, "learner": "L1", "teacher": "agnostic", "printed": 7.99}.items() <= first.items()
    # Other worlds: two errors, where the printed deviation is std / 10 and not std / sqrt(10).
    assert found[0].tolerance == tables.SAME_WORLDS and text.where["worlds"] == "text"
    assert text.tolerance == pytest.approx(2 * math.hypot(text.standard_error, 0.07 * math.sqrt(10)))


def test_adaptive_columns_show_the_third_lesson_the_fourth_and_the_end():
    """As printed, the end is at the limit of rounds, or where the distance is at most 0.1 (never here), 0.15 or 0.2."""
    found = list(tables.unknown(made_up(settings.unknown()), 10))
    assert len(found) == 3 * (7 * 2 * (3 + 3 + 4 + 6) + 3 * 3 + 3 * 3)
    by_column = {(cell.teacher, cell.where["worlds"], cell.where["size"], cell.where["model"]): cell for cell in found}
    shown = {
        column: by_column[f"volume_search_printed{column}", "seeds", 10, "footnote"].mean
        for column in ("_round_3", "_round_4", "_end", "_end_0.1", "_end_0.15", "_end_0.2")
    }
    assert shown == pytest.approx(
        {"_round_3": 3.0, "_round_4": 4.045, "_end": 4.045, "_end_0.1": 4.045, "_end_0.15": 3.0, "_end_0.2": 3.0}
    )
    assert by_column["line_search_end", "seeds", 10, "hard"].mean == pytest.approx(4.045)
    assert by_column["agnostic", "seeds", 20, "footnote"].mean == pytest.approx(0.45)


def test_slow_columns_are_shown_where_the_rows_have_all_their_worlds():
    quick, slow = made_up(settings.unknown(2)), made_up(settings.unknown_slow(2))
    columns = {(cell.teacher, cell.where["model"]) for cell in tables.unknown(quick | slow, 2)}
    slow.popitem()
    fewer = list(tables.unknown(quick | slow, 2))
    assert ("line_search_printed_round_4", "footnote_published") in columns
    assert ("line_search_printed_round_4", "footnote_published") not in {
        (cell.teacher, cell.where["model"]) for cell in tables.unknown(quick, 2)
    }
    assert len(fewer) == len(list(tables.unknown(quick | made_up(settings.unknown_slow(2)), 2))) - 1


def test_every_printed_number_has_its_readings():
    entries = tables.by_entry(tables.unknown(made_up(settings.unknown()), 10))
    assert len(entries) == 63
    assert {cell.printed for cell in entries["L2", "volume_search_round_3", 10]} == {Printed(7.5, 0.14)}
    assert {cell.teacher for cell in entries["L2", "volume_search_end", 15]} == {
        "volume_search_end",
        "volume_search_printed_end",
        "volume_search_printed_end_0.1",
        "volume_search_printed_end_0.15",
        "volume_search_printed_end_0.2",
    }


def test_a_higher_mean_is_better_only_where_the_print_has_the_same_learner_and_round():
    """Every reward is made up, so that few agree; the print's learner is footnote 1's."""
    verdicts = {(cell.is_same, cell.verdict) for cell in tables.unknown(made_up(settings.unknown()), 10)}
    assert {verdict for is_same, verdict in verdicts if not is_same} <= {"agrees", "other"}
    assert {verdict for is_same, verdict in verdicts if is_same} <= {"agrees", "better", "differs"}
    other = ("_round_3", "_rising", "_printed_end", "_end_0.1", "_end_0.2")
    for cell in tables.unknown(made_up(settings.unknown()), 10):
        assert cell.is_same == (cell.where["model"] != "hard" and not cell.teacher.endswith(other))


def test_a_reading_that_ends_before_a_loss():
    rounds = {"learner_rewards": [5.0, 6.0, 6.0, 5.5, 7.0]}
    assert [replace(tables.RISING, at=at).reward(rounds) for at in (1, 2, 4, 0)] == [5.0, 6.0, 6.0, 6.0]
    assert tables.RISING.reward({"learner_rewards": [1.0, 2.0, 3.0, 4.0, 5.0]}) == 4.0


def test_rounds_that_end_before_the_third_count_with_their_last():
    tasks = list(settings.unknown(1))
    rows = made_up(tasks)
    for task in tasks:
        short = {"reward": 7.0, "learner_rewards": [7.0], "lesson_rewards": [7.0], "distances": [1.0], "weights": []}
        rows[task.key] = Row(task.key, "", json.dumps(short), "", "")
    assert {cell.mean for cell in tables.unknown(rows, 1)} == {7.0}


def test_refused_worlds_are_counted_and_not_averaged():
    tasks = list(settings.table_1(2))
    rows = made_up(tasks)
    for task in tasks:
        if task.world.seed == 0:
            rows[task.key] = Row(task.key, "", '{"refused": "no policy"}', "", "")
    found = next(tables.table_1(rows, 2))
    assert found.mean == 0.1 and found.n_refused == 1 and found.as_data()["n_worlds"] == 1
    entry = overview([found])[0].body[0][1]
    assert "[1 of 2 worlds]" in entry, "a mean over fewer worlds than its neighbours says so"
    assert "worlds]" not in overview([replace(found, n_refused=0)])[0].body[0][1]


def test_other_worlds_agree_within_two_standard_errors_of_the_difference():
    """Ours of 0.3 and the print's of 0.4 make 0.5 together."""
    rewards = (7.0 - 0.3, 7.0 + 0.3)
    assert tables.two_errors(rewards, Printed(7.0, 0.4)) == pytest.approx(2 * 0.5)
    assert tables.two_errors((7.0, 7.0), Printed(7.0, 0.01)) == tables.OTHER_WORLDS
    assert tables.two_errors((7.0,), Printed(7.0, 0.4)) == tables.OTHER_WORLDS


# Of the numbers as JSON with sorted keys, when they were last compared with the LaTeX source of the paper's tables.
CHECKSUM = "a6d0565ea57abe8ad07654cc7fae86f6b963c4bcade2d7a2c1fd1a1bf369e9a5"


def test_the_shipped_numbers_are_the_paper_s():
    """Table 1's row and one of the appendix's, read from the paper; and no number has changed since all were read."""
    assert printed_known(5.0, 10.0, "bilevel", "L3") == Printed(4.86, 0.30)
    assert printed_unknown("L2", "line_search_end", 20) == Printed(7.29, 0.06)
    shipped = json.loads(Path(settings.__file__).with_name("printed.json").read_text())
    assert sha256(json.dumps(shipped, sort_keys=True).encode()).hexdigest() == CHECKSUM
