"""Recorded episodes: columns of a table, or lines of a text file, as arrays of states and choices, and back.

A value of a column is the name of a state or action, its number, unless some name is a whole number itself, or a text
that is written like the name. An action may also be given as the state that it leads to, or not at all where the next
state determines it.

A line of `.jsonl` is one demonstration, `{"states": ["a", "b"], "actions": ["go"]}`, with "actions" (names, or numbers
within the state), with "choices" (numbered in the whole MDP) or with neither, the same in every line. With "choices"
states are numbers. "terminated": true says that the episode has ended. Other keys of `tutelage teach` are not read.
A line of `.csv` is one visit, with the columns of docs/demonstrations.md; other columns are not read.
"""

import csv
import io
import json
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Flags, Indices
from tutelage.model.inputs import choice_of_entry
from tutelage.model.mdp import MDP, absorbing_states
from tutelage.model.names import GridNames, Names, as_name, is_hashable, suggestion
from tutelage.outcomes import InvalidModel

# The choice of a last visit that is not known.
UNKNOWN = -1
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no", "")
# A spreadsheet computes a cell that begins with one of these.
FORMULA = tuple("=+-@\t\r'")
GUARDED = tuple(f"'{sign}" for sign in FORMULA)
READ_KEYS = {"states", "actions", "choices", "terminated"}
KNOWN_KEYS = READ_KEYS | {"share", "features", "reward", "arrives", "exceeds"}
# What to call a visit, by its position, in a message.
Place = Callable[[int], str]
Columns = dict[str, list[Any]]
# Episodes: states (N,), offsets (n+1,), choices (N,), whether each has terminated (n,), and what to call a visit.
Episodes = tuple[Indices, Indices, Indices | None, Flags, Place]


def read_frame(mdp: MDP, frame: Any, columns: Mapping[str, str | None], row_name: Callable[[int], str]) -> Episodes:
    """The episodes of a table, whose rows may alternate. columns: as the arguments of `Demonstrations.from_frame`."""
    given = {role: column(frame, name) for role, name in columns.items() if name is not None}
    lengths = {role: len(values) for role, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidModel(f"the columns have different lengths: {lengths}")
    if not lengths["state"]:
        raise InvalidModel("the table has no rows, so there are no demonstrations")
    has_actions, unknown = "action" in given, [None] * lengths["state"]
    columns_read = (given.get(role, unknown) for role in ("state", "action", "next_state", "terminated"))
    table = list(zip(*columns_read, strict=True))
    find_state, find_choice = _finders(mdp)
    is_true = cache(_is_true)
    states, choices, rows = list[int](), list[int](), list[int]()
    offsets, ended = [0], list[bool]()
    rows_of = _episodes(given["episode"], given.get("step", unknown), row_name)
    for name, members in rows_of.items():
        has_ended = False
        for row in members:
            state, action, after, end = table[row]
            is_last = row == members[-1]
            try:
                states.append(find_state(state))
                choices.append(find_choice(states[-1], action))
                is_missed = choices[-1] == UNKNOWN
                if is_missed and has_actions and not is_last:
                    raise InvalidModel("the action is missing; only that of a last step may be")
                # After the row that terminated, there may be one with the last state.
                if has_ended and not (is_last and is_missed):
                    raise InvalidModel("the episode goes on after it terminated; give it another name")
                has_ended = is_true(end) or has_ended
                # After a last action comes the next state; where an episode terminated, an absorbing state, set later.
                is_seen = is_last and not is_missing(after) and not (is_missed and has_actions)
                if is_seen or (is_last and has_ended and not is_missed):
                    states.append(find_state(after) if is_seen else states[-1])
                    choices.append(UNKNOWN)
                    rows.append(row)
            except (InvalidModel, TypeError) as error:
                where = f"{row_name(row)} (episode {name!r}, step {len(rows) - offsets[-1]})"
                raise InvalidModel(f"{where}: {_told(error, table[row])}") from error
            rows.append(row)
        offsets.append(len(states))
        ended.append(has_ended)

    def place(position: int) -> str:
        at = bisect_right(offsets, position) - 1
        return f"{row_name(rows[position])} (episode {list(rows_of)[at]!r}, step {position - offsets[at]})"

    taken = np.array(choices) if has_actions else None
    return np.array(states), np.array(offsets), taken, np.array(ended), place


def _episodes(names: list[Any], steps: list[Any], row_name: Callable[[int], str]) -> dict[Any, list[int]]:
    """The rows of each episode; refused where its steps, if they are whole numbers, do not rise."""
    rows_of: dict[Any, list[int]] = {}
    last: dict[Any, int] = {}
    for row, (name, step) in enumerate(zip(names, map(whole, steps), strict=True)):
        try:
            rows_of.setdefault(name, []).append(row)
        except TypeError as error:
            raise InvalidModel(f"{row_name(row)}: {_told(error, [name])}") from error
        if step is not None and step <= last.get(name, step - 1):
            told = f"step {step} of episode {name!r} follows its step {last[name]}"
            raise InvalidModel(f"{row_name(row)}: {told}; remove repeated rows, or sort the rows by step")
        if step is not None:
            last[name] = step
    return rows_of


def _told(error: Exception, values: Sequence[Any]) -> str:
    """What is wrong with a row; a TypeError is about a value that is not hashable."""
    if isinstance(error, InvalidModel):
        return str(error)
    return f"{next(value for value in values if not is_hashable(value))!r} is not hashable, so it is no name"


def _is_true(value: Any) -> bool:
    text = "" if is_missing(value) else str(value).strip().lower().removesuffix(".0")
    if text not in TRUE + FALSE:
        raise InvalidModel(f"terminated must be true or false, got {value!r}")
    return text in TRUE


def _finders(mdp: MDP) -> tuple[Callable[[Any], int], Callable[[int, Any], int]]:
    """Functions from names or numbers to the numbers of states, and of choices of a state; each is looked up once."""
    labels = mdp.names
    find = _finder(labels.states, mdp.n_states)

    @cache
    def state(value: Any) -> int:
        if is_missing(value):
            raise InvalidModel("the state is missing; give one, or leave the row out")
        number = find(value)
        if number is None:
            known = suggestion(value, labels.states) if labels.states else f"states are 0 .. {mdp.n_states - 1}"
            raise InvalidModel(f"there is no state {value!r}; {known}")
        return number

    @cache
    def choice(owner: int, value: Any) -> int:
        if is_missing(value):
            return UNKNOWN
        first, end = mdp.first_choice[owner : owner + 2].tolist()
        names = [labels.choice_name(number) for number in range(first, end)]
        within = _finder(names, len(names))(value)
        if within is not None:
            return int(first) + within
        after = find(value)
        leads = [] if after is None else leading(mdp, owner, after)
        if len(leads) != 1:
            raise InvalidModel(f"{labels.describe_state(owner)} has no action {value!r}; {suggestion(value, names)}")
        return leads[0]

    return state, choice


def _finder(given: Sequence[Hashable] | None, n: int) -> Callable[[Any], int | None]:
    """A function from a name to its number. So are a number of 0 .. n - 1, if no name is one, and a name's text."""
    names = given if isinstance(given, Names | GridNames) else Names(given or ())
    listed = () if isinstance(names, GridNames) else names
    are_names = any(isinstance(name, int | np.integer) for name in listed)
    texts = {str(name): number for number, name in enumerate(listed)}

    def find(value: Any) -> int | None:
        index = names.find(value)
        number = whole(value)
        if index is None and number is not None and (are_names or 0 <= number < n):
            index = names.find(number) if are_names else number
        return texts.get(value) if index is None and isinstance(value, str) else index

    return find


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
        known = suggestion(name, [*map(str, frame.keys())])
        raise InvalidModel(f"the table has no column {name!r}; {known}") from error
    if hasattr(values, "tolist"):
        return list(values.tolist())
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidModel(f"the column {name!r} must be a list, got {values!r}")
    return list(values)


def to_columns(mdp: MDP, states: Indices, offsets: Indices, choices: Indices | None) -> Columns:
    """A table with one row per visit, by name; an action that is not known is None."""
    lengths, names = np.diff(offsets), mdp.names
    columns: Columns = {
        "episode": np.repeat(np.arange(len(lengths)), lengths).tolist(),
        "step": (np.arange(len(states)) - np.repeat(offsets[:-1], lengths)).tolist(),
        "state": [*map(cache(names.state_name), states.tolist())],
    }
    if choices is not None:
        named = cache(names.choice_name)
        columns["action"] = [None if choice == UNKNOWN else named(choice) for choice in choices.tolist()]
    return columns


def to_lines(mdp: MDP | None, states: Indices, offsets: Indices, choices: Indices | None) -> Columns:
    """A row for each demonstration, with names; with numbers if there are none, or one would be read as missing."""
    taken = [] if choices is None else choices.tolist()
    key, visits, actions = "choices", states.tolist(), [None if choice == UNKNOWN else choice for choice in taken]
    if mdp is not None and (mdp.names.states is not None or mdp.names.choices is not None):
        named = to_columns(mdp, states, offsets, choices)
        names = [*named["state"], *named.get("action", ())]
        if sum(map(is_missing, names)) == taken.count(UNKNOWN):
            key, visits, actions = "actions", named["state"], named.get("action", [])
    parts = [slice(*ends) for ends in pairwise(offsets.tolist())]
    lines = {"states": [visits[part] for part in parts]}
    if choices is not None:
        lines[key] = [[action for action in actions[part] if action is not None] for part in parts]
    return lines


def with_known_ends(
    mdp: MDP, states: Indices, offsets: Indices, choices: Indices | None, is_terminated: Flags, place: Place
) -> tuple[Indices, Indices, Indices | None]:
    """States, offsets and choices with the last state of a terminated episode replaced by the MDP's absorbing state.
    is_terminated: (n,), the episodes that are known to have terminated. Another has terminated if it ends in a final
    state of the environment to which the choice before does not lead in the MDP."""
    is_absorbing, known = absorbing_states(mdp), states.copy()
    lasts = offsets[1:] - 1
    is_final = np.isin(states[lasts], mdp.names.finals)
    is_asked = (np.diff(offsets) > 1) & (is_terminated | is_final) & ~is_absorbing[states[lasts]]
    for last, is_ended in zip(lasts[is_asked].tolist(), is_terminated[is_asked].tolist(), strict=True):
        before = int(states[last - 1])
        taken = mdp.first_choice[before : before + 2]
        if choices is not None:
            taken = choices[last - 1] + np.arange(2)
        first, end = mdp.transition.indptr[taken]
        after = np.unique(mdp.transition.indices[first:end])
        ends = after[is_absorbing[after]]
        if len(ends) == 1 and (is_ended or states[last] not in after):
            known[last] = ends[0]
        elif is_ended:
            count = "several absorbing states" if len(ends) else "no absorbing state"
            told = f"the episode is said to terminate, but {count} can follow {mdp.names.describe_state(before)}"
            raise InvalidModel(f"{place(last)}: {told}")
    return known, offsets, None if choices is None else np.where(known == states, choices, UNKNOWN)


def choices_by_next_state(mdp: MDP, states: Indices, is_followed: Flags) -> Indices:
    """(N,), the only choice that leads from a visit to the next; UNKNOWN where several choices do, or none."""
    choices, step = np.full(len(states), UNKNOWN), np.flatnonzero(is_followed)
    if not len(step):
        # An array of no entries of a sparse array is not a vector.
        return choices
    # For each two states, the number of choices that lead from one to the other, and the sum of these choices.
    choice = choice_of_entry(mdp.transition)
    places = mdp.state_of_choice[choice], mdp.transition.indices
    shape = (mdp.n_states, mdp.n_states)
    moves = states[step], states[step + 1]
    count = sparse.csr_array((np.ones_like(choice), places), shape)[moves]
    total = sparse.csr_array((choice, places), shape)[moves]
    choices[step] = np.where(count == 1, total, UNKNOWN)
    return choices


def leading(mdp: MDP, state: int, after: int) -> list[int]:
    """The choices of a state that can lead to another."""
    rows, offered = mdp.transition, range(*mdp.first_choice[state : state + 2])
    return [choice for choice in offered if after in rows.indices[rows.indptr[choice] : rows.indptr[choice + 1]]]


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


def from_csv(content: bytes, path: str) -> tuple[Columns, list[int]]:
    """The columns of a CSV file, and the number of the line of each row."""
    cells, lines = list[str](), list[int]()
    width = 0
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        for row in filter(None, reader):
            cells += row
            lines.append(reader.line_num)
            width = width or len(row)
            if len(row) != width:
                raise InvalidModel(f"line {lines[-1]} of {path} has {len(row)} values, but there are {width} columns")
    except (csv.Error, UnicodeDecodeError) as error:
        after = lines[-1] if lines else 0
        raise InvalidModel(f"{path} is not a CSV file in UTF-8 after line {after}: {error}") from error
    if not cells:
        raise InvalidModel(f"{path} is empty; its first line must name the columns, such as episode,state,action")
    # What `to_csv` guarded has an apostrophe before another sign of a formula.
    plain = [cell[cell.startswith(GUARDED) :] for cell in cells]
    return {name.strip(): plain[width + place :: width] for place, name in enumerate(cells[:width])}, lines[1:]


def from_lines(content: bytes, path: str) -> tuple[Columns, list[int]]:
    """The visits in lines of JSON, as of `from_csv`; of lines with choices, only their "states" and "choices"."""
    objects: dict[int, dict[str, Any]] = {}
    for number, text in enumerate(content.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
            is_known = isinstance(value, dict) and "states" in value and not value.keys() - KNOWN_KEYS
            objects[number] = {key: as_name(value[key]) for key in READ_KEYS & value.keys()} if is_known else {}
        except (ValueError, RecursionError) as error:
            raise InvalidModel(f"line {number} of {path} is not JSON; it is damaged or cut short ({error})") from error
        if not is_known:
            known = '"states" and optionally "actions" or "choices"'
            raise InvalidModel(f"line {number} of {path} must be an object with {known}")
    given = {key: sum(key in line for line in objects.values()) for key in ("actions", "choices")}
    if not set(given.values()) <= {0, len(objects)} or all(given.values()):
        raise InvalidModel(f"{path} mixes kinds of lines; give actions in every line, choices in every one, or neither")
    if given["choices"]:
        return {key: [line[key] for line in objects.values()] for key in ("states", "choices")}, list(objects)
    columns: Columns = {"episode": [], "state": [], "action": [], "terminated": []}
    lines = list[int]()
    for episode, (number, line) in enumerate(objects.items()):
        states = line["states"]
        actions = line.get("actions", states)
        n = len(states) if type(states) is type(actions) is tuple else 0
        if not n or n - len(actions) not in (0, 1):
            needed = "a list of at least one state, and as many actions or one fewer"
            raise InvalidModel(f"line {number} of {path} (demonstration {episode}) must have {needed}")
        columns["episode"] += [episode] * n
        columns["state"] += states
        columns["action"] += [*actions, None][:n]
        columns["terminated"] += [*[False] * (n - 1), line.get("terminated") is True]
        lines += [number] * n
    if not given["actions"]:
        del columns["action"]
    if not any(columns["terminated"]):
        del columns["terminated"]
    return columns, lines
