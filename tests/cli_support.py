"""What the tests of the command line share: how a command is run, and what it printed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutelage.cli import main
from tutelage.cli.app import make_app
from tutelage.outcomes import TutelageError

PROGRAM = "import sys; from tutelage.cli import main; sys.argv[0] = 'tutelage'; main()"


STREETS = str(Path(__file__).parents[1] / "examples" / "data" / "streets.csv")
ROADS = ["--start", "7106818623", "--goal", "42431078", "--duration", "km", "--rewards", "km", "--names", "name"]


def printed(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(make_app(), [*arguments])
    if isinstance(result.exception, TutelageError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def shown(*arguments: str, code: int = 0) -> dict:
    """The JSON object that `--json` prints. Nothing else may be printed."""
    text = printed(*arguments, "--json", code=code)
    found, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    return found


def refusal(arguments, monkeypatch, capsys) -> tuple[int, str]:
    """The exit code and the sentence of a command that is refused: no traceback, nothing on standard output."""
    monkeypatch.setattr("sys.argv", ["tutelage", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert "Traceback" not in said.err and said.out == ""
    return ended.value.code, " ".join(said.err.split())
