"""Rows into cells: the mean, both deviations, the paper's numbers, and the verdict. No algorithm runs here."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tutelage.experiments import settings, tables
from tutelage.experiments.printed import Printed, printed_known, printed_unknown
from tutelage.experiments.store import Row
from tutelage.experiments.tables import Cell


def made_up(tasks):
    """Rows as if every learner earned, round by round, a number that tells where it comes from."""
    rows = {}
    for task in tasks:
        rewards = (
            [1.0, 2.0, 3.0, 4.0 + task.world.seed / 100] if task.teacher.max_rounds > 1 else [task.world.seed / 10]
        )
        result = {"reward": rewards[-1], "learner_rewards": rewards, "lesson_rewards": rewards, "weights": [0.0] * 3}
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
    assert len(found) == 6 * 4 * 5
    assert {cell.mean for cell in found} == {np.mean(np.arange(10) / 10)}
    assert sum(cell.printed is not None for cell in found) == 6 * 3 * 5
    first = found[0].as_data()
    assert {"C_r": 5, "C_c": 10, "learner": "L1", "teacher": "agnostic", "printed": 7.99}.items() <= first.items()


def test_table_2_looks_after_the_third_round_and_at_the_end():
    found = list(tables.table_2(made_up(settings.table_2()), 10))
    assert len(found) == 2 * (3 * 2 * 7 * 3 + 3 * 3)
    by_column = {(cell.teacher, cell.where["worlds"], cell.where["size"]): cell for cell in found}
    assert by_column["volume_search_round_3", "seeds", 10].mean == 3.0
    assert by_column["line_search_end", "seeds", 10].mean == pytest.approx(4.045)
    assert by_column["agnostic", "seeds", 20].mean == pytest.approx(0.45)


def test_rounds_that_end_before_the_third_count_with_their_last():
    tasks = list(settings.table_2(1))
    rows = made_up(tasks)
    for task in tasks:
        short = {"reward": 7.0, "learner_rewards": [7.0], "lesson_rewards": [7.0], "weights": []}
        rows[task.key] = Row(task.key, "", json.dumps(short), "", "")
    assert {cell.mean for cell in tables.table_2(rows, 1)} == {7.0}


def test_refused_worlds_are_counted_and_not_averaged():
    tasks = list(settings.table_1(2))
    rows = made_up(tasks)
    for task in tasks:
        if task.world.seed == 0:
            rows[task.key] = Row(task.key, "", '{"refused": "no policy"}', "", "")
    found = next(tables.table_1(rows, 2))
    assert found.mean == 0.1 and found.n_refused == 1 and found.as_data()["n_worlds"] == 1


def test_other_worlds_agree_within_two_standard_errors_of_the_difference():
    """Ours of 0.3 and the print's of 0.4 make 0.5 together."""
    rewards = (7.0 - 0.3, 7.0 + 0.3)
    assert tables.two_errors(rewards, Printed(7.0, 0.4)) == pytest.approx(2 * 0.5)
    assert tables.two_errors((7.0, 7.0), Printed(7.0, 0.01)) == tables.OTHER_WORLDS
    assert tables.two_errors((7.0,), Printed(7.0, 0.4)) == tables.OTHER_WORLDS


def test_the_shipped_numbers_are_the_paper_s():
    """Against the LaTeX source, where it lies beside the project: Table 1's row and one of the appendix's."""
    assert printed_known(5.0, 10.0, "bilevel", "L3") == Printed(4.86, 0.30)
    assert printed_unknown("L2", "line_search_end", 20) == Printed(7.29, 0.06)
    source = Path(__file__).parents[3] / "shared" / "paper" / "tables.json"
    if source.exists():
        shipped = Path(settings.__file__).with_name("printed.json")
        assert json.loads(shipped.read_text()) == json.loads(source.read_text())
