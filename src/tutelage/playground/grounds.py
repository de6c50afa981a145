"""Where a learner is taught: an object world, or a domain from a file that a user brings.

A file is checked by the same functions as any file that the library reads. It is read in a worker process only.
"""

import base64
import binascii
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.data.files import load, open_regular
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput, InvalidModel
from tutelage.transcripts import Transcript, load_transcript

# Of a file that a user brings: its bytes, those of its arrays, and the size of its domain.
LARGEST_FILE = 2 * 1024 * 1024
LARGEST_ARRAYS = 64 * 1024 * 1024
MOST_STATES, MOST_CHOICES, MOST_FEATURES = 20_000, 200_000, 50
# The most roads of a map.
MOST_ROADS = 60_000

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Where a learner is taught.

    domain: with the preferences that the learner has. true_weights: (d_r,). every_preference: (S, k) or (C, k), those
    that any learner there may have. n_drawn: the number of states in a picture, the first ones.
    """

    domain: Domain
    true_weights: Vector
    every_preference: Matrix
    n_drawn: int


def brought_domain(text: str) -> Domain:
    """The domain in a file, given in base 64; refused if it is larger than the playground takes."""
    domain = _read(text, lambda path: load(path, max_bytes=LARGEST_ARRAYS))
    sizes = {
        "states": (domain.mdp.n_states, MOST_STATES),
        "choices": (domain.mdp.n_choices, MOST_CHOICES),
        "reward features": (domain.n_reward, MOST_FEATURES),
        "preference features": (domain.n_preference, MOST_FEATURES),
    }
    for what, (size, most) in sizes.items():
        if size > most:
            raise InvalidInput(f"the domain has {size} {what}; the playground takes at most {most}")
    return domain


def opened_file(path: Path) -> bytes:
    """The content of a file that the page opens first; refused if the page would not take it."""
    with open_regular(path, LARGEST_FILE) as file:
        content = file.read()
    if path.suffix == ".npz":
        brought_domain(base64.b64encode(content).decode())
    return content


def brought_transcript(text: str, domain: Domain) -> Transcript:
    """The transcript in a file, given in base 64, of rounds in this domain."""
    return _read(text, lambda path: load_transcript(path, domain, max_bytes=LARGEST_ARRAYS))


def _read(text: str, reader: Callable[[Path], Found]) -> Found:
    """What a reader finds in a file. Its errors say `the file` instead of the name that the file has here."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("the file is not in base 64") from error
    if len(content) > LARGEST_FILE:
        raise InvalidInput(f"the file has {len(content)} bytes; the playground takes at most {LARGEST_FILE}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "brought.npz"
        path.write_bytes(content)
        try:
            return reader(path)
        except InvalidModel as error:
            raise InvalidModel(str(error).replace(str(path), "the file")) from error


def with_preferences(domain: Domain, names: Sequence[str]) -> Domain:
    """The domain with only the preferences of these names."""
    for number, name in enumerate(names):
        if name not in domain.preference_names:
            raise InvalidInput(f"the domain has no preference {name[:100]!r}")
        if name in names[:number]:
            raise InvalidInput(f"the preference {name[:100]!r} is given twice; give it once")
    columns = [domain.preference_names.index(name) for name in names]
    return replace(domain, preference_features=domain.preference_features[:, columns], preference_names=tuple(names))


def described(domain: Domain) -> dict[str, Any]:
    """The domain as the page needs it: its sizes, its names, and the states that have each feature."""
    mdp = domain.mdp
    return {
        "n_states": mdp.n_states,
        "n_choices": mdp.n_choices,
        "reward_names": list(domain.reward_names),
        "preference_names": list(domain.preference_names),
        "starts": np.flatnonzero(mdp.initial).tolist(),
        "rewarding": _holders(domain, domain.reward_features),
        "avoidable": _holders(domain, domain.preference_features),
        "state_names": None if domain.state_names is None else [str(name)[:40] for name in domain.state_names],
        "map": _map(domain),
    }


def _map(domain: Domain) -> dict[str, Any] | None:
    """The places of the states, null where a state has none, and the pairs of states that a choice connects."""
    if domain.positions is None:
        return None
    is_placed = np.asarray(np.isfinite(domain.positions).all(axis=1))
    if not is_placed.any():
        return None
    rows = domain.mdp.transition.tocoo()
    ends = np.sort(np.column_stack([domain.mdp.state_of_choice[rows.row], rows.col]), axis=1)
    ends = ends[(ends[:, 0] != ends[:, 1]) & is_placed[ends].all(axis=1)]
    roads = np.unique(ends, axis=0)[:MOST_ROADS]
    pairs = zip(np.round(domain.positions, 6).tolist(), is_placed, strict=True)
    return {"places": [place if known else None for place, known in pairs], "roads": roads.tolist()}


def _holders(domain: Domain, features: Matrix) -> list[list[int]]:
    """For each feature, the states in which it is not zero; for a feature of choices, in any choice of the state."""
    found = []
    for column in features.T:
        rows = np.flatnonzero(column)
        states = rows if len(features) == domain.mdp.n_states else domain.mdp.state_of_choice[rows]
        found.append(np.unique(states).tolist())
    return found
