"""Mixtures of policies: they converge to the projection."""

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_an_apprentice_converges_to_the_hard_learner_without_limits(seed):
    """A lesson beyond what policies can do: the nearest point is unique."""
    domain, rng, lesson = shown_policy(seed)
    beyond = tl.Lesson.from_expectation(lesson.expectation + rng.normal(size=domain.n_reward) * domain.mdp.horizon)
    free = tl.HardLearner(domain, violation_allowance=domain.mdp.horizon * 10)
    exact = free.respond(beyond).expectation.reward
    mixed = tl.ApprenticeLearner(domain, max_steps=3000).respond(beyond).expectation.reward
    apart = np.linalg.norm(beyond.expectation - mixed) - np.linalg.norm(beyond.expectation - exact)
    assert -1e-7 * domain.mdp.horizon <= apart <= 1e-4 * domain.mdp.horizon
