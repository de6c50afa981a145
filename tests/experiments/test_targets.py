"""Figures of rounds: means over the same worlds."""

from tutelage.experiments import settings
from tutelage.experiments.targets import panel


def test_a_panel_has_means_over_the_same_worlds_and_says_how_many():
    short, long = {"reward": 1.0}, {"learner_rewards": [2.0, 3.0], "lesson_rewards": [4.0, 4.0], "reward": 3.0}
    results = {settings.AGNOSTIC: [short, {"reward": 9.0}], settings.VOLUME: [long, {"refused": "no policy"}]}
    drawn = panel("L2", results)
    assert drawn.title == "L2 (1 of 2 worlds)"
    assert list(drawn.lines.values()) == [1.0] and drawn.curves[0].learner == [2.0, 3.0]
