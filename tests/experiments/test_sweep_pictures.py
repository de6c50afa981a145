"""Pictures of sweeps can be read: panels of limited size, heat maps, no scale that magnifies rounding errors."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tutelage as tl
from tutelage.experiments.means import Mean, MeanCurve
from tutelage.experiments.sweep_pictures import _look, curves, heat_maps, points, swept, teacher_label


def some_means(n_learners, reward=lambda number: number, n_domains=1):
    return [
        Mean(f"domain {domain}", f"soft, C_r {number}", teacher, float(reward(number)), 0.1, math.nan, 0)
        for domain in range(n_domains)
        for number in range(n_learners)
        for teacher in ("agnostic", "bilevel, max_cells 4")
    ]


@pytest.mark.parametrize(("n_learners", "n_domains", "n_panels"), [(1, 1, 1), (25, 1, 3), (12, 2, 2), (4, 7, 7)])
def test_means_are_in_panels_of_limited_size(n_learners, n_domains, n_panels):
    """25 learners were one strip of 4,950 pixels."""
    figure = points(some_means(n_learners, n_domains=n_domains), "reward")
    panels = figure.axes
    assert len(panels) == n_panels and figure.get_figwidth() <= 15
    labels = [axes.get_yticklabels() for axes in panels]
    assert max(map(len, labels)) <= 12 and sum(map(len, labels)) == n_learners * n_domains
    assert sum(len(axes.containers) for axes in panels) == 2 * n_learners * n_domains, "one point for each mean"
    assert len({axes.get_xlim() for axes in panels}) == 1, "panels of equal numbers have one scale"


def test_a_failed_mean_says_so_beside_its_point():
    means = [replace(mean, n_failed=2) for mean in some_means(2)] + [
        Mean("domain 0", "all failed", "agnostic", math.nan, math.nan, math.nan, 3)
    ]
    (axes,) = points(means, "reward").axes
    assert sorted(text.get_text().strip() for text in axes.texts) == ["2 failed"] * 4 + ["3 failed"]
    points([means[-1]], "reward")


def test_many_teachers_are_told_apart():
    looks = [_look(number, str(number)) for number in range(36)]
    assert len({(look["color"], look["marker"]) for look in looks}) == 36


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_no_scale_magnifies_rounding(size):
    """Two teachers whose rewards differ by rounding look equal, in any unit."""
    values = size * (8.9 + 1e-15 * np.arange(4))
    curve = MeanCurve("d", "l", "agnostic", "round", (1.0, 2.0, 3.0, 4.0), tuple(values), (math.nan,) * 4, 1)
    (axes,) = curves([curve, replace(curve, teacher="b", values=tuple(values[::-1]))], "reward").axes
    low, high = axes.get_ylim()
    assert high - low > 0.99e-3 * 8.9 * size and np.ptp(values) < 1e-9 * (high - low)
    (axes,) = points(some_means(3, lambda number: values[number]), "reward").axes
    assert axes.get_xlim()[0] <= 0.0 < values[0] < axes.get_xlim()[1]


def test_learners_of_a_group_have_one_scale_of_rewards():
    curve = MeanCurve("d", "l", "agnostic", "round", (1.0, 2.0), (1.0, 2.0), (0.5, 0.5), 3)
    other = MeanCurve("d", "m", "agnostic", "round", (1.0,), (9.0,), (math.nan,), 1)
    first, second, apart = curves([curve, other, replace(other, domain="e")], "reward").axes
    assert first.get_ylim() == second.get_ylim() != apart.get_ylim()
    assert first.get_ylim()[0] < 0.5 and first.get_ylim()[1] > 9.0


def plane(n_across, n_up, **others):
    return [
        {"learner": f"{a} {b}", "mismatch_penalty": a, "allowance": b, "max_steps": 0, **others}
        for a in range(n_across)
        for b in range(n_up)
    ]


def test_two_swept_numbers_are_a_heat_map_for_each_teacher():
    rows = plane(5, 4)
    means = [
        Mean("d", row["learner"], teacher, row["mismatch_penalty"] + 10 * row["allowance"], 0.0, math.nan, 0)
        for row in rows
        for teacher in ("agnostic", "own")
    ]
    assert swept(rows) == ("mismatch_penalty", "allowance")
    figure = heat_maps(rows, means, ("mismatch_penalty", "allowance"), "reward")
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 2 and len({image.get_clim() for image in images}) == 1
    np.testing.assert_array_equal(images[0].get_array(), np.arange(5) + 10 * np.arange(4)[:, None])
    assert "33" in {text.get_text().split(".")[0] for text in figure.axes[0].texts}


def test_a_heat_map_of_rounding_errors_has_one_colour():
    rows = plane(3, 3)
    rewards = 1 + 1e-15 * np.random.default_rng(0).normal(size=9)
    means = [
        Mean("d", row["learner"], "own", value, 0.0, math.nan, 0) for row, value in zip(rows, rewards, strict=True)
    ]
    (low, high) = heat_maps(rows, means, ("mismatch_penalty", "allowance"), "reward").axes[0].images[0].get_clim()
    assert np.ptp(rewards) < 1e-9 * (high - low)


@pytest.mark.parametrize(
    "rows", [plane(2, 2), plane(6, 1), [*plane(3, 3), {**plane(1, 1)[0], "learner": "x", "max_steps": 3}]]
)
def test_few_learners_or_other_differences_stay_points(rows):
    assert swept(rows) is None


def test_teachers_have_the_names_of_the_tables():
    assert teacher_label("bilevel, max_cells 4") == "Aware-BiL, max_cells 4" and teacher_label("own") == "own"


def test_the_pictures_of_a_sweep(tmp_path):
    plan = {
        "domain": [{"world": "text:{seed}:5", "group": "worlds"}],
        "learner": [{"model": "hard", "preferences": ["L1", "L2"], "allowance": 5}],
        "teacher": [{"name": "volume_search", "max_rounds": [1, 3]}],
    }
    found = tl.sweep(plan, seeds=[0, 1], out=tmp_path)
    assert {row["teacher"] for row in found.rows} == {"volume_search, max_rounds 1", "volume_search, max_rounds 3"}
    assert len(found.means()) == 4 and all(mean.n == 2 for mean in found.means())
    assert len(found.curve_picture().axes) == 2 and len(found.picture().axes) == 1
