"""What the adaptive teachers conclude from rounds, by hand: cuts, contradictions, mean rewards and how rounds end."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import lattice

from tutelage.model.mdp import Domain
from tutelage.roles import Lesson, Round
from tutelage.teachers.adaptive import (
    VolumeSearchTeacher,
    are_contradicted,
    certified,
    close,
    cuts,
    distance,
    mean_rewards,
)

DOMAIN = Domain(lattice(2, discount=0.9), np.eye(4)[:, :2], np.eye(4)[:, 2:])
WEIGHTS = np.array([1.0, 2.0])


def played(shown, done):
    """A round with a lesson and the reward expectation of the response."""
    lesson = Lesson.from_expectation(shown)
    return Round(lesson, SimpleNamespace(lesson=lesson, expectation=SimpleNamespace(reward=np.array(done))))


def test_a_cut_is_orthogonal_to_the_way_from_the_response_to_the_lesson():
    """From (1, 1) towards (4, 5), of length five: (3, 4) / 5 @ x <= 7 / 5, and farther out by the slack."""
    rounds = [played([4.0, 5.0], [1.0, 1.0]), played([2.0, 2.0], [2.0, 2.0])]
    assert distance(rounds[0]) == pytest.approx(5.0)
    found = cuts(DOMAIN, rounds, lambda taught: 0.1 * distance(taught))
    assert_allclose(found.normals, [[0.6, 0.8, 0.0, 0.0]])
    assert_allclose(found.offsets, [1.4 + 0.5])
    assert found.names == ("the cut of round 1",)


def test_a_response_beyond_a_cut_contradicts_it():
    first = played([2.0, 0.0], [1.0, 0.0])
    limits = cuts(DOMAIN, [first], lambda taught: 0.0)
    assert not are_contradicted(DOMAIN, limits, [first, played([0.0, 3.0], [0.5, 3.0])])
    assert not are_contradicted(DOMAIN, limits, [first, played([0.0, 3.0], [1.0 + 1e-7, 3.0])])
    assert are_contradicted(DOMAIN, limits, [first, played([0.0, 3.0], [1.1, 3.0])])


def test_volume_search_certifies_nothing_once_a_response_lies_beyond_a_cut():
    """The first round says x0 <= 2.2; in the second the learner does x0 = 3, though more reward seems possible."""
    teacher = VolumeSearchTeacher(DOMAIN, WEIGHTS)
    first = played([4.0, 0.0], [2.0, 0.0])
    alone, after = teacher.adapt([first]), teacher.adapt([first, played([3.0, -5.0], [3.0, 0.0])])
    assert alone.bound > 3.0 and math.isfinite(alone.bound)
    assert after.bound == math.inf and "nothing is certified" in after.reason


def test_a_bound_below_what_was_earned_certifies_nothing():
    assert certified(5.0, 4.0, 1.0) == 5.0 and certified(5.0, 5.0 + 1e-7, 1.0) == 5.0
    assert certified(5.0, 5.1, 1.0) == math.inf
    # Rewards in units of 1e-8: a bound that is a hundredth too low is contradicted all the same.
    assert certified(5e-8, 5.05e-8, 1e-8) == math.inf


def test_the_reward_of_a_lesson_is_its_mean_over_the_rounds_that_showed_it():
    rounds = [played([1.0, 1.0], [1.0, 0.0]), played([2.0, 1.0], [0.0, 3.0]), played([1.0, 1.0], [3.0, 1.0])]
    assert_allclose(mean_rewards(rounds, WEIGHTS), [3.0, 6.0, 3.0])


def test_the_rounds_end_with_the_best_lesson_or_repeat_it():
    best, poor = played([1.0, 1.0], [1.0, 3.0]), played([2.0, 1.0], [0.0, 1.0])
    low, high = -1.0, 5.0
    ended = close([poor, best], np.array([low, high]), "enough", 9.0, 1.0)
    assert ended.lesson is None and ended.reason == "enough" and ended.bound == 9.0
    again = close([best, poor], np.array([high, low]), "enough", 9.0, 1.0)
    assert again.lesson is best.response.lesson and again.bound == 9.0
    assert again.reason == "enough; the best lesson again, that of round 1"
    # Where nothing is certified, one good round may be chance: the lesson is repeated once.
    uncertain = close([poor, best], np.array([low, high]), "enough", math.inf, 1.0)
    assert uncertain.lesson is best.response.lesson and "nothing is certified" in uncertain.reason
    assert close([poor, best, best], np.array([low, high, high]), "enough", math.inf, 1.0).lesson is None
