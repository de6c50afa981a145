"""Attributes of edges as features: numbers, and lengths by class; coordinates of nodes."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from tutelage.arrays import Matrix
from tutelage.model.names import suggestion
from tutelage.outcomes import InvalidModel

# Names of numeric attributes; or a mapping from attributes to the classes to count, to groups of classes by name, or to
# None for a numeric attribute.
Attributes = Sequence[str] | Mapping[str, Sequence[Hashable] | Mapping[str, Sequence[Hashable]] | None]


class Choice(NamedTuple):
    """An edge in the direction of travel, or a stay (at a goal or a dead end), which has no attributes."""

    node: Hashable
    next_node: Hashable
    key: Hashable | None
    attributes: Mapping[str, Any] | None

    @property
    def edge(self) -> str:
        """The edge, for messages."""
        return f"edge {self.node!r} -> {self.next_node!r}" + ("" if self.key is None else f" (key {self.key!r})")


class _Column(NamedTuple):
    """A feature: a numeric attribute, or what is measured of the edges of some classes."""

    name: str
    attribute: str
    classes: frozenset[Hashable] | None


def edge_features(
    choices: Sequence[Choice], given: Attributes, argument: str, measure: str | None
) -> tuple[Matrix, tuple[str, ...]]:
    """(C, d), the features of each choice, zero for a stay, and their names.

    measure: the numeric attribute that is counted for the edges of a class; None counts the edges.
    """
    columns = _columns(given, argument)
    for column in columns:
        if column.classes is not None:
            _check_classes(choices, column)
    features = np.zeros((len(choices), len(columns)))
    for row, choice in enumerate(choices):
        if choice.attributes is not None:
            features[row] = [_value(choice, column, measure) for column in columns]
    return features, tuple(column.name for column in columns)


def number_of(choice: Choice, name: str) -> float:
    """A numeric attribute of the edge of a choice."""
    assert choice.attributes is not None
    if name not in choice.attributes:
        near = suggestion(name, list(choice.attributes)) if choice.attributes else "it has none"
        raise InvalidModel(
            f"{choice.edge} has no attribute {name!r}; add it to the edge, or leave {name!r} out; {near}"
        )
    return finite_number(choice.attributes[name], f"{name!r} of {choice.edge}")


def finite_number(value: Any, name: str) -> float:
    """The value as a float; refused unless it is a finite number or a truth value."""
    try:
        number = float(value) if isinstance(value, Real | np.bool_) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        advice = "" if not isinstance(value, str) else "; for a class, give the classes to count in a mapping"
        raise InvalidModel(f"{name} must be a finite number or a truth value, got {value!r}{advice}")
    return number


def classes_of(choice: Choice, attribute: str) -> tuple[Hashable, ...]:
    """The classes of an edge; OSMnx gives a list where an edge has several."""
    value = (choice.attributes or {}).get(attribute)
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


def street_names(choices: Sequence[Choice], attribute: str) -> list[Hashable]:
    """An attribute of each edge as the name of its choice; the next node where there is none or several are alike."""
    texts = [" / ".join(map(str, classes_of(choice, attribute))) for choice in choices]
    n_alike: dict[tuple[Hashable, str], int] = {}
    for choice, text in zip(choices, texts, strict=True):
        n_alike[choice.node, text] = n_alike.get((choice.node, text), 0) + 1
    plain = next_nodes(choices)
    return [
        name if not text else text if n_alike[choice.node, text] == 1 else f"{text} to {name}"
        for choice, text, name in zip(choices, texts, plain, strict=True)
    ]


def next_nodes(choices: Sequence[Choice]) -> list[Hashable]:
    """The next node of each choice; with the key of the edge where another edge leads to the same node."""
    n_parallel: dict[tuple[Hashable, Hashable], int] = {}
    for choice in choices:
        between = choice.node, choice.next_node
        n_parallel[between] = n_parallel.get(between, 0) + 1
    return [
        "stay"
        if choice.attributes is None
        else choice.next_node
        if n_parallel[choice.node, choice.next_node] == 1
        else (choice.next_node, choice.key)
        for choice in choices
    ]


def coordinates(nodes: Mapping[Hashable, Mapping[str, Any]]) -> Matrix | None:
    """(S, 2), the attributes `x` and `y`, or `pos`, of each node; NaN where a node has none; None if all have none."""
    positions = np.full((len(nodes), 2), np.nan)
    for row, attributes in enumerate(nodes.values()):
        given = attributes.get("pos", (attributes.get("x"), attributes.get("y")))
        try:
            positions[row] = [float(part) for part in given]
        except (TypeError, ValueError):
            continue
    positions[~np.isfinite(positions).all(axis=1)] = np.nan
    return None if np.isnan(positions).all() else positions


def _columns(given: Attributes, argument: str) -> list[_Column]:
    if isinstance(given, str):
        raise InvalidModel(f"{argument} must be a list of names, got the one string {given!r}")
    if not isinstance(given, Mapping):
        return [_Column(name, name, None) for name in given]
    columns = []
    for attribute, classes in given.items():
        if classes is None:
            columns.append(_Column(attribute, attribute, None))
        elif isinstance(classes, str) or not isinstance(classes, Iterable):
            raise InvalidModel(f"{argument}[{attribute!r}] must be a list of classes, got {classes!r}")
        elif isinstance(classes, Mapping):
            columns += [
                _Column(name, attribute, _classes(group, argument, attribute)) for name, group in classes.items()
            ]
        else:
            columns += [_Column(f"{attribute} {one}", attribute, frozenset([one])) for one in classes]
    return columns


def _classes(group: Any, argument: str, attribute: str) -> frozenset[Hashable]:
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise InvalidModel(f"{argument}[{attribute!r}] must give lists of classes by name, got {group!r}")
    return frozenset(group)


def _check_classes(choices: Sequence[Choice], column: _Column) -> None:
    """Refuse a class that no edge has: it would be a misspelling."""
    assert column.classes is not None
    known = {one for choice in choices for one in classes_of(choice, column.attribute)}
    for one in column.classes - known:
        if not known:
            raise InvalidModel(f"no edge has the attribute {column.attribute!r}; leave it out")
        raise InvalidModel(f"no edge has {column.attribute!r} {one!r}; {suggestion(one, sorted(known, key=str))}")


def _value(choice: Choice, column: _Column, measure: str | None) -> float:
    if column.classes is None:
        return number_of(choice, column.attribute)
    if column.classes.isdisjoint(classes_of(choice, column.attribute)):
        return 0.0
    return 1.0 if measure is None else number_of(choice, measure)
