"""Learners of the literature: gradient steps, counts, a posterior, mixtures; and preferences for any of them."""

from itertools import product

import numpy as np
import pytest
from problems import random_domain_of
from strategies import random_policy

import tutelage as tl

SEEDS = range(6)


def problem(seed):
    """A random domain, a generator, and a lesson that is a random policy."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    return domain, rng, tl.Lesson.from_policy(domain, random_policy(rng, domain.mdp))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequential_learner_steps_along_the_gradient_of_the_likelihood(seed):
    """By finite differences: d/da of sum of z_shown log pi_a is mu_hat - mu, if the lesson is a policy."""
    domain, rng, lesson = problem(seed)
    a, rate = rng.normal(size=domain.n_reward), 1e-3
    learner = tl.SequentialLearner(domain, rate=rate, start=a)
    visits = tl.occupancy(domain.mdp, lesson.policy)

    def likelihood(weights):
        return float(visits @ np.log(learner.policy(weights, np.zeros(domain.n_preference))))

    h, eye = 1e-5, np.eye(domain.n_reward)
    slope = [(likelihood(a + h * e) - likelihood(a - h * e)) / (2 * h) for e in eye]
    stepped = learner.respond(lesson).learned_weights
    np.testing.assert_allclose((stepped - a) / rate, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_a_patient_sequential_learner_arrives_where_the_soft_learner_does():
    """One lesson for ever: the steps are the dual ascent of App. E, whose fixed point is the soft learner's."""
    world = tl.object_world(6, 1)
    domain = world.domain("L3")
    lesson = tl.AgnosticTeacher(domain, world.true_weights).open().lesson
    penalties = {"mismatch_penalty": 2.0, "violation_penalty": 1.0, "violation_allowance": 0.5}
    exact = tl.SoftLearner(domain, **penalties).respond(lesson)
    slow = tl.SequentialLearner(domain, rate=0.2, n_steps=1500, **penalties).respond(lesson)
    np.testing.assert_allclose(slow.expectation.both, exact.expectation.both, atol=2e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_lessons_one_by_one_are_steps_one_by_one(seed):
    """Two lessons of one step are one lesson of two steps: nothing but the memory carries over."""
    domain, _, lesson = problem(seed)
    one, two = (tl.SequentialLearner(domain, rate=0.05, n_steps=n, violation_penalty=1.0) for n in (1, 2))
    first = one.respond(lesson)
    assert np.array_equal(one.respond(lesson, after=first).policy, two.respond(lesson).policy)
    assert np.array_equal(one.respond(lesson).policy, first.policy)


@pytest.mark.parametrize("seed", SEEDS)
def test_cloning_counts(seed):
    """Against a count written here, over two lessons."""
    domain, rng, lesson = problem(seed)
    parts = [tl.sample_demonstrations(domain, lesson.policy, 5, rng=rng, max_steps=8) for _ in range(2)]
    learner, response = tl.CloningLearner(domain, prior=0.3), None
    for part in parts:
        response = learner.respond(tl.Lesson.from_demonstrations(domain, part), after=response)
    counts = np.full(domain.mdp.n_choices, 0.3)
    for part in parts:
        for trajectory in range(part.n):
            for at in range(part.offsets[trajectory], part.offsets[trajectory + 1]):
                counts[part.choices[at]] += part.choices[at] >= 0
    for state, (low, high) in enumerate(zip(domain.mdp.first_choice, domain.mdp.first_choice[1:], strict=False)):
        expected = counts[low:high] / counts[low:high].sum()
        np.testing.assert_allclose(response.policy[low:high], expected, err_msg=f"state {state}")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_posterior_is_that_of_enumeration(seed):
    """Bayes' rule written out with probabilities, not logarithms."""
    domain, rng, lesson = problem(seed)
    candidates = rng.normal(size=(4, domain.n_reward))
    learner = tl.BayesianLearner(domain, candidates, rationality=0.7)
    shown = tl.sample_demonstrations(domain, lesson.policy, 2, rng=rng, max_steps=4)
    likelihood = np.ones(4)
    for k, trajectory in product(range(4), range(shown.n)):
        policy = tl.solve_soft(domain.mdp, domain.reward_features @ (0.7 * candidates[k])).policy
        for choice in shown.choices[shown.offsets[trajectory] : shown.offsets[trajectory + 1]]:
            likelihood[k] *= policy[choice] if choice >= 0 else 1.0
    response = learner.respond(tl.Lesson.from_demonstrations(domain, shown))
    posterior = np.exp(response.memory["log_posterior"])
    np.testing.assert_allclose(posterior, likelihood / likelihood.sum(), rtol=1e-6)
    np.testing.assert_allclose(response.learned_weights, posterior @ candidates)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_apprentice_converges_to_the_hard_learner_without_limits(seed):
    """A lesson beyond what policies can do: the nearest point is unique."""
    domain, rng, lesson = problem(seed)
    beyond = tl.Lesson.from_expectation(lesson.expectation + rng.normal(size=domain.n_reward) * domain.mdp.horizon)
    free = tl.HardLearner(domain, violation_allowance=domain.mdp.horizon * 10)
    exact = free.respond(beyond).expectation.reward
    mixed = tl.ApprenticeLearner(domain, max_steps=3000).respond(beyond).expectation.reward
    apart = np.linalg.norm(beyond.expectation - mixed) - np.linalg.norm(beyond.expectation - exact)
    assert -1e-7 * domain.mdp.horizon <= apart <= 1e-4 * domain.mdp.horizon


@pytest.mark.parametrize("seed", SEEDS)
def test_preferences_of_an_outer_learner_are_kept(seed):
    """A cloning learner with a hard limit does what it cloned where it may, and never exceeds the limit."""
    domain, _, lesson = problem(seed)
    least = tl.least_violation(domain, tl.preference_limits(domain, 0.0)).expectation.preference
    limit = least + 0.3 * np.maximum(tl.expectation(domain, lesson.policy).preference - least, 0.1)
    learner = tl.PreferringLearner(tl.CloningLearner(domain, prior=0.0), tl.HardLearner(domain, limit))
    response = learner.respond(lesson)
    assert (response.expectation.preference <= limit + 1e-6 * (1 + limit)).all()
    projected = tl.HardLearner(domain, limit).respond(lesson)
    np.testing.assert_allclose(response.expectation.reward, projected.expectation.reward, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_gathered_lessons_are_one_lesson_of_all_demonstrations(seed):
    """Two lessons of three and one demonstrations answer as the lesson of all four does."""
    domain, rng, lesson = problem(seed)
    parts = [tl.sample_demonstrations(domain, lesson.policy, n, rng=rng) for n in (3, 1)]
    soft = tl.GenericLearner(domain, tl.Mismatch(penalty=2.0), tl.Preference(penalty=1.0))
    learner, response = tl.GatheringLearner(soft), None
    for part in parts:
        response = learner.respond(tl.Lesson.from_demonstrations(domain, part), after=response)
    together = soft.respond(tl.Lesson.from_demonstrations(domain, tl.Demonstrations.concatenate(parts)))
    np.testing.assert_allclose(response.expectation.both, together.expectation.both, atol=1e-6 * domain.mdp.horizon)


def test_bad_arguments_are_sentences():
    domain, _, lesson = problem(0)
    with pytest.raises(tl.InvalidModel, match="rate, n_steps"):
        tl.SequentialLearner(domain, rate=0)
    with pytest.raises(tl.InvalidModel, match="candidates must be of shape"):
        tl.BayesianLearner(domain, [[1.0] * (domain.n_reward + 1)])
    with pytest.raises(tl.InvalidModel, match="prior"):
        tl.CloningLearner(domain, prior=-1)
    with pytest.raises(tl.InvalidInput, match="demonstrations with choices or a policy"):
        tl.CloningLearner(domain).respond(tl.Lesson.from_expectation(lesson.expectation))
