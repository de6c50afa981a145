"""Trajectories of a policy, one step after the other, for horizons that are too long for a loop of array operations."""

from typing import Any, TypeAlias

import numpy as np

from tutelage.arrays import Indices, Vector
from tutelage.compiling import compiled

# The arrays of a `data.sampling.RowSampler`: cumulative, columns and ends.
Sampler: TypeAlias = tuple[Vector, Indices, Indices]


@compiled()
def _draw(sampler: Sampler, row: int, rng: Any) -> int:
    """One column of a row: the first whose sum exceeds the draw, or the last of the row."""
    cumulative, columns, ends = sampler
    point = row + rng.random()
    low, high = (ends[row - 1] + 1 if row > 0 else 0), ends[row]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > point:
            high = middle
        else:
            low = middle + 1
    return int(columns[low])


@compiled()
def walk(
    state: Indices,
    samplers: tuple[Sampler, Sampler],
    is_last: Any,
    n_steps: int,
    discount: Vector,
    bounds: tuple[float, float],
    rng: Any,
) -> tuple[Indices, Indices, Indices]:
    """For each step of all trajectories, ordered by time: the trajectory, its state and its choice.

    state: (n,), where they start; changed in place. samplers: of choices and of next states.
    is_last: (S,), the states where a trajectory ends. bounds: it also ends after `n_steps` steps, and where the first
        bound times the discounts of its choices is at most the second.
    """
    choose, move = samplers
    weight, least = bounds
    n_live = len(state)
    live, weights, chosen = np.arange(n_live), np.full(n_live, weight), np.empty(n_live, np.int64)
    trajectories, states, choices = np.empty((3, max(1024, 4 * n_live)), np.int64)
    n = 0
    for _ in range(n_steps):
        if n + n_live > len(states):
            trajectories = np.concatenate((trajectories, np.empty_like(trajectories)))
            states = np.concatenate((states, np.empty_like(states)))
            choices = np.concatenate((choices, np.empty_like(choices)))
        # All choices are drawn before all moves, as where a step is one array operation.
        for i in range(n_live):
            chosen[i] = _draw(choose, state[i], rng)
            trajectories[n], states[n], choices[n] = live[i], state[i], chosen[i]
            n += 1
        n_next = 0
        for i in range(n_live):
            passed = weights[i] * discount[chosen[i]]
            if passed > least and not is_last[state[i]]:
                live[n_next], weights[n_next] = live[i], passed
                state[n_next] = _draw(move, chosen[i], rng)
                n_next += 1
        n_live = n_next
        if n_live == 0:
            break
    return trajectories[:n], states[:n], choices[:n]
