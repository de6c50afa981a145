"""Teachers with one lesson that needs no model of the learner's inference (Sec. 4.1, App. F).

`AgnosticTeacher` ignores preferences, `ConservativeTeacher` assumes all of them, `AwareCmdpTeacher` knows the
learner's own.

What each preference costs, in units of the true reward, follows from the constrained MDP of Aware-CMDP:

    v(delta) = max over pi of   w* @ mu_r(pi)   subject to   g_j(mu_c(pi)) <= delta_j

v is concave and never decreases. Its derivative to the right, y_j, is the most that one more unit of preference j gains
per unit,

    v(delta + t e_j) <= v(delta) + t y_j,        with equality in the limit t -> 0

At a kink, such as zero visits within one cell and within two, the multiplier is not unique; `price_low` of the optimum
is this derivative. Where a constraint is convex it is the multiplier. The loss from having preference j at all is v
without the constraint j, minus v(delta), and never less than the gain of one unit. For a learner with soft preferences
these are the costs of keeping them in full.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, set_fields, vector
from tutelage.constrained.occupancy_polytope import best_policy, strictest_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, no_limits, preference_limits
from tutelage.learners.without_entropy import best_within
from tutelage.model.allowances import Allowance
from tutelage.model.mdp import Domain, Weights, endless, per_choice, reward_vector
from tutelage.outcomes import InfeasibleConstraints, OnProgress, watched
from tutelage.roles import Lesson, Opening, keeps_limits
from tutelage.teachers.base import KnownLearner, OneLessonTeacher, Plan, best_kept, check_known, optimal_lesson

# The rounding of a best reward beside its gap, relative to it.
COST_ROUNDING = 1e-11


class AgnosticTeacher(OneLessonTeacher):
    """Shows an optimal policy, ties split evenly, and ignores the learner's preferences."""


@dataclass(frozen=True, eq=False)
class ConservativeTeacher(OneLessonTeacher):
    """Assumes that the learner has every preference. Where no policy keeps all of them, minimises the total violation.

    preference_features: (S, k) or (C, k), every preference that a learner might have; by default the domain's own.
    allowance: of each, as that of a `Preference`.
    """

    preference_features: Matrix | None = None
    allowance: Allowance = 0.0
    limits: HalfSpaces = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, limits=preference_limits(self._assumed, self.allowance))

    @property
    def _assumed(self) -> Domain:
        known, given = self.domain, self.preference_features
        if given is None:
            return known
        # Names say that a matrix (S, k) holds k features of states, also where every state has k choices.
        n_names = given.shape[1] if isinstance(given, np.ndarray) and given.ndim == 2 else 0
        names = tuple(f"preference {j}" for j in range(n_names))
        return Domain(known.mdp, known.reward_features, given, known.reward_names, names)

    def open(self) -> Opening:
        """The policy with the largest reward among those with the least total violation."""
        best = strictest_policy(self._assumed, self.true_weights, self.limits)
        lesson = Lesson.from_policy(self.domain, best.policy)
        return Opening(lesson, "the best policy among those that violate all assumed preferences least")


@dataclass(frozen=True, slots=True, eq=False)
class CmdpPlan(Plan):
    """The plan of Aware-CMDP. optimum: the constrained MDP's solution, with its multipliers."""

    optimum: ConstrainedOptimum


@dataclass(frozen=True, eq=False)
class AwareCmdpTeacher(OneLessonTeacher):
    """Aware-CMDP: shows the best policy that keeps the learner's preferences, a constrained MDP.

        maximise over pi   true_weights @ mu_r(pi)   subject to   g_j(mu_c(pi)) <= delta_c[j]

    It is made for hard preferences. For a soft learner it ignores the penalties and keeps every preference.
    """

    learner: KnownLearner

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self.domain, self.learner)

    def open(self) -> Opening:
        """The best policy that keeps the preferences; raises `InfeasibleConstraints` where no policy does."""
        best = best_kept(self.learner, self.true_weights)
        lesson = Lesson.from_policy(self.domain, best.policy)
        equal = self._needless if keeps_limits(self.learner) else ""
        return Opening(lesson, f"the best policy that keeps the learner's preferences{equal}", self._bound(best))

    def plan(self, *, time_limit: float | None = None, progress: OnProgress | None = None) -> CmdpPlan:
        """The same lesson, with the learner's response to it; raises `OutOfTime` at the time limit, in seconds."""
        with watched(time_limit, progress):
            best = best_kept(self.learner, self.true_weights)
            lesson = Lesson.from_policy(self.domain, best.policy)
            response = self.learner.respond(lesson)
            achieved = float(self.true_weights @ response.expectation.reward)
            return CmdpPlan(lesson, response, best.value, achieved, self._bound(best), best)

    def _bound(self, best: ConstrainedOptimum) -> float:
        """A learner that breaks limits may exceed the constrained optimum; no policy exceeds the unconstrained one."""
        if keeps_limits(self.learner):
            return best.bound
        return best_policy(self.domain, self.true_weights, no_limits(self.domain)).bound


@dataclass(frozen=True, slots=True, eq=False)
class TeachingValue:
    """Theorem 1: the learner's reward after Aware-CMDP's lesson, and after an optimal policy as the lesson."""

    aware: float
    agnostic: float

    @property
    def value(self) -> float:
        """The value of learner-aware teaching; never negative for a learner that projects."""
        return self.aware - self.agnostic


def teaching_value(domain: Domain, true_weights: Weights, learner: KnownLearner) -> TeachingValue:
    """The value of learner-aware teaching (Theorem 1), from the learner's own responses to both lessons.

    max over mu_r in Omega_r^L of w* @ mu_r   -   w* @ Proj(mu_r(pi*))   >=   0
    """
    weights = reward_vector(domain, true_weights, "true_weights")
    aware = AwareCmdpTeacher(domain, weights, learner).plan()
    agnostic = learner.respond(optimal_lesson(domain, weights))
    return TeachingValue(aware.achieved, float(weights @ agnostic.expectation.reward))


@dataclass(frozen=True, slots=True)
class PreferenceCost:
    """One preference of a learner.

    limit: delta_j. used: g_j(mu_c) of a policy. gain: the most true reward that one more unit allowed gains, never more
    than the loss. loss: of true reward, from having this preference at all. Both are NaN where no policy keeps all
    preferences.
    """

    name: str
    limit: float
    used: float
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class Costs(Readable):
    """The best reward without preferences and within all of them, and the cost of each.

    within: NaN where no policy keeps all preferences.
    """

    without: float
    within: float
    preferences: tuple[PreferenceCost, ...]


def preference_costs(
    learner: KnownLearner, true_weights: Weights, preference_expectation: ArrayLike | None = None
) -> Costs:
    """What the preferences of a learner cost. preference_expectation: (d_c,), mu_c of what it does, for `used`.

    A cost that is not larger than what its two rewards may be off by, by their certificates, is zero.
    """
    domain, weights, common = _centred(learner.domain, reward_vector(learner.domain, true_weights, "true_weights"))
    constraints = learner.preference.on(domain)
    without = best_policy(domain, weights, no_limits(domain)).value
    n = len(constraints.names)
    within, (used, gains, losses) = math.nan, np.full((3, n), math.nan)
    if preference_expectation is not None:
        counts = vector(preference_expectation, "preference_expectation", domain.n_preference, "preference features")
        used = constraints.values(counts)
    with suppress(InfeasibleConstraints):
        optimum = best_within(constraints, weights)
        within = optimum.value
        others = [best_within(constraints.only(np.arange(n) != j), weights) for j in range(n)]
        values, gaps = np.array([(best.value, best.gap) for best in others]).reshape(n, 2).T
        size = gaps + optimum.gap + COST_ROUNDING * max(abs(without), abs(within))
        losses = np.where(np.abs(values - within) > size, values - within, 0.0)
        slopes = optimum.multipliers
        if losses.any() and len(constraints.rows) == n:
            slopes = np.where(np.isfinite(optimum.price_low), optimum.price_low, slopes)
        # A slope is rounding where all that a limit may allow gains nothing.
        is_rounding = slopes * constraints.sizes(np.zeros(domain.n_preference)) <= size
        gains = np.where(is_rounding | (losses <= 0), 0.0, np.minimum(slopes, losses))
    rows = zip(constraints.names, constraints.allowance, used, gains, losses, strict=True)
    costs = [PreferenceCost(name, *map(float, numbers)) for name, *numbers in rows]
    return Costs(without + common, within + common, tuple(costs))


def _centred(domain: Domain, weights: Vector) -> tuple[Domain, Vector, float]:
    """The same reward without what every policy earns alike, as one feature; its weights; and what that is.

    As (1 - discount) z sums to one, a reward k (1 - discount) of every choice earns k. Beside it costs would be hidden.
    """
    mdp = domain.mdp
    reward, common = per_choice(mdp, domain.reward_features @ weights), 0.0
    if np.max(mdp.discount) < 1:
        for_ever = per_choice(mdp, endless(mdp, reward))
        common = float(for_ever.min() + for_ever.max()) / 2
        reward = reward - common * (1 - mdp.discount)
    first = np.eye(domain.n_reward)[0]
    return domain.with_matrices(reward[:, None] * first, domain.preference_features), first, common
