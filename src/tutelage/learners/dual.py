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
from typing import Self

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.bellman.equations import solve_soft
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.chains.expectations import Expectation
from tutelage.constrained.occupancy_polytope import nearest_policy, require_feasible
from tutelage.constrained.problem import no_limits, sizes
from tutelage.convex.blocks import Block, contained, sensitivity, terms
from tutelage.convex.newton import LEFT_BY_ROUNDING
from tutelage.learners.penalties import Constraints, Mismatch, Preference, Tangents, build_response
from tutelage.learners.soft_program import SoftMinimum, SoftProgram
from tutelage.learners.without_entropy import best_within
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged, OutOfTime
from tutelage.roles import Certificate, CertifiedResponse, Lesson, named

# A residual above this calls for a check that a solution exists.
DOUBTFUL = 1e-9
# An expectation this far beyond a hard limit, relative to the largest one, violates it.
VIOLATED = 1e-7


def _from_afar(program: SoftProgram, tangents: Tangents, rough: SoftMinimum) -> SoftMinimum:
    """The minimum from that of warmer learners, where another start is too far from it; or the best point found."""
    try:
        return deque(program.cooled(), maxlen=1).pop()
    except OutOfTime as late:
        late.answer = (rough, tangents)
        raise
    except NotConverged as failure:
        return min(rough, failure.answer or rough, key=lambda either: either.value)


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """The dual program of one learner, for any lesson. mismatch: bound to the domain, `Mismatch.on`."""

    mismatch: Mismatch
    constraints: Constraints

    @classmethod
    def of(cls, domain: Domain, mismatch: Mismatch, preference: Preference) -> Self:
        """Of a learner's penalties, which are bound to the domain."""
        return cls(mismatch.on(domain), preference.on(domain))

    @property
    def domain(self) -> Domain:
        return self.constraints.domain

    def optimise(
        self, shown: Vector, weights: Vector, multipliers: Vector | None, near: Tangents | None = None
    ) -> tuple[SoftMinimum, Tangents]:
        """The minimum (a, y) for the expectation shown (d_r,), and the tangents at which it solves the true program.

        weights: a guess of a. near: the tangents of a nearby lesson. multipliers: a guess of y, ignored unless it has
        one entry per tangent. Raises an error that names the constraints or features at fault where no minimum exists.
        """
        tangents = Tangents.opening(self.constraints) if near is None else near
        y = np.zeros(tangents.n_multipliers)
        if multipliers is not None and len(multipliers) in (len(y), len(tangents.offsets)):
            y[: len(multipliers)] = multipliers
        a = weights
        while True:
            program = self.program(shown, tangents)
            try:
                minimum = program.minimise(np.concatenate([a, y]))
            except OutOfTime as late:
                late.answer = None if late.answer is None else (late.answer, tangents)
                raise
            except NotConverged as failure:
                self.diagnose(shown, tangents, failure)
                if failure.answer is None:
                    tangents, y = tangents.fixed(), y[: len(tangents.offsets)]
                    continue
                minimum = _from_afar(program, tangents, failure.answer)
            is_doubtful = minimum.residual > DOUBTFUL
            if is_doubtful:
                # Diverging weights look like rounding noise.
                excuse = NotConverged("rounding hides the minimum", residual=minimum.residual, n_steps=minimum.n_steps)
                self.diagnose(shown, tangents, excuse)
            a, y = np.split(minimum.answer.x, [len(shown)])
            if is_doubtful and tangents.moving is not None:
                tangents, y = tangents.touched(y)
                continue
            tighter, y = tangents.tightened(minimum.answer.here.source.expectation[len(shown) :], y)
            if tighter is tangents:
                return minimum, tangents
            tangents = tighter

    def program(self, shown: Vector, tangents: Tangents) -> SoftProgram:
        """The dual program for the expectation shown (d_r,)."""
        no_weights = np.zeros(len(self.domain.names))
        to_weights = block_diag(np.eye(len(shown)), tangents.lift)
        offset = np.concatenate([shown, np.zeros(tangents.lift.shape[1])])
        least = -math.inf
        if self.constraints.preference.is_hard and math.isfinite(self.mismatch.penalty * self.domain.mdp.horizon):
            # No policy costs more than the furthest. A dual well below proves that none keeps the preferences.
            furthest = np.abs(shown) + sizes(self.domain)[: len(shown)]
            least = -self.domain.mdp.steps - 2 * self.mismatch.cost(furthest)
        return SoftProgram(self.domain, no_weights, to_weights, offset, self.blocks(tangents), tangents.moving, least)

    def blocks(self, tangents: Tangents) -> list[Block]:
        """M*(-a) and N*(y)."""
        return [self.mismatch.block(self.domain), *tangents.blocks()]

    def diagnose(self, shown: Vector, tangents: Tangents, failure: NotConverged) -> None:
        """Raise an error that names the cause of diverging multipliers, where there is one."""
        limits = tangents.half_spaces()
        if self.constraints.preference.is_hard:
            require_feasible(self.domain, limits)
            if tangents.moving is not None:
                with suppress(NotConverged):
                    best_within(self.constraints, np.zeros(self.domain.n_reward))
        else:
            limits = no_limits(self.domain)
        if math.isinf(self.mismatch.penalty):
            nearest = nearest_policy(self.domain, shown, limits, norm=math.inf)
            values = self.mismatch.excess(nearest.expectation.reward - shown)
            within = " within the preferences" if len(limits) else ""
            reason = f"no policy{within} has the expectation shown: the nearest misses"
            if values.max() <= VIOLATED * sizes(self.domain)[: self.domain.n_reward].max():
                reason = "its weights diverge, because the expectation shown lies on the boundary of the reachable set:"
                values = shown
            raise NotConverged(
                f"the match must be exact, but {reason} {named(self.domain.reward_names, values)}; "
                "show another expectation, or use a finite mismatch penalty",
                residual=failure.residual,
                n_steps=failure.n_steps,
            ) from failure

    def response(
        self, lesson: Lesson, minimum: SoftMinimum, tangents: Tangents, other: SoftExpansion | None = None
    ) -> CertifiedResponse:
        """The policy at (a, y) with its certificate; or another policy, with the same weights and bound."""
        shown = lesson.expectation
        a, y = np.split(minimum.answer.x, [len(shown)])
        tangents, y = tangents.touched(y)
        x = np.concatenate([a, y])

        def measured(soft: SoftExpansion) -> tuple[Vector, Expectation, float, Vector]:
            """The policy, its expectation and entropy, and the gradient that they give."""
            policy = soft.solved.policy
            reached = Expectation(*np.split(soft.expectation, [len(shown)]))
            entropy = float(soft.visits @ -np.log(np.where(policy > 0, policy, 1.0)))
            slope = np.concatenate([reached.reward - shown, -(tangents.normals @ reached.preference)])
            return policy, reached, entropy, slope

        source = minimum.answer.here.source
        *_, entropy, own = measured(source)
        # P0 @ V = H + w @ mu: the large numbers w @ mu and a @ mu_hat are subtracted before they are multiplied.
        bound = entropy + float(own @ x) + terms(self.blocks(tangents), x)
        policy, reached, entropy, slope = measured(source if other is None else other)
        primal = entropy - self.paid(reached.reward - shown, reached.preference)
        error = self.domain.mdp.steps * self.program(shown, tangents).residual(x, slope, own)
        proof = Certificate(primal, bound, error, minimum.n_steps, minimum.ended, lesson.uncertainty)
        weights = np.concatenate([a, tangents.lift @ y])
        beta = tangents.by_constraint(y)
        return build_response(lesson, proof, policy, reached, weights, beta, self.mismatch, self.constraints)

    def warmer(self, lesson: Lesson, minimum: SoftMinimum, tangents: Tangents) -> Iterator[CertifiedResponse]:
        """The policies of warmer learners as responses, with the weights and the bound of the minimum found.

        Where the entropy hardly matters, rounding may hide which policy has exactly these weights, but not these.
        """
        found = replace(minimum, ended=Ended.ROUNDING)
        with suppress(NotConverged):
            for warm in self.program(lesson.expectation, tangents).cooled():
                yield self.response(lesson, found, tangents, warm.answer.here.source)

    def paid(self, deviation: Vector, preference: Vector) -> float:
        """M + N; infinite where an exact match or a hard preference is violated by more than rounding."""
        mismatch, constraints = self.mismatch, self.constraints
        largest = sizes(self.domain)[: self.domain.n_reward].max()
        if math.isinf(mismatch.penalty) and mismatch.excess(deviation).max() > VIOLATED * largest:
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
        tangents, soft = Tangents.opening(self.constraints), None
        y = np.zeros(tangents.n_multipliers)
        if near is not None:
            tangents, y = near.ahead(weights)
            soft = near.soft
        while True:
            program = self._program(weights, tangents)
            try:
                minimum = program.minimise(y, soft, gap=gap)
            except NotConverged:
                if tangents.moving is not None:
                    tangents, y = tangents.fixed(), y[: len(tangents.offsets)]
                    continue
                minimum = deque(program.cooled(), maxlen=1).pop()
            is_loose = minimum.value - minimum.bound > LEFT_BY_ROUNDING * (1 + abs(minimum.value))
            if near is not None and minimum.ended is Ended.ROUNDING and is_loose:
                # A multiplier on which nothing depends was carried so far that rounding hides everything else.
                return self.settle(weights, gap=gap)
            point = minimum.answer.here.source.expectation[len(weights) :]
            tighter, y = tangents.tightened(point, minimum.answer.x)
            if tighter is tangents:
                return self._at_minimum(weights, program, minimum, tangents)
            tangents = tighter

    def above(self, weights: Vector, near: Settled, accuracy: float) -> float:
        """An upper bound on phi at weights (d_r,), from the learner at nearby weights: no y has less than the minimum.

        The multipliers y are those of `near`, moved to first order; they are off by second order, and so is the bound
        by fourth. accuracy: of the soft value, whose error is added.
        """
        tangents, y = near.ahead(weights)
        program = self._program(weights, tangents)
        y = contained(program.blocks, y)
        at_y = program.at(y)
        mdp, soft = self.domain.mdp, near.soft
        start = soft.solved.value + soft.ahead @ (at_y.weights - soft.weights)
        solved = solve_soft(mdp, program.features @ at_y.weights, accuracy=accuracy, start=start)
        return float(mdp.initial @ solved.value) + solved.error_bound + at_y.value + terms(program.blocks, y)

    def _program(self, weights: Vector, tangents: Tangents) -> SoftProgram:
        """The program of the multipliers y at reward weights (d_r,)."""
        base = np.concatenate([weights, np.zeros(self.domain.n_preference)])
        lift = np.vstack([np.zeros((len(weights), tangents.lift.shape[1])), tangents.lift])
        return SoftProgram(self.domain, base, lift, np.zeros(lift.shape[1]), tangents.blocks(), tangents.moving)

    def _at_minimum(self, weights: Vector, program: SoftProgram, minimum: SoftMinimum, tangents: Tangents) -> Settled:
        y, here = minimum.answer.x, minimum.answer.here
        soft, at_y = here.source, program.at(y)
        d_r = len(weights)
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
