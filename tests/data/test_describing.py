"""What a domain holds: counts of what is not listed, and allowances of journeys that arrive."""

import networkx
import numpy as np
import pytest

import tutelage as tl
from tutelage.data.describing import describe, policy_columns


def square(n: int = 30, discount: float = 0.99) -> tl.Domain:
    """A square of streets; the last row of streets is a service road, and the goal lies on it."""
    graph = networkx.grid_2d_graph(n, n).to_directed()
    for (row, _), (other, _), attributes in graph.edges(data=True):
        attributes |= {"km": 1.0, "service": float(row == other == n - 1)}
    for edge in [edge for edge in graph.edges if edge[1] == (n - 1, n - 1) and edge[0][0] < n - 1]:
        graph.remove_edge(*edge)
    lists = {"reward_attributes": ["km"], "preference_attributes": ["service"]}
    return tl.from_graph(graph, start=(0, 0), goals=[(n - 1, n - 1)], discount=discount, duration="km", **lists)


def test_all_actions_are_counted_and_cut_lists_are_named():
    found = describe(square())
    assert found["n_action_names"] == len(set(square().choice_names)) > 800
    assert len(found["action_names"]) == 12
    assert found["cut"] == ["state_names", "action_names"]
    world = describe(tl.object_world(10, 0).domain("L3"))
    assert world["n_action_names"] == 5 and world["cut"] == ["state_names"]


def test_least_allowances_of_a_road_map_are_those_of_journeys_that_arrive():
    """Every way to the goal ends with one service road; a policy that never arrives has none."""
    n, discount = 30, 0.99
    found = describe(square(n, discount))
    assert found["is_arriving"]
    # The shortest way has 2 n - 2 roads, and only the last is a service road.
    assert found["least_allowances"]["service"] == pytest.approx(discount ** (2 * n - 3))


def test_without_goals_or_with_chance_they_are_those_of_any_policy():
    mdp = tl.MDP.from_choices([[0.5, 0.5], [1, 0], [0, 1]], [0, 2, 3], [1, 0], 0.9, goals=[1])
    found = describe(tl.Domain(mdp, np.ones(3), [[1.0], [0.0], [0.0]]))
    assert not found["is_arriving"] and found["least_allowances"] == {"preference 0": 0.0}


def test_the_columns_of_a_policy_have_the_visits_of_what_it_does():
    domain = tl.object_world(5, 3).domain("L2")
    columns = policy_columns(domain.mdp, tl.uniform_policy(domain.mdp))
    assert sum(columns["visits"]) == pytest.approx(100)
    assert set(columns["action"]) == {"up", "left", "down", "right", "stay"}
