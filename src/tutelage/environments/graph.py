"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. Attributes of the edges are features on choices: numbers, or lengths by class. This module uses the methods of
the graph only and does not import networkx.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, overload

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.environments.merging import merged_ways
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import AT_GOAL, suggestion
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


@overload
def from_graph(
    graph: Any,
    *,
    goals: Mapping[Hashable, Any],
    discount: float,
    reward_attributes: Attributes,
    preference_attributes: Attributes = ...,
    duration: str | None = ...,
    measure: str | None = ...,
    choice_names: str | None = ...,
    merge: bool = ...,
) -> dict[Hashable, Domain]: ...


@overload
def from_graph(
    graph: Any,
    *,
    start: Any,
    goals: Collection[Hashable] = ...,
    discount: float,
    reward_attributes: Attributes,
    preference_attributes: Attributes = ...,
    duration: str | None = ...,
    measure: str | None = ...,
    choice_names: str | None = ...,
    merge: bool = ...,
) -> Domain: ...


def from_graph(
    graph: Any,
    *,
    start: Any = None,
    discount: float,
    reward_attributes: Attributes,
    preference_attributes: Attributes = (),
    goals: Collection[Hashable] | Mapping[Hashable, Any] = (),
    duration: str | None = None,
    measure: str | None = "length",
    choice_names: str | None = None,
    merge: bool = False,
) -> Domain | dict[Hashable, Domain]:
    """A graph as a domain: states in the order of the nodes, choices in the order of the edges.

    start: a node, or a mapping from nodes to probabilities.
    discount: of each choice; with a duration, of one unit of time.
    duration: the edge attribute, a positive number such as "km", that is the time an edge takes. To stay takes one unit
        of time, which counts where a journey does not end: a feature of this name is 1 for a stay at a dead end.
        Without a duration, a policy that never arrives may be the best, because each edge is discounted alike.
    reward_attributes, preference_attributes: the edge attributes that are the features: a list of attributes that are
        numbers or truth values; or a mapping from an attribute to the classes to count, {"highway": ["service"]}, to
        groups of them by name, {"highway": {"main": ["primary", "trunk"]}}, or to None for a number.
    measure: the attribute that is counted for the edges of a class; None counts the edges. merge: leave out bends.
    choice_names: an edge attribute, such as "name", that names the choices. Where it is missing the next node does, and
        where the edges of a node have the same name, both do.
    goals: absorbing nodes. Their edges are dropped, and their one choice is to stay. With goals there is one more
        reward feature, "at goal", which is 1 for this choice, so that an earlier arrival has a higher value; without
        discount there is none, because journeys end there. A mapping from goals to starts gives a family: a dict of
        domains, each with one goal and its start, whose journeys `infer_preferences` takes together.

    A node without edges that is not a goal can only stay, with all other features zero. The names of the states are the
    nodes. The name of a choice is the next node, (next node, key) where edges are parallel, or "stay". Node attributes
    `x` and `y`, or `pos`, are the positions of the states.
    """
    if isinstance(goals, Mapping):
        if start is not None:
            raise InvalidModel("goals is a mapping from goals to starts; leave out start")
        shared: dict[str, Any] = {"discount": discount, "reward_attributes": reward_attributes, "duration": duration}
        shared |= {"preference_attributes": preference_attributes, "measure": measure, "choice_names": choice_names}
        shared["merge"] = merge
        return {goal: from_graph(graph, start=begin, goals=[goal], **shared) for goal, begin in goals.items()}
    choices, ends = list(_choices(graph, goals)), frozenset(goals)
    mdp = _mdp(graph, choices, start, discount, _durations(choices, duration), ends)
    given = _both_features(choices, ends, (reward_attributes, preference_attributes), measure, duration)
    if len(goals) and discount < 1:
        _count_arrival(given, choices, ends)
    names = next_nodes(choices) if choice_names is None else street_names(choices, choice_names)
    given |= {"state_names": list(graph.nodes), "choice_names": names, "positions": coordinates(graph.nodes)}
    return merged_ways(Domain(mdp, **given)) if merge else Domain(mdp, **given)


def graph_choices(graph: Any, goals: Collection[Hashable] = ()) -> list[tuple[Hashable, Hashable, Hashable | None]]:
    """(node, next node, key) of each choice of `from_graph`, in the order of the entries of a policy.

    The key distinguishes parallel edges. It is None in a graph without parallel edges and for a stay.
    """
    return [(choice.node, choice.next_node, choice.key) for choice in _choices(graph, goals)]


def _choices(graph: Any, goals: Collection[Hashable]) -> Iterator[Choice]:
    """Every choice, node by node; the one choice of a goal or a dead end is to stay."""
    if not all(hasattr(graph, name) for name in ("nodes", "adj", "is_multigraph")):
        raise InvalidModel(f"a graph must have the methods of a networkx graph, got {type(graph).__name__}")
    if not len(graph.nodes):
        raise InvalidModel("the graph is empty; add a node, an MDP needs at least one state")
    if isinstance(goals, str) or not isinstance(goals, Collection):
        raise InvalidModel(f"goals must be a collection of nodes, such as a list, got {goals!r}")
    for goal in goals:
        _check_node(graph.nodes, goal, "goal")
    ends = frozenset(goals)
    for node in graph.nodes:
        edges = () if node in ends else tuple(_edges(graph, node))
        yield from edges or (Choice(node, node, None, None),)


def _edges(graph: Any, node: Hashable) -> Iterator[Choice]:
    for next_node, between in graph.adj[node].items():
        if graph.is_multigraph():
            for key, attributes in between.items():
                yield Choice(node, next_node, key, attributes)
        else:
            yield Choice(node, next_node, None, between)


def _mdp(
    graph: Any,
    choices: Sequence[Choice],
    start: Any,
    discount: float,
    durations: Vector | None,
    goals: Collection[Hashable],
) -> MDP:
    """The MDP in which each choice leads to its next node with probability one."""
    number = {node: state for state, node in enumerate(graph.nodes)}
    dead = [choice.node for choice in choices if choice.attributes is None and choice.node not in goals]
    if discount == 1 and dead:
        raise InvalidModel(
            f"node {dead[0]!r} has no edge and is no goal: with discount 1 a journey would end there for nothing; make "
            "it a goal, leave it out, or give a discount below 1"
        )
    next_states = [number[choice.next_node] for choice in choices]
    n_choices = np.bincount([number[choice.node] for choice in choices])
    entries = (np.ones(len(choices)), next_states, np.arange(len(choices) + 1))
    transition = sparse.csr_array(entries, shape=(len(choices), len(number)))
    first_choice, initial, ends = np.cumsum([0, *n_choices]), _initial(number, start), [number[goal] for goal in goals]
    return MDP.from_choices(transition, first_choice, initial, discount, duration=durations, goals=ends)


def _durations(choices: Sequence[Choice], name: str | None) -> Vector | None:
    """(C,), the duration of each choice; a stay takes one unit of time."""
    if name is None:
        return None
    durations = np.ones(len(choices))
    for row, choice in enumerate(choices):
        if choice.attributes is not None:
            durations[row] = number_of(choice, name)
            if not durations[row] > 0:
                raise InvalidModel(f"{name!r} of {choice.edge} is {durations[row]}; a duration must be positive")
    return durations


def _both_features(
    choices: Sequence[Choice],
    goals: Collection[Hashable],
    given: tuple[Attributes, Attributes],
    measure: str | None,
    duration: str | None,
) -> dict[str, Any]:
    """The reward and preference features of the edges, with their names."""
    parts: dict[str, Any] = {}
    for kind, attributes in zip(("reward", "preference"), given, strict=True):
        features, names = edge_features(choices, attributes, f"{kind}_attributes", measure)
        _count_waiting(features, names, choices, goals, duration)
        parts |= {f"{kind}_features": features, f"{kind}_names": names}
    return parts


def _count_arrival(given: dict[str, Any], choices: Sequence[Choice], goals: Collection[Hashable]) -> None:
    """One more reward feature, 1 for each stay at a goal."""
    arrived = [choice.node in goals for choice in choices]
    given["reward_features"] = np.column_stack([given["reward_features"], arrived])
    given["reward_names"] = (*given["reward_names"], AT_GOAL)


def _count_waiting(
    features: Matrix, names: Sequence[str], choices: Sequence[Choice], goals: Collection[Hashable], duration: str | None
) -> None:
    """One unit of time for each stay at a dead end, in a feature that is the duration.

    Otherwise to end in a dead end would cost no time, and less than any journey.
    """
    if duration in names:
        waits = [choice.attributes is None and choice.node not in goals for choice in choices]
        features[waits, list(names).index(str(duration))] = 1.0


def _initial(number: Mapping[Hashable, int], start: Any) -> Vector:
    """(S,), one for a start node, or the probabilities of a mapping."""
    initial = np.zeros(len(number))
    for node, probability in start.items() if isinstance(start, Mapping) else [(start, 1.0)]:
        _check_node(number, node, "start")
        initial[number[node]] = finite_number(probability, f"the probability of start {node!r}")
    return initial


def _check_node(nodes: Collection[Any], node: Any, role: str) -> None:
    try:
        hash(node)
    except TypeError as error:
        raise InvalidModel(f"{role} {node!r} cannot be a node of a graph, because it is not hashable") from error
    if node not in nodes:
        raise InvalidModel(f"{role} {node!r} is not a node of the graph; add it, or give another {role}")


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
            columns += [_Column(f"{attribute} {kind}", attribute, frozenset([kind])) for kind in classes]
    return columns


def _classes(group: Any, argument: str, attribute: str) -> frozenset[Hashable]:
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise InvalidModel(f"{argument}[{attribute!r}] must give lists of classes by name, got {group!r}")
    return frozenset(group)


def _check_classes(choices: Sequence[Choice], column: _Column) -> None:
    """Refuse a class that no edge has: it would be a misspelling."""
    assert column.classes is not None
    known = {kind for choice in choices for kind in classes_of(choice, column.attribute)}
    for kind in column.classes - known:
        if not known:
            raise InvalidModel(f"no edge has the attribute {column.attribute!r}; leave it out")
        raise InvalidModel(f"no edge has {column.attribute!r} {kind!r}; {suggestion(kind, sorted(known, key=str))}")


def _value(choice: Choice, column: _Column, measure: str | None) -> float:
    if column.classes is None:
        return number_of(choice, column.attribute)
    if column.classes.isdisjoint(classes_of(choice, column.attribute)):
        return 0.0
    return 1.0 if measure is None else number_of(choice, measure)
