"""Teachers with one lesson: that ignore preferences, fear them all, or know the learner's own (Sec. 4.1, App. F)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector
from tutelage.learners.tangents import Answer, Tangents, tighten
from tutelage.mdp.model import Domain
from tutelage.roles import Lesson
from tutelage.solvers.bellman import solve_hard
from tutelage.solvers.half_spaces import preference_limits
from tutelage.solvers.occupancy_polytope import ConstrainedOptimum, best_policy, strictest_policy
from tutelage.teachers.known import KnownLearner, check_learner, check_weights


@dataclass(frozen=True, slots=True, eq=False)
class AgnosticTeacher:
    """Shows an optimal policy, ties split evenly, whatever the learner minds."""

    domain: Domain
    true_weights: Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "true_weights", check_weights(self.domain, self.true_weights))

    def open(self) -> Lesson:
        """The optimal policy."""
        optimum = solve_hard(self.domain.mdp, self.domain.reward_features @ self.true_weights)
        return Lesson.from_policy(self.domain, optimum.policy)


@dataclass(frozen=True, slots=True, eq=False)
class ConservativeTeacher:
    """Assumes every preference it has heard of. Where no policy keeps them all: first the least total violation.

    preference_features: all that a learner might mind, (S, k) or (C, k); left out, the domain's own. allowance: what is
    granted of each, (k,) or a scalar.
    """

    domain: Domain
    true_weights: Vector
    preference_features: Matrix | None = None
    allowance: ArrayLike = 0.0
    feared: Domain = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "true_weights", check_weights(self.domain, self.true_weights))
        feared = self.domain
        if self.preference_features is not None:
            feared = Domain(feared.mdp, feared.reward_features, self.preference_features, feared.reward_names)
        object.__setattr__(self, "feared", feared)
        preference_limits(feared, self.allowance)

    def open(self) -> Lesson:
        """The policy of most reward among those of least total violation."""
        limits = preference_limits(self.feared, self.allowance)
        return Lesson.from_policy(self.domain, strictest_policy(self.feared, self.true_weights, limits).policy)


@dataclass(frozen=True, slots=True, eq=False)
class AwareCmdpTeacher:
    """Knows the learner's preferences and shows the best policy within them (Aware-CMDP): a constrained MDP.

        maximise over pi   true_weights @ mu_r(pi)   subject to   g_j(mu_c(pi)) <= delta_c[j]

    Made for hard preferences. Of a soft learner's penalties it takes no notice: the lesson keeps its preferences in
    full.
    """

    domain: Domain
    true_weights: Vector
    learner: KnownLearner

    def __post_init__(self) -> None:
        object.__setattr__(self, "true_weights", check_weights(self.domain, self.true_weights))
        check_learner(self.domain, self.learner)

    def open(self) -> Lesson:
        """The best policy the learner accepts; raises `InfeasibleConstraints` where it accepts none."""
        return Lesson.from_policy(self.domain, self.plan().policy)

    def plan(self) -> ConstrainedOptimum:
        """The constrained optimum, with its certified bound; convex preferences by as many tangents as it takes."""
        domain, preference = self.learner.domain, self.learner.preference

        def solve(tangents: Tangents, _: Vector) -> Answer[ConstrainedOptimum]:
            found = best_policy(domain, self.true_weights, tangents.half_spaces(preference, domain))
            return Answer(found, found.multipliers, found.expectation.preference)

        opening = Tangents.opening(preference, domain)
        return tighten(preference, domain, opening, np.zeros(len(opening.offsets)), solve)[0].found


@dataclass(frozen=True, slots=True, eq=False)
class TeachingValue:
    """Theorem 1: what a learner earns when taught by Aware-CMDP, and when taught an optimal policy."""

    aware: float
    agnostic: float

    @property
    def value(self) -> float:
        """The value of learner-aware teaching; for a learner that projects, never negative."""
        return self.aware - self.agnostic


def teaching_value(domain: Domain, true_weights: ArrayLike, learner: KnownLearner) -> TeachingValue:
    """The value of learner-aware teaching (Theorem 1), from the learner's own responses to both lessons.

    max over mu_r in Omega_r^L of w* @ mu_r   -   w* @ Proj(mu_r(pi*))   >=   0
    """
    weights = check_weights(domain, true_weights)
    aware = learner.respond(AwareCmdpTeacher(domain, weights, learner).open())
    agnostic = learner.respond(AgnosticTeacher(domain, weights).open())
    return TeachingValue(*(float(weights @ response.expectation.reward) for response in (aware, agnostic)))
