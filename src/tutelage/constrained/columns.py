"""Policies as columns of a master problem, found by policy iteration that starts from the best policy known.

For one choice per state, F = A^-1 features, (S, d), has the expected feature counts from every state, where A = I minus
the discounted moves. Its mean over the initial distribution is the policy's feature expectation, and F @ price is its
value at *any* price. So policy iteration at a new price starts, without a linear system, from the policy that is best
there among all that were evaluated before, and each of its steps gives one more column.

The resolvent of the chain (`chains.resolvent`) gives F; where it takes iterations, these start from the F of the policy
before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from tutelage import watch
from tutelage.arrays import EPSILON, Indices, Matrix, Vector
from tutelage.bellman.equations import COMPILED_ABOVE, HardOptimum, Operators, bellman_operators, plan_hard
from tutelage.chains.iterations import RELATIVE_ACCURACY
from tutelage.chains.resolvent import (
    NarrowBand,
    Resolvent,
    choice_resolvent,
    choice_visits,
    policy_resolvent,
    typical_resolvent,
)
from tutelage.constrained.problem import sizes
from tutelage.constrained.start_groups import StartGroups, start_groups
from tutelage.model.mdp import MDP, Domain, endless, per_choice
from tutelage.model.policy import first_maximum, sum_by_state

# The most memory for expected counts, in numbers; at least two policies are kept.
MOST_STORED = 2**26
# Up to this number of states the factors of the last columns are kept.
FEW_STATES, MOST_FACTORS = 20_000, 16
MAX_STEPS = 1_000
# The share of the states that are starts above which policies are stored.
SPREAD = 0.25
# The accuracy of a plan, relative to the largest reward.
PLANNED = 1e-11
# The least number of pairs of sweeps: more improve a policy less than its successor does.
FEW_PAIRS = 2
# Where policies are evaluated quickly, sweeps save time only while this share of the states changes its choice.
MANY = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A policy, one choice per state (S,), and its feature expectation (d,).

    n_reached: the states that it visits. ahead: (S, d), its expected counts from each state, where they are stored.
    visits: (S,), its visits to states, where they are stored. policy: (C,), the probabilities of a policy with several
    choices in some state; `choice` then has the most probable ones. parts: (K, d), the parts of the expectation from
    each group of starts, where there are several groups. inverse: of its chain, where the factors are stored.
    accuracy: of the counts, relative to the largest expected counts from any state.
    """

    choice: Indices
    counts: Vector
    n_reached: int = 0
    ahead: Matrix | None = None
    visits: Vector | None = None
    policy: Vector | None = None
    parts: Matrix | None = None
    inverse: Resolvent | None = None
    accuracy: float = RELATIVE_ACCURACY


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The columns found at some price, and a certified upper bound on the value of any policy there.

    is_exact: whether the last one is the best policy at the price.
    """

    columns: tuple[Column, ...]
    best: float
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Close:
    """Whether a bound is within a share of the gap that it leaves. known: a bound without a gap."""

    known: float
    share: float

    def __call__(self, bound: float, earned: float) -> bool:
        return bound - earned <= self.share * max(bound - self.known, 0.0)


# With this rule, policy iteration ends at the best policy.
EXACTLY = Close(0.0, 0.0)


class Pricer(Protocol):
    """Finds policies at prices of the features, for one domain. largest: (d,), the largest |mu_j| of any policy."""

    @property
    def domain(self) -> Domain: ...

    @property
    def largest(self) -> Vector: ...

    @property
    def is_quick(self) -> bool:
        """Whether a policy is evaluated in little more time than a sweep over the states."""

    def price_out(self, price: Vector, columns: Sequence[Column], enough: float, close: Close) -> Priced:
        """Policies that are better at a price (d,) than the columns known.

        It may end early: where a policy earns `enough`, or its bound is close to what it earns.
        """

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        """(C,), the occupancy of a mixture. weights: (n, K), of each column for each group of starts."""


@dataclass(eq=False)
class Planner:
    """Plans for every price, from the last plan. Nothing of a policy is kept but its choices and its expectation.

    plan: the last one; None before the first.
    """

    domain: Domain
    plan: HardOptimum | None = None
    is_quick = False

    @cached_property
    def largest(self) -> Vector:
        return sizes(self.domain)

    def price_out(
        self, price: Vector, columns: Sequence[Column] = (), enough: float = np.inf, close: Close = EXACTLY
    ) -> Priced:
        """The policy with the largest `price @ mu`, and an upper bound over all policies."""
        domain = self.domain
        self.plan = plan = _planned(domain, price, self.plan)
        # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
        best = float(np.einsum("s,s->", domain.mdp.initial, plan.value)) + plan.error_bound
        visits = choice_visits(domain.mdp, plan.choice)
        both_features = (domain.reward_features, domain.preference_features)
        counts = np.concatenate([_counts(features, plan.choice, visits) for features in both_features])
        return Priced((Column(plan.choice, counts, int(np.count_nonzero(visits))),), best, is_exact=True)

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        mdp = self.domain.mdp
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(weights[:, 0], columns, strict=True):
            if weight > 0:
                visits[column.choice] += weight * choice_visits(mdp, column.choice)
        return visits


def _planned(domain: Domain, price: Vector, start: HardOptimum | None) -> HardOptimum:
    """The optimum at a price, close to double precision, because the bound is compared with gaps near rounding."""
    mdp, d_r = domain.mdp, domain.n_reward
    parts = (domain.reward_features @ price[:d_r], domain.preference_features @ price[d_r:])
    # If both are on states, add them before they are repeated for every choice.
    both = parts if len(parts[0]) == len(parts[1]) else tuple(per_choice(mdp, part) for part in parts)
    reward = per_choice(mdp, both[0] + both[1])
    largest = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
    return plan_hard(mdp, reward, accuracy=PLANNED * largest, start=start)


def _counts(features: Matrix, choice: Indices, visits: Vector) -> Vector:
    """z @ features for visits (S,) to the one choice of each state; a policy may visit few of many states."""
    visited = np.flatnonzero(visits)
    return visits[visited] @ features[visited if len(features) == len(visits) else choice[visited]]


@dataclass(frozen=True, eq=False)
class Improver:
    """Policy iteration for one domain."""

    domain: Domain

    @cached_property
    def features(self) -> Matrix:
        """(S, d), or (C, d) where either kind of features is on choices."""
        both = (self.domain.reward_features, self.domain.preference_features)
        if len(both[0]) != len(both[1]):
            both = (per_choice(self.domain.mdp, both[0]), per_choice(self.domain.mdp, both[1]))
        return np.hstack(both)

    @property
    def is_on_states(self) -> bool:
        """Whether all features are on states."""
        return len(self.features) == self.domain.mdp.n_states

    def price_out(self, price: Vector, columns: Sequence[Column], enough: float, close: Close) -> Priced:
        """Policy iteration at a price, from the best stored column, until a policy earns `enough` or none earns more.

        It also ends where its bound is close to what the policy earns. The bound holds in every case:
        V* <= V + max |B V - V| / (1 - discount), with an allowance for rounding.
        """
        mdp = self.domain.mdp
        reward = per_choice(mdp, self.features @ price)
        operators = bellman_operators(mdp, reward)
        stored = [column for column in columns if column.ahead is not None] or [self.evaluate(columns[-1].choice, None)]
        column = max(stored, key=lambda known: float(known.counts @ price))
        # A policy that follows in each state the column that is best from there on earns at least this.
        value = np.max([np.asarray(known.ahead) @ price for known in stored], axis=0)
        better: list[Column] = []
        solved = RELATIVE_ACCURACY * float(np.abs(reward).max())
        best, is_local = np.inf, self.is_quick
        for n_steps in range(1, MAX_STEPS + 1):
            earned = float(column.counts @ price)
            value, backed, moved = self._greedy(operators, value, column.choice, solved / mdp.horizon, is_local)
            error = (float(np.abs(backed - value).max()) + 4 * EPSILON * float(np.abs(value).max())) * mdp.horizon
            best = min(best, float(np.einsum("s,s->", mdp.initial, value)) + error)
            # A policy with several choices differs from its most probable ones.
            if column.policy is None and np.array_equal(moved, column.choice):
                return Priced(tuple(better), best, is_exact=True)
            if (better and earned >= enough) or close(best, earned):
                break
            watch.report("policy iterations", n_steps, error)
            next_column = self.evaluate(moved, column)
            if float(next_column.counts @ price) > earned:
                column, value = next_column, np.asarray(next_column.ahead) @ price
                better.append(column)
                if error <= solved:
                    return Priced(tuple(better), best, is_exact=True)
            elif is_local:
                # The states that changed are not reached: sweeps carry their values on to others.
                is_local = False
            else:
                # Policies improve strictly, so this one differs by rounding only.
                return Priced(tuple(better), best, is_exact=True)
        return Priced(tuple(better), best, is_exact=False)

    def opening(self, price: Vector) -> tuple[Column, ...]:
        """The best policy at a price, without any to start from."""
        if self.is_quick:
            first = self.evaluate(self.domain.mdp.first_choice[:-1], None)
            return (first, *self.price_out(price, [first], np.inf, EXACTLY).columns)[-1:]
        return (self.evaluate(_planned(self.domain, price, None).choice, None),)

    def _greedy(
        self, operators: Operators, value: Vector, choice: Indices, tolerance: float, is_local: bool
    ) -> tuple[Vector, Vector, Indices]:
        """A value V from the given one to the optimal one, B V, and the choices that are greedy to V."""
        slack = (4 * EPSILON if self.is_exact else 0.1 * RELATIVE_ACCURACY) * float(np.abs(value).max())
        if is_local:
            backed, moved = operators.hard_backup(value, choice, slack)
            if np.count_nonzero(moved != choice) <= MANY * len(value):
                return value, backed, moved
        # Sweeps raise the value of a policy, so a policy that is greedy to the result earns at least as much.
        value = operators.sweep(value, tolerance, FEW_PAIRS)
        return value, *operators.hard_backup(value, choice, slack)

    @cached_property
    def largest(self) -> Vector:
        """(d,), the largest size of each feature's expectation."""
        return np.asarray(np.abs(endless(self.domain.mdp, self.features)).max(axis=0, initial=0.0))

    @cached_property
    def groups(self) -> StartGroups | None:
        """Groups of starts, where there are many and policies are evaluated by a factorisation."""
        mdp = self.domain.mdp
        return start_groups(mdp, in_order=isinstance(typical_resolvent(mdp), NarrowBand)) if self.is_exact else None

    @property
    def is_exact(self) -> bool:
        """Whether policies are evaluated by a factorisation, not by iterations."""
        return typical_resolvent(self.domain.mdp).is_exact

    @property
    def is_quick(self) -> bool:
        """Whether policies are evaluated in little more time than a sweep over the states."""
        return typical_resolvent(self.domain.mdp).is_quick

    def evaluate(self, choice: Indices, near: Column | None, accuracy: float = RELATIVE_ACCURACY) -> Column:
        """The column of a policy, with its expected counts. near: a similar column, as a start for iterations.

        accuracy: of its counts, where these take iterations.
        """
        mdp = self.domain.mdp
        here = self.features if len(self.features) == mdp.n_states else self.features[choice]
        return self._column(choice, None, choice_resolvent(mdp, choice), here, near, accuracy)

    def evaluate_policy(self, policy: Vector, near: Column | None, accuracy: float = RELATIVE_ACCURACY) -> Column:
        """The column of a policy (C,) that may have several choices in a state."""
        mdp = self.domain.mdp
        here = self.features
        if len(here) != mdp.n_states:
            here = sum_by_state(mdp, policy[:, None] * here)
        inverse = policy_resolvent(mdp, policy)
        return self._column(first_maximum(mdp, policy), policy, inverse, here, near, accuracy)

    def refined(self, column: Column) -> Column:
        """The same column with exact counts."""
        near = None if column.ahead is None else column
        if column.policy is None:
            return self.evaluate(column.choice, near)
        return self.evaluate_policy(column.policy, near)

    def _column(
        self,
        choice: Indices,
        policy: Vector | None,
        inverse: Resolvent,
        here: Matrix,
        near: Column | None,
        accuracy: float,
    ) -> Column:
        """The column of a policy from the resolvent of its chain and the features of its states, (S, d)."""
        ahead = inverse.values(here, None if near is None else near.ahead, accuracy)
        parts = None if self.groups is None else self.groups.sums(ahead)
        counts = np.einsum("s,sd->d", self.domain.mdp.initial, ahead) if parts is None else parts.sum(axis=0)
        column = Column(choice, counts, len(ahead), ahead, None, policy, parts)
        if not inverse.is_exact:
            return replace(column, accuracy=accuracy)
        if inverse.is_quick:
            return column
        # With the factors or the visits, the visits of a mixture need no other factorisation.
        if len(ahead) <= FEW_STATES:
            return replace(column, inverse=inverse)
        return replace(column, visits=inverse.visits(self.domain.mdp.initial))

    def visits(self, column: Column) -> Vector:
        """(S,), the visits of a column to each state."""
        return column.visits if column.visits is not None else self._visits_from(self.domain.mdp.initial, column)

    def _visits_from(self, initial: Vector, column: Column) -> Vector:
        """(S,), the visits of a column from other starts."""
        if column.inverse is not None:
            return column.inverse.visits(initial)
        if column.policy is None:
            return choice_resolvent(self.domain.mdp, column.choice).visits(initial)
        return policy_resolvent(self.domain.mdp, column.policy).visits(initial)

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        """(C,), the occupancy of a mixture. weights: (n, K), of each column for each group of starts."""
        from tutelage import compiling

        mdp = self.domain.mdp
        occupancy = np.zeros(mdp.n_choices)
        used = [(column, shares) for column, shares in zip(columns, weights, strict=True) if shares.any()]
        for (column, _), visits in zip(used, compiling.map_in_threads(self._shared_visits, used), strict=True):
            if column.policy is None:
                occupancy[column.choice] += visits
            else:
                occupancy += per_choice(mdp, visits) * column.policy
        return occupancy

    def _shared_visits(self, used: tuple[Column, Vector]) -> Vector:
        """(S,), the visits of a column times its weight for each group of starts."""
        column, shares = used
        if self.groups is None or len(shares) == 1:
            return np.asarray(shares[0] * self.visits(column))
        return self._visits_from(self.domain.mdp.initial * shares[self.groups.of_state], column)


def is_spread(mdp: MDP) -> bool:
    """Whether there are many states, and many of them are starts, so that a policy visits most of them."""
    return mdp.n_states > COMPILED_ABOVE and bool(np.count_nonzero(mdp.initial) > SPREAD * mdp.n_states)


def opened(domain: Domain, price: Vector) -> tuple[Pricer, tuple[Column, ...]]:
    """The best policy at a price, and the pricer to go on with: policies are stored where each visits most states."""
    if is_spread(domain.mdp):
        improver = Improver(domain)
        return improver, improver.opening(price)
    planner = Planner(domain)
    columns = planner.price_out(price).columns
    if domain.mdp.n_states > COMPILED_ABOVE and columns[0].n_reached > SPREAD * domain.mdp.n_states:
        improver = Improver(domain)
        return improver, (improver.evaluate(columns[0].choice, None),)
    return planner, columns


def with_stored(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns. The last ones keep their factors and, within MOST_STORED numbers, their expected counts."""
    stored = [k for k, column in enumerate(columns) if column.ahead is not None]
    if not stored:
        return columns
    size = max(column.ahead.size for column in columns if column.ahead is not None)
    dropped = set(stored[: max(len(stored) - max(MOST_STORED // size, 2), 0)])
    columns = tuple(replace(column, ahead=None) if k in dropped else column for k, column in enumerate(columns))
    is_old = [k < len(columns) - MOST_FACTORS and column.inverse is not None for k, column in enumerate(columns)]
    return tuple(replace(column, inverse=None) if old else column for old, column in zip(is_old, columns, strict=True))
