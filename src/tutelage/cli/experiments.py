"""`tutelage demo`, `sweep` and `reproduce`: rows are computed, stored, and shown as tables and pictures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import tutelage as tl
from tutelage.cli.printing import Result, complain, progress
from tutelage.outcomes import InvalidInput, Unavailable, within
from tutelage.registry import look_up

if TYPE_CHECKING:
    from tutelage.experiments import run, settings, store

NAMES = "table1, figure1, figure2, figure3, figure3-table, figure4, figure5, figure6, figure7, beyond, arena or all"
JobsOption = Annotated[int, Option(min=0, help="Processes on this machine; 0 for one per core.")]


def demo(
    seed: Annotated[int, "The seed of the published object world."] = 0,
    size: Annotated[int, "Cells along one side of the grid."] = 10,
    allowance: Annotated[float, "Discounted visits of L2 to each kind of cell it avoids."] = 2.5,
    picture: Annotated[Path, "Path of the picture; .png and .svg are added."] = Path("demo"),
) -> Result:
    """Teach learners L1 to L5 in one world: by a teacher that ignores their preferences, and by one that knows them.

    Then teach L2 with hard limits by every teacher, the two adaptive ones included. Prints tables and draws a picture.

    [bold]tutelage demo --seed 3 --picture out/demo[/bold]

    [bold]tutelage demo --size 7 --json[/bold]
    """
    from tutelage.experiments import targets, worlds

    world = worlds.WorldName("published", seed, size)
    # What is not possible is refused here; a refused task would be a row.
    world.make()
    with within("--allowance"):
        tl.count(allowance)
    with progress("teaching", targets.N_DEMO_TASKS) as done:
        data, parts, drawn = targets.demo(world, allowance, done)
    files = [str(path) for path in tl.save_picture(drawn, picture)]
    return data | {"pictures": files}, [*parts, f"Picture: {', '.join(files)}"]


def sweep(
    plan: Annotated[Path, "A TOML file: domains, learners, teachers and seeds."],
    out: Annotated[Path, "Folder for the store of results."] = Path("results"),
    jobs: JobsOption = 0,
    address: Annotated[str, "Instead of processes: the address of a Dask scheduler."] = "",
    retry: Annotated[bool, Option("--retry", help="Compute the rows that failed again.")] = False,
    rows: Annotated[Path | None, "Write the rows to this file: .csv, .jsonl, .json or .parquet."] = None,
    picture: Annotated[Path | None, "Draw the means, and rewards over rounds; adds .png and .svg."] = None,
) -> Result:
    """Compare teachers over your own domains and learners. The same command continues a run that was stopped.

    A list in the plan means "each of these". Each row is stored as soon as it is computed, and a task that fails is a
    row that says why; the sweep then ends with the exit code 3.

    [bold]tutelage sweep plan.toml --jobs 2 --rows rows.csv --picture means[/bold]

    [bold]tutelage sweep plan.toml --retry --json[/bold]

    On a cluster: tutelage sweep plan.toml --address tcp://127.0.0.1:8786
    """
    from tutelage.experiments import means, run, sweeps
    from tutelage.pictures.domains import without_suffix

    tasks, kept = sweeps.open_sweep(plan, out, retry=retry)
    _compute("sweep", tasks, kept, run.Backend(jobs or os.cpu_count() or 1, address))
    result = sweeps.collected(tasks, kept.rows())
    files = [] if picture is None else tl.save_picture(result.picture(), picture)
    if picture is not None and any(row["n_rounds"] > 1 for row in result.rows):
        files += tl.save_picture(result.curve_picture(), f"{without_suffix(picture)}-rounds")
    if rows is not None:
        result.to_file(rows)
        files.append(rows)
    return {"rows": result.rows}, means.tables_of(result.means()), files, means.reasons(result.failed)


def reproduce(
    what: Annotated[str, f"{NAMES}: a table, a figure, or everything with a report."],
    worlds: Annotated[int, Option(min=1, help="Number of worlds in each set; the paper has 10.")] = 10,
    jobs: JobsOption = 0,
    out: Annotated[Path, "Folder for the results, the figures and the report."] = Path("results"),
    quick: Annotated[bool, Option("--quick", help="arena: two small worlds and two seeds.")] = False,
    slow: Annotated[bool, "Add the readings of figure3-table that take hours."] = False,
    resume: Annotated[bool, "Use the rows that the store has, or compute them again."] = True,
    backend: Annotated[str, "processes, or dask for an existing cluster."] = "processes",
    address: Annotated[str, "Address of the Dask scheduler, such as tcp://host:8786."] = "",
) -> Result:
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
        return _arena(out, 2 if quick else worlds, quick, chosen)
    names = list(TARGETS) if what == "all" else [what]
    for name in names:
        look_up(TARGETS, name, "table or figure")
    tasks = tasks_of(names, worlds, is_slow=slow)
    kept = store.Store(out / "results.sqlite")
    if not resume:
        kept.drop(task.key for task in tasks)
    _compute(what, tasks, kept, chosen)
    data, grids, written = produce(names, kept.rows(), worlds, out, with_report=what == "all")
    return data | {"tables": [grid._asdict() for grid in grids]}, grids, written


def _arena(out: Path, n_seeds: int, is_quick: bool, backend: "run.Backend") -> Result:
    from tutelage.data.files import write_whole
    from tutelage.experiments import arena, means, sweeps

    tasks, kept = sweeps.open_sweep(arena.plan(n_seeds, is_quick=is_quick), out, retry=False, **arena.offer())
    tasks = [task for task in tasks if not arena.is_repeated(task)]
    _compute("arena", tasks, kept, backend)
    result = sweeps.collected(tasks, kept.rows())
    grids = list(arena.tables(result.rows))
    rows, text, picture = (out / f"arena.{suffix}" for suffix in ("csv", "md", "png"))
    result.to_file(rows)
    write_whole(text, "\n".join(grid.markdown() for grid in grids).encode())
    arena.figure(result.rows).savefig(picture, dpi=100)
    warnings = means.reasons(result.failed) + arena.broken_bounds(result.rows)
    return {"rows": result.rows}, grids, [rows, text, picture], warnings


def _compute(what: str, tasks: "Sequence[settings.Task]", kept: "store.Store", backend: "run.Backend") -> None:
    from tutelage.experiments.run import missing, run

    left = missing(tasks, kept)
    try:
        with progress(what, len(left)) as done:
            run(left, kept, backend, on_row=lambda row: done(" ".join(row.key[1:])))
    except (KeyboardInterrupt, Unavailable):
        n_stored = len(tasks) - len(missing(tasks, kept))
        complain(f"{n_stored} of {len(tasks)} rows are stored; run the same command again to continue")
        raise
