"""`python -m benchmarks.set_cover`: how many state-action pairs SCOT shows on the worlds of its public code.

Brown and Niekum, "Machine teaching for inverse reinforcement learning" (AAAI 2019). The settings are those of the
README of their code: 20 random 9x9 grids with one of 8 features in each cell, discount 0.95, demonstrations of one
step. Their worlds are drawn by the C library's `rand`, so they are made again here exactly. Two ways are compared:

- exact: our policies and feature counts are exact to rounding, and so is which half-spaces are the same;
- their tolerances: value iteration and feature counts end when a sweep changes less than 1e-6, choices within 1e-4 of
  the best are optimal, and half-spaces within 1e-5 of each other in every coordinate are the same.

Nothing of their code is here; it has no licence.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import tutelage as tl
from tutelage.convex.programs import LinearConstraints, minimise_linear
from tutelage.experiments.arena import moves_on
from tutelage.teachers.candidates import greedy_cover, half_spaces, irredundant

SIZE, N_FEATURES, DISCOUNT, SEED, N_WORLDS = 9, 8, 0.95, 231234, 20
SWEEP, BEST, SAME = 1e-6, 1e-4, 1e-5
Array = NDArray[np.float64]


def c_rand(seed: int) -> Iterator[int]:
    """What `rand` of the GNU C library returns after `srand(seed)`: an additive feedback generator."""
    state = [seed]
    for _ in range(30):
        state.append(16807 * state[-1] % (2**31 - 1))
    state += state[:3]
    for i in range(34, 344):
        state.append((state[i - 31] + state[i - 3]) % 2**32)
    while True:
        state = [*state[-31:], (state[-31] + state[-3]) % 2**32]
        yield state[-1] >> 1


def world(number: int) -> tuple[tl.Domain, Array]:
    """A grid of theirs, and the weights of its features."""
    drawn = c_rand(SEED + 13 * number)
    share = np.array(list(islice(drawn, N_FEATURES))) / (2**31 - 1)
    laplace = np.where(share < 0.5, np.log(2 * share), -np.log(2 - 2 * share))
    kind = np.array(list(islice(drawn, SIZE**2))) % N_FEATURES
    n, to = SIZE**2, moves_on(np.ones((SIZE, SIZE), dtype=np.bool_))
    mdp = tl.MDP.from_arrays(np.eye(n)[to], initial=np.full(n, 1 / n), discount=DISCOUNT)
    return tl.Domain(mdp, np.eye(N_FEATURES)[kind]), laplace / np.abs(laplace).sum()


def exact(domain: tl.Domain, weights: Array) -> tuple[Array, list[int]]:
    """The half-spaces that are shown, and the pairs of the cover."""
    policy = tl.solve_hard(domain.mdp, domain.reward_features @ weights, accuracy=1e-12).policy
    normals, shows = half_spaces(domain, policy, N_FEATURES, policy > 0)
    pairs = np.flatnonzero(policy > 0)
    return normals, [int(pairs[row]) for row in greedy_cover(shows[pairs])]


def swept(features: Array, after: Array, share: Array | None) -> Array:
    """(S, k), values by sweeps in place until one changes less than SWEEP; share: of choices, or the best."""
    values, change = np.zeros(features.shape), np.inf
    while change > SWEEP:
        before = values.copy()
        for state, to in enumerate(after):
            ahead = values[to].max(axis=0) if share is None else share[state] @ values[to]
            values[state] = features[state] + DISCOUNT * ahead
        change = np.abs(values - before).max()
    return values


def with_their_tolerances(domain: tl.Domain, weights: Array) -> tuple[Array, list[int]]:
    """As `exact`, with sweeps that end early and half-spaces that are the same if they are close."""
    after = domain.mdp.transition.indices.reshape(SIZE**2, 4)
    value = swept(domain.reward_features @ weights[:, None], after, None)[after, 0]
    is_best = value.max(axis=1, keepdims=True) - value < BEST / DISCOUNT
    share = is_best / is_best.sum(axis=1, keepdims=True)
    counts = DISCOUNT * swept(domain.reward_features, after, share)[after]
    shown: list[Array] = []
    for state, best in np.argwhere(is_best):
        apart = counts[state, best] - np.delete(counts[state], best, axis=0)
        real = apart[np.abs(apart).max(axis=1) > SAME]
        shown.append(real / np.linalg.norm(real, axis=1, keepdims=True))
    kinds = np.zeros((0, N_FEATURES))
    for normal in np.vstack(shown):
        if not (np.abs(kinds - normal).max(axis=1) <= SAME).any():
            kinds = np.vstack([kinds, normal])
    kinds = kinds[irredundant(kinds)]
    covers = [(np.abs(part[:, None] - kinds).max(axis=2) <= SAME).any(axis=0) for part in shown]
    return kinds, greedy_cover(np.array(covers))


def wrong(domain: tl.Domain, weights: Array, normals: Array) -> float:
    """The percentage of states with a wrong choice, of a learner that takes weights within the half-spaces shown.

    Its weights are the mean of those that are farthest within each half-space: away from all borders that allow it.
    """
    box = np.vstack([np.eye(N_FEATURES), -np.eye(N_FEATURES), -normals])
    limits = LinearConstraints(
        np.full(N_FEATURES, -np.inf), within=box, bound=np.append(np.ones(2 * N_FEATURES), np.zeros(len(normals)))
    )
    corners = [minimise_linear(-normal, limits).answer.x for normal in normals]
    learned = tl.solve_hard(domain.mdp, domain.reward_features @ np.mean(corners, axis=0)).policy
    true = tl.solve_hard(domain.mdp, domain.reward_features @ weights).choice_value
    lost = np.repeat(np.maximum.reduceat(true, domain.mdp.first_choice[:-1]), 4) - true
    chosen = learned.reshape(-1, 4).argmax(axis=1) + 4 * np.arange(SIZE**2)
    return float(100 * (lost[chosen] > BEST).mean())


def main() -> None:
    """Print pairs and wrong actions of both ways; README: 17.25 pairs, 0.185 % wrong actions after Bayesian IRL."""
    worlds = [world(number) for number in range(N_WORLDS)]
    for name, way in (("exact", exact), ("their tolerances", with_their_tolerances)):
        answers = [way(*each) for each in worlds]
        pairs = [len(order) for _, order in answers]
        spaces = np.mean([len(normals) for normals, _ in answers])
        lost = np.mean([wrong(*each, normals) for each, (normals, _) in zip(worlds, answers, strict=True)])
        print(f"{name:17} {np.mean(pairs):.2f} pairs, {spaces:.2f} half-spaces, {lost:.3f} % wrong; {pairs}")


if __name__ == "__main__":
    main()
