"""Road maps from files, and road maps without bends.

A graph is read from GraphML, GML, or CSV with one edge per line, which needs networkx.

A soft learner wanders along short edges for their entropy: at a bend of a street it may turn back, and each bend is
one more place to do so. Where a traveller from any neighbour has only one way on, but for turning back, there is
nothing to decide. For choices c_1, c_2, ... one after the other, the merged choice has

    features  phi(c_1) + discount(c_1) phi(c_2) + ...        discount  discount(c_1) discount(c_2) ...

so the expectations of every policy that does not turn back at a merged junction stay exactly the same.
"""

import ast
import csv
import io
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, Matrix
from tutelage.data.files import AnyPath, open_regular
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.names import Labels
from tutelage.outcomes import InvalidModel, MissingExtra

# The names of cells by row and column: those of grids, and pairs of numbers.
CELL = re.compile(r"(?:row |\()(\d{1,4}), (?:column )?(\d{1,4})\)?")
SUFFIXES = (".graphml", ".gml", ".csv")
# The columns of an edge list that name the nodes of an edge.
NODE_COLUMNS = (("source", "target"), ("from", "to"), ("u", "v"))


def read_graph(path: AnyPath, *, is_directed: bool = True) -> Any:
    """The graph in a GraphML, GML or CSV file.

    The first line of a CSV file names its columns: source and target (or from and to, or u and v), and the attributes.
    Columns source_x, source_y, target_x and target_y (or from_x and so on) are the coordinates of the nodes.
    is_directed: of a CSV file; the others say it themselves.

    Texts that are numbers, truth values or lists become these, because OSMnx writes all attributes as texts.
    """
    try:
        import networkx
    except ModuleNotFoundError as error:
        raise MissingExtra("reading a graph", "graph") from error
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidModel(f"{path} must end in {', '.join(SUFFIXES)}, the formats of graphs")
    with open_regular(path) as file:
        content = file.read()
    try:
        if suffix == ".csv":
            graph = _edge_list(networkx, content.decode("utf-8-sig"), str(path), is_directed)
        elif suffix == ".gml":
            graph = networkx.parse_gml(content.decode("utf-8"))
        else:
            graph = networkx.read_graphml(io.BytesIO(content))
    except InvalidModel:
        raise
    # Damaged bytes raise many kinds of exceptions in the parsers; all have the same meaning here.
    except Exception as error:
        raise InvalidModel(f"{path} cannot be read as {suffix}: {error}") from error
    for _, attributes in [*graph.nodes(data=True), *((None, edge[-1]) for edge in graph.edges(data=True))]:
        attributes |= {name: as_value(text) for name, text in attributes.items()}
    return graph


def as_value(text: Any) -> Any:
    """A number, a truth value or a list that is written as a text; others unchanged."""
    if not isinstance(text, str):
        return text
    if text in ("True", "true", "False", "false"):
        return text.lower() == "true"
    try:
        if text.strip()[:1] in tuple("-+.0123456789"):
            return float(text)
        return ast.literal_eval(text) if text.startswith("[") and text.endswith("]") else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _edge_list(networkx: Any, text: str, path: str, is_directed: bool) -> Any:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = reader.fieldnames or []
    ends = next((pair for pair in NODE_COLUMNS if set(pair) <= set(header)), None)
    if ends is None:
        needed = ", or ".join(f"{source} and {target}" for source, target in NODE_COLUMNS)
        raise InvalidModel(f"{path} needs columns {needed}; it has {', '.join(header) or 'none'}")
    graph = networkx.MultiDiGraph() if is_directed else networkx.MultiGraph()
    for row in reader:
        if None in row or None in row.values():
            raise InvalidModel(f"line {reader.line_num} of {path} does not have {len(header)} values")
        nodes = [row.pop(end) for end in ends]
        if not all(nodes):
            raise InvalidModel(f"line {reader.line_num} of {path} has an edge without {ends[nodes.index('')]}")
        for node, end in zip(nodes, ends, strict=True):
            graph.add_node(node, **{axis: row.pop(f"{end}_{axis}") for axis in "xy" if f"{end}_{axis}" in row})
        # An empty cell is an attribute that the edge does not have.
        graph.add_edge(*nodes, **{name: value for name, value in row.items() if value})
    if not graph.nodes:
        raise InvalidModel(f"{path} has no edges")
    return graph


def places(domain: Domain) -> Matrix:
    """(S, 2), the positions of the states, or those of cells that are named by row and column; NaN for the others."""
    if domain.positions is not None:
        return np.asarray(domain.positions)
    found = np.full((domain.mdp.n_states, 2), np.nan)
    for state, name in enumerate(domain.state_names or ()):
        if cell := CELL.fullmatch(str(name)):
            found[state] = int(cell[2]), -int(cell[1])
    return found


def ways(domain: Domain, choices: Indices, at: Matrix) -> tuple[Indices, Indices, Indices]:
    """The transitions of these choices between different places: (k, 2), their states; the choice and entry of each."""
    rows = domain.mdp.transition[choices].tocoo()
    pairs = np.column_stack([domain.mdp.state_of_choice[choices[rows.row]], rows.col])
    is_way = np.isfinite(at[pairs]).all(axis=(1, 2)) & (at[pairs[:, 0]] != at[pairs[:, 1]]).any(axis=1)
    return pairs[is_way], choices[rows.row[is_way]], np.flatnonzero(is_way)


def merged_ways(domain: Domain) -> Domain:
    """The domain, in which each choice leads to one state, without the states that have one way through.

    Starts and goals stay. A choice keeps its name; one that was named by the next state has the name of the new one.
    """
    mdp = domain.mdp
    after, owner = mdp.transition.indices.astype(np.int64), mdp.state_of_choice
    onward = _onward(mdp, after, owner)
    is_kept = ~np.isin(np.arange(mdp.n_states), [state for _, state in onward])
    choices = np.flatnonzero(is_kept[owner])
    features = np.hstack([per_choice(mdp, part) for part in (domain.reward_features, domain.preference_features)])
    discount = np.broadcast_to(np.asarray(mdp.discount, dtype=np.float64), mdp.n_choices)
    time = np.zeros(mdp.n_choices) if mdp.duration is None else mdp.duration
    summed, factor, taken = (part[choices].copy() for part in (features, discount, time))
    last = choices.copy()
    for place, first in enumerate(choices.tolist()):
        before, choice = int(owner[first]), first
        while not is_kept[after[choice]]:
            before, choice = int(after[choice]), onward[before, int(after[choice])]
            summed[place] += factor[place] * features[choice]
            factor[place] *= discount[choice]
            taken[place] += time[choice]
        last[place] = choice
    number = np.cumsum(is_kept) - 1
    n, columns = int(is_kept.sum()), number[after[last]]
    rows = sparse.csr_array((np.ones(len(choices)), columns, np.arange(len(choices) + 1)), shape=(len(choices), n))
    first_choice = np.searchsorted(number[owner[choices]], np.arange(n + 1))
    kept = np.flatnonzero(is_kept)
    labels = Labels.of(
        first_choice, [domain.state_name(int(state)) for state in kept], _names(domain, choices, after, after[last])
    )
    duration = None if mdp.duration is None else taken
    merged = MDP(rows, first_choice, mdp.initial[kept], factor, labels, duration=duration, goals=number[mdp.goals])
    reward, preference = np.split(summed, [domain.n_reward], axis=1)
    at = None if domain.positions is None else domain.positions[kept]
    return Domain(merged, reward, preference, domain.reward_names, domain.preference_names, positions=at)


def _onward(mdp: MDP, after: Indices, owner: Indices) -> dict[tuple[int, int], int]:
    """(state before, state) -> the one choice on, for every state that has one way through."""
    outgoing: list[list[int]] = [[] for _ in range(mdp.n_states)]
    incoming: list[set[int]] = [set() for _ in range(mdp.n_states)]
    for choice, (state, following) in enumerate(zip(owner.tolist(), after.tolist(), strict=True)):
        outgoing[state].append(choice)
        incoming[following].add(state)
    ends = set(np.flatnonzero(mdp.initial).tolist()) | set(mdp.goals.tolist())
    onward: dict[tuple[int, int], int] = {}
    for state, choices in enumerate(outgoing):
        ways = {before: [c for c in choices if after[c] != before] for before in incoming[state]}
        if state not in ends and state not in incoming[state] and ways and all(len(on) == 1 for on in ways.values()):
            onward |= {(before, state): on[0] for before, on in ways.items()}
    return onward


def _names(domain: Domain, choices: Indices, after: Indices, reached: Indices) -> list[Hashable]:
    """The names of the merged choices, different within a state."""
    names: list[Hashable] = []
    seen: set[tuple[int, Hashable]] = set()
    for choice, state in zip(choices.tolist(), reached.tolist(), strict=True):
        name, owner = domain.choice_name(choice), int(domain.mdp.state_of_choice[choice])
        if name == domain.state_name(int(after[choice])):
            name = domain.state_name(state)
        if (owner, name) in seen:
            name = (name, domain.state_name(int(after[choice])))
        seen.add((owner, name))
        names.append(name)
    return names
