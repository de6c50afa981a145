"""Output to the terminal: tables and JSON to standard output, progress and errors to standard error."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
# Texts are printed as they are: rich would read [bold] and :b: in a name as markup and as a picture.
VERBATIM: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}


class _Output(Console):
    """Standard output. rich itself ends the program with code 1 and no message when the reader has gone."""

    def on_broken_pipe(self) -> NoReturn:
        """End the program, because standard output was closed by its reader, such as `head`."""
        # Python would write the rest at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        complain("the output was closed before all of it was written")
        # As of a program that the signal SIGPIPE ends.
        sys.exit(141)


def show(data: Mapping[str, Any], parts: Iterable[Any], files: Iterable[Path] = (), *, as_json: bool) -> None:
    """A result: one JSON object and nothing else, or its tables and lines; and the names of the files written.

    parts: texts, or the title, header, body and perhaps the caption of a table.
    """
    if as_json:
        say(json.dumps({"files": [*map(str, files)], **_plain(data)}, allow_nan=False, default=str))
        return
    for part in (*parts, *(f"Written: {path}" for path in files)):
        say(part if isinstance(part, str) else table(*part))


def _plain(value: Any) -> Any:
    """For JSON: a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, header: Sequence[str], body: Sequence[Sequence[str]], caption: str = "") -> Table:
    """A table whose first column names its rows."""
    columns = [Column(heading, justify="right" if number else "left") for number, heading in enumerate(header)]
    made = Table(*columns, title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for row in body:
        made.add_row(*row)
    return made


def say(what: Any) -> None:
    """Print a text or a table to standard output, without markup. Where that is a file, a table is not narrow."""
    console = _Output(**VERBATIM)
    if not console.is_terminal and console.width < 160:
        console = _Output(width=160, **VERBATIM)
    console.print(what, soft_wrap=isinstance(what, str))


def complain(sentence: str) -> None:
    """Print an error to standard error, after the program's name."""
    Console(stderr=True, **VERBATIM).print(f"tutelage: {sentence}", style="red", soft_wrap=True)


def complain_of_file(error: OSError) -> None:
    """Print why a file cannot be used; for a missing one, the names in its folder that are near."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str | Path):
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return
    path = Path(error.filename)
    there = [entry.name for entry in path.parent.glob("*")]
    near = [str(path.with_name(name)) for name in get_close_matches(path.name, there)]
    advice = f"did you mean {' or '.join(near)}?" if near else "check the name and the folder"
    complain(f"{path}: there is no such file; {advice}")


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error, if it is a terminal: a function of a text, and of the steps that are done."""
    amount = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (*amount, *times, TextColumn("{task.fields[last]}", style="dim"))
    console = Console(stderr=True, **VERBATIM)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total, last="")
        yield lambda text, n_steps=1: bar.update(task, advance=n_steps, last=text)
