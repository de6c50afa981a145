"""Placement by both generators, and the neighbourhoods that learners avoid."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracles import distance
from strategies import hand_worlds

from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.environments.placement import (
    NAMED,
    PREFERENCES,
    cells_within,
    preference_features,
    preference_names,
    published_placement,
    text_placement,
)
from tutelage.outcomes import InvalidModel


def world_or_skip(size: int, seed: int, generator: str) -> ObjectWorld:
    """The world of this seed; a seed that gives no world is rejected."""
    try:
        return object_world(size, seed, generator)
    except InvalidModel:
        assume(False)
        raise


@pytest.mark.parametrize(
    ("seed", "start", "objects", "distractors"),
    [
        (0, 54, {"star": (2, 16), "plus": (13, 30), "dot": (57, 61)}, {"green": (1, 16), "yellow": (11, 31)}),
        (1, 44, {"star": (65, 68), "plus": (82, 83), "dot": (50, 90)}, {"green": (76, 68), "yellow": (74, 93)}),
    ],
)
def test_published_worlds_are_those_that_reproduce_the_printed_tables(seed, start, objects, distractors):
    """All numbers of Appendix B.1 depend on these cells: one draw more or less changes all of them."""
    world = object_world(10, seed)
    assert (world.start, world.objects, world.distractors) == (start, objects, distractors)
    assert (world.generator, world.seed) == ("published", seed)


@given(st.integers(0, 2**32 - 1), st.integers(5, 14))
def test_published_placement_keeps_its_rules(seed, size):
    """The start is central, its block stays empty, and each distractor has its stated distance from its object."""
    world = world_or_skip(size, seed, "published")
    placed = [cell for cells in world.objects.values() for cell in cells]
    coloured = [cell for cells in world.distractors.values() for cell in cells]
    (first_star, second_star), (first_plus, second_plus) = world.objects["star"], world.objects["plus"]
    assert {world.start // size, world.start % size} <= {(size - 1) // 2, size // 2}
    assert len(set(placed)) == 6 and len(set(coloured)) == 4
    assert all(distance(world.start, cell, size) > 1 for cell in placed + coloured)
    assert first_star < second_star and first_plus < second_plus
    assert [distance(first_star, world.distractors["green"][0], size), world.distractors["green"][1]] == [
        1,
        second_star,
    ]
    assert distance(first_plus, world.distractors["yellow"][0], size) == 2
    assert distance(second_plus, world.distractors["yellow"][1], size) == 1
    assert not (set(coloured) - {second_star}) & set(placed)


@given(st.integers(0, 2**32 - 1), st.integers(4, 14))
def test_text_placement_keeps_its_rules(seed, size):
    """Section 6: greens at 0 and 1 cells of the two stars, yellows at 1 and 2 of the two pluses, one each."""
    world = world_or_skip(size, seed, "text")
    placed = [cell for cells in world.objects.values() for cell in cells]
    (on_star, beside), (near, far) = world.distractors["green"], world.distractors["yellow"]
    assert world.start == 0 and world.start not in placed
    assert len(set(placed)) == 6 and len({on_star, beside, near, far}) == 4
    assert not {0, *placed} & {beside, near, far}
    (other_star,) = set(world.objects["star"]) - {on_star}
    assert distance(beside, other_star, size) == 1
    pluses = world.objects["plus"]
    assert (1, 2) in {
        (distance(near, plus, size), distance(far, other, size)) for plus, other in (pluses, pluses[::-1])
    }


def test_the_text_favours_no_cell_and_neither_star():
    """Uniform placement: on 1,500 worlds the counts per cell pass a chi-square test, and so does the choice of star.

    With 35 degrees of freedom (34 and a coin) a fair generator exceeds 74 for 1 set of seeds in 7,000; ours is fixed.
    """
    worlds = [text_placement(6, seed) for seed in range(1_500)]
    counts = np.bincount([cell for world in worlds for cells in world.objects.values() for cell in cells], minlength=36)
    on_lower = sum(world.distractors["green"][0] == world.objects["star"][0] for world in worlds)
    expected = 1_500 * 6 / 35
    statistic = ((counts[1:] - expected) ** 2 / expected).sum() + (on_lower - 750) ** 2 / 375
    assert counts[0] == 0
    assert statistic < 74


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("place", "size"), [(published_placement, 4), (text_placement, 3)])
def test_a_grid_without_room_is_refused_whatever_the_seed(place, size, seed):
    """7 cells outside the block, or 8 outside the start, leave at most 2 of them for three distractors."""
    with pytest.raises(InvalidModel, match=r"no free cell at distance . from cell"):
        place(size, seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 0), "too small: 0 cells"),
        ((2, 0, "text"), "too small: 3 cells"),
        ((0, 0), "size must be a whole number from 1 to 20000, got 0"),
        ((10.0, 0), "size must be a whole number"),
        ((30_000, 0), "size must be a whole number from 1 to 20000, got 30000"),
        ((10, -1), "seed must be a whole number from 0 to 4294967295, got -1"),
        ((10, 2**32), "seed must be a whole number from 0 to 4294967295, got 4294967296"),
        ((10, None), "seed must be a whole number"),
        ((10, 0, "hand"), "no generator 'hand'"),
        ((10, 0, "Text"), "no generator 'Text'"),
    ],
)
def test_worlds_that_cannot_be_drawn_are_refused(arguments, message):
    """Bad input is refused with a message that names it."""
    with pytest.raises(InvalidModel, match=message):
        object_world(*arguments)


@given(st.integers(0, 24), st.integers(0, 3))
def test_cells_within_is_a_square_cut_by_the_grid(cell, reach):
    """The neighbourhood by its definition, ascending, as the order of the published draws requires."""
    assert cells_within([cell], reach, 5).tolist() == [
        other for other in range(25) if distance(cell, other, 5) <= reach
    ]


@given(hand_worlds())
def test_preference_features_are_the_cells_within_a_distance_and_so_nested(world):
    """ "Within k cells" (Figure 1): each column from the definition of distance; the columns are nested."""
    features = world.domain("L5").preference_features
    for column, (colour, reach) in enumerate(tuple(NAMED.values())):
        near = [
            any(distance(cell, other, world.size) <= reach for other in world.distractors[colour])
            for cell in range(world.size**2)
        ]
        assert_array_equal(features[:, column], [*near, False])
        if reach > 0:
            assert (features[:, column] >= features[:, column - 1]).all()


def test_learners_mind_the_first_columns_of_one_list():
    """L1..L5 differ only in the number of their preferences (Sec. 6): d_c = 0, 2, 4, 5, 6."""
    world = object_world(10, 0)
    full = world.domain("L5")
    assert full.preference_names[1::4] == ("green within 1 cell", "yellow within 2 cells")
    for learner, count in {"L1": 0, "L2": 2, "L3": 4, "L4": 5, "L5": 6}.items():
        domain = world.domain(learner)
        assert_array_equal(domain.preference_features, full.preference_features[:, :count])
        assert_array_equal(domain.preference_features, preference_features(learner, world.distractors, 10))
        assert domain.preference_names == full.preference_names[:count] == preference_names(learner)
        assert PREFERENCES[learner] == count


def test_an_unknown_learner_is_refused():
    """An unknown learner is refused, not treated as a learner without preferences."""
    with pytest.raises(InvalidModel, match="no learner 'L6'"):
        object_world(10, 0).domain("L6")


@given(hand_worlds(), st.lists(st.sampled_from(list(NAMED)), unique=True))
def test_preferences_by_name_are_those_columns_in_that_order(world, names):
    """Preferences given by name are in the given order, so that allowances match them."""
    full = world.domain("L5")
    domain = world.domain(names)
    chosen = [full.preference_names.index(name) for name in names]
    assert_array_equal(domain.preference_features, full.preference_features[:, chosen])
    assert_array_equal(preference_features(names, world.distractors, world.size), domain.preference_features)
    assert domain.preference_names == preference_names(names) == tuple(names)


def test_no_names_are_the_learner_that_minds_nothing():
    """An empty list is L1, and the full list is L5, feature by feature."""
    world = object_world(10, 0)
    for learner, names in (("L1", []), ("L5", list(NAMED))):
        assert_array_equal(world.domain(names).preference_features, world.domain(learner).preference_features)
        assert world.domain(names).preference_names == world.domain(learner).preference_names


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["green within 3 cells"], "no preference 'green within 3 cells'; the preferences are green within 0 cells"),
        (["green within 0 cells", "L2"], "no preference 'L2'"),
        (
            ["green within 1 cell", "yellow within 0 cells", "green within 1 cell"],
            "'green within 1 cell' is given twice",
        ),
    ],
)
def test_unknown_and_repeated_names_are_refused(names, sentence):
    """A misspelt name is refused, and so is a repeated one."""
    with pytest.raises(InvalidModel, match=sentence):
        object_world(10, 0).domain(names)
