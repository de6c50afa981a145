"""The learner at given reward weights: its expectation and the derivative, as functions of d_r numbers.

For reward weights a, the preference multipliers solve a convex problem,

    phi(a) = min over y of   P0 @ V(a, -G'y) + N*(y)   =   max over pi of   H(pi) + a @ mu_r(pi) - N(g(mu_c(pi))),

and the pair (a, y(a)) satisfies the learner's optimality conditions, with each y_j at zero, at its limit or in between.
phi is convex, as a maximum of functions linear in a, and

    mu_r(a) = grad phi(a)                       the reward expectation of the learner with reward weights a
    d mu_r / d a = hess phi(a) = J_rr - J_ry Z (Z' (J_yy + B) Z)^-1 Z' J_yr

where J is the Hessian of P0 @ V in (a, y). The columns of Z span the directions in which y can move (the implicit
function theorem on its free coordinates). B is the curvature of the boundary of N*'s set. As phi is convex, mu_r is
monotone: u @ mu_r(a + t u) never decreases in t.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.chains.expectations import Expectation
from tutelage.convex.blocks import free_directions, inverse, terms
from tutelage.learners.penalties import Constraints
from tutelage.learners.soft_program import SoftMinimum, SoftProgram
from tutelage.learners.tangents import Tangents
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The learner at reward weights a (d_r,).

    value: phi(a). expectation: of its policy. jacobian: (d_r, d_r), d mu_r / d a, symmetric and positive semi-definite.
    multipliers: those of `Tangents`, (K,) or (K + d_c,). multiplier_jacobian: their derivative in a, (..., d_r). soft:
    the soft optimum with its policy.
    """

    weights: Vector
    value: float
    expectation: Expectation
    jacobian: Matrix
    multipliers: Vector
    multiplier_jacobian: Matrix
    tangents: Tangents
    soft: SoftExpansion


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """Eq. 1's learner as a function of its reward weights alone. constraints: `preference.on(domain)`."""

    constraints: Constraints

    @property
    def domain(self) -> Domain:
        return self.constraints.domain

    def settle(self, weights: Vector, *, near: Settled | None = None) -> Settled:
        """The learner at reward weights (d_r,). near: the learner at nearby weights, to start from."""
        domain, d_r = self.domain, self.domain.n_reward
        base = np.concatenate([weights, np.zeros(domain.n_preference)])
        if near is None:
            tangents, soft = Tangents.opening(self.constraints), None
            y = np.zeros(tangents.n_multipliers)
        else:
            ahead = near.multipliers + near.multiplier_jacobian @ (weights - near.weights)
            tangents, y = near.tangents.pruned(ahead)
            soft = near.soft
        while True:
            lift = np.vstack([np.zeros((d_r, tangents.lift.shape[1])), tangents.lift])
            blocks = tangents.blocks()
            program = SoftProgram(domain, base, lift, np.zeros(lift.shape[1]), blocks, tangents.moving)
            try:
                found = program.minimise(y, soft)
            except NotConverged:
                later, y = tangents.retreat(y)
                if later is not tangents:
                    tangents = later
                    continue
                found = program.followed()
            point = found.answer.here.source.expectation[d_r:]
            tighter, y = tangents.tightened(point, found.answer.x)
            if tighter is tangents:
                return self._at_minimum(weights, program, found, tangents)
            tangents = tighter

    def _at_minimum(self, weights: Vector, program: SoftProgram, found: SoftMinimum, tangents: Tangents) -> Settled:
        y, here, d_r = found.answer.x, found.answer.here, self.domain.n_reward
        soft, touch = here.source, program.touch(y)
        free, curvature = free_directions(program.blocks, y, here.gradient)
        hessian = free.T @ (here.hessian + curvature) @ free
        mixed = (program.jacobian(touch) @ free).T @ soft.jacobian[:, :d_r]
        moved = -inverse(hessian) @ mixed
        jacobian = soft.jacobian[:d_r, :d_r] + mixed.T @ moved
        return Settled(
            weights=freeze(weights.copy()),
            value=soft.soft_return + program.simple(y, touch) + terms(program.blocks, y),
            expectation=Expectation(*np.split(soft.expectation, [d_r])),
            jacobian=freeze((jacobian + jacobian.T) / 2),
            multipliers=freeze(y),
            multiplier_jacobian=freeze(free @ moved),
            tangents=tangents,
            soft=soft,
        )
