"""Output to the terminal: tables and JSON to standard output, progress and errors to standard error."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tutelage.outcomes import InvalidInput

if TYPE_CHECKING:
    from tutelage.arrays import Vector
    from tutelage.data.showing import Shown
    from tutelage.model.mdp import Domain
    from tutelage.transcripts import Transcript

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
# As of a program that the signal SIGPIPE ends.
OUTPUT_CLOSED = 141


# Texts are printed as they are: rich would read [bold] and :b: in a name as markup and as a picture.
VERBATIM: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}


class _Output(Console):
    """Standard output. rich itself ends the program with code 1 and no message when the reader has gone."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**VERBATIM, **options)

    def on_broken_pipe(self) -> None:
        _end_of_output()


def _end_of_output() -> NoReturn:
    """End the program, because standard output was closed by its reader, such as `head`."""
    # Python would write the rest at exit, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    complain("the output was closed before all of it was written")
    sys.exit(OUTPUT_CLOSED)


def show_json(data: dict[str, Any]) -> None:
    """One JSON object and nothing else."""
    try:
        json.dump(data, sys.stdout, allow_nan=False, default=str)
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _end_of_output()


def show_table(
    title: str, header: Sequence[str], body: Sequence[Sequence[str]], caption: str = "", *, least_width: int = 0
) -> None:
    """A table whose first column names its rows. least_width: used where the output is not a terminal."""
    table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for column, heading in enumerate(header):
        table.add_column(heading, justify="left" if column == 0 else "right")
    for row in body:
        table.add_row(*row)
    console: Console = _Output()
    if not console.is_terminal and console.width < least_width:
        console = _Output(width=least_width)
    console.print(table)


def say(what: Any) -> None:
    """Print to standard output, without markup."""
    _Output().print(what, soft_wrap=isinstance(what, str))


def complain(sentence: str) -> None:
    """Print an error to standard error, after the program's name."""
    Console(stderr=True, **VERBATIM).print(f"tutelage: {sentence}", style="red", soft_wrap=True)


def complain_of_file(error: OSError) -> None:
    """Print why a file cannot be used; for a missing one, the names in its folder that are near."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str | Path):
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return
    path = Path(error.filename)
    there = list[str]()
    with suppress(OSError):
        there = [entry.name for entry in path.parent.iterdir()]
    near = [str(path.with_name(name)) for name in get_close_matches(path.name, there)]
    advice = f"did you mean {' or '.join(near)}?" if near else "check the name and the folder"
    complain(f"{path}: there is no such file; {advice}")


@dataclass(frozen=True)
class Bar:
    """step: one more step is done, with a text. note: only a text about the present step."""

    step: Callable[[str], None]
    note: Callable[[str], None]


def complain_of_rounds(transcript: "Transcript", path: Path | None) -> None:
    """Print the rounds that were finished before a failure, and where they are saved, to standard error."""
    if not transcript.rounds:
        return
    kept = "they were not saved; give --save to keep them" if path is None else f"they are saved in {path}"
    console = Console(stderr=True, **VERBATIM)
    for line in (f"{len(transcript.rounds)} rounds were finished; {kept}", str(transcript)):
        console.print(line, soft_wrap=True)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Bar]:
    """A progress bar on standard error, if it is a terminal."""
    amount = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (*amount, *times, TextColumn("{task.fields[last]}", style="dim"))
    console = Console(stderr=True, **VERBATIM)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total, last="")
        yield Bar(lambda text: bar.update(task, advance=1, last=text), lambda text: bar.update(task, last=text))


def written(
    shown: "Shown | None", demonstrations: Path | None, domain: "Domain", policy: "Vector | None", table: Path | None
) -> list[Path]:
    """The files of the demonstrations and of the policy, if they were requested."""
    from tutelage.data.describing import policy_columns
    from tutelage.data.files import write_table, write_whole

    files = []
    if demonstrations is not None and shown is not None:
        if demonstrations.suffix in (".geojson", ".gpx"):
            text = shown.to_geojson() if demonstrations.suffix == ".geojson" else shown.to_gpx()
            write_whole(demonstrations, text.encode())
        elif demonstrations.suffix == ".jsonl":
            lines = [json.dumps(item.as_data(), default=str) + "\n" for item in shown]
            write_whole(demonstrations, "".join(lines).encode())
        else:
            write_table(shown.to_frame(), demonstrations)
        files.append(demonstrations)
    if table is not None:
        if policy is None:
            raise InvalidInput("--policy needs a lesson with a policy, but this teacher shows an expectation only")
        write_table(policy_columns(domain.mdp, policy), table)
        files.append(table)
    return files
