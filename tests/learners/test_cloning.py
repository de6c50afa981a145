"""A learner that counts: against a count written here."""

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_cloning_counts(seed):
    """Against a count written here, over two lessons."""
    domain, rng, lesson = shown_policy(seed)
    parts = [tl.sample_demonstrations(domain, lesson.policy, 5, rng=rng, max_steps=8) for _ in range(2)]
    learner, response = tl.CloningLearner(domain, prior=0.3), None
    for part in parts:
        response = learner.respond(tl.Lesson.from_demonstrations(domain, part), after=response)
    counts = np.full(domain.mdp.n_choices, 0.3)
    for part in parts:
        for trajectory in range(part.n):
            for at in range(part.offsets[trajectory], part.offsets[trajectory + 1]):
                counts[part.choices[at]] += part.choices[at] >= 0
    for state, (low, high) in enumerate(zip(domain.mdp.first_choice, domain.mdp.first_choice[1:], strict=False)):
        expected = counts[low:high] / counts[low:high].sum()
        np.testing.assert_allclose(response.policy[low:high], expected, err_msg=f"state {state}")


def test_bad_arguments_are_sentences():
    domain, _, lesson = shown_policy(0)
    with pytest.raises(tl.InvalidModel, match="prior"):
        tl.CloningLearner(domain, prior=-1)
    with pytest.raises(tl.InvalidInput, match="demonstrations with choices or a policy"):
        tl.CloningLearner(domain).respond(tl.Lesson.from_expectation(lesson.expectation))
