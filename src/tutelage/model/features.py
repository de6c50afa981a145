"""Features from functions: a number, a sequence of numbers or a dict by name for each state or choice."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, floats, freeze
from tutelage.model.names import suggestion
from tutelage.outcomes import InvalidInput, InvalidModel

if TYPE_CHECKING:
    from tutelage.model.mdp import Domain

# A vector on states or choices, or a function of the name of a state, or of the names of a state and an action; None
# for no such feature.
Feature = ArrayLike | Callable[..., Any] | None


def feature_matrix(
    values: Sequence[Any], names: Sequence[str], kind: str, place: Callable[[int], str]
) -> tuple[Matrix, tuple[str, ...]]:
    """(n, d), from one number, sequence or dict for each row, and the names of the columns, empty if unknown.

    place: what the number of a row means, for messages.
    """
    first = values[0]
    if isinstance(first, Mapping):
        return _from_dicts(values, names, kind, place)
    width = _width(first)
    for row, value in enumerate(values):
        if isinstance(value, Mapping) or _width(value) != width:
            found = f"{place(row)}: the {kind} features are {value!r}"
            raise InvalidModel(f"{found}, but those of the first are {first!r}; give the same form everywhere")
    return _numbers(values, kind, place), tuple(names)


def changed_features(domain: "Domain", kind: str, given: Mapping[str, Feature]) -> dict[str, Any]:
    """The features of one kind, with some added, replaced or removed, as the arguments of a Domain."""
    names, matrix = getattr(domain, f"{kind}_names"), getattr(domain, f"{kind}_features")
    columns: dict[str, Vector | None] = dict(zip(names, matrix.T, strict=True))
    for name, feature in given.items():
        if feature is None and name not in columns:
            raise InvalidInput(f"there is no {kind} feature {name!r}; {suggestion(name, names)}")
        columns[name] = None if feature is None else _column(domain, name, feature)
    kept = {name: column for name, column in columns.items() if column is not None}
    rows, counts = list(kept.values()), domain.mdp.choices_per_state
    if len({len(row) for row in rows}) > 1:
        # Features on states are repeated for each choice, because another feature is on choices.
        rows = [row if len(row) == domain.mdp.n_choices else np.repeat(row, counts) for row in rows]
    features = np.array(rows).T if rows else np.zeros((0, 0))
    return {f"{kind}_features": features, f"{kind}_names": tuple(kept)}


def _column(domain: "Domain", name: str, given: Any) -> Vector:
    """(S,) or (C,), a feature from a vector or a function."""
    mdp, labels = domain.mdp, domain.mdp.names
    if not callable(given):
        vector = floats(given, f"the feature {name!r}", ndim=1)
        if len(vector) not in (mdp.n_states, mdp.n_choices):
            needed = f"one per state ({mdp.n_states}) or one per choice ({mdp.n_choices})"
            raise InvalidModel(f"the feature {name!r} has {len(vector)} entries; it needs {needed}")
        return vector
    states = [labels.state_name(state) for state in range(mdp.n_states)]
    owners = mdp.state_of_choice.tolist()
    choices = [(states[state], labels.choice_name(choice)) for choice, state in enumerate(owners)]
    place = labels.describe_state if n_arguments(given) == 1 else labels.describe_choice
    matrix, _ = feature_matrix(on_names(given, states, choices), (), repr(name), place)
    if matrix.shape[1] != 1:
        raise InvalidModel(f"the feature {name!r} must be one number for each state or choice, not {matrix.shape[1]}")
    return freeze(np.ascontiguousarray(matrix[:, 0]))


def on_names(function: Callable[..., Any], states: Sequence[Any], choices: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The values of a function of a state, one for each state; of a state and an action, one for each choice."""
    if n_arguments(function) == 1:
        return [function(state) for state in states]
    return [function(*choice) for choice in choices]


def n_arguments(function: Callable[..., Any]) -> int:
    """The number of positional arguments of a function: 1 for states, 2 for a state and an action."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        found = f"{function!r} has no signature"
        raise InvalidInput(f"{found}; use a function of a state, or of a state and an action") from error
    count = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        for parameter in parameters
    )
    if count not in (1, 2):
        raise InvalidInput(f"a function of features must take a state, or a state and an action, not {count} arguments")
    return count


def _from_dicts(
    values: Sequence[Any], names: Sequence[str], kind: str, place: Callable[[int], str]
) -> tuple[Matrix, tuple[str, ...]]:
    columns = tuple(names) or tuple(values[0])
    for row, value in enumerate(values):
        if not isinstance(value, Mapping) or value.keys() != set(columns):
            found = f"{place(row)}: the {kind} features are {value!r}"
            raise InvalidModel(f"{found}; give a dict with the names {', '.join(map(str, columns))} everywhere")
    rows = [[value[name] for name in columns] for value in values]
    return _numbers(rows, kind, place), tuple(map(str, columns))


def _width(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") and not isinstance(value, str) else -1


def _numbers(rows: Sequence[Any], kind: str, place: Callable[[int], str]) -> Matrix:
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
