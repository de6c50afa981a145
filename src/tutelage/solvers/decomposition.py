"""Decomposition: problems over all policies by way of a few (Dantzig-Wolfe; for the projection, simplicial).

The whole state space enters a constrained problem only through a handful of feature expectations. So a small *master*
problem mixes the policies found so far, its multipliers put a price on every feature, and a *pricing* step, one
ordinary MDP solved from where the last left off, finds the policy worth most at those prices. The price bounds the
objective over all policies, so every round knows its gap; when no policy is worth more than the mixture, the mixture is
best.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.mdp.model import Domain, per_choice
from tutelage.outcomes import Ended, NotConverged
from tutelage.solvers.bellman import Plan, plan_hard
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.objectives import Hull, Objective, Point
from tutelage.solvers.operators import COMPILED_ABOVE, operators

MAX_ROUNDS = 1_000
# Expectations this close in every feature, relative to the largest there could be, are one and the same.
SAME = 1e-11
# The largest relative gap that may be put down to rounding.
ACCEPTABLE = 1e-7
# What is left of the digits of a bound when the worth of a policy and the offset, all but equal, are subtracted.
CANCELLED = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A deterministic policy, one choice per state (S,), and its feature expectation (d,)."""

    choice: Indices
    counts: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The policy worth most at some prices, a certified bound on that worth, and the plan to start the next from."""

    column: Column
    best: float
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The best mixture of policies: columns with their weights, the objective's value and its certified lower bound."""

    columns: tuple[Column, ...]
    plan: Plan
    point: Point
    bound: float
    n_rounds: int
    ended: Ended

    @property
    def counts(self) -> Vector:
        """(d,), the feature expectation of the mixture."""
        return self.point.weights @ _matrix(self.columns)

    def occupancy(self, domain: Domain) -> Vector:
        """(C,), the mixture of the policies' visits; the policies' own are rebuilt rather than kept."""
        mdp = domain.mdp
        kit = operators(mdp, np.zeros(mdp.n_choices))
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(self.point.weights, self.columns, strict=True):
            if weight > 0:
                visits[column.choice] += weight * kit.visits(column.choice)
        return visits


def price_out(domain: Domain, price: Vector, start: Plan | None) -> Priced:
    """The policy of most `price @ mu`, and a bound that no policy exceeds."""
    mdp, d_r = domain.mdp, domain.n_reward
    parts = (domain.reward_features @ price[:d_r], domain.preference_features @ price[d_r:])
    # On states, where both are, before they are repeated for every choice.
    both = parts if len(parts[0]) == len(parts[1]) else tuple(per_choice(mdp, part) for part in parts)
    reward = per_choice(mdp, both[0] + both[1])
    kit = operators(mdp, reward)
    # As close as double precision allows: the bound is compared with gaps near rounding.
    scale = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
    plan = plan_hard(kit, mdp, accuracy=1e-11 * scale, start=start)
    visits = kit.visits(plan.choice)
    counts = np.concatenate(
        [_counts(features, plan.choice, visits) for features in (domain.reward_features, domain.preference_features)]
    )
    # Not `@`: above 10,000 states BLAS shares the sum among threads, which on a busy machine wait for each other.
    worth = float(np.einsum("s,s->", mdp.initial, plan.value))
    return Priced(Column(plan.choice, counts), worth + plan.error_bound, plan)


def decompose(
    domain: Domain,
    objective: Objective,
    limits: HalfSpaces,
    columns: tuple[Column, ...],
    plan: Plan,
    *,
    tolerance: float,
    good_enough: float = -np.inf,
) -> Mixture:
    """The best mixture of policies, to a gap of `tolerance * (1 + |value|)` or until the value is `good_enough`.

    columns: policies to start from, whose mixtures must be able to satisfy the limits. plan: the last pricing step's.
    """
    bound, largest = -np.inf, _largest(domain)
    for n_rounds in range(1, MAX_ROUNDS + 1):
        point = _on_simplex(objective.solve(_simplex(columns), limits))
        priced = price_out(domain, point.price, plan)
        plan = priced.plan
        bound = max(bound, point.offset - priced.best)
        if point.value - bound <= tolerance * (1 + abs(point.value)) or point.value <= good_enough:
            return Mixture(columns, plan, point, bound, n_rounds, Ended.CONVERGED)
        if _is_known(priced.column, columns, largest):
            return _as_good_as_it_gets(Mixture(columns, plan, point, bound, n_rounds, Ended.ROUNDING))
        columns = (*columns, priced.column)
    raise NotConverged(
        f"after {MAX_ROUNDS} rounds of decomposition the gap is still {point.value - bound:.3g}",
        residual=point.value - bound,
        n_steps=MAX_ROUNDS,
    )


def _is_known(column: Column, columns: tuple[Column, ...], largest: Vector) -> bool:
    """Whether pricing offers, up to rounding, an expectation that the master problem has already."""
    apart = np.abs(_matrix(columns) - column.counts)
    return bool((apart <= SAME * largest).all(axis=1).any())


def _largest(domain: Domain) -> Vector:
    """(d,), the largest that any policy's expectation of each feature could be."""
    both = (domain.reward_features, domain.preference_features)
    size = np.concatenate([np.abs(features).max(axis=0, initial=0.0) for features in both])
    return np.asarray(size / (1 - domain.mdp.discount))


def _as_good_as_it_gets(mixture: Mixture) -> Mixture:
    """The mixture when no new policy helps; an error if its gap is then still more than rounding explains."""
    gap = mixture.point.value - mixture.bound
    explained = max(ACCEPTABLE * (1 + abs(mixture.point.value)), CANCELLED * abs(mixture.point.offset))
    if gap > explained:
        raise NotConverged(
            f"no policy improves on the mixture, yet its gap is {gap:.3g}", residual=gap, n_steps=mixture.n_rounds
        )
    return mixture


def _counts(features: Matrix, choice: Indices, visits: Vector) -> Vector:
    """z @ features for visits (S,) to the one choice of each state."""
    if len(visits) > COMPILED_ABOVE:
        # One choice per state visits few of many.
        visited = np.flatnonzero(visits)
        choice, here = choice[visited], visits[visited]
        return here @ features[visited if len(features) == len(visits) else choice]
    return visits @ (features if len(features) == len(visits) else features[choice])


def _matrix(columns: tuple[Column, ...]) -> Matrix:
    """(K, d), one policy's expectation per row."""
    return np.array([column.counts for column in columns])


def _simplex(columns: tuple[Column, ...]) -> Hull:
    return Hull(_matrix(columns).T, np.ones((1, len(columns))), np.ones(1))


def _on_simplex(point: Point) -> Point:
    """The weights with the solver's rounding taken off: none negative, sum one."""
    weights = np.maximum(point.weights, 0.0)
    return Point(weights / weights.sum(), point.value, point.multipliers, point.price, point.offset)
