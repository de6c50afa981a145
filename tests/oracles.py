"""Independent answers to compare with, slow and without the solvers of the package; small models written by hand."""

from collections.abc import Callable
from itertools import product

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from tutelage.arrays import Matrix, Vector
from tutelage.chains.expectations import expectation
from tutelage.model.mdp import MDP, Domain, choice_reward, per_choice
from tutelage.model.policy import max_by_state


def value_iteration(
    mdp: MDP, reward: Vector, combine: Callable[[Vector], float], *, tolerance: float = 1e-12
) -> Vector:
    """Plain value iteration, state by state, to `tolerance` relative to the value.

    `combine` turns one state's choice values into its value. With one discount the sweeps stop on the span of the last
    change and the value is moved to the middle of MacQueen's bounds: without that, discounts near one would take 1e5
    sweeps for the last digits.
    """
    if not isinstance(mdp.discount, float):
        return _many_sweeps(mdp, reward, np.maximum if combine is np.max else np.logaddexp, tolerance)
    bounds = list(zip(mdp.first_choice[:-1], mdp.first_choice[1:], strict=True))
    value = np.zeros(mdp.n_states)
    ahead = mdp.discount / (1 - mdp.discount)
    for _ in range(200_000):
        choice_value = reward + mdp.discount * (mdp.transition @ value)
        new = np.array([combine(choice_value[low:high]) for low, high in bounds])
        change, value = new - value, new
        if ahead * np.ptp(change) <= tolerance * max(1.0, np.abs(value).max()):
            return value + ahead * (change.max() + change.min()) / 2
    raise AssertionError("value iteration did not converge")


def _many_sweeps(mdp: MDP, reward: Vector, combine: np.ufunc, tolerance: float) -> Vector:
    """Plain value iteration with a discount per choice: no bounds, so all states of a sweep at once."""
    moves, value, change = sparse.diags_array(mdp.discount) @ mdp.transition, np.zeros(mdp.n_states), np.inf
    while change > tolerance * (1 - mdp.discount.max()) * max(1.0, np.abs(value).max()):
        new = combine.reduceat(reward + moves @ value, mdp.first_choice[:-1])
        value, change = new, np.abs(new - value).max()
        if change <= 4e-16 * np.abs(value).max():
            break
    return value


def log_sum_exp(choice_value: Vector) -> float:
    best = choice_value.max()
    return float(best + np.log(np.exp(choice_value - best).sum()))


def deterministic_expectations(domain: Domain) -> Matrix:
    """(n, d), the expectations of every deterministic policy: their hull is all that policies can reach."""
    mdp = domain.mdp
    options = [range(low, high) for low, high in zip(mdp.first_choice[:-1], mdp.first_choice[1:], strict=True)]
    points = []
    for choices in product(*options):
        policy = np.zeros(mdp.n_choices)
        policy[list(choices)] = 1.0
        points.append(expectation(domain, policy).both)
    return np.array(points)


def occupancy_program(domain: Domain, weights: Vector, normals: Matrix, offsets: Vector) -> float:
    """The constrained MDP of App. F as one dense program: most of weights @ mu_r with normals @ mu <= offsets."""
    mdp = domain.mdp
    leave = (np.arange(mdp.n_states)[:, None] == mdp.state_of_choice).astype(float)
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    result = linprog(
        -features[:, : domain.n_reward] @ weights,
        A_eq=leave - mdp.transition.toarray().T * mdp.discount,
        b_eq=mdp.initial,
        A_ub=normals @ features.T if len(normals) else None,
        b_ub=offsets if len(normals) else None,
    )
    assert result.status == 0, result.message
    return float(-result.fun)


def central_difference(function: Callable[[Vector], Vector | float], point: Vector, *, step: float = 1e-5) -> Matrix:
    """(d, ...), the numerical derivative in each coordinate."""
    steps = step * np.eye(len(point))
    return np.array([(np.asarray(function(point + e)) - np.asarray(function(point - e))) / (2 * step) for e in steps])


def lattice(n: int, *, discount: float = 0.99, slip: float = 0.0) -> MDP:
    """An n by n grid with up, left, down, right and stay; with probability `slip` a move goes the next way round."""
    cells = np.arange(n * n)
    row, column = np.divmod(cells, n)
    moves = [
        np.where(row > 0, cells - n, cells),
        np.where(column > 0, cells - 1, cells),
        np.where(row < n - 1, cells + n, cells),
        np.where(column < n - 1, cells + 1, cells),
        cells,
    ]
    exact = [sparse.csr_array((np.ones(n * n), (cells, target)), (n * n, n * n)) for target in moves]
    mixed = [(1 - slip) * exact[a] + slip * exact[(a + 1) % 5] for a in range(5)]
    initial = np.zeros(n * n)
    initial[n * n // 2] = 1.0
    return MDP.from_arrays(mixed, initial, discount)


def optimal_value(domain: Domain, weights) -> float:
    """P0 @ V of the best policy, by value iteration to a relative change of 1e-13."""
    mdp = domain.mdp
    reward = choice_reward(mdp, domain.reward_features @ np.asarray(weights))
    value, change = np.zeros(mdp.n_states), np.inf
    while change > 1e-13 * max(1.0, np.abs(value).max()):
        new = max_by_state(mdp, reward + mdp.discount * (mdp.transition @ value))
        value, change = new, np.abs(new - value).max()
    return float(mdp.initial @ value)


def distance(one: int, other: int, size: int) -> int:
    """The Chebyshev distance of two cells: max(|rows apart|, |columns apart|)."""
    return max(abs(one // size - other // size), abs(one % size - other % size))


def ragged_domain() -> Domain:
    """Three states with 2, 1 and 3 choices; the last is absorbing and keeps its reward."""
    rows = np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    mdp = MDP.from_choices(rows, [0, 2, 3, 6], [1, 0, 0], 0.9)
    return Domain(mdp, np.array([[0.0], [-1.0], [0.5], [1.0], [0.0], [0.0]]))


def cone_optimum(domain, mismatch, preference, shown, convex=()):
    """Eq. 1 over occupancies with relative-entropy cones: the optimal objective and mu = (mu_r, mu_c), by Clarabel.

    H(pi) = - sum over c of z(c) log(z(c) / sum of z over the state's choices)

    convex: the preference's convex constraints again, as CVXPY functions of mu_c.
    """
    mdp = domain.mdp
    leave = (np.arange(mdp.n_states)[:, None] == mdp.state_of_choice).astype(float)
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    z = cp.Variable(mdp.n_choices, nonneg=True)
    total = leave.T @ (leave @ z)
    mu = features.T @ z
    objective = -cp.sum(cp.rel_entr(z, total))
    rules = [leave @ z - (mdp.transition.toarray().T * mdp.discount) @ z == mdp.initial]
    excess = cp.pos(cp.abs(mu[: domain.n_reward] - shown) - mismatch.block(domain).slope)
    if np.isinf(mismatch.penalty):
        rules.append(excess <= 0)
    elif mismatch.squared:
        objective -= mismatch.penalty * cp.sum_squares(excess)
    else:
        objective -= mismatch.penalty * cp.norm(excess, mismatch.norm)
    constraints = preference.on(domain)
    if len(constraints.allowance):
        values = [constraints.rows @ mu[domain.n_reward :], *(g(mu[domain.n_reward :]) for g in convex)]
        violation = cp.hstack([cp.reshape(value, (value.size,), order="C") for value in values]) - constraints.allowance
        if preference.is_hard:
            rules.append(violation <= 0)
        else:
            objective -= preference.penalty * cp.norm(cp.pos(violation), preference.norm)
    problem = cp.Problem(cp.Maximize(objective), rules)
    for tolerance in (1e-10, 1e-8, 1e-6):
        # Clarabel fails where the tolerance is too small.
        try:
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
            break
        except cp.SolverError:
            continue
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value), mu.value
