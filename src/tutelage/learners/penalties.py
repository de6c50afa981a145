"""The penalties of a learner: M for a mismatch with the lesson, N for violated preferences, and their conjugates.

Eq. 1 and all its special cases maximise H(pi) - M(mu_r(pi) - mu_hat) - N(g(mu_c(pi))) over pi. In the dual (`dual`)

    M(x) = C norm_p((|x| - delta)+)        M*(-a) = delta @ |a|                     on norm_q(a) <= C, 1/p + 1/q = 1
    M(x) = C norm_2((|x| - delta)+)^2      M*(-a) = delta @ |a| + |a|^2 / (4 C)     everywhere
    M(x) = 0 if |x| <= delta, else inf     M*(-a) = delta @ |a|                     everywhere
    N(g) = C norm_p((g - delta)+)          N*(y)  = delta @ y                       on y >= 0, norm_q(y) <= C
    N(g) = 0 if g <= delta, else inf       N*(y)  = delta @ y                       on y >= 0

A convex constraint is replaced by finitely many tangents, g_j(x) >= g_j(x_k) + grad g_j(x_k) @ (x - x_k), so that a
program within them is a relaxation, and its dual bounds the true optimum. Each solution that violates a constraint adds
a tangent there; a program with entropy first moves one tangent of each constraint (`convex_constraints`).
"""

import math
from dataclasses import dataclass, replace
from itertools import compress
from numbers import Real
from typing import Self

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Readable, Vector, floats, freeze, set_fields
from tutelage.chains.expectations import Expectation, expectation
from tutelage.constrained.problem import HalfSpaces, or_one, sizes
from tutelage.convex.blocks import Block
from tutelage.learners.convex_constraints import ABOVE, AWAY, COST, N_CUTS, N_MOVES, ROUNDING, ConvexConstraint, Moving
from tutelage.model.allowances import Allowance, allowance_vector, checked_allowance
from tutelage.model.mdp import Domain
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.roles import Certificate, CertifiedResponse, Lesson, Multipliers, named

# The largest finite penalty: sums and products of larger ones overflow.
MOST_PENALTY = 1e300
DUAL_NORM = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch(Readable):
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
        _check(self, "mismatch")
        if self.squared and (self.norm != 2 or math.isinf(self.penalty)):
            raise InvalidModel("a squared mismatch needs norm 2 and a finite penalty")

    def on(self, domain: Domain) -> Self:
        """This mismatch with one allowance for each reward feature of the domain."""
        names = domain.reward_names
        allowance = allowance_vector(self.allowance, domain.mdp, names, "mismatch_allowance", "reward features")
        return replace(self, allowance=allowance)

    def excess(self, deviation: Vector) -> Vector:
        """(d_r,), delta_r^soft: the part of |mu_r - mu_hat| above the allowance."""
        return np.asarray(np.maximum(np.abs(deviation) - np.asarray(self.allowance), 0.0))

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
class Preference(Readable):
    """The cost N of violating the preferences g_j(mu_c) <= delta_c[j].

    norm: p = 1, 2 or inf. penalty: C_c, infinite for hard preferences. allowance: delta_c^hard, one per constraint, one
    for all, or a mapping from the names of constraints, those not named being unlimited unless it has "others"; each is
    a number, a `share` of the discounted time or a `count`. rows: (k, d_c), linear constraints rows @ mu_c; without
    rows, one constraint on each preference feature. functions: convex constraints, numbered after the linear ones.
    """

    norm: float = 1
    penalty: float = math.inf
    allowance: Allowance = 0.0
    rows: Matrix | None = None
    functions: tuple[ConvexConstraint, ...] = ()

    def __post_init__(self) -> None:
        _check(self, "preference")
        rows = None if self.rows is None else floats(self.rows, "preference rows", ndim=2)
        set_fields(self, rows=rows, functions=tuple(self.functions))

    @property
    def is_hard(self) -> bool:
        return math.isinf(self.penalty)

    def on(self, domain: Domain) -> "Constraints":
        """The constraints that this preference puts on the domain's mu_c; sizes that do not fit are refused."""
        names = domain.preference_names
        rows = np.eye(domain.n_preference) if self.rows is None else self.rows
        if self.rows is not None:
            names = tuple(f"preference row {j}" for j in range(len(rows)))
        if rows.shape[1] != domain.n_preference:
            raise InvalidModel(
                f"preference rows have {rows.shape[1]} columns, but there are {domain.n_preference} preference features"
            )
        names += tuple(function.name for function in self.functions)
        allowance = allowance_vector(self.allowance, domain.mdp, names, "violation_allowance", "preference constraints")
        # A constraint without a limit is none.
        return Constraints(domain, self, rows, allowance, names).only(np.isfinite(allowance))

    def cost(self, excess: Vector) -> float:
        """N, for the excess (g - delta)+; zero for hard preferences, where an excess is a numerical error."""
        if self.is_hard or not len(excess):
            return 0.0
        return self.penalty * float(np.linalg.norm(excess, self.norm))


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """A preference bound to a domain: g_j(mu_c) <= allowance[j], (m,), first the linear ones, rows @ mu_c, (k, d_c)."""

    domain: Domain
    preference: Preference
    rows: Matrix
    allowance: Vector
    names: tuple[str, ...]

    def only(self, kept: Flags) -> "Constraints":
        n_rows = len(self.rows)
        preference = replace(self.preference, functions=tuple(compress(self.preference.functions, kept[n_rows:])))
        names = tuple(compress(self.names, kept))
        return Constraints(self.domain, preference, self.rows[kept[:n_rows]], freeze(self.allowance[kept]), names)

    def values(self, point: Vector) -> Vector:
        """(m,), g(mu_c) at mu_c = point (d_c,)."""
        return np.concatenate([self.rows @ point, [function.value(point) for function in self.preference.functions]])

    def sizes(self, point: Vector) -> Vector:
        """(m,), the size of each constraint: the largest that policies can make it, from its slope at a point."""
        largest = sizes(self.domain)[self.domain.n_reward :]
        slopes = [*self.rows, *(function.slope(point) for function in self.preference.functions)]
        return or_one(np.maximum([np.abs(slope) @ largest for slope in slopes], self.allowance))

    def excess(self, point: Vector) -> Vector:
        """(m,), delta_c^soft: the part of g(mu_c) above the allowance."""
        return np.maximum(self.values(point) - self.allowance, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Tangents:
    """What stands for the constraints in a program: normals @ mu_c <= offsets, (K, d_c) and (K,).

    constraint: (K,), ascending; row k is a tangent of constraint number constraint[k]. A linear constraint is its own
    tangent. Multipliers are y, (K,). moving: the convex constraints, where each has one tangent that a program may
    move; None for fixed tangents. Multipliers are then (y, p), (K + d_c,), for tangents that touch at p beside the
    centre. n_cuts: the additions so far.
    """

    constraints: Constraints
    normals: Matrix
    offsets: Vector
    constraint: Indices
    moving: Moving | None = None
    n_cuts: int = 0

    @classmethod
    def linear(cls, constraints: Constraints) -> "Tangents":
        rows = constraints.rows
        return cls(constraints, rows, constraints.allowance[: len(rows)], np.arange(len(rows)))

    @classmethod
    def opening(cls, constraints: Constraints) -> "Tangents":
        """The linear constraints, and the tangent of each convex one at the uniform policy's expectation."""
        if not constraints.preference.functions:
            return cls.linear(constraints)
        point = expectation(constraints.domain, uniform_policy(constraints.domain.mdp)).preference
        return cls.touching(constraints, point)

    @classmethod
    def touching(cls, constraints: Constraints, point: Vector) -> "Tangents":
        """The linear constraints, and the tangent of each convex one at a point, which may move."""
        domain = constraints.domain
        convex = np.arange(len(constraints.rows), len(constraints.allowance))
        largest = or_one(sizes(domain)[domain.n_reward :])
        moving = Moving(constraints.preference.functions, point, largest)
        return replace(cls.linear(constraints)._cut(point, convex), moving=moving)

    def fixed(self) -> "Tangents":
        return replace(self, moving=None)

    @property
    def n_multipliers(self) -> int:
        return len(self.offsets) + (0 if self.moving is None else len(self.moving.centre))

    @property
    def lift(self) -> Matrix:
        """(d_c, k), the map from the multipliers of fixed tangents to the weights -G'y of the preference features."""
        return -(self.normals if self.moving is None else self.constraints.rows).T

    def blocks(self) -> list[Block]:
        """N*(y) as terms of the dual, and no term for p.

        Tangents of one constraint share its excess, so their y's are summed: for p = 1, 1-norm balls, as y >= 0.
        """
        if self.moving is not None:
            n = len(self.moving.centre)
            at_allowances = replace(self, moving=None, offsets=self.constraints.allowance)
            return [*at_allowances.blocks(), Block(np.zeros(n), math.inf, math.inf, True, np.arange(n))]
        radius = self.constraints.preference.penalty
        norm = DUAL_NORM[self.constraints.preference.norm]
        if not math.isinf(norm):
            return [Block(self.offsets, radius, norm, False, self.constraint)]
        n_rows = len(self.constraints.rows)
        linear = Block(self.offsets[:n_rows], radius, math.inf, False, np.arange(n_rows))
        convex = [self.offsets[self.constraint == j] for j in np.unique(self.constraint[n_rows:])]
        return [linear, *(Block(offsets, radius, 1, False, np.arange(len(offsets))) for offsets in convex)]

    def half_spaces(self) -> HalfSpaces:
        """The tangents as limits on mu = (mu_r, mu_c)."""
        normals = np.hstack([np.zeros((len(self.offsets), self.constraints.domain.n_reward)), self.normals])
        return HalfSpaces(normals, self.offsets, tuple(self.constraints.names[j] for j in self.constraint))

    def by_constraint(self, multipliers: Vector) -> Vector:
        """(m,), beta: the multipliers (K,) of each constraint's tangents summed."""
        return np.bincount(self.constraint, multipliers, len(self.constraints.names)).astype(np.float64)

    def touched(self, multipliers: Vector) -> tuple["Tangents", Vector]:
        """Fixed tangents where those of a program touch at its solution, with their multipliers y (K,)."""
        if self.moving is None:
            return self, multipliers
        y, p = np.split(multipliers, [len(self.offsets)])
        return self.touching(self.constraints, self.moving.centre + p).fixed(), y

    def tightened(self, point: Vector, multipliers: Vector) -> tuple["Tangents", Vector]:
        """The next tangents, and a guess of their multipliers, from the solution mu_c = point (d_c,) of a program.

        Itself where these are close enough; otherwise more tangents of what is violated, or tangents that touch there.
        """
        if not self.constraints.preference.functions:
            return self, multipliers
        here, y = self.touched(multipliers)
        loose = here._loose(point)
        is_settled = True
        if self.moving is not None:
            # A program may leave a tangent that binds beside the solution, in a direction without curvature.
            beside = point - self.moving.centre - multipliers[len(y) :]
            binds = (y[len(self.constraints.rows) :] > 0).any()
            is_settled = not binds or float((np.abs(beside) / self.moving.sizes).max()) <= AWAY
        if is_settled and not len(loose):
            return self, multipliers
        if self.n_cuts >= N_CUTS:
            values = named(self.constraints.names, self.constraints.values(point))
            told = f"the convex constraints are not met after {N_CUTS} tangents; their values are {values}"
            raise NotConverged(told, residual=math.inf, n_steps=N_CUTS)
        if self.moving is not None and (self.n_cuts < N_MOVES or not len(loose)):
            there = replace(self.touching(self.constraints, point), n_cuts=self.n_cuts + 1)
            return there, np.append(y, np.zeros(len(point)))
        return here._cut(point, loose), np.insert(y, here._place(loose), 0.0)

    def pruned(self, multipliers: Vector) -> tuple["Tangents", Vector]:
        """The tangents from which later problems start, and their multipliers; of fixed convex ones those that bind."""
        y = np.maximum(multipliers, 0.0)
        if self.moving is not None:
            there, _ = self.touched(multipliers)
            moving = replace(self.moving, centre=self.moving.centre + multipliers[len(self.offsets) :])
            y[len(self.offsets) :] = 0.0
            return replace(there, moving=moving), y
        kept = (self.constraint < len(self.constraints.rows)) | (y > 0)
        return Tangents(self.constraints, self.normals[kept], self.offsets[kept], self.constraint[kept]), y[kept]

    def _loose(self, point: Vector) -> Indices:
        """The constraints above their allowance, and above all their tangents, by more than the tolerance."""
        preference = self.constraints.preference
        modelled = np.full(len(self.constraints.allowance), -math.inf)
        np.maximum.at(modelled, self.constraint, self.normals @ point - self.offsets)
        # Where the largest excess alone is paid for, the tangents of other constraints count as well.
        if math.isinf(preference.norm) and not preference.is_hard:
            modelled[:] = modelled.max(initial=-math.inf)
        size = self.constraints.sizes(point)
        # A soft constraint may cost no more than the gap that a response may have.
        tolerance = np.minimum(ABOVE * size, np.maximum(COST / preference.penalty, ROUNDING * size))
        return np.flatnonzero(self.constraints.excess(point) > np.maximum(modelled, 0.0) + tolerance)

    def _place(self, which: Indices) -> Indices:
        """Where a new tangent of each of the constraints `which` comes: after the others of its constraint."""
        return np.searchsorted(self.constraint, which, side="right")

    def _cut(self, point: Vector, which: Indices) -> "Tangents":
        """These tangents, and one at the point for each of the convex constraints `which`."""
        functions = [self.constraints.preference.functions[j - len(self.constraints.rows)] for j in which]
        slopes = np.array([function.slope(point) for function in functions])
        ends = self.constraints.allowance[which] + slopes @ point - [function.value(point) for function in functions]
        place = self._place(which)
        normals = np.insert(self.normals, place, slopes, axis=0)
        offsets = np.insert(self.offsets, place, ends)
        constraint = np.insert(self.constraint, place, which)
        return replace(self, normals=normals, offsets=offsets, constraint=constraint, n_cuts=self.n_cuts + 1)


def signed_multipliers(weights: Vector, beta: Vector) -> Multipliers:
    """alpha^low = a+ and alpha^up = a- for reward weights a (d_r,), and beta (m,)."""
    return Multipliers(freeze(np.maximum(weights, 0.0)), freeze(np.maximum(-weights, 0.0)), freeze(beta))


def build_response(
    lesson: Lesson,
    certificate: Certificate,
    policy: Vector,
    reached: Expectation,
    weights: Vector,
    beta: Vector,
    mismatch: Mismatch,
    constraints: Constraints,
) -> CertifiedResponse:
    """The response with read-only arrays; the expectation reached determines both excesses. beta: (m,)."""
    return CertifiedResponse(
        lesson=lesson,
        policy=policy,
        expectation=reached,
        learned_weights=freeze(weights),
        multipliers=signed_multipliers(weights[: len(reached.reward)], beta),
        mismatch_excess=freeze(mismatch.excess(reached.reward - lesson.expectation)),
        violation_excess=freeze(constraints.excess(reached.preference)),
        certificate=certificate,
        reward_names=constraints.domain.reward_names,
        constraint_names=constraints.names,
    )


def check_norm(norm: float, kind: str) -> None:
    """Refuse a norm whose dual the solvers do not know."""
    if norm not in DUAL_NORM:
        raise InvalidModel(f"the {kind} norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")


def _check(given: Mismatch | Preference, kind: str) -> None:
    """Refuse a bad norm, penalty or allowance, and make the allowance read-only."""
    check_norm(given.norm, kind)
    if not isinstance(given.penalty, Real) or not (0 < given.penalty <= MOST_PENALTY or given.penalty == math.inf):
        told = f"the {kind} penalty must be positive (infinite for hard), at most {MOST_PENALTY:g} if finite"
        raise InvalidModel(f"{told}, got {given.penalty!r}")
    set_fields(given, allowance=checked_allowance(given.allowance, f"the {kind} allowance"))
