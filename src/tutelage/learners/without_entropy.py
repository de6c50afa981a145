"""The learner without its entropy: the policy that pays the least, and the multipliers at which it is optimal.

    minimise over pi   M(mu_r(pi) - mu_hat) + N(g(mu_c(pi)))

With large penalties, features or horizons the entropy hardly matters, and the dual of Eq. 1 is almost piecewise linear:
its edges are the weights at which two policies are equally good, and Newton's steps from afar oscillate across them.
This problem has its minimum on the same edges. It is solved by decomposition (`constrained.decomposition`): a small
cone program over mixtures of the policies found so far yields prices, and the best policy at these prices joins the
mixture. From the multipliers found here Newton's method has only the entropy left to account for.
"""

import math
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.chains.resolvent import choice_visits
from tutelage.constrained.columns import Column, Planner
from tutelage.constrained.problem import in_feature_units, or_one, sizes
from tutelage.convex.programs import minimise_conic
from tutelage.learners.penalties import Mismatch, Tangents
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy

# What is hard here has a penalty this many times the largest soft one: enough for multipliers to start from.
HARD = 1e4
# A price at which no policy is better by more than this, relative to the largest expectation, ends the rounds.
ENOUGH = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """policy: (C,), the one that pays least. multipliers: (d_r + K,), the pair (a, y) at which it is optimal."""

    policy: Vector
    multipliers: Vector


def cheapest(
    domain: Domain, mismatch: Mismatch, tangents: Tangents, shown: Vector, *, max_rounds: int = 100
) -> Cheapest:
    """The policy that pays least for its mismatch and its violations, to rounding or after max_rounds policies."""
    master = _Master.of(domain, mismatch, tangents, shown)
    columns: list[Column] = []
    planner, price = Planner(master.domain), master.opening
    for _ in range(max_rounds):
        priced = planner.price_out(price)
        if (
            columns
            and priced.best - max(float(price @ column.counts) for column in columns) <= ENOUGH * np.abs(price).sum()
        ):
            break
        columns += priced.columns
        weights, multipliers = master.solve(np.array([column.counts for column in columns]))
        price = master.price(multipliers)
    return Cheapest(_policy(master.domain, columns, weights), master.unit * multipliers)


def _policy(domain: Domain, columns: list[Column], weights: Vector) -> Vector:
    visits = np.zeros(domain.mdp.n_choices)
    for weight, column in zip(weights, columns, strict=True):
        if weight > 0:
            visits[column.choice] += weight * choice_visits(domain.mdp, column.choice)
    return policy_from_occupancy(domain.mdp, visits)


@dataclass(frozen=True, slots=True, eq=False)
class _Master:
    """The program over mixtures, in units of the largest expectations and of the largest penalty.

    normals @ x_c <= offsets: the tangents. owner: (K,), the constraint of each. unit: (d_r + K,), of the multipliers.
    """

    domain: Domain
    mismatch: Mismatch
    shown: Vector
    allowance: Vector
    charge: tuple[float, float]
    normals: Matrix
    offsets: Vector
    owner: Indices
    norm: float
    unit: Vector

    @classmethod
    def of(cls, domain: Domain, mismatch: Mismatch, tangents: Tangents, shown: Vector) -> "_Master":
        d_r, preference = domain.n_reward, tangents.constraints.preference
        size = sizes(domain)
        reward = float(or_one(size[:d_r].max()))
        largest = or_one(size[d_r:])
        normals = tangents.normals * largest
        row = float(or_one(np.abs(normals).max(initial=0.0)))
        costs = [mismatch.penalty * (reward**2 if mismatch.squared else reward), preference.penalty * row]
        finite = [cost for cost in costs if math.isfinite(cost)]
        most = max(finite) * HARD if finite else 1.0
        costs = [min(cost, most) for cost in costs]
        unit = max(costs)
        return cls(
            in_feature_units(domain, np.concatenate([np.full(d_r, reward), largest])),
            mismatch,
            shown / reward,
            np.asarray(mismatch.on(domain).allowance) / reward,
            (costs[0] / unit, costs[1] / unit),
            normals / row,
            tangents.offsets / row,
            tangents.constraint,
            preference.norm,
            unit / np.concatenate([np.full(d_r, reward), np.full(len(tangents.offsets), row)]),
        )

    @property
    def opening(self) -> Vector:
        size = max(float(np.abs(self.shown).max()), np.finfo(np.float64).tiny)
        return np.concatenate([self.shown / size, -self.normals.sum(axis=0)])

    def price(self, multipliers: Vector) -> Vector:
        a, y = np.split(multipliers, [len(self.shown)])
        return np.concatenate([a, -(self.normals.T @ y)])

    def solve(self, columns: Matrix) -> tuple[Vector, Vector]:
        """The weights of the columns (k, d) and the multipliers (d_r + K,).

        Variables: the weights v, an excess t for each reward feature and s for each constraint, and the bounds of the
        norms of t and s where these are no sums.
        """
        k, d_r, n_rows = len(columns), len(self.shown), len(self.offsets)
        m = int(self.owner.max(initial=-1)) + 1
        n = k + d_r + m + 2
        t, s = np.arange(k, k + d_r), np.arange(k + d_r, k + d_r + m)
        slope, curvature = np.zeros(n), np.zeros((n, n))
        reached, kept = columns[:, :d_r].T, self.normals @ columns[:, d_r:].T
        limits = np.hstack([np.vstack([reached, -reached, kept]), np.zeros((2 * d_r + n_rows, n - k))])
        limits[np.arange(len(limits)), np.concatenate([t, t, k + d_r + self.owner])] = -1.0
        linear = [limits, -np.eye(n)]
        right = [self.shown + self.allowance, self.allowance - self.shown, self.offsets, np.zeros(n)]
        balls: list[Matrix] = []
        if self.mismatch.squared:
            curvature[t, t] = 2 * self.charge[0]
        for part, norm, at in ((t, self.mismatch.norm, n - 2), (s, self.norm, n - 1)):
            cost = self.charge[at - (n - 2)]
            if at == n - 2 and self.mismatch.squared:
                continue
            if norm == 1:
                slope[part] = cost
                continue
            slope[at] = cost
            bound = np.eye(n)[part]
            if math.isinf(norm):
                bound[:, at] = -1.0
                linear.append(bound)
                right.append(np.zeros(len(part)))
            elif len(part):
                balls.append(np.vstack([-np.eye(n)[[at]], -bound]))
        solution = minimise_conic(
            curvature,
            slope,
            np.vstack([np.arange(n) < k, *linear, *balls]),
            np.concatenate([np.ones(1), *right, *(np.zeros(len(ball)) for ball in balls)]),
            sum(map(len, linear)),
            [len(ball) for ball in balls],
            n_equal=1,
        )
        found = solution.answer
        up, low, y = np.split(found.multipliers[1 : 1 + 2 * d_r + n_rows], [d_r, 2 * d_r])
        weights = np.maximum(found.x[:k], 0.0)
        return weights / weights.sum(), np.concatenate([low - up, np.maximum(y, 0.0)])
