"""The command line: arguments in, tables and files out; no logic."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import tutelage as tl
from tutelage.environments.preferences import PREFERENCES

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def _tutelage() -> None:
    """Plan what to demonstrate to a learner that has preferences and constraints of its own."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Which published object world.")] = 0,
    size: Annotated[int, typer.Option(help="Cells along one side of the grid.")] = 10,
    allowance: Annotated[float, typer.Option(help="Discounted violations each learner grants per preference.")] = 2.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """One world, learners L1 to L5: what each makes of the optimal policy, and of the best policy that it accepts.

    [bold]tutelage demo --seed 3 --allowance 0.5[/bold]
    """
    world = tl.object_world(size=size, seed=seed)
    rows = [_row(world, learner, allowance) for learner in PREFERENCES]
    if as_json:
        json.dump({"world": json.loads(world.to_json()), "allowance": allowance, "rows": rows}, sys.stdout)
        sys.stdout.write("\n")
    else:
        _show(world, rows, allowance)


def _row(world: tl.ObjectWorld, name: str, allowance: float) -> dict[str, object]:
    domain = world.domain(name)
    learner = tl.HardLearner(domain, violation_allowance=allowance)
    agnostic = tl.AgnosticTeacher(domain, world.true_weights)
    aware = tl.AwareCmdpTeacher(domain, world.true_weights, learner)
    row: dict[str, object] = {"learner": name, "optimal": float(world.true_weights @ agnostic.open().expectation)}
    try:
        row["bound"] = aware.plan().bound
    except tl.InfeasibleConstraints as refusal:
        return row | {"refused": str(refusal)}
    for key, teacher in (("agnostic", agnostic), ("aware", aware)):
        row[key] = tl.teach(teacher, learner).final.response_reward
    return row


def _show(world: tl.ObjectWorld, rows: list[dict[str, object]], allowance: float) -> None:
    title = f"{world.generator} world, seed {world.seed}, {world.size}x{world.size}; allowance {allowance}"
    table = Table(title=title, caption="Expected discounted reward of a hard learner; the bound is certified.")
    table.add_column("learner")
    for heading in ("optimal policy", "taught that", "taught the best it accepts", "no teaching exceeds"):
        table.add_column(heading, justify="right")
    for row in rows:
        figures = [row.get(key) for key in ("optimal", "agnostic", "aware", "bound")]
        table.add_row(str(row["learner"]), *("-" if figure is None else f"{figure:.4f}" for figure in figures))
    console = Console()
    console.print(table)
    for row in rows:
        if "refused" in row:
            console.print(f"{row['learner']}: {row['refused']}")


def main() -> None:
    """The entry point: a bad input is a sentence and exit code 2, not a traceback."""
    try:
        app()
    except tl.TutelageError as error:
        Console(stderr=True).print(f"[red]tutelage:[/red] {error}")
        sys.exit(2)
