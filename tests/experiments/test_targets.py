"""The tables and figures by name: their tasks, and figures of rounds with means over the same worlds."""

import json

import pytest

from tutelage.experiments import settings
from tutelage.experiments.settings import tasks_in
from tutelage.experiments.store import Row
from tutelage.experiments.sweeps import collected
from tutelage.experiments.targets import TARGETS, UNTOLD, panel, rounds_target
from tutelage.experiments.worlds import worlds_in

# The learner of each figure of rounds.
FIGURES = {"L2": "figure3", "L1": "figure4", "L3": "figure5"}


def keys(name, tasks="tasks"):
    return [task.key for task in getattr(TARGETS[name], tasks)(10)]


def test_table_1_has_every_penalty_learner_teacher_and_world():
    """Six pairs, and one on the text's worlds; five learners, ten worlds; two models taught agnostically, two not."""
    assert len(keys("table1")) == len(set(keys("table1"))) == (6 + 1) * 5 * 10 * 4


def test_the_figures_are_drawn_from_rows_of_the_tables():
    drawn = [key for name in ("figure2", *FIGURES.values()) for key in keys(name)]
    assert drawn and {*drawn} <= {*keys("table1"), *keys("figure3-table")}
    # The picture of what is beyond the paper has the rows of its table, and shows every one.
    curves = rounds_target("", "seeds", UNTOLD, settings.UNTOLD_TEACHERS)
    assert {task.key for task in curves.tasks(10)} == {*keys("beyond")}


def test_a_panel_has_means_over_the_same_worlds_and_says_how_many():
    short, long = {"reward": 1.0}, {"learner_rewards": [2.0, 3.0], "lesson_rewards": [4.0, 4.0], "reward": 3.0}
    short |= {"learner_rewards": [1.0], "lesson_rewards": [1.0]}
    results = {settings.AGNOSTIC: [short, short], settings.VOLUME: [long, {"refused": "no policy"}]}
    rows, tasks = {}, []
    for teacher, several in results.items():
        for task, result in zip(tasks_in("seeds", 10, 2, "L2", settings.EXACT, teacher), several, strict=True):
            tasks.append(task)
            rows[task.key] = Row(task.key, "", json.dumps(result), "", "")
    drawn = panel("L2", collected(tasks, rows))
    assert drawn.title == "L2 (1 of 2 worlds)"
    assert list(drawn.lines.values()) == [1.0] and drawn.curves[0].learner == (2.0, 3.0)


@pytest.mark.parametrize(("learner", "name"), FIGURES.items())
def test_a_figure_of_rounds_shows_the_rewards_of_its_own_learner(name, learner):
    """Every learner's rows have other rewards: the curves of Figure 4 are L1's, means over the worlds."""
    rows = {}
    for other, base in {"L1": 10.0, "L2": 20.0, "L3": 30.0}.items():
        for task in TARGETS[FIGURES[other]].tasks(2):
            rewards = [base + task.world.seed, base + 1] if task.teacher.max_rounds > 1 else [base]
            result = {"reward": rewards[-1], "learner_rewards": rewards, "lesson_rewards": [r + 5 for r in rewards]}
            rows[task.key] = Row(task.key, "", json.dumps(result), "", "")
    figure = TARGETS[name].draw(rows, 2)
    base, seeds = {"L1": 10.0, "L2": 20.0, "L3": 30.0}[learner], [w.seed for w in worlds_in("reachable", 10, 2)]
    for axes in figure.axes:
        assert axes.get_title().startswith(f"{learner}, ")
        lines = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert lines["AdAware-Vol: learner"] == pytest.approx([base + sum(seeds) / 2, base + 1])
        assert lines["AdAware-Vol: teacher"] == pytest.approx([base + sum(seeds) / 2 + 5, base + 6])
        assert set(lines["Agnostic"]) == {base}
