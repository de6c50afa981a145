"""The names of the states and actions of Gymnasium's environments with a table, where they are known."""

from collections.abc import Hashable, Sequence
from typing import Any

from tutelage.model.names import LAST_STATE, GridNames

# The names of the actions 0, 1, ... by the class of the environment.
ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}
TAXI_STANDS = ("red", "green", "yellow", "blue")
TAXI_PLACES = (*(f"at {stand}" for stand in TAXI_STANDS), "in the taxi")

Table = Sequence[Sequence[tuple[int, Any]]]


def states(inner: Any, n_states: int) -> Sequence[Hashable] | None:
    """The names of the n states of an environment, and of the last state, which `from_gymnasium` adds."""
    kind, made_of = type(inner).__name__, getattr(inner, "domain", None)
    if getattr(made_of, "state_names", None) is not None:
        return with_end(made_of.state_names)  # type: ignore[union-attr]
    if kind in ("FrozenLakeEnv", "CliffWalkingEnv"):
        n_rows, n_columns = inner.desc.shape if kind == "FrozenLakeEnv" else inner.shape
        return GridNames(int(n_rows), int(n_columns)) if n_rows * n_columns == n_states else None
    if kind == "TaxiEnv" and n_states == 500:
        return with_end([_taxi_name(*inner.decode(state)) for state in range(n_states)])
    return None


def actions(inner: Any, table: Table) -> Sequence[Hashable] | None:
    """The names of the choices of a table and of its last state."""
    made_of = getattr(inner, "domain", None)
    if getattr(made_of, "choice_names", None) is not None:
        return _with_last(list(made_of.choice_names), table)  # type: ignore[union-attr]
    known = ACTIONS.get(type(inner).__name__, ())
    if all(number < len(known) for listed in table for number, _ in listed):
        return of_choices(known, table)
    return None


def of_choices(names: Sequence[Hashable], table: Table) -> list[Hashable]:
    """(C,), the names of the choices of a table and of its last state, from those of the environment's actions."""
    return _with_last([names[number] for listed in table for number, _ in listed], table)


def with_end(names: Sequence[Hashable]) -> list[Hashable]:
    """The names of the states, and a different one of the last state."""
    last = LAST_STATE
    while last in names:
        last = f"{last} of the episode"
    return [*names, last]


def _with_last(names: list[Hashable], table: Table) -> list[Hashable]:
    """The names of the choices, and those of the last state, which offers the choices of a state with the most."""
    widest = max(range(len(table)), key=lambda state: len(table[state]))
    first = sum(len(listed) for listed in table[:widest])
    return names + names[first : first + len(table[widest])]


def _taxi_name(row: int, column: int, passenger: int, destination: int) -> str:
    where = TAXI_PLACES[passenger]
    return f"taxi at row {row}, column {column}, passenger {where}, destination {TAXI_STANDS[destination]}"
