"""Pictures of any domain show the numbers of the transcript, and differ in grey too."""

import dataclasses

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from strategies import random_domain

import tutelage as tl
from tutelage.experiments.figures import domain_picture
from tutelage.pictures.domains import DONE, SHOWN, draw_features, draw_map


def _axes():
    return Figure().subplots()


def test_bars_have_the_lengths_of_the_features_and_marks_stand_at_the_limits():
    axes = _axes()
    draw_features(axes, ["a", "b"], {"shown": [1.0, -2.0], "done": [0.5, 3.0]}, allowed=np.array([0.7, np.inf]))
    assert sorted(bar.get_width() for bar in axes.patches) == [-2.0, 0.5, 1.0, 3.0]
    (marks,) = axes.collections
    assert [mark[:, 0].tolist() for mark in marks.get_segments()] == [[0.7, 0.7]], "an infinite limit has no mark"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]


def test_shown_and_done_differ_in_hatching_as_well_as_in_colour():
    axes = _axes()
    draw_features(axes, ["a"], {"shown": [1.0], "done": [1.0]})
    assert {bar.get_hatch() for bar in axes.patches} == {None, "///"}


def _line_domain():
    """0 -> 1 -> 2, where 2 absorbs; a detour 0 -> 2 that the learner takes."""
    rows = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1.0]])
    mdp = tl.MDP.from_choices(rows, [0, 2, 3, 4], [1, 0, 0], 0.9)
    return tl.Domain(mdp, [1.0, 0, 0], positions=[[0, 0], [1, 1], [2, 0]])


def test_a_map_has_a_line_for_each_transition_that_is_used():
    domain, axes = _line_domain(), _axes()
    around, straight = np.array([1.0, 0, 1, 1]), np.array([0.0, 1, 1, 1])
    draw_map(axes, domain, shown=around, done=straight)
    every, shown, done = (c for c in axes.collections if isinstance(c, LineCollection))
    assert len(every.get_segments()) == 3, "the loop of the absorbing state is not drawn"
    np.testing.assert_array_equal(shown.get_segments(), [[[0, 0], [1, 1]], [[1, 1], [2, 0]]])
    np.testing.assert_array_equal(done.get_segments(), [[[0, 0], [2, 0]]])
    colours = [matplotlib.colors.to_hex(lines.get_colors()[0]) for lines in (shown, done)]
    assert colours == [SHOWN, DONE]
    assert set(axes.get_legend_handles_labels()[1]) == {"start", "goal"}


@pytest.mark.parametrize("has_map", [False, True])
@pytest.mark.parametrize("n_preference", [0, 2])
def test_any_domain_can_be_drawn(has_map, n_preference):
    rng = np.random.default_rng(5)
    domain = random_domain(rng, max_states=12, n_reward=2, n_preference=n_preference)
    if has_map:
        places = rng.random((domain.mdp.n_states, 2))
        places[0] = np.nan
        domain = dataclasses.replace(domain, positions=places)
    learner = tl.SoftLearner(domain, mismatch_penalty=2, violation_penalty=3)
    transcript = tl.teach(tl.AgnosticTeacher(domain, [1, 2]), learner)
    figure = domain_picture(domain, transcript, dict.fromkeys(domain.preference_names, 0.5))
    figure.draw_without_rendering()
    assert len(figure.axes) == 2 + has_map + (n_preference > 0)
    for axes in figure.axes[: len(figure.axes) - has_map]:
        covered = axes.get_legend().get_window_extent()
        assert not any(covered.overlaps(other.bbox) for other in figure.axes), "a legend covers a bar or a line"


@pytest.mark.parametrize(("make", "n_axes"), [(tl.CloningLearner, 4), (lambda domain: tl.HardLearner(domain, 2.5), 6)])
def test_the_picture_of_a_world_has_the_policy_and_the_inferred_reward(make, n_axes):
    """With a bar of colours; a learner without weights of the features has no reward to show."""
    world = tl.object_world(6, 1)
    domain = world.domain("L2")
    transcript = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), make(domain))
    figure = domain_picture(domain, transcript, {}, world, "L2")
    figure.draw_without_rendering()
    assert len(figure.axes) == n_axes
    assert {held.get_label() for held in figure.axes[3].collections} >= {"avoided", "moves"}
