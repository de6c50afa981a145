"""Time limits and progress: a limit ends a computation with what is certain, and never with a false certificate.

The clock of these tests advances by one second whenever it is read, so a limit of n seconds allows about n steps.
"""

import itertools
import math
import types

import numpy as np
import pytest
from problems import ALLOWANCE
from strategies import random_domain, random_policy, some_of

import tutelage as tl
from tutelage import outcomes


@pytest.fixture
def counted(monkeypatch):
    """Each look at the clock takes a second."""
    seconds = itertools.count()
    monkeypatch.setattr(outcomes, "time", types.SimpleNamespace(monotonic=lambda: float(next(seconds))))


def _domain(seed=0):
    return random_domain(np.random.default_rng(seed), max_states=30, n_reward=3, n_preference=3)


def _learner(domain):
    return tl.SoftLearner(domain, mismatch_penalty=3, violation_penalty=4, violation_allowance=0.1)


def _lesson(domain):
    return tl.Lesson.from_policy(domain, random_policy(np.random.default_rng(1), domain.mdp))


def _limits(domain):
    seen = tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference
    return tl.preference_limits(domain, 0.95 * seen)


CALLS = {
    "best_policy": lambda domain, **how: tl.best_policy(domain, [1, 2, 3], _limits(domain), **how).value,
    "nearest_policy": lambda domain, **how: tl.nearest_policy(domain, [9, -9, 9], _limits(domain), **how).value,
    "soft": lambda domain, **how: _learner(domain).respond(_lesson(domain), **how).certificate.primal,
    "hard": lambda domain, **how: tl.HardLearner(domain, 1e3).respond(_lesson(domain), **how).certificate.primal,
    "published": lambda domain, **how: (
        tl.PublishedLearner(domain, mismatch_penalty=3, violation_penalty=4)
        .respond(_lesson(domain), **how)
        .certificate.dual
    ),
}


def test_a_budget_allows_as_many_steps_as_it_has():
    budget = outcomes.Budget(3)
    with outcomes.spending(budget):
        outcomes.report("steps", 1)
        outcomes.spend(2)
        with pytest.raises(tl.OutOfTime):
            outcomes.report("steps", 2)
        with outcomes.unlimited():
            outcomes.report("steps", 3)
        with outcomes.watched(1e9), pytest.raises(tl.OutOfTime):
            outcomes.report("steps", 4)
    outcomes.report("steps", 5)
    assert budget.left == -2


@pytest.mark.parametrize("name", CALLS)
def test_a_short_limit_raises_and_a_long_one_changes_nothing(name, counted):
    domain, call = _domain(), CALLS[name]
    seen = []
    free = call(domain, progress=seen.append)
    assert seen and all(step.stage and step.done >= 0 and step.gap >= 0 for step in seen)
    assert call(domain, time_limit=1e9) == free
    with pytest.raises(tl.OutOfTime, match="the time limit was reached before") as caught:
        call(domain, time_limit=0.5)
    assert isinstance(caught.value, tl.NotConverged) and caught.value.stage == seen[0].stage


@pytest.mark.parametrize("name", ["best_policy", "nearest_policy"])
def test_an_optimum_that_ran_out_of_time_has_a_true_bound(name, counted):
    """The answer is a policy within the limits, and its bound holds for the optimum."""
    domain, call = _domain(), CALLS[name]
    best, n_answers = call(domain), 0
    for limit in range(1, 40):
        try:
            call(domain, time_limit=limit + 0.5)
        except tl.OutOfTime as late:
            if late.answer is None:
                continue
            n_answers += 1
            low, high = sorted([late.answer.value, late.answer.bound])
            assert low - 1e-7 <= best <= high + 1e-7
            assert late.answer.ended is tl.Ended.TIME_LIMIT
            assert (late.answer.expectation.preference <= _limits(domain).offsets + 1e-6).all()
    assert n_answers


def test_a_response_that_ran_out_of_time_has_an_honest_gap(counted):
    domain = _domain()
    best, lesson, n_answers = CALLS["soft"](domain), _lesson(domain), 0
    for limit in range(1, 60, 3):
        try:
            _learner(domain).respond(lesson, time_limit=limit + 0.5)
        except tl.OutOfTime as late:
            proof = late.answer.certificate if late.answer else None
            if proof:
                n_answers += 1
                assert proof.primal - 1e-9 <= best <= proof.dual + 1e-9
                assert proof.ended is tl.Ended.TIME_LIMIT
    assert n_answers


def test_a_plan_is_certified_whenever_it_is_stopped(counted):
    """Whatever the limit, no lesson earns more than the bound, and the stated reward is the learner's own."""
    domain = _domain(3)
    teacher = tl.BilevelTeacher(domain, [1.0, -0.5, 0.2], _learner(domain))
    best = teacher.plan()
    bounds = []
    for limit in some_of((1, 10, 100, 300, 1_000, 3_000, 10_000, 100_000), (1, 1_000, 10_000, 100_000)):
        try:
            plan = teacher.plan(time_limit=limit)
        except tl.OutOfTime:
            assert not bounds, "a longer limit must not lose the lesson"
            continue
        answer = teacher.learner.respond(plan.lesson).expectation.reward
        assert plan.achieved == pytest.approx(teacher.true_weights @ answer, rel=1e-9)
        assert plan.achieved <= best.achieved + 1e-6 <= plan.bound + 2e-6
        bounds.append(plan.bound)
    assert len(bounds) >= 3 and bounds[0] > bounds[-1] == best.bound


def test_the_stages_of_a_plan_are_reported_with_a_gap_that_falls():
    domain, seen = _domain(3), []
    tl.BilevelTeacher(domain, [1.0, -0.5, 0.2], _learner(domain)).plan(progress=seen.append)
    assert {"Newton steps", "cells"} <= {step.stage for step in seen}
    gaps = [step.gap for step in seen if step.stage == "cells"]
    assert gaps == sorted(gaps, reverse=True) and math.isfinite(gaps[-1])


def test_an_interaction_ends_with_the_rounds_that_are_complete(counted, tmp_path):
    world = tl.object_world(size=5, seed=0)
    domain = world.domain("L2")
    teacher, learner = tl.VolumeSearchTeacher(domain, world.true_weights), tl.HardLearner(domain, ALLOWANCE)
    whole = tl.teach(teacher, learner)
    lengths = set()
    for limit in (60, 120, 240, 10_000):
        try:
            some = tl.teach(teacher, learner, time_limit=limit, path=tmp_path / "rounds.npz")
        except tl.OutOfTime:
            continue
        lengths.add(len(some.rounds))
        kept = tl.load_transcript(tmp_path / "rounds.npz", domain)
        assert len(kept.rounds) == len(some.rounds) and kept.ended == some.ended
        for mine, theirs in zip(some.rounds, whole.rounds, strict=False):
            np.testing.assert_array_equal(mine.lesson.expectation, theirs.lesson.expectation)
        is_whole = len(some.rounds) == len(whole.rounds)
        assert is_whole or some.ended == "the time limit was reached"
    assert len(whole.rounds) in lengths and len(lengths) > 1


def test_a_lesson_that_took_all_the_time_is_answered_all_the_same(counted):
    domain = _domain(3)
    teacher = tl.BilevelTeacher(domain, [1.0, -0.5, 0.2], _learner(domain))
    # Enough for a lesson, but not for the whole bound.
    taught = tl.teach(teacher, teacher.learner, time_limit=1_000)
    assert len(taught.rounds) == 1 and math.isfinite(taught.final.bound)


def test_limits_nest_and_the_earliest_holds(counted):
    with outcomes.watched(1e6), outcomes.watched(0.5):
        with pytest.raises(tl.OutOfTime):
            outcomes.report("steps", 1)
        with outcomes.unlimited():
            outcomes.report("steps", 2)
    with outcomes.watched(0.5), outcomes.watched(1e6), pytest.raises(tl.OutOfTime):
        outcomes.report("steps", 1)
    outcomes.report("steps", 1)


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan])
def test_a_time_limit_is_positive(wrong):
    with pytest.raises(tl.InvalidInput, match="time_limit must be a positive number of seconds"):
        tl.best_policy(_domain(), [1, 2, 3], tl.no_limits(_domain()), time_limit=wrong)


def test_progress_is_a_public_record():
    assert tl.Progress("steps", 3).gap == math.inf
