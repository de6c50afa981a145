"""Gymnasium environments as domains, domains as Gymnasium environments, and demonstrations recorded in environments.

An environment can become a domain if it has a table `P`: state -> action -> a list of (probability, next state, reward,
terminated), as FrozenLake, CliffWalking and Taxi have. The domain has one more state than the table, the last, and
every transition that terminates leads there. This state is absorbing and has zero reward. Like the terminal state of an
object world it has as many choices as any state, so a learner still gains causal entropy after the end of an episode
and has no reason to delay the end. The domain ignores a limit on the number of steps.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from tutelage import arrays
from tutelage.arrays import (
    ArrayLike,
    Indices,
    Matrix,
    Vector,
    check_length,
    floats,
    generator,
    sum_tolerance,
    whole_number,
)
from tutelage.data.demonstrations import Demonstrations
from tutelage.environments import gymnasium_names
from tutelage.model.arrivals import at_entries, choice_of_entry
from tutelage.model.inputs import feature_matrix, feature_names, n_arguments, on_names
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import Labels
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidModel, MissingExtra

if TYPE_CHECKING:
    from tutelage.environments.domain_env import DomainEnv

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
    demonstration what happened. So a hole that ends the episode counts, and the first state of an episode does not. An
    array (n, A, k), with one row per state and action, and a function of both count when the action is taken; a
    function of a state, an action and the next state counts on arrival. A function returns a number, a sequence or a
    dict. All outcomes of a choice that end the episode lead to the same state: each counts the mean of these.
    """
    table = _table(env)
    outcomes = _outcomes(table)
    n_states = outcomes.n_states
    first_choice = np.append(outcomes.first_choice, outcomes.n_choices)
    start = np.append(_initial(env, initial, n_states), 0.0)
    mdp = MDP.from_choices(_transition(outcomes), first_choice, start, discount, goals=[n_states])
    finals = np.unique(outcomes.next_state[outcomes.is_end])
    names = _given_names(env, table, state_names, action_names)
    mdp = mdp.labelled(Labels.of(mdp.first_choice, *names, finals))
    if reward_features is None:
        reward = _on_arrival(mdp, outcomes, outcomes.reward[:, None], reward_names or ("reward",), "reward")
    else:
        reward = _features(mdp, outcomes, table, reward_features, reward_names, "reward")
    if preference_features is None:
        return Domain(mdp, **reward)
    return Domain(mdp, **reward, **_features(mdp, outcomes, table, preference_features, preference_names, "preference"))


def environment_domain(env: Any, discount: float, *, with_cells: bool) -> Domain:
    """The domain that `tutelage import gymnasium` writes: with a preference feature for each action.

    with_cells: with a reward feature for the arrival in each state, too.
    """
    domain = from_gymnasium(env, discount=discount)
    mdp, last = domain.mdp, domain.mdp.n_states - 1
    owners, names = mdp.state_of_choice, [domain.choice_name(choice) for choice in range(mdp.n_choices)]
    taken = {
        f"action {action}": [float(name == action and owner != last) for name, owner in zip(names, owners, strict=True)]
        for action in dict.fromkeys(names)
    }
    if not with_cells:
        return domain.with_features(preference=taken)
    cells = [f"at {domain.state_name(state)}" for state in range(last)]
    there = from_gymnasium(env, discount=discount, reward_features=np.eye(last), reward_names=cells)
    at_cells = dict(zip(cells, there.reward_features.T, strict=True)) | dict(there.reward_arrivals)
    return domain.with_features(reward=at_cells, preference=taken)


def _given_names(
    env: Any, table: Table, states: Sequence[Hashable] | None, actions: Sequence[Hashable] | None
) -> tuple[Sequence[Hashable] | None, Sequence[Hashable] | None]:
    """The names of all states and choices, with those of the last state; those known by the class, if not given."""
    inner = getattr(env, "unwrapped", env)
    known_states = gymnasium_names.states(inner, len(table))
    if states is not None:
        _check_names(states, len(table), "state_names", "states in the environment")
        known_states = gymnasium_names.with_end(states)
    known_actions = gymnasium_names.actions(inner, table)
    if actions is not None:
        n_actions = 1 + max(number for listed in table for number, _ in listed)
        _check_names(actions, n_actions, "action_names", "actions")
        known_actions = gymnasium_names.of_choices(actions, table)
    return known_states, known_actions


def _features(
    mdp: MDP, outcomes: "_Outcomes", table: Table, given: Features, names: Sequence[str], kind: str
) -> dict[str, Any]:
    """Features on choices, or on arrival; zero in the last state."""
    n_states, n_taken = outcomes.n_states, int(outcomes.first_choice[-1])
    numbers = [(state, number) for state, actions in enumerate(table) for number, _ in actions]
    columns, n_given = tuple(names), n_arguments(given) if callable(given) else 0
    if callable(given):
        moves = list(zip(outcomes.choice.tolist(), outcomes.next_state.tolist(), strict=True)) if n_given == 3 else ()

        def place(row: int) -> str:
            choice = numbers[moves[row][0] if moves else row] if n_given > 1 else ()
            return f"state {choice[0]}, action {choice[1]}" if choice else f"state {row}"

        array, columns = feature_matrix(on_names(given, range(n_states), numbers, moves), names, kind, place)
    else:
        array = _feature_array(given, outcomes, kind)
        # Where every state has one action, only a third axis tells features of actions.
        n_given = 1 if len(array) == n_states and np.ndim(given) < 3 else 2
    if n_given == 2:
        last = np.zeros((outcomes.n_choices - n_taken, array.shape[1]))
        return {f"{kind}_features": np.vstack([array, last]), f"{kind}_names": columns}
    return _on_arrival(mdp, outcomes, array if n_given == 3 else array[outcomes.next_state], columns, kind)


def _on_arrival(mdp: MDP, outcomes: "_Outcomes", values: Matrix, names: Sequence[str], kind: str) -> dict[str, Any]:
    """Features with a value for each outcome (n, k): of a choice and a next state, the mean over its outcomes."""
    rows, after = mdp.transition, np.where(outcomes.is_end, mdp.n_states - 1, outcomes.next_state)
    columns = {}
    for name, column in zip(feature_names(names, values.shape[1], kind), values.T, strict=True):
        total = sparse.csr_array((outcomes.probability * column, (outcomes.choice, after)), shape=rows.shape)
        columns[name] = at_entries(rows, np.asarray(total[choice_of_entry(rows), rows.indices]) / rows.data)
    return {f"{kind}_features": columns}


def _check_names(names: Sequence[Hashable], count: int, argument: str, what: str) -> None:
    if isinstance(names, str) or len(names) != count:
        raise InvalidModel(f"{argument} must be a list of {count} names, one for each of the {what}; got {names!r}")


def _feature_array(given: ArrayLike, outcomes: "_Outcomes", kind: str) -> Matrix:
    """(n, k) on states or (n * A, k) on choices, checked."""
    name, n_states, n_taken = f"{kind}_features", outcomes.n_states, int(outcomes.first_choice[-1])
    array = arrays.any_array(given, name)
    if array.ndim == 3 and array.shape[0] * array.shape[1] == n_taken and n_taken % n_states == 0:
        array = array.reshape(n_taken, -1)
    matrix = floats(array[:, None] if array.ndim == 1 else array, name, ndim=2)
    if len(matrix) not in (n_states, n_taken):
        check_length(matrix, n_states, name, "states in the environment")
    return matrix


def to_gymnasium(domain: Domain, weights: ArrayLike | None = None) -> "DomainEnv":
    """A domain as an environment; the reward of a step is <weights, phi_r>, with weights of one unless given."""
    try:
        from tutelage.environments.domain_env import DomainEnv
    except ModuleNotFoundError as error:
        raise MissingExtra("to_gymnasium", "gymnasium") from error
    return DomainEnv(domain, weights)


def record_demonstrations(
    env: Any, mdp: MDP, policy: ArrayLike, n: int, *, rng: int | np.random.Generator, max_steps: int
) -> Demonstrations:
    """n episodes played in the environment itself.

    mdp: the MDP of the domain that `from_gymnasium` made of the environment.
    policy: (C,), a policy of that MDP.

    An episode that terminates ends in the last state of the MDP, which is absorbing. An episode that the environment or
    `max_steps` cuts short ends in the state it has reached. The choice of the last state is UNKNOWN.
    """
    count = whole_number(n, "the number of demonstrations", least=1)
    limit = whole_number(max_steps, "max_steps", least=1)
    table, source = _table(env), generator(rng)
    _check_fit(mdp, table)
    checked = check_policy(mdp, policy)
    episodes = [_record(env, table, mdp, checked, source, limit) for _ in range(count)]
    return Demonstrations.from_sequences(mdp, *zip(*episodes, strict=True))


def _check_fit(mdp: MDP, table: Table) -> None:
    """Refuse an MDP that was not made from this environment: its states and actions would have other meanings."""
    if mdp.n_states != len(table) + 1:
        needed = f"from_gymnasium makes {len(table) + 1} of this environment's table"
        raise InvalidModel(f"the MDP has {mdp.n_states} states, but {needed}")
    for state, (n_choices, actions) in enumerate(zip(mdp.choices_per_state.tolist(), table, strict=False)):
        if n_choices != len(actions):
            offered = f"the MDP has {n_choices} choices in state {state}"
            raise InvalidModel(f"{offered}, but the environment has {len(actions)} actions there")


def _record(
    env: Any, table: Table, mdp: MDP, policy: Vector, rng: np.random.Generator, max_steps: int
) -> tuple[list[int], list[int]]:
    """One episode: its states, including the last, and its actions, numbered within their state."""
    state, _info = env.reset(seed=int(rng.integers(2**31)))
    states, actions = [int(state)], []
    for _ in range(max_steps):
        choices = slice(*mdp.first_choice[states[-1] : states[-1] + 2])
        action = int(rng.choice(choices.stop - choices.start, p=policy[choices]))
        state, _reward, is_terminated, is_truncated, _info = env.step(table[states[-1]][action][0])
        actions.append(action)
        states.append(len(table) if is_terminated else int(state))
        if is_terminated or is_truncated:
            break
    return states, actions


def _table(env: Any) -> Table:
    """The table of an environment, with states and actions in order."""
    inner = getattr(env, "unwrapped", env)
    table = getattr(inner, "P", None)
    if not isinstance(table, Mapping | Sequence) or isinstance(table, str) or not len(table):
        raise InvalidModel(
            f"{type(inner).__name__} has no table P of its transitions (state -> action -> outcomes), as FrozenLake, "
            "CliffWalking and Taxi have; use MDP.from_arrays or MDP.from_choices with its transitions instead"
        )
    states = _entries(table, "P")
    if [state for state, _ in states] != list(range(len(states))):
        raise InvalidModel(f"the states of P must be numbered from 0 to {len(states) - 1} without a gap")
    return tuple(_entries(actions, f"P[{state}]") for state, actions in states)


def _entries(level: Any, name: str) -> tuple[tuple[int, Any], ...]:
    """The entries of a mapping or of a list, ordered by number."""
    pairs = list(level.items() if isinstance(level, Mapping) else enumerate(level))
    wrong = [key for key, _ in pairs if not isinstance(key, int | np.integer)]
    if wrong:
        raise InvalidModel(f"{name} has an entry {wrong[0]!r}; states and actions must be whole numbers")
    if not pairs:
        raise InvalidModel(f"{name} is empty; every state needs an action")
    return tuple(sorted(((int(key), value) for key, value in pairs), key=lambda pair: pair[0]))


@dataclass(frozen=True, slots=True, eq=False)
class _Outcomes:
    """The outcomes of all choices, one entry each, and the choices of each state, without the absorbing state."""

    first_choice: Indices
    choice: Indices
    probability: Vector
    next_state: Indices
    reward: Vector
    is_end: Any

    @property
    def n_states(self) -> int:
        return len(self.first_choice) - 1

    @property
    def n_choices(self) -> int:
        """C, including the choices of the absorbing state, which are as many as those of any state."""
        return int(self.first_choice[-1] + np.diff(self.first_choice).max())


def _outcomes(table: Table) -> _Outcomes:
    rows: list[tuple[int, float, int, float, bool]] = []
    choice = 0
    for state, actions in enumerate(table):
        for action, outcomes in actions:
            rows.extend((choice, *outcome) for outcome in _checked(outcomes, len(table), f"P[{state}][{action}]"))
            choice += 1
    first_choice = np.cumsum([0, *(len(actions) for actions in table)])
    return _Outcomes(first_choice, *(np.array(column) for column in zip(*rows, strict=True)))


def _checked(outcomes: Any, n_states: int, name: str) -> list[tuple[float, int, float, bool]]:
    """The outcomes of one choice as plain numbers, refused unless they are a distribution over the states."""
    try:
        rows = [(float(p), operator.index(state), float(reward), bool(is_end)) for p, state, reward, is_end in outcomes]
    except (TypeError, ValueError) as error:
        form = "(probability, next state, reward, terminated)"
        raise InvalidModel(f"{name} must be a list of {form}, got {outcomes!r}") from error
    for probability, state, reward, _ in rows:
        if not (probability >= 0 and np.isfinite(reward)):
            outcome = f"{name} gives probability {probability} and reward {reward} to state {state}"
            raise InvalidModel(f"{outcome}; a probability must not be negative, a reward must be finite")
        if not 0 <= state < n_states:
            raise InvalidModel(f"{name} leads to state {state}, but the states are 0 to {n_states - 1}")
    total = sum(row[0] for row in rows)
    if not abs(total - 1) <= sum_tolerance(len(rows)):
        raise InvalidModel(f"the probabilities of {name} sum to {total:.10g}; they must sum to one")
    return rows


def _transition(outcomes: _Outcomes) -> sparse.csr_array:
    """(C, n+1), with repeated next states summed; terminating outcomes lead to state n, state n leads to itself."""
    end, endless = outcomes.n_states, np.arange(outcomes.first_choice[-1], outcomes.n_choices)
    probability = np.concatenate([outcomes.probability, np.ones(len(endless))])
    choice = np.concatenate([outcomes.choice, endless])
    next_state = np.concatenate([np.where(outcomes.is_end, end, outcomes.next_state), np.full(len(endless), end)])
    return sparse.csr_array((probability, (choice, next_state)), shape=(outcomes.n_choices, end + 1))


def _initial(env: Any, given: ArrayLike | None, n_states: int) -> Vector:
    if given is None:
        given = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
    if given is None:
        raise InvalidModel("the environment has no initial_state_distrib; give initial, the first state's distribution")
    initial = floats(given, "initial", ndim=1)
    check_length(initial, n_states, "initial", "states in the environment")
    return initial
