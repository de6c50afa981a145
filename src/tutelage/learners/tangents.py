"""Outer approximation: convex preference constraints replaced by finitely many tangents.

Each g_j lies above its tangents, g_j(x) >= g_j(x_k) + grad g_j(x_k) @ (x - x_k). A program within finitely many
tangents is therefore a relaxation, and its dual bounds the true optimum. Each solution that violates a constraint adds
a tangent there. A linear constraint is its own tangent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.learners.penalties import DUAL_NORM, Constraints
from tutelage.mdp.expectations import expectation
from tutelage.mdp.policy import uniform_policy
from tutelage.outcomes import NotConverged
from tutelage.roles import named
from tutelage.solvers.blocks import Block
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.occupancy_polytope import ConstrainedOptimum

MAX_CUTS = 200
# How far a convex constraint may lie above its tangents at the solution, relative to its largest value.
CUT_TOLERANCE = 1e-9
# What the part above the tangents may cost, in nats, and the rounding error of a constraint relative to its size.
CUT_COST, ROUNDING = 1e-7, 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class Tangents:
    """normals @ mu_c <= offsets, (K, d_c) and (K,).

    constraint: (K,), ascending; row k is a tangent of constraint number constraint[k]. n_cuts: the additions so far.
    """

    constraints: Constraints
    normals: Matrix
    offsets: Vector
    constraint: Indices
    n_cuts: int = 0

    @classmethod
    def opening(cls, constraints: Constraints) -> Self:
        """The linear constraints, and the tangent of each convex one at the uniform policy's expectation."""
        rows, allowance, domain = constraints.rows, constraints.allowance, constraints.domain
        linear = cls(constraints, rows, allowance[: len(rows)], np.arange(len(rows)))
        if not constraints.preference.functions:
            return linear
        point = expectation(domain, uniform_policy(domain.mdp)).preference
        return linear._cut(point, np.arange(len(rows), len(allowance)))

    def tightened(self, point: Vector, multipliers: Vector) -> tuple[Self, Vector]:
        """Tangents at mu_c = point (d_c,) added for each constraint that needs one; itself where none does.

        multipliers: (K,), one per row; the second result has zeros for the rows added.
        """
        loose = self._loose(point)
        if not len(loose):
            return self, multipliers
        if self.n_cuts >= MAX_CUTS:
            values = named(self.constraints.names, self.constraints.values(point))
            raise NotConverged(
                f"the convex constraints are not met after tangents at {MAX_CUTS} points; their values are {values}",
                residual=math.inf,
                n_steps=MAX_CUTS,
            )
        return self._cut(point, loose), np.concatenate([multipliers, np.zeros(len(loose))])[self._order(loose)]

    def pruned(self, multipliers: Vector) -> tuple[Self, Vector]:
        """The linear constraints, and of each convex one the tangents that bind and the last, with their multipliers.

        A later problem starts from these, so that the tangents of a long search do not accumulate.
        """
        is_linear = self.constraint < len(self.constraints.rows)
        is_last = np.append(self.constraint[1:] != self.constraint[:-1], True)[: len(self.constraint)]
        kept = is_linear | (multipliers > 0) | is_last
        fewer = type(self)(self.constraints, self.normals[kept], self.offsets[kept], self.constraint[kept])
        return fewer, multipliers[kept]

    def _loose(self, point: Vector) -> Indices:
        """The constraints above their allowance, and above all their tangents, by more than the tolerance."""
        allowance = self.constraints.allowance
        modelled = np.full(len(allowance), -math.inf)
        np.maximum.at(modelled, self.constraint, self.normals @ point - self.offsets)
        size = self.constraints.sizes(point)
        # A soft constraint may cost no more than the gap that a response may have.
        paid = CUT_COST / self.constraints.preference.penalty
        tolerance = np.minimum(CUT_TOLERANCE * size, np.maximum(paid, ROUNDING * size))
        return np.flatnonzero(self.constraints.excess(point) > np.maximum(modelled, 0.0) + tolerance)

    def _cut(self, point: Vector, which: Indices) -> Self:
        """These tangents, and one at the point for each of the convex constraints `which`."""
        normals, offsets = [*self.normals], [*self.offsets]
        for j in which:
            function = self.constraints.preference.functions[j - len(self.constraints.rows)]
            slope = function.slope(point)
            normals.append(slope)
            offsets.append(self.constraints.allowance[j] + slope @ point - function.value(point))
        order = self._order(which)
        constraint = np.concatenate([self.constraint, which])[order]
        return type(self)(
            self.constraints, np.array(normals)[order], np.array(offsets)[order], constraint, self.n_cuts + 1
        )

    def _order(self, which: Indices) -> Indices:
        return np.argsort(np.concatenate([self.constraint, which]), kind="stable")

    def blocks(self) -> list[Block]:
        """N*(y) as terms of the dual.

        The tangents of one constraint share its excess, so their y's are summed. For p = 1 the set is a box on the
        sums: a box for the linear constraints and, as y >= 0, a 1-norm ball for each convex constraint.
        """
        preference = self.constraints.preference
        radius, norm = preference.penalty, DUAL_NORM[preference.norm]
        if not math.isinf(norm):
            return [Block(self.offsets, radius, norm, False, self.constraint)]
        alone = np.bincount(self.constraint)[self.constraint] == 1 if len(self.constraint) else self.constraint == 0
        n_alone = int(np.argmin(np.append(alone, False)))
        shared = np.unique(self.constraint[n_alone:])
        parts = [np.arange(n_alone), *(np.flatnonzero(self.constraint == j) for j in shared)]
        return [
            Block(self.offsets[part], radius, math.inf if k == 0 else 1, False, np.arange(len(part)))
            for k, part in enumerate(parts)
        ]

    def half_spaces(self) -> HalfSpaces:
        """The tangents as limits on mu = (mu_r, mu_c)."""
        normals = np.hstack([np.zeros((len(self.offsets), self.constraints.domain.n_reward)), self.normals])
        return HalfSpaces(normals, self.offsets, tuple(self.constraints.names[j] for j in self.constraint))

    def by_constraint(self, multipliers: Vector) -> Vector:
        """(m,), beta: the multipliers (K,) of each constraint's tangents summed."""
        return np.bincount(self.constraint, multipliers, len(self.constraints.names)).astype(np.float64)


def optimum_within(
    constraints: Constraints, solve: Callable[[HalfSpaces], ConstrainedOptimum]
) -> tuple[ConstrainedOptimum, Tangents]:
    """The optimum within convex constraints, and the tangents that prove it. solve: the optimum within half-spaces."""
    tangents = Tangents.opening(constraints)
    while True:
        found = solve(tangents.half_spaces())
        tighter, _ = tangents.tightened(found.expectation.preference, found.multipliers)
        if tighter is tangents:
            return found, tangents
        tangents = tighter
