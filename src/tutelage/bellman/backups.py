"""The Bellman operators, hard and soft; in-place sweeps of the hard equation.

Most of the time of a soft backup goes into exponentials. It therefore handles chunks of states: first the values of
their choices, then all exponentials of the chunk in one loop that the compiler vectorises, then the sums. The C
library's exponential takes one number at a time and would take three quarters of the whole time.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from tutelage.arrays import Indices, Vector
from tutelage.chains.iterations import bicgstab, split_rows
from tutelage.chains.resolvent import discounted_rows
from tutelage.compiling import FASTMATH, IN_ORDER, compiled, unsigned
from tutelage.model.mdp import MDP, endless

# row, column, probability, first, reward, discount: see `tutelage.compiling`.
Problem: TypeAlias = tuple[Indices, Indices, Vector, Indices, Vector, float]
CHUNK = 128
# exp(x) = 2^k exp(r) with x = k log 2 + r and |r| <= log(2) / 2. Adding 1.5 * 2^52 leaves k in the last bits.
LOG2_E, SHIFT = 1.4426950408889634, 6755399441055744.0
# log 2 in two parts; the first has few enough digits that its product with k is exact.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Below this, exp(x) is not a normal number.
LEAST = -708.0
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / math.factorial(n) for n in range(2, 14))


@compiled(fastmath=IN_ORDER)
def _exp(x: float) -> float:
    """exp(x) for x <= 0, with an error of at most one unit in the last place; zero below 1e-307."""
    shifted = x * LOG2_E + SHIFT
    k = shifted - SHIFT
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    r2 = r * r
    r4 = r2 * r2
    high = ((C10 + C11 * r) + r2 * (C12 + C13 * r)) * r4 + ((C6 + C7 * r) + r2 * (C8 + C9 * r))
    rest = ((C2 + C3 * r) + r2 * (C4 + C5 * r)) + r4 * high
    power = 1.0 + (r + r2 * rest)
    bits = np.float64(power).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x > LEAST else 0.0


@compiled(fastmath=FASTMATH)
def _choice_value(problem: Problem, value: Vector, choice: int) -> float:
    """Q(c) = reward(c) + discount * T(c) @ V."""
    row, column, probability, _, reward, discount = problem
    ahead = 0.0
    for k in range(row[choice], row[choice + 1]):
        ahead += probability[k] * value[column[k]]
    return float(reward[choice] + discount * ahead)


@compiled(fastmath=FASTMATH)
def soft_backup_loop(problem: Problem, value: Vector, policy: Vector, backed: Vector) -> None:
    """V(s) = log sum over choices of exp Q(c) into `backed`, exp(Q - V) into `policy`."""
    first = problem[3]
    for begin in range(0, len(value), CHUNK):
        end = min(begin + CHUNK, len(value))
        for s in range(begin, end):
            best = -math.inf
            for c in range(first[s], first[s + 1]):
                policy[c] = _choice_value(problem, value, c)
                best = max(best, policy[c])
            for c in range(first[s], first[s + 1]):
                policy[c] -= best
            backed[s] = best
        power = policy[first[begin] : first[end]]
        for i in range(len(power)):
            power[i] = _exp(power[i])
        for s in range(begin, end):
            total = 0.0
            for c in range(first[s], first[s + 1]):
                total += policy[c]
            share = 1.0 / total
            for c in range(first[s], first[s + 1]):
                policy[c] *= share
            backed[s] += math.log(total)


@compiled(fastmath=FASTMATH)
def soft_newton(problem: Problem, value: Vector, policy: Vector) -> float:
    """Newton's method on the soft equation from a nearby value, in place, with its policy; returns the residual.

    It ends at a residual of 1e-12, where Newton's method stops to converge, or after 50 steps: the caller decides.
    """
    row, column, probability, first, _, discount = problem
    backed, last = np.empty_like(value), np.inf
    for _ in range(50):
        soft_backup_loop(problem, value, policy, backed)
        backed -= value
        residual = np.abs(backed).max()
        if residual <= 1e-12 or (residual <= 1e-9 and residual > 0.5 * last):
            break
        last = residual
        rows, scale = split_rows((row, column, probability), first, discount * policy)
        value += bicgstab(rows, scale * backed, min(1e-4, 0.3e-12 / residual) if residual < 1e-7 else 1e-4, 300)
    return float(residual)


@compiled(fastmath=FASTMATH)
def hard_backup_loop(problem: Problem, value: Vector, choice: Indices, slack: float, backed: Vector) -> None:
    """V(s) = max over choices of Q(c) into `backed`.

    `choice` changes to the best choice only where that is better by more than `slack`.
    """
    first = problem[3]
    for s in range(len(value)):
        best = kept = -math.inf
        best_choice = choice[s]
        for c in range(first[s], first[s + 1]):
            q = _choice_value(problem, value, c)
            if c == choice[s]:
                kept = q
            if q > best:
                best = q
                best_choice = c
        if best > kept + slack:
            choice[s] = best_choice
        backed[s] = best


@compiled(fastmath=FASTMATH)
def _hard_sweep(problem: Problem, value: Vector, forwards: bool) -> float:
    """V(s) = max over c of (r(c) + discount * sum over s' != s of T(s') V(s')) / (1 - discount * T(s)), in place."""
    row, column, probability, first, reward, discount = problem
    change = 0.0
    n_states = len(value)
    for i in range(n_states):
        s = i if forwards else n_states - 1 - i
        best = -math.inf
        for c in range(first[s], first[s + 1]):
            ahead = stay = 0.0
            for k in range(row[c], row[c + 1]):
                if column[k] == s:
                    stay += probability[k]
                else:
                    ahead += probability[k] * value[column[k]]
            out = 1.0 - discount * stay
            if out > 1e-15:
                # Otherwise the choice stays for ever, but for rounding.
                best = max(best, (reward[c] + discount * ahead) / out)
        change = max(change, abs(best - value[s]))
        value[s] = best
    return change


@compiled(fastmath=FASTMATH)
def hard_sweeps(problem: Problem, start: Vector, tolerance: float, n_least: int) -> Vector:
    """Pairs of in-place sweeps, forward and backward, until the change is within `tolerance` or, after n_least pairs,
    shrinks slowly.

    Each state's equation is solved for its own value. One sweep therefore accounts for staying in place, for which
    plain sweeps take 1 / (1 - discount) rounds. On grids a few pairs suffice; on well-mixed chains sweeps converge
    slowly, and the caller should evaluate the current policy instead.
    """
    value = start.copy()
    last = math.inf
    for pair in range(1_000):
        change = _hard_sweep(problem, value, True)
        change = max(change, _hard_sweep(problem, value, False))
        if change <= tolerance or (pair + 1 >= n_least and change > 0.7 * last):
            break
        last = change
    return value


@dataclass(frozen=True, eq=False)
class CompiledOperators:
    """The Bellman operators of a large MDP; `equations.Operators` has their equations.

    Policies are evaluated by Krylov steps.
    """

    mdp: MDP
    reward: Vector

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        policy, backed = np.empty(self.mdp.n_choices), np.empty_like(value)
        soft_backup_loop(self.problem, value, policy, backed)
        return backed, policy

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        moved, backed = choice.copy(), np.empty_like(value)
        hard_backup_loop(self.problem, value, moved, slack, backed)
        return backed, moved

    def guess(self) -> Vector:
        # A lower bound: from an upper bound, states that lead to each other would keep each other's value too high for
        # 1 / (1 - discount) sweeps.
        return np.full(self.mdp.n_states, endless(self.mdp, self.reward).min())

    def sweep(self, value: Vector, tolerance: float, n_least: int = 3) -> Vector:
        return hard_sweeps(self.problem, value, tolerance, n_least)

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        row, column, probability, first, _, discount = self.problem
        rows, scale = split_rows((row, column, probability), first, discount * policy)
        return bicgstab(rows, scale * right, tolerance, 1_000)

    @cached_property
    def problem(self) -> Problem:
        """The arguments that all loops over choices share."""
        mdp = self.mdp
        rows, discount = mdp.continuing, mdp.discount
        if not isinstance(discount, float):
            rows, discount = discounted_rows(mdp, np.arange(mdp.n_choices)), 1.0
        first = mdp.first_choice.astype(rows.indptr.dtype)
        return unsigned(rows.indptr), unsigned(rows.indices), rows.data, unsigned(first), self.reward, discount
