"""Demonstrations in files: `.npz` for many, `.jsonl` for people and other programs.

A line of `.jsonl` is one demonstration, `{"states": [3, 4], "choices": [12]}`, with "choices" (numbered in the whole
MDP) or "actions" (numbered within the state) or neither, and the same in every line. A `.jsonl` file that was cut
exactly between two lines is a shorter list of demonstrations, and is read as one; a cut anywhere else, or in an `.npz`,
is noticed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tutelage.mdp.demonstrations import UNKNOWN, Demonstrations
from tutelage.mdp.files import AnyPath, read_archive, write_archive, write_whole
from tutelage.mdp.model import MDP
from tutelage.outcomes import InvalidModel

DEMONSTRATIONS_FORMAT = "tutelage demonstrations"
DEMONSTRATIONS_VERSION = 1


def save_demonstrations(demonstrations: Demonstrations, path: AnyPath) -> None:
    """Write demonstrations to a `.npz` or `.jsonl` file, whichever the path names."""
    if _suffix(path) == ".jsonl":
        write_whole(path, "".join(_lines(demonstrations)).encode())
        return
    fields = {"states": demonstrations.states, "offsets": demonstrations.offsets}
    if demonstrations.choices is not None:
        fields["choices"] = demonstrations.choices
    write_archive(path, fields, kind=DEMONSTRATIONS_FORMAT, version=DEMONSTRATIONS_VERSION)


def load_demonstrations(path: AnyPath, mdp: MDP) -> Demonstrations:
    """The demonstrations in a `.npz` or `.jsonl` file, refused unless every step is possible in the MDP."""
    read = _read_lines if _suffix(path) == ".jsonl" else _read_arrays
    try:
        return read(path, mdp)
    except InvalidModel as error:
        if str(path) in str(error):
            raise
        raise InvalidModel(f"{path} holds no valid demonstrations: {error}") from error


def _suffix(path: AnyPath) -> str:
    suffix = Path(path).suffix
    if suffix not in (".npz", ".jsonl"):
        raise InvalidModel(f"{path} must end in .npz or .jsonl, the formats of demonstrations")
    return suffix


def _lines(demonstrations: Demonstrations) -> Iterator[str]:
    for trajectory in demonstrations:
        line = {"states": trajectory.states.tolist()}
        if trajectory.choices is not None:
            line["choices"] = trajectory.choices[trajectory.choices != UNKNOWN].tolist()
        yield json.dumps(line) + "\n"


def _read_arrays(path: AnyPath, mdp: MDP) -> Demonstrations:
    archive = read_archive(path, ("states", "offsets"), kind=DEMONSTRATIONS_FORMAT, version=DEMONSTRATIONS_VERSION)
    return Demonstrations(archive["states"], archive["offsets"], archive.get("choices")).checked_against(mdp)


def _read_lines(path: AnyPath, mdp: MDP) -> Demonstrations:
    lines = Path(path).read_bytes().split(b"\n")
    objects = [_object(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    states = [line["states"] for line in objects]
    kinds = {tuple(sorted(line.keys() - {"states"})) for line in objects}
    if kinds <= {()}:
        return Demonstrations.from_sequences(mdp, states)
    if kinds == {("actions",)}:
        return Demonstrations.from_sequences(mdp, states, [line["actions"] for line in objects])
    if kinds == {("choices",)}:
        return Demonstrations.from_choice_sequences(mdp, states, [line["choices"] for line in objects])
    raise InvalidModel(f"{path} must give all its demonstrations actions, or all choices, or none any")


def _object(path: AnyPath, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"line {number} of {path} is not JSON; it is damaged or cut short ({error})") from error
    if not isinstance(value, dict) or "states" not in value or value.keys() - {"states", "actions", "choices"}:
        raise InvalidModel(f'line {number} of {path} is not an object with "states" and perhaps "actions" or "choices"')
    return value
