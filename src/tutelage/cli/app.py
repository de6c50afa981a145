"""The commands, and their help."""

from typing import Annotated

import typer

from tutelage import __version__
from tutelage.cli.demo import demo
from tutelage.cli.imports import make_import
from tutelage.cli.infer import infer
from tutelage.cli.info import info
from tutelage.cli.learn import learn
from tutelage.cli.printing import say
from tutelage.cli.reproduce import reproduce
from tutelage.cli.serve import serve
from tutelage.cli.sweep import sweep
from tutelage.cli.teach import teach, teach_help

EPILOG = (
    "Exit codes: 0 done, 1 not possible (no policy keeps the preferences, no convergence), "
    "2 bad input, a missing extra, or a file or port that cannot be used, 130 interrupted, 141 output closed."
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
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", epilog=EPILOG)
    app.callback()(_tutelage)
    app.command()(demo)
    app.command(help=teach_help())(teach)
    app.command()(learn)
    app.add_typer(make_import(), name="import")
    app.command()(info)
    app.command()(infer)
    app.command()(sweep)
    app.command()(reproduce)
    app.command()(serve)
    return app
