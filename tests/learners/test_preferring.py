"""Preferences for a learner that has none."""

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_preferences_of_an_outer_learner_are_kept(seed):
    """A cloning learner with a hard limit does what it cloned where it may, and never exceeds the limit."""
    domain, _, lesson = shown_policy(seed)
    least = tl.least_violation(domain, tl.preference_limits(domain, 0.0)).expectation.preference
    limit = least + 0.3 * np.maximum(tl.expectation(domain, lesson.policy).preference - least, 0.1)
    learner = tl.PreferringLearner(tl.CloningLearner(domain, prior=0.0), tl.HardLearner(domain, limit))
    response = learner.respond(lesson)
    assert (response.expectation.preference <= limit + 1e-6 * (1 + limit)).all()
    projected = tl.HardLearner(domain, limit).respond(lesson)
    np.testing.assert_allclose(response.expectation.reward, projected.expectation.reward, atol=1e-5)
