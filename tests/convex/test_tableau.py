"""Small linear programs by the simplex method, against HiGHS."""

import numpy as np
import pytest
from scipy import optimize

from tutelage.convex import tableau
from tutelage.convex.programs import Constraints, InfeasibleProgram, _by_basis, minimise_linear


def random_program(rng, is_degenerate):
    """A master problem: weights on the simplex within a few limits; rounded entries give many ties."""
    m, n = rng.integers(0, 8), rng.integers(2, 60)
    within, slope = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7), rng.normal(size=n)
    bound = within @ rng.dirichlet(np.ones(n)) + rng.choice([0.0, 0.01, 0.3], size=m)
    if is_degenerate:
        within, slope, bound = np.round(within), np.round(slope), np.round(bound, 1)
    return slope, Constraints(np.zeros(n), np.ones((1, n)), np.ones(1), within, bound)


@pytest.mark.parametrize("is_degenerate", [False, True])
def test_the_basis_gives_the_optimum_of_the_library(is_degenerate):
    rng, n_solved = np.random.default_rng(5), 0
    for _ in range(60):
        slope, given = random_program(rng, is_degenerate)
        found = _by_basis(slope, given)
        right = optimize.linprog(
            slope, A_ub=given.within, b_ub=given.bound, A_eq=given.equal, b_eq=given.right, method="highs"
        )
        if found is None:
            assert right.status != 0 or is_degenerate
            continue
        n_solved += 1
        assert found.primal == pytest.approx(right.fun, abs=1e-8) and found.error <= 1e-10
        assert (found.within_multipliers >= 0).all()
    assert n_solved >= 50


def test_a_program_without_a_solution_has_no_basis():
    """Infeasible, and unbounded: the caller asks the library, which says which."""
    nothing = np.zeros((0, 2))
    rows, right = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0])
    assert tableau.optimal_basis(np.ones(2), rows, right, 0) is None
    assert tableau.optimal_basis(-np.ones(2), np.array([[1.0, -1.0]]), np.zeros(1), 0) is None
    with pytest.raises(InfeasibleProgram):
        minimise_linear(np.ones(2), Constraints(np.zeros(2), rows, right, nothing, np.zeros(0)))


def test_a_cycle_of_the_usual_rule_ends():
    """Beale's example, on which the rule of the most negative cost can pivot for ever."""
    slope = np.array([-0.75, 150.0, -0.02, 6.0])
    within = np.array([[0.25, -60.0, -0.04, 9.0], [0.5, -90.0, -0.02, 3.0], [0.0, 0.0, 1.0, 0.0]])
    found = minimise_linear(slope, Constraints(np.zeros(4), None, np.zeros(0), within, np.array([0.0, 0.0, 1.0])))
    assert found.primal == pytest.approx(-0.05, abs=1e-12)


def test_lower_bounds_other_than_zero():
    found = _by_basis(np.ones(2), Constraints(np.array([1.0, -2.0]), np.array([[1.0, 1.0]]), np.array([3.0])))
    assert found.primal == pytest.approx(3.0) and (found.x >= [1.0, -2.0]).all()
