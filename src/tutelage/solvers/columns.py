"""Policies as columns of a master problem, found by policy iteration that starts from the best policy known.

For one choice per state, F = A^-1 features, (S, d), has the expected feature counts from every state, where A = I minus
the discounted moves. Its mean over the initial distribution is the policy's feature expectation, and F @ price is its
value at *any* price. So policy iteration at a new price starts, without a linear system, from the policy that is best
there among all that were evaluated before, and each of its steps gives one more column.

Where every choice has one successor (a road network), F is found along the paths; where all moves are short in the
order of the states (a queue), by a banded factorisation. Otherwise the chains of one MDP have the same kind of pattern:
if the first one has a cheap sparse factorisation, all are factorised, and else F is found by Krylov steps from the F of
the policy before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import solve_banded

from tutelage import watch
from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.mdp.chain import EPSILON, RELATIVE_ACCURACY, System, discounted_rows, factorised, has_cheap_factors
from tutelage.mdp.model import Domain, endless, per_choice
from tutelage.solvers.operators import bellman_operators

# The most memory for expected counts, in numbers; at least two policies are kept.
MOST_STORED = 2**26
MAX_STEPS = 1_000
# Moves over at most this many states, in their order: a banded factorisation is the fastest.
NARROW = 8


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A deterministic policy, one choice per state (S,), and its feature expectation (d,).

    ahead: (S, d), its expected counts from each state, where they are stored. n_reached: the states that it visits.
    """

    choice: Indices
    counts: Vector
    n_reached: int = 0
    ahead: Matrix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Improved:
    """The columns found at some price, and a certified upper bound on the value of any policy there."""

    columns: tuple[Column, ...]
    best: float


class Method(Enum):
    """How the linear systems of an MDP's chains are solved."""

    FOLLOW = "along the only move of each state"
    BANDED = "by a banded factorisation"
    FACTORS = "by a sparse factorisation"
    KRYLOV = "by Krylov steps"


@dataclass(frozen=True, eq=False)
class Improver:
    """Policy iteration for one domain. sparse_methods: FACTORS or KRYLOV, empty until the first chain was tried."""

    domain: Domain
    sparse_methods: list[Method] = field(default_factory=list)

    @cached_property
    def features(self) -> Matrix:
        """(S, d), or (C, d) where either kind of features is on choices."""
        both = (self.domain.reward_features, self.domain.preference_features)
        if len(both[0]) != len(both[1]):
            both = (per_choice(self.domain.mdp, both[0]), per_choice(self.domain.mdp, both[1]))
        return np.hstack(both)

    def improve(self, price: Vector, columns: Sequence[Column], enough: float) -> Improved:
        """Policy iteration at a price, from the best stored column, until a policy earns `enough` or none earns more.

        The bound holds in either case: V* <= V + max |B V - V| / (1 - discount), with an allowance for rounding.
        """
        mdp = self.domain.mdp
        operators = bellman_operators(mdp, per_choice(mdp, self.features @ price))
        stored = [column for column in columns if column.ahead is not None] or [self.evaluate(columns[-1].choice, None)]
        column = max(stored, key=lambda known: float(known.counts @ price))
        found: list[Column] = []
        accuracy = RELATIVE_ACCURACY * float(np.abs(operators.reward).max())
        best = np.inf
        for n_steps in range(1, MAX_STEPS + 1):
            earned = float(column.counts @ price)
            # Sweeps raise the value of a policy, so a policy that is greedy to the result earns at least as much.
            value = operators.sweep(np.asarray(column.ahead) @ price, accuracy / mdp.horizon)
            size = float(np.abs(value).max())
            slack = (0.1 * RELATIVE_ACCURACY if Method.KRYLOV in self.sparse_methods else 4 * EPSILON) * size
            backed, moved = operators.hard_backup(value, column.choice, slack)
            error = (float(np.abs(backed - value).max()) + 4 * EPSILON * size) * mdp.horizon
            best = min(best, float(np.einsum("s,s->", mdp.initial, value)) + error)
            if (found and earned >= enough) or np.array_equal(moved, column.choice):
                break
            watch.report("policy iterations", n_steps, error)
            better = self.evaluate(moved, column)
            if not float(better.counts @ price) > earned:
                # Policies improve strictly, so this one differs by rounding only.
                break
            column = better
            found.append(column)
            if error <= accuracy:
                break
        return Improved(tuple(found), best)

    @cached_property
    def largest(self) -> Vector:
        """(d,), the largest size of each feature's expectation."""
        return np.asarray(np.abs(endless(self.domain.mdp, self.features)).max(axis=0, initial=0.0))

    @cached_property
    def width(self) -> int:
        """The largest distance, in the order of states, of a move of any choice."""
        mdp = self.domain.mdp
        states = np.repeat(mdp.state_of_choice, np.diff(mdp.transition.indptr))
        return int(np.abs(mdp.transition.indices - states).max(initial=0))

    def evaluate(self, choice: Indices, near: Column | None) -> Column:
        """The column of a policy, with its expected counts. near: a similar column, as a start for iterations."""
        mdp = self.domain.mdp
        here = self.features if len(self.features) == mdp.n_states else self.features[choice]
        ahead = self._ahead(discounted_rows(mdp, choice), here, near)
        return Column(choice, np.einsum("s,sd->d", mdp.initial, ahead), mdp.n_states, ahead)

    def _ahead(self, moves: SparseRows, here: Matrix, near: Column | None) -> Matrix:
        """(S, d), F = (I - moves)^-1 here."""
        from tutelage import kernels

        n = moves.shape[0]
        if self.domain.mdp.transition.nnz == self.domain.mdp.n_choices:
            return kernels.follow(kernels.unsigned(moves.indices), moves.data, here)
        if self.width <= NARROW:
            band = np.zeros((2 * self.width + 1, n))
            states = np.repeat(np.arange(n), np.diff(moves.indptr))
            band[self.width + states - moves.indices, moves.indices] = -moves.data
            band[self.width] += 1.0
            return np.ascontiguousarray(solve_banded((self.width, self.width), band, here, overwrite_ab=True))
        if not self.sparse_methods:
            self.sparse_methods.append(Method.FACTORS if has_cheap_factors(moves) else Method.KRYLOV)
        if self.sparse_methods == [Method.FACTORS]:
            return factorised(sparse.eye_array(n, format="csr") - moves).values(here)
        return self._iterated(moves, here, near)

    def occupancy(self, columns: Sequence[Column], weights: Vector) -> Vector:
        """(C,), the mixture of the policies' occupancies, which are recomputed rather than stored."""
        mdp = self.domain.mdp
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(weights, columns, strict=True):
            if weight > 0:
                moves = discounted_rows(mdp, column.choice)
                if Method.KRYLOV in self.sparse_methods:
                    there = System(moves.T.tocsr(), mdp.largest_discount, 1).solve(mdp.initial, RELATIVE_ACCURACY)
                else:
                    there = factorised(sparse.eye_array(mdp.n_states, format="csr") - moves).visits(mdp.initial)
                visits[column.choice] += weight * there
        return visits

    def _iterated(self, moves: SparseRows, here: Matrix, near: Column | None) -> Matrix:
        """(S, d), F by Krylov steps on what is missing from the F of a similar policy."""
        from tutelage import kernels

        system = System(moves, self.domain.mdp.largest_discount, np.inf)
        start = np.zeros_like(here) if near is None or near.ahead is None else near.ahead
        missing = here + moves @ start - start
        size = np.maximum(np.abs(start).max(axis=0), np.abs(here).max(axis=0))
        most = np.abs(missing).max(axis=0) * self.domain.mdp.horizon
        _ = system.split
        tasks = [
            (np.ascontiguousarray(missing[:, j]), float(min(RELATIVE_ACCURACY * size[j] / most[j], 0.1)))
            for j in range(here.shape[1])
            if most[j] > 0
        ]
        solved = iter(kernels.map_in_threads(lambda task: system.solve(*task), tasks))
        change = [next(solved) if most[j] > 0 else missing[:, j] for j in range(here.shape[1])]
        return np.asarray(start + np.column_stack(change))


def with_stored(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, where only the last ones keep their expected counts, within MOST_STORED numbers."""
    stored = [k for k, column in enumerate(columns) if column.ahead is not None]
    if not stored:
        return columns
    size = max(column.ahead.size for column in columns if column.ahead is not None)
    dropped = set(stored[: max(len(stored) - max(MOST_STORED // size, 2), 0)])
    return tuple(replace(column, ahead=None) if k in dropped else column for k, column in enumerate(columns))
