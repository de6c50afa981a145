"""Curves show the rounds from the first; polygons, points and arrows in a plane are in the right places."""

import numpy as np
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
