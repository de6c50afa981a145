"""The answers of a soft learner to several lessons at once are those that it gives one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import random_domain_of
from strategies import some_of

import tutelage as tl
from tutelage.inference import answering
from tutelage.inference.answering import answers_of
from tutelage.inference.sensitivity import response_derivative


def random_problem(seed, n_lessons=4):
    """A ragged domain, theta with multipliers of all kinds, and lessons: best policies and impossible expectations."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    uniform = tl.expectation(domain, tl.uniform_policy(domain.mdp))
    theta = np.concatenate(
        [10 ** rng.uniform(-0.5, 1, 2), 0.05 + uniform.preference * rng.uniform(0.3, 1.1, domain.n_preference)]
    )
    best = [tl.AgnosticTeacher(domain, rng.normal(size=domain.n_reward)).open().lesson for _ in range(n_lessons - 1)]
    shown = np.array([*(lesson.expectation for lesson in best), uniform.reward * 3])
    return domain, theta, shown


def build(domain, theta):
    return tl.SoftLearner(domain, mismatch_penalty=theta[0], violation_penalty=theta[1], violation_allowance=theta[2:])


def check_answers(domain, theta, shown, answers, tolerance=1e-8):
    learner = build(domain, theta)
    for i, expectation in enumerate(shown):
        response = learner.respond(tl.Lesson.from_expectation(expectation))
        own = response.expectation.both
        assert_allclose(answers.expectation[i], own, atol=tolerance * (1 + np.abs(own).max()))
        yield response_derivative(learner, response), answers.slopes[i]


@pytest.mark.parametrize("seed", some_of(range(120), range(12)))
def test_the_answers_are_the_learners_own(seed):
    """Expectations and derivatives, from no start and from the answers of other parameters to fewer lessons."""
    domain, theta, shown = random_problem(seed)
    for exact, slopes in check_answers(domain, theta, shown, answers_of(domain, theta, shown, 0.0, None)):
        assert_allclose(slopes, exact, atol=1e-5 * (1 + np.abs(exact).max()))
    near = answers_of(domain, 1.3 * theta, shown[:-1], 0.0, None)
    list(check_answers(domain, theta, shown, answers_of(domain, theta, shown, 0.0, near)))


@pytest.mark.parametrize("seed", range(6))
def test_answers_that_newton_does_not_reach_are_found_one_by_one(seed, monkeypatch):
    domain, theta, shown = random_problem(seed)
    monkeypatch.setattr(answering, "MAX_STEPS", 1)
    list(check_answers(domain, theta, shown, answers_of(domain, theta, shown, 0.0, None)))
    with pytest.raises(tl.NotConverged, match="smoothed"):
        answers_of(domain, theta, shown, 1e-3, None)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-7])
def test_rough_answers_are_as_exact_as_asked(accuracy):
    """Relative to the range of each feature; the last step is taken to first order only."""
    for seed in range(12):
        domain, theta, shown = random_problem(seed)
        exact = answers_of(domain, theta, shown, 0.0, None, accuracy=1e-11).expectation
        rough = answers_of(domain, theta, shown, 0.0, None, accuracy=accuracy).expectation
        size = np.abs(np.hstack([domain.reward_features.max(axis=0), domain.preference_features.max(axis=0)]))
        assert (np.abs(rough - exact) <= accuracy * (1 + size * domain.mdp.horizon)).all()


def test_paid_is_the_multiplier_of_each_preference():
    domain, theta, shown = random_problem(3)
    answers = answers_of(domain, theta, shown, 0.0, None)
    learner = build(domain, theta)
    for expectation, paid in zip(shown, answers.paid, strict=True):
        weights = learner.respond(tl.Lesson.from_expectation(expectation)).learned_weights
        assert_allclose(paid, -weights[domain.n_reward :], atol=1e-5 * theta[1])


@pytest.mark.parametrize("seed", range(6))
def test_a_step_that_pivoting_does_not_find_is_no_end(seed, monkeypatch):
    """Such a step says nothing about the minimum: it is refused, and the next one is damped."""
    domain, theta, shown = random_problem(seed)
    right, n_calls = answering.box_minima, [0]

    def unreliable(hessian, gradient, lower, upper):
        n_calls[0] += 1
        step, is_found = right(hessian, gradient, lower, upper)
        return (0 * step, is_found & False) if n_calls[0] <= 2 else (step, is_found)

    monkeypatch.setattr(answering, "box_minima", unreliable)
    list(check_answers(domain, theta, shown, answers_of(domain, theta, shown, 0.0, None)))
    assert n_calls[0] > 3


@pytest.mark.parametrize("seed", some_of(range(40), range(8)))
def test_the_derivative_of_x_is_that_of_central_differences(seed):
    """It predicts the answers of near parameters. Entries that reach or leave a limit within the step are left out."""
    domain, theta, shown = random_problem(seed)
    here = answers_of(domain, theta, shown, 0.0, None)
    for k, direction in enumerate(np.eye(len(theta))):
        sides = [answers_of(domain, theta + s * 1e-5 * direction, shown, 0.0, here).x for s in (1, -1)]
        kinds = [np.where(np.abs(x) >= 1, 2, np.abs(x) > 0) for x in (here.x, *sides)]
        is_smooth = (kinds[0] == kinds[1]).all(axis=1) & (kinds[0] == kinds[2]).all(axis=1)
        slope = (sides[0] - sides[1]) / 2e-5
        size = 1 + np.abs(here.moved).max()
        assert_allclose(here.moved[is_smooth, :, k], slope[is_smooth], atol=1e-3 * size)
