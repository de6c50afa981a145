"""The reduced bi-level problem: the learner's reward as a function of its reward weights, maximised by local ascent.

    maximise over a in the mismatch set   R(a) = w* @ mu_r(a)               gradient: d mu_r / d a @ w*

mu_r(a) and its derivative are those of `learners.reduction`. R is not concave, so the ascent runs from many starts.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage.arrays import Vector
from tutelage.learners.reduction import Reduction, Settled
from tutelage.outcomes import Ended
from tutelage.solvers.ascent import Slope, ascend
from tutelage.solvers.blocks import Block

# A predicted gain this small, relative to 1 + |reward|, ends an ascent.
NO_GAIN = 1e-7
# Local maxima whose expectations are this close, relative to 1 + the largest entry, count as one.
SAME = 1e-3
# The largest number of sign patterns evaluated, and of the best of them from which to climb.
MAX_PATTERNS, MOST_PROMISING = 81, 10


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

        Points outside the set are first moved into it.
        """
        inside = [self.block.contain(start) for start in (*starts, *others)]
        first_at = {point.tobytes(): i for i, point in reversed(list(enumerate(inside)))}
        near: Settled | None = None
        found: list[LocalOptimum] = []
        # Only the best are kept, since an expansion takes as much memory as the model.
        promising: list[tuple[Vector, Slope[Settled]]] = []
        for i in sorted(first_at.values()):
            opening = self.slope(inside[i], near)
            near = opening.source
            if i < len(starts):
                found.append(self._top(inside[i], opening))
            else:
                promising.append((inside[i], opening))
                promising = sorted(promising, key=lambda pair: -pair[1].value)[:MOST_PROMISING]
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
    for optimum in sorted(optima, key=lambda optimum: -optimum.reward):
        size = SAME * (1 + float(np.abs(optimum.expectation).max()))
        if all(np.abs(optimum.expectation - other.expectation).max() > size for other in kept):
            kept.append(optimum)
    return kept
