"""Gradient steps, lesson by lesson: the gradient itself, its fixed point, and what is remembered."""

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_a_sequential_learner_steps_along_the_gradient_of_the_likelihood(seed):
    """By finite differences: d/da of sum of z_shown log pi_a is mu_hat - mu, if the lesson is a policy."""
    domain, rng, lesson = shown_policy(seed)
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


@pytest.mark.parametrize("seed", range(6))
def test_lessons_one_by_one_are_steps_one_by_one(seed):
    """Two lessons of one step are one lesson of two steps: nothing but the memory carries over."""
    domain, _, lesson = shown_policy(seed)
    one, two = (tl.SequentialLearner(domain, rate=0.05, n_steps=n, violation_penalty=1.0) for n in (1, 2))
    first = one.respond(lesson)
    assert np.array_equal(one.respond(lesson, after=first).policy, two.respond(lesson).policy)
    assert np.array_equal(one.respond(lesson).policy, first.policy)


def test_bad_arguments_are_a_sentence():
    with pytest.raises(tl.InvalidModel, match="rate must be positive, got 0"):
        tl.SequentialLearner(shown_policy(0)[0], rate=0)
