"""What is asked about all policies, and what is answered: limits on expectations, units, and the optimum.

Limits are half-spaces of feature expectations. Every problem is solved in units of its own, so that every number
inside the programs is of order one. An expectation mu_j lies within max |phi_j / (1 - discount)|, which is its *unit*.
With mu_j = unit_j x_j and each row of the limits divided by its largest coefficient, the same problem reads

    normals @ mu <= offsets        (normals_ij unit_j / row_i) @ x <= offsets_i / row_i

and the objective has a unit of its own. Libraries and tolerances then see the same numbers whether a road is measured
in metres or in kilometres, and whether it is discounted by 0.5 or by 0.99999. Multipliers and prices are scaled back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np

from tutelage import arrays
from tutelage.arrays import SMALLEST, ArrayLike, Matrix, Readable, Vector, floats, freeze, max_abs
from tutelage.bellman.equations import plan_hard
from tutelage.chains.expectations import Expectation
from tutelage.chains.resolvent import any_choice, choice_resolvent
from tutelage.model.allowances import Allowance, allowance_vector, checked_allowance
from tutelage.model.mdp import Domain, combined_features, endless, per_choice
from tutelage.outcomes import Ended, InvalidModel

Route = Literal["auto", "decomposition", "direct"]
# A limit further out than this many times what any policy reaches counts as if it were there.
OUT_OF_REACH = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class HalfSpaces(Readable):
    """normals @ mu <= offsets, for mu = (mu_r, mu_c).

    normals: (m, d_r + d_c). offsets: (m,). names: one per row, for messages.
    """

    normals: Matrix
    offsets: Vector
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        normals = floats(self.normals, "normals", ndim=2)
        arrays.set_fields(self, normals=normals, offsets=floats(self.offsets, "offsets", ndim=1))
        for name in ("offsets", "names"):
            arrays.check_length(getattr(self, name), len(self.normals), name, "half-spaces")

    def __len__(self) -> int:
        return len(self.offsets)

    def excess(self, point: Vector) -> Vector:
        """(m,), the excess of a point (d,) over each limit; zero where the limit is kept."""
        return np.maximum(self.normals @ point - self.offsets, 0.0)

    def relaxed(self, by: Vector) -> Self:
        """The same half-spaces with every offset moved outwards by `by` (m,)."""
        return type(self)(self.normals, self.offsets + by, self.names)


def no_limits(domain: Domain) -> HalfSpaces:
    """No half-space: every policy is within the limits."""
    return HalfSpaces(np.zeros((0, len(domain.names))), np.zeros(0), ())


def preference_limits(domain: Domain, allowance: Allowance) -> HalfSpaces:
    """mu_c[j] <= allowance[j] for every preference feature; one number, `share` or `count` is used for all of them.

    A mapping gives allowances by the names of features; those which it does not name have no limit, unless it gives
    one to "others".
    """
    names = domain.preference_names
    normals = np.eye(len(domain.names))[domain.n_reward :]
    allowance = checked_allowance(allowance, "the allowance", least=-np.inf)
    offsets = allowance_vector(allowance, domain.mdp, names, "the allowance", "preference features")
    kept = np.flatnonzero(np.isfinite(offsets))
    return HalfSpaces(normals[kept], offsets[kept], tuple(names[j] for j in kept))


def reward_limits(domain: Domain, normals: ArrayLike, offsets: ArrayLike, names: Sequence[str]) -> HalfSpaces:
    """normals @ mu_r <= offsets, for normals (m, d_r): a teacher's estimate from responses."""
    given = floats(normals, "normals", ndim=2)
    if given.shape[1] != domain.n_reward:
        raise InvalidModel(f"normals have {given.shape[1]} columns, but there are {domain.n_reward} reward features")
    beside = np.zeros((len(given), domain.n_preference))
    return HalfSpaces(np.hstack([given, beside]), floats(offsets, "offsets", ndim=1), tuple(names))


def or_one(sizes: ArrayLike) -> Vector:
    """The sizes, with one for those that are zero or so small that dividing by them overflows."""
    return np.where(np.asarray(sizes) > SMALLEST, sizes, 1.0)


def sizes(domain: Domain) -> Vector:
    """(d,), no policy has a larger |mu_j|: max |phi_j / (1 - discount)|; zero for a feature that is zero everywhere.

    Without discount it is the most that any policy collects of |phi_j|, by one rough solve. Where some policy goes on
    for ever, there is no such number, and it is what the fewest moves to an end would collect of the largest |phi_j|.
    """
    mdp = domain.mdp
    if np.max(mdp.discount) == 1:
        return _collected(domain)
    # NumPy reduces the rows of a transposed copy several times faster than columns.
    both = [endless(mdp, features).T.copy() for features in (domain.reward_features, domain.preference_features)]
    return np.concatenate([np.abs(rows).max(axis=1, initial=0.0) for rows in both])


@lru_cache(maxsize=16)
def _collected(domain: Domain, accuracy: float = 1e-3) -> Vector:
    """(d,), `sizes` without discount. accuracy: in units of the largest value of a feature."""
    mdp = domain.mdp
    features = np.abs(per_choice(mdp, combined_features(domain)))
    largest = features.max(axis=0)
    if np.isinf(mdp.horizon):
        steps = choice_resolvent(mdp, any_choice(mdp)).values(np.ones(mdp.n_states))
        return freeze(largest * float(mdp.initial @ steps))
    most = np.zeros(len(largest))
    for j in np.flatnonzero(largest):
        plan = plan_hard(mdp, features[:, j].copy(), accuracy=accuracy * largest[j])
        most[j] = mdp.initial @ plan.value + plan.error_bound
    return freeze(most)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A domain and limits in units of their own.

    feature: (d,), mu = feature * mu of `domain`. row: (m,), the size of each limit.
    """

    domain: Domain
    limits: HalfSpaces
    feature: Vector
    row: Vector

    @classmethod
    def of(cls, domain: Domain, limits: HalfSpaces, unit: Vector) -> Self:
        """Features in these units (d,), such as their `sizes`, and every limit in a unit of its own."""
        unit = or_one(unit)
        normals = limits.normals * unit
        row = or_one(np.abs(normals).max(axis=1, initial=0.0))
        normals = normals / row[:, None]
        reach = OUT_OF_REACH * np.maximum(np.abs(normals).sum(axis=1), 1.0)
        if np.isinf(domain.mdp.horizon):
            # Nothing is out of reach.
            reach = reach * 1e9
        with np.errstate(over="ignore"):
            # A limit of 1e300 in a small unit is infinite.
            offsets = np.clip(limits.offsets / row, -reach, reach)
        reward, preference = np.split(unit, [domain.n_reward])
        inner = domain.with_matrices(domain.reward_features / reward, domain.preference_features / preference)
        return cls(inner, HalfSpaces(normals, offsets, limits.names), unit, row)

    def optimum(
        self, policy: Vector, reached: Expectation, multipliers: Vector, price: Vector, unit: float, **rest: Any
    ) -> "ConstrainedOptimum":
        """An optimum in the caller's units, from numbers of this problem. unit: of its value."""
        reward, preference = np.split(self.feature, [self.domain.n_reward])
        expectation = Expectation(reward * reached.reward, preference * reached.preference)
        prices = freeze(unit * multipliers / self.row), freeze(unit * price / self.feature)
        return ConstrainedOptimum(policy, expectation, *prices, **rest)

    def with_common_rows(self) -> Self:
        """The same with one unit for all limits, whose excesses are then summed."""
        largest = self.row.max(initial=0.0) or 1.0
        share, limits = self.row / largest, self.limits
        common = HalfSpaces(share[:, None] * limits.normals, share * limits.offsets, limits.names)
        return replace(self, limits=common, row=np.full(len(limits), largest))


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedOptimum(Readable):
    """An optimal policy, with a certified bound on the value of any policy.

    policy: (C,). expectation: its feature expectation. multipliers: (m,), prices of the limits, whose own dual value is
    the bound: of `best_policy`, relaxing limit j by t gains at most t times its multiplier, and the gap. price: (d,),
    weights of the features for which this policy is optimal without limits. prices: an object with their `interval`.
    value: that of the policy. bound: no policy within the limits is better. For `best_policy` the value is a reward and
    value <= bound. For `nearest_policy` it is a distance, for `least_violation` a total excess, and bound <= value.
    """

    policy: Vector
    expectation: Expectation
    multipliers: Vector
    price: Vector
    value: float
    bound: float
    n_rounds: int
    ended: Ended
    prices: Any = None

    @property
    def gap(self) -> float:
        """The largest possible distance of the value from the optimal one."""
        return abs(self.bound - self.value)

    @property
    def price_low(self) -> Vector:
        """(m,), what a little more of each limit gains per unit: the derivative of the value to the right.

        Computed when it is first asked for. NaN where the problem is not that of `best_policy`, and where the price is
        not determined: rounding hides the policies that would decide it.
        """
        return self.multipliers * np.nan if self.prices is None else self.prices.interval[0]

    @property
    def price_high(self) -> Vector:
        """(m,), what a little less of each limit loses per unit; NaN as above, infinite where no policy keeps less."""
        return self.multipliers * np.nan if self.prices is None else self.prices.interval[1]


def in_unit(weights: Vector, feature: Vector) -> tuple[Vector, float]:
    """Reward weights (d_r,) of the scaled features, with a largest entry of one, and the unit of their reward."""
    with np.errstate(over="ignore"):
        slope = weights * feature
    both = "the weight {:.3g} and an expectation of up to {:.3g}".format
    far = "are too far apart: their product overflows; use other units"
    arrays.refuse(~np.isfinite(slope), lambda j: f"{both(weights[j], feature[j])} {far}")
    unit = float(or_one(max_abs(slope)))
    return slope / unit, unit
