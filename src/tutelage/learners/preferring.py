"""Preferences for a learner that has none: it learns in its own way, and acts as a learner of the paper would.

What the inner learner would do is the lesson of the outer one, which has preferences: a `SoftLearner` comes as close to
it as its penalties allow, a `HardLearner` projects it onto what its limits allow. The inner learner remembers.
"""

from dataclasses import dataclass

from tutelage.arrays import Readable
from tutelage.learners.exact import GenericLearner, HardLearner
from tutelage.learners.penalties import Preference
from tutelage.model.mdp import Domain
from tutelage.roles import Learner, Lesson, Response, is_exact, respond_after


@dataclass(frozen=True, eq=False)
class PreferringLearner(Readable):
    """inner: learns from lessons. outer: acts; it has the preferences, for instance a `HardLearner`."""

    inner: Learner
    outer: GenericLearner | HardLearner

    @property
    def domain(self) -> Domain:
        return self.outer.domain

    @property
    def preference(self) -> Preference:
        return self.outer.preference

    @property
    def is_exact(self) -> bool:
        return is_exact(self.outer)

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """What the outer learner makes of the inner learner's intention."""
        intended = respond_after(self.inner, lesson, after)
        acts = self.outer.respond(Lesson.from_policy(self.domain, intended.policy))
        return Response.of(self.domain, lesson, acts.policy, weights=intended.learned_weights, memory=intended.memory)
