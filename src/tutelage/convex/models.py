"""The exact minimum of a small quadratic plus simple terms (`blocks`): one step of every method of this package.

    minimise over z   gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z)

On a box by principal pivoting (`box_minima`): entries at a bound are fixed, the others solve a linear system, and those
that violate their optimality conditions change between fixed and free. With balls by an interior point (Clarabel),
which is not exact, but shows which entries rest at zero or at a bound and which balls bind: where a slack is smaller
than its multiplier. With these fixed, the optimality conditions are equations in the free entries and
one multiplier m for each surface,

    hessian (z - x) + gradient + grad h(z) + sum of m_k normal_k(z) = 0,        z on the surfaces,

linear but for the products m z of balls with q = 2. A few Newton steps solve them to rounding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.convex.blocks import Block, contained, residual, slices
from tutelage.convex.programs import minimise_conic

# An interior point takes as long as this many steps of another iteration on a small model.
CONE_COST = 5
# Newton steps on the free entries; they converge quadratically from the interior point, whose error is about 1e-6.
POLISHING_STEPS = 4
# A residual of the model's conditions, relative to the gradient, at which an active set counts as the right one.
EXACT_ENOUGH = 1e-11
# Rounds of pivoting for one model: 41 correlated entries within narrow bounds took more than 200, one change each.
PIVOT_ROUNDS = 3_000
# The rounding error of one pivoting step, relative to the numbers that it is made of.
PIVOT_ERROR = 1e-13


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    model = _Model.of(gradient, hessian, blocks, x)
    on_box = None if any(block.is_ball for block in blocks) else model.on_box()
    return model.minimum() if on_box is None else on_box


def _solved(systems: Matrix, right: Matrix) -> Matrix:
    """The solution of positive definite systems (n, d, d) with unit diagonals, which may be singular by rounding."""
    try:
        return np.asarray(np.linalg.solve(systems, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        eased = systems + PIVOT_ERROR * np.eye(systems.shape[-1])
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
        radius = np.concatenate([np.full(len(block), block.radius) for block in blocks])
        curvature = np.concatenate([np.full(len(block), block.curvature) for block in blocks])
        signed = np.concatenate([np.full(len(block), block.is_signed) for block in blocks])
        slope = np.concatenate([block.slope for block in blocks])
        return cls(gradient, hessian, blocks, x, slope, radius, curvature, signed)

    @property
    def parts(self) -> list[tuple[Block, slice]]:
        return list(zip(self.blocks, slices(self.blocks), strict=True))

    @property
    def curved(self) -> Matrix:
        """(n, n), the Hessian with the curvature of h."""
        return self.hessian + np.diag(self.curvature)

    @property
    def offset(self) -> Vector:
        """(n,), the gradient of the quadratic at zero."""
        return self.gradient - self.hessian @ self.x

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
            limits = (lower - x)[None], (upper - x)[None]
            (step,), (is_found,) = box_minima(self.curved[None], push[None], *limits, max_rounds=PIVOT_ROUNDS)
            if not is_found:
                return None
            x = np.asarray(np.clip(x + step, lower, upper))
            is_misplaced = kinked & (x == 0) & (side * self.slope_at(x) > self.slope)
            if not is_misplaced.any():
                return x
            side = np.where(is_misplaced, -side, side)
        return None

    def minimum(self) -> Vector:
        """The solution on the active set of x where that is the right one, as in the last steps of a method.

        Otherwise the interior point with its active set made exact, or as it is where that has the smaller error.
        """
        resting = np.concatenate([block.is_resting(self.x[part]) for block, part in self.parts])
        surfaces = [k for k, (block, part) in enumerate(self.parts) if block.is_on_surface(self.x[part])]
        near = self._polished(self.x, resting, surfaces)
        if self._error(near) <= EXACT_ENOUGH * float(np.abs(self.gradient).max()):
            return near
        outcomes.spend(CONE_COST)
        rough, is_fixed, surfaces = self._interior_point()
        points = [near, contained(self.blocks, rough), self._polished(rough, is_fixed, surfaces)]
        errors = [self._error(z) for z in points]
        return points[int(np.nanargmin(errors))] if np.isfinite(errors).any() else self.x

    def _error(self, z: Vector) -> float:
        return residual(self.slope_at(z), self.blocks, z)

    def _interior_point(self) -> tuple[Vector, Flags, list[int]]:
        """A point near the minimum with its fixed entries exact, which entries are fixed, and the balls that bind."""
        cone = _Cone.of(self)
        quadratic, linear = cone.objective(self)
        size = max(float(np.abs(linear).max()), float(np.abs(quadratic).max()))
        balls = [
            (k, *cone.ball(*self.parts[k])) for k, block in enumerate(self.blocks) if block.is_ball and block.norm == 2
        ]
        rows, right = np.vstack([cone.rows, *(ball[1] for ball in balls)]), [cone.right, *(ball[2] for ball in balls)]
        heights = [len(ball[2]) for ball in balls]
        given = (quadratic / size, linear / size, rows, np.concatenate(right), len(cone.right), heights)
        found = minimise_conic(*given).answer
        ends = np.cumsum([len(cone.right), *heights])
        surfaces = []
        for (k, _, _), start, end in zip(balls, ends, ends[1:], strict=False):
            inside = found.slacks[start] - np.linalg.norm(found.slacks[start + 1 : end])
            if inside < found.multipliers[start]:
                surfaces.append(k)
        is_tight = (found.slacks < found.multipliers)[: len(cone.right)]
        z, is_fixed, tight_sums = cone.fixed(cone.to_z @ found.x, is_tight, self.radius)
        return z, is_fixed, [*surfaces, *tight_sums]

    def _polished(self, start: Vector, is_fixed: Flags, surfaces: list[int]) -> Vector:
        """The solution of the optimality conditions with these entries fixed and on these surfaces."""
        z, free, balls = start.copy(), np.flatnonzero(~is_fixed), [self.parts[k] for k in surfaces]
        slope = self.slope_at(z)
        m = np.array([block.multiplier(slope[part], z[part]) for block, part in balls])
        kinks = self.slope * np.where(self.signed, np.sign(z), 1.0)
        for _ in range(POLISHING_STEPS if any(block.norm == 2 for block, _ in balls) else 1):
            system, normals = self.curved, np.zeros((len(balls), len(z)))
            for k, (block, part) in enumerate(balls):
                normals[k, part] = block.normal(z[part])
                system[part, part] += max(float(m[k]), 0.0) * block.bend
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


@dataclass(frozen=True, slots=True, eq=False)
class _Cone:
    """The variables and linear rows of the cone program, rows @ u <= right.

    to_z: (n, k), z = to_z @ u. Each entry of z is one variable, and where zero is a kink the difference of two, which
    are not negative. entry: (k,), the entry of each variable. has_floor: (k,). ended: the entries with limits of their
    own. sums: the balls with q = 1. Units make the curvature of each entry one, or are the radius where it is smaller.
    """

    to_z: Matrix
    entry: Indices
    has_floor: Flags
    ended: Indices
    sums: tuple[int, ...]
    rows: Matrix
    right: Vector

    @classmethod
    def of(cls, model: _Model) -> "_Cone":
        n = len(model.x)
        kinked = np.concatenate([block.is_signed & block.has_kink(block.is_ball) for block in model.blocks])
        entry = np.concatenate([np.arange(n), np.flatnonzero(kinked)])
        alone = 1 / np.sqrt(np.diag(model.curved))
        pull = float((alone * (np.abs(model.offset) + np.abs(model.slope))).max())
        unit = np.minimum(alone * max(pull, np.finfo(np.float64).tiny), model.radius)
        side = np.where(np.arange(len(entry)) < n, 1.0, -1.0)
        to_z = (entry == np.arange(n)[:, None]) * (side * unit[entry])
        has_floor = (kinked | ~model.signed)[entry]
        in_box = np.concatenate([np.full(len(block), not block.is_ball) for block in model.blocks])
        ended = np.flatnonzero(in_box & np.isfinite(model.radius))
        sums = tuple(k for k, block in enumerate(model.blocks) if block.is_ball and block.norm == 1)
        ends, limits = to_z[ended] / unit[ended, None], (model.radius / unit)[ended]
        totals = [np.abs(to_z[model.parts[k][1]]).sum(axis=0) for k in sums]
        scale = [float(total.max()) for total in totals]
        rows = [
            -np.eye(len(entry))[has_floor],
            ends,
            -ends,
            *(row[None] / size for row, size in zip(totals, scale, strict=True)),
        ]
        radii = [float(np.max(model.blocks[k].radius)) / size for k, size in zip(sums, scale, strict=True)]
        right = np.concatenate([np.zeros(int(has_floor.sum())), limits, limits, radii])
        return cls(to_z, entry, has_floor, ended, sums, np.vstack(rows), right)

    def objective(self, model: _Model) -> tuple[Matrix, Vector]:
        """The quadratic and the linear part in u."""
        slope = np.abs(self.to_z).max(axis=0) * np.where(self.has_floor, model.slope[self.entry], 0.0)
        return self.to_z.T @ model.curved @ self.to_z, self.to_z.T @ model.offset + slope

    def ball(self, block: Block, part: slice) -> tuple[Matrix, Vector]:
        """radius >= 2-norm of the sums by group, as rows of a second-order cone."""
        sums = np.arange(int(block.groups.max()) + 1)[:, None] == block.groups
        rows = np.vstack([np.zeros(len(self.entry)), -(sums @ self.to_z[part])])
        size, right = float(np.abs(rows).max()), np.zeros(len(rows))
        right[0] = float(np.max(block.radius)) / size
        return rows / size, right

    def fixed(self, z: Vector, is_tight: Flags, radius: Vector) -> tuple[Vector, Flags, list[int]]:
        """z with entries at zero or at a limit exactly there, which they are, and the sums that bind."""
        floors, upper, lower, sums = np.split(is_tight, np.cumsum([self.has_floor.sum(), *2 * [len(self.ended)]]))
        owner, place = self.entry[self.has_floor], np.arange(len(z))
        n_floors, n_tight = (np.bincount(which, minlength=len(z)) for which in (owner, owner[floors]))
        at_zero = (n_floors > 0) & (n_tight == n_floors)
        at_upper, at_lower = (np.isin(place, self.ended[tight]) & ~at_zero for tight in (upper, lower))
        exact = np.where(at_zero, 0.0, np.where(at_upper, radius, np.where(at_lower, -radius, z)))
        return exact, at_zero | at_upper | at_lower, [k for k, tight in zip(self.sums, sums, strict=True) if tight]


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
