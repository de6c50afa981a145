"""Behaviour cloning: a learner that counts what was done in each state, and does the same.

    pi(c) = (n(c) + prior) / sum over the choices c' of the state of (n(c') + prior)

n counts the choices of all demonstrations so far. A lesson without demonstrations counts as one: its expected number of
choices, undiscounted as far as the discount lets one see, is not known, so the discounted one stands for it.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Readable, Vector, check_numbers
from tutelage.chains.expectations import occupancy
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import InvalidInput
from tutelage.roles import Lesson, Response, check_lesson, recalled


@dataclass(frozen=True, eq=False)
class CloningLearner(Readable):
    """prior: how often each choice counts as seen before the first lesson."""

    domain: Domain
    prior: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, "prior", least=0.0)

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The policy of all counts so far; uniform in states that were never seen."""
        counts = choice_counts(self.domain, lesson)
        if memory := recalled(after, counts=counts.shape):
            counts = counts + memory["counts"]
        policy = policy_from_occupancy(self.domain.mdp, counts + self.prior)
        return Response.of(self.domain, lesson, policy, memory={"counts": counts})


def choice_counts(domain: Domain, lesson: Lesson) -> Vector:
    """(C,), how often each choice was shown; for a policy, its expected discounted count."""
    shown = check_lesson(domain, lesson).recorded
    if shown is not None and shown.choices is not None:
        return np.bincount(shown.choices[shown.choices >= 0], minlength=domain.mdp.n_choices).astype(np.float64)
    if lesson.policy is None:
        raise InvalidInput("this learner needs demonstrations with choices or a policy; the lesson has neither")
    return occupancy(lesson.seen_in(domain).mdp, lesson.policy)
