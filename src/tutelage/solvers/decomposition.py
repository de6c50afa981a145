"""Decomposition of problems over all policies (Dantzig-Wolfe; for the projection, simplicial decomposition).

The state space enters a constrained problem only through a few feature expectations. A small *master* problem
optimises over mixtures of the policies found so far, and its multipliers give a price to every feature. The *pricing*
step solves one unconstrained MDP with these prices as reward weights, from the last plan. The value of that MDP bounds
the objective over all policies, so every round has a certified gap. The mixture is optimal if no policy has a higher
value at these prices.
"""

from dataclasses import dataclass, replace

import numpy as np

from tutelage import watch
from tutelage.arrays import Indices, Matrix, Vector
from tutelage.mdp.model import Domain, endless, per_choice
from tutelage.outcomes import Ended, NotConverged
from tutelage.solvers.bellman import Plan, plan_hard
from tutelage.solvers.columns import Column, Improver, with_stored
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.objectives import Hull, Objective, Point
from tutelage.solvers.operators import COMPILED_ABOVE, bellman_operators

MAX_ROUNDS = 1_000
# Expectations this close in every feature, relative to the largest possible one, count as equal.
SAME = 1e-11
# The largest weight of a policy in a mixture that counts as rounding.
ROUNDED = 1e-14
# The largest relative gap that counts as rounding.
ACCEPTABLE = 1e-7
# The bound is a difference of nearly equal numbers: its error relative to their size.
CANCELLED = 1e-10
# Where the opening policy visits this share of the states, policies are improved from stored ones (`columns`).
SPREAD = 0.25
# Prices lie between those of the best bound, with this share, and those of the master problem.
INWARD = 0.7
# Of many columns, the latest and those with more than a tiny weight are kept.
RECENT, TINY = 30, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The best policy at some prices, a certified upper bound on its value, and the plan to start the next one from."""

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
    improver: Improver | None = None

    @property
    def counts(self) -> Vector:
        """(d,), the feature expectation of the mixture."""
        return self.point.weights @ _matrix(self.columns)

    @property
    def gap(self) -> float:
        """The largest possible distance of the value from the optimal one."""
        return self.point.value - self.bound

    def occupancy(self, domain: Domain) -> Vector:
        """(C,), the mixture of the policies' occupancies, which are recomputed rather than stored."""
        if self.improver is not None:
            return self.improver.occupancy(self.columns, self.point.weights)
        mdp = domain.mdp
        operators = bellman_operators(mdp, np.zeros(mdp.n_choices))
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(self.point.weights, self.columns, strict=True):
            if weight > 0:
                visits[column.choice] += weight * operators.visits(column.choice)
        return visits


def price_out(domain: Domain, price: Vector, start: Plan | None) -> Priced:
    """The policy with the largest `price @ mu`, and an upper bound over all policies."""
    mdp, d_r = domain.mdp, domain.n_reward
    parts = (domain.reward_features @ price[:d_r], domain.preference_features @ price[d_r:])
    # If both are on states, add them before they are repeated for every choice.
    both = parts if len(parts[0]) == len(parts[1]) else tuple(per_choice(mdp, part) for part in parts)
    reward = per_choice(mdp, both[0] + both[1])
    operators = bellman_operators(mdp, reward)
    # Close to double precision, because the bound is compared with gaps near rounding.
    scale = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
    plan = plan_hard(operators, mdp, accuracy=1e-11 * scale, start=start)
    # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
    best = float(np.einsum("s,s->", mdp.initial, plan.value)) + plan.error_bound
    if mdp.n_states > COMPILED_ABOVE and np.count_nonzero(mdp.initial) > SPREAD * mdp.n_states:
        return Priced(Improver(domain).evaluate(plan.choice, None), best, plan)
    visits = operators.visits(plan.choice)
    both_features = (domain.reward_features, domain.preference_features)
    counts = np.concatenate([_counts(features, plan.choice, visits) for features in both_features])
    return Priced(Column(plan.choice, counts, int(np.count_nonzero(visits))), best, plan)


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

    columns: policies to start from, some mixture of which satisfies the limits. plan: that of the last pricing step.
    """
    if domain.mdp.n_states > COMPILED_ABOVE and columns[0].n_reached > SPREAD * domain.mdp.n_states:
        return _stabilised(domain, objective, limits, columns, plan, tolerance, good_enough)
    bound, largest = -np.inf, _largest(domain)
    for n_rounds in range(1, MAX_ROUNDS + 1):
        point = _master(objective, limits, columns)
        priced = price_out(domain, point.price, plan)
        plan, bound = priced.plan, max(bound, point.offset - priced.best)
        mixture = Mixture(columns, plan, point, bound, n_rounds, Ended.CONVERGED)
        if mixture.gap <= tolerance * (1 + abs(point.value)) or point.value <= good_enough:
            return mixture
        if _is_known(largest, priced.column, columns):
            return _last(mixture)
        watch.report("rounds of decomposition", n_rounds, mixture.gap, replace(mixture, ended=Ended.TIME_LIMIT))
        columns = (*columns, priced.column)
    raise _unfinished(mixture)


def _stabilised(
    domain: Domain,
    objective: Objective,
    limits: HalfSpaces,
    columns: tuple[Column, ...],
    plan: Plan,
    tolerance: float,
    good_enough: float,
) -> Mixture:
    """Decomposition for policies that visit most states: many rounds, each cheap.

    Prices are taken between those of the best bound so far and those of the master problem (in-out separation). A
    pricing step ends as soon as its price cannot improve the bound by much; only near the end is it exact. Where it
    finds nothing for the master problem, the master's own price decides.
    """
    improver, bound = Improver(domain), -np.inf
    centre: tuple[Vector, float] | None = None
    for n_rounds in range(1, MAX_ROUNDS + 1):
        columns, point = _pruned(columns, _master(objective, limits, columns))
        mixed = columns
        for share in (0.0,) if centre is None else (INWARD, 0.0):
            price, offset = point.price, point.offset
            if centre is not None:
                price, offset = (1 - share) * price + share * centre[0], (1 - share) * offset + share * centre[1]
            known = float((_matrix(columns) @ price).max())
            enough = known + 0.5 * max(offset - bound - known, 0.0)
            improved = improver.improve(price, columns, enough)
            if offset - improved.best > bound:
                bound, centre = offset - improved.best, (price, offset)
            mixture = Mixture(mixed, plan, point, bound, n_rounds, Ended.CONVERGED, improver)
            if mixture.gap <= tolerance * (1 + abs(point.value)) or point.value <= good_enough:
                return mixture
            new = [column for column in improved.columns if not _is_known(improver.largest, column, columns)]
            earned = float((_matrix(columns) @ point.price).max())
            columns = with_stored((*columns, *new))
            if any(float(column.counts @ point.price) > earned for column in new):
                break
        else:
            if not new:
                return _last(mixture)
        watch.report("rounds of decomposition", n_rounds, mixture.gap, replace(mixture, ended=Ended.TIME_LIMIT))
    raise _unfinished(mixture)


def _master(objective: Objective, limits: HalfSpaces, columns: tuple[Column, ...]) -> Point:
    """The best mixture of the columns within the limits."""
    simplex = Hull(_matrix(columns).T, np.ones((1, len(columns))), np.ones(1))
    return _on_simplex(objective.solve(simplex, limits))


def _pruned(columns: tuple[Column, ...], point: Point) -> tuple[tuple[Column, ...], Point]:
    """Without the columns that are neither recent nor used, so that master problems stay small."""
    kept = [k for k in range(len(columns)) if k >= len(columns) - RECENT or point.weights[k] > TINY]
    weights = np.where(point.weights > TINY, point.weights, 0.0)[kept]
    return tuple(columns[k] for k in kept), replace(point, weights=weights / weights.sum())


def _last(mixture: Mixture) -> Mixture:
    """The mixture when no better policy was found: its gap is rounding, or else `NotConverged`."""
    point, gap = mixture.point, mixture.gap
    if gap > max(ACCEPTABLE * (1 + abs(point.value)), CANCELLED * abs(point.offset)):
        message = f"decomposition found no better policy, but the relative gap is still {gap:.3g}"
        best = replace(mixture, ended=Ended.SETTLED)
        raise NotConverged(message, residual=gap, n_steps=mixture.n_rounds, answer=best)
    return replace(mixture, ended=Ended.ROUNDING)


def _unfinished(mixture: Mixture) -> NotConverged:
    message = f"after {MAX_ROUNDS} rounds of decomposition the relative gap is still {mixture.gap:.3g}"
    best = replace(mixture, ended=Ended.STEP_LIMIT)
    return NotConverged(message, residual=mixture.gap, n_steps=MAX_ROUNDS, answer=best)


def _is_known(largest: Vector, column: Column, columns: tuple[Column, ...]) -> bool:
    """Whether the master problem already has this expectation, up to rounding."""
    apart = np.abs(_matrix(columns) - column.counts)
    return bool((apart <= SAME * largest).all(axis=1).any())


def _largest(domain: Domain) -> Vector:
    """(d,), the largest size of each feature's expectation."""
    both = (domain.reward_features, domain.preference_features)
    return np.concatenate([np.abs(endless(domain.mdp, features)).max(axis=0, initial=0.0) for features in both])


def _counts(features: Matrix, choice: Indices, visits: Vector) -> Vector:
    """z @ features for visits (S,) to the one choice of each state."""
    if len(visits) > COMPILED_ABOVE:
        # A deterministic policy visits few of many states.
        visited = np.flatnonzero(visits)
        choice, here = choice[visited], visits[visited]
        return here @ features[visited if len(features) == len(visits) else choice]
    return visits @ (features if len(features) == len(visits) else features[choice])


def _matrix(columns: tuple[Column, ...]) -> Matrix:
    """(K, d), one policy's expectation per row."""
    return np.array([column.counts for column in columns])


def _on_simplex(point: Point) -> Point:
    """The point with its weights rounded onto the simplex: none negative, sum one.

    A weight that is no more than rounding is zero, so that a policy which never arrives is no part of the mixture.
    """
    weights = np.where(point.weights > ROUNDED, point.weights, 0.0)
    return replace(point, weights=weights / weights.sum())
