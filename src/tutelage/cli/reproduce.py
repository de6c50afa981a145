"""`tutelage reproduce`: the paper's tables and figures."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.cli.printing import AsJson, complain, progress, say, show_json, show_table
from tutelage.outcomes import Unavailable
from tutelage.registry import look_up

if TYPE_CHECKING:
    from tutelage.experiments.report import Products
    from tutelage.experiments.run import Backend
    from tutelage.experiments.settings import AnyTask
    from tutelage.experiments.store import Store

ALL, ARENA = "all", "arena"
NAMES = "table1, figure1, figure2, figure3, figure3-table, figure4, figure5, figure6, figure7, beyond, arena or all"


def reproduce(
    what: Annotated[str, typer.Argument(help=f"{NAMES}: a table, a figure, or everything with a report.")],
    worlds: Annotated[int, typer.Option(min=1, help="Number of worlds in each set; the paper has 10.")] = 10,
    jobs: Annotated[int, typer.Option(min=0, help="Processes on this machine; 0 for one per core.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results, the figures and the report.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="arena: two small worlds and two seeds.")] = False,
    slow: Annotated[bool, typer.Option(help="Add the readings of figure3-table that take hours.")] = False,
    resume: Annotated[bool, typer.Option(help="Use the rows that the store has, or compute them again.")] = True,
    backend: Annotated[str, typer.Option(help="processes, or dask for an existing cluster.")] = "processes",
    address: Annotated[str, typer.Option(help="Address of the Dask scheduler, such as tcp://host:8786.")] = "",
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, each number beside the printed one.

    The numbers are the paper's; figure3-table is the table inside Figure 3, with those of Figures 4 and 5.
    arena compares teachers and learners of the literature, with and without preferences, on other worlds.
    Every row is stored in results.sqlite as soon as it is computed. The same command continues a run that was stopped.

    [bold]tutelage reproduce figure1[/bold]

    [bold]tutelage reproduce figure6 --jobs 1 --out results[/bold]

    On a cluster: tutelage reproduce table1 --backend dask --address tcp://127.0.0.1:8786
    """
    from tutelage.experiments.report import Products
    from tutelage.experiments.run import Backend
    from tutelage.experiments.store import Store
    from tutelage.experiments.targets import TARGETS, tasks_of

    chosen = Backend(jobs or os.cpu_count() or 1, backend, address)  # type: ignore[arg-type]
    if what == ARENA:
        _arena(out, 2 if quick else worlds, quick, chosen, as_json)
        return
    if what != ALL:
        look_up(TARGETS, what, "table or figure")
    names = list(TARGETS) if what == ALL else [what]
    tasks, store = tasks_of(names, worlds, is_slow=slow), Store(out / "results.sqlite")
    if not resume:
        store.drop(task.key for task in tasks)
    compute_rows(what, tasks, store, chosen)
    _show(Products(names, store.rows(), worlds, out), what == ALL, as_json)


def _arena(out: Path, n_seeds: int, is_quick: bool, backend: "Backend", as_json: bool) -> None:
    """Compute, write and print the arena's tables."""
    from tutelage.data.files import write_whole
    from tutelage.experiments import arena
    from tutelage.experiments.plans import Offer
    from tutelage.experiments.sweeps import collected, open_sweep, reasons

    offer = Offer(arena.learners(), arena.teachers(), arena.METRICS)
    tasks, store = open_sweep(arena.plan(n_seeds, is_quick=is_quick), out, retry=False, offer=offer)
    compute_rows(ARENA, tasks, store, backend)
    result = collected(tasks, store)
    files, grids = [out / "arena.csv", out / "arena.md"], list(arena.tables(result.rows))
    result.to_file(files[0])
    write_whole(files[1], "\n".join(grid.markdown() for grid in grids).encode())
    if as_json:
        show_json({"rows": [dict(row) for row in result.rows], "files": [str(path) for path in files]})
        return
    for grid in grids:
        show_table(grid.caption, grid.header, grid.body)
    for sentence in (*reasons(result.failed), *arena.broken_bounds(result.rows)):
        complain(sentence)
    for path in files:
        say(f"Written: {path}")


def compute_rows(what: str, tasks: "Sequence[AnyTask]", store: "Store", backend: "Backend") -> None:
    """Compute the rows that the store does not have. If the run ends early, say how many are stored."""
    from tutelage.experiments.run import missing, run

    left = missing(tasks, store)
    try:
        with progress(what, len(left)) as done:
            run(left, store, backend, on_row=lambda row: done.step(" ".join(row.key.names)))
    except (KeyboardInterrupt, Unavailable):
        n_stored = len(tasks) - len(missing(tasks, store))
        complain(f"{n_stored} of {len(tasks)} rows are stored; run the same command again to continue")
        raise


def _show(products: "Products", is_all: bool, as_json: bool) -> None:
    """Write the files, and print the tables."""
    written = products.write(with_report=is_all)
    grids = [grid for name in products.cells for grid in products.grids(name)]
    if as_json:
        cells = [cell.as_data() for members in products.cells.values() for cell in members]
        tables = [asdict(grid) for grid in grids]
        show_json({"cells": cells, "tables": tables, "files": list(map(str, written)), "origin": products.origin})
        return
    for grid in grids:
        show_table(grid.caption, grid.header, grid.body)
    for path in written:
        say(f"Written: {path}")
