"""Limits on every journey, against a label-setting search and against all journeys of small models."""

import heapq
import itertools
import os
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
from cities import city
from hypothesis import given, settings
from hypothesis import strategies as st

import tutelage as tl

N_TRIPS = 100 if os.environ.get("TUTELAGE_EVERY_CELL") else 6


def constrained_shortest(graph, start, goal, limit):
    """The minutes and the nodes of the fastest way with at most `limit` km on primary streets: label setting.

    A label (minutes, km) of a node is dominated by one that is not worse in both; labels leave the queue by minutes.
    """
    queue, fronts, ties = [(0.0, 0.0, 0, (start, None))], {}, itertools.count(1)
    while queue:
        spent, used, _, (node, before) = heapq.heappop(queue)
        if used >= fronts.get(node, np.inf):
            continue
        fronts[node] = used
        if node == goal:
            nodes = [node]
            while before is not None:
                node, before = before
                nodes.append(node)
            return spent, nodes[::-1]
        for _, other, edge in graph.out_edges(node, data=True):
            total = used + primary_km(edge)
            if total <= limit * (1 + 1e-12) and total < fronts.get(other, np.inf):
                heapq.heappush(queue, (spent + edge["minutes"], total, next(ties), (other, (node, before))))
    raise AssertionError("there is no way within the limit")


def primary_km(edge):
    return edge["km"] if edge["highway"] == "primary" else 0.0


def lesson_on(domain, weights):
    learner = tl.HardLearner(domain, violation_allowance=1e6)
    return tl.AwareCmdpTeacher(domain, weights, learner).open().lesson


CITIES = [city(34, seed) for seed in range(3)]


def test_cities_are_large():
    assert min(map(len, CITIES)) >= 1_000


@pytest.mark.parametrize("number", range(N_TRIPS))
def test_every_demonstration_keeps_its_limit_and_is_as_short_as_a_label_setting_search_allows(number):
    """The promise of the function: step by step below the limit, and no longer than the resolution explains."""
    graph, rng = CITIES[number % 3], np.random.default_rng(number)
    start, goal = (int(node) for node in rng.choice(len(graph), 2, replace=False))
    options = {"preference_attributes": {"highway": {"primary_km": ["primary"]}}, "measure": "km"}
    domain = tl.from_graph(
        graph, start=start, goals=[goal], discount=0.99999, duration="minutes", reward_attributes=["minutes"], **options
    )
    km = {(u, v): primary_km(edge) for u, v, edge in graph.edges(data=True)}
    needed = nx.shortest_path_length(graph, target=goal, weight=lambda u, v, edges: primary_km(edges[0]))
    limit, step = needed[start] + 0.3 * rng.random() + 0.01, 0.01
    budgeted = tl.with_budget(domain, {"primary_km": limit}, resolution=step)
    shown = lesson_on(budgeted, [-1.0, 0.0]).show(3)

    def n_rounded(nodes):
        """The steps that leave the way with the least primary streets: each loses at most one resolution."""
        return sum(km[u, v] + needed[v] - needed[u] > 1e-12 for u, v in itertools.pairwise(nodes))

    ways = (constrained_shortest(graph, start, goal, limit - lost * step) for lost in range(int(limit / step)))
    longest = next((minutes for lost, (minutes, nodes) in enumerate(ways) if n_rounded(nodes) <= lost), np.inf)
    for trajectory in shown.demonstrations:
        nodes = [int(str(name).split(",")[0]) for name, _ in trajectory.steps]
        assert nodes[0] == start and nodes[-1] == goal
        used = np.cumsum([km[pair] for pair in itertools.pairwise(nodes)])
        assert used.max(initial=0.0) <= limit + 1e-9
        minutes = sum(graph[u][v][0]["minutes"] for u, v in itertools.pairwise(nodes))
        assert constrained_shortest(graph, start, goal, limit)[0] - 1e-9 <= minutes <= longest + 1e-4


def random_ways(seed, n=7):
    """A random graph with whole numbers of tolls on its edges, and a goal."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(n, 0.35, seed=int(rng.integers(2**31)), directed=True)
    graph.add_edge(0, n - 1)
    for _, _, edge in graph.edges(data=True):
        edge |= {"km": float(rng.integers(1, 4)), "toll": float(rng.integers(0, 3))}
    return graph


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_the_journeys_are_exactly_those_that_keep_the_limit(seed, limit):
    """Whole numbers are not rounded: a simple way can be followed if and only if it is within the limit."""
    graph = random_ways(seed)
    domain = tl.from_graph(
        graph, start=0, goals=[6], discount=0.9, reward_attributes=["km"], preference_attributes=["toll"]
    )
    budgeted = tl.with_budget(domain, {"toll": limit})
    for way in nx.all_simple_paths(graph, 0, 6):
        state, arrives = int(np.flatnonzero(budgeted.mdp.initial)[0]), True
        for node in way[1:]:
            first, end = budgeted.mdp.first_choice[state : state + 2]
            offered = budgeted.choice_names[first:end]
            arrives = arrives and node in offered
            state = budgeted.mdp.transition.indices[first + offered.index(node)] if arrives else state
        assert arrives == (nx.path_weight(graph, way, "toll") <= limit)


def most_total(domain, name):
    """The largest total of a preference that any trajectory of any policy can have; inf if it may grow for ever."""
    mdp = domain.mdp
    cost, rows, value = domain.preference_arrivals[name].data, mdp.transition, np.zeros(mdp.n_states)
    for _ in range(1_000):
        worst = np.maximum.reduceat(cost + value[rows.indices], rows.indptr[:-1])
        before, value = value, np.maximum.reduceat(worst, mdp.first_choice[:-1])
        if np.array_equal(before, value):
            return float(value[mdp.initial > 0].max())
    return np.inf


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_no_trajectory_of_any_policy_exceeds_a_limit_where_chance_decides(seed, n_features):
    """The worst outcomes of the worst choices stay within every limit, in any unit, and a goal can still be reached."""
    rng = np.random.default_rng(seed)
    n, unit = 8, 10.0 ** rng.integers(-3, 4)
    rows = np.zeros((n, 3, n))
    for state, action in itertools.product(range(n - 1), range(3)):
        rows[state, action, rng.choice(n, 2, replace=False)] = 0.25, 0.75
    rows[-1, :, -1] = 1.0
    used = unit * rng.random((n, 3, n, n_features)) * (rng.random((n, 3, n, n_features)) < 0.4)
    used[-1] = 0.0
    mdp = tl.MDP.from_arrays(rows, np.eye(n)[0], 0.9, goals=[n - 1])
    domain = tl.Domain(mdp, np.ones(n), used, preference_names=("a", "b")[:n_features])
    limits = dict.fromkeys(domain.preference_names, unit * 3)
    try:
        budgeted = tl.with_budget(domain, limits, resolution=0.2 * unit)
    except ValueError:
        return
    assert all(most_total(budgeted, name) <= 3 * unit * (1 + 1e-9) for name in limits)
    assert tl.arrival(budgeted, tl.uniform_policy(budgeted.mdp)).probability == 1.0


def test_a_limit_that_no_journey_keeps_is_refused_with_the_least():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", km=0.376)
    graph.add_edge("b", "c", km=0.2)
    domain = tl.from_graph(graph, start="a", goals=["c"], discount=0.9, reward_attributes=["km"])
    with pytest.raises(tl.InfeasibleConstraints, match=r"least that one has is 0\.576"):
        tl.with_budget(domain, {"km": 0.5})
    kept = tl.with_budget(domain, {"km": 0.576}, resolution=0.1)
    assert kept.mdp.n_states == 3 and kept.state_names[0] == "a, 0.57 km left"
    with pytest.raises(tl.InvalidInput, match="did you mean 'km'"):
        tl.with_budget(domain, {"kn": 1})
    with pytest.raises(tl.InvalidInput, match="must not be negative"):
        tl.with_budget(domain, {"km": -1})


def test_limits_that_exclude_each_other_are_refused_together():
    """One way has no toll and many km, the other the reverse: each limit can be kept, both cannot."""
    graph = nx.DiGraph()
    graph.add_edge("a", "b", km=1.0, toll=5.0)
    graph.add_edge("a", "c", km=5.0, toll=0.0)
    for node in "bc":
        graph.add_edge(node, "d", km=1.0, toll=0.0)
    options = {"reward_attributes": ["km"], "preference_attributes": ["toll"]}
    domain = tl.from_graph(graph, start="a", goals=["d"], discount=0.9, **options)
    with pytest.raises(tl.InvalidInput, match="cut off the way to a goal"):
        tl.with_budget(domain, {"km": 3, "toll": 2})
    assert tl.with_budget(domain, {"km": 6, "toll": 2}).mdp.n_states == 3


def test_endless_work_without_ends_keeps_a_budget_by_stopping():
    """A machine that may run or rest for ever: with a budget of 3 runs, no trajectory runs a fourth time."""
    rows = np.ones((1, 2, 1))
    domain = tl.Domain(tl.MDP.from_arrays(rows, [1.0], 0.9, action_names=["rest", "run"]), [[[0.0], [1.0]]])
    named = domain.with_features(preference={"runs": [0.0, 1.0]})
    budgeted = tl.with_budget(named, {"runs": 3})
    assert list(budgeted.state_names) == [f"0, {left} runs left" for left in (3, 2, 1, 0)]
    assert list(budgeted.choice_names) == ["rest", "run"] * 3 + ["rest"]


@pytest.mark.parametrize("seed", [28, 66, 84, 92, 124, 176, *range(10)])
def test_every_state_of_a_budgeted_domain_can_be_visited(seed):
    """Also where choices that may cut off the goal are left out: so are the states that they alone led to."""
    rng = np.random.default_rng(seed)
    n, limit = int(rng.integers(4, 10)), float(rng.integers(1, 5))
    rows = np.zeros((n, 4, n))
    for state, action in itertools.product(range(n), range(4)):
        rows[state, action, rng.choice(n, int(rng.integers(1, 3)), replace=False)] = 1
    rows[-1] = np.eye(n)[-1]
    rows /= rows.sum(axis=2, keepdims=True)
    costs = rng.integers(0, 3, size=(n, 4)).astype(float)
    costs[-1] = 0
    mdp = tl.MDP.from_arrays(rows, np.eye(n)[0], 0.9, goals=[n - 1])
    domain = tl.Domain(mdp, np.ones((4 * n, 1)), costs.reshape(-1, 1), ["step"], ["cost"])
    with suppress(tl.InvalidInput):
        mdp = tl.with_budget(domain, {"cost": limit}).mdp
    visited = mdp.initial > 0
    for _ in range(mdp.n_states):
        visited = visited | (visited[mdp.state_of_choice] @ (mdp.transition.toarray() > 0) > 0)
    assert visited.all()
