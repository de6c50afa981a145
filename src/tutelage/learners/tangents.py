"""Outer approximation: convex preference constraints by the tangents that matter.

Each g_j lies above its tangents, g_j(x) >= g_j(x_k) + grad g_j(x_k) @ (x - x_k), so a program with finitely many
tangents is a relaxation, whose dual bounds the true optimum; one more tangent at each answer closes the gap. A linear
constraint is its own tangent, everywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector, check_finite
from tutelage.learners.penalties import DUAL_NORM, Preference
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import Domain
from tutelage.mdp.policy import uniform_policy
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.roles import named
from tutelage.solvers.blocks import Block
from tutelage.solvers.half_spaces import HalfSpaces

MAX_CUTS = 200
# How far a convex constraint may lie above its tangents at the answer, relative to one plus its limit.
CUT_TOLERANCE = 1e-8
FoundT = TypeVar("FoundT")


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

    def by_constraint(self, preference: Preference, domain: Domain, multipliers: Vector) -> Vector:
        """(m,), what each constraint costs: the multipliers of its tangents added up."""
        total = np.zeros(len(preference.names(domain)))
        np.add.at(total, self.constraint, multipliers)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Generic[FoundT]):
    """What a program within some tangents gives: whatever was found, the rows' multipliers, and mu_c (d_c,)."""

    found: FoundT
    multipliers: Vector
    point: Vector


def tighten(
    preference: Preference,
    domain: Domain,
    tangents: Tangents,
    multipliers: Vector,
    solve: Callable[[Tangents, Vector], Answer[FoundT]],
) -> tuple[Answer[FoundT], Tangents]:
    """The answer within the preferences themselves: one more tangent where it violates one, until it does not.

    solve: the answer within some tangents, given a guess of their multipliers.
    """
    for _ in range(MAX_CUTS):
        answer = solve(tangents, multipliers)
        loose = loose_constraints(preference, domain, tangents, answer.point)
        if not len(loose):
            return answer, tangents
        multipliers = tangents.carry(answer.multipliers, loose)
        tangents = tangents.cut(preference, domain, answer.point, loose)
    values = preference.values(domain, answer.point)
    raise NotConverged(
        f"after {MAX_CUTS} tangents {named(preference.names(domain), values)} are not settled",
        residual=math.inf,
        n_steps=MAX_CUTS,
    )


def loose_constraints(preference: Preference, domain: Domain, tangents: Tangents, point: Vector) -> Indices:
    """The constraints that lie above all their tangents at the point, and above their limit, by more than tolerated."""
    values, limits = preference.values(domain, point), preference.limits(domain)
    modelled = np.full(len(values), -math.inf)
    np.maximum.at(modelled, tangents.constraint, tangents.normals @ point - tangents.offsets)
    excess = values - limits
    is_loose = np.maximum(excess, 0.0) > np.maximum(modelled, 0.0) + CUT_TOLERANCE * (1 + np.abs(limits))
    return np.flatnonzero(is_loose)
