"""Gymnasium environments without a table: their states are found by stepping copies, breadth first.

This needs an environment whose `step` is deterministic and whose copies (`copy.deepcopy`) are independent of it. A step
that draws from `np_random` is noticed and refused. Two states of one key are noticed where they behave differently: one
action is tried at some further arrivals in known states, and random walks from the start follow (`KeyChecks`).
"""

import copy
import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import EnumMeta
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, whole_number
from tutelage.environments.explore import LARGEST_MODEL, check_hashable, report_states
from tutelage.environments.gymnasium_names import with_end
from tutelage.model.inputs import feature_matrix
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidInput, InvalidModel
from tutelage.watch import OnProgress, watched

# Of the environment before a step, the action, and the environment after it.
StepFeatures = Callable[[Any, int, Any], Any]


def explore_gymnasium(
    env: Any,
    *,
    key: Callable[[Any], Hashable],
    discount: float,
    seed: int = 0,
    actions: Sequence[int] | None = None,
    reward_features: StepFeatures | None = None,
    reward_names: Sequence[str] = (),
    preference_features: StepFeatures | None = None,
    preference_names: Sequence[str] = (),
    max_states: int = LARGEST_MODEL,
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> Domain:
    """A deterministic environment as a domain with the states that can be reached after `env.reset(seed=seed)`.

    key(env): what distinguishes the states, such as the position and the direction of an agent; it becomes the name.
    actions: the numbers of the actions to use; all of them unless given.
    reward_features, preference_features: functions of (before, action, after), the environment before and after the
        step, that return a number, a sequence or a dict by name. Without them the one reward feature is the reward.

    Steps that terminate lead to one more state, the last, which is absorbing with zero features. A limit on the number
    of steps is ignored. max_states, time_limit, progress: as of `explore`.
    """
    numbers = _actions(env, actions)
    measures = {"reward": reward_features, "preference": preference_features}
    walk = _Walk(key, numbers, measures, whole_number(max_states, "max_states", least=1))
    env.reset(seed=seed)
    with watched(time_limit, progress):
        walk.run(copy.deepcopy(env.unwrapped))
    rewards, reward_columns = walk.features("reward", reward_names or (() if reward_features else ("reward",)))
    preferences: Matrix = np.zeros((0, 0))
    preference_columns: tuple[str, ...] = ()
    if preference_features is not None:
        preferences, preference_columns = walk.features("preference", preference_names)
    labels = with_end(walk.states), _action_names(env, numbers)
    return Domain(walk.mdp(discount), rewards, preferences, reward_columns, preference_columns, *labels)


@dataclass(frozen=True, slots=True)
class KeyChecks:
    """How often it is checked that two states of one key behave alike."""

    most_arrivals: int = 500
    n_walks: int = 10
    walk_steps: int = 50


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a step leads to: the key of the next state, None at the end, and the features of the step."""

    next_key: Any
    is_end: bool
    reward: Any
    preference: Any

    def differs(self, other: "_Outcome") -> bool:
        same = all(_equal(getattr(self, kind), getattr(other, kind)) for kind in ("reward", "preference"))
        return not same or (self.is_end, self.next_key) != (other.is_end, other.next_key)


CHECKS = KeyChecks()


@dataclass(slots=True)
class _Walk:
    """The states found so far, by key, and the outcome of each action in each explored state."""

    key: Callable[[Any], Hashable]
    actions: Sequence[int]
    measures: dict[str, StepFeatures | None]
    limit: int
    states: list[Any] = field(default_factory=list)
    number: dict[Any, int] = field(default_factory=dict)
    outcomes: list[list[_Outcome]] = field(default_factory=list)
    checks: list[tuple[int, int, _Outcome]] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def run(self, first: Any) -> None:
        """Explore every state, in the order in which they are found."""
        origin, waiting = copy.deepcopy(first), {self._add(self._key(first)): first}
        for number in range(self.limit + 1):
            if number not in waiting:
                break
            before = waiting.pop(number)
            self.outcomes.append([])
            for action in self.actions:
                outcome, after = self._step(before, action)
                self.outcomes[-1].append(outcome)
                if outcome.is_end:
                    continue
                if outcome.next_key not in self.number:
                    waiting[self._add(outcome.next_key)] = after
                elif len(self.checks) < CHECKS.most_arrivals:
                    place = len(self.checks) % len(self.actions)
                    again = self._step(after, self.actions[place])[0]
                    self.checks.append((self.number[outcome.next_key], place, again))
            report_states(self.limit, number + 1, len(self.states))
        for number, place, again in self.checks:
            self._check(number, place, again)
        for _ in range(CHECKS.n_walks):
            self._check_walk(origin)

    def _add(self, key: Any) -> int:
        self.number[key] = len(self.states)
        self.states.append(key)
        return self.number[key]

    def _key(self, env: Any) -> Any:
        return check_hashable(self.key(env), "the key")

    def _step(self, before: Any, action: int) -> tuple[_Outcome, Any]:
        """The outcome of an action in a copy of the environment, and the copy."""
        after = copy.deepcopy(before)
        drawn = _random_state(after)
        _, reward, is_end, _, _ = after.step(action)
        if _random_state(after) != drawn:
            place = f"state {self._key(before)!r}, action {action}"
            raise InvalidModel(
                f"{type(before).__name__} draws random numbers in a step ({place}), so copies do not show its "
                "probabilities; use tutelage.explore with them, or from_gymnasium with a table"
            )
        measure, other = self.measures["reward"], self.measures["preference"]
        gained = float(reward) if measure is None else measure(before, action, after)
        disliked = None if other is None else other(before, action, after)
        return _Outcome(None if is_end else self._key(after), bool(is_end), gained, disliked), after

    def _check_walk(self, at: Any) -> None:
        """Compare a random walk with what is known."""
        for place in self.rng.integers(len(self.actions), size=CHECKS.walk_steps).tolist():
            number = self.number[self._key(at)]
            again, at = self._step(at, self.actions[place])
            self._check(number, place, again)
            if again.is_end:
                return

    def _check(self, number: int, place: int, again: _Outcome) -> None:
        """Refuse a key that two states with different behaviour share."""
        known = self.outcomes[number][place]
        if known.differs(again):
            raise InvalidModel(
                f"two states have the key {self.states[number]!r}: action {self.actions[place]} leads one to "
                f"{_told(known)} and the other to {_told(again)}; let the key, or the features, tell them apart"
            )

    def features(self, kind: str, names: Sequence[str]) -> tuple[Matrix, tuple[str, ...]]:
        """(C, d), the features of each choice; zero for those of the last state."""
        values = [getattr(outcome, kind) for listed in self.outcomes for outcome in listed]
        n_actions = len(self.actions)

        def place(row: int) -> str:
            return f"state {self.states[row // n_actions]!r}, action {self.actions[row % n_actions]}"

        matrix, columns = feature_matrix(values, names, kind, place)
        return np.vstack([matrix, np.zeros((n_actions, matrix.shape[1]))]), columns

    def mdp(self, discount: float) -> MDP:
        end, n_actions = len(self.states), len(self.actions)
        next_states = [end if o.is_end else self.number[o.next_key] for listed in self.outcomes for o in listed]
        n_choices = (end + 1) * n_actions
        entries = np.ones(n_choices), [*next_states, *[end] * n_actions], np.arange(n_choices + 1)
        rows = sparse.csr_array(entries, shape=(n_choices, end + 1))
        initial = np.zeros(end + 1)
        initial[0] = 1.0
        return MDP.from_choices(rows, np.arange(end + 2) * n_actions, initial, discount)


def _actions(env: Any, given: Sequence[int] | None) -> list[int]:
    """The numbers of the actions; refused unless the environment has a finite set of them."""
    space: Any = getattr(env, "action_space", None)
    if not all(hasattr(env, name) for name in ("reset", "step", "unwrapped")) or not hasattr(space, "n"):
        raise InvalidInput(f"explore_gymnasium needs an environment with discrete actions, got {env!r}")
    first = int(getattr(space, "start", 0))
    known = range(first, first + int(space.n))
    numbers = list(known) if given is None else [int(number) for number in given]
    wrong = [number for number in numbers if number not in known]
    if wrong or not numbers or len(set(numbers)) < len(numbers):
        raise InvalidInput(f"actions must be different numbers of {first} .. {known[-1]}, got {given!r}")
    return numbers


def _action_names(env: Any, numbers: Sequence[int]) -> list[Hashable]:
    """The names in the environment's enumeration of its actions, if it has one; otherwise the numbers."""
    listed = getattr(env.unwrapped, "actions", None)
    members: dict[str, Any] = dict(listed.__members__) if isinstance(listed, EnumMeta) else {}
    names = {member.value: name for name, member in members.items()}
    return [names.get(number, number) for number in numbers]


def _random_state(env: Any) -> bytes:
    random = getattr(env, "np_random", None)
    return pickle.dumps(random.bit_generator.state) if isinstance(random, np.random.Generator) else b""


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(np.all(first == second))
    except ValueError:
        return False


def _told(outcome: _Outcome) -> str:
    where = "the end" if outcome.is_end else f"{outcome.next_key!r}"
    return f"{where} with the features {outcome.reward!r}"
