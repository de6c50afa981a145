"""The penalties of a learner: M for a mismatch with the lesson, N for violated preferences, and their conjugates.

Eq. 1 and all its special cases are

    maximise over pi   H(pi) - M(mu_r(pi) - mu_hat) - N(g(mu_c(pi)))

and, by Fenchel duality,

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

    M(x) = C norm_p((|x| - delta)+)        M*(-a) = delta @ |a|                     on norm_q(a) <= C, 1/p + 1/q = 1
    M(x) = C norm_2((|x| - delta)+)^2      M*(-a) = delta @ |a| + |a|^2 / (4 C)     everywhere
    M(x) = 0 if |x| <= delta, else inf     M*(-a) = delta @ |a|                     everywhere
    N(g) = C norm_p((g - delta)+)          N*(y)  = delta @ y                       on y >= 0, norm_q(y) <= C
    N(g) = 0 if g <= delta, else inf       N*(y)  = delta @ y                       on y >= 0

A new entropy learner is a new pair (M, N). `on(domain)` binds a penalty to a domain: sizes are checked there, once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, check_finite, floats
from tutelage.constrained.problem import or_one, sizes
from tutelage.convex.blocks import Block
from tutelage.model.allowances import Allowance, allowance_vector, checked_allowance
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel

DUAL_NORM = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """The cost M of a deviation mu_r - mu_hat from the reward expectation shown.

    norm: p = 1, 2 or inf. penalty: C_r, infinite for an exact match. allowance: delta_r^hard, the deviation that costs
    nothing, (d_r,) or a scalar for all features, or as in `Preference`. squared: the square of the 2-norm instead of
    the norm.
    """

    norm: float = 1
    penalty: float = math.inf
    allowance: Allowance = 0.0
    squared: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowance", _checked_allowance(self, "mismatch"))
        if self.squared and (self.norm != 2 or math.isinf(self.penalty)):
            raise InvalidModel("a squared mismatch needs norm 2 and a finite penalty")

    def on(self, domain: Domain) -> Self:
        """This mismatch with one allowance for each reward feature of the domain."""
        given = (self.allowance, domain.mdp, domain.reward_names)
        return replace(self, allowance=allowance_vector(*given, "mismatch_allowance", "reward features"))

    def excess(self, deviation: Vector) -> Vector:
        """(d_r,), delta_r^soft: the part of |mu_r - mu_hat| above the allowance."""
        allowance: Vector = np.asarray(self.allowance, dtype=np.float64)
        return np.maximum(np.abs(deviation) - allowance, 0.0)

    def cost(self, deviation: Vector) -> float:
        """M; zero for an exact match, where an excess is a numerical error and not a cost."""
        if math.isinf(self.penalty):
            return 0.0
        size = float(np.linalg.norm(self.excess(deviation), self.norm))
        return self.penalty * (size**2 if self.squared else size)

    def block(self, domain: Domain) -> Block:
        """M*(-a), as a term of the dual."""
        return Block(
            slope=np.asarray(self.on(domain).allowance),
            radius=math.inf if self.squared else self.penalty,
            norm=DUAL_NORM[self.norm],
            is_signed=True,
            groups=np.arange(domain.n_reward),
            curvature=0.5 / self.penalty if self.squared else 0.0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """norm_2(scale * (mu_c - centre)), (d_c,) each."""

    centre: Vector
    scale: Vector


@dataclass(frozen=True, slots=True, eq=False)
class ConvexConstraint:
    """A convex function of the preference expectation mu_c (d_c,), with its gradient (d_c,).

    second: its Hessian (d_c, d_c); without one, differences of the gradient are used. distance: the function as a
    distance, if it is one.
    """

    name: str
    value: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector]
    second: Callable[[Vector], Matrix] | None = None
    distance: Distance | None = None

    def slope(self, point: Vector) -> Vector:
        """The gradient at a point (d_c,); a gradient of another shape, or one that is not finite, is refused."""
        slope = np.asarray(self.gradient(point), dtype=np.float64)
        if slope.shape != point.shape:
            raise InvalidModel(f"the gradient of {self.name!r} has shape {slope.shape}, not {point.shape}")
        check_finite(slope, f"the gradient of {self.name!r}")
        return slope

    def hessian(self, point: Vector, steps: Vector) -> Matrix:
        """(d_c, d_c), as given, or by central differences of the gradient with steps (d_c,).

        Zero where a point beside this one has left the domain of the function.
        """
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
    middle, stretch = floats(centre, "centre", ndim=1), np.asarray(scale, dtype=np.float64)

    def gradient(point: Vector) -> Vector:
        offset = stretch * (point - middle)
        size = float(np.linalg.norm(offset))
        return stretch * offset / size if size > 0 else np.zeros_like(point)

    def second(point: Vector) -> Matrix:
        offset = stretch * (point - middle)
        size, scales = float(np.linalg.norm(offset)), stretch * np.ones_like(point)
        across = np.eye(len(point)) - np.outer(offset, offset) / size**2 if size > 0 else np.zeros((len(point),) * 2)
        return scales[:, None] * across * scales / (size or 1.0)

    def value(point: Vector) -> float:
        return float(np.linalg.norm(stretch * (point - middle)))

    return ConvexConstraint(name, value, gradient, second, Distance(middle, stretch * np.ones_like(middle)))


def quadratic_constraint(name: str, curvature: ArrayLike, slope: ArrayLike) -> ConvexConstraint:
    """g(mu_c) = 1/2 mu_c @ curvature @ mu_c + slope @ mu_c, with a positive semi-definite curvature (d_c, d_c)."""
    hessian, linear = floats(curvature, "curvature", ndim=2), floats(slope, "slope", ndim=1)
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


@dataclass(frozen=True, slots=True, eq=False)
class Preference:
    """The cost N of violating the preferences g_j(mu_c) <= delta_c[j].

    norm: p = 1, 2 or inf. penalty: C_c, infinite for hard preferences. allowance: delta_c^hard, one per constraint, one
    for all, or a mapping from the names of constraints, others being zero; each is a number, a `share` of the
    discounted time or a `count`. rows: (k, d_c), linear constraints rows @ mu_c; without rows, one constraint on each
    preference feature. functions: convex constraints, numbered after the linear ones.
    """

    norm: float = 1
    penalty: float = math.inf
    allowance: Allowance = 0.0
    rows: Matrix | None = None
    functions: tuple[ConvexConstraint, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowance", _checked_allowance(self, "preference"))
        object.__setattr__(self, "functions", tuple(self.functions))
        if self.rows is not None:
            object.__setattr__(self, "rows", floats(self.rows, "preference rows", ndim=2))

    @property
    def is_hard(self) -> bool:
        return math.isinf(self.penalty)

    def on(self, domain: Domain) -> "Constraints":
        """The constraints that this preference puts on the domain's mu_c; sizes that do not fit are refused."""
        rows = np.eye(domain.n_preference) if self.rows is None else self.rows
        if rows.shape[1] != domain.n_preference:
            raise InvalidModel(
                f"preference rows have {rows.shape[1]} columns, but there are {domain.n_preference} preference features"
            )
        linear = tuple(f"preference row {j}" for j in range(len(rows)))
        names = (domain.preference_names if self.rows is None else linear) + tuple(g.name for g in self.functions)
        allowance = allowance_vector(self.allowance, domain.mdp, names, "violation_allowance", "preference constraints")
        return Constraints(domain, self, rows, allowance, names)

    def cost(self, excess: Vector) -> float:
        """N, for the excess (g - delta)+; zero for hard preferences, where an excess is a numerical error."""
        return 0.0 if self.is_hard else self.penalty * float(np.linalg.norm(excess, self.norm)) if len(excess) else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """A preference bound to a domain: m constraints g_j(mu_c) <= allowance[j], the linear ones first.

    rows: (k, d_c), the linear constraints. allowance: (m,), delta_c^hard. names: (m,), for messages.
    """

    domain: Domain
    preference: Preference
    rows: Matrix
    allowance: Vector
    names: tuple[str, ...]

    def values(self, point: Vector) -> Vector:
        """(m,), g(mu_c) at mu_c = point (d_c,)."""
        return np.concatenate([self.rows @ point, [function.value(point) for function in self.preference.functions]])

    def sizes(self, point: Vector) -> Vector:
        """(m,), the size of each constraint: the largest that policies can make it, from its slope at a point."""
        largest = sizes(self.domain)[self.domain.n_reward :]
        slopes = [*self.rows, *(function.slope(point) for function in self.preference.functions)]
        return or_one(np.maximum(np.array([np.abs(slope) @ largest for slope in slopes]), self.allowance))

    def excess(self, point: Vector) -> Vector:
        """(m,), delta_c^soft: the part of g(mu_c) above the allowance."""
        return np.maximum(self.values(point) - self.allowance, 0.0)


def check_norm(norm: float, kind: str) -> None:
    """Refuse a norm whose dual the solvers do not know."""
    if norm not in DUAL_NORM:
        raise InvalidModel(f"the {kind} norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")


def _checked_allowance(given_by: Mismatch | Preference, kind: str) -> Allowance:
    """The allowance, read-only; a bad norm, penalty or allowance is refused."""
    check_norm(given_by.norm, kind)
    if not given_by.penalty > 0:
        raise InvalidModel(f"the {kind} penalty must be positive (infinite for hard), got {given_by.penalty}")
    return checked_allowance(given_by.allowance, kind)
