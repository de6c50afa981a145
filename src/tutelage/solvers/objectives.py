"""Objectives over feature expectations: the most reward, the nearest to a target, the least violation.

Each objective f is minimised over the points x = generate @ v of a hull {v >= 0, equal @ v = right} within half-spaces
G x <= h, as a small linear or quadratic program. The same program serves both routes. With the policies found so far as
columns and v on the simplex it is the master problem of the decomposition. With one column per choice and the flow
equations it is the whole problem over occupancies.

Its multipliers give a *price* and an *offset* such that, for every point of any set that contains the hull,

    f(x) >= offset - price @ x      wherever G x <= h                                                   (weak duality)

so that offset - max over all policies of price @ mu is a lower bound on the objective, certified without relying on
the program's solver.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from tutelage.arrays import Vector
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.programs import Constraints, minimise_linear, minimise_quadratic


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """The points generate @ v, v >= 0, equal @ v = right. generate: (d, n); equal: (k, n); dense or sparse."""

    generate: Any
    equal: Any
    right: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """The best point of a hull: weights v (n,), objective value, the half-spaces' multipliers (m,), price, offset."""

    weights: Vector
    value: float
    multipliers: Vector
    price: Vector
    offset: float


class Objective(Protocol):
    """A convex function of a feature expectation, to be minimised."""

    def opening(self, limits: HalfSpaces) -> Vector:
        """(d,), the price that gives the first policy."""

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        """The best point of the hull within the limits."""


@dataclass(frozen=True, slots=True, eq=False)
class MostReward:
    """f(x) = -weights @ x_r, with bound -h @ y - max (weights - G'y) @ mu."""

    weights: Vector

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.weights, limits)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        weights = _padded(self.weights, limits)
        slope, within = -(hull.generate.T @ weights), limits.normals @ hull.generate
        constraints = Constraints(np.zeros(len(slope)), hull.equal, hull.right, within, limits.offsets)
        solution = minimise_linear(slope, constraints)
        y = solution.within_multipliers
        return Point(solution.x, solution.primal, y, weights - limits.normals.T @ y, float(-limits.offsets @ y))


@dataclass(frozen=True, slots=True, eq=False)
class LeastViolation:
    """f(x) = sum of (G x - h)+, the total excess over the half-spaces, which do not constrain x.

    Written with slacks s >= G x - h. Their multipliers lie in [0, 1]; bound -h @ y + min G'y @ mu.
    """

    def opening(self, limits: HalfSpaces) -> Vector:
        return np.asarray(-limits.normals.sum(axis=0))

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        n, m = hull.generate.shape[1], len(limits)
        within = _beside(limits.normals @ hull.generate, -np.eye(m))
        constraints = Constraints(np.zeros(n + m), _widened(hull, m), hull.right, within, limits.offsets)
        solution = minimise_linear(np.concatenate([np.zeros(n), np.ones(m)]), constraints)
        y = np.minimum(solution.within_multipliers, 1.0)
        return Point(solution.x[:n], solution.primal, y, -limits.normals.T @ y, float(-limits.offsets @ y))


@dataclass(frozen=True, slots=True, eq=False)
class RewardWithinTotal:
    """f(x) = -weights @ x_r where sum of (G x - h)+ <= total: a limit on the total excess over the half-spaces.

    Written with slacks s >= G x - h. With the total's multiplier k and y <= k, weights @ x <= (weights - G'y) @ x +
    h @ y + k * total.
    """

    weights: Vector
    total: float

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.weights, limits)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        n, m, weights = hull.generate.shape[1], len(limits), _padded(self.weights, limits)
        sum_of_slacks = np.concatenate([np.zeros(n), np.ones(m)])
        within = _stacked(_beside(limits.normals @ hull.generate, -np.eye(m)), sum_of_slacks[None])
        bound = np.append(limits.offsets, self.total)
        constraints = Constraints(np.zeros(n + m), _widened(hull, m), hull.right, within, bound)
        solution = minimise_linear(np.concatenate([-(hull.generate.T @ weights), np.zeros(m)]), constraints)
        y, k = solution.within_multipliers[:m], max(float(solution.within_multipliers.max(initial=0.0)), 0.0)
        offset = float(-limits.offsets @ y) - k * self.total
        return Point(solution.x[:n], solution.primal, y, weights - limits.normals.T @ y, offset)


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """f(x) = norm_p(x_r - target) for p = 1 or inf (Sec. 3.1), with slacks u >= |x_r - target|.

    For any a with dual norm at most one, norm_p(x_r - target) >= a @ (target - x_r).
    """

    target: Vector
    norm: float

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        n, d_r = hull.generate.shape[1], len(self.target)
        reach = np.eye(d_r) if self.norm == 1 else np.ones((d_r, 1))
        n_slacks = reach.shape[1]
        here = hull.generate[:d_r]
        limited = _beside(limits.normals @ hull.generate, np.zeros((len(limits), n_slacks)))
        within = _stacked(_stacked(_beside(here, -reach), _beside(-here, -reach)), limited)
        bound = np.concatenate([self.target, -self.target, limits.offsets])
        constraints = Constraints(np.zeros(n + n_slacks), _widened(hull, n_slacks), hull.right, within, bound)
        solution = minimise_linear(np.concatenate([np.zeros(n), np.ones(n_slacks)]), constraints)
        up, low, y = np.split(solution.within_multipliers, [d_r, 2 * d_r])
        # Scaled into the dual ball, so that the bound holds for any tolerance of the solver.
        direction = low - up
        shrink = 1 / max(1.0, float(np.linalg.norm(direction, np.inf if self.norm == 1 else 1)))
        direction, y = shrink * direction, shrink * y
        price = _padded(direction, limits) - limits.normals.T @ y
        return Point(solution.x[:n], solution.primal, y, price, float(direction @ self.target - limits.offsets @ y))


@dataclass(frozen=True, slots=True, eq=False)
class NearestSquared:
    """f(x) = 1/2 norm_2(x_r - target)^2 (Sec. 3.1), with the deviations x_r - target as additional variables.

    For any a, 1/2 norm_2(x_r - target)^2 >= a @ (target - x_r) - 1/2 norm_2(a)^2.
    """

    target: Vector

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Point:
        n, d_r = hull.generate.shape[1], len(self.target)
        # In units of the target, the deviations are of the size of v, which sums to one; y is scaled back below.
        unit = 1 + float(np.abs(self.target).max())
        here = hull.generate[:d_r]
        equal = _stacked(_widened(hull, d_r), _beside(here / unit, -np.eye(d_r)))
        right = np.concatenate([hull.right, self.target / unit])
        within = _beside(limits.normals @ hull.generate / unit, np.zeros((len(limits), d_r)))
        lower = np.concatenate([np.zeros(n), np.full(d_r, -np.inf)])
        constraints = Constraints(lower, equal, right, within, limits.offsets / unit)
        weight = np.concatenate([np.zeros(n), np.ones(d_r)])
        curvature = sparse.diags_array(weight) if sparse.issparse(equal) else np.diag(weight)
        solution = minimise_quadratic(curvature, np.zeros(n + d_r), constraints)
        direction = self.target - here @ solution.x[:n]
        y = unit * solution.within_multipliers
        price = _padded(direction, limits) - limits.normals.T @ y
        offset = float(direction @ self.target - 0.5 * direction @ direction - limits.offsets @ y)
        return Point(solution.x[:n], 0.5 * float(direction @ direction), y, price, offset)


def _padded(reward_part: Vector, limits: HalfSpaces) -> Vector:
    """(d,), a vector of reward features with zeros for the preference features."""
    return np.concatenate([reward_part, np.zeros(limits.normals.shape[1] - len(reward_part))])


def _widened(hull: Hull, n_more: int) -> Any:
    """The equalities of the hull, with columns of zeros for additional variables."""
    return _beside(hull.equal, np.zeros((len(hull.right), n_more)))


def _beside(left: Any, right: Any) -> Any:
    if sparse.issparse(left):
        return sparse.hstack([left, sparse.csr_array(right)], format="csr")
    return np.hstack([left, right])


def _stacked(top: Any, bottom: Any) -> Any:
    if sparse.issparse(top):
        return sparse.vstack([top, bottom], format="csr")
    return np.vstack([top, bottom])
