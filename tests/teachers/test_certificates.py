"""Bounds of plans on poor plans: a bound must cover what better lessons achieve, and a gap what was missed."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from strategies import random_domain

from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy, least_violation
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.learners.cloning import CloningLearner
from tutelage.learners.exact import ApproximateHardLearner, HardLearner, SoftLearner
from tutelage.learners.gathering import GatheringLearner
from tutelage.learners.preferring import PreferringLearner
from tutelage.learners.published import PublishedHardLearner
from tutelage.model.policy import uniform_policy
from tutelage.roles import Lesson, Response, Round
from tutelage.teachers.base import Plan
from tutelage.teachers.bilevel import BilevelTeacher
from tutelage.teachers.fixed import AgnosticTeacher, AwareCmdpTeacher

WEIGHTS = np.array([1.0, -0.7])
DOMAIN = random_domain(np.random.default_rng(7), max_states=6, max_choices=3, n_reward=2, n_preference=1)
SOFT = SoftLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=3.0)


def test_the_gap_of_a_plan_is_what_its_bound_leaves_open():
    plan = Plan(None, None, predicted=3.5, achieved=3.0, bound=5.0)
    assert plan.gap == 2.0 and replace(plan, bound=2.9).gap == 0.0


def test_the_bound_of_the_only_lesson_stands_after_its_round():
    advice = AgnosticTeacher(DOMAIN, WEIGHTS).adapt([Round(None, None, bound=9.0), Round(None, None, bound=4.0)])
    assert advice.lesson is None and advice.bound == 4.0


def test_a_bound_from_one_cell_covers_the_best_lesson_and_is_not_the_reward_itself():
    plan = BilevelTeacher(DOMAIN, WEIGHTS, SOFT, max_cells=200).plan()
    rough = BilevelTeacher(DOMAIN, WEIGHTS, SOFT, max_cells=1, n_random=0).plan()
    assert rough.bound >= plan.bound >= plan.achieved
    assert rough.gap > 1e-3 and rough.n_cells < plan.n_cells


def test_the_bound_of_a_poor_plan_is_no_lower_than_what_a_better_lesson_achieves():
    """The search is told that much less was achieved: it finds the better lesson, or at least bounds it."""
    teacher = BilevelTeacher(DOMAIN, WEIGHTS, SOFT, max_cells=60)
    good = teacher.lesson_plan()
    lesson = Lesson.from_policy(DOMAIN, uniform_policy(DOMAIN.mdp))
    response = SOFT.respond(lesson)
    reward = float(WEIGHTS @ response.expectation.reward)
    assert reward < good.achieved - 0.01
    poor = replace(good, lesson=lesson, response=response, predicted=reward, achieved=reward, optima=good.optima[-1:])
    again = teacher.bounded(poor)
    assert again.bound >= good.achieved - 1e-9
    assert again.achieved > reward


def test_what_is_achieved_is_what_the_learner_does_and_not_what_was_predicted():
    """A learner that always does the same: the plan says so, and its gap is what it misses."""
    stubborn = SOFT.respond(Lesson.from_policy(DOMAIN, uniform_policy(DOMAIN.mdp)))
    learner = SimpleNamespace(
        domain=DOMAIN, mismatch=SOFT.mismatch, preference=SOFT.preference, respond=lambda lesson: stubborn
    )
    plan = BilevelTeacher(DOMAIN, WEIGHTS, learner, max_cells=0).plan()
    assert plan.achieved == pytest.approx(WEIGHTS @ stubborn.expectation.reward)
    assert plan.predicted > plan.achieved + 0.01
    assert plan.gap == pytest.approx(plan.bound - plan.achieved) and plan.bound >= plan.predicted - 1e-6


def test_before_the_search_a_soft_learner_is_bounded_by_the_best_policy_and_a_hard_one_by_its_preferences():
    free = best_policy(DOMAIN, WEIGHTS, no_limits(DOMAIN))
    least = least_violation(DOMAIN, preference_limits(DOMAIN, 0.0)).expectation.preference
    allowance = 0.5 * (least + free.expectation.preference)
    within = best_policy(DOMAIN, WEIGHTS, preference_limits(DOMAIN, allowance))
    assert within.value < free.value - 1e-3
    soft = SoftLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=3.0, violation_allowance=allowance)
    hard = ApproximateHardLearner(DOMAIN, violation_allowance=allowance)
    for learner, bound in ((soft, free.bound), (hard, within.bound)):
        plan = BilevelTeacher(DOMAIN, WEIGHTS, learner, max_cells=0, n_random=0).plan()
        assert plan.bound == pytest.approx(bound) and math.isfinite(plan.gap)
        assert plan.achieved == pytest.approx(WEIGHTS @ expectation(DOMAIN, plan.response.policy).reward)


def _hard_problem(seed):
    """A random domain that is no grid, weights, and limits halfway from the least possible to what pays most."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, max_choices=3, n_reward=2, n_preference=2)
    weights = rng.normal(size=2)
    best = AgnosticTeacher(domain, weights).open().lesson
    ends = best_policy(domain, weights, no_limits(domain)).expectation.preference
    tight = least_violation(domain, preference_limits(domain, 0.0)).expectation.preference
    return domain, weights, best, tight + 0.5 * np.maximum(ends - tight, 0.0)


@pytest.mark.parametrize("chunk", range(4))
def test_no_lesson_beats_a_bound_for_a_learner_that_breaks_its_hard_limits(chunk):
    """The ascent of the published learner ends before it keeps its limits, so a bound that leans on them is false."""
    n_broken = 0
    for seed in range(6 * chunk, 6 * chunk + 6):
        domain, weights, best, limits = _hard_problem(seed)
        learner = PublishedHardLearner(domain, violation_allowance=limits, max_steps=60)
        answers = [learner.respond(best), learner.respond(Lesson.from_policy(domain, uniform_policy(domain.mdp)))]
        n_broken += any((answer.violation_excess > 1e-3).any() for answer in answers)
        earned = max(float(weights @ answer.expectation.reward) for answer in answers)
        bounds = [AwareCmdpTeacher(domain, weights, learner).plan().bound]
        bounds.append(BilevelTeacher(domain, weights, learner, max_cells=2, n_random=0).plan().bound)
        assert min(bounds) >= earned - 1e-7 * (1 + abs(earned))
    assert n_broken > 0


class Careless(HardLearner):
    """A learner of somebody else that has hard limits and does not look at them."""

    def respond(self, lesson, after=None):
        return Response.of(self.domain, lesson, lesson.policy)


def test_a_bound_leans_on_limits_only_of_a_learner_that_keeps_them():
    """Wrappers do what the learner within does, and a subclass with its own `respond` proves nothing."""
    domain, weights, best, limits = _hard_problem(5)
    exact = HardLearner(domain, limits)
    keeping = [exact, GatheringLearner(exact), PreferringLearner(CloningLearner(domain), exact)]
    published = PublishedHardLearner(domain, violation_allowance=limits)
    breaking = [Careless(domain, limits), published, GatheringLearner(published)]
    kept = best_policy(domain, weights, preference_limits(domain, limits)).value
    most = float(weights @ best.expectation)
    assert kept < most - 1e-3
    for learners, bound in ((keeping, kept), (breaking, most)):
        for learner in learners:
            assert AwareCmdpTeacher(domain, weights, learner).open().bound == pytest.approx(bound, rel=1e-6)
