"""Local maxima of the learner's reward: over its reward weights, or over the lessons that a policy can show.

`ReducedProblem` is for a learner that matches its lesson where it can. The weights determine the lesson:

    maximise over a in the mismatch set   R(a) = w* @ mu_r(a)               gradient: d mu_r / d a @ w*

mu_r(a) and its derivative are those of `learners.reduction`. R is not concave, so the ascent runs from many starts.

`LessonSearch` is for a learner with a mismatch allowance or a squared penalty, whose response differs from the lesson.
The teacher then chooses mu_hat in the set Omega_r of what policies can show,

    maximise over mu_hat in Omega_r   R(mu_hat) = w* @ mu_r(learner's response to mu_hat).

With x = (a, y) the learner's multipliers, L the map from x to the weights of the features and Z a basis of the
directions in which x can move, the implicit function theorem gives

    d mu_r / d mu_hat = J_r L Z (Z' (L' J L + B) Z)^-1 Z' E         E: mu_hat enters the gradient in a alone.

Omega_r is a polytope known only by its support function, so half-spaces that contain it (cuts) stand for it. An ascent
that ends outside Omega_r is projected onto it; the face of that projection becomes a cut, and the ascent continues.
"""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Readable, Vector
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import no_limits, or_one
from tutelage.convex.blocks import Block, free_directions, inverse
from tutelage.convex.models import model_minimum
from tutelage.convex.newton import Slope, ascend
from tutelage.convex.programs import LinearConstraints, minimise_quadratic
from tutelage.learners.dual import Dual, Reduction, Settled
from tutelage.learners.penalties import Tangents
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, EndlessValue, NotConverged, OutOfTime, TutelageError

# A predicted gain this small, relative to 1 + |reward|, ends an ascent over weights, or over lessons.
NO_GAIN, NO_LESSON_GAIN = 1e-7, 1e-9
# Local maxima whose expectations are this close, relative to the largest of all entries, count as one.
SAME_MAXIMUM = 1e-3
# A small quadratic program takes as long as this many steps.
PROGRAM_STEPS = 4
# The largest distance from Omega_r, relative to the size of that set and of mu_hat, of a realisable point.
OUTSIDE = 1e-7


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search. A step is one of any iteration (`watch.report`).

    n_steps: of the whole search; the published worlds need at most 3,300, and 3,500 take about 3 s on a small model.
    n_look: of a first look at lessons. n_ascent: of one ascent over lessons. n_patterns: sign patterns evaluated, all
    of them up to four features. n_promising, n_lessons: of the best points from which to climb, over weights and over
    lessons; a lesson takes a solution of the learner's own problem. n_cuts: of the set of lessons, in one ascent.
    """

    n_steps: int = 3_500
    n_look: int = 1_000
    n_ascent: int = 1_000
    n_patterns: int = 81
    n_promising: int = 10
    n_lessons: int = 4
    n_cuts: int = 30


@dataclass(frozen=True, slots=True, eq=False)
class LocalOptimum(Readable):
    """A lesson that is a local maximum.

    weights: (d_r,), the learner's reward weights. expectation: (d_r,), the learner's mu_r. reward: w* @ mu_r.
    policy: (C,), the policy to show. gap, ended: the predicted gain of one more step of the ascent, and why it stopped.
    """

    weights: Vector
    expectation: Vector
    reward: float
    policy: Vector
    gap: float
    ended: Ended


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem:
    """R over the set of reward weights that the learner can infer."""

    reduction: Reduction
    block: Block
    true_weights: Vector
    effort: Effort = Effort()

    def slope(self, weights: Vector, near: Settled | None) -> Slope[Settled]:
        """R and its gradient at weights (d_r,); R is -inf where the learner would go on for ever."""
        try:
            here = self.reduction.settle(weights, near=near)
        except EndlessValue:
            if near is None:
                raise
            return Slope(-math.inf, np.zeros(len(weights)), near)
        reward = float(self.true_weights @ here.expectation.reward)
        return Slope(reward, here.jacobian @ self.true_weights, here)

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """The distinct local maxima from each start, and from the best of the other points; best first.

        Points outside the set are first moved into it. At the time limit, or when the steps are used up, the maxima
        that are known by then.
        """
        budget, radius = watch.Budget(self.effort.n_steps), float(np.max(self.block.radius))
        maxima: list[LocalOptimum] = []
        for start, opening in self._openings(starts, others, budget):
            tolerance = NO_GAIN * (1 + abs(opening.value))
            with watch.spending(budget):
                top = ascend(self.slope, self._model_step, start, radius=radius, tolerance=tolerance, opening=opening)
            x, here = top.answer.x, top.answer.here.source
            reached, policy = here.expectation.reward, here.soft.solved.policy
            maxima.append(LocalOptimum(x, reached, top.value, policy, top.bound - top.value, top.ended))
        return distinct(maxima)

    def _openings(
        self, starts: list[Vector], others: list[Vector], budget: watch.Budget
    ) -> Iterator[tuple[Vector, Slope[Settled]]]:
        """Each start with R there, then the best of the other points; while there are steps, but at least one."""
        inside = [self.block.contain(start) for start in (*starts, *others)]
        first_at = {point.tobytes(): i for i, point in reversed(list(enumerate(inside)))}
        near, is_free = None, True
        # Only the best are kept, since an expansion takes as much memory as the model.
        promising: list[tuple[Vector, Slope[Settled]]] = []
        for i in sorted(first_at.values()):
            try:
                with nullcontext() if is_free else watch.spending(budget):
                    opening = self.slope(inside[i], None if np.isinf(self.reduction.domain.mdp.horizon) else near)
            except OutOfTime:
                if is_free:
                    raise
                break
            except (NotConverged, EndlessValue):
                continue
            near = opening.source
            if i < len(starts):
                is_free = False
                yield inside[i], opening
            else:
                promising.append((inside[i], opening))
                promising = sorted(promising, key=lambda pair: -pair[1].value)[: self.effort.n_promising]
        yield from promising

    def _model_step(self, gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
        """argmin over steps s within the set of gradient @ s + 1/2 s @ hessian @ s."""
        return model_minimum(gradient, hessian, [self.block], x) - x


def sign_patterns(n: int, rng: np.random.Generator, most: int) -> list[Vector]:
    """{-1, 0, 1}^n, the corners, edges and faces of a box; a random sample where there are more than `most`."""
    if 3**n <= most:
        return [np.array(signs) for signs in product((-1.0, 0.0, 1.0), repeat=n)]
    return [rng.choice([-1.0, 0.0, 1.0], size=n) for _ in range(most)]


def distinct(optima: list[LocalOptimum]) -> list[LocalOptimum]:
    """Best first; among those with the same learner's expectation, only the best."""
    kept: list[LocalOptimum] = []
    size = SAME_MAXIMUM * max((float(np.abs(optimum.expectation).max()) for optimum in optima), default=0.0)
    for optimum in sorted(optima, key=lambda optimum: -optimum.reward):
        if all(np.abs(optimum.expectation - other.expectation).max() > size for other in kept):
            kept.append(optimum)
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class LessonAnswer:
    """The learner's response to mu_hat: weights a, multipliers y, mu_r, and d mu_r / d mu_hat (d_r, d_r)."""

    weights: Vector
    multipliers: Vector
    tangents: Tangents
    expectation: Vector
    jacobian: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """normals @ mu_hat <= offsets, (k, d_r) and (k,): half-spaces that contain Omega_r, the first 2 d_r a box."""

    normals: Matrix
    offsets: Vector

    @property
    def radius(self) -> float:
        """Half the longest side of the box."""
        upper, negative_lower = self.offsets[: 2 * self.normals.shape[1]].reshape(2, -1)
        return 0.5 * float((upper + negative_lower).max())

    def model_step(self, gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
        """argmin over steps s within the cuts of gradient @ s + 1/2 s @ hessian @ s."""
        room = np.maximum(self.offsets - self.normals @ x, 0.0)
        free: Vector = np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)
        if (self.normals @ free <= room).all():
            return free
        # In units of the smaller of that step and the radius, and with the largest slope as that of the objective.
        unit = min(float(or_one(np.asarray(self.radius))), float(np.abs(free).max()))
        scale = float(or_one(np.abs(gradient).max() * unit))
        watch.spend(PROGRAM_STEPS)
        constraints = LinearConstraints(np.full(len(x), -np.inf), within=self.normals, bound=room / unit)
        step = minimise_quadratic(hessian * (unit * unit / scale), gradient * (unit / scale), constraints).answer.x
        return unit * step


@dataclass(frozen=True, slots=True, eq=False)
class LessonSearch:
    """The search for the best lesson that a policy can show."""

    dual: Dual
    true_weights: Vector
    effort: Effort = Effort()

    @property
    def domain(self) -> Domain:
        return self.dual.domain

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """A local maximum from each realisable start (d_r,), and from the best of the other points.

        Points that the learner cannot answer are left out. At the time limit, the maxima found so far.
        """
        maxima: list[LocalOptimum] = []
        look, cuts = watch.Budget(self.effort.n_look), self._box()
        first = self._openings(starts, look, is_free=True)
        rest = self._openings(others, look, is_free=not first)
        best = sorted(rest, key=lambda pair: -pair[1].value)[: self.effort.n_lessons]
        left = self.effort.n_steps - (self.effort.n_look - look.left)
        for start, opening in (*first, *best):
            if maxima and left <= 0:
                break
            budget = watch.Budget(min(left, self.effort.n_ascent))
            left -= budget.left
            try:
                optimum, cuts = self._climb(start, opening, cuts, budget)
            except OutOfTime:
                if not maxima:
                    raise
                break
            except TutelageError:
                continue
            left += max(budget.left, 0)
            if math.isfinite(optimum.reward):
                maxima.append(optimum)
        return maxima

    def _openings(
        self, points: list[Vector], budget: watch.Budget, *, is_free: bool
    ) -> list[tuple[Vector, Slope[LessonAnswer]]]:
        """R at each point that the learner can answer, as far as the budget goes. is_free: the first costs nothing."""
        openings: list[tuple[Vector, Slope[LessonAnswer]]] = []
        for point in points:
            try:
                with nullcontext() if is_free else watch.spending(budget):
                    openings.append((point, self._slope(point, None)))
            except OutOfTime:
                if is_free:
                    raise
                break
            except TutelageError:
                continue
            is_free = False
        return openings

    def _box(self) -> Cuts:
        """The range of each reward feature over all policies."""
        normals = np.vstack([np.eye(self.domain.n_reward), -np.eye(self.domain.n_reward)])
        offsets = [best_policy(self.domain, normal, no_limits(self.domain)).bound for normal in normals]
        return Cuts(normals, np.array(offsets))

    def answer(self, shown: Vector, near: LessonAnswer | None) -> LessonAnswer:
        """The learner's response to a lesson (d_r,), and its derivative in the lesson."""
        d_r = self.domain.n_reward
        guess = (np.zeros(d_r), None, None) if near is None else (near.weights, near.multipliers, near.tangents)
        found, tangents = self.dual.optimise(shown, *guess)
        soft, program = found.answer.here.source, self.dual.program(shown, tangents)
        free, hessian = free_directions(program.blocks, found.answer.x, found.answer.here.gradient)
        curvature = free.T @ (found.answer.here.hessian + hessian) @ free
        moved = free @ inverse(curvature) @ free[:d_r].T
        jacobian = soft.jacobian[:d_r] @ program.jacobian(program.touch(found.answer.x)) @ moved
        weights, multipliers = np.split(found.answer.x, [d_r])
        return LessonAnswer(weights, *tangents.pruned(multipliers)[::-1], soft.expectation[:d_r], jacobian)

    def _slope(self, shown: Vector, near: LessonAnswer | None) -> Slope[LessonAnswer]:
        """R and its gradient at a lesson (d_r,); R is -inf where the learner cannot answer a lesson near another."""
        try:
            answer = self.answer(shown, near)
        except OutOfTime:
            raise
        except TutelageError:
            if near is None:
                raise
            return Slope(-math.inf, np.zeros(len(shown)), near)
        return Slope(float(self.true_weights @ answer.expectation), answer.jacobian.T @ self.true_weights, answer)

    def _climb(
        self, start: Vector, first: Slope[LessonAnswer], cuts: Cuts, budget: watch.Budget
    ) -> tuple[LocalOptimum, Cuts]:
        """One ascent, and the cuts with those that it added; STEP_LIMIT where cuts or budget were not enough."""
        point, opening, ended = start, first, Ended.STEP_LIMIT
        for _ in range(self.effort.n_cuts):
            tolerance = NO_LESSON_GAIN * (1 + abs(opening.value))
            with watch.spending(budget):
                top = ascend(
                    self._slope, cuts.model_step, point, radius=cuts.radius, tolerance=tolerance, opening=opening
                )
            shown = nearest_policy(self.domain, top.answer.x, no_limits(self.domain))
            opening = self._slope(shown.expectation.reward, top.answer.here.source)
            is_inside = shown.value <= OUTSIDE * (cuts.radius + float(np.abs(top.answer.x).max()))
            if is_inside:
                ended = top.ended
                break
            normal, point = (top.answer.x - shown.expectation.reward) / shown.value, shown.expectation.reward
            cuts = Cuts(np.vstack([cuts.normals, normal]), np.append(cuts.offsets, normal @ point))
            if opening.value < first.value:
                point, opening, shown = start, first, nearest_policy(self.domain, start, no_limits(self.domain))
            if budget.left < 0:
                break
        here = opening.source
        return LocalOptimum(here.weights, here.expectation, opening.value, shown.policy, top.gap, ended), cuts
