"""What a learner pays: for failing to match the teacher (M) and for violating its preferences (N), with conjugates.

Eq. 1 and all its special cases are

    maximise over pi   H(pi) - M(mu_r(pi) - mu_hat) - N(g(mu_c(pi)))

and by Fenchel duality

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

    M(x) = C norm_p((|x| - delta)+)        M*(-a) = delta @ |a|                     on norm_q(a) <= C, 1/p + 1/q = 1
    M(x) = C norm_2((|x| - delta)+)^2      M*(-a) = delta @ |a| + |a|^2 / (4 C)     everywhere
    M(x) = 0 if |x| <= delta, else inf     M*(-a) = delta @ |a|                     everywhere
    N(g) = C norm_p((g - delta)+)          N*(y)  = delta @ y                       on y >= 0, norm_q(y) <= C
    N(g) = 0 if g <= delta, else inf       N*(y)  = delta @ y                       on y >= 0

A new learner model is a new pair of these.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, check_length, floats, freeze
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.solvers.blocks import Block

DUAL_NORM = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """What it costs a learner not to match the reward expectation it was shown.

    norm: p = 1, 2 or inf. penalty: C_r, infinite for an exact match. allowance: delta_r^hard, (d_r,) or a scalar for
    the same in each feature, granted for nothing. squared: the square of the 2-norm instead of the norm.
    """

    norm: float = 1
    penalty: float = math.inf
    allowance: ArrayLike = 0.0
    squared: bool = False

    def __post_init__(self) -> None:
        _check_norm_and_penalty(self.norm, self.penalty, "mismatch")
        if self.squared and (self.norm != 2 or math.isinf(self.penalty)):
            raise InvalidModel("a squared mismatch needs norm 2 and a finite penalty")
        object.__setattr__(self, "allowance", _allowance(self.allowance, "mismatch"))

    def excess(self, deviation: Vector) -> Vector:
        """(d_r,), delta_r^soft: the part of |mu_r - mu_hat| that is paid for."""
        return np.maximum(np.abs(deviation) - self.allowance, 0.0)

    def cost(self, deviation: Vector) -> float:
        """M; zero where the match must be exact, for then any excess is an error, not a price."""
        if math.isinf(self.penalty):
            return 0.0
        size = float(np.linalg.norm(self.excess(deviation), self.norm))
        return self.penalty * (size**2 if self.squared else size)

    def block(self, domain: Domain) -> Block:
        """M*(-a), as a term of the dual."""
        slope = _spread(self.allowance, domain.n_reward, "mismatch_allowance", "reward features")
        return Block(
            slope=slope,
            radius=math.inf if self.squared else self.penalty,
            norm=DUAL_NORM[self.norm],
            is_signed=True,
            groups=np.arange(domain.n_reward),
            curvature=0.5 / self.penalty if self.squared else 0.0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ConvexConstraint:
    """A convex function of the preference expectation mu_c (d_c,), with its gradient (d_c,)."""

    name: str
    value: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector]


def distance_constraint(name: str, centre: ArrayLike, *, scale: ArrayLike = 1.0) -> ConvexConstraint:
    """g(mu_c) = norm_2(scale * (mu_c - centre)): how far the learner lets itself be drawn from what it likes."""
    middle, stretch = floats(centre, "centre", ndim=1), np.asarray(scale, dtype=np.float64)

    def gradient(point: Vector) -> Vector:
        offset = stretch * (point - middle)
        size = float(np.linalg.norm(offset))
        return stretch * offset / size if size > 0 else np.zeros_like(point)

    return ConvexConstraint(name, lambda point: float(np.linalg.norm(stretch * (point - middle))), gradient)


def quadratic_constraint(name: str, curvature: ArrayLike, slope: ArrayLike) -> ConvexConstraint:
    """g(mu_c) = 1/2 mu_c @ curvature @ mu_c + slope @ mu_c, with a positive semi-definite curvature (d_c, d_c)."""
    bend, tilt = floats(curvature, "curvature", ndim=2), floats(slope, "slope", ndim=1)
    if bend.shape != (len(tilt), len(tilt)):
        raise InvalidModel(f"the curvature of {name!r} has shape {bend.shape}, but the slope has {len(tilt)} entries")
    bend = (bend + bend.T) / 2
    if np.linalg.eigvalsh(bend).min(initial=0.0) < -1e-9 * (1 + np.abs(bend).max(initial=0.0)):
        raise InvalidModel(f"the curvature of {name!r} is not positive semi-definite, so the constraint is not convex")
    return ConvexConstraint(
        name, lambda point: float(0.5 * point @ bend @ point + tilt @ point), lambda point: bend @ point + tilt
    )


@dataclass(frozen=True, slots=True, eq=False)
class Preference:
    """What it costs a learner to violate its preferences g_j(mu_c) <= delta_c[j].

    norm: p = 1, 2 or inf. penalty: C_c, infinite for hard preferences. allowance: delta_c^hard, one per constraint or a
    scalar for all. rows: (k, d_c), linear constraints rows @ mu_c; left out, each preference feature itself.
    functions: convex constraints beyond the linear ones, which come first.
    """

    norm: float = 1
    penalty: float = math.inf
    allowance: ArrayLike = 0.0
    rows: Matrix | None = None
    functions: tuple[ConvexConstraint, ...] = ()

    def __post_init__(self) -> None:
        _check_norm_and_penalty(self.norm, self.penalty, "preference")
        object.__setattr__(self, "allowance", _allowance(self.allowance, "preference"))
        object.__setattr__(self, "functions", tuple(self.functions))
        if self.rows is not None:
            object.__setattr__(self, "rows", floats(self.rows, "preference rows", ndim=2))

    @property
    def is_hard(self) -> bool:
        return math.isinf(self.penalty)

    def linear_rows(self, domain: Domain) -> Matrix:
        """(k, d_c), the linear constraints."""
        rows = np.eye(domain.n_preference) if self.rows is None else self.rows
        if rows.shape[1] != domain.n_preference:
            raise InvalidModel(
                f"preference rows have {rows.shape[1]} columns, but there are {domain.n_preference} preference features"
            )
        return rows

    def names(self, domain: Domain) -> tuple[str, ...]:
        """(m,), one per constraint, the linear ones first."""
        n_rows = len(self.linear_rows(domain))
        linear = domain.preference_names if self.rows is None else tuple(f"preference row {j}" for j in range(n_rows))
        return linear + tuple(function.name for function in self.functions)

    def limits(self, domain: Domain) -> Vector:
        """(m,), delta_c^hard, one per constraint."""
        return _spread(self.allowance, len(self.names(domain)), "violation_allowance", "preference constraints")

    def values(self, domain: Domain, preference_expectation: Vector) -> Vector:
        """(m,), g(mu_c)."""
        convex = [function.value(preference_expectation) for function in self.functions]
        return np.concatenate([self.linear_rows(domain) @ preference_expectation, convex])

    def cost(self, excess: Vector) -> float:
        """N, for the excess (g - delta)+; zero where preferences are hard, for then any excess is an error."""
        return 0.0 if self.is_hard else self.penalty * float(np.linalg.norm(excess, self.norm)) if len(excess) else 0.0


def _check_norm_and_penalty(norm: float, penalty: float, kind: str) -> None:
    if norm not in DUAL_NORM:
        raise InvalidModel(f"the {kind} norm must be 1, 2 or infinity, got {norm}")
    if not penalty > 0:
        raise InvalidModel(f"the {kind} penalty must be positive (infinite for hard), got {penalty}")


def _allowance(values: ArrayLike, kind: str) -> Vector:
    given = np.asarray(values)
    allowance = floats(given, f"the {kind} allowance", ndim=given.ndim)
    if given.ndim > 1 or (given.size and allowance.min() < 0):
        raise InvalidModel(f"the {kind} allowance must be a number or one per feature, none negative; got {given}")
    return allowance


def _spread(allowance: ArrayLike, count: int, name: str, what: str) -> Vector:
    """A scalar allowance as the same for each; a vector checked for its length."""
    values = np.asarray(allowance, dtype=np.float64)
    if values.ndim == 0:
        return freeze(np.full(count, float(values)))
    check_length(values, count, name, what)
    return values
