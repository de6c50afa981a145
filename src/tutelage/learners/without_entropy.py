"""Optima without entropy: within convex preferences, and of the learner with large penalties.

`best_within` and `optimum_within` replace convex constraints by tangents (`penalties.Tangents`). `cheapest` solves

    minimise over pi   M(mu_r(pi) - mu_hat) + N(g(mu_c(pi)))

With large penalties, features or horizons the entropy hardly matters, and the dual of Eq. 1 is almost piecewise linear:
its edges are the weights at which two policies are equally good, and Newton's steps from afar oscillate across them.
This problem has its minimum on the same edges. It is solved by decomposition (`constrained.decomposition`): a small
cone program over mixtures of the policies found so far yields prices, and the best policy at these prices joins the
mixture. From the multipliers found here Newton's method has only the entropy left to account for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.chains.expectations import Expectation, expectation, occupancy
from tutelage.constrained.columns import Column, Planner
from tutelage.constrained.direct import Ball, best_within_balls
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Scaled, sizes
from tutelage.convex.programs import minimise_conic
from tutelage.learners.convex_constraints import ABOVE
from tutelage.learners.penalties import Constraints, Mismatch, Tangents
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy

# What is hard here has a penalty this many times the largest soft one: enough for multipliers to start from.
HARD = 1e4
# A price at which no policy is better by more than this, relative to the largest expectation, ends the rounds.
ENOUGH = 1e-12


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
    domain, visits = constraints.domain, np.zeros(constraints.domain.mdp.n_choices)
    tangents: Tangents = Tangents.opening(constraints).fixed()
    n_solved = 0
    while True:
        found, n_solved = solve(tangents.half_spaces()), n_solved + 1
        tighter, _ = tangents.tightened(found.expectation.preference, found.multipliers)
        if tighter is tangents:
            return found, tangents
        # The last solutions count most: the first tangents are far from the constraints.
        visits = visits + max(1 / n_solved, 0.1) * (occupancy(domain.mdp, found.policy) - visits)
        policy = policy_from_occupancy(domain.mdp, visits)
        reached = expectation(domain, policy)
        is_kept = constraints.excess(reached.preference) <= ABOVE * constraints.sizes(reached.preference)
        if is_kept.all() and abs(value(reached) - found.bound) <= found.gap + ABOVE * unit:
            return replace(found, policy=policy, expectation=reached, value=value(reached)), tangents
        tangents = tighter


def require_possible(constraints: Constraints, n_programs: int = 20) -> None:
    """Raise `InfeasibleConstraints` where a few tangents show that no policy satisfies convex constraints."""
    domain = constraints.domain
    tangents: Tangents = Tangents.opening(constraints).fixed()
    for _ in range(n_programs):
        found = best_policy(domain, np.zeros(domain.n_reward), tangents.half_spaces())
        tighter, _ = tangents.tightened(found.expectation.preference, found.multipliers)
        if tighter is tangents:
            return
        tangents = tighter


def best_within(constraints: Constraints, weights: Vector) -> ConstrainedOptimum:
    """The policy with the largest weights @ mu_r (d_r,) within the constraints: a constrained MDP.

    Distances by one cone program, where it is exact enough; other convex constraints by tangents.
    """
    distances = [function.distance for function in constraints.preference.functions]
    balls = [
        Ball(*distance, float(radius))
        for distance, radius in zip(distances, constraints.allowance[len(constraints.rows) :], strict=True)
        if distance is not None
    ]
    if balls and len(balls) == len(distances):
        found = best_within_balls(constraints.domain, weights, constraints.half_spaces(), balls)
        if found is not None:
            optimum, t = found
            point = optimum.expectation.preference
            if (constraints.excess(point) <= ABOVE * constraints.sizes(point)).all():
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


def cheapest(
    domain: Domain, mismatch: Mismatch, tangents: Tangents, shown: Vector, *, max_rounds: int = 100
) -> tuple[Vector, Vector]:
    """The policy (C,) that pays least for its mismatch and its violations, and its multipliers (a, y), (d_r + K,).

    To rounding, or after max_rounds policies.
    """
    limits, d_r = tangents.half_spaces(), domain.n_reward
    scaled = Scaled.matching(domain, limits).with_common_rows(limits)
    unit, preference = np.concatenate([scaled.feature[:d_r], scaled.row]), tangents.constraints.preference
    reward, row = float(unit[0]), float(scaled.row.max(initial=0.0)) or 1.0
    costs = np.array([mismatch.penalty * (reward**2 if mismatch.squared else reward), preference.penalty * row])
    most = HARD * costs.max(where=np.isfinite(costs), initial=0.0) or 1.0
    costs = np.minimum(costs, most)
    allowance = np.asarray(mismatch.on(domain).allowance)
    master = _Master(mismatch, tangents, scaled.limits, shown / reward, allowance / reward, costs / costs.max())
    columns, planner, price = list[Column](), Planner(scaled.domain), master.opening
    for _ in range(max_rounds):
        priced = planner.price_out(price)
        best = max((float(price @ column.counts) for column in columns), default=-math.inf)
        if priced.best - best <= ENOUGH * np.abs(price).sum():
            break
        columns += priced.columns
        weights, multipliers = master.solve(np.array([column.counts for column in columns]))
        price = master.price(multipliers)
    policy = policy_from_occupancy(domain.mdp, planner.occupancy(columns, weights[:, None]))
    return policy, costs.max() / unit * multipliers


@dataclass(frozen=True, slots=True, eq=False)
class _Master:
    """The program over mixtures, in units of the largest expectations. charge: (2,), of mismatch and violation."""

    mismatch: Mismatch
    tangents: Tangents
    limits: HalfSpaces
    shown: Vector
    allowance: Vector
    charge: Vector

    @property
    def opening(self) -> Vector:
        size = max(float(np.abs(self.shown).max()), np.finfo(np.float64).tiny)
        return self.price(np.concatenate([self.shown / size, np.ones(len(self.limits))]))

    def price(self, multipliers: Vector) -> Vector:
        """(d,), of the features: (a, -G'y)."""
        a, y = np.split(multipliers, [len(self.shown)])
        return np.concatenate([a, np.zeros(self.limits.normals.shape[1] - len(a))]) - self.limits.normals.T @ y

    def solve(self, columns: Matrix) -> tuple[Vector, Vector]:
        """The weights of the columns (k, d) and the multipliers (d_r + K,).

        Variables: the weights v, an excess t for each reward feature and s for each constraint, and the bounds of the
        norms of t and s where these are no sums.
        """
        k, d_r, owner, squared = len(columns), len(self.shown), self.tangents.constraint, self.mismatch.squared
        m = int(owner.max(initial=-1)) + 1
        n, n_rows = k + d_r + m + 2, 2 * d_r + len(owner)
        t, s = np.arange(k, k + d_r), np.arange(k + d_r, k + d_r + m)
        reached, kept, whole = columns[:, :d_r].T, self.limits.normals @ columns.T, np.eye(n)
        limits = np.hstack([np.vstack([reached, -reached, kept]), np.zeros((n_rows, n - k))])
        limits[np.arange(n_rows), np.concatenate([t, t, k + d_r + owner])] = -1.0
        linear, slope = [limits, -whole], np.zeros(n)
        right = [self.shown + self.allowance, self.allowance - self.shown, self.limits.offsets]
        curvature, balls = np.zeros((n, n)), list[Matrix]()
        # Zero stands for the square of the 2-norm.
        norms = (0 if squared else self.mismatch.norm, self.tangents.constraints.preference.norm)
        for part, norm, at, cost in zip((t, s), norms, (n - 2, n - 1), self.charge, strict=True):
            slope[part if norm == 1 else at] = cost if norm > 0 else 0.0
            if norm == 0:
                curvature[part, part] = 2 * cost
            elif norm == 2 and len(part):
                balls.append(-whole[[at, *part]])
            elif norm != 1:
                linear.append(whole[part] - whole[at])
        rows = np.vstack([np.arange(n) < k, *linear, *balls])
        bound = np.zeros(len(rows))
        bound[: 1 + n_rows] = np.concatenate([[1.0], *right])
        solution = minimise_conic(
            curvature, slope, rows, bound, sum(map(len, linear)), [len(ball) for ball in balls], n_equal=1
        )
        up, low, y = np.split(solution.answer.within_multipliers[:n_rows], [d_r, 2 * d_r])
        weights = np.maximum(solution.answer.x[:k], 0.0)
        return weights / weights.sum(), np.concatenate([low - up, np.maximum(y, 0.0)])
