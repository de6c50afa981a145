"""The dual program of every learner that values causal entropy (Eq. 1; App. D and E), and its solver.

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

V is the soft value of the reward a @ phi_r - (G'y) @ phi_c. The gradient of P0 @ V is mu_r in a and -G mu_c in y; its
Hessian is the covariance of `solvers.soft_expectations`. The learner's policy is the soft policy at the minimum. In the
paper's letters, a is alpha^low - alpha^up and y is beta. By weak duality the objective at any (a, y) bounds the
learner's objective over all policies; the gap between that bound and the policy's objective is the certificate.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Matrix, Vector
from tutelage.learners.penalties import Constraints, Mismatch
from tutelage.learners.responses import build_response, signed_multipliers
from tutelage.learners.tangents import Tangents
from tutelage.learners.without_entropy import cheapest
from tutelage.mdp.expectations import Expectation, causal_entropy, expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged, OutOfTime
from tutelage.roles import Certificate, Lesson, Response, named
from tutelage.solvers.blocks import Block, contained, slices, terms
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.newton import Expansion, Minimum, Tolerances, proximal_newton
from tutelage.solvers.occupancy_polytope import nearest_policy, require_feasible
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features, soft_expansion
from tutelage.solvers.units import or_one, sizes

SoftMinimum = Minimum[SoftExpansion]
EPSILON = float(np.finfo(np.float64).eps)
# Of the optimality conditions, in units of the largest expectations.
RESIDUAL_TOLERANCE = 2e-11
# Of the duality gap, in nats.
GAP_TOLERANCE = 1e-8
# The path of penalties starts here, where Newton's method converges from zero, and grows by this factor.
FIRST_CAP, CAP_GROWTH, LAST_CAP = 1.0, 4.0, 1e30
# A residual above this calls for a check that a solution exists.
EXACT = 1e-9
# An expectation this far beyond a hard limit, relative to the largest one, violates it.
VIOLATED = 1e-7


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
            except OutOfTime as late:
                late.answer = None if late.answer is None else (late.answer, tangents)
                raise
            except NotConverged as failure:
                found = self._from_afar(program, shown, tangents, failure)
            reached = found.expansion.source.expectation
            if found.residual > EXACT:
                # Diverging weights look like rounding noise.
                excuse = NotConverged("rounding hides the minimum", residual=found.residual, n_steps=found.n_steps)
                self._diagnose(shown, tangents, excuse)
            a, y = np.split(found.x, [self.domain.n_reward])
            tighter, y = tangents.tightened(reached[self.domain.n_reward :], y)
            if tighter is tangents:
                return found, tangents
            tangents = tighter

    def _from_afar(
        self, program: "SoftProgram", shown: Vector, tangents: Tangents, failure: NotConverged
    ) -> SoftMinimum:
        """The minimum from the learner without entropy, or along a path, where another start is too far from it.

        Raises an error where there is no minimum. Returns the best point found where no way converges; the caller
        judges its gap.
        """
        self._diagnose(shown, tangents, failure)
        best: SoftMinimum = failure.answer
        start = cheapest(self.domain, self.mismatch, tangents, shown).multipliers
        for from_start in (True, False):
            try:
                return program.minimise(start) if from_start else program.followed()
            except OutOfTime as late:
                late.answer = (min(best, late.answer or best, key=lambda found: found.value), tangents)
                raise
            except NotConverged as later:
                best = min(best, later.answer, key=lambda found: found.value)
        return best

    def blocks(self, tangents: Tangents) -> list[Block]:
        """M*(-a) and N*(y)."""
        return [self.mismatch.block(self.domain), *tangents.blocks()]

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
            if missing.max() <= 1e-7 * sizes(self.domain)[: self.domain.n_reward].max():
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
        soft = found.expansion.source
        reached = Expectation(*np.split(soft.expectation, [self.domain.n_reward]))
        surprise = -np.log(np.where(soft.solved.policy > 0, soft.solved.policy, 1.0))
        entropy = float(soft.visits @ surprise)
        # P0 @ V = H + w @ mu: the large numbers w @ mu and a @ mu_hat are subtracted before they are multiplied.
        slope = np.concatenate([reached.reward - lesson.expectation, -(tangents.normals @ reached.preference)])
        bound = entropy + float(slope @ found.x) + terms(self.blocks(tangents), found.x)
        return self._response(lesson, found, tangents, bound, (soft.solved.policy, reached, entropy))

    def cheapest_response(self, lesson: Lesson, found: SoftMinimum, tangents: Tangents, bound: float) -> Response:
        """The policy that pays least, with the same weights and bound: better where the entropy hardly matters."""
        policy = cheapest(self.domain, self.mismatch, tangents, lesson.expectation).policy
        reached, entropy = expectation(self.domain, policy), causal_entropy(self.domain.mdp, policy)
        return self._response(lesson, found, tangents, bound, (policy, reached, entropy))

    def _response(
        self,
        lesson: Lesson,
        found: SoftMinimum,
        tangents: Tangents,
        bound: float,
        done: tuple[Vector, Expectation, float],
    ) -> Response:
        """The response of a policy with its expectation and entropy."""
        policy, reached, entropy = done
        a, y = np.split(found.x, [self.domain.n_reward])
        primal = entropy - self._paid(reached.reward - lesson.expectation, reached.preference)
        residual = self.domain.mdp.horizon * found.residual
        proof = Certificate(primal, bound, residual, found.n_steps, found.ended, lesson.uncertainty)
        return build_response(
            lesson,
            proof,
            policy,
            reached,
            lift(tangents) @ found.x,
            signed_multipliers(a, tangents.by_constraint(y)),
            self.mismatch,
            self.constraints,
        )

    def _paid(self, deviation: Vector, preference: Vector) -> float:
        """M + N; infinite where an exact match or a hard preference is violated by more than rounding."""
        mismatch, constraints = self.mismatch, self.constraints
        allowed = VIOLATED * sizes(self.domain)[: self.domain.n_reward].max()
        if math.isinf(mismatch.penalty) and mismatch.excess(deviation).max() > allowed:
            return math.inf
        excess = constraints.excess(preference)
        if constraints.preference.is_hard and (excess > VIOLATED * constraints.sizes(preference)).any():
            return math.inf
        return mismatch.cost(deviation) + constraints.preference.cost(excess)


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
        """Newton's method from a start (n,), each entry in a unit of its own. near: an expansion at nearby weights."""
        scaled = _Normalised.of(self, near)
        with scaled.answers():
            inside = contained(scaled.blocks, start / scaled.unit)
            found = proximal_newton(scaled.expand, scaled.blocks, inside, **scaled.tolerances(scaled.blocks))
        return scaled.in_given_units(found)

    def followed(self) -> SoftMinimum:
        """The minimum by continuation from small penalties, which are raised step by step to their own."""
        scaled = _Normalised.of(self, None)
        with scaled.answers():
            found = scaled.followed()
        return scaled.in_given_units(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Normalised:
    """The same program in z = x / unit, with the objective divided by the horizon: expectations are of order one."""

    program: SoftProgram
    features: Matrix
    unit: Vector
    blocks: list[Block]
    near: SoftExpansion | None

    @classmethod
    def of(cls, program: SoftProgram, near: SoftExpansion | None) -> "_Normalised":
        """Each unit is a power of two, free of rounding; one for all entries of a ball."""
        features = combined_features(program.domain)
        share, blocks = 1 / program.domain.mdp.horizon, []
        size = np.abs(features @ program.lift).max(axis=0)
        # A feature that is zero everywhere has the size of what was shown of it.
        size = np.where(size > 0, size, share * np.abs(program.offset))
        unit = np.exp2(-np.round(np.log2(or_one(size))))
        for block, part in zip(program.blocks, slices(program.blocks), strict=True):
            if block.is_ball:
                unit[part] = unit[part].min()
            blocks.append(block.in_units(float(unit[part][0]) if block.is_ball else unit[part], share))
        return cls(program, features, unit, blocks, near)

    def expand(self, z: Vector, last: SoftExpansion | None) -> Expansion[SoftExpansion]:
        """f and its derivatives at z, in these units. last: the expansion at the last point."""
        program, share, to_weights = self.program, 1 / self.program.domain.mdp.horizon, self.program.lift * self.unit
        weights, offset = program.base + to_weights @ z, self.unit * program.offset
        near = self.near if last is None else last
        # The last steps are so short that the value at the last point, to first order, is nearly exact already.
        moved = math.inf if last is None else float(np.abs(self.features @ (weights - last.weights)).max())
        accuracy = 1e-10 if moved > 1e-6 else 1e-14
        soft = soft_expansion(program.domain.mdp, self.features, weights, near=near, accuracy=accuracy)
        reached, hessian = to_weights.T @ soft.expectation, to_weights.T @ soft.jacobian @ to_weights
        # The rounding error of the differences of the soft value V, and so the relative error of the policy exp(Q - V).
        low, high = float(soft.solved.value.min()), float(soft.solved.value.max())
        ulps, away = 16 * EPSILON * max(abs(low), abs(high)), float(offset @ z)
        apart = 16 * EPSILON * (high - low + float(np.abs(self.features @ weights).max()))
        noise = share * apart * (1 + float(np.abs(reached).max(initial=0.0)))
        value, value_noise = share * (soft.soft_return - away), share * (ulps + EPSILON * abs(away))
        return Expansion(value, share * (reached - offset), share * hessian, noise, value_noise, soft)

    def tolerances(self, blocks: list[Block]) -> Tolerances:
        """Of the residual, one unit of which may cost as much as the largest penalty, and of the gap."""
        largest = max([1.0, *(float(np.max(b.radius, initial=0.0)) for b in blocks if np.isfinite(b.radius).all())])
        return {
            "tolerance": RESIDUAL_TOLERANCE / largest,
            "gap_tolerance": GAP_TOLERANCE / self.program.domain.mdp.horizon,
        }

    def in_given_units(self, found: SoftMinimum) -> SoftMinimum:
        return replace(found, x=self.unit * found.x)

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Convert the best point that an error carries."""
        try:
            yield
        except NotConverged as failure:
            if isinstance(failure.answer, Minimum):
                failure.answer = self.in_given_units(failure.answer)
            raise

    def followed(self) -> SoftMinimum:
        """The minimum by continuation: from small penalties, raised step by step.

        With large penalties the dual is nearly piecewise linear, and Newton's steps from afar oscillate across its
        edges. While penalties are small, the minimum grows with them. Hard limits have the same path, without an end.
        """
        z, cap = np.zeros(len(self.unit)), FIRST_CAP
        while cap < LAST_CAP:
            blocks = [block.capped(cap) for block in self.blocks]
            found = proximal_newton(self.expand, blocks, contained(blocks, z), **self.tolerances(blocks))
            if all(_is_inside(b, f, found.x[p]) for b, f, p in zip(blocks, self.blocks, slices(blocks), strict=True)):
                return found
            cap *= CAP_GROWTH
            radius = np.concatenate([np.full(len(block.slope), block.radius) for block in blocks])
            z = np.where(np.abs(found.x) > 0.9 * radius, CAP_GROWTH, 1.0) * found.x
        message = "the weights grow without end"
        raise NotConverged(message, residual=found.residual, n_steps=found.n_steps, answer=found)


def _is_inside(capped: Block, full: Block, z: Vector) -> bool:
    """Whether the cap on a term does not matter at z."""
    if np.any(full.curvature):
        return bool(np.array_equal(capped.curvature, full.curvature))
    if np.array_equal(np.broadcast_to(capped.radius, z.shape), np.broadcast_to(full.radius, z.shape)):
        return True
    return bool(capped.size(z) < 0.9 * capped.radius if capped.is_ball else (np.abs(z) < 0.9 * capped.radius).all())
