"""Newton steps for the prices of a decomposition: the dual problem near one policy.

For a policy with expected counts F, visits d to states and expectation mu, each choice has an *advantage* per feature,

    A(c) = features(c) + discount(c) T(c) @ F - F(s(c))

and any other policy earns, at the price p, p @ mu + sum over s of d'(s) sum over c of pi'(c | s) p @ A(c), where d' are
the other policy's visits. With d in place of d' the best policy at the price p earns about

    p @ mu + sum over s of d(s) max over c of p @ A(c)                                              (one step)

This function of p is convex and needs no linear system. If the policy is optimal at a price, it has the same value and
the same slope there as max over policies of p @ mu, and the same curvature where many states change their choice one
after another. So its minimum in the dual variables u, p = price(u), is a Newton step for the prices.

Each max is smoothed with a width: max x is about width * log sum exp(x / width). This gives a gradient, a Hessian, and
a policy that takes nearly equal choices with similar probabilities: its expectation is close to the limits that bind.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.mdp.model import discounted, per_choice
from tutelage.outcomes import NotConverged, OutOfTime
from tutelage.solvers.columns import Column, Improver
from tutelage.solvers.newton import Expansion, proximal_newton
from tutelage.solvers.objectives import Dual

if TYPE_CHECKING:
    from tutelage.kernels.parallel import Edges

MAX_STEPS = 60
# The largest entry of the next u, in units of one plus the largest entry of this one.
FURTHEST = 4.0
# Rounding of sums over all states, in a problem of order one.
NOISE = 1e-13


@dataclass(frozen=True, eq=False)
class OneStep:
    """The dual problem near a column, to be minimised over u of the dual's set."""

    improver: Improver
    dual: Dual
    column: Column

    @cached_property
    def _affine(self) -> tuple[Vector, Matrix]:
        """price(u) @ A(c) = base(c) + slope(c) @ u, (C,) and (C, k)."""
        mdp, ahead = self.improver.domain.mdp, np.asarray(self.column.ahead)
        advantages = discounted(mdp, mdp.transition @ ahead)
        advantages -= per_choice(mdp, ahead)
        advantages += per_choice(mdp, self.improver.features)
        return advantages @ self.dual.base, np.ascontiguousarray(advantages @ self.dual.turn)

    @cached_property
    def _visits(self) -> Vector:
        return self.improver.visits(self.column)

    @cached_property
    def _edges(self) -> "Edges":
        from tutelage import kernels

        return kernels.block_edges(self.improver.domain.mdp.first_choice)

    @cached_property
    def _scratch(self) -> Vector:
        return np.empty(self.improver.domain.mdp.n_choices)

    def deviation(self, u: Vector) -> float:
        """The standard deviation of the choices' advantages at price(u)."""
        base, slope = self._affine
        return float((base + slope @ u).std())

    def expanded(self, u: Vector, width: float) -> Expansion[None]:
        """price(u) @ mu + linear @ u + the smoothed maxima, to second order."""
        from tutelage import kernels

        given = (self.improver.domain.mdp.first_choice, *self._affine, self._visits, u, width, self._scratch)
        parts = kernels.in_blocks(self._edges, kernels.smooth_maxima_range, *given)
        value, gradient, hessian = (sum(part) for part in zip(*parts, strict=True))
        constant, slope = self.column.counts @ self.dual.base, self.column.counts @ self.dual.turn + self.dual.linear
        return Expansion(float(constant + slope @ u + value), slope + gradient, hessian, NOISE, NOISE, None)

    def minimum(self, start: Vector, width: float, tolerance: float) -> Vector | None:
        """The u with the least smoothed value, from `start`; None where it is not found.

        tolerance: of the residual, an excess over the limits.
        """
        # Far from the minimum the model may have none; a step need not go further than this.
        blocks = [block.capped(FURTHEST * (1 + np.abs(start).max())) for block in self.dual.blocks or ()]

        def smooth(u: Vector, _: None) -> Expansion[None]:
            return self.expanded(u, width)

        try:
            return proximal_newton(smooth, blocks, start, tolerance=tolerance, max_steps=MAX_STEPS).x
        except OutOfTime:
            raise
        except NotConverged:
            return None

    def policy(self, u: Vector, width: float) -> Vector:
        """(C,), the smoothed maximum's policy: a little of every choice that is nearly best."""
        from tutelage import kernels

        mdp, policy = self.improver.domain.mdp, self._scratch.copy()
        given = (mdp.first_choice, *self._affine, u, width, policy)
        kernels.in_blocks(self._edges, kernels.smooth_policy_range, *given)
        return policy
