"""`tutelage bench`: our times beside those of what users would pick instead."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.cli.printing import complain, progress, say, show_json, show_table

if TYPE_CHECKING:
    from tutelage.bench.measure import Figure


class Suite(StrEnum):
    """What can be measured."""

    kernels = "kernels"
    learners = "learners"
    teachers = "teachers"
    scale = "scale"


LARGE_HELP = "kernels: also 1000x1000; learners: also 300x300; teachers: all 300 problems of Appendix B.1."
PEERS_HELP = "The environment that has `imitation`; `make peers` makes one in .venv-peers, where it is looked for."


def bench(
    what: Annotated[Suite, typer.Argument(help="The solvers, the learners, the teachers, or growth with states.")],
    large: Annotated[bool, typer.Option("--large", help=LARGE_HELP)] = False,
    quick: Annotated[bool, typer.Option("--quick", help="scale: only up to 300x300.")] = False,
    peers: Annotated[Path | None, typer.Option(envvar="TUTELAGE_PEERS", help=PEERS_HELP)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures as JSON and Markdown; with scale, for a picture.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Our times as ratios to those of what users would pick instead, in one run, every timed answer checked.

    A ratio is the median of pairs that alternate, with the least and the greatest; 10 says ten times faster. A wrong
    answer, or a figure that misses what must hold, makes the exit code 1. A rival that is not installed is said to be.

    [bold]tutelage bench kernels[/bold]

    [bold]tutelage bench learners --peers .venv-peers --json[/bold]

    [bold]tutelage bench scale --quick --out results[/bold]
    """
    from tutelage.bench import report
    from tutelage.bench.suites import steps_of

    rows: list[Figure] = []
    steps = steps_of(what.value, large=large, quick=quick, peers=peers)
    with progress(f"bench {what.value}", len(steps)) as done:
        for step in steps:
            rows += step.run()
            done(step.name)
    files = report.write(what.value, rows, out) if out else []
    if as_json:
        show_json(report.as_data(what.value, rows) | {"files": [str(path) for path in files]})
    else:
        grid = report.grid(what.value, rows)
        show_table(grid.caption, grid.header[:-1], [texts[:-1] for texts in grid.body], least_width=160)
        for line in (*report.notes(rows), *(f"Written: {path}" for path in files)):
            say(line)
    for sentence in (missed := report.misses(rows)):
        complain(sentence)
    if missed:
        raise typer.Exit(1)
