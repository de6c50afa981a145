"""A convex program of a few numbers around the soft value, and its solver.

    minimise   P0 @ V(base + lift @ x) - offset @ x + sum over blocks of h(x_block)

It is solved in z = x / unit, with the objective divided by the horizon, so that expectations are of order one.
The dual of every entropy learner has this form (`dual`). Convex preference constraints bring a further part, whose
variables are their multipliers and the point at which their tangents touch (`convex_constraints`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tutelage.arrays import EPSILON, Matrix, Vector, set_fields
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.constrained.problem import or_one
from tutelage.convex.blocks import Block, contained, parts, residual
from tutelage.convex.newton import Expansion, Minimum, Reached, proximal_newton
from tutelage.learners.convex_constraints import Moving, Point
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import EndlessValue, NotConverged, Solution

SoftMinimum = Minimum[SoftExpansion]
# Of the optimality conditions, in units of the largest expectations; and of the duality gap, in nats.
RESIDUAL_TOLERANCE = 2e-11
GAP_TOLERANCE = 1e-8
# Each temperature of a path is this many times the next.
COOLING = 4.0
# What a step may have to cost at first, in nats, where some policy goes on for ever.
COSTS = tuple(4.0**k for k in range(-1, 12))
# The default of `unit`: that of each entry's feature.
BY_FEATURES: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class SoftProgram:
    """base: (d,), fixed weights of the features. lift: (d, n). offset: (n,). blocks: they partition x in order.

    moving: the convex constraints, whose variables are the last of x; lift and offset have only those before them.
    least: no minimum is below. unit: of the entries of x. features: those of the domain. scaled: the blocks in z.
    """

    domain: Domain
    base: Vector
    lift: Matrix
    offset: Vector
    blocks: list[Block]
    moving: Moving | None = None
    least: float = -math.inf
    unit: Vector = BY_FEATURES
    features: Matrix = field(init=False)
    scaled: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        set_fields(self, features=combined_features(self.domain))
        unit = self._units() if self.unit is BY_FEATURES else self.unit
        units = [float(unit[part][0]) if block.is_ball else unit[part] for block, part in parts(self.blocks)]
        scaled = [block.in_units(own, self.share) for block, own in zip(self.blocks, units, strict=True)]
        set_fields(self, unit=unit, scaled=scaled)

    @property
    def share(self) -> float:
        """One step as a share of the horizon."""
        return 1 / self.domain.mdp.steps

    def _units(self) -> Vector:
        """Each unit is a power of two, free of rounding; one for all entries of a ball."""
        size = np.abs(self.features @ self.lift).max(axis=0)
        # A feature that is zero everywhere has the size of what was shown or is allowed of it.
        slope = np.concatenate([block.slope for block in self.blocks])[: len(size)]
        size = np.where(size > 0, size, self.share * np.maximum(np.abs(self.offset), slope))
        if self.moving is not None:
            largest = self.moving.sizes
            slopes = np.array([function.slope(self.moving.centre) for function in self.moving.functions])
            size = np.concatenate([size, self.share * (np.abs(slopes) @ largest), 1 / largest])
        unit = np.exp2(-np.round(np.log2(or_one(size))))
        for block, part in parts(self.blocks):
            if block.is_ball:
                # That of the largest; an entry that is always zero has no size.
                unit[part] = unit[part].min(where=size[part] > 0, initial=np.inf) if size[part].any() else 1.0
        return unit

    def at(self, x: Vector) -> Point:
        """The weights at x, and the terms beside V."""
        n = len(self.offset)
        weights = self.base + self.lift @ x[:n]
        value = -float(self.offset @ x[:n])
        if self.moving is None:
            return Point(weights, self.lift, value, -self.offset, np.zeros((0, 0)))
        touch = self.moving.touch(x[n:])
        d_r = self.domain.n_reward
        weights[d_r:] += touch.weights
        jacobian = np.hstack([self.lift, np.vstack([np.zeros((d_r, len(x) - n)), touch.jacobian])])
        slope = np.append(-self.offset, touch.slope)
        return Point(weights, jacobian, value + touch.value, slope, touch.curvature)

    def minimise(
        self, start: Vector, near: SoftExpansion | None = None, *, tolerance: float | None = None, gap: float = 0.0
    ) -> SoftMinimum:
        """Newton's method from a start (n,). near: an expansion at nearby weights.

        tolerance: of the gradient, where it alone counts. gap: small enough, in nats, where every set is bounded.
        """
        bounded = [np.isfinite(block.radius).all() for block in self.scaled]
        # One unit of the residual may cost as much as the largest penalty.
        radii = [np.max(block.radius, initial=0.0) for block, ends in zip(self.scaled, bounded, strict=True) if ends]
        error = RESIDUAL_TOLERANCE / float(max([1.0, *radii]))
        apart = self.share * GAP_TOLERANCE
        if tolerance is not None:
            error, apart = self.share * tolerance, math.inf
        elif gap > 0 and self.moving is None and all(bounded):
            error, apart = math.inf, max(apart, self.share * gap)
        expand = partial(self._expand, near=near)
        try:
            inside = self._finite(contained(self.scaled, start / self.unit), near)
            low = self.share * self.least
            minimum = proximal_newton(expand, self.scaled, inside, tolerance=error, gap_tolerance=apart, lowest=low)
        except NotConverged as failure:
            if isinstance(failure.answer, Solution):
                failure.answer = self._in_given_units(failure.answer)
            raise
        return self._in_given_units(minimum)

    def evaluated(self, x: Vector) -> SoftMinimum:
        """A point x of the set, with its residual and its bound; one near x where the value there is infinite."""
        inside = self._finite(x / self.unit)
        return self._in_given_units(proximal_newton(self._expand, self.scaled, inside, tolerance=math.inf))

    def residual(self, x: Vector, gradient: Vector, own: Vector) -> float:
        """The largest violation of optimality conditions at x, one of them gradient = own (n,); units of `minimise`."""
        unit = self.share * self.unit
        apart = float(np.abs(unit * (gradient - own)).max())
        return max(residual(unit * gradient, self.scaled, x / self.unit), apart)

    def cooled(self) -> Iterator[SoftMinimum]:
        """The minima at falling temperatures; the last is that of this program, and the others need not be exact.

        With large penalties the dual is nearly piecewise linear, and Newton's steps from afar oscillate across its
        edges. At temperature T entropy counts T times, so that T V(w / T) takes the place of V(w): this is the same
        program of x / T with base and penalties divided by T. Minima are nearly linear in T, which yields guesses.
        """
        n = len(self.unit)
        # The places at which tangents touch do not grow with prices.
        is_price = np.arange(n) < n - (0 if self.moving is None else len(self.moving.centre))
        n_colder = math.ceil(math.log(self.warmest, COOLING))
        near, x, last = None, np.zeros(n), np.zeros(n)
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
            near = minimum.answer.here.source
            reached = np.where(is_price, warm, 1.0) * minimum.answer.x
            ahead = (reached - last) / COOLING if k < n_colder else 0.0
            x, last = np.where(is_price, reached + ahead, reached), reached

    @property
    def warmest(self) -> float:
        """The temperature at which no penalty is larger than the entropy of one step, and at least one."""
        size = np.abs(self.features @ self.lift).max(axis=0, initial=0.0)
        highest = [1.0, float(np.abs(self.features @ self.base).max())]
        for block, part in parts(self.blocks):
            largest = float(size[part].max(initial=0.0))
            price = np.max(block.radius, initial=0.0)
            if np.any(block.curvature):
                # A square is paid for as far as expectations reach.
                price = self.domain.mdp.steps * largest / np.max(block.curvature)
            highest.append(largest * float(price))
        return max(price for price in highest if math.isfinite(price))

    def _expand(
        self, z: Vector, last: SoftExpansion | None, near: SoftExpansion | None = None
    ) -> Expansion[SoftExpansion]:
        """f and its derivatives at z, in these units. last: the expansion at the last point; near: before the first."""
        at = self.at(self.unit * z)
        start = near if last is None else last
        # The last steps are so short that the value at the last point, to first order, is nearly exact already.
        is_short = start is not None and float(np.abs(self.features @ (at.weights - start.weights)).max()) <= 1e-6
        accuracy = 1e-14 if is_short else 1e-10
        try:
            soft = soft_expansion(self.domain.mdp, self.features, at.weights, near=start, accuracy=accuracy)
        except EndlessValue:
            if last is None:
                raise
            return Expansion(math.inf, np.zeros_like(z), np.eye(len(z)), 0.0, 0.0, last)
        lift = at.jacobian * self.unit
        reached = lift.T @ soft.expectation
        hessian = lift.T @ soft.jacobian @ lift
        moving = slice(len(z) - len(at.curvature), len(z))
        hessian[moving, moving] += self.unit[moving, None] * at.curvature * self.unit[moving]
        # The rounding error of the differences of the soft value V, and so the relative error of the policy exp(Q - V).
        low, high = float(soft.solved.value.min()), float(soft.solved.value.max())
        apart = 16 * EPSILON * (high - low + float(np.abs(self.features @ at.weights).max()))
        error = 16 * EPSILON * max(abs(low), abs(high)) + soft.solved.error_bound + EPSILON * abs(at.value)
        noise = self.share * apart * (1 + float(np.abs(reached).max(initial=0.0)))
        value, gradient = self.share * (soft.soft_return + at.value), self.share * (reached + self.unit * at.slope)
        return Expansion(value, gradient, self.share * hessian, noise, self.share * error, soft)

    def _finite(self, z: Vector, near: SoftExpansion | None = None) -> Vector:
        """z, or a point with a finite soft value: there all features of one sign make going on cost, more and more."""
        if np.isfinite(self.domain.mdp.horizon):
            return z
        slopes = self.features @ self.lift
        costs = np.zeros(len(z))
        costs[: slopes.shape[1]] = (slopes <= 0).all(axis=0).astype(np.float64) - (slopes >= 0).all(axis=0)
        for cost in (0.0, *COSTS):
            tried = contained(self.scaled, z + cost * costs)
            try:
                self._expand(tried, None, near)
                return tried
            except EndlessValue as failure:
                last = failure
        raise last

    def _in_given_units(self, minimum: SoftMinimum) -> SoftMinimum:
        here = minimum.answer.here
        per_unit = self.domain.mdp.steps / self.unit
        hessian = per_unit[:, None] * here.hessian / self.unit
        there = replace(here, gradient=per_unit * here.gradient, hessian=hessian)
        return replace(minimum, answer=Reached(self.unit * minimum.answer.x, there))
