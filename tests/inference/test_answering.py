"""The answers of a soft learner to several lessons are those that it gives one by one; so are their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import random_domain_of
from strategies import some_of

import tutelage as tl
from tutelage.inference.answering import answers_of


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


def response_derivative(learner, response):
    """(d, 2 + d_c), d mu / d theta in the multipliers (a, y) themselves.

    An entry at its limit moves with it: da_k = sign(a_k) dC_r, dy_j = dC_c. An entry y_j = 0 stays. The free entries
    keep their gradient at zero: with H the Hessian in (a, y), F the free entries and B the others,
    H_FF dx_F + H_FB dx_B + E_F d delta = 0, where delta_j enters the gradient of y_j alone (E).
    """
    domain, d_r = learner.domain, learner.domain.n_reward
    soft = tl.soft_expansion(domain.mdp, tl.combined_features(domain), response.learned_weights)
    sign = np.repeat([1.0, -1.0], [d_r, domain.n_preference])
    x, hessian = sign * response.learned_weights, sign[:, None] * soft.jacobian * sign
    is_reward = np.arange(len(x)) < d_r
    at_limit = np.abs(x) >= (1 - 1e-12) * np.where(is_reward, learner.mismatch_penalty, learner.violation_penalty)
    free = np.flatnonzero(~at_limit & (is_reward | (x > 0)))
    moved = np.zeros((len(x), 2 + domain.n_preference))
    moved[:, 0], moved[:, 1] = np.where(at_limit & is_reward, np.sign(x), 0.0), at_limit & ~is_reward
    pushed = hessian @ moved
    pushed[d_r:, 2:] += np.eye(domain.n_preference)
    moved[free] = -np.linalg.pinv(hessian[np.ix_(free, free)], hermitian=True) @ pushed[free]
    return soft.jacobian @ (sign[:, None] * moved)


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


def places(learner, response):
    """Of each weight: 2 at its limit, 0 for a preference that is not paid for, otherwise 1."""
    is_reward = np.arange(len(response.learned_weights)) < learner.domain.n_reward
    size = np.abs(response.learned_weights)
    limit = np.where(is_reward, learner.mismatch_penalty, learner.violation_penalty)
    return np.where(size >= (1 - 1e-9) * limit, 2, np.where(~is_reward & (size == 0), 0, 1))


def one_lesson(seed):
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
    domain, lesson, theta = one_lesson(seed)
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
    domain, lesson, theta = one_lesson(seed)
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
    domain, lesson, theta = one_lesson(seed)
    own = build(domain, theta).respond(lesson).expectation.both
    near, missed = None, []
    for tau in (1e-1, 1e-3, 1e-5, 1e-7):
        near = answers_of(domain, theta, lesson.expectation[None], tau, near)
        missed.append(np.abs(near.expectation - own).max())
    assert missed[-1] < 1e-4 * (1 + np.abs(own).max()) and missed[-1] <= missed[0]
