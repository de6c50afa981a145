"""Random models of episodes that end: all policies do, or some go on for ever."""

import numpy as np

import tutelage as tl


def _rows(rng: np.random.Generator, allowed: list[np.ndarray], n_states: int) -> np.ndarray:
    rows = np.zeros((len(allowed), n_states))
    for row, states in zip(rows, allowed, strict=True):
        some = rng.choice(states, size=min(len(states), int(rng.integers(1, 4))), replace=False)
        row[some] = rng.dirichlet(np.ones(len(some)))
    return rows


def ending_mdp(rng: np.random.Generator, n_states: int = 8, n_ends: int = 2, in_ends: int = 2) -> tl.MDP:
    """Every choice leads on with probability 0.2 or more, in the order of the states: every policy ends.

    in_ends: the choices in an end.
    """
    counts = rng.integers(1, 4, size=n_states)
    counts[-n_ends:] = in_ends
    owner = np.repeat(np.arange(n_states), counts)
    back = _rows(rng, [np.arange(n_states)] * len(owner), n_states)
    on = _rows(rng, [np.arange(min(s + 1, n_states - 1), n_states) for s in owner], n_states)
    share = rng.uniform(0.2, 1.0, size=(len(owner), 1))
    rows = share * on + (1 - share) * back
    return _with_ends(rng, rows, owner, counts, n_ends)


def endless_mdp(rng: np.random.Generator, n_states: int = 8, n_ends: int = 1, in_ends: int = 2) -> tl.MDP:
    """Some choices lead anywhere, one in each state leads on: some policies go on for ever."""
    counts = rng.integers(2, 4, size=n_states)
    counts[-n_ends:] = in_ends
    owner = np.repeat(np.arange(n_states), counts)
    rows = _rows(rng, [np.arange(n_states - n_ends)] * len(owner), n_states)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rows[first] = _rows(rng, [np.arange(min(s + 1, n_states - 1), n_states) for s in range(n_states)], n_states)
    return _with_ends(rng, rows, owner, counts, n_ends)


def _with_ends(
    rng: np.random.Generator, rows: np.ndarray, owner: np.ndarray, counts: np.ndarray, n_ends: int
) -> tl.MDP:
    n_states = len(counts)
    is_end = owner >= n_states - n_ends
    rows[is_end] = np.eye(n_states)[owner[is_end]]
    initial = np.zeros(n_states)
    initial[: max(n_states // 2, 1)] = rng.dirichlet(np.ones(max(n_states // 2, 1)))
    return tl.MDP.from_choices(rows, np.concatenate([[0], np.cumsum(counts)]), initial, 1)


def episodic_domain(rng: np.random.Generator, mdp: tl.MDP) -> tuple[tl.Domain, np.ndarray]:
    """Three reward features and two preference features on choices, and true weights; going on for ever costs."""
    rewards = rng.uniform(0, 1, size=(mdp.n_choices, 3))
    weights = np.array([1.0, 0.5, -0.5])
    if np.isinf(mdp.horizon):
        rewards[:, 0] += 0.8
        weights = np.array([-1.5, -0.5, -0.2])
    preferences = 1.0 * (rng.random((mdp.n_choices, 2)) < 0.3)
    return tl.Domain(mdp, without_ends(mdp, rewards), without_ends(mdp, preferences)), weights


def without_ends(mdp: tl.MDP, values: np.ndarray) -> np.ndarray:
    """The values on choices (C, ...), with zero in ends."""
    is_end = np.isin(mdp.state_of_choice, mdp.ends)
    return np.where(is_end.reshape(-1, *[1] * (values.ndim - 1)), 0.0, values)
