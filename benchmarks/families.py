"""Families of MDPs that are not object worlds: random rows, a slippery grid, a queue, roads, two machines, dense rows.

Each is made at any size from a seed, with 3 reward features and 4 or more preference features, all sparse and random,
discount 0.99 and a uniform start. The limits are 0.3 of what the optimal policy visits, or
a little above what any policy must, so that they bind.
"""

from collections.abc import Callable, Mapping
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import sparse

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces, no_limits, preference_limits
from tutelage.model.mdp import MDP, Domain

DISCOUNT, BINDING_SHARE = 0.99, 0.3
N_REWARD, N_PREFERENCE = 3, 4
# The share of states with each feature.
DENSITY = 0.05
WEIGHTS = (1.0, 0.9, 0.2)


class FamilyProblem(NamedTuple):
    """A domain of one family, the weights of its reward, and binding limits on its preference features."""

    domain: Domain
    weights: Vector
    limits: HalfSpaces

    @property
    def reward(self) -> Vector:
        """(S,), R = phi_r w."""
        return np.asarray(self.domain.reward_features @ self.weights)


def family_domain(name: str, n_states: int, *, seed: int = 0, n_preference: int = N_PREFERENCE) -> Domain:
    """The domain of a family with about `n_states` states."""
    rng = np.random.default_rng(seed)
    transition, first_choice = FAMILIES[name](rng, n_states)
    n = transition.shape[1]
    mdp = MDP.from_choices(transition, first_choice, np.full(n, 1 / n), DISCOUNT)
    # Without names, as many features as choices would be ambiguous.
    reward = tuple(f"reward {i}" for i in range(N_REWARD))
    preference = tuple(f"preference {i}" for i in range(n_preference))
    features = (sparse_features(rng, n, N_REWARD), sparse_features(rng, n, n_preference))
    return Domain(mdp, *features, reward_names=reward, preference_names=preference)


def family_problem(name: str, n_states: int, *, seed: int = 0, n_preference: int = N_PREFERENCE) -> FamilyProblem:
    """The constrained problem of a family: each limit is 0.3 of the optimal policy's visits."""
    domain, weights = family_domain(name, n_states, seed=seed, n_preference=n_preference), np.array(WEIGHTS)
    visited = best_policy(domain, weights, no_limits(domain)).expectation.preference
    # Where no policy visits so little, the limits stay above the visits of one policy that avoids all features.
    shy = Domain(
        domain.mdp,
        -(domain.preference_features / visited).sum(axis=1),
        domain.preference_features,
        preference_names=domain.preference_names,
    )
    least = best_policy(shy, [1.0], no_limits(shy)).expectation.preference
    return FamilyProblem(
        domain,
        weights,
        preference_limits(domain, np.maximum(BINDING_SHARE * visited, least + 0.1 * np.abs(visited - least))),
    )


def sparse_features(rng: Generator, n_states: int, count: int) -> Matrix:
    """(S, count), uniform in [0, 1] in a random twentieth of the states, zero elsewhere."""
    shape = (n_states, count)
    return np.where(rng.random(shape) < DENSITY, rng.random(shape), 0.0)


def garnet(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """Five choices in each state, each to five random states with random probabilities."""
    n_rows = 5 * n_states
    columns, chances = rng.integers(n_states, size=(n_rows, 5)), rng.dirichlet(np.ones(5), size=n_rows)
    rows = np.repeat(np.arange(n_rows), 5)
    return _rows(rows, columns.ravel(), chances.ravel(), n_rows, n_states), np.arange(0, n_rows + 1, 5)


def slippery_grid(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """Four moves on a square grid: as intended with 0.8, to either side with 0.1; a blocked move stays."""
    side = max(isqrt(n_states), 2)
    row, column = np.divmod(np.arange(side * side), side)
    steps = ((-1, 0), (0, 1), (1, 0), (0, -1))
    to = np.array([np.clip(row + i, 0, side - 1) * side + np.clip(column + j, 0, side - 1) for i, j in steps])
    action = np.arange(4)
    columns = np.stack([to[action], to[action - 1], to[(action + 1) % 4]], axis=-1).transpose(1, 0, 2)
    chances = np.broadcast_to([0.8, 0.1, 0.1], columns.shape)
    n_rows = 4 * side * side
    rows = np.repeat(np.arange(n_rows), 3)
    return _rows(rows, columns.ravel(), chances.ravel(), n_rows, side * side), np.arange(0, n_rows + 1, 4)


def queue(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """A birth-death queue: arrivals with probability 0.3, and four service rates up to 0.6."""
    arrival, service = 0.3, np.array([0.0, 0.2, 0.4, 0.6])
    state = np.repeat(np.arange(n_states), 4)
    up, down = np.full(len(state), arrival), np.tile(service, n_states)
    columns = np.stack([np.maximum(state - 1, 0), state, np.minimum(state + 1, n_states - 1)], axis=1)
    chances = np.stack([down, 1 - up - down, up], axis=1)
    rows = np.repeat(np.arange(len(state)), 3)
    return _rows(rows, columns.ravel(), chances.ravel(), len(state), n_states), np.arange(0, len(state) + 1, 4)


def roads(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """A planar road network: 70 % of the Delaunay edges of random points, one way each; every junction has a way out.

    Junctions are numbered at random, as in data that was never sorted.
    """
    from scipy.spatial import Delaunay

    triangles = Delaunay(rng.random((n_states, 2))).simplices
    sides = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    edges = np.unique(sides, axis=0)
    is_flipped = rng.random(len(edges)) < 0.5
    edges = np.where(is_flipped[:, None], edges[:, ::-1], edges)
    is_kept = rng.random(len(edges)) < 0.7
    kept = edges[is_kept]
    closed = np.setdiff1d(np.arange(n_states), kept[:, 0])
    both = np.concatenate([edges, edges[:, ::-1]])
    # A junction without a way out gets one of its edges, in whichever direction it was.
    ways = both[np.argsort(both[:, 0], kind="stable")]
    first_way = ways[np.searchsorted(ways[:, 0], closed)]
    kept = np.concatenate([kept, first_way])
    kept = kept[np.lexsort((kept[:, 1], kept[:, 0]))]
    first = np.searchsorted(kept[:, 0], np.arange(n_states + 1))
    return _rows(np.arange(len(kept)), kept[:, 1], np.ones(len(kept)), len(kept), n_states), first


def maintenance(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """Two machines that wear by zero to two levels a step, under a light or a heavy load; each may be repaired.

    Choices: run both, repair the first, repair the second. A repaired machine is as new. States: load, wear, wear.
    """
    levels = max(isqrt(n_states // 2), 3)
    load, first, second = np.unravel_index(np.arange(2 * levels * levels), (2, levels, levels))
    wear = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3]])
    entries = []
    for choice in range(3):
        for i in range(3):
            for j in range(3):
                # Running keeps the load; a repair changes it.
                chance, to = wear[load, i] * wear[load, j], (load if choice == 0 else 1 - load)
                one = np.zeros_like(first) if choice == 1 else np.minimum(first + i, levels - 1)
                two = np.zeros_like(second) if choice == 2 else np.minimum(second + j, levels - 1)
                row = 3 * np.arange(len(load)) + choice
                entries.append((row, np.ravel_multi_index((to, one, two), (2, levels, levels)), chance))
    rows, columns, chances = (np.concatenate(part) for part in zip(*entries, strict=True))
    n_rows = 3 * len(load)
    return _rows(rows, columns, chances, n_rows, len(load)), np.arange(0, n_rows + 1, 3)


def dense(rng: Generator, n_states: int) -> tuple[SparseRows, Indices]:
    """Twenty choices in each state, each to every state with random probabilities of very different sizes."""
    rows = rng.standard_exponential((20 * n_states, n_states)) ** 3
    rows /= rows.sum(axis=1, keepdims=True)
    return sparse.csr_array(rows), np.arange(0, len(rows) + 1, 20)


def _rows(rows: Indices, columns: Indices, chances: Vector, n_rows: int, n_states: int) -> SparseRows:
    found = sparse.csr_array(sparse.coo_array((chances, (rows, columns)), shape=(n_rows, n_states)))
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


FAMILIES: Mapping[str, Callable[[Generator, int], tuple[SparseRows, Indices]]] = {
    "garnet": garnet,
    "slippery grid": slippery_grid,
    "queue": queue,
    "roads": roads,
    "maintenance": maintenance,
    "dense": dense,
}
