"""Distance constraints without tangents: the dual of a norm is a ball.

The constraint norm_2(S (mu_c - c)) <= delta with a multiplier y has all its tangents in one vector t, (d_c,):

    y (norm_2(S (mu_c - c)) - delta) = max over norm_2(t) <= y of   t @ S (mu_c - c) - y delta

so that its part of the dual program is convex and, where t is not zero, smooth:

    weights of mu_c   - S t        value   t @ S c + delta norm_2(t)        on norm_2(t) <= C_c

For p = 1 no other constraint shares the limit of y = norm_2(t); for p = 2 and inf all multipliers lie in one ball, in
which t counts by its 2-norm. A constraint takes part once its excess would change the cost of a solution without it: t
is then not zero at the solution.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.constrained.conic import Ball, best_within_balls
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum
from tutelage.convex.blocks import Block
from tutelage.learners.penalties import DUAL_NORM, Constraints, Distance
from tutelage.learners.tangents import CUT_TOLERANCE, Tangents, optimum_within

# A constraint starts with weights that change the reward of one step by at most this much, in nats.
FIRST = 0.1


def first_tangents(constraints: Constraints) -> Tangents:
    """What an entropy learner's program starts with: cones where every convex constraint is one, or else tangents."""
    return Cones.opening(constraints) if _are_cones(constraints) else Tangents.opening(constraints)


def _are_cones(constraints: Constraints) -> bool:
    """Whether there are convex constraints, and all of them are distances."""
    functions = constraints.preference.functions
    return bool(functions) and all(function.distance is not None for function in functions)


def best_within(constraints: Constraints, weights: Vector) -> ConstrainedOptimum:
    """The policy with the largest weights @ mu_r (d_r,) within the constraints: a constrained MDP.

    Distances by one cone program, where it is exact enough; other convex constraints by tangents.
    """
    domain = constraints.domain
    if _are_cones(constraints):
        cones = replace(Cones.opening(constraints), active=tuple(range(len(constraints.preference.functions))))
        balls = [Ball(one.centre, one.scale, float(constraints.allowance[at])) for at, one in cones._distances]
        answer = best_within_balls(domain, weights, cones.half_spaces(), balls)
        if answer is not None:
            found, t = answer
            point = found.expectation.preference
            if (constraints.excess(point) <= CUT_TOLERANCE * constraints.sizes(point)).all():
                return replace(found, multipliers=cones.touched(np.append(found.multipliers, t))[1])
    return optimum_within(constraints, lambda limits: best_policy(domain, weights, limits))[0]


@dataclass(frozen=True, slots=True, eq=False)
class Cones(Tangents):
    """The linear constraints, and the distance constraints that take part. Multipliers: y of the linear ones, then t's.

    active: their numbers among the convex constraints. is_warm: whether they come from another problem.
    """

    active: tuple[int, ...] = ()
    is_warm: bool = False

    @classmethod
    def opening(cls, constraints: Constraints) -> Self:
        """The linear constraints alone."""
        return cls._linear(constraints)

    @property
    def _distances(self) -> list[tuple[int, Distance]]:
        """The distances that take part, with the numbers of their constraints."""
        functions, n_rows = self.constraints.preference.functions, len(self.constraints.rows)
        found = [(n_rows + j, functions[j].distance) for j in self.active]
        return [(number, distance) for number, distance in found if distance is not None]

    def _split(self, multipliers: Vector) -> tuple[Vector, list[Vector]]:
        """y (n_rows,), and t (d_c,) of each distance that takes part."""
        y, rest = np.split(multipliers, [len(self.offsets)])
        return y, np.split(rest, len(self.active)) if self.active else []

    def touched(self, multipliers: Vector) -> tuple[Tangents, Vector]:
        """The linear constraints and, for each t, the tangent in its direction, with their multipliers."""
        y, ts = self._split(multipliers)
        normals, offsets, numbers, sizes = [*self.normals], [*self.offsets], [*self.constraint], [*y]
        for (number, distance), t in zip(self._distances, ts, strict=True):
            length = float(np.linalg.norm(t))
            normal = distance.scale * t / (length or 1.0)
            normals.append(normal)
            offsets.append(self.constraints.allowance[number] + normal @ distance.centre)
            numbers.append(number)
            sizes.append(length)
        order = np.argsort(numbers, kind="stable")
        rows = np.array(normals).reshape(-1, self.normals.shape[1])[order]
        return (
            Tangents(self.constraints, rows, np.array(offsets)[order], np.array(numbers, dtype=np.intp)[order]),
            np.array(sizes)[order],
        )

    def tightened(self, point: Vector, multipliers: Vector) -> tuple[Tangents, Vector]:
        """With the distances that the solution mu_c = point (d_c,) violates; itself where there are none."""
        loose = self.touched(multipliers)[0]._loose(point)
        fresh = [int(j) - len(self.constraints.rows) for j in loose]
        if not fresh:
            return self, multipliers
        if set(fresh) & set(self.active):
            return self.retreat(multipliers)
        more = replace(self, active=(*self.active, *fresh))
        starts = [self._start(j, point) for j in fresh]
        return more, np.concatenate([multipliers, *starts])

    def _start(self, which: int, point: Vector) -> Vector:
        """(d_c,), a short t in the direction of the violation."""
        function, number = self.constraints.preference.functions[which], len(self.constraints.rows) + which
        distance, domain = function.distance, self.constraints.domain
        assert distance is not None
        away = distance.scale * (point - distance.centre)
        direction = away / np.linalg.norm(away)
        share = float(self.constraints.excess(point)[number] / self.constraints.sizes(point)[number])
        largest = float(np.abs(domain.preference_features @ (distance.scale * direction)).max())
        length = min(share, FIRST) / largest if largest > 0 else FIRST
        return min(length, self.constraints.preference.penalty) * direction

    def retreat(self, multipliers: Vector) -> tuple[Tangents, Vector]:
        """Where the program fails: from the start, or if it came from there, with tangents instead."""
        if not self.active:
            return self, multipliers
        there = Cones.opening(self.constraints) if self.is_warm else Tangents.opening(self.constraints)
        return there, np.zeros(there.n_multipliers)

    def pruned(self, multipliers: Vector) -> tuple[Tangents, Vector]:
        """The same distances, but for those whose t is zero."""
        y, ts = self._split(multipliers)
        kept = [(j, t) for j, t in zip(self.active, ts, strict=True) if t.any()]
        fewer = replace(self, active=tuple(j for j, _ in kept), is_warm=True)
        return fewer, np.concatenate([np.maximum(y, 0.0), *(t for _, t in kept)])

    @property
    def n_multipliers(self) -> int:
        return len(self.offsets) + len(self.active) * int(self.normals.shape[1])

    @property
    def is_complete(self) -> bool:
        return False

    @property
    def lift(self) -> Matrix:
        """(d_c, k), the map from (y, t) to the weights -G'y - S t of the preference features."""
        return np.hstack([-self.normals.T, *(-np.diag(distance.scale) for _, distance in self._distances)])

    @property
    def offset(self) -> Vector:
        """(k,), -S c for each t."""
        cones = [-distance.scale * distance.centre for _, distance in self._distances]
        return np.concatenate([np.zeros(len(self.offsets)), *cones])

    @property
    def lengths(self) -> tuple[float, ...]:
        """The allowances delta of the distances that take part."""
        return tuple(float(self.constraints.allowance[number]) for number, _ in self._distances)

    def blocks(self) -> list[Block]:
        """N*(y), and a ball for each t, or one ball for all."""
        n, preference = self.normals.shape[1], self.constraints.preference
        if self.active and not (preference.is_hard or preference.norm == 1):
            k, size = len(self.offsets), self.n_multipliers
            slope = np.append(self.offsets, np.zeros(size - k))
            ts = tuple(slice(k + j * n, k + (j + 1) * n) for j in range(len(self.active)))
            norm = DUAL_NORM[preference.norm]
            return [Block(slope, preference.penalty, norm, False, np.arange(size), vectors=ts)]
        ball = Block(np.zeros(n), preference.penalty, 2, True, np.arange(n))
        free = replace(ball, norm=math.inf)
        return [*self._charges(self.offsets), *(free if preference.is_hard else ball for _ in self.active)]
