"""A learner with a posterior over candidate rewards, that acts by their mean.

The likelihood of a demonstration under the weights w_k is the product of pi_k(c | s) over its steps, with pi_k the soft
policy of `rationality * w_k`. A lesson that is a policy counts as the expected log-likelihood of one demonstration, in
discounted steps. The learner acts by the soft policy of the posterior mean of the weights.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from tutelage import arrays
from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, check_numbers, floats, freeze, set_fields
from tutelage.bellman.equations import Optimum, solve_soft
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
        check_numbers(self, "rationality", least=0.0)
        if not np.ndim(weights):
            units = or_one(np.abs(self.domain.reward_features).max(axis=0))
            size = arrays.whole_number(weights, "candidates", least=1), self.domain.n_reward
            weights = arrays.generator(self.rng).normal(size=size) / units
        weights = floats(weights, "candidates", ndim=2)
        if weights.shape[1] != self.domain.n_reward or not len(weights):
            raise InvalidModel(f"candidates must be of shape (m, {self.domain.n_reward}), got {weights.shape}")
        # From the values: where a probability underflows, its logarithm is still finite.
        solved, state = [self._solved(row) for row in weights], self.domain.mdp.state_of_choice
        log_policies = np.array([each.choice_value - each.value[state] for each in solved])
        set_fields(self, candidates=weights, log_policies=freeze(log_policies))

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The response after one more lesson."""
        seen = self.log_policies @ choice_counts(self.domain, lesson)
        if memory := recalled(after, log_posterior=seen.shape):
            seen = seen + memory["log_posterior"]
        log_posterior = seen - logsumexp(seen)
        mean = np.exp(log_posterior) @ np.asarray(self.candidates)
        kept = {"log_posterior": log_posterior}
        return Response.of(self.domain, lesson, self.policy(mean), weights=mean, memory=kept)

    def policy(self, weights: Vector) -> Vector:
        """(C,), the soft policy of a reward."""
        return self._solved(weights).policy

    def _solved(self, weights: Vector) -> Optimum:
        mdp = self.domain.mdp
        return solve_soft(mdp, choice_reward(mdp, self.domain.reward_features @ (self.rationality * weights)))
