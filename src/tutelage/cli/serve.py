"""`tutelage serve`: the playground, a page in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from tutelage.cli.printing import say
from tutelage.outcomes import MissingExtra


def serve(
    file: Annotated[
        Path | None, typer.Argument(help="A domain (.npz), or a world, rounds or a story (.json), to open on the page.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0 for any free port.")] = 8000,
    host: Annotated[str, typer.Option(help="The address; only this machine can reach 127.0.0.1.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds after which a computation is stopped.")] = 60.0,
) -> None:
    """Serve the playground: paint a world, teach a learner in it, or play the teacher or the learner.

    Everything runs on this machine. Press Ctrl-C to stop.

    [bold]tutelage serve[/bold]

    [bold]tutelage serve roads.npz[/bold]

    [bold]tutelage serve --port 9000 --no-browser[/bold]
    """
    try:
        from tutelage.playground.grounds import opened_file
        from tutelage.playground.server import Settings
        from tutelage.playground.serving import serve_page
    except ImportError as error:
        raise MissingExtra("the playground", "playground") from error

    opened = None if file is None else (file.name, opened_file(file))
    serve_page(Settings(host=host, time_limit=time_limit, opened=opened), port, is_opened=browser, on_start=say)
