"""An upper bound on the reward of any lesson: branch and bound over the learner's reward weights.

A learner with reward weights a earns R(a) = w @ grad phi(a), with phi convex (`learners.dual`). Therefore

    R(a) <= (phi(a + t w) - phi(a)) / t                                              for every t > 0      (convexity)
         <= (phi(a + t w) - L(a)) / t                                                 for every tangent L of phi

and the last is convex in a: over a box its maximum is at a corner. Tangents, and upper bounds on phi at the corners
moved by t w, thus bound R over a *cell*. L may be any mixture of tangents, and those at the centres of all cells are
known. Any multipliers and any policy of the learner bound phi, so no value has to be exact (`Reduction.above`).

With the Hessian H of phi at the centre c and Q the largest (a - c) @ H @ (a - c) over the corners, the right side is
R(c) + (Q / t + t w @ H @ w) / 2 and a term for the slope of R. So t = sqrt(Q / w @ H @ w) is best, and the bound is
loose by sqrt(Q w @ H @ w), which falls with the width of the cell. `branch_and_bound` splits cells. The bound is exact
where phi is linear.

R never decreases along w, so only the border points where w leads out of the set are searched: for a box, the *forward
faces*, which are boxes of one dimension less. Cells inside a ball and cells outside it are skipped.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.blocks import Block
from tutelage.convex.programs import LinearConstraints, minimise_linear
from tutelage.learners.dual import Settled
from tutelage.outcomes import Ended, Solution, TutelageError, report
from tutelage.teachers.climbing import ReducedProblem

# Relative accuracy of the functions bounded.
CELL_ACCURACY = 1e-9
# How much rough solutions may loosen a bound, as a share of the gap at which the search ends.
ROUGH_SHARE = 0.1
# Another step t is tried where the bound is this many times looser than the second-order model predicts.
TRUSTED = 1.5
# The largest ratio, either way, of t |w| to the width of a cell.
FURTHEST = 100.0
# A bound mixes at most this many tangents, those that bound the cell best.
N_MIXED = 64
# Cells of more dimensions have too many corners, 2^(d - 1) each.
MOST_DIMENSIONS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The weights from low to high, (d_r,); curvature of each side, (d_r,), and learner of the cell it is a half of."""

    low: Vector
    high: Vector
    curvature: Vector | None = None
    near: Settled | None = None

    @property
    def centre(self) -> Vector:
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        return float((self.high - self.low).max())

    def corners(self) -> Iterator[Vector]:
        return map(np.array, product(*(sorted(set(ends)) for ends in zip(self.low, self.high, strict=True))))

    def halves(self) -> tuple["Cell", "Cell"]:
        """The cell cut across its longest side; where known, curvature counts as much as length."""
        sides = self.high - self.low
        # By curvature alone, sides across which phi is flat at the centres would never be cut.
        if self.curvature is not None and (sides * self.curvature).any():
            sides = sides * self.curvature**0.25
        longest = np.arange(len(sides)) == sides.argmax()
        low, high = (np.where(longest, self.centre, end) for end in (self.low, self.high))
        return replace(self, high=high), replace(self, low=low)

    def meets_border(self, block: Block) -> bool:
        """Whether the cell may contain border points of the block's ball; always true for the faces of a box."""
        if not block.is_ball:
            return True
        nearest = np.clip(0.0, self.low, self.high)
        furthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return block.size(nearest) <= float(block.radius) <= block.size(furthest)


def opening_cells(block: Block, weights: Vector) -> tuple[Cell, ...]:
    """The forward faces of a box; around a ball, the whole box."""
    high = np.full(len(weights), block.radius)
    if block.is_ball:
        return (Cell(-high, high),)
    faces = np.diag(weights != 0)[weights != 0]
    end = np.copysign(high, weights)
    return tuple(Cell(np.where(fixed, end, -high), np.where(fixed, end, high)) for fixed in faces)


def branch_and_bound(
    block: Block,
    weights: Vector,
    over: Callable[[Cell, float], tuple[Cell, float, float]],
    *,
    achieved: float,
    ceiling: float,
    room: float,
    max_cells: int,
) -> Solution[Vector | None]:
    """The largest R found over the border of a block's set where the weights lead out of it, and a bound on all of it.

    over: for a cell and the largest R so far, the cell with what its halves need, a bound over it, and R at its centre.
    achieved, ceiling: R of a known lesson, and a known bound. room: the gap at which the search ends. The answer is the
    centre with the largest R, None where no centre exceeds what was achieved.
    """
    value, bound = achieved, ceiling
    best, ended, n_cells = None, Ended.STEP_LIMIT, 0
    queue = list[tuple[float, int, Cell]]()
    fresh = opening_cells(block, weights)
    while True:
        try:
            report("cells", n_cells, bound - value)
            for cell in filter(lambda cell: cell.meets_border(block), fresh):
                known, limit, reward = over(cell, value)
                if reward > value and block.size(cell.centre) <= block.radius:
                    value, best = reward, cell.centre
                n_cells += 1
                heapq.heappush(queue, (-min(bound, limit), n_cells, known))
        except TutelageError:
            # Out of time, or a learner that could not be computed: the bound of the cell that these are halves of.
            heapq.heappush(queue, (-bound, 0, fresh[0]))
            break
        if not queue or -queue[0][0] <= value + room:
            ended = Ended.CONVERGED
            break
        if n_cells >= max_cells or queue[0][2].width == 0:
            break
        negative, _, cell = heapq.heappop(queue)
        bound = -negative
        fresh = cell.halves()
    highest = max(value, -queue[0][0]) if queue else value
    return Solution(best, value, highest, highest - value, ended, n_cells)


def least_over_steps(step: float, enough: float, above: Callable[[float], Matrix]) -> tuple[float, float, Matrix]:
    """The least bound over t = step, doubled and halved while that helps, that t, and what lies above there.

    above: for t, how far phi at each corner moved by t w lies above each tangent, (n, corners). enough: it ends there.
    """

    def tried(t: float) -> tuple[float, float, Matrix]:
        excess = above(t)
        return float(excess.max(axis=1).min()) / t, t, excess

    best = tried(step)
    close_enough = enough + CELL_ACCURACY * (1 + abs(enough))
    for factor in (2.0, 0.5):
        t, before = factor * step, np.inf
        while close_enough < best[0] < before - CELL_ACCURACY * (1 + abs(best[0])):
            before = best[0]
            best = min(best, tried(t), key=lambda each: each[0])
            t *= factor
    return best


def search(
    problem: ReducedProblem, *, achieved: float, ceiling: float, max_cells: int, tolerance: float = 0.005
) -> Solution[Vector | None]:
    """A bound on R over the set, as `branch_and_bound`. tolerance: the gap at which it ends, of what was achieved."""
    room = tolerance * abs(achieved) if math.isfinite(achieved) else 0.0
    over = _LineBounds(problem, room).over
    block, weights = problem.block, problem.true_weights
    return branch_and_bound(block, weights, over, achieved=achieved, ceiling=ceiling, room=room, max_cells=max_cells)


@dataclass(slots=True, eq=False)
class _LineBounds:
    """Bounds of R over cells. known: upper bounds on phi. tangents: (d_r + 1,), slopes and value at zero."""

    problem: ReducedProblem
    room: float
    tangents: list[Vector] = field(default_factory=list)
    last: Settled | None = None
    first: Settled | None = None
    known: dict[bytes, float] = field(default_factory=dict)

    def over(self, cell: Cell, value: float) -> tuple[Cell, float, float]:
        """As `branch_and_bound` asks; a bound within `room` of the value may be loose by a share of it."""
        enough = value + self.room
        accuracy = CELL_ACCURACY + ROUGH_SHARE * self.room
        weights = self.problem.true_weights
        here = self._settle(cell, accuracy)
        slope = here.expectation.reward
        curvature = np.maximum(np.diag(here.jacobian), 0.0)
        if cell.curvature is not None:
            curvature = (curvature + cell.curvature) / 2
        # An expansion takes as much memory as the model: the cells share that of the first.
        known = replace(cell, curvature=curvature, near=replace(here, soft=(self.first or here).soft))
        reward = float(weights @ slope)
        if cell.width == 0:
            return known, reward, reward
        self.tangents.append(np.append(slope, here.bound - slope @ cell.centre))
        step, loss = _predicted(cell, here, weights)
        corners = list(cell.corners())
        lower = np.array(self.tangents) @ np.vstack([np.transpose(corners), np.ones(len(corners))])

        def above(t: float) -> Matrix:
            points = [corner + t * weights for corner in corners]
            for point in points:
                # Neighbouring cells share points.
                if point.tobytes() not in self.known:
                    self.known[point.tobytes()] = self.problem.reduction.above(point, here, accuracy * t)
            ahead = np.array([self.known[point.tobytes()] for point in points])
            return np.asarray(ahead - lower + CELL_ACCURACY * (1 + float(np.abs(ahead).max())))

        bound, best, excess = least_over_steps(step, max(enough, reward + TRUSTED * loss), above)
        return known, bound if bound <= enough else _mixed(excess) / best, reward

    def _settle(self, cell: Cell, accuracy: float) -> Settled:
        """The learner at the centre, from the multipliers of the cell that this is a half of."""
        near, gap = self.last, 0.0
        if cell.near is not None and near is not None:
            gap = accuracy * _predicted(cell, cell.near, self.problem.true_weights)[0]
            near = replace(cell.near, soft=near.soft)
        self.last = self.problem.reduction.settle(cell.centre, near=near, gap=gap)
        self.first = self.first or self.last
        return self.last


def _mixed(above: Matrix) -> float:
    """min over mixtures of tangents of max over corners of phi(corner + t w) - L(corner). above: (n, corners)."""
    tried = above[np.argsort(above.max(axis=1))[:N_MIXED]]
    n, n_corners = tried.shape
    top = np.append(np.zeros(n), 1.0)
    # Shifted and in units of their differences, beside which the numbers may be large.
    apart = (tried - tried.min()) / (float(np.ptp(tried)) or 1.0)
    rows = np.hstack([apart.T, -np.ones((n_corners, 1))])
    limits = LinearConstraints(np.where(top, -np.inf, 0.0), 1 - top[None], np.ones(1), rows, np.zeros(n_corners))
    shares = np.maximum(minimise_linear(top, limits).answer.x[:n], 0.0)
    return float((shares / shares.sum() @ tried).max())


def _predicted(cell: Cell, here: Settled, weights: Vector) -> tuple[float, float]:
    """By the second-order model of phi at a learner, the best step t for a cell, and how loose the bound is."""
    away = np.array(list(cell.corners())) - cell.centre
    spread = float(np.einsum("ki,ij,kj->k", away, here.jacobian, away).max())
    along = float(weights @ here.jacobian @ weights)
    longest = cell.width / float(np.abs(weights).max())
    best = math.sqrt(spread / along) if spread > 0 and along > 0 else longest
    # A power of sqrt 2, so that cells share points.
    step = 2.0 ** (round(2 * math.log2(np.clip(best, longest / FURTHEST, FURTHEST * longest))) / 2)
    return step, 0.5 * (spread / step + step * along) + float(np.abs(away @ here.jacobian @ weights).max())
