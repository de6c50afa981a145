"""The worlds of an experiment: by name, by the stated rule, and what can be reached in them."""

import pytest

from tutelage.environments.object_world import ObjectWorld
from tutelage.experiments.worlds import WorldName, can_reach, worlds_in
from tutelage.outcomes import InvalidModel


def test_the_reachable_worlds_are_those_of_the_stated_rule():
    """As found while the prints were matched: the first ten on 10x10."""
    assert [world.seed for world in worlds_in("reachable", 10, 10)] == [0, 1, 6, 7, 26, 30, 31, 43, 47, 51]
    assert [world.seed for world in worlds_in("seeds", 10, 3)] == [0, 1, 2]


def test_what_can_be_reached_without_a_violation():
    """A corridor of one row height, 3x3: green in the middle cuts the top from the bottom for who minds one cell."""
    world = ObjectWorld(size=5, start=0, objects={"star": [4], "plus": [24]}, distractors={"green": [12]})
    assert can_reach(world, "star", "L2") and can_reach(world, "plus", "L2")
    walled = ObjectWorld(size=5, start=0, objects={"plus": [24]}, distractors={"green": [11, 14]})
    assert can_reach(walled, "plus", "L1") and not can_reach(walled, "plus", "L2")
    beside = ObjectWorld(size=5, start=0, objects={"plus": [24]}, distractors={"green": [6]})
    assert not can_reach(beside, "plus", "L2")


@pytest.mark.parametrize("text", ["", "published", "published:0", "published:x:10", "mine:0:10", "published:0:10:1"])
def test_what_names_no_world_is_refused(text):
    with pytest.raises(InvalidModel, match="names no world"):
        WorldName.parse(text)


def test_a_world_s_name_is_read_back():
    world = WorldName("text", 3, 15)
    assert WorldName.parse(str(world)) == world
    assert world.make().generator == "text"
