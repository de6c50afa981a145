"""`tutelage demo`: its tables and its picture show what aware teaching earns."""

import pytest
from cli_support import printed, shown

from tutelage.experiments import run

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
