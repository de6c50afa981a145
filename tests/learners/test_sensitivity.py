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


@pytest.mark.parametrize("seed", some_of(range(60), range(8)))
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

    limit = 1e-5 * max(1.0, np.abs(exact).max())
    coarse, fine = (central_difference(answer, theta, step=step) for step in (1e-4, 3e-5))
    # Two steps that disagree have a kink between them, where a multiplier reaches a limit.
    is_smooth = (np.abs(coarse - fine) <= limit).all(axis=1)
    assert is_smooth.sum() >= len(theta) - 1
    assert_allclose(exact.T[is_smooth], coarse[is_smooth], atol=limit)
