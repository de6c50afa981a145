"""Episodes of a Minari dataset as demonstrations. Only the dataset's own methods are used."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tutelage.data.demonstrations import Demonstrations
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, MissingExtra


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
        seen = [_named(observation, state, episode.id) for observation in _parts(episode.observations)]
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


def _named(observation: Any, state: Callable[[Any], Hashable] | None, episode: Any) -> Any:
    return _whole(observation, "observation", episode) if state is None else state(observation)


def _whole(value: Any, what: str, episode: Any) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InvalidModel(f"episode {episode}: the {what} {value!r} is not a whole number; give state=, a function")
    return int(array.item())
