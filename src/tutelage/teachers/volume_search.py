"""AdAware-Vol (Sec. 5.1, App. C.1): what the learner does not do cuts down what it may be willing to do.

Every round cuts off what a learner that projects cannot be willing to do, moved back towards the lesson for the sake of
noise:

    <mu_T - mu_L, x - mu_L> <= (1 - cut_tightness) norm_2(mu_T - mu_L)^2

The next lesson is the best policy within all cuts, a constrained MDP (App. F). Since the estimate holds Omega_r^L, no
lesson can get more out of the learner than that policy earns: its reward is the certified bound. Once
norm_2(mu_T - mu_L) <= eps, the learner earns at least that bound less eps * norm_2(w*) (Theorem 2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Vector
from tutelage.mdp.model import Domain
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Advice, Lesson, Round
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.occupancy_polytope import best_policy
from tutelage.teachers.closing import close, doubt, earned
from tutelage.teachers.cuts import are_contradicted, certified, cuts, distance
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.teachers.known import check_weights


@dataclass(frozen=True, slots=True, eq=False)
class VolumeSearchTeacher:
    """Keeps an estimate of the learner's feasible set and shows the best policy within it.

    cut_tightness: in (0, 1], the paper's eta; 1 cuts at the learner, near 0 at the teacher. stop_tolerance: eps, how
    near the learner must come to the lesson for the rounds to end.

    The bound is certified for a learner that projects exactly, in the 2-norm, onto a convex set. Another learner's
    answers may lie beyond its own cuts; then nothing is certified any more, the teacher says so, and when the cuts
    leave less than the learner has been seen to earn, or nothing, it teaches its best lesson again and ends.
    """

    domain: Domain
    true_weights: Vector
    cut_tightness: float = 0.9
    stop_tolerance: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "true_weights", check_weights(self.domain, self.true_weights))
        if not 0 < self.cut_tightness <= 1:
            raise InvalidModel(f"cut_tightness must lie in (0, 1], got {self.cut_tightness}")
        if not self.stop_tolerance > 0:
            raise InvalidModel(f"stop_tolerance must be positive, got {self.stop_tolerance}")

    def open(self) -> Lesson:
        """An optimal policy, as if there were no constraints."""
        return AgnosticTeacher(self.domain, self.true_weights).open()

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """What the learner may be willing to do: a cut for each round in which it stayed away from the lesson."""
        telling = [taught for taught in rounds if distance(taught) > self.stop_tolerance]
        return cuts(self.domain, telling, lambda taught: (1 - self.cut_tightness) * distance(taught))

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The best policy within the estimate, or why there is nothing more to teach."""
        estimate = self.estimate(rounds)
        try:
            found = best_policy(self.domain, self.true_weights, estimate)
        except InfeasibleConstraints:
            return close(rounds, self.true_weights, "no policy is within the cuts", math.inf)
        most = float(earned(rounds, self.true_weights).max())
        is_contradicted = are_contradicted(self.domain, estimate, rounds)
        bound = math.inf if is_contradicted else certified(found.bound, most)
        reason = self._reason_to_end(rounds, found.bound - most)
        if reason:
            return close(rounds, self.true_weights, reason, bound)
        reason = f"the best policy within {len(estimate)} cut{'' if len(estimate) == 1 else 's'}{doubt(bound)}"
        return Advice(Lesson.from_policy(self.domain, found.policy), reason, bound)

    def _reason_to_end(self, rounds: Sequence[Round], to_gain: float) -> str:
        """Why there is nothing more to teach; nothing where there is."""
        if distance(rounds[-1]) <= self.stop_tolerance:
            return f"the learner does what it is shown, to within {self.stop_tolerance:g}"
        worth = self.stop_tolerance * float(np.linalg.norm(self.true_weights))
        return f"nothing within the cuts earns {worth:.3g} more than the learner has earned" if to_gain <= worth else ""
