"""The commands, and their help; `tutelage serve`, the playground in the browser."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from tutelage import __version__
from tutelage.cli.domains import from_environment, from_file, info
from tutelage.cli.experiments import demo, reproduce, sweep
from tutelage.cli.printing import as_command, say
from tutelage.cli.teach import infer, learn, teach, teach_help
from tutelage.outcomes import needed_for

EPILOG = (
    "Exit codes: 0 done, 1 not possible (no policy keeps the preferences, no convergence), "
    "2 bad input, a missing extra, or a file or port that cannot be used, "
    "3 a sweep is finished but some of its rows failed, 130 interrupted, 141 output closed, 143 terminated."
)
FILE_HELP = "A domain (.npz), or a world, rounds or a story (.json), to open on the page."


def _version(is_asked: bool) -> None:
    if is_asked:
        say(f"tutelage {__version__}")
        raise typer.Exit


def _tutelage(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plan what to demonstrate to a learner that has preferences and constraints of its own."""


def serve(
    file: Annotated[Path | None, Argument(help=FILE_HELP)] = None,
    port: Annotated[int, Option(min=0, max=65535, help="The port to listen at; 0 for any free port.")] = 8000,
    host: Annotated[str, Option(help="The address; only this machine can reach 127.0.0.1.")] = "127.0.0.1",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page.")] = True,
    time_limit: Annotated[float, Option(min=0.1, help="Seconds after which a computation is stopped.")] = 60.0,
) -> None:
    """Serve the playground: paint a world, teach a learner in it, or play the teacher or the learner.

    Everything runs on this machine. Press Ctrl-C to stop.

    [bold]tutelage serve[/bold]

    [bold]tutelage serve roads.npz[/bold]

    [bold]tutelage serve --port 9000 --no-browser[/bold]
    """
    with needed_for("the playground", "playground"):
        from tutelage.playground.grounds import opened_file
        from tutelage.playground.server import Settings, serve_page

    opened = None if file is None else (file.name, opened_file(file))
    serve_page(Settings(host=host, time_limit=time_limit, opened=opened), port, is_opened=browser, on_start=say)


def make_app() -> typer.Typer:
    shared: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "rich"}
    app = typer.Typer(epilog=EPILOG, **shared)
    app.callback()(_tutelage)
    for command in (demo, teach, learn, info, infer, sweep, reproduce):
        app.command(help=teach_help() if command is teach else None)(as_command(command))
    app.command()(serve)
    sources = typer.Typer(help="Write a domain file from another source.", **shared)
    sources.command("gymnasium")(as_command(from_environment))
    sources.command("graph")(as_command(from_file))
    app.add_typer(sources, name="import")
    return app
