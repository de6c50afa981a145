"""The teacher that knows the learner's preferences and penalties: Aware-BiL (Sec. 4.2, App. G), exactly.

    maximise over lessons   w* @ mu_r(pi_L)   where   pi_L is the learner's response to the lesson

Once the learner has settled on reward weights a, its response follows (`learners.reduction`), and where M* is flat the
expectation mu_r(a) of that very response is a lesson that makes it settle on a. So the problem is to climb w* @ mu_r(a)
over the mismatch set, a box or ball of d_r dimensions (`climbing`). Every local maximum found is kept, the best is
verified by the learner's own response, and `bounding` certifies how much more any lesson could achieve.

Where M* is not flat (an allowance, a squared penalty) the lessons that make the learner settle on a are mu_r(a) +
d M*(-a) / d a, and one of them must be what a policy can show; `realisable` climbs among those.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tutelage.arrays import Vector
from tutelage.learners.reduction import Reduction
from tutelage.learners.tangents import Tangents
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import Domain
from tutelage.mdp.policy import uniform_policy
from tutelage.outcomes import InfeasibleConstraints, InvalidModel, NotConverged, TutelageError
from tutelage.roles import Lesson, Response
from tutelage.solvers.blocks import Block
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import best_policy, require_feasible
from tutelage.teachers.bounding import Ceiling, search
from tutelage.teachers.climbing import LocalOptimum, ReducedProblem, distinct, sign_patterns
from tutelage.teachers.fixed import AgnosticTeacher, AwareCmdpTeacher
from tutelage.teachers.known import KnownEntropyLearner, check_learner, check_weights, is_soft
from tutelage.teachers.printed_bilevel import printed_bilevel
from tutelage.teachers.realisable import LessonSearch

# The relative gap below which the search for a better bound ends.
GAP_TOLERANCE = 0.01
# The largest number of reward features for which cells, of 2^(d_r - 1) corners each, are searched.
MAX_SEARCHED = 6


@dataclass(frozen=True, slots=True, eq=False)
class BilevelPlan:
    """What to show, what it achieves, and what no lesson could exceed.

    predicted: the reward that the teacher expects. response: the learner's own to this very lesson, and achieved: what
    it earns. optima: every local maximum found, best first. bound: certified. n_cells: how many cells that took.
    """

    lesson: Lesson
    predicted: float
    achieved: float
    bound: float
    response: Response
    optima: tuple[LocalOptimum, ...]
    n_cells: int

    @property
    def gap(self) -> float:
        """By how much another lesson could be better."""
        return max(self.bound - self.achieved, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class BilevelTeacher:
    """Aware-BiL for any learner of Eq. 1.

    method: "exact", or "frank-wolfe" for Appendix G as printed. n_random, seed: random starts beside the paper's two
    and the sign corners. max_cells: how many cells to search for the bound; with none it is the reward of the best
    policy, within the preferences where they are hard. largest_weight: how large the weights of a learner that must
    match exactly may become.
    """

    domain: Domain
    true_weights: Vector
    learner: KnownEntropyLearner
    method: Literal["exact", "frank-wolfe"] = "exact"
    n_random: int = 4
    seed: int = 0
    max_cells: int = 64
    largest_weight: float = 100.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "true_weights", check_weights(self.domain, self.true_weights))
        check_learner(self.domain, self.learner)
        if not hasattr(self.learner, "mismatch"):
            raise InvalidModel(f"{type(self.learner).__name__} has no mismatch penalty; teach it by AwareCmdpTeacher")
        if self.method not in ("exact", "frank-wolfe"):
            raise InvalidModel(f"method must be 'exact' or 'frank-wolfe', got {self.method!r}")
        if self.n_random < 0 or self.max_cells < 0 or not 0 < self.largest_weight < math.inf:
            raise InvalidModel("n_random and max_cells must not be negative, and largest_weight must be positive")
        if self.method == "frank-wolfe" and not is_soft(self.learner):
            raise InvalidModel(
                "Appendix G is for Sec. 3.2's learner: 1-norm penalties, finite, on each preference feature"
            )

    def open(self) -> Lesson:
        """The lesson of most reward."""
        return self.plan().lesson

    def plan(self) -> BilevelPlan:
        """The lesson, the local maxima it was chosen from, the learner's response, and the certified bound.

        Raises `InfeasibleConstraints` where hard preferences leave the learner no policy.
        """
        domain, preference = self.learner.domain, self.learner.preference
        if preference.is_hard:
            require_feasible(domain, Tangents.opening(preference, domain).half_spaces(preference, domain))
        optima = self._optima()
        lesson, response = self._taught(optima[0])
        ceiling = self._ceiling(self._earned(response))
        if self.method == "exact" and self._is_flat and ceiling.better:
            # The search for the bound came by a higher slope.
            optima = distinct([*optima, *self._problem.climb([ceiling.better[-1]], [])])
            lesson, response = self._taught(optima[0])
        return BilevelPlan(
            lesson=lesson,
            predicted=optima[0].reward,
            achieved=self._earned(response),
            bound=max(ceiling.bound, self._earned(response)),
            response=response,
            optima=tuple(optima),
            n_cells=ceiling.n_cells,
        )

    def _optima(self) -> list[LocalOptimum]:
        """Every local maximum found, best first."""
        if self.method == "frank-wolfe":
            return [self._printed()]
        found = (
            self._problem.climb(self._starts(), self._other_starts()) if self._is_flat else distinct(self._realisable())
        )
        if not found:
            raise NotConverged("the learner answers none of the lessons tried", residual=math.inf, n_steps=0)
        return found

    def _taught(self, optimum: LocalOptimum) -> tuple[Lesson, Response]:
        lesson = Lesson.from_policy(self.domain, optimum.policy)
        return lesson, self.learner.respond(lesson)

    def _earned(self, response: Response) -> float:
        return float(self.true_weights @ response.expectation.reward)

    @property
    def _mismatch_set(self) -> Block:
        return self.learner.mismatch.block(self.learner.domain)

    @property
    def _is_flat(self) -> bool:
        """Whether M* is flat on its set, so that a response is its own lesson."""
        return not self._mismatch_set.slope.any() and self._mismatch_set.curvature == 0

    @property
    def _problem(self) -> ReducedProblem:
        block = self._mismatch_set
        if math.isinf(block.radius):
            block = replace(block, radius=self.largest_weight, norm=math.inf)
        return ReducedProblem(Reduction(self.learner.domain, self.learner.preference), block, self.true_weights)

    def _printed(self) -> LocalOptimum:
        """Appendix G as printed."""
        learner, d_r = self.learner, self.domain.n_reward
        agnostic = learner.respond(AgnosticTeacher(self.domain, self.true_weights).open()).learned_weights[:d_r]
        found = printed_bilevel(
            learner.domain,
            self.true_weights,
            learner.mismatch.penalty,
            learner.preference.penalty,
            learner.preference.limits(learner.domain),
            agnostic,
        )
        weights = found.multipliers.lower - found.multipliers.upper
        return LocalOptimum(weights, found.expectation.reward, found.reward, found.policy)

    def _starts(self) -> list[Vector]:
        """The paper's two (zero, and what the learner infers from the agnostic lesson), from the aware one, and w*."""
        d_r, inferred = self.domain.n_reward, []
        for lesson in self._lessons():
            # A lesson that this learner cannot answer is no start.
            with suppress(TutelageError):
                inferred.append(self.learner.respond(lesson).learned_weights[:d_r])
        size = max(float(np.abs(self.true_weights).max()), np.finfo(np.float64).tiny)
        return [np.zeros(d_r), *inferred, self._problem.block.radius / size * self.true_weights]

    def _other_starts(self) -> list[Vector]:
        """Corners, edges and faces, and random points."""
        d_r, radius, rng = self.domain.n_reward, self._problem.block.radius, np.random.default_rng(self.seed)
        return [radius * point for point in (*sign_patterns(d_r, rng), *rng.uniform(-1, 1, (self.n_random, d_r)))]

    def _lessons(self) -> list[Lesson]:
        """The lessons of the other teachers."""
        lessons = [AgnosticTeacher(self.domain, self.true_weights).open()]
        # A soft learner's preferences need not be possible to keep.
        with suppress(InfeasibleConstraints):
            lessons.append(AwareCmdpTeacher(self.domain, self.true_weights, self.learner).open())
        return lessons

    def _realisable(self) -> list[LocalOptimum]:
        """Local maxima among the lessons that policies can show, from the other teachers' and from extreme ones."""
        learner, domain, rng = self.learner, self.learner.domain, np.random.default_rng(self.seed)
        extremes = [
            best_policy(domain, direction, no_limits(domain)).expectation.reward
            for direction in sign_patterns(domain.n_reward, rng)
            if direction.all()
        ]
        shown = [lesson.expectation for lesson in self._lessons()]
        starts = [*shown, *extremes, expectation(domain, uniform_policy(domain.mdp)).reward]
        return LessonSearch(domain, learner.mismatch, learner.preference, self.true_weights).climb(starts)

    def _ceiling(self, achieved: float) -> Ceiling:
        """What no lesson exceeds."""
        if self.learner.preference.is_hard:
            known = AwareCmdpTeacher(self.domain, self.true_weights, self.learner).plan().bound
        else:
            known = best_policy(self.domain, self.true_weights, no_limits(self.domain)).bound
        problem, d_r = self._problem, self.domain.n_reward
        is_searched = math.isfinite(self._mismatch_set.radius) and d_r <= MAX_SEARCHED and self.true_weights.any()
        if self.max_cells == 0 or not is_searched:
            return Ceiling(max(known, achieved), 0, ())
        return search(
            lambda weights, near: problem.reduction.settle(weights, near=near),
            problem.block,
            self.true_weights,
            achieved=achieved,
            ceiling=known,
            max_cells=self.max_cells,
            tolerance=GAP_TOLERANCE,
        )
