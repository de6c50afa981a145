"""AdAware-Lin (Sec. 5.2, App. C.2): each lesson is a push from the learner's response towards the true reward.

The next lesson is mu_L + alpha w*, with the largest alpha in [shortest, longest] that some policy realises. Where no
policy realises such a push, the lesson is the policy nearest to mu_L + shortest w*.

The bound is the largest reward of any policy within the half-spaces that the responses yield (`adaptive`). For one
round and a set Omega_r of which only the diameter is known, this is Proposition 1 (`pushes.proposition_1_bound`).
Where a push gains nothing, the learner's reward is optimal. The half-spaces hold after every lesson, push or not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tutelage.arrays import Vector
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import no_limits
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Advice, Lesson, Round
from tutelage.teachers.adaptive import are_contradicted, certified, close, cuts, distance, doubt, mean_rewards
from tutelage.teachers.base import BaseTeacher, optimal_lesson
from tutelage.teachers.pushes import Push, bisect_push, largest_push, nearest_push

# The accuracy of a response, relative to the largest feature plus its size.
ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class LineSearchTeacher(BaseTeacher):
    """Pushes the learner from its response towards more reward.

    shortest_push, longest_push: the paper's alpha_min and alpha_max, in units of the true weights. method: "exact", the
    largest push by one constrained MDP, or "bisection", Algorithm 2 as printed, to within push_tolerance.
    match_tolerance: the distance, relative to the largest feature plus the size of mu_L, at which a push counts as
    realised. The rounds end when the certified bound is within stop_tolerance, a reward, of the largest reward earned,
    or when none of the last `patience` rounds gained more than stop_tolerance.

    The defaults depend on the units of the domain. Pushes are from 0.1 to 5, to within 0.001, of the push that moves
    the feature with the largest true weight by the largest feature. stop_tolerance is 0.001 of the largest reward of
    one step.

    For a learner that projects exactly, in the 2-norm, onto a convex set, the reward never falls after a push and the
    bound is certified. Where the responses contradict that, the bound is infinite: nothing is certified.
    """

    shortest_push: float = None  # type: ignore[assignment]
    longest_push: float = None  # type: ignore[assignment]
    method: Literal["exact", "bisection"] = "exact"
    stop_tolerance: float = None  # type: ignore[assignment]
    patience: int = 8
    push_tolerance: float = None  # type: ignore[assignment]
    match_tolerance: float = 1e-6
    diameter: float = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.abs(self.true_weights).max() <= np.finfo(np.float64).tiny:
            raise InvalidModel("true_weights are all zero, so there is no direction to push the learner in")
        unit = self.feature_unit / float(np.abs(self.true_weights).max())
        pushes = {"shortest_push": 0.1 * unit, "longest_push": 5 * unit, "push_tolerance": 1e-3 * unit}
        self._set_defaults(**pushes, stop_tolerance=1e-3 * self.reward_unit)
        if not 0 < self.shortest_push < self.longest_push < math.inf:
            raise InvalidModel(f"pushes must be 0 < shortest < longest: {self.shortest_push}, {self.longest_push}")
        if self.method not in ("exact", "bisection"):
            raise InvalidModel(f"method must be 'exact' or 'bisection', got {self.method!r}")
        for name in ("stop_tolerance", "patience", "push_tolerance", "match_tolerance"):
            if not getattr(self, name) > 0:
                raise InvalidModel(f"{name} must be positive, got {getattr(self, name)}")
        object.__setattr__(self, "diameter", self._diameter())

    def _diameter(self) -> float:
        """The diameter of a box that contains every reward expectation."""
        limits, axes = no_limits(self.domain), np.eye(self.domain.n_reward)
        sides = [sum(best_policy(self.domain, way, limits).bound for way in (axis, -axis)) for axis in axes]
        return float(np.linalg.norm(sides))

    def open(self) -> Advice:
        """An optimal policy of the unconstrained MDP."""
        return Advice(optimal_lesson(self.domain, self.true_weights), "an optimal policy")

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next push, or the reason to stop."""
        bound = self.bound(rounds)
        reason = self._reason_to_end(rounds, bound)
        if reason:
            return close(rounds, mean_rewards(rounds, self.true_weights), reason, bound, self.reward_unit)
        push = self.push(rounds[-1].response.expectation.reward)
        missed = f"the policy nearest to a push of {push.size:.3g}, which no policy realises"
        reason = f"a push of {push.size:.3g}" if push.is_realised else missed
        return Advice(Lesson.from_policy(self.domain, push.policy), reason + doubt(bound), bound)

    def push(self, start: Vector) -> Push:
        """The lesson's policy for a learner at mu_L = start (d_r,)."""
        domain, weights, tolerance = self.domain, self.true_weights, self.match_tolerance
        if self.method == "bisection":
            step, ends = self.push_tolerance, (self.shortest_push, self.longest_push)
            return bisect_push(domain, start, weights, ends, push_tolerance=step, match_tolerance=tolerance).push
        least = nearest_push(domain, start, weights, self.shortest_push, match_tolerance=tolerance)
        if not least.is_realised:
            return least
        return largest_push(domain, start, weights, longest=self.longest_push, match_tolerance=tolerance)

    def bound(self, rounds: Sequence[Round]) -> float:
        """The largest reward within the cuts; infinite where the responses contradict the cuts."""
        limits = cuts(self.domain, rounds, self._rounding)
        if are_contradicted(self.domain, limits, rounds):
            return math.inf
        try:
            bound = best_policy(self.domain, self.true_weights, limits).bound
        except InfeasibleConstraints:
            return math.inf
        return certified(bound, float(mean_rewards(rounds, self.true_weights).max()), self.reward_unit)

    def _rounding(self, taught: Round) -> float:
        """The error of a cut anywhere within the diameter, given the accuracy of mu_L."""
        error = ROUNDING * (self.feature_unit + float(np.abs(taught.response.expectation.reward).max()))
        return error * (1 + self.diameter / distance(taught))

    def _reason_to_end(self, rounds: Sequence[Round], bound: float) -> str:
        """The reason to stop, or an empty string."""
        rewards = mean_rewards(rounds, self.true_weights)
        enough = self.stop_tolerance
        if bound <= rewards.max() + enough:
            return f"no lesson can gain {enough:g} more"
        gains = np.diff(np.maximum.accumulate(rewards))[-self.patience :]
        if len(gains) == self.patience and gains.max() <= enough:
            return f"none of the last {self.patience} rounds gained more than {enough:g}"
        return ""
