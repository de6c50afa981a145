"""The answer of a soft learner, smoothed: its limits replaced by a logarithmic barrier.

The learner's (a, y) lies in a box, so its answer has kinks and flats as a function of theta = (C_r, C_c, delta), where
a search for theta gets stuck. With x = (a / C_r, y / C_c), low = (-1, 0) and D = diag(C_r, -C_c), minimise instead

    f(x) = P0 @ V(D x) - C_r x_r @ mu_hat + C_c x_c @ delta - tau sum of [log(1 - x) + log(x - low)]       tau > 0

Its Hessian is positive definite, so x is smooth in theta, and every parameter has an influence:

    H dx + (d grad f / d theta) d theta = 0,     d mu = J (D dx + dD x),     J: the Hessian of P0 @ V in the weights.

At its minimum the smoothed objective is within 2 d tau of the learner's own, in nats.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import watch
from tutelage.arrays import Matrix, Vector
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features, soft_expansion

# A step goes at most this far towards a limit, and is shortened until it gains this share of what it promises.
TOWARDS, ARMIJO = 0.95, 1e-4
# Newton's method ends when it promises less than this, in units of tau.
TOLERANCE = 1e-3
MAX_STEPS = 60
# The rounding error of f, relative to its size.
ROUNDING = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """theta: (2 + d_c,). x: (d,), (a / C_r, y / C_c). soft: the soft policy. moved: (d, 2 + d_c), dx / d theta.
    slopes: (d, 2 + d_c), d mu / d theta.
    """

    theta: Vector
    x: Vector
    soft: SoftExpansion
    moved: Matrix
    slopes: Matrix


def smoothed(domain: Domain, theta: Vector, shown: Vector, tau: float, near: Smoothed | None) -> Smoothed:
    """The smoothed answer to a lesson (d_r,). near: that of other parameters, to start from."""
    d_r, d_c = domain.n_reward, domain.n_preference
    low = np.concatenate([-np.ones(d_r), np.zeros(d_c)])
    start = (low + 1) / 2 if near is None else _towards(near.x, near.moved @ (theta - near.theta), low)[0]
    scale = np.concatenate([np.full(d_r, theta[0]), np.full(d_c, -theta[1])])
    linear = np.concatenate([-theta[0] * shown, theta[1] * theta[2:]])
    x, soft, hessian = _minimum(domain, scale, linear, tau, low, start, None if near is None else near.soft)
    is_reward = np.arange(d_r + d_c) < d_r
    # Columns: the derivatives of D, and of the linear term, in C_r and in C_c.
    turned = np.array([np.where(is_reward, 1.0, 0.0), np.where(is_reward, 0.0, -1.0)]).T
    shifted = np.array([np.concatenate([-shown, np.zeros(d_c)]), np.concatenate([np.zeros(d_r), theta[2:]])]).T
    direct = turned * x[:, None]
    pushed = np.zeros((d_r + d_c, 2 + d_c))
    pushed[:, :2] = turned * soft.expectation[:, None] + scale[:, None] * (soft.jacobian @ direct) + shifted
    pushed[d_r:, 2:] = theta[1] * np.eye(d_c)
    moved = -_solve(hessian, pushed)
    ways = scale[:, None] * moved
    ways[:, :2] += direct
    return Smoothed(theta, x, soft, moved, soft.jacobian @ ways)


def _minimum(
    domain: Domain,
    scale: Vector,
    linear: Vector,
    tau: float,
    low: Vector,
    x: Vector,
    near: SoftExpansion | None,
) -> tuple[Vector, SoftExpansion, Matrix]:
    """The minimum of f by Newton's method, the soft policy there and the Hessian of f."""
    features = combined_features(domain)

    def value_at(x: Vector, near: SoftExpansion | None) -> tuple[float, SoftExpansion]:
        soft = soft_expansion(domain.mdp, features, scale * x, near=near, accuracy=1e-9)
        barrier = float(np.log(1 - x).sum() + np.log(x - low).sum())
        return soft.soft_return + float(linear @ x) - tau * barrier, soft

    value, soft = value_at(x, near)
    for _ in range(MAX_STEPS):
        gradient = scale * soft.expectation + linear + tau / (1 - x) - tau / (x - low)
        hessian = scale[:, None] * soft.jacobian * scale + np.diag(tau / (1 - x) ** 2 + tau / (x - low) ** 2)
        step = -_solve(hessian, gradient)
        promised = -float(gradient @ step)
        if promised <= TOLERANCE * tau:
            return x, soft, hessian
        noise = ROUNDING * (1 + abs(value))
        there, length = _towards(x, step, low)
        new, at_new = value_at(there, soft)
        while new > value - ARMIJO * length * promised + noise and length > ROUNDING:
            watch.spend()
            length /= 3
            there = x + length * step
            new, at_new = value_at(there, soft)
        x, value, soft = there, new, at_new
    raise NotConverged("the smoothed answer was not found", residual=promised, n_steps=MAX_STEPS)


def _towards(x: Vector, step: Vector, low: Vector) -> tuple[Vector, float]:
    """x plus the step, or plus the part of it that stays inside the limits, and that part."""
    with np.errstate(divide="ignore"):
        room = np.where(step > 0, (1 - x) / step, np.where(step < 0, (low - x) / step, np.inf))
    length = min(1.0, TOWARDS * float(room.min(initial=np.inf)))
    return x + length * step, length


def _solve(hessian: Matrix, right: Matrix) -> Matrix:
    """The solution of a positive definite system, scaled to a diagonal of one."""
    unit = 1 / np.sqrt(np.diag(hessian))
    scaled = np.linalg.solve(unit[:, None] * hessian * unit, (unit * right.T).T)
    return np.asarray((unit * scaled.T).T)
