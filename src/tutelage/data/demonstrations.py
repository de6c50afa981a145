"""Demonstrations: trajectories of states and choices, sampled from a policy or recorded elsewhere.

A trajectory xi = (s_0, s_1, ...) is infinite; a demonstration is its beginning. It may end in an absorbing state,
because the rest is known. `sampling` samples demonstrations, `empirical` counts their features.
"""

import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, SupportsIndex, overload

import numpy as np

from tutelage.arrays import ArrayLike, Flags, Indices, Readable, check_length, integers, refuse, set_fields
from tutelage.chains.resolvent import chain
from tutelage.data.recordings import UNKNOWN as UNKNOWN
from tutelage.data.recordings import Place, choices_by_next_state, leading, read_frame, to_columns, with_known_ends
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidInput, InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory(Readable):
    """One demonstration: the visited states (T,) and the choices there (T,), as in `Demonstrations`."""

    states: Indices
    choices: Indices | None = None
    mdp: MDP | None = None

    @property
    def steps(self) -> list[tuple[Hashable, Hashable | None]]:
        """The names of the state and of the action of each visit; None for an action that is not known."""
        if self.mdp is None:
            raise InvalidModel("this trajectory has no names, because its MDP is not known; give demonstrations an mdp")
        frame = to_columns(self.mdp, self.states, np.array([0, len(self)]), self.choices)
        return list(zip(frame["state"], frame.get("action", [None] * len(self)), strict=True))

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, slots=True, eq=False)
class Demonstrations(Readable):
    """n trajectories of any lengths, concatenated; a sequence whose items are `Trajectory` objects.

    states: (N,), the visited states of all trajectories, in order.
    offsets: (n+1,), trajectory i is states[offsets[i] : offsets[i+1]].
    choices: (N,), the choice taken at each visit, or None when only states are known. The last choice of a trajectory
        may be UNKNOWN (-1).
    mdp: the MDP, if known, whose states and choices these are; it has their names.
    """

    states: Indices
    offsets: Indices
    choices: Indices | None = None
    mdp: MDP | None = None

    def __post_init__(self) -> None:
        states = integers(self.states, "states")
        offsets = integers(self.offsets, "offsets")
        _check_offsets(offsets, len(states))
        set_fields(self, states=states, offsets=offsets)
        if self.choices is not None:
            choices = integers(self.choices, "choices")
            check_length(choices, len(states), "choices", "visited states")
            set_fields(self, choices=choices)
            told = "the choice is unknown; only the choice of a last step may be unknown"
            refuse(self.is_followed & (choices == UNKNOWN), lambda at: f"{_place(offsets, at)}: {told}")

    @classmethod
    def from_sequences(
        cls,
        mdp: MDP,
        states: Iterable[ArrayLike],
        actions: Iterable[ArrayLike] | None = None,
        *,
        terminated: Sequence[bool] | None = None,
    ) -> Self:
        """Demonstrations from sequences of states and, where known, of actions.

        actions: numbers within the state, so that action a of state s is choice first_choice[s] + a; as many as there
            are states, or one fewer. Without actions, where they are needed, the choices are those that lead to the
            next state, if each step has only one such choice.
        terminated: whether each episode has ended: its last state stands for the absorbing state of the MDP.

        A demonstration may start in any state. Every later state must be possible after the state before it, but an
        episode may end in the final state that an environment has shown in place of the absorbing state.
        """
        visited, offsets = _end_to_end(states, "states")
        place = partial(_place, offsets)
        _check_offsets(offsets, len(visited))
        _check_states(mdp, visited, place)
        ended = np.zeros(len(offsets) - 1, np.bool_) if terminated is None else np.array(terminated, np.bool_)
        check_length(ended, len(offsets) - 1, "terminated", "demonstrations")
        choices = None
        if actions is not None:
            taken, is_given = _taken(actions, offsets, "actions")
            choices = np.where(is_given, mdp.first_choice[visited] + taken, UNKNOWN)
            _check_offered(mdp, visited, choices, is_given, place, "actions")
        arrived = with_known_ends(mdp, visited, offsets, choices, ended, place)
        return cls(*arrived, mdp).checked_against(mdp, place)

    @classmethod
    def from_frame(
        cls,
        domain: Domain | MDP,
        frame: Any,
        *,
        episode: str = "episode",
        state: str = "state",
        action: str | None = "action",
        next_state: str | None = None,
        terminated: str | None = None,
        row_name: Place = "row {}".format,
    ) -> Self:
        """Demonstrations from a table with one row per visit: a pandas frame, or any mapping of columns.

        episode, state, action: the names of the columns. States and actions are names or numbers. The action of the
            last row of an episode may be missing, and it may be the name of the next state; action=None for a table of
            states only, see `from_sequences`.
        next_state: a column with the state after the action, where a table has one row per step.
        terminated: a column that is true where the episode has ended: the last action led to the absorbing state.
        row_name: what to call a row in messages, such as a line of a file.
        """
        mdp = domain.mdp if isinstance(domain, Domain) else domain
        columns = {"episode": episode, "state": state, "action": action, "next_state": next_state}
        has_steps = "step" in getattr(frame, "keys", list)() and "step" not in columns.values()
        columns |= {"terminated": terminated, "step": "step" if has_steps else None}
        episodes = read_frame(mdp, frame, columns, row_name)
        return cls(*with_known_ends(mdp, *episodes), mdp).checked_against(mdp, episodes[-1])

    def to_frame(self) -> dict[str, list[Any]]:
        """A table with one row per visit, by name, as `pandas.DataFrame` takes it: episode, step, state and action."""
        if self.mdp is None:
            raise InvalidModel("these demonstrations have no names, because their MDP is not known; give them an mdp")
        return to_columns(self.mdp, self.states, self.offsets, self.choices)

    @classmethod
    def from_choice_sequences(cls, mdp: MDP, states: Iterable[ArrayLike], choices: Iterable[ArrayLike]) -> Self:
        """As `from_sequences`, with choices numbered in the whole MDP instead of actions numbered within the state."""
        visited, offsets = _end_to_end(states, "states")
        taken, _ = _taken(choices, offsets, "choices")
        return cls(visited, offsets, taken, mdp).checked_against(mdp)

    def checked_against(self, mdp: MDP, place: Place | None = None) -> Self:
        """The same, refused with the first step that the MDP does not allow. place: what to call it in messages."""
        place = place or partial(_place, self.offsets)
        _check_states(mdp, self.states, place)
        if self.choices is not None:
            _check_offered(mdp, self.states, self.choices, self.choices != UNKNOWN, place, "choices")
        step = np.flatnonzero(self.is_followed)
        if not len(step):
            return self
        # With weight one on every choice, an entry is positive where any choice leads.
        moves = mdp.transition if self.choices is not None else chain(mdp, np.ones(mdp.n_choices))
        likelihood = moves[(self.states if self.choices is None else self.choices)[step], self.states[step + 1]]

        def told(number: int) -> str:
            at, names = int(step[number]), mdp.names
            before, after = (names.describe_state(state) for state in self.states[at : at + 2].tolist())
            if self.choices is None:
                return f"{place(at)}: no choice of {before} leads to {after}"
            choice = int(self.choices[at])
            name = "" if names.choices is None else f" ({names.choice_name(choice)!r})"
            return f"{place(at)}: choice {choice}{name} of {before} never leads to {after}"

        refuse(likelihood == 0, told)
        return self

    def determined(self, mdp: MDP) -> Self:
        """The same with the choices that lead to the next states, where none are known and each step has only one."""
        if self.choices is not None:
            return self
        choices = choices_by_next_state(mdp, self.states, self.is_followed)
        is_open = (self.is_followed & (choices == UNKNOWN)).any()
        return self if is_open else type(self)(self.states, self.offsets, choices, self.mdp)

    def ambiguity(self, mdp: MDP) -> str:
        """The first step that several choices may explain, with their names, for messages about open choices."""
        names, choices = mdp.names, choices_by_next_state(mdp, self.states, self.is_followed)
        at = int(np.argmax(self.is_followed & (choices == UNKNOWN)))
        before, after = self.states[at : at + 2].tolist()
        listed = " or ".join(repr(names.choice_name(choice)) for choice in leading(mdp, before, after)[:5])
        step = f"from {names.describe_state(before)} to {names.describe_state(after)}"
        return f"{_place(self.offsets, at)}, {step}, may be {listed}"

    def take(self, numbers: ArrayLike) -> Self:
        """The trajectories with these numbers, in this order; a number may occur more than once."""
        wanted = integers(numbers, "the numbers to take")
        known = f"they are 0 .. {self.n - 1}"
        refuse((wanted < 0) | (wanted >= self.n), lambda i: f"there is no demonstration {wanted[i]}; {known}")
        lengths = self.lengths[wanted]
        offsets = np.append(0, np.cumsum(lengths))
        visits = np.arange(offsets[-1]) + np.repeat(self.offsets[wanted] - offsets[:-1], lengths)
        choices = None if self.choices is None else self.choices[visits]
        return type(self)(self.states[visits], offsets, choices, self.mdp)

    @classmethod
    def concatenate(cls, parts: Iterable["Demonstrations"]) -> Self:
        """All trajectories of several demonstrations, in order; choices are known where they are known in all."""
        held = list(parts)
        if not held:
            raise InvalidInput("there is nothing to concatenate; give at least one Demonstrations")
        choices = [part.choices for part in held if part.choices is not None]
        return cls(
            np.concatenate([part.states for part in held]),
            np.append(0, np.cumsum(np.concatenate([part.lengths for part in held]))),
            np.concatenate(choices) if len(choices) == len(held) else None,
            next((part.mdp for part in held if part.mdp is not None), None),
        )

    @overload
    def __getitem__(self, index: SupportsIndex) -> Trajectory: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Trajectory | Self:
        """One trajectory, or the demonstrations of a slice, which must not be empty; `take` picks any others."""
        if isinstance(index, slice):
            return self.take(np.arange(self.n)[index])
        number = operator.index(index)
        if not -self.n <= number < self.n:
            raise IndexError(f"there is no demonstration {number}; they are 0 .. {self.n - 1}")
        visits = slice(*self.offsets[number % self.n : number % self.n + 2])
        return Trajectory(self.states[visits], None if self.choices is None else self.choices[visits], self.mdp)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[number] for number in range(self.n))

    def __len__(self) -> int:
        return self.n

    @property
    def n(self) -> int:
        """The number of trajectories."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Indices:
        """(n,), the number of visits of each trajectory."""
        return np.diff(self.offsets)

    @property
    def last_states(self) -> Indices:
        """(n,), the last state of each trajectory."""
        return self.states[self.offsets[1:] - 1]

    @property
    def is_followed(self) -> Flags:
        """(N,), whether another visit of the same trajectory follows."""
        followed = np.ones(len(self.states), dtype=np.bool_)
        followed[self.offsets[1:] - 1] = False
        return followed

    def __repr__(self) -> str:
        known = "states only" if self.choices is None else "states and choices"
        return f"Demonstrations({self.n} of {self.lengths.min()} to {self.lengths.max()} {known})"


def _end_to_end(sequences: Iterable[ArrayLike], name: str) -> tuple[Indices, Indices]:
    """The concatenated sequences, and the offsets (n+1,) at which each starts."""
    if isinstance(sequences, str) or not isinstance(sequences, Iterable):
        raise InvalidModel(f"{name} must be a list of sequences, got {type(sequences).__name__}")
    parts = [integers(part, f"demonstration {number}: {name}") for number, part in enumerate(sequences)]
    if not parts:
        raise InvalidModel(f"there are no demonstrations: the list of {name} is empty")
    return np.concatenate(parts), np.cumsum([0] + [len(part) for part in parts])


def _taken(sequences: Iterable[ArrayLike], offsets: Indices, name: str) -> tuple[Indices, Flags]:
    """(N,), the actions or choices, UNKNOWN at a last step that has none; and (N,), whether they are given."""
    given, given_offsets = _end_to_end(sequences, name)
    if len(given_offsets) != len(offsets):
        raise InvalidModel(f"there are {len(offsets) - 1} sequences of states, but {len(given_offsets) - 1} of {name}")
    n_states, n_given = np.diff(offsets), np.diff(given_offsets)
    is_wrong, needed = (n_given != n_states) & (n_given != n_states - 1), f"as many {name} as states, or one fewer"
    refuse(is_wrong, lambda i: f"demonstration {i} has {n_states[i]} states and {n_given[i]} {name}; it needs {needed}")
    missing = given_offsets[1:][n_given < n_states]
    return np.insert(given, missing, UNKNOWN), np.insert(np.ones(len(given), np.bool_), missing, False)


def _check_offsets(offsets: Indices, n_visits: int) -> None:
    if len(offsets) < 2:
        raise InvalidModel("there are no demonstrations: offsets must hold one entry per trajectory and one more")
    if offsets[0] != 0 or offsets[-1] != n_visits:
        raise InvalidModel(f"offsets must run from 0 to {n_visits}, the number of visits, got {offsets[[0, -1]]}")
    lengths = np.diff(offsets)
    if lengths.min() < 1:
        raise InvalidModel(f"demonstration {lengths.argmin()} is empty; it must visit at least one state")


def _check_states(mdp: MDP, states: Indices, place: Place) -> None:
    known = f"states are 0 .. {mdp.n_states - 1}"
    refuse((states < 0) | (states >= mdp.n_states), lambda at: f"{place(at)}: there is no state {states[at]}; {known}")


def _check_offered(mdp: MDP, states: Indices, choices: Indices, is_given: Flags, place: Place, name: str) -> None:
    """Refuse a choice that its state does not offer; the message counts in `name`, "actions" or "choices"."""
    first, end = mdp.first_choice[states], mdp.first_choice[states + 1]

    def told(at: int) -> str:
        low = first[at] if name == "actions" else 0
        offered = f"{mdp.names.describe_state(int(states[at]))} offers {name} {first[at] - low} .. {end[at] - 1 - low}"
        return f"{place(at)}: {offered}, not {choices[at] - low}"

    refuse(is_given & ((choices < first) | (choices >= end)), told)


def _place(offsets: Indices, position: int) -> str:
    number = int(np.searchsorted(offsets, position, side="right")) - 1
    return f"demonstration {number}, step {position - offsets[number]}"
