"""A script for the Python of another environment: one method of another package on a problem from a file.

    python -I program_peer.py method problem.npz answer.npz seconds

method: `highs-ipx`, `highs-hipo` (without crossover), `highs-simplex`, `highs-pdlp`, `ortools-pdlp` for the linear
program of a constrained MDP; `quantecon-...` for an MDP without limits. answer: value, the seconds of the solution, the
processor seconds, and the status in the package's words. Does not import Tutelage. Exit code 3: the package, or this
method of it, is not installed; 4: it gives no answer within the seconds.
"""

import importlib
import sys
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

NOT_INSTALLED, NO_ANSWER = 3, 4
QUANTECON = {"vi": "value_iteration", "pi": "policy_iteration", "mpi": "modified_policy_iteration"}


def main(method: str, problem_path: str, answer_path: str, limit: str) -> None:
    """Read the problem, solve it, and write the answer."""
    package, kind = method.split("-")
    module = {"highs": "highspy", "ortools": "ortools", "quantecon": "quantecon"}[package]
    if find_spec(module) is None:
        sys.exit(NOT_INSTALLED)
    solve = {"highs": highs, "ortools": ortools, "quantecon": quantecon}[package]
    value, seconds, processor, status = solve(dict(np.load(problem_path)), kind, float(limit))
    np.savez(answer_path, value=value, seconds=seconds, processor=processor, status=status)


def matrix(problem: "dict[str, Any]", name: str) -> "sparse.csr_matrix":
    """The sparse matrix that was saved under this name."""
    parts = tuple(problem[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return sparse.csr_matrix(parts, shape=tuple(problem[f"{name}_shape"]))


def highs(problem: "dict[str, Any]", kind: str, limit: float) -> "tuple[Any, float, float, str]":
    """HiGHS through highspy, with feasibility and optimality tolerances of 1e-8."""
    highspy: Any = importlib.import_module("highspy")

    rows, n_equal = matrix(problem, "rows"), int(problem["n_equal"])
    n_rows, n_columns = rows.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n_columns, n_rows
    program.col_cost_ = problem["slope"]
    program.col_lower_, program.col_upper_ = np.zeros(n_columns), np.full(n_columns, highspy.kHighsInf)
    program.row_lower_ = np.where(np.arange(n_rows) < n_equal, problem["right"], -highspy.kHighsInf)
    program.row_upper_ = problem["right"]
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_, program.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    solver = highspy.Highs()
    options: dict[str, Any] = {"output_flag": False, "time_limit": limit, "solver": kind, "run_crossover": "off"}
    options |= {"primal_feasibility_tolerance": 1e-8, "dual_feasibility_tolerance": 1e-8}
    for name, value in options.items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            sys.exit(NOT_INSTALLED)
    start, processor = time.perf_counter(), time.process_time()
    solver.passModel(program)
    if solver.run() == highspy.HighsStatus.kError:
        sys.exit(NOT_INSTALLED)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    status = solver.modelStatusToString(solver.getModelStatus())
    if solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
        sys.exit(NO_ANSWER)
    return solver.getInfo().objective_function_value, seconds, processor, status


def ortools(problem: "dict[str, Any]", kind: str, limit: float) -> "tuple[Any, float, float, str]":
    """PDLP of OR-tools, to a relative gap and residuals of 1e-7."""
    solve_log_pb2: Any = importlib.import_module("ortools.pdlp.solve_log_pb2")
    solvers_pb2: Any = importlib.import_module("ortools.pdlp.solvers_pb2")
    pdlp: Any = importlib.import_module("ortools.pdlp.python.pdlp")

    rows, n_equal = matrix(problem, "rows"), int(problem["n_equal"])
    program = pdlp.QuadraticProgram()
    program.resize_and_initialize(rows.shape[1], rows.shape[0])
    program.objective_vector, program.constraint_matrix = problem["slope"], rows.tocsc()
    program.constraint_lower_bounds = np.where(np.arange(rows.shape[0]) < n_equal, problem["right"], -np.inf)
    program.constraint_upper_bounds = problem["right"]
    program.variable_lower_bounds = np.zeros(rows.shape[1])
    program.variable_upper_bounds = np.full(rows.shape[1], np.inf)
    options = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = options.termination_criteria
    criteria.simple_optimality_criteria.eps_optimal_relative = 1e-7
    criteria.simple_optimality_criteria.eps_optimal_absolute = 1e-7
    criteria.time_sec_limit = limit
    options.num_threads = 2
    start, processor = time.perf_counter(), time.process_time()
    found = pdlp.primal_dual_hybrid_gradient(program, options)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    reason = found.solve_log.termination_reason
    if reason != solve_log_pb2.TERMINATION_REASON_OPTIMAL:
        sys.exit(NO_ANSWER)
    return float(problem["slope"] @ found.primal_solution), seconds, processor, "optimal"


def quantecon(problem: "dict[str, Any]", kind: str, limit: float) -> "tuple[Any, float, float, str]":
    """QuantEcon's DiscreteDP, from its defaults, to 1e-8; solved once before, because its loops are compiled."""
    markov: Any = importlib.import_module("quantecon.markov")

    given = (
        problem["reward"],
        matrix(problem, "rows"),
        float(problem["discount"]),
        problem["state"],
        problem["action"],
    )
    model = markov.DiscreteDP(*given)
    options = {} if kind == "pi" else {"epsilon": 1e-8}
    first = time.perf_counter()
    for _ in range(2):
        start, processor = time.perf_counter(), time.process_time()
        found = model.solve(method=QUANTECON[kind], max_iter=1_000_000, **options)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        if time.perf_counter() - first > 0.5 * limit:
            break
    return found.v, seconds, processor, "optimal"


if __name__ == "__main__":
    main(*sys.argv[1:])
