"""Gymnasium environments and graphs as episodes without discount."""

import gymnasium
import networkx
import numpy as np
import pytest
from numpy.testing import assert_allclose

import tutelage as tl
from tutelage.cli.domains import summary
from tutelage.data.describing import describe


def test_frozen_lake_without_discount_has_its_known_value():
    """The best policy of the slippery 4x4 lake arrives with probability 14/17."""
    lake = tl.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=1)
    assert lake.mdp.horizon == np.inf
    best = tl.solve_hard(lake.mdp, lake.reward_features[:, 0])
    assert_allclose(lake.mdp.initial @ best.value, 14 / 17, atol=1e-8)
    shown = tl.sample_demonstrations(lake, best.policy, 50, rng=0)
    assert np.isin(shown.last_states, lake.mdp.ends).all()


def test_journeys_without_discount_arrive(tmp_path):
    roads = networkx.DiGraph()
    for a, b, km in (("a", "b", 1.0), ("b", "a", 1.0), ("b", "c", 2.0), ("a", "c", 5.0)):
        roads.add_edge(a, b, km=km)
    journey = {"start": "a", "goals": ["c"], "reward_attributes": ["km"], "discount": 1}
    domain = tl.from_graph(roads, **journey)
    tl.save(domain, tmp_path / "roads.npz")
    domain = tl.load(tmp_path / "roads.npz")
    best = tl.solve_hard(domain.mdp, -domain.reward_features[:, 0])
    assert_allclose(domain.mdp.initial @ best.value, -3.0)
    assert tl.arrival(domain, best.policy).is_certain
    assert "discount 1: some policies go on for ever" in summary(describe(domain))
    roads.add_edge("a", "yard", km=0.1)
    with pytest.raises(tl.InvalidModel, match="node 'yard' has no edge and is no goal: with discount 1"):
        tl.from_graph(roads, **journey)


def test_a_description_says_how_long_episodes_take():
    mdp = tl.MDP.from_choices([[0.5, 0.5], [0, 1]], [0, 1, 2], [1, 0], 1)
    domain = tl.Domain(mdp, [1.0, 0.0], [1.0, 0.0])
    text = summary(describe(domain))
    assert "discount 1: every policy ends, after at most 2 steps on average" in text
    assert "never arrive" not in text
