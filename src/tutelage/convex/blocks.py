"""Small quadratic models: simple convex terms h on blocks of entries, and the exact minimum of a quadratic plus these.

    h(x) = slope @ |x| + curvature / 2 * |x|^2   on the ball   norm_q(sums of x by group) <= radius

The set is a box (q = inf) or a ball (q = 1 or 2). On the surface of a ball the optimality conditions have a multiplier
m >= 0: m times the sum of |x|, or m / 2 times the sum of squares, is added to the objective. A unit may differ from
entry to entry except in a ball. One step of every method of this package is the exact minimum of such a model,

    minimise over z   gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z)

On a box by principal pivoting (`box_minimum`): entries that violate their optimality conditions change between fixed
at a bound and free. With balls by an interior point (Clarabel), which is not exact, but shows which entries rest at
zero or at a bound, and which balls bind (`Block.settled`). With these fixed, the optimality conditions are equations in
the free entries and one multiplier m for each surface,

    hessian (z - x) + gradient + grad h(z) + sum of m_k normal_k(z) = 0,        z on the surfaces,

linear but for the products m z of balls with q = 2. A few Newton steps solve them to rounding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from scipy.linalg import block_diag, null_space

from tutelage import outcomes
from tutelage.arrays import SMALLEST, Flags, Indices, Matrix, Vector, max_abs
from tutelage.convex.programs import minimise_conic

# A block within this relative distance of its radius counts as on the surface of its ball or box.
SURFACE = 1e-12
# An interior point takes as long as this many steps of another iteration on a small model.
CONE_COST = 5
# Newton steps on the free entries; they converge quadratically from the interior point, whose error is about 1e-6.
POLISHING_STEPS = 4
# A residual of the model's conditions, relative to the gradient, at which an active set counts as the right one.
EXACT_ENOUGH = 1e-11
# The rounding error of one pivoting step, relative to the numbers that it is made of.
PIVOT_ERROR = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One term h, of n entries.

    slope: (n,), not negative where the block is signed. A block that is not signed has x >= 0, and any slope.
    norm: q = 1, 2 or inf. radius: may be infinite. groups: (n,), the group of each entry; entries of one group are
    summed before the norm is taken. For q = inf every entry is a group. Where each entry has a unit of its own, the
    radius of a box and the curvature are vectors (n,).
    """

    slope: Vector
    radius: float | Vector
    norm: float
    is_signed: bool
    groups: Indices
    curvature: float | Vector = 0.0

    @property
    def is_ball(self) -> bool:
        """Whether the entries share one limit; a single entry has a box for any norm."""
        return not math.isinf(self.norm) and len(self.slope) > 1 and bool(np.isfinite(self.radius).all())

    def __len__(self) -> int:
        return len(self.slope)

    def value(self, x: Vector) -> float:
        return float(self.slope @ np.abs(x) + 0.5 * np.sum(self.curvature * x * x))

    def size(self, x: Vector) -> float:
        """norm_q of the sums by group; for q = 1 the entries of one group have the same sign."""
        if self.norm == 1:
            return float(np.abs(x).sum())
        return float(np.linalg.norm(np.bincount(self.groups, x), self.norm))

    def contain(self, x: Vector) -> Vector:
        """A point of the block's set: x clipped and, in a ball, scaled."""
        inside = x if self.is_signed else np.maximum(x, 0.0)
        if not self.is_ball:
            return np.clip(inside, -self.radius, self.radius)
        size = self.size(inside)
        return inside * (self.radius / size) if size > self.radius else inside

    def in_units(self, unit: float | Vector, share: float = 1.0) -> Self:
        """The same term as a function of z = x / unit, multiplied by share: share * h(unit * z).

        unit: one for all entries, or (n,) where the block is not a ball.
        """
        curvature = share * unit * self.curvature * unit
        return replace(self, slope=share * unit * self.slope, radius=self.radius / unit, curvature=curvature)

    def free_directions(self, x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
        """A basis Z (n, k) of the directions in which this block of a minimum can move, and h's Hessian B (n, n).

        Entries at a bound or at a kink are fixed. On the surface of a ball the other entries move along the surface,
        n @ dx = 0 for its normal n. A curved surface adds m times its bend, with the multiplier m in
        gradient + grad h + m n = 0.
        """
        hessian = self.curvature * np.eye(len(x))
        on_surface = self.is_ball and self.size(x) >= (1 - SURFACE) * float(self.radius)
        rests = (x == 0) & self.has_kink(on_surface) if self.is_signed else x <= 0
        if not self.is_ball:
            rests = rests | (np.abs(x) >= (1 - SURFACE) * self.radius)
        free = np.eye(len(x))[:, ~rests]
        if not on_surface:
            return free, hessian
        m = self.multiplier(gradient, x)
        return free @ null_space((free.T @ self.normal(x))[None]), hessian + m * self.bend

    def settled(self, gradient: Vector, x: Vector, length: Vector) -> tuple[Vector, Flags, bool]:
        """A point close to a minimum with the entries at rest exactly there, which these are, and whether a ball binds.

        An entry rests at its kink or bound where a step of its length (n,) along the gradient leads there or beyond. A
        ball binds where its slack is smaller than its multiplier.
        """
        is_sum = self.norm == 1
        total = gradient + self.curvature * x
        m = 0.0
        if self.is_ball:
            m = self.multiplier(gradient, x)
            pull = m if is_sum else m * self.radius
            m = m if self.radius - self.size(x) < length.max() * pull else 0.0
        # The multiplier of a sum is a slope of its entries.
        slope = length * (self.slope + m * is_sum)
        if m > 0 and not is_sum:
            total = total + m * self.normal(x)
        towards = x - length * total
        at_zero = (np.abs(towards) <= slope) & self.has_kink(m > 0) if self.is_signed else towards <= slope
        at_limit = ~at_zero & (not self.is_ball) & (np.abs(towards) - slope >= self.radius)
        exact = np.where(at_zero, 0.0, np.where(at_limit, np.copysign(self.radius, towards), x))
        return exact, at_zero | at_limit, m > 0

    def has_kink(self, on_surface: bool) -> Flags:
        """(n,), whether zero is a kink of a signed entry.

        On the surface of a 1-norm ball the multiplier weights every |x|, so that it is one for any slope.
        """
        return (self.slope > 0) | (on_surface and self.norm == 1)

    def normal(self, x: Vector) -> Vector:
        """(n,), of the surface of a ball at x: for q = 2 as long as x."""
        return self.bend @ x if self.norm == 2 else self.signs(x)

    @property
    def bend(self) -> Matrix:
        """(n, n), the derivative of the normal: for q = 2, one for entries of the same group."""
        if self.norm == 2:
            return np.asarray(self.groups[:, None] == self.groups, dtype=np.float64)
        return np.zeros((len(self), len(self)))

    def short(self, x: Vector) -> float:
        """How far a ball's equation, whose gradient is the normal, is from its value on the surface."""
        size = self.size(x)
        return float((self.radius - size) * (1.0 if self.norm == 1 else 0.5 * (self.radius + size)))

    def signs(self, x: Vector) -> Vector:
        return np.sign(x) if self.is_signed else np.ones(len(x))

    def multiplier(self, gradient: Vector, x: Vector) -> float:
        """The m >= 0 of a ball that fits gradient + grad h + m * normal = 0 best at x, where x is not zero."""
        total = gradient + self.slope * self.signs(x) + self.curvature * x
        normal = self.normal(x)
        # Each condition weighted by the size of its entry: entries at a kink or bound say nothing.
        weight = np.abs(x) / (max_abs(x) or 1.0)
        size = float(weight * normal @ normal)
        return max(-float(weight * normal @ total) / size, 0.0) if size > 0 else 0.0

    def residual(self, gradient: Vector, x: Vector) -> float:
        """The largest violation of the optimality conditions at x in the set; zero exactly at a minimum.

        For a box it is the largest entry of x - argmin over z of 1/2 |z - (x - gradient)|^2 + h(z), written so that a
        small gradient is not lost beside a large x: the condition of each entry, or its distance to the bound or kink
        if that is smaller. A ball adds the complementarity of its multiplier and the distance from its surface.
        """
        if not self.is_ball:
            return max_abs(self._conditions(gradient, x, self.slope, self.radius))
        size, radius = self.size(x), float(self.radius)
        m = self.multiplier(gradient, x) if size > 0.5 * radius else 0.0
        short = (radius - size) * m
        if self.norm == 1:
            return max(max_abs(self._conditions(gradient, x, self.slope + m, math.inf)), short / radius)
        return max(max_abs(self._conditions(gradient + m * self.normal(x), x, self.slope, math.inf)), short)

    def gap(self, gradient: Vector, x: Vector) -> float:
        """h(x) + h*(-gradient) + gradient @ x: what this term adds to the duality gap; zero exactly at a minimum.

        Where the set has no limit, h* is infinite unless |gradient| <= slope; the excess is left to the residual.
        """
        push = np.abs(gradient) if self.is_signed else -gradient
        over = np.maximum(push - self.slope, 0.0)
        if np.any(self.curvature):
            # 1/2 curvature (x - best)^2 per entry, and what an entry at zero or of the wrong sign pays.
            best = over / self.curvature
            if self.is_signed:
                best = -np.sign(gradient) * best
            kept = gradient * (x - best) + self.slope * (np.abs(x) - np.abs(best))
            return float(np.sum(kept + 0.5 * self.curvature * (x - best) * (x + best)))
        used = gradient * x + self.slope * np.abs(x)
        if self.is_ball:
            best_of_group = np.zeros(self.groups.max() + 1)
            np.maximum.at(best_of_group, self.groups, over)
            dual = np.linalg.norm(best_of_group, math.inf if self.norm == 1 else 2)
            return float(np.sum(used) + self.radius * dual)
        return float(np.sum(np.abs(used + np.where(np.isfinite(self.radius), self.radius, 0.0) * over)))

    def _conditions(self, gradient: Vector, x: Vector, slope: Vector, radius: float | Vector) -> Vector:
        """(n,), x - argmin over z of 1/2 |z - (x - gradient)|^2 + h(z) on a box, without the difference."""
        rise, fall = gradient + slope + self.curvature * x, gradient - slope + self.curvature * x
        above = np.clip(rise / (1 + self.curvature), x - radius, x)
        if not self.is_signed:
            return above
        moved = np.where(x > gradient + slope, rise, fall) / (1 + self.curvature)
        is_kept = (x > gradient + slope) | (x < gradient - slope)
        return np.clip(np.where(is_kept, moved, x), x - radius, x + radius)


def sensitivity(blocks: Sequence[Block], x: Vector, gradient: Vector, hessian: Matrix) -> Matrix:
    """S (n, n): where the gradient of f changes by dg, the minimum x of f + h moves by -S dg.

    S = Z (Z' (hessian of f + B) Z)^-1 Z' for a basis Z of the directions in which x can move, and h's Hessian B. A
    direction without curvature does not move: the inverse is a pseudo-inverse, in units of the diagonal.
    """
    bases, bends = zip(*(block.free_directions(x[part], gradient[part]) for block, part in parts(blocks)), strict=True)
    basis = block_diag(*bases)
    curvature = basis.T @ (hessian + block_diag(*bends)) @ basis
    diagonal = np.diag(curvature)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    inverse = np.linalg.pinv(unit[:, None] * curvature * unit, hermitian=True)
    return np.asarray((basis * unit) @ inverse @ (basis * unit).T)


def parts(blocks: Sequence[Block]) -> list[tuple[Block, slice]]:
    """Each block with the position of its entries in x."""
    ends = accumulate(map(len, blocks), initial=0)
    return [(block, slice(low, high)) for block, (low, high) in zip(blocks, pairwise(ends), strict=True)]


def terms(blocks: Sequence[Block], x: Vector) -> float:
    """The sum of the terms h."""
    return sum(block.value(x[part]) for block, part in parts(blocks))


def contained(blocks: Sequence[Block], x: Vector) -> Vector:
    """A point of the set close to x, and x itself if it is in the set."""
    return np.concatenate([block.contain(x[part]) for block, part in parts(blocks)])


def residual(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The largest violation of the optimality conditions of f + h at x, for the gradient of f there."""
    return max((block.residual(gradient[part], x[part]) for block, part in parts(blocks)), default=0.0)


def gap(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The duality gap of f + h at x, for the gradient of f there, relative to f + h's own conjugate."""
    return sum(block.gap(gradient[part], x[part]) for block, part in parts(blocks))


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    model = _Model.of(gradient, hessian, blocks, x)
    on_box = None if any(block.is_ball for block in blocks) else model.on_box()
    return model.minimum() if on_box is None else on_box


def box_minimum(
    hessian: Matrix,
    gradient: Vector,
    lower: Vector,
    upper: Vector,
    *,
    n_together: int = 6,
    max_rounds: int = 3_000,
) -> Vector | None:
    """(d,), the minimum of a quadratic on a box; None where it was not found.

    hessian: (d, d), positive definite. gradient, lower, upper: (d,), with lower <= 0 <= upper, the start.
    n_together: rounds in which all misplaced entries change; later only the last one does, which cannot cycle (Murty).
    max_rounds: 41 correlated entries within narrow bounds took more than 200, one change each.
    """
    unit = 1 / np.sqrt(np.diag(hessian))
    hessian, gradient = unit[:, None] * hessian * unit, unit * gradient
    limits, lower, upper = (lower, upper), lower / unit, upper / unit
    at_low, at_high = (lower >= 0) & (gradient > 0), (upper <= 0) & (gradient < 0)
    noise, below, above = (PIVOT_ERROR * (1 + np.abs(part)) for part in (gradient, lower, upper))
    eye = np.eye(len(gradient))
    for n_rounds in range(max_rounds):
        is_fixed = at_low | at_high
        fixed = np.where(at_low, lower, np.where(at_high, upper, 0.0))
        system = np.where(is_fixed[:, None] | is_fixed, eye, hessian)
        right = np.where(is_fixed, fixed, -gradient - np.einsum("de,e->d", hessian, fixed))
        try:
            z = np.linalg.solve(system, right)
        except np.linalg.LinAlgError:
            # Singular by rounding, in units of its diagonal.
            system += PIVOT_ERROR * eye
            z = np.linalg.solve(system, right)
        slope = gradient + np.einsum("de,e->d", hessian, z)
        is_low = np.where(is_fixed, at_low & (slope >= -noise), z < lower - below)
        is_high = np.where(is_fixed, at_high & (slope <= noise), z > upper + above)
        moves = np.flatnonzero((is_low != at_low) | (is_high != at_high))
        if not len(moves):
            return np.where(at_low, limits[0], np.where(at_high, limits[1], np.clip(unit * z, *limits)))
        moves = moves if n_rounds < n_together else moves[-1:]
        at_low[moves], at_high[moves] = is_low[moves], is_high[moves]
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The quadratic and its blocks; slope, radius, curvature, signed: (n,), those of each entry."""

    gradient: Vector
    hessian: Matrix
    blocks: Sequence[Block]
    x: Vector
    slope: Vector
    radius: Vector
    curvature: Vector
    signed: Flags

    @classmethod
    def of(cls, gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> "_Model":
        names = ("slope", "radius", "curvature", "is_signed")
        each = ([np.full(len(block), getattr(block, name)) for block in blocks] for name in names)
        return cls(gradient, hessian, blocks, x, *map(np.concatenate, each))

    @property
    def curved(self) -> Matrix:
        """(n, n), the Hessian with the curvature of h."""
        return self.hessian + np.diag(self.curvature)

    def slope_at(self, z: Vector) -> Vector:
        """The gradient of the quadratic at z."""
        return self.gradient + self.hessian @ (z - self.x)

    def on_box(self) -> Vector | None:
        """The minimum where no block is a ball; None where it is so flat that rounding decides which entries are free.

        On each side of its kinks the model is a quadratic on a box. An entry that ends at its kink changes sides where
        that decreases the objective, so that no side comes twice.
        """
        x, kinked = self.x, self.signed & (self.slope > 0)
        side = np.where(kinked & (x != 0), np.sign(x), np.where(kinked, -np.sign(self.gradient), 1.0))
        side = np.where(side == 0, 1.0, side)
        for _ in range(2 * len(x) + 1):
            lower = np.where(self.signed & ~(kinked & (side > 0)), -self.radius, 0.0)
            upper = np.where(kinked & (side < 0), 0.0, self.radius)
            push = self.slope_at(x) + self.curvature * x + side * self.slope
            step = box_minimum(self.curved, push, lower - x, upper - x)
            if step is None:
                return None
            x = np.clip(x + step, lower, upper)
            is_misplaced = kinked & (x == 0) & (side * self.slope_at(x) > self.slope)
            if not is_misplaced.any():
                return x
            side = np.where(is_misplaced, -side, side)
        return None

    def minimum(self) -> Vector:
        """The solution on the active set near x where that is the right one, as in the last steps of a method.

        Otherwise the interior point with its active set made exact, or as it is where that has the smaller error.
        """
        near = self._polished(self.x)
        if self._error(near) <= EXACT_ENOUGH * max_abs(self.gradient):
            return near
        outcomes.spend(CONE_COST)
        rough = self._interior_point()
        points = [near, contained(self.blocks, rough), self._polished(rough)]
        errors = [self._error(z) for z in points]
        return points[np.nanargmin(errors)] if np.isfinite(errors).any() else self.x

    def _error(self, z: Vector) -> float:
        return residual(self.slope_at(z), self.blocks, z)

    def _interior_point(self) -> Vector:
        """A point near the minimum, by a cone program in variables u with z = to_z @ u.

        Each entry of z is one variable, and where zero is a kink the difference of two, which are not negative. Units
        make the curvature of each entry one, or are the radius where it is smaller.
        """
        n = len(self.x)
        alone = 1 / np.sqrt(np.diag(self.curved))
        offset = self.slope_at(np.zeros(n))
        kinked = np.concatenate([block.is_signed & block.has_kink(block.is_ball) for block in self.blocks])
        entry = np.concatenate([np.arange(n), np.flatnonzero(kinked)])
        pull = max_abs(alone * (np.abs(offset) + np.abs(self.slope)))
        unit = np.minimum(alone * max(pull, SMALLEST), self.radius)[entry]
        to_z = (entry == np.arange(n)[:, None]) * np.where(np.arange(len(entry)) < n, unit, -unit)
        has_floor = (kinked | ~self.signed)[entry]
        quadratic = to_z.T @ self.curved @ to_z
        linear = to_z.T @ offset + np.where(has_floor, unit * self.slope[entry], 0.0)
        pieces = [(-np.eye(len(entry))[has_floor], np.zeros(has_floor.sum()))]
        cones = []
        for block, part in parts(self.blocks):
            if block.is_ball and block.norm == 2:
                sums = np.arange(block.groups.max() + 1)[:, None] == block.groups
                rows = np.vstack([np.zeros(len(entry)), -(sums @ to_z[part])])
                cones.append((rows, np.append(block.radius, np.zeros(len(sums)))))
            elif block.is_ball:
                pieces.append((np.abs(to_z[part]).sum(axis=0, keepdims=True), np.array([block.radius])))
            else:
                ended = np.flatnonzero(np.isfinite(self.radius[part])) + part.start
                rows = to_z[ended] / unit[ended, None]
                limits = self.radius[ended] / unit[ended]
                pieces += [(rows, limits), (-rows, limits)]
        table = np.vstack([np.column_stack(piece) / (max_abs(piece[0]) or 1.0) for piece in pieces + cones])
        heights = [len(limits) for _, limits in cones]
        size = max(max_abs(linear), max_abs(quadratic))
        n_linear = len(table) - sum(heights)
        solved = minimise_conic(quadratic / size, linear / size, table[:, :-1], table[:, -1], n_linear, heights)
        return np.asarray(to_z @ solved.answer.x)

    # Newton steps may go far out; the result is compared with other points.
    @np.errstate(over="ignore", invalid="ignore")
    def _polished(self, near: Vector) -> Vector:
        """The solution of the optimality conditions with the entries fixed and on the surfaces that a point shows."""
        slope = self.slope_at(near)
        length = 1 / np.diag(self.curved)
        start, is_fixed = near.copy(), np.zeros(len(near), np.bool_)
        balls = []
        for block, part in parts(self.blocks):
            start[part], is_fixed[part], binds = block.settled(slope[part], near[part], length[part])
            if binds:
                balls.append((block, part))
        free = np.flatnonzero(~is_fixed)
        z, slope = start.copy(), self.slope_at(start)
        m = np.array([block.multiplier(slope[part], z[part]) for block, part in balls])
        kinks = self.slope * np.where(self.signed, np.sign(z), 1.0)
        for _ in range(POLISHING_STEPS if any(block.norm == 2 for block, _ in balls) else 1):
            system = self.curved
            normals = np.zeros((len(balls), len(z)))
            for k, (block, part) in enumerate(balls):
                normals[k, part] = block.normal(z[part])
                system[part, part] += max(m[k], 0.0) * block.bend
            short = np.array([block.short(z[part]) for block, part in balls])
            wrong = self.slope_at(z) + self.curvature * z + kinks + normals.T @ m
            step = _newton_step(system[np.ix_(free, free)], normals[:, free], -wrong[free], short)
            if not np.isfinite(step).all():
                break
            z[free] += step[: len(free)]
            m = m + step[len(free) :]
        # An entry that has crossed its kink rests there.
        is_lost = (np.sign(z) != np.sign(start)) & (start != 0) & (kinks != 0)
        return contained(self.blocks, np.where(is_lost, 0.0, z))


def _newton_step(hessian: Matrix, normals: Matrix, wrong: Vector, short: Vector) -> Vector:
    """The Newton step of the optimality conditions on the free entries and the multipliers; NaN where there is none.

    Scaled to unit curvature, so that entries of any size count alike.
    """
    unit, k = 1 / np.sqrt(np.diag(hessian)), len(normals)
    rows = normals * unit
    length = np.linalg.norm(rows, axis=1)
    if not length.all():
        return np.full(len(unit) + k, math.nan)
    rows = rows / length[:, None]
    system = np.block([[unit[:, None] * hessian * unit, rows.T], [rows, np.zeros((k, k))]])
    right = np.concatenate([unit * wrong, short / length])
    try:
        answer = np.linalg.solve(system, right)
        answer = answer + np.linalg.solve(system, right - system @ answer)
    except np.linalg.LinAlgError:
        return np.full(len(right), math.nan)
    return np.concatenate([unit * answer[: len(unit)], answer[len(unit) :] / length])
