"""Whole figures: the right data in the right panels, one scale, one legend, and nothing outside the page."""

import numpy as np
import pytest
from matplotlib.legend import Legend
from numpy.testing import assert_allclose, assert_array_equal

from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.experiments.figures import (
    demo_picture,
    figure1,
    figure2,
    line_search_figure,
    proof_figure,
    rounds_figure,
)
from tutelage.pictures.plots import Curve, Panel

WORLD = object_world(10, 0)
LEARNERS = ("L1", "L2", "L3", "L4", "L5")
PANEL = Panel("L2", [Curve("Vol", [2.5, 7.5], [8.6, 8.1]), Curve("Lin", [2.5, 5.0, 6.2], [8.6, 7.9, 7.6])], {"CMDP": 8})
TRIANGLE = [[0.0, 0.0], [8.6, 0.0], [0.0, 8.7]]
POINTS = {"optimal": [8.6, 0.0], "answered": [2.5, 0.0], "aware": [2.5, 6.2]}
FIGURE_1 = {"reachable": TRIANGLE, "feasible": [[0, 0], [2.5, 0], [2.5, 6.2], [0, 8.7]], "points": POINTS}
FIGURE_1["avoided"] = [False] * 101
PUSHES = {
    "reachable": TRIANGLE,
    "weights": [1.0, 0.9],
    "cases": [
        {"start": [8.6, 0.0], "aim": [8.7, 0.09], "lesson": [8.6, 0.0], "is_realised": False},
        {"start": [2.0, 0.0], "aim": [5.0, 2.7], "lesson": [5.0, 2.7], "is_realised": True},
    ],
}

PROOF = {"feasible": [[0, 0], [2, 0], [2, 14], [0, 16]], "weights": [1.0, 0.9]}
PROOF |= {"start": [0.5, 0.6], "lesson": [8.5, 7.8], "answer": [2.0, 7.8]}


def some_weights(learners=LEARNERS) -> dict:
    rng = np.random.default_rng(0)
    sizes = dict(zip(LEARNERS, (3, 5, 7, 8, 9), strict=True))
    return {teacher: {name: rng.normal(size=sizes[name]) for name in learners} for teacher in ("Agnostic", "Aware")}


FIGURES = {
    "figure1": lambda: figure1(WORLD, FIGURE_1),
    "figure2": lambda: figure2(WORLD, some_weights()),
    "rounds": lambda: rounds_figure([PANEL, PANEL]),
    "one panel": lambda: rounds_figure([PANEL]),
    "line search": lambda: line_search_figure(PUSHES),
    "proof": lambda: proof_figure(PROOF),
    "demo": lambda: demo_picture(WORLD, [given["L3"] for given in some_weights(("L3",)).values()], PANEL),
}


def inferred_reward(learner, weights) -> np.ndarray:
    domain = WORLD.domain(learner)
    return np.hstack([domain.reward_features, domain.preference_features]) @ weights


def heat(axes) -> tuple:
    (found,) = [held for held in axes.collections if held.get_label() == "reward"]
    return np.ravel(found.get_array()), found.get_clim()


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_cut_off_at_the_edge_of_the_page_and_no_legend_covers_axes(name):
    figure = FIGURES[name]()
    figure.draw_without_rendering()
    page, used = figure.bbox_inches, figure.get_tightbbox()
    assert used.x0 >= page.x0 - 0.02 and used.y0 >= page.y0 - 0.02
    assert used.x1 <= page.x1 + 0.02 and used.y1 <= page.y1 + 0.02

    for legend in figure.findobj(Legend):
        assert not any(legend.get_window_extent().overlaps(axes.bbox) for axes in figure.axes)


def test_figure_1_has_the_three_policies_where_they_are():
    plane = FIGURES["figure1"]().axes[1]
    assert [line.get_xydata()[0].tolist() for line in plane.lines] == list(POINTS.values())
    assert len({line.get_marker() for line in plane.lines}) == 3


def test_figure_6_has_both_pushes_where_they_are():
    """Each learner's point and lesson is drawn; the push that no policy realises has its aim too."""
    axes = line_search_figure(PUSHES).axes[0]
    drawn = {tuple(point) for line in axes.lines for point in line.get_xydata().tolist()}
    for case in PUSHES["cases"]:
        assert {tuple(case["start"]), tuple(case["lesson"])} <= drawn
    assert tuple(PUSHES["cases"][0]["aim"]) in drawn


def test_figure_7_is_the_triangle_of_the_proof():
    """Reward upwards; a right angle at mu-tilde, at the height of the answer, which lies on the red segment."""
    axes = proof_figure(PROOF).axes[0]
    by_label = {line.get_label(): line.get_xydata() for line in axes.lines}
    start, lesson, corner, _ = by_label["the right triangle of the proof"]
    assert (start - corner) @ (lesson - corner) == pytest.approx(0) and start[0] == pytest.approx(lesson[0])
    norm = np.hypot(1.0, 0.9)
    assert lesson[1] - start[1] == pytest.approx(8.0 * norm)
    rewards = {name: np.dot(PROOF["weights"], PROOF[name]) / norm for name in ("start", "lesson", "answer")}
    assert [start[1], lesson[1], corner[1]] == pytest.approx(list(rewards.values()))
    (left, right), (_, above) = by_label[r"where $\mu_L^{i+1}$ can be"], by_label[r"$\ell$: no accepted point is above"]
    answer = next(line.get_xydata()[0] for line in axes.lines if np.allclose(line.get_ydata()[0], rewards["answer"]))
    assert left[0] <= answer[0] <= right[0] and right == pytest.approx(corner)
    # The highest accepted point is not above l, so its reward is bounded by l at the largest distance.
    assert max(np.dot(corner, PROOF["weights"]) / norm for corner in PROOF["feasible"]) <= above[1]


def test_figure_2_shows_the_reward_that_each_learner_infers_in_one_scale():
    weights = some_weights()
    grid = np.array(figure2(WORLD, weights).axes[:15]).reshape(3, 5)
    assert [axes.get_title() for axes in grid[0]] == list(LEARNERS)
    assert [axes.get_ylabel() for axes in grid[:, 0]] == ["world", "Agnostic", "Aware"]
    limits = set()
    for row, teacher in zip(grid[1:], weights, strict=True):
        for axes, learner in zip(row, LEARNERS, strict=True):
            values, limit = heat(axes)
            assert_array_equal(values, inferred_reward(learner, weights[teacher][learner])[:-1])
            limits.add(limit)
    ((low, high),) = limits
    assert low == -high < 0


def test_the_inferred_reward_adds_what_each_feature_of_a_cell_is_worth():
    """By hand: a star worth 5 on a green cell, minded at 1 for being on it and at 10 for being within one of it."""
    world = ObjectWorld(3, 8, {"star": [0], "dot": [8]}, {"green": [0]})
    reward, _ = heat(figure2(world, {"Agnostic": {"L2": [5.0, 4.0, 3.0, -1.0, -10.0]}}).axes[1])
    assert_allclose(reward, [5 - 11, -10, 0, -10, -10, 0, 0, 0, 3])


@pytest.mark.parametrize(("best", "worst", "limit"), [(5, -27, 10), (5, -6, 6), (0, -3, 3), (0, 0, 1)])
def test_the_colour_limit_leaves_gains_visible_beside_large_penalties(best, worst, limit):
    """A star and a dot of these rewards, and one other picture in the same scale."""
    world = ObjectWorld(3, 8, {"star": [0], "dot": [8]}, {})
    weights = {"Agnostic": {"L1": [best, 0, worst]}, "Aware": {"L1": [min(best, 1), 0, 0]}}
    for axes in figure2(world, weights).axes[1:3]:
        assert heat(axes)[1] == (-limit, limit)


def test_a_figure_of_rounds_shares_its_rewards_axis_and_names_every_line_once():
    figure = rounds_figure([PANEL, PANEL])
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    (legend,) = figure.findobj(Legend)
    named = [text.get_text() for text in legend.get_texts()]
    assert sorted(named) == sorted(["CMDP", "Vol: learner", "Vol: teacher", "Lin: learner", "Lin: teacher"])


def test_the_demo_picture_compares_both_teachers_in_one_scale():
    weights = [given["L3"] for given in some_weights(("L3",)).values()]
    figure = demo_picture(WORLD, weights, PANEL)
    agnostic, aware = (heat(axes) for axes in figure.axes[1:3])
    assert agnostic[1] == aware[1]
    for (values, _), given in zip((agnostic, aware), weights, strict=True):
        assert_array_equal(values, inferred_reward("L3", given)[:-1])


def test_the_demo_picture_of_a_learner_that_nobody_can_teach_has_no_curves():
    demo_picture(WORLD, [np.ones(7), np.zeros(7)], Panel("refused", [])).draw_without_rendering()
