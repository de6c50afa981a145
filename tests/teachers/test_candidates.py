"""Teachers that choose among candidate lessons, against exhaustive searches written here."""

import numpy as np
import pytest
from problems import random_domain_of

import tutelage as tl

SEEDS = range(6)
TEACHERS = (tl.RandomTeacher, tl.SetCoverTeacher, tl.OmniscientTeacher, tl.BlackBoxTeacher, tl.CurriculumTeacher)


def problem(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed, max_states=8)
    return domain, rng.normal(size=domain.n_reward)


def chosen(teacher, transcript):
    return [[lesson is taught.lesson for lesson in teacher.candidates].index(True) for taught in transcript.rounds]


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_are_optimal_demonstrations_from_each_start(seed):
    domain, weights = problem(seed)
    teacher = tl.RandomTeacher(domain, weights, n_demonstrations=3)
    best = tl.solve_hard(domain.mdp, domain.reward_features @ weights).policy
    assert len(teacher.candidates) == np.count_nonzero(domain.mdp.initial)
    for lesson in teacher.candidates:
        shown = lesson.recorded
        assert shown.n == 3
        assert (best[shown.choices[shown.choices >= 0]] > 0).all()
        assert lesson.initial[shown.states[0]] == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_omniscient_choice_is_that_of_exhaustive_look_ahead(seed):
    """Each round by trying all candidates on the learner, which must not be taught by that."""
    domain, weights = problem(seed)
    learner = tl.SequentialLearner(domain, rate=0.1)
    teacher = tl.OmniscientTeacher(domain, weights, learner=learner, target=weights, max_lessons=4)
    transcript = tl.teach(teacher, learner, max_rounds=4)
    after = None
    for number in chosen(teacher, transcript):
        tried = [learner.respond(lesson, after=after) for lesson in teacher.candidates]
        distances = [np.linalg.norm(response.learned_weights - weights) for response in tried]
        assert distances[number] == min(distances)
        after = tried[number]


@pytest.mark.parametrize("seed", SEEDS)
def test_black_box_and_curriculum_scores_by_their_definitions(seed):
    domain, weights = problem(seed)
    policy = tl.uniform_policy(domain.mdp)
    box, curriculum = (kind(domain, weights, n_demonstrations=2) for kind in (tl.BlackBoxTeacher, tl.CurriculumTeacher))
    for k, lesson in enumerate(box.candidates):
        there = tl.expectation(domain.starting_in(lesson.initial), policy).reward
        assert box.scores(())[k] == pytest.approx(abs(weights @ (lesson.expectation - there)), rel=1e-6, abs=1e-9)
        taken = lesson.recorded.choices[lesson.recorded.choices >= 0]
        ratio = np.log(curriculum.shown_policy[taken]).sum() - np.log(policy[taken]).sum()
        assert curriculum.scores(())[k] == pytest.approx(ratio / 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_target_it_takes_the_most_reward_after_the_next_lesson(seed):
    domain, weights = problem(seed)
    learner = tl.CloningLearner(domain)
    teacher = tl.OmniscientTeacher(domain, weights, learner=learner)
    rewards = [learner.respond(lesson).expectation.reward @ weights for lesson in teacher.candidates]
    assert teacher.open().lesson is teacher.candidates[int(np.argmax(rewards))]


def test_an_aware_teacher_shows_only_what_the_limits_allow():
    """With a limit of zero no demonstration meets what the learner avoids."""
    world = tl.object_world(6, 1)
    domain = world.domain("L2")
    learner = tl.HardLearner(domain, violation_allowance=0.0)
    aware = tl.RandomTeacher(domain, world.true_weights, learner, aware=True, n_demonstrations=5)
    for lesson in aware.candidates:
        counted = tl.empirical_expectation(domain, lesson.recorded)
        assert counted.preference.max() <= 1e-9


def test_a_curriculum_that_does_not_know_the_learner_shows_every_candidate_once():
    domain, weights = problem(1)
    teacher = tl.CurriculumTeacher(domain, weights, knows_learner=False)
    n = len(teacher.candidates)
    transcript = tl.teach(teacher, tl.CloningLearner(domain), max_rounds=n)
    assert sorted(chosen(teacher, transcript)) == list(range(n))


def test_a_learner_without_weights_is_refused_by_name():
    domain, weights = problem(0)
    with pytest.raises(tl.InvalidModel, match="no weights"):
        tl.OmniscientTeacher(domain, weights, learner=tl.CloningLearner(domain), target=weights).open()
    with pytest.raises(tl.InvalidModel, match="give learner="):
        tl.OmniscientTeacher(domain, weights).open()


def queue(unit):
    """Customers arrive with probability 0.4 and are served with 0.3 or, at a cost, 0.7; features times unit."""
    n, rows = 12, np.zeros((12, 2, 12))
    for length in range(n):
        for choice, served in enumerate((0.3, 0.7)):
            more, less = 0.4 * (length < n - 1), (1 - 0.4) * served * (length > 0)
            rows[length, choice, min(length + 1, n - 1)] += more
            rows[length, choice, max(length - 1, 0)] += less
            rows[length, choice, length] += 1 - more - less
    mdp = tl.MDP.from_arrays(rows, initial=np.full(n, 1 / n), discount=0.95)
    fast = np.tile([0.0, 1.0], n)
    reward = np.column_stack([np.repeat(np.arange(n), 2), fast]) * unit
    return tl.Domain(mdp, reward, fast[:, None]), np.array([-1.0, -2.0]) / unit


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("kind", [tl.CloningLearner, tl.BayesianLearner, tl.ApprenticeLearner])
def test_on_a_queue_no_choice_depends_on_the_units(kind, unit):
    """Of learners without penalties or rates, which have units themselves."""
    answers = []
    for scale in (1.0, unit):
        domain, weights = queue(scale)
        learner = kind(domain)
        made = [teacher(domain, weights, learner, n_demonstrations=2, max_starts=4) for teacher in TEACHERS]
        answers.append([tl.teach(teacher, learner, max_rounds=1) for teacher in made])
    for one, other in zip(*answers, strict=True):
        assert one.rounds[0].reason.split(",")[0] == other.rounds[0].reason.split(",")[0]
        assert one.final.response_reward == pytest.approx(other.final.response_reward, rel=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_on_a_queue_preferring_learners_keep_their_limits_in_any_units(unit):
    domain, weights = queue(unit)
    learner = tl.PreferringLearner(tl.CloningLearner(domain), tl.HardLearner(domain, 8.0))
    for kind in TEACHERS:
        teacher = kind(domain, weights, learner, aware=True, n_demonstrations=2, max_starts=4)
        assert tl.teach(teacher, learner, max_rounds=2).final.response.expectation.preference[0] <= 8 + 1e-4
