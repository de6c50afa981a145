"""Names of states and choices: any hashable objects, looked up in both directions.

A state without a name is named by its number, a choice without a name by its number within its state. A text must be
writable in UTF-8 without control characters but tabs and ends of lines, a number finite. In files, a name is a
string, a number, a truth value, None, or a tuple of these; any other is written, and read back, as its text.
"""

import json
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from heapq import nlargest
from itertools import islice, pairwise
from os.path import commonprefix
from typing import Any, Self
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import AsNames, Indices, check_length, integers, set_fields, set_state
from tutelage.outcomes import InvalidInput, InvalidModel, as_text

LAST_STATE = "end"
# The reward feature of a road map that is 1 at a goal.
AT_GOAL = "at goal"
# The memory of one small Python object and of the place that refers to it, about.
OBJECT_BYTES = 64


def check_name(name: Any, place: str) -> Any:
    """The name; refused unless it can be written to files and printed. place: what it names, for the message."""
    if isinstance(name, str):
        hidden = () if name.isprintable() else (category(letter) for letter in name if letter not in "\t\n\r")
        if not {"Cc", "Cs"}.isdisjoint(hidden):
            told = "has a control character or half a surrogate pair"
            raise InvalidModel(f"the name {as_text(name)!r} of {place} {told}")
    elif isinstance(name, float | np.floating) and not math.isfinite(name):
        raise InvalidModel(f"the name {name} of {place} is not a finite number; give a text")
    elif type(name) is tuple:
        for part in name:
            check_name(part, place)
    elif not is_hashable(name):
        raise InvalidModel(f"the name {name!r} of {place} is not hashable; give a string")
    return name


def is_hashable(name: Any) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True


class _Made(Sequence[Hashable]):
    """A sequence of names that are made when needed, by `_name`, and so take no memory."""

    def _name(self, number: int) -> Hashable:
        raise NotImplementedError

    def __getitem__(self, index: int | slice) -> Any:
        numbers = range(len(self))[index]
        return [self._name(number) for number in numbers] if isinstance(numbers, range) else self._name(numbers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self[:5]))}{', ...' if len(self) > 5 else ''})"


class Names(tuple[Hashable, ...]):
    """Different names of the states, in order."""

    def __new__(cls, names: Iterable[Hashable]) -> Self:
        held = super().__new__(cls, (check_name(name, f"state {i}") for i, name in enumerate(names)))
        _refuse_repeated(held, "states", "state")
        return held

    @cached_property
    def _number(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self)}

    def find(self, name: Hashable) -> int | None:
        """The number of the state of this name, if there is one."""
        return self._number.get(name)

    def __getstate__(self) -> None:
        """The numbers are not pickled."""


@dataclass(frozen=True, slots=True, repr=False)
class GridNames(_Made):
    """The cells of a grid, "row 3, column 4", row by row from zero, then, where it has one, the last state "end"."""

    n_rows: int
    n_columns: int
    has_end: bool = True

    def find(self, name: Hashable) -> int | None:
        if name == LAST_STATE and self.has_end:
            return self.n_rows * self.n_columns
        cell = re.fullmatch(r"row (\d{1,9}), column (\d{1,9})", name, re.ASCII) if isinstance(name, str) else None
        if cell is None:
            return None
        row, column = map(int, cell.groups())
        return row * self.n_columns + column if row < self.n_rows and column < self.n_columns else None

    def _name(self, number: int) -> Hashable:
        row, column = divmod(number, self.n_columns)
        return LAST_STATE if row == self.n_rows else f"row {row}, column {column}"

    def __len__(self) -> int:
        return self.n_rows * self.n_columns + self.has_end


class ChoiceNames(_Made):
    """(C,), the names of the choices, different within a state. stored: those of all choices, or, where every state
    offers the same A actions, those of these."""

    def __init__(self, names: Sequence[Hashable], first_choice: Indices) -> None:
        self._n = int(first_choice[-1])
        few = int(first_choice[1])
        is_regular = bool((np.diff(first_choice) == few).all())
        if len(names) != self._n and not (is_regular and len(names) == few):
            each = f", or {few} for the actions of every state" if is_regular else ""
            raise InvalidModel(f"choice_names has {len(names)} names; give one per choice ({self._n}){each}")
        self.stored: tuple[Hashable, ...] = tuple(check_name(name, f"choice {i}") for i, name in enumerate(names))
        if is_regular and self.stored == self.stored[:few] * (len(names) // few):
            self.stored = self.stored[:few]
        ends = first_choice.tolist() if len(self.stored) == self._n else [0, few]
        for state, (start, end) in enumerate(pairwise(ends)):
            _refuse_repeated(self.stored[start:end], f"actions of state {state}", "action")

    def _name(self, number: int) -> Hashable:
        return self.stored[number % len(self.stored)]

    def __len__(self) -> int:
        return self._n


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What the states and the choices of an MDP are called.

    states: (S,), `Names` or `GridNames`, or None. choices: (C,), `ChoiceNames`, or None.
    finals: the states in which an episode of the original environment ends. The MDP leads to its absorbing state
        instead, so a recorded episode that ends in one of them has arrived there.
    """

    first_choice: Indices
    states: AsNames | None = None
    choices: AsNames | None = None
    finals: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    __setstate__ = set_state

    def __post_init__(self) -> None:
        n_states = len(self.first_choice) - 1
        set_fields(self, finals=integers(self.finals, "finals", n_states))
        if self.states is not None:
            if not isinstance(self.states, Names | GridNames):
                set_fields(self, states=Names(_listed(self.states, "state_names")))
            check_length(self.states, n_states, "state_names", "states", "names")
        if self.choices is not None:
            stored = self.choices.stored if isinstance(self.choices, ChoiceNames) else self.choices
            set_fields(self, choices=ChoiceNames(_listed(stored, "choice_names"), self.first_choice))

    def state_name(self, state: int) -> Hashable:
        return int(state) if self.states is None else self.states[int(state)]

    def choice_name(self, choice: int) -> Hashable:
        return self.place(choice)[1] if self.choices is None else self.choices[int(choice)]

    def place(self, choice: int) -> tuple[int, int]:
        """The state of a choice, and its number within the state."""
        state = int(np.searchsorted(self.first_choice, choice, side="right")) - 1
        return state, int(choice - self.first_choice[state])

    def describe_state(self, state: int) -> str:
        """The number and the name: state 2 ('worn')."""
        return f"state {state}" + ("" if self.states is None else f" ({self.state_name(state)!r})")

    def describe_choice(self, choice: int) -> str:
        """state 2 ('worn'), action 1 ('service')."""
        state, action = self.place(choice)
        name = "" if self.choices is None else f" ({self.choice_name(choice)!r})"
        return f"{self.describe_state(state)}, action {action}{name}"

    def state(self, name: Hashable) -> int:
        """The number of the state of this name."""
        if not is_hashable(name):
            raise InvalidInput(f"{name!r} cannot name a state, because it is not hashable")
        if self.states is not None:
            number = self.states.find(name)
            if number is None:
                raise unknown(name, self.states, "state")
            return int(number)
        last = len(self.first_choice) - 2
        if isinstance(name, bool) or not isinstance(name, int | np.integer) or not 0 <= name <= last:
            raise InvalidInput(f"there is no state {name!r}; the states have no names, only numbers 0 .. {last}")
        return int(name)

    def choice(self, state: Hashable, name: Hashable) -> int:
        """The number of the choice of this name in the state of that name."""
        number = self.state(state)
        first, end = self.first_choice[number : number + 2].tolist()
        offered: Sequence[Hashable] = range(end - first) if self.choices is None else self.choices[first:end]
        if is_hashable(name) and not isinstance(name, bool) and name in offered:
            return int(first + offered.index(name))
        raise unknown(name, offered, "action", self.describe_state(number))


def suggestion(name: Any, known: Sequence[Hashable], most: int = 1_000) -> str:
    """Which known name is nearest to an unknown one, for a message. most: names that are compared as a whole."""
    texts = {str(offered): offered for offered in islice(known, 200 * most)}
    wanted = str(name)
    # Characters are compared, not parts of paths.
    likely = nlargest(most, texts, key=lambda text: len(commonprefix([text, wanted])))  # noqa: RUF071
    for near in get_close_matches(wanted, likely, 1, cutoff=0.5):
        return f"did you mean {texts[near]!r}?"
    listed = ", ".join(map(repr, known[:5])) or "none"
    others = f" and {len(known) - 5} more" if len(known) > 5 else ""
    return f"there are {listed}{others}"


def feature(names: Sequence[str], given: str, what: str = "feature", owner: str = "") -> str:
    """The one of these names that is given; a space may be written as an underscore. what, owner: for the message."""
    table = {name.replace(" ", "_"): name for name in names} | {name: name for name in names}
    if given not in table:
        raise unknown(given, names, what, owner)
    return table[given]


def unknown(name: Hashable, known: Sequence[Hashable], what: str, owner: str = "") -> InvalidInput:
    """The error for a name that is not known. owner: what has such names, if it is not clear."""
    missing = f"{owner} has no {what}" if owner else f"there is no {what}"
    return InvalidInput(f"{missing} {name!r}; {suggestion(name, known)}")


def _listed(given: Any, name: str) -> list[Hashable]:
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        raise InvalidModel(f"{name} must be a sequence of names, got {given!r}")
    # The items of a NumPy array become Python's own, which JSON knows.
    return given.tolist() if isinstance(given, np.ndarray) else list(given)


def _refuse_repeated(names: Sequence[Hashable], where: str, what: str) -> None:
    seen: dict[Hashable, int] = {}
    for number, name in enumerate(names):
        if seen.setdefault(name, number) < number:
            raise InvalidModel(f"the {where} have different names, but {what} {seen[name]} and {number} are {name!r}")


def to_json(names: Names | GridNames | ChoiceNames) -> NDArray[np.uint8]:
    """Names as the bytes of a JSON text: a list, or the sizes of a grid."""
    if isinstance(names, GridNames):
        data: Any = {"rows": names.n_rows, "columns": names.n_columns, "end": names.has_end}
    else:
        data = [_plain(name) for name in (names.stored if isinstance(names, ChoiceNames) else names)]
    return np.frombuffer(json.dumps(data, ensure_ascii=False).encode(), dtype=np.uint8)


def _plain(name: Any) -> Any:
    if isinstance(name, np.generic):
        name = name.item()
    if type(name) is tuple:
        return [_plain(part) for part in name]
    is_plain = name is None or type(name) in (str, int, float, bool)
    return name if is_plain else check_name(str(name), "a state or an action")


def from_json(content: NDArray[Any], name: str, most: int, *, max_bytes: int = 2**30) -> Sequence[Hashable]:
    """The names that `to_json` wrote, not yet checked. most: of the names, which may be tuples of up to 10,000 parts.
    max_bytes: of all Python objects. Both are compared with the commas and brackets, before any object is made."""
    if content.dtype != np.uint8 or content.ndim != 1:
        raise InvalidModel(f"{name} must be the bytes of a JSON text")
    data = content.tobytes()
    if n_objects(data) > min((most + 1) * 10_000, max_bytes // OBJECT_BYTES):
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


def as_name(data: Any) -> Hashable:
    """A name from JSON data: a list is a tuple."""
    if isinstance(data, dict):
        raise InvalidModel("a name must not be an object")
    return tuple(as_name(part) for part in data) if isinstance(data, list) else data


def n_objects(data: bytes) -> int:
    """No fewer than the Python objects of a text in JSON or CSV: the commas, brackets and lines."""
    return 1 + sum(data.count(mark) for mark in (b",", b"[", b"{", b"\n"))
