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
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Matrix, Readable, Vector
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import no_limits
from tutelage.convex.blocks import Block, model_minimum, sensitivity
from tutelage.convex.newton import Slope, ascend
from tutelage.learners.dual import Dual, Reduction, Settled
from tutelage.learners.penalties import Tangents
from tutelage.outcomes import Ended, EndlessValue, NotConverged, OutOfTime, TutelageError

# A predicted gain this small, relative to 1 + |reward|, ends an ascent.
NO_GAIN = 1e-7
# Sign patterns evaluated, all of them up to four features; and the best points from which to climb.
N_PATTERNS, N_PROMISING = 81, 10
# Local maxima whose expectations are this close, relative to the largest of all entries, count as one.
SAME_MAXIMUM = 1e-3


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search, in steps of any iteration (`outcomes.report`).

    n_steps: in all; the published worlds need 3,300, about 3 s. n_look: of a first look. n_hulls: of one ascent.
    """

    n_steps: int = 3_500
    n_look: int = 1_000
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


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem:
    """R over the set of reward weights that the learner can infer. unit: of the optima, beside that of true_weights."""

    reduction: Reduction
    block: Block
    true_weights: Vector
    effort: Effort = Effort()
    unit: float = 1.0

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """The distinct local maxima from each start and the best other points, best first; those so far at a limit."""
        budget = outcomes.Budget(self.effort.n_steps)
        optima, near = list[LocalOptimum](), None
        promising: list[tuple[Vector, Slope[Any]]] = []
        points = [*starts, *others]
        for i in sorted(np.unique(points, axis=0, return_index=True)[1]):
            try:
                # The first start costs no steps.
                with outcomes.spending(budget) if optima else nullcontext():
                    opening = self.slope(points[i], near)
            except OutOfTime:
                if not optima:
                    raise
                break
            except (NotConverged, EndlessValue):
                continue
            if opening.value == -math.inf:
                continue
            # Where some policy goes on for ever, what is finite at one point is no start at another.
            near = opening.source if math.isfinite(self.reduction.domain.mdp.horizon) else None
            if i < len(starts):
                with outcomes.spending(budget):
                    optima.append(self.top(points[i], opening))
            else:
                # Only the best are kept, since an expansion takes as much memory as the model.
                promising.append((points[i], opening))
                promising = sorted(promising, key=lambda pair: -pair[1].value)[:N_PROMISING]
        for start, opening in promising:
            with outcomes.spending(budget):
                optima.append(self.top(start, opening))
        return distinct([replace(top, reward=self.unit * top.reward, gap=self.unit * top.gap) for top in optima])

    def slope(self, point: Vector, near: Any) -> Slope[Any]:
        """R and its gradient at a point (d_r,); -inf where only `near`, of another point, can be computed."""
        try:
            here = self.reduction.settle(point, near=near)
        except TutelageError as failure:
            return nowhere(failure, point, near)
        return Slope(float(self.true_weights @ here.expectation.reward), here.jacobian @ self.true_weights, here)

    def top(self, start: Vector, opening: Slope[Any]) -> LocalOptimum:
        """The local maximum from a start, or the best point within the budget."""
        top = ascend(self.slope, start=start, opening=opening, **region(self.block, opening))
        here: Settled = top.answer.here.source
        reached, policy = here.expectation.reward, here.soft.solved.policy
        return LocalOptimum(top.answer.x, reached, top.value, policy, top.bound - top.value, top.ended)


def nowhere(failure: TutelageError, point: Vector, near: Any) -> Slope[Any]:
    """R where the learner cannot be computed; the error at the time limit, or at the first point."""
    if near is None or isinstance(failure, OutOfTime):
        raise failure
    return Slope(-math.inf, np.zeros(len(point)), near)


def region(block: Block, opening: Slope[Any]) -> dict[str, Any]:
    """What an ascent over a block's set must know of it, and its tolerance."""

    def model_step(gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
        return model_minimum(gradient, hessian, [block], x) - x

    tolerance = NO_GAIN * (1 + abs(opening.value))
    return {"model_step": model_step, "radius": float(np.max(block.radius)), "tolerance": tolerance}


def sign_patterns(n: int, rng: np.random.Generator) -> list[Vector]:
    """{-1, 0, 1}^n, the corners, edges and faces of a box; a random sample where there are more than N_PATTERNS."""
    if 3**n <= N_PATTERNS:
        return [np.array(signs) for signs in product((-1.0, 0.0, 1.0), repeat=n)]
    return [rng.choice([-1.0, 0.0, 1.0], size=n) for _ in range(N_PATTERNS)]


def distinct(optima: list[LocalOptimum]) -> list[LocalOptimum]:
    """Best first; among those with the same learner's expectation, only the best."""
    kept: list[LocalOptimum] = []
    size = SAME_MAXIMUM * max((np.abs(optimum.expectation).max() for optimum in optima), default=0.0)
    for optimum in sorted(optima, key=lambda optimum: -optimum.reward):
        if all(np.abs(optimum.expectation - other.expectation).max() > size for other in kept):
            kept.append(optimum)
    return kept


class LessonAnswer(NamedTuple):
    """The learner's response to mu_hat: weights a, other multipliers, tangents, mu_r; and the gradient of R there."""

    weights: Vector
    multipliers: Vector
    tangents: Tangents
    expectation: Vector
    gradient: Vector


@dataclass(frozen=True, slots=True, eq=False)
class LessonSearch(ReducedProblem):
    """R over the lessons that a policy can show. dual: of the learner."""

    dual: Dual = field(kw_only=True)

    def slope(self, point: Vector, near: LessonAnswer | None) -> Slope[LessonAnswer]:
        """R and its gradient at a lesson (d_r,)."""
        d_r = len(point)
        guess = (np.zeros(d_r), None, None) if near is None else near[:3]
        try:
            minimum, tangents = self.dual.optimise(point, *guess)
        except TutelageError as failure:
            return nowhere(failure, point, near)
        x, here = minimum.answer.x, minimum.answer.here
        program = self.dual.program(point, tangents)
        moved = sensitivity(program.blocks, x, here.gradient, here.hessian)[:d_r]
        gradient = moved @ program.at(x).jacobian.T @ here.source.jacobian[:, :d_r] @ self.true_weights
        tangents, multipliers = tangents.pruned(x[d_r:])
        expectation = here.source.expectation[:d_r]
        answer = LessonAnswer(x[:d_r], multipliers, tangents, expectation, gradient)
        return Slope(float(self.true_weights @ expectation), gradient, answer)

    def top(self, start: Vector, opening: Slope[LessonAnswer]) -> LocalOptimum:
        """STEP_LIMIT where hulls or budget were not enough. A lesson of the hull is start + shares @ edges."""
        domain = self.dual.domain
        here, ended = opening, Ended.CONVERGED
        shares, edges = np.zeros(0), np.zeros((0, len(start)))
        while True:
            lesson = start + shares @ edges
            answer = here.source
            with outcomes.unlimited():
                best = best_policy(domain, answer.gradient, no_limits(domain)).expectation.reward
            gain = max(float(answer.gradient @ (best - lesson)), 0.0)
            if gain <= NO_GAIN * (1 + abs(here.value)) or ended in (Ended.STEP_LIMIT, Ended.TIME_LIMIT):
                break
            if len(edges) == self.effort.n_hulls:
                ended = Ended.STEP_LIMIT
                break
            shares = np.append(shares, 0.0)
            edges = np.vstack([edges, best - start])
            hull = Block(np.zeros(len(edges)), 1.0, 1, False, np.arange(len(edges)))

            def slope(point: Vector, near: LessonAnswer | None, edges: Matrix = edges) -> Slope[LessonAnswer]:
                there = self.slope(start + point @ edges, near)
                return replace(there, gradient=edges @ there.gradient)

            opening = replace(here, gradient=edges @ answer.gradient)
            top = ascend(slope, start=shares, opening=opening, **region(hull, opening))
            shares, here, ended = top.answer.x, top.answer.here, top.ended
        with outcomes.unlimited():
            policy = nearest_policy(domain, lesson, no_limits(domain)).policy
        return LocalOptimum(answer.weights, answer.expectation, here.value, policy, gain, ended)
