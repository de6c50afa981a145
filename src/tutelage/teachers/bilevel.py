"""Aware-BiL (Sec. 4.2, App. G), exactly: the teacher that knows the learner's preferences and penalties.

    maximise over lessons   w* @ mu_r(pi_L)   where   pi_L is the learner's response to the lesson

The learner's reward weights a determine its response (`learners.dual`). Where M* is flat, the expectation mu_r(a) of
that response is a lesson that leads the learner to a. With an allowance or a squared penalty M* is not flat, and the
lessons that lead to a are mu_r(a) + d M*(-a) / d a, which a policy must be able to show. `climbing` searches both, the
best local maximum is verified by the learner's own response, and `bounding` certifies how much more any lesson could
achieve.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Vector, check_numbers, generator
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy, require_feasible
from tutelage.constrained.problem import no_limits, or_one
from tutelage.convex.blocks import Block
from tutelage.learners.dual import Dual, Reduction
from tutelage.learners.exact import GenericLearner
from tutelage.learners.penalties import Tangents
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InfeasibleConstraints, InvalidModel, NotConverged, OnProgress, OutOfTime, TutelageError
from tutelage.roles import CertifiedResponse, Lesson, Opening, is_exact, keeps_limits
from tutelage.teachers.base import KnownEntropyLearner, OneLessonTeacher, Plan, best_kept, check_known, optimal_lesson
from tutelage.teachers.bounding import MOST_DIMENSIONS, search
from tutelage.teachers.climbing import Effort, LessonSearch, LocalOptimum, ReducedProblem, distinct, sign_patterns
from tutelage.teachers.printed_bilevel import check_soft, printed_bilevel


@dataclass(frozen=True, slots=True, eq=False)
class BilevelPlan(Plan):
    """The plan of Aware-BiL. optima: every local maximum found, best first. n_cells: cells searched for the bound."""

    optima: tuple[LocalOptimum, ...]
    n_cells: int


@dataclass(frozen=True, eq=False)
class BilevelTeacher(OneLessonTeacher):
    """Aware-BiL for any learner of Eq. 1.

    method: "exact", or "frank-wolfe" for Appendix G as printed. n_random: the number of random starts beside the
    paper's two starts and the sign corners. max_cells: how many cells to search for the bound. With none, the bound is
    the reward of the best policy, within the preferences where the learner keeps them. largest_weight: the largest of
    a learner that must match exactly. rng: an int or a Generator, for random starts. effort: how long to climb.
    """

    learner: KnownEntropyLearner
    method: Literal["exact", "frank-wolfe"] = "exact"
    n_random: int = 4
    max_cells: int = 64
    largest_weight: float = 100.0
    rng: int | np.random.Generator = field(default=0, kw_only=True)
    effort: Effort = field(default=Effort(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self.domain, self.learner)
        if not hasattr(self.learner, "mismatch"):
            raise InvalidModel(f"{type(self.learner).__name__} has no mismatch penalty; use AwareCmdpTeacher")
        self._check_choice("method", "exact", "frank-wolfe")
        check_numbers(self, "n_random", "max_cells", least=0, is_whole=True)
        check_numbers(self, "largest_weight")
        if self.method == "frank-wolfe":
            check_soft(self.learner)
        generator(self.rng)

    def open(self) -> Opening:
        """The lesson with the largest reward, and the certified bound."""
        plan = self.bounded(self.lesson_plan())
        reason = f"the lesson that leads this learner to the largest reward{self._needless}"
        return Opening(plan.lesson, reason, plan.bound)

    def plan(self, *, time_limit: float | None = None, progress: OnProgress | None = None) -> BilevelPlan:
        """The lesson, the local maxima it was chosen from, the learner's response, and the certified bound.

        At the time limit, in seconds, the best lesson so far with the bound so far; raises `OutOfTime` where there is
        no lesson yet. Raises `InfeasibleConstraints` where no policy keeps the learner's hard preferences.
        """
        with outcomes.watched(time_limit, progress):
            return self.bounded(self.lesson_plan())

    def lesson_plan(self) -> BilevelPlan:
        """The plan before any search for a tight bound: its bound is that of the best policy (see `max_cells`)."""
        domain, preference = self.learner.domain, self.learner.preference
        if preference.is_hard:
            require_feasible(domain, Tangents.opening(preference.on(domain)).half_spaces())
        shown = [optimal_lesson(self.domain, self.true_weights)]
        if self.method == "frank-wolfe":
            inferred = self.learner.respond(shown[0]).feature_weights
            start = np.zeros(domain.n_reward) if inferred is None else inferred[: domain.n_reward]
            printed = printed_bilevel(self.learner, self.true_weights, start)
            return self._verified([printed], self._unconstrained_bound())
        aware = None
        # It may be impossible to keep all preferences of a soft learner, or to plan for them closely or in time.
        with suppress(NotConverged, *(() if preference.is_hard else (InfeasibleConstraints,))):
            aware = best_kept(self.learner, self.true_weights)
            shown.append(Lesson.from_policy(self.domain, aware.policy))
        bound = aware.bound if aware is not None and keeps_limits(self.learner) else self._unconstrained_bound()
        starts, others = self._starts(shown) if self._is_flat else self._lessons(shown)
        return self._verified(self._problem.climb(starts, others), bound)

    def bounded(self, plan: BilevelPlan) -> BilevelPlan:
        """The same plan with the bound that branch and bound certifies; a better lesson if the search finds one."""
        is_searched = math.isfinite(self._mismatch_set.radius) and self.domain.n_reward <= MOST_DIMENSIONS
        if self.max_cells == 0 or not is_searched or np.abs(self.true_weights).max() <= np.finfo(np.float64).tiny:
            return plan
        unit = self.reward_unit
        achieved, bound = plan.achieved / unit, plan.bound / unit
        ceiling = search(self._problem, achieved=achieved, ceiling=bound, max_cells=self.max_cells)
        if self.method == "exact" and self._is_flat and ceiling.answer is not None:
            # Branch and bound evaluated a point that is better than the best local optimum: climb from there.
            with suppress(OutOfTime):
                plan = self._verified([*plan.optima, *self._problem.climb([ceiling.answer], [])], plan.bound)
        # What the search proves holds for the optimum of the penalties, not for an ascent that ends before it.
        proved = unit * ceiling.bound if is_exact(self.learner) else plan.bound
        return replace(plan, bound=max(proved, plan.achieved), n_cells=ceiling.n_steps)

    def _verified(self, maxima: list[LocalOptimum], bound: float) -> BilevelPlan:
        """The plan of the best local optimum, verified by the learner's own response to its lesson."""
        optima = distinct(maxima)
        if not optima:
            raise NotConverged("the learner responds to none of the lessons tried", residual=math.inf, n_steps=0)
        lesson = Lesson.from_policy(self.domain, optima[0].policy)
        with outcomes.unlimited():
            try:
                response = self.learner.respond(lesson)
            except NotConverged as failure:
                if not isinstance(self.learner, GenericLearner) or not isinstance(failure.answer, CertifiedResponse):
                    raise
                # Where rounding keeps the learner from its optimum, it starts from the planned weights.
                weights = [optima[0].weights, failure.answer.learned_weights[self.domain.n_reward :]]
                planned = replace(failure.answer, learned_weights=np.concatenate(weights))
                response = self.learner.respond(lesson, start=planned)
        achieved = float(self.true_weights @ response.expectation.reward)
        return BilevelPlan(lesson, response, optima[0].reward, achieved, max(bound, achieved), tuple(optima), 0)

    @property
    def _mismatch_set(self) -> Block:
        return self.learner.mismatch.block(self.learner.domain)

    @property
    def _is_flat(self) -> bool:
        """Whether M* is flat on its set, so that the expectation of a response is its own lesson."""
        return not self._mismatch_set.slope.any() and self._mismatch_set.curvature == 0

    @property
    def _problem(self) -> ReducedProblem:
        """Over the learner's weights where M* is flat, over lessons where it is not."""
        block = self._mismatch_set
        if math.isinf(block.radius):
            block = replace(block, radius=self.largest_weight, norm=math.inf)
        dual = Dual.of(self.learner.domain, self.learner.mismatch, self.learner.preference)
        weights = self.true_weights / self.reward_unit
        given = (Reduction(dual.constraints), block, weights, self.effort, self.reward_unit)
        return ReducedProblem(*given) if self._is_flat else LessonSearch(*given, dual=dual)

    def _starts(self, shown: list[Lesson]) -> tuple[list[Vector], list[Vector]]:
        """Zero, the weights that the learner infers from the lessons of the other teachers, and w*.

        And random points, and corners, edges and faces where w* leads out of the mismatch set: no others have more.
        """
        d_r, block = self.domain.n_reward, self._problem.block
        ahead = self.true_weights / float(or_one(np.abs(self.true_weights).max()))
        starts = [np.zeros(d_r), block.radius * ahead]
        for lesson in shown:
            # Some learners cannot respond to every lesson, or not soon; such a lesson yields no start.
            with suppress(TutelageError), outcomes.spending(outcomes.Budget(self.effort.n_look)):
                weights = self.learner.respond(lesson).feature_weights
                if weights is not None:
                    starts.insert(-1, weights[:d_r])
        rng = generator(self.rng)
        patterns = sign_patterns(d_r, rng)
        outward = [signs for signs in patterns if (signs * np.sign(ahead)).max() == 1]
        others = [*outward, *rng.uniform(-1, 1, (self.n_random, d_r))]
        return [block.contain(a) for a in starts], [block.contain(block.radius * point) for point in others]

    def _lessons(self, shown: list[Lesson]) -> tuple[list[Vector], list[Vector]]:
        """The lessons of the other teachers and of the uniform policy; and extreme lessons."""
        domain = self.learner.domain
        uniform = expectation(domain, uniform_policy(domain.mdp)).reward
        patterns = sign_patterns(domain.n_reward, generator(self.rng))
        corners = [best_policy(domain, signs, no_limits(domain)) for signs in patterns if signs.all()]
        return [*(lesson.expectation for lesson in shown), uniform], [best.expectation.reward for best in corners]

    def _unconstrained_bound(self) -> float:
        with outcomes.unlimited():
            return best_policy(self.domain, self.true_weights, no_limits(self.domain)).bound
