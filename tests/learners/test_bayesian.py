"""A posterior over rewards: against Bayes' rule written out."""

from itertools import product

import numpy as np
import pytest
from problems import shown_policy

import tutelage as tl


@pytest.mark.parametrize("seed", range(6))
def test_the_posterior_is_that_of_enumeration(seed):
    """Bayes' rule written out with probabilities, not logarithms."""
    domain, rng, lesson = shown_policy(seed)
    candidates = rng.normal(size=(4, domain.n_reward))
    learner = tl.BayesianLearner(domain, candidates, rationality=0.7)
    shown = tl.sample_demonstrations(domain, lesson.policy, 2, rng=rng, max_steps=4)
    likelihood = np.ones(4)
    for k, trajectory in product(range(4), range(shown.n)):
        policy = tl.solve_soft(domain.mdp, domain.reward_features @ (0.7 * candidates[k])).policy
        for choice in shown.choices[shown.offsets[trajectory] : shown.offsets[trajectory + 1]]:
            likelihood[k] *= policy[choice] if choice >= 0 else 1.0
    response = learner.respond(tl.Lesson.from_demonstrations(domain, shown))
    posterior = np.exp(response.memory["log_posterior"])
    np.testing.assert_allclose(posterior, likelihood / likelihood.sum(), rtol=1e-6)
    np.testing.assert_allclose(response.learned_weights, posterior @ candidates)


def test_candidates_of_another_shape_are_refused():
    domain, _, _ = shown_policy(0)
    with pytest.raises(tl.InvalidModel, match="candidates must be of shape"):
        tl.BayesianLearner(domain, [[1.0] * (domain.n_reward + 1)])
