"""Curves show the rounds from the first; polygons, points and arrows in a plane are in the right places."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline
from numpy.testing import assert_array_equal

from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import Domain
from tutelage.pictures.plots import Curve, Panel, draw_curves, draw_pushes, draw_reachable, polygon

TRIANGLE = [[0.0, 0.0], [8.0, 0.0], [0.0, 6.0]]


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
    assert [tick for tick in axes.get_xticks() if 0.9 < tick < 3.1] == [1, 2, 3]


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


def test_a_push_that_is_not_realised_shows_how_far_its_lesson_is_off():
    cases = [
        {"start": (3, 1), "aim": (5, 2.25), "lesson": (5, 2.25), "is_realised": True},
        {"start": (1, 5), "aim": (2.5, 6.35), "lesson": (1.25, 5.06), "is_realised": False},
    ]
    axes = Figure().subplots()
    draw_pushes(axes, TRIANGLE, cases, [1.0, 0.9])
    gaps = [line.get_xydata() for line in axes.lines if line.get_linestyle() == "--"]
    assert_array_equal(gaps, [[cases[1]["aim"], cases[1]["lesson"]]])
    starred = [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() == "*"]
    assert starred == [case["lesson"] for case in cases]


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_rounding_is_not_drawn_as_data_and_rounds_have_whole_numbers(size, n_rounds):
    """A learner that earns the bound up to rounding stands on the line of the bound, in any unit of the reward."""
    done = size * (7.978 + 1e-14 * np.arange(n_rounds))
    axes = Figure().subplots()
    draw_curves(axes, Panel("", [Curve("A", done.tolist(), done.tolist())], {"bound": float(done[0]) + 1e-12 * size}))
    low, high = axes.get_ylim()
    assert high - low > 0.99e-3 * 7.978 * size
    (left, right), ticks = axes.get_xlim(), axes.get_xticks()
    assert [tick for tick in ticks if left <= tick <= right] == list(range(1, n_rounds + 1))


@pytest.mark.parametrize("apart", [0.0, 0.2, 0.5])
def test_points_at_one_place_have_one_label(apart):
    """A learner that matches its lesson is the usual case of an aware teacher; two labels would be unreadable."""
    axes = Figure().subplots()
    draw_reachable(axes, TRIANGLE, None, {"shown": [2.0, 1.0], "done": [2.0 + apart, 1.0]})
    texts = [text.get_text() for text in axes.texts]
    assert texts == (["shown", "done"] if apart == 0.5 else ["shown, done"])
