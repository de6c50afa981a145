"""Policies as columns of a master problem, and two ways to find them at prices of the features.

A *planner* solves one MDP for each price, from the last plan, and keeps nothing of a policy but its choices and its
expectation. It serves where policies visit few of many states.

An *improver* stores policies. For one choice per state, F = A^-1 features, (S, d), has the expected feature counts from
every state, where A = I minus the discounted moves. Its mean over the initial distribution is the policy's feature
expectation, and F @ price is its value at *any* price. So policy iteration at a new price starts, without a linear
system, from the policy that is best there among all that were evaluated before, and each of its steps gives one more
column. The resolvent of the chain gives F; where it takes iterations, these start from the F of the policy before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tutelage import outcomes
from tutelage.arrays import EPSILON, Indices, Matrix, Vector
from tutelage.bellman.equations import COMPILED_ABOVE, HardOptimum, bellman_operators, plan_hard
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.chains.resolvent import (
    any_choice,
    choice_resolvent,
    has_dense_moves,
    has_short_moves,
    policy_resolvent,
    typical_method,
)
from tutelage.constrained.groups import StartGroups, start_groups
from tutelage.constrained.problem import sizes
from tutelage.model.mdp import Domain, per_choice
from tutelage.model.policy import first_maximum, sum_by_state

# The most memory for expected counts, in numbers; at least two policies are kept.
MOST_STORED = 2**26
# The share of the states that a policy visits, or starts in, above which policies are stored.
SPREAD = 0.25
# Where policies are evaluated quickly, sweeps save time only while this share of the states changes its choice.
MANY = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A policy, one choice per state (S,), and its feature expectation (d,).

    n_reached: the states that it visits. ahead: (S, d), its expected counts from each state, where they are stored.
    policy: (C,), the probabilities of a policy with several choices in some state; `choice` then has the most probable
    ones. parts: (K, d), the parts of the expectation from each group of starts, where there are several groups.
    """

    choice: Indices
    counts: Vector
    n_reached: int = 0
    ahead: Matrix | None = None
    policy: Vector | None = None
    parts: Matrix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The columns found at some price, and a certified upper bound on the value of any policy there.

    is_exact: whether the last one is the best policy at the price.
    """

    columns: tuple[Column, ...]
    best: float
    is_exact: bool


@dataclass(eq=False)
class Planner:
    """Plans for every price, from the last plan.

    plan: the last one; None before the first. is_quick: whether a policy is evaluated in little more time than a sweep
    over the states. is_stored: whether policies are stored, so that a second price in a round is cheap.
    """

    domain: Domain
    plan: HardOptimum | None = None
    is_stored: ClassVar[bool] = False

    @property
    def is_quick(self) -> bool:
        return False

    @cached_property
    def largest(self) -> Vector:
        """(d,), the largest |mu_j| of any policy."""
        return sizes(self.domain)

    @cached_property
    def features(self) -> Matrix:
        """(S, d), or (C, d) where either kind of features is on choices."""
        both = (self.domain.reward_features, self.domain.preference_features)
        if len(both[0]) != len(both[1]):
            both = (per_choice(self.domain.mdp, both[0]), per_choice(self.domain.mdp, both[1]))
        return np.hstack(both)

    def price_out(
        self,
        price: Vector,
        columns: Sequence[Column] = (),
        enough: float = np.inf,
        known: float = 0.0,
        share: float = 0.0,
    ) -> Priced:
        """Policies that are better at a price (d,) than the columns known, and an upper bound over all policies.

        It may end early: where a policy earns `enough`, or its bound is within a share of the gap that the bound leaves
        above `known`.
        """
        mdp, reward = self.domain.mdp, per_choice(self.domain.mdp, self.features @ price)
        # Close to double precision: bounds are compared with gaps near rounding.
        accuracy = RELATIVE_ACCURACY * max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
        self.plan = plan = plan_hard(mdp, reward, accuracy=accuracy, start=self.plan)
        # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
        best = float(np.einsum("s,s->", mdp.initial, plan.value)) + plan.error_bound
        visits = choice_resolvent(mdp, plan.choice).visits(mdp.initial)
        visited = np.flatnonzero(visits)
        here = visited if len(self.features) == mdp.n_states else plan.choice[visited]
        counts = visits[visited] @ self.features[here]
        return Priced((Column(plan.choice, counts, len(visited)),), best, is_exact=True)

    def kept(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns, with what is stored of them."""
        return columns

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        """(C,), the occupancy of a mixture. weights: (n, K), of each column for each group of starts."""
        mdp, total = self.domain.mdp, np.zeros(self.domain.mdp.n_choices)
        for column, shares in zip(columns, weights, strict=True):
            if shares.any() and column.policy is not None:
                total += per_choice(mdp, self.visits(column, shares)) * column.policy
            elif shares.any():
                total[column.choice] += self.visits(column, shares)
        return total

    def visits(self, column: Column, shares: Vector) -> Vector:
        """(S,), the visits of a column times its weight for each group of starts."""
        mdp = self.domain.mdp
        return np.asarray(shares[0] * choice_resolvent(mdp, column.choice).visits(mdp.initial))


@dataclass(eq=False)
class Improver(Planner):
    """Policy iteration from stored columns."""

    is_stored: ClassVar[bool] = True

    def price_out(
        self,
        price: Vector,
        columns: Sequence[Column] = (),
        enough: float = np.inf,
        known: float = 0.0,
        share: float = 0.0,
    ) -> Priced:
        """Policy iteration at a price, from the best stored column, until a policy earns `enough` or none earns more.

        The bound holds in every case: V* <= V + max |B V - V| / (1 - discount), with an allowance for rounding.
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
        while True:
            earned = float(column.counts @ price)
            value, backed, moved = self._greedy(operators, value, column.choice, solved / mdp.steps, is_local)
            error = (float(np.abs(backed - value).max()) + 4 * EPSILON * float(np.abs(value).max())) * mdp.steps
            best = min(best, float(np.einsum("s,s->", mdp.initial, value)) + error)
            # A policy with several choices differs from its most probable ones.
            if column.policy is None and np.array_equal(moved, column.choice):
                return Priced(tuple(better), best, is_exact=True)
            if (better and earned >= enough) or best - earned <= share * max(best - known, 0.0):
                return Priced(tuple(better), best, is_exact=False)
            outcomes.report("policy iterations", len(better) + 1, error)
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

    def _greedy(
        self, operators: Any, value: Vector, choice: Indices, tolerance: float, is_local: bool
    ) -> tuple[Vector, Vector, Indices]:
        """A value V from the given one to the optimal one, B V, and the choices that are greedy to V."""
        slack = (4 * EPSILON if self.is_exact else 0.1 * RELATIVE_ACCURACY) * float(np.abs(value).max())
        if is_local:
            backed, moved = operators.hard_backup(value, choice, slack)
            if np.count_nonzero(moved != choice) <= MANY * len(value):
                return value, backed, moved
        # Sweeps raise the value of a policy, so a policy that is greedy to the result earns at least as much. More
        # than two pairs improve a policy less than its successor does.
        value = operators.sweep(value, tolerance, 2)
        return value, *operators.hard_backup(value, choice, slack)

    def kept(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return with_stored(columns)

    @cached_property
    def groups(self) -> StartGroups | None:
        """Groups of starts, where there are many and policies are evaluated by a factorisation.

        Where moves are dense, chains forget their start, and a mixture for each group gains nothing.
        """
        mdp = self.domain.mdp
        return start_groups(mdp, in_order=has_short_moves(mdp)) if self.is_exact and not has_dense_moves(mdp) else None

    @property
    def is_exact(self) -> bool:
        """Whether policies are evaluated by a factorisation, not by iterations."""
        return typical_method(self.domain.mdp) != "iterations"

    @property
    def is_quick(self) -> bool:
        return typical_method(self.domain.mdp) == "components"

    def evaluate(self, choice: Indices, near: Column | None) -> Column:
        """The column of a policy, with its expected counts. near: a similar column, as a start for iterations."""
        mdp = self.domain.mdp
        here = self.features if len(self.features) == mdp.n_states else self.features[choice]
        start = None if near is None else near.ahead
        return self._column(choice, None, choice_resolvent(mdp, choice).values(here, start))

    def evaluate_policy(self, policy: Vector) -> Column:
        """The column of a policy (C,) that may have several choices in a state."""
        mdp, here = self.domain.mdp, self.features
        if len(here) != mdp.n_states:
            here = sum_by_state(mdp, policy[:, None] * here)
        return self._column(first_maximum(mdp, policy), policy, policy_resolvent(mdp, policy).values(here))

    def _column(self, choice: Indices, policy: Vector | None, ahead: Matrix) -> Column:
        """The column of a policy from its expected counts (S, d)."""
        parts = None if self.groups is None else self.groups.sums(ahead)
        counts = np.einsum("s,sd->d", self.domain.mdp.initial, ahead) if parts is None else parts.sum(axis=0)
        return Column(choice, counts, len(ahead), ahead, policy, parts)

    def visits(self, column: Column, shares: Vector) -> Vector:
        mdp = self.domain.mdp
        starts = mdp.initial * (shares[0] if self.groups is None or len(shares) == 1 else shares[self.groups.of_state])
        if column.policy is None:
            return choice_resolvent(mdp, column.choice).visits(starts)
        return policy_resolvent(mdp, column.policy).visits(starts)


def with_stored(columns: tuple[Column, ...], most: int = MOST_STORED) -> tuple[Column, ...]:
    """The columns. Only the last ones keep their expected counts: at most this many numbers, but two columns."""
    stored = [k for k, column in enumerate(columns) if column.ahead is not None]
    size = max((column.ahead.size for column in columns if column.ahead is not None), default=1)
    dropped = set(stored[: max(len(stored) - max(most // size, 2), 0)])
    return tuple(replace(column, ahead=None) if k in dropped else column for k, column in enumerate(columns))


def opened(domain: Domain, price: Vector) -> tuple[Planner, tuple[Column, ...]]:
    """The best policy at a price, and the pricer to go on with: policies are stored where each visits most states."""
    mdp = domain.mdp
    if np.isinf(mdp.horizon):
        # At another price going on may pay.
        price = np.zeros_like(price)
    improver = Improver(domain)
    is_spread = mdp.n_states > COMPILED_ABOVE and np.count_nonzero(mdp.initial) > SPREAD * mdp.n_states
    if is_spread and improver.is_quick:
        first = improver.evaluate(mdp.first_choice[:-1] if np.isfinite(mdp.horizon) else any_choice(mdp), None)
        return improver, (first, *improver.price_out(price, [first]).columns)[-1:]
    planner = Planner(domain)
    columns = planner.price_out(price).columns
    if mdp.n_states <= COMPILED_ABOVE or columns[0].n_reached <= SPREAD * mdp.n_states:
        return planner, columns
    return improver, (improver.evaluate(columns[0].choice, None),)
