"""An upper bound on the reward of any lesson that holds for every learner of a version space.

For theta = (C_r, C_c, delta) a learner with reward weights a earns R(a; theta) = w @ grad phi(a), with

    phi(a) = min over 0 <= y <= C_c of   P0 @ V(a, -y) + delta @ y                                              (1)
           = max over pi of              H(pi) + a @ mu_r(pi) - C_c sum_j (mu_c[j] - delta_j)+                  (2)

phi is convex in a, so that t R(a; theta) <= phi(a + t w) - phi(a) for every t > 0. Both are bounded at the same theta,
so that nothing is lost where a preference is paid for in both: phi(a + t w) by any y <= C_c low in (1), and phi(a) by
any policy in (2),

    t R(a; theta) <= P0 @ V(a + t w, -y) - H(pi) - a @ mu_r(pi) + sum_j max over delta_j of e_j
    e_j = delta_j y_j + C_c (mu_c[j] - delta_j)+        at most the larger of its values at both ends: it is convex.

A policy that the learner itself showed pays exactly b @ (mu_c - delta), by its optimality conditions, so it serves
where no upper end of C_c is known. For a fixed policy the right side, minimised over y, is convex in a. So its maximum
over a cell is at a corner, and branch and bound over the box |a_k| <= C_r (`bounding`) certifies what no lesson
exceeds, whatever the parameters are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.inference.version_space import Explained
from tutelage.learners.dual import Reduction, Settled
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.model.mdp import Domain
from tutelage.outcomes import TutelageError
from tutelage.teachers.bounding import CELL_ACCURACY, MOST_DIMENSIONS, Cell, CellSearch, least_over_steps, opening_cells


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A policy: its causal entropy, mu_r (d_r,), and for the low and high end of each delta_j what it pays (2, d_c)."""

    entropy: float
    reward: Vector
    paid: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """The learner of one end of the space at weights a: P0 @ V(a, -y), y, and its policy."""

    soft_return: float
    multipliers: Vector
    shown: Shown


@dataclass(slots=True, eq=False)
class RobustBound:
    """Bounds over the learners of a version space (2, 2 + d_c). delta: (2, d_c), its ends, finite. known: what is."""

    space: Matrix
    delta: Matrix
    seen: tuple[Shown, ...]
    reductions: tuple[Reduction, ...]
    last: list[Settled | None]
    known: dict[bytes, tuple[_Point, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, domain: Domain, space: Matrix, explained: Sequence[Explained], most: Vector) -> "RobustBound":
        """most: (d_c,), the largest mu_c of any policy, which stands for an infinite delta."""
        delta = np.minimum(space[:, 2:], np.maximum(most, 0.0))
        least, highest = space[:, 1].tolist()
        ends = delta if np.ptp(delta, axis=0).max(initial=0.0) > 0 else delta[:1]
        reductions = tuple(Reduction(Preference(penalty=least, allowance=end).on(domain)) for end in ends)
        seen = []
        for one in explained:
            # It pays b @ (mu_c - delta), for some b within the ends known. The error of the answer's weights enters
            # the entropy in second order only.
            done, room = one.answer.seen[: domain.n_reward], one.answer.seen[domain.n_reward :] - delta
            seen.append(Shown(one.answer.entropy, done, np.minimum(_times(one.high, room), _times(highest, room))))
        return cls(space, delta, tuple(seen), reductions, [None] * len(reductions))

    def at(self, weights: Vector) -> tuple[_Point, ...]:
        """The learners of the ends of the space at weights (d_r,)."""
        key = weights.tobytes()
        if key not in self.known:
            points = []
            for k, reduction in enumerate(self.reductions):
                here = self.last[k] = reduction.settle(weights, near=self.last[k])
                done, y, value = here.expectation, here.multipliers, here.soft.soft_return
                entropy = value - float(weights @ done.reward - y @ done.preference)
                paid = _times(float(self.space[1, 1]), done.preference - self.delta)
                points.append(_Point(value, y, Shown(entropy, done.reward, paid)))
            self.known[key] = tuple(points)
        return self.known[key]

    def over(self, cell: Cell, weights: Vector, achieved: float) -> float:
        """The least bound on R over a cell, over the policies known and over t."""
        corners = list(cell.corners())
        policies = [point.shown for corner in (cell.centre, *corners) for point in self.at(corner)]
        policies += self.seen
        lower = np.array([[shown.entropy + float(corner @ shown.reward) for corner in corners] for shown in policies])

        def above(t: float) -> Matrix:
            ahead = [self.at(corner + t * weights) for corner in corners]
            upper = np.array([[self._above(points, shown) for points in ahead] for shown in policies])
            largest = max(abs(point.soft_return) for points in ahead for point in points)
            return np.asarray(upper - lower + CELL_ACCURACY * (1 + largest))

        # Longer steps than the cell's width lose less of what is unknown about delta.
        return least_over_steps(float(self.space[1, 0]) / float(np.abs(weights).max()), achieved, above)[0]

    def _above(self, points: tuple[_Point, ...], shown: Shown) -> float:
        """min over the y known of P0 @ V(a + t w, -y) + sum_j max over the ends of delta_j y_j + what is paid."""
        worst = [(self.delta * point.multipliers + shown.paid).max(axis=0).sum() for point in points]
        return min(point.soft_return + float(most) for point, most in zip(points, worst, strict=True))


def _times(price: Vector | float, room: Matrix) -> Matrix:
    """What an excess costs at a price that may be infinite."""
    return np.where(room > 0, price * np.where(room > 0, room, 1.0), 0.0)


def robust_bound(
    bounds: RobustBound, weights: Vector, *, achieved: float, ceiling: float, max_cells: int, tolerance: float
) -> float:
    """What no lesson gets from any learner of the space; at most the ceiling, at least what was achieved.

    Cells are split until every bound is within `tolerance` of `achieved`, or up to `max_cells`.
    """
    radius = float(bounds.space[1, 0])
    if not (math.isfinite(radius) and weights.any() and len(weights) <= MOST_DIMENSIONS):
        return ceiling
    block = Mismatch(norm=1, penalty=radius).block(bounds.reductions[0].domain)
    cells = CellSearch(
        opening_cells(block, weights),
        value=achieved,
        bound=ceiling,
        enough=lambda value: value + tolerance,
        max_cells=max_cells,
    )
    try:
        for cell in cells:
            cells.add(cell, bounds.over(cell, weights, cells.value))
    except TutelageError:
        # A learner of the space that could not be computed.
        cells.give_up()
    return cells.solution().bound
