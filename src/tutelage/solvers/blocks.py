"""Simple convex terms for `newton`, and the exact minimum of a small quadratic plus such terms.

    h(x) = slope @ |x| + curvature / 2 * |x|^2   on the ball   norm_q(sums of x by group) <= radius

Terms on a box (q = inf) are minimised by principal pivoting. A ball with q = 1 or 2 enters the objective with a
multiplier m >= 0: m times the sum of |x|, or m / 2 times the sum of squares. The remaining problem is on a box. Its
solution shrinks as m grows, and m is chosen such that the solution lies on the ball. Every step is therefore exact,
even if the scales of the entries differ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import brentq

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.outcomes import NotConverged
from tutelage.solvers.pivoting import SeparableProgram

# A block within this relative distance of its radius counts as on the surface of its ball or box.
SURFACE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One term h, of n entries.

    slope: (n,), not negative where the block is signed. A block that is not signed has x >= 0, and any slope.
    norm: q = 1, 2 or inf. radius: may be infinite. groups: (n,), the group of each entry; entries of one group are
    summed before the norm is taken. For q = inf every entry is a group.
    """

    slope: Vector
    radius: float
    norm: float
    is_signed: bool
    groups: Indices
    curvature: float = 0.0

    def value(self, x: Vector) -> float:
        return float(self.slope @ np.abs(x) + 0.5 * self.curvature * (x @ x))

    def size(self, x: Vector) -> float:
        """norm_q of the sums by group; for q = 1 the entries of one group have the same sign."""
        return float(np.abs(x).sum() if self.norm == 1 else np.linalg.norm(np.bincount(self.groups, x), self.norm))

    def contain(self, x: Vector) -> Vector:
        """A point of the block's set: x clipped and, in a ball, scaled."""
        inside = x if self.is_signed else np.maximum(x, 0.0)
        if not math.isfinite(self.radius) or not len(x):
            return inside
        if math.isinf(self.norm):
            return np.clip(inside, -self.radius, self.radius)
        size = self.size(inside)
        return inside * (self.radius / size) if size > self.radius else inside

    def in_units(self, unit: float) -> Self:
        """The same term as a function of z = x / unit: h(unit * z)."""
        return replace(self, slope=unit * self.slope, radius=self.radius / unit, curvature=unit * self.curvature * unit)

    def free_directions(self, x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
        """A basis (n, k) of the directions in which this block of a minimum can move, and the Hessian of h (n, n).

        Entries at a bound or at a kink are fixed. On the surface of a ball the other entries move along the surface,
        n @ dx = 0 for its normal n. For q = 2 the surface adds the curvature m, the multiplier in
        gradient + grad h + m n = 0.
        """
        hessian = self.curvature * np.eye(len(x))
        on_surface = self.is_ball and self.size(x) >= (1 - SURFACE) * self.radius
        # On the surface of a 1-norm ball the multiplier weights every |x|, so that zero is a kink for any slope.
        has_kink = (self.slope > 0) | (on_surface and self.norm == 1)
        is_fixed = (x == 0) & has_kink if self.is_signed else x <= 0
        if not self.is_ball:
            is_fixed |= np.abs(x) >= (1 - SURFACE) * self.radius
        free = np.eye(len(x))[:, ~is_fixed]
        if not on_surface:
            return free, hessian
        sign = np.sign(x) if self.is_signed else np.ones(len(x))
        if self.norm == 1:
            return free @ _orthogonal_to(free.T @ sign), hessian
        spread = (self.groups[:, None] == self.groups).astype(np.float64)
        normal, total = free.T @ (spread @ x), free.T @ (gradient + self.slope * sign + self.curvature * x)
        multiplier = max(-float(normal @ total) / float(normal @ normal), 0.0)
        return free @ _orthogonal_to(normal), hessian + multiplier * spread

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
    def is_ball(self) -> bool:
        """Whether the entries share one limit; a single entry has a box for any norm."""
        return math.isfinite(self.radius) and not math.isinf(self.norm) and len(self.slope) > 1


def _orthogonal_to(normal: Vector) -> Matrix:
    """(k, k - 1), an orthonormal basis of the directions orthogonal to a normal (k,), k >= 1."""
    return np.linalg.qr(normal[:, None], mode="complete")[0][:, 1:]


def free_directions(blocks: Sequence[Block], x: Vector, gradient: Vector) -> tuple[Matrix, Matrix]:
    """For all blocks: a basis Z (n, k) of the directions in which the minimum x of f + h can move, and h's Hessian B.

    If the gradient of f changes by dg, the minimum moves by dx = -Z (Z' (hessian of f + B) Z)^-1 Z' dg.
    """
    parts = [block.free_directions(x[s], gradient[s]) for block, s in zip(blocks, slices(blocks), strict=True)]
    return block_diag(*(part[0] for part in parts)), block_diag(*(part[1] for part in parts))


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


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    for k, (block, part) in enumerate(zip(blocks, slices(blocks), strict=True)):
        if block.is_ball:
            return _fit(gradient, hessian, blocks, x, k, part)
    return _on_box(gradient - hessian @ x, hessian, blocks, x)


def _fit(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector, k: int, part: slice) -> Vector:
    """The minimum, with ball k's multiplier chosen such that block k lies in its ball."""
    block = blocks[k]
    spread = np.zeros((len(x), len(x)))
    spread[part, part] = block.groups[:, None] == block.groups

    def relaxed(multiplier: float) -> Vector:
        loose = replace(block, radius=math.inf)
        if block.norm == 1:
            charged = replace(loose, slope=block.slope + multiplier)
            return model_minimum(gradient, hessian, [*blocks[:k], charged, *blocks[k + 1 :]], x)
        # 1/2 m |sums|^2 adds to the Hessian and, since the model is centred on x, to the gradient.
        curved = hessian + multiplier * spread
        tilted = gradient + multiplier * (spread @ x)
        return model_minimum(tilted, curved, [*blocks[:k], loose, *blocks[k + 1 :]], x)

    def shortfall(multiplier: float) -> float:
        # For a 2-norm ball the reciprocal of the size is nearly linear in the multiplier (More and Sorensen).
        size = block.size(relaxed(multiplier)[part])
        if block.norm == 2:
            return 1 - block.radius / size if size > 0 else -math.inf
        return size / block.radius - 1

    free = relaxed(0.0)
    if block.size(free[part]) <= block.radius:
        return free
    high = _enough(gradient - hessian @ x, block, part)
    while shortfall(high) > 0:
        high *= 4
        if not math.isfinite(high):
            raise NotConverged("no multiplier brings the step into its ball", residual=math.inf, n_steps=0)
    root = brentq(shortfall, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500)
    return _between(relaxed, block, part, root)


def _between(relaxed: Callable[[float], Vector], block: Block, part: slice, root: float) -> Vector:
    """The solution on the surface of the ball, interpolated between multipliers just below and above the root.

    Where the model is nearly flat, the last digit of the multiplier changes the solution by more than the ball's width.
    Between two such close multipliers the solution is linear.
    """
    ulps = 4 * float(np.finfo(np.float64).eps)
    low, high, width = root, root, ulps
    while block.size(relaxed(low)[part]) < block.radius:
        low, width = max(root * (1 - width), 0.0), 4 * width
    width = ulps
    while block.size(relaxed(high)[part]) > block.radius:
        high, width = max(root, 1e-300) * (1 + width), 4 * width
    outer, inner = relaxed(low), relaxed(high)
    wide, narrow = block.size(outer[part]), block.size(inner[part])
    share = (block.radius - narrow) / (wide - narrow) if wide > narrow else 0.0
    fitted = share * outer + (1 - share) * inner
    fitted[part] *= block.radius / max(block.size(fitted[part]), block.radius)
    return fitted


def _enough(slope: Vector, block: Block, part: slice) -> float:
    """A multiplier that is large enough if this block is alone: the slope at zero, over the radius if q = 2."""
    steepness = np.abs(slope[part] + (0.0 if block.is_signed else block.slope))
    return max(float(steepness.max()) if block.norm == 1 else float(np.linalg.norm(steepness)) / block.radius, 1e-300)


def _on_box(slope: Vector, hessian: Matrix, blocks: Sequence[Block], start: Vector) -> Vector:
    """argmin over z of slope @ z + 1/2 z @ hessian @ z + h(z), where no block is a ball."""
    signed = np.concatenate([np.full(len(block.slope), block.is_signed) for block in blocks])
    weight = np.concatenate([block.slope for block in blocks])
    radius = np.concatenate([np.full(len(block.slope), float(block.radius)) for block in blocks])
    curvature = np.concatenate([np.full(len(block.slope), block.curvature) for block in blocks])
    lower, gradient = np.where(signed, -radius, 0.0), slope + np.where(signed, 0.0, weight)
    kinks = np.where(signed, weight, 0.0)
    return SeparableProgram(hessian + np.diag(curvature), gradient, kinks, lower, radius).solve(start)
