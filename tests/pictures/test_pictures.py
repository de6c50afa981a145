"""Pictures show their data: objects, arrows, colours and polygons are in the right places."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline
from numpy.testing import assert_allclose, assert_array_equal

from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import ACTIONS, ObjectWorld, object_world
from tutelage.environments.placement import PREFERENCES, preference_features
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel
from tutelage.pictures.expectations import DrawnPush, draw_pushes, draw_reachable, polygon
from tutelage.pictures.files import as_svg, save_picture
from tutelage.pictures.rounds import Curve, Panel, draw_curves, round_ticks
from tutelage.pictures.world import avoided_cells, draw_world, reward_scale, world_key

WORLDS = {
    "2x2": ObjectWorld(2, 0, {"star": [0], "plus": [1], "dot": [2]}, {"green": [0], "yellow": [3]}),
    "empty": ObjectWorld(4, 5, {}, {}),
    "10x10": object_world(10, 0),
    "50x50": object_world(50, 3),
}
TRIANGLE = [[0.0, 0.0], [8.0, 0.0], [0.0, 6.0]]


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


def test_the_striped_part_lies_within_the_reachable_one():
    world = object_world(6, 1)
    whole = world.domain("L2")
    domain = Domain(whole.mdp, whole.reward_features[:, :2], whole.preference_features)
    axes = Figure().subplots()
    reachable = vertices(domain, no_limits(domain))
    feasible = vertices(domain, preference_limits(domain, 2.5))
    draw_reachable(axes, reachable, feasible[::-1], {"best": feasible[0]})
    outer, striped = axes.patches
    assert striped.get_hatch() and not outer.get_hatch()
    assert {tuple(corner) for corner in striped.get_xy()} == {tuple(corner) for corner in feasible}
    assert Outline(outer.get_xy()).contains_points(striped.get_xy(), radius=1e-6).all()


def test_corners_in_any_order_make_the_same_polygon():
    around = np.array([[0.0, 0.0], [4.0, 0.0], [5.0, 2.0], [4.0, 4.0], [0.0, 4.0]])
    walked = polygon(around[[3, 0, 4, 1, 2]])
    first = int(np.flatnonzero((walked == around[0]).all(axis=1))[0])
    assert_array_equal(np.roll(walked, -first, axis=0), around)


def test_labels_cover_neither_each_other_nor_a_point():
    points = {"one": (8.0, 0.0), "two": (7.6, 0.3), "three": (2.0, 1.0), "four": (2.2, 1.0)}
    figure = Figure()
    axes = figure.subplots()
    draw_reachable(axes, TRIANGLE, [[0, 0], [2, 0], [0, 6]], points, arrows=[("one", "three")])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == list(points)
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])
        assert not any(box.contains(*place) for place in axes.transData.transform(list(points.values())))


def test_a_push_that_is_not_realised_shows_how_far_its_lesson_is_off():
    cases = [DrawnPush((3, 1), (5, 2.25), (5, 2.25), True), DrawnPush((1, 5), (2.5, 6.35), (1.25, 5.06), False)]
    axes = Figure().subplots()
    draw_pushes(axes, TRIANGLE, cases, [1.0, 0.9])
    gaps = [line.get_xydata() for line in axes.lines if line.get_linestyle() == "--"]
    assert_array_equal(gaps, [[cases[1].aim, cases[1].lesson]])
    starred = [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() == "*"]
    assert starred == [case.lesson for case in cases]


def test_curves_show_the_rounds_from_the_first():
    panel = Panel("L2", [Curve("A", [1, 2, 3], [5, 4, 3], [0.1, 0.2, 0.1]), Curve("B", [2.0], [2.0])], {"known": 3.5})
    axes = Figure().subplots()
    draw_curves(axes, panel)
    by_label = {line.get_label(): line for line in axes.lines}
    assert_array_equal(by_label["A: learner"].get_xydata(), [[1, 1], [2, 2], [3, 3]])
    assert_array_equal(by_label["A: teacher"].get_ydata(), [5, 4, 3])
    assert by_label["A: learner"].get_linestyle() == "-" and by_label["A: teacher"].get_linestyle() == ":"
    assert by_label["A: learner"].get_marker() != by_label["B: learner"].get_marker()
    assert set(by_label["known"].get_ydata()) == {3.5}


@pytest.mark.parametrize("n_rounds", [1, 2, 12, 13, 60, 61, 500, 12345])
def test_ticks_are_whole_rounds_from_one_and_few(n_rounds):
    ticks = round_ticks(n_rounds)
    assert ticks[0] == 1 and ticks == sorted(set(ticks)) and ticks[-1] <= n_rounds
    assert len(ticks) <= 13 and all(isinstance(tick, int) for tick in ticks)


@pytest.mark.parametrize("wrong", [([], [], []), ([1.0], [], []), ([1.0], [1.0], [0.1, 0.1])])
def test_a_curve_has_as_many_of_everything_as_rounds(wrong):
    with pytest.raises(InvalidModel):
        Curve("A", *wrong)


def laid_out():
    """A figure whose layout is computed when it is drawn."""
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_curves(left, Panel("L2", [Curve("A", [1.0, 2.0], [4.0, 3.0])], {"known": 3.5}))
    draw_world(right, WORLDS["10x10"])
    figure.colorbar(reward_scale(1.0), ax=right)
    return figure


@pytest.mark.parametrize("picture", [lambda: drawn(WORLDS["10x10"], avoided="L3").figure, laid_out])
def test_a_saved_picture_is_the_same_twice_and_leaves_nothing_else(tmp_path, picture):
    figure = picture()
    first = save_picture(figure, tmp_path / "size.10")
    assert [path.name for path in first] == ["size.10.png", "size.10.svg"]
    again = save_picture(figure, tmp_path / "again")
    anew = save_picture(picture(), tmp_path / "anew")
    for one, two, three in zip(first, again, anew, strict=True):
        assert one.read_bytes() == two.read_bytes() == three.read_bytes()
    assert first[1].read_text() == as_svg(figure)
    assert len(list(tmp_path.iterdir())) == 6


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path):
    (old,) = save_picture(drawn(WORLDS["2x2"]).figure, tmp_path / "picture")[:1]
    before = old.read_bytes()
    broken = Figure()
    broken.text(0.5, 0.5, "$\\nosuchsymbol$")
    with pytest.raises(ValueError):
        save_picture(broken, tmp_path / "picture")
    assert old.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
