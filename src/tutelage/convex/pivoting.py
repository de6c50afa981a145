"""Principal pivoting: the exact minimum of a small quadratic with a weighted 1-norm on a box.

    minimise 1/2 z @ hessian @ z + gradient @ z + slope @ |z|    subject to   lower <= z <= upper

Every entry is either fixed (at a bound, or at the kink of |z| at zero) or free on one side of the kink. Given the fixed
entries, the free ones solve a linear system. Entries that violate the optimality conditions then change between fixed
and free: all at once while that reduces their number, and otherwise one at a time, the last first, which cannot cycle
(Murty). Unlike an interior point, the result is exact in every entry, even if their scales differ by a factor of 1e9.
`box_minima` solves several programs of the same size at once, without the 1-norm.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import watch
from tutelage.arrays import Flags, Matrix, Vector
from tutelage.outcomes import NotConverged

MAX_ROUNDS = 40
PATIENCE = 3
# So many rounds take as long as one step of another iteration on a small model.
ROUNDS_PER_STEP = 3
# So many rounds of `box_minima` change all misplaced entries at once, of so many in all.
ALL_AT_ONCE, MOST_ROUNDS = 6, 200
ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class SeparableProgram:
    """hessian: (n, n), positive definite. gradient, slope, lower, upper: (n,); slope >= 0; bounds may be infinite.

    Where slope is positive, lower <= 0 <= upper.
    """

    hessian: Matrix
    gradient: Vector
    slope: Vector
    lower: Vector
    upper: Vector

    def solve(self, start: Vector) -> Vector:
        """The minimum, from an initial guess."""
        # Scaled to unit curvature in every entry, which makes the linear systems well-conditioned.
        unit = 1 / np.sqrt(np.diag(self.hessian))
        hessian, lower, upper = unit[:, None] * self.hessian * unit, self.lower / unit, self.upper / unit
        scaled = SeparableProgram(hessian, unit * self.gradient, unit * self.slope, lower, upper)
        return np.clip(unit * scaled._pivot(start / unit), self.lower, self.upper)

    def _pivot(self, start: Vector) -> Vector:
        side = np.where(self.slope > 0, np.sign(start), 0.0)
        is_free = (start > self.lower) & (start < self.upper) & ((self.slope == 0) | (start != 0))
        z = np.clip(start, self.lower, self.upper)
        fewest, patience = len(z) + 1, PATIENCE
        for n_rounds in range(MAX_ROUNDS):
            if n_rounds % ROUNDS_PER_STEP == ROUNDS_PER_STEP - 1:
                watch.spend()
            z = self._solve_free(z, side, is_free)
            moves = self._misplaced(z, side, is_free)
            chosen = moves.any(axis=0)
            n_moves = int(chosen.sum())
            if n_moves == 0:
                return z
            fewest, patience = (n_moves, PATIENCE) if n_moves < fewest else (fewest, patience - 1)
            if patience < 0:
                chosen = np.arange(len(z)) == np.flatnonzero(chosen)[-1]
            z, side, is_free = self._move(z, side, is_free, moves & chosen)
        message = "principal pivoting found no optimal set of fixed entries"
        raise NotConverged(message, residual=float(n_moves), n_steps=MAX_ROUNDS)

    def _solve_free(self, z: Vector, side: Vector, is_free: Flags) -> Vector:
        """z with its free entries solved for, given the fixed ones."""
        if not is_free.any():
            return z
        solved = z.copy()
        gradient = self.gradient + side * self.slope + self.hessian[:, ~is_free] @ z[~is_free]
        solved[is_free] = np.linalg.solve(self.hessian[np.ix_(is_free, is_free)], -gradient[is_free])
        return solved

    def _misplaced(self, z: Vector, side: Vector, is_free: Flags) -> Flags:
        """(3, n), masks of the entries to fix at their lower end, to fix at their upper end, and to free."""
        tolerance = ROUNDING * (1 + np.abs(z))
        low, high = self._piece(side)
        slope = self.hessian @ z + self.gradient
        noise = ROUNDING * (1 + np.abs(self.hessian) @ np.abs(z) + np.abs(self.gradient))
        up, down = slope + self.slope, slope - self.slope
        can_rise = (z < self.upper) & (np.where(z >= 0, up, down) < -noise)
        can_fall = (z > self.lower) & (np.where(z > 0, up, down) > noise)
        below, above = z < low - tolerance, z > high + tolerance
        return np.stack([is_free & below, is_free & above, ~is_free & (can_rise | can_fall)])

    def _piece(self, side: Vector) -> tuple[Vector, Vector]:
        """The interval on which the slope of a free entry's 1-norm term is constant."""
        return np.where(side > 0, 0.0, self.lower), np.where(side < 0, 0.0, self.upper)

    def _move(self, z: Vector, side: Vector, is_free: Flags, moves: Flags) -> tuple[Vector, Vector, Flags]:
        below, above, freed = moves
        low, high = self._piece(side)
        new = np.where(below, low, np.where(above, high, z))
        slope = self.hessian @ z + self.gradient
        rising = slope + np.where(z >= 0, self.slope, -self.slope) < 0
        new_side = np.where(freed & (self.slope > 0) & (z == 0), np.where(rising, 1.0, -1.0), side)
        new_side = np.where(freed & (self.slope > 0) & (z != 0), np.sign(z), new_side)
        return new, new_side, (is_free | freed) & ~below & ~above


def box_minima(hessian: Matrix, gradient: Matrix, lower: Matrix, upper: Matrix) -> tuple[Matrix, Flags]:
    """(n, d), the minimum of each of n quadratics on a box, and whether it was found.

    hessian: (n, d, d), positive definite. gradient, lower, upper: (n, d), with lower <= 0 <= upper, the start.
    """
    unit = 1 / np.sqrt(np.einsum("ndd->nd", hessian))
    hessian, gradient = unit[:, :, None] * hessian * unit[:, None, :], unit * gradient
    limits, lower, upper = (lower, upper), lower / unit, upper / unit
    at_low, at_high = (lower >= 0) & (gradient > 0), (upper <= 0) & (gradient < 0)
    eye, places = np.eye(gradient.shape[1]), np.arange(gradient.shape[1])
    noise, below, above = (ROUNDING * (1 + np.abs(part)) for part in (gradient, lower, upper))
    for n_rounds in range(MOST_ROUNDS):
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
        if n_rounds >= ALL_AT_ONCE:
            moves = misplaced & (places == np.where(misplaced, places, -1).max(axis=1, keepdims=True))
        at_low, at_high = np.where(moves, is_low, at_low), np.where(moves, is_high, at_high)
    return np.clip(unit * z, *limits), ~misplaced.any(axis=1)
