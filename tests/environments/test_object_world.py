"""Object worlds: dynamics, features, paths, and the JSON text of a world."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import hand_worlds

from tutelage.chains.expectations import causal_entropy, expected_reward, state_occupancy
from tutelage.environments.object_world import ACTIONS, ObjectWorld, object_world
from tutelage.environments.placement import OBJECT_TYPES
from tutelage.model.mdp import MDP
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidModel


@pytest.mark.parametrize("generator", ["published", "text"])
def test_staying_on_a_star_is_worth_what_the_geometric_series_says(generator):
    """The reward on the star is one per step until the game ends: 1 / (1 - 0.9 * 0.99) = 9.1743."""
    world = object_world(10, 0, generator)
    domain = world.domain("L1")
    initial = np.zeros(domain.mdp.n_states)
    initial[world.objects["star"][0]] = 1.0
    mdp = MDP.from_choices(domain.mdp.transition, domain.mdp.first_choice, initial, domain.mdp.discount)
    stay = np.tile([0.0, 0.0, 0.0, 0.0, 1.0], mdp.n_states)
    assert expected_reward(mdp, stay, domain.reward_features @ world.true_weights) == pytest.approx(
        1 / (1 - 0.9 * 0.99)
    )


def test_the_terminal_state_goes_on_earning_entropy():
    """Reading 6: the end has entropy log 5 / (1 - discount); with zero a soft learner would avoid every object."""
    world = object_world(10, 0)
    mdp = world.domain("L1").mdp
    ended = MDP.from_choices(mdp.transition, mdp.first_choice, np.arange(101) == world.terminal, mdp.discount)
    assert causal_entropy(ended, uniform_policy(ended)) == pytest.approx(np.log(5) / (1 - 0.99))


@given(hand_worlds())
def test_every_action_leads_where_the_text_says(world):
    """The vectorised table against the rules, applied to one cell and one action at a time."""
    objects = {cell for cells in world.objects.values() for cell in cells}
    expected = np.zeros((5 * (world.size**2 + 1), world.size**2 + 1))
    steps = {"up": (-1, 0), "left": (0, -1), "down": (1, 0), "right": (0, 1), "stay": (0, 0)}
    for cell in range(world.size**2):
        for action, name in enumerate(ACTIONS):
            row, column = cell // world.size + steps[name][0], cell % world.size + steps[name][1]
            is_inside = 0 <= row < world.size and 0 <= column < world.size
            end = world.end_probability if cell in objects else 0.0
            expected[5 * cell + action, row * world.size + column if is_inside else cell] += 1 - end
            expected[5 * cell + action, world.terminal] += end
    expected[5 * world.terminal :, world.terminal] = 1.0
    mdp = world.domain("L1").mdp
    assert_allclose(mdp.transition.toarray(), expected, atol=1e-15)
    assert_array_equal(np.flatnonzero(mdp.initial), [world.start])


@given(hand_worlds())
def test_reward_features_count_each_object_once(world):
    """phi_r(s) is the indicator of each type (Sec. 6), and zero in the terminal state."""
    domain = world.domain("L1")
    assert domain.reward_names == ("star", "plus", "dot")
    for column, kind in enumerate(OBJECT_TYPES):
        assert set(np.flatnonzero(domain.reward_features[:, column])) == set(world.objects[kind])
    assert set(np.unique(domain.reward_features)) <= {0.0, 1.0}


def test_a_distractor_may_lie_on_a_star_or_on_the_start():
    """A published green distractor lies on a star, so a cell may have an object and a colour; so may the start."""
    world = ObjectWorld(3, 4, {"star": [4]}, {"green": [4]})
    features = world.domain("L2").preference_features
    assert_array_equal(features[:, 0], np.arange(10) == 4)
    assert_array_equal(features[:, 1], np.arange(10) < 9)


def test_worlds_are_values():
    """Worlds with equal cells are equal; they can be dictionary keys, can be pickled, and cannot be changed."""
    world = object_world(10, 0)
    assert world == object_world(10, 0) != object_world(10, 1)
    assert len({world, object_world(10, 0), pickle.loads(pickle.dumps(world))}) == 1
    assert replace(world, discount=0.9).domain("L1").mdp.discount == 0.9
    assert repr(world.objects) == "{'star': (2, 16), 'plus': (13, 30), 'dot': (57, 61)}"
    with pytest.raises(TypeError):
        world.objects["star"] = (0,)
    with pytest.raises(AttributeError):
        world.size = 5


def test_a_large_world_is_built_sparse():
    """90,001 states with at most two entries per row; a dense table would have 40 billion."""
    domain = object_world(300, 0).domain("L5")
    assert domain.mdp.n_states == 90_001
    assert domain.mdp.transition.nnz == 5 * 90_001 + 5 * 6
    assert np.diff(domain.mdp.transition.indptr).max() == 2
    assert domain.mdp.transition.indices.dtype == np.int32


def walked(world: ObjectWorld, actions: list[int], *, may_return: bool) -> tuple[list[int], list[int]]:
    """The cells and actions of a random walk; without repeated cells unless `may_return`."""
    steps = ((-1, 0), (0, -1), (1, 0), (0, 1), (0, 0))
    path, taken = [world.start], []
    for action in actions:
        row, column = path[-1] // world.size + steps[action][0], path[-1] % world.size + steps[action][1]
        is_inside = 0 <= row < world.size and 0 <= column < world.size
        following = row * world.size + column if is_inside else path[-1]
        if may_return or following not in path:
            path.append(following)
            taken.append(action)
    return path, taken


@given(hand_worlds(), st.lists(st.integers(0, 4), max_size=40))
def test_a_path_without_returns_is_the_policy_that_follows_it(world, actions):
    """A path without repeated cells is a stationary policy, whose occupancy is known."""
    path, taken = walked(world, actions, may_return=False)
    policy = np.full((world.terminal + 1, 5), 0.2)
    policy[path] = np.eye(5)[[*taken, ACTIONS.index("stay")]]
    expected = state_occupancy(world.domain("L1").mdp, policy.ravel())
    assert_allclose(world.path_visits(path), expected, rtol=1e-9, atol=1e-9)


@given(hand_worlds(), st.lists(st.integers(0, 4), max_size=40))
def test_any_path_visits_what_a_walker_would_step_by_step(world, actions):
    """A path may cross itself, unlike a stationary policy: the state distribution step by step, and then the linear
    system of staying in the last cell."""
    path, taken = walked(world, actions, may_return=True)
    rows = world.domain("L1").mdp.transition.toarray().reshape(-1, 5, world.terminal + 1)
    chance = np.eye(world.terminal + 1)[world.start]
    expected = np.zeros(world.terminal + 1)
    for time_passed, action in enumerate(taken):
        expected += world.discount**time_passed * chance
        chance = chance @ rows[:, action]
    staying = np.eye(world.terminal + 1) - world.discount * rows[:, ACTIONS.index("stay")]
    expected += world.discount ** len(taken) * np.linalg.solve(staying.T, chance)
    visits = world.path_visits(path)
    assert_allclose(visits, expected, rtol=1e-9, atol=1e-9)
    assert visits.sum() == pytest.approx(1 / (1 - world.discount)) and visits.min() >= 0
    assert not visits.flags.writeable


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ([], "begin in the start, cell 4"),
        ([5, 4], "begin in the start, cell 4"),
        ([4, 5, 3], "no single move leads from cell 5 to cell 3"),
        ([4, 8], "no single move leads from cell 4 to cell 8"),
        ([4, 5, 5, 6], "no single move leads from cell 5 to cell 6"),
        ([4, 7, 10], "must be a whole number from 0 to 8"),
        ([4, -1], "must be a whole number from 0 to 8"),
        ([4, 9], "must be a whole number from 0 to 8"),
        ([4, 5.0], "whole number"),
        ([4, True], "whole number"),
    ],
)
def test_a_path_that_nobody_can_walk_is_refused(path, sentence):
    """Refused: another start, a jump, a diagonal, a step around the edge, a step off the grid."""
    with pytest.raises(InvalidModel, match=sentence):
        ObjectWorld(3, 4, {"star": [4]}, {}).path_visits(path)


HAND = {"size": 4, "start": 0, "objects": {"star": [15], "dot": [3]}, "distractors": {"green": [15, 5], "yellow": [6]}}


@given(hand_worlds())
def test_json_gives_back_the_same_world(world):
    """Nothing is lost or rounded."""
    assert ObjectWorld.from_json(world.to_json()) == world


@pytest.mark.parametrize("generator", ["published", "text"])
def test_json_of_a_drawn_world_says_who_drew_it(generator):
    """Every result must state the generator of its worlds."""
    world = object_world(8, 3, generator)
    read = ObjectWorld.from_json(world.to_json())
    assert read == world
    assert (read.generator, read.seed) == (generator, 3)


def test_a_drawn_world_changed_by_hand_no_longer_passes_for_drawn():
    """A changed world with a generator and a seed is refused; without them it is a world made by hand."""
    fields = json.loads(object_world(10, 0).to_json())
    fields["start"] = 55
    with pytest.raises(InvalidModel, match="not the world that the generator 'published' makes of seed 0"):
        ObjectWorld.from_json(json.dumps(fields))
    del fields["generator"], fields["seed"]
    assert ObjectWorld.from_json(json.dumps(fields)).generator == "hand"


def test_a_world_written_by_hand_needs_four_keys_only():
    """The paper's discount, end probability and weights are the defaults; a kind that is not named has no cells."""
    world = ObjectWorld.from_json(json.dumps(HAND))
    assert world.objects == {"star": (15,), "plus": (), "dot": (3,)}
    assert (world.discount, world.end_probability, world.generator, world.seed) == (0.99, 0.1, "hand", None)
    assert_array_equal(world.true_weights, [1.0, 0.9, 0.2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objects": {"star": [3], "plus": [3]}}, "cell 3 holds both a star and a plus"),
        ({"objects": {"star": [3, 3]}}, "cell 3 holds both a star and a star"),
        ({"objects": {"star": [16]}}, "the cell of a star must be a whole number from 0 to 15, got 16"),
        ({"objects": {"star": [-1]}}, "the cell of a star must be a whole number from 0 to 15, got -1"),
        ({"objects": {"moon": [3]}}, "no object 'moon'"),
        ({"objects": {"star": [2.5]}}, "the cell of a star must be a whole number from 0 to 15, got 2.5"),
        ({"objects": {"star": [True]}}, "the cell of a star must be a whole number from 0 to 15, got True"),
        ({"objects": {"star": ["2"]}}, "the cell of a star must be a whole number from 0 to 15, got '2'"),
        ({"objects": {"star": 2}}, "cells of object 'star' must be a list"),
        ({"objects": {"star": "12"}}, "cells of object 'star' must be a list"),
        ({"objects": [1, 2]}, "objects must map"),
        ({"distractors": {"green": [5], "yellow": [5]}}, "cell 5 holds both a green and a yellow"),
        ({"distractors": {"green": [99]}}, "the cell of a green must be a whole number from 0 to 15, got 99"),
        ({"distractors": {"red": [5]}}, "no distractor 'red'"),
        ({"distractors": None}, "distractors must map"),
        ({"start": 16}, "start must be a whole number from 0 to 15, got 16"),
        ({"start": None}, "start must be a whole number"),
        ({"size": 0}, "size must be a whole number from 1 to 20000, got 0"),
        ({"size": "4"}, "size must be a whole number"),
        ({"discount": 1}, "discount must lie strictly"),
        ({"discount": "high"}, "discount must be a number from 0 to 1"),
        ({"discount": 10**400}, "discount must be a number from 0 to 1"),
        ({"discount": float("nan")}, "discount must be a number from 0 to 1, got nan"),
        ({"end_probability": 1.5}, "end_probability must be a number from 0 to 1"),
        ({"end_probability": True}, "end_probability must be a number"),
        ({"weights": [1, 2]}, "weights has 2 entries, but there are 3 types of objects"),
        ({"weights": [1, 2, "3"]}, "weights must be an array of numbers"),
        ({"weights": [1, 2, float("inf")]}, "finite"),
        ({"weights": {"star": 1}}, "weights must be an array of numbers"),
        ({"generator": "chance"}, "no generator 'chance'"),
        ({"generator": "published"}, "seed must be a whole number"),
        ({"seed": 0}, "made by hand has no seed"),
        ({"disount": 0.9}, "must not have 'disount'"),
    ],
)
def test_invalid_worlds_are_refused_with_the_thing_at_fault(change, message):
    """The message names the cell or the key that is wrong."""
    with pytest.raises(InvalidModel, match=message):
        ObjectWorld.from_json(json.dumps(HAND | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "JSON text"),
        ('{"size": 4,', "JSON text"),
        ("[" * 100_000, "JSON text"),
        (None, "JSON text"),
        (b"\xff\xfe\xfa", "JSON text"),
        ("[]", "JSON object"),
        ('{"size": 4, "start": 0}', "the world has no 'objects', 'distractors'; it needs"),
        ('{"size": 4, "size": 5}', "gives 'size' twice"),
        ('{"size": 4, "start": 0, "objects": {"star": [1], "star": [2]}, "distractors": {}}', "gives 'star' twice"),
    ],
)
def test_damaged_json_is_refused(text, message):
    """Every invalid text raises the same error, with a message."""
    with pytest.raises(InvalidModel, match=message):
        ObjectWorld.from_json(text)


@pytest.mark.parametrize("generator", [[True], {"text": 1}, 3, None, "x" * 5000])
def test_a_generator_that_is_no_name_is_refused_in_one_short_sentence(generator):
    fields = json.loads(object_world(5, 0).to_json()) | {"generator": generator}
    with pytest.raises(InvalidModel, match="there is no generator") as caught:
        ObjectWorld.from_json(json.dumps(fields))
    assert len(str(caught.value)) <= 300
    with pytest.raises(InvalidModel, match="there is no generator"):
        object_world(5, 0, generator)
