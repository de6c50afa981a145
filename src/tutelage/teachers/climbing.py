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
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Vector
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import no_limits, or_one
from tutelage.convex.ascent import Slope, ascend
from tutelage.convex.blocks import Block, free_directions, inverse
from tutelage.convex.programs import Constraints, minimise_quadratic
from tutelage.learners.dual import Dual
from tutelage.learners.reduction import Reduction, Settled
from tutelage.learners.tangents import Tangents
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged, OutOfTime, TutelageError

# A predicted gain this small, relative to 1 + |reward|, ends an ascent over weights, or over lessons.
NO_GAIN, NO_LESSON_GAIN = 1e-7, 1e-9
# Local maxima whose expectations are this close, relative to the largest of all entries, count as one.
SAME = 1e-3
# The largest number of sign patterns evaluated, and of the best of them from which to climb.
MAX_PATTERNS, MOST_PROMISING = 81, 10
# The same for lessons, each of which takes a solution of the learner's own problem.
MOST_LESSONS = 4
MAX_CUTS = 30
# The most steps of all iterations (`watch.report`) in a search, in a first look at lessons, and in one ascent over
# lessons. The published worlds need at most 3,300 in all, and 3,500 take about 3 s on a small model.
MAX_STEPS, LOOK_STEPS, ASCENT_STEPS = 3_500, 500, 1_000
# A small quadratic program takes as long as so many steps.
PROGRAM_STEPS = 4
# The largest distance from Omega_r, relative to the size of that set and of mu_hat, of a realisable point.
OUTSIDE = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class LocalOptimum:
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

    def slope(self, weights: Vector, near: Settled | None) -> Slope[Settled]:
        """R and its gradient at weights (d_r,)."""
        here = self.reduction.settle(weights, near=near)
        reward = float(self.true_weights @ here.expectation.reward)
        return Slope(reward, here.jacobian @ self.true_weights, here)

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """The distinct local maxima from each start, and from the best of the other points; best first.

        Points outside the set are first moved into it. At the time limit, or after MAX_STEPS, the maxima found so far.
        """
        inside = [self.block.contain(start) for start in (*starts, *others)]
        first_at = {point.tobytes(): i for i, point in reversed(list(enumerate(inside)))}
        near: Settled | None = None
        found: list[LocalOptimum] = []
        # Only the best are kept, since an expansion takes as much memory as the model.
        promising: list[tuple[Vector, Slope[Settled]]] = []
        budget = watch.Budget(MAX_STEPS)
        for i in sorted(first_at.values()):
            try:
                # There is always one maximum, so its start is free.
                with watch.spending(budget) if found else nullcontext():
                    opening = self.slope(inside[i], near)
            except OutOfTime:
                if not found:
                    raise
                break
            except NotConverged:
                continue
            near = opening.source
            if i < len(starts):
                with watch.spending(budget):
                    found.append(self._top(inside[i], opening))
            else:
                promising.append((inside[i], opening))
                promising = sorted(promising, key=lambda pair: -pair[1].value)[:MOST_PROMISING]
        with watch.spending(budget):
            return distinct([*found, *(self._top(*pair) for pair in promising)])

    def _top(self, start: Vector, opening: Slope[Settled]) -> LocalOptimum:
        tolerance = NO_GAIN * (1 + abs(opening.value))
        top = ascend(self.slope, self.block, start, tolerance=tolerance, opening=opening)
        here = top.slope.source
        reached, policy = here.expectation.reward, here.soft.solved.policy
        return LocalOptimum(top.x, reached, top.slope.value, policy, top.gap, top.ended)


def sign_patterns(n: int, rng: np.random.Generator) -> list[Vector]:
    """{-1, 0, 1}^n, the corners, edges and faces of a box; with many features, a random sample of them."""
    if 3**n <= MAX_PATTERNS:
        return [np.array(signs) for signs in product((-1.0, 0.0, 1.0), repeat=n)]
    return [rng.choice([-1.0, 0.0, 1.0], size=n) for _ in range(MAX_PATTERNS)]


def distinct(optima: list[LocalOptimum]) -> list[LocalOptimum]:
    """Best first; among those with the same learner's expectation, only the best."""
    kept: list[LocalOptimum] = []
    size = SAME * max((float(np.abs(optimum.expectation).max()) for optimum in optima), default=0.0)
    for optimum in sorted(optima, key=lambda optimum: -optimum.reward):
        if all(np.abs(optimum.expectation - other.expectation).max() > size for other in kept):
            kept.append(optimum)
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
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
        constraints = Constraints(np.full(len(x), -np.inf), within=self.normals, bound=room / unit)
        step = minimise_quadratic(hessian * (unit * unit / scale), gradient * (unit / scale), constraints).x
        return unit * step


@dataclass(frozen=True, slots=True, eq=False)
class LessonSearch:
    """The search for the best lesson that a policy can show."""

    dual: Dual
    true_weights: Vector

    @property
    def domain(self) -> Domain:
        return self.dual.domain

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """A local maximum from each realisable start (d_r,), and from the best of the other points.

        Points that the learner cannot answer are left out. At the time limit, the maxima found so far.
        """
        found: list[LocalOptimum] = []
        looks = (watch.Budget(LOOK_STEPS), watch.Budget(LOOK_STEPS))
        cuts, first = self._box(), self._openings(starts, looks[0], None)
        # With convex preferences an answer from afar takes long.
        is_slow = bool(first) and bool(self.dual.constraints.preference.functions)
        rest = self._openings(others, looks[1], first[-1][1].source if is_slow else None)
        best = sorted(rest, key=lambda pair: -pair[1].value)[:MOST_LESSONS]
        left = MAX_STEPS - sum(LOOK_STEPS - look.left for look in looks)
        for start, opening in (*first, *best):
            if found and left <= 0:
                break
            budget = watch.Budget(min(left, ASCENT_STEPS))
            left -= budget.left
            try:
                optimum, cuts = self._climb(start, opening, cuts, budget)
            except OutOfTime:
                if not found:
                    raise
                break
            except TutelageError:
                continue
            left += max(budget.left, 0)
            if math.isfinite(optimum.reward):
                found.append(optimum)
        return found

    def _openings(
        self, points: list[Vector], budget: watch.Budget, near: Answer | None
    ) -> list[tuple[Vector, Slope[Answer]]]:
        """R at each point that the learner can answer, for as many as the budget allows.

        near: an earlier answer, to start from. Without one the first point is free.
        """
        found: list[tuple[Vector, Slope[Answer]]] = []
        for point in points:
            is_free = near is None and not found
            try:
                with nullcontext() if is_free else watch.spending(budget):
                    opening = self._slope(point, near)
                    if not math.isfinite(opening.value):
                        opening = self._slope(point, None)
                found.append((point, opening))
            except OutOfTime:
                if is_free:
                    raise
                break
            except TutelageError:
                continue
        return found

    def _box(self) -> Cuts:
        """The range of each reward feature over all policies."""
        normals = np.vstack([np.eye(self.domain.n_reward), -np.eye(self.domain.n_reward)])
        offsets = [best_policy(self.domain, normal, no_limits(self.domain)).bound for normal in normals]
        return Cuts(normals, np.array(offsets))

    def answer(self, shown: Vector, near: Answer | None) -> Answer:
        """The learner's response to a lesson (d_r,), and its derivative in the lesson."""
        d_r = self.domain.n_reward
        guess = (np.zeros(d_r), None, None) if near is None else (near.weights, near.multipliers, near.tangents)
        found, tangents = self.dual.optimise(shown, *guess)
        soft, program = found.expansion.source, self.dual.program(shown, tangents)
        free, hessian = free_directions(program.blocks, found.x, found.expansion.gradient)
        curvature = free.T @ (found.expansion.hessian + hessian) @ free
        moved = free @ inverse(curvature) @ free[:d_r].T
        jacobian = soft.jacobian[:d_r] @ program.jacobian(program.touch(found.x)) @ moved
        weights, multipliers = np.split(found.x, [d_r])
        return Answer(weights, *tangents.pruned(multipliers)[::-1], soft.expectation[:d_r], jacobian)

    def _slope(self, shown: Vector, near: Answer | None) -> Slope[Answer]:
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
        self, start: Vector, first: Slope[Answer], cuts: Cuts, budget: watch.Budget
    ) -> tuple[LocalOptimum, Cuts]:
        """One ascent, and the cuts with those that it added; STEP_LIMIT where cuts or budget were not enough."""
        point, opening, ended = start, first, Ended.STEP_LIMIT
        for _ in range(MAX_CUTS):
            tolerance = NO_LESSON_GAIN * (1 + abs(opening.value))
            with watch.spending(budget):
                top = ascend(self._slope, cuts, point, tolerance=tolerance, opening=opening)
            shown = nearest_policy(self.domain, top.x, no_limits(self.domain))
            opening = self._slope(shown.expectation.reward, top.slope.source)
            is_inside = shown.value <= OUTSIDE * (cuts.radius + float(np.abs(top.x).max()))
            if is_inside:
                ended = top.ended
                break
            normal, point = (top.x - shown.expectation.reward) / shown.value, shown.expectation.reward
            cuts = Cuts(np.vstack([cuts.normals, normal]), np.append(cuts.offsets, normal @ point))
            if opening.value < first.value:
                point, opening, shown = start, first, nearest_policy(self.domain, start, no_limits(self.domain))
            if budget.left < 0:
                break
        here = opening.source
        return LocalOptimum(here.weights, here.expectation, opening.value, shown.policy, top.gap, ended), cuts
