"""What linear and quadratic programs have in common: constraints, and solutions that can be checked against them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutelage.arrays import Vector
from tutelage.outcomes import TutelageError


class InfeasibleProgram(TutelageError):
    """No x satisfies the constraints of a linear or quadratic program."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """equal @ x = right and within @ x <= bound, dense or sparse, and x >= lower (-inf where free)."""

    lower: Vector
    equal: Any = None
    right: Vector = field(default_factory=lambda: np.zeros(0))
    within: Any = None
    bound: Vector = field(default_factory=lambda: np.zeros(0))

    def violation(self, x: Vector) -> float:
        """By how much x fails the constraint that it fails most."""
        excesses = [np.maximum(self.lower - x, 0.0)]
        if self.equal is not None:
            excesses.append(np.abs(self.equal @ x - self.right))
        if self.within is not None:
            excesses.append(np.maximum(self.within @ x - self.bound, 0.0))
        return float(max(excess.max(initial=0.0) for excess in excesses))

    def pull(self, equal_multipliers: Vector, within_multipliers: Vector) -> Vector:
        """equal' nu + within' y: what the multipliers charge for each x."""
        charge = np.zeros_like(self.lower)
        if self.equal is not None:
            charge = charge + self.equal.T @ equal_multipliers
        if self.within is not None:
            charge = charge + self.within.T @ within_multipliers
        return charge


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSolution:
    """The best x, with the multipliers nu (of the equalities) and y >= 0 (of the inequalities) that prove it.

    primal: its value. dual: the value of the multipliers, which no x goes beyond as far as the residuals are zero.
    primal_residual: the largest violation of a constraint. dual_residual: of stationarity, or of a multiplier's sign.
    """

    x: Vector
    equal_multipliers: Vector
    within_multipliers: Vector
    primal: float
    dual: float
    primal_residual: float
    dual_residual: float

    @property
    def gap(self) -> float:
        """How far apart the two values are."""
        return abs(self.dual - self.primal)
