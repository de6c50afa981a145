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
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.constrained.problem import HalfSpaces
from tutelage.convex.programs import LinearConstraints, ProgramSolution, minimise_linear, minimise_quadratic
from tutelage.outcomes import Solution

# With more dual variables than this, mixtures of groups converge too slowly.
MOST_SHARED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """The points generate @ v, v >= 0, equal @ v = right. generate: (d, n); equal: (k, n); dense or sparse."""

    generate: Any
    equal: Any
    right: Vector


@dataclass(frozen=True, slots=True, eq=False)
class LowerBounds:
    """An objective f as a program, and its lower bounds, one for each u >= 0 with reach' u <= cost:

        f(x) >= offset(u) - price(u) @ x        price(u) = base - rows' u,   offset(u) = -right @ u - 1/2 |a|^2

    base: (d,). rows: (k, d), those of the half-spaces first; right: (k,). reach: (k, p) and cost: (p,), of slacks.
    n_matched: the length of a, the last entries of u, which are deviations from a target. most: the largest multiplier
    of a half-space; None where not all of u but a are such multipliers.
    """

    base: Vector
    rows: Matrix
    right: Vector
    reach: Matrix
    cost: Vector
    most: float | None = None
    n_matched: int = 0

    def price(self, u: Vector) -> Vector:
        return np.asarray(self.base - self.rows.T @ u)

    def offset(self, u: Vector) -> float:
        a = u[len(u) - self.n_matched :]
        return -float(self.right @ u) - 0.5 * float(a @ a)

    def scale(self, points: Matrix) -> float:
        """What the objective can reach, by some points (n, d): gaps are relative to it."""
        return float(np.abs(points @ self.base).max(initial=0.0)) or 1.0

    @property
    def can_share(self) -> bool:
        """Whether every group of starts may have a mixture of its own (`groups`): there are few dual variables."""
        return self.most is not None and len(self.right) <= MOST_SHARED


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The best point of a hull: weights v (n,) of its columns, and the dual variables u (k,) of its lower bound."""

    weights: Vector
    dual: Vector


class Objective:
    """A convex function of a feature expectation, to be minimised; as here, a linear program with some rows."""

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        """The program within the limits, and its lower bounds."""
        raise NotImplementedError

    def dual(self, part: LowerBounds, u: Vector) -> Vector:
        """Multipliers u of the rows, changed so that reach' u <= cost for any tolerance of the solver."""
        return np.asarray(u / max(1.0, float((part.reach.T @ u).max(initial=0.0))))

    def opening(self, limits: HalfSpaces) -> Vector:
        """(d,), the price that gives the first policy."""
        return self.lower_bounds(limits).base

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        """The best point of the hull within the limits."""
        part = self.lower_bounds(limits)
        n, n_slacks = hull.generate.shape[1], len(part.cost)
        within = np.hstack([part.rows @ hull.generate, -part.reach])
        equal = _joined([[hull.equal, np.zeros((len(hull.right), n_slacks))]])
        constraints = LinearConstraints(np.zeros(n + n_slacks), equal, hull.right, within, part.right)
        solution = minimise_linear(np.concatenate([-(hull.generate.T @ part.base), part.cost]), constraints)
        return _mixture(solution, n, self.dual(part, solution.answer.within_multipliers))


@dataclass(frozen=True, eq=False)
class MostReward(Objective):
    """f(x) = -weights @ x_r, with bound -h @ y - max (weights - G'y) @ mu."""

    weights: Vector

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        base, none = _padded(self.weights, limits), np.zeros((len(limits), 0))
        return LowerBounds(base, limits.normals, limits.offsets, none, none.sum(axis=0), np.inf)


class LeastViolation(Objective):
    """f(x) = sum of (G x - h)+, the total excess over the half-spaces, which do not constrain x.

    Written with slacks s >= G x - h. Their multipliers lie in [0, 1]; bound -h @ y + min G'y @ mu.
    """

    def opening(self, limits: HalfSpaces) -> Vector:
        return np.asarray(-limits.normals.sum(axis=0))

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        m, d = limits.normals.shape
        return LowerBounds(np.zeros(d), limits.normals, limits.offsets, np.eye(m), np.ones(m), 1.0)


@dataclass(frozen=True, eq=False)
class RewardWithinTotal(Objective):
    """f(x) = -weights @ x_r where sum of (G x - h)+ <= total: a limit on the total excess over the half-spaces.

    Written with slacks s >= G x - h. With the total's multiplier k and y <= k, weights @ x <= (weights - G'y) @ x +
    h @ y + k * total.
    """

    weights: Vector
    total: float

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        m, d = limits.normals.shape
        rows, reach = np.vstack([limits.normals, np.zeros(d)]), np.vstack([np.eye(m), -np.ones(m)])
        right = np.append(limits.offsets, self.total)
        return LowerBounds(_padded(self.weights, limits), rows, right, reach, np.zeros(m))

    def dual(self, part: LowerBounds, u: Vector) -> Vector:
        return np.append(u[:-1], u.max())


@dataclass(frozen=True, eq=False)
class Nearest(Objective):
    """f(x) = norm_p(x_r - target) for p = 1 or inf (Sec. 3.1), with slacks s >= |x_r - target|, or one for all."""

    target: Vector
    norm: float

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        (m, d), d_r = limits.normals.shape, len(self.target)
        here, each = np.eye(d_r, d), np.eye(d_r) if self.norm == 1 else np.ones((d_r, 1))
        rows, reach = np.vstack([limits.normals, here, -here]), np.vstack([np.zeros((m, each.shape[1])), each, each])
        right = np.concatenate([limits.offsets, self.target, -self.target])
        return LowerBounds(np.zeros(d), rows, right, reach, np.ones(each.shape[1]))


@dataclass(frozen=True, eq=False)
class NearestSquared(Objective):
    """f(x) = 1/2 norm_2(x_r - target)^2 (Sec. 3.1), with the deviations x_r - target as additional variables.

    For any a, 1/2 norm_2(x_r - target)^2 >= a @ (target - x_r) - 1/2 norm_2(a)^2.
    """

    target: Vector

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        (m, d), d_r = limits.normals.shape, len(self.target)
        rows, right = np.vstack([limits.normals, -np.eye(d_r, d)]), np.append(limits.offsets, -self.target)
        none = np.zeros((m + d_r, 0))
        return LowerBounds(np.zeros(d), rows, right, none, none.sum(axis=0), np.inf, d_r)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        n, d_r = hull.generate.shape[1], len(self.target)
        # In units of the target, the deviations are of the size of v, which sums to one; y is scaled back below.
        unit, here = 1 + float(np.abs(self.target).max()), hull.generate[:d_r]
        equal = _joined([[hull.equal, np.zeros((len(hull.right), d_r))], [here / unit, -np.eye(d_r)]])
        right = np.concatenate([hull.right, self.target / unit])
        within = _joined([[limits.normals @ hull.generate / unit, np.zeros((len(limits), d_r))]])
        lower = np.concatenate([np.zeros(n), np.full(d_r, -np.inf)])
        constraints = LinearConstraints(lower, equal, right, within, limits.offsets / unit)
        weight = np.concatenate([np.zeros(n), np.ones(d_r)])
        curvature = sparse.diags_array(weight) if sparse.issparse(equal) else np.diag(weight)
        solution = minimise_quadratic(curvature, np.zeros(n + d_r), constraints)
        direction = self.target - here @ solution.answer.x[:n]
        u = np.concatenate([unit * solution.answer.within_multipliers, direction])
        return replace(_mixture(solution, n, u), value=0.5 * float(direction @ direction))


def _mixture(solution: ProgramSolution, n: int, u: Vector) -> Solution[Mixture]:
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
