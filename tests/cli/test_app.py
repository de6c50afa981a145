"""Every command: its help, its examples, completion, and every refusal as a sentence and an exit code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import networkx
import pytest
from cli_support import PROGRAM, ROADS, STREETS, printed, refusal
from strategies import some_of

import tutelage as tl


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
        (("reproduce", "table9"), 2, "there is no table or figure 'table9'; did you mean 'table1'"),
        (("reproduce", "figure1", "--backend", "dask"), 2, "needed for the backend 'dask'"),
        (("reproduce", "figure1", "--backend", "threads"), 2, "backend must be 'processes' or 'dask'"),
        (("reproduce", "figure1", "--address", "tcp://127.0.0.1:1"), 2, "needed for the backend 'dask'"),
        (("reproduce", "figure1", "--worlds", "0"), 2, "worlds"),
        (("infer", "--world", "published:0:8"), 2, "give either --rounds or --demonstrations"),
        (("infer", "--world", "published:0:8", "--rounds", "nowhere.npz"), 2, "nowhere.npz"),
        (("reproduce", "figure1", "--jobs", "1000000"), 2, "jobs must be at least one and at most"),
        (("reproduce", "figure1", "--backend", "dask", "--address", "x"), 2, "'x' is not the address of a scheduler"),
        (("demo", "--size", "5", "--picture", "."), 2, "a picture needs a file name, such as picture, got '.'"),
        (("teach", "--world", "published:0:5", "--teacher", "agnostic", "--picture", "/"), 2, "needs a file name"),
        (("import", "gymnasium", "text:0:5", "-o", "x.npz"), 2, "Gymnasium cannot make 'text:0:5': "),
        (("import", "gymnasium", "a:b:c:d", "-o", "x.npz"), 2, "Gymnasium cannot make 'a:b:c:d': "),
        (("demo", "--size", "5", "--allowance", "-1"), 2, "--allowance: a count must be a number of at least zero"),
        (("demo", "--size", "5", "--allowance", "nan"), 2, "--allowance: a count must be a number of at least zero"),
        (("fly",), 2, "fly"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_an_exit_code(arguments, code, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("endless.json", "endless.npz"):
        Path(name).symlink_to("/dev/zero")
    ended, told = refusal(arguments, monkeypatch, capsys)
    assert ended == code and sentence in told


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


EVERY_COMMAND = [
    *[(name,) for name in ("demo", "teach", "learn", "info", "infer", "sweep", "reproduce", "serve")],
    ("import", "gymnasium"),
    ("import", "graph"),
]


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_help_has_two_examples_at_least(command):
    assert printed(*command, "--help").count(f"tutelage {' '.join(command)} ") >= 2


def test_the_examples_of_the_help_run(tmp_path, monkeypatch):
    """In order, in one folder. `serve`, which does not end by itself, has tests of its own."""
    from tutelage.cli import domains, experiments, teach

    monkeypatch.chdir(tmp_path)
    roads = networkx.DiGraph([("a", "b", {"km": 1.0, "kind": "lane"}), ("b", "z", {"km": 2.0, "kind": "road"})])
    roads.add_edges_from([("a", "c", {"km": 3.0, "kind": "road"}), ("c", "z", {"km": 2.0, "kind": "road"})])
    networkx.write_graphml(roads, "roads.graphml")
    Path("roads.csv").write_text("source,target,km,kind\na,b,1,lane\nb,z,2,road\na,c,3,road\nc,z,2,road\n")
    Path("log.csv").write_text(
        "episode,state,action,next_state,terminated\n0,0,1,4,False\n0,4,1,5,True\n1,0,2,1,False\n"
    )
    Path("trips.csv").write_text("episode,state\n0,a\n0,b\n0,z\n1,a\n1,c\n1,z\n")
    Path("plan.toml").write_text(
        '[[domain]]\nworld = "text:0:4"\n[[learner]]\npreferences = "L2"\n[[teacher]]\nname = "agnostic"\n'
    )
    domain = tl.object_world(size=6, seed=3).domain("L5")
    walks = tl.sample_demonstrations(domain, tl.uniform_policy(domain.mdp), 50, rng=0)
    tl.save_demonstrations(walks, "walks.npz")
    commands = []
    from_outside = (domains.from_environment, domains.from_file, domains.info, teach.learn)
    others = (teach.infer, experiments.sweep, experiments.reproduce, experiments.demo)
    for function in (*from_outside, teach.teach, *others):
        for command in re.findall(r"\[bold\]tutelage (.*?)\[/bold\]", function.__doc__, flags=re.DOTALL):
            commands.append(command.split())
    # The demo has tests of its own; its two examples take as long as all others.
    for command in some_of(commands, (command for command in commands if command[0] != "demo")):
        printed(*command)
    assert len(commands) == 21


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("import", "gymnasium", "FrozenLake-v9", "-o", "x.npz"), "Gymnasium cannot make 'FrozenLake-v9'"),
        (("import", "gymnasium", "CartPole-v1", "-o", "x.npz"), "has no table P"),
        (("import", "gymnasium", "FrozenLake-v1", "--option", "size=3", "-o", "x.npz"), "Gymnasium cannot make"),
        (("import", "graph", "nowhere.graphml", "--start", "a", "-o", "x.npz"), "nowhere.graphml"),
        (("import", "graph", STREETS, "--start", "a", "-o", "x.npz", "--rewards", "km"), "start 'a' is not a node"),
        (
            ("import", "graph", STREETS, *ROADS, "--preferences", "highway=motorwy", "-o", "x.npz"),
            "no edge has 'highway' 'motorwy'",
        ),
        (("import", "graph", STREETS, *ROADS, "-o", "x.txt"), "x.txt must end in .npz"),
        (("info", "nowhere.npz"), "nowhere.npz"),
        (
            ("teach", "--domain", "roads.npz", "--teacher", "agnostic"),
            "--domain needs the true weights of its reward features: --weights km=1,at_goal=1",
        ),
        (("teach", "--domain", "roads.npz", "--weights", "kn=1"), "there is no feature 'kn'; did you mean 'km'"),
        (
            ("teach", "--domain", "roads.npz", "--weights", "km=1", "--preferences", "lanes"),
            "there is no feature 'lanes'",
        ),
        (
            ("teach", "--domain", "roads.npz", "--weights", "km=1", "--allowance", "primary=1"),
            "there is no feature 'primary'; did you mean",
        ),
        (
            (
                "teach",
                "--domain",
                "roads.npz",
                "--weights",
                "km=1",
                "--preferences",
                "highway_primary",
                "--learner",
                "L1",
            ),
            "give either --learner or --preferences",
        ),
        (
            (
                "teach",
                "--domain",
                "roads.npz",
                "--weights",
                "km=-1",
                "--model",
                "hard",
                "--teacher",
                "agnostic",
                "--policy",
                "p.txt",
            ),
            "p.txt must end in .csv or .jsonl",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(arguments, sentence, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    ended, told = refusal(arguments, monkeypatch, capsys)
    assert ended == 2 and sentence in told


@pytest.mark.parametrize(
    ("words", "expected"),
    [("tutelage te", "teach"), ("tutelage serve --po", "--port"), ("tutelage --vers", "--version")],
)
def test_the_shell_is_told_what_fits(words, expected):
    asked = {"_TUTELAGE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    program = "import sys; sys.argv = ['tutelage']; from tutelage.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True)
    assert expected in ran.stdout.split(), ran.stderr
