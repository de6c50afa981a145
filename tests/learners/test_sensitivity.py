"""The derivative of a soft learner's answer in its parameters agrees with central differences to 1e-5."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import random_domain_of
from strategies import some_of

import tutelage as tl
from tutelage.learners.sensitivity import beyond_kink, moves, response_derivative, signs


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


@pytest.mark.parametrize("seed", some_of(range(30), range(4)))
def test_beyond_a_kink_the_derivative_is_that_of_one_side(seed):
    """A preference is paid in full, or not at all. With delta_j beyond mu_c[j] the answer moves as predicted."""
    domain, lesson, theta = random_problem(seed)
    learner = build(domain, theta)
    response = learner.respond(lesson)
    place, d_r = places(learner, response), domain.n_reward
    soft = tl.soft_expansion(domain.mdp, tl.combined_features(domain), response.learned_weights)
    sign = signs(d_r, domain.n_preference)
    x, hessian = sign * response.learned_weights, sign[:, None] * soft.jacobian * sign
    assert_allclose(moves(x, hessian, d_r, (theta[0], theta[1]))[:, 2:][:, place[d_r:] != 1], 0, atol=1e-12)
    for j in np.flatnonzero(place[d_r:] != 1):
        moved = soft.jacobian @ (sign * beyond_kink(x, hessian, d_r, (theta[0], theta[1]), int(j)))
        if np.abs(moved[d_r + j] - 1) > 1e-6:
            continue  # The feature is constant, or a combination of others that are free: no policy can move it.
        step = 1e-3 * (1 if place[d_r + j] == 2 else -1)
        beyond = theta.copy()
        beyond[2 + j] = response.expectation.preference[j] + step
        other = build(domain, beyond).respond(lesson)
        if (np.delete(places(build(domain, beyond), other) - place, d_r + j) == 0).all():
            change = other.expectation.both - response.expectation.both
            assert_allclose(change, step * moved, atol=0.02 * abs(step) * max(1, np.abs(moved).max()))
