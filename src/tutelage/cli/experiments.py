"""`tutelage demo`, `sweep` and `reproduce`: rows are computed, stored, and shown as tables and pictures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tutelage as tl
from tutelage.cli.printing import AsJson, complain, progress, show
from tutelage.outcomes import InvalidInput, Unavailable
from tutelage.registry import look_up

if TYPE_CHECKING:
    from tutelage.experiments import run, settings, store

NAMES = "table1, figure1, figure2, figure3, figure3-table, figure4, figure5, figure6, figure7, beyond, arena or all"
ROWS_HELP = "Write the rows to this file: .csv, .jsonl, .json or .parquet."
PICTURE_HELP = "Draw the means, and rewards over rounds; adds .png and .svg."


def demo(
    seed: Annotated[int, typer.Option(help="The seed of the published object world.")] = 0,
    size: Annotated[int, typer.Option(help="Cells along one side of the grid.")] = 10,
    allowance: Annotated[float, typer.Option(help="Discounted visits of L2 to each kind of cell it avoids.")] = 2.5,
    picture: Annotated[Path, typer.Option(help="Path of the picture; .png and .svg are added.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Teach learners L1 to L5 in one world: by a teacher that ignores their preferences, and by one that knows them.

    Then teach L2 with hard limits by every teacher, the two adaptive ones included. Prints tables and draws a picture.

    [bold]tutelage demo --seed 3 --picture out/demo[/bold]

    [bold]tutelage demo --size 7 --json[/bold]
    """
    from tutelage.experiments import targets, worlds

    world = worlds.WorldName("published", seed, size)
    # A seed or a size that is not possible is refused here; a refused task would be a row.
    world.make()
    with progress("teaching", targets.N_DEMO_TASKS) as done:
        data, parts, drawn = targets.demo(world, allowance, done)
    files = [str(path) for path in tl.save_picture(drawn, picture)]
    show(data | {"pictures": files}, [*parts, f"Picture: {', '.join(files)}"], as_json=as_json)


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
    from tutelage.experiments import means, run, sweeps

    tasks, kept = sweeps.open_sweep(plan, out, retry=retry)
    _compute("sweep", tasks, kept, run.Backend(1 if address else jobs or os.cpu_count() or 1, address))
    result = sweeps.collected(tasks, kept.rows())
    files = [] if picture is None else tl.save_picture(result.picture(), picture)
    if picture is not None and any(row["n_rounds"] > 1 for row in result.rows):
        files += tl.save_picture(result.curve_picture(), picture.with_name(f"{picture.name}-rounds"))
    if rows is not None:
        result.to_file(rows)
        files.append(rows)
    _show_rows(result, means.tables_of(result.means()), files, [], as_json)


def _show_rows(
    result: "tl.Sweep", tables: Sequence[Any], files: Sequence[Path], warnings: Sequence[str], as_json: bool
) -> None:
    """Rows as data, or their tables, and why some failed."""
    from tutelage.experiments.means import reasons

    show({"rows": [dict(row) for row in result.rows]}, tables, files, as_json=as_json)
    for sentence in () if as_json else (*reasons(result.failed), *warnings):
        complain(sentence)


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
    from tutelage.experiments import run, store
    from tutelage.experiments.targets import TARGETS, produce, tasks_of

    if backend not in ("processes", "dask"):
        raise InvalidInput(f"backend must be 'processes' or 'dask', got {backend!r}")
    if (backend == "dask") != bool(address):
        raise InvalidInput("an address, as tcp://127.0.0.1:8786, is needed for the backend 'dask' and for no other")
    chosen = run.Backend(jobs or os.cpu_count() or 1, address)
    if what == "arena":
        _arena(out, 2 if quick else worlds, quick, chosen, as_json)
        return
    names = list(TARGETS) if what == "all" else [what]
    for name in names:
        look_up(TARGETS, name, "table or figure")
    tasks, kept = tasks_of(names, worlds, is_slow=slow), store.Store(out / "results.sqlite")
    if not resume:
        kept.drop(task.key for task in tasks)
    _compute(what, tasks, kept, chosen)
    data, grids, written = produce(names, kept.rows(), worlds, out, with_report=what == "all")
    data |= {"tables": [grid._asdict() for grid in grids]}
    show(data, grids, written, as_json=as_json)


def _arena(out: Path, n_seeds: int, is_quick: bool, backend: "run.Backend", as_json: bool) -> None:
    """Compute, write and print the arena's tables."""
    from tutelage.data.files import write_whole
    from tutelage.experiments import arena, sweeps

    tasks, kept = sweeps.open_sweep(arena.plan(n_seeds, is_quick=is_quick), out, retry=False, **arena.offer())
    tasks = [task for task in tasks if not arena.is_repeated(task)]
    _compute("arena", tasks, kept, backend)
    result = sweeps.collected(tasks, kept.rows())
    files, grids = [out / f"arena.{suffix}" for suffix in ("csv", "md", "png")], list(arena.tables(result.rows))
    result.to_file(files[0])
    write_whole(files[1], "\n".join(grid.markdown() for grid in grids).encode())
    arena.figure(result.rows).savefig(files[2], dpi=100)
    _show_rows(result, grids, files, arena.broken_bounds(result.rows), as_json)


def _compute(what: str, tasks: "Sequence[settings.Task]", kept: "store.Store", backend: "run.Backend") -> None:
    """Compute the rows that the store does not have. If the run ends early, say how many are stored."""
    from tutelage.experiments.run import missing, run

    left = missing(tasks, kept)
    try:
        with progress(what, len(left)) as done:
            run(left, kept, backend, on_row=lambda row: done(" ".join(row.key[1:])))
    except (KeyboardInterrupt, Unavailable):
        n_stored = len(tasks) - len(missing(tasks, kept))
        complain(f"{n_stored} of {len(tasks)} rows are stored; run the same command again to continue")
        raise
