"""Outer approximation: convex preference constraints replaced by finitely many tangents.

Each g_j lies above its tangents, g_j(x) >= g_j(x_k) + grad g_j(x_k) @ (x - x_k). A program within finitely many
tangents is therefore a relaxation, and its dual bounds the true optimum. Each solution that violates a constraint adds
a tangent there. A linear constraint is its own tangent.

A smooth constraint of many features would need very many tangents. A program with entropy therefore has one tangent of
each, and the point where it touches is a variable (`convex_constraints`). Where that fails, tangents are added.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.chains.expectations import Expectation, expectation, occupancy
from tutelage.constrained.conic import Ball, best_within_balls
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, or_one, sizes
from tutelage.convex.blocks import Block
from tutelage.learners.convex_constraints import Moving
from tutelage.learners.penalties import Constraints, Tangents
from tutelage.model.policy import policy_from_occupancy, uniform_policy
from tutelage.outcomes import NotConverged
from tutelage.roles import named


@dataclass(frozen=True, slots=True)
class Cutting:
    """When tangents are close enough, and how many programs they may take.

    above: how far a convex constraint may lie above its tangents at the solution, relative to its largest value. cost:
    what that part may cost, in nats, and rounding: that of a constraint relative to its size. away: how far from the
    solution a moving tangent may touch, relative to the largest expectations. newest: the weight of the last solution
    in the mean of them. n_moves: programs whose tangents move, before tangents are added. n_cuts: programs in all.
    n_few: programs that may show that there is no policy.
    """

    above: float = 1e-9
    cost: float = 1e-7
    rounding: float = 1e-14
    away: float = 1e-5
    newest: float = 0.1
    n_moves: int = 10
    n_cuts: int = 1000
    n_few: int = 20


CUTTING = Cutting()


@dataclass(frozen=True, slots=True, eq=False)
class ConvexTangents(Tangents):
    """Tangents of linear and convex constraints.

    centre: (d_c,), where the only tangent of each convex constraint touches, if a program may move it; None for fixed
    tangents. is_first: whether no program was solved yet. n_cuts: the additions so far. With a centre multipliers are
    (y, p), (K + d_c,), for tangents that touch at centre + p.
    """

    centre: Vector | None = None
    is_first: bool = False
    n_cuts: int = 0

    @classmethod
    def opening(cls, constraints: Constraints) -> Self:
        """The linear constraints, and the tangent of each convex one at the uniform policy's expectation."""
        point = expectation(constraints.domain, uniform_policy(constraints.domain.mdp)).preference
        return replace(cls.touching(constraints, point), is_first=True)

    @classmethod
    def touching(cls, constraints: Constraints, point: Vector) -> Self:
        """The linear constraints, and the tangent of each convex one at a point, which may move."""
        convex = np.arange(len(constraints.rows), len(constraints.allowance))
        return replace(cls.linear(constraints)._cut(point, convex), centre=point)

    def fixed(self) -> Self:
        """The same tangents, which programs do not move."""
        return replace(self, centre=None, is_first=False)

    @property
    def n_multipliers(self) -> int:
        return len(self.offsets) + (0 if self.centre is None else len(self.centre))

    @property
    def is_complete(self) -> bool:
        return self.centre is None

    @property
    def is_rough(self) -> bool:
        return self.is_first

    @property
    def lift(self) -> Matrix:
        return -self.normals[: len(self.offsets if self.centre is None else self.constraints.rows)].T

    @property
    def moving(self) -> Moving | None:
        if self.centre is None:
            return None
        domain = self.constraints.domain
        largest = or_one(sizes(domain)[domain.n_reward :])
        return Moving(self.constraints.preference.functions, self.centre, largest, self.is_first)

    def blocks(self) -> list[Block]:
        """N*(y), and no term for p."""
        if self.centre is None:
            return Tangents.blocks(self)
        n = len(self.centre)
        at_allowances = replace(self, centre=None, offsets=self.constraints.allowance)
        return [*at_allowances.blocks(), Block(np.zeros(n), math.inf, math.inf, True, np.arange(n))]

    def retreat(self, multipliers: Vector) -> tuple[Tangents, Vector]:
        return (self, multipliers) if self.centre is None else (self.fixed(), multipliers[: len(self.offsets)])

    def touched(self, multipliers: Vector) -> tuple["ConvexTangents", Vector]:
        if self.centre is None:
            return self, multipliers
        y, p = np.split(multipliers, [len(self.offsets)])
        return self.touching(self.constraints, self.centre + p).fixed(), y

    def tightened(self, point: Vector, multipliers: Vector) -> tuple[Tangents, Vector]:
        """Each constraint that the solution violates gets another tangent, or its tangent touches there."""
        here, y = self.touched(multipliers)
        loose = here._loose(point)
        if not len(loose) and self._is_settled(point, multipliers):
            return self, multipliers
        if self.n_cuts >= CUTTING.n_cuts:
            values = named(self.constraints.names, self.constraints.values(point))
            raise NotConverged(
                f"the convex constraints are not met after {CUTTING.n_cuts} tangents; their values are {values}",
                residual=math.inf,
                n_steps=CUTTING.n_cuts,
            )
        if self.centre is not None and (self.n_cuts < CUTTING.n_moves or not len(loose)):
            there = replace(self.touching(self.constraints, point), n_cuts=self.n_cuts + 1)
            return there, np.append(y, np.zeros(len(point)))
        return here._cut(point, loose), np.concatenate([y, np.zeros(len(loose))])[here._order(loose)]

    def _is_settled(self, point: Vector, multipliers: Vector) -> bool:
        """Whether tangents that bind touch at the solution, where the curvature of the constraints counts.

        A program may leave them beside it in a direction without curvature, where the Hessian is another one.
        """
        if self.moving is None or self.centre is None:
            return True
        y, p = np.split(multipliers, [len(self.offsets)])
        is_bound = bool((y[len(self.constraints.rows) :] > 0).any())
        away = float((np.abs(point - self.centre - p) / self.moving.sizes).max())
        return not self.is_first and (not is_bound or away <= CUTTING.away)

    def pruned(self, multipliers: Vector) -> tuple[Tangents, Vector]:
        """Of fixed tangents of a convex constraint, those that bind and the last: a long search must not keep all."""
        if self.centre is not None:
            y, p = np.split(multipliers, [len(self.offsets)])
            return self.touching(self.constraints, self.centre + p), np.append(np.maximum(y, 0.0), np.zeros(len(p)))
        is_linear = self.constraint < len(self.constraints.rows)
        is_last = np.append(self.constraint[1:] != self.constraint[:-1], True)[: len(self.constraint)]
        kept = is_linear | (multipliers > 0) | is_last
        fewer = type(self)(self.constraints, self.normals[kept], self.offsets[kept], self.constraint[kept])
        return fewer, np.maximum(multipliers[kept], 0.0)

    def _loose(self, point: Vector) -> Indices:
        """The constraints above their allowance, and above all their tangents, by more than the tolerance.

        Where the largest excess alone is paid for, the tangents of other constraints count as well.
        """
        allowance, preference = self.constraints.allowance, self.constraints.preference
        modelled = np.full(len(allowance), -math.inf)
        np.maximum.at(modelled, self.constraint, self.normals @ point - self.offsets)
        if math.isinf(preference.norm) and not preference.is_hard:
            modelled[:] = modelled.max(initial=-math.inf)
        size = self.constraints.sizes(point)
        # A soft constraint may cost no more than the gap that a response may have.
        paid = CUTTING.cost / preference.penalty
        tolerance = np.minimum(CUTTING.above * size, np.maximum(paid, CUTTING.rounding * size))
        return np.flatnonzero(self.constraints.excess(point) > np.maximum(modelled, 0.0) + tolerance)

    def _cut(self, point: Vector, which: Indices) -> Self:
        """These tangents, and one at the point for each of the convex constraints `which`."""
        normals, offsets = [*self.normals], [*self.offsets]
        for j in which:
            function = self.constraints.preference.functions[j - len(self.constraints.rows)]
            slope = function.slope(point)
            normals.append(slope)
            offsets.append(self.constraints.allowance[j] + slope @ point - function.value(point))
        order = self._order(which)
        constraint = np.concatenate([self.constraint, which])[order]
        rows, ends = np.array(normals)[order], np.array(offsets)[order]
        return type(self)(self.constraints, rows, ends, constraint, n_cuts=self.n_cuts + 1)

    def _order(self, which: Indices) -> Indices:
        return np.argsort(np.concatenate([self.constraint, which]), kind="stable")


def optimum_within(
    constraints: Constraints,
    solve: Callable[[HalfSpaces], ConstrainedOptimum],
    value: Callable[[Expectation], float],
    unit: float,
) -> tuple[ConstrainedOptimum, Tangents]:
    """The optimum within convex constraints, and the tangents that prove it.

    solve: the optimum within half-spaces. value: the objective of a policy with an expectation, and unit: its size.
    Where many policies are optimal, a linear program returns corners, each of which may violate a constraint that their
    mean satisfies. The mean of solutions is at least as good as they are, so that it is optimal once it is feasible.
    """
    if not constraints.preference.functions:
        return solve(constraints.half_spaces()), Tangents.linear(constraints)
    domain, visits = constraints.domain, np.zeros(constraints.domain.mdp.n_choices)
    tangents: Tangents = ConvexTangents.opening(constraints).fixed()
    n_solved = 0
    while True:
        found, n_solved = solve(tangents.half_spaces()), n_solved + 1
        tighter, _ = tangents.tightened(found.expectation.preference, found.multipliers)
        if tighter is tangents:
            return found, tangents
        # The last solutions count most: the first tangents are far from the constraints.
        visits = visits + max(1 / n_solved, CUTTING.newest) * (occupancy(domain.mdp, found.policy) - visits)
        policy = policy_from_occupancy(domain.mdp, visits)
        reached = expectation(domain, policy)
        is_kept = constraints.excess(reached.preference) <= CUTTING.above * constraints.sizes(reached.preference)
        if is_kept.all() and abs(value(reached) - found.bound) <= found.gap + CUTTING.above * unit:
            return replace(found, policy=policy, expectation=reached, value=value(reached)), tangents
        tangents = tighter


def require_possible(constraints: Constraints) -> None:
    """Raise `InfeasibleConstraints` where a few tangents show that no policy satisfies convex constraints."""
    domain = constraints.domain
    tangents: Tangents = ConvexTangents.opening(constraints).fixed()
    for _ in range(CUTTING.n_few):
        found = best_policy(domain, np.zeros(domain.n_reward), tangents.half_spaces())
        tighter, _ = tangents.tightened(found.expectation.preference, found.multipliers)
        if tighter is tangents:
            return
        tangents = tighter


def best_within(constraints: Constraints, weights: Vector) -> ConstrainedOptimum:
    """The policy with the largest weights @ mu_r (d_r,) within the constraints: a constrained MDP.

    Distances by one cone program, where it is exact enough; other convex constraints by tangents.
    """
    domain, n_rows = constraints.domain, len(constraints.rows)
    distances = [function.distance for function in constraints.preference.functions]
    balls = [
        Ball(distance.centre, distance.scale, float(radius))
        for distance, radius in zip(distances, constraints.allowance[n_rows:], strict=True)
        if distance is not None
    ]
    if balls and len(balls) == len(distances):
        found = best_within_balls(domain, weights, constraints.half_spaces(), balls)
        if found is not None:
            optimum, t = found
            point = optimum.expectation.preference
            if (constraints.excess(point) <= CUTTING.above * constraints.sizes(point)).all():
                return replace(optimum, multipliers=np.append(optimum.multipliers, np.linalg.norm(t, axis=1)))
    return tangent_optimum(constraints, weights)[0]


def tangent_optimum(constraints: Constraints, weights: Vector) -> tuple[ConstrainedOptimum, Tangents]:
    """The same by tangents, with those that prove it."""
    domain, size = constraints.domain, float(np.abs(weights) @ sizes(constraints.domain)[: len(weights)])
    return optimum_within(
        constraints,
        lambda limits: best_policy(domain, weights, limits),
        lambda reached: float(weights @ reached.reward),
        size,
    )
