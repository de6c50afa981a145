"""Plans of the aware teachers: one set of names, a bound that reaches the transcript, nothing planned twice."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from strategies import random_domain

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


def changed(domain, part):
    """The domain with one part changed: another MDP or other features of the same shape."""
    mdp, features, preferences = domain.mdp, domain.reward_features, domain.preference_features
    if part == "start":
        return domain.starting_in(int(np.argmin(mdp.initial)))
    if part == "transition":
        mdp = replace(mdp, transition=mdp.transition[::-1])
    if part == "discount":
        mdp = replace(mdp, discount=np.sqrt(mdp.discount))
    if part == "reward":
        features = features * [1.0, 1 + 1e-6]
    if part == "preference":
        preferences = preferences + 1e-6
    return replace(domain, mdp=mdp, reward_features=features, preference_features=preferences)


@pytest.mark.parametrize("part", ["start", "transition", "discount", "reward", "preference"])
def test_no_teacher_plans_for_a_learner_of_another_domain(part):
    """Its plan would mix two domains: a lesson of one, and the bound and the response of the other."""
    domain = random_domain(np.random.default_rng(8), max_states=12, n_reward=2, n_preference=1)
    w, other = [1.0, -0.5], changed(domain, part)
    sentence = "the learner belongs to another domain than the teacher: its expectation of a policy"
    soft = tl.SoftLearner(other, mismatch_penalty=2, violation_penalty=3)
    for knowing in (tl.AwareCmdpTeacher, tl.BilevelTeacher, tl.OmniscientTeacher):
        with pytest.raises(tl.InvalidModel, match=sentence):
            knowing(domain, w, soft)
    with pytest.raises(tl.InvalidModel, match=sentence):
        tl.teach(tl.AgnosticTeacher(domain, w), soft)
    again = pickle.loads(pickle.dumps(domain))
    assert again is not domain
    tl.AwareCmdpTeacher(domain, w, tl.SoftLearner(again, mismatch_penalty=2, violation_penalty=3))


def test_rounds_and_files_of_another_domain_say_so(tmp_path):
    """Both fit in shape: what is wrong is the domain, not the expectation that no longer follows."""
    mine, other = (tl.object_world(size=6, seed=seed) for seed in (0, 1))
    domain, there = mine.domain("L2"), other.domain("L2")
    begun = tl.teach(tl.VolumeSearchTeacher(domain, mine.true_weights), tl.HardLearner(domain, 0.5), max_rounds=1)
    with pytest.raises(tl.InvalidModel, match="so_far does not belong to the teacher's domain"):
        tl.teach(tl.VolumeSearchTeacher(there, mine.true_weights), tl.HardLearner(there, 0.5), so_far=begun)
    tl.save_transcript(begun, tmp_path / "rounds.npz")
    with pytest.raises(tl.InvalidModel, match="holds no valid transcript of this domain"):
        tl.load_transcript(tmp_path / "rounds.npz", there)


def test_a_class_in_place_of_an_object_is_named():
    with pytest.raises(tl.InvalidInput, match=r"the teacher is the class AgnosticTeacher; make an object of it"):
        tl.teach(tl.AgnosticTeacher, HARD)
    with pytest.raises(tl.InvalidInput, match=r"the learner is the class HardLearner; make an object of it"):
        tl.teach(tl.AgnosticTeacher(DOMAIN, WORLD.true_weights), tl.HardLearner)
    with pytest.raises(tl.InvalidInput, match="the learner is the class HardLearner"):
        tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, tl.HardLearner)
    with pytest.raises(tl.InvalidInput, match="the learner has no method respond"):
        tl.OmniscientTeacher(DOMAIN, WORLD.true_weights, 3)
