"""Graphs in files: GraphML, GML, and CSV with one edge per line. Needs networkx."""

import ast
import csv
import io
from pathlib import Path
from typing import Any

from tutelage.data.files import AnyPath, open_regular
from tutelage.outcomes import InvalidModel, MissingExtra

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
