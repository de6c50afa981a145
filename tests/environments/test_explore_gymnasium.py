"""Environments without a table: MiniGrid's, with the optimum of a breadth-first search of its own."""

import re
from collections import deque

import numpy as np
import pytest
from oracles import optimal_value
from strategies import some_of

import tutelage as tl

gymnasium = pytest.importorskip("gymnasium")
minigrid = pytest.importorskip("minigrid")

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
DISCOUNT = 0.97


def pose(env):
    return (*map(int, env.agent_pos), int(env.agent_dir))


def is_at(env, kind):
    cell = env.grid.get(*env.agent_pos)
    return cell is not None and cell.type == kind


def shortest(start, is_goal, moves):
    """The least number of steps to a goal, by breadth-first search."""
    waiting, seen = deque([(start, 0)]), {start}
    while waiting:
        state, n_steps = waiting.popleft()
        if is_goal(state):
            return n_steps
        for after in moves(state):
            if after not in seen:
                seen.add(after)
                waiting.append((after, n_steps + 1))
    raise AssertionError("no way leads to the goal")


def turns(x, y, towards):
    dx, dy = STEPS[towards]
    return (x, y, (towards - 1) % 4), (x, y, (towards + 1) % 4), (x + dx, y + dy, towards)


def replayed(env, domain, policy, seed):
    """The number of steps, and the last reward, of a deterministic policy in the environment itself."""
    env.reset(seed=seed)
    state, names = domain.state_name(0), {action.name: action.value for action in env.unwrapped.actions}
    for n_steps in range(1, 200):
        row = domain.state(state) * len(names_of(domain))
        action = domain.choice_name(row + int(policy[row : row + len(names_of(domain))].argmax()))
        _, reward, is_terminated, _, _ = env.step(names[action])
        if is_terminated:
            return n_steps, reward
        state = domain.state_name(int(domain.mdp.transition.indices[domain.choice(state, action)]))
    raise AssertionError("the policy does not arrive")


def names_of(domain):
    return domain.choice_names.stored


@pytest.mark.parametrize("seed", some_of(range(10), [3]))
def test_the_best_way_around_the_lava_is_the_shortest(seed):
    env = gymnasium.make("MiniGrid-LavaCrossingS9N1-v0")
    domain = tl.explore_gymnasium(
        env,
        key=pose,
        discount=DISCOUNT,
        seed=seed,
        actions=[LEFT, RIGHT, FORWARD],
        reward_features=lambda before, action, after: {"goal": is_at(after, "goal")},
        preference_features=lambda before, action, after: {"lava": is_at(after, "lava"), "turn": action != FORWARD},
    )
    env.reset(seed=seed)
    grid = env.unwrapped.grid

    def moves(state):
        for x, y, towards in turns(*state):
            cell = grid.get(x, y)
            if cell is None or cell.type == "goal":
                yield x, y, towards

    n_steps = shortest(pose(env.unwrapped), lambda state: grid.get(*state[:2]) is not None, moves)
    assert optimal_value(domain, [1.0]) == pytest.approx(DISCOUNT ** (n_steps - 1), rel=1e-9)
    policy = tl.best_policy(domain, [1.0], tl.no_limits(domain)).policy
    assert replayed(env, domain, policy, seed)[0] == n_steps
    assert domain.preference_names == ("lava", "turn") and names_of(domain) == ("left", "right", "forward")


@pytest.mark.parametrize("seed", some_of(range(10), [2]))
def test_the_best_way_takes_the_key_and_opens_the_door(seed):
    env = gymnasium.make("MiniGrid-DoorKey-5x5-v0")
    env.reset(seed=seed)
    grid = env.unwrapped.grid
    found = {grid.get(x, y).type: (x, y) for x in range(1, 4) for y in range(1, 4) if grid.get(x, y) is not None}
    walls = {(x, y) for x in range(5) for y in range(5) if getattr(grid.get(x, y), "type", None) == "wall"}
    door, goal, key_at = found["door"], found["goal"], found["key"]

    def state_of(inner):
        return (*pose(inner), inner.carrying is not None, inner.grid.get(*door).is_open)

    domain = tl.explore_gymnasium(
        env,
        key=state_of,
        discount=DISCOUNT,
        seed=seed,
        actions=[LEFT, RIGHT, FORWARD, PICKUP, TOGGLE],
        reward_features=lambda before, action, after: {"goal": is_at(after, "goal")},
    )

    def moves(state):
        x, y, towards, has_key, is_open = state
        ahead = (x + STEPS[towards][0], y + STEPS[towards][1])
        blocked = walls | ({door} if not is_open else set()) | ({key_at} if not has_key else set())
        for after in turns(x, y, towards):
            if after[:2] not in blocked:
                yield (*after, has_key, is_open)
        if ahead == key_at:
            yield x, y, towards, True, is_open
        if ahead == door and has_key:
            yield x, y, towards, has_key, not is_open

    n_steps = shortest(domain.state_name(0), lambda state: state[:2] == goal, moves)
    assert optimal_value(domain, [1.0]) == pytest.approx(DISCOUNT ** (n_steps - 1), rel=1e-9)
    policy = tl.best_policy(domain, [1.0], tl.no_limits(domain)).policy
    assert replayed(env, domain, policy, seed)[0] == n_steps


class Ring(gymnasium.Env):
    """A walk around a ring of n; `noise` steps at random, `memory` counts steps in the reward."""

    action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(12)

    def __init__(self, n=12, noise=False, memory=False):
        self.n, self.noise, self.memory, self.at, self.time = n, noise, memory, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.time = 0
        return self.at, {}

    def step(self, action):
        self.time += 1
        if not self.noise or self.np_random.random() < 0.5:
            self.at = (self.at + (1 if action else -1)) % self.n
        return self.at, self.time if self.memory else float(self.at == 6), self.at == 6, False, {}


def test_a_ring_has_its_known_optimum():
    domain = tl.explore_gymnasium(Ring(), key=lambda env: env.at, discount=0.9)
    assert set(domain.state_names) == {*range(6), *range(7, 12), "end"} and domain.reward_names == ("reward",)
    assert optimal_value(domain, [1.0]) == pytest.approx(0.9**5, rel=1e-12)
    assert domain.mdp.names.describe_choice(domain.choice(11, 1)).startswith("state 1 (11), action 1 (1)")


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (Ring(noise=True), {}, "Ring draws random numbers in a step (state 0, action 0), so copies do not show"),
        (Ring(), {"key": lambda env: env.at % 2}, "two states have the key"),
        (Ring(memory=True), {}, "two states have the key"),
        (Ring(), {"key": lambda env: [env.at]}, "the key [0] is not hashable"),
        (Ring(), {"max_states": 5}, "more than 5 states: 4 are explored and 2 wait"),
        (Ring(), {"actions": [0, 2]}, "actions must be different numbers of 0 .. 1, got [0, 2]"),
        (Ring(), {"actions": []}, "actions must be different numbers"),
        (
            Ring(),
            {"reward_features": lambda before, action, after: None},
            "the reward features None are not all finite",
        ),
        ("Ring", {}, "needs an environment with discrete actions, got 'Ring'"),
    ],
)
def test_what_cannot_be_explored_is_refused_with_a_sentence(env, options, message):
    with pytest.raises(tl.InvalidInput, match=re.escape(message)):
        tl.explore_gymnasium(env, **({"key": lambda env: env.at, "discount": 0.9} | options))


def test_blackjack_is_refused_because_it_draws_cards():
    env = gymnasium.make("Blackjack-v1")
    with pytest.raises(tl.InvalidInput, match="BlackjackEnv draws random numbers"):
        tl.explore_gymnasium(env, key=lambda inner: tuple(inner.player), discount=0.9)


def test_features_that_depend_on_the_step_are_noticed():
    """MiniGrid's own reward falls with the number of steps, which a key of the pose does not tell."""
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    with pytest.raises(tl.InvalidInput, match="two states have the key"):
        tl.explore_gymnasium(env, key=pose, discount=0.9)


class Line(gymnasium.Env, gymnasium.utils.EzPickle):
    """Cells 0 .. 4, of which the last is the end. A pickle of it, and so a deep copy, starts anew."""

    def __init__(self):
        gymnasium.utils.EzPickle.__init__(self)
        self.action_space, self.observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(5)
        self.at, self.me = 0, self

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at = max(self.at + (1 if action else -1), 0)
        return self.at, np.array([self.at == 4, -1.0]), self.at == 4, False, {}


def test_an_environment_whose_copies_would_start_anew_keeps_its_state():
    """The reward of the fourth step to the right, discounted three times. A vector reward needs features."""
    line = tl.explore_gymnasium(
        Line(), key=lambda env: env.at, discount=0.9, reward_features=lambda before, action, after: float(after.at == 4)
    )
    assert line.mdp.n_states == 5
    assert tl.solve_hard(line.mdp, line.reward_features[:, 0]).value[0] == pytest.approx(0.9**3)
