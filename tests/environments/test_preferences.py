"""Preferences of the learners: features of cells within a distance of a distractor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracles import distance
from strategies import hand_worlds

from tutelage.environments.object_world import object_world
from tutelage.environments.preferences import (
    COLUMNS,
    NAMED,
    PREFERENCES,
    cells_within,
    preference_features,
    preference_names,
)
from tutelage.outcomes import InvalidModel


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
    for column, (colour, reach) in enumerate(COLUMNS):
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
