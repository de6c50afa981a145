"""Gymnasium environments as domains, domains as environments, and episodes played there or in a Minari dataset.

An environment can become a domain if it has a table `P`: state -> action -> a list of (probability, next state, reward,
terminated), as FrozenLake, CliffWalking and Taxi have. The domain has one more state than the table, the last, and
every transition that terminates leads there. This state is absorbing, has zero reward and as many choices as any state.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from tutelage import arrays
from tutelage.arrays import ArrayLike, Indices, Matrix, SparseRows, Vector
from tutelage.data.demonstrations import Demonstrations
from tutelage.model.inputs import at_entries, called_features, choice_of_entry, feature_names, named_features
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import LAST_STATE, GridNames, Labels
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidModel, needed_for

if TYPE_CHECKING:
    from tutelage.environments.domain_env import DomainEnv

ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}

# An array, or a function of a state, or of a state and an action.
Features = ArrayLike | Callable[..., Any]
# For each state, its actions in order: the environment's number of the action, and its outcomes.
Table = tuple[tuple[tuple[int, Sequence[Any]], ...], ...]


def from_gymnasium(
    env: Any,
    *,
    discount: float,
    initial: ArrayLike | None = None,
    reward_features: Features | None = None,
    reward_names: Sequence[str] = (),
    preference_features: Features | None = None,
    preference_names: Sequence[str] = (),
    state_names: Sequence[Hashable] | None = None,
    action_names: Sequence[Hashable] | None = None,
) -> Domain:
    """The table of an environment as a domain.

    initial: (n,), the distribution of the first state; needed where the environment has no `initial_state_distrib`.
    reward_features: in place of the one feature "reward", the expected immediate reward of each choice.
    state_names: (n,). action_names: one per action. Those of FrozenLake, CliffWalking and Taxi are known.

    Features are an array or a function of the numbers of a state and an action. An array (n, k), with one row per state
    of the environment, and a function of a state count on arrival: a choice has the mean over its next states, and a
    demonstration what happened. An array (n, A, k) and a function of state and action count when the action is taken; a
    function of a state, an action and the next state counts on arrival. A function returns a number, a sequence or a
    dict. All outcomes of a choice that end the episode lead to the same state: each counts the mean of these.
    """
    table = transition_table(env)
    outcomes = _outcomes(table)
    end = len(table)
    counts = [len(actions) for actions in table]
    moves = outcomes.at_moves(outcomes.probability, (sum(counts), end + 1))
    stays = sparse.eye_array(end + 1, format="csr")[[end] * max(counts)]
    if initial is None:
        initial = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
    if initial is None:
        raise InvalidModel("the environment has no initial_state_distrib; give initial, the first state's distribution")
    begun = np.append(arrays.vector(initial, "initial", end, "states in the environment"), 0.0)
    first_choice = np.cumsum([0, *counts, max(counts)])
    mdp = MDP.from_choices(sparse.vstack([moves, stays]), first_choice, begun, discount, goals=[end])
    finals = np.unique(outcomes.next_state[outcomes.after == end])
    labels = Labels(mdp.first_choice, *_names(env, table, state_names, action_names), finals)
    mdp = arrays.changed(mdp, labels=labels)
    if reward_features is None:
        parts = _on_arrival(mdp, outcomes, outcomes.reward[:, None], reward_names or ("reward",), "reward")
    else:
        parts = _features(mdp, outcomes, table, reward_features, reward_names, "reward")
    if preference_features is not None:
        parts |= _features(mdp, outcomes, table, preference_features, preference_names, "preference")
    return Domain(mdp, **parts)


def environment_domain(env: Any, discount: float, *, with_cells: bool) -> Domain:
    """The domain that `tutelage import gymnasium` writes. with_cells: with a reward feature for each state, too."""
    domain = from_gymnasium(env, discount=discount)
    *states, last = [domain.state_name(state) for state in range(domain.mdp.n_states)]
    actions = dict.fromkeys(domain.choice_name(choice) for choice in range(domain.mdp.n_choices))
    taken = {f"action {one}": lambda state, action, one=one: action == one and state != last for one in actions}
    domain = domain.with_features(preference=taken)
    if not with_cells:
        return domain
    cells = [f"at {state}" for state in states]
    there = from_gymnasium(env, discount=discount, reward_features=np.eye(len(cells)), reward_names=cells)
    return domain.with_features(reward=named_features(there, "reward"))


def _names(
    env: Any, table: Table, states: Sequence[Hashable] | None, actions: Sequence[Hashable] | None
) -> tuple[Sequence[Hashable] | None, Sequence[Hashable] | None]:
    """The names of all states and choices, with those of the last state; those known by the class, if not given."""
    inner = getattr(env, "unwrapped", env)
    made_of = getattr(inner, "domain", None)
    numbers = [number for listed in table for number, _ in listed]
    for given, count, name in ((states, len(table), "state_names"), (actions, 1 + max(numbers), "action_names")):
        if given is not None and (isinstance(given, str) or len(given) != count):
            raise InvalidModel(f"{name} must be a list of {count} names, got {given!r}")
    if states is None:
        states = getattr(made_of, "state_names", None) or _known_states(inner, len(table))
    if isinstance(states, GridNames) and not states.has_end:
        states = GridNames(states.n_rows, states.n_columns)
    elif states is not None:
        last = LAST_STATE
        while last in states:
            last = f"{last} of the episode"
        states = [*states, last]
    called = ACTIONS.get(type(inner).__name__, ()) if actions is None else actions
    of_choices = getattr(made_of, "choice_names", None)
    if max(numbers) < len(called):
        of_choices = [called[number] for number in numbers]
    if of_choices is not None:
        counts = [len(listed) for listed in table]
        widest = sum(counts[: counts.index(max(counts))])
        of_choices = [*of_choices, *of_choices[widest : widest + max(counts)]]
    return states, of_choices


def _known_states(inner: Any, n_states: int) -> Sequence[Hashable] | None:
    kind = type(inner).__name__
    if kind in ("FrozenLakeEnv", "CliffWalkingEnv"):
        n_rows, n_columns = inner.desc.shape if kind == "FrozenLakeEnv" else inner.shape
        grid = GridNames(int(n_rows), int(n_columns), has_end=False)
        return grid if len(grid) == n_states else None
    if kind != "TaxiEnv" or n_states != 500:
        return None
    stands = ("red", "green", "yellow", "blue")
    places = (*(f"at {stand}" for stand in stands), "in the taxi")
    taxi = "taxi at row {}, column {}, passenger {}, destination {}"
    parts = (inner.decode(state) for state in range(n_states))
    return [taxi.format(row, column, places[who], stands[to]) for row, column, who, to in parts]


def _features(
    mdp: MDP, outcomes: "_Outcomes", table: Table, given: Features, names: Sequence[str], kind: str
) -> dict[str, Any]:
    """Features on choices, or on arrival; zero in the last state."""
    numbers = [(state, number) for state, actions in enumerate(table) for number, _ in actions]
    if callable(given):
        moves = (outcomes.choice, outcomes.next_state)
        places = ("state {}".format, lambda choice: "state {}, action {}".format(*numbers[choice]))
        n_given, array, names = called_features(given, range(len(table)), numbers, moves, names, kind, places)
    else:
        name = f"{kind}_features"
        array = np.atleast_1d(arrays.any_array(given, name))
        # Where every state has one action, only a third axis tells features of actions.
        n_given = 1 if len(array) == len(table) and array.ndim < 3 else 2
        if array.ndim == 3 and array.shape[0] * array.shape[1] == len(numbers):
            array = array.reshape(len(numbers), -1)
        array = arrays.floats(array[:, None] if array.ndim == 1 else array, name, ndim=2)
        if len(array) != len(numbers):
            arrays.check_length(array, len(table), name, "states in the environment")
    if n_given == 2:
        last = np.zeros((mdp.n_choices - len(numbers), array.shape[1]))
        return {f"{kind}_features": np.vstack([array, last]), f"{kind}_names": names}
    return _on_arrival(mdp, outcomes, array if n_given == 3 else array[outcomes.next_state], names, kind)


def _on_arrival(mdp: MDP, outcomes: "_Outcomes", values: Matrix, names: Sequence[str], kind: str) -> dict[str, Any]:
    """Features with a value for each outcome (n, k): of a choice and a next state, the mean over its outcomes."""
    rows = mdp.transition
    columns = {}
    for name, column in zip(feature_names(names, values.shape[1], kind), values.T, strict=True):
        total = outcomes.at_moves(outcomes.probability * column, rows.shape)
        columns[name] = at_entries(rows, np.asarray(total[choice_of_entry(rows), rows.indices]) / rows.data)
    return {f"{kind}_features": columns}


def to_gymnasium(domain: Domain, weights: ArrayLike | None = None) -> "DomainEnv":
    """A domain as an environment; the reward of a step is <weights, phi_r>, with weights of one unless given."""
    with needed_for("to_gymnasium", "gymnasium"):
        from tutelage.environments.domain_env import DomainEnv
    return DomainEnv(domain, weights)


def transition_table(env: Any) -> Table:
    """The table of an environment, with states and actions in order."""
    inner = getattr(env, "unwrapped", env)
    table = getattr(inner, "P", None)
    if not isinstance(table, Mapping | Sequence) or isinstance(table, str) or not len(table):
        told = f"{type(inner).__name__} has no table P of its transitions, as FrozenLake, CliffWalking and Taxi have"
        raise InvalidModel(f"{told}; use MDP.from_arrays or MDP.from_choices with its transitions")
    states = _entries(table, "P")
    if [state for state, _ in states] != list(range(len(states))):
        raise InvalidModel(f"the states of P must be numbered from 0 to {len(states) - 1} without a gap")
    return tuple(_entries(actions, f"P[{state}]") for state, actions in states)


def _entries(level: Any, name: str) -> tuple[tuple[int, Any], ...]:
    if not isinstance(level, Iterable):
        raise InvalidModel(f"{name} must be a mapping or a list, got {level!r}")
    entries = dict(level if isinstance(level, Mapping) else enumerate(level))
    for key in entries:
        if not isinstance(key, int | np.integer):
            raise InvalidModel(f"{name} has an entry {key!r}; states and actions must be whole numbers")
    if not entries:
        raise InvalidModel(f"{name} is empty; every state needs an action")
    return tuple((int(key), entries[key]) for key in sorted(entries))


class _Outcomes(NamedTuple):
    """The outcomes of all choices but those of the last state. after: the next state, or the last if it terminates."""

    choice: Indices
    probability: Vector
    next_state: Indices
    reward: Vector
    after: Indices

    def at_moves(self, values: Vector, shape: tuple[int, int]) -> SparseRows:
        return sparse.csr_array((values, (self.choice, self.after)), shape)


def _outcomes(table: Table) -> _Outcomes:
    end = len(table)
    form = "(probability, next state, reward, terminated)"
    rows: list[tuple[int, float, int, float, int]] = []
    places = [(f"P[{state}][{action}]", given) for state, actions in enumerate(table) for action, given in actions]
    for choice, (name, outcomes) in enumerate(places):
        try:
            taken = [(float(p), operator.index(s), float(r), bool(is_end)) for p, s, r, is_end in outcomes]
        except (TypeError, ValueError) as error:
            raise InvalidModel(f"{name} must be a list of {form}, got {outcomes!r}") from error
        if not taken:
            raise InvalidModel(f"{name} is empty; give at least one {form}")
        for probability, after, reward, is_end in taken:
            if not (probability >= 0 and np.isfinite(reward) and 0 <= after < end):
                raise InvalidModel(
                    f"{name} gives probability {probability} and reward {reward} to state {after}; a probability must "
                    f"not be negative, a reward must be finite, and the states are 0 to {end - 1}"
                )
            rows.append((choice, probability, after, reward, end if is_end else after))
    return _Outcomes(*map(np.array, zip(*rows, strict=True)))


def record_demonstrations(
    env: Any, mdp: MDP, policy: ArrayLike, n: int, *, rng: int | np.random.Generator, max_steps: int
) -> Demonstrations:
    """n episodes played in the environment itself.

    mdp: that of the domain that `from_gymnasium` made of the environment. policy: (C,), of this MDP. An episode that
    terminates ends in the last state of the MDP, which is absorbing. An episode that the environment or `max_steps`
    cuts short ends in the state it has reached. The choice of the last state is UNKNOWN.
    """
    count = arrays.whole_number(n, "the number of demonstrations", least=1)
    limit = arrays.whole_number(max_steps, "max_steps", least=1)
    table = transition_table(env)
    source = arrays.generator(rng)
    counts = [len(actions) for actions in table]
    # The states and actions of an MDP that was not made of this environment would have other meanings.
    if mdp.choices_per_state.tolist() != [*counts, max(counts)]:
        needed = f"{len(table) + 1} states with {sum(counts) + max(counts)} choices"
        sizes = f"the MDP has {mdp.n_states} states and {mdp.n_choices} choices"
        raise InvalidModel(f"{sizes}; from_gymnasium makes {needed}")
    checked = check_policy(mdp, policy)
    episodes = []
    for _ in range(count):
        state, _info = env.reset(seed=int(source.integers(2**31)))
        # The states with the last, and the actions, numbered within their state.
        states, actions = [int(state)], []
        for _ in range(limit):
            chances = checked[slice(*mdp.first_choice[states[-1] : states[-1] + 2])]
            action = int(source.choice(len(chances), p=chances))
            state, _reward, is_terminated, is_truncated, _info = env.step(table[states[-1]][action][0])
            actions.append(action)
            states.append(len(table) if is_terminated else int(state))
            if is_terminated or is_truncated:
                break
        episodes.append((states, actions))
    return Demonstrations.from_sequences(mdp, *zip(*episodes, strict=True))


def from_minari(domain: Domain, dataset: Any, *, state: Callable[[Any], Hashable] | None = None) -> Demonstrations:
    """The episodes of a Minari dataset, or of a local dataset of this name.

    state: the name, or the number, of the state that an observation shows. Without it an observation is a whole number.
    An episode that terminated has reached the absorbing state. One that was truncated ends in its last observation.
    """
    if isinstance(dataset, str):
        with needed_for("from_minari", "minari"):
            import minari
        dataset = minari.load_dataset(dataset)
    if not hasattr(dataset, "iterate_episodes"):
        raise InvalidModel(f"a Minari dataset has iterate_episodes, {type(dataset).__name__} has not; load it first")
    columns: dict[str, list[Any]] = {"episode": [], "state": [], "action": [], "terminated": []}
    for episode in dataset.iterate_episodes():
        parts = _parts(episode.observations)
        seen = [state(part) if state else _whole(part, "observation", episode.id) for part in parts]
        done = [_whole(action, "action", episode.id) for action in _parts(episode.actions)]
        if len(seen) != len(done) + 1:
            counts = f"episode {episode.id} has {len(seen)} observations and {len(done)} actions"
            raise InvalidModel(f"{counts}; it needs one observation more")
        columns["episode"] += [episode.id] * len(seen)
        columns["state"] += seen
        columns["action"] += [*done, None]
        columns["terminated"] += [*(bool(flag) for flag in episode.terminations), False]
    return Demonstrations.from_frame(domain, columns, terminated="terminated", row_name="step {} of the dataset".format)


def _parts(values: Any) -> list[Any]:
    """The observations of an episode, one by one, also where each is a dict of arrays."""
    if isinstance(values, dict):
        parts = {key: _parts(value) for key, value in values.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    return list(values)


def _whole(value: Any, what: str, episode: Any) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InvalidModel(f"episode {episode}: the {what} {value!r} is not a whole number; give state=, a function")
    return int(array.item())
