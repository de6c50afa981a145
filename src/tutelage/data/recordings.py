"""Recorded episodes: columns of a table, or lines of a text file, as arrays of states and choices, and back.

A value of a column is the name of a state or action, or its number. A name comes first. A whole number counts as a
number unless some name is a whole number itself, as the nodes of a road map are. Texts, as in a CSV file, stand for the
names that are written like them. An action may also be given as the state that it leads to, or not at all where the
next state determines it. A recorded episode may end in the final state that an environment has shown, such as a goal,
in place of the absorbing state of `from_gymnasium`.

A line of `.jsonl` is one demonstration, `{"states": [3, 4], "choices": [12]}`, with "choices" (numbered in the whole
MDP), with "actions" (names, or numbers within the state) or with neither, the same in every line. With "choices" states
are numbers, otherwise names or numbers. "terminated": true says that the episode has ended. "share", "features",
"reward", "arrives" and "exceeds", which `tutelage teach` writes, are not read.

A line of `.csv` is one visit. The header names the columns: "episode" and "state", and optionally "action",
"next_state" and "terminated"; other columns are not read.
"""

import csv
import io
import json
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tutelage.arrays import Flags, Indices
from tutelage.model.inputs import choice_of_entry
from tutelage.model.mdp import MDP, absorbing_states
from tutelage.model.names import GridNames, Names, as_name, suggestion
from tutelage.outcomes import InvalidModel

# The choice of a last visit that is not known.
UNKNOWN = -1
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no", "")
# A spreadsheet computes a cell that begins with one of these.
FORMULA = tuple("=+-@\t\r'")
KNOWN_KEYS = {"states", "actions", "choices", "terminated", "share", "features", "reward", "arrives", "exceeds"}

# What to call a visit, by its position, in a message.
Place = Callable[[int], str]


class Episodes(NamedTuple):
    """Episodes as arrays: states (N,), offsets (n+1,), choices (N,), whether each has terminated (n,), and places."""

    states: Indices
    offsets: Indices
    choices: Indices | None
    is_terminated: Flags | None
    place: Place


def row_number(row: int) -> str:
    """Rows are counted from zero, as pandas does."""
    return f"row {row}"


def read_frame(mdp: MDP, frame: Any, columns: Mapping[str, str | None], row_name: Callable[[int], str]) -> Episodes:
    """The episodes of a table.

    columns: the names of the columns "episode", "state", "action", "next_state" and "terminated"; the last three may be
    None. The rows of an episode are in the order of time; those of different episodes may alternate.
    """
    given = {role: column(frame, name) for role, name in columns.items() if name is not None}
    lengths = {role: len(values) for role, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidModel(f"the columns have different lengths: {lengths}")
    if not lengths["state"]:
        raise InvalidModel("the table has no rows, so there are no demonstrations")
    groups: dict[Any, list[int]] = {}
    for row, name in enumerate(given["episode"]):
        groups.setdefault(name, []).append(row)
    names, ends, flags = list(groups), [0], []
    visits: list[tuple[int, int]] = []
    rows: list[int] = []

    def place(position: int) -> str:
        number = bisect_right(ends, position) - 1
        return f"{row_name(rows[position])} (episode {names[number]!r}, step {position - ends[number]})"

    reader = NameReader(mdp)
    for members in groups.values():
        is_ended = False
        for row in members:
            rows.append(row)
            try:
                made, is_ended = _visits(reader, given, row, row == members[-1], is_ended)
            except InvalidModel as error:
                raise InvalidModel(f"{place(len(visits))}: {error}") from error
            visits += made
        rows += [members[-1]] * (len(visits) - len(rows))
        flags.append(is_ended)
        ends.append(len(visits))
    states, choices = np.array(visits, dtype=np.int64).T
    is_terminated = np.array(flags) if "terminated" in given else None
    return Episodes(states, np.array(ends), choices if "action" in given else None, is_terminated, place)


def _visits(
    reader: "NameReader", given: Mapping[str, list[Any]], row: int, is_last: bool, is_ended: bool
) -> tuple[list[tuple[int, int]], bool]:
    """The state and choice of a row, after the last action of an episode also the next state; and whether it has ended.

    The next state is that of the column; of an episode that terminated, it is replaced later by an absorbing state.
    """
    state, choice, has_actions = reader.state(given["state"][row]), UNKNOWN, "action" in given
    if has_actions and not is_missing(given["action"][row]):
        choice = reader.choice(state, given["action"][row])
    elif has_actions and not is_last:
        raise InvalidModel("the action is missing; only that of a last step may be")
    if is_ended and (not is_last or choice != UNKNOWN):
        raise InvalidModel("the episode goes on after it terminated; give it another name")
    is_ended = is_ended or ("terminated" in given and _is_true(given["terminated"][row]))
    after = given["next_state"][row] if "next_state" in given and is_last else None
    if has_actions and choice == UNKNOWN:
        after = None
    elif not is_missing(after):
        return [(state, choice), (reader.state(after), UNKNOWN)], is_ended
    is_added = is_ended and is_last and choice != UNKNOWN
    return [(state, choice), *([(state, UNKNOWN)] if is_added else [])], is_ended


def _is_true(value: Any) -> bool:
    text = "" if is_missing(value) else str(value).strip().lower().removesuffix(".0")
    if text not in TRUE + FALSE:
        raise InvalidModel(f"terminated must be true or false, got {value!r}")
    return text in TRUE


class NameReader:
    """Numbers of states and choices from names or numbers, each looked up once."""

    def __init__(self, mdp: MDP) -> None:
        self._mdp, self._states = mdp, _Lookup(mdp.names.states, mdp.n_states)
        self._known: dict[tuple[int, Any], int] = {}

    def state(self, value: Any) -> int:
        """The number of a state."""
        return self._number(-1, value)

    def choice(self, state: int, value: Any) -> int:
        """The number of the choice of a state."""
        return self._number(state, value)

    def _number(self, state: int, value: Any) -> int:
        try:
            known = self._known.get((state, value))
        except TypeError as error:
            kind = "a state" if state < 0 else "an action"
            raise InvalidModel(f"{value!r} cannot name {kind}, because it is not hashable") from error
        if known is None:
            known = self._known[state, value] = self._find_state(value) if state < 0 else self._find(state, value)
        return known

    def _find_state(self, value: Any) -> int:
        if is_missing(value):
            raise InvalidModel("the state is missing; give one, or leave the row out")
        number, names = self._states.find(value), self._mdp.names.states
        if number is None:
            known = f"states are 0 .. {self._mdp.n_states - 1}" if names is None else suggestion(value, names)
            raise InvalidModel(f"there is no state {value!r}; {known}")
        return number

    def _find(self, state: int, value: Any) -> int:
        labels, (first, end) = self._mdp.names, self._mdp.first_choice[state : state + 2].tolist()
        names = [labels.choice_name(choice) for choice in range(first, end)]
        within = _Lookup(names, len(names)).find(value)
        after = self._states.find(value) if within is None else None
        leads = [] if after is None else [c for c in range(first, end) if after in _possible(self._mdp, state, c)]
        if within is None and len(leads) != 1:
            raise InvalidModel(f"{labels.describe_state(state)} has no action {value!r}; {suggestion(value, names)}")
        return leads[0] if within is None else first + within


class _Lookup:
    """The numbers of n names, or of things without names, from names, numbers and texts."""

    def __init__(self, names: Sequence[Hashable] | None, n: int) -> None:
        self._names, self._n = names or (), n

    @cached_property
    def _texts(self) -> dict[str, int]:
        return {str(name): number for number, name in enumerate(self._names)}

    @cached_property
    def _are_numbers_names(self) -> bool:
        return any(isinstance(name, int | np.integer) for name in self._names)

    def _named(self, value: Any) -> int | None:
        if isinstance(self._names, Names | GridNames):
            return self._names.find(value)
        return self._names.index(value) if value in self._names and not isinstance(value, bool) else None

    def find(self, value: Any) -> int | None:
        found, number = self._named(value), whole(value)
        if found is None and number is not None and self._are_numbers_names:
            found = self._named(number)
        elif found is None and number is not None and 0 <= number < self._n:
            found = number
        return self._texts.get(value) if found is None and isinstance(value, str) else found


def whole(value: Any) -> int | None:
    """A whole number, also one that was written as a text or as a float."""
    if isinstance(value, str):
        # A table of numbers with gaps is written as 1.0, 2.0 and so on.
        text = value.strip().removesuffix(".0")
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else None
    is_float = isinstance(value, float | np.floating) and float(value).is_integer()
    return int(value) if is_float or (isinstance(value, int | np.integer) and not isinstance(value, bool)) else None


def is_missing(value: Any) -> bool:
    """None, an empty text, NaN, and pandas' own marks."""
    if isinstance(value, str | float | np.floating):
        return value == "" or value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def column(frame: Any, name: str) -> list[Any]:
    """A column of a mapping of columns, of a pandas frame, or of what behaves like one."""
    try:
        values = frame[name]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if not hasattr(frame, "keys"):
            kind = type(frame).__name__
            raise InvalidModel(f"a table must be a mapping of columns, such as a dict, got {kind}") from error
        raise InvalidModel(
            f"the table has no column {name!r}; {suggestion(name, [*map(str, frame.keys())])}"
        ) from error
    if hasattr(values, "tolist"):
        return list(values.tolist())
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidModel(f"the column {name!r} must be a list, got {values!r}")
    return list(values)


def to_columns(mdp: MDP, states: Indices, offsets: Indices, choices: Indices | None) -> dict[str, list[Any]]:
    """A table with one row per visit, by name; an action that is not known is None."""
    lengths, names = np.diff(offsets), mdp.names
    columns: dict[str, list[Any]] = {
        "episode": np.repeat(np.arange(len(lengths)), lengths).tolist(),
        "step": (np.arange(len(states)) - np.repeat(offsets[:-1], lengths)).tolist(),
        "state": _each(names.state_name, states),
    }
    if choices is not None:
        columns["action"] = _each(lambda choice: None if choice == UNKNOWN else names.choice_name(choice), choices)
    return columns


def _each(name: Callable[[int], Any], numbers: Indices) -> list[Any]:
    """The name of each number; each is made once."""
    distinct, place = np.unique(numbers, return_inverse=True)
    made = [name(number) for number in distinct.tolist()]
    return [made[number] for number in place.tolist()]


def with_known_ends(
    mdp: MDP, states: Indices, offsets: Indices, choices: Indices | None, is_terminated: Flags | None, place: Place
) -> Indices:
    """(N,), the states with the last state of a terminated episode replaced by the absorbing state of the MDP.

    is_terminated: (n,), the episodes that are known to have terminated. Without it, an episode has terminated if it
    ends in a final state of the environment to which the choice before does not lead in the MDP.
    """
    lasts = offsets[1:] - 1
    flags = np.zeros(len(lasts), dtype=np.bool_) if is_terminated is None else is_terminated
    is_final, is_absorbing, known = np.isin(states[lasts], mdp.names.finals), absorbing_states(mdp), states.copy()
    is_asked = (np.diff(offsets) > 1) & (flags | is_final) & ~is_absorbing[states[lasts]]
    for last, is_ended in zip(lasts[is_asked].tolist(), flags[is_asked].tolist(), strict=True):
        after = _possible(mdp, int(states[last - 1]), None if choices is None else int(choices[last - 1]))
        ends = after[is_absorbing[after]]
        if len(ends) == 1 and (is_ended or states[last] not in after):
            known[last] = ends[0]
        elif is_ended:
            before = mdp.names.describe_state(int(states[last - 1]))
            count = "several absorbing states" if len(ends) else "no absorbing state"
            raise InvalidModel(f"{place(last)}: the episode is said to terminate, but {count} can follow {before}")
    return known


def choices_by_next_state(mdp: MDP, states: Indices, is_followed: Flags) -> tuple[Indices, list[Indices]]:
    """(N,), the only choice that leads from a visit to the next, or UNKNOWN; and the candidates of others, if any.

    The candidates are those of the first followed visit that several choices, or none, may explain.
    """
    rows, n = mdp.transition, mdp.n_states
    entry_choice = choice_of_entry(rows)
    keys = mdp.state_of_choice[entry_choice] * n + rows.indices
    order = np.argsort(keys, kind="stable")
    step = np.flatnonzero(is_followed)
    wanted = states[step] * n + states[step + 1]
    first, end = (np.searchsorted(keys[order], wanted, side=side) for side in ("left", "right"))
    choices = np.full(len(states), UNKNOWN)
    is_sole = end - first == 1
    choices[step[is_sole]] = entry_choice[order[first[is_sole]]]
    others = np.flatnonzero(~is_sole)[:1]
    return choices, [np.concatenate([[step[i]], entry_choice[order[first[i] : end[i]]]]) for i in others]


def _possible(mdp: MDP, state: int, choice: int | None) -> Indices:
    """The states that a choice, or any choice of a state, can lead to."""
    rows = mdp.transition
    first, end = (choice, choice + 1) if choice is not None else mdp.first_choice[state : state + 2]
    return np.unique(rows.indices[rows.indptr[first] : rows.indptr[end]])


def to_csv(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A table as CSV; a text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_guarded, columns))
    writer.writerows(map(_guarded, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _guarded(value: Any) -> str:
    text = "" if value is None else str(value)
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(FORMULA) else text
    return text


def from_csv(content: bytes, path: str) -> tuple[dict[str, list[str]], list[int]]:
    """The columns of a CSV file, and the number of the line of each row."""
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError) as error:
        after = lines[-1] if lines else 0
        raise InvalidModel(f"{path} is not a CSV file in UTF-8 after line {after}: {error}") from error
    if not rows:
        raise InvalidModel(f"{path} is empty; its first line must name the columns, such as episode,state,action")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise InvalidModel(f"line {line} of {path} has {len(row)} values, but there are {len(rows[0])} columns")
    # What `to_csv` guarded has an apostrophe before another sign of a formula.
    plain = [[cell[cell[:1] == "'" and cell[1:].startswith(FORMULA) :] for cell in row] for row in rows[1:]]
    return {name.strip(): [row[place] for row in plain] for place, name in enumerate(rows[0])}, lines[1:]


def from_lines(content: bytes, path: str) -> list[dict[str, Any]]:
    """The objects of lines of JSON, one for each demonstration."""
    objects = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidModel(f"line {number} of {path} is not JSON; it is damaged or cut short ({error})") from error
        if not isinstance(value, dict) or "states" not in value or value.keys() - KNOWN_KEYS:
            needed = '"states" and optionally "actions" or "choices"'
            raise InvalidModel(f"line {number} of {path} must be an object with {needed}")
        objects.append(value)
    return objects


def numbered(mdp: MDP, states: list[Any], actions: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """States and actions by number, from names or numbers; what is no list is left to the checks that follow."""
    reader, visited, taken = NameReader(mdp), [], []
    for number, part in enumerate(states):
        names, done = (given if isinstance(given, list) else [] for given in (part, actions and actions[number]))
        # A number of actions that does not fit is refused later.
        numbers, within = [], [0] * len(done)
        for step, name in enumerate(names):
            try:
                numbers.append(reader.state(as_name(name)))
                if step < len(done):
                    choice = reader.choice(numbers[-1], as_name(done[step]))
                    within[step] = choice - int(mdp.first_choice[numbers[-1]])
            except InvalidModel as error:
                raise InvalidModel(f"demonstration {number}, step {step}: {error}") from error
        visited.append(numbers)
        taken.append(within)
    return visited, None if actions is None else taken
