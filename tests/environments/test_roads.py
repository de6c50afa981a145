"""Junctions with one way through: the same expectations, and fewer places to wander."""

from itertools import pairwise

import networkx
import numpy as np
import pytest
from cities import city
from numpy.testing import assert_allclose

import tutelage as tl


def bent_city(seed):
    """A small city whose streets have bends: each edge is cut into one to three parts."""
    rng, graph = np.random.default_rng(seed), city(5, seed)
    bent = networkx.MultiDiGraph()
    cuts = {frozenset(edge): int(rng.integers(1, 4)) for edge in graph.edges()}
    for u, v, edge in graph.edges(data=True):
        n, a, b = cuts[frozenset((u, v))], min(u, v), max(u, v)
        stops = [a, *((a, b, i) for i in range(1, n)), b]
        stops = stops if u == a else stops[::-1]
        for start, end in pairwise(stops):
            bent.add_edge(start, end, km=edge["km"] / n, highway=edge["highway"], name=edge["name"])
    return graph, bent


def as_domain(graph, merge, **options):
    return tl.from_graph(
        graph, start=0, goals=[max(n for n in graph if isinstance(n, int))], duration="km", discount=0.9,
        reward_attributes=["km"], preference_attributes={"highway": ["primary"]}, measure="km", merge=merge, **options,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_what_is_merged_has_the_same_shortest_journeys_and_only_real_junctions(seed):
    """Values of hard problems agree with the graph that has the bends, since no best way turns back at a bend."""
    graph, bent = bent_city(seed)
    whole, merged = as_domain(bent, False), as_domain(bent, True)
    assert set(merged.state_names) <= set(graph.nodes) and merged.mdp.n_states < whole.mdp.n_states
    for toll in (0.0, 3.0):
        values = []
        for domain in (whole, merged):
            reward = domain.reward_features @ [-1.0, 0.5] - toll * domain.preference_features[:, 0]
            values.append(float(domain.mdp.initial @ tl.solve_hard(domain.mdp, reward).value))
        assert_allclose(*values, rtol=1e-9)


def test_a_soft_learner_wanders_less_where_bends_are_merged():
    """Standing between two junctions it may turn back at each bend: merged, there is nothing to decide."""
    _, bent = bent_city(0)
    steps = []
    for merge in (False, True):
        domain = as_domain(bent, merge)
        reward = domain.reward_features @ [-1.0, 0.0]
        steps.append(tl.arrival(domain, tl.solve_soft(domain.mdp, reward).policy).duration)
    assert steps[1] < 0.7 * steps[0]


def test_names_stay_different_and_dead_ends_stay():
    graph = networkx.DiGraph()
    for u, v in (("a", "b"), ("b", "c"), ("a", "d"), ("d", "c"), ("c", "a"), ("c", "e"), ("e", "c"), ("c", "z")):
        graph.add_edge(u, v, km=1.0)
    domain = tl.from_graph(graph, start="a", goals=["z"], discount=0.9, reward_attributes=["km"], merge=True)
    assert list(domain.state_names) == ["a", "c", "e", "z"]
    assert list(domain.choice_names) == [("c", "b"), ("c", "d"), "a", "e", "z", "c", "stay"]
    assert_allclose(domain.reward_features[:, 0], [1.9, 1.9, 1, 1, 1, 1, 0])
    assert_allclose(domain.mdp.discount[:2], 0.81)


def test_a_ring_without_a_way_out_stays_where_it_is_entered():
    """Whoever enters it goes round for ever; a choice that led round it would have no end."""
    graph = networkx.DiGraph([("k", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("k", "z")])
    domain = tl.from_graph(graph, start="k", goals=["z"], discount=0.9, reward_attributes=[], merge=True)
    assert list(domain.state_names) == ["k", "a", "z"]
    assert_allclose(domain.mdp.discount, [0.9, 0.9, 0.9**3, 0.9])
