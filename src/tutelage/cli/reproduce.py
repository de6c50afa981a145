"""`tutelage reproduce`: the paper's tables and figures."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tutelage.cli.printing import complain, progress, say, show_json, show_table

What = StrEnum("What", ["table1", "table2", "figure1", "figure3", "figure4", "line_search", "all"])


def reproduce(
    what: Annotated[What, typer.Argument(help="A table, a figure, or everything with a report.")],
    worlds: Annotated[int, typer.Option(min=1, help="Number of worlds in each set; the paper has 10.")] = 10,
    jobs: Annotated[int, typer.Option(min=0, help="Processes on this machine; 0 for one per core.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results, the figures and the report.")] = Path("results"),
    resume: Annotated[bool, typer.Option(help="Use the rows that the store has, or compute them again.")] = True,
    backend: Annotated[str, typer.Option(help="processes, or dask for an existing cluster.")] = "processes",
    address: Annotated[str, typer.Option(help="Address of the Dask scheduler, such as tcp://host:8786.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Reproduce the paper's tables and figures, each number beside the printed one.

    Every row is stored in results.sqlite as soon as it is computed. The same command continues a run that was stopped.

    [bold]tutelage reproduce table1 --jobs 2[/bold]

    [bold]tutelage reproduce all --out results[/bold]

    [bold]tutelage reproduce table2 --backend dask --address tcp://127.0.0.1:8786[/bold]
    """
    from tutelage.experiments.products import Products
    from tutelage.experiments.report import overview
    from tutelage.experiments.run import Backend, missing, run
    from tutelage.experiments.store import Store
    from tutelage.experiments.targets import TARGETS, tasks_of

    names = list(TARGETS) if what is What.all else [what.value]
    chosen = Backend(jobs or os.cpu_count() or 1, backend, address)  # type: ignore[arg-type]
    tasks, store = tasks_of(names, worlds), Store(out / "results.sqlite")
    if not resume:
        store.drop(task.key for task in tasks)
    left = missing(tasks, store)
    try:
        with progress(what.value, len(left)) as done:
            run(left, store, chosen, on_row=lambda row: done(f"{row.key.world} {row.key.learner} {row.key.teacher}"))
    except KeyboardInterrupt:
        n_stored = len(tasks) - len(missing(tasks, store))
        complain(f"{n_stored} of {len(tasks)} rows are stored; run the same command again to continue")
        raise
    products = Products(names, store.rows(), worlds, out)
    written = products.write(with_report=what is What.all)
    if as_json:
        cells = [cell.as_data() for members in products.cells.values() for cell in members]
        show_json({"cells": cells, "files": [str(path) for path in written], "origin": products.origin})
        return
    for members in products.cells.values():
        for grid in overview(members):
            show_table(grid.caption, grid.header, grid.body)
    for path in written:
        say(f"Written: {path}")
