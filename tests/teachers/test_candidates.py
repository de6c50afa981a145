"""Teachers that choose among candidate lessons, and half-spaces and covers, against exhaustive searches."""

from itertools import combinations

import numpy as np
import pytest
from problems import random_domain_of

import tutelage as tl
from tutelage.teachers.candidates import greedy_cover, half_spaces, irredundant

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


@pytest.mark.parametrize("seed", range(8))
def test_weights_within_the_half_spaces_are_those_with_the_same_optimal_choices(seed):
    """Random weights: inside all half-spaces exactly if the policy's choices are optimal for them."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed, max_states=6)
    policy = tl.solve_hard(domain.mdp, domain.reward_features @ rng.normal(size=domain.n_reward)).policy
    normals, _ = half_spaces(domain, policy, domain.n_reward, policy > 0)
    for _ in range(200):
        weights = rng.normal(size=domain.n_reward)
        solved = tl.solve_hard(domain.mdp, domain.reward_features @ weights)
        best = np.maximum.reduceat(solved.choice_value, domain.mdp.first_choice[:-1])
        lost = (np.repeat(best, domain.mdp.choices_per_state) - solved.choice_value)[policy > 0].max()
        margin = float((normals @ weights).min(initial=1.0))
        if abs(margin) > 1e-6:
            assert (margin > 0) == (lost < 1e-7 * domain.mdp.horizon)


@pytest.mark.parametrize("seed", range(8))
def test_redundant_half_spaces_are_those_that_cut_nothing_off(seed):
    """In the plane: of all normals the two extreme ones suffice, if they lie within a half-plane."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-1.2, 1.2, size=7)
    normals = np.column_stack([np.cos(angles), np.sin(angles)])
    assert set(np.flatnonzero(irredundant(normals))) == {int(angles.argmin()), int(angles.argmax())}


@pytest.mark.parametrize("seed", range(50))
def test_the_cover_is_complete_and_no_larger_than_greedy_allows(seed):
    """Against the smallest cover by brute force: complete, and within the harmonic bound of greedy covers."""
    rng = np.random.default_rng(seed)
    covered = rng.random((8, 6)) < 0.35
    order = greedy_cover(covered)
    assert covered[order].any(axis=0).sum() == covered.any(axis=0).sum()
    smallest = next(
        size
        for size in range(9)
        if any(
            covered[list(rows)].any(axis=0).sum() == covered.any(axis=0).sum() for rows in combinations(range(8), size)
        )
    )
    largest = int(covered.sum(axis=1).max(initial=1))
    assert len(order) <= smallest * sum(1 / k for k in range(1, max(largest, 1) + 1)) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_the_lessons_of_the_cover_show_every_half_space_that_any_candidate_shows(seed):
    rng = np.random.default_rng(100 + seed)
    domain = random_domain_of(rng, seed, max_states=8)
    teacher = tl.SetCoverTeacher(domain, rng.normal(size=domain.n_reward))
    _, shows = half_spaces(domain, teacher.shown_policy, domain.n_reward, teacher.shown_policy > 0)

    def shown(numbers):
        taken = [teacher.candidates[k].recorded.choices for k in numbers]
        choices = np.concatenate([part[part >= 0] for part in taken]) if taken else np.zeros(0, dtype=int)
        return shows[choices].any(axis=0)

    assert (shown(teacher.order) == shown(range(len(teacher.candidates)))).all()
    assert len(set(teacher.order)) == len(teacher.order)
