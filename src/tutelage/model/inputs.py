"""What a user gives for a model, as checked arrays: choices, discounts, durations, goals, positions and features.

A choice that takes d units of time is discounted by discount**d, where the discount is that of one unit of time. The
longer the choice, the later is everything after it (a semi-Markov process).

Features are arrays, or functions of a state, of a state and an action, or of a state, an action and the next state,
that return a number, a sequence of numbers or a dict by name.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.arrays import (
    ArrayLike,
    Indices,
    Matrix,
    SparseRows,
    Vector,
    any_array,
    check_length,
    check_rows,
    floats,
    freeze,
    integers,
    sparse_rows,
)
from tutelage.model.arrivals import at_entries, checked_arrival, choice_of_entry, kept_arrivals, mean_values
from tutelage.model.names import check_name, suggestion
from tutelage.outcomes import InvalidInput, InvalidModel

if TYPE_CHECKING:
    from tutelage.model.mdp import MDP, Domain

# A vector on states or choices, an array or a sparse matrix (C, S) on arrival, or a function of the names of a state, a
# state and an action, or a state, an action and the next state; None for no such feature.
Feature = ArrayLike | SparseRows | Callable[..., Any] | None
# What the number of a row means, for messages.
RowPlace = Callable[[int], str]


def checked_first_choice(values: ArrayLike) -> Indices:
    """(S+1,), where the choices of each state begin; every state has at least one."""
    first_choice = integers(values, "first_choice")
    if len(first_choice) < 2 or first_choice[0] != 0:
        raise InvalidModel("first_choice must start at 0 and have one entry per state and one more")
    steps = np.diff(first_choice)
    state = int(steps.argmin())
    if steps[state] < 0:
        fall = f"it falls from {first_choice[state]} to {first_choice[state + 1]} at state {state}"
        raise InvalidModel(f"first_choice must increase, but {fall}")
    if steps[state] == 0:
        raise InvalidModel(f"state {state} has no choice; give an absorbing state a choice that leads to itself")
    return first_choice


def rows_of_actions(transition: ArrayLike | Sequence[Any]) -> tuple[SparseRows, int]:
    """Rows s * A + a, and A, from a dense (S, A, S) array or from A sparse matrices (S, S)."""
    if isinstance(transition, Sequence) and any(sparse.issparse(matrix) for matrix in transition):
        return _interleave(transition)
    array = floats(transition, "transition", ndim=3)
    if array.shape[0] != array.shape[2] or 0 in array.shape:
        raise InvalidModel(f"transition must have shape (S, A, S), got {array.shape}")
    n_states, n_actions, _ = array.shape
    return sparse.csr_array(array.reshape(n_states * n_actions, n_states)), n_actions


def _interleave(matrices: Sequence[Any]) -> tuple[SparseRows, int]:
    rows = [sparse_rows(matrix, f"the matrix of action {action}") for action, matrix in enumerate(matrices)]
    for action, matrix in enumerate(rows):
        if matrix.shape[0] != matrix.shape[1] or matrix.shape != rows[0].shape:
            raise InvalidModel(f"the matrix of action {action} has shape {matrix.shape}; all must be the same (S, S)")
    n_states, n_actions = rows[0].shape[0], len(rows)
    by_action = np.arange(n_states * n_actions).reshape(n_actions, n_states)
    return sparse.vstack(rows, format="csr")[by_action.T.ravel()], n_actions


def by_choice(values: ArrayLike, table: tuple[int, int], name: str) -> NDArray[Any]:
    """Numbers for each action of each state (S, A), as numbers for each choice; others unchanged."""
    given = any_array(values, name)
    return given.ravel() if given.shape == table else given


def checked_discount(value: ArrayLike, n_choices: int) -> float | Vector:
    """The one discount, or a read-only vector (C,) of at least two different ones."""
    given = any_array(value, "discount")
    if given.ndim == 0:
        return _one_discount(value)
    discounts = floats(given, "discount", ndim=1)
    check_length(discounts, n_choices, "discount", "choices")
    wrong = np.flatnonzero((discounts <= 0) | (discounts > 1))
    if len(wrong):
        raise InvalidModel(f"discount[{wrong[0]}] must be above 0 and at most 1, got {discounts[wrong[0]]}")
    return float(discounts[0]) if (discounts == discounts[0]).all() else discounts


def checked_duration(value: ArrayLike, n_choices: int) -> Vector:
    """(C,), a read-only vector of positive durations; one number is used for all choices."""
    given = any_array(value, "duration")
    durations = floats(given if given.ndim else np.repeat(given, n_choices), "duration", ndim=1)
    check_length(durations, n_choices, "duration", "choices")
    wrong = np.flatnonzero(durations <= 0)
    if len(wrong):
        raise InvalidModel(f"duration[{wrong[0]}] is {durations[wrong[0]]}; a choice must take a positive time")
    return durations


def timed_discounts(discount: ArrayLike, durations: Vector) -> Vector:
    """(C,), discount**duration, for the discount of one unit of time."""
    if np.ndim(discount):
        raise InvalidModel("with durations, discount must be one number, that of one unit of time")
    base = _one_discount(discount)
    discounts = np.power(base, durations)
    wrong = np.flatnonzero((discounts <= 0) | ((discounts >= 1) & (base < 1)))
    if len(wrong):
        end = "one" if discounts[wrong[0]] > 0.5 else "zero"
        raise InvalidModel(
            f"duration[{wrong[0]}] is {durations[wrong[0]]}, and {base}**{durations[wrong[0]]} rounds to {end}; "
            "measure time in another unit, or give another discount per unit"
        )
    return np.asarray(discounts)


def _one_discount(value: ArrayLike) -> float:
    try:
        discount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        given = value.item() if isinstance(value, np.ndarray) else value
        raise InvalidModel(f"discount must be a number, got {given!r}") from error
    if not 0 < discount <= 1:
        raise InvalidModel(f"discount must be above 0 and at most 1, got {discount}")
    return discount


def checked_goals(values: ArrayLike, n_states: int) -> Indices:
    """The goals, ascending, each once."""
    goals = np.unique(integers(values, "goals"))
    if len(goals) and not 0 <= goals[0] <= goals[-1] < n_states:
        wrong = goals[0] if goals[0] < 0 else goals[-1]
        raise InvalidModel(f"goals has state {wrong}, but the states are 0 to {n_states - 1}")
    return freeze(goals)


def checked_positions(values: ArrayLike, n_states: int) -> Matrix:
    """(S, 2), the coordinates of the states; NaN where a state has none."""
    given = any_array(values, "positions")
    if given.shape != (n_states, 2) or given.dtype.kind not in "iuf" or np.isinf(given).any():
        kind = f"{given.dtype} of shape {given.shape}"
        raise InvalidModel(f"positions must be two numbers for each of the {n_states} states, got {kind}")
    return freeze(given.astype(np.float64))


def checked_features(values: ArrayLike, first_choice: Indices, n_names: int, kind: str) -> Matrix:
    """A read-only (S, d) or (C, d) feature matrix of this kind; an array with zero columns may have any rows."""
    name, counts = f"{kind}_features", np.diff(first_choice)
    array = any_array(values, name)
    if array.ndim == 2 and array.shape[1] == 0:
        return freeze(np.zeros((len(counts), 0)))
    table = (len(counts), int(counts[0]))
    is_regular = bool((counts == table[1]).all())
    if is_regular and array.shape == table and table[1] > 1 and n_names != table[1]:
        raise InvalidModel(
            f"{name} has shape {table}, which may mean {table[1]} features of states or one feature of choices; "
            f"give {table[1]} {kind}_names for the former, or shape {(*table, 1)} for the latter"
        )
    if is_regular and array.ndim == 3 and array.shape[:2] == table:
        array = array.reshape(int(first_choice[-1]), -1)
    matrix = floats(array[:, None] if array.ndim == 1 else array, name, ndim=2)
    check_rows(matrix, first_choice, name, "rows")
    return matrix


def check_without_ends(features: Matrix, mdp: "MDP", names: Sequence[str]) -> None:
    """Refuse features (S, d) or (C, d) that are not zero in an end, where they would count for ever."""
    if not len(mdp.ends):
        return
    at = np.zeros(mdp.n_states, dtype=np.bool_)
    at[mdp.ends] = True
    is_at_end = at if len(features) == mdp.n_states else np.repeat(at, mdp.choices_per_state)
    wrong = np.argwhere(is_at_end[:, None] & (features != 0))
    if len(wrong):
        row, column = wrong[0].tolist()
        state = int(row if len(features) == mdp.n_states else mdp.state_of_choice[row])
        raise InvalidModel(
            f"{names[column]!r} is {features[row, column]:g} in {mdp.names.describe_state(state)}, an end, where with "
            "discount 1 it would count for ever; put it on the choices that lead there, or on a state before the end"
        )


def feature_names(given: Sequence[str], count: int, kind: str) -> tuple[str, ...]:
    """The names of `count` features, all different; "reward 0" and so on where none are given."""
    if isinstance(given, str):
        raise InvalidModel(f"{kind}_names must be a sequence of names, got the one string {given!r}")
    if not len(given):
        return tuple(f"{kind} {i}" for i in range(count))
    names = tuple(check_name(str(name), f"a {kind} feature") for name in given)
    if len(names) != count or len(set(names)) != count:
        raise InvalidModel(f"{count} {kind} features need {count} different names, got {list(names)}")
    return names


def domain_features(domain: "Domain", kind: str) -> dict[str, Any]:
    """The features of one kind as a domain stores them: matrix, names and arrivals."""
    given, names = getattr(domain, f"{kind}_features"), getattr(domain, f"{kind}_names")
    first_choice, rows = domain.mdp.first_choice, domain.mdp.transition
    if not isinstance(given, Mapping):
        array = any_array(given, f"{kind}_features")
        table = (len(first_choice) - 1, int(first_choice[1]), len(first_choice) - 1)
        if array.ndim == 4 and array.shape[:3] == table and table[0] * table[1] == rows.shape[0]:
            array = array.reshape(*rows.shape, -1)
        if array.ndim == 3 and array.shape[:2] == rows.shape:
            names = feature_names(names, array.shape[2], kind)
            given = dict(zip(names, np.moveaxis(array, 2, 0), strict=True))
    arrivals = getattr(domain, f"{kind}_arrivals")
    if isinstance(given, Mapping):
        if len(names) and tuple(names) != tuple(given):
            raise InvalidModel(f"the {kind} features have names of their own; leave out {kind}_names")
        columns = {name: _column(domain, name, values) for name, values in given.items()}
        stacked = stacked_features(domain, kind, columns)
        given, names, arrivals = (stacked[f"{kind}_{part}"] for part in ("features", "names", "arrivals"))
    matrix = checked_features(given, first_choice, len(names), kind)
    names = feature_names(names, matrix.shape[1], kind)
    check_without_ends(matrix, domain.mdp, names)
    arrivals = kept_arrivals(rows, arrivals, matrix, names)
    return {f"{kind}_features": matrix, f"{kind}_names": names, f"{kind}_arrivals": arrivals}


def changed_features(domain: "Domain", kind: str, given: Mapping[str, Feature]) -> dict[str, Any]:
    """The features of one kind, with some added, replaced or removed, as the arguments of a Domain."""
    names, matrix = getattr(domain, f"{kind}_names"), getattr(domain, f"{kind}_features")
    columns: dict[str, Any] = dict(zip(names, matrix.T, strict=True)) | getattr(domain, f"{kind}_arrivals")
    for name, feature in given.items():
        if feature is None and name not in columns:
            raise InvalidInput(f"there is no {kind} feature {name!r}; {suggestion(name, names)}")
        columns[name] = None if feature is None else _column(domain, name, feature)
    return stacked_features(domain, kind, {name: column for name, column in columns.items() if column is not None})


def stacked_features(domain: "Domain", kind: str, columns: Mapping[str, Vector | SparseRows]) -> dict[str, Any]:
    """Features (S,), (C,) or on arrival (C, S), by name, as the arguments of a Domain."""
    counts, rows = domain.mdp.choices_per_state, domain.mdp.transition
    arrivals = {name: column for name, column in columns.items() if sparse.issparse(column)}
    kept = [mean_values(rows, arrivals[name]) if name in arrivals else column for name, column in columns.items()]
    if len({len(column) for column in kept}) > 1:
        # Features on states are repeated for each choice, because another feature is on choices.
        kept = [column if len(column) == rows.shape[0] else np.repeat(column, counts) for column in kept]
    features = np.array(kept).T if kept else np.zeros((0, 0))
    return {f"{kind}_features": features, f"{kind}_names": tuple(columns), f"{kind}_arrivals": arrivals}


def _column(domain: "Domain", name: str, given: Any) -> Vector | SparseRows:
    """(S,), (C,) or on arrival (C, S), a feature from an array or a function."""
    mdp, labels = domain.mdp, domain.mdp.names
    if not callable(given):
        if sparse.issparse(given) or np.ndim(given) == 2:
            return checked_arrival(mdp.transition, given, name)
        vector = floats(given, f"the feature {name!r}", ndim=1)
        check_rows(vector, mdp.first_choice, f"the feature {name!r}")
        return vector
    states = [labels.state_name(state) for state in range(mdp.n_states)]
    owners = mdp.state_of_choice.tolist()
    choices = [(states[state], labels.choice_name(choice)) for choice, state in enumerate(owners)]
    n_given, of_entry = n_arguments(given), choice_of_entry(mdp.transition)
    moves = list(zip(of_entry.tolist(), mdp.transition.indices.tolist(), strict=True)) if n_given == 3 else ()

    def place(row: int) -> str:
        return labels.describe_state(row) if n_given == 1 else labels.describe_choice(moves[row][0] if moves else row)

    matrix, _ = feature_matrix(on_names(given, states, choices, moves), (), repr(name), place)
    if matrix.shape[1] != 1:
        raise InvalidModel(f"the feature {name!r} must be one number for each state or choice, not {matrix.shape[1]}")
    column = np.ascontiguousarray(matrix[:, 0])
    return at_entries(mdp.transition, column) if n_given == 3 else freeze(column)


def on_names(
    function: Callable[..., Any],
    states: Sequence[Any],
    choices: Sequence[tuple[Any, Any]],
    moves: Sequence[tuple[int, int]] = (),
) -> list[Any]:
    """The values of a function of a state, one for each state; of a state and an action, one for each choice.

    moves: (choice, next state) by number; a function of three arguments has a value for each.
    """
    n_given = n_arguments(function)
    if n_given == 1:
        return [function(state) for state in states]
    if n_given == 2:
        return [function(*choice) for choice in choices]
    return [function(*choices[choice], states[state]) for choice, state in moves]


def n_arguments(function: Callable[..., Any]) -> int:
    """The number of arguments of a function: 1 for states, 2 for a state and an action, 3 with the next state."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        needed = "use a function of a state, of a state and an action, or of these and the next state"
        raise InvalidInput(f"{function!r} has no signature; {needed}") from error
    count = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        for parameter in parameters
    )
    if count not in (1, 2, 3):
        known = "a state, a state and an action, or these and the next state"
        raise InvalidInput(f"a function of features must take {known}, not {count} arguments")
    return count


def takes_next_state(function: Callable[..., Any]) -> bool:
    """Whether a function takes a state, an action and the next state."""
    try:
        return n_arguments(function) == 3
    except InvalidInput:
        return False


def feature_matrix(
    values: Sequence[Any], names: Sequence[str], kind: str, place: RowPlace
) -> tuple[Matrix, tuple[str, ...]]:
    """(n, d), from one number, sequence or dict for each row, and the names of the columns, empty if unknown."""
    first = values[0]
    if isinstance(first, Mapping):
        columns = tuple(names) or tuple(first)
        for row, value in enumerate(values):
            if not isinstance(value, Mapping) or value.keys() != set(columns):
                needed = f"give a dict with the names {', '.join(map(str, columns))} everywhere"
                raise InvalidModel(f"{place(row)}: the {kind} features are {value!r}; {needed}")
        rows = [[value[name] for name in columns] for value in values]
        return _numbers(rows, kind, place), tuple(map(str, columns))
    width = _width(first)
    for row, value in enumerate(values):
        if isinstance(value, Mapping) or _width(value) != width:
            needed = f"but those of the first are {first!r}; give the same form everywhere"
            raise InvalidModel(f"{place(row)}: the {kind} features are {value!r}, {needed}")
    return _numbers(values, kind, place), tuple(names)


def _width(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") and not isinstance(value, str) else -1


def _numbers(rows: Sequence[Any], kind: str, place: RowPlace) -> Matrix:
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.array([_floats_or_nan(row) for row in rows])
    matrix = matrix.reshape(len(rows), -1)
    wrong = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(wrong):
        raise InvalidModel(f"{place(int(wrong[0]))}: the {kind} features {rows[wrong[0]]!r} are not all finite numbers")
    return freeze(matrix)


def _floats_or_nan(row: Any) -> Any:
    try:
        return np.array(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full(_width(row) if _width(row) >= 0 else (), np.nan)
