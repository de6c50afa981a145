"""What teachers share: the domain and true weights, a single lesson or many, plans, and what is known of a learner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tutelage.arrays import EPSILON, AsVector, Readable, Vector, set_fields
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import Arrival, expected_reward, journey_of
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, or_one
from tutelage.learners.penalties import Mismatch, Preference, Tangents
from tutelage.learners.without_entropy import best_within
from tutelage.model.mdp import Domain, reward_vector
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import EndlessValue, InvalidModel
from tutelage.roles import Advice, Learner, Lesson, Opening, Response, Round, check_match

# The default of a field that `__post_init__` sets in the units of the domain.
BY_UNITS: Any = None


@dataclass(frozen=True, eq=False)
class BaseTeacher(Readable):
    """true_weights: (d_r,), or by name, zero for others; it maximises `true_weights @ mu_r` of the response."""

    domain: Domain
    true_weights: AsVector

    def __post_init__(self) -> None:
        set_fields(self, true_weights=reward_vector(self.domain, self.true_weights, "true_weights"))

    @property
    def feature_unit(self) -> float:
        """The largest reward feature: what tolerances on expectations are relative to."""
        return float(or_one(np.abs(self.domain.reward_features).max()))

    @property
    def reward_unit(self) -> float:
        """The largest reward that one feature gives in one step: what tolerances on rewards are relative to."""
        return float(or_one(np.abs(self.domain.reward_features * self.true_weights).max()))

    @property
    def reward_range(self) -> float:
        """The reward of the best policy less that of the worst: what tolerances on what is learned are relative to."""
        least, most = self.reward_ends
        is_rounding = most - least <= EPSILON * max(abs(most), abs(least))
        return self.reward_unit if is_rounding else most - least

    @property
    def reward_ends(self) -> tuple[float, float]:
        """The least and the largest reward of any policy; in place of an infinite loss, that of a random walk."""
        mdp, reward = self.domain.mdp, self.domain.reward_features @ self.true_weights
        most = float(mdp.initial @ solve_hard(mdp, reward).value)
        try:
            return -float(mdp.initial @ solve_hard(mdp, -reward).value), most
        except EndlessValue:
            return min(expected_reward(mdp, uniform_policy(mdp), reward), most), most

    def open(self) -> Opening:
        """An optimal policy of the unconstrained MDP."""
        return Opening(optimal_lesson(self.domain, self.true_weights), "an optimal policy")

    def _check_choice(self, name: str, *allowed: str) -> None:
        if getattr(self, name) not in allowed:
            raise InvalidModel(f"{name} must be {' or '.join(map(repr, allowed))}, got {getattr(self, name)!r}")


class OneLessonTeacher(BaseTeacher):
    """A teacher whose opening lesson is its only lesson. A subclass defines `open() -> Opening`."""

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """No further lesson; the bound that was certified with the lesson stands."""
        return Advice(None, "the teacher has only one lesson", rounds[-1].bound)

    @property
    def _needless(self) -> str:
        """What the reason of a plan for a learner adds where the plan need not have been made."""
        equal = "; with one reward feature, an optimal policy as the lesson teaches as much"
        return equal if self.domain.n_reward == 1 else ""


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Readable):
    """A lesson for a known learner.

    predicted: the reward that the teacher expects. response: the learner's response to this lesson.
    achieved: the reward of that response. bound: certified; no lesson gets more reward from this learner.
    """

    lesson: Lesson
    response: Response
    predicted: float
    achieved: float
    bound: float

    @property
    def gap(self) -> float:
        """How much more reward another lesson could get at most."""
        return max(self.bound - self.achieved, 0.0)

    @property
    def arrival(self) -> Arrival | None:
        """Whether and when the learner arrives, in an MDP with goals; None in any other."""
        return journey_of(self.lesson.mdp, self.response.policy)


class KnownLearner(Learner, Protocol):
    """A learner whose preferences are known."""

    @property
    def domain(self) -> Domain: ...

    @property
    def preference(self) -> Preference: ...


class KnownEntropyLearner(KnownLearner, Protocol):
    """A learner of Eq. 1 whose mismatch penalty is known."""

    @property
    def mismatch(self) -> Mismatch: ...


def check_known(domain: Domain, learner: KnownLearner) -> None:
    """Refuse a learner whose preferences are not known, or whose domain is another one."""
    check_match(domain, learner)
    if not isinstance(getattr(learner, "preference", None), Preference):
        raise InvalidModel(
            f"this teacher must know the learner's preferences, but {type(learner).__name__} has no attribute "
            "'preference'; use VolumeSearchTeacher or LineSearchTeacher"
        )


def best_kept(learner: KnownLearner, true_weights: Vector) -> ConstrainedOptimum:
    """The policy with the largest true_weights @ mu_r that keeps the learner's preferences: a constrained MDP."""
    constraints = learner.preference.on(learner.domain)
    if learner.preference.functions:
        return best_within(constraints, true_weights)
    return best_policy(learner.domain, true_weights, Tangents.linear(constraints).half_spaces())


def optimal_lesson(domain: Domain, true_weights: Vector) -> Lesson:
    """An optimal policy of the unconstrained MDP, ties split evenly."""
    return Lesson.from_policy(domain, solve_hard(domain.mdp, domain.reward_features @ true_weights).policy)
