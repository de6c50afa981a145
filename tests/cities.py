"""Generated cities: a street grid with jitter, gaps, one-way streets and street classes, as a networkx graph."""

import networkx as nx
import numpy as np

SPEED = {"primary": 50.0, "secondary": 40.0, "residential": 25.0}


def city(n: int, seed: int) -> nx.MultiDiGraph:
    """About n * n junctions, the largest strongly connected part, with km, minutes, highway and name on each edge.

    Every eighth street is primary and every fourth secondary; some blocks are missing, some streets are one-way.
    """
    rng = np.random.default_rng(seed)
    places = {
        (i, j): (0.1 * j + 0.03 * rng.random(), 0.1 * i + 0.03 * rng.random()) for i in range(n) for j in range(n)
    }
    graph = nx.MultiDiGraph()
    for node, (x, y) in places.items():
        graph.add_node(node, x=x, y=y)
    for i, j in places:
        for other, along, kind in (((i, j + 1), i, "Street"), ((i + 1, j), j, "Avenue")):
            if other in places and (along % 4 == 0 or rng.random() > 0.12):
                is_one_way = along % 8 != 0 and rng.random() < 0.1
                _add(graph, (i, j), other, along, kind)
                if not is_one_way:
                    _add(graph, other, (i, j), along, kind)
    largest = max(nx.strongly_connected_components(graph), key=len)
    return nx.convert_node_labels_to_integers(graph.subgraph(largest), ordering="sorted", label_attribute="at")


def _add(graph: nx.MultiDiGraph, node: tuple[int, int], other: tuple[int, int], along: int, kind: str) -> None:
    a, b = graph.nodes[node], graph.nodes[other]
    km = float(np.hypot(a["x"] - b["x"], a["y"] - b["y"]))
    highway = "primary" if along % 8 == 0 else "secondary" if along % 4 == 0 else "residential"
    minutes = 60 * km / SPEED[highway]
    graph.add_edge(node, other, km=km, minutes=minutes, highway=highway, name=f"{kind} {along}")
