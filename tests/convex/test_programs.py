"""The doors to the program solvers: what they report about an answer is computed from the problem, and can be wrong."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse

from tutelage.convex import programs
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, error, minimise_linear, minimise_quadratic
from tutelage.outcomes import NotConverged, OutOfTime, watched


def random_constraints(rng, *, n=8):
    """Constraints with a known interior point, all coordinates at least 0 but the last, which is free."""
    inside = rng.random(n) + 0.5
    equal, within = rng.normal(size=(2, n)), np.vstack([rng.normal(size=(4, n)), np.ones(n), -np.eye(n)[-1:]])
    bound = within @ inside + rng.random(len(within))
    return LinearConstraints(np.r_[np.zeros(n - 1), -np.inf], equal, equal @ inside, within, bound), inside


@pytest.mark.parametrize("seed", range(50))
def test_linear_solutions_prove_themselves(seed):
    rng = np.random.default_rng(seed)
    constraints, inside = random_constraints(rng)
    slope = rng.normal(size=8)
    solution = minimise_linear(slope, constraints)
    assert solution.answer.primal_residual <= 1e-8 and solution.answer.dual_residual <= 1e-8
    assert solution.gap <= 1e-7 * (1 + abs(solution.value))
    assert solution.value <= slope @ inside + 1e-8


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("is_sparse", [False, True])
def test_quadratic_solutions_prove_themselves(seed, is_sparse):
    rng = np.random.default_rng(seed)
    constraints, inside = random_constraints(rng)
    root = rng.normal(size=(5, 8))
    curvature, slope = root.T @ root, rng.normal(size=8)
    if is_sparse:
        curvature = sparse.csr_array(curvature)
        constraints = LinearConstraints(
            constraints.lower,
            sparse.csr_array(constraints.equal),
            constraints.right,
            sparse.csr_array(constraints.within),
            constraints.bound,
        )
    solution = minimise_quadratic(curvature, slope, constraints)
    scale = 1 + abs(solution.value)
    assert solution.answer.primal_residual <= 1e-7 * scale and solution.answer.dual_residual <= 1e-7 * scale
    assert solution.gap <= 1e-7 * scale
    assert solution.value <= 0.5 * inside @ (curvature @ inside) + slope @ inside + 1e-7 * scale


def test_a_quadratic_program_by_hand():
    """The point of the simplex nearest to (1, 1/2): (3/4, 1/4), with multiplier 1/4 on the sum."""
    constraints = LinearConstraints(np.zeros(2), np.ones((1, 2)), np.ones(1))
    solution = minimise_quadratic(np.eye(2), -np.array([1.0, 0.5]), constraints)
    assert_allclose(solution.answer.x, [0.75, 0.25], atol=1e-9)
    assert_allclose(solution.answer.equal_multipliers, [0.25], atol=1e-9)


def test_residuals_tell_a_wrong_answer():
    """A certificate that could not fail would certify nothing."""
    constraints = LinearConstraints(np.zeros(2), np.ones((1, 2)), np.ones(1))
    slope, x, nu = np.array([-1.0, -2.0]), np.array([0.5, 0.6]), np.array([1.5])
    wrong = programs._solution(np.zeros(2), slope, constraints, x, nu, np.zeros(0))
    assert wrong.answer.primal_residual == pytest.approx(0.1)
    assert wrong.answer.dual_residual == pytest.approx(0.5)
    assert wrong.gap == pytest.approx(1.7 - 1.5)
    assert constraints.violation(np.array([0.5, 0.4])) == pytest.approx(0.1)
    assert constraints.violation(np.array([1.2, -0.2])) == pytest.approx(0.2)


def test_programs_without_an_answer_raise():
    empty = LinearConstraints(np.zeros(1), np.ones((1, 1)), np.array([-1.0]))
    with pytest.raises(InfeasibleProgram, match="no point satisfies"):
        minimise_linear(np.ones(1), empty)
    with pytest.raises(NotConverged, match="linear program was not solved"):
        minimise_linear(-np.ones(1), LinearConstraints(np.zeros(1)))
    with pytest.raises(InfeasibleProgram, match="no point satisfies"):
        minimise_quadratic(np.eye(1), np.ones(1), empty)


@pytest.mark.parametrize("seed", range(10))
def test_a_distance_of_zero_is_found_as_zero(seed):
    """A target in the hull of six points: every multiplier is zero, and the polished distance is zero to rounding.

    An interior point alone is only as close as the square root of its gap.
    """
    rng = np.random.default_rng(seed)
    points, mixture = rng.normal(size=(3, 6)), np.r_[0.5, 0.5, 0, 0, 0, 0]
    equal = np.block([[np.ones((1, 6)), np.zeros((1, 3))], [points, -np.eye(3)]])
    lower = np.r_[np.zeros(6), np.full(3, -np.inf)]
    constraints = LinearConstraints(lower, equal, np.r_[1.0, points @ mixture])
    solution = minimise_quadratic(np.diag(np.r_[np.zeros(6), np.ones(3)]), np.zeros(9), constraints)
    assert np.linalg.norm(solution.answer.x[6:]) <= 1e-14


def random_master(rng, is_degenerate):
    """A master problem: weights on the simplex within a few limits; rounded entries give many ties."""
    m, n = rng.integers(0, 8), rng.integers(2, 60)
    within, slope = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7), rng.normal(size=n)
    bound = within @ rng.dirichlet(np.ones(n)) + rng.choice([0.0, 0.01, 0.3], size=m)
    if is_degenerate:
        within, slope, bound = np.round(within), np.round(slope), np.round(bound, 1)
    return slope, LinearConstraints(np.zeros(n), np.ones((1, n)), np.ones(1), within, bound)


@pytest.mark.parametrize("is_degenerate", [False, True])
def test_small_programs_have_the_optimum_of_another_library_to_rounding(is_degenerate):
    rng, n_solved = np.random.default_rng(5), 0
    for _ in range(60):
        slope, given = random_master(rng, is_degenerate)
        right = optimize.linprog(
            slope, A_ub=given.within, b_ub=given.bound, A_eq=given.equal, b_eq=given.right, method="highs-ds"
        )
        if right.status != 0:
            with pytest.raises(InfeasibleProgram):
                minimise_linear(slope, given)
            continue
        found, n_solved = minimise_linear(slope, given), n_solved + 1
        assert found.value == pytest.approx(right.fun, abs=1e-8) and error(found) <= 1e-10
        assert (found.answer.within_multipliers >= 0).all()
    assert n_solved >= 50


def test_a_program_on_which_the_simplex_method_can_cycle():
    """Beale's example, on which the rule of the most negative cost can pivot for ever."""
    slope = np.array([-0.75, 150.0, -0.02, 6.0])
    within = np.array([[0.25, -60.0, -0.04, 9.0], [0.5, -90.0, -0.02, 3.0], [0.0, 0.0, 1.0, 0.0]])
    found = minimise_linear(slope, LinearConstraints(np.zeros(4), None, np.zeros(0), within, np.array([0.0, 0.0, 1.0])))
    assert found.value == pytest.approx(-0.05, abs=1e-12)


def test_lower_bounds_other_than_zero():
    found = minimise_linear(
        np.ones(2), LinearConstraints(np.array([1.0, -2.0]), np.array([[1.0, 1.0]]), np.array([3.0]))
    )
    assert found.value == pytest.approx(3.0) and (found.answer.x >= [1.0, -2.0]).all()


def test_a_linear_program_ends_after_a_number_of_steps_or_at_the_time_limit(monkeypatch):
    """The library may turn round and round on a program of fifteen unknowns; nobody should wait for it."""
    constraints, _ = random_constraints(np.random.default_rng(4))
    slope = np.r_[-np.ones(7), 0.0]
    assert minimise_linear(slope, constraints).gap <= 1e-9
    with monkeypatch.context() as patch:
        patch.setattr(programs, "STEPS_OF_EACH", 0)
        with pytest.raises(NotConverged, match="not solved: Iteration limit reached"):
            minimise_linear(slope, constraints)
    monkeypatch.setattr(programs, "SHORT_TIME", 0.0)
    with watched(1e-9), pytest.raises(OutOfTime):
        minimise_linear(slope, constraints)
    # The library counts the time of all programs of a thread.
    assert minimise_linear(slope, constraints).gap <= 1e-9


def test_threads_do_not_share_a_solver():
    """Each of many programs at once has the answer that it has alone."""
    rng = np.random.default_rng(6)
    given = [random_master(rng, False) for _ in range(40)]
    alone = [minimise_linear(*program).value for program in given]
    with ThreadPoolExecutor(4) as pool:
        together = [found.value for found in pool.map(lambda program: minimise_linear(*program), given)]
    assert together == alone


def test_a_linear_program_measures_its_own_errors():
    """min -x1 - 2 x2 over the unit triangle is -2 at (0, 1), with the multiplier 2."""
    constraints = LinearConstraints(np.zeros(2), within=np.ones((1, 2)), bound=np.ones(1))
    slope = np.array([-1.0, -2.0])
    right = minimise_linear(slope, constraints)
    assert (right.value, right.bound, error(right)) == (-2.0, -2.0, 0.0)

    def answer(x, y):
        return programs._solution(np.zeros(2), slope, constraints, np.array(x), np.zeros(0), np.array([y]))

    assert answer([0.5, 0.5], 2.0).gap == pytest.approx(0.5)
    assert answer([0.5, 0.5], 2.0).answer.primal_residual == 0.0
    assert answer([0.0, 1.5], 2.0).answer.primal_residual == pytest.approx(0.5)
    assert answer([-0.25, 1.0], 2.0).answer.primal_residual == pytest.approx(0.25)
    # The multiplier 1.5 is too small for x2: 2 - 1.5.
    assert answer([0.0, 1.0], 1.5).answer.dual_residual == pytest.approx(0.5)
    assert answer([0.0, 1.0], 3.0).gap == pytest.approx(1.0)
    assert error(answer([0.0, 1.0], 3.0)) == pytest.approx(1.0)


def test_a_quadratic_program_measures_its_own_errors():
    """min 1/2 |x|^2 - 2 x1 with x1 + x2 = 1 and x >= 0.25: optimal at (0.75, 0.25), with the multiplier 1.25."""
    slope = np.array([-2.0, 0.0])
    constraints = LinearConstraints(np.full(2, 0.25), np.ones((1, 2)), np.ones(1))
    right = minimise_quadratic(np.eye(2), slope, constraints)
    assert_allclose(right.answer.x, [0.75, 0.25], atol=1e-12)
    assert error(right) <= 1e-12 and right.value == pytest.approx(-1.1875)

    def answer(x, nu):
        return programs._solution(np.array(x), slope, constraints, np.array(x), np.array([nu]), np.zeros(0))

    # At (0.5, 0.5) the derivative of the Lagrangian in x1 is 0.5 - 2 + 1.25.
    assert answer([0.5, 0.5], 1.25).answer.dual_residual == pytest.approx(0.25)
    assert answer([0.75, 0.75], 1.25).answer.primal_residual == pytest.approx(0.5)
    assert answer([1.0, 0.0], 1.25).answer.primal_residual == pytest.approx(0.25)
    # Primal -0.75; dual -1/4 - 3/2 + 1/4 (x2's multiplier, 2, at its bound 1/4, is 1/2).
    assert answer([0.5, 0.5], 1.5).value == pytest.approx(-0.75)
    assert answer([0.5, 0.5], 1.5).bound == pytest.approx(-0.25 - 1.5 + 0.5)


def test_a_quadratic_program_that_the_library_gets_wrong_is_an_error(monkeypatch):
    constraints = LinearConstraints(np.full(2, 0.25), np.ones((1, 2)), np.ones(1))
    wrong = programs._solution(np.ones(2), np.zeros(2), constraints, np.ones(2), np.zeros(1), np.zeros(0))
    for name in ("_interior_point", "_polished"):
        monkeypatch.setattr(programs, name, lambda *_: wrong)
    with pytest.raises(NotConverged, match="the quadratic program was solved to"):
        minimise_quadratic(np.eye(2), np.zeros(2), constraints)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
def test_small_coefficients_are_not_taken_for_zero(as_matrix):
    """x + 2e-10 y <= 1 allows y = 5e9 and no more; without its second coefficient y has no limit."""
    constraints = LinearConstraints(np.zeros(2), within=as_matrix([[1.0, 2e-10]]), bound=np.ones(1))
    solution = minimise_linear(np.array([0.0, -1.0]), constraints)
    assert solution.answer.x[1] == pytest.approx(5e9)
    assert solution.bound == pytest.approx(-5e9)
