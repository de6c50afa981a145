"""AdAware-Lin (Sec. 5.2, App. C.2): each lesson is a push from the learner's response towards the true reward.

The next lesson is mu_L + alpha w*, with the largest alpha in [shortest, longest] that some policy realises. Where no
policy realises such a push, the lesson is the policy nearest to mu_L + shortest w*. The bound is the largest reward of
any policy within the half-spaces that the responses yield (`adaptive`), which is never above that of Proposition 1.
Exactly, the largest push is a constrained MDP, with the rows of B an orthonormal basis of the complement of w*:

    maximise w* @ mu_r(pi)   subject to   B mu_r(pi) = B mu_L,   w* @ mu_r(pi) <= w* @ mu_L + longest norm_2(w*)^2
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tutelage.arrays import Matrix, Vector, check_numbers, set_fields
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, no_limits, reward_limits
from tutelage.inference.recovery import feature_scales
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson, Round
from tutelage.teachers.adaptive import SOLVED, CutTeacher, cuts, distance
from tutelage.teachers.base import BY_UNITS


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """A policy (C,) for mu_L + size * w*: one that realises it within the tolerance, or the nearest one."""

    policy: Vector
    size: float
    is_realised: bool


def complement(weights: Vector) -> Matrix:
    """(d_r - 1, d_r), an orthonormal basis of the directions orthogonal to the weights."""
    return np.asarray(np.linalg.svd(weights[None] / float(np.abs(weights).max()))[2][1:])


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The pushes from start = mu_L (d_r,) along the weights (d_r,). width: how far from it counts as on it."""

    domain: Domain
    start: Vector
    weights: Vector
    width: float

    def nearest(self, size: float) -> Push:
        """The policy nearest to start + size * weights, realisable or not."""
        nearest = nearest_policy(self.domain, self.start + size * self.weights, no_limits(self.domain))
        return Push(nearest.policy, size, nearest.value <= self.width)

    def largest(self, longest: float) -> Push:
        """The largest realisable push of at most `longest`; raises `InfeasibleConstraints` where there is none."""
        basis = complement(self.weights)
        middle = basis @ self.start
        # Divided by the largest weight first, so that no square overflows.
        unit = self.weights / float(np.abs(self.weights).max())
        length = float(unit @ self.weights)
        offsets = np.concatenate([middle + self.width, self.width - middle, [unit @ self.start + longest * length]])
        names = [f"row {number} of the line" for number in range(len(offsets))]
        limits = reward_limits(self.domain, np.vstack([basis, -basis, unit]), offsets, names)
        best = best_policy(self.domain, self.weights, limits)
        return Push(best.policy, float(unit @ (best.expectation.reward - self.start)) / length, is_realised=True)

    def bisected(self, shortest: float, longest: float, tolerance: float) -> tuple[float, float, Push]:
        """Algorithm 2 as printed: both ends of its last bracket, and the lesson.

        As in print, the shortest push wherever the *last* trial fails; the paper's text asks for the largest success.
        """
        low, high = shortest, longest
        push = Push(np.zeros(0), low, is_realised=False)
        while high - low > tolerance:
            push = self.nearest((high + low) / 2)
            if push.is_realised:
                low = push.size
            else:
                high = push.size
        return low, high, push if push.is_realised else self.nearest(shortest)


@dataclass(frozen=True, eq=False)
class LineSearchTeacher(CutTeacher):
    """Pushes the learner from its response towards more reward.

    shortest_push, longest_push: the paper's alpha_min and alpha_max, in units of the true weights. method: "exact", the
    largest push by one constrained MDP, or "bisection", Algorithm 2 as printed, to within push_tolerance.
    match_tolerance: the distance, relative to the largest feature plus the size of mu_L, at which a push counts as
    realised. The rounds end when the certified bound is within stop_tolerance, a reward, of the largest reward earned,
    or when none of the last `patience` rounds gained more than stop_tolerance. diameter: of a box that contains every
    reward expectation.

    By default pushes are from 0.1 to 5, to within 0.001, of the one that moves the feature with the largest true weight
    by the largest feature, and stop_tolerance is 0.0001 of the range of the reward over all policies.

    For a learner that projects exactly, in the 2-norm, onto a convex set, the reward never falls after a push and the
    bound is certified. Where the responses contradict that, the bound is infinite: nothing is certified.
    """

    shortest_push: float = BY_UNITS
    longest_push: float = BY_UNITS
    method: Literal["exact", "bisection"] = "exact"
    stop_tolerance: float = BY_UNITS
    patience: int = 8
    push_tolerance: float = BY_UNITS
    match_tolerance: float = 1e-6
    diameter: float = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.abs(self.true_weights).max() <= np.finfo(np.float64).tiny:
            raise InvalidModel("true_weights are all zero, so there is no direction to push the learner in")
        unit = self.feature_unit / float(np.abs(self.true_weights).max())
        sizes = {"shortest_push": 0.1 * unit, "longest_push": 5 * unit, "push_tolerance": 1e-3 * unit}
        if self.stop_tolerance is BY_UNITS:
            sizes["stop_tolerance"] = 1e-4 * self.reward_range
        set_fields(self, **{name: size for name, size in sizes.items() if getattr(self, name) is BY_UNITS})
        check_numbers(self, "shortest_push", "longest_push", least=0.0)
        if not 0 < self.shortest_push < self.longest_push:
            raise InvalidModel(f"pushes must be 0 < shortest < longest: {self.shortest_push}, {self.longest_push}")
        self._check_choice("method", "exact", "bisection")
        check_numbers(self, "patience", least=1, is_whole=True)
        check_numbers(self, "stop_tolerance", "push_tolerance", "match_tolerance")
        scales = feature_scales(self.domain)
        sides = np.where(scales.is_constant, 0.0, scales.unit)[: self.domain.n_reward]
        set_fields(self, diameter=float(np.linalg.norm(sides)))

    def line(self, start: Vector) -> Line:
        """The pushes of a learner at mu_L = start (d_r,)."""
        width = self.match_tolerance * (self.feature_unit + float(np.abs(start).max()))
        return Line(self.domain, start, self.true_weights, width)

    def push(self, start: Vector) -> Push:
        """The lesson's policy for a learner at mu_L = start (d_r,)."""
        line = self.line(start)
        if self.method == "bisection":
            return line.bisected(self.shortest_push, self.longest_push, self.push_tolerance)[2]
        least = line.nearest(self.shortest_push)
        return line.largest(self.longest_push) if least.is_realised else least

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """The half-spaces of all responses that differ from their lessons."""

        def rounding(taught: Round) -> float:
            # The error of a cut anywhere within the diameter, given the accuracy of mu_L.
            error = SOLVED * (self.feature_unit + float(np.abs(taught.response.expectation.reward).max()))
            return error * (1 + self.diameter / distance(taught))

        return cuts(self.domain, rounds, rounding)

    def _next_lesson(self, rounds: Sequence[Round], best: ConstrainedOptimum | None) -> tuple[Lesson, str]:
        push = self.push(rounds[-1].response.expectation.reward)
        reason = f"a push of {push.size:.3g}"
        if not push.is_realised:
            reason = f"the policy nearest to {reason}, which no policy realises"
        return Lesson.from_policy(self.domain, push.policy), reason

    def _reason_to_end(self, rewards: Vector, last: Round, best: ConstrainedOptimum | None, bound: float) -> str:
        enough = self.stop_tolerance
        if bound <= rewards.max() + enough:
            return f"no lesson can gain {enough:g} more"
        gains = np.diff(np.maximum.accumulate(rewards))[-self.patience :]
        if len(gains) == self.patience and gains.max() <= enough:
            return f"none of the last {self.patience} rounds gained more than {enough:g}"
        return ""
