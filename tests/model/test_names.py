"""States and choices have names: looked up in both directions, in errors, in files, in copies."""

import copy
import pickle
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from strategies import random_domain

import tutelage as tl
from tutelage.model.mdp import per_choice
from tutelage.model.names import GridNames, Labels
from tutelage.outcomes import InvalidInput, InvalidModel, as_text

STATES, ACTIONS = ["new", "worn", "broken"], ["run", "service"]
TRANSITION = np.zeros((3, 2, 3))
TRANSITION[:, 0] = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]]
TRANSITION[:, 1, 0] = 1


def machine(**names):
    mdp = tl.MDP.from_arrays(TRANSITION, [1, 0, 0], 0.9)
    return tl.Domain(
        mdp, np.eye(3), state_names=names.get("states", STATES), choice_names=names.get("choices", ACTIONS)
    )


def named(rng):
    """A ragged random domain whose names are of many kinds."""
    domain = random_domain(rng)
    kinds = (lambda i: f"state {i}", lambda i: (i, "at", (i + 1) / 7), lambda i: i + 1000, lambda i: i / 3 - 0.5)
    states = [kinds[i % 4](i) for i in range(domain.mdp.n_states)]
    within = np.arange(domain.mdp.n_choices) - np.repeat(domain.mdp.first_choice[:-1], domain.mdp.choices_per_state)
    choices = [("go", int(a)) if a % 2 else f"go {a}" for a in within]
    return replace(domain, state_names=states, choice_names=choices), states, choices


@pytest.mark.parametrize("seed", range(20))
def test_names_and_numbers_are_inverse_of_each_other(seed, tmp_path):
    """For every state and choice, also after a file, a pickle, a copy with other features, and as an environment."""
    domain, states, choices = named(np.random.default_rng(seed))
    tl.save(domain, tmp_path / "named.npz")
    others = (pickle.loads(pickle.dumps(domain)), copy.deepcopy(domain), tl.load(tmp_path / "named.npz"))
    for one in (domain, *others, replace(domain, preference_features=np.zeros((0, 0)), preference_names=())):
        assert [one.state_name(i) for i in range(one.mdp.n_states)] == list(one.state_names) == states
        assert [one.choice_name(c) for c in range(one.mdp.n_choices)] == list(one.choice_names) == choices
        assert [one.state(name) for name in states] == list(range(one.mdp.n_states))
        owners = one.mdp.state_of_choice
        assert [one.choice(states[owners[c]], choices[c]) for c in range(len(choices))] == list(range(len(choices)))


def test_the_names_of_actions_are_stored_once(tmp_path):
    domain = machine()
    assert domain.choice("worn", "service") == 3
    assert list(domain.choice_names) == ACTIONS * 3
    assert list(machine(choices=ACTIONS * 3).choice_names.stored) == list(domain.choice_names.stored) == ACTIONS
    tl.save(domain, tmp_path / "machine.npz")
    again = tl.load(tmp_path / "machine.npz")
    assert list(again.choice_names.stored) == ACTIONS and list(again.state_names) == STATES


def test_without_names_the_numbers_are_the_names(tmp_path):
    domain = random_domain(np.random.default_rng(1))
    mdp = domain.mdp
    assert domain.state_names is None and domain.choice_names is None and domain.mdp.labels is None
    assert domain.state(1) == 1 and domain.state_name(1) == 1
    last = int(mdp.choices_per_state[1]) - 1
    assert domain.choice(1, last) == mdp.first_choice[2] - 1 and domain.choice_name(mdp.first_choice[2] - 1) == last
    tl.save(domain, tmp_path / "plain.npz")
    assert tl.load(tmp_path / "plain.npz").mdp.labels is None
    with pytest.raises(InvalidInput, match="there is no state 'a'; the states have no names"):
        domain.state("a")
    with pytest.raises(InvalidInput, match="there is no state -1"):
        domain.state(-1)


def test_a_world_names_its_cells_without_storing_them(tmp_path):
    world = tl.object_world(size=7, seed=0)
    domain = world.domain("L2")
    assert domain.state("row 3, column 4") == 25 and domain.state_name(25) == "row 3, column 4"
    assert domain.state_name(49) == "end" and domain.state("end") == 49
    assert domain.choice("row 3, column 4", "down") == 25 * 5 + 2
    assert [domain.state(name) for name in domain.state_names] == list(range(50))
    assert isinstance(domain.state_names, GridNames) and len(GridNames(20_000, 20_000)) == 4 * 10**8 + 1
    tl.save(domain, tmp_path / "world.npz")
    assert tl.load(tmp_path / "world.npz").state_names == domain.state_names
    for wrong in ("row 7, column 0", "row 0, column 7", "row 1, column -1", "row \u0661, column 0", "start", 3):
        with pytest.raises(InvalidInput, match="there is no state"):
            domain.state(wrong)


@dataclass(frozen=True)
class Place:
    name: str


def test_a_name_that_json_lacks_is_written_as_its_text(tmp_path):
    tl.save(machine(states=[Place("a"), np.int64(3), None]), tmp_path / "odd.npz")
    assert list(tl.load(tmp_path / "odd.npz").state_names) == ["Place(name='a')", 3, None]


def test_an_unknown_name_is_answered_with_the_nearest():
    domain = machine()
    with pytest.raises(InvalidInput, match=re.escape("there is no state 'won'; did you mean 'worn'?")):
        domain.state("won")
    with pytest.raises(
        InvalidInput, match=re.escape("state 1 ('worn') has no action 'serve'; did you mean 'service'?")
    ):
        domain.choice("worn", "serve")
    with pytest.raises(InvalidInput, match="there is no state 'xyz'; there are 'new', 'worn', 'broken'"):
        domain.state("xyz")
    with pytest.raises(InvalidInput, match="cannot name a state, because it is not hashable"):
        domain.state(["new"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"states": ["a", "b"]}, "state_names has 2 names, but there are 3 states"),
        ({"states": ["a", "b", "a"]}, "state 0 and 2 are 'a'"),
        ({"states": [1, True, 2]}, "state 0 and 1 are True"),
        ({"states": ["a", ["b"], "c"]}, r"the name \['b'\] of state 1 is not hashable"),
        ({"states": "abc"}, "state_names must be a sequence of names, got 'abc'"),
        ({"states": 3}, "state_names must be a sequence of names, got 3"),
        ({"choices": ["a", "b", "c"]}, r"choice_names has 3 names; give one per choice \(6\), or 2 for the actions"),
        ({"choices": ["a", "a"]}, "the actions of state 0 have different names, but action 0 and 1 are 'a'"),
        ({"choices": ["a", "b", "a", "b", "c", "c"]}, "the actions of state 2 have different names"),
        ({"choices": ["a", {}]}, "the name {} of choice 1 is not hashable"),
    ],
)
def test_wrong_names_are_refused_with_a_sentence(names, message):
    with pytest.raises(InvalidModel, match=message):
        machine(**names)


def test_errors_name_the_state_and_the_action():
    wrong = TRANSITION.copy()
    wrong[1, 1, 0] = 0.5
    with pytest.raises(InvalidModel, match=re.escape("state 1 ('worn'), action 1 ('service'): row 3 of transition")):
        tl.MDP.from_arrays(wrong, [1, 0, 0], 0.9, state_names=STATES, action_names=ACTIONS)
    with pytest.raises(InvalidModel, match=r"state 1, action 1: row 3 of transition sums to 0\.5"):
        tl.MDP.from_arrays(wrong, [1, 0, 0], 0.9)
    mdp = machine().mdp
    with pytest.raises(InvalidModel, match=re.escape("sums to 2 in state 2 ('broken')")):
        tl.expectation(machine(), [1, 0, 1, 0, 1, 1])
    told = "step 0: choice 0 ('run') of state 0 ('new') never leads to state 2 ('broken')"
    with pytest.raises(InvalidModel, match=re.escape(told)):
        tl.Demonstrations.from_sequences(mdp, [[0, 2]], [[0]])
    with pytest.raises(InvalidModel, match=re.escape("state 1 ('worn') offers actions 0 .. 1, not 2")):
        tl.Demonstrations.from_sequences(mdp, [[1, 2]], [[2]])


def test_names_of_choices_in_a_ragged_mdp():
    rows = np.array([[0.9, 0.1], [0.0, 1.0], [0.0, 1.0]])
    mdp = tl.MDP.from_choices(rows, [0, 2, 3], [1, 0], 0.9, state_names=["a", "b"], choice_names=["x", "y", "x"])
    assert mdp.names.choice("b", "x") == 2 and mdp.names.describe_choice(2) == "state 1 ('b'), action 0 ('x')"
    with pytest.raises(InvalidModel, match=r"one per choice \(3\)$"):
        tl.MDP.from_choices(rows, [0, 2, 3], [1, 0], 0.9, choice_names=["x", "y"])


def test_damaged_names_in_a_file_are_refused(tmp_path):
    path = tmp_path / "machine.npz"
    tl.save(machine(), path)
    with np.load(path) as archive:
        fields = dict(archive)
    texts = (b"[1, 2", b"[1, 2]", b'["a", "a", "b"]', b'{"rows": 2}', b"[{}, 1, 2]", b"[" * 10_000, b"\xff")
    for text in texts:
        np.savez(path, **(fields | {"state_names": np.frombuffer(text, dtype=np.uint8)}))
        with pytest.raises(InvalidModel, match="holds no valid domain"):
            tl.load(path)
    np.savez(path, **(fields | {"state_names": np.array(STATES)}))
    with pytest.raises(InvalidModel, match="must be the bytes of a JSON text"):
        tl.load(path)


def test_positions_are_kept(tmp_path):
    domain = replace(machine(), positions=[[0, 1], [2, 3], [np.nan, np.nan]])
    tl.save(domain, tmp_path / "placed.npz")
    np.testing.assert_array_equal(tl.load(tmp_path / "placed.npz").positions, domain.positions)
    for wrong in ([[0, 1]], [[0, 1, 2]] * 3, [["a", "b"]] * 3, [[np.inf, 0]] * 3):
        with pytest.raises(InvalidModel, match="positions must be two numbers"):
            replace(machine(), positions=wrong)


@pytest.mark.parametrize("seed", range(5))
def test_features_are_added_replaced_and_removed_by_name(seed):
    domain, states, choices = named(np.random.default_rng(seed))
    owners = domain.mdp.state_of_choice
    wanted = {"long": lambda state, action: len(str(action)), "on states": np.arange(domain.mdp.n_states)}
    changed = domain.with_features(reward={**wanted, domain.reward_names[0]: lambda state: len(str(state))})
    assert changed.reward_names == (*domain.reward_names, "long", "on states")
    assert list(changed.reward_features[:, -2]) == [len(str(action)) for action in choices]
    assert list(changed.reward_features[:, -1]) == list(owners)
    assert list(changed.reward_features[:, 0]) == [len(str(states[owner])) for owner in owners]
    back = changed.with_features(reward={"long": None, "on states": None})
    np.testing.assert_array_equal(back.reward_features[:, 1:], per_choice(domain.mdp, domain.reward_features)[:, 1:])
    np.testing.assert_array_equal(changed.preference_features, domain.preference_features)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"x": [1, 2]}, "'x' has 2 entries; it needs one per state"),
        ({"x": lambda: 1}, "must take a state, a state and an action, or these and the next state, not 0"),
        ({"x": lambda state: "many"}, r"state 0 \('new'\): the 'x' features 'many' are not all finite"),
        ({"x": lambda state: [1, 2]}, "must be one number for each state or choice, not 2"),
        ({"x": lambda state, action: [1] if state == "worn" else 1}, r"state 1 \('worn'\), action 0 \('run'\)"),
        ({"rewrd 0": None}, "there is no reward feature 'rewrd 0'; did you mean 'reward 0'"),
    ],
)
def test_wrong_features_are_refused_with_a_sentence(feature, message):
    with pytest.raises(InvalidInput, match=message):
        machine().with_features(reward=feature)


@pytest.mark.parametrize("name", ["\x1b[31m", "a\x00", "\ud800", float("inf"), float("nan"), (1, ("x", "\x07"))])
def test_a_name_that_no_file_or_terminal_can_hold_is_refused_at_the_door(name):
    mdp = tl.MDP.from_choices([[1.0]], [0, 1], [1.0], 0.9)
    with pytest.raises(tl.InvalidModel, match="the name"):
        tl.Domain(mdp, [1.0], state_names=[name])
    with pytest.raises(tl.InvalidModel, match="the name"):
        tl.Domain(mdp, [1.0], choice_names=[name])
    if isinstance(name, str):
        with pytest.raises(tl.InvalidModel, match="the name"):
            tl.Domain(mdp, [[1.0]], reward_names=[name])


def test_names_are_printed_on_one_line_without_escapes():
    assert as_text("line\nnext\ttab") == r"line\nnext\ttab"
    assert as_text("abc\u202edef") == r"abc\u202edef"
    assert as_text(("caf\u00e9", 3)) == "('caf\u00e9', 3)"


@pytest.mark.parametrize("wrong", [-1, 3])
def test_the_final_states_of_an_environment_are_states(wrong):
    with pytest.raises(InvalidModel, match=f"finals has state {wrong}, but the states are 0 to 2"):
        Labels(machine().mdp.first_choice, finals=[0, wrong])
