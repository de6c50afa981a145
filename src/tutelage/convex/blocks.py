"""Simple convex terms for `newton`: their sets, their part of a duality gap, and the minimum of a quadratic plus them.

    h(x) = slope @ |x| + curvature / 2 * |x|^2   on the ball   norm_q(sums of x by group) <= radius

The set is a box (q = inf) or a ball (q = 1 or 2). On the surface of a ball the optimality conditions have a multiplier
m >= 0: m times the sum of |x|, or m / 2 times the sum of squares, is added to the objective. A unit may differ from
entry to entry except in a ball. One step of every method of this package is

    minimise over z   gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z)

On a box by principal pivoting (`box_minima`): entries at a bound are fixed, the others solve a linear system, and those
that violate their optimality conditions change between fixed and free. At given multipliers of the balls the minimum
z(m) is one on a box, since m is a slope for q = 1 and a curvature for q = 2. The multipliers that place it on the
surfaces maximise the dual function, which is concave. With F the entries that are free at z(m), A the curvature there
and N the normals of the surfaces,

    dz_F / dm = -A_FF^-1 N_F'                  d size / dm = -N_F A_FF^-1 N_F'

give Newton's step. For q = 2 it is that of 1 / size, which is nearly linear in m.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Flags, Indices, Matrix, Vector

# A block within this relative distance of its radius counts as on the surface of its ball or box.
SURFACE = 1e-12
# Newton steps of the multipliers of the balls, each with halvings.
BALL_STEPS, MOST_HALVINGS = 60, 40
# A residual of the model's conditions, relative to the gradient, at which multipliers count as exact.
EXACT_ENOUGH = 1e-11
# Rounds of pivoting for one model: 41 correlated entries within narrow bounds took more than 200, one change each.
PIVOT_ROUNDS = 3_000
# The rounding error of one pivoting step, relative to the numbers that it is made of.
PIVOT_ERROR = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One term h, of n entries.

    slope: (n,), not negative where the block is signed. A block that is not signed has x >= 0, and any slope.
    norm: q = 1, 2 or inf. radius: may be infinite. groups: (n,), the group of each entry; entries of one group are
    summed before the norm is taken. For q = inf every entry is a group. Where each entry has a unit of its own, the
    radius of a box and the curvature are vectors (n,). is_ball: whether the entries share one limit; a single entry has
    a box for any norm.
    """

    slope: Vector
    radius: float | Vector
    norm: float
    is_signed: bool
    groups: Indices
    curvature: float | Vector = 0.0
    is_ball: bool = field(init=False)

    def __post_init__(self) -> None:
        is_shared = not math.isinf(self.norm) and len(self.slope) > 1
        object.__setattr__(self, "is_ball", is_shared and bool(np.isfinite(self.radius).all()))

    def __len__(self) -> int:
        return len(self.slope)

    def value(self, x: Vector) -> float:
        return float(self.slope @ np.abs(x) + 0.5 * np.sum(self.curvature * x * x))

    def size(self, x: Vector) -> float:
        """norm_q of the sums by group; for q = 1 the entries of one group have the same sign."""
        if self.norm == 1:
            return float(np.abs(x).sum())
        return float(np.linalg.norm(np.bincount(self.groups, x), self.norm)) if len(x) else 0.0

    def contain(self, x: Vector) -> Vector:
        """A point of the block's set: x clipped and, in a ball, scaled."""
        inside = x if self.is_signed else np.maximum(x, 0.0)
        if not self.is_ball or not len(x):
            return np.clip(inside, -self.radius, self.radius)
        size = self.size(inside)
        return inside * (self.radius / size) if size > self.radius else inside

    def in_units(self, unit: float | Vector, share: float = 1.0) -> Self:
        """The same term as a function of z = x / unit, multiplied by share: share * h(unit * z).

        unit: one for all entries, or (n,) where the block is not a ball.
        """
        curvature = share * unit * self.curvature * unit
        return replace(self, slope=share * unit * self.slope, radius=self.radius / unit, curvature=curvature)

    def capped(self, cap: float) -> Self:
        """The term on a set of radius at most `cap`; a square with a curvature of at least 1 / cap instead."""
        if np.any(self.curvature):
            return replace(self, curvature=np.maximum(self.curvature, 1 / cap))
        if not self.is_ball:
            return replace(self, radius=np.minimum(self.radius, cap), norm=math.inf, groups=np.arange(len(self.slope)))
        return replace(self, radius=min(float(self.radius), cap))

    def free_directions(self, x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
        """A basis (n, k) of the directions in which this block of a minimum can move, and the Hessian of h (n, n).

        Entries at a bound or at a kink are fixed. On the surface of a ball the other entries move along the surface,
        n @ dx = 0 for its normal n. A curved surface adds m times its bend, with the multiplier m in
        gradient + grad h + m n = 0.
        """
        hessian = self.curvature * np.eye(len(x))
        free = np.eye(len(x))[:, ~self.is_resting(x)]
        if not self.is_on_surface(x):
            return free, hessian
        # The other columns of Q are orthogonal to the normal.
        along = np.linalg.qr((free.T @ self.normal(x))[:, None], mode="complete")[0][:, 1:]
        return free @ along, hessian + self.multiplier(gradient, x) * self.bend

    def is_resting(self, x: Vector) -> Flags:
        """(n,), the entries at a kink or at a bound of their own."""
        rests = (x == 0) & self.has_kink(self.is_on_surface(x)) if self.is_signed else x <= 0
        return rests if self.is_ball else rests | (np.abs(x) >= (1 - SURFACE) * self.radius)

    def is_on_surface(self, x: Vector) -> bool:
        """Whether the ball holds x back."""
        return self.is_ball and self.size(x) >= (1 - SURFACE) * float(self.radius)

    def has_kink(self, on_surface: bool) -> Flags:
        """(n,), whether zero is a kink of a signed entry.

        On the surface of a 1-norm ball the multiplier weights every |x|, so that it is one for any slope.
        """
        return np.asarray(self.slope > 0) | (on_surface and self.norm == 1)

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
        moves = x != 0
        total = (gradient + self.slope * self.signs(x) + self.curvature * x)[moves]
        normal = self.normal(x)[moves]
        # Each condition weighted by the size of its entry.
        weight = np.abs(x[moves]) if self.norm == 1 else np.ones(len(normal))
        size = float(weight * normal @ normal)
        return max(-float(weight * normal @ total) / size, 0.0) if size > 0 else 0.0

    def residual(self, gradient: Vector, x: Vector) -> float:
        """The largest violation of the optimality conditions at x in the set; zero exactly at a minimum.

        For a box it is the largest entry of x - argmin over z of 1/2 |z - (x - gradient)|^2 + h(z), written so that a
        small gradient is not lost beside a large x: the condition of each entry, or its distance to the bound or kink
        if that is smaller. A ball adds the complementarity of its multiplier and the distance from its surface.
        """
        if not len(x):
            return 0.0
        if not self.is_ball:
            return float(np.abs(self._conditions(gradient, x, self.slope, self.radius)).max())
        size, radius = self.size(x), float(self.radius)
        m = self.multiplier(gradient, x) if size > 0.5 * radius else 0.0
        # The multiplier of a sum is a slope of its entries.
        is_sum = self.norm == 1
        pushed = gradient if m == 0 or is_sum else gradient + m * self.normal(x)
        wrong = self._conditions(pushed, x, self.slope + m * is_sum, math.inf)
        return max(float(np.abs(wrong).max()), (radius - size) * (m / radius if is_sum else m))

    def gap(self, gradient: Vector, x: Vector) -> float:
        """h(x) + h*(-gradient) + gradient @ x: what this term adds to the duality gap; zero exactly at a minimum.

        Where the set has no limit, h* is infinite unless |gradient| <= slope; the excess is left to the residual.
        """
        if not len(x):
            return 0.0
        push = np.abs(gradient) if self.is_signed else -gradient
        over = np.maximum(push - self.slope, 0.0)
        if np.any(self.curvature):
            signed = -np.sign(gradient) if self.is_signed else 1.0
            # 1/2 curvature (x - best)^2 per entry, and what an entry at zero or of the wrong sign pays.
            best = signed * over / self.curvature
            kept = (gradient * (x - best)) + self.slope * (np.abs(x) - np.abs(best))
            return float(np.sum(kept + 0.5 * self.curvature * (x - best) * (x + best)))
        used = float(np.sum(gradient * x + self.slope * np.abs(x)))
        if self.is_ball:
            if self.norm == 1:
                return used + float(self.radius) * float(over.max(initial=0.0))
            best_of_group = np.zeros(int(self.groups.max()) + 1)
            np.maximum.at(best_of_group, self.groups, over)
            return used + float(self.radius) * float(np.linalg.norm(best_of_group))
        is_limited = np.isfinite(np.broadcast_to(self.radius, x.shape))
        at_limit = np.where(is_limited, np.broadcast_to(self.radius, x.shape), 0.0) * over
        return float(np.sum(np.abs(gradient * x + self.slope * np.abs(x) + at_limit)))

    def _conditions(self, gradient: Vector, x: Vector, slope: Vector, radius: float | Vector) -> Vector:
        """(n,), x - argmin over z of 1/2 |z - (x - gradient)|^2 + h(z) on a box, without the difference."""
        rise, fall = gradient + slope + self.curvature * x, gradient - slope + self.curvature * x
        above = np.clip(rise / (1 + self.curvature), x - radius, x)
        if not self.is_signed:
            return above
        moved = np.where(x > gradient + slope, rise, fall) / (1 + self.curvature)
        is_kept = (x > gradient + slope) | (x < gradient - slope)
        return np.clip(np.where(is_kept, moved, x), x - radius, x + radius)


def slices(blocks: Sequence[Block]) -> list[slice]:
    """The position of each block's entries in x."""
    ends = accumulate((len(block.slope) for block in blocks), initial=0)
    return [slice(low, high) for low, high in pairwise(ends)]


def pairs(blocks: Sequence[Block]) -> list[tuple[Block, slice]]:
    """Each block with the position of its entries."""
    return list(zip(blocks, slices(blocks), strict=True))


def free_directions(blocks: Sequence[Block], x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
    """For all blocks: a basis Z (n, k) of the directions in which the minimum x of f + h can move, and h's Hessian B.

    If the gradient of f changes by dg, the minimum moves by dx = -Z (Z' (hessian of f + B) Z)^-1 Z' dg.
    """
    parts = [block.free_directions(x[part], gradient[part]) for block, part in pairs(blocks)]
    return block_diag(*(part[0] for part in parts)), block_diag(*(part[1] for part in parts))


def inverse(hessian: Matrix) -> Matrix:
    """The pseudo-inverse of a positive semi-definite matrix whose entries may have very different units."""
    diagonal = np.diag(hessian)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return unit[:, None] * np.linalg.pinv(unit[:, None] * hessian * unit, hermitian=True) * unit


def terms(blocks: Sequence[Block], x: Vector) -> float:
    """The sum of the terms h."""
    return sum(block.value(x[part]) for block, part in pairs(blocks))


def contained(blocks: Sequence[Block], x: Vector) -> Vector:
    """A point of the set close to x, and x itself if it is in the set."""
    return np.concatenate([block.contain(x[part]) for block, part in pairs(blocks)])


def residual(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The largest violation of the optimality conditions of f + h at x, for the gradient of f there."""
    return max((block.residual(gradient[part], x[part]) for block, part in pairs(blocks)), default=0.0)


def gap(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The duality gap of f + h at x, for the gradient of f there, relative to f + h's own conjugate."""
    return sum(block.gap(gradient[part], x[part]) for block, part in pairs(blocks))


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    balls = [pair for pair in pairs(blocks) if pair[0].is_ball]
    model = _Model(gradient, hessian, blocks, x, balls)
    m = np.array([b.multiplier(gradient[part], x[part]) if b.is_on_surface(x[part]) else 0.0 for b, part in balls])
    z, is_found = model.on_box(m)
    if not balls:
        return z
    best, least, enough = x, np.inf, EXACT_ENOUGH * float(np.abs(gradient).max(initial=0.0))
    for _ in range(BALL_STEPS):
        step, ahead = model.newton_step(z, m)
        for point in (model.on_surfaces(ahead, m + step), model.on_surfaces(z, m)):
            error = residual(model.slope_at(point), blocks, point)
            if error < least:
                best, least = point, error
        if least <= enough or not is_found or not np.abs(step).max() > 1e-15 * m.max():
            break
        m, z, is_found = model.along(m, step, model.outside(z))
    return best


def _solved(system: Matrix, right: Matrix) -> Matrix:
    """The solution of positive definite systems (..., d, d) with unit diagonals, which may be singular by rounding."""
    try:
        return np.asarray(np.linalg.solve(system, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        eased = system + PIVOT_ERROR * np.eye(system.shape[-1])
        return np.asarray(np.linalg.solve(eased, right), dtype=np.float64)


def box_minima(
    hessian: Matrix, gradient: Matrix, lower: Matrix, upper: Matrix, *, n_together: int = 6, max_rounds: int = 200
) -> tuple[Matrix, Flags]:
    """(n, d), the minimum of each of n quadratics on a box, and whether it was found.

    hessian: (n, d, d), positive definite. gradient, lower, upper: (n, d), with lower <= 0 <= upper, the start.
    n_together: rounds in which all misplaced entries change; later only the last one does, which cannot cycle (Murty).
    """
    unit = 1 / np.sqrt(np.einsum("ndd->nd", hessian))
    hessian, gradient = unit[:, :, None] * hessian * unit[:, None, :], unit * gradient
    limits, lower, upper = (lower, upper), lower / unit, upper / unit
    at_low, at_high = (lower >= 0) & (gradient > 0), (upper <= 0) & (gradient < 0)
    eye, places = np.eye(gradient.shape[1]), np.arange(gradient.shape[1])
    noise, below, above = (PIVOT_ERROR * (1 + np.abs(part)) for part in (gradient, lower, upper))
    for n_rounds in range(max_rounds):
        is_fixed = at_low | at_high
        fixed = np.where(at_low, lower, np.where(at_high, upper, 0.0))
        free = np.where(is_fixed[:, :, None] | is_fixed[:, None, :], eye, hessian)
        right = np.where(is_fixed, fixed, -gradient - np.einsum("nde,ne->nd", hessian, fixed))
        z = _solved(free, right[:, :, None])[:, :, 0]
        slope = gradient + np.einsum("nde,ne->nd", hessian, z)
        is_low = np.where(is_fixed, at_low & (slope >= -noise), z < lower - below)
        is_high = np.where(is_fixed, at_high & (slope <= noise), z > upper + above)
        misplaced = (is_low != at_low) | (is_high != at_high)
        if not misplaced.any():
            break
        moves = misplaced
        if n_rounds >= n_together:
            moves = misplaced & (places == np.where(misplaced, places, -1).max(axis=1, keepdims=True))
        at_low, at_high = np.where(moves, is_low, at_low), np.where(moves, is_high, at_high)
    steps = np.where(at_low, limits[0], np.where(at_high, limits[1], np.clip(unit * z, *limits)))
    return steps, ~misplaced.any(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The quadratic and its blocks. m: (k,), the multipliers of the balls."""

    gradient: Vector
    hessian: Matrix
    blocks: Sequence[Block]
    x: Vector
    balls: list[tuple[Block, slice]]

    def slope_at(self, z: Vector) -> Vector:
        """The gradient of the quadratic at z."""
        return self.gradient + self.hessian @ (z - self.x)

    def terms_at(self, m: Vector) -> tuple[Vector, Vector, Flags, Matrix]:
        """(n,), slopes, radii and whether entries have a sign; and the curvature of h (n, n); with those of m."""
        each = [(np.full(len(b), b.curvature), np.full(len(b), b.is_signed), b.slope) for b in self.blocks]
        curvature, signed, slope = (np.concatenate(parts) for parts in zip(*each, strict=True))
        radius = np.concatenate([np.full(len(b), np.inf if b.is_ball else b.radius) for b in self.blocks])
        added = np.diag(curvature)
        for (block, part), push in zip(self.balls, m, strict=True):
            if block.norm == 1:
                slope[part] += push
            else:
                added[part, part] += push * block.bend
        return slope, radius, signed, added

    def on_box(self, m: Vector) -> tuple[Vector, bool]:
        """z(m), the minimum at the multipliers; or a point near it, and False, where rounding decides what is free.

        On each side of its kinks the model is a quadratic on a box. An entry that ends at its kink changes sides where
        that decreases the objective, so that no side comes twice.
        """
        x, (slope, radius, signed, added) = self.x, self.terms_at(m)
        kinked, curved = signed & (slope > 0), (self.hessian + added)[None]
        side = np.where(kinked & (x != 0), np.sign(x), np.where(kinked, -np.sign(self.gradient), 1.0))
        side = np.where(side == 0, 1.0, side)
        for _ in range(2 * len(x) + 1):
            lower = np.where(signed & ~(kinked & (side > 0)), -radius, 0.0)
            upper = np.where(kinked & (side < 0), 0.0, radius)
            push, limits = self.slope_at(x) + added @ x + side * slope, ((lower - x)[None], (upper - x)[None])
            (step,), (is_found,) = box_minima(curved, push[None], *limits, max_rounds=PIVOT_ROUNDS)
            x = np.asarray(np.clip(x + step, lower, upper))
            is_misplaced = kinked & (x == 0) & (side * (self.slope_at(x) + added @ x) > slope)
            if not is_found or not is_misplaced.any():
                break
            side = np.where(is_misplaced, -side, side)
        return x, bool(is_found)

    def on_surfaces(self, z: Vector, m: Vector) -> Vector:
        """A point of the set near z, on the surface of each ball that has a multiplier."""
        moved = z.copy()
        for (block, part), push in zip(self.balls, m, strict=True):
            size = block.size(z[part])
            moved[part] *= float(np.max(block.radius)) / size if push > 0 and size > 0 else 1.0
        return contained(self.blocks, moved)

    def outside(self, z: Vector) -> Vector:
        """(k,), how far z(m) is outside of each ball: the gradient of the dual function."""
        return np.array([-block.short(z[part]) for block, part in self.balls])

    def newton_step(self, z: Vector, m: Vector) -> tuple[Vector, Vector]:
        """The step of the multipliers (k,) towards the surfaces, and z after it on the same free entries."""
        slope, radius, signed, added = self.terms_at(m)
        free = np.flatnonzero(~((z == 0) & (~signed | (slope > 0)) | (np.abs(z) >= radius)))
        normals, bent, outside = np.zeros((len(m), len(z))), np.ones(len(m)), self.outside(z)
        for k, (block, part) in enumerate(self.balls):
            normals[k, part] = block.normal(z[part])
            size, limit = block.size(z[part]), float(np.max(block.radius))
            if block.norm == 2:
                bent[k] = math.sqrt(0.5 * limit * (size + limit)) / max(size, limit)
        system = (self.hessian + added)[np.ix_(free, free)]
        unit = 1 / np.sqrt(np.diag(system))
        moves = unit[:, None] * _solved(unit[:, None] * system * unit, (normals[:, free] * unit).T)
        slopes = bent[:, None] * (normals[:, free] @ moves) * bent
        # Where all entries of a ball rest, half its multiplier is tried.
        flat = ~(np.diag(slopes) > 0)
        slopes[flat, flat] = np.where(m > 0, 2 * np.abs(outside) / np.where(m > 0, m, 1.0), 1.0)[flat]
        step = box_minima(slopes[None], -outside[None], -m[None], np.full((1, len(m)), np.inf))[0][0]
        ahead = z.copy()
        ahead[free] -= moves @ step
        return step, ahead

    def along(self, m: Vector, step: Vector, outside: Vector) -> tuple[Vector, Vector, bool]:
        """Multipliers from m along a step, where the dual function is nearly stationary or still rises; and z there.

        Where z is known approximately only, so is the function: False.
        """
        low, high, share, rise = 0.0, 1.0, 1.0, float(step @ outside)
        for _ in range(MOST_HALVINGS):
            z, is_found = self.on_box(m + share * step)
            left = float(step @ self.outside(z))
            if not is_found or (left >= -0.1 * rise and (share == 1.0 or left <= 0.1 * rise)):
                break
            low, high = (low, share) if left < 0 else (share, high)
            share = 0.5 * (low + high)
        return m + share * step, z, is_found
