"""Policies as columns of a master problem, and two ways to find them at prices of the features.

A *planner* solves one MDP for each price, from the last plan, and keeps nothing of a policy but its choices and its
expectation. It serves where policies visit few of many states.

An *improver* stores policies. For one choice per state, F = A^-1 features, (S, d), has the expected feature counts from
every state, where A = I minus the discounted moves. Its mean over the initial distribution is the policy's feature
expectation, and F @ price is its value at *any* price: policy iteration starts from the policy that is best there, and
each of its steps gives one more column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from tutelage import outcomes
from tutelage.arrays import EPSILON, SMALLEST, Indices, Matrix, SparseRows, Vector, max_abs
from tutelage.bellman.equations import COMPILED_ABOVE, HardOptimum, bellman_operators, plan_hard
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.chains.resolvent import any_choice, choice_resolvent, choice_visits, has_dense_moves, typical_method
from tutelage.constrained.groups import start_groups
from tutelage.constrained.problem import sizes
from tutelage.model.mdp import Domain, combined_features, per_choice

# The share of the states that a policy visits, or starts in, above which policies are stored.
SPREAD = 0.25
# The share of its value that the first stored policy may miss of the optimum.
OPENING = 0.5


@dataclass(frozen=True, eq=False)
class Column:
    """A policy, one choice per state (S,), and its feature expectation in parts (K, d), one for each group of starts.

    counts: (d,), the sum of the parts. ahead: (S, d), its expected counts from each state, where they are stored.
    """

    choice: Indices
    parts: Matrix
    ahead: Matrix | None = None

    @cached_property
    def counts(self) -> Vector:
        return np.asarray(self.parts.sum(axis=0))


Columns: TypeAlias = tuple[Column, ...]


class Priced(NamedTuple):
    """The columns found at some price, and a certified upper bound on the value of any policy there."""

    columns: Columns
    best: float


@dataclass(eq=False)
class Planner:
    """Plans for every price, from the last plan, if there is one."""

    domain: Domain
    plan: HardOptimum | None = None

    @cached_property
    def largest(self) -> Vector:
        """(d,), the largest |mu_j| of any policy."""
        return sizes(self.domain)

    @cached_property
    def features(self) -> Matrix:
        """(S, d), or (C, d) where either kind of features is on choices."""
        return combined_features(self.domain)

    def price_out(
        self, price: Vector, columns: Sequence[Column] = (), known: float = 0.0, share: float = 0.0
    ) -> Priced:
        """Policies that are better at a price (d,) than the columns known, and an upper bound over all policies.

        It may end early: where the gap at this price is at most `share` of what the bound exceeds `known` by.
        """
        mdp = self.domain.mdp
        reward = per_choice(mdp, self.features @ price)
        # Close to double precision: bounds are compared with gaps near rounding.
        accuracy = RELATIVE_ACCURACY * max(max_abs(reward), SMALLEST)
        self.plan = plan = plan_hard(mdp, reward, accuracy=accuracy, start=self.plan)
        # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
        best = float(np.einsum("s,s->", mdp.initial, plan.value)) + plan.error_bound
        visits = choice_visits(mdp, plan.choice)
        visited = np.flatnonzero(visits)
        here = visited if len(self.features) == mdp.n_states else plan.choice[visited]
        counts = visits[visited] @ self.features[here]
        return Priced((Column(plan.choice, counts[None]),), best)

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        """(C,), the occupancy of a mixture. weights: (n, K), of each column for each group of starts."""
        total = np.zeros(self.domain.mdp.n_choices)
        for column, shares in zip(columns, weights, strict=True):
            if shares.any():
                total[column.choice] += self.visits(column, shares)
        return total

    def visits(self, column: Column, shares: Vector) -> Vector:
        """(S,), the visits of a column times its weight for each group of starts."""
        return np.asarray(shares[0] * choice_visits(self.domain.mdp, column.choice))


@dataclass(eq=False)
class Improver(Planner):
    """Policy iteration from stored columns, with which a second price in a round is cheap.

    has_groups: whether each group of starts has a part of a column.
    """

    has_groups: bool = True

    def price_out(
        self, price: Vector, columns: Sequence[Column] = (), known: float = 0.0, share: float = 0.0
    ) -> Priced:
        """Policy iteration at a price, from the best stored column, until its bound is close or no policy earns more.

        The bound holds in every case: V* <= V + max |B V - V| / (1 - discount), with an allowance for rounding.
        """
        mdp = self.domain.mdp
        reward = per_choice(mdp, self.features @ price)
        operators = bellman_operators(mdp, reward)
        stored = [column for column in columns if column.ahead is not None] or [self.evaluate(columns[-1].choice, None)]
        column = max(stored, key=lambda known: known.counts @ price)
        # A policy that follows in each state the column that is best from there on earns at least this.
        value = np.max([np.asarray(known.ahead) @ price for known in stored], axis=0)
        better: list[Column] = []
        best = np.inf
        solved = RELATIVE_ACCURACY * max_abs(reward)
        rounding = 4 * EPSILON if self.is_exact else 0.1 * RELATIVE_ACCURACY
        while True:
            earned = column.counts @ price
            # Sweeps raise the value of a policy, so a policy that is greedy to the result earns at least as much. More
            # than two pairs improve a policy less than its successor does.
            value = operators.sweep(value, solved / mdp.steps, 2)
            backed, moved = operators.hard_backup(value, column.choice, rounding * max_abs(value))
            error = (max_abs(backed - value) + 4 * EPSILON * max_abs(value)) * mdp.steps
            best = min(best, float(np.einsum("s,s->", mdp.initial, value)) + error)
            if np.array_equal(moved, column.choice) or best - earned <= share * max(best - known, 0.0):
                break
            outcomes.report("policy iterations", len(better) + 1, error)
            next_column = self.evaluate(moved, column)
            if next_column.counts @ price <= earned:
                # Policies improve strictly, so this one differs by rounding only.
                break
            column = next_column
            value = np.asarray(column.ahead) @ price
            better.append(column)
            if error <= solved:
                break
        return Priced(tuple(better), best)

    @cached_property
    def groups(self) -> SparseRows | None:
        """Groups of starts, where there are many and policies are evaluated by a factorisation.

        Where moves are dense, chains forget their start, and a mixture for each group gains nothing.
        """
        mdp = self.domain.mdp
        if not self.has_groups or not self.is_exact or has_dense_moves(mdp):
            return None
        return start_groups(mdp)

    @property
    def is_exact(self) -> bool:
        """Whether policies are evaluated by a factorisation, not by iterations."""
        return typical_method(self.domain.mdp) != "iterations"

    def evaluate(self, choice: Indices, near: Column | None) -> Column:
        """The column of a policy, with its expected counts. near: a similar column, as a start for iterations."""
        mdp = self.domain.mdp
        here = self.features if len(self.features) == mdp.n_states else self.features[choice]
        ahead = choice_resolvent(mdp, choice).values(here, None if near is None else near.ahead)
        if self.groups is None:
            return Column(choice, np.einsum("s,sd->d", mdp.initial, ahead)[None], ahead)
        return Column(choice, self.groups @ ahead, ahead)

    def visits(self, column: Column, shares: Vector) -> Vector:
        mdp = self.domain.mdp
        starts = mdp.initial * shares[0] if self.groups is None else shares @ self.groups
        return choice_resolvent(mdp, column.choice).visits(starts)


def opened(domain: Domain, price: Vector, *, has_groups: bool) -> tuple[Planner, Columns]:
    """A good policy at a price, and the pricer to go on with: policies are stored where each visits most states."""
    mdp = domain.mdp
    choice = any_choice(mdp)
    if np.isinf(mdp.horizon):
        # At another price going on may pay.
        price = np.zeros_like(price)
    n_visited = np.count_nonzero(choice_resolvent(mdp, choice).visits(mdp.initial))
    if mdp.n_states <= COMPILED_ABOVE or n_visited <= SPREAD * mdp.n_states:
        planner = Planner(domain)
        return planner, planner.price_out(price).columns
    improver = Improver(domain, has_groups=has_groups)
    first = improver.evaluate(choice, None)
    better = improver.price_out(price, [first], share=OPENING).columns
    return improver, better[-1:] or (first,)
