"""The only door to the quadratic programming library (Clarabel).

    minimise 1/2 x @ curvature @ x + slope @ x   subject to   equal @ x = right,   within @ x <= bound,   x >= lower

A solution computes its own residuals from the problem, so that no one has to believe the library.
"""

from typing import Any

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import nnls

from tutelage.arrays import Flags, Vector
from tutelage.outcomes import NotConverged
from tutelage.solvers.programs import Constraints, InfeasibleProgram, ProgramSolution

# Close to rounding, for a point is only as near as the square root of its gap.
GAP_TOLERANCES = (1e-15, 1e-12)
FEASIBILITY_TOLERANCE = 1e-12
# What is still a solution when the library cannot reach the tolerance; every caller checks its own gap besides.
ACCEPTABLE = 1e-8
# What residuals and gaps of exact solutions may amount to.
ROUNDING = 1e-14
# What an equality weighs beside the objective, and what may then be a zero blurred by that.
HEAVY, SMALL = 1e5, 1e-6


def minimise(curvature: Any, slope: Vector, constraints: Constraints) -> ProgramSolution:
    """The least point; raises `InfeasibleProgram` where there is none, `NotConverged` where the library gives up.

    Matrices all sparse, or all dense; a dense program, being small, is polished to the last digits.
    """
    solution = _solve(curvature, slope, constraints, GAP_TOLERANCES[0])
    if _error(solution) > ACCEPTABLE:
        # Asked for too much, the library may stop short of what it reaches when asked for less.
        solution = min(solution, _solve(curvature, slope, constraints, GAP_TOLERANCES[1]), key=_error)
    if not sparse.issparse(curvature):
        guesses = [_slack_below_multiplier(curvature, slope, constraints, solution)]
        if not slope.any():
            guesses += _by_least_squares(curvature, constraints)
        polished = [_polished(curvature, slope, constraints, *guess) for guess in guesses]
        solution = min(solution, *polished, key=_quality)
    worst = _error(solution) / (1.0 + float(np.abs(solution.x).max()) + abs(solution.primal))
    if not worst <= ACCEPTABLE:
        raise NotConverged(f"the quadratic program was solved to {worst:.2g} only", residual=worst, n_steps=2)
    return solution


def _solve(curvature: Any, slope: Vector, constraints: Constraints, gap_tolerance: float) -> ProgramSolution:
    """One call of the library, which wants all rows in one matrix, equalities first."""
    is_sparse, is_bounded = sparse.issparse(curvature), np.isfinite(constraints.lower)
    n_equal, n_within, n_bounded = len(constraints.right), len(constraints.bound), int(is_bounded.sum())
    blocks = [block for block in (constraints.equal, constraints.within) if block is not None]
    identity = sparse.eye_array(len(slope), format="csr") if is_sparse else np.eye(len(slope))
    stacked = (sparse.vstack if is_sparse else np.vstack)([*blocks, -identity[is_bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = gap_tolerance
    settings.tol_feas = FEASIBILITY_TOLERANCE
    result = clarabel.DefaultSolver(
        sparse.csc_matrix(curvature),
        slope,
        sparse.csc_matrix(stacked),
        np.concatenate([constraints.right, constraints.bound, -constraints.lower[is_bounded]]),
        [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(n_within + n_bounded)],
        settings,
    ).solve()
    if result.status in (clarabel.SolverStatus.PrimalInfeasible, clarabel.SolverStatus.AlmostPrimalInfeasible):
        raise InfeasibleProgram("no point satisfies the constraints of this quadratic program")
    multipliers = np.array(result.z)
    y = np.maximum(multipliers[n_equal : n_equal + n_within], 0.0)
    return _solution(curvature, slope, constraints, np.array(result.x), multipliers[:n_equal], y)


def _error(solution: ProgramSolution) -> float:
    return max(solution.primal_residual, solution.dual_residual, solution.gap)


def _quality(solution: ProgramSolution) -> tuple[float, float]:
    """The error as far as rounding lets it be known, and then the objective: a distance is its square root."""
    return max(_error(solution), ROUNDING), solution.primal


def _slack_below_multiplier(
    curvature: Any, slope: Vector, constraints: Constraints, near: ProgramSolution
) -> tuple[Flags, Flags]:
    """Which lower bounds and which inequalities hold with equality, as an interior point suggests."""
    reduced = curvature @ near.x + slope + constraints.pull(near.equal_multipliers, near.within_multipliers)
    is_tight = np.zeros(len(near.within_multipliers), dtype=bool)
    if constraints.within is not None:
        is_tight = constraints.bound - constraints.within @ near.x < near.within_multipliers
    return near.x - constraints.lower < reduced, is_tight


def _by_least_squares(curvature: Any, constraints: Constraints) -> list[tuple[Flags, Flags]]:
    """The same, where there is no slope, from non-negative least squares with the constraints weighted heavily.

    An active-set method, so that it also tells where a solution is degenerate, as at a distance of zero, and all
    multipliers vanish with the slacks.
    """
    n, n_within = curvature.shape[0], len(constraints.bound)
    size, directions = np.linalg.eigh(curvature)
    root = np.sqrt(np.maximum(size, 0.0))[:, None] * directions.T
    blocks = [(root, np.zeros(n)), (HEAVY * constraints.equal, HEAVY * constraints.right)]
    if constraints.within is not None:
        blocks.append((HEAVY * constraints.within, HEAVY * constraints.bound))
    rows, right = np.vstack([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])
    slacks = np.vstack([np.zeros((len(rows) - n_within, n_within)), HEAVY * np.eye(n_within)])
    is_bounded = np.isfinite(constraints.lower)
    shift = np.where(is_bounded, constraints.lower, 0.0)
    try:
        found = nnls(np.hstack([rows, -rows[:, ~is_bounded], slacks]), right - rows @ shift, maxiter=100 * n)[0]
    except RuntimeError:
        return []
    return [(is_bounded & (found[:n] <= small), found[len(found) - n_within :] <= small) for small in (0.0, SMALL)]


def _polished(
    curvature: Any, slope: Vector, constraints: Constraints, at_lower: Flags, is_tight: Flags
) -> ProgramSolution:
    """The exact solution if the constraints that hold with equality were guessed right, from one linear system.

    An interior point is only as near as the square root of its gap. Whether the guess was right shows in the residuals.
    """
    n = len(slope)
    rows, rights = [np.eye(n)[at_lower]], [constraints.lower[at_lower]]
    if constraints.equal is not None:
        rows, rights = [constraints.equal, *rows], [constraints.right, *rights]
    if constraints.within is not None:
        rows, rights = [*rows, constraints.within[is_tight]], [*rights, constraints.bound[is_tight]]
    active, right = np.vstack(rows), np.concatenate(rights)
    system = np.block([[curvature, active.T], [active, np.zeros((len(active), len(active)))]])
    answer = np.linalg.lstsq(system, np.concatenate([-slope, right]), rcond=1e-13)[0]
    x, multipliers = answer[:n], answer[n:]
    y = np.zeros(len(is_tight))
    y[is_tight] = np.maximum(multipliers[len(multipliers) - is_tight.sum() :], 0.0)
    return _solution(curvature, slope, constraints, x, multipliers[: len(constraints.right)], y)


def _solution(
    curvature: Any, slope: Vector, constraints: Constraints, x: Vector, nu: Vector, y: Vector
) -> ProgramSolution:
    """Primal and dual values and residuals, from the problem alone.

    Stationarity: d = P x + slope + equal' nu + within' y, the multiplier of x >= lower, is not negative, and is zero
    where x is free.
    """
    bent = curvature @ x
    reduced = bent + slope + constraints.pull(nu, y)
    is_bounded = np.isfinite(constraints.lower)
    at_lower = float(np.maximum(reduced[is_bounded], 0.0) @ constraints.lower[is_bounded])
    dual = float(-0.5 * (x @ bent) - nu @ constraints.right - y @ constraints.bound + at_lower)
    return ProgramSolution(
        x=x,
        equal_multipliers=nu,
        within_multipliers=y,
        primal=float(0.5 * (x @ bent) + slope @ x),
        dual=dual,
        primal_residual=constraints.violation(x),
        dual_residual=float(np.where(is_bounded, np.maximum(-reduced, 0.0), np.abs(reduced)).max(initial=0.0)),
    )
