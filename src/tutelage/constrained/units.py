"""Units of their own for problems over policies, so that every number inside the programs is of order one.

An expectation mu_j lies within max |phi_j / (1 - discount)|, which is its *unit*. With mu_j = unit_j x_j and each row
of the limits divided by its largest coefficient, the same problem reads

    normals @ mu <= offsets        (normals_ij unit_j / row_i) @ x <= offsets_i / row_i

and the objective has a unit of its own. Libraries and tolerances then see the same numbers whether a road is measured
in metres or in kilometres, and whether it is discounted by 0.5 or by 0.99999. Multipliers and prices are scaled back.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.constrained.half_spaces import HalfSpaces
from tutelage.model.mdp import Domain, endless

# A limit this many times beyond what any policy reaches binds as little, or is missed as surely, as one further out.
BEYOND = 4.0
# So many rows of a matrix are reduced as one.
LONG = 1_000
TINY = float(np.finfo(np.float64).tiny)


def or_one(sizes: Vector) -> Vector:
    """The sizes, with one for those that are zero or so small that dividing by them overflows."""
    return np.where(sizes > TINY, sizes, 1.0)


def sizes(domain: Domain) -> Vector:
    """(d,), no policy has a larger |mu_j|: max |phi_j / (1 - discount)|; zero for a feature that is zero everywhere."""
    mdp, both = domain.mdp, (domain.reward_features, domain.preference_features)
    if isinstance(mdp.discount, float):
        return np.concatenate([_column_sizes(features) for features in both]) / (1 - mdp.discount)
    return np.concatenate([_column_sizes(endless(mdp, features)) for features in both])


def _column_sizes(values: Matrix) -> Vector:
    """(d,), the largest absolute value in each column; zero without rows."""
    n_rows, d = values.shape
    whole = n_rows - n_rows % LONG
    found = [values[whole:]]
    if whole:
        # NumPy reduces long rows several times faster than short ones.
        wide = values[:whole].reshape(whole // LONG, LONG * d)
        found += [wide.max(axis=0).reshape(LONG, d), wide.min(axis=0).reshape(LONG, d)]
    return np.asarray(np.abs(np.concatenate(found)).max(axis=0, initial=0.0))


def in_feature_units(domain: Domain, unit: Vector) -> Domain:
    """The domain with every feature divided by its unit (d,)."""
    reward, preference = np.split(unit, [domain.n_reward])
    return replace(
        domain,
        reward_features=domain.reward_features / reward,
        preference_features=domain.preference_features / preference,
    )


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
    def each(cls, domain: Domain, limits: HalfSpaces) -> Self:
        """Every feature and every limit in a unit of its own."""
        return cls._of(domain, limits, or_one(sizes(domain)))

    @classmethod
    def matching(cls, domain: Domain, limits: HalfSpaces) -> Self:
        """One unit for all reward features, which distances compare; others as in `each`."""
        unit = sizes(domain)
        unit[: domain.n_reward] = unit[: domain.n_reward].max()
        return cls._of(domain, limits, or_one(unit))

    @classmethod
    def _of(cls, domain: Domain, limits: HalfSpaces, unit: Vector) -> Self:
        normals = limits.normals * unit
        row = or_one(np.abs(normals).max(axis=1, initial=0.0))
        normals = normals / row[:, None]
        reach = BEYOND * np.maximum(np.abs(normals).sum(axis=1), 1.0)
        with np.errstate(over="ignore"):
            # A limit of 1e300 in a small unit is infinite.
            offsets = np.clip(limits.offsets / row, -reach, reach)
        return cls(in_feature_units(domain, unit), HalfSpaces(normals, offsets, limits.names), unit, row)

    def with_common_rows(self, limits: HalfSpaces) -> Self:
        """The same with one unit for all limits, whose excesses are then summed."""
        row = np.full(len(limits), self.row.max(initial=0.0) or 1.0)
        normals = limits.normals * self.feature / row[:, None]
        return replace(self, limits=HalfSpaces(normals, limits.offsets / row, limits.names), row=row)
