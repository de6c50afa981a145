"""The command line of the benchmarks: `python -m benchmarks SUITE`, with a suite of `Suite`."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import kernels, learners, off_grid, report, scale, teachers, unknown, upkeep
from benchmarks.measure import Figure, Step, WrongAnswer
from tutelage.cli.printing import complain, progress, show

LARGE_HELP = (
    "Also 1000x1000 (kernels), 300x300 (learners), all of Appendix B.1 (teachers), worlds 0 to 9 (unknown), "
    "10^6 states (families)."
)
PEERS_HELP = "Folder of the environment that has the peers; `make peers` creates the default, .venv-peers."


class Suite(StrEnum):
    """What can be measured."""

    kernels = "kernels"
    learners = "learners"
    teachers = "teachers"
    unknown = "unknown"
    scale = "scale"
    families = "families"


def steps_of(name: str, *, large: bool, quick: bool, peers: Path | None) -> list[Step]:
    """The steps of a suite. peers: the folder of the environment that has the peers."""
    suites: dict[str, Callable[[], list[Step]]] = {
        "kernels": lambda: kernels.steps(large=large),
        "learners": lambda: learners.steps(large=large, folder=peers),
        "teachers": lambda: teachers.steps(large=large),
        "unknown": lambda: unknown.steps(large=large),
        "scale": lambda: scale.steps(quick=quick),
        "families": lambda: [
            *off_grid.steps(large=large, folder=peers),
            Step("two machines: 20,000 states", upkeep.solved),
            Step("two machines: bi-level teaching", upkeep.planned),
        ],
    }
    return suites[name]()


def run(
    suite: Annotated[Suite, typer.Argument(help="Solvers, learners, teachers, unknown learners, growth, other MDPs.")],
    large: Annotated[bool, typer.Option("--large", help=LARGE_HELP)] = False,
    quick: Annotated[bool, typer.Option("--quick", help="scale: only up to 300x300.")] = False,
    peers: Annotated[Path | None, typer.Option(envvar="TUTELAGE_PEERS", help=PEERS_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown files; scale adds a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Times of Tutelage as ratios to the times of other software, in one run. Every timed answer is checked.

    A ratio is the median over alternating pairs, with its minimum and maximum; 10 means ten times faster. The exit code
    is 1 if an answer is wrong or a figure misses its limit. A rival that is not installed gives a row with a note.
    """
    rows: list[Figure] = []
    name = suite.value
    steps = steps_of(name, large=large, quick=quick, peers=peers)
    try:
        with progress(f"benchmarks {name}", len(steps)) as done:
            for step in steps:
                rows += step.run()
                done(step.name)
    except WrongAnswer as error:
        complain(str(error))
        raise typer.Exit(1) from error
    files = report.write(name, rows, out) if out else []
    grid = report.grid(name, rows)
    shown = (grid.caption, grid.header[:-1], [texts[:-1] for texts in grid.body])
    show(report.as_data(name, rows), [shown, *report.notes(rows)], files, as_json=as_json)
    for sentence in (missed := report.misses(rows)):
        complain(sentence)
    if missed:
        raise typer.Exit(1)


app = typer.Typer(add_completion=False)
app.command()(run)

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
