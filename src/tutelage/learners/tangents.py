"""Outer approximation: convex preference constraints by the tangents that matter.

Each g_j lies above its tangents, g_j(x) >= g_j(x_k) + grad g_j(x_k) @ (x - x_k), so a program with finitely many
tangents is a relaxation, whose dual bounds the true optimum; one more tangent at each answer closes the gap. A linear
constraint is its own tangent, everywhere.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector, check_finite
from tutelage.learners.penalties import DUAL_NORM, Preference
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import Domain
from tutelage.mdp.policy import uniform_policy
from tutelage.outcomes import InvalidModel
from tutelage.solvers.blocks import Block
from tutelage.solvers.half_spaces import HalfSpaces


@dataclass(frozen=True, slots=True, eq=False)
class Tangents:
    """normals @ mu_c <= offsets, (K, d_c) and (K,); row k is cut from constraint number constraint[k], ascending."""

    normals: Matrix
    offsets: Vector
    constraint: Indices

    @classmethod
    def opening(cls, preference: Preference, domain: Domain) -> Self:
        """The linear constraints, and one tangent of each convex one, where the uniform policy is."""
        rows, limits = preference.linear_rows(domain), preference.limits(domain)
        linear = cls(rows, limits[: len(rows)], np.arange(len(rows)))
        if not preference.functions:
            return linear
        point = expectation(domain, uniform_policy(domain.mdp)).preference
        return linear.cut(preference, domain, point, np.arange(len(rows), len(limits)))

    def cut(self, preference: Preference, domain: Domain, point: Vector, which: Indices) -> Self:
        """These, and a tangent at the point of each of the constraints named."""
        n_rows, limits = len(preference.linear_rows(domain)), preference.limits(domain)
        normals, offsets = [self.normals], [self.offsets]
        for j in which:
            function = preference.functions[j - n_rows]
            slope = np.asarray(function.gradient(point), dtype=np.float64)
            if slope.shape != point.shape:
                raise InvalidModel(f"the gradient of {function.name!r} has shape {slope.shape}, not {point.shape}")
            check_finite(slope, f"the gradient of {function.name!r}")
            normals.append(slope[None])
            offsets.append(np.array([limits[j] + slope @ point - function.value(point)]))
        order = self._order(which)
        return type(self)(
            np.vstack(normals)[order],
            np.concatenate(offsets)[order],
            np.concatenate([self.constraint, which])[order],
        )

    def carry(self, multipliers: Vector, which: Indices) -> Vector:
        """The multipliers of these rows, with zeros for the rows that `cut` adds, in their new order."""
        return np.concatenate([multipliers, np.zeros(len(which))])[self._order(which)]

    def _order(self, which: Indices) -> Indices:
        return np.argsort(np.concatenate([self.constraint, which]), kind="stable")

    def blocks(self, preference: Preference) -> list[Block]:
        """N*(y) as terms of the dual: the tangents of one constraint share its excess, so their y's add up.

        A box on the sums (p = 1) is a box on the linear constraints' y and, as y >= 0, a 1-norm ball for each convex
        constraint's.
        """
        radius, norm = preference.penalty, DUAL_NORM[preference.norm]
        if not math.isinf(norm):
            return [Block(self.offsets, radius, norm, False, self.constraint)]
        alone = np.bincount(self.constraint)[self.constraint] == 1 if len(self.constraint) else self.constraint == 0
        n_alone = int(np.argmin(np.append(alone, False)))
        shared = np.unique(self.constraint[n_alone:])
        parts = [np.arange(n_alone), *(np.flatnonzero(self.constraint == j) for j in shared)]
        return [
            Block(self.offsets[part], radius, math.inf if k == 0 else 1, False, np.arange(len(part)))
            for k, part in enumerate(parts)
        ]

    def half_spaces(self, preference: Preference, domain: Domain) -> HalfSpaces:
        """The same limits on mu = (mu_r, mu_c)."""
        names = preference.names(domain)
        normals = np.hstack([np.zeros((len(self.offsets), domain.n_reward)), self.normals])
        return HalfSpaces(normals, self.offsets, tuple(names[j] for j in self.constraint))
