"""`tutelage info`: what a domain file holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tutelage.cli.printing import say, show_json

# The most names of one kind in a line.
MOST_LISTED = 5


def info(
    path: Annotated[Path, typer.Argument(help="A domain file, .npz.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Describe a domain: sizes, names, features, whether goals can be reached, and the least possible allowances.

    [bold]tutelage info lake.npz[/bold]

    [bold]tutelage info lake.npz --json[/bold]
    """
    from tutelage.data.describing import describe
    from tutelage.data.files import load

    found = describe(load(path))
    if as_json:
        show_json(found | {"files": [str(path)]})
        return
    say(f"{path}\n{summary(found)}")


def summary(found: dict[str, Any]) -> str:
    """The description of a domain as lines."""
    low, high = found["discount"]
    discount = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    lines = [f"{found['states']} states, {found['choices']} choices, discount {discount}"]
    totals = {"starts": found["n_starts"], "goals": found["n_goals"], "state_names": found["states"]}
    for label, key in (
        ("starts", "starts"),
        ("goals", "goals"),
        ("actions", "action_names"),
        ("states", "state_names"),
    ):
        listed, n_others = found[key][:MOST_LISTED], totals.get(key, len(found[key])) - len(found[key][:MOST_LISTED])
        names = "; ".join(str(name) for name in listed) or "none"
        lines.append(f"{label}: {names}" + (f" and {n_others} others" if n_others else ""))
    lines.append(found["reach"])
    for kind in ("reward", "preference"):
        for name, (low, high) in found[f"{kind}_features"].items():
            least = ""
            if kind == "preference":
                allowance = found["least_allowances"][name]
                least = f"; an allowance of at least {allowance:.4g} is possible, if it is the only one"
            lines.append(f"{kind} feature {name}: {low:.4g} to {high:.4g}{least}")
    return "\n".join(f"  {line}" for line in lines)
