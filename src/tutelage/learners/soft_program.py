"""A convex program of a few numbers around the soft value, and its solver.

    minimise   P0 @ V(base + lift @ x) - offset @ x + sum over blocks of h(x_block)

The dual of every entropy learner has this form (`dual`). Convex preference constraints bring a further part, whose
variables are their multipliers and the point at which their tangents touch (`convex_constraints`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import EPSILON, Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.constrained.problem import or_one
from tutelage.convex.blocks import Block, contained, parts, residual
from tutelage.convex.newton import Expansion, Minimum, Reached, proximal_newton
from tutelage.learners.convex_constraints import Moving, Point
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import EndlessValue, NotConverged, Solution

SoftMinimum = Minimum[SoftExpansion]
# Of the optimality conditions, in units of the largest expectations.
RESIDUAL_TOLERANCE = 2e-11
# Of the duality gap, in nats.
GAP_TOLERANCE = 1e-8
# Each temperature of a path is this many times the next.
COOLING = 4.0
# What a step may have to cost at first, in nats, where some policy goes on for ever.
COSTS = tuple(4.0**k for k in range(-1, 12))


@dataclass(frozen=True, slots=True, eq=False)
class SoftProgram:
    """base: (d,), fixed weights of the features. lift: (d, n). offset: (n,). blocks: they partition x in order.

    moving: the convex constraints, whose variables are the last of x; lift and offset have only those before them.
    """

    domain: Domain
    base: Vector
    lift: Matrix
    offset: Vector
    blocks: list[Block]
    moving: Moving | None = None

    def at(self, x: Vector) -> Point:
        n, d_r = len(self.offset), self.domain.n_reward
        weights, value = self.base + self.lift @ x[:n], -float(self.offset @ x[:n])
        if self.moving is None:
            return Point(weights, self.lift, value, -self.offset, np.zeros((0, 0)))
        touch = self.moving.touch(x[n:])
        weights[d_r:] += touch.weights
        jacobian = np.hstack([self.lift, np.vstack([np.zeros((d_r, len(x) - n)), touch.jacobian])])
        return Point(weights, jacobian, value + touch.value, np.append(-self.offset, touch.slope), touch.curvature)

    def minimise(
        self, start: Vector, near: SoftExpansion | None = None, *, tolerance: float | None = None, gap: float = 0.0
    ) -> SoftMinimum:
        """Newton's method from a start (n,). near: an expansion at nearby weights.

        tolerance: of the gradient, where all entries of x are of one size; without one, each gets a unit of its own.
        gap: the duality gap that is small enough, in nats, where every set is bounded: it then proves the value.
        """
        scaled, share = _Normalised.of(self, near), 1 / self.domain.mdp.steps
        # One unit of the residual may cost as much as the largest penalty.
        radii = [float(np.max(b.radius, initial=0.0)) for b in scaled.blocks if np.isfinite(b.radius).all()]
        error, apart = RESIDUAL_TOLERANCE / max([1.0, *radii]), GAP_TOLERANCE / self.domain.mdp.steps
        if tolerance is not None:
            blocks = [block.in_units(1.0, share) for block in self.blocks]
            scaled = replace(scaled, unit=np.ones(len(start)), blocks=blocks)
            error, apart = share * tolerance, math.inf
        if gap > 0 and self.moving is None and all(np.isfinite(block.radius).all() for block in self.blocks):
            error, apart = math.inf, max(apart, share * gap)
        try:
            inside = scaled.finite(contained(scaled.blocks, start / scaled.unit))
            minimum = proximal_newton(scaled.expand, scaled.blocks, inside, tolerance=error, gap_tolerance=apart)
        except NotConverged as failure:
            if isinstance(failure.answer, Solution):
                failure.answer = scaled.in_given_units(failure.answer)
            raise
        return scaled.in_given_units(minimum)

    def evaluated(self, x: Vector) -> SoftMinimum:
        """A point x of the set, with its residual and its bound; one near x where the value there is infinite."""
        scaled = _Normalised.of(self, None)
        inside = scaled.finite(x / scaled.unit)
        return scaled.in_given_units(proximal_newton(scaled.expand, scaled.blocks, inside, tolerance=math.inf))

    def residual(self, x: Vector, gradient: Vector, own: Vector) -> float:
        """The residual at x of a policy whose expectations give another gradient (n,) than its own, that of f at x.

        The largest violation of the optimality conditions, one of which is that both are equal; in the units of
        `minimise`.
        """
        scaled, share = _Normalised.of(self, None), 1 / self.domain.mdp.steps
        apart = float(np.abs(share * scaled.unit * (gradient - own)).max())
        return max(residual(share * scaled.unit * gradient, scaled.blocks, x / scaled.unit), apart)

    def cooled(self) -> Iterator[SoftMinimum]:
        """The minima at falling temperatures; the last is that of this program, and the others need not be exact.

        With large penalties the dual is nearly piecewise linear, and Newton's steps from afar oscillate across its
        edges. At temperature T entropy counts T times, so that T V(w / T) takes the place of V(w): this is the same
        program of x / T with base and penalties divided by T. At the first temperature Newton's method converges from
        zero; later minima are nearly linear in T, which yields the guess of the next one.
        """
        n = sum(map(len, self.blocks))
        # The places at which tangents touch do not grow with prices.
        is_price = np.arange(n) < n - (0 if self.moving is None else len(self.moving.centre))
        n_colder, near, x, last = math.ceil(math.log(self.warmest, COOLING)), None, np.zeros(n), np.zeros(n)
        for k in range(n_colder, -1, -1):
            warm = COOLING**k
            blocks = [block.in_units(warm, 1 / warm) for block in self.blocks]
            program = replace(self, base=self.base / warm, blocks=blocks)
            try:
                minimum = program.minimise(np.where(is_price, x / warm, x), near)
            except NotConverged as failure:
                if k == 0 or failure.answer is None:
                    raise
                minimum = failure.answer
            yield minimum
            reached, near = np.where(is_price, warm * minimum.answer.x, minimum.answer.x), minimum.answer.here.source
            ahead = (reached - last) / COOLING if k < n_colder else 0.0
            x, last = np.where(is_price, reached + ahead, reached), reached

    @property
    def warmest(self) -> float:
        """The temperature at which no penalty is larger than the entropy of one step, and at least one."""
        features = combined_features(self.domain)
        size, steps = np.abs(features @ self.lift).max(axis=0, initial=0.0), self.domain.mdp.steps
        highest = [1.0, float(np.abs(features @ self.base).max())]
        for block, part in parts(self.blocks):
            largest = float(size[part].max(initial=0.0))
            price = np.max(block.radius, initial=0.0)
            if np.any(block.curvature):
                # A square is paid for as far as expectations reach.
                price = steps * largest / np.max(block.curvature)
            highest.append(largest * float(price))
        return max(price for price in highest if math.isfinite(price))


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
        share, blocks = 1 / program.domain.mdp.steps, []
        size = np.abs(features @ program.lift).max(axis=0)
        # A feature that is zero everywhere has the size of what was shown or is allowed of it.
        slope = np.concatenate([block.slope for block in program.blocks])[: len(size)]
        size = np.where(size > 0, size, share * np.maximum(np.abs(program.offset), slope))
        if program.moving is not None:
            slopes = np.array([function.slope(program.moving.centre) for function in program.moving.functions])
            size = np.concatenate([size, share * (np.abs(slopes) @ program.moving.sizes), 1 / program.moving.sizes])
        unit = np.exp2(-np.round(np.log2(or_one(size))))
        for block, part in parts(program.blocks):
            if block.is_ball:
                # That of the largest; an entry that is always zero has no size.
                unit[part] = unit[part].min(where=size[part] > 0, initial=np.inf) if size[part].any() else 1.0
            blocks.append(block.in_units(float(unit[part][0]) if block.is_ball else unit[part], share))
        return cls(program, features, unit, blocks, near)

    def expand(self, z: Vector, last: SoftExpansion | None) -> Expansion[SoftExpansion]:
        """f and its derivatives at z, in these units. last: the expansion at the last point."""
        program, share, x = self.program, 1 / self.program.domain.mdp.steps, self.unit * z
        weights, jacobian, simple, slope, curvature = program.at(x)
        to_weights = jacobian * self.unit
        near = self.near if last is None else last
        # The last steps are so short that the value at the last point, to first order, is nearly exact already.
        moved = math.inf if near is None else float(np.abs(self.features @ (weights - near.weights)).max())
        accuracy = 1e-10 if moved > 1e-6 else 1e-14
        try:
            soft = soft_expansion(program.domain.mdp, self.features, weights, near=near, accuracy=accuracy)
        except EndlessValue:
            if last is None:
                raise
            return Expansion(math.inf, np.zeros_like(z), np.eye(len(z)), 0.0, 0.0, last)
        reached, hessian = to_weights.T @ soft.expectation, to_weights.T @ soft.jacobian @ to_weights
        gradient, last_of = reached + self.unit * slope, slice(len(z) - len(curvature), len(z))
        hessian[last_of, last_of] += self.unit[last_of, None] * curvature * self.unit[last_of]
        # The rounding error of the differences of the soft value V, and so the relative error of the policy exp(Q - V).
        low, high = float(soft.solved.value.min()), float(soft.solved.value.max())
        ulps = 16 * EPSILON * max(abs(low), abs(high)) + soft.solved.error_bound
        apart = 16 * EPSILON * (high - low + float(np.abs(self.features @ weights).max()))
        noise = share * apart * (1 + float(np.abs(reached).max(initial=0.0)))
        value, value_noise = share * (soft.soft_return + simple), share * (ulps + EPSILON * abs(simple))
        return Expansion(value, share * gradient, share * hessian, noise, value_noise, soft)

    def finite(self, z: Vector) -> Vector:
        """A point where the soft value is finite: z, or one at which going on costs enough.

        There every variable whose feature has one sign makes it cost, more and more.
        """
        if np.isfinite(self.program.domain.mdp.horizon):
            return z
        slopes = self.features @ self.program.lift
        costs = np.zeros(len(z))
        costs[: slopes.shape[1]] = (slopes <= 0).all(axis=0).astype(np.float64) - (slopes >= 0).all(axis=0)
        for cost in (0.0, *COSTS):
            tried = contained(self.blocks, z + cost * costs)
            try:
                self.expand(tried, None)
                return tried
            except EndlessValue as failure:
                last = failure
        raise last

    def in_given_units(self, minimum: SoftMinimum) -> SoftMinimum:
        """The minimum as a function of x."""
        per_unit, here = self.program.domain.mdp.steps / self.unit, minimum.answer.here
        hessian = per_unit[:, None] * here.hessian / self.unit
        there = replace(here, gradient=per_unit * here.gradient, hessian=hessian)
        return replace(minimum, answer=Reached(self.unit * minimum.answer.x, there))
