"""The only door to the linear programming library (SciPy's HiGHS).

    maximise objective @ x   subject to   equal @ x = right,   within @ x <= bound,   x >= lower

A solution computes its own residuals from the problem, so that no one has to believe the library.
"""

import numpy as np
from scipy import optimize

from tutelage.arrays import Vector
from tutelage.outcomes import NotConverged
from tutelage.solvers.programs import Constraints, InfeasibleProgram, ProgramSolution


def maximise(objective: Vector, constraints: Constraints) -> ProgramSolution:
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


def _solution(objective: Vector, constraints: Constraints, x: Vector, nu: Vector, y: Vector) -> ProgramSolution:
    """Primal and dual values and residuals, from the problem alone.

    The dual is min nu @ right + y @ bound + d @ lower with d = objective - equal' nu - within' y <= 0, zero where x is
    free.
    """
    reduced = objective - constraints.pull(nu, y)
    is_bounded = np.isfinite(constraints.lower)
    dual = float(nu @ constraints.right + y @ constraints.bound + reduced[is_bounded] @ constraints.lower[is_bounded])
    return ProgramSolution(
        x=x,
        equal_multipliers=nu,
        within_multipliers=y,
        primal=float(objective @ x),
        dual=dual,
        primal_residual=constraints.violation(x),
        dual_residual=float(np.where(is_bounded, np.maximum(reduced, 0.0), np.abs(reduced)).max(initial=0.0)),
    )
