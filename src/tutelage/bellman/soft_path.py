"""The soft optimum along a path of rewards, each from the last: what a gradient method with small steps asks for.

One compiled call corrects a nearby value by (I - discount P)^-1 (B V - V), and nearby visits by the transposed system,
until nothing is left to correct. With the factors of the current policy this is Newton's method; those of a nearby
policy still shrink the error at each step, and are kept for as long as they shrink it to a tenth. All policies of one
MDP share an order of elimination and the places of the factors' entries.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, Vector
from tutelage.bellman.backups import CompiledOperators, Problem, soft_backup_range
from tutelage.bellman.equations import first_value, solve_soft
from tutelage.chains.expectations import state_occupancy
from tutelage.chains.resolvent import BY_DEGREE, REORDERED_LIMIT, Factors, chain, sparse_factors
from tutelage.compiling import FASTMATH, compiled
from tutelage.model.mdp import MDP, choice_reward, per_choice
from tutelage.model.policy import uniform_policy

# States in the order of elimination, and their positions; row starts, diagonals and columns of L + U.
Pattern: TypeAlias = tuple[Indices, Indices, Indices, Indices, Indices]
# The most entries of the factors per state.
MOST_ENTRIES = 60
# The largest residual of a value, and of visits, relative to their size.
EXACT_RESIDUAL = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SoftPath:
    """The soft optimum at the last reward: value and visits (S,), policy (C,), and the factors of a recent policy.

    Where factors would have many entries, or corrections do not converge, `solve_soft` takes the next step.
    """

    mdp: MDP
    value: Vector
    policy: Vector
    visits: Vector
    factors: Vector | None

    @staticmethod
    def of(mdp: MDP) -> "SoftPath":
        """Before the first reward."""
        pattern, policy = _pattern(mdp), uniform_policy(mdp)
        first, factors = first_value(mdp, np.zeros(mdp.n_choices)), None
        if pattern is not None:
            factors = np.zeros(len(pattern[4]))
            _factorise(CompiledOperators(mdp, policy).problem, pattern, policy, factors)
        return SoftPath(mdp, first, policy, state_occupancy(mdp, policy), factors)

    def at(self, reward: Vector) -> "SoftPath":
        """The optimum at a reward (S,) or (C,), from this one."""
        mdp, pattern = self.mdp, _pattern(self.mdp)
        if pattern is not None and self.factors is not None:
            value, policy, visits, factors = (
                part.copy() for part in (self.value, self.policy, self.visits, self.factors)
            )
            problem = CompiledOperators(mdp, choice_reward(mdp, reward)).problem
            if _corrected(problem, pattern, mdp.initial, factors, value, policy, visits):
                return SoftPath(mdp, value, policy, visits, factors)
        solved = solve_soft(mdp, reward, start=self.value)
        return replace(self, value=solved.value, policy=solved.policy, visits=state_occupancy(mdp, solved.policy))

    @property
    def occupancy(self) -> Vector:
        """(C,), the expected discounted number of times that each choice is taken."""
        return per_choice(self.mdp, self.visits) * self.policy


@lru_cache(maxsize=8)
def _pattern(mdp: MDP) -> Pattern | None:
    """Of the factors of I - discount P for policies that take every choice; None where these have many entries."""
    if mdp.n_states > REORDERED_LIMIT:
        return None
    moves = chain(mdp, mdp.discount * uniform_policy(mdp), mdp.continuing)
    order = np.argsort(sparse_factors(sparse.eye_array(mdp.n_states, format="csr") - moves, BY_DEGREE).perm_c)
    # These are the factors of A' by columns, and so those of A by rows.
    both = Factors.of(moves, order).factors
    entries = (both.L + both.U).tocsc()
    entries.sort_indices()
    if entries.nnz > MOST_ENTRIES * mdp.n_states:
        return None
    start, column = entries.indptr.astype(np.int64), entries.indices.astype(np.int64)
    state = np.repeat(np.arange(mdp.n_states), np.diff(start))
    return order.astype(np.int64), np.argsort(order), start, np.flatnonzero(column == state), column


@compiled(fastmath=FASTMATH)
def _corrected(
    problem: Problem,
    pattern: Pattern,
    initial: Vector,
    factors: Vector,
    value: Vector,
    policy: Vector,
    visits: Vector,
) -> bool:
    """Solve for the value, the policy and its visits, in place; whether both residuals are small in the end."""
    row, column, probability, first, _, discount = problem
    rest, last = np.empty_like(value), np.inf
    for _ in range(100):
        soft_backup_range(problem, value, policy, rest, 0, len(value))
        rest -= value
        left = np.abs(rest).max()
        if left <= EXACT_RESIDUAL * max(1.0, np.abs(value).max()):
            break
        if left > 0.1 * last:
            _factorise(problem, pattern, policy, factors)
        last = left
        _solve(pattern, factors, rest, value, False)
    is_solved, last = left <= EXACT_RESIDUAL * max(1.0, np.abs(value).max()), np.inf
    for _ in range(100):
        rest[:] = initial - visits
        for s in range(len(value)):
            for c in range(first[s], first[s + 1]):
                share = visits[s] * discount * policy[c]
                for k in range(row[c], row[c + 1]):
                    rest[column[k]] += share * probability[k]
        left = np.abs(rest).sum()
        if left <= EXACT_RESIDUAL * np.abs(visits).sum():
            return bool(is_solved)
        if left > 0.1 * last:
            _factorise(problem, pattern, policy, factors)
        last = left
        _solve(pattern, factors, rest, visits, True)
    return False


@compiled(fastmath=FASTMATH)
def _factorise(problem: Problem, pattern: Pattern, policy: Vector, factors: Vector) -> None:
    """L U = I - discount P by rows, in the order of the pattern; diagonals of U are stored as their inverses."""
    row, to, probability, first, _, discount = problem
    order, position, start, diagonal, column = pattern
    work = np.zeros(len(order))
    for i in range(len(order)):
        s = order[i]
        work[i] = 1.0
        for c in range(first[s], first[s + 1]):
            for k in range(row[c], row[c + 1]):
                work[position[to[k]]] -= discount * policy[c] * probability[k]
        for k in range(start[i], diagonal[i]):
            j = column[k]
            factor = work[j] * factors[diagonal[j]]
            work[j] = factor
            for m in range(diagonal[j] + 1, start[j + 1]):
                work[column[m]] -= factor * factors[m]
        for k in range(start[i], start[i + 1]):
            factors[k] = work[column[k]]
            work[column[k]] = 0.0
        factors[diagonal[i]] = 1.0 / factors[diagonal[i]]


@compiled(fastmath=FASTMATH)
def _solve(pattern: Pattern, factors: Vector, right: Vector, out: Vector, is_transposed: bool) -> None:
    """Add to `out` the solution x of L U x = right, or of its transpose U' L' x = right."""
    order, _, start, diagonal, column = pattern
    n, x = len(order), right[order]
    for i in range(n):
        if is_transposed:
            x[i] *= factors[diagonal[i]]
            for k in range(diagonal[i] + 1, start[i + 1]):
                x[column[k]] -= factors[k] * x[i]
        else:
            for k in range(start[i], diagonal[i]):
                x[i] -= factors[k] * x[column[k]]
    for i in range(n - 1, -1, -1):
        if is_transposed:
            for k in range(start[i], diagonal[i]):
                x[column[k]] -= factors[k] * x[i]
        else:
            for k in range(diagonal[i] + 1, start[i + 1]):
                x[i] -= factors[k] * x[column[k]]
            x[i] *= factors[diagonal[i]]
        out[order[i]] += x[i]
