"""Simple convex terms for `newton`: their sets, their optimality conditions and their part of a duality gap.

    h(x) = slope @ |x| + curvature / 2 * |x|^2   on the ball   norm_q(sums of x by group) <= radius

The set is a box (q = inf) or a ball (q = 1 or 2). On the surface of a ball the optimality conditions have a multiplier
m >= 0: m times the sum of |x|, or m / 2 times the sum of squares, is added to the objective. A unit may differ from
entry to entry except in a ball. `models` minimises a quadratic plus such terms.
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
        m = self.multiplier(gradient, x)
        return free @ _orthogonal_to(free.T @ self.normal(x)), hessian + m * self.bend

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


def residual(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The largest violation of the optimality conditions of f + h at x, for the gradient of f there."""
    parts = zip(blocks, slices(blocks), strict=True)
    return max((block.residual(gradient[part], x[part]) for block, part in parts), default=0.0)


def gap(gradient: Vector, blocks: Sequence[Block], x: Vector) -> float:
    """The duality gap of f + h at x, for the gradient of f there, relative to f + h's own conjugate."""
    return sum(block.gap(gradient[part], x[part]) for block, part in zip(blocks, slices(blocks), strict=True))
