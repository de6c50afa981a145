"""The dual program of every learner that values causal entropy (Eq. 1; App. D and E), and its solver.

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

V is the soft value of the reward a @ phi_r - (G'y) @ phi_c. The gradient of P0 @ V is mu_r in a and -G mu_c in y; its
Hessian is the covariance of `bellman.soft_expectations`. The learner's policy is the soft policy at the minimum. In the
paper's letters, a is alpha^low - alpha^up and y is beta. By weak duality the objective at any (a, y) bounds the
learner's objective over all policies; the gap between that bound and the policy's objective is the certificate.

For given reward weights a (`Reduction`), the preference multipliers solve a convex problem,

    phi(a) = min over y of   P0 @ V(a, -G'y) + N*(y)   =   max over pi of   H(pi) + a @ mu_r(pi) - N(g(mu_c(pi))),

and the pair (a, y(a)) satisfies the learner's optimality conditions, with each y_j at zero, at its limit or in between.
phi is convex, as a maximum of functions linear in a, and

    mu_r(a) = grad phi(a)                       the reward expectation of the learner with reward weights a
    d mu_r / d a = hess phi(a) = J_rr - J_ry Z (Z' (J_yy + B) Z)^-1 Z' J_yr

where J is the Hessian of P0 @ V in (a, y). The columns of Z span the directions in which y can move (the implicit
function theorem on its free coordinates). B is the curvature of the boundary of N*'s set. As phi is convex, mu_r is
monotone: u @ mu_r(a + t u) never decreases in t.
"""

import math
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.bellman.equations import solve_soft
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.chains.expectations import Expectation, causal_entropy, expectation
from tutelage.constrained.occupancy_polytope import nearest_policy, require_feasible
from tutelage.constrained.problem import no_limits, sizes
from tutelage.convex.blocks import Block, contained, sensitivity, terms
from tutelage.convex.newton import LEFT_BY_ROUNDING
from tutelage.learners.penalties import Constraints, Mismatch, Tangents, build_response
from tutelage.learners.soft_program import SoftMinimum, SoftProgram
from tutelage.learners.without_entropy import best_within
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import Ended, NotConverged, OutOfTime
from tutelage.roles import Certificate, CertifiedResponse, Lesson, named

# A residual above this calls for a check that a solution exists.
DOUBTFUL = 1e-9
# An expectation this far beyond a hard limit, relative to the largest one, violates it.
VIOLATED = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """The dual program of one learner, for any lesson. mismatch: bound to the domain, `Mismatch.on`."""

    domain: Domain
    mismatch: Mismatch
    constraints: Constraints

    def optimise(
        self, shown: Vector, weights: Vector, multipliers: Vector | None, near: Tangents | None = None
    ) -> tuple[SoftMinimum, Tangents]:
        """The minimum (a, y) for the expectation shown (d_r,), and the tangents at which it solves the true program.

        weights: a guess of a. near: the tangents of a nearby lesson. multipliers: a guess of y, ignored unless it has
        one entry per tangent. Raises an error that names the constraints or features at fault where no minimum exists.
        """
        a, tangents = weights, Tangents.opening(self.constraints) if near is None else near
        y = np.zeros(tangents.n_multipliers)
        if multipliers is not None and len(multipliers) in (len(y), len(tangents.offsets)):
            y[: len(multipliers)] = multipliers
        while True:
            program = self.program(shown, tangents)
            try:
                minimum = program.minimise(np.concatenate([a, y]))
            except OutOfTime as late:
                late.answer = None if late.answer is None else (late.answer, tangents)
                raise
            except NotConverged as failure:
                if failure.answer is None:
                    self.diagnose(shown, tangents, failure)
                    tangents, y = tangents.fixed(), y[: len(tangents.offsets)]
                    continue
                minimum = self._from_afar(program, shown, tangents, failure)
            reached = minimum.answer.here.source.expectation
            if minimum.residual > DOUBTFUL:
                # Diverging weights look like rounding noise.
                excuse = NotConverged("rounding hides the minimum", residual=minimum.residual, n_steps=minimum.n_steps)
                self.diagnose(shown, tangents, excuse)
            a, y = np.split(minimum.answer.x, [self.domain.n_reward])
            if minimum.residual > DOUBTFUL and tangents.centre is not None:
                tangents, y = tangents.touched(y)
                continue
            tighter, y = tangents.tightened(reached[self.domain.n_reward :], y)
            if tighter is tangents:
                return minimum, tangents
            tangents = tighter

    def program(self, shown: Vector, tangents: Tangents) -> SoftProgram:
        """The dual program for the expectation shown (d_r,)."""
        to_weights = block_diag(np.eye(len(shown)), tangents.lift)
        offset = np.concatenate([shown, np.zeros(tangents.lift.shape[1])])
        no_weights, blocks = np.zeros(len(self.domain.names)), self.blocks(tangents)
        return SoftProgram(self.domain, no_weights, to_weights, offset, blocks, tangents.moving)

    def _from_afar(self, program: SoftProgram, shown: Vector, tangents: Tangents, failure: NotConverged) -> SoftMinimum:
        """The minimum from that of warmer learners, where another start is too far from it.

        Raises an error where there is no minimum. Returns the best point found where no way converges; the caller
        judges its gap.
        """
        self.diagnose(shown, tangents, failure)
        try:
            return deque(program.cooled(), maxlen=1).pop()
        except OutOfTime as late:
            late.answer = (failure.answer, tangents)
            raise
        except NotConverged as later:
            return min(failure.answer, later.answer or failure.answer, key=lambda either: either.value)

    def blocks(self, tangents: Tangents) -> list[Block]:
        """M*(-a) and N*(y)."""
        return [self.mismatch.block(self.domain), *tangents.blocks()]

    def diagnose(self, shown: Vector, tangents: Tangents, failure: NotConverged) -> None:
        """Raise an error that names the cause of diverging multipliers, where there is one."""
        limits = tangents.half_spaces()
        if self.constraints.preference.is_hard:
            require_feasible(self.domain, limits)
            if tangents.centre is not None:
                with suppress(NotConverged):
                    best_within(self.constraints, np.zeros(self.domain.n_reward))
        else:
            limits = no_limits(self.domain)
        if math.isinf(self.mismatch.penalty):
            nearest = nearest_policy(self.domain, shown, limits, norm=math.inf)
            missing = self.mismatch.excess(nearest.expectation.reward - shown)
            within = " within the preferences" if len(limits) else ""
            reason, values = f"no policy{within} has the expectation shown: the nearest misses", missing
            if missing.max() <= 1e-7 * sizes(self.domain)[: self.domain.n_reward].max():
                reason = "its weights diverge, because the expectation shown lies on the boundary of the reachable set:"
                values = shown
            raise NotConverged(
                f"the match must be exact, but {reason} {named(self.domain.reward_names, values)}; "
                "show another expectation, or use a finite mismatch penalty",
                residual=failure.residual,
                n_steps=failure.n_steps,
            ) from failure

    def response(
        self, lesson: Lesson, minimum: SoftMinimum, tangents: Tangents, policy: Vector | None = None
    ) -> CertifiedResponse:
        """The policy at (a, y) with its certificate; or another policy (C,), with the same weights and bound."""
        domain, soft, shown = self.domain, minimum.answer.here.source, lesson.expectation
        a, y = np.split(minimum.answer.x, [domain.n_reward])
        tangents, y = tangents.touched(y)
        done, mu, x = soft.solved.policy, Expectation(*np.split(soft.expectation, [len(a)])), np.concatenate([a, y])
        entropy = float(soft.visits @ -np.log(np.where(done > 0, done, 1.0)))
        # P0 @ V = H + w @ mu: the large numbers w @ mu and a @ mu_hat are subtracted before they are multiplied.
        slope = np.concatenate([mu.reward - shown, -(tangents.normals @ mu.preference)])
        bound, own = entropy + float(slope @ x) + terms(self.blocks(tangents), x), slope
        if policy is not None:
            done, mu, entropy = policy, expectation(domain, policy), causal_entropy(domain.mdp, policy)
            slope = np.concatenate([mu.reward - shown, -(tangents.normals @ mu.preference)])
        error = domain.mdp.steps * self.program(shown, tangents).residual(x, slope, own)
        primal = entropy - self.paid(mu.reward - shown, mu.preference)
        proof = Certificate(primal, bound, error, minimum.n_steps, minimum.ended, lesson.uncertainty)
        weights, beta = np.concatenate([a, tangents.lift @ y]), tangents.by_constraint(y)
        return build_response(lesson, proof, done, mu, weights, beta, self.mismatch, self.constraints)

    def warmer(self, lesson: Lesson, minimum: SoftMinimum, tangents: Tangents) -> Iterator[CertifiedResponse]:
        """The policies of warmer learners as responses, with the weights and the bound of the minimum found.

        Where the entropy hardly matters, rounding may hide which policy has exactly these weights, but not these.
        """
        with suppress(NotConverged):
            for warm in self.program(lesson.expectation, tangents).cooled():
                policy = warm.answer.here.source.solved.policy
                yield self.response(lesson, replace(minimum, ended=Ended.ROUNDING), tangents, policy)

    def paid(self, deviation: Vector, preference: Vector) -> float:
        """M + N; infinite where an exact match or a hard preference is violated by more than rounding."""
        mismatch, constraints = self.mismatch, self.constraints
        allowed = VIOLATED * sizes(self.domain)[: self.domain.n_reward].max()
        if math.isinf(mismatch.penalty) and mismatch.excess(deviation).max() > allowed:
            return math.inf
        excess = constraints.excess(preference)
        if constraints.preference.is_hard and (excess > VIOLATED * constraints.sizes(preference)).any():
            return math.inf
        return mismatch.cost(deviation) + constraints.preference.cost(excess)


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The learner at reward weights a (d_r,).

    value: phi(a). bound: with mu_r as slope, a lower bound on phi everywhere. expectation: of its policy. jacobian:
    (d_r, d_r), d mu_r / d a, symmetric and positive semi-definite. multipliers: those of `Tangents`, (K,) or
    (K + d_c,). multiplier_jacobian: their derivative in a, (..., d_r). soft: the soft optimum with its policy.
    """

    weights: Vector
    value: float
    bound: float
    expectation: Expectation
    jacobian: Matrix
    multipliers: Vector
    multiplier_jacobian: Matrix
    tangents: Tangents
    soft: SoftExpansion

    def ahead(self, weights: Vector) -> tuple[Tangents, Vector]:
        """The tangents and multipliers at nearby weights (d_r,), to first order."""
        return self.tangents.pruned(self.multipliers + self.multiplier_jacobian @ (weights - self.weights))


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """Eq. 1's learner as a function of its reward weights alone. constraints: `preference.on(domain)`."""

    constraints: Constraints

    @property
    def domain(self) -> Domain:
        return self.constraints.domain

    def settle(self, weights: Vector, *, near: Settled | None = None, gap: float = 0.0) -> Settled:
        """The learner at reward weights (d_r,). near: the learner at nearby weights, to start from.

        gap: how far, in nats, its objective may be from phi(a) where penalties are finite.
        """
        if near is None:
            tangents, soft = Tangents.opening(self.constraints), None
            y = np.zeros(tangents.n_multipliers)
        else:
            (tangents, y), soft = near.ahead(weights), near.soft
        while True:
            program = self._program(weights, tangents)
            try:
                minimum = program.minimise(y, soft, gap=gap)
            except NotConverged:
                if tangents.centre is not None:
                    tangents, y = tangents.fixed(), y[: len(tangents.offsets)]
                    continue
                minimum = deque(program.cooled(), maxlen=1).pop()
            is_loose = minimum.value - minimum.bound > LEFT_BY_ROUNDING * (1 + abs(minimum.value))
            if near is not None and minimum.ended is Ended.ROUNDING and is_loose:
                # A multiplier on which nothing depends was carried so far that rounding hides everything else.
                return self.settle(weights, gap=gap)
            point = minimum.answer.here.source.expectation[self.domain.n_reward :]
            tighter, y = tangents.tightened(point, minimum.answer.x)
            if tighter is tangents:
                return self._at_minimum(weights, program, minimum, tangents)
            tangents = tighter

    def above(self, weights: Vector, near: Settled, accuracy: float) -> float:
        """An upper bound on phi at weights (d_r,), from the learner at nearby weights: no y has less than the minimum.

        The multipliers y are those of `near`, moved to first order; they are off by second order, and so is the bound
        by fourth. accuracy: of the soft value, whose error is added.
        """
        mdp, (tangents, y) = self.domain.mdp, near.ahead(weights)
        program = self._program(weights, tangents)
        y = contained(program.blocks, y)
        reached, _, simple, *_ = program.at(y)
        start = near.soft.solved.value + near.soft.ahead @ (reached - near.soft.weights)
        solved = solve_soft(mdp, combined_features(self.domain) @ reached, accuracy=accuracy, start=start)
        return float(mdp.initial @ solved.value) + solved.error_bound + simple + terms(program.blocks, y)

    def _program(self, weights: Vector, tangents: Tangents) -> SoftProgram:
        """The program of the multipliers y at reward weights (d_r,)."""
        base = np.concatenate([weights, np.zeros(self.domain.n_preference)])
        lift = np.vstack([np.zeros((len(weights), tangents.lift.shape[1])), tangents.lift])
        return SoftProgram(self.domain, base, lift, np.zeros(lift.shape[1]), tangents.blocks(), tangents.moving)

    def _at_minimum(self, weights: Vector, program: SoftProgram, minimum: SoftMinimum, tangents: Tangents) -> Settled:
        y, here, d_r = minimum.answer.x, minimum.answer.here, self.domain.n_reward
        soft, at_y = here.source, program.at(y)
        mixed = at_y.jacobian.T @ soft.jacobian[:, :d_r]
        moved = -sensitivity(program.blocks, y, here.gradient, here.hessian) @ mixed
        jacobian = soft.jacobian[:d_r, :d_r] + mixed.T @ moved
        value = soft.soft_return + at_y.value + terms(program.blocks, y)
        return Settled(
            weights=freeze(weights.copy()),
            value=value,
            bound=value - self.domain.mdp.steps * (minimum.value - minimum.bound) - soft.solved.error_bound,
            expectation=Expectation(*np.split(soft.expectation, [d_r])),
            jacobian=freeze((jacobian + jacobian.T) / 2),
            multipliers=freeze(y),
            multiplier_jacobian=freeze(moved),
            tangents=tangents,
            soft=soft,
        )
