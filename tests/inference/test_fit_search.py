"""The searches for fits: limited, continued and remembered. The first guess is exact where the learner pays the same in
every answer.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from problems import seen_in_part

import tutelage as tl
from tutelage.inference.fit_search import (
    THOROUGH,
    Effort,
    fits_of,
    guesses,
    more_searches,
    search_fits,
    shared_lifts,
    shared_misfits,
)


def best_fit(evidence, effort):
    return fits_of(evidence, search_fits(evidence, effort).ends)[0]


@pytest.mark.parametrize("n_steps", [10, 300, 3_000])
def test_a_limited_search_ends_with_a_learner_s_own_answers(n_steps):
    """Smoothed answers are on the way only. What is found does not depend on what was asked before."""
    learner, evidence = seen_in_part(1, 0.9)
    effort, domain = Effort(n_steps=n_steps, n_straight=600), learner.domain
    first = best_fit(evidence, effort)
    penalty, violation, *allowance = first.theta
    again = tl.SoftLearner(
        domain,
        mismatch_penalty=penalty,
        violation_penalty=violation,
        violation_allowance=np.minimum(allowance, 1e6),
    )
    for shown, answer in zip(evidence.shown, first.answers, strict=True):
        expected = again.respond(tl.Lesson.from_expectation(shown)).expectation.both
        assert_allclose(answer, expected, atol=1e-7 * domain.mdp.horizon)
    best_fit(evidence, THOROUGH)
    copy = tl.Domain(
        domain.mdp, domain.reward_features, domain.preference_features, domain.reward_names, domain.preference_names
    )
    anew = best_fit(replace(evidence, domain=copy), effort)
    assert np.array_equal(anew.theta, first.theta) and anew.cost == first.cost


def test_a_continued_search_adds_paths_and_is_never_worse():
    """Its paths count from those of the search that it continues; enough paths and a good fit need no more."""
    _, evidence = seen_in_part(1, 0.9)
    short = {"n_steps": 50, "n_straight": 600}
    begun = search_fits(evidence, Effort(**short))
    more, many = (
        more_searches(evidence, begun, Effort(**short, n_more=2_000, n_more_paths=n_paths)) for n_paths in (0, 7)
    )
    assert begun.n_followed <= more.n_followed and many.n_followed >= min(7, more.n_followed)
    assert more.ends[: len(begun.ends)] == begun.ends
    costs = [min(end.value for end in searches.ends) for searches in (begun, more, many)]
    assert costs[0] >= costs[1] >= 0 and costs[0] >= costs[2]
    assert more_searches(evidence, begun, Effort(**short, n_more=0)).n_followed == begun.n_followed


def test_a_search_is_remembered_by_its_numbers():
    """Equal answers of the same domain, given anew, are not searched again: a teacher's next round continues."""
    _, evidence = seen_in_part(1, 0.9)
    effort = Effort(n_steps=50)
    again = replace(evidence, shown=tuple((*row,) for row in evidence.shown))
    assert again == evidence and search_fits(again, effort) is search_fits(evidence, effort)


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_pays_in_full_is_guessed(seed):
    """Then all multipliers are C_c, and nothing but the small preference for small ones moves the guess."""
    _, evidence = seen_in_part(seed, 0.0)
    penalty, violation, *delta = guesses(evidence)[0][0] * evidence.unit
    assert penalty == pytest.approx(1.2, rel=0.02) and violation == pytest.approx(1.5, rel=0.1)
    assert_allclose(delta, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_derivative_is_that_of_central_differences(seed):
    learner, evidence = seen_in_part(seed, 0.0)
    rng, d_r = np.random.default_rng(seed), learner.domain.n_reward
    lifts = shared_lifts(evidence, rng.choice([-1.0, 0.0, 1.0], size=(len(evidence.shown), d_r)))
    z = np.abs(rng.normal(size=lifts.shape[2]))
    here = shared_misfits(evidence, lifts, z, None)
    for row in range(len(here.value)):
        slope = central_difference(lambda x, row=row: shared_misfits(evidence, lifts, x, None).value[row], z)
        assert_allclose(slope, here.jacobian[row], rtol=1e-5, atol=1e-7)
