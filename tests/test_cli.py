"""The command line: what it prints is consistent, and what it refuses it refuses in a sentence."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from tutelage.cli import app

LEARNERS = ["L1", "L2", "L3", "L4", "L5"]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(*arguments: str) -> dict:
    """The one JSON object that `--json` prints, and nothing besides."""
    text = printed(*arguments, "--json")
    found, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    return found


def entry_point(*arguments: str) -> subprocess.CompletedProcess:
    """As a shell runs it, with the errors turned into sentences."""
    program = "import sys; from tutelage.cli import main; sys.argv[0] = 'tutelage'; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_demo_prints_a_row_for_each_learner():
    text = printed("demo")
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert [row.split()[1] for row in rows if row.split()[1] in LEARNERS] == LEARNERS


@pytest.mark.parametrize("seed", range(3))
def test_aware_teaching_is_never_worse_and_never_beats_its_bound(seed):
    """Theorem 1 at the terminal: taught the best that it accepts, a hard learner does exactly that."""
    found = shown("demo", "--seed", str(seed))
    assert [row["learner"] for row in found["rows"]] == LEARNERS
    assert found["world"]["seed"] == seed and found["allowance"] == 2.5
    for row in found["rows"]:
        assert row["agnostic"] <= row["aware"] + 1e-6 <= row["optimal"] + 2e-6
        assert row["aware"] == pytest.approx(row["bound"], abs=1e-5)


def test_who_minds_more_earns_less_and_who_minds_nothing_earns_the_optimum():
    """L1's limits are some of L2's, and so on: each adds limits to the one before."""
    rows = shown("demo", "--allowance", "1.5")["rows"]
    assert rows[0]["agnostic"] == pytest.approx(rows[0]["optimal"], abs=1e-6)
    for easier, stricter in pairwise(rows):
        assert stricter["bound"] <= easier["bound"] + 1e-6


def test_a_learner_that_no_policy_can_please_is_refused_in_a_sentence():
    """In world 4 the start lies within two cells of a yellow distractor, so L5 sees one at least once."""
    arguments = ("demo", "--seed", "4", "--allowance", "0")
    sentence = "no policy satisfies the 6 constraints together"
    assert f"L5: {sentence}" in printed(*arguments)
    rows = shown(*arguments)["rows"]
    assert [row["learner"] for row in rows if "refused" in row] == ["L5"]
    assert sentence in rows[-1]["refused"] and "'yellow within 2 cells' by 1" in rows[-1]["refused"]
    assert "acceptable" not in rows[-1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", "-1"), "seed must lie between 0 and"),
        (("--size", "2"), "size is too small"),
        (("--size", "0"), "size must lie between 1 and"),
        (("--seed", "seven"), "valid integer"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(arguments, sentence):
    ended = entry_point("demo", *arguments)
    assert ended.returncode == 2
    assert sentence in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr and ended.stdout == ""


def test_help_names_the_command():
    assert "demo" in printed("--help")
