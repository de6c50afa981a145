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
where no upper end of C_c is known. For a fixed policy the right side, minimised over y, is convex in a, so its maximum
over a cell is at a corner: branch and bound over the box |a_k| <= C_r (`bounding`) certifies what no lesson exceeds.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.inference.learner_estimate import LearnerEstimate
from tutelage.inference.recovery import feature_scales
from tutelage.learners.dual import Reduction, Settled
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.teachers.bounding import CELL_ACCURACY, MOST_DIMENSIONS, Cell, branch_and_bound, least_over_steps


class Shown(NamedTuple):
    """A policy: its causal entropy, mu_r (d_r,), and for the low and high end of each delta_j what it pays (2, d_c)."""

    entropy: float
    reward: Vector
    paid: Matrix


@dataclass(slots=True, eq=False)
class RobustBound:
    """Bounds over the learners of a version space (2, 2 + d_c). delta: (2, d_c), its ends, finite. seen: by answers.

    known: at weights a, for the learner of each end P0 @ V(a, -y), y and its policy. last: these learners.
    """

    weights: Vector
    space: Matrix
    delta: Matrix
    seen: tuple[Shown, ...]
    reductions: tuple[Reduction, ...]
    last: list[Settled | None]
    known: dict[bytes, list[tuple[float, Vector, Shown]]] = field(default_factory=dict)

    def at(self, point: Vector) -> list[tuple[float, Vector, Shown]]:
        """What is known of the ends of the space at weights (d_r,)."""
        key = point.tobytes()
        if key not in self.known:
            self.last = [each.settle(point, near=near) for each, near in zip(self.reductions, self.last, strict=True)]
            self.known[key] = []
            for here in filter(None, self.last):
                done, y, value = here.expectation, here.multipliers, here.soft.soft_return
                entropy = value - float(point @ done.reward - y @ done.preference)
                paid = _times(float(self.space[1, 1]), done.preference - self.delta)
                self.known[key].append((value, y, Shown(entropy, done.reward, paid)))
        return self.known[key]

    def over(self, cell: Cell, achieved: float) -> tuple[Cell, float, float]:
        """The least bound on R over a cell, over the policies known and over t. R at the centre is not one number."""
        corners = list(cell.corners())
        policies = [policy for corner in (cell.centre, *corners) for _, _, policy in self.at(corner)] + [*self.seen]
        lower = np.array([[shown.entropy + float(corner @ shown.reward) for corner in corners] for shown in policies])

        def above(t: float) -> Matrix:
            ahead = [self.at(corner + t * self.weights) for corner in corners]
            upper = np.array([[self._above(points, shown) for points in ahead] for shown in policies])
            largest = max(abs(value) for points in ahead for value, *_ in points)
            return np.asarray(upper - lower + CELL_ACCURACY * (1 + largest))

        # Longer steps than the cell's width lose less of what is unknown about delta.
        longest = float(self.space[1, 0]) / float(np.abs(self.weights).max())
        return cell, least_over_steps(longest, achieved, above)[0], -math.inf

    def _above(self, points: list[tuple[float, Vector, Shown]], shown: Shown) -> float:
        """min over the y known of P0 @ V(a + t w, -y) + sum_j max over the ends of delta_j y_j + what is paid."""
        return min(value + float((self.delta * y + shown.paid).max(axis=0).sum()) for value, y, _ in points)


def _times(price: Vector | float, room: Matrix) -> Matrix:
    """What an excess costs at a price that may be infinite."""
    return np.where(room > 0, price * np.where(room > 0, room, 1.0), 0.0)


def robust_bound(
    estimate: LearnerEstimate,
    weights: Vector,
    *,
    achieved: float,
    ceiling: float,
    max_cells: int,
    tolerance: float,
) -> float:
    """What no lesson gets from any learner of a version space; at most the ceiling, at least what was achieved."""
    domain, space = estimate.domain, estimate.space
    # The largest mu_c of any policy stands for an infinite delta.
    delta = np.minimum(space[:, 2:], np.maximum(feature_scales(domain).high[domain.n_reward :], 0.0))
    radius = float(space[1, 0])
    least, highest = space[:, 1]
    if not (math.isfinite(radius) and weights.any() and len(weights) <= MOST_DIMENSIONS):
        return ceiling
    ends = delta if np.ptp(delta, axis=0).max(initial=0.0) > 0 else delta[:1]
    reductions = tuple(Reduction(Preference(penalty=least, allowance=end).on(domain)) for end in ends)
    seen = []
    for each in estimate.explained:
        # It pays b @ (mu_c - delta), for some b known. Errors of its weights enter the entropy in second order only.
        reward, preference = np.split(each.answer.seen, [domain.n_reward])
        room = preference - delta
        paid = np.minimum(_times(each.high, room), _times(highest, room))
        seen.append(Shown(each.answer.entropy, reward, paid))
    bounds = RobustBound(weights, space, delta, tuple(seen), reductions, [None] * len(reductions))
    block = Mismatch(norm=1, penalty=radius).block(domain)
    return branch_and_bound(
        block, weights, bounds.over, achieved=achieved, ceiling=ceiling, room=tolerance, max_cells=max_cells
    ).bound
