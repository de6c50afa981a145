"""The exact minimum of a small quadratic plus simple terms (`blocks`): one step of every method of this package.

    minimise over z   gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z)

On a box by principal pivoting (`box_minima`): entries at a bound are fixed, the others solve a linear system, and those
that violate their optimality conditions change between fixed and free. Each ball has a multiplier m >= 0, which for
q = 1 is a slope of its entries and for q = 2 a curvature. At given multipliers the minimum z(m) is one on a box. Those
which place it on the surfaces maximise the dual function, which is concave. With F the entries that are free at z(m), A
the curvature there and N the normals of the surfaces,

    dz_F / dm = -A_FF^-1 N_F'                  d size / dm = -N_F A_FF^-1 N_F'

give Newton's step. For q = 2 it is that of 1 / size, which is nearly linear in m.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Flags, Matrix, Vector
from tutelage.convex.blocks import Block, contained, residual, slices

# Newton steps of the multipliers of the balls, each with halvings.
BALL_STEPS, MOST_HALVINGS = 60, 40
# A residual of the model's conditions, relative to the gradient, at which multipliers count as exact.
EXACT_ENOUGH = 1e-11
# Rounds of pivoting for one model: 41 correlated entries within narrow bounds took more than 200, one change each.
PIVOT_ROUNDS = 3_000
# The rounding error of one pivoting step, relative to the numbers that it is made of.
PIVOT_ERROR = 1e-13


def model_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z), for a positive definite hessian."""
    model = _Model(gradient, hessian, blocks, x)
    balls = model.balls
    m = np.array([b.multiplier(gradient[part], x[part]) if b.is_on_surface(x[part]) else 0.0 for b, part in balls])
    z = model.on_box(m)
    if not balls:
        return z
    best, least, enough = x, np.inf, EXACT_ENOUGH * float(np.abs(gradient).max(initial=0.0))
    for _ in range(BALL_STEPS):
        step, ahead = model.newton_step(z, m)
        for point in (model.on_surfaces(ahead, m + step), model.on_surfaces(z, m)):
            error = residual(model.slope_at(point), blocks, point)
            if error < least:
                best, least = point, error
        if least <= enough or not np.abs(step).max() > 1e-15 * m.max():
            break
        m, z = model.along(m, step, model.outside(z))
    return best


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
        z = np.linalg.solve(free, right[:, :, None])[:, :, 0]
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

    @property
    def balls(self) -> list[tuple[Block, slice]]:
        return [pair for pair in zip(self.blocks, slices(self.blocks), strict=True) if pair[0].is_ball]

    def slope_at(self, z: Vector) -> Vector:
        """The gradient of the quadratic at z."""
        return self.gradient + self.hessian @ (z - self.x)

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

    def along(self, m: Vector, step: Vector, outside: Vector) -> tuple[Vector, Vector]:
        """Multipliers from m along a step, where the dual function is nearly stationary or still rises; and z there."""
        low, high, share, rise = 0.0, 1.0, 1.0, float(step @ outside)
        for _ in range(MOST_HALVINGS):
            z = self.on_box(m + share * step)
            left = float(step @ self.outside(z))
            if left >= -0.1 * rise and (share == 1.0 or left <= 0.1 * rise):
                break
            low, high = (low, share) if left < 0 else (share, high)
            share = 0.5 * (low + high)
        return m + share * step, z

    def curved(self, m: Vector) -> Matrix:
        """(n, n), the Hessian with the curvature of h and of the surfaces."""
        curved = self.hessian + np.diag(self._each([block.curvature for block in self.blocks]))
        for (block, part), push in zip(self.balls, m, strict=True):
            curved[part, part] += push * block.bend
        return curved

    def _each(self, values: Sequence[float | Vector]) -> Vector:
        """(n,), a value of every block for each of its entries."""
        return np.concatenate([np.full(len(block), value) for block, value in zip(self.blocks, values, strict=True)])

    def on_box(self, m: Vector) -> Vector:
        """The minimum at the multipliers; a point near it where it is so flat that rounding decides what is free.

        On each side of its kinks the model is a quadratic on a box. An entry that ends at its kink changes sides where
        that decreases the objective, so that no side comes twice.
        """
        x, slope, signed = self.x, self._each([block.slope for block in self.blocks]), self._signed
        radius = self._each([np.inf if block.is_ball else block.radius for block in self.blocks])
        for (block, part), push in zip(self.balls, m, strict=True):
            slope[part] += push if block.norm == 1 else 0.0
        kinked, curved = signed & (slope > 0), self.curved(m)
        pull = curved - self.hessian
        side = np.where(kinked & (x != 0), np.sign(x), np.where(kinked, -np.sign(self.gradient), 1.0))
        side = np.where(side == 0, 1.0, side)
        for _ in range(2 * len(x) + 1):
            lower = np.where(signed & ~(kinked & (side > 0)), -radius, 0.0)
            upper = np.where(kinked & (side < 0), 0.0, radius)
            push = self.slope_at(x) + pull @ x + side * slope
            limits = (lower - x)[None], (upper - x)[None]
            (step,), (is_found,) = box_minima(curved[None], push[None], *limits, max_rounds=PIVOT_ROUNDS)
            x = np.asarray(np.clip(x + step, lower, upper))
            is_misplaced = kinked & (x == 0) & (side * (self.slope_at(x) + pull @ x) > slope)
            if not is_found or not is_misplaced.any():
                break
            side = np.where(is_misplaced, -side, side)
        return x

    @property
    def _signed(self) -> Flags:
        return self._each([block.is_signed for block in self.blocks]) > 0

    def newton_step(self, z: Vector, m: Vector) -> tuple[Vector, Vector]:
        """The step of the multipliers (k,) towards the surfaces, and z after it on the same free entries."""
        parts = list(zip(self.blocks, slices(self.blocks), strict=True))
        resting = [
            ((z[part] == 0) & (block.has_kink(push > 0) if block.is_signed else True))
            | (np.zeros(len(block), bool) if block.is_ball else np.abs(z[part]) >= block.radius)
            for (block, part), push in zip(parts, self._pushes(m), strict=True)
        ]
        free = np.flatnonzero(~np.concatenate(resting))
        normals, bent, outside = np.zeros((len(m), len(z))), np.ones(len(m)), self.outside(z)
        for k, (block, part) in enumerate(self.balls):
            normals[k, part] = block.normal(z[part])
            size, radius = block.size(z[part]), float(np.max(block.radius))
            if block.norm == 2:
                bent[k] = np.sqrt(0.5 * radius * (size + radius)) / max(size, radius)
        system = self.curved(m)[np.ix_(free, free)]
        unit = 1 / np.sqrt(np.diag(system))
        moves = unit[:, None] * np.linalg.solve(unit[:, None] * system * unit, (normals[:, free] * unit).T)
        slopes = bent[:, None] * (normals[:, free] @ moves) * bent
        flat = ~(np.diag(slopes) > 0)
        # Where all entries of a ball rest, half the multiplier is tried.
        slopes[flat, flat] = np.where(m > 0, 2 * np.abs(outside) / np.where(m > 0, m, 1.0), 1.0)[flat]
        step = box_minima(slopes[None], -outside[None], -m[None], np.full((1, len(m)), np.inf))[0][0]
        ahead = z.copy()
        ahead[free] -= moves @ step
        return step, ahead

    def _pushes(self, m: Vector) -> list[float]:
        """The multiplier of every block; zero for one that is not a ball."""
        given = iter(m)
        return [float(next(given)) if block.is_ball else 0.0 for block in self.blocks]
