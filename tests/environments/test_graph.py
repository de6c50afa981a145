"""Road maps as domains: choices, attributes, names, files, and journeys that end."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial import Delaunay
from strategies import some_of

import tutelage as tl
from tutelage.environments.graph import from_graph, graph_choices
from tutelage.environments.roads import read_graph
from tutelage.model.mdp import Domain
from tutelage.model.policy import max_by_state
from tutelage.outcomes import InvalidModel

networkx = pytest.importorskip("networkx")

SEEDS = st.integers(0, 2**32 - 1)


def optimal_values(domain: Domain, weights, *, n_steps: int) -> np.ndarray:
    """(S,), the largest reward of `n_steps` steps from each state."""
    mdp, value = domain.mdp, np.zeros(domain.mdp.n_states)
    for _ in range(n_steps):
        value = max_by_state(
            mdp, domain.reward_features @ np.asarray(weights) + mdp.discount * (mdp.transition @ value)
        )
    return value


def roads(seed: int, make=networkx.gnp_random_graph, **options):
    """A random road map of 3 to 12 junctions; each road has an integer length from 1 to 4, and a toll or none."""
    rng = np.random.default_rng(seed)
    graph = make(int(rng.integers(3, 13)), 0.3, seed=int(rng.integers(2**31)), **options)
    for _, _, attributes in graph.edges(data=True):
        attributes.update(length=int(rng.integers(1, 5)), toll=bool(rng.random() < 0.5))
    return graph


def in_unit_steps(graph):
    """The same map with a junction after every unit of length, so that the length of a walk is its number of steps."""
    finer = networkx.create_empty_copy(graph)
    for one, other, length in graph.edges(data="length"):
        networkx.add_path(finer, [one, *((one, other, step) for step in range(1, length)), other])
    return finer


@pytest.mark.parametrize("is_directed", [False, True])
@given(seed=SEEDS)
def test_the_value_of_arriving_is_the_discount_to_the_power_of_the_shortest_path(is_directed, seed):
    """With reward only at the goal, V = g^d / (1 - g) where d is the number of steps. On a map of unit steps d is the
    length that Dijkstra's algorithm finds on the original map. After 400 steps at 0.9 less than 1e-16 remains.
    """
    graph = roads(seed, directed=is_directed)
    finer = in_unit_steps(graph)
    domain = from_graph(finer, start=0, discount=0.9, reward_attributes=[], goals=[1])
    assert domain.reward_names == ("at goal",)
    value = dict(zip(finer.nodes, optimal_values(domain, [1.0], n_steps=400), strict=True))
    for node in graph.nodes:
        try:
            shortest = networkx.dijkstra_path_length(graph, node, 1, weight="length")
        except networkx.NetworkXNoPath:
            shortest = math.inf
        assert value[node] == pytest.approx(0.9**shortest / (1 - 0.9), rel=1e-9, abs=1e-12)


@given(SEEDS)
def test_the_cost_of_the_best_route_is_the_shortest_length_as_the_discount_tends_to_one(seed):
    """With reward -length, a walk of at most 100 roads costs between g^100 and 1 times its length. One that has not
    arrived by then has cost at least 99, which no shortest path does: 11 roads of length 4. So the cheapest walk costs
    between g^100 and 1 times the length that Dijkstra's algorithm finds.
    """
    graph, discount = roads(seed), 1 - 1e-9
    domain = from_graph(graph, start=0, discount=discount, reward_attributes=["length"], goals=[1])
    cost = -optimal_values(domain, [-1.0, 0.0], n_steps=100)
    for node, shortest in networkx.single_source_dijkstra_path_length(graph, 1, weight="length").items():
        assert shortest * discount**100 - 1e-12 <= cost[node] <= shortest + 1e-12


@pytest.mark.parametrize("is_directed", [False, True])
@given(seed=SEEDS)
def test_every_choice_is_an_edge_with_its_attributes(is_directed, seed):
    """Each choice against the graph: its node, its next node and its features."""
    graph = roads(seed, directed=is_directed)
    domain = from_graph(
        graph, start=0, discount=0.9, reward_attributes=["length"], preference_attributes=["toll", "length"], goals=[2]
    )
    choices = graph_choices(graph, goals=[2])
    next_states = domain.mdp.transition.indices
    assert len(choices) == domain.mdp.n_choices == domain.mdp.transition.nnz
    for choice, (node, next_node, key) in enumerate(choices):
        is_stay = node == 2 or graph.degree(node) == 0 or (is_directed and graph.out_degree(node) == 0)
        road = {"length": 0, "toll": 0} if is_stay else graph.edges[node, next_node]
        assert (domain.mdp.state_of_choice[choice], next_states[choice], key) == (node, next_node, None)
        assert_array_equal(domain.reward_features[choice], [road["length"], node == 2])
        assert_array_equal(domain.preference_features[choice], [road["toll"], road["length"]])
        assert not is_stay or node == next_node
    for node in set(graph.nodes) - {2}:
        assert [after for before, after, _ in choices if before == node] == (list(graph.adj[node]) or [node])
    assert (domain.reward_names, domain.preference_names) == (("length", "at goal"), ("toll", "length"))


def test_nodes_keep_their_names_and_their_order():
    """States are in the order of graph.nodes, for nodes of any type; a one-way street is a choice of one node only."""
    graph = networkx.DiGraph()
    graph.add_edge("station", (1, 2), length=2.5)
    graph.add_edge("station", "market", length=Fraction(1, 2))
    graph.add_edge((1, 2), "market", length=np.float32(1))
    domain = from_graph(graph, start={"station": 0.25, "market": 0.75}, discount=0.9, reward_attributes=["length"])
    assert graph_choices(graph) == [
        ("station", (1, 2), None),
        ("station", "market", None),
        ((1, 2), "market", None),
        ("market", "market", None),
    ]
    assert_array_equal(domain.mdp.first_choice, [0, 2, 3, 4])
    assert_allclose(domain.reward_features[:, 0], [2.5, 0.5, 1.0, 0.0])
    assert_array_equal(domain.mdp.initial, [0.25, 0.0, 0.75])


def test_parallel_edges_are_choices_of_their_own():
    """A toll road and a free road between the same towns: two choices each way, distinguished by their keys."""
    graph = networkx.MultiGraph()
    graph.add_edge("a", "b", key="motorway", minutes=10, toll=True)
    graph.add_edge("a", "b", key="lane", minutes=25, toll=False)
    domain = from_graph(
        graph, start="a", discount=0.9, reward_attributes=["minutes"], preference_attributes=["toll"], goals=["b"]
    )
    assert graph_choices(graph, ["b"]) == [("a", "b", "motorway"), ("a", "b", "lane"), ("b", "b", None)]
    assert_array_equal(domain.reward_features, [[10, 0], [25, 0], [0, 1]])
    assert_array_equal(domain.preference_features, [[1], [0], [0]])
    back = [("b", "a", "motorway"), ("b", "a", "lane")]
    assert graph_choices(graph)[2:] == back


def test_a_loop_is_a_choice_and_a_dead_end_a_stay_without_features():
    """Both lead back to the node; only the existing road has attributes, and neither is a goal."""
    graph = networkx.DiGraph([("round", "round", {"length": 3}), ("round", "end", {"length": 1})])
    domain = from_graph(graph, start="round", discount=0.9, reward_attributes=["length"])
    assert graph_choices(graph) == [("round", "round", None), ("round", "end", None), ("end", "end", None)]
    assert_array_equal(domain.reward_features[:, 0], [3, 1, 0])
    assert domain.reward_names == ("length",)


def test_an_edge_out_of_a_goal_needs_no_attributes():
    """The edges of a goal are dropped, so they need no attributes; the same edge of another node is refused."""
    graph = networkx.DiGraph([("a", "b", {"length": 1}), ("b", "a")])
    domain = from_graph(graph, start="a", discount=0.9, reward_attributes=["length"], goals={"b"})
    assert_array_equal(domain.reward_features, [[1, 0], [0, 1]])
    with pytest.raises(InvalidModel, match="edge 'b' -> 'a' has no attribute 'length'"):
        from_graph(graph, start="a", discount=0.9, reward_attributes=["length"])


TRIANGLE = networkx.DiGraph(
    [
        ("a", "b", {"length": 1, "name": "High Street", "speed": math.nan, "width": None, "count": 10**400}),
        ("b", "c", {"length": 1, "name": "Mill Lane", "speed": 30.0, "width": None, "count": 1}),
    ]
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": networkx.Graph()}, "the graph is empty"),
        ({"graph": {"a": ["b"]}}, "methods of a networkx graph, got dict"),
        ({"start": "d"}, "start 'd' is not a node"),
        ({"start": ["a"]}, r"\['a'\] cannot be a node"),
        ({"start": {"a": 0.5, "d": 0.5}}, "start 'd' is not a node"),
        ({"start": {"a": 0.5}}, "initial sums to 0.5"),
        ({"start": {"a": "all"}}, "the probability of start 'a' must be a finite number"),
        ({"start": {}}, "initial sums to 0"),
        ({"goals": ["d"]}, "goal 'd' is not a node"),
        ({"goals": [["c"]]}, r"\['c'\] cannot be a node"),
        ({"goals": "c"}, "goals must be a collection of nodes"),
        ({"goals": 3}, "goals must be a collection of nodes"),
        ({"reward_attributes": "length"}, "reward_attributes must be a list of names"),
        ({"preference_attributes": "toll"}, "preference_attributes must be a list of names"),
        ({"reward_attributes": ["fuel"]}, "edge 'a' -> 'b' has no attribute 'fuel'"),
        ({"preference_attributes": ["name"]}, "'name' of edge 'a' -> 'b' must be a finite number .*'High Street'"),
        ({"reward_attributes": ["speed"]}, "'speed' of edge 'a' -> 'b' must be a finite number .*nan"),
        ({"reward_attributes": ["width"]}, "'width' of edge 'a' -> 'b' must be a finite number .*None"),
        ({"reward_attributes": ["count"]}, "'count' of edge 'a' -> 'b' must be a finite number"),
        ({"reward_attributes": ["length", "length"]}, "different names"),
        ({"discount": 0}, "discount must be above 0"),
    ],
)
def test_graphs_that_mean_nothing_are_refused(change, message):
    """The message names the node or the edge as the caller gave it."""
    arguments = {"graph": TRIANGLE, "start": "a", "discount": 0.9, "reward_attributes": ["length"]} | change
    with pytest.raises(InvalidModel, match=message):
        from_graph(arguments.pop("graph"), **arguments)


def test_the_key_of_a_parallel_edge_is_named():
    """For parallel edges the message gives the key."""
    graph = networkx.MultiDiGraph()
    graph.add_edge("a", "b", key="lane")
    with pytest.raises(InvalidModel, match=r"edge 'a' -> 'b' \(key 'lane'\) has no attribute 'length'"):
        from_graph(graph, start="a", discount=0.9, reward_attributes=["length"])


TOWN = [
    ("a", "b", {"length": 3.0, "highway": "service", "name": "Mill Lane"}),
    ("b", "c", {"length": 5.0, "highway": ["primary", "service"], "name": ["High Street", "Bridge"]}),
    ("b", "a", {"length": 3.0, "highway": "service", "name": "Mill Lane"}),
    ("b", "d", {"length": 1.0, "highway": "trunk", "name": "Mill Lane"}),
    ("c", "a", {"length": 2.0, "highway": "primary"}),
]


def town(**nodes):
    graph = networkx.MultiDiGraph()
    for node in "abcd":
        graph.add_node(node, **nodes.get(node, {}))
    graph.add_edges_from(TOWN)
    return graph


def test_lengths_are_counted_by_class_and_by_group_of_classes():
    groups = {"highway": {"slow": ["service"], "main": ["primary", "trunk"]}, "length": None}
    options = {"start": "a", "discount": 0.9, "reward_attributes": ["length"]}
    domain = from_graph(town(), preference_attributes={"highway": ["service", "primary"]}, **options)
    assert domain.preference_names == ("highway service", "highway primary")
    # The choices are a-b, b-c, b-a, b-d, c-a, and to stay in d.
    assert_array_equal(domain.preference_features, [[3, 0], [5, 5], [3, 0], [0, 0], [0, 2], [0, 0]])
    domain = from_graph(town(), preference_attributes=groups, **options)
    assert domain.preference_names == ("slow", "main", "length")
    assert_array_equal(domain.preference_features[:, 1], [0, 5, 0, 1, 2, 0])
    assert_array_equal(domain.preference_features[:, 2], domain.reward_features[:, 0])
    domain = from_graph(town(), preference_attributes={"highway": ["service"]}, measure=None, **options)
    assert_array_equal(domain.preference_features[:, 0], [1, 1, 1, 0, 0, 0])


def test_nodes_and_streets_become_names_and_coordinates_positions():
    options = {"start": "a", "discount": 0.9, "reward_attributes": ["length"]}
    domain = from_graph(town(a={"x": 1.0, "y": 2.0}, b={"pos": (3, 4)}, c={"x": "east"}), **options)
    assert list(domain.state_names) == list("abcd") and list(domain.choice_names) == ["b", "c", "a", "d", "a", "stay"]
    assert_array_equal(domain.positions, [[1, 2], [3, 4], [np.nan] * 2, [np.nan] * 2])
    assert from_graph(town(), **options).positions is None
    named = from_graph(town(), choice_names="name", **options)
    at_b = ["High Street / Bridge", "Mill Lane to a", "Mill Lane to d"]
    assert list(named.choice_names) == ["Mill Lane", *at_b, "a", "stay"]
    doubled = town()
    doubled.add_edge("a", "b", length=9.0)
    assert list(from_graph(doubled, **options).choice_names)[:2] == [("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preference_attributes": {"highway": ["servce"]}}, "no edge has 'highway' 'servce'; did you mean 'service'"),
        ({"preference_attributes": {"kind": ["x"]}}, "no edge has the attribute 'kind'"),
        ({"preference_attributes": {"highway": "service"}}, "must be a list of classes, or .*; got 'service'"),
        ({"preference_attributes": {"highway": {"slow": "service"}}}, "must give lists of classes by name"),
        ({"preference_attributes": {"highway": ["service"]}, "measure": "km"}, "has no attribute 'km'"),
        ({"preference_attributes": ["highway"]}, "got 'service'; for a class, give the classes to count in a mapping"),
        ({"reward_attributes": ["lenght"]}, "no attribute 'lenght'.*did you mean 'length'"),
    ],
)
def test_wrong_attributes_are_refused_with_a_sentence(change, message):
    with pytest.raises(InvalidModel, match=message):
        from_graph(town(), **({"start": "a", "discount": 0.9, "reward_attributes": ["length"]} | change))


def test_a_graph_in_any_file_is_the_same_domain(tmp_path):
    """Also with all attributes as texts, as OSMnx writes them."""
    graph = town(a={"x": 1.5, "y": 2.0}, b={"x": 3.0, "y": 4.0}, c={"x": 0.0, "y": 0.0}, d={"x": 5.0, "y": 5.0})
    texts = networkx.MultiDiGraph()
    texts.add_nodes_from(
        (node, {name: str(value) for name, value in given.items()}) for node, given in graph.nodes.items()
    )
    texts.add_edges_from(
        (u, v, {name: str(value) for name, value in given.items()}) for u, v, given in graph.edges(data=True)
    )
    networkx.write_graphml(texts, tmp_path / "town.graphml")
    networkx.write_gml(texts, tmp_path / "town.gml")
    lines = ["from,to,from_x,from_y,to_x,to_y,length,highway,name"]
    for u, v, road in graph.edges(data=True):
        ends = [graph.nodes[node][axis] for node in (u, v) for axis in "xy"]
        cells = [u, v, *ends, road["length"], road["highway"], road.get("name", "")]
        lines.append(",".join(f'"{cell}"' for cell in cells))
    (tmp_path / "town.csv").write_text("\n".join(lines))
    options = {"start": "a", "discount": 0.9, "reward_attributes": ["length"], "choice_names": "name", "goals": ["d"]}
    classes = {"highway": ["service", "primary"]}
    wanted = from_graph(graph, preference_attributes=classes, **options)
    for name in ("town.graphml", "town.gml", "town.csv"):
        found = from_graph(read_graph(tmp_path / name), preference_attributes=classes, **options)
        assert list(found.state_names) == list(wanted.state_names) and list(found.choice_names) == list(
            wanted.choice_names
        )
        assert_array_equal(found.mdp.transition.toarray(), wanted.mdp.transition.toarray())
        assert_array_equal(found.reward_features, wanted.reward_features)
        assert_array_equal(found.preference_features, wanted.preference_features)
        assert_array_equal(found.positions, wanted.positions)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.txt", "", "must end in .graphml, .gml, .csv"),
        ("g.graphml", "<graph", "cannot be read as .graphml"),
        ("g.gml", "graph [", "cannot be read as .gml"),
        ("g.csv", "a,b\n1,2\n", "needs columns source and target, or from and to, or u and v; it has a, b"),
        ("g.csv", "", "needs columns source and target"),
        ("g.csv", "u,v\n", "has no edges"),
        ("g.csv", "u,v,km\na,b,1\na,b\n", "line 3 of .* does not have 3 values"),
        ("g.csv", "u,v,km\na,,1\n", "line 2 of .* has an edge without v"),
    ],
)
def test_a_wrong_graph_file_is_refused_with_a_sentence(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidModel, match=message):
        read_graph(tmp_path / name)


networkx = pytest.importorskip("networkx")


def streets(n_nodes: int, seed: int, *, width: float = 3.0):
    """A planar network of about `width` km across: the roads of a Delaunay triangulation, a third of them main roads.

    Some roads are one-way, and a few nodes are dead ends.
    """
    rng = np.random.default_rng(seed)
    places = rng.random((n_nodes, 2)) * width
    triangles = Delaunay(places).simplices
    pairs = np.unique(
        np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]])), axis=0
    )
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    for one, other in pairs.tolist():
        km = float(np.linalg.norm(places[one] - places[other]))
        kind = {"km": km, "main_km": km * (rng.random() < 0.35), "service_km": km * (rng.random() < 0.2)}
        graph.add_edge(one, other, **kind)
        if rng.random() < 0.9:
            graph.add_edge(other, one, **kind)
    for node in range(0, n_nodes, 211):
        graph.add_edge(node, n_nodes + node, km=0.05, main_km=0.0, service_km=0.0)
    return graph, int(places.sum(axis=1).argmin()), int(places.sum(axis=1).argmax())


def as_domain(graph, start, goal, discount):
    return tl.from_graph(
        graph,
        start=start,
        goals=[goal],
        discount=discount,
        duration="km",
        reward_attributes=["km"],
        preference_attributes=["main_km", "service_km", "km"],
    )


def shortest_flow(graph, start, goal, limits):
    """The least expected length of a journey within limits on attributes; infinite where there is none."""
    nodes = {node: number for number, node in enumerate(graph.nodes)}
    edges = [(nodes[one], nodes[other], kind) for one, other, kind in graph.edges(data=True) if one != goal]
    leave, enter = np.array([edge[0] for edge in edges]), np.array([edge[1] for edge in edges])
    each = np.arange(len(edges))
    balance = sparse.csr_array((np.ones(len(edges)), (leave, each)), (len(nodes), len(edges)))
    balance -= sparse.csr_array((np.ones(len(edges)), (enter, each)), (len(nodes), len(edges)))
    supply = np.zeros(len(nodes))
    supply[nodes[start]], supply[nodes[goal]] = 1.0, -1.0
    km = np.array([kind["km"] for _, _, kind in edges])
    rows = np.array([[kind[name] for _, _, kind in edges] for name in limits]).reshape(-1, len(edges))
    within = {"A_ub": rows, "b_ub": list(limits.values())} if limits else {}
    found = linprog(km, A_eq=balance, b_eq=supply, method="highs", **within)
    assert found.status in (0, 2), found.message
    return float(found.fun) if found.status == 0 else np.inf


CASES = some_of(((seed, g) for seed in range(8) for g in (0.999, 0.9999)), [(0, 0.999), (1, 0.9999)])


@pytest.mark.parametrize(("seed", "discount"), CASES)
def test_the_aware_teacher_arrives_on_the_shortest_way_within_the_limits(seed, discount):
    """1,200 nodes: arrival with probability one, and a length within 0.5 % of the undiscounted flow program."""
    graph, start, goal = streets(1200, seed)
    domain = as_domain(graph, start, goal, discount)
    free = shortest_flow(graph, start, goal, {})
    least = shortest_flow(graph, start, goal, {"main_km": 0.2, "service_km": 0.1})
    assert free < least < 2 * free
    learner = tl.HardLearner(domain, {"main_km": 0.2, "service_km": 0.1, "km": 3 * free})
    plan = tl.AwareCmdpTeacher(domain, [-1.0, 0.0], learner).plan()
    journey = tl.arrival(domain, plan.lesson.policy)
    assert journey.probability == 1.0
    assert journey.duration == pytest.approx(least, rel=0.005)
    assert plan.arrival.probability == pytest.approx(1.0, abs=1e-9)
    assert plan.arrival.duration == pytest.approx(least, rel=0.005)


def test_limits_that_no_journey_keeps_are_infeasible_once_its_length_is_limited():
    """Without a limit on the length, to go round for ever keeps any limit on some roads; with it, nothing does."""
    graph, start, goal = streets(1200, 0)
    for edge in graph.out_edges(start, data=True):
        edge[2]["service_km"] = edge[2]["km"]
    domain = as_domain(graph, start, goal, 0.999)
    shortest = min(kind["km"] for _, _, kind in graph.out_edges(start, data=True))
    too_little = {"main_km": 1e3, "service_km": 0.5 * shortest, "km": 3 * shortest_flow(graph, start, goal, {})}
    assert np.isinf(shortest_flow(graph, start, goal, too_little))
    with pytest.raises(tl.InfeasibleConstraints, match="'service_km'"):
        tl.AwareCmdpTeacher(domain, [-1.0, 0.0], tl.HardLearner(domain, too_little)).open()
    # A length that is too short for any journey.
    too_short = {"main_km": 1e3, "service_km": 1e3, "km": 0.9 * shortest_flow(graph, start, goal, {})}
    with pytest.raises(tl.InfeasibleConstraints, match="'km'"):
        tl.AwareCmdpTeacher(domain, [-1.0, 0.0], tl.HardLearner(domain, too_short)).open()


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_a_discount_per_edge_may_never_arrive_and_one_per_km_always_does(unit):
    """A long way to the goal, and a loop of short edges that costs less when each edge is discounted alike."""
    graph = networkx.DiGraph()
    graph.add_edge("home", "corner", km=0.01 * unit)
    graph.add_edge("corner", "home", km=0.01 * unit)
    graph.add_edge("home", "away", km=5.0 * unit)
    options = {"start": "home", "goals": ["away"], "reward_attributes": ["km"]}
    by_edge = tl.from_graph(graph, discount=0.99, **options)
    by_km = tl.from_graph(graph, discount=0.99 ** (1 / unit), duration="km", **options)
    round_and_round, direct = (tl.solve_hard(d.mdp, -d.reward_features[:, 0]).policy for d in (by_edge, by_km))
    assert tl.arrival(by_edge, round_and_round).probability == 0.0
    assert str(tl.arrival(by_edge, round_and_round)) == "never arrives"
    found = tl.arrival(by_km, direct)
    assert (found.probability, found.steps) == (1.0, 1.0) and found.duration == pytest.approx(5.0 * unit)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_policy_by_duration_is_dijkstras_route(seed):
    """With cost equal to duration, going round costs -1 / log(discount), and no journey costs as much."""
    graph, start, goal = streets(150, seed)
    domain = as_domain(graph, start, goal, 0.9999)
    found = tl.arrival(domain, tl.solve_hard(domain.mdp, -domain.reward_features[:, 0]).policy)
    assert found.probability == 1.0
    assert found.duration == pytest.approx(networkx.dijkstra_path_length(graph, start, goal, weight="km"), rel=1e-4)


@pytest.mark.parametrize(
    ("km", "message"),
    [
        (0.0, "'km' of edge 'a' -> 'b' is 0.0; a duration must be positive"),
        (-1.0, "'km' of edge 'a' -> 'b' is -1.0; a duration must be positive"),
        ("far", "'km' of edge 'a' -> 'b' must be a finite number"),
        (None, "edge 'a' -> 'b' has no attribute 'km'"),
    ],
)
def test_wrong_durations_are_refused_by_edge(km, message):
    graph = networkx.Graph()
    graph.add_edge("a", "b", **({} if km is None else {"km": km}))
    with pytest.raises(InvalidModel, match=message):
        tl.from_graph(graph, start="a", discount=0.9, duration="km", reward_attributes=[], goals=["b"])


def test_a_stay_takes_one_unit_of_time():
    graph = networkx.Graph()
    graph.add_edge("a", "b", km=2.0)
    mdp = tl.from_graph(graph, start="a", discount=0.5, duration="km", reward_attributes=[], goals=["b"]).mdp
    assert list(mdp.duration) == [2.0, 1.0] and list(mdp.discount) == [0.25, 0.5] and list(mdp.goals) == [1]


def test_transcripts_say_whether_the_learner_arrives(tmp_path):
    """In domains with goals only; also after a file."""
    graph, start, goal = streets(60, 0)
    domain = as_domain(graph, start, goal, 0.999)
    learner = tl.HardLearner(domain, {"main_km": 1.0, "service_km": 1.0, "km": 20.0})
    teacher = tl.AwareCmdpTeacher(domain, [-1.0, 0.0], learner)
    transcript = tl.teach(teacher, learner, path=tmp_path / "taught.npz")
    assert transcript.arrival.probability == 1.0
    assert "The learner arrives with probability 1, after" in str(transcript)
    assert tl.load_transcript(tmp_path / "taught.npz", domain).arrival == transcript.arrival
    world = tl.object_world(size=6, seed=0)
    plain = tl.HardLearner(world.domain("L2"), 2.5)
    without = tl.teach(tl.AgnosticTeacher(world.domain("L2"), world.true_weights), plain)
    assert without.arrival is None and "arrive" not in str(without)


def test_a_mapping_of_goals_gives_a_family_of_journeys_without_discount():
    """One domain for each goal, with its start; without discount the goal is an end and has no feature."""
    graph = networkx.DiGraph()
    for begin, end, km in [("a", "b", 1.0), ("b", "c", 2.0), ("c", "a", 1.5), ("b", "a", 1.0), ("a", "c", 4.0)]:
        graph.add_edge(begin, end, km=km)
    family = from_graph(graph, goals={"c": "a", "a": {"b": 0.5, "c": 0.5}}, discount=1.0, reward_attributes=["km"])
    assert list(family) == ["c", "a"] and family["c"].reward_names == ("km",)
    assert family["c"].mdp.ends.tolist() == [2] and family["a"].mdp.initial.tolist() == [0, 0.5, 0.5]
    assert family["c"].mdp.horizon == np.inf
    value = tl.solve_hard(family["c"].mdp, -family["c"].reward_features[:, 0]).value
    assert value.tolist() == [-3.0, -2.0, 0.0]
    with pytest.raises(InvalidModel, match="mapping from goals to starts; leave out start"):
        from_graph(graph, start="a", goals={"c": "a"}, discount=1.0, reward_attributes=["km"])
