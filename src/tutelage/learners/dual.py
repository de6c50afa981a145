"""The dual program of every learner that values causal entropy (Eq. 1; App. D and E), and its solver.

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

V is the soft value of the reward a @ phi_r - (G'y) @ phi_c. The gradient of P0 @ V is mu_r in a and -G mu_c in y; its
Hessian is the covariance of `solvers.soft_expectations`. The learner's policy is the soft policy at the minimum. In the
paper's letters, a is alpha^low - alpha^up and y is beta. By weak duality the objective at any (a, y) bounds the
learner's objective over all policies; the gap between that bound and the policy's objective is the certificate.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Matrix, Vector
from tutelage.learners.penalties import Constraints, Mismatch
from tutelage.learners.responses import build_response, signed_multipliers
from tutelage.learners.tangents import Tangents
from tutelage.mdp.expectations import Expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged, OutOfTime
from tutelage.roles import Certificate, Lesson, Response, named
from tutelage.solvers.blocks import Block, contained, slices, terms
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.newton import Expansion, Minimum, proximal_newton
from tutelage.solvers.occupancy_polytope import nearest_policy, require_feasible
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features, soft_expansion

SoftMinimum = Minimum[SoftExpansion]
EPSILON = float(np.finfo(np.float64).eps)
RESIDUAL_TOLERANCE = 2e-9
# The path of penalties starts at 2^-16 of the learner's, where Newton's method converges from zero.
DOUBLINGS = 16
# A residual above this, relative to the expectation, calls for a check that a solution exists.
EXACT = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """The dual program of one learner, for any lesson. mismatch: bound to the domain, `Mismatch.on`."""

    domain: Domain
    mismatch: Mismatch
    constraints: Constraints

    def optimise(self, shown: Vector, weights: Vector, multipliers: Vector | None) -> tuple[SoftMinimum, Tangents]:
        """The minimum (a, y) for the expectation shown (d_r,), and the tangents at which it solves the true program.

        weights: a guess of a. multipliers: a guess of y, ignored unless it has one entry per opening tangent.
        Raises an error that names the constraints or features at fault where no minimum exists.
        """
        a, tangents, no_weights = weights, Tangents.opening(self.constraints), np.zeros(len(self.domain.names))
        y = np.zeros(len(tangents.offsets))
        if multipliers is not None and len(multipliers) == len(y):
            y = multipliers
        while True:
            offset = np.concatenate([shown, np.zeros(len(tangents.offsets))])
            program = SoftProgram(self.domain, no_weights, lift(tangents), offset, self.blocks(tangents))
            try:
                found = program.minimise(np.concatenate([a, y]))
            except OutOfTime:
                raise
            except NotConverged as failure:
                self._diagnose(shown, tangents, failure)
                found = self._follow(program, tangents, failure)
            reached = found.expansion.source.expectation
            if found.residual > EXACT * (1 + np.abs(reached).max()):
                # Diverging weights look like rounding noise.
                excuse = NotConverged("rounding hides the minimum", residual=found.residual, n_steps=found.n_steps)
                self._diagnose(shown, tangents, excuse)
            a, y = np.split(found.x, [self.domain.n_reward])
            tighter, y = tangents.tightened(reached[self.domain.n_reward :], y)
            if tighter is tangents:
                return found, tangents
            tangents = tighter

    def _follow(self, program: "SoftProgram", tangents: Tangents, failure: NotConverged) -> SoftMinimum:
        """The minimum by continuation: from small penalties, doubled one by one.

        With large penalties the dual is nearly piecewise linear, and Newton's steps from afar oscillate across its
        edges. While penalties are small, the minimum doubles with them: twice the last minimum is a good start.
        """
        x = np.zeros(len(program.offset))
        for ease in 2.0 ** -np.arange(DOUBLINGS, -1, -1):
            try:
                found = replace(program, blocks=self.blocks(tangents, ease)).minimise(2 * x)
            except OutOfTime:
                raise
            except NotConverged:
                raise failure from None
            x = found.x
        return found

    def blocks(self, tangents: Tangents, ease: float = 1.0) -> list[Block]:
        """M*(-a) and N*(y), with both penalties multiplied by `ease`."""
        mismatch = replace(self.mismatch, penalty=ease * self.mismatch.penalty)
        return [mismatch.block(self.domain), *tangents.blocks(ease)]

    def _diagnose(self, shown: Vector, tangents: Tangents, failure: NotConverged) -> None:
        """Raise an error that names the cause of diverging multipliers, where there is one."""
        limits = tangents.half_spaces()
        if self.constraints.preference.is_hard:
            require_feasible(self.domain, limits)
        else:
            limits = no_limits(self.domain)
        if math.isinf(self.mismatch.penalty):
            nearest = nearest_policy(self.domain, shown, limits, norm=math.inf)
            missing = self.mismatch.excess(nearest.expectation.reward - shown)
            within = " within the preferences" if len(limits) else ""
            reason, values = f"no policy{within} has the expectation shown: the nearest misses", missing
            if missing.max() <= 1e-7 * (1 + np.abs(shown).max()):
                reason = "its weights diverge, because the expectation shown lies on the boundary of the reachable set:"
                values = shown
            raise NotConverged(
                f"the match must be exact, but {reason} {named(self.domain.reward_names, values)}; "
                "show another expectation, or use a finite mismatch penalty",
                residual=failure.residual,
                n_steps=failure.n_steps,
            ) from failure

    def response(self, lesson: Lesson, found: SoftMinimum, tangents: Tangents) -> Response:
        """The policy at the minimum with its certificate."""
        mismatch, constraints, soft = self.mismatch, self.constraints, found.expansion.source
        a, y = np.split(found.x, [self.domain.n_reward])
        reached = Expectation(*np.split(soft.expectation, [self.domain.n_reward]))
        weights = lift(tangents) @ found.x
        entropy = soft.soft_return - float(weights @ soft.expectation)
        violation = constraints.preference.cost(constraints.excess(reached.preference))
        primal = entropy - mismatch.cost(reached.reward - lesson.expectation) - violation
        bound = found.expansion.value + terms(self.blocks(tangents), found.x)
        proof = Certificate(primal, bound, found.residual, found.n_steps, found.ended, lesson.uncertainty)
        multipliers = signed_multipliers(a, tangents.by_constraint(y))
        return build_response(lesson, proof, soft.solved.policy, reached, weights, multipliers, mismatch, constraints)


def lift(tangents: Tangents) -> Matrix:
    """(d, d_r + K), the map from (a, y) to the weights (a, -G'y) of all features."""
    matrix: Matrix = block_diag(np.eye(tangents.constraints.domain.n_reward), -tangents.normals.T)
    return matrix


@dataclass(frozen=True, slots=True, eq=False)
class SoftProgram:
    """minimise   P0 @ V(base + lift @ x) - offset @ x + sum over blocks of h(x_block)

    base: (d,), fixed weights of the features. lift: (d, n). offset: (n,). blocks: they partition x in order.
    """

    domain: Domain
    base: Vector
    lift: Matrix
    offset: Vector
    blocks: list[Block]

    def minimise(self, start: Vector, near: SoftExpansion | None = None) -> SoftMinimum:
        """Newton's method from a start (n,), each block scaled by a unit. near: an expansion at nearby weights."""
        features = combined_features(self.domain)
        units = self._units(features)
        scaled = [block.in_units(unit) for block, unit in zip(self.blocks, units, strict=True)]
        unit = np.repeat(units, [len(block.slope) for block in self.blocks])
        lift, offset = self.lift * unit, unit * self.offset

        def expand(z: Vector, last: SoftExpansion | None) -> Expansion[SoftExpansion]:
            weights = self.base + lift @ z
            soft = soft_expansion(self.domain.mdp, features, weights, near=near if last is None else last)
            reached, hessian = lift.T @ soft.expectation, lift.T @ soft.jacobian @ lift
            # The rounding error of the soft value V, and so the relative error of the policy exp(Q - V).
            ulps = 16 * EPSILON * float(np.abs(soft.solved.value).max())
            value = soft.soft_return - float(offset @ z)
            noise = ulps * (1 + float(np.abs(reached).max(initial=0.0)))
            return Expansion(value, reached - offset, hessian, noise, ulps + EPSILON * abs(float(offset @ z)), soft)

        # One unit of residual may cost as much as the largest penalty.
        tolerance = RESIDUAL_TOLERANCE / max([1.0, *(block.radius for block in scaled if math.isfinite(block.radius))])
        found = proximal_newton(expand, scaled, contained(scaled, start / unit), tolerance=tolerance)
        return replace(found, x=unit * found.x)

    def _units(self, features: Matrix) -> list[float]:
        """For each block the power of two, free of rounding, that scales its features to a size of about one."""
        sizes = np.abs(features @ self.lift).max(axis=0)
        largest = [float(sizes[part].max(initial=0.0)) for part in slices(self.blocks)]
        return [2.0 ** -round(math.log2(size)) if size > 0 else 1.0 for size in largest]
