"""AdAware-Vol (Sec. 5.1, App. C.1): each response yields a half-space that contains the learner's feasible set.

Each cut is moved towards the lesson, as a margin for noise:

    <mu_T - mu_L, x - mu_L> <= (1 - cut_tightness) norm_2(mu_T - mu_L)^2

The next lesson is the best policy within all cuts, a constrained MDP (App. F). The cuts contain Omega_r^L, so no lesson
gets more reward from the learner than that policy has: its reward is the certified bound. Once
norm_2(mu_T - mu_L) <= eps, the learner's reward is at least that bound less eps * norm_2(w*) (Theorem 2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Advice, Lesson, Opening, Round
from tutelage.teachers.adaptive import are_contradicted, certified, close, cuts, distance, doubt, mean_rewards
from tutelage.teachers.base import BY_UNITS, BaseTeacher, optimal_lesson


@dataclass(frozen=True, eq=False)
class VolumeSearchTeacher(BaseTeacher):
    """Maintains an estimate of the learner's feasible set and shows the best policy within it.

    cut_tightness: in (0, 1], the paper's eta; 1 cuts at the learner's response, near 0 at the lesson.
    stop_tolerance: eps; the rounds end when the response is this close to the lesson. By default 0.001 of the range of
    the reward over all policies, divided by norm_2(w*), so that at most 0.001 of that range is not gained.
    method: "exact" also ends when no policy within the cuts can gain more than eps * norm_2(w*), and repeats its best
    lesson before it ends. "printed" is App. C.1: it does neither.

    The bound is certified for a learner that projects exactly, in the 2-norm, onto a convex set. If a response lies
    outside the cuts, nothing is certified any more and the teacher says so. When the cuts then leave less reward than
    the learner has earned, or no policy at all, "exact" repeats its best lesson and ends. "printed" continues while a
    policy is within the cuts.
    """

    cut_tightness: float = 0.9
    stop_tolerance: float = BY_UNITS
    method: Literal["exact", "printed"] = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stop_tolerance is BY_UNITS:
            norm = float(np.linalg.norm(self.true_weights))
            self._set_defaults(stop_tolerance=1e-3 * self.reward_range / norm if norm > 0 else 1e-3 * self.feature_unit)
        if not 0 < self.cut_tightness <= 1:
            raise InvalidModel(f"cut_tightness must lie in (0, 1], got {self.cut_tightness}")
        if not self.stop_tolerance > 0:
            raise InvalidModel(f"stop_tolerance must be positive, got {self.stop_tolerance}")
        if self.method not in ("exact", "printed"):
            raise InvalidModel(f"method must be 'exact' or 'printed', got {self.method!r}")

    def open(self) -> Opening:
        """An optimal policy of the unconstrained MDP."""
        return Opening(optimal_lesson(self.domain, self.true_weights), "an optimal policy")

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """The estimate of the feasible set: a cut for each round whose response differs from the lesson."""
        differing = [taught for taught in rounds if distance(taught) > self.stop_tolerance]
        return cuts(self.domain, differing, lambda taught: (1 - self.cut_tightness) * distance(taught))

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The best policy within the estimate, or the reason to stop."""
        best, reason, bound = self._assessed(rounds)
        if best is None or reason:
            return self._end(rounds, reason, bound)
        n_cuts = len(self.estimate(rounds))
        reason = f"the best policy within {n_cuts} cut{'' if n_cuts == 1 else 's'}{doubt(bound)}"
        return Advice(Lesson.from_policy(self.domain, best.policy), reason, bound)

    def certify(self, rounds: Sequence[Round]) -> Advice:
        """The bound after the last round, and the reason to stop if there is one, without a lesson."""
        _, reason, bound = self._assessed(rounds)
        return Advice(None, reason + doubt(bound) if reason else "", bound)

    def _assessed(self, rounds: Sequence[Round]) -> tuple[ConstrainedOptimum | None, str, float]:
        """The best policy within the estimate, if there is any, the reason to stop or an empty string, the bound."""
        estimate = self.estimate(rounds)
        try:
            best = best_policy(self.domain, self.true_weights, estimate)
        except InfeasibleConstraints:
            return None, "no policy is within the cuts", math.inf
        most = float(mean_rewards(rounds, self.true_weights).max())
        is_contradicted = are_contradicted(self.domain, estimate, rounds)
        bound = math.inf if is_contradicted else certified(best.bound, most, self.reward_unit)
        return best, self._reason_to_end(rounds, best.bound - most), bound

    def _reason_to_end(self, rounds: Sequence[Round], possible_gain: float) -> str:
        """The reason to stop, or an empty string."""
        if distance(rounds[-1]) <= self.stop_tolerance:
            return f"the learner matches the lesson within {self.stop_tolerance:g}"
        least_gain = self.stop_tolerance * float(np.linalg.norm(self.true_weights))
        if possible_gain <= least_gain and self.method == "exact":
            return f"no policy within the cuts has {least_gain:.3g} more reward than the learner has earned"
        return ""

    def _end(self, rounds: Sequence[Round], reason: str, bound: float) -> Advice:
        """No further lesson, or the best one again."""
        if self.method == "printed":
            return Advice(None, reason + doubt(bound), bound)
        return close(rounds, mean_rewards(rounds, self.true_weights), reason, bound, self.reward_unit)
