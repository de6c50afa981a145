"""A learner with a posterior over candidate rewards, that acts by their mean.

The likelihood of a demonstration under the weights w_k is the product of pi_k(c | s) over its steps, with pi_k the soft
policy of `rationality * w_k`. A lesson that is a policy counts as the expected log-likelihood of one demonstration, in
discounted steps. The learner acts by the soft policy of the posterior mean of the weights.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, floats, freeze, set_fields
from tutelage.bellman.equations import solve_soft
from tutelage.constrained.problem import or_one
from tutelage.learners.cloning import choice_counts
from tutelage.model.mdp import Domain, choice_reward
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson, Response, recalled


@dataclass(frozen=True, eq=False)
class BayesianLearner(Readable):
    """candidates: (m, d_r), the rewards that it holds possible, at first all alike; or how many at random, each feature
    in its own unit. rationality: the factor of weights in the likelihood, and in what it does. rng: a seed.
    """

    domain: Domain
    candidates: ArrayLike | int = 200
    rationality: float = 1.0
    rng: int = 0
    log_policies: Matrix = field(init=False)

    def __post_init__(self) -> None:
        weights = self.candidates
        if isinstance(weights, int):
            units = or_one(np.abs(self.domain.reward_features).max(axis=0))
            weights = np.random.default_rng(self.rng).normal(size=(weights, self.domain.n_reward)) / units
        weights = floats(weights, "candidates", ndim=2)
        if weights.shape[1] != self.domain.n_reward or not len(weights):
            raise InvalidModel(f"candidates must be of shape (m, {self.domain.n_reward}), got {weights.shape}")
        log_policies = np.array([np.log(self.policy(row)) for row in weights])
        set_fields(self, candidates=weights, log_policies=freeze(log_policies))

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The response after one more lesson."""
        seen = self.log_policies @ choice_counts(self.domain, lesson)
        if memory := recalled(after):
            seen = seen + memory["log_posterior"]
        log_posterior = seen - logsumexp(seen)
        mean = np.exp(log_posterior) @ np.asarray(self.candidates)
        kept = {"log_posterior": log_posterior}
        return Response.of(self.domain, lesson, self.policy(mean), weights=mean, memory=kept)

    def policy(self, weights: Vector) -> Vector:
        """(C,), the soft policy of a reward."""
        mdp = self.domain.mdp
        return solve_soft(mdp, choice_reward(mdp, self.domain.reward_features @ (self.rationality * weights))).policy
