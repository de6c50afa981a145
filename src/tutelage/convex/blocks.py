"""Simple convex terms for `newton`, and the exact minimum of a small quadratic plus such terms.

    h(x) = slope @ |x| + curvature / 2 * |x|^2   on the ball   norm_q(sums of x by group) <= radius

Terms on a box (q = inf) are minimised by principal pivoting, terms with a ball (q = 1 or 2) by `surfaces`. On the
surface of a ball the optimality conditions have a multiplier m >= 0: m times the sum of |x|, or m / 2 times the sum of
squares, is added to the objective. A unit may differ from entry to entry except in a ball. Some entries of a ball may
form vectors, each of which counts as one number, its 2-norm.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve

from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.convex.pivoting import SeparableProgram
from tutelage.outcomes import NotConverged

# A block within this relative distance of its radius counts as on the surface of its ball or box.
SURFACE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One term h, of n entries.

    slope: (n,), not negative where the block is signed. A block that is not signed has x >= 0, and any slope.
    norm: q = 1, 2 or inf. radius: may be infinite. groups: (n,), the group of each entry; entries of one group are
    summed before the norm is taken. For q = inf every entry is a group. Where each entry has a unit of its own, the
    radius of a box and the curvature are vectors (n,). vectors: parts of a ball of either sign, without a slope, that
    count by their 2-norms. in_vectors, signed: (n,), which entries belong to vectors, and which may be negative.
    is_ball: whether the entries share one limit; a single entry has a box for any norm.
    """

    slope: Vector
    radius: float | Vector
    norm: float
    is_signed: bool
    groups: Indices
    curvature: float | Vector = 0.0
    vectors: tuple[slice, ...] = ()
    in_vectors: Flags = field(init=False)
    signed: Flags = field(init=False)
    is_ball: bool = field(init=False)

    def __post_init__(self) -> None:
        inside = np.zeros(len(self.slope), dtype=np.bool_)
        for part in self.vectors:
            inside[part] = True
        is_shared = not math.isinf(self.norm) and (len(self.slope) > 1 or bool(self.vectors))
        object.__setattr__(self, "in_vectors", inside)
        object.__setattr__(self, "signed", inside | self.is_signed)
        object.__setattr__(self, "is_ball", is_shared and bool(np.isfinite(self.radius).all()))

    def value(self, x: Vector) -> float:
        return float(self.slope @ np.abs(x) + 0.5 * np.sum(self.curvature * x * x))

    def size(self, x: Vector) -> float:
        """norm_q of the sums by group; for q = 1 the entries of one group have the same sign."""
        if self.norm == 1:
            lengths = sum(float(np.linalg.norm(x[part])) for part in self.vectors)
            return float(np.abs(x[~self.in_vectors] if self.vectors else x).sum()) + lengths
        return float(np.linalg.norm(np.bincount(self.groups, x), self.norm)) if len(x) else 0.0

    def contain(self, x: Vector) -> Vector:
        """A point of the block's set: x clipped and, in a ball, scaled."""
        inside = x if self.is_signed else np.where(self.signed, x, np.maximum(x, 0.0))
        if not self.is_ball or not len(x):
            return np.clip(inside, -self.radius, self.radius)
        size = self.size(inside)
        return inside * (self.radius / size) if size > self.radius else inside

    def in_units(self, unit: float | Vector, share: float = 1.0) -> Self:
        """The same term as a function of z = x / unit, multiplied by share: share * h(unit * z).

        unit: one for all entries, or (n,) where the block is no ball.
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
        on_surface = self.is_on_surface(x)
        is_fixed = np.where(self.signed, (x == 0) & self.has_kink(on_surface), x <= 0)
        if not self.is_ball:
            is_fixed |= np.abs(x) >= (1 - SURFACE) * self.radius
        free = np.eye(len(x))[:, ~is_fixed]
        if not on_surface:
            return free, hessian
        m = self.multiplier(gradient, x)
        return free @ _orthogonal_to(free.T @ self.normal(x, np.sign(x))), hessian + m * self.bend(x)

    def is_on_surface(self, x: Vector) -> bool:
        """Whether the ball holds x back."""
        return self.is_ball and self.size(x) >= (1 - SURFACE) * float(self.radius)

    def has_kink(self, on_surface: bool) -> Flags:
        """(n,), whether zero is a kink of a signed entry.

        On the surface of a 1-norm ball the multiplier weights every |x|, so that it is one for any slope.
        """
        return ((self.slope > 0) | (on_surface and self.norm == 1)) & ~self.in_vectors

    def normal(self, x: Vector, side: Vector) -> Vector:
        """(n,), of the surface of a ball at x, with the sign `side` of each entry: for q = 2 as long as x."""
        if self.norm == 2:
            return self.spread @ x
        normal = side.copy() if self.is_signed else np.ones(len(x))
        for part in self.vectors:
            normal[part] = x[part] / (np.linalg.norm(x[part]) or 1.0)
        return normal

    def bend(self, x: Vector) -> Matrix:
        """(n, n), the derivative of the normal."""
        if self.norm == 2:
            return self.spread
        bend = np.zeros((len(x), len(x)))
        for part in self.vectors:
            length = float(np.linalg.norm(x[part])) or 1.0
            bend[part, part] = (np.eye(len(x[part])) - np.outer(x[part], x[part]) / length**2) / length
        return bend

    def short(self, x: Vector, side: Vector) -> float:
        """How far a ball's equation, whose gradient is the normal, is from its value on the surface."""
        if self.norm == 1:
            return float(self.radius - self.normal(x, side) @ x)
        size = self.size(x)
        return float(0.5 * (self.radius - size) * (self.radius + size))

    @property
    def spread(self) -> Matrix:
        """(n, n), one for entries of the same group: spread @ x has the group's sum for each entry."""
        return np.asarray(self.groups[:, None] == self.groups, dtype=np.float64)

    def signs(self, x: Vector) -> Vector:
        return np.where(self.signed, np.sign(x), 1.0)

    def multiplier(self, gradient: Vector, x: Vector) -> float:
        """The m >= 0 of a ball that fits gradient + grad h + m * normal = 0 best at x, where x is not zero."""
        moves = x != 0
        total = (gradient + self.slope * self.signs(x) + self.curvature * x)[moves]
        normal = self.normal(x, self.signs(x))[moves]
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
            return float(np.abs(self.violations(gradient, x, 0.0)).max())
        size, radius, m = self.size(x), float(self.radius), self.surface_multiplier(gradient, x)
        left = (radius - size) * (m / radius if self.norm == 1 else m)
        return max(float(np.abs(self.violations(gradient, x, m)).max()), left)

    def surface_multiplier(self, gradient: Vector, x: Vector) -> float:
        """The multiplier of a ball, zero far from its surface."""
        return self.multiplier(gradient, x) if self.is_ball and self.size(x) > 0.5 * self.radius else 0.0

    def violations(self, gradient: Vector, x: Vector, m: float) -> Vector:
        """(n,), by how much each entry violates its optimality condition; positive where it should be smaller.

        m: the multiplier of a ball.
        """
        if not self.is_ball:
            return self._conditions(gradient, x, self.slope, self.radius)
        # The multiplier of a sum is a slope of its entries.
        is_slope = ~self.in_vectors & (self.norm == 1)
        pushed = gradient if m == 0 else gradient + m * np.where(is_slope, 0.0, self.normal(x, self.signs(x)))
        found = self._conditions(pushed, x, self.slope + m * is_slope, math.inf)
        for part in self.vectors:
            if not x[part].any():
                # Zero is a kink of the 2-norm: the gradient may be as long as m.
                found[part] = gradient[part] * (1 - min(m / (float(np.linalg.norm(gradient[part])) or 1.0), 1.0))
        return found

    def gap(self, gradient: Vector, x: Vector) -> float:
        """h(x) + h*(-gradient) + gradient @ x: what this term adds to the duality gap; zero exactly at a minimum.

        Where the set has no limit, h* is infinite unless |gradient| <= slope; the excess is left to the residual.
        """
        if not len(x):
            return 0.0
        push = np.where(self.signed, np.abs(gradient), -gradient)
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
                lengths = [float(np.linalg.norm(gradient[part])) for part in self.vectors]
                return used + float(self.radius) * max(float(over[~self.in_vectors].max(initial=0.0)), *lengths, 0.0)
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
        if not self.signed.any():
            return above
        moved = np.where(x > gradient + slope, rise, fall) / (1 + self.curvature)
        is_kept = (x > gradient + slope) | (x < gradient - slope)
        either = np.clip(np.where(is_kept, moved, x), x - radius, x + radius)
        return np.where(self.signed, either, above)

    def natural_step(self, gradient: Vector, x: Vector) -> Vector:
        """argmin over z of 1/2 |z - (x - gradient)|^2 + h(z); on a box, entry by entry."""
        if self.is_ball:
            return model_minimum(gradient, np.eye(len(x)), [self], x)
        point = x - gradient
        if not self.is_signed:
            return np.clip((point - self.slope) / (1 + self.curvature), 0.0, self.radius)
        shrunk = np.sign(point) * np.maximum(np.abs(point) - self.slope, 0.0) / (1 + self.curvature)
        return np.clip(shrunk, -self.radius, self.radius)

    def model_step(self, gradient: Vector, hessian: Matrix, x: Vector) -> Vector:
        """argmin over steps s of gradient @ s + 1/2 s @ hessian @ s + h(x + s), for a positive definite hessian."""
        return model_minimum(gradient, hessian, [self], x) - x

    @property
    def is_free(self) -> bool:
        """Whether the entries have neither a term nor a limit."""
        is_unlimited = bool(np.isinf(self.radius).all())
        return self.is_signed and is_unlimited and not (self.slope.any() or np.any(self.curvature))


def _orthogonal_to(normal: Vector) -> Matrix:
    """(k, k - 1), an orthonormal basis of the directions orthogonal to a normal (k,), k >= 1."""
    return np.linalg.qr(normal[:, None], mode="complete")[0][:, 1:]


def free_directions(blocks: Sequence[Block], x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
    """For all blocks: a basis Z (n, k) of the directions in which the minimum x of f + h can move, and h's Hessian B.

    If the gradient of f changes by dg, the minimum moves by dx = -Z (Z' (hessian of f + B) Z)^-1 Z' dg.
    """
    parts = [block.free_directions(x[s], gradient[s]) for block, s in zip(blocks, slices(blocks), strict=True)]
    return block_diag(*(part[0] for part in parts)), block_diag(*(part[1] for part in parts))


def inverse(hessian: Matrix) -> Matrix:
    """The pseudo-inverse of a positive semi-definite matrix whose entries may have very different units."""
    diagonal = np.diag(hessian)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return unit[:, None] * np.linalg.pinv(unit[:, None] * hessian * unit, hermitian=True) * unit


def terms(blocks: Sequence[Block], x: Vector) -> float:
    """The sum of the terms h."""
    return sum(block.value(x[part]) for block, part in zip(blocks, slices(blocks), strict=True))


def slices(blocks: Sequence[Block]) -> list[slice]:
    """The position of each block's entries in x."""
    ends = accumulate((len(block.slope) for block in blocks), initial=0)
    return [slice(low, high) for low, high in pairwise(ends)]


def contained(blocks: Sequence[Block], x: Vector) -> Vector:
    """A point of the set close to x, and x itself if it is in the set."""
    return np.concatenate([block.contain(x[part]) for block, part in zip(blocks, slices(blocks), strict=True)])


def natural_step(gradient: Vector, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of 1/2 |z - (x - gradient)|^2 + h(z): equal to x exactly at the minimum."""
    parts = zip(blocks, slices(blocks), strict=True)
    return np.concatenate([block.natural_step(gradient[part], x[part]) for block, part in parts])


def residual(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The largest violation of the optimality conditions of f + h at x, for the gradient of f there."""
    parts = zip(blocks, slices(blocks), strict=True)
    return max((block.residual(gradient[part], x[part]) for block, part in parts), default=0.0)


def gap(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The duality gap of f + h at x, for the gradient of f there, relative to f + h's own conjugate."""
    return sum(block.gap(gradient[part], x[part]) for block, part in zip(blocks, slices(blocks), strict=True))


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    if not any(block.is_ball for block in blocks):
        try:
            return _on_box(gradient - hessian @ x, hessian, blocks, x)
        except NotConverged:
            # So flat that rounding decides which entries are free.
            pass
    from tutelage.convex.surfaces import surface_minimum

    if blocks[-1].is_free:
        with suppress(np.linalg.LinAlgError):
            return _eliminated(gradient, hessian, blocks, x, surface_minimum)
    return surface_minimum(gradient, hessian, blocks, x)


def _eliminated(
    gradient: Vector,
    hessian: Matrix,
    blocks: Sequence[Block],
    x: Vector,
    minimum: Callable[[Vector, Matrix, Sequence[Block], Vector], Vector],
) -> Vector:
    """The model's minimum where the last block has no term: its entries are eliminated (Schur complement)."""
    n = len(x) - len(blocks[-1].slope)
    factor = cho_factor(hessian[n:, n:])
    from_rest, alone = cho_solve(factor, hessian[n:, :n]), cho_solve(factor, gradient[n:])
    reduced = hessian[:n, :n] - hessian[:n, n:] @ from_rest
    rest = minimum(gradient[:n] - hessian[:n, n:] @ alone, (reduced + reduced.T) / 2, blocks[:-1], x[:n])
    return np.concatenate([rest, x[n:] - alone - from_rest @ (rest - x[:n])])


def _on_box(slope: Vector, hessian: Matrix, blocks: Sequence[Block], start: Vector) -> Vector:
    """argmin over z of slope @ z + 1/2 z @ hessian @ z + h(z), where no block is a ball."""
    signed = np.concatenate([np.full(len(block.slope), block.is_signed) for block in blocks])
    weight = np.concatenate([block.slope for block in blocks])
    radius = np.concatenate([np.full(len(block.slope), block.radius) for block in blocks])
    curvature = np.concatenate([np.full(len(block.slope), block.curvature) for block in blocks])
    lower, gradient = np.where(signed, -radius, 0.0), slope + np.where(signed, 0.0, weight)
    kinks = np.where(signed, weight, 0.0)
    return SeparableProgram(hessian + np.diag(curvature), gradient, kinks, lower, radius).solve(start)
