"""Road maps from files, road maps without bends, and where the states of a domain lie.

A soft learner wanders along short edges for their entropy, as it may turn back at each bend of a street. Where there is
only one way on, there is nothing to decide, so edges e_1, e_2, ... one after the other may be one choice, with

    features  phi(e_1) + discount(e_1) phi(e_2) + ...        discount  discount(e_1) discount(e_2) ...

The expectations of every policy that does not turn back at a merged junction stay exactly the same.
"""

import ast
import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.arrays import Indices, Matrix
from tutelage.data.files import AnyPath, open_regular
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, needed_for

CELL = re.compile(r"(?:row |\()(\d{1,4}), (?:column )?(\d{1,4})\)?")
SUFFIXES = (".graphml", ".gml", ".csv")
NODE_COLUMNS = (("source", "target"), ("from", "to"), ("u", "v"))


def read_graph(path: AnyPath, *, is_directed: bool = True) -> Any:
    """The graph in a GraphML, GML or CSV file.

    The first line of a CSV file names its columns: source and target (or from and to, or u and v), and the attributes.
    Columns source_x, source_y, target_x and target_y (or from_x and so on) are the coordinates of the nodes.
    is_directed: of a CSV file; the others say it themselves.
    Texts that are numbers, truth values or lists become these, because OSMnx writes all attributes as texts.
    """
    with needed_for("reading a graph", "graph"):
        import networkx
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
    for *_, attributes in [*graph.nodes(data=True), *graph.edges(data=True)]:
        attributes |= {name: as_value(text) for name, text in attributes.items()}
    return graph


def as_value(text: Any) -> Any:
    """A number, a truth value or a list that is written as a text; others unchanged."""
    if not isinstance(text, str):
        return text
    if text in ("True", "true", "False", "false"):
        return text.lower() == "true"
    try:
        if re.match(r"\s*[-+.0-9]", text):
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
    points = np.full((domain.mdp.n_states, 2), np.nan)
    for state, name in enumerate(domain.state_names or ()):
        if cell := CELL.fullmatch(str(name)):
            points[state] = int(cell[2]), -int(cell[1])
    return points


def ways(domain: Domain, choices: Indices, at: Matrix) -> tuple[Indices, Indices, Indices]:
    """The transitions of these choices between different places: (k, 2), their states; the choice and entry of each."""
    rows = domain.mdp.transition[choices].tocoo()
    pairs = np.column_stack([domain.mdp.state_of_choice[choices[rows.row]], rows.col])
    is_way = np.isfinite(at[pairs]).all(axis=(1, 2)) & (at[pairs[:, 0]] != at[pairs[:, 1]]).any(axis=1)
    return pairs[is_way], choices[rows.row[is_way]], np.flatnonzero(is_way)


def merged_ways(edges: Sequence[tuple[Hashable, Hashable]], kept: Collection[Hashable]) -> list[list[int]]:
    """The numbers of the edges of each way between nodes that stay: those in `kept`, and those with several ways on."""
    leaving = defaultdict[Hashable, list[int]](list)
    incoming = defaultdict[Hashable, set[Hashable]](set)
    for number, (node, after) in enumerate(edges):
        leaving[node].append(number)
        incoming[after].add(node)
    onward: dict[tuple[Hashable, Hashable], int] = {}
    for node, neighbours in incoming.items():
        on = {before: [number for number in leaving[node] if edges[number][1] != before] for before in neighbours}
        if node not in kept and node not in neighbours and all(len(left) == 1 for left in on.values()):
            onward |= {(before, node): left[0] for before, left in on.items()}
    passed = {node for _, node in onward}
    ways = [[number] for number, (node, _) in enumerate(edges) if node not in passed]
    for way in ways:
        while (node := edges[way[-1]][1]) in passed:
            if node in (edges[number][0] for number in way):
                # A ring without a way out.
                return merged_ways(edges, {*kept, node})
            way.append(onward[edges[way[-1]][0], node])
    return ways
