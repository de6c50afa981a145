"""Episodes recorded in a Gymnasium environment are demonstrations of its domain."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from strategies import random_domain

from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.environments.gymnasium import from_gymnasium, record_demonstrations, to_gymnasium
from tutelage.model.mdp import MDP
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput


@pytest.mark.parametrize(
    "env",
    [gymnasium.make("FrozenLake-v1"), to_gymnasium(random_domain(np.random.default_rng(1), max_states=12))],
    ids=["frozen lake", "random domain"],
)
def test_what_is_played_agrees_with_the_table(env):
    """Frequencies of every transition in 1,000 episodes against the MDP, by Hoeffding's inequality.

    At most 1,500 entries after at most 20,000 numbers of steps: 3e7 frequencies, each off by sqrt(log(2 * 3e7 / 1e-4) /
    2n) with probability 1e-4 / 3e7 at most. A right table fails for 1 seed in 10,000, and the seed is fixed.
    """
    mdp = from_gymnasium(env, discount=0.9).mdp
    rng = np.random.default_rng(0)
    recorded = record_demonstrations(env, mdp, uniform_policy(mdp), 1_000, rng=rng, max_steps=20)
    counts = np.zeros((mdp.n_choices, mdp.n_states))
    for episode in recorded:
        np.add.at(counts, (episode.choices[:-1], episode.states[1:]), 1)
    n_taken = counts.sum(axis=1)
    assert counts.size <= 1_500 and n_taken.sum() <= 20_000 and n_taken.max() > 500
    bound = np.sqrt(np.log(2 * 3e7 / 1e-4) / (2 * np.maximum(n_taken, 1)))
    is_taken = n_taken > 0
    error = np.abs(counts[is_taken] / n_taken[is_taken, None] - mdp.transition.toarray()[is_taken])
    assert (error <= bound[is_taken, None]).all()


def test_recorded_episodes_are_possible_demonstrations():
    """Terminated episodes end in the absorbing state, so that the MDP allows every step of them."""
    env = gymnasium.make("FrozenLake-v1")
    mdp = from_gymnasium(env, discount=0.9).mdp
    recorded = record_demonstrations(env, mdp, uniform_policy(mdp), 50, rng=0, max_steps=1_000)
    assert isinstance(recorded, Demonstrations) and len(recorded) == 50
    assert set(recorded.last_states) == {16}
    assert not any(16 in episode.states[:-1] for episode in recorded)
    assert_array_equal(recorded.is_followed, recorded.choices != UNKNOWN)
    assert recorded.checked_against(mdp) is recorded


def test_episodes_cut_short_end_where_they_are():
    """An episode that max_steps or the environment cuts short ends in an ordinary state."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=7)
    mdp = from_gymnasium(env, discount=0.9).mdp
    against_the_wall = np.tile([1.0, 0.0, 0.0, 0.0], mdp.n_states)
    for max_steps, length in ((5, 5), (100, 7)):
        for episode in record_demonstrations(env, mdp, against_the_wall, 2, rng=0, max_steps=max_steps):
            assert_array_equal(episode.states, np.zeros(length + 1))
            assert_array_equal(episode.choices, [*np.zeros(length), UNKNOWN])


def test_recording_speaks_the_environments_own_actions():
    """Choice 1 of a state may be the environment's action 3; the choice is recorded, the action is played."""
    played = []

    def step(action):
        played.append(action)
        return 0, 0.0, True, False, {}

    table = {0: {1: [(1.0, 0, 0.0, True)], 3: [(1.0, 0, 0.0, True)]}}
    env = SimpleNamespace(P=table, reset=lambda seed: (0, {}), step=step)
    mdp = from_gymnasium(env, discount=0.9, initial=[1.0]).mdp
    (episode,) = record_demonstrations(env, mdp, [0, 1, 0.5, 0.5], 1, rng=0, max_steps=9)
    assert (played, episode.states.tolist(), episode.choices.tolist()) == ([3], [0, 1], [1, UNKNOWN])


def test_the_same_generator_records_the_same_episodes():
    """All randomness, of the policy and of the environment, comes from the generator."""
    env = gymnasium.make("FrozenLake-v1")
    mdp = from_gymnasium(env, discount=0.9).mdp
    first, second = (
        record_demonstrations(env, mdp, uniform_policy(mdp), 5, rng=rng, max_steps=50)
        for rng in (3, np.random.default_rng(3))
    )
    assert_array_equal(first.states, second.states)
    assert_array_equal(first.offsets, second.offsets)


@pytest.mark.parametrize(
    ("n_states", "n", "max_steps", "message"),
    [
        (16, 1, 5, "the MDP has 16 states and 16 choices; from_gymnasium makes 17 states"),
        (17, 1, 5, "the MDP has 17 states and 17 choices; from_gymnasium makes 17 states with 68 choices"),
        (17, -1, 5, "the number of demonstrations must be a whole number of at least 1, got -1"),
        (17, 0, 5, "the number of demonstrations must be a whole number of at least 1, got 0"),
        (17, 1, 0, "max_steps must be a whole number of at least 1, got 0"),
    ],
)
def test_recordings_that_mean_nothing_are_refused(n_states, n, max_steps, message):
    """An MDP of another environment numbers its states differently, and is refused."""
    mdp = MDP.from_arrays(np.eye(n_states)[:, None, :], np.eye(n_states)[0], 0.9)
    with pytest.raises(InvalidInput, match=message):
        record_demonstrations(
            gymnasium.make("FrozenLake-v1"),
            mdp,
            np.ones(n_states),
            n,
            rng=np.random.default_rng(0),
            max_steps=max_steps,
        )
