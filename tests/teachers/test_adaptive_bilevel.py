"""AdAware-BiL: it teaches unknown soft learners as Aware-BiL does known ones, and certifies nothing false."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from problems import random_domain_of
from strategies import random_policy, some_of

import tutelage as tl

ABSENT = 1e6
EVERY = [(seed, name) for seed in range(10) for name in ("L2", "L3", "L4", "L5")]


def published_learner(seed, name):
    """A soft learner with C_r, C_c in [1, 10] and delta of 0, 0.5 or 2, in the domain with all six features."""
    world = tl.object_world(size=10, seed=seed)
    rng = np.random.default_rng(100 * seed + int(name[1]) - 2)
    domain, n = world.domain("L5"), world.domain(name).n_preference
    delta = np.where(np.arange(6) < n, rng.choice([0, 0.5, 2]), ABSENT)
    penalty, violation = rng.uniform(1, 10, 2)
    learner = tl.SoftLearner(domain, mismatch_penalty=penalty, violation_penalty=violation, violation_allowance=delta)
    return learner, world.true_weights


def check_estimate(learner, estimate):
    """The true parameters lie in the intervals."""
    assert estimate.contradiction == ""
    assert learner.mismatch_penalty in estimate.mismatch_penalty
    assert learner.violation_penalty in estimate.violation_penalty
    for true, interval in zip(np.asarray(learner.violation_allowance), estimate.violation_allowance, strict=True):
        assert true in interval


@pytest.mark.parametrize(("seed", "name"), some_of(EVERY, [(6, "L3")]))
def test_unknown_soft_learners_are_taught_as_known_ones(seed, name):
    """Each learner: 97 % of Aware-BiL in three rounds, 99.9 % at the end, in d_c + 4 rounds; no bound is below it."""
    learner, weights = published_learner(seed, name)
    domain = learner.domain
    teacher = tl.AdaptiveBilevelTeacher(domain, weights)
    transcript = tl.teach(teacher, learner, max_rounds=50)
    best = tl.BilevelTeacher(domain, weights, learner).lesson_plan().achieved
    rewards = [taught.response_reward for taught in transcript.rounds]
    assert len(rewards) <= domain.n_preference + 4
    assert max(rewards[:3]) >= 0.97 * best and rewards[-1] >= 0.999 * best
    assert rewards[-1] >= rewards[0] - 1e-9
    assert all(taught.bound >= max(best, *rewards) - 1e-6 for taught in transcript.rounds)
    check_estimate(learner, teacher.estimate(transcript.rounds))


@pytest.mark.parametrize("seed", some_of(range(40), [1, 23]))
def test_random_domains(seed):
    """On ragged domains: never below the agnostic lesson, the bound holds, the intervals contain the truth."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    weights = rng.normal(size=domain.n_reward)
    penalty, violation = 10 ** rng.uniform(-1, 1, 2)
    delta = tl.expectation(domain, random_policy(rng, domain.mdp)).preference * rng.choice([0, 0.7, 100])
    learner = tl.SoftLearner(domain, mismatch_penalty=penalty, violation_penalty=violation, violation_allowance=delta)
    teacher = tl.AdaptiveBilevelTeacher(domain, weights)
    transcript = tl.teach(teacher, learner, max_rounds=50)
    best = tl.BilevelTeacher(domain, weights, learner, max_cells=0).plan().achieved
    rewards = [taught.response_reward for taught in transcript.rounds]
    size = 1e-6 * (1 + abs(best))
    assert rewards[-1] >= max(rewards) - size
    assert all(taught.bound >= max(best, *rewards) - size for taught in transcript.rounds)
    estimate = teacher.estimate(transcript.rounds)
    assert estimate.contradiction == ""
    assert learner.mismatch_penalty in estimate.mismatch_penalty


@pytest.mark.parametrize("size", some_of([50], []))
def test_a_large_world(size):
    """2,501 states: the weights of an answer are known to within less than a linear program's tolerance."""
    world = tl.object_world(size=size, seed=0)
    delta = [0.5, 0.5, ABSENT, ABSENT, ABSENT, ABSENT]
    learner = tl.SoftLearner(
        world.domain("L5"), mismatch_penalty=5, violation_penalty=8, violation_allowance=np.array(delta)
    )
    teacher = tl.AdaptiveBilevelTeacher(learner.domain, world.true_weights, max_cells=0)
    transcript = tl.teach(teacher, learner, max_rounds=10)
    best = tl.BilevelTeacher(learner.domain, world.true_weights, learner, max_cells=0).plan().achieved
    assert transcript.final.response_reward >= 0.999 * best
    check_estimate(learner, teacher.estimate(transcript.rounds))


def small_world():
    world = tl.object_world(size=6, seed=1)
    return world.domain("L3"), world.true_weights


@pytest.mark.parametrize("allowance", some_of([2.5], []))
def test_a_hard_learner_is_recognised(allowance):
    """No soft learner answers as a projection does; the bound is the reward of the best policy, which always holds."""
    domain, weights = small_world()
    learner = tl.HardLearner(domain, allowance)
    teacher = tl.AdaptiveBilevelTeacher(domain, weights)
    transcript = tl.teach(teacher, learner, max_rounds=12)
    assert teacher.estimate(transcript.rounds).contradiction
    assert "nothing is certified" in transcript.ended
    most = tl.solve_hard(domain.mdp, domain.reward_features @ weights).value @ domain.mdp.initial
    assert transcript.final.bound == pytest.approx(most, rel=1e-6)
    assert transcript.final.response_reward == transcript.best.response_reward


@pytest.mark.parametrize("kind", some_of(["published", "footnote", "noisy"], ["published"]))
def test_other_learners_are_recognised(kind):
    """One that has not converged, one of another penalty, one with noisy answers: said, and never taught worse."""
    domain, weights = small_world()
    learner = tl.PublishedLearner(domain, mismatch_penalty=5, violation_penalty=3, max_steps=60)
    if kind == "footnote":
        learner = tl.ApproximateHardLearner(domain, mismatch_penalty=0.5, violation_allowance=2.5)
    elif kind == "noisy":
        soft = tl.SoftLearner(domain, mismatch_penalty=4, violation_penalty=3)
        learner = tl.SampledLearner(domain, soft, 100, 100, rng=1)
    teacher = tl.AdaptiveBilevelTeacher(domain, weights)
    transcript = tl.teach(teacher, learner, max_rounds=12)
    assert teacher.estimate(transcript.rounds).contradiction
    assert "nothing is certified" in transcript.ended
    rewards = [taught.response_reward for taught in transcript.rounds]
    if kind != "noisy":
        assert rewards[-1] == pytest.approx(max(rewards))
    most = tl.solve_hard(domain.mdp, domain.reward_features @ weights).value @ domain.mdp.initial
    assert transcript.final.bound == pytest.approx(most, rel=1e-6)


def taught_in_part(learner, weights, **options):
    """For a teacher that sees less: the exact rewards of the responses, what Aware-BiL reaches, the certified bound."""
    domain = learner.domain
    teacher = tl.AdaptiveBilevelTeacher(domain, weights, **options)
    seen = learner
    if "n_trajectories" in options:
        seen = tl.SampledLearner(domain, learner, options["n_trajectories"], options["n_trajectories"], rng=1)
    transcript = tl.teach(teacher, seen, max_rounds=10)
    best = tl.BilevelTeacher(domain, weights, learner, max_cells=0).plan().achieved
    rewards = [float(weights @ tl.expectation(domain, one.response.policy).reward) for one in transcript.rounds]
    return rewards, best, transcript.final.bound


@pytest.mark.parametrize(("seed", "name"), some_of(EVERY, []))
def test_sampled_responses(seed, name):
    """200 trajectories each way: nearly what Aware-BiL reaches, and not below the agnostic teacher but for noise."""
    rewards, best, _ = taught_in_part(*published_learner(seed, name), n_trajectories=200)
    assert rewards[-1] >= rewards[0] - 0.5 and rewards[-1] >= 0.7 * best


@pytest.mark.parametrize(("seed", "name"), some_of(EVERY, []))
def test_only_the_reward_is_seen(seed, name):
    """The paper's own setting: nearly what Aware-BiL reaches, in at most ten rounds, never below the first."""
    rewards, best, bound = taught_in_part(*published_learner(seed, name), observed="reward")
    assert len(rewards) <= 10 and rewards[-1] >= max(rewards) - 1e-9 and bound >= max(rewards)
    assert rewards[-1] >= 0.9 * best


@pytest.mark.parametrize(
    "options", some_of([{"observed": "reward"}, {"n_trajectories": 400}], [{"observed": "reward"}])
)
def test_a_small_world_seen_in_part(options):
    """A learner with an allowance that binds: the agnostic lesson earns little, AdAware-BiL what Aware-BiL reaches."""
    domain, weights = small_world()
    delta = [ABSENT, 0.4, 0.4, ABSENT]
    learner = tl.SoftLearner(domain, mismatch_penalty=4, violation_penalty=6, violation_allowance=delta)
    rewards, best, bound = taught_in_part(learner, weights, **options)
    assert bound >= max(rewards) - 1e-9
    assert rewards[0] < 0.5 * best and rewards[-1] >= (0.99 if "observed" in options else 0.9) * best


def test_lessons_beyond_the_response_have_the_same_response():
    """Where a_k = +-C_r, the lesson lies beyond the response: the learner planned for responds alike, and misses it."""
    domain, weights = small_world()
    learner = tl.SoftLearner(domain, mismatch_penalty=4, violation_penalty=6, violation_allowance=0.4)
    plain = tl.BilevelTeacher(domain, weights, learner, n_random=2, max_cells=0).plan()
    plan = tl.AdaptiveBilevelTeacher(domain, weights, observed="reward")._plan_for(learner)
    missed = np.abs(plan.lesson.expectation - plain.response.expectation.reward)
    assert missed.max() > 0.1 > 1e-3 > np.abs(plain.lesson.expectation - plain.response.expectation.reward).max()
    done = learner.respond(plan.lesson).expectation.reward
    np.testing.assert_allclose(done, plain.response.expectation.reward, atol=1e-5)


def test_luck_of_samples_is_not_earned():
    """What a lesson earns is taken from the learner that explains all answers; if none does, from its trajectories."""
    domain, weights = small_world()
    learner = tl.SoftLearner(domain, mismatch_penalty=4, violation_penalty=6, violation_allowance=0.4)
    teacher = tl.AdaptiveBilevelTeacher(domain, weights, n_trajectories=50)
    sampled = tl.SampledLearner(domain, learner, 50, 50, rng=3)
    rounds = [tl.Round(lesson, sampled.respond(lesson)) for lesson in [teacher.open().lesson] * 2]
    true = [weights @ tl.expectation(domain, taught.response.policy).reward for taught in rounds]
    seen = [weights @ taught.response.expectation.reward for taught in rounds]
    explained, foreign = SimpleNamespace(explains=True), SimpleNamespace(explains=False)
    np.testing.assert_allclose(teacher._rewards(rounds, explained, learner), true, atol=1e-6)
    np.testing.assert_allclose(teacher._rewards(rounds, foreign, learner), seen)


def test_single_features_are_tried_before_rounds_end():
    """Where less is seen, each reward feature whose best policy earns more than was earned is shown alone, once."""
    domain, weights = small_world()
    learner = tl.SoftLearner(domain, mismatch_penalty=4, violation_penalty=6, violation_allowance=0.4)
    teacher = tl.AdaptiveBilevelTeacher(domain, weights, n_trajectories=50)
    lesson = teacher.open().lesson
    rounds, shown = [tl.Round(lesson, learner.respond(lesson))], []
    while (telling := teacher._telling(rounds, 0.0, is_open=False)) is not None:
        shown.append(weights @ telling.expectation)
        rounds.append(tl.Round(telling, learner.respond(telling)))
    alone = [tl.AgnosticTeacher(domain, weights * axis).open().lesson.expectation @ weights for axis in np.eye(3)]
    assert shown == sorted(set(shown), reverse=True) and set(np.round(shown, 6)) <= set(np.round(alone, 6))
    assert len(shown) >= 1 and teacher._telling(rounds[:1], max(alone), is_open=False) is None
    # Any new lesson while too little was seen, but not for ever.
    assert teacher._telling(rounds[:1], max(alone), is_open=True) is not None
    assert teacher._telling(rounds[:1] * 20, 0.0, is_open=True) is None


def test_few_numbers_do_not_determine_a_learner():
    """With mu_r alone, three numbers of each answer are compared with 2 + d_c = 6 parameters."""
    domain, weights = small_world()
    rounds = [SimpleNamespace()] * 3
    explained, foreign = SimpleNamespace(contradiction=""), SimpleNamespace(contradiction="a hard learner")
    in_part = tl.AdaptiveBilevelTeacher(domain, weights, observed="reward")
    assert in_part._is_open(rounds[:1], explained) and not in_part._is_open(rounds, explained)
    assert in_part._is_open(rounds, foreign)
    assert not tl.AdaptiveBilevelTeacher(domain, weights, n_trajectories=50)._is_open(rounds[:1], foreign)


def test_the_same_rounds_give_the_same_advice():
    learner, weights = published_learner(2, "L3")
    teacher = tl.AdaptiveBilevelTeacher(learner.domain, weights, max_cells=0)
    lesson = teacher.open().lesson
    rounds = [tl.Round(lesson, learner.respond(lesson))]
    first, second = teacher.adapt(rounds), teacher.adapt(rounds)
    assert first.reason == second.reason
    assert np.array_equal(first.lesson.expectation, second.lesson.expectation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observed": "policy"}, "observed must be"),
        ({"stop_tolerance": 0}, "stop_tolerance must be positive"),
        ({"max_cells": -1}, "must be a whole number of at least 0"),
        ({"stop_tolerance": math.nan}, "stop_tolerance must be positive"),
        ({"n_trajectories": -3}, "must be a whole number of at least 0"),
    ],
)
def test_refused(options, message):
    domain, weights = small_world()
    with pytest.raises(tl.InvalidModel, match=message):
        tl.AdaptiveBilevelTeacher(domain, weights, **options)
