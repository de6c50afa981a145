"""The first guess of a soft learner: exact where the learner pays the same in every answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from strategies import add_features, build_mdp

import tutelage as tl
from tutelage.inference import fits
from tutelage.inference.fits import THOROUGH, Effort, fit_learner
from tutelage.inference.fitted import answers_seen, is_likely
from tutelage.inference.fitting import FitProblem
from tutelage.inference.recovery import feature_scales
from tutelage.inference.shared_multipliers import _Shared, guesses


def seen_in_part(seed, allowance):
    """A soft learner with two preferences on a ragged domain, and mu_r of three of its answers."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(2, 4, size=8), 0.8)
    domain = add_features(rng, mdp, n_reward=3, n_preference=2, reward_on_choices=False, preference_on_choices=True)
    delta = allowance * tl.expectation(domain, tl.uniform_policy(mdp)).preference
    learner = tl.SoftLearner(domain, mismatch_penalty=1.2, violation_penalty=1.5, violation_allowance=delta)
    lessons = [tl.AgnosticTeacher(domain, rng.normal(size=3)).open().lesson for _ in range(3)]
    scales, shown = feature_scales(domain), [lesson.expectation for lesson in lessons]
    both = [learner.respond(lesson).expectation.both for lesson in lessons]
    return learner, scales, answers_seen(domain, scales, shown, both, "reward", 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_pays_in_full_is_guessed(seed):
    """Then all multipliers are C_c, and nothing but the small preference for small ones moves the guess."""
    learner, scales, seen = seen_in_part(seed, 0.0)
    problem = FitProblem(learner.domain, scales, seen)
    penalty, violation, *delta = guesses(problem, 1e-6)[0][0] * problem.unit
    assert penalty == pytest.approx(1.2, rel=0.02) and violation == pytest.approx(1.5, rel=0.1)
    assert_allclose(delta, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_derivative_is_that_of_central_differences(seed):
    learner, scales, seen = seen_in_part(seed, 0.0)
    rng, d_r = np.random.default_rng(seed), learner.domain.n_reward
    shared = _Shared(FitProblem(learner.domain, scales, seen), rng.choice([-1.0, 0.0, 1.0], size=(len(seen), d_r)))
    z = np.abs(rng.normal(size=3 + int(shared.is_free.sum())))
    here = shared.evaluate(z, None)
    for row in range(len(here.value)):
        slope = central_difference(lambda x, row=row: shared.evaluate(x, None).value[row], z)
        assert_allclose(slope, here.jacobian[row], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n_steps", [10, 300, 3_000])
def test_a_limited_search_ends_with_a_learner_s_own_answers(n_steps):
    """Smoothed answers are on the way only. What is found does not depend on what was asked before."""
    learner, scales, seen = seen_in_part(1, 0.9)
    effort, domain = Effort(0, n_steps, n_steps), learner.domain
    first = fit_learner(domain, scales, seen, False, effort)[0]
    again = tl.SoftLearner(
        domain,
        mismatch_penalty=first.penalty,
        violation_penalty=first.violation,
        violation_allowance=np.minimum(first.allowance, 1e6),
    )
    for one, answer in zip(seen, first.answers, strict=True):
        expected = again.respond(tl.Lesson.from_expectation(one.shown)).expectation.both
        assert_allclose(answer, expected, atol=1e-7 * domain.mdp.horizon)
    fit_learner(domain, scales, seen, False, THOROUGH)
    copy = tl.Domain(
        domain.mdp, domain.reward_features, domain.preference_features, domain.reward_names, domain.preference_names
    )
    anew = fit_learner(copy, scales, seen, False, effort)[0]
    assert (anew.penalty, anew.violation, anew.cost) == (first.penalty, first.violation, first.cost)


def test_a_continued_search_adds_paths_and_is_never_worse():
    """Its paths count from those of the search that it continues; enough paths and a good fit need no more."""
    learner, scales, seen = seen_in_part(1, 0.9)
    begun, domain = Effort(0, 50, 50), learner.domain
    more, many = Effort(0, 2_000, 50, begun=begun), Effort(7, 2_000, 50, begun=begun)
    found = [fits._found(domain, scales, seen, False, effort) for effort in (begun, more, many)]
    assert found[0].n_paths <= found[1].n_paths and found[2].n_paths >= min(7, found[1].n_paths)
    assert found[1].ends[: len(found[0].ends)] == found[0].ends
    costs = [min(end.residuals.cost for end in one.ends) for one in found]
    assert costs[0] >= costs[1] >= 0 and costs[0] >= costs[2]
    assert fits._found(domain, scales, seen, False, Effort(0, 0, 50, begun=begun)).n_paths == found[0].n_paths


def test_answers_that_match_their_lessons_are_explained_by_a_larger_penalty():
    """Each response as the next lesson: C_r is then only bounded from below, and four times as much explains all."""
    learner, scales, _ = seen_in_part(2, 0.5)
    domain, rng = learner.domain, np.random.default_rng(0)
    lessons = [tl.AgnosticTeacher(domain, rng.normal(size=3)).open().lesson for _ in range(3)]
    done = [learner.respond(lesson).expectation.reward for lesson in lessons]
    responses = [learner.respond(tl.Lesson.from_expectation(mu)) for mu in done]
    both = [response.expectation.both for response in responses]
    seen = answers_seen(domain, scales, done, both, "reward", 0)
    fit = fit_learner(domain, scales, seen, False, THOROUGH)[0]
    larger = fits.with_larger_penalty(domain, scales, seen, fit, False, 5_000)
    assert max(one.penalty for one in larger if is_likely(one, fit, 0)) >= 4 * fit.penalty * (1 - 1e-9)
    assert fits.with_larger_penalty(domain, scales, seen, fit, False, 0) == ()


def test_answers_that_miss_their_lessons_are_not_explained_by_a_larger_penalty():
    """They determine C_r: a search that may not return to it ends with a misfit."""
    learner, scales, seen = seen_in_part(0, 0.0)
    fit = fit_learner(learner.domain, scales, seen, False, THOROUGH)[0]
    larger = fits.with_larger_penalty(learner.domain, scales, seen, fit, False, 5_000)
    assert larger and fit.penalty == pytest.approx(1.2, rel=1e-4)
    assert all(one.penalty >= 1.2 * fit.penalty * (1 - 1e-9) and not is_likely(one, fit, 0) for one in larger)
