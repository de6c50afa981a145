"""A person or another program as the learner: a function from a lesson to trajectories or an expectation.

The function may sample demonstrations of the lesson, `lesson.demonstrations(n, rng=rng)`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import check_length, floats
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.responses import build_response, signed_multipliers
from tutelage.mdp.demonstrations import Demonstrations
from tutelage.mdp.expectations import Expectation, empirical_expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Certificate, Lesson, Response, check_lesson, named
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import nearest_policy


@dataclass(frozen=True, slots=True, eq=False)
class CallbackLearner:
    """A learner given as a function.

    answer: a function of the lesson that returns `Demonstrations`, an `Expectation`, or the reward expectation (d_r,).
    match_tolerance: an expectation further than this from every policy's, relative to one plus its size, is refused.
    Demonstrations are never refused, since samples deviate by chance.

    The learner's penalties are unknown. A response's `policy` is therefore a policy whose mu_r is nearest to the
    answer, with a certificate of that distance; weights and multipliers are zero.
    """

    domain: Domain
    answer: Callable[[Lesson], Demonstrations | Expectation | ArrayLike]
    match_tolerance: float = 1e-6

    def respond(self, lesson: Lesson) -> Response:
        """The function's answer as a response; raises `InvalidModel` where no policy has the expectation answered."""
        domain, given = self.domain, self.answer(check_lesson(self.domain, lesson))
        is_sampled = isinstance(given, Demonstrations)
        if isinstance(given, Demonstrations):
            seen = empirical_expectation(domain, given)
            given = Expectation(seen.reward, seen.preference)
        reward = given.reward if isinstance(given, Expectation) else floats(given, "the answer", ndim=1)
        check_length(reward, domain.n_reward, "the answer", "reward features")
        found = nearest_policy(domain, reward, no_limits(domain))
        if not is_sampled and found.value > self.match_tolerance * (1 + float(np.abs(reward).max())):
            missing = named(domain.reward_names, reward - found.expectation.reward)
            raise InvalidModel(
                f"no policy has the expectation answered: it differs from the nearest by {missing}; "
                "answer with the expectation of a policy, or raise match_tolerance"
            )
        preference = given.preference if isinstance(given, Expectation) else found.expectation.preference
        answered, weights = Expectation(reward, preference), np.zeros(len(domain.names))
        proof = Certificate(-found.value, -found.bound, found.gap, found.n_rounds, found.ended, lesson.uncertainty)
        multipliers = signed_multipliers(weights[: domain.n_reward], np.zeros(0))
        constraints = Preference.none(domain).on(domain)
        return build_response(lesson, proof, found.policy, answered, weights, multipliers, Mismatch(), constraints)
