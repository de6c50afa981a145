"""Convex preference constraints g_j(mu_c) <= delta_j, and their tangents at a point that a program may move.

With multipliers y and tangents that touch at c + p, the constraints add to the learner's dual program

    weights of mu_c   - sum over j of y_j grad g_j(c + p)        value   sum over j of y_j (grad g_j @ (c + p) - g_j)

At any point the tangents lie below the constraints, so that the objective bounds the learner's for any p. It is least
where the tangents touch at the solution, because its gradient in p is W (c + p - mu_c), W = sum of y_j hess g_j.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, check_finite, floats
from tutelage.outcomes import InvalidModel, NotConverged

# Of a convex constraint at the solution: the part above its tangents, its cost in nats, and rounding, by its size.
ABOVE, COST, ROUNDING = 1e-9, 1e-7, 1e-14
# Relative to the largest expectations: how far from the solution a moving tangent may touch, steps of differences.
AWAY = 1e-5
DIFFERENCE_STEP = 1e-6
# Programs whose tangents move, before tangents are added, and programs in all.
N_MOVES, N_CUTS = 10, 1000


@dataclass(frozen=True, slots=True, eq=False)
class ConvexConstraint(Readable):
    """A convex function of the preference expectation mu_c (d_c,), with its gradient (d_c,).

    second: its Hessian (d_c, d_c); without one, differences of the gradient are used. distance: the centre and the
    scale (d_c,) of a function that is norm_2(scale * (mu_c - centre)).
    """

    name: str
    value: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector]
    second: Callable[[Vector], Matrix] | None = None
    distance: tuple[Vector, Vector] | None = None

    def slope(self, point: Vector) -> Vector:
        """The gradient at a point (d_c,); a gradient of another shape, or one that is not finite, is refused."""
        slope = np.asarray(self.gradient(point), dtype=np.float64)
        if slope.shape != point.shape:
            raise InvalidModel(f"the gradient of {self.name!r} has shape {slope.shape}, not {point.shape}")
        check_finite(slope, f"the gradient of {self.name!r}")
        return slope

    def hessian(self, point: Vector, steps: Vector) -> Matrix:
        """(d_c, d_c), as given, or by differences of the gradient, steps (d_c,); zero where these leave its domain."""
        if self.second is not None:
            return self.second(point)
        try:
            with np.errstate(all="ignore"):
                columns = [self.slope(point + step) - self.slope(point - step) for step in np.diag(steps)]
        except (ArithmeticError, ValueError):
            return np.zeros((len(point), len(point)))
        hessian: Matrix = np.array(columns).reshape(len(point), -1) / (2 * steps[:, None])
        return (hessian + hessian.T) / 2


def distance_constraint(name: str, centre: ArrayLike, *, scale: ArrayLike = 1.0) -> ConvexConstraint:
    """g(mu_c) = norm_2(scale * (mu_c - centre)): the distance from the expectation that the learner prefers."""
    middle = floats(centre, "centre", ndim=1)
    stretch = np.asarray(scale, dtype=np.float64) * np.ones_like(middle)

    def value(point: Vector) -> float:
        return float(np.linalg.norm(stretch * (point - middle)))

    def gradient(point: Vector) -> Vector:
        return np.asarray(stretch**2 * (point - middle) / (value(point) or 1.0))

    def second(point: Vector) -> Matrix:
        if value(point) == 0:
            return np.zeros((len(point), len(point)))
        slope = gradient(point)
        return np.asarray((np.diag(stretch**2) - np.outer(slope, slope)) / value(point))

    return ConvexConstraint(name, value, gradient, second, (middle, stretch))


def quadratic_constraint(name: str, curvature: ArrayLike, slope: ArrayLike) -> ConvexConstraint:
    """g(mu_c) = 1/2 mu_c @ curvature @ mu_c + slope @ mu_c, with a positive semi-definite curvature (d_c, d_c)."""
    hessian = floats(curvature, "curvature", ndim=2)
    linear = floats(slope, "slope", ndim=1)
    if hessian.shape != (len(linear), len(linear)):
        raise InvalidModel(
            f"the curvature of {name!r} has shape {hessian.shape}, but the slope has {len(linear)} entries"
        )
    hessian = (hessian + hessian.T) / 2
    if np.linalg.eigvalsh(hessian).min(initial=0.0) < -1e-9 * (1 + np.abs(hessian).max(initial=0.0)):
        raise InvalidModel(f"the curvature of {name!r} is not positive semi-definite, so the constraint is not convex")
    return ConvexConstraint(
        name,
        lambda point: float(0.5 * point @ hessian @ point + linear @ point),
        lambda point: hessian @ point + linear,
        lambda point: hessian,
    )


class Point(NamedTuple):
    """What variables x (n,) are to a program beside its blocks.

    weights: (d,), of the features. jacobian: (d, n), theirs in x. value: of the other terms of the objective.
    slope: (n,), the gradient of these terms. curvature: (k, k), W, of the objective in the last k variables.
    """

    weights: Vector
    jacobian: Matrix
    value: float
    slope: Vector
    curvature: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Convex constraints by one tangent each. centre: c, (d_c,). sizes: (d_c,), the largest expectations."""

    functions: tuple[ConvexConstraint, ...]
    centre: Vector
    sizes: Vector

    def touch(self, x: Vector) -> Point:
        """What the tangents for x = (y, p), (m + d_c,), add; weights: (d_c,). `NotConverged` outside a domain."""
        y, p = np.split(x, [len(self.functions)])
        point = self.centre + p
        try:
            with np.errstate(all="ignore"):
                values = floats([function.value(point) for function in self.functions], "the constraints", ndim=1)
                slopes = np.array([function.slope(point) for function in self.functions])
        except (ArithmeticError, ValueError) as error:
            raise NotConverged(f"a tangent cannot move further: {error}", residual=math.inf, n_steps=0) from error
        at_point = slopes @ point - values
        curvature = np.zeros((len(point), len(point)))
        for weight, function in zip(y, self.functions, strict=True):
            if weight > 0:
                curvature += weight * function.hessian(point, DIFFERENCE_STEP * self.sizes)
        if curvature.any():
            # Rounding may leave a flat direction of W with a negative curvature.
            curvatures, directions = np.linalg.eigh(self.sizes[:, None] * curvature * self.sizes)
            root = directions * np.sqrt(np.maximum(curvatures, 0.0)) / self.sizes[:, None]
            curvature = root @ root.T
        jacobian = -np.hstack([slopes.T, curvature])
        return Point(-(slopes.T @ y), jacobian, float(y @ at_point), np.append(at_point, curvature @ point), curvature)
