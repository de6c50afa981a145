"""The reduced bi-level problem: what a learner earns as a function of the reward weights it settles on, climbed.

    maximise over a in the mismatch set   R(a) = w* @ mu_r(a)               gradient: d mu_r / d a @ w*

mu_r(a) and its derivative are those of `learners.reduction`. R is not concave, so there are many starts.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from tutelage.arrays import Vector
from tutelage.learners.reduction import Reduction, Settled
from tutelage.outcomes import Ended
from tutelage.solvers.ascent import Slope, ascend
from tutelage.solvers.blocks import Block

# A gain this small, relative to 1 + what is earned, is none.
NO_GAIN = 1e-7
# Local maxima whose expectations are this close, relative to 1 + the largest, are one.
SAME = 1e-3
# How many points of the border are looked at, and from how many of them, the best, it is climbed.
MAX_PATTERNS, MOST_PROMISING = 81, 10


@dataclass(frozen=True, slots=True, eq=False)
class LocalOptimum:
    """A lesson that no lesson nearby beats.

    weights: (d_r,), what the learner settles on. expectation: (d_r,), the learner's mu_r. reward: what that earns.
    policy: (C,), what to show. gap, ended: the predicted gain of one more step of the ascent, and why it stopped.
    """

    weights: Vector
    expectation: Vector
    reward: float
    policy: Vector
    gap: float
    ended: Ended


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem:
    """R over the set of weights that the learner may settle on."""

    reduction: Reduction
    block: Block
    true_weights: Vector

    def slope(self, weights: Vector, near: Settled | None) -> Slope[Settled]:
        """R and its gradient at weights (d_r,)."""
        here = self.reduction.settle(weights, near=near)
        reward = float(self.true_weights @ here.expectation.reward)
        return Slope(reward, here.jacobian @ self.true_weights, here)

    def climb(self, starts: list[Vector], others: list[Vector]) -> list[LocalOptimum]:
        """Every local maximum uphill from a start, or from one of the most promising others; best first.

        Starts are moved into the set.
        """
        inside = [self.block.contain(start) for start in (*starts, *others)]
        first_at = {point.tobytes(): i for i, point in reversed(list(enumerate(inside)))}
        near: Settled | None = None
        found: list[LocalOptimum] = []
        # Only the best are kept whole: an expansion is as large as the model.
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
        return LocalOptimum(
            top.x, here.expectation.reward, top.slope.value, here.soft.solved.policy, top.gap, top.ended
        )


def sign_patterns(n: int, rng: np.random.Generator) -> list[Vector]:
    """{-1, 0, 1}^n, the corners, edges and faces of a box; with many features, so many drawn from them."""
    if 3**n <= MAX_PATTERNS:
        return [np.array(signs) for signs in product((-1.0, 0.0, 1.0), repeat=n)]
    return [rng.choice([-1.0, 0.0, 1.0], size=n) for _ in range(MAX_PATTERNS)]


def distinct(optima: list[LocalOptimum]) -> list[LocalOptimum]:
    """Best first; of those that lead the learner to the same expectation, only the best."""
    kept: list[LocalOptimum] = []
    for optimum in sorted(optima, key=lambda optimum: -optimum.reward):
        size = SAME * (1 + float(np.abs(optimum.expectation).max()))
        if all(np.abs(optimum.expectation - other.expectation).max() > size for other in kept):
            kept.append(optimum)
    return kept
