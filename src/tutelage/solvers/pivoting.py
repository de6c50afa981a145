"""Separable terms, exactly: a small quadratic with a weighted 1-norm on a box, by principal pivoting.

    minimise 1/2 z @ hessian @ z + gradient @ z + slope @ |z|    subject to   lower <= z <= upper

Every entry is either at rest (at a bound, or at the kink of |z| at zero) or free on one side of the kink; given who
rests, the others solve a linear system. Entries that turn out to be in the wrong place change sides, all at once while
that reduces their number, and else one at a time, the last first, which cannot cycle (Murty). Unlike an interior point
this is exact in every entry, however different their scales: a learner's weights may matter a billion times less in one
feature than in another.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Flags, Matrix, Vector
from tutelage.outcomes import NotConverged

MAX_ROUNDS = 2_000
PATIENCE = 3
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
        """The minimum, from a guess of it."""
        # In units in which every entry has curvature one, so that the linear systems are as well-posed as they can be.
        unit = 1 / np.sqrt(np.diag(self.hessian))
        scaled = SeparableProgram(
            unit[:, None] * self.hessian * unit,
            unit * self.gradient,
            unit * self.slope,
            self.lower / unit,
            self.upper / unit,
        )
        return np.clip(unit * scaled._pivot(start / unit), self.lower, self.upper)

    def _pivot(self, start: Vector) -> Vector:
        side = np.where(self.slope > 0, np.sign(start), 0.0)
        is_free = (start > self.lower) & (start < self.upper) & ((self.slope == 0) | (start != 0))
        z = np.clip(start, self.lower, self.upper)
        fewest, patience = len(z) + 1, PATIENCE
        for _ in range(MAX_ROUNDS):
            z = self._settle(z, side, is_free)
            moves = self._misplaced(z, side, is_free)
            n_moves = int(moves.any(axis=0).sum())
            if n_moves == 0:
                return z
            fewest, patience = (n_moves, PATIENCE) if n_moves < fewest else (fewest, patience - 1)
            chosen = moves.any(axis=0)
            if patience < 0:
                chosen = np.arange(len(z)) == np.flatnonzero(chosen)[-1]
            z, side, is_free = self._move(z, side, is_free, moves & chosen)
        raise NotConverged("principal pivoting did not settle", residual=float(n_moves), n_steps=MAX_ROUNDS)

    def _settle(self, z: Vector, side: Vector, is_free: Flags) -> Vector:
        """The free entries solved for, the others as they are."""
        if not is_free.any():
            return z
        settled = z.copy()
        pull = self.gradient + side * self.slope + self.hessian[:, ~is_free] @ z[~is_free]
        settled[is_free] = np.linalg.solve(self.hessian[np.ix_(is_free, is_free)], -pull[is_free])
        return settled

    def _misplaced(self, z: Vector, side: Vector, is_free: Flags) -> Flags:
        """(3, n), who must stop below, stop above, set off: the free outside their piece, the resting pulled away."""
        tolerance = ROUNDING * (1 + np.abs(z))
        low, high = self._piece(side)
        slope = self.hessian @ z + self.gradient
        noise = ROUNDING * (1 + np.abs(self.hessian) @ np.abs(z) + np.abs(self.gradient))
        up, down = slope + self.slope, slope - self.slope
        can_rise = (z < self.upper) & (np.where(z >= 0, up, down) < -noise)
        can_fall = (z > self.lower) & (np.where(z > 0, up, down) > noise)
        return np.stack(
            [is_free & (z < low - tolerance), is_free & (z > high + tolerance), ~is_free & (can_rise | can_fall)]
        )

    def _piece(self, side: Vector) -> tuple[Vector, Vector]:
        """The interval in which a free entry's slope does not change."""
        return np.where(side > 0, 0.0, self.lower), np.where(side < 0, 0.0, self.upper)

    def _move(self, z: Vector, side: Vector, is_free: Flags, moves: Flags) -> tuple[Vector, Vector, Flags]:
        below, above, off = moves
        low, high = self._piece(side)
        new = np.where(below, low, np.where(above, high, z))
        slope = self.hessian @ z + self.gradient
        rising = slope + np.where(z >= 0, self.slope, -self.slope) < 0
        new_side = np.where(off & (self.slope > 0) & (z == 0), np.where(rising, 1.0, -1.0), side)
        new_side = np.where(off & (self.slope > 0) & (z != 0), np.sign(z), new_side)
        return new, new_side, (is_free | off) & ~below & ~above
