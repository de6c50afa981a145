"""Polygons, points, arrows and labels in the plane of two features are in the right places."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline
from numpy.testing import assert_array_equal

from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import Domain
from tutelage.pictures.expectations import DrawnPush, draw_pushes, draw_reachable, polygon

TRIANGLE = [[0.0, 0.0], [8.0, 0.0], [0.0, 6.0]]


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
