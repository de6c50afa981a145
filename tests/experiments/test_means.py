"""Means over cases: against the same numbers by hand, with failures, unequal seeds and rounds that end early.

Their pictures can be read: panels of limited size, heat maps, no scale that magnifies rounding errors.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import tutelage as tl
from tutelage.experiments.means import Mean, MeanCurve, draw_curves, draw_means, draw_plane, swept
from tutelage.experiments.tables import column_label
from tutelage.pictures.plots import look


def row(teacher, case, reward, *, seed=0, learner="l", group="g", bound=None, rounds=None, shown=None):
    rewards = [reward] if rounds is None else rounds
    return {
        "domain": f"{group} {case}",
        "group": group,
        "replicate": case,
        "learner": learner,
        "teacher": teacher,
        "seed": seed,
        "reward": reward,
        "bound": bound,
        "reward_by_round": rewards,
        "n_steps_by_round": [None] * len(rewards) if shown is None else shown,
        "failed": "" if reward is not None else "no policy",
    }


def test_a_mean_is_over_cases_and_its_difference_is_paired():
    """Rewards vary much between cases and little between teachers: only the paired error shows that b is better."""
    rng = np.random.default_rng(0)
    level, gain = rng.normal(size=8), 0.1 + 0.01 * rng.normal(size=8)
    rows = [row("a", case, level[case], bound=10.0) for case in range(8)]
    rows += [row("b", case, level[case] + gain[case], bound=10.0) for case in range(8)]
    first, second = tl.Sweep(tuple(rows)).means()
    assert (first.n, first.n_failed, first.n_complete) == (8, 0, 8) and first.complete == first.reward
    assert first.reward == pytest.approx(level.mean()) and first.share == pytest.approx(level.mean() / 10)
    assert first.standard_error == pytest.approx(level.std(ddof=1) / math.sqrt(8))
    assert (first.difference, first.difference_error) == (0, 0)
    assert second.difference == pytest.approx(gain.mean()) and second.n_pairs == 8
    assert second.difference_error == pytest.approx(gain.std(ddof=1) / math.sqrt(8))
    assert second.difference_error < first.standard_error / 10
    against, _ = tl.Sweep(tuple(rows)).means(against="b")
    assert against.difference == pytest.approx(-gain.mean())


def test_a_mean_over_fewer_cases_than_its_neighbour_is_also_given_over_complete_cases():
    rows = [row("a", case, reward) for case, reward in enumerate([1.0, 2.0, 9.0])]
    rows += [row("b", case, reward) for case, reward in enumerate([1.5, 2.5, None])]
    a, b = tl.Sweep(tuple(rows)).means()
    assert (a.reward, a.n, a.complete, a.n_complete) == (4.0, 3, 1.5, 2)
    assert (b.reward, b.n, b.n_failed, b.complete) == (2.0, 2, 1, 2.0)
    assert (b.difference, b.difference_error, b.n_pairs) == (0.5, 0.0, 2)


def test_seeds_of_one_domain_are_not_more_observations_of_it():
    """Two domains with three equal seeds each are two cases; one domain with three seeds has three."""
    rows = [row("a", case, reward, seed=seed) for case, reward in ((0, 1.0), (1, 3.0)) for seed in range(3)]
    (mean,) = tl.Sweep(tuple(rows)).means()
    assert (mean.n, mean.reward) == (2, 2.0) and mean.standard_error == pytest.approx(1.0)
    (mean,) = tl.Sweep(tuple(row("a", 0, float(seed), seed=seed) for seed in range(3))).means()
    assert (mean.n, mean.reward) == (3, 1.0) and mean.standard_error == pytest.approx(1 / math.sqrt(3))


def test_a_mean_without_a_result_and_of_one_case_has_no_error():
    none, single = tl.Sweep((row("a", 0, None), row("b", 0, 1.0))).means()
    assert math.isnan(none.reward) and none.n == 0 and none.n_failed == 1
    assert single.reward == 1.0 and math.isnan(single.standard_error) and math.isnan(single.difference)


def test_any_number_has_means_and_what_is_none_is_refused():
    rows = [row("a", case, 1.0) | {"loss": loss} for case, loss in enumerate([1.0, 3.0])]
    (mean,) = tl.Sweep(tuple(rows)).means("loss")
    assert mean.reward == 2.0 and math.isnan(mean.share)
    for wrong in ({"of": "los"}, {"of": "teacher"}, {"of": "reward", "against": "c"}):
        with pytest.raises(tl.InvalidInput, match="no row has"):
            tl.Sweep(tuple(rows)).means(**wrong)


def test_curves_keep_the_last_value_of_rounds_that_ended():
    rows = (row("a", 0, 3.0, rounds=[1.0, 3.0]), row("a", 1, 5.0, rounds=[2.0, 4.0, 4.0, 5.0]))
    (curve,) = tl.Sweep(rows).curves()
    assert curve.budgets == (1, 2, 3, 4) and curve.values == (1.5, 3.5, 3.5, 4.0) and curve.n == 2
    assert curve.errors == pytest.approx([0.5, 0.5, 0.5, 1.0])


def test_curves_by_steps_compare_at_equal_budgets():
    """After 12 steps the first case has seen its lessons of 4 and 6 steps, the second that of 10."""
    rows = (
        row("a", 0, 3.0, rounds=[1.0, 2.0, 3.0], shown=[4, 6, 8]),
        row("a", 1, 9.0, rounds=[5.0, 9.0], shown=[10, 5]),
    )
    (curve,) = tl.Sweep(rows).curves(by="n_steps")
    assert curve.budgets == (10, 15, 18)
    assert curve.values == ((2 + 5) / 2, (2 + 9) / 2, (3 + 9) / 2)


def test_exact_lessons_have_no_number_of_steps():
    with pytest.raises(tl.InvalidInput, match="'a' shows 'l' exact expectations, which have no n_steps"):
        tl.Sweep((row("a", 0, 1.0),)).curves(by="n_steps")
    with pytest.raises(tl.InvalidInput, match="by must be 'round'"):
        tl.Sweep((row("a", 0, 1.0),)).curves(by="seconds")
    with pytest.raises(tl.InvalidInput, match="not a number in every round"):
        tl.Sweep((row("a", 0, 1.0, rounds=[None, 1.0]),)).curves()


def test_budgets_until_close_to_the_best_and_regret_against_the_same_by_hand():
    """Best in case 0: 4, by b; in case 1: 6, by a. Within a tenth of it for good: from 3.6 and from 5.4 on."""
    rows = (
        row("a", 0, 3.0, rounds=[1.0, 3.9, 3.0]),
        row("a", 1, 6.0, rounds=[2.0, 5.5, 6.0]),
        row("b", 0, 4.0, rounds=[4.0]),
        row("b", 1, 5.0, rounds=[3.0, 5.0]),
    )
    a, b = tl.Sweep(rows).curves(within=0.1)
    assert a.budgets == b.budgets == (1, 2, 3) and b.values == (3.5, 4.5, 4.5)
    assert (a.until, a.n_reached) == (2, 1), "close in round 2, and lost again in round 3, is not reached"
    assert (b.until, b.n_reached) == (1, 1)
    assert a.regret == pytest.approx(((3 + 0.1 + 1) + (4 + 0.5 + 0)) / 2)
    assert b.regret == pytest.approx((0 + (3 + 1 + 1)) / 2) and b.regret_error == pytest.approx(2.5)


def test_regret_counts_each_step_shown_and_every_teacher_from_the_same_budget():
    rows = (
        row("a", 0, 8.0, rounds=[2.0, 8.0], shown=[3, 4]),
        row("b", 0, 6.0, rounds=[4.0, 6.0], shown=[5, 5]),
    )
    a, b = tl.Sweep(rows).curves(by="n_steps")
    assert a.budgets == b.budgets == (5, 7, 10) and a.values == (2, 8, 8) and b.values == (4, 4, 6)
    # At 5, 6, 7, 8, 9 and 10 steps.
    assert a.regret == 6 + 6 + 0 + 0 + 0 + 0 and b.regret == 4 + 4 + 4 + 4 + 4 + 2
    assert (a.until, b.n_reached) == (7, 0) and math.isnan(b.until)


def test_a_teacher_that_failed_everywhere_has_no_curve_and_metrics_have_no_regret():
    rows = (row("a", 0, 1.0) | {"loss_by_round": [3.0]}, row("b", 0, None) | {"loss_by_round": []})
    (curve,) = tl.Sweep(rows).curves("loss")
    assert curve.values == (3.0,) and math.isnan(curve.regret) and curve.n_reached == 0
    assert tl.Sweep((row("b", 0, None),)).curves() == []


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
    figure = draw_means(some_means(n_learners, n_domains=n_domains), "reward")
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
    (axes,) = draw_means(means, "reward").axes
    assert sorted(text.get_text().strip() for text in axes.texts) == ["2 failed"] * 4 + ["3 failed"]
    draw_means([means[-1]], "reward")


def test_many_teachers_are_told_apart():
    looks = [look(number) for number in range(36)]
    assert len({(each["color"], each["marker"]) for each in looks}) == 36


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_no_scale_magnifies_rounding(size):
    """Two teachers whose rewards differ by rounding look equal, in any unit."""
    values = size * (8.9 + 1e-15 * np.arange(4))
    curve = MeanCurve("d", "l", "agnostic", "round", (1.0, 2.0, 3.0, 4.0), tuple(values), (math.nan,) * 4, 1)
    (axes,) = draw_curves([curve, replace(curve, teacher="b", values=tuple(values[::-1]))], "reward").axes
    low, high = axes.get_ylim()
    assert high - low > 0.99e-3 * 8.9 * size and np.ptp(values) < 1e-9 * (high - low)
    (axes,) = draw_means(some_means(3, lambda number: values[number]), "reward").axes
    assert axes.get_xlim()[0] <= 0.0 < values[0] < axes.get_xlim()[1]


def test_learners_of_a_group_have_one_scale_of_rewards():
    curve = MeanCurve("d", "l", "agnostic", "round", (1.0, 2.0), (1.0, 2.0), (0.5, 0.5), 3)
    other = MeanCurve("d", "m", "agnostic", "round", (1.0,), (9.0,), (math.nan,), 1)
    first, second, apart = draw_curves([curve, other, replace(other, domain="e")], "reward").axes
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
    figure = draw_plane(rows, means, ("mismatch_penalty", "allowance"), "reward")
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
    (low, high) = draw_plane(rows, means, ("mismatch_penalty", "allowance"), "reward").axes[0].images[0].get_clim()
    assert np.ptp(rewards) < 1e-9 * (high - low)


@pytest.mark.parametrize(
    "rows", [plane(2, 2), plane(6, 1), [*plane(3, 3), {**plane(1, 1)[0], "learner": "x", "max_steps": 3}]]
)
def test_few_learners_or_other_differences_stay_draw_means(rows):
    assert swept(rows) is None


def test_teachers_have_the_names_of_the_tables():
    assert column_label("bilevel, max_cells 4") == "Aware-BiL, max_cells 4" and column_label("own") == "own"


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
