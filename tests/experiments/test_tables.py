"""Rows into cells: the mean, both deviations, the paper's numbers, and the verdict. No algorithm runs here."""

import json
import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tutelage.experiments import settings, tables
from tutelage.experiments.store import Row
from tutelage.experiments.tables import Cell, Printed, overview, printed_known, printed_unknown


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


TABLE_1 = {"worlds": "seeds", "C_r": 5, "C_c": 10}


def cell(rewards, printed=ONE, where=TABLE_1):
    return Cell(where, "L2", "bilevel", tuple(rewards), 0, printed)


def test_the_teachers_are_similar_for_more_penalties_than_appendix_b_1_says():
    """It says "only for C_r = 10, C_c = 1"; its own table has L2 at (10, 5) at 8.14 and 8.13, and L1 everywhere."""
    similar = set()
    for penalties, learner in product(settings.PENALTIES, settings.LEARNERS):
        aware, agnostic = (printed_known(*penalties, name, learner).mean for name in ("bilevel", "agnostic"))
        if agnostic > 0.1 and abs(aware / agnostic - 1) < 0.05:
            similar.add((*penalties, learner))
    elsewhere = {place for place in similar if place[:2] != (10.0, 1.0)}
    assert elsewhere == {(10.0, 5.0, "L2"), *((*p, "L1") for p in settings.PENALTIES if p != (10.0, 1.0))}


def test_both_deviations():
    """Of 0, 1, 2: variance 1 with two degrees of freedom, 2/3 with three."""
    found = cell([0.0, 1.0, 2.0])
    assert found.estimate.mean == 1.0
    assert found.estimate.error == pytest.approx(1 / math.sqrt(3))
    assert found.as_data()["as_printed"] == pytest.approx(math.sqrt(2 / 3) / 3)


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
    rows = made_up(task for cell in tables.table_1() for task in cell.tasks)
    found = [cell.computed(rows) for cell in tables.table_1()]
    assert len(found) == (6 + 1) * 4 * 5
    assert {cell.estimate.mean for cell in found} == {np.mean(np.arange(10) / 10)}
    assert sum(cell.printed is not None for cell in found) == (6 + 1) * 3 * 5
    first, text = found[0].as_data(), found[-1]
    assert {"C_r": 5, "C_c": 10, "learner": "L1", "teacher": "agnostic", "printed": 7.99}.items() <= first.items()
    # Other worlds: two errors, where the printed deviation is std / 10 and not std / sqrt(10).
    assert found[0].tolerance == tables.SAME_WORLDS and text.where["worlds"] == "text"
    assert text.tolerance == pytest.approx(2 * math.hypot(text.estimate.error, 0.07 * math.sqrt(10)))


def test_refused_worlds_are_counted_and_not_averaged():
    first = next(tables.table_1(2))
    tasks = first.tasks
    rows = made_up(tasks)
    for task in tasks:
        if task.world.seed == 0:
            rows[task.key] = Row(task.key, "", '{"refused": "no policy"}', "", "")
    found = first.computed(rows)
    assert found.estimate.mean == 0.1 and found.n_refused == 1 and found.as_data()["n_worlds"] == 1
    entry = overview([found])[0].body[0][1]
    assert "[1 of 2 worlds]" in entry, "a mean over fewer worlds than its neighbours says so"
    assert "worlds]" not in overview([replace(found, n_refused=0)])[0].body[0][1]


def test_other_worlds_agree_within_two_standard_errors_of_the_difference():
    """Ours of 0.3 and the print's of 0.4 make 0.5 together."""
    where, rewards = {"worlds": "reachable", "size": 10}, (7.0 - 0.3, 7.0 + 0.3)
    assert cell(rewards, Printed(7.0, 0.4), where).tolerance == pytest.approx(2 * 0.5)
    assert cell((7.0, 7.0), Printed(7.0, 0.01), where).tolerance == tables.OTHER_WORLDS
    assert cell((7.0,), Printed(7.0, 0.4), where).tolerance == tables.OTHER_WORLDS


def test_spreads_agree_as_an_f_test_of_variances_does():
    """Of ten worlds each, at 0.05: variances differ by a factor of up to 4.03; a printed deviation is rounded."""
    worlds = np.linspace(-1, 1, 10) / np.std(np.linspace(-1, 1, 10), ddof=1) * math.sqrt(10)
    for factor, spread in {0.45: "narrower", 0.52: "agrees", 1.0: "agrees", 1.98: "agrees", 2.1: "wider"}.items():
        assert cell(factor * worlds, Printed(0.0, 1.0)).spread == spread
    # 0.01 may be 0.005 to 0.015: nothing is narrower than that by a factor of two, and 0.03 is not wider.
    assert {cell(f * worlds, Printed(0.0, 0.01)).spread for f in (0.003, 0.01, 0.03)} == {"agrees"}
    assert cell(0.031 * worlds, Printed(0.0, 0.01)).spread == "wider"
    assert cell([1.0]).spread == ""


# The rows of the paper's tables, copied from its LaTeX source: Figure 3, Table 2, Figures 4 and 5.
ROWS = (Path(__file__).with_name("printed_rows.tex")).read_text(encoding="utf-8").splitlines()
COLUMNS = {"AwareCMDP": "aware_cmdp", "Agn": "agnostic", "Con": "conservative", "AwareBiLevel": "bilevel"}
COLUMNS |= {"AdAwareGreedy": "volume_search", "AdAwareLine": "line_search"}


def test_the_shipped_numbers_are_the_paper_s():
    """All 60 entries of Tables 1 and 2 and all 63 of Figures 3 to 5, against the LaTeX source of the paper."""
    learners, learner, penalties, n_entries = iter(("L2", "L1", "L3")), "", (0.0, 0.0), 0
    for row in ROWS:
        if given := re.match(r"\$C_r=(\d+), C_c=(\d+)", row):
            penalties = float(given[1]), float(given[2])
            continue
        name, suffix = re.search(r"\\alg(\w+)", row)[1], "_round_3" if "rd" in row else "_end" * ("(end)" in row)
        entries = [Printed(float(a), float(b)) for a, b in re.findall(r"\$\s*([\d.]+)\s*\\pm\s*([\d.]+)", row)]
        if len(entries) == 5:
            shipped = [printed_known(*penalties, COLUMNS[name], f"L{n}") for n in range(1, 6)]
        else:
            learner = next(learners) if name == "AwareCMDP" else learner
            shipped = [printed_unknown(learner, COLUMNS[name] + suffix, size) for size in settings.SIZES]
        assert shipped == entries, row
        n_entries += len(entries)
    assert n_entries == 60 + 63
