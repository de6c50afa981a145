"""The command line: arguments in, tables and files out; no logic."""

import sys
from typing import Annotated

import typer

from tutelage import __version__
from tutelage.cli.bench import bench
from tutelage.cli.demo import demo
from tutelage.cli.printing import complain, say
from tutelage.cli.reproduce import reproduce
from tutelage.cli.serve import serve
from tutelage.cli.teach import teach
from tutelage.outcomes import InvalidModel, TutelageError

# What the shell is told of what cannot be done, and of what was asked wrongly.
IMPOSSIBLE, WRONG = 1, 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done, 1 not possible (no policy satisfies the learner, no convergence) or a "
    "benchmark that fails, 2 bad input, 130 interrupted.",
)


def _version(is_asked: bool) -> None:
    if is_asked:
        say(f"tutelage {__version__}")
        raise typer.Exit


@app.callback()
def _tutelage(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Plan what to demonstrate to a learner that has preferences and constraints of its own."""


app.command()(demo)
app.command()(teach)
app.command()(reproduce)
app.command()(bench)
app.command()(serve)


def main() -> None:
    """The entry point: what cannot be done is a sentence and an exit code, not a traceback."""
    try:
        app()
    except InvalidModel as error:
        complain(str(error))
        sys.exit(WRONG)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(WRONG)
    except TutelageError as error:
        complain(str(error))
        sys.exit(IMPOSSIBLE)
