"""`tutelage serve`: the playground, a page in the browser."""

from typing import Annotated

import typer

from tutelage.cli.printing import say
from tutelage.outcomes import MissingExtra


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0 for any free port.")] = 8000,
    host: Annotated[str, typer.Option(help="The address; only this machine can reach 127.0.0.1.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds after which a computation is stopped.")] = 60.0,
) -> None:
    """Serve the playground: paint a world, teach a learner in it, or play the teacher or the learner.

    Everything runs on this machine. Press Ctrl-C to stop.

    [bold]tutelage serve[/bold]

    [bold]tutelage serve --port 9000 --no-browser[/bold]
    """
    try:
        from tutelage.playground.server import Settings
        from tutelage.playground.serving import serve_page
    except ImportError as error:
        raise MissingExtra("the playground", "playground") from error

    serve_page(Settings(host=host, time_limit=time_limit), port, is_opened=browser, on_start=say)
