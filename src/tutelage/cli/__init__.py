"""The command line: arguments in, tables and files out; no logic."""

import sys
from typing import Annotated

import typer

from tutelage import __version__
from tutelage.cli.demo import demo
from tutelage.cli.printing import complain, say
from tutelage.cli.reproduce import reproduce
from tutelage.cli.serve import serve
from tutelage.cli.teach import teach, teach_help
from tutelage.outcomes import TutelageError

EPILOG = (
    "Exit codes: 0 done, 1 not possible (no policy keeps the preferences, no convergence), "
    "2 bad input, a missing extra, or a file or port that cannot be used, 130 interrupted."
)


def _version(is_asked: bool) -> None:
    if is_asked:
        say(f"tutelage {__version__}")
        raise typer.Exit


def _tutelage(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plan what to demonstrate to a learner that has preferences and constraints of its own."""


def make_app() -> typer.Typer:
    """The command line, with the players that the registry has now."""
    app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="rich", epilog=EPILOG)
    app.callback()(_tutelage)
    app.command()(demo)
    app.command(help=teach_help())(teach)
    app.command()(reproduce)
    app.command()(serve)
    return app


def main() -> None:
    """The entry point: an error is one sentence and an exit code, not a traceback."""
    try:
        make_app()()
    except TutelageError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(TutelageError.exit_code)
