"""Output: progress on a terminal only, a reader that stops, a disk that is full."""

import json
import math
import os
import pty
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
from cli_support import PROGRAM
from typer.testing import CliRunner

from tutelage.cli.printing import as_command, complain, say, table


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
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("sweep", "--help"),
        ("teach", "--world", "published:0:5", "--learner", "L1", "--json"),
    ],
)
def test_a_reader_that_stops_is_a_sentence_and_the_code_of_sigpipe(arguments):
    """As with `| head`: the reader has closed the pipe before the program writes."""
    ours, theirs = os.pipe()
    os.close(ours)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
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


def test_texts_are_printed_as_they_are(capsys):
    """A name such as :b: or [bold] is neither a picture nor markup."""
    name = ":b: [bold]x[/bold] :warning:"
    say(name)
    say(table(name, ("name", "1"), [(name, name)], name))
    complain(name)
    said = capsys.readouterr()
    assert said.out.count(name) == 5 and name in said.err


@dataclass(frozen=True)
class Trip:
    """Options that several commands may share."""

    to: Annotated[str, "The place to go to."] = "town"
    times: Annotated[int, "How often."] = 1


def test_a_command_shows_its_result_as_text_or_as_json():
    """Arrays become lists, dataclasses objects, paths texts, and numbers that are not finite null."""

    def walk(chosen: Trip, start: Annotated[str, "The place to leave."]):
        data = {"trip": chosen, "steps": np.array([1.0, math.inf]), "sum": np.float64(2), "map": Path("a/b")}
        return data, [f"from {start} to {chosen.to}"], [Path("walked.csv")], ["it rains"]

    app = typer.Typer()
    app.command()(as_command(walk))
    asked = CliRunner().invoke(app, ["home", "--times", "2"])
    assert asked.stdout == "from home to town\nWritten: walked.csv\n"
    assert asked.stderr == "tutelage: it rains\n"
    data = CliRunner().invoke(app, ["home", "--times", "2", "--json"])
    told = {"files": ["walked.csv"], "trip": {"to": "town", "times": 2}, "steps": [1, None], "sum": 2, "map": "a/b"}
    assert json.loads(data.stdout) == told and data.stderr == ""
    described = CliRunner().invoke(app, ["--help"]).stdout
    assert all(text in described for text in ("The place to leave.", "The place to go to.", "How often.", "--json"))
