"""The states of a model, given as functions or by a Gymnasium environment, are found from its start, breadth first."""

import copy
import pickle
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import whole_number
from tutelage.model.inputs import by_name, choice_of_entry, feature_matrix, feature_names, takes_next_state
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import LAST_STATE, is_hashable
from tutelage.outcomes import InvalidInput, InvalidModel, OnProgress, report, watched

LARGEST_MODEL = 1_000_000
# Of the environment before a step, the action, and the environment after it.
StepFeatures = Callable[[Any, int, Any], Any]
# The state and the action of each choice (C,); None for those of absorbing states.
_Steps = list[tuple[Any, Hashable] | None]


def explore(
    start: Any,
    actions: Callable[[Any], Iterable[Hashable]],
    outcomes: Callable[[Any, Any], Iterable[tuple[float, Hashable]]],
    *,
    discount: float,
    reward: Callable[..., Any],
    preference: Callable[..., Any] | None = None,
    duration: Callable[[Any, Any], float] | None = None,
    reward_names: Sequence[str] = (),
    preference_names: Sequence[str] = (),
    max_states: int = LARGEST_MODEL,
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> Domain:
    """A domain with the states reached from the start, in the order found; the states and the actions become its names.

    start: a state, any hashable object, or a mapping from states to probabilities.
    actions(state): the names of the actions of a state. A state without actions is absorbing: its one choice, "stay",
        leads back to it with all features zero.
    outcomes(state, action): the possible next states, a list of (probability, next state).
    reward(state, action), preference(state, action): features, a number, a sequence of numbers, or a dict by name. A
        function of (state, action, next state) counts on arrival: demonstrations then count what happened.
    duration(state, action): the time that an action takes; its discount is discount ** duration.
    max_states: a model with more states is refused.
    time_limit: seconds, after which `OutOfTime` is raised.
    progress: called at every thousandth state with the number of explored states, and the number that waits as the gap.
    """
    given = start if isinstance(start, Mapping) else {check_hashable(start, "the start"): 1.0}
    if not given:
        raise InvalidModel("start is an empty mapping; give at least one state with its probability")
    with watched(time_limit, progress):
        mdp, steps = _explored(given, actions, outcomes, discount, max_states, duration=duration)
    rewards = _features(mdp, steps, "reward", reward, reward_names)
    return Domain(mdp, rewards, _features(mdp, steps, "preference", preference, preference_names))


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

    Steps that terminate lead to one more state, "end", which is absorbing with zero features. A limit on the number of
    steps is ignored. max_states, time_limit, progress: as of `explore`.
    The states are found by stepping copies, so `step` must be deterministic, and copies of all attributes independent
    of the environment. A step that draws from `np_random` is refused, and so are two states of one key that behave
    differently on 20 random walks of 50 steps from the start.
    """
    names = _named_actions(env, actions)
    env.reset(seed=seed)
    measures = {"reward": reward_features, "preference": preference_features}
    copies = _Copies(key, names, {kind: measure for kind, measure in measures.items() if measure})
    first = copies.key_of(env.unwrapped)
    copies.held[first] = _copied(env.unwrapped)
    with watched(time_limit, progress):
        mdp, steps = _explored({first: 1.0}, copies.offered, copies.outcomes, discount, max_states, tuple(names))
        copies.check(env.unwrapped)
    called: Sequence[str] = reward_names or (() if reward_features else ("reward",))
    rewards = _features(mdp, steps, "reward", copies.measured("reward"), called)
    avoided = copies.measured("preference") if preference_features else None
    return Domain(mdp, rewards, _features(mdp, steps, "preference", avoided, preference_names))


def _explored(
    start: Mapping[Any, float],
    actions: Callable[[Any], Any],
    outcomes: Callable[[Any, Any], Any],
    discount: Any,
    max_states: int,
    at_end: tuple[Hashable, ...] = ("stay",),
    duration: Callable[[Any, Any], float] | None = None,
) -> tuple[MDP, _Steps]:
    """The model of every state that is found, and its steps. at_end: the choices of absorbing states."""
    limit = whole_number(max_states, "max_states", least=1)
    states = list(start)
    number = {state: i for i, state in enumerate(states)}
    steps: _Steps = []
    probabilities: list[float] = []
    columns: list[int] = []
    first_choice, ends = [0], [0]
    # The list grows while it is read.
    for n_explored, state in enumerate(states, start=1):
        given = actions(state)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidModel(f"state {state!r}: actions must be a list, got {given!r}")
        taken: _Steps = [(state, action) for action in given] or [None] * len(at_end)
        for step in taken:
            for probability, after in _pairs(*step, outcomes(*step)) if step else [(1.0, state)]:
                columns.append(number.setdefault(after, len(states)))
                probabilities.append(probability)
                if columns[-1] == len(states):
                    states.append(after)
            ends.append(len(columns))
        steps += taken
        first_choice.append(len(steps))
        n_waiting = len(states) - n_explored
        if len(states) > limit:
            told = f"{n_explored} are explored and {n_waiting} wait; raise max_states, or bound the states"
            raise InvalidModel(f"the model has more than {limit} states: {told}")
        if n_explored % 1_000 == 0 or not n_waiting:
            report("states explored", n_explored, n_waiting)
    if not any(steps):
        raise InvalidModel("no state has an action, so there are no features; give the start an action")
    rows = sparse.csr_array((probabilities, columns, ends), (len(steps), len(states)))
    initial = np.append(list(start.values()), np.zeros(len(states) - len(start)))
    # A stay takes one unit of time.
    times = None if duration is None else [duration(*step) if step else 1.0 for step in steps]
    stays = cycle(at_end)
    names = [step[1] if step else next(stays) for step in steps]
    labels: dict[str, Any] = {"state_names": states, "choice_names": names}
    return MDP.from_choices(rows, first_choice, initial, discount, duration=times, **labels), steps


def _pairs(state: Any, action: Hashable, listed: Any) -> list[tuple[float, Hashable]]:
    try:
        pairs = [(0.0 + probability, after) for probability, after in listed]
        hash(tuple(pairs))
    except (TypeError, ValueError) as error:
        form = "(probability, next state), with states that are hashable, such as tuples or strings"
        raise InvalidModel(f"{_place(state, action)}: outcomes must be a list of {form}; got {listed!r}") from error
    return pairs


def _features(
    mdp: MDP, steps: _Steps, kind: str, function: Callable[..., Any] | None, names: Sequence[str]
) -> dict[str, Any]:
    """The features that a function of a state and an action gives for the steps; zero where a step is None."""
    if function is None:
        return {}
    rows = mdp.transition
    on_arrival = takes_next_state(function)
    owner = choice_of_entry(rows) if on_arrival else np.arange(mdp.n_choices)
    places = np.flatnonzero(np.array([step is not None for step in steps])[owner])
    taken: Any = [steps[choice] for choice in owner[places]]
    after = [(mdp.names.state_name(state),) for state in rows.indices[places]] if on_arrival else [()] * len(taken)
    values = [function(*step, *state) for step, state in zip(taken, after, strict=True)]
    known, given = feature_matrix(values, names, kind, lambda row: _place(*taken[row]))
    columns = feature_names(given, known.shape[1], kind)
    matrix = np.zeros((len(owner), len(columns)))
    matrix[places] = known
    return by_name(rows, matrix, columns) if on_arrival else dict(zip(columns, matrix.T, strict=True))


def _place(state: Any, action: Hashable) -> str:
    return f"state {state!r}, action {action!r}"


def check_hashable(state: Any, what: str) -> Any:
    if not is_hashable(state):
        raise InvalidModel(f"{what} {state!r} is not hashable; give a tuple, a string or a frozen dataclass")
    return state


def _copied(env: Any) -> Any:
    """A copy with equal attributes; that of `copy.deepcopy` would start anew where an environment is an EzPickle."""
    made = object.__new__(type(env))
    made.__dict__ = copy.deepcopy(env.__dict__, {id(env): made})
    return made


@dataclass(slots=True)
class _Copies:
    """Copies of an environment in the states that wait to be explored, and the outcomes known so far.

    known: by key and name of the action, the next key and the features of the step. held: the copy in each state by its
    key, None once it is explored. before: the copy in the state that is explored.
    """

    key: Callable[[Any], Hashable]
    actions: dict[Hashable, int]
    measures: dict[str, StepFeatures]
    known: dict[tuple[Any, Hashable], dict[str, Any]] = field(default_factory=dict)
    held: dict[Any, Any] = field(default_factory=dict)
    before: Any = None

    def offered(self, key: Any) -> tuple[Hashable, ...]:
        self.before, self.held[key] = self.held[key], None
        return () if key == LAST_STATE else tuple(self.actions)

    def outcomes(self, key: Any, action: Hashable) -> list[tuple[float, Any]]:
        outcome, after = self._step(self.before, action)
        self.known[key, action] = outcome
        self.held.setdefault(outcome["next"], after)
        return [(1.0, outcome["next"])]

    def measured(self, kind: str) -> Callable[[Any, Hashable], Any]:
        return lambda key, action: self.known[key, action][kind]

    def key_of(self, env: Any) -> Any:
        key = check_hashable(self.key(env), "the key")
        if key == LAST_STATE:
            raise InvalidModel(f"the key {key!r} is that of the end of an episode; give another one")
        return key

    def _step(self, before: Any, action: Hashable) -> tuple[dict[str, Any], Any]:
        after = _copied(before)
        number = self.actions[action]
        drawn = _random_state(after)
        _, reward, is_end, _, _ = after.step(number)
        if _random_state(after) != drawn:
            told = f"{type(before).__name__} draws random numbers in a step ({_place(self.key_of(before), action)})"
            raise InvalidModel(f"{told}, so copies do not show its probabilities; give them to tutelage.explore")
        outcome = {"next": LAST_STATE if is_end else self.key_of(after), "reward": reward}
        return outcome | {kind: measure(before, number, after) for kind, measure in self.measures.items()}, after

    def check(self, origin: Any, n_walks: int = 20, n_steps: int = 50) -> None:
        """Refuse a key that two states with different behaviour share, as far as random walks show it."""
        rng = np.random.default_rng(0)
        names = tuple(self.actions)
        for _ in range(n_walks):
            at = origin
            for number in rng.integers(len(names), size=n_steps):
                key, action = self.key_of(at), names[number]
                known = self.known[key, action]
                again, at = self._step(at, action)
                if not all(np.array_equal(known[part], again[part]) for part in known):
                    one, other = (f"{part['next']!r} with the features {part['reward']!r}" for part in (known, again))
                    told = f"action {action!r} leads one to {one} and the other to {other}"
                    raise InvalidModel(f"two states have the key {key!r}: {told}; let the key tell them apart")
                if again["next"] == LAST_STATE:
                    break


def _named_actions(env: Any, given: Sequence[int] | None) -> dict[Hashable, int]:
    """The actions by their names in the environment's enumeration, or by number; refused unless they are finite."""
    space: Any = getattr(env, "action_space", None)
    if not all(hasattr(env, name) for name in ("reset", "step", "unwrapped")) or not hasattr(space, "n"):
        raise InvalidInput(f"explore_gymnasium needs an environment with discrete actions, got {env!r}")
    first = int(getattr(space, "start", 0))
    known = range(first, first + int(space.n))
    numbers = [int(number) for number in (known if given is None else given)]
    if not numbers or not set(numbers) <= set(known) or len(set(numbers)) < len(numbers):
        raise InvalidInput(f"actions must be different numbers of {first} .. {known[-1]}, got {given!r}")
    members: Mapping[str, Any] = getattr(getattr(env.unwrapped, "actions", None), "__members__", {})
    names = {member.value: name for name, member in members.items()}
    return {names.get(number, number): number for number in numbers}


def _random_state(env: Any) -> bytes:
    random = getattr(env, "np_random", None)
    return pickle.dumps(random.bit_generator.state) if isinstance(random, np.random.Generator) else b""
