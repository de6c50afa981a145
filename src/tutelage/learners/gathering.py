"""A learner that learns from all lessons so far at once: the mean of what was shown, from the mean of their starts.

For lessons of n_k demonstrations with mu_k from starts P_k, its inner learner answers the means weighted by n_k.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tutelage.arrays import freeze
from tutelage.learners.penalties import Preference
from tutelage.model.mdp import Domain
from tutelage.roles import Lesson, Response, check_lesson, is_exact, recalled


@dataclass(frozen=True, eq=False)
class GatheringLearner:
    """inner: any learner; it answers one lesson. A lesson without demonstrations counts as one demonstration."""

    inner: Any

    @property
    def domain(self) -> Domain:
        return cast(Domain, self.inner.domain)

    @property
    def preference(self) -> Preference:
        return cast(Preference, self.inner.preference)

    @property
    def is_exact(self) -> bool:
        return is_exact(self.inner)

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The response to everything shown so far."""
        start = check_lesson(self.domain, lesson).seen_in(self.domain).mdp.initial
        n = float(lesson.n_demonstrations or 1)
        sums = {"expectation": n * lesson.expectation, "start": n * start, "n": np.array([n])}
        if memory := recalled(after, **{name: value.shape for name, value in sums.items()}):
            sums = {name: value + memory[name] for name, value in sums.items()}
        mean, initial = (freeze(sums[name] / sums["n"]) for name in ("expectation", "start"))
        done = self.inner.respond(Lesson(mean, freeze(np.zeros(len(mean))), domain=self.domain, initial=initial))
        weights = done.learned_weights
        return Response.of(self.domain, lesson, done.policy, weights=weights, memory=sums, metrics=done.metrics)
