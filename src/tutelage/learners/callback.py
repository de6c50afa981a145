"""A person or another program as the learner: a function that gets the lesson and says what was done.

It may sample as many demonstrations as it likes, `lesson.demonstrations(n, rng=rng)`, and answers with the trajectories
that it made of them, or with their expectation.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats, freeze
from tutelage.mdp.demonstrations import Demonstrations
from tutelage.mdp.expectations import Expectation, empirical_expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Certificate, Lesson, Multipliers, Response, check_lesson, named
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import ConstrainedOptimum, nearest_policy


@dataclass(frozen=True, slots=True, eq=False)
class CallbackLearner:
    """A learner that is asked.

    answer: gets the lesson and returns `Demonstrations`, an `Expectation`, or the reward expectation (d_r,) alone.
    match_tolerance: how far, relative to one plus its size, an expectation may be from what policies can have before
    it is refused. Demonstrations may be as far as chance takes them.

    All that is known is what it did: a response's `policy` is the one whose mu_r comes nearest to that, certified as
    such; weights and multipliers are zero.
    """

    domain: Domain
    answer: Callable[[Lesson], Demonstrations | Expectation | ArrayLike]
    match_tolerance: float = 1e-6

    def respond(self, lesson: Lesson) -> Response:
        """What the function says was done; raises `InvalidModel` where that is impossible."""
        check_lesson(self.domain, lesson)
        given = self.answer(lesson)
        if isinstance(given, Demonstrations):
            seen = empirical_expectation(self.domain, given)
            found = nearest_policy(self.domain, seen.reward, no_limits(self.domain))
            return self._response(lesson, found, Expectation(seen.reward, seen.preference))
        reward = given.reward if isinstance(given, Expectation) else floats(given, "the answer", ndim=1)
        check_length(reward, self.domain.n_reward, "the answer", "reward features")
        found = nearest_policy(self.domain, reward, no_limits(self.domain))
        self._check_possible(reward, found)
        preference = given.preference if isinstance(given, Expectation) else found.expectation.preference
        return self._response(lesson, found, Expectation(reward, preference))

    def _check_possible(self, reward: Vector, found: ConstrainedOptimum) -> None:
        if found.value > self.match_tolerance * (1 + float(np.abs(reward).max())):
            missing = named(self.domain.reward_names, reward - found.expectation.reward)
            raise InvalidModel(f"no policy has the expectation answered: it is beyond the nearest by {missing}")

    def _response(self, lesson: Lesson, found: ConstrainedOptimum, reached: Expectation) -> Response:
        domain, none = self.domain, freeze(np.zeros(self.domain.n_reward))
        return Response(
            lesson=lesson,
            policy=found.policy,
            expectation=reached,
            learned_weights=freeze(np.zeros(len(domain.names))),
            multipliers=Multipliers(none, none, freeze(np.zeros(0))),
            mismatch_excess=freeze(np.abs(reached.reward - lesson.expectation)),
            violation_excess=freeze(np.zeros(0)),
            certificate=Certificate(
                -found.value, -found.bound, found.gap, found.n_rounds, found.ended, lesson.uncertainty
            ),
            reward_names=domain.reward_names,
        )
