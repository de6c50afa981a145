"""One's own domains: in by `import`, described by `info`."""

import networkx
import numpy as np
import pytest
from cli_support import STREETS, printed, refusal, shown

import tutelage as tl


def test_an_imported_environment_is_that_of_python(folder):
    import gymnasium

    domain = tl.load(folder / "lake.npz")
    made = tl.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.9)
    assert (domain.mdp.transition != made.mdp.transition).nnz == 0
    assert domain.reward_names[:2] == ("reward", "at row 0, column 0") and domain.n_reward == 17
    assert domain.preference_names == ("action left", "action down", "action right", "action up")
    np.testing.assert_array_equal(domain.reward_features[:, 0], made.reward_features[:, 0])
    # Every choice arrives in one state, unless it is one of the end, and takes one action.
    np.testing.assert_allclose(domain.reward_features[:-4, 1:].sum(axis=1), 1.0)
    np.testing.assert_array_equal(domain.preference_features.sum(axis=1), np.repeat([1, 0], [64, 4]))


def test_an_imported_graph_has_the_shortest_way(folder):
    """At discount 1 - 1e-3 per km the best policy to be at the goal takes networkx's shortest path."""
    domain = tl.load(folder / "roads.npz")
    assert domain.names == ("km", "at goal", "highway primary") and domain.positions.shape == (46, 2)
    graph = tl.read_graph(STREETS)
    shortest = networkx.shortest_path_length(graph, "7106818623", "42431078", weight="km")
    policy = tl.best_policy(domain, [0.0, 1.0], tl.no_limits(domain)).policy
    assert tl.arrival(domain, policy).duration == pytest.approx(shortest, abs=1e-9)


def test_info_describes_what_a_file_holds(folder):
    found = shown("info", str(folder / "plant.npz"))
    domain = tl.load(folder / "plant.npz")
    assert (found["states"], found["choices"], found["n_goals"]) == (4, 8, 0)
    assert found["action_names"] == ["run", "service"] and found["discount"] == [0.9, 0.9]
    assert found["least_allowances"]["worn"] == pytest.approx(0.0, abs=1e-9)
    always_run = tl.expectation(domain, [1, 0] * 4).preference[0]
    assert always_run > 1
    roads = shown("info", str(folder / "roads.npz"))
    assert roads["goals"] == ["42431078"] and roads["starts"] == ["7106818623"]
    assert roads["reach"].startswith("goals can be reached")
    text = printed("info", str(folder / "lake.npz"))
    assert "goals: end" in text and "preference feature action left: 0 to 1" in text


def test_the_least_allowance_is_that_of_the_strictest_policy(folder):
    """A little less is refused, a little more is not; with a start in the avoided state."""
    domain = tl.explore(
        1,
        lambda state: ["on", "off"],
        lambda state, action: [(0.5, 0), (0.5, 1)] if action == "on" else [(0.9, 0), (0.1, 1)],
        discount=0.9,
        reward=lambda state, action: state,
        preference=lambda state, action: {"one": state == 1},
    )
    tl.save(domain, folder / "pair.npz")
    least = shown("info", str(folder / "pair.npz"))["least_allowances"]["one"]
    tl.best_policy(domain, [1.0], tl.preference_limits(domain, least * (1 + 1e-6)))
    with pytest.raises(tl.InfeasibleConstraints):
        tl.best_policy(domain, [1.0], tl.preference_limits(domain, least * (1 - 1e-4)))


def test_a_state_that_json_cannot_name_is_refused_by_a_sentence(tmp_path, monkeypatch, capsys):
    """A file of an earlier version may hold an infinite number as a name."""
    domain = tl.explore(0.0, lambda s: ["up"], lambda s, a: [(1.0, 1.0)], discount=0.9, reward=lambda s, a: 1.0)
    path = tmp_path / "far.npz"
    tl.save(domain, path)
    with np.load(path) as archive:
        fields = dict(archive)
    assert fields["state_names"].tobytes() == b"[0.0, 1.0]"
    np.savez(path, **(fields | {"state_names": np.frombuffer(b"[0.0, Infinity]", dtype=np.uint8)}))
    code, told = refusal(["info", str(path), "--json"], monkeypatch, capsys)
    assert code == 2 and "far.npz holds no valid domain" in told and told.count(". ") == 0
