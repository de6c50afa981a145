"""Recorded episodes by name: columns of a table as arrays of states and choices, and back.

A value of a column is the name of a state or action, or its number. A name comes first. A whole number counts as a
number unless some name is a whole number itself, as the nodes of a road map are. Texts, as in a CSV file, stand for the
names that are written like them. An action may also be given as the state that it leads to, and need not be given at
all where the next state determines it.

`from_gymnasium` leads every transition that terminates to one absorbing state. A recorded episode ends in the final
state that the environment has shown instead, such as the goal. Such an arrival is complete: the episode has reached the
absorbing state, and the rest of it is known.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tutelage.arrays import Flags, Indices
from tutelage.model.arrivals import choice_of_entry
from tutelage.model.mdp import MDP, absorbing_states
from tutelage.model.names import suggestion
from tutelage.outcomes import InvalidModel

# The choice of a last visit that is not known.
UNKNOWN = -1
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no", "")

# What to call a row of the table in a message.
Place = Callable[[], str]


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Episodes as arrays. rows: (N,), the row of the table that each visit comes from. names: (n,), of the episodes."""

    states: Indices
    offsets: Indices
    choices: Indices | None
    rows: Indices
    names: list[Any]
    is_terminated: Flags | None

    def place(self, position: int, row_name: Callable[[int], str]) -> str:
        """The episode, the step and the row of a visit, for messages."""
        number = int(np.searchsorted(self.offsets, position, side="right")) - 1
        step = position - self.offsets[number]
        return f"{row_name(int(self.rows[position]))} (episode {self.names[number]!r}, step {step})"


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
    builder = _Builder(mdp, given, row_name)
    for name, rows in groups.items():
        builder.add(name, rows)
    return builder.built(list(groups))


@dataclass(slots=True)
class _Builder:
    """Adds episodes one by one."""

    mdp: MDP
    given: Mapping[str, list[Any]]
    row_name: Callable[[int], str]
    states: list[int] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])
    flags: list[bool] = field(default_factory=list)
    reader: "NameReader" = field(init=False)

    def __post_init__(self) -> None:
        self.reader = NameReader(self.mdp)

    def add(self, name: Any, rows: list[int]) -> None:
        """Add the episode of these rows."""
        actions, is_ended = self.given.get("action"), False
        for step, row in enumerate(rows):
            place = partial(self._place, name, row, step)
            state = self.reader.state(self.given["state"][row], place)
            choice = UNKNOWN
            if actions is not None and not is_missing(actions[row]):
                choice = self.reader.choice(state, actions[row], place)
            elif actions is not None and step < len(rows) - 1:
                raise InvalidModel(f"{place()}: the action is missing; only that of a last step may be")
            if is_ended and (step < len(rows) - 1 or choice != UNKNOWN):
                raise InvalidModel(f"{place()}: the episode goes on after it terminated; give it another name")
            is_ended = is_ended or self._flag(row, place)
            self._visit(state, choice, row)
        self._last(rows[-1], partial(self._place, name, rows[-1], len(rows) - 1), is_ended)
        self.flags.append(is_ended)
        self.ends.append(len(self.states))

    def _place(self, name: Any, row: int, step: int) -> str:
        return f"{self.row_name(row)} (episode {name!r}, step {step})"

    def _visit(self, state: int, choice: int, row: int) -> None:
        self.states.append(state)
        self.choices.append(choice)
        self.rows.append(row)

    def _last(self, row: int, place: Place, is_ended: bool) -> None:
        """Add the state after the last action: that of the column, or, where the episode terminated, an end."""
        if self.choices[-1] == UNKNOWN and "action" in self.given:
            return
        after = self.given["next_state"][row] if "next_state" in self.given else None
        if not is_missing(after):
            self._visit(self.reader.state(after, place), UNKNOWN, row)
        elif is_ended and "action" in self.given:
            # Replaced by the absorbing state that the choice leads to.
            self._visit(self.states[-1], UNKNOWN, row)

    def _flag(self, row: int, place: Place) -> bool:
        if "terminated" not in self.given:
            return False
        value = self.given["terminated"][row]
        text = "" if is_missing(value) else str(value).strip().lower()
        if text.removesuffix(".0") not in TRUE + FALSE:
            raise InvalidModel(f"{place()}: terminated must be true or false, got {value!r}")
        return text.removesuffix(".0") in TRUE

    def built(self, names: list[Any]) -> Episodes:
        offsets, states, rows = (np.array(part, dtype=np.int64) for part in (self.ends, self.states, self.rows))
        choices = np.array(self.choices, dtype=np.int64) if "action" in self.given else None
        flags = np.array(self.flags) if "terminated" in self.given else None
        return Episodes(states, offsets, choices, rows, names, flags)


class NameReader:
    """Numbers of states and choices from names or numbers, each looked up once."""

    def __init__(self, mdp: MDP) -> None:
        self._mdp, self._labels = mdp, mdp.names
        self._states: dict[Any, int] = {}
        self._choices: dict[tuple[int, Any], int] = {}
        self._texts: dict[str, int] | None = None
        self._has_whole_names: bool | None = None

    def state(self, value: Any, place: Place) -> int:
        """The number of a state. place: what to call the row in a message."""
        try:
            if value in self._states:
                return self._states[value]
        except TypeError as error:
            raise InvalidModel(f"{place()}: {value!r} cannot name a state, because it is not hashable") from error
        number = None if is_missing(value) else self._find_state(value)
        if number is None:
            names = self._labels.states
            if is_missing(value):
                raise InvalidModel(f"{place()}: the state is missing; give one, or leave the row out")
            known = f"states are 0 .. {self._mdp.n_states - 1}" if names is None else suggestion(value, names)
            raise InvalidModel(f"{place()}: there is no state {value!r}; {known}")
        self._states[value] = number
        return number

    def choice(self, state: int, value: Any, place: Place) -> int:
        """The number of the choice of a state."""
        try:
            if (state, value) in self._choices:
                return self._choices[state, value]
        except TypeError as error:
            raise InvalidModel(f"{place()}: {value!r} cannot name an action, because it is not hashable") from error
        first, end = self._mdp.first_choice[state : state + 2].tolist()
        names = [self._labels.choice_name(choice) for choice in range(first, end)]
        within = _find_name(value, names)
        after = self._find_state(value) if within is None else None
        leads = [] if after is None else [c for c in range(first, end) if after in _possible(self._mdp, state, c)]
        if len(leads) == 1:
            within = leads[0] - first
        if within is None:
            told = f"{self._labels.describe_state(state)} has no action {value!r}"
            raise InvalidModel(f"{place()}: {told}; {suggestion(value, names)}")
        self._choices[state, value] = int(first) + within
        return int(first) + within

    def _find_state(self, value: Any) -> int | None:
        names, number = self._labels.states, whole(value)
        state = None if names is None else names.find(value)
        if state is None and number is not None and names is not None and self._names_are_whole():
            state = names.find(number)
        elif state is None and number is not None:
            state = number if 0 <= number < self._mdp.n_states else None
        if state is None and names is not None and isinstance(value, str):
            if self._texts is None:
                self._texts = {str(name): place for place, name in enumerate(names)}
            state = self._texts.get(value)
        return state

    def _names_are_whole(self) -> bool:
        if self._has_whole_names is None:
            self._has_whole_names = _any_whole(self._labels.states or ())
        return self._has_whole_names


def _find_name(value: Any, names: Sequence[Hashable]) -> int | None:
    """The place of a name among a few, by the same rules as for states."""
    if value in names and not isinstance(value, bool):
        return names.index(value)
    number = whole(value)
    if number is not None and _any_whole(names):
        return names.index(number) if number in names else None
    if number is not None:
        return number if 0 <= number < len(names) else None
    texts = [str(name) for name in names]
    return texts.index(value) if isinstance(value, str) and value in texts else None


def _any_whole(names: Iterable[Hashable]) -> bool:
    return any(isinstance(name, int | np.integer) for name in names)


def whole(value: Any) -> int | None:
    """A whole number, also one that was written as a text or as a float."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        # A table of numbers with gaps is written as 1.0, 2.0 and so on.
        text = value.strip().removesuffix(".0")
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else None
    if isinstance(value, int | np.integer):
        return int(value)
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return int(value) if is_whole else None


def is_missing(value: Any) -> bool:
    """None, an empty text, NaN, and pandas' own marks."""
    if value is None or (isinstance(value, str) and not value):
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return type(value).__name__ in ("NAType", "NaTType")


def column(frame: Any, name: str) -> list[Any]:
    """A column of a mapping of columns, of a pandas frame, or of what behaves like one."""
    try:
        values = frame[name]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        keys = getattr(frame, "keys", None)
        if keys is None:
            raise InvalidModel(
                f"a table must be a mapping of columns, such as a dict, got {type(frame).__name__}"
            ) from error
        known = [str(key) for key in keys()]
        raise InvalidModel(f"the table has no column {name!r}; {suggestion(name, known)}") from error
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
        "state": states.tolist() if names.states is None else _each(names.states, states),
    }
    if choices is not None:
        within = choices - mdp.first_choice[states]
        taken = within.tolist() if names.choices is None else _each(names.choices, np.maximum(choices, 0))
        columns["action"] = [
            None if choice == UNKNOWN else name for choice, name in zip(choices.tolist(), taken, strict=True)
        ]
    return columns


def _each(names: Sequence[Hashable], numbers: Indices) -> list[Hashable]:
    """The name of each number; each is made once."""
    distinct, place = np.unique(numbers, return_inverse=True)
    made = [names[number] for number in distinct.tolist()]
    return [made[number] for number in place.tolist()]


def with_known_ends(
    mdp: MDP,
    states: Indices,
    offsets: Indices,
    choices: Indices | None,
    place: Callable[[int], str],
    is_terminated: Flags | None = None,
) -> Indices:
    """(N,), the states with the last state of a terminated episode replaced by the absorbing state of the MDP.

    is_terminated: (n,), the episodes that are known to have terminated. Without it, an episode has terminated if it
    ends in a final state of the environment to which the choice before does not lead in the MDP.
    """
    finals, lasts, lengths = mdp.names.finals, offsets[1:] - 1, np.diff(offsets)
    flags = np.zeros(len(lasts), dtype=np.bool_) if is_terminated is None else is_terminated
    is_final = np.isin(states[np.maximum(lasts, 0)], finals) if len(states) else flags
    candidates = np.flatnonzero((lengths > 1) & (flags | is_final))
    if not len(candidates):
        return states
    is_absorbing, known = absorbing_states(mdp), states.copy()
    for episode in candidates.tolist():
        last = int(lasts[episode])
        if is_absorbing[states[last]]:
            continue
        after = _possible(mdp, int(states[last - 1]), None if choices is None else int(choices[last - 1]))
        ends = after[is_absorbing[after]]
        if len(ends) == 1 and (flags[episode] or states[last] not in after):
            known[last] = ends[0]
        elif flags[episode]:
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
