"""The only door to the linear programming library (SciPy's HiGHS).

    maximise objective @ x   subject to   equal @ x = right,   within @ x <= bound,   x >= lower

A solution computes its own residuals from the problem, so that no one has to believe the library.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize

from tutelage.arrays import Vector
from tutelage.outcomes import NotConverged, TutelageError


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
class LinearSolution:
    """The best x, with the multipliers nu (of the equalities) and y >= 0 (of the inequalities) that prove it."""

    x: Vector
    equal_multipliers: Vector
    within_multipliers: Vector
    primal: float
    dual: float
    primal_residual: float
    dual_residual: float

    @property
    def gap(self) -> float:
        """Dual less primal value: how far the optimum could lie above, as far as the residuals are zero."""
        return self.dual - self.primal


def maximise(objective: Vector, constraints: Constraints) -> LinearSolution:
    """The best point; raises `InfeasibleProgram` where there is none, `NotConverged` where the library gives up."""
    result = optimize.linprog(
        -objective,
        A_ub=constraints.within,
        b_ub=None if constraints.within is None else constraints.bound,
        A_eq=constraints.equal,
        b_eq=None if constraints.equal is None else constraints.right,
        bounds=np.column_stack([constraints.lower, np.full(len(objective), np.inf)]),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    if result.status == 2:
        raise InfeasibleProgram("no point satisfies the constraints of this linear program")
    if result.status != 0:
        raise NotConverged(f"the linear program was not solved: {result.message}", residual=np.inf, n_steps=result.nit)
    return _solution(
        objective, constraints, result.x, -result.eqlin.marginals, np.maximum(-result.ineqlin.marginals, 0.0)
    )


def _solution(objective: Vector, constraints: Constraints, x: Vector, nu: Vector, y: Vector) -> LinearSolution:
    """Primal and dual values and residuals, from the problem alone.

    The dual is min nu @ right + y @ bound + d @ lower with d = objective - equal' nu - within' y <= 0, zero where x is
    free.
    """
    reduced = objective - constraints.pull(nu, y)
    is_bounded = np.isfinite(constraints.lower)
    dual = float(nu @ constraints.right + y @ constraints.bound + reduced[is_bounded] @ constraints.lower[is_bounded])
    return LinearSolution(
        x=x,
        equal_multipliers=nu,
        within_multipliers=y,
        primal=float(objective @ x),
        dual=dual,
        primal_residual=constraints.violation(x),
        dual_residual=float(np.where(is_bounded, np.maximum(reduced, 0.0), np.abs(reduced)).max(initial=0.0)),
    )
