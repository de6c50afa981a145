"""Linear and quadratic programs: the only module that calls their libraries (HiGHS, Clarabel).

    minimise slope @ x                               subject to   equal @ x = right,   within @ x <= bound,   x >= lower
    minimise 1/2 x @ curvature @ x + slope @ x       subject to   the same

Each solution computes its residuals and its duality gap from the problem itself, not from the library's report.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import clarabel
import highspy
import numpy as np
from highspy import HighsModelStatus as Status
from scipy import optimize, sparse

from tutelage import outcomes
from tutelage.arrays import SMALLEST, Flags, Indices, Matrix, Vector, max_abs
from tutelage.outcomes import Ended, NotConverged, Solution, TutelageError

# Relative gaps asked of Clarabel, in order. The error of x is only the square root of the gap, hence so small.
GAP_TOLERANCES = (1e-15, 1e-12)
CLARABEL_TOLERANCE = 1e-12
# Largest relative error of an accepted quadratic solution; every caller checks its own gap as well.
ACCEPTED = 1e-8
# Errors below this are rounding errors. Others below the second one, or below a share of the objective, are good.
ROUNDED, GOOD, GOOD_SHARE = 1e-14, 1e-12, 1e-9
# Where the library diverges its answer may be so large that squares overflow. A certificate holds for any answer.
LARGEST_ANSWER = 1e100
# Weight of the constraints beside the objective in least squares, and the largest entry that may stand for zero there.
CONSTRAINT_WEIGHT, SMALL = 1e5, 1e-6
# Feasibility tolerance asked of HiGHS, and whether it simplifies a program first, in order: with a tolerance that it
# cannot reach it may end without a status. A dense program is small, and simplifying it takes longer than solving it.
SPARSE_ATTEMPTS = ((1e-10, "on"), (1e-10, "off"), (1e-7, "on"))
DENSE_ATTEMPTS = ((1e-10, "off"), (1e-10, "on"), (1e-7, "off"))


# The most simplex steps for each row and column, of which two are usual; and the seconds that a program may take when
# the time is over, so that an answer that is nearly there is returned.
STEPS_OF_EACH, SHORT_TIME = 100, 0.1


class InfeasibleProgram(TutelageError):
    """No x satisfies the constraints of a linear or quadratic program."""


class UnboundedProgram(NotConverged):
    """The objective of a linear program has no least value."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearConstraints:
    """equal @ x = right and within @ x <= bound, dense or sparse, and x >= lower (-inf where free)."""

    lower: Vector
    equal: Any = None
    right: Vector = field(default_factory=lambda: np.zeros(0))
    within: Any = None
    bound: Vector = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name in ("equal", "within"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros((0, len(self.lower))))

    def violation(self, x: Vector) -> float:
        """The largest violation of a constraint at x."""
        excesses = [self.lower - x, np.abs(self.equal @ x - self.right), self.within @ x - self.bound]
        return float(np.concatenate(excesses).max(initial=0.0))

    def row_sizes(self) -> Vector:
        """(m,), the largest entry of each inequality; one where all are zero."""
        largest = abs(self.within).max(axis=1)
        largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
        sizes = np.maximum(largest, np.abs(self.bound))
        return np.where(sizes > SMALLEST, sizes, 1.0)

    def gradient(self, nu: Vector, y: Vector) -> Vector:
        """equal' nu + within' y: the gradient of the constraints' part of the Lagrangian."""
        return np.asarray(self.equal.T @ nu + self.within.T @ y)


@dataclass(frozen=True, slots=True, eq=False)
class PrimalDual:
    """The optimal x, with the multipliers nu of the equalities and y >= 0 of the inequalities that certify it.

    primal_residual: the largest violation of a constraint. dual_residual: the largest violation of stationarity or of a
    multiplier's sign.
    """

    x: Vector
    equal_multipliers: Vector
    within_multipliers: Vector
    primal_residual: float
    dual_residual: float


# value: the objective at x. bound: the dual objective at the multipliers; where the residuals are zero, no feasible x
# is better.
ProgramSolution = Solution[PrimalDual]


def error(solution: ProgramSolution) -> float:
    """The largest of the residuals and the gap."""
    return max(solution.residual, abs(solution.bound - solution.value))


def minimise_linear(slope: Vector, constraints: LinearConstraints) -> ProgramSolution:
    """Solve the linear program, in units in which every inequality and the slope have a largest entry of one.

    Raises `InfeasibleProgram` where no x satisfies the constraints, and `NotConverged` where the library fails.
    """
    is_sparse = sparse.issparse(constraints.equal) or sparse.issparse(constraints.within)
    unit = max_abs(slope) or 1.0
    size = constraints.row_sizes()
    scaled = replace(constraints, within=(constraints.within.T / size).T, bound=constraints.bound / size)
    for attempt in SPARSE_ATTEMPTS if is_sparse else DENSE_ATTEMPTS:
        solver = _simplex(slope / unit, scaled, *attempt)
        status = solver.getModelStatus()
        if status in (Status.kOptimal, Status.kInfeasible, Status.kTimeLimit):
            break
    n_steps = solver.getInfo().simplex_iteration_count
    if status == Status.kInfeasible:
        raise InfeasibleProgram("no point satisfies the constraints of this linear program")
    if status == Status.kTimeLimit:
        raise outcomes.OutOfTime("simplex steps", n_steps, np.inf)
    if status != Status.kOptimal:
        message = f"the linear program was not solved: {solver.modelStatusToString(status)}"
        kind = UnboundedProgram if status == Status.kUnbounded else NotConverged
        raise kind(message, residual=np.inf, n_steps=n_steps)
    solution = solver.getSolution()
    nu, y = np.split(-unit * np.array(solution.row_dual), [len(constraints.right)])
    y = np.maximum(y / size, 0.0)
    return _solution(np.zeros(len(slope)), slope, constraints, np.array(solution.col_value), nu, y)


def _simplex(slope: Vector, constraints: LinearConstraints, tolerance: float, presolve: str) -> Any:
    """One call of HiGHS, which takes all rows in one matrix. One thread, because the programs are small."""
    solver = _solver(threading.get_ident(), tolerance, presolve)
    first, columns, values = _rows(constraints)
    n = len(slope)
    least = np.concatenate([constraints.right, np.full(len(constraints.bound), -np.inf)])
    most = np.concatenate([constraints.right, constraints.bound])
    by_rows, minimise = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMinimize)
    sizes = (n, len(most), len(values), by_rows, minimise, 0.0)
    x_limits = (constraints.lower, np.full(n, np.inf))
    is_integer = np.zeros(n)
    solver.passModel(*sizes, slope, *x_limits, least, most, first, columns, values, is_integer)
    solver.setOptionValue("simplex_iteration_limit", STEPS_OF_EACH * (n + len(most)))
    # The clock of HiGHS goes on from run to run.
    solver.setOptionValue("time_limit", solver.getRunTime() + max(outcomes.time_left(), SHORT_TIME))
    solver.run()
    return solver


@lru_cache(maxsize=16)
def _solver(thread: int, tolerance: float, presolve: str) -> Any:
    """HiGHS with its options, made once for each thread: that takes as long as solving a small program.

    A model that is passed to it replaces the last one with all that was computed for it.
    """
    create: Any = highspy.Highs
    solver = create()
    options: dict[str, Any] = {"output_flag": False, "presolve": presolve, "threads": 1, "parallel": "off"}
    options |= {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
    # The least value that HiGHS allows: it takes smaller coefficients for zero, by default all below 1e-9.
    options["small_matrix_value"] = 1e-12
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _rows(constraints: LinearConstraints) -> tuple[Indices, Indices, Vector]:
    """The equalities and the inequalities as compressed rows: where each row begins, columns and values."""
    both = constraints.equal, constraints.within
    if any(sparse.issparse(rows) for rows in both):
        rows = sparse.vstack([sparse.csr_array(rows) for rows in both], format="csr")
        return rows.indptr, rows.indices, rows.data
    dense = np.vstack(both)
    m, n = dense.shape
    return n * np.arange(m + 1), np.tile(np.arange(n), m), dense.ravel()


def minimise_quadratic(curvature: Any, slope: Vector, constraints: LinearConstraints) -> ProgramSolution:
    """Solve the quadratic program, with matrices all sparse or all dense.

    A dense program is small, and is polished to an error near rounding. Raises `InfeasibleProgram` where no x satisfies
    the constraints, and `NotConverged` where the library fails.
    """
    solution = _interior_point(curvature, slope, constraints, GAP_TOLERANCES[0])
    if error(solution) > ACCEPTED:
        # With a tolerance that it cannot reach, the library may stop further from the solution than with a larger one.
        second = _interior_point(curvature, slope, constraints, GAP_TOLERANCES[1])
        solution = min(solution, second, key=error)
    if not sparse.issparse(curvature):
        given = (curvature, slope, constraints)
        solutions = [solution, _polished(*given, *_active_by_multipliers(*given, solution.answer))]
        # Good is relative to the objective: at distance zero only least squares find the active constraints.
        if error(solutions[1]) > GOOD_SHARE * abs(solutions[1].value) and not slope.any():
            for guess in _active_by_least_squares(curvature, constraints):
                solutions.append(_polished(*given, *guess))
        if min(map(error, solutions)) > GOOD:
            # Of nearly equal columns one solution may have the right x and another one the right multipliers.
            solutions += [_combined(x, y) for x in solutions for y in solutions]
        # Between errors that are both rounding, the lower objective decides.
        solution = min(solutions, key=lambda either: (max(error(either), ROUNDED), either.value))
    worst = error(solution) / (1.0 + max_abs(solution.answer.x) + abs(solution.value))
    if not worst <= ACCEPTED:
        raise NotConverged(f"the quadratic program was solved to {worst:.2g} only", residual=worst, n_steps=2)
    return solution


def _interior_point(
    curvature: Any, slope: Vector, constraints: LinearConstraints, gap_tolerance: float
) -> ProgramSolution:
    """By Clarabel, which takes all rows in one matrix, equalities first."""
    is_bounded = np.isfinite(constraints.lower)
    n_equal, n_within = len(constraints.right), len(constraints.bound)
    is_sparse = sparse.issparse(curvature)
    identity = sparse.eye_array(len(slope), format="csr") if is_sparse else np.eye(len(slope))
    stack: Any = sparse.vstack if is_sparse else np.vstack
    rows = stack([constraints.equal, constraints.within, -identity[is_bounded]])
    right = np.concatenate([constraints.right, constraints.bound, -constraints.lower[is_bounded]])
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(len(right) - n_equal)]
    result = _clarabel(curvature, slope, rows, right, cones, gap_tolerance)
    if result.status in (clarabel.SolverStatus.PrimalInfeasible, clarabel.SolverStatus.AlmostPrimalInfeasible):
        raise InfeasibleProgram("no point satisfies the constraints of this quadratic program")
    x, multipliers = (np.clip(part, -LARGEST_ANSWER, LARGEST_ANSWER) for part in (result.x, result.z))
    y = np.maximum(multipliers[n_equal : n_equal + n_within], 0.0)
    return _solution(curvature @ x, slope, constraints, x, multipliers[:n_equal], y)


def _clarabel(curvature: Any, slope: Vector, rows: Any, right: Vector, cones: list[Any], gap_tolerance: float) -> Any:
    """One call of Clarabel: right - rows @ x lies in the cones."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = gap_tolerance
    settings.tol_feas = CLARABEL_TOLERANCE
    given = (sparse.csc_matrix(curvature), slope, sparse.csc_matrix(rows), right, cones, settings)
    return clarabel.DefaultSolver(*given).solve()


def minimise_conic(
    curvature: Matrix,
    slope: Vector,
    rows: Matrix,
    right: Vector,
    n_linear: int,
    balls: Sequence[int],
    *,
    n_equal: int = 0,
) -> ProgramSolution:
    """minimise 1/2 x @ curvature @ x + slope @ x where right - rows @ x lies in a product of cones.

    The first n_equal entries are zero and the next n_linear not negative; then each ball, a number of entries whose
    first is at least the 2-norm of the others. `within_multipliers` are those of all rows after the first n_equal.
    CONVERGED is what the library says; the caller judges the result.
    """
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(n_linear)]
    cones += [*(clarabel.SecondOrderConeT(size) for size in balls)]
    result = _clarabel(np.triu(curvature), slope, rows, right, cones, CLARABEL_TOLERANCE)
    x, multipliers = np.array(result.x), np.array(result.z)
    is_solved = result.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    ended = Ended.CONVERGED if is_solved and bool(np.isfinite(x).all()) else Ended.SETTLED
    pair = PrimalDual(x, multipliers[:n_equal], multipliers[n_equal:], result.r_prim, result.r_dual)
    residual = max(result.r_prim, result.r_dual)
    return Solution(pair, result.obj_val, result.obj_val_dual, residual, ended, result.iterations)


def _active_by_multipliers(
    curvature: Any, slope: Vector, constraints: LinearConstraints, near: PrimalDual
) -> tuple[Flags, Flags]:
    """The lower bounds and the inequalities whose slack is below their multiplier at a nearly optimal point."""
    reduced = curvature @ near.x + slope + constraints.gradient(near.equal_multipliers, near.within_multipliers)
    is_tight = constraints.bound - constraints.within @ near.x < near.within_multipliers
    return near.x - constraints.lower < reduced, is_tight


def _active_by_least_squares(curvature: Any, constraints: LinearConstraints) -> list[tuple[Flags, Flags]]:
    """The active constraints of a program without slope, from non-negative least squares with heavy constraints.

    An active-set method also identifies the active constraints of a degenerate solution, such as one at distance zero,
    where multipliers and slacks vanish together.
    """
    n, n_within = curvature.shape[0], len(constraints.bound)
    size, directions = np.linalg.eigh(curvature)
    root = np.sqrt(np.maximum(size, 0.0))[:, None] * directions.T
    rows = np.vstack([root, CONSTRAINT_WEIGHT * constraints.equal, CONSTRAINT_WEIGHT * constraints.within])
    right = np.concatenate([np.zeros(n), CONSTRAINT_WEIGHT * constraints.right, CONSTRAINT_WEIGHT * constraints.bound])
    slacks = np.vstack([np.zeros((len(rows) - n_within, n_within)), CONSTRAINT_WEIGHT * np.eye(n_within)])
    is_bounded = np.isfinite(constraints.lower)
    shift = np.where(is_bounded, constraints.lower, 0.0)
    columns = np.hstack([rows, -rows[:, ~is_bounded], slacks])
    try:
        y = optimize.nnls(columns, right - rows @ shift, maxiter=100 * n)[0]
    except RuntimeError:
        return []
    return [(is_bounded & (y[:n] <= small), y[len(y) - n_within :] <= small) for small in (0.0, SMALL)]


def _polished(
    curvature: Any, slope: Vector, constraints: LinearConstraints, at_lower: Flags, is_tight: Flags
) -> ProgramSolution:
    """The solution of the optimality conditions with these constraints active: one linear system.

    It is exact if these are the constraints that are active at the optimum; the residuals show whether they are. The
    error of an interior point is the square root of its gap.
    """
    n = len(slope)
    active = np.vstack([constraints.equal, np.eye(n)[at_lower], constraints.within[is_tight]])
    right = np.concatenate([constraints.right, constraints.lower[at_lower], constraints.bound[is_tight]])
    system = np.block([[curvature, active.T], [active, np.zeros((len(active), len(active)))]])
    answer = np.linalg.lstsq(system, np.concatenate([-slope, right]), rcond=1e-13)[0]
    x, multipliers = answer[:n], answer[n:]
    y = np.zeros(len(is_tight))
    y[is_tight] = np.maximum(multipliers[len(multipliers) - is_tight.sum() :], 0.0)
    return _solution(curvature @ x, slope, constraints, x, multipliers[: len(constraints.right)], y)


def _combined(primal: ProgramSolution, dual: ProgramSolution) -> ProgramSolution:
    """The x of one solution with the multipliers, and so the bound, of another; weak duality needs no more."""
    x, y = primal.answer, dual.answer
    pair = PrimalDual(x.x, y.equal_multipliers, y.within_multipliers, x.primal_residual, y.dual_residual)
    return replace(primal, answer=pair, bound=dual.bound, residual=max(x.primal_residual, y.dual_residual))


def _solution(
    product: Vector, slope: Vector, constraints: LinearConstraints, x: Vector, nu: Vector, y: Vector
) -> ProgramSolution:
    """The solution with its certificate; product: (n,), curvature @ x.

    Stationarity: d = curvature x + slope + equal' nu + within' y is the multiplier of x >= lower. It is not negative,
    and it is zero where x is free.
    """
    reduced = product + slope + constraints.gradient(nu, y)
    is_bounded = np.isfinite(constraints.lower)
    at_lower = np.maximum(reduced[is_bounded], 0.0) @ constraints.lower[is_bounded]
    value = float(0.5 * (x @ product) + slope @ x)
    bound = float(-0.5 * (x @ product) - nu @ constraints.right - y @ constraints.bound + at_lower)
    outside = constraints.violation(x)
    slope_error = max_abs(np.where(is_bounded, np.minimum(reduced, 0.0), reduced))
    pair = PrimalDual(x, nu, y, outside, slope_error)
    return Solution(pair, value, bound, max(outside, slope_error), Ended.CONVERGED, 1)
