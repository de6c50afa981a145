"""The local maxima of a bi-level plan say how their ascents ended, and how much a further step could gain."""

import numpy as np
import pytest
from strategies import random_domain

import tutelage as tl
from tutelage.learners.dual import Reduction
from tutelage.outcomes import Ended
from tutelage.teachers import climbing
from tutelage.teachers.printed_bilevel import printed_bilevel

LEARNERS = {
    "flat": (tl.Mismatch(norm=1, penalty=5), tl.Preference(norm=1, penalty=10)),
    "squared": (tl.Mismatch(norm=2, penalty=20, squared=True), tl.Preference(norm=1, penalty=10, allowance=2.5)),
}

# On this random domain some ascents take more than one step, and some leave what policies can show.
SEED = 3


def plan(kind, **effort):
    rng = np.random.default_rng(SEED)
    domain = random_domain(rng, max_states=12, max_choices=4, n_reward=2)
    learner = tl.GenericLearner(domain, *LEARNERS[kind])
    search = climbing.Effort(**effort)
    return tl.BilevelTeacher(domain, rng.normal(size=2), learner, max_cells=0, n_random=0, effort=search).plan()


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_converged_optimum_has_a_gap_within_the_tolerance(kind):
    found = plan(kind)
    assert Ended.CONVERGED in {optimum.ended for optimum in found.optima}
    for optimum in found.optima:
        assert optimum.ended in (Ended.CONVERGED, Ended.SETTLED)
        if optimum.ended is Ended.CONVERGED:
            assert optimum.gap <= climbing.NO_GAIN * (1 + abs(optimum.reward))


def test_a_search_that_runs_out_of_hulls_says_so():
    """The best lesson within the hulls need not be the best that policies can show."""
    domain = random_domain(np.random.default_rng(SEED), max_states=12, max_choices=4, n_reward=2)
    learner = tl.GenericLearner(domain, *LEARNERS["squared"])
    start = tl.Lesson.from_policy(domain, tl.uniform_policy(domain.mdp)).expectation
    weights = tl.AgnosticTeacher(domain, [1.0, 1.0]).open().lesson.expectation
    problem = Reduction(learner.preference.on(domain)), learner.mismatch.block(domain), weights
    few, many = (
        climbing.LessonSearch(*problem, climbing.Effort(n_hulls=n), dual=learner.dual).climb([start], [])[0]
        for n in (0, 30)
    )
    assert few.ended is Ended.STEP_LIMIT and many.ended in (Ended.CONVERGED, Ended.SETTLED)
    assert few.reward < many.reward and few.gap > many.gap


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_search_without_steps_left_has_a_lesson_and_says_so(kind):
    """The first start is free of charge; the ascent from it and all other starts are not."""
    full, short = plan(kind), plan(kind, n_steps=0, n_look=0)
    (only,) = short.optima
    is_top = only.gap <= climbing.NO_GAIN * (1 + abs(only.reward))
    assert only.ended is (Ended.CONVERGED if is_top else Ended.STEP_LIMIT)
    assert short.achieved == pytest.approx(short.predicted, rel=1e-5)
    assert short.achieved <= full.achieved + 1e-9 <= short.bound + 2e-9


def test_weights_at_which_the_learner_cannot_be_computed_are_left_out():
    class Failing(Reduction):
        def settle(self, weights, *, near=None):
            if not weights.any():
                raise tl.NotConverged("no minimum", residual=1.0, n_steps=1)
            return super().settle(weights, near=near)

    rng = np.random.default_rng(SEED)
    domain = random_domain(rng, max_states=12, max_choices=4, n_reward=2)
    mismatch, preference = LEARNERS["flat"]
    starts, true_weights = [np.zeros(2), np.array([3.0, 1.0]), np.array([-2.0, 4.0])], rng.normal(size=2)
    maxima = [
        climbing.ReducedProblem(kind(preference.on(domain)), mismatch.block(domain), true_weights).climb(starts, [])
        for kind in (Reduction, Failing)
    ]
    assert maxima[1] and maxima[1][0].reward == pytest.approx(maxima[0][0].reward, rel=1e-6)


def test_the_printed_method_s_own_ending_is_reported():
    world = tl.object_world(size=6, seed=0)
    domain = world.domain("L2")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    found = tl.BilevelTeacher(domain, world.true_weights, learner, max_cells=0, method="frank-wolfe").plan()
    inferred = learner.respond(tl.AgnosticTeacher(domain, world.true_weights).open().lesson).learned_weights[:3]
    printed = printed_bilevel(learner, world.true_weights, inferred)
    assert (found.optima[0].ended, found.optima[0].gap) == (printed.ended, printed.gap)


def test_of_equal_expectations_only_the_best_is_kept_and_the_best_is_first():
    def optimum(expectation, reward):
        return climbing.LocalOptimum(np.zeros(1), np.array([expectation]), reward, np.ones(1), 0.0, Ended.CONVERGED)

    kept = climbing.distinct([optimum(1.0, 1.0), optimum(5.0, 3.0), optimum(5.001, 4.0), optimum(3.0, 2.0)])
    assert [found.reward for found in kept] == [4.0, 2.0, 1.0]
