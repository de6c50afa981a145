"""Names and demonstrations as text: JSON, lines of JSON, and CSV.

A line of `.jsonl` is one demonstration, `{"states": [3, 4], "choices": [12]}`, with "choices" (numbered in the whole
MDP), with "actions" (names, or numbers within the state) or with neither, the same in every line. With "choices" states
are numbers, otherwise names or numbers. "terminated": true says that the episode has ended. "share", "features",
"reward", "arrives" and "exceeds", which `tutelage teach` writes, are not read.

A line of `.csv` is one visit. The header names the columns: "episode" and "state", and optionally "action",
"next_state" and "terminated"; other columns are not read.

A name is a string, a number, a truth value, None, or a tuple of these, which JSON writes as a list. Any other name is
written as its text, `str(name)`, and read back as this text.
"""

import csv
import io
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.data.recordings import NameReader
from tutelage.model.mdp import MDP
from tutelage.model.names import ChoiceNames, GridNames, StateNames, check_name
from tutelage.outcomes import InvalidModel

# A spreadsheet computes a cell that begins with one of these.
FORMULA = "=+-@\t\r'"
# The memory of one small Python object and of the place that refers to it, about.
OBJECT_BYTES = 64
KNOWN_KEYS = frozenset(
    {"states", "actions", "choices", "terminated", "share", "features", "reward", "arrives", "exceeds"}
)


def to_json(names: StateNames | ChoiceNames) -> NDArray[np.uint8]:
    """Names as the bytes of a JSON text: a list, or the sizes of a grid."""
    if isinstance(names, GridNames):
        data: Any = {"rows": names.n_rows, "columns": names.n_columns, "end": names.has_end}
    else:
        stored = names.stored if isinstance(names, ChoiceNames) else names[:]
        data = [_plain(name) for name in stored]
    return np.frombuffer(json.dumps(data, ensure_ascii=False).encode(), dtype=np.uint8)


def from_json(
    content: NDArray[Any], name: str, most: int, *, most_parts: int = 10_000, max_bytes: int = 2**30
) -> Sequence[Hashable]:
    """The names that `to_json` wrote, not yet checked.

    most: the largest number of names. most_parts: of one name that is a tuple. max_bytes: of all Python objects. All
    three are compared with the number of commas and brackets, before any object is made.
    """
    if content.dtype != np.uint8 or content.ndim != 1:
        raise InvalidModel(f"{name} must be the bytes of a JSON text")
    data = content.tobytes()
    if n_objects(data) > min((most + 1) * most_parts, max_bytes // OBJECT_BYTES):
        raise InvalidModel(f"{name} has far more than {most} names; give one for each")
    try:
        names = json.loads(data)
        if isinstance(names, dict):
            grid = GridNames(int(names["rows"]), int(names["columns"]), bool(names["end"]))
            if grid.n_rows < 0 or grid.n_columns < 0 or grid.n_rows * grid.n_columns + grid.has_end > most:
                raise ValueError(f"a grid of {grid.n_rows} x {grid.n_columns} does not have {most} cells")
            return grid
        return [as_name(part) for part in names]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidModel(f"{name} is not a JSON list of names: {error}") from error


def n_objects(data: bytes) -> int:
    """No fewer than the Python objects of a text in JSON or CSV: the commas, brackets and lines."""
    return 1 + sum(data.count(mark) for mark in (b",", b"[", b"{", b"\n"))


def _plain(name: Any) -> Any:
    """A name as JSON data."""
    if isinstance(name, np.generic):
        name = name.item()
    if type(name) is tuple:
        return [_plain(part) for part in name]
    return (
        name if name is None or type(name) in (str, int, float, bool) else check_name(str(name), "a state or an action")
    )


def as_name(data: Any) -> Hashable:
    """A name from JSON data: a list is a tuple."""
    if isinstance(data, list):
        return tuple(as_name(part) for part in data)
    if isinstance(data, dict):
        raise TypeError("a name must not be an object")
    return data  # type: ignore[no-any-return]


def to_csv(demonstrations: Demonstrations) -> bytes:
    """A line for each visit: episode, step, state and action, by name."""
    columns = demonstrations.to_frame()
    columns["state"] = [str(state) for state in columns["state"]]
    if "action" in columns:
        columns["action"] = ["" if action is None else str(action) for action in columns["action"]]
    return columns_to_csv(columns)


def columns_to_csv(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_guarded, columns))
    writer.writerows(map(_guarded, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _guarded(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: a text that begins like one gets an apostrophe before it."""
    if not isinstance(value, str) or not value.startswith(tuple(FORMULA)):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _unguarded(cell: str) -> str:
    """The text that `_guarded` wrote."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(tuple(FORMULA)) else cell


def columns_to_lines(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A table as lines of JSON, one for each row."""
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()


def from_csv(file: BinaryIO, path: str, mdp: MDP) -> Demonstrations:
    """The demonstrations of a CSV file; a message names the line."""
    header, rows, lines = _cells(file, path)
    columns = {name: [_unguarded(row[place]) for row in rows] for place, name in enumerate(header)}

    def optional(name: str) -> str | None:
        return name if name in columns else None

    return Demonstrations.from_frame(
        mdp,
        columns,
        action=optional("action"),
        next_state=optional("next_state"),
        terminated=optional("terminated"),
        row_name=lambda row: f"line {lines[row]} of {path}",
    )


def _cells(file: BinaryIO, path: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The header, the rows that are not empty, and the number of the line of each."""
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(file.read().decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidModel(
            f"{path} is not a CSV file in UTF-8 after line {lines[-1] if lines else 0}: {error}"
        ) from error
    if not rows:
        raise InvalidModel(f"{path} is empty; its first line must name the columns, such as episode,state,action")
    header = [name.strip() for name in rows[0]]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise InvalidModel(f"line {line} of {path} has {len(row)} values, but there are {len(header)} columns")
    return header, rows[1:], lines[1:]


def to_lines(demonstrations: Demonstrations) -> bytes:
    """A line of JSON for each demonstration, with numbers."""
    return "".join(_lines(demonstrations)).encode()


def _lines(demonstrations: Demonstrations) -> Iterator[str]:
    for trajectory in demonstrations:
        line = {"states": trajectory.states.tolist()}
        if trajectory.choices is not None:
            line["choices"] = trajectory.choices[trajectory.choices != UNKNOWN].tolist()
        yield json.dumps(line) + "\n"


def from_lines(file: Iterable[bytes], path: str, mdp: MDP) -> Demonstrations:
    """The demonstrations of lines of JSON."""
    objects = [_object(path, number, line) for number, line in enumerate(file, start=1) if line.strip()]
    states = [line["states"] for line in objects]
    kinds = {tuple(sorted(line.keys() & {"actions", "choices"})) for line in objects}
    if kinds == {("choices",)}:
        return Demonstrations.from_choice_sequences(mdp, states, [line["choices"] for line in objects])
    if not kinds <= {()} and kinds != {("actions",)}:
        raise InvalidModel(
            f"{path} mixes kinds of lines; give actions in every line, choices in every line, or neither"
        )
    actions = [line["actions"] for line in objects] if kinds == {("actions",)} else None
    ended = [line.get("terminated") is True for line in objects]
    if mdp.labels is not None:
        states, actions = _numbered(mdp, states, actions)
    return Demonstrations.from_sequences(mdp, states, actions, terminated=ended if any(ended) else None)


def _numbered(mdp: MDP, states: list[Any], actions: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """States and actions by number, from names or numbers; what is no list is left to the checks that follow."""
    reader, visited, taken = NameReader(mdp), [], []
    for number, part in enumerate(states):
        names = part if isinstance(part, list) else []
        where = [partial(_step_place, number, step) for step in range(len(names))]
        visited.append([reader.state(as_name(name), place) for name, place in zip(names, where, strict=True)])
        done = actions[number] if actions is not None and isinstance(actions[number], list) else []
        known = zip(visited[-1], done, where, strict=False)
        taken.append(
            [reader.choice(state, as_name(name), place) - mdp.first_choice[state] for state, name, place in known]
        )
        # A number of actions that does not fit is refused later.
        taken[-1] += [0] * (len(done) - len(taken[-1]))
    return visited, None if actions is None else taken


def _step_place(number: int, step: int) -> str:
    return f"demonstration {number}, step {step}"


def _object(path: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"line {number} of {path} is not JSON; it is damaged or cut short ({error})") from error
    if not isinstance(value, dict) or "states" not in value or value.keys() - KNOWN_KEYS:
        message = f'line {number} of {path} must be an object with "states" and optionally "actions" or "choices"'
        raise InvalidModel(message)
    return value
