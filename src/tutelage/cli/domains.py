"""`tutelage import` and `tutelage info`: domain files from other sources, and what a domain file holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli.printing import AsJson, say, show_json
from tutelage.outcomes import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from tutelage.model.mdp import Domain

OUT_HELP = "The domain file to write, .npz."
START_HELP = "The node where journeys start."
CLASSES_HELP = "Preference features: attributes, or lengths by class, such as highway=service+track,toll."

# The most names of one kind in a line of `info`.
MOST_LISTED = 5


def from_environment(
    name: Annotated[str, typer.Argument(help="The name of an environment with a table, such as FrozenLake-v1.")],
    out: Annotated[Path, typer.Option("--out", "-o", help=OUT_HELP)],
    discount: Annotated[float, typer.Option(help="The weight of the next step, up to 1: then episodes end.")] = 0.99,
    cells: Annotated[bool, typer.Option("--cells", help="Add a reward feature for the arrival in each state.")] = False,
    option: Annotated[list[str] | None, typer.Option(help="An option of the environment, is_slippery=False.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the table of a Gymnasium environment as a domain: its reward, and a preference feature for each action.

    With --cells, a learner also matches where the agent arrives: each state is a reward feature.

    [bold]tutelage import gymnasium FrozenLake-v1 --discount 0.99 -o lake.npz[/bold]

    [bold]tutelage import gymnasium FrozenLake-v1 --cells --option is_slippery=False -o ice.npz --json[/bold]
    """
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise MissingExtra("import gymnasium", "gymnasium") from error
    from tutelage.cli.subject import read_options
    from tutelage.environments.graph_files import as_value
    from tutelage.environments.gymnasium import environment_domain

    options = {key: as_value(text) for key, text in read_options(option or []).items()}
    try:
        env = gymnasium.make(name, **options)
    # Making an environment runs code of its own, after importing the module that its name may have.
    except Exception as error:
        raise InvalidInput(f"Gymnasium cannot make {name!r}: {error}") from error
    _save(environment_domain(env, discount, with_cells=cells), out, as_json)


def from_file(
    path: Annotated[Path, typer.Argument(help="A GraphML, GML or CSV file; a line of CSV is an edge.")],
    out: Annotated[Path, typer.Option("--out", "-o", help=OUT_HELP)],
    start: Annotated[str, typer.Option(help=START_HELP)],
    goal: Annotated[list[str] | None, typer.Option(help="A node where journeys end; may be repeated.")] = None,
    discount: Annotated[
        float, typer.Option(help="Of one step, or of one unit of the duration; 1 where journeys end.")
    ] = 0.999,
    duration: Annotated[str, typer.Option(help="The attribute that is the time an edge takes, such as km.")] = "",
    rewards: Annotated[str, typer.Option(help="The numeric attributes that are reward features.")] = "length",
    preferences: Annotated[str, typer.Option(help=CLASSES_HELP)] = "",
    measure: Annotated[str, typer.Option(help="The attribute to count by class; default: the first reward.")] = "",
    names: Annotated[str, typer.Option(help="The attribute that names the edges, such as name.")] = "",
    undirected: Annotated[bool, typer.Option("--undirected", help="Edges of a CSV file go both ways.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Leave out nodes with one way through, as bends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a graph as a domain: nodes are states, edges are choices, attributes are features.

    [bold]tutelage import graph roads.graphml --start a --goal z --duration km --rewards km -o roads.npz[/bold]

    [bold]tutelage import graph roads.csv --start a --goal z --rewards km --preferences kind=lane -o roads.npz[/bold]
    """
    from tutelage.environments.graph import from_graph
    from tutelage.environments.graph_files import read_graph
    from tutelage.experiments.worlds import named_parts

    graph, counted = read_graph(path, is_directed=not undirected), list(named_parts(rewards))
    nodes = {str(node): node for node in graph.nodes}
    domain = from_graph(
        graph,
        start=nodes.get(start, start),
        goals=[nodes.get(name, name) for name in goal or []],
        discount=discount,
        duration=duration or None,
        reward_attributes=counted,
        preference_attributes=_classes(preferences),
        measure=measure or (counted[0] if counted else None),
        choice_names=names or None,
        merge=merge,
    )
    _save(domain, out, as_json)


def _classes(text: str) -> dict[str, Any]:
    """attribute, or attribute=class+class: each class is one feature."""
    from tutelage.experiments.worlds import named_parts

    pairs = [part.partition("=") for part in named_parts(text)]
    return {name: [kind for kind in classes.split("+") if kind] if sign else None for name, sign, classes in pairs}


def _save(domain: "Domain", out: Path, as_json: bool) -> None:
    from tutelage.data.describing import describe
    from tutelage.data.files import save

    save(domain, out)
    if as_json:
        show_json(describe(domain) | {"files": [str(out)]})
        return
    say(f"Written: {out}\n{summary(describe(domain))}")


def make_import() -> typer.Typer:
    """The command `import`, with one command for each source."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Write a domain file from another source.")
    app.command("gymnasium")(from_environment)
    app.command("graph")(from_file)
    return app


def info(
    path: Annotated[Path, typer.Argument(help="A domain file, .npz.")],
    recordings: Annotated[Path | None, typer.Option(help="Also describe a recording, .csv, .jsonl or .npz.")] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a domain: sizes, names, features, whether goals can be reached, and the least possible allowances.

    [bold]tutelage info lake.npz[/bold]

    [bold]tutelage info roads.npz --recordings trips.csv[/bold]
    """
    from tutelage.data.describing import describe, recorded_features, recorded_lines
    from tutelage.data.files import load, load_demonstrations

    domain = load(path)
    about, lines = describe(domain), []
    if recordings is not None:
        log = load_demonstrations(recordings, domain)
        about["recorded"] = recorded_features(domain, log)
        lines = [f"{log} in {recordings}", *recorded_lines(about["recorded"])]
    if as_json:
        show_json(about | {"files": [str(path)]})
        return
    say("\n".join([str(path), summary(about), *lines]))


def summary(about: dict[str, Any]) -> str:
    """The description of a domain as lines."""
    from tutelage.model.names import as_text

    low, high = about["discount"]
    discount = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    lines = [f"{about['states']} states, {about['choices']} choices, discount {discount}"]
    has_ends = high == 1
    if has_ends:
        steps = "some policies go on for ever"
        if about["horizon"] is not None:
            steps = f"every policy ends, after at most {about['horizon']:.4g} steps on average"
        lines[0] += f": {steps}"
    totals = {"starts": about["n_starts"], "goals": about["n_goals"], "state_names": about["states"]}
    totals["action_names"] = about["n_action_names"]
    labels = {"starts": "starts", "goals": "goals", "action_names": "actions", "state_names": "states"}
    for key, label in labels.items():
        listed, n_others = about[key][:MOST_LISTED], totals[key] - len(about[key][:MOST_LISTED])
        names = "; ".join(map(as_text, listed)) or "none"
        lines.append(f"{label}: {names}" + (f" and {n_others} others" if n_others else ""))
    lines.append(about["reach"])
    for kind in ("reward", "preference"):
        for name, (low, high) in about[f"{kind}_features"].items():
            least = ""
            if kind == "preference":
                allowance = about["least_allowances"][name]
                least = f"; an allowance of at least {allowance:.4g} is possible, if it is the only one"
                if about["is_arriving"]:
                    least = f"; the journey with the least of it has {allowance:.4g}"
                elif about["n_goals"] and not has_ends:
                    least += ", also for policies that never arrive"
            lines.append(f"{kind} feature {name}: {low:.4g} to {high:.4g}{least}")
    return "\n".join(f"  {line}" for line in lines)
