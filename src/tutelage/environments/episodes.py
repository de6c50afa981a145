"""Episodes played elsewhere as demonstrations: in a Gymnasium environment, or in a Minari dataset."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tutelage.arrays import ArrayLike, Vector, generator, whole_number
from tutelage.data.demonstrations import Demonstrations
from tutelage.environments.gymnasium import Table, transition_table
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidModel, MissingExtra


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
    table, source = transition_table(env), generator(rng)
    # The states and actions of an MDP that was not made of this environment would have other meanings.
    if mdp.n_states != len(table) + 1:
        needed = f"from_gymnasium makes {len(table) + 1} of this environment's table"
        raise InvalidModel(f"the MDP has {mdp.n_states} states, but {needed}")
    for state, (n_choices, actions) in enumerate(zip(mdp.choices_per_state.tolist(), table, strict=False)):
        if n_choices != len(actions):
            offered = f"the MDP has {n_choices} choices in state {state}"
            raise InvalidModel(f"{offered}, but the environment has {len(actions)} actions there")
    checked = check_policy(mdp, policy)
    episodes = [_record(env, table, mdp, checked, source, limit) for _ in range(count)]
    return Demonstrations.from_sequences(mdp, *zip(*episodes, strict=True))


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


def from_minari(domain: Domain, dataset: Any, *, state: Callable[[Any], Hashable] | None = None) -> Demonstrations:
    """The episodes of a Minari dataset, or of a local dataset of this name.

    state: the name, or the number, of the state that an observation shows. Without it an observation is a whole number.

    An episode that terminated has reached the absorbing state. One that was truncated ends in its last observation.
    """
    if isinstance(dataset, str):
        try:
            import minari
        except ModuleNotFoundError as error:
            raise MissingExtra("from_minari", "minari") from error
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
    return Demonstrations.from_frame(
        domain, columns, terminated="terminated", row_name=lambda row: f"step {row} of the dataset"
    )


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
