"""`tutelage import` and `tutelage info`: domain files from other sources, and what a domain file holds."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

import tutelage as tl
from tutelage.cli.printing import Result
from tutelage.cli.subject import read_options
from tutelage.outcomes import InvalidInput, as_text, needed_for

OutOption = Annotated[Path, Option("--out", "-o", help="The domain file to write, .npz.")]
CLASSES_HELP = "Preference features: attributes, or lengths by class, such as highway=service+track,toll."


def from_environment(
    name: Annotated[str, "The name of an environment with a table, such as FrozenLake-v1."],
    out: OutOption,
    discount: Annotated[float, "The weight of the next step, up to 1: then episodes end."] = 0.99,
    cells: Annotated[bool, Option("--cells", help="Add a reward feature for the arrival in each state.")] = False,
    option: Annotated[list[str] | None, "An option of the environment, is_slippery=False."] = None,
) -> Result:
    """Write the table of a Gymnasium environment as a domain: its reward, and a preference feature for each action.

    With --cells, a learner also matches where the agent arrives: each state is a reward feature.

    [bold]tutelage import gymnasium FrozenLake-v1 --discount 0.99 -o lake.npz[/bold]

    [bold]tutelage import gymnasium FrozenLake-v1 --cells --option is_slippery=False -o ice.npz --json[/bold]
    """
    with needed_for("import gymnasium", "gymnasium"):
        import gymnasium
    from tutelage.environments.gymnasium import environment_domain
    from tutelage.environments.roads import as_value

    options = {key: as_value(text) for key, text in read_options(option or []).items()}
    try:
        env = gymnasium.make(name, **options)
    # Making an environment runs code of its own, after importing the module that its name may have.
    except Exception as error:
        raise InvalidInput(f"Gymnasium cannot make {name!r}: {error}") from error
    return _saved(environment_domain(env, discount, with_cells=cells), out)


def from_file(
    path: Annotated[Path, "A GraphML, GML or CSV file; a line of CSV is an edge."],
    out: OutOption,
    start: Annotated[str, Option(help="The node where journeys start.")],
    goal: Annotated[list[str] | None, "A node where journeys end; may be repeated."] = None,
    discount: Annotated[float, "Of one step, or of one unit of the duration; 1 where journeys end."] = 0.999,
    duration: Annotated[str, "The attribute that is the time an edge takes, such as km."] = "",
    rewards: Annotated[str, "The numeric attributes that are reward features."] = "length",
    preferences: Annotated[str, CLASSES_HELP] = "",
    measure: Annotated[str, "The attribute to count by class; default: the first reward."] = "",
    names: Annotated[str, "The attribute that names the edges, such as name."] = "",
    undirected: Annotated[bool, Option("--undirected", help="Edges of a CSV file go both ways.")] = False,
    merge: Annotated[bool, Option("--merge", help="Leave out nodes with one way through, as bends.")] = False,
) -> Result:
    """Write a graph as a domain: nodes are states, edges are choices, attributes are features.

    [bold]tutelage import graph roads.graphml --start a --goal z --duration km --rewards km -o roads.npz[/bold]

    [bold]tutelage import graph roads.csv --start a --goal z --rewards km --preferences kind=lane -o roads.npz[/bold]
    """
    from tutelage.experiments.worlds import named_parts

    graph = tl.read_graph(path, is_directed=not undirected)
    nodes = {str(node): node for node in graph.nodes}
    counted = named_parts(rewards)
    classes: dict[str, list[str] | None] = {}
    for part in named_parts(preferences):
        # attribute, or attribute=class+class: each class is one feature.
        name, sign, kinds = part.partition("=")
        classes[name] = [kind for kind in kinds.split("+") if kind] if sign else None
    domain = tl.from_graph(
        graph,
        start=nodes.get(start, start),
        goals=[nodes.get(name, name) for name in goal or []],
        discount=discount,
        duration=duration or None,
        reward_attributes=counted,
        preference_attributes=classes,
        measure=measure or next(iter(counted), None),
        choice_names=names or None,
        merge=merge,
    )
    return _saved(domain, out)


def _saved(domain: "tl.Domain", out: Path) -> Result:
    from tutelage.data.describing import describe

    tl.save(domain, out)
    about = describe(domain)
    return about, [summary(about)], [out]


def info(
    path: Annotated[Path, "A domain file, .npz."],
    recordings: Annotated[Path | None, "Also describe a recording, .csv, .jsonl or .npz."] = None,
) -> Result:
    """Describe a domain: sizes, names, features, whether goals can be reached, and the least possible allowances.

    [bold]tutelage info lake.npz[/bold]

    [bold]tutelage info roads.npz --recordings trips.csv[/bold]
    """
    from tutelage.data.describing import describe, recorded_features, recorded_lines

    domain = tl.load(path)
    about = describe(domain)
    lines = [str(path), summary(about)]
    if recordings is not None:
        log = tl.load_demonstrations(recordings, domain)
        about["recorded"] = recorded_features(domain, log)
        lines += [f"{log} in {recordings}", *recorded_lines(about["recorded"])]
    return about | {"files": [path]}, lines


def summary(about: dict[str, Any]) -> str:
    low, high = about["discount"]
    discount = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    sizes = f"{about['states']} states, {about['choices']} choices, discount {discount}"
    if high == 1 and about["horizon"] is None:
        sizes += ": some policies go on for ever"
    elif high == 1:
        sizes += f": every policy ends, after at most {about['horizon']:.4g} steps on average"
    lines = [sizes]
    for key in ("starts", "goals", "action_names", "state_names"):
        listed, total = about[key][:5], about.get(f"n_{key}", about["states"])
        names = "; ".join(map(as_text, listed)) or "none"
        others = f" and {total - len(listed)} more" if total > len(listed) else ""
        lines.append(f"{key.replace('_name', '')}: {names}{others}")
    lines.append(about["reach"])
    allowed = "; an allowance of {:.4g} is possible, if it is the only one"
    if about["is_arriving"]:
        allowed = "; the journey with the least of it has {:.4g}"
    elif about["n_goals"] and high < 1:
        allowed += ". Policies that never arrive are counted, too"
    for kind in ("reward", "preference"):
        for name, (least, most) in about[f"{kind}_features"].items():
            limit = allowed.format(about["least_allowances"][name]) if kind == "preference" else ""
            lines.append(f"{kind} feature {name}: {least:.4g} to {most:.4g}{limit}")
    return "\n".join(f"  {line}" for line in lines)
