"""What a user gives for a model, as checked arrays: choices, discounts, durations, goals, positions and features.

A feature on arrival has a value phi(c, s') for each choice and next state. Expectations are those of its mean,

    phi(c) = sum over s' of T(s' | c) phi(c, s')

so solvers use the mean. Where a trajectory is counted, the step from s_t to s_t+1 counts what happened,
phi(c_t, s_t+1); only a last step, whose next state is not known, counts its mean.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage import arrays
from tutelage.arrays import ArrayLike, Indices, Matrix, SparseRows, Vector
from tutelage.model.names import check_name, suggestion
from tutelage.outcomes import InvalidInput, InvalidModel

if TYPE_CHECKING:
    from tutelage.model.mdp import MDP, Domain

# A vector on states or choices, a matrix (C, S) on arrival, or a function of names; None for no such feature.
Feature = ArrayLike | SparseRows | Callable[..., Any] | None
# What the number of a row means, for messages.
RowPlace = Callable[[int], str]
# Features on arrival by name: a sparse (C, S) with the entries of the transition.
Arrivals = Mapping[str, SparseRows]


def checked_first_choice(values: ArrayLike) -> Indices:
    """(S+1,), where the choices of each state begin; every state has at least one."""
    first_choice = arrays.integers(values, "first_choice")
    if len(first_choice) < 2 or first_choice[0] != 0:
        raise InvalidModel("first_choice must start at 0 and have one entry per state and one more")
    steps = np.diff(first_choice)
    arrays.refuse(
        steps < 0,
        lambda s: f"first_choice must increase, but falls from {first_choice[s]} to {first_choice[s + 1]} at state {s}",
    )
    told = "has no choice; give an absorbing state a choice that leads to itself"
    arrays.refuse(steps == 0, lambda s: f"state {s} {told}")
    return first_choice


def rows_of_actions(transition: ArrayLike | Sequence[Any]) -> tuple[SparseRows, int]:
    """Rows s * A + a, and A, from a dense (S, A, S) array or from A sparse matrices (S, S)."""
    if isinstance(transition, Sequence) and any(sparse.issparse(matrix) for matrix in transition):
        rows = [arrays.sparse_rows(matrix, f"the matrix of action {a}") for a, matrix in enumerate(transition)]
        n = rows[0].shape[0]
        for a, matrix in enumerate(rows):
            if matrix.shape != (n, n):
                raise InvalidModel(f"the matrix of action {a} has shape {matrix.shape}; all must be the same (S, S)")
        by_action = np.arange(n * len(rows)).reshape(-1, n)
        return sparse.vstack(rows, format="csr")[by_action.T.ravel()], len(rows)
    array = arrays.floats(transition, "transition", ndim=3)
    if array.shape[0] != array.shape[2] or 0 in array.shape:
        raise InvalidModel(f"transition must have shape (S, A, S), got {array.shape}")
    return sparse.csr_array(array.reshape(-1, array.shape[2])), array.shape[1]


def by_choice(values: ArrayLike, table: tuple[int, int], name: str) -> NDArray[Any]:
    """Numbers for each action of each state (S, A), as numbers for each choice; others unchanged."""
    given = arrays.any_array(values, name)
    return given.ravel() if given.shape == table else given


def checked_discount(value: ArrayLike, n_choices: int) -> float | Vector:
    """The one discount, or a read-only vector (C,) of at least two different ones."""
    given = arrays.any_array(value, "discount")
    is_one = given.ndim == 0
    if is_one and given.dtype.kind not in "biuf":
        raise InvalidModel(f"discount must be a number, got {given.item()!r}")
    discounts = given[None].astype(np.float64) if is_one else arrays.vector(given, "discount", n_choices, "choices")
    place = "" if is_one else "[{}]"
    is_wrong = ~((discounts > 0) & (discounts <= 1))
    arrays.refuse(is_wrong, lambda i: f"discount{place.format(i)} must be above 0 and at most 1, got {discounts[i]}")
    return float(discounts[0]) if (discounts == discounts[0]).all() else discounts


def checked_duration(value: ArrayLike, n_choices: int) -> Vector:
    """(C,), a read-only vector of positive durations; one number is used for all choices."""
    given = arrays.any_array(value, "duration")
    durations = arrays.vector(given if given.ndim else np.repeat(given, n_choices), "duration", n_choices, "choices")
    arrays.refuse(durations <= 0, lambda i: f"duration[{i}] is {durations[i]}; a choice must take a positive time")
    return durations


def timed_discounts(discount: ArrayLike, durations: Vector) -> Vector:
    """(C,), discount**duration, for the discount of one unit of time."""
    if np.ndim(discount):
        raise InvalidModel("with durations, discount must be one number, that of one unit of time")
    base = checked_discount(discount, 1)
    discounts = np.power(base, durations)
    advice = "measure time in another unit, or give another discount per unit"
    arrays.refuse(
        (discounts <= 0) | ((discounts >= 1) & (base < 1)),
        lambda i: f"duration[{i}] is {durations[i]}, and {base}**{durations[i]} rounds to {discounts[i]:.0f}; {advice}",
    )
    return np.asarray(discounts)


def checked_positions(values: ArrayLike, n_states: int) -> Matrix:
    """(S, 2), the coordinates of the states; NaN where a state has none."""
    given = arrays.any_array(values, "positions")
    if given.shape != (n_states, 2) or given.dtype.kind not in "iuf" or np.isinf(given).any():
        kind = f"{given.dtype} of shape {given.shape}"
        raise InvalidModel(f"positions must be two numbers for each of the {n_states} states, got {kind}")
    return arrays.freeze(given.astype(np.float64))


def shaped_features(values: ArrayLike, mdp: "MDP", n_names: int, kind: str) -> NDArray[Any]:
    """Features in which each choice has a row where they were given for each action of each state; others unchanged."""
    array = arrays.any_array(values, f"{kind}_features")
    n, few = mdp.n_states, int(mdp.first_choice[1])
    if array.shape[:2] != (n, few) or (mdp.choices_per_state != few).any():
        return array
    if array.ndim == 2 and few > 1 and n_names != few:
        raise InvalidModel(
            f"{kind}_features has shape {(n, few)}, which may mean {few} features of states or one feature of choices; "
            f"give {few} {kind}_names for the former, or shape {(n, few, 1)} for the latter"
        )
    is_table = array.ndim == 3 or (array.ndim == 4 and array.shape[2] == n)
    return array.reshape(mdp.n_choices, *array.shape[2:]) if is_table else array


def check_without_ends(features: Matrix, mdp: "MDP", names: Sequence[str]) -> None:
    """Refuse features (S, d) or (C, d) that are not zero in an end, where they would count for ever."""
    state = np.arange(mdp.n_states) if len(features) == mdp.n_states else mdp.state_of_choice
    for row, column in np.argwhere(np.isin(state, mdp.ends)[:, None] & (features != 0))[:1]:
        place = mdp.names.describe_state(int(state[row]))
        raise InvalidModel(
            f"{names[column]!r} is {features[row, column]:g} in {place}, an end, where with discount 1 it would count "
            "for ever; put it on the choices that lead there, or on a state before the end"
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
    given, names, arrivals = (getattr(domain, f"{kind}_{part}") for part in ("features", "names", "arrivals"))
    rows = domain.mdp.transition
    if not isinstance(given, Mapping):
        given = shaped_features(given, domain.mdp, len(names), kind)
        if given.ndim == 3 and given.shape[:2] == rows.shape:
            names = feature_names(names, given.shape[2], kind)
            given = dict(zip(names, np.moveaxis(given, 2, 0), strict=True))
    if isinstance(given, Mapping):
        if len(names) and tuple(names) != tuple(given):
            raise InvalidModel(f"the {kind} features have names of their own; leave out {kind}_names")
        columns = {name: _column(domain.mdp, name, values) for name, values in given.items()}
        arrivals = {name: column for name, column in columns.items() if sparse.issparse(column)}
        kept = [_means(rows, column) if name in arrivals else column for name, column in columns.items()]
        if len({len(column) for column in kept}) > 1:
            # Features on states are repeated for each choice, because another feature is on choices.
            state = domain.mdp.state_of_choice
            kept = [column if len(column) == len(state) else column[state] for column in kept]
        names = tuple(given)
        given = np.array(kept).T if kept else np.zeros((0, 0))
    if given.ndim == 2 and given.shape[1] == 0:
        # An array with zero columns may have any rows.
        given = np.zeros((domain.mdp.n_states, 0))
    matrix = arrays.floats(given[:, None] if given.ndim == 1 else given, f"{kind}_features", ndim=2)
    arrays.check_rows(matrix, domain.mdp.first_choice, f"{kind}_features", "rows")
    names = feature_names(names, matrix.shape[1], kind)
    check_without_ends(matrix, domain.mdp, names)
    arrivals = _kept_arrivals(rows, arrivals, matrix, names)
    return {f"{kind}_features": matrix, f"{kind}_names": names, f"{kind}_arrivals": arrivals}


def changed_features(domain: "Domain", kind: str, given: Mapping[str, Feature]) -> dict[str, Any]:
    """The features of one kind, with some added, replaced or removed, as the arguments of a Domain."""
    columns = named_features(domain, kind)
    for name, feature in given.items():
        if feature is None and name not in columns:
            raise InvalidInput(f"there is no {kind} feature {name!r}; {suggestion(name, list(columns))}")
    kept = {name: column for name, column in (columns | dict(given)).items() if column is not None}
    return {f"{kind}_features": kept, f"{kind}_names": (), f"{kind}_arrivals": {}}


def named_features(domain: "Domain", kind: str) -> dict[str, Any]:
    """The features of one kind by name: (S,), (C,) or on arrival (C, S)."""
    names, matrix = getattr(domain, f"{kind}_names"), getattr(domain, f"{kind}_features")
    arrivals = getattr(domain, f"{kind}_arrivals")
    return {name: arrivals.get(name, column) for name, column in zip(names, matrix.T, strict=True)}


def choice_of_entry(transition: SparseRows) -> Indices:
    """(nnz,), the choice of each entry of the transition."""
    return np.repeat(np.arange(transition.shape[0]), np.diff(transition.indptr))


def at_entries(transition: SparseRows, values: Vector) -> SparseRows:
    """Values (nnz,) at the entries of the transition (C, S)."""
    return sparse.csr_array((arrays.freeze(values), transition.indices, transition.indptr), transition.shape)


def by_name(transition: SparseRows, values: Matrix, names: Sequence[str]) -> dict[str, SparseRows]:
    """The columns of values (nnz, d) at the entries of the transition, by the names of the features."""
    return {name: at_entries(transition, column.copy()) for name, column in zip(names, values.T, strict=True)}


def _means(transition: SparseRows, arrival: SparseRows) -> Vector:
    """(C,), the mean of a feature on arrival given the choice."""
    return np.asarray(np.add.reduceat(transition.data * arrival.data, transition.indptr[:-1]))


def _kept_arrivals(rows: SparseRows, arrivals: Arrivals, features: Matrix, names: Sequence[str]) -> Arrivals:
    """The arrivals of these features (C, d) that depend on the next state; refused where a feature is not their mean.
    Of other names nothing is kept: a domain may have been restricted to some of its features."""
    kept = {}
    for name, column in zip(names, features.T, strict=True):
        if name in arrivals:
            arrival, mean = arrivals[name], _means(rows, arrivals[name])
            size = float(np.abs(arrival.data).max(initial=0.0))
            if len(column) != len(mean) or np.abs(column - mean).max() > 1e-9 * size:
                told = f"the feature {name!r} is not the mean of its values on arrival"
                raise InvalidModel(f"{told}; change both with `with_features`")
            if np.abs(arrival.data - mean[choice_of_entry(rows)]).max() > 1e-12 * size:
                kept[name] = arrival
    return kept


def _column(mdp: "MDP", name: str, given: Any) -> Vector | SparseRows:
    """(S,), (C,) or on arrival (C, S), a feature from an array or a function; what is no transition does not count."""
    rows, labels = mdp.transition, mdp.names
    moves = (choice_of_entry(rows), rows.indices)
    called = f"the feature {name!r}"
    if not callable(given) and (sparse.issparse(given) or np.ndim(given) == 2):
        arrival = arrays.sparse_rows(given, called)
        if arrival.shape != rows.shape:
            needed = f"give one value per choice and next state, {rows.shape}"
            raise InvalidModel(f"{called} has shape {arrival.shape}; {needed}, or one per state or choice")
        values = np.asarray(arrival[moves], dtype=np.float64)
        place = "for choice {}, next state {}; give finite numbers".format
        arrays.refuse(~np.isfinite(values), lambda i: f"{called} is {values[i]} {place(*(part[i] for part in moves))}")
        return at_entries(rows, values)
    if not callable(given):
        vector = arrays.floats(given, called, ndim=1)
        arrays.check_rows(vector, mdp.first_choice, called)
        return vector
    states = [labels.state_name(state) for state in range(mdp.n_states)]
    choices = [(states[state], labels.choice_name(choice)) for choice, state in enumerate(mdp.state_of_choice)]
    places = (labels.describe_state, labels.describe_choice)
    n_given, matrix, _ = called_features(given, states, choices, moves, (), repr(name), places)
    if matrix.shape[1] != 1:
        raise InvalidModel(f"the feature {name!r} must be one number for each state or choice, not {matrix.shape[1]}")
    column = np.ascontiguousarray(matrix[:, 0])
    return at_entries(rows, column) if n_given == 3 else arrays.freeze(column)


def called_features(
    function: Callable[..., Any],
    states: Sequence[Any],
    choices: Sequence[tuple[Any, Any]],
    moves: tuple[Indices, Indices],
    names: Sequence[str],
    kind: str,
    places: tuple[RowPlace, RowPlace],
) -> tuple[int, Matrix, tuple[str, ...]]:
    """What `feature_matrix` makes of a function, for each state, choice or move, after the number of its arguments.
    moves: the choices and the next states, by number. places: of a state, of a choice."""
    n_given = n_arguments(function)
    if n_given == 1:
        return n_given, *feature_matrix([function(state) for state in states], names, kind, places[0])
    if n_given == 2:
        return n_given, *feature_matrix([function(*choice) for choice in choices], names, kind, places[1])
    values = [function(*choices[choice], states[state]) for choice, state in zip(*moves, strict=True)]
    return n_given, *feature_matrix(values, names, kind, lambda row: places[1](int(moves[0][row])))


def n_arguments(function: Callable[..., Any]) -> int:
    """The number of arguments of a function: 1 for states, 2 for a state and an action, 3 with the next state."""
    known = "a state, a state and an action, or these and the next state"
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{function!r} has no signature; use a function of {known}") from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(part.kind in kinds and part.default is part.empty for part in given)
    if count not in (1, 2, 3):
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
    is_named = isinstance(values[0], Mapping)
    columns = tuple(names) or (tuple(values[0]) if is_named else ())
    rows: list[Vector] = []
    for row, value in enumerate(values):
        is_alike = isinstance(value, Mapping) == is_named and (not is_named or value.keys() == set(columns))
        numbers = [value[name] for name in columns] if is_named and is_alike else value
        try:
            rows.append(np.array(numbers, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            is_list = hasattr(numbers, "__len__") and not isinstance(numbers, str)
            rows.append(np.full(len(numbers) if is_list else (), np.nan))
        if not is_alike or rows[-1].shape != rows[0].shape:
            named = f"a dict with the names {', '.join(map(str, columns))}"
            needed = named if is_named else f"the form of the first, {values[0]!r},"
            raise InvalidModel(f"{place(row)}: the {kind} features are {value!r}; give {needed} everywhere")
    matrix = np.array(rows).reshape(len(rows), -1)
    is_wrong = ~np.isfinite(matrix).all(axis=1)
    arrays.refuse(is_wrong, lambda r: f"{place(r)}: the {kind} features {values[r]!r} are not all finite numbers")
    return arrays.freeze(matrix), tuple(map(str, columns))
