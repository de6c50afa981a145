"""`tutelage sweep`: a user's domains, learners and teachers, compared by a plan."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.cli.printing import AsJson, complain, say, show_json, show_table
from tutelage.cli.reproduce import compute_rows

if TYPE_CHECKING:
    from tutelage.experiments.sweeps import Sweep

ROWS_HELP = "Write the rows to this file: .csv, .jsonl, .json or .parquet."
PICTURE_HELP = "Draw the means, and rewards over rounds; adds .png and .svg."


def sweep(
    plan: Annotated[Path, typer.Argument(help="A TOML file: domains, learners, teachers and seeds.")],
    out: Annotated[Path, typer.Option(help="Folder for the store of results.")] = Path("results"),
    jobs: Annotated[int, typer.Option(min=0, help="Processes on this machine; 0 for one per core.")] = 0,
    address: Annotated[str, typer.Option(help="Instead of processes: the address of a Dask scheduler.")] = "",
    retry: Annotated[bool, typer.Option("--retry", help="Compute the rows that failed again.")] = False,
    rows: Annotated[Path | None, typer.Option(help=ROWS_HELP)] = None,
    picture: Annotated[Path | None, typer.Option(help=PICTURE_HELP)] = None,
    as_json: AsJson = False,
) -> None:
    """Compare teachers over your own domains and learners. The same command continues a run that was stopped.

    A list in the plan means "each of these". Each row is stored as soon as it is computed, and a task that fails is a
    row that says why.

    [bold]tutelage sweep plan.toml --jobs 2 --rows rows.csv --picture means[/bold]

    [bold]tutelage sweep plan.toml --retry --json[/bold]

    On a cluster: tutelage sweep plan.toml --address tcp://127.0.0.1:8786
    """
    from tutelage.experiments.run import Backend
    from tutelage.experiments.sweeps import collected, open_sweep

    backend = Backend(1, "dask", address) if address else Backend(jobs or os.cpu_count() or 1)
    tasks, store = open_sweep(plan, out, retry=retry)
    compute_rows("sweep", tasks, store, backend)
    _show(collected(tasks, store), rows, picture, as_json)


def _show(result: "Sweep", rows: Path | None, picture: Path | None, as_json: bool) -> None:
    """Write the files, and print the means."""
    from tutelage.experiments.sweeps import difference_rows, reasons, table_rows
    from tutelage.pictures.files import save_picture

    files = [] if picture is None else save_picture(result.picture(), picture)
    if picture is not None and any(row["n_rounds"] > 1 for row in result.rows):
        files += save_picture(result.curve_picture(), picture.with_name(f"{picture.name}-rounds"))
    if rows is not None:
        result.to_file(rows)
        files.append(rows)
    if as_json:
        show_json({"rows": [dict(row) for row in result.rows], "files": [str(path) for path in files]})
        return
    means = result.means()
    header, *body = table_rows(means)
    show_table("Mean reward of the learner (share of the certified bound)", header, body, least_width=100)
    if differences := list(difference_rows(means)):
        header, *body = differences
        show_table(f"More than with {means[0].teacher}, in the cases that both have", header, body, least_width=100)
    for sentence in reasons(result.failed):
        complain(sentence)
    for path in files:
        say(f"Written: {path}")
