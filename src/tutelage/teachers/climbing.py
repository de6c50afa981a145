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

Omega_r is a polytope known only by its support function, so the hull of some of its points stands for it. Where an
ascent within the hull ends, the best policy for the gradient is one more point, or proves that no lesson is better.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product, starmap
from typing import Any

import numpy as np
from scipy.optimize import nnls

from tutelage import outcomes
from tutelage.arrays import Matrix, Readable, Vector
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import no_limits, or_one
from tutelage.convex.blocks import Block, free_directions, inverse, model_minimum
from tutelage.convex.newton import Slope, ascend
from tutelage.learners.dual import Dual, Reduction, Settled
from tutelage.learners.penalties import Tangents
from tutelage.outcomes import Ended, EndlessValue, NotConverged, OutOfTime, TutelageError

# A predicted gain this small, relative to 1 + |reward|, ends an ascent over weights, or over lessons.
NO_GAIN, NO_LESSON_GAIN = 1e-7, 1e-9
# Local maxima whose expectations are this close, relative to the largest of all entries, count as one.
SAME_MAXIMUM = 1e-3
# The weight of the sum of the shares of points, which is one: beside it the error of a step is small.
HEAVY = 1e4


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search. A step is one of any iteration (`outcomes.report`).

    n_steps: of the whole search; the published worlds need at most 3,300, and 3,500 take about 3 s on a small model.
    n_look: of a first look at a lesson. n_patterns: sign patterns evaluated, all of them up to four features.
    n_promising: of the best points from which to climb. n_hulls: of the lessons, in one ascent.
    """

    n_steps: int = 3_500
    n_look: int = 1_000
    n_patterns: int = 81
    n_promising: int = 10
    n_hulls: int = 30


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


class Ascents(ABC):
    """R over a set: ascents from many starts. A subclass evaluates R (`slope`) and climbs from one start (`top`)."""

    effort: Effort

    @abstractmethod
    def slope(self, point: Vector, near: Any) -> Slope[Any]:
        """R and its gradient at a point (d_r,) of the set. near: the source of the last point."""

    @abstractmethod
    def top(self, start: Vector, opening: Slope[Any], budget: outcomes.Budget) -> LocalOptimum:
        """The local maximum from a start, or the best point within the budget."""

    @property
    def is_chained(self) -> bool:
        """Whether one start helps to evaluate R at the next."""
        return False

    def contain(self, point: Vector) -> Vector:
        """The point, moved into the set."""
        return point

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """The distinct local maxima from each start, and from the best of the other points; best first.

        Points outside the set are first moved into it, those that the learner cannot answer are left out. At the time
        limit, or when the steps are used up, the maxima that are known by then.
        """
        budget = outcomes.Budget(self.effort.n_steps)
        return distinct(list(starmap(partial(self.top, budget=budget), self._openings(starts, others, budget))))

    def _openings(
        self, starts: list[Vector], others: list[Vector], budget: outcomes.Budget
    ) -> Iterator[tuple[Vector, Slope[Any]]]:
        """Each start with R there, then the best of the other points; while there are steps, but at least one."""
        inside = [self.contain(start) for start in (*starts, *others)]
        first_at = {point.tobytes(): i for i, point in reversed(list(enumerate(inside)))}
        near, is_free = None, True
        # Only the best are kept, since an expansion takes as much memory as the model.
        promising: list[tuple[Vector, Slope[Any]]] = []
        for i in sorted(first_at.values()):
            try:
                with nullcontext() if is_free else outcomes.spending(budget):
                    opening = self.slope(inside[i], near if self.is_chained else None)
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


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem(Ascents):
    """R over the set of reward weights that the learner can infer."""

    reduction: Reduction
    block: Block
    true_weights: Vector
    effort: Effort = Effort()

    @property
    def is_chained(self) -> bool:
        return math.isfinite(self.reduction.domain.mdp.horizon)

    def contain(self, point: Vector) -> Vector:
        return self.block.contain(point)

    def slope(self, point: Vector, near: Settled | None) -> Slope[Settled]:
        """R is -inf where the learner would go on for ever."""
        try:
            here = self.reduction.settle(point, near=near)
        except EndlessValue:
            if near is None:
                raise
            return Slope(-math.inf, np.zeros(len(point)), near)
        reward = float(self.true_weights @ here.expectation.reward)
        return Slope(reward, here.jacobian @ self.true_weights, here)

    def top(self, start: Vector, opening: Slope[Settled], budget: outcomes.Budget) -> LocalOptimum:
        def model_step(gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
            return model_minimum(gradient, hessian, [self.block], x) - x

        radius, tolerance = float(np.max(self.block.radius)), NO_GAIN * (1 + abs(opening.value))
        with outcomes.spending(budget):
            top = ascend(self.slope, model_step, start, radius=radius, tolerance=tolerance, opening=opening)
        here = top.answer.here.source
        reached, policy = here.expectation.reward, here.soft.solved.policy
        return LocalOptimum(top.answer.x, reached, top.value, policy, top.bound - top.value, top.ended)


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


def hull_step(points: Matrix, gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
    """argmin over steps s with x + s in the hull of the points (k, d) of gradient @ s + 1/2 s @ hessian @ s.

    By non-negative least squares in the shares of the points: with hessian = C C', the least |C's + C^-1 gradient|.
    """
    root, away = np.linalg.cholesky(hessian), points - x
    target = -np.linalg.solve(root, gradient)
    heavy = HEAVY * float(np.abs(target).max() + np.abs(away @ root).max())
    try:
        shares = nnls(np.vstack([(away @ root).T, np.full(len(points), heavy)]), np.append(target, heavy))[0]
    except RuntimeError:
        # Not found within SciPy's limit: the ascent ends here.
        return np.zeros_like(x)
    return np.asarray(shares @ away / shares.sum())


@dataclass(frozen=True, slots=True, eq=False)
class LessonSearch(Ascents):
    """R over the lessons that a policy can show. shown: (k, d_r), some of them."""

    dual: Dual
    true_weights: Vector
    shown: Matrix
    effort: Effort = Effort()

    def answer(self, shown: Vector, near: LessonAnswer | None) -> LessonAnswer:
        """The learner's response to a lesson (d_r,), and its derivative in the lesson."""
        d_r = len(shown)
        guess = (np.zeros(d_r), None, None) if near is None else (near.weights, near.multipliers, near.tangents)
        found, tangents = self.dual.optimise(shown, *guess)
        soft, program = found.answer.here.source, self.dual.program(shown, tangents)
        free, hessian = free_directions(program.blocks, found.answer.x, found.answer.here.gradient)
        curvature = free.T @ (found.answer.here.hessian + hessian) @ free
        moved = free @ inverse(curvature) @ free[:d_r].T
        jacobian = soft.jacobian[:d_r] @ program.at(found.answer.x).jacobian @ moved
        weights, multipliers = np.split(found.answer.x, [d_r])
        return LessonAnswer(weights, *tangents.pruned(multipliers)[::-1], soft.expectation[:d_r], jacobian)

    def slope(self, point: Vector, near: LessonAnswer | None) -> Slope[LessonAnswer]:
        """R is -inf where the learner cannot answer a lesson near another."""
        try:
            answer = self.answer(point, near)
        except OutOfTime:
            raise
        except TutelageError:
            if near is None:
                raise
            return Slope(-math.inf, np.zeros(len(point)), near)
        return Slope(float(self.true_weights @ answer.expectation), answer.jacobian.T @ self.true_weights, answer)

    def top(self, start: Vector, opening: Slope[LessonAnswer], budget: outcomes.Budget) -> LocalOptimum:
        """STEP_LIMIT where hulls or budget were not enough."""
        points, domain, x, here = self.shown, self.dual.domain, start, opening
        radius = float(or_one(np.asarray(0.5 * np.ptp(points, axis=0).max())))
        for _ in range(self.effort.n_hulls):
            step, tolerance = partial(hull_step, points), NO_LESSON_GAIN * (1 + abs(here.value))
            with outcomes.spending(budget):
                top = ascend(self.slope, step, x, radius=radius, tolerance=tolerance, opening=here)
            x, here, ended = top.answer.x, top.answer.here, top.ended
            with outcomes.unlimited():
                best = best_policy(domain, here.gradient, no_limits(domain)).expectation.reward
            gain = max(float(here.gradient @ (best - x)), 0.0)
            if gain <= tolerance or ended in (Ended.STEP_LIMIT, Ended.TIME_LIMIT):
                break
            points, ended = np.vstack([points, best]), Ended.STEP_LIMIT
        with outcomes.unlimited():
            policy = nearest_policy(domain, x, no_limits(domain)).policy
        return LocalOptimum(here.source.weights, here.source.expectation, here.value, policy, gain, ended)
