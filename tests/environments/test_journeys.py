"""Journeys on road networks whose edges take time: they arrive, they are the shortest, and limits on them are kept.

The independent answer is the undiscounted flow program: one unit of flow from the start to the goal over the edges,
the least length with the limits as further rows.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial import Delaunay
from strategies import some_of

import tutelage as tl
from tutelage.outcomes import InvalidModel

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
