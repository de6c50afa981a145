"""Worlds as JSON texts: read as they were written; an invalid text is refused with the wrong field."""

import json

import pytest
from hypothesis import given
from numpy.testing import assert_array_equal
from strategies import hand_worlds

from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.outcomes import InvalidModel

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
        ({"discount": "high"}, "discount must be a number"),
        ({"discount": 10**400}, "discount is too large for a floating-point number"),
        ({"discount": float("nan")}, "discount must lie strictly"),
        ({"end_probability": 1.5}, "end_probability must lie"),
        ({"end_probability": True}, "end_probability must be a number"),
        ({"weights": [1, 2]}, "weights must be 3 numbers"),
        ({"weights": [1, 2, "3"]}, "the weight of a dot must be a number"),
        ({"weights": [1, 2, float("inf")]}, "finite"),
        ({"weights": {"star": 1}}, "weights must be 3 numbers"),
        ({"generator": "chance"}, "no generator 'chance'"),
        ({"generator": "published"}, "seed must be a whole number"),
        ({"seed": 0}, "made by hand has no seed"),
        ({"disount": 0.9}, "no 'disount'"),
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
        ('{"size": 4, "start": 0}', "lacks objects, distractors"),
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
