"""Names of states and choices: any hashable objects, looked up in both directions.

A state without a name is named by its number, a choice without a name by its number within its state.

`check_name` is the one check of all names: a text must be writable in UTF-8 and have no control characters but tabs and
ends of lines, a number must be finite. `as_text` is the one way to print a name.
"""

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from heapq import nlargest
from itertools import islice, pairwise
from os.path import commonprefix
from typing import Any
from unicodedata import category

import numpy as np

from tutelage.arrays import Indices, integers, set_state
from tutelage.outcomes import InvalidInput, InvalidModel, printable

# The most names whose beginnings are compared with an unknown one, and the most that are compared as a whole.
MOST_READ, MOST_COMPARED = 200_000, 1_000
LAST_STATE = "end"
# The reward feature of a road map that is 1 at a goal.
AT_GOAL = "at goal"


def check_name(name: Any, place: str) -> Any:
    """The name; refused unless it can be written to files and printed. place: what it names, for the message."""
    if isinstance(name, str):
        if not name.isprintable() and any(
            category(letter) in ("Cc", "Cs") for letter in name if letter not in "\t\n\r"
        ):
            raise InvalidModel(
                f"the name {as_text(name)!r} of {place} has a control character or half a surrogate pair"
            )
    elif isinstance(name, float | np.floating) and not math.isfinite(name):
        raise InvalidModel(f"the name {name} of {place} is not a finite number; give a text")
    elif type(name) is tuple:
        for part in name:
            check_name(part, place)
    return name


def as_text(name: Any) -> str:
    """A name on one line of a terminal or a table."""
    return printable(str(name))


class Names(Sequence[Hashable]):
    """Different names of the states, in order."""

    def __init__(self, names: Sequence[Hashable]) -> None:
        self._names = tuple(names)
        for number, name in enumerate(self._names):
            check_name(name, f"state {number}")
        if len(self._number) < len(self._names):
            _refuse_repeated(self._names, "states", "state")

    @cached_property
    def _number(self) -> dict[Hashable, int]:
        try:
            return {name: number for number, name in enumerate(self._names)}
        except TypeError:
            number, name = next((i, name) for i, name in enumerate(self._names) if not _is_hashable(name))
            raise InvalidModel(f"the name {name!r} of state {number} is not hashable; give a string") from None

    def find(self, name: Hashable) -> int | None:
        """The number of the state of this name, if there is one."""
        return self._number.get(name)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int | slice) -> Any:
        return self._names[index]

    def __getstate__(self) -> dict[str, Any]:
        return {"_names": self._names}

    def __repr__(self) -> str:
        return f"Names({', '.join(repr(name) for name in self._names[:3])}{', ...' if len(self) > 3 else ''})"


@dataclass(frozen=True, slots=True)
class GridNames(Sequence[Hashable]):
    """The cells of a grid, "row 3, column 4", row by row from zero, then, where it has one, the last state "end".

    The names are made when needed, so those of a large grid take no memory.
    """

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

    def __len__(self) -> int:
        return self.n_rows * self.n_columns + self.has_end

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        row, column = divmod(number, self.n_columns)
        return LAST_STATE if row == self.n_rows else f"row {row}, column {column}"


class ChoiceNames(Sequence[Hashable]):
    """(C,), the names of the choices, different within a state.

    Where every state offers the same A actions, only the names of these are stored.
    """

    def __init__(self, names: Sequence[Hashable], first_choice: Indices) -> None:
        self._names, self._first, self._n = tuple(names), first_choice, int(first_choice[-1])
        counts = np.diff(first_choice)
        is_shared = len(self._names) == counts[0] and bool((counts == counts[0]).all())
        if not is_shared and len(self._names) != self._n:
            each = f", or {counts[0]} for the actions of every state" if (counts == counts[0]).all() else ""
            raise InvalidModel(f"choice_names has {len(self._names)} names; give one per choice ({self._n}){each}")
        for number, name in enumerate(self._names):
            if not _is_hashable(check_name(name, f"choice {number}")):
                raise InvalidModel(f"the name {name!r} of choice {number} is not hashable; give a string")
        self._check_different(1 if is_shared else len(counts))
        of_first = self._names[: counts[0]]
        if not is_shared and (counts == counts[0]).all() and of_first * len(counts) == self._names:
            self._names = of_first

    def _check_different(self, n_states: int) -> None:
        """Refuse a state two of whose choices have one name."""
        ends = self._first[: n_states + 1].tolist()
        for state, (start, end) in enumerate(pairwise(ends)):
            if end - start > 1 and len(set(self._names[start:end])) < end - start:
                _refuse_repeated(self._names[start:end], f"actions of state {state}", "action")

    @property
    def stored(self) -> tuple[Hashable, ...]:
        """The names of all choices, or those of the actions that every state offers."""
        return self._names

    def fits(self, first_choice: Indices) -> bool:
        """Whether these are names for the same choices."""
        return self._first is first_choice or bool(np.array_equal(self._first, first_choice))

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        return self._names[range(self._n)[index] % len(self._names)]

    def __repr__(self) -> str:
        return f"ChoiceNames({', '.join(repr(name) for name in self._names[:5])}{', ...' if self._n > 5 else ''})"


StateNames = Names | GridNames


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What the states and the choices of an MDP are called.

    states: (S,), or None. choices: (C,), or None.
    finals: the states in which an episode of the original environment ends. The MDP leads to its absorbing state
        instead, so a recorded episode that ends in one of them has arrived there.
    """

    first_choice: Indices
    states: StateNames | None = None
    choices: ChoiceNames | None = None
    finals: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    __setstate__ = set_state

    @classmethod
    def of(
        cls,
        first_choice: Indices,
        states: Sequence[Hashable] | None = None,
        choices: Sequence[Hashable] | None = None,
        finals: Any = (),
    ) -> "Labels":
        """Checked labels; names that were checked for the same states and choices are not checked again."""
        n_states = len(first_choice) - 1
        ends = integers(finals, "finals") if len(finals) else np.zeros(0, dtype=np.int64)
        if len(ends) and not (ends.min() >= 0 and ends.max() < n_states):
            raise InvalidModel(f"finals must be states 0 .. {n_states - 1}, got {ends.min()} .. {ends.max()}")
        return cls(first_choice, _state_names(states, n_states), _choice_names(choices, first_choice), ends)

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

    def describe_row(self, row: int) -> str:
        """What a row of the transition matrix means, as the start of a message."""
        return "" if row >= self.first_choice[-1] else f"{self.describe_choice(row)}: "

    def state(self, name: Hashable) -> int:
        """The number of the state of this name."""
        if not _is_hashable(name):
            raise InvalidInput(f"{name!r} cannot name a state, because it is not hashable")
        if self.states is not None:
            number = self.states.find(name)
            if number is None:
                raise InvalidInput(f"there is no state {name!r}; {suggestion(name, self.states)}")
            return number
        n_states = len(self.first_choice) - 1
        if isinstance(name, bool) or not isinstance(name, int | np.integer) or not 0 <= name < n_states:
            known = f"the states have no names, only numbers 0 .. {n_states - 1}"
            raise InvalidInput(f"there is no state {name!r}; {known}")
        return int(name)

    def choice(self, state: Hashable, name: Hashable) -> int:
        """The number of the choice of this name in the state of that name."""
        number = self.state(state)
        first, end = self.first_choice[number : number + 2].tolist()
        offered: Sequence[Hashable] = range(end - first) if self.choices is None else self.choices[first:end]
        if _is_hashable(name) and not isinstance(name, bool) and name in offered:
            return int(first + offered.index(name))
        raise InvalidInput(f"{self.describe_state(number)} has no action {name!r}; {suggestion(name, offered)}")


def suggestion(name: Any, known: Sequence[Hashable]) -> str:
    """Which of the known names are near an unknown one, for a message."""
    texts, wanted = {str(offered): offered for offered in islice(known, MOST_READ)}, str(name)
    likely = list(texts)
    if len(texts) > MOST_COMPARED:
        # Characters are compared, not parts of paths.
        likely = nlargest(MOST_COMPARED, texts, key=lambda text: len(commonprefix([text, wanted])))  # noqa: RUF071
    near = [texts[text] for text in get_close_matches(wanted, likely, cutoff=0.5)]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    listed = ", ".join(map(repr, known[:5])) or "none"
    return f"there are {listed}" + (f" and {len(known) - 5} others" if len(known) > 5 else "")


def _state_names(given: Sequence[Hashable] | None, n_states: int) -> StateNames | None:
    if given is None:
        return None
    names = given if isinstance(given, Names | GridNames) else Names(_listed(given, "state_names"))
    if len(names) != n_states:
        raise InvalidModel(f"state_names has {len(names)} names, but there are {n_states} states; give one for each")
    return names


def _choice_names(given: Sequence[Hashable] | None, first_choice: Indices) -> ChoiceNames | None:
    if given is None or (isinstance(given, ChoiceNames) and given.fits(first_choice)):
        return given
    stored = given.stored if isinstance(given, ChoiceNames) else given
    return ChoiceNames(_listed(stored, "choice_names"), first_choice)


def _listed(given: Any, name: str) -> list[Hashable]:
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        raise InvalidModel(f"{name} must be a sequence of names, got {given!r}")
    # The items of a NumPy array become Python's own, which JSON knows.
    return given.tolist() if isinstance(given, np.ndarray) else list(given)


def _refuse_repeated(names: Sequence[Hashable], where: str, what: str) -> None:
    seen: dict[Hashable, int] = {}
    for number, name in enumerate(names):
        if name in seen:
            raise InvalidModel(f"the {where} have different names, but {what} {seen[name]} and {number} are {name!r}")
        seen[name] = number


def _is_hashable(name: Any) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True
