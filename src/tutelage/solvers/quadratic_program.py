"""The only door to the quadratic programming library (PIQP).

    minimise 1/2 x @ curvature @ x + slope @ x   subject to   equal @ x = right,   within @ x <= bound,   x >= lower

A solution computes its own residuals from the problem, so that no one has to believe the library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
from scipy import sparse

from tutelage.arrays import Vector
from tutelage.outcomes import NotConverged
from tutelage.solvers.linear_program import Constraints

TOLERANCE = 1e-11
# What is still a solution when the library cannot reach the tolerance; every caller checks its own gap besides.
ACCEPTABLE = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticSolution:
    """The least x, with the multipliers nu (of the equalities) and y >= 0 (of the inequalities) that prove it.

    dual: the Lagrangian dual value at the multipliers, -1/2 x P x - nu @ right - y @ bound + d @ lower.
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
        """Primal less dual value: how far the optimum could lie below, as far as the residuals are zero."""
        return self.primal - self.dual


def minimise(curvature: Any, slope: Vector, constraints: Constraints) -> QuadraticSolution:
    """The least point; raises `NotConverged` where the library finds none, which it also does when there is none.

    Matrices all sparse, or all dense: the library's dense mode is the faster one for a handful of variables.
    """
    is_sparse = sparse.issparse(curvature)
    solver = piqp.SparseSolver() if is_sparse else piqp.DenseSolver()
    for name in ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"):
        setattr(solver.settings, name, TOLERANCE)
    as_matrix = sparse.csc_matrix if is_sparse else np.asfortranarray
    solver.setup(
        as_matrix(curvature),
        slope,
        None if constraints.equal is None else as_matrix(constraints.equal),
        None if constraints.equal is None else constraints.right,
        None if constraints.within is None else as_matrix(constraints.within),
        None,
        None if constraints.within is None else constraints.bound,
        constraints.lower,
        None,
    )
    status = solver.solve()
    answer = solver.result
    solution = _solution(curvature, slope, constraints, answer.x, answer.y, np.maximum(answer.z_u, 0.0))
    scale = 1.0 + float(np.abs(answer.x).max()) + abs(solution.primal)
    worst = max(solution.primal_residual, solution.dual_residual, abs(solution.gap)) / scale
    if not worst <= ACCEPTABLE:
        raise NotConverged(f"the quadratic program was not solved: {status}", residual=worst, n_steps=answer.info.iter)
    return solution


def _solution(
    curvature: Any, slope: Vector, constraints: Constraints, x: Vector, nu: Vector, y: Vector
) -> QuadraticSolution:
    """Primal and dual values and residuals, from the problem alone.

    Stationarity: d = P x + slope + equal' nu + within' y, the multiplier of x >= lower, is not negative, and is zero
    where x is free.
    """
    bent = curvature @ x
    reduced = bent + slope + constraints.pull(nu, y)
    is_bounded = np.isfinite(constraints.lower)
    at_lower = float(np.maximum(reduced[is_bounded], 0.0) @ constraints.lower[is_bounded])
    dual = float(-0.5 * (x @ bent) - nu @ constraints.right - y @ constraints.bound + at_lower)
    return QuadraticSolution(
        x=x,
        equal_multipliers=nu,
        within_multipliers=y,
        primal=float(0.5 * (x @ bent) + slope @ x),
        dual=dual,
        primal_residual=constraints.violation(x),
        dual_residual=float(np.where(is_bounded, np.maximum(-reduced, 0.0), np.abs(reduced)).max(initial=0.0)),
    )
