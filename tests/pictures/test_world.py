"""An object world shows its data: objects, arrows and colours are in the right places."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from tutelage.environments.object_world import ACTIONS, ObjectWorld, object_world
from tutelage.environments.placement import PREFERENCES, preference_features
from tutelage.outcomes import InvalidModel
from tutelage.pictures.world import avoided_cells, draw_world, reward_scale, world_key

WORLDS = {
    "2x2": ObjectWorld(2, 0, {"star": [0], "plus": [1], "dot": [2]}, {"green": [0], "yellow": [3]}),
    "empty": ObjectWorld(4, 5, {}, {}),
    "10x10": object_world(10, 0),
    "50x50": object_world(50, 3),
}


def drawn(world, **options):
    axes = Figure(figsize=(3, 3)).subplots()
    draw_world(axes, world, **options)
    return axes


def shapes(axes, label):
    """The polygons or lines under a label, each (k, 2)."""
    return [path.vertices for held in axes.collections if held.get_label() == label for path in held.get_paths()]


def cells_at(axes, label, size):
    """The cells that contain the centres of the shapes under a label."""
    middles = [(corners.min(axis=0) + corners.max(axis=0)) / 2 for corners in shapes(axes, label)]
    return sorted(round(y) * size + round(x) for x, y in middles)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("option", [{}, {"reward": 0.0}])
def test_everything_is_drawn_in_its_cell_and_only_there(name, option):
    world = WORLDS[name]
    axes = drawn(world, **{name: np.full(world.terminal, value) for name, value in option.items()})
    for kind, cells in {**world.objects, **world.distractors}.items():
        assert cells_at(axes, kind, world.size) == sorted(cells)
    assert set(cells_at(axes, "start", world.size)) == {world.start}


@pytest.mark.parametrize("learner", PREFERENCES)
def test_the_grey_cells_are_those_where_a_preference_feature_is_not_zero(learner):
    world = WORLDS["10x10"]
    features = preference_features(learner, world.distractors, world.size)
    noticed = np.flatnonzero(features[:-1].any(axis=1))
    assert cells_at(drawn(world, avoided=learner), "avoided", world.size) == noticed.tolist()
    assert_array_equal(np.flatnonzero(avoided_cells(world, features.any(axis=1))), noticed)


def test_grey_shows_around_a_distractor_that_is_itself_avoided():
    """L3 avoids yellow cells but not their neighbours: the grey cell must be larger than the yellow square."""
    world = ObjectWorld(3, 0, {}, {"yellow": [4]})
    axes = drawn(world, avoided="L3")
    (grey,), (yellow,) = shapes(axes, "avoided"), shapes(axes, "yellow")
    assert (grey.min(axis=0) < yellow.min(axis=0)).all() and (grey.max(axis=0) > yellow.max(axis=0)).all()


@pytest.mark.parametrize("action", range(4))
def test_an_arrow_points_where_its_action_leads(action):
    """Directions on the screen, inside a 4x4 grid, against the transitions of the world."""
    world = WORLDS["empty"]
    start, size = 5, world.size
    policy = np.zeros((world.terminal, len(ACTIONS)))
    policy[start, action] = 1.0
    axes = drawn(world, policy=policy.ravel())
    (arrow,) = shapes(axes, "moves")
    next_state = world.domain("L1").mdp.transition[[start * len(ACTIONS) + action]].indices[0]
    here, there = (np.array(divmod(cell, size))[::-1] for cell in (start, next_state))
    step = there - here
    along = (arrow - here) @ step
    assert along.min() > 0 and 0.4 < along.max() <= 0.5  # within its own cell, on the right side of the middle
    tip = arrow[along.argmax()]
    assert_allclose(tip - here, along.max() * step, atol=1e-12)
    on_screen = np.diff(axes.transData.transform([here, tip]), axis=0)[0]
    expected = {"up": (0, 1), "left": (-1, 0), "down": (0, -1), "right": (1, 0)}[ACTIONS[action]]
    assert_allclose(on_screen / np.abs(on_screen).max(), expected, atol=1e-9)


def test_arrows_are_as_long_as_they_are_probable_and_rare_choices_have_none():
    world = WORLDS["empty"]
    policy = np.zeros((world.terminal + 1, len(ACTIONS)))
    policy[:, 4] = 1.0
    policy[:3] = [[0.8, 0.0, 0.2, 0.0, 0.0], [0.0, 0.04, 0.4, 0.0, 0.56], [0.99, 0.0, 0.0, 0.0, 0.01]]
    axes = drawn(world, policy=policy.ravel())
    lengths = [np.ptp(arrow[:, 1]) for arrow in shapes(axes, "moves")]
    assert_allclose(np.array(lengths) / lengths[0], np.array([0.8, 0.2, 0.4, 0.99]) / 0.8)
    assert len(shapes(axes, "stays")) == world.terminal - 2


@pytest.mark.parametrize("name", WORLDS)
def test_the_heat_map_is_the_reward_and_symmetric_about_zero(name):
    world = WORLDS[name]
    reward = np.random.default_rng(0).normal(size=world.terminal + 1)
    reward[-1] = 1e6  # the terminal state is not on the grid, and must not stretch the scale
    axes = drawn(world, reward=reward)
    (heat,) = [held for held in axes.collections if held.get_label() == "reward"]
    assert_array_equal(np.ravel(heat.get_array()), reward[:-1])
    limit = np.abs(reward[:-1]).max()
    assert heat.get_clim() == (-limit, limit)
    assert cells_at(axes, "minus", world.size) == np.flatnonzero(reward[:-1] < -0.05 * limit).tolist()
    (held,) = [held for held in drawn(world, reward=reward[:-1], vmax=7.0).collections if held.get_label() == "reward"]
    assert held.get_clim() == (-7.0, 7.0)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_reward_of_rounding_alone_has_no_colours(size):
    """A learner that infers nothing was shown with a dark red minus in each cell it avoids."""
    world = replace(WORLDS["10x10"], weights=tuple(size * np.array([1.0, 0.9, 0.2])))
    noise = np.random.default_rng(0).normal(size=world.terminal)
    axes = drawn(world, reward=1e-14 * size * noise)
    (heat,) = [held for held in axes.collections if held.get_label() == "reward"]
    assert heat.get_clim() == (-size, size) and not cells_at(axes, "minus", world.size)
    assert cells_at(drawn(world, reward=1e-6 * size * noise), "minus", world.size), "a small reward is shown"


def test_blue_is_positive_and_red_negative():
    negative, none, positive = reward_scale(2.0).to_rgba(np.array([-2.0, 0.0, 2.0]))
    assert negative[0] > 2 * negative[2] and positive[2] > 2 * positive[0]
    assert np.ptp(none) < 0.05 < 0.9 < none.min()


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_of_any_size_draw_with_everything_at_once(name):
    world = WORLDS[name]
    policy = np.full(len(ACTIONS) * world.terminal, 1 / len(ACTIONS))
    axes = drawn(world, avoided="L5", policy=policy, reward=np.zeros(world.terminal))
    axes.legend(handles=world_key(), loc="upper left")
    axes.figure.draw_without_rendering()


@pytest.mark.parametrize("option", [{"reward": [1.0]}, {"policy": [1.0]}, {"avoided": [True]}, {"avoided": "L9"}])
def test_what_does_not_fit_the_world_is_refused(option):
    with pytest.raises(InvalidModel):
        drawn(WORLDS["empty"], **option)
