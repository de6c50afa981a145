"""Commands and their output: tables and JSON to standard output, progress and errors to standard error."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from typer import Argument, Exit, Option

# What a command returns: the arguments of `show`. A part is a text, or the title, header, body and caption of a table.
Result = tuple[Any, ...]
# Texts are printed as they are: rich would read [bold] and :b: in a name as markup and as a picture.
VERBATIM: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}


def _end_unread(console: Console) -> NoReturn:
    """End the program, because standard output was closed by its reader, such as `head`."""
    # Python would write the rest at exit, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    complain("the output was closed before all of it was written")
    # As of a program that the signal SIGPIPE ends.
    sys.exit(141)


# rich itself, which also prints help, ends the program with code 1 and no message when the reader has gone.
Console.on_broken_pipe = _end_unread  # type: ignore[method-assign, assignment]


def as_command(work: Callable[..., Result]) -> Callable[..., None]:
    """Prints the result, or with --json its data. Texts in annotations are help; the fields of `chosen` are options."""
    own = dict(signature(work).parameters)
    chosen = own.pop("chosen", None)
    shared = signature(chosen.annotation).parameters if chosen else {}

    @wraps(work)
    def called(as_json: bool, **given: Any) -> None:
        if chosen:
            given["chosen"] = chosen.annotation(**{name: given.pop(name) for name in shared})
        show(*work(**given), as_json=as_json)

    option = Option("--json", help="Print one JSON object and nothing else.")
    as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])
    # In a signature, those that are required come first.
    options = sorted([*shared.values(), *own.values()], key=lambda option: option.default is not option.empty)
    called.__signature__ = Signature([*map(_helped, options), as_json])  # type: ignore[attr-defined]
    return called


def _helped(given: Parameter) -> Parameter:
    kind, about = get_args(given.annotation)
    if not isinstance(about, str):
        return given
    made = Argument(help=about) if given.default is given.empty else Option(help=about)
    return given.replace(annotation=Annotated[kind, made])


def show(
    data: Any, parts: Iterable[Any], files: Iterable[Path] = (), failed: Sequence[str] = (), *, as_json: bool
) -> None:
    """Print one JSON object, or tables and lines. failed: what is missing or wrong; with any, the exit code is 3."""
    if as_json:
        text = json.dumps({"files": [*files], **data}, default=_plain)
        # JSON has no infinite numbers and no NaN: they become null.
        say(json.dumps(json.loads(text, parse_constant=lambda name: None)))
    else:
        for part in (*parts, *(f"Written: {path}" for path in files)):
            say(part if isinstance(part, str) else table(*part))
        for sentence in failed:
            complain(sentence)
    if failed:
        raise Exit(3)


def _plain(value: Any) -> Any:
    """For JSON: an array as a list, a dataclass by its fields, everything else as its text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def table(title: str, header: Sequence[str], body: Sequence[Sequence[str]], caption: str = "") -> Table:
    made = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for number, heading in enumerate(header):
        made.add_column(heading, justify="right" if number else "left")
    for row in body:
        made.add_row(*row)
    return made


def say(what: Any) -> None:
    """Print a text or a table to standard output, without markup. Where that is a file, a table is not narrow."""
    console = Console(**VERBATIM)
    if not console.is_terminal:
        console.width = max(console.width, 160)
    console.print(what, soft_wrap=isinstance(what, str))


def complain(sentence: str) -> None:
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
    amount = ("{task.description}", BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), "left:", TimeRemainingColumn())
    last = TextColumn("{task.fields[last]}", style="dim")
    console = Console(stderr=True, **VERBATIM)
    with Progress(*amount, *times, last, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total, last="")
        yield lambda text, n_steps=1: bar.update(task, advance=n_steps, last=text)
