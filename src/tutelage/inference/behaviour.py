"""Behaviour in one domain or in several, and the common weights whose soft policies match it.

With n_k trajectories in domain k, n in all, from the starts that were seen, the mean counts mu_hat are matched by the
minimum over the weights w of the convex function

    f(w) = sum over k of n_k / n  P_k @ V_k(w) - mu_hat @ w,        P_k the distribution of the starts in domain k.

Its gradient and Hessian are the sums of those of the domains, with the same shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import EPSILON, Matrix, Vector, max_abs
from tutelage.bellman.soft_expectations import Journeys, SoftExpansion
from tutelage.convex.blocks import Block
from tutelage.convex.newton import Expansion, proximal_newton
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.inference.recovery import count_covariance
from tutelage.model.mdp import Domain
from tutelage.outcomes import EndlessValue, InvalidInput

# The match of counts, relative to what is met of each feature.
MATCHED = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """The sum over the domains, by their shares, at weights (d,); the names are those of `SoftExpansion`.

    rounding: the error of the soft return. each: the soft policies of the domains, unless they are quickly made again.
    """

    weights: Vector
    soft_return: float
    expectation: Vector
    jacobian: Matrix
    rounding: float
    each: tuple[SoftExpansion, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Behaviour:
    """Trajectories in domains that start where these do. counts, bias: (d,), mu_hat and its truncation bias."""

    journeys: Journeys
    walks: tuple[Demonstrations, ...]
    counts: Vector
    bias: Vector

    @staticmethod
    def of(pairs: Sequence[tuple[Domain, Demonstrations]]) -> "Behaviour":
        first = pairs[0][0]
        n = sum(walks.n for _, walks in pairs)
        counts, bias, domains = np.zeros(len(first.names)), np.zeros(len(first.names)), []
        for number, (domain, walks) in enumerate(pairs):
            if (domain.reward_names, domain.preference_names) != (first.reward_names, first.preference_names):
                raise InvalidInput(
                    f"domain {number} has the features {list(domain.names)}, but domain 0 {list(first.names)}; "
                    "weights are shared by name, so give all the same features in one order"
                )
            seen = empirical_expectation(domain, walks)
            counts += walks.n / n * np.append(seen.reward, seen.preference)
            bias += walks.n / n * seen.bias
            starts = np.bincount(walks.states[walks.offsets[:-1]], minlength=domain.mdp.n_states) / walks.n
            domains.append(replace(domain, mdp=domain.mdp.starting_in(starts)))
        return Behaviour(Journeys.of(domains), tuple(walks for _, walks in pairs), counts, bias)

    @property
    def n(self) -> int:
        return sum(walks.n for walks in self.walks)

    @property
    def shares(self) -> Vector:
        """The part of the trajectories that each domain has."""
        return np.array([walks.n for walks in self.walks]) / self.n

    @property
    def signs(self) -> Vector:
        """(d,), one over the size of a feature, with its sign; zero if it has both signs, or no size."""
        high = np.max([features.max(axis=0) for features in self.journeys.features], axis=0)
        low = np.min([features.min(axis=0) for features in self.journeys.features], axis=0)
        size = np.where(low >= 0, high, np.where(high <= 0, low, 0.0))
        return np.divide(1.0, size, out=np.zeros_like(size), where=size != 0)

    def total(self, weights: Vector, near: tuple[SoftExpansion, ...] = ()) -> Total:
        """The soft return of all domains to second order. near: their soft policies at nearby weights."""
        d = len(weights)
        value, expectation, jacobian = 0.0, np.zeros(d), np.zeros((d, d))
        rounding, each = 0.0, list[SoftExpansion]()
        for share, soft in zip(self.shares, self.journeys.expand(weights, near), strict=True):
            value += share * soft.soft_return
            expectation += share * soft.expectation
            jacobian += share * soft.jacobian
            rounding += share * (16 * EPSILON * max_abs(soft.solved.value) + soft.solved.error_bound)
            if self.journeys.network is None:
                each.append(soft)
        return Total(weights, value, expectation, jacobian, rounding, tuple(each))

    def softs(self, total: Total) -> Iterator[tuple[Domain, Demonstrations, SoftExpansion]]:
        softs = total.each or self.journeys.expand(total.weights, ())
        return zip(self.journeys.domains, self.walks, softs, strict=True)

    def covariance(self, total: Total) -> Matrix:
        """(d, d), of mu_hat, given the starts, if the soft policies are right."""
        parts = [count_covariance(domain, soft, given_starts=True) for domain, _, soft in self.softs(total)]
        return np.asarray(np.einsum("k,kij->ij", self.shares, np.array(parts)) / self.n)

    def finite(self, base: Vector, lift: Matrix, x: Vector) -> tuple[Vector, Total]:
        """x, or where its soft value is infinite, other unknowns with a cost on everything; and the sum there."""
        feature = np.abs(lift).argmax(axis=0)
        cost = -self.signs[feature] / lift[feature, np.arange(len(x))]
        for doubling in range(12):
            try:
                return x, self.total(base + lift @ x)
            except EndlessValue:
                x = 2.0**doubling * cost
        return x, self.total(base + lift @ x)

    def matched(self, base: Vector, lift: Matrix, x: Vector, near: Total | None = None) -> tuple[Vector, Total]:
        """argmin over x of f(base + L x), without any limit on x, and the sum there. near: the sum at the start."""
        x, first = self.finite(base, lift, x) if near is None else (x, near)
        if not len(x):
            return x, first
        target = lift.T @ self.counts

        def expand(point: Vector, last: Total | None) -> Expansion[Total]:
            try:
                total = first if last is None else self.total(base + lift @ point, last.each)
            except EndlessValue:
                # The step was too long; the method takes a shorter one.
                return Expansion(np.inf, np.zeros_like(target), np.zeros((len(x), len(x))), 0.0, 0.0, last or first)
            reached = lift.T @ total.expectation
            ahead = float(target @ point)
            noise = total.rounding * (1 + max_abs(reached))
            hessian = lift.T @ total.jacobian @ lift
            error = total.rounding + EPSILON * abs(ahead)
            return Expansion(total.soft_return - ahead, reached - target, hessian, noise, error, total)

        free = Block(np.zeros(len(x)), np.inf, np.inf, True, np.arange(len(x)))
        minimum = proximal_newton(expand, [free], x, tolerance=MATCHED)
        return minimum.answer.x, minimum.answer.here.source
