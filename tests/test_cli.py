"""The command line: its tables are consistent, `--json` prints one object, and every refusal is a sentence."""

import json
import os
import pty
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from strategies import some_of
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli import main
from tutelage.cli.app import make_app
from tutelage.experiments import run
from tutelage.experiments.store import Store

LEARNERS = ["L1", "L2", "L3", "L4", "L5"]
PROGRAM = "import sys; from tutelage.cli import main; sys.argv[0] = 'tutelage'; main()"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(make_app(), [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(*arguments: str) -> dict:
    """The JSON object that `--json` prints. Nothing else may be printed."""
    text = printed(*arguments, "--json")
    found, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    return found


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


TEACH = ("teach", "--world", "published:0:8", "--learner", "L2")


def test_teaching_by_the_command_line_is_teaching_in_python():
    found = shown(*TEACH, "--teacher", "bilevel", "--mismatch-penalty", "5", "--violation-penalty", "10")
    world = tl.object_world(size=8, seed=0)
    domain = world.domain("L2")
    plan = tl.BilevelTeacher(
        domain, world.true_weights, tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    ).plan()
    assert found["reward"] == pytest.approx(plan.achieved, abs=1e-9)
    assert found["bound"] == pytest.approx(plan.bound, abs=1e-9)
    assert len(found["learned_weights"]) == 3 + 2 and found["certificate"]["ended"] == "CONVERGED"
    assert found["rounds"][0]["lesson"] == pytest.approx(plan.lesson.expectation.tolist())


def test_rounds_are_kept_in_a_file_and_the_picture_is_drawn(tmp_path):
    kept, drawn = tmp_path / "rounds.npz", tmp_path / "taught"
    options = ("--model", "hard", "--allowance", "2.5", "--teacher", "volume-search")
    found = shown(*TEACH, *options, "--save", str(kept), "--picture", str(drawn))
    again = tl.load_transcript(kept, tl.object_world(size=8, seed=0).domain("L2"))
    assert [taught.response_reward for taught in again.rounds] == [taught["reward"] for taught in found["rounds"]]
    assert found["files"] == [f"{drawn}.png", f"{drawn}.svg"] and drawn.with_suffix(".png").exists()


def test_a_domain_from_a_file_is_taught(tmp_path):
    """L1 has no preference; without a name the learner has every preference of the domain."""
    domain = tl.object_world(size=8, seed=0).domain("L3")
    tl.save(domain, tmp_path / "own.npz")
    common = ("teach", "--domain", str(tmp_path / "own.npz"), "--weights", "1,0.9,0.2", "--model", "hard")
    careful = shown(*common, "--teacher", "aware-cmdp", "--allowance", "1")
    careless = shown(*common, "--teacher", "agnostic", "--learner", "L1")
    best = tl.best_policy(domain, np.array([1, 0.9, 0.2]), tl.preference_limits(domain, 1.0))
    assert careful["reward"] == pytest.approx(best.value, abs=1e-6)
    assert careless["reward"] > careful["reward"]
    assert list(careful["preference_expectation"]) == list(domain.preference_names)


def test_a_journey_is_taught_with_limits_by_name_and_its_arrival_is_printed(tmp_path):
    """Two ways to work, 5 km on main roads or 8 km on others, and a block to go round."""
    import networkx

    roads = networkx.DiGraph()
    for road, km, main_km in ((("home", "home 2"), 0.1, 0), (("home 2", "home"), 0.1, 0), (("home", "work"), 5, 5)):
        roads.add_edge(*road, km=km, main_km=main_km)
    roads.add_edge("home 2", "work", km=8, main_km=0)
    own = tmp_path / "roads.npz"
    attributes = {"reward_attributes": ["km"], "preference_attributes": ["main_km", "km"]}
    tl.save(tl.from_graph(roads, start="home", goals=["work"], discount=0.999, duration="km", **attributes), own)
    common = ("teach", "--domain", str(own), "--weights=-1,0", "--model", "hard", "--teacher", "aware-cmdp")
    found = shown(*common, "--allowance", "main_km=0.2%,km=1%")
    # The total is -1 / log 0.999 = 999.5 km: at most 2.0 km of main roads, so 0.4 of the trips take them.
    share = -0.002 / np.log(0.999) / 5
    assert found["arrival"]["probability"] == 1.0
    assert found["arrival"]["duration"] == pytest.approx(5 * share + 8.1 * (1 - share), rel=1e-4)
    assert "The learner arrives with probability 1" in printed(*common, "--allowance", "main_km=2,km=10")
    assert "The learner never arrives" in printed(*common, "--allowance", "main_km=2,km=1e6", "--weights=1,0")
    wrong = CliRunner().invoke(make_app(), [*common, "--allowance", "main=2"])
    assert "did you mean" in str(wrong.exception) and "main_km" in str(wrong.exception)


def test_the_text_has_the_rounds_the_preferences_and_the_certificate():
    text = printed(*TEACH, "--model", "hard", "--allowance", "2.5", "--teacher", "aware-cmdp")
    for part in ("the best policy that keeps the learner's preferences", "Its preferences,", "Certificate:"):
        assert part in text


@pytest.mark.parametrize("what", some_of(["table1", "figure5", "all"], ["table1", "figure5"]))
def test_reproducing_one_world_writes_what_it_says(what, tmp_path, monkeypatch):
    """The rows are invented, so nothing is computed: every file that is named is written."""
    from experiments.test_tables import made_up

    from tutelage.environments.placement import PREFERENCES
    from tutelage.experiments.settings import Illustration, Task
    from tutelage.experiments.store import Row

    drawing = {"reachable": [[0, 0], [1, 0], [0, 1]], "feasible": [[0, 0], [0.2, 0], [0, 1]], "weights": [1, 0.9]}
    drawing |= {"points": {"optimal": [1, 0], "answered": [0.2, 0], "aware": [0, 1]}, "avoided": [False] * 37}
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
        assert {"report.html", "report.md", "figure3-table.json", "figure1.png", "figure2.svg", "figure6.png"} <= names
        page = (tmp_path / "report.html").read_text()
        assert page.count("data:image/png;base64,") == 7 and "http" not in page
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


def test_a_terminal_shows_progress(tmp_path):
    """On a terminal, standard error shows a bar with the time left."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "reproduce", "figure1", "--jobs", "1", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | {"TERM": "xterm"}):
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # the other end is closed
            pass
    assert b"figure1" in seen and b"left:" in seen


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("demo", "--seed", "-1"), 2, "seed must be a whole number from 0 to"),
        (("demo", "--size", "2"), 2, "size is too small"),
        (("demo", "--seed", "seven"), 2, "valid integer"),
        (("teach", "--teacher", "bilevel"), 2, "give either --world or --domain"),
        (("teach", "--world", "mine:0:10"), 2, "names no world"),
        (("teach", "--world", "nowhere.json"), 2, "nowhere.json"),
        (
            ("teach", "--domain", "nowhere.npz", "--weights", "1"),
            2,
            "nowhere.npz: there is no such file; check the name and the folder",
        ),
        (("info", "endles.npz"), 2, "endles.npz: there is no such file; did you mean endless.npz"),
        (("info", "no/such.npz"), 2, "no/such.npz: there is no such file; check the name and the folder"),
        (("teach", "--world", "endless.json"), 2, "endless.json is not a regular file"),
        (("teach", "--domain", "endless.npz", "--weights", "1"), 2, "endless.npz is not a regular file"),
        (("teach", "--world", "published:0:8", "--learner", "L9"), 2, "there is no learner 'L9'"),
        (("teach", "--world", "published:0:8", "--learner", "hard"), 2, "--model names a learner model"),
        (("teach", "--world", "published:0:8", "--teacher", "strict"), 2, "there is no teacher 'strict'"),
        (("teach", "--world", "published:0:8", "--weights", "1,x"), 2, "weights must be numbers"),
        (("teach", "--world", "published:0:8", "--model", "hard"), 2, "AwareCmdpTeacher"),
        (
            ("teach", "--world", "published:4:10", "--model", "hard", "--teacher", "aware-cmdp"),
            1,
            "allow at least that much more",
        ),
        (("reproduce", "table9"), 2, "there is no table or figure 'table9'; did you mean table1"),
        (("reproduce", "table2"), 2, "the table inside Figure 3 is `figure3-table`"),
        (("reproduce", "line_search"), 2, "has the paper's number, `figure6`"),
        (("reproduce", "figure1", "--backend", "dask"), 2, "needed for the backend 'dask'"),
        (("reproduce", "figure1", "--worlds", "0"), 2, "worlds"),
        (("infer", "--world", "published:0:8"), 2, "give either --rounds or --demonstrations"),
        (("infer", "--world", "published:0:8", "--rounds", "nowhere.npz"), 2, "nowhere.npz"),
        (("fly",), 2, "fly"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_an_exit_code(arguments, code, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("endless.json", "endless.npz"):
        Path(name).symlink_to("/dev/zero")
    monkeypatch.setattr("sys.argv", ["tutelage", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == code, said.err
    assert sentence in " ".join(said.err.split())
    assert "Traceback" not in said.err and said.out == ""


def test_the_version_is_shown():
    assert printed("--version") == f"tutelage {tl.__version__}\n"


@pytest.mark.parametrize("command", ["demo", "teach", "infer", "reproduce"])
def test_help_has_an_example(command):
    assert command in printed("--help")
    assert f"tutelage {command}" in printed(command, "--help")


def test_an_interrupt_during_the_imports_shows_no_traceback():
    """A real signal, sent when the program imports its first large module."""
    interrupt = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    ran = subprocess.run([sys.executable, "-c", interrupt + PROGRAM, "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [("--version",), ("teach", "--world", "published:0:5", "--learner", "L1", "--json")]
)
def test_a_reader_that_stops_is_a_sentence_and_the_code_of_sigpipe(arguments):
    """As with `| head`: the reader has closed the pipe before the program writes."""
    ours, theirs = os.pipe()
    os.close(ours)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments, *(("--teacher", "agnostic") if len(arguments) > 1 else ())],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    assert ran.returncode == 141
    assert ran.stderr == "tutelage: the output was closed before all of it was written\n"


def test_a_disk_that_is_full_is_a_sentence_that_names_the_file(tmp_path):
    """The system refuses to write more than 100 bytes to any file."""
    arguments = ("teach", "--world", "published:0:5", "--learner", "L1", "--teacher", "agnostic", "--save", "kept.npz")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    assert "kept.npz cannot be written: File too large" in ran.stderr
    assert not list(tmp_path.iterdir())


def test_infer_from_rounds_and_from_behaviour(tmp_path):
    """`teach --save` writes what `infer` reads; the intervals contain the truth."""
    rounds, walks = tmp_path / "rounds.npz", tmp_path / "walks.npz"
    place = ["--world", "published:1:6"]
    told = ["--mismatch-penalty", "3", "--violation-penalty", "2", "--teacher", "adaptive-bilevel"]
    shown("teach", *place, *told, "--option", "max_cells=0", "--max-rounds", "1", "--save", str(rounds))
    found = shown("infer", *place, "--rounds", str(rounds))
    low, high = found["mismatch_penalty"]
    assert low <= 3 and (high is None or high >= 3) and found["contradiction"] == ""
    assert "C_r" in printed("infer", *place, "--rounds", str(rounds))
    domain = tl.object_world(size=6, seed=1).domain("L5")
    policy = tl.uniform_policy(domain.mdp)
    tl.save_demonstrations(tl.sample_demonstrations(domain, policy, 30, rng=0), walks)
    behaviour = shown("infer", *place, "--demonstrations", str(walks), "--weights", "0,0,0")
    assert behaviour["n"] == 30 and len(behaviour["preferences"]) == 6
    assert "trajectories" in printed("infer", *place, "--demonstrations", str(walks))
