"""Compiled loops for large MDPs. Nothing here decides anything: `mdp.chain` and `solvers.operators` choose when.

Arguments shared by all: `row`, `column`, `probability` are the CSR arrays of the transition (row[c] .. row[c+1] are the
entries of choice c), `first` is first_choice, `reward` is on choices (C,), `value` on states (S,).
Compiled on first use and cached on disk. Plain loops, no BLAS, whose threads wait for each other on a busy machine for
longer than these vectors take.
"""

import math

import numpy as np
from numba import njit

from tutelage.arrays import Indices, Vector

# Sums may be reordered and fused; infinities and NaN keep their meaning.
FASTMATH = {"nsz", "contract", "reassoc"}


@njit(cache=True, fastmath=FASTMATH)
def soft_backup(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    policy: Vector,
) -> Vector:
    """V(s) = log sum over choices of exp Q(c); writes exp(Q - V) into `policy`."""
    backed = np.empty_like(value)
    for s in range(len(value)):
        best = -math.inf
        for c in range(first[s], first[s + 1]):
            ahead = 0.0
            for k in range(row[c], row[c + 1]):
                ahead += probability[k] * value[column[k]]
            policy[c] = reward[c] + discount * ahead
            best = max(best, policy[c])
        total = 0.0
        for c in range(first[s], first[s + 1]):
            policy[c] = math.exp(policy[c] - best)
            total += policy[c]
        for c in range(first[s], first[s + 1]):
            policy[c] /= total
        backed[s] = best + math.log(total)
    return backed


@njit(cache=True, fastmath=FASTMATH)
def hard_backup(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    choice: Indices,
    slack: float,
) -> Vector:
    """V(s) = max over choices of Q(c); `choice` moves to the best only where that is better by more than `slack`."""
    backed = np.empty_like(value)
    for s in range(len(value)):
        best = -math.inf
        kept = -math.inf
        best_choice = choice[s]
        for c in range(first[s], first[s + 1]):
            ahead = 0.0
            for k in range(row[c], row[c + 1]):
                ahead += probability[k] * value[column[k]]
            worth = reward[c] + discount * ahead
            if c == choice[s]:
                kept = worth
            if worth > best:
                best = worth
                best_choice = c
        if best > kept + slack:
            choice[s] = best_choice
        backed[s] = best
    return backed


@njit(cache=True, fastmath=FASTMATH)
def _hard_sweep(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    value: Vector,
    forwards: bool,
) -> float:
    """V(s) = max over c of (r(c) + discount * sum over s' != s of T(s') V(s')) / (1 - discount * T(s)), in place."""
    change = 0.0
    n_states = len(value)
    for i in range(n_states):
        s = i if forwards else n_states - 1 - i
        best = -math.inf
        for c in range(first[s], first[s + 1]):
            ahead = 0.0
            stay = 0.0
            for k in range(row[c], row[c + 1]):
                if column[k] == s:
                    stay += probability[k]
                else:
                    ahead += probability[k] * value[column[k]]
            best = max(best, (reward[c] + discount * ahead) / (1.0 - discount * stay))
        change = max(change, abs(best - value[s]))
        value[s] = best
    return change


@njit(cache=True, fastmath=FASTMATH)
def hard_sweeps(
    row: Indices,
    column: Indices,
    probability: Vector,
    first: Indices,
    reward: Vector,
    discount: float,
    start: Vector,
    tolerance: float,
) -> Vector:
    """In-place sweeps in alternating order, while each pair still shrinks the change well.

    Each state's equation is solved for its own value, so that staying in place, which takes plain sweeps
    1 / (1 - discount) rounds to be worth its due, takes one. On grids a few pairs suffice; where they stop paying
    (well-mixed chains), the caller does better to evaluate the policy found so far.
    """
    value = start.copy()
    last = math.inf
    for pair in range(1_000):
        change = _hard_sweep(row, column, probability, first, reward, discount, value, True)
        change = max(change, _hard_sweep(row, column, probability, first, reward, discount, value, False))
        if change <= tolerance or (pair >= 4 and change > 0.7 * last):
            break
        last = change
    return value


@njit(cache=True, fastmath=FASTMATH)
def weigh(row: Indices, probability: Vector, policy: Vector, discount: float) -> Vector:
    """discount * pi(c) * T(c, .), entry by entry: with `row[first]` the CSR entries of discount * P."""
    weight = np.empty_like(probability)
    for c in range(len(policy)):
        for k in range(row[c], row[c + 1]):
            weight[k] = discount * policy[c] * probability[k]
    return weight


@njit(cache=True, fastmath=FASTMATH)
def _dot(x: Vector, y: Vector) -> float:
    """x @ y."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True, fastmath=FASTMATH)
def _apply(start: Indices, column: Indices, weight: Vector, x: Vector, out: Vector) -> None:
    """out = x - (discount * P) x."""
    for s in range(len(x)):
        ahead = 0.0
        for k in range(start[s], start[s + 1]):
            ahead += weight[k] * x[column[k]]
        out[s] = x[s] - ahead


@njit(cache=True, fastmath=FASTMATH)
def solve_chain(
    start: Indices, column: Indices, weight: Vector, right: Vector, tolerance: float, max_steps: int
) -> Vector:
    """BiCGSTAB on (I - discount * P) x = right until the 2-norm of the residual has fallen by `tolerance`.

    On a breakdown, or out of steps, it returns what it has: the caller measures the residual.
    """
    n = len(right)
    x = np.zeros(n)
    r = right.copy()
    shadow = right.copy()
    p = right.copy()
    v = np.empty(n)
    t = np.empty(n)
    norm = math.sqrt(_dot(right, right))
    rho = norm * norm
    if norm == 0.0:
        return x
    for _ in range(max_steps):
        _apply(start, column, weight, p, v)
        across = _dot(shadow, v)
        if across == 0.0:
            break
        alpha = rho / across
        for s in range(n):
            r[s] -= alpha * v[s]
        _apply(start, column, weight, r, t)
        tt = 0.0
        tr = 0.0
        for s in range(n):
            tt += t[s] * t[s]
            tr += t[s] * r[s]
        omega = tr / tt if tt > 0.0 else 0.0
        rr = 0.0
        rho_next = 0.0
        for s in range(n):
            x[s] += alpha * p[s] + omega * r[s]
            r[s] -= omega * t[s]
            rr += r[s] * r[s]
            rho_next += shadow[s] * r[s]
        if math.sqrt(rr) <= tolerance * norm or omega == 0.0 or rho == 0.0:
            break
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
        for s in range(n):
            p[s] = r[s] + beta * (p[s] - omega * v[s])
    return x


@njit(cache=True)
def reachable(row: Indices, column: Indices, initial: Vector) -> Indices:
    """The states that a chain (S, S) can reach from the support of `initial`, ascending."""
    is_seen = initial > 0
    stack = np.empty(len(initial), dtype=np.int64)
    n_waiting = 0
    for s in range(len(initial)):
        if is_seen[s]:
            stack[n_waiting] = s
            n_waiting += 1
    while n_waiting > 0:
        n_waiting -= 1
        s = stack[n_waiting]
        for k in range(row[s], row[s + 1]):
            if not is_seen[column[k]]:
                is_seen[column[k]] = True
                stack[n_waiting] = column[k]
                n_waiting += 1
    return np.flatnonzero(is_seen)
