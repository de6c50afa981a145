"""`tutelage reproduce`: every file that it names is written, and an interrupted run says what is kept.

`tutelage demo`: its tables and its picture show what aware teaching earns.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import PROGRAM, printed, shown
from strategies import some_of

from tutelage.experiments import run
from tutelage.experiments.store import Store


@pytest.mark.parametrize("what", some_of(["table1", "figure5", "all"], ["table1", "figure5"]))
def test_reproducing_one_world_writes_what_it_says(what, tmp_path, monkeypatch):
    """The rows are invented, so nothing is computed: every file that is named is written."""
    from experiments.test_tables import made_up

    from tutelage.environments.placement import PREFERENCES
    from tutelage.experiments.settings import Task
    from tutelage.experiments.store import Row

    def compute_row(task: Task) -> Row:
        row = made_up([task])[task.key]
        weights = [1.0] * (3 + PREFERENCES[task.learner])
        return Row(row.key, row.detail, json.dumps(row.outcome | {"weights": weights}), "1.0", "abc")

    monkeypatch.setattr(run, "compute_row", compute_row)
    found = shown("reproduce", what, "--worlds", "1", "--jobs", "1", "--out", str(tmp_path))
    assert all(Path(path).stat().st_size for path in found["files"])
    names = {Path(path).name for path in found["files"]}
    if what == "table1":
        assert names == {"table1.json", "table1.md"}
        cells = [cell for cell in found["cells"] if cell["teacher"] == "bilevel"]
        assert {(cell["C_r"], cell["C_c"]) for cell in cells} == {(5, 10), (10, 10), (10, 5), (5, 5), (10, 1), (1, 10)}
        assert cells[2]["learner"] == "L3" and cells[2]["printed"] == 4.86
        assert {cell["worlds"] for cell in cells} == {"seeds", "text"}
    if what == "figure5":
        assert names == {"figure5.png", "figure5.svg"}
    if what == "all":
        assert {"report.html", "figure3-table.md", "figure3-table.json", "figure1.png", "figure7.svg"} <= names
        page = (tmp_path / "report.html").read_text()
        assert page.count("data:image/png;base64,") == 8 and "http" not in page
    assert len(Store(tmp_path / "results.sqlite").rows()) > 0


def test_a_run_interrupted_at_the_terminal_says_what_is_kept(tmp_path):
    """Ctrl-C after two rows: exit code 130, and in a pipe one sentence and no progress bar."""
    interrupted = """if True:
        import os, signal
        from tutelage.experiments.store import Store
        add = Store.add
        def then_interrupt(store, row):
            add(store, row)
            if len(store.rows()) == 2:
                os.kill(os.getpid(), signal.SIGINT)
        Store.add = then_interrupt
    """
    command = [sys.executable, "-c", interrupted + "\n" + PROGRAM, "reproduce", "figure2", "--jobs", "1"]
    ended = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 130 and ended.stdout == ""
    assert "2 of 10 rows are stored; run the same command again to continue" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert len(Store(tmp_path / "results.sqlite").rows()) == 2


LEARNERS = ["L1", "L2", "L3", "L4", "L5"]


def kept(work, done: dict):
    """The same function; every result is also stored in `done`."""

    def keeping(asked):
        done[asked] = work(asked)
        return done[asked]

    return keeping


@pytest.fixture(scope="module")
def performed():
    """The rows of the demo by their task, filled when the demo runs."""
    return {}


@pytest.fixture(scope="module")
def demo(tmp_path_factory, performed):
    """The JSON object of the demo, and the folder of its picture."""
    folder = tmp_path_factory.mktemp("demo")

    with pytest.MonkeyPatch.context() as patch:
        # A later test prints the same rows without computing them again.
        patch.setattr("tutelage.experiments.run.compute_row", kept(run.compute_row, performed))
        return shown("demo", "--picture", str(folder / "shown")), folder


def test_the_demo_draws_its_picture_and_shows_what_aware_teaching_earns(demo):
    """It says where the pictures are. Aware teaching is never worse than agnostic, nor better than its bound, and both
    adaptive teachers identify the learner. One test, because other processes would compute the demo again.
    """
    found, folder = demo
    assert found["pictures"] == [str(folder / "shown.png"), str(folder / "shown.svg")]
    assert (folder / "shown.png").read_bytes().startswith(b"\x89PNG") and (folder / "shown.svg").stat().st_size > 1000
    rows, rounds = found["rows"], found["rounds"]
    assert [row["learner"] for row in rows] == LEARNERS
    for row in rows:
        assert row["agnostic"] <= row["aware"] + 1e-6 <= row["bound"] + 2e-6
    assert all(row["aware"] > 100 * row["agnostic"] for row in rows[1:])
    best = rounds["aware_cmdp"]["reward"]
    assert rounds["agnostic"]["reward"] < 0.5 * best and rounds["conservative"]["reward"] < 0.5 * best
    for name in ("volume_search", "line_search"):
        assert best - 0.05 < rounds[name]["reward"] <= best + 1e-6
        assert rounds[name]["reward"] <= rounds[name]["bound"] + 1e-6


def test_the_demo_prints_a_row_for_each_learner_and_each_teacher(demo, performed, tmp_path, monkeypatch):
    """The tables have the rows of the JSON object."""
    monkeypatch.setattr("tutelage.experiments.run.compute_row", performed.__getitem__)
    text = printed("demo", "--picture", str(tmp_path / "again"))
    assert f"{demo[0]['rows'][2]['aware']:.3f}" in text
    rows = [line.split()[1] for line in text.splitlines() if line.startswith("│")]
    assert [name for name in rows if name in LEARNERS] == LEARNERS
    assert {"AdAware-Vol", "AdAware-Lin", "Conservative", "Agnostic", "Aware-CMDP"} <= set(rows)
