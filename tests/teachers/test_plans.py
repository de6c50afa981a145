"""Plans of the aware teachers: one set of names, a bound that reaches the transcript, nothing planned twice."""

import numpy as np
import pytest

import tutelage as tl
from tutelage.outcomes import watched

WORLD = tl.object_world(size=10, seed=0)
DOMAIN = WORLD.domain("L3")
SOFT = tl.SoftLearner(DOMAIN, mismatch_penalty=5, violation_penalty=10)
HARD = tl.HardLearner(DOMAIN, violation_allowance=2.5)


def counted(call):
    """What a call returns, and how many steps it reports."""
    steps = []
    with watched(progress=steps.append):
        return call(), len(steps)


def test_the_bound_of_the_plan_is_the_transcripts():
    teacher = tl.BilevelTeacher(DOMAIN, WORLD.true_weights, SOFT, max_cells=8)
    plan, final = teacher.plan(), tl.teach(teacher, SOFT).final
    assert np.isfinite(final.bound) and final.bound == plan.bound
    assert final.response_reward == pytest.approx(plan.achieved, abs=1e-9)


def test_the_search_for_the_bound_does_not_plan_the_lesson_again():
    teacher = tl.BilevelTeacher(DOMAIN, WORLD.true_weights, SOFT, max_cells=8)
    first, n_lesson = counted(teacher.lesson_plan)
    bounded, n_bound = counted(lambda: teacher.bounded(first))
    whole, n_whole = counted(teacher.plan)
    assert n_whole == n_lesson + n_bound and n_bound > 0
    assert bounded.bound == whole.bound <= first.bound
    assert bounded.achieved == whole.achieved >= first.achieved


def test_the_bound_of_aware_cmdp_is_what_a_hard_learner_earns():
    final = tl.teach(tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, HARD), HARD).final
    assert final.bound == pytest.approx(final.response_reward, abs=1e-6)


@pytest.mark.parametrize(
    "teacher",
    [
        tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, HARD),
        tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, SOFT),
        tl.BilevelTeacher(DOMAIN, WORLD.true_weights, SOFT, max_cells=0),
    ],
    ids=["Aware-CMDP, hard", "Aware-CMDP, soft", "Aware-BiL"],
)
def test_plans_answer_to_the_same_names(teacher):
    plan, opening = teacher.plan(), teacher.open()
    assert plan.lesson.expectation == pytest.approx(opening.lesson.expectation)
    assert plan.achieved == pytest.approx(float(WORLD.true_weights @ plan.response.expectation.reward))
    assert plan.gap == max(plan.bound - plan.achieved, 0.0) and plan.bound == opening.bound < np.inf
    assert plan.predicted >= plan.achieved - 1e-6 and plan.bound >= plan.achieved


def test_an_aware_lesson_for_a_soft_learner_claims_no_more_than_the_best_policy():
    """A soft learner may exceed the constrained optimum, so that optimum bounds nothing."""
    plan = tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, SOFT).plan()
    best = tl.solve_hard(DOMAIN.mdp, DOMAIN.reward_features @ WORLD.true_weights)
    assert plan.bound == pytest.approx(DOMAIN.mdp.initial @ best.value, rel=1e-7)


def test_a_teacher_that_opens_with_a_bare_lesson_is_told_what_to_return():
    class OldTeacher(tl.OneLessonTeacher):
        def open(self):
            return tl.Lesson.from_policy(self.domain, tl.uniform_policy(self.domain.mdp))

    with pytest.raises(tl.InvalidModel, match="open and adapt must return an Advice, got Lesson"):
        tl.teach(OldTeacher(DOMAIN, WORLD.true_weights), SOFT)


def test_an_aware_plan_says_what_it_expected_and_what_it_got():
    """A soft learner does not match the lesson, so the two differ."""
    plan = tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, SOFT).plan()
    shown = tl.expectation(DOMAIN, plan.lesson.policy).reward @ WORLD.true_weights
    assert plan.predicted == pytest.approx(shown, abs=1e-6)
    assert plan.achieved == pytest.approx(plan.response.expectation.reward @ WORLD.true_weights, abs=1e-9)
    assert plan.achieved < plan.predicted - 0.1


@pytest.mark.parametrize("n_reward", [1, 2])
def test_with_one_reward_feature_a_plan_says_that_the_agnostic_lesson_is_as_good(n_reward):
    domain = tl.Domain(DOMAIN.mdp, DOMAIN.reward_features[:, :n_reward], DOMAIN.preference_features)
    weights = np.ones(n_reward)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    transcript = tl.teach(tl.BilevelTeacher(domain, weights, learner), learner)
    assert ("with one reward feature" in transcript.final.reason) == (n_reward == 1)
    agnostic = tl.teach(tl.AgnosticTeacher(domain, weights), learner).final.response_reward
    if n_reward == 1:
        assert transcript.final.response_reward == pytest.approx(agnostic, abs=1e-6)
