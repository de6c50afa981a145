"""Mixtures of policies: the master problem of a decomposition, and its result."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.bellman.equations import Plan
from tutelage.bellman.operators import bellman_operators
from tutelage.constrained.columns import Column, Improver
from tutelage.constrained.objectives import Hull, Objective, Point
from tutelage.constrained.problem import HalfSpaces
from tutelage.constrained.shares import best_shares, can_share
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended, NotConverged

MAX_ROUNDS = 1_000
# Expectations this close in every feature, relative to the largest possible one, count as equal.
SAME = 1e-11
# The largest weight of a policy in a mixture that counts as rounding.
ROUNDED = 1e-14
# The largest relative gap that counts as rounding.
ACCEPTABLE = 1e-7
# The bound is a difference of nearly equal numbers: its error relative to their size.
CANCELLED = 1e-10
# Of many columns, the latest and those with more than a tiny weight are kept.
RECENT, TINY = 30, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The best mixture of policies: columns with their weights, the objective's value and its certified lower bound."""

    columns: tuple[Column, ...]
    plan: Plan
    point: Point
    bound: float
    n_rounds: int
    ended: Ended
    improver: Improver | None = None

    @property
    def weights(self) -> Matrix:
        """(n, K), the weight of each column for each group of starts; one group where all starts have one mixture."""
        return self.point.weights.reshape(len(self.columns), -1)

    @property
    def counts(self) -> Vector:
        """(d,), the feature expectation of the mixture."""
        weights = self.weights
        if weights.shape[1] == 1:
            return np.asarray(weights[:, 0] @ matrix(self.columns))
        return np.asarray(np.einsum("nk,nkd->d", weights, parts(self.columns)))

    @property
    def gap(self) -> float:
        """The largest possible distance of the value from the optimal one."""
        return self.point.value - self.bound

    def is_within(self, tolerance: float) -> bool:
        """Whether the gap is at most `tolerance * (1 + |value|)`."""
        return self.gap <= tolerance * (1 + abs(self.point.value))

    def occupancy(self, domain: Domain) -> Vector:
        """(C,), the mixture of the policies' occupancies."""
        if self.improver is not None:
            return self.improver.occupancy(self.columns, self.weights)
        mdp = domain.mdp
        operators = bellman_operators(mdp, np.zeros(mdp.n_choices))
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(self.point.weights, self.columns, strict=True):
            if weight > 0:
                visits[column.choice] += weight * operators.visits(column.choice)
        return visits

    def columns_for(self, objective: Objective, limits: HalfSpaces) -> tuple[Column, ...]:
        """The columns for the decomposition of another objective.

        Where every group of starts has a mixture here and the other objective has one for all, these mixtures may be
        within limits that no mixture of the columns keeps; the policy of them all is one more column.
        """
        if self.improver is None or self.weights.shape[1] == 1 or can_share(objective.dual(limits)):
            return self.columns
        domain = self.improver.domain
        policy = policy_from_occupancy(domain.mdp, self.occupancy(domain))
        return (*self.columns, self.improver.evaluate_policy(policy, None))


def matrix(columns: tuple[Column, ...]) -> Matrix:
    """(K, d), one policy's expectation per row."""
    return np.array([column.counts for column in columns])


def parts(columns: tuple[Column, ...]) -> NDArray[np.float64]:
    """(n, K, d), the parts of each policy's expectation from each group of starts."""
    return np.array([column.parts for column in columns])


@dataclass(eq=False)
class Master:
    """The master problems of one decomposition.

    is_by_group: whether every group of starts has a mixture of its own. near: the last dual variables, to start from.
    """

    objective: Objective
    limits: HalfSpaces
    is_by_group: bool
    near: Vector

    @classmethod
    def of(cls, objective: Objective, limits: HalfSpaces, columns: tuple[Column, ...]) -> "Master":
        dual = objective.dual(limits)
        is_by_group = can_share(dual) and all(column.parts is not None for column in columns)
        return cls(objective, limits, is_by_group, np.zeros(len(dual.linear)))

    def solve(self, columns: tuple[Column, ...]) -> Point:
        """The best mixture of the columns within the limits."""
        point = self._by_group(columns) if self.is_by_group else master(self.objective, self.limits, columns)
        self.near = point.dual
        return point

    def _by_group(self, columns: tuple[Column, ...]) -> Point:
        known = parts(columns)
        n, n_groups, d = known.shape
        point = best_shares(self.objective.dual(self.limits), known, self.near)
        if point is None:
            sums = sparse.hstack([sparse.eye_array(n_groups, format="csr")] * n, format="csr")
            point = self.objective.solve(Hull(known.reshape(-1, d).T, sums, np.ones(n_groups)), self.limits)
            weights = np.maximum(point.weights, 0.0).reshape(n, n_groups)
            point = replace(point, weights=weights / weights.sum(axis=0))
        return point


def master(objective: Objective, limits: HalfSpaces, columns: tuple[Column, ...]) -> Point:
    """The best mixture of the columns within the limits."""
    simplex = Hull(matrix(columns).T, np.ones((1, len(columns))), np.ones(1))
    return _on_simplex(objective.solve(simplex, limits))


def pruned(columns: tuple[Column, ...], point: Point) -> tuple[tuple[Column, ...], Point]:
    """Without the columns that are neither recent nor used, so that master problems stay small."""
    largest = point.weights.reshape(len(columns), -1).max(axis=1)
    kept = [k for k in range(len(columns)) if k >= len(columns) - RECENT or largest[k] > TINY]
    weights = np.where(point.weights > TINY, point.weights, 0.0)[kept]
    return tuple(columns[k] for k in kept), replace(point, weights=weights / weights.sum(axis=0))


def is_known(largest: Vector, column: Column, columns: tuple[Column, ...]) -> bool:
    """Whether the master problem already has this expectation, up to rounding."""
    apart = np.abs(matrix(columns) - column.counts)
    return bool((apart <= SAME * largest).all(axis=1).any())


def last(mixture: Mixture) -> Mixture:
    """The mixture when no better policy was found: its gap is rounding, or else `NotConverged`."""
    point, gap = mixture.point, mixture.gap
    if gap > max(ACCEPTABLE * (1 + abs(point.value)), CANCELLED * abs(point.offset)):
        message = f"decomposition found no better policy, but the relative gap is still {gap:.3g}"
        best = replace(mixture, ended=Ended.SETTLED)
        raise NotConverged(message, residual=gap, n_steps=mixture.n_rounds, answer=best)
    return replace(mixture, ended=Ended.ROUNDING)


def unfinished(mixture: Mixture) -> NotConverged:
    """The error after the last round, with the mixture as its answer."""
    message = f"after {MAX_ROUNDS} rounds of decomposition the relative gap is still {mixture.gap:.3g}"
    best = replace(mixture, ended=Ended.STEP_LIMIT)
    return NotConverged(message, residual=mixture.gap, n_steps=MAX_ROUNDS, answer=best)


def _on_simplex(point: Point) -> Point:
    """The point with its weights rounded onto the simplex: none negative, sum one.

    A weight that is no more than rounding is zero, so that a policy which never arrives is no part of the mixture.
    """
    weights = np.where(point.weights > ROUNDED, point.weights, 0.0)
    return replace(point, weights=weights / weights.sum())
