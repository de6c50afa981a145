"""AdAware-Lin (Sec. 5.2, App. C.2): each lesson is a push from the learner's response towards the true reward.

The next lesson is mu_L + alpha w*, with the largest alpha in [shortest, longest] that some policy realises. Where no
policy realises such a push, the lesson is the policy nearest to mu_L + shortest w*. The bound is the largest reward of
any policy within the half-spaces that the responses yield (`adaptive`), which is never above that of Proposition 1.

A push of size alpha is realisable if some policy has mu_r = mu_L + alpha w*. Exactly, the largest in [0, longest] is a
constrained MDP, where the rows of B are an orthonormal basis of the complement of w*:

    maximise w* @ mu_r(pi)   subject to   B mu_r(pi) = B mu_L,   w* @ mu_r(pi) <= w* @ mu_L + longest norm_2(w*)^2

As printed (Algorithm 2, LineSearch), it is found by bisection, with one projection for every trial.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tutelage.arrays import Matrix, Vector, set_fields
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, no_limits, or_one, reward_limits
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


def _width(domain: Domain, start: Vector, match_tolerance: float) -> float:
    """The largest distance from the line that counts as on it."""
    unit = float(or_one(np.abs(domain.reward_features).max()))
    return match_tolerance * (unit + float(np.abs(start).max()))


def largest_push(
    domain: Domain, start: Vector, weights: Vector, *, longest: float, match_tolerance: float, route: Route = "auto"
) -> Push:
    """The largest realisable push of at most `longest`; raises `InfeasibleConstraints` where there is none at all."""
    basis, wide = complement(weights), _width(domain, start, match_tolerance)
    # Divided by the largest weight first, so that no square overflows.
    unit = weights / float(np.abs(weights).max())
    end = unit @ start + longest * (unit @ weights)
    offsets = np.concatenate([basis @ start + wide, wide - basis @ start, [end]])
    names = [f"row {number} of the line" for number in range(len(offsets))]
    limits = reward_limits(domain, np.vstack([basis, -basis, unit]), offsets, names)
    best = best_policy(domain, weights, limits, route=route)
    return Push(best.policy, float(unit @ (best.expectation.reward - start) / (unit @ weights)), is_realised=True)


def nearest_push(domain: Domain, start: Vector, weights: Vector, size: float, *, match_tolerance: float) -> Push:
    """The policy nearest to start + size * weights, realisable or not."""
    nearest = nearest_policy(domain, start + size * weights, no_limits(domain))
    return Push(nearest.policy, size, nearest.value <= _width(domain, start, match_tolerance))


def bisect_push(
    domain: Domain,
    start: Vector,
    weights: Vector,
    ends: tuple[float, float],
    *,
    push_tolerance: float,
    match_tolerance: float,
) -> tuple[float, float, Push]:
    """Algorithm 2 as printed, between the shortest and the longest push: both ends of its last bracket, and the lesson.

    As in print, the shortest push is the fallback whenever the *last* trial fails, even if an earlier one succeeded.
    The text of the paper asks for the largest push that succeeded.
    """
    low, high = ends
    push = Push(np.zeros(0), low, is_realised=False)
    while high - low > push_tolerance:
        push = nearest_push(domain, start, weights, (high + low) / 2, match_tolerance=match_tolerance)
        if push.is_realised:
            low = push.size
        else:
            high = push.size
    if not push.is_realised:
        push = nearest_push(domain, start, weights, ends[0], match_tolerance=match_tolerance)
    return low, high, push


@dataclass(frozen=True, eq=False)
class LineSearchTeacher(CutTeacher):
    """Pushes the learner from its response towards more reward.

    shortest_push, longest_push: the paper's alpha_min and alpha_max, in units of the true weights. method: "exact", the
    largest push by one constrained MDP, or "bisection", Algorithm 2 as printed, to within push_tolerance.
    match_tolerance: the distance, relative to the largest feature plus the size of mu_L, at which a push counts as
    realised. The rounds end when the certified bound is within stop_tolerance, a reward, of the largest reward earned,
    or when none of the last `patience` rounds gained more than stop_tolerance. diameter: of a box that contains every
    reward expectation.

    The defaults depend on the units of the domain. Pushes are from 0.1 to 5, to within 0.001, of the push that moves
    the feature with the largest true weight by the largest feature. stop_tolerance is 0.0001 of the range of the
    reward over all policies.

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
        for name, size in (("shortest_push", 0.1), ("longest_push", 5), ("push_tolerance", 1e-3)):
            if getattr(self, name) is BY_UNITS:
                set_fields(self, **{name: size * unit})
        if self.stop_tolerance is BY_UNITS:
            set_fields(self, stop_tolerance=1e-4 * self.reward_range)
        if not 0 < self.shortest_push < self.longest_push < math.inf:
            raise InvalidModel(f"pushes must be 0 < shortest < longest: {self.shortest_push}, {self.longest_push}")
        if self.method not in ("exact", "bisection"):
            raise InvalidModel(f"method must be 'exact' or 'bisection', got {self.method!r}")
        for name in ("stop_tolerance", "patience", "push_tolerance", "match_tolerance"):
            if not getattr(self, name) > 0:
                raise InvalidModel(f"{name} must be positive, got {getattr(self, name)}")
        scales = feature_scales(self.domain)
        sides = np.where(scales.is_constant, 0.0, scales.unit)[: self.domain.n_reward]
        set_fields(self, diameter=float(np.linalg.norm(sides)))

    def push(self, start: Vector) -> Push:
        """The lesson's policy for a learner at mu_L = start (d_r,)."""
        domain, weights, tolerance = self.domain, self.true_weights, self.match_tolerance
        if self.method == "bisection":
            step, ends = self.push_tolerance, (self.shortest_push, self.longest_push)
            return bisect_push(domain, start, weights, ends, push_tolerance=step, match_tolerance=tolerance)[2]
        least = nearest_push(domain, start, weights, self.shortest_push, match_tolerance=tolerance)
        if not least.is_realised:
            return least
        return largest_push(domain, start, weights, longest=self.longest_push, match_tolerance=tolerance)

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """The half-spaces of all responses that differ from their lessons."""

        def rounding(taught: Round) -> float:
            # The error of a cut anywhere within the diameter, given the accuracy of mu_L.
            error = SOLVED * (self.feature_unit + float(np.abs(taught.response.expectation.reward).max()))
            return error * (1 + self.diameter / distance(taught))

        return cuts(self.domain, rounds, rounding)

    def _next_lesson(self, rounds: Sequence[Round], best: ConstrainedOptimum | None) -> tuple[Lesson, str]:
        push = self.push(rounds[-1].response.expectation.reward)
        missed = f"the policy nearest to a push of {push.size:.3g}, which no policy realises"
        reason = f"a push of {push.size:.3g}" if push.is_realised else missed
        return Lesson.from_policy(self.domain, push.policy), reason

    def _reason_to_end(self, rewards: Vector, last: Round, best: ConstrainedOptimum | None, bound: float) -> str:
        enough = self.stop_tolerance
        if bound <= rewards.max() + enough:
            return f"no lesson can gain {enough:g} more"
        gains = np.diff(np.maximum.accumulate(rewards))[-self.patience :]
        if len(gains) == self.patience and gains.max() <= enough:
            return f"none of the last {self.patience} rounds gained more than {enough:g}"
        return ""
