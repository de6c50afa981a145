"""AdAware-Vol (Sec. 5.1, App. C.1), and what adaptive teachers share: half-spaces around the learner's feasible set.

A learner that projects onto a convex set Omega_r^L answers a lesson mu_T with the nearest point mu_L of that set. By
the variational inequality of the projection (App. C.1; the proof of Proposition 1),

    <mu_T - mu_L, x - mu_L> <= 0                              for every x in Omega_r^L

So every round yields a half-space that contains Omega_r^L, and the largest reward within all of them is a bound that no
lesson exceeds (docs/rounds.md). AdAware-Vol moves each cut towards the lesson, as a margin for noise:

    <mu_T - mu_L, x - mu_L> <= (1 - cut_tightness) norm_2(mu_T - mu_L)^2

Its next lesson is the best policy within all cuts, a constrained MDP (App. F), whose reward is the certified bound.
Once norm_2(mu_T - mu_L) <= eps, the learner's reward is at least that bound less eps * norm_2(w*) (Theorem 2).
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np

from tutelage.arrays import Flags, Vector, check_numbers, set_fields
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, reward_limits, sizes
from tutelage.model.mdp import Domain
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Advice, Lesson, Round
from tutelage.teachers.base import BY_UNITS, BaseTeacher

# A response may exceed a cut by this much, relative to the largest feature plus the cut's offset, and count as inside.
CUT_SLACK = 1e-6
# The accuracy of a response, relative to the largest feature plus its size.
SOLVED = 1e-8
# Rewards this close, relative to the reward of one step plus their size, are equal.
EQUAL_REWARD = 1e-9


def distance(taught: Round) -> float:
    """norm_2(mu_T - mu_L) of a round."""
    return float(np.linalg.norm(taught.lesson.expectation - taught.response.expectation.reward))


def cuts(domain: Domain, rounds: Sequence[Round], slack: Callable[[Round], float]) -> HalfSpaces:
    """<mu_T - mu_L, x - mu_L> <= slack * norm_2(mu_T - mu_L), one for each round in which mu_T and mu_L differ."""
    normals, offsets, names = [], [], []
    for number, taught in enumerate(rounds, start=1):
        if distance(taught) > 0:
            done = taught.response.expectation.reward
            normals.append((taught.lesson.expectation - done) / distance(taught))
            offsets.append(float(normals[-1] @ done) + slack(taught))
            names.append(f"the cut of round {number}")
    return reward_limits(domain, np.reshape(normals, (-1, domain.n_reward)), np.array(offsets), names)


def are_contradicted(domain: Domain, limits: HalfSpaces, rounds: Sequence[Round]) -> bool:
    """Whether a response lies outside a cut, so that the responses cannot all be projections."""
    done = np.array([taught.response.expectation.reward for taught in rounds])
    excess = limits.normals[:, : domain.n_reward] @ done.T - limits.offsets[:, None]
    largest = sizes(domain)[: domain.n_reward].max()
    allowed = CUT_SLACK * (largest / domain.mdp.steps + np.abs(limits.offsets)) + SOLVED * largest
    return bool((excess > allowed[:, None]).any())


def mean_rewards(rounds: Sequence[Round], true_weights: Vector) -> Vector:
    """(n,), the reward of each round's lesson, averaged over all rounds in which the learner saw the same lesson."""
    rewards = np.array([taught.response.expectation.reward for taught in rounds]) @ true_weights
    same = _is_same_lesson(rounds)
    return np.asarray(same @ rewards / same.sum(axis=1))


def doubt(bound: float) -> str:
    """What to add to a reason where nothing is certified."""
    return "" if bound < math.inf else "; the responses are not projections onto one convex set: nothing is certified"


def close(rounds: Sequence[Round], rewards: Vector, ended: Advice, unit: float) -> Advice:
    """End the rounds if the last lesson was the best one; otherwise repeat the best lesson with its demonstrations.

    rewards: `mean_rewards`. unit: that of one step. Without a certified bound, a lesson taught once is repeated too.
    """
    best = int(rewards.argmax())
    is_last = rewards[-1] >= rewards[best] - EQUAL_REWARD * (unit + abs(rewards[best]))
    if is_last and (ended.bound < math.inf or _is_same_lesson(rounds)[-1].sum() > 1):
        return ended
    again = f"{ended.reason}; the best lesson again, that of round {best + 1}"
    return Advice(rounds[best].response.lesson, again, ended.bound)


def _is_same_lesson(rounds: Sequence[Round]) -> Flags:
    """(n, n), whether the learner saw the same lesson in both rounds."""
    seen = np.array([taught.response.lesson.expectation for taught in rounds])
    return np.asarray((seen[:, None] == seen[None]).all(axis=2))


@dataclass(frozen=True, eq=False)
class CutTeacher(BaseTeacher):
    """A teacher whose bound is the largest reward within cuts. A subclass has cuts, lessons and reasons to end."""

    # Of the projection from which the cuts follow: `teach` compares it with the learner's.
    assumed_norm: ClassVar[float] = 2

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """The half-spaces that contain the learner's feasible set."""
        raise NotImplementedError

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        ended, best = self._assessed(rounds)
        if ended.reason:
            return self._end(rounds, ended)
        lesson, reason = self._next_lesson(rounds, best)
        return Advice(lesson, reason + doubt(ended.bound), ended.bound)

    def certify(self, rounds: Sequence[Round]) -> Advice:
        """The bound after the last round, and the reason to stop if there is one, without a lesson."""
        return self._assessed(rounds)[0]

    def _assessed(self, rounds: Sequence[Round]) -> tuple[Advice, ConstrainedOptimum | None]:
        """The bound, with the reason to stop if there is one; and the best policy within the cuts, if there is any."""
        limits = self.estimate(rounds)
        best, bound = None, math.inf
        rewards = mean_rewards(rounds, self.true_weights)
        with suppress(InfeasibleConstraints):
            best = best_policy(self.domain, self.true_weights, limits)
            # A learner that has earned more than every policy within the cuts contradicts them as well.
            excess = rewards.max() - best.bound - CUT_SLACK * (self.reward_unit + abs(best.bound))
            if excess <= 0 and not are_contradicted(self.domain, limits, rounds):
                bound = best.bound
        reason = self._reason_to_end(rewards, rounds[-1], best, bound)
        return Advice(None, reason + doubt(bound) if reason else "", bound), best

    def _end(self, rounds: Sequence[Round], ended: Advice) -> Advice:
        return close(rounds, mean_rewards(rounds, self.true_weights), ended, self.reward_unit)

    def _next_lesson(self, rounds: Sequence[Round], best: ConstrainedOptimum | None) -> tuple[Lesson, str]:
        raise NotImplementedError

    def _reason_to_end(self, rewards: Vector, last: Round, best: ConstrainedOptimum | None, bound: float) -> str:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class VolumeSearchTeacher(CutTeacher):
    """Maintains an estimate of the learner's feasible set and shows the best policy within it.

    cut_tightness: in (0, 1], the paper's eta; 1 cuts at the learner's response, near 0 at the lesson.
    stop_tolerance: eps; the rounds end when the response is this close to the lesson. By default 0.001 of the range of
    the reward over all policies, divided by norm_2(w*), so that at most 0.001 of that range is not gained.
    method: "exact" also ends when no policy within the cuts can gain more than eps * norm_2(w*), and repeats its best
    lesson before it ends. "printed" is App. C.1: it does neither.

    The bound is certified for a learner that projects exactly, in the 2-norm, onto a convex set, until a response lies
    outside the cuts. When these then leave less reward than the learner has earned, or no policy at all, "exact"
    repeats its best lesson and ends; "printed" continues while a policy is within the cuts.
    """

    cut_tightness: float = 0.9
    stop_tolerance: float = BY_UNITS
    method: Literal["exact", "printed"] = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stop_tolerance is BY_UNITS:
            norm = float(np.linalg.norm(self.true_weights))
            set_fields(self, stop_tolerance=1e-3 * (self.reward_range / norm if norm > 0 else self.feature_unit))
        check_numbers(self, "cut_tightness", least=0.0)
        if not 0 < self.cut_tightness <= 1:
            raise InvalidModel(f"cut_tightness must lie in (0, 1], got {self.cut_tightness}")
        check_numbers(self, "stop_tolerance")
        self._check_choice("method", "exact", "printed")

    def estimate(self, rounds: Sequence[Round]) -> HalfSpaces:
        """The estimate of the feasible set: a cut for each round whose response differs from the lesson."""
        differing = [taught for taught in rounds if distance(taught) > self.stop_tolerance]
        return cuts(self.domain, differing, lambda taught: (1 - self.cut_tightness) * distance(taught))

    def _end(self, rounds: Sequence[Round], ended: Advice) -> Advice:
        return ended if self.method == "printed" else super()._end(rounds, ended)

    def _next_lesson(self, rounds: Sequence[Round], best: ConstrainedOptimum | None) -> tuple[Lesson, str]:
        n_cuts = len(self.estimate(rounds))
        lesson = Lesson.from_policy(self.domain, cast(ConstrainedOptimum, best).policy)
        return lesson, f"the best policy within {n_cuts} cut{'' if n_cuts == 1 else 's'}"

    def _reason_to_end(self, rewards: Vector, last: Round, best: ConstrainedOptimum | None, bound: float) -> str:
        if best is None:
            return "no policy is within the cuts"
        if distance(last) <= self.stop_tolerance:
            return f"the learner matches the lesson within {self.stop_tolerance:g}"
        least_gain = self.stop_tolerance * float(np.linalg.norm(self.true_weights))
        if best.bound - rewards.max() <= least_gain and self.method == "exact":
            return f"no lesson can gain {least_gain:.3g} more"
        return ""
