"""Means over cases: against the same numbers by hand, with failures, unequal seeds and rounds that end early."""

import math

import numpy as np
import pytest

import tutelage as tl


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
