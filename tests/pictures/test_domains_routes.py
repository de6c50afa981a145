"""Pictures of routes: on a map, on a grid, and as strips of names."""

import gymnasium
import networkx
import numpy as np
import pytest
from numpy.testing import assert_allclose

import tutelage as tl
from tutelage.pictures.domains import routes_picture


def drawn(domain, policy):
    shown = tl.Lesson.from_policy(domain, policy).show(3)
    (axes,) = routes_picture(domain, shown).axes
    return axes, shown


def test_a_route_on_a_map_goes_through_the_places_of_its_states():
    graph = networkx.DiGraph()
    for name, place in {"a": (0, 0), "b": (1, 2), "c": (3, 1)}.items():
        graph.add_node(name, pos=place)
    graph.add_edge("a", "b", km=1.0)
    graph.add_edge("b", "c", km=1.0)
    domain = tl.from_graph(graph, start="a", goals=["c"], discount=0.9, reward_attributes=["km"])
    axes, _ = drawn(domain, tl.uniform_policy(domain.mdp))
    assert_allclose(axes.lines[0].get_xydata(), [[0, 0], [1, 2], [3, 1]])
    ways = axes.collections[0].get_segments()
    assert sorted(np.asarray(ways).tolist()) == [[[0, 0], [1, 2]], [[1, 2], [3, 1]]]


def test_a_route_on_a_grid_has_the_first_row_on_top():
    lake = tl.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), discount=0.9)
    axes, shown = drawn(lake, tl.solve_hard(lake.mdp, lake.reward_features[:, 0]).policy)
    way = axes.lines[0].get_xydata()
    assert_allclose(way[0], [0, 0])
    assert way[:, 1].max() == 0 and way[:, 1].min() == -3
    assert f"{shown[0].share:.1%}" in axes.lines[0].get_label()


@pytest.mark.parametrize("n", [4, 30])
def test_other_routes_are_strips_of_names(n):
    chain = tl.explore(
        0, lambda s: ["go"] if s < n else [], lambda s, a: [(1.0, s + 1)], discount=0.99, reward=lambda s, a: 1.0
    )
    axes, _ = drawn(chain, tl.uniform_policy(chain.mdp))
    texts = [text.get_text() for text in axes.texts]
    assert texts[0] == "0" and str(n) in texts
    assert ("... 19 more ..." in texts) == (n == 30)
