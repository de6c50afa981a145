"""A learner that remembers every lesson."""

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_gathered_lessons_are_one_lesson_of_all_demonstrations(seed):
    """Two lessons of three and one demonstrations answer as the lesson of all four does."""
    domain, rng, lesson = shown_policy(seed)
    parts = [tl.sample_demonstrations(domain, lesson.policy, n, rng=rng) for n in (3, 1)]
    soft = tl.GenericLearner(domain, tl.Mismatch(penalty=2.0), tl.Preference(penalty=1.0))
    learner, response = tl.GatheringLearner(soft), None
    for part in parts:
        response = learner.respond(tl.Lesson.from_demonstrations(domain, part), after=response)
    together = soft.respond(tl.Lesson.from_demonstrations(domain, tl.Demonstrations.concatenate(parts)))
    np.testing.assert_allclose(response.expectation.both, together.expectation.both, atol=1e-6 * domain.mdp.horizon)
