"""Figures of rounds: means over the same worlds."""

import json

import pytest

from tutelage.experiments import settings
from tutelage.experiments.store import Row
from tutelage.experiments.targets import TARGETS, panel
from tutelage.experiments.worlds import reachable_worlds


def test_a_panel_has_means_over_the_same_worlds_and_says_how_many():
    short, long = {"reward": 1.0}, {"learner_rewards": [2.0, 3.0], "lesson_rewards": [4.0, 4.0], "reward": 3.0}
    results = {settings.AGNOSTIC: [short, {"reward": 9.0}], settings.VOLUME: [long, {"refused": "no policy"}]}
    drawn = panel("L2", results)
    assert drawn.title == "L2 (1 of 2 worlds)"
    assert list(drawn.lines.values()) == [1.0] and drawn.curves[0].learner == [2.0, 3.0]


@pytest.mark.parametrize(("name", "learner"), [("figure3", "L2"), ("figure4", "L1"), ("figure5", "L3")])
def test_a_figure_of_rounds_shows_the_rewards_of_its_own_learner(name, learner):
    """Every learner's rows have other rewards: the curves of Figure 4 are L1's, means over the worlds."""
    rows = {}
    for other, base in {"L1": 10.0, "L2": 20.0, "L3": 30.0}.items():
        for task in settings.rounds_of(other, 2):
            rewards = [base + task.world.seed, base + 1] if task.teacher.max_rounds > 1 else [base]
            result = {"reward": rewards[-1], "learner_rewards": rewards, "lesson_rewards": [r + 5 for r in rewards]}
            rows[task.key] = Row(task.key, "", json.dumps(result), "", "")
    assert settings.ROUNDS_FIGURES[name] == learner
    figure = TARGETS[name].draw(rows, 2)
    base, seeds = {"L1": 10.0, "L2": 20.0, "L3": 30.0}[learner], [w.seed for w in reachable_worlds(10, 2)]
    for axes in figure.axes:
        assert axes.get_title().startswith(f"{learner}, ")
        lines = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert lines["AdAware-Vol: learner"] == pytest.approx([base + sum(seeds) / 2, base + 1])
        assert lines["AdAware-Vol: teacher"] == pytest.approx([base + sum(seeds) / 2 + 5, base + 6])
        assert set(lines["Agnostic"]) == {base}
