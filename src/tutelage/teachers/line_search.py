"""AdAware-Lin (Sec. 5.2, App. C.2): from what the learner does, a push in the direction of the true reward.

The next lesson is mu_L + alpha w*, with the largest alpha in [shortest, longest] that some policy realises; where there
is none, the policy nearest to mu_L + shortest w*.

The bound is the most reward that any policy has within the half-spaces which the answers of a learner that projects
prove. For one round, of a push alpha that gained r, and for a set Omega_r of which nothing but its diameter D is known,
that is Proposition 1, here for weights that need not be a unit vector:

    R-bar_L - R(mu_L) <= r + norm_2(w*) D sqrt(r / (alpha norm_2(w*)^2 - r))

Where a push gains nothing, there is nothing to gain. The cuts hold after every lesson, push or not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tutelage.arrays import Vector
from tutelage.mdp.model import Domain
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Advice, Lesson, Round
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import best_policy
from tutelage.teachers.closing import close, doubt, earned
from tutelage.teachers.cuts import are_contradicted, certified, cuts, distance
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.teachers.known import check_weights
from tutelage.teachers.pushes import Push, bisect_push, largest_push, nearest_push

# How well an answer is known, relative to one plus its size.
ROUNDING = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class LineSearchTeacher:
    """Pushes the learner from where it is towards more reward.

    shortest_push, longest_push: the paper's alpha_min and alpha_max, in units of the true weights. method: "exact", the
    largest push by one constrained MDP, or "bisection", Algorithm 2 as printed, to within push_tolerance.
    match_tolerance: relative to one plus the size of mu_L, how far off still counts as realised. The rounds end when
    the certified bound is within stop_tolerance, a reward, of what was earned, or when `patience` rounds in a row have
    each gained no more than that.

    The learner's reward never falls after a push, and the bound is certified, for a learner that projects exactly, in
    the 2-norm, onto a convex set. Where its answers contradict that, the bound is infinite: nothing is certified.
    """

    domain: Domain
    true_weights: Vector
    shortest_push: float = 0.1
    longest_push: float = 5.0
    method: Literal["exact", "bisection"] = "exact"
    stop_tolerance: float = 1e-3
    patience: int = 8
    push_tolerance: float = 1e-3
    match_tolerance: float = 1e-6
    diameter: float = field(init=False)

    def __post_init__(self) -> None:
        weights = check_weights(self.domain, self.true_weights)
        if not np.any(weights):
            raise InvalidModel("true_weights are all zero, and there is no direction to push the learner in")
        if not 0 < self.shortest_push < self.longest_push < math.inf:
            raise InvalidModel(f"pushes must be 0 < shortest < longest: {self.shortest_push}, {self.longest_push}")
        if self.method not in ("exact", "bisection"):
            raise InvalidModel(f"method must be 'exact' or 'bisection', got {self.method!r}")
        for name in ("stop_tolerance", "patience", "push_tolerance", "match_tolerance"):
            if not getattr(self, name) > 0:
                raise InvalidModel(f"{name} must be positive, got {getattr(self, name)}")
        object.__setattr__(self, "true_weights", weights)
        object.__setattr__(self, "diameter", self._diameter())

    def _diameter(self) -> float:
        """That of a box around all that policies can reach, or more."""
        limits, axes = no_limits(self.domain), np.eye(self.domain.n_reward)
        sides = [sum(best_policy(self.domain, way, limits).bound for way in (axis, -axis)) for axis in axes]
        return float(np.linalg.norm(sides))

    def open(self) -> Lesson:
        """An optimal policy, as if there were no constraints."""
        return AgnosticTeacher(self.domain, self.true_weights).open()

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next push, or why there is none to make."""
        bound = self.bound(rounds)
        reason = self._reason_to_end(rounds, bound)
        if reason:
            return close(rounds, self.true_weights, reason, bound)
        push = self.push(rounds[-1].response.expectation.reward)
        missed = f"no push of {push.size:.3g} can be realised; the policy nearest to it"
        reason = f"a push of {push.size:.3g}" if push.is_realised else missed
        return Advice(Lesson.from_policy(self.domain, push.policy), reason + doubt(bound), bound)

    def push(self, start: Vector) -> Push:
        """The lesson's policy for a learner at mu_L = start (d_r,)."""
        domain, weights, tolerance = self.domain, self.true_weights, self.match_tolerance
        ends = self.shortest_push, self.longest_push
        if self.method == "bisection":
            step = self.push_tolerance
            return bisect_push(domain, start, weights, ends, push_tolerance=step, match_tolerance=tolerance).push
        least = nearest_push(domain, start, weights, ends[0], match_tolerance=tolerance)
        if not least.is_realised:
            return least
        return largest_push(domain, start, weights, longest=ends[1], match_tolerance=tolerance)

    def bound(self, rounds: Sequence[Round]) -> float:
        """The most reward within the cuts; infinite where the answers contradict them, and so are no projections."""
        limits = cuts(self.domain, rounds, self._rounding)
        if are_contradicted(self.domain, limits, rounds):
            return math.inf
        try:
            bound = best_policy(self.domain, self.true_weights, limits).bound
        except InfeasibleConstraints:
            return math.inf
        return certified(bound, float(earned(rounds, self.true_weights).max()))

    def _rounding(self, taught: Round) -> float:
        """How far a cut may be off, anywhere within the diameter, if mu_L is known to double precision or so."""
        doubt = ROUNDING * (1 + float(np.abs(taught.response.expectation.reward).max()))
        return doubt * (1 + self.diameter / distance(taught))

    def _reason_to_end(self, rounds: Sequence[Round], bound: float) -> str:
        """Why there is nothing more to teach; nothing where there is."""
        rewards = earned(rounds, self.true_weights)
        if bound <= rewards.max() + self.stop_tolerance:
            return f"no lesson can gain {self.stop_tolerance:g} more"
        gains = np.diff(np.maximum.accumulate(rewards))[-self.patience :]
        if len(gains) == self.patience and gains.max() <= self.stop_tolerance:
            return f"no progress: of the last {self.patience} rounds none gained more than {self.stop_tolerance:g}"
        return ""
