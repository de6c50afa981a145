"""`tutelage reproduce`: every file that it names is written, and an interrupted run says what is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import PROGRAM, shown
from strategies import some_of

from tutelage.experiments import run
from tutelage.experiments.store import Store


@pytest.mark.parametrize("what", some_of(["table1", "figure5", "all"], ["table1", "figure5"]))
def test_reproducing_one_world_writes_what_it_says(what, tmp_path, monkeypatch):
    """The rows are invented, so nothing is computed: every file that is named is written."""
    from experiments.test_tables import made_up

    from tutelage.environments.placement import PREFERENCES
    from tutelage.experiments.settings import Illustration, Task
    from tutelage.experiments.store import Row

    drawing = {"reachable": [[0, 0], [1, 0], [0, 1]], "feasible": [[0, 0], [0.2, 0], [0, 1]], "weights": [1, 0.9]}
    drawing |= {"points": {"optimal": [1, 0], "answered": [0.2, 0], "aware": [0, 1]}, "avoided": [False] * 37}
    drawing |= {"start": [0.1, 0.1], "lesson": [0.5, 0.46], "answer": [0.2, 0.4]}
    drawing |= {"cases": [{"start": [0, 0], "aim": [0.5, 0.45], "lesson": [0.5, 0.45], "is_realised": True}]}

    def compute_row(task: Task | Illustration) -> Row:
        if isinstance(task, Illustration):
            return Row(task.key, task.settings, json.dumps(drawing), "1.0", "abc")
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
