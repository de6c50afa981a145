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

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.constrained.columns import Column, Improver
from tutelage.constrained.objectives import Box, Dual
from tutelage.model.mdp import discounted, per_choice

MAX_STEPS = 400
# The largest entry of the next u, in units of one plus the largest entry of this one.
FURTHEST = 4.0


@dataclass(frozen=True, eq=False)
class OneStep:
    """The dual problem near a column, to be minimised over u of the dual's box."""

    improver: Improver
    dual: Dual
    box: Box
    column: Column

    @cached_property
    def _affine(self) -> Matrix:
        """(C, k+1), price(u) @ A(c) = affine[c] @ (1, u)."""
        mdp = self.improver.domain.mdp
        turn = np.column_stack([self.dual.base, self.dual.turn])
        ahead = np.asarray(self.column.ahead) @ turn
        affine = discounted(mdp, mdp.transition @ ahead)
        affine += per_choice(mdp, self.improver.features @ turn - ahead if self.improver.is_on_states else -ahead)
        if not self.improver.is_on_states:
            affine += self.improver.features @ turn
        return np.ascontiguousarray(affine)

    @cached_property
    def _visits(self) -> Vector:
        return self.improver.visits(self.column)

    @cached_property
    def _slope(self) -> Vector:
        return np.asarray(self.column.counts @ self.dual.turn + self.dual.linear)

    def deviation(self, u: Vector) -> float:
        """The standard deviation of the choices' advantages at price(u)."""
        return float((self._affine @ np.concatenate([[1.0], u])).std())

    def expanded(self, u: Vector, width: float) -> tuple[float, Vector, Matrix]:
        """price(u) @ mu + linear @ u + the smoothed maxima: the value, the gradient and the Hessian."""
        from tutelage.constrained import one_step_loops

        mdp = self.improver.domain.mdp
        states = np.arange(mdp.n_states)
        value, gradient, hessian = one_step_loops.smooth_maxima(
            mdp.first_choice, self._affine, self._visits, states, u, width
        )
        return float(self.column.counts @ self.dual.base + self._slope @ u + value), self._slope + gradient, hessian

    def minimum(self, start: Vector, width: float, tolerance: float, radius: float = np.inf) -> Vector | None:
        """The u with the least smoothed value, from `start`; None where it is not found.

        tolerance: of the residual, an excess over the limits.
        """
        from tutelage.constrained import one_step_loops

        # Far from the minimum the model may have none; a step need not go further than this.
        box = self.box.around(start, min(radius, FURTHEST * (1 + float(np.abs(start).max()))))
        given = (self.improver.domain.mdp.first_choice, self._affine, self._visits, self._slope)
        u, is_minimum = one_step_loops.least_smooth_maxima(
            *given, box.curvature, box.lower, box.upper, start, width, tolerance, MAX_STEPS
        )
        return u if is_minimum else None

    def policy(self, u: Vector, width: float, least: float) -> Vector:
        """(C,), the smoothed maximum's policy: a little of every choice that is nearly best.

        Choices with less than the share `least` are left out. The fewer choices, the cheaper is the factorisation.
        """
        from tutelage.constrained import one_step_loops

        first = self.improver.domain.mdp.first_choice
        return np.asarray(one_step_loops.smooth_policy(first, self._affine, u, width, least))
