"""Objectives over feature expectations: the most reward, the nearest to a target, the least violation.

Each objective f is minimised over the points x = generate @ v of a hull {v >= 0, equal @ v = right} within half-spaces
G x <= h, as a small linear or quadratic program. The same program serves both routes. With the policies found so far as
columns and v on the simplex it is the master problem of the decomposition. With one column per choice and the flow
equations it is the whole problem over occupancies.

Its multipliers give a *price* and an *offset* such that, for every point of any set that contains the hull,

    f(x) >= offset - price @ x      wherever G x <= h                                                   (weak duality)

so that offset - max over all policies of price @ mu is a lower bound on the objective, certified without relying on
the program's solver. All objectives but the squared distance are linear programs of one form:

    minimise   cost @ s - base @ x      where   rows @ x - reach @ s <= right,   s >= 0

whose multipliers u >= 0 with reach' u <= cost have price(u) = base - rows' u and offset(u) = -right @ u.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector, max_abs
from tutelage.constrained.problem import HalfSpaces
from tutelage.convex import programs
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints
from tutelage.outcomes import NotConverged, Solution

# With more dual variables than this, mixtures of groups converge too slowly.
MOST_SHARED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The best point of a hull: weights v (n,) of its columns, and the dual variables u (k,) of its lower bound."""

    weights: Vector
    dual: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An objective f within limits, and its lower bounds, one for each u >= 0 with reach' u <= cost:

        f(x) >= offset(u) - price(u) @ x        price(u) = base - rows' u,   offset(u) = -right @ u - 1/2 |a|^2

    base: (d,). rows: (k, d), those of the half-spaces first; right: (k,). reach: (k, p) and cost: (p,), of slacks.
    opening: (d,), the price that gives the first policy. most: the largest multiplier of a half-space; None where not
    all of u but a are such multipliers. n_matched: the length of a, the last entries of u, which are deviations from a
    target; with them f is half their square.
    """

    base: Vector
    rows: Matrix
    right: Vector
    reach: Matrix
    cost: Vector
    opening: Vector
    most: float | None = None
    n_matched: int = 0

    def price(self, u: Vector) -> Vector:
        return np.asarray(self.base - self.rows.T @ u)

    def offset(self, u: Vector) -> float:
        a = u[len(u) - self.n_matched :]
        return -float(self.right @ u) - 0.5 * float(a @ a)

    def scale(self, points: Matrix) -> float:
        """What the objective can reach, by some points (n, d): gaps are relative to it."""
        return max_abs(points @ self.base) or 1.0

    @property
    def is_reward(self) -> bool:
        """Whether f is a reward and nothing else: then u are the prices of the limits."""
        return self.most == np.inf and not self.n_matched

    @property
    def can_share(self) -> bool:
        """Whether every group of starts may have a mixture of its own (`groups`): there are few dual variables."""
        return self.most is not None and len(self.right) <= MOST_SHARED

    def relaxed(self, by: Vector) -> Self:
        """The same within limits that are moved outwards by `by` (m,)."""
        return replace(self, right=np.concatenate([self.right[: len(by)] + by, self.right[len(by) :]]))

    def solve(self, generate: Any, equal: Any, right: Vector) -> Solution[Mixture]:
        """The best point within the limits of the hull generate @ v, v >= 0, equal @ v = right.

        generate: (d, n); equal: (k, n); dense or sparse. Raises `NotConverged` where a library fails or finds no point.
        """
        try:
            return (self._nearest if self.n_matched else self._linear)(generate, equal, right)
        except InfeasibleProgram as failure:
            raise NotConverged(f"the program over policies failed: {failure}", residual=np.inf, n_steps=1) from failure

    def _linear(self, generate: Any, equal: Any, right: Vector) -> Solution[Mixture]:
        n, n_slacks = generate.shape[1], len(self.cost)
        within = np.hstack([self.rows @ generate, -self.reach])
        equal = _joined([[equal, np.zeros((len(right), n_slacks))]])
        constraints = LinearConstraints(np.zeros(n + n_slacks), equal, right, within, self.right)
        solution = programs.minimise_linear(np.concatenate([-(generate.T @ self.base), self.cost]), constraints)
        u = solution.answer.within_multipliers
        # Changed so that reach' u <= cost for any tolerance of the solver.
        if not self.cost.all():
            # The last one is that of the total.
            return _mixture(solution, n, np.append(u[:-1], u.max()))
        # Every cost is one. Only the multipliers of a slack that is over its cost change: the error of one in a small
        # unit must not loosen the bound of all.
        excess = np.where(self.reach > 0, np.maximum(self.reach.T @ u, 1.0), 1.0)
        return _mixture(solution, n, u / excess.max(axis=1, initial=1.0))

    def _nearest(self, generate: Any, equal: Any, right: Vector) -> Solution[Mixture]:
        """The same by a quadratic program, with the deviations as additional variables."""
        m, n, d_r = len(self.right) - self.n_matched, generate.shape[1], self.n_matched
        target = -self.right[m:]
        here = generate[:d_r]
        # In units of the target, the deviations are of the size of v, which sums to one; y is scaled back below.
        unit = 1 + max_abs(target)
        equal = _joined([[equal, np.zeros((len(right), d_r))], [here / unit, -np.eye(d_r)]])
        right = np.concatenate([right, target / unit])
        within = _joined([[self.rows[:m] @ generate / unit, np.zeros((m, d_r))]])
        weight = np.repeat([0.0, 1.0], [n, d_r])
        constraints = LinearConstraints(np.where(weight, -np.inf, 0.0), equal, right, within, self.right[:m] / unit)
        curvature = sparse.diags_array(weight) if sparse.issparse(equal) else np.diag(weight)
        solution = programs.minimise_quadratic(curvature, np.zeros(n + d_r), constraints)
        direction = target - here @ solution.answer.x[:n]
        u = np.concatenate([unit * solution.answer.within_multipliers, direction])
        return replace(_mixture(solution, n, u), value=0.5 * float(direction @ direction))


def most_reward(weights: Vector, limits: HalfSpaces) -> Program:
    """f(x) = -weights @ x_r, with bound -h @ y - max (weights - G'y) @ mu."""
    base, none = _padded(weights, limits), np.zeros((len(limits), 0))
    return Program(base, limits.normals, limits.offsets, none, np.zeros(0), base, np.inf)


def least_violation(limits: HalfSpaces) -> Program:
    """f(x) = sum of (G x - h)+, the total excess over the half-spaces, which do not constrain x.

    Written with slacks s >= G x - h. Their multipliers lie in [0, 1]; bound -h @ y + min G'y @ mu.
    """
    m, d = limits.normals.shape
    opening = np.asarray(-limits.normals.sum(axis=0))
    return Program(np.zeros(d), limits.normals, limits.offsets, np.eye(m), np.ones(m), opening, 1.0)


def reward_within_total(weights: Vector, total: float, limits: HalfSpaces) -> Program:
    """f(x) = -weights @ x_r where sum of (G x - h)+ <= total: a limit on the total excess over the half-spaces.

    Written with slacks s >= G x - h. With the total's multiplier k and y <= k, weights @ x <= (weights - G'y) @ x +
    h @ y + k * total.
    """
    m, d = limits.normals.shape
    base = _padded(weights, limits)
    rows = np.vstack([limits.normals, np.zeros(d)])
    reach = np.vstack([np.eye(m), -np.ones(m)])
    return Program(base, rows, np.append(limits.offsets, total), reach, np.zeros(m), base)


def nearest(target: Vector, norm: float, limits: HalfSpaces) -> Program:
    """f(x) = norm_p(x_r - target) for p = 1 or inf (Sec. 3.1), with slacks s >= |x_r - target|, or one for all."""
    m, d = limits.normals.shape
    here = np.eye(len(target), d)
    each = np.eye(len(target)) if norm == 1 else np.ones((len(target), 1))
    rows = np.vstack([limits.normals, here, -here])
    reach = np.vstack([np.zeros((m, each.shape[1])), each, each])
    right = np.concatenate([limits.offsets, target, -target])
    return Program(np.zeros(d), rows, right, reach, np.ones(each.shape[1]), _padded(target, limits))


def nearest_squared(target: Vector, limits: HalfSpaces) -> Program:
    """f(x) = 1/2 norm_2(x_r - target)^2 (Sec. 3.1).

    For any a, 1/2 norm_2(x_r - target)^2 >= a @ (target - x_r) - 1/2 norm_2(a)^2.
    """
    d, d_r = limits.normals.shape[1], len(target)
    rows = np.vstack([limits.normals, -np.eye(d_r, d)])
    right = np.append(limits.offsets, -target)
    none = np.zeros((len(rows), 0))
    return Program(np.zeros(d), rows, right, none, np.zeros(0), _padded(target, limits), np.inf, d_r)


def _mixture(solution: programs.ProgramSolution, n: int, u: Vector) -> Solution[Mixture]:
    """The first n entries of a program's solution as weights of the columns."""
    weights = solution.answer.x[:n]
    return Solution(Mixture(weights, u), solution.value, solution.bound, solution.residual, solution.ended, 1)


def _padded(reward_part: Vector, limits: HalfSpaces) -> Vector:
    """(d,), a vector of reward features with zeros for the preference features."""
    return np.concatenate([reward_part, np.zeros(limits.normals.shape[1] - len(reward_part))])


def _joined(blocks: list[list[Any]]) -> Any:
    """The matrix of these blocks, sparse where the first one is."""
    if not sparse.issparse(blocks[0][0]):
        return np.block(blocks)
    return sparse.block_array([[sparse.csr_array(block) for block in row] for row in blocks], format="csr")
