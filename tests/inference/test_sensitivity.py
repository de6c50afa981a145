"""The derivatives of a soft learner's answer, smoothed or not, agree with central differences to 1e-5."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import random_domain_of
from strategies import some_of

import tutelage as tl
from tutelage.inference.answering import answers_of
from tutelage.inference.sensitivity import response_derivative


def build(domain, theta):
    return tl.SoftLearner(domain, mismatch_penalty=theta[0], violation_penalty=theta[1], violation_allowance=theta[2:])


def places(learner, response):
    """Of each weight: 2 at its limit, 0 for a preference that is not paid for, otherwise 1."""
    is_reward = np.arange(len(response.learned_weights)) < learner.domain.n_reward
    size = np.abs(response.learned_weights)
    limit = np.where(is_reward, learner.mismatch_penalty, learner.violation_penalty)
    return np.where(size >= (1 - 1e-9) * limit, 2, np.where(~is_reward & (size == 0), 0, 1))


def random_problem(seed):
    """A ragged domain, a lesson and theta, with multipliers at zero, at their limit and in between."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    lesson = tl.AgnosticTeacher(domain, rng.normal(size=domain.n_reward)).open().lesson
    uniform = tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference
    theta = np.concatenate([10 ** rng.uniform(-0.5, 0.5, 2), 0.05 + uniform * rng.uniform(0.3, 1.1, len(uniform))])
    return domain, lesson, theta


@pytest.mark.parametrize("seed", some_of(range(60), range(8)))
def test_the_derivative_is_that_of_central_differences(seed):
    """In every parameter. The learner's own accuracy of about 1e-9 asks for steps of 1e-3.

    A step must not cross a kink, where a multiplier reaches or leaves a limit; it is shortened until it does not.
    """
    domain, lesson, theta = random_problem(seed)
    learner = build(domain, theta)
    response = learner.respond(lesson)
    exact = response_derivative(learner, response)
    for k, direction in enumerate(np.eye(len(theta))):
        for step in (1e-3, 3e-4, 1e-4):
            learners = [build(domain, theta + side * step * direction) for side in (1, -1)]
            answers = [one.respond(lesson) for one in learners]
            if all((places(*pair) == places(learner, response)).all() for pair in zip(learners, answers, strict=True)):
                break
        else:
            pytest.fail(f"a kink within 1e-4 in parameter {k}")
        slope = (answers[0].expectation.both - answers[1].expectation.both) / (2 * step)
        assert_allclose(exact[:, k], slope, atol=1e-5 * max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize("seed", some_of(range(40), range(6)))
def test_the_smoothed_derivative_is_that_of_central_differences(seed):
    """In every parameter, whether or not its preference is paid for: there is no kink and no flat."""
    domain, lesson, theta = random_problem(seed)
    shown = lesson.expectation[None]
    here = answers_of(domain, theta, shown, 0.1, None)
    assert here.slopes.shape == (1, len(domain.names), len(theta))
    for k, direction in enumerate(np.eye(len(theta))):
        sides = [answers_of(domain, theta + s * 1e-4 * direction, shown, 0.1, here) for s in (1, -1)]
        assert_allclose((sides[0].x - sides[1].x)[0], 2e-4 * here.moved[0, :, k], atol=1e-8)
        change = (sides[0].expectation - sides[1].expectation)[0]
        assert_allclose(change, 2e-4 * here.slopes[0, :, k], atol=1e-7 * max(1, np.abs(here.slopes).max()))


@pytest.mark.parametrize("seed", some_of(range(40), range(6)))
def test_the_smoothed_answer_tends_to_the_learners_own(seed):
    """The smoothed objective is within 2 d tau of the learner's, so the answers meet as tau falls."""
    domain, lesson, theta = random_problem(seed)
    own = build(domain, theta).respond(lesson).expectation.both
    near, missed = None, []
    for tau in (1e-1, 1e-3, 1e-5, 1e-7):
        near = answers_of(domain, theta, lesson.expectation[None], tau, near)
        missed.append(np.abs(near.expectation - own).max())
    assert missed[-1] < 1e-4 * (1 + np.abs(own).max()) and missed[-1] <= missed[0]
