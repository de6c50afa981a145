"""The settings are the paper's, a row's key tells every setting apart, and worlds are drawn by the stated rule."""

from dataclasses import replace

import pytest

from tutelage.experiments import settings
from tutelage.experiments.settings import EXACT, FOOTNOTE, LearnerSetting, Task, TeacherSetting
from tutelage.experiments.worlds import WorldName

TASK = Task(WorldName("published", 0, 10), "L2", EXACT, TeacherSetting("volume_search", max_rounds=100))


def test_unknown_constraints_have_every_learner_size_model_teacher_and_set_of_worlds():
    """Three learners, three sizes, six teachers, two models, twice ten worlds; a world in both sets is one row."""
    tasks = list(settings.unknown())
    assert len(tasks) == 3 * 3 * 6 * 2 * 2 * 10
    assert len({task.key for task in tasks}) < len(tasks)


def test_the_slow_rows_are_others_than_the_quick_ones():
    """Four limits of steps with eleven teachers each, and Algorithm 2 with six longest pushes."""
    slow, quick = ({task.key for task in some} for some in (settings.unknown_slow(), settings.unknown()))
    assert len(slow) == 3 * 3 * (4 * 11 + 6) * 10 and not slow & quick


@pytest.mark.parametrize(
    "other",
    [
        replace(TASK, learner="L3"),
        replace(TASK, world=WorldName("published", 1, 10)),
        replace(TASK, world=WorldName("text", 0, 10)),
        replace(TASK, world=WorldName("published", 0, 15)),
        replace(TASK, model=FOOTNOTE),
        replace(TASK, model=LearnerSetting("hard", (("violation_allowance", 2.0),))),
        replace(TASK, teacher=TeacherSetting("line_search", max_rounds=100)),
        replace(TASK, teacher=TeacherSetting("volume_search", max_rounds=99)),
        replace(TASK, teacher=TeacherSetting("volume_search", (("cut_tightness", 1),), max_rounds=100)),
    ],
)
def test_whatever_differs_has_another_key(other):
    assert other.key != TASK.key and replace(other).key == other.key


def test_rows_of_another_version_are_not_taken_for_these(monkeypatch):
    before = TASK.key
    monkeypatch.setattr("tutelage.__version__", "99.0")
    assert TASK.key != before
