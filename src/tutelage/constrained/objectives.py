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

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from tutelage.arrays import Flags, Matrix, Vector
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
class Box:
    """The vectors u (k,) from lower to upper, with the term 1/2 curvature @ u^2."""

    lower: Vector
    upper: Vector
    curvature: Vector

    @property
    def is_matched(self) -> Flags:
        """(k,), which entries are deviations from a target, not multipliers."""
        return np.asarray(self.curvature != 0)


@dataclass(frozen=True, slots=True, eq=False)
class LowerBounds:
    """The lower bounds of an objective f, one for each u = (multipliers of the half-spaces, further entries) of a set:

        f(x) >= offset(u) - price(u) @ x        price(u) = base + turn @ u,   offset(u) = -linear @ u - term(u)

    base: (d,). turn: (d, k). linear: (k,). box: the set of u and its term; None where the set is not a box.
    """

    base: Vector
    turn: Matrix
    linear: Vector
    box: Box | None

    def price(self, u: Vector) -> Vector:
        return np.asarray(self.base + self.turn @ u)

    def offset(self, u: Vector) -> float:
        term = 0.0 if self.box is None else 0.5 * float(self.box.curvature @ (u * u))
        return -float(self.linear @ u) - term

    @property
    def can_share(self) -> bool:
        """Whether every group of starts may have a mixture of its own (`groups`).

        There are few dual variables: multipliers of half-spaces, or deviations with half their square.
        """
        if self.box is None or len(self.linear) > MOST_SHARED:
            return False
        box, is_matched = self.box, self.box.is_matched
        is_projection = not self.base.any() and (box.curvature[is_matched] == 1).all() and np.isinf(box.upper).all()
        return not box.lower[~is_matched].any() and bool(is_projection or not is_matched.any())


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The best point of a hull: weights v (n,) of its columns, and the dual variables u (k,) of its lower bound."""

    weights: Vector
    dual: Vector


class Objective(Protocol):
    """A convex function of a feature expectation, to be minimised."""

    def opening(self, limits: HalfSpaces) -> Vector:
        """(d,), the price that gives the first policy."""

    def scale(self, points: Matrix) -> float:
        """What the objective can reach, by some points (n, d): gaps are relative to it."""

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        """The lower bounds of the objective within the limits."""

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        """The best point of the hull within the limits."""


@dataclass(frozen=True, slots=True, eq=False)
class MostReward:
    """f(x) = -weights @ x_r, with bound -h @ y - max (weights - G'y) @ mu."""

    weights: Vector

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.weights, limits)

    def scale(self, points: Matrix) -> float:
        return _largest_reward(self.weights, points)

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        return LowerBounds(_padded(self.weights, limits), -limits.normals.T, limits.offsets, _multipliers(len(limits)))

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        weights = _padded(self.weights, limits)
        slope, within = -(hull.generate.T @ weights), limits.normals @ hull.generate
        constraints = LinearConstraints(np.zeros(len(slope)), hull.equal, hull.right, within, limits.offsets)
        solution = minimise_linear(slope, constraints)
        return _mixture(solution, solution.answer.x, solution.answer.within_multipliers)


@dataclass(frozen=True, slots=True, eq=False)
class LeastViolation:
    """f(x) = sum of (G x - h)+, the total excess over the half-spaces, which do not constrain x.

    Written with slacks s >= G x - h. Their multipliers lie in [0, 1]; bound -h @ y + min G'y @ mu.
    """

    def opening(self, limits: HalfSpaces) -> Vector:
        return np.asarray(-limits.normals.sum(axis=0))

    def scale(self, points: Matrix) -> float:
        return 1.0

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        base = np.zeros(limits.normals.shape[1])
        return LowerBounds(base, -limits.normals.T, limits.offsets, _multipliers(len(limits), 1.0))

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        n, m = hull.generate.shape[1], len(limits)
        within = _beside(limits.normals @ hull.generate, -np.eye(m))
        constraints = LinearConstraints(np.zeros(n + m), _widened(hull, m), hull.right, within, limits.offsets)
        solution = minimise_linear(np.concatenate([np.zeros(n), np.ones(m)]), constraints)
        return _mixture(solution, solution.answer.x[:n], np.minimum(solution.answer.within_multipliers, 1.0))


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

    def scale(self, points: Matrix) -> float:
        return _largest_reward(self.weights, points)

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        turn = np.column_stack([-limits.normals.T, np.zeros(limits.normals.shape[1])])
        return LowerBounds(_padded(self.weights, limits), turn, np.append(limits.offsets, self.total), None)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        n, m, weights = hull.generate.shape[1], len(limits), _padded(self.weights, limits)
        sum_of_slacks = np.concatenate([np.zeros(n), np.ones(m)])
        within = _stacked(_beside(limits.normals @ hull.generate, -np.eye(m)), sum_of_slacks[None])
        bound = np.append(limits.offsets, self.total)
        constraints = LinearConstraints(np.zeros(n + m), _widened(hull, m), hull.right, within, bound)
        solution = minimise_linear(np.concatenate([-(hull.generate.T @ weights), np.zeros(m)]), constraints)
        y, k = (
            solution.answer.within_multipliers[:m],
            max(float(solution.answer.within_multipliers.max(initial=0.0)), 0.0),
        )
        return _mixture(solution, solution.answer.x[:n], np.append(y, k))


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """f(x) = norm_p(x_r - target) for p = 1 or inf (Sec. 3.1), with slacks u >= |x_r - target|.

    For any a with dual norm at most one, norm_p(x_r - target) >= a @ (target - x_r).
    """

    target: Vector
    norm: float

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def scale(self, points: Matrix) -> float:
        return 1.0

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        ones = np.ones(len(self.target))
        return _matching(self.target, limits, Box(-ones, ones, 0 * ones) if self.norm == 1 else None)

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        n, d_r = hull.generate.shape[1], len(self.target)
        reach = np.eye(d_r) if self.norm == 1 else np.ones((d_r, 1))
        n_slacks = reach.shape[1]
        here = hull.generate[:d_r]
        limited = _beside(limits.normals @ hull.generate, np.zeros((len(limits), n_slacks)))
        within = _stacked(_stacked(_beside(here, -reach), _beside(-here, -reach)), limited)
        bound = np.concatenate([self.target, -self.target, limits.offsets])
        constraints = LinearConstraints(np.zeros(n + n_slacks), _widened(hull, n_slacks), hull.right, within, bound)
        solution = minimise_linear(np.concatenate([np.zeros(n), np.ones(n_slacks)]), constraints)
        up, low, y = np.split(solution.answer.within_multipliers, [d_r, 2 * d_r])
        # Scaled into the dual ball, so that the bound holds for any tolerance of the solver.
        direction = low - up
        shrink = 1 / max(1.0, float(np.linalg.norm(direction, np.inf if self.norm == 1 else 1)))
        return _mixture(solution, solution.answer.x[:n], shrink * np.concatenate([y, direction]))


@dataclass(frozen=True, slots=True, eq=False)
class NearestSquared:
    """f(x) = 1/2 norm_2(x_r - target)^2 (Sec. 3.1), with the deviations x_r - target as additional variables.

    For any a, 1/2 norm_2(x_r - target)^2 >= a @ (target - x_r) - 1/2 norm_2(a)^2.
    """

    target: Vector

    def opening(self, limits: HalfSpaces) -> Vector:
        return _padded(self.target, limits)

    def scale(self, points: Matrix) -> float:
        return 1.0

    def lower_bounds(self, limits: HalfSpaces) -> LowerBounds:
        ones = np.ones(len(self.target))
        return _matching(self.target, limits, Box(-np.inf * ones, np.inf * ones, ones))

    def solve(self, hull: Hull, limits: HalfSpaces) -> Solution[Mixture]:
        n, d_r = hull.generate.shape[1], len(self.target)
        # In units of the target, the deviations are of the size of v, which sums to one; y is scaled back below.
        unit = 1 + float(np.abs(self.target).max())
        here = hull.generate[:d_r]
        equal = _stacked(_widened(hull, d_r), _beside(here / unit, -np.eye(d_r)))
        right = np.concatenate([hull.right, self.target / unit])
        within = _beside(limits.normals @ hull.generate / unit, np.zeros((len(limits), d_r)))
        lower = np.concatenate([np.zeros(n), np.full(d_r, -np.inf)])
        constraints = LinearConstraints(lower, equal, right, within, limits.offsets / unit)
        weight = np.concatenate([np.zeros(n), np.ones(d_r)])
        curvature = sparse.diags_array(weight) if sparse.issparse(equal) else np.diag(weight)
        solution = minimise_quadratic(curvature, np.zeros(n + d_r), constraints)
        direction = self.target - here @ solution.answer.x[:n]
        u = np.concatenate([unit * solution.answer.within_multipliers, direction])
        return replace(_mixture(solution, solution.answer.x[:n], u), value=0.5 * float(direction @ direction))


def _mixture(solution: ProgramSolution, weights: Vector, u: Vector) -> Solution[Mixture]:
    return Solution(Mixture(weights, u), solution.value, solution.bound, solution.residual, solution.ended, 1)


def _largest_reward(weights: Vector, points: Matrix) -> float:
    """The largest |weights @ x_r| of some points (n, d); one where it is zero."""
    return float(np.abs(points[:, : len(weights)] @ weights).max(initial=0.0)) or 1.0


def _multipliers(n: int, most: float = np.inf) -> Box:
    """The multipliers of n half-spaces, each at most `most`."""
    return Box(np.zeros(n), np.full(n, most), np.zeros(n))


def _matching(target: Vector, limits: HalfSpaces, box: Box | None) -> LowerBounds:
    """a @ (target - x_r) - h @ y + G'y @ x, for y >= 0 and a in the box, or in a set that is not a box."""
    d, m = limits.normals.shape[1], len(limits)
    turn = np.hstack([-limits.normals.T, np.eye(d)[:, : len(target)]])
    if box is not None:
        y = _multipliers(m)
        parts = zip((y.lower, y.upper, y.curvature), (box.lower, box.upper, box.curvature), strict=True)
        box = Box(*(np.concatenate(part) for part in parts))
    return LowerBounds(np.zeros(d), turn, np.concatenate([limits.offsets, -target]), box)


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
