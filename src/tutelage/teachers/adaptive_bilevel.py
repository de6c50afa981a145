"""AdAware-BiL: the teacher of a soft learner whose penalties, allowances and preferences are unknown.

It opens as the agnostic teacher does. After each answer `infer_learner` determines what all answers say about
theta = (C_r, C_c, delta), and the exact bi-level method plans for the simplest learner that explains them: the middle
of the interval of C_r, the least C_c, the largest delta, no preference that no answer needs. The rounds end when that
plan promises no more reward than the learner has earned, which is so once it answers as predicted. Then
`robust_bounding` certifies what no learner of the version space can exceed (docs/inference.md).

Where the answers contradict every soft learner, it plans for the one with the least misfit. A teacher that sees only
mu_r, or the mean of sampled trajectories, shows lessons that tell more, and looks longer for other learners that
explain the answers before it ends.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from tutelage.arrays import Vector, check_numbers, set_fields
from tutelage.bellman.soft_expectations import soft_expansion
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import reward_limits
from tutelage.inference.answering import answers_of
from tutelage.inference.fit_search import Effort
from tutelage.inference.learner_estimate import LearnerEstimate, Observed, estimate_from
from tutelage.inference.recovery import count_covariance, feature_scales
from tutelage.learners.exact import SoftLearner
from tutelage.model.mdp import combined_features
from tutelage.outcomes import TutelageError
from tutelage.roles import Advice, CertifiedResponse, Lesson, Opening, Round
from tutelage.teachers.adaptive import close, mean_rewards
from tutelage.teachers.base import BaseTeacher, optimal_lesson
from tutelage.teachers.bilevel import BilevelPlan, BilevelTeacher
from tutelage.teachers.robust_bounding import robust_bound

# The search for a fit of samples, or of mu_r alone, in each round and before the rounds end.
OF_SAMPLES = Effort(n_steps=2_000, n_more=1_500)
OF_REWARDS = Effort(n_steps=2_000, n_straight=600, n_more=1_500, n_more_paths=4)
# In the range of each feature: the same lesson; one that tells more than others; and how far beyond a planned response.
SAME, NEW, BEYOND = 1e-7, 0.01, 0.1
# Rounds with a learner that no soft learner explains, before the best lesson is repeated.
N_FOREIGN = 4
# A promise of this share of the standard error of an answer's reward is worth a round.
WORTHWHILE = 0.25


@dataclass(frozen=True, eq=False)
class AdaptiveBilevelTeacher(BaseTeacher):
    """AdAware-BiL for a learner of Sec. 3.2 with unknown parameters.

    observed: what the teacher sees of each answer, "expectation" for all of mu or "reward" for mu_r alone.
    n_trajectories: each answer is the mean of this many trajectories of the learner; 0 where it is exact.
    stop_tolerance: the rounds end when no lesson promises this much more, relative to the range of the reward over all
    policies. max_cells: how many cells to search for the certified bound, at the end; before, it is the best policy's.
    n_random: the number of random starts of each plan. The bound is certified for every soft learner that gives
    the answers seen. Where they contradict every soft learner, the bound is the reward of the best policy.
    """

    observed: Observed = "expectation"
    n_trajectories: int = 0
    stop_tolerance: float = 1e-4
    max_cells: int = 24
    n_random: int = 2
    ceiling: float = field(init=False, repr=False)
    span: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("observed", "expectation", "reward")
        check_numbers(self, "stop_tolerance")
        check_numbers(self, "max_cells", "n_random", "n_trajectories", least=0, is_whole=True)
        least, most = self.reward_ends
        size = 1 + abs(most)
        set_fields(self, ceiling=most + 1e-9 * size, span=max(most - least, 1e-12 * size))

    def open(self) -> Opening:
        """An optimal policy of the unconstrained MDP."""
        return replace(super().open(), bound=self.ceiling)

    @property
    def _is_exact(self) -> bool:
        """Whether answers are seen whole and without noise."""
        return self.observed == "expectation" and not self.n_trajectories

    def estimate(self, rounds: Sequence[Round], **search: Any) -> LearnerEstimate:
        """What the rounds say about the learner. search: how long to search for fits, as of `estimate_from`."""
        return estimate_from(self.domain, rounds, observed=self.observed, n_trajectories=self.n_trajectories, **search)

    @property
    def _effort(self) -> Effort:
        return OF_SAMPLES if self.n_trajectories else OF_REWARDS

    @property
    def _ranges(self) -> Vector:
        """(d_r,), of each reward feature's expectation."""
        return feature_scales(self.domain).unit[: self.domain.n_reward]

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The lesson for the most optimistic learner that explains the answers, or the reason to stop."""
        rewards = mean_rewards(rounds, self.true_weights)
        telling = None
        try:
            estimate = self.estimate(rounds, effort=self._effort, has_intervals=False)
            plan, reason = self._planned(rounds, estimate, estimate.plausible)
            if reason and not self._is_exact:
                estimate, plan, reason = self._further(rounds, estimate, plan, reason)
            rewards = self._rewards(rounds, estimate, estimate.learner())
            # If no learner explains the answers and the last lesson failed, the next plan is a mere guess.
            has_failed = estimate.contradiction != "" and rewards[-1] < rewards.max()
            if (reason or has_failed) and not self._is_exact:
                is_open = reason != "" and self._is_open(rounds, estimate)
                telling = self._telling(rounds, float(rewards.max()), is_open=is_open)
        except TutelageError as failure:
            ended = Advice(None, f"no lesson could be planned: {failure}", self.ceiling)
            return close(rounds, rewards, ended, self.reward_unit)
        doubt = f"; {estimate.contradiction}: nothing is certified" if estimate.contradiction else ""
        if telling is not None:
            return Advice(telling, f"the best policy for other weights, which tells more{doubt}", self.ceiling)
        if reason:
            ended = Advice(None, reason + doubt, self.bound(estimate, float(rewards.max())))
            return close(rounds, rewards, ended, self.reward_unit)
        # The learner planned for gives the answers seen, so no bound is below what the plan promises.
        promised = f"the best lesson for the learner inferred, {plan.predicted:.4g} predicted{doubt}"
        return Advice(plan.lesson, promised, self.ceiling)

    def certify(self, rounds: Sequence[Round]) -> Advice:
        """The bound after the last round, without a plan."""
        if not self._is_exact:
            return Advice(None, "", self.ceiling)
        earned = float(mean_rewards(rounds, self.true_weights).max())
        return Advice(None, "", self.bound(self.estimate(rounds), earned))

    def _further(
        self, rounds: Sequence[Round], estimate: LearnerEstimate, plan: BilevelPlan, reason: str
    ) -> tuple[LearnerEstimate, BilevelPlan, str]:
        """After a longer search: the estimate, a plan for the first rival that promises more, and no reason to end."""
        longer = self.estimate(rounds, effort=self._effort, begun=estimate.searches, has_intervals=False)
        rivals = [] if np.array_equal(longer.plausible, estimate.plausible) else [longer.plausible]
        # After this many rounds no lesson is planned for learners that do not explain the answers.
        if not (longer.contradiction and len(rounds) >= self.domain.n_preference + 3):
            rivals += longer.rivals
        for rival in rivals:
            other, objection = self._planned(rounds, longer, rival)
            if not objection:
                return longer, other, ""
        return longer, plan, reason

    def _plan_for(self, learner: SoftLearner) -> BilevelPlan:
        teacher = BilevelTeacher(self.domain, self.true_weights, learner, n_random=self.n_random, max_cells=0)
        plan = teacher.lesson_plan()
        return plan if self._is_exact else replace(plan, lesson=self._beyond(plan, learner))

    def _beyond(self, plan: BilevelPlan, learner: SoftLearner) -> Lesson:
        """A lesson with the same response, beyond it in every feature k with a_k = +-C_r.

        The response, with a_k = C_r sign(mu_hat_k - mu_k), misses it and so shows C_r, whatever the noise of samples.
        """
        domain, unit = self.domain, self._ranges
        weights = _weights(plan)[: domain.n_reward]
        side = np.where(np.abs(weights) >= (1 - 1e-6) * learner.mismatch_penalty, np.sign(weights), 0.0)
        if not side.any():
            return plan.lesson
        start = plan.response.expectation.reward / unit
        ends = np.concatenate([start, -start]) + BEYOND * np.maximum(np.append(side, -side), 0) + SAME
        normals = np.vstack([np.diag(1 / unit), -np.diag(1 / unit)])
        limits = reward_limits(domain, normals, ends, [f"end {k} of the lesson" for k in range(len(ends))])
        with suppress(TutelageError):
            return Lesson.from_policy(domain, best_policy(domain, side / unit, limits).policy)
        return plan.lesson

    def bound(self, estimate: LearnerEstimate, earned: float) -> float:
        """Certified: no lesson gets more reward from any soft learner that gives the answers seen."""
        if not self._is_exact or estimate.contradiction or estimate.violation_penalty.low == 0 or self.max_cells == 0:
            return self.ceiling
        return robust_bound(
            estimate,
            self.true_weights,
            achieved=earned,
            ceiling=self.ceiling,
            max_cells=self.max_cells,
            tolerance=self.stop_tolerance * self.span,
        )

    def _planned(self, rounds: Sequence[Round], estimate: LearnerEstimate, theta: Vector) -> tuple[BilevelPlan, str]:
        """The plan for a learner, and why it is not worth a round, or an empty string."""
        learner = estimate.learner_of(theta)
        plan = self._plan_for(learner)
        return plan, self._reason_to_end(rounds, plan, self._rewards(rounds, estimate, learner), estimate)

    def _rewards(self, rounds: Sequence[Round], estimate: LearnerEstimate, learner: SoftLearner) -> Vector:
        """(n,), the reward of each round's lesson, as seen; of samples, as earned by the learner that explains all."""
        if not self.n_trajectories or not estimate.explains:
            return mean_rewards(rounds, self.true_weights)
        shown = np.array([taught.response.lesson.expectation for taught in rounds])
        allowance = learner.preference.on(self.domain).allowance
        theta = np.array([learner.mismatch_penalty, learner.violation_penalty, *allowance])
        answers = answers_of(self.domain, theta, shown, 0.0, None, accuracy=1e-8)
        return np.asarray(answers.expectation[:, : self.domain.n_reward] @ self.true_weights)

    def _reason_to_end(
        self, rounds: Sequence[Round], plan: BilevelPlan, rewards: Vector, estimate: LearnerEstimate
    ) -> str:
        # A fit that misses an answer promises nothing; its lesson tells more.
        is_blind = not self._is_exact and estimate.contradiction != ""
        gain = plan.achieved - float(rewards.max())
        if not is_blind and gain <= max(self.stop_tolerance * self.span, WORTHWHILE * self._noise(plan)):
            return "the learner answers as predicted, and no lesson promises more"
        if self._is_known(rounds, plan.lesson, NEW if is_blind else SAME):
            return "the best lesson for the learner inferred was taught before"
        is_foreign = estimate.contradiction and self.observed == "expectation"
        most = self.domain.n_preference + (3 if self._is_exact or is_blind else 4)
        if len(rounds) >= (N_FOREIGN if is_foreign else most):
            return f"{len(rounds)} rounds did not determine the learner"
        return ""

    def _is_open(self, rounds: Sequence[Round], estimate: LearnerEstimate) -> bool:
        """Whether mu_r alone was seen, and no learner found explains it or it is fewer numbers than theta has."""
        is_few = len(rounds) * self.domain.n_reward < 2 + self.domain.n_preference
        return self.observed == "reward" and (is_few or estimate.contradiction != "")

    def _telling(self, rounds: Sequence[Round], earned: float, *, is_open: bool) -> Lesson | None:
        """A new best policy for one feature alone, if it earns more. is_open: any, or for random multiples of all."""
        domain, weights = self.domain, self.true_weights
        if len(rounds) >= domain.n_preference + 3:
            return None
        lessons = [optimal_lesson(domain, own) for own in np.diag(weights)[weights != 0]]
        lessons.sort(key=lambda lesson: -float(weights @ lesson.expectation))
        if is_open:
            multiples = np.random.default_rng(len(rounds)).exponential(size=(2, domain.n_reward))
            lessons += [optimal_lesson(domain, weights * multiple) for multiple in multiples]
        else:
            lessons = [lesson for lesson in lessons if weights @ lesson.expectation > earned]
        return next((lesson for lesson in lessons if not self._is_known(rounds, lesson, NEW)), None)

    def _is_known(self, rounds: Sequence[Round], lesson: Lesson, tolerance: float) -> bool:
        shown = np.array([taught.lesson.expectation for taught in rounds])
        return bool((np.abs(shown - lesson.expectation) <= tolerance * self._ranges).all(axis=1).any())

    def _noise(self, plan: BilevelPlan) -> float:
        """One standard error of the reward seen; zero where answers are exact."""
        if not self.n_trajectories:
            return 0.0
        domain = self.domain
        soft = soft_expansion(domain.mdp, combined_features(domain), _weights(plan))
        weights = np.append(self.true_weights, np.zeros(domain.n_preference))
        variance = float(weights @ count_covariance(domain, soft) @ weights)
        return math.sqrt(max(variance, 0.0) / self.n_trajectories)


def _weights(plan: BilevelPlan) -> Vector:
    """(d_r + d_c,), the weights that a soft learner infers."""
    return cast(CertifiedResponse, plan.response).learned_weights
