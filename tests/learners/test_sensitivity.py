"""The derivative of a soft learner's answer in its parameters agrees with central differences to 1e-5."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from problems import random_domain_of
from strategies import some_of

import tutelage as tl
from tutelage.learners.sensitivity import response_derivative


def build(domain, theta):
    return tl.SoftLearner(domain, mismatch_penalty=theta[0], violation_penalty=theta[1], violation_allowance=theta[2:])


@pytest.mark.parametrize("seed", some_of(range(60), range(12)))
def test_the_derivative_is_that_of_central_differences(seed):
    """With multipliers at zero, at their limit and in between; domains ragged, features on states or choices."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    lesson = tl.AgnosticTeacher(domain, rng.normal(size=domain.n_reward)).open().lesson
    uniform = tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference
    theta = np.concatenate([10 ** rng.uniform(-0.5, 0.5, 2), 0.05 + uniform * rng.uniform(0.3, 1.1, len(uniform))])
    learner = build(domain, theta)
    response = learner.respond(lesson)
    exact = response_derivative(learner, response)

    def answer(parameters):
        return build(domain, parameters).respond(lesson, start=response).expectation.both

    numerical = central_difference(answer, theta, step=1e-4)
    assert_allclose(exact.T, numerical, atol=1e-5 * max(1.0, np.abs(exact).max()))
