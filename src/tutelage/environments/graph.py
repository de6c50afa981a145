"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. Attributes of the edges are features on choices: numbers, or lengths by class. This module uses the methods of
the graph only and does not import networkx.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from operator import methodcaller
from typing import Any, NamedTuple, Required, TypedDict, Unpack, overload

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix
from tutelage.environments.roads import merged_ways
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import AT_GOAL, suggestion
from tutelage.outcomes import InvalidModel

# Names of numeric attributes; or a mapping from attributes to the classes to count, to groups of classes by name, or to
# None for a numeric attribute.
Attributes = Sequence[str] | Mapping[str, Sequence[Hashable] | Mapping[str, Sequence[Hashable]] | None]


class _Choice(NamedTuple):
    """An edge in the direction of travel, or a stay (at a goal or a dead end), which has no attributes."""

    node: Hashable
    next_node: Hashable
    key: Hashable | None = None
    attributes: Mapping[str, Any] | None = None
    is_goal: bool = False

    @property
    def edge(self) -> str:
        """The edge, for messages."""
        return f"edge {self.node!r} -> {self.next_node!r}" + ("" if self.key is None else f" (key {self.key!r})")

    def number(self, name: str) -> float:
        """A numeric attribute of the edge."""
        assert self.attributes is not None
        if name not in self.attributes:
            near = suggestion(name, list(self.attributes)) if self.attributes else "it has none"
            raise InvalidModel(f"{self.edge} has no attribute {name!r}; add it, or leave it out; {near}")
        return finite_number(self.attributes[name], f"{name!r} of {self.edge}")

    def classes(self, attribute: str) -> tuple[Hashable, ...]:
        """The classes of an edge; OSMnx gives a list where an edge has several."""
        value = (self.attributes or {}).get(attribute)
        if value is None:
            return ()
        return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


class _Options(TypedDict, total=False):
    """What `from_graph` takes for one journey as for a family."""

    discount: Required[float]
    reward_attributes: Required[Attributes]
    preference_attributes: Attributes
    duration: str | None
    measure: str | None
    choice_names: str | None
    merge: bool


@overload
def from_graph(graph: Any, *, goals: Mapping[Hashable, Any], **rest: Unpack[_Options]) -> dict[Hashable, Domain]: ...


@overload
def from_graph(graph: Any, *, start: Any, goals: Collection[Hashable] = ..., **rest: Unpack[_Options]) -> Domain: ...


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

    def journey(begin: Any, ends: Collection[Hashable]) -> Domain:
        choices = list(_choices(graph, ends))
        names: dict[str, Any] = {"state_names": list(graph.nodes), "choice_names": _choice_names(choices, choice_names)}
        rewards = _features(choices, reward_attributes, "reward", measure, duration, len(ends) > 0 and discount < 1)
        preferences = _features(choices, preference_attributes, "preference", measure, duration)
        mdp = _mdp(graph, choices, begin, discount, duration)
        domain = Domain(mdp, **rewards, **preferences, **names, positions=_coordinates(graph.nodes))
        return merged_ways(domain) if merge else domain

    if not isinstance(goals, Mapping):
        return journey(start, goals)
    if start is not None:
        raise InvalidModel("goals is a mapping from goals to starts; leave out start")
    return {goal: journey(begin, [goal]) for goal, begin in goals.items()}


def graph_choices(graph: Any, goals: Collection[Hashable] = ()) -> list[tuple[Hashable, Hashable, Hashable | None]]:
    """(node, next node, key) of each choice of `from_graph`, in the order of the entries of a policy.

    The key distinguishes parallel edges. It is None in a graph without parallel edges and for a stay.
    """
    return [(choice.node, choice.next_node, choice.key) for choice in _choices(graph, goals)]


def _choices(graph: Any, goals: Collection[Hashable]) -> Iterator[_Choice]:
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
        edges = [
            _Choice(node, next_node, key, attributes)
            for next_node, between in (() if node in ends else graph.adj[node].items())
            for key, attributes in (between.items() if graph.is_multigraph() else ((None, between),))
        ]
        yield from edges or (_Choice(node, node, is_goal=node in ends),)


def _mdp(graph: Any, choices: Sequence[_Choice], start: Any, discount: float, duration: str | None) -> MDP:
    """The MDP in which each choice leads to its next node with probability one; a stay takes one unit of time."""
    number = {node: state for state, node in enumerate(graph.nodes)}
    dead = [choice.node for choice in choices if choice.attributes is None and not choice.is_goal]
    if discount == 1 and dead:
        told = f"node {dead[0]!r} has no edge and is no goal: with discount 1 a journey would end there for nothing"
        raise InvalidModel(f"{told}; make it a goal, leave it out, or give a discount below 1")
    # A stay takes one unit of time.
    times = [1.0 if duration is None or choice.attributes is None else choice.number(duration) for choice in choices]
    for time, choice in zip(times, choices, strict=True):
        if not time > 0:
            raise InvalidModel(f"{duration!r} of {choice.edge} is {time}; a duration must be positive")
    initial = np.zeros(len(number))
    for node, probability in start.items() if isinstance(start, Mapping) else [(start, 1.0)]:
        _check_node(number, node, "start")
        initial[number[node]] = finite_number(probability, f"the probability of start {node!r}")
    entries = (np.ones(len(choices)), [number[choice.next_node] for choice in choices], np.arange(len(choices) + 1))
    transition = sparse.csr_array(entries, shape=(len(choices), len(number)))
    first_choice = np.cumsum([0, *np.bincount([number[choice.node] for choice in choices])])
    ends = [number[choice.node] for choice in choices if choice.is_goal]
    taken = None if duration is None else times
    return MDP.from_choices(transition, first_choice, initial, discount, duration=taken, goals=ends)


def _check_node(nodes: Collection[Any], node: Any, role: str) -> None:
    try:
        is_known = node in nodes
    except TypeError as error:
        raise InvalidModel(f"{role} {node!r} cannot be a node of a graph, because it is not hashable") from error
    if not is_known:
        raise InvalidModel(f"{role} {node!r} is not a node of the graph; add it, or give another {role}")


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


def _choice_names(choices: Sequence[_Choice], attribute: str | None) -> list[Hashable]:
    """An attribute of each edge as the name of its choice, and the next node where there is none or several are alike.

    The next node stands with the key of the edge where another edge leads to the same node.
    """
    n_parallel = Counter(choice[:2] for choice in choices)
    texts = ["" if attribute is None else " / ".join(map(str, choice.classes(attribute))) for choice in choices]
    n_alike = Counter((choice.node, text) for choice, text in zip(choices, texts, strict=True))
    names: list[Hashable] = []
    for choice, text in zip(choices, texts, strict=True):
        plain = choice.next_node if n_parallel[choice[:2]] == 1 else (choice.next_node, choice.key)
        if choice.attributes is None:
            names.append("stay")
        elif text:
            names.append(text if n_alike[choice.node, text] == 1 else f"{text} to {plain}")
        else:
            names.append(plain)
    return names


def _coordinates(nodes: Mapping[Hashable, Mapping[str, Any]]) -> Matrix | None:
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


def _columns(
    given: Attributes, argument: str, choices: Sequence[_Choice], measure: str | None
) -> list[tuple[str, Callable[[_Choice], float]]]:
    """The features that are asked for, as functions of an edge: a numeric attribute, or the edges of some classes.

    A class that no edge has is refused, because it would be a misspelling.
    """
    if isinstance(given, str):
        raise InvalidModel(f"{argument} must be a list of names, got the one string {given!r}")

    def counted(attribute: str, group: frozenset[Hashable], choice: _Choice) -> float:
        if group.isdisjoint(choice.classes(attribute)):
            return 0.0
        return 1.0 if measure is None else choice.number(measure)

    columns: list[tuple[str, Callable[[_Choice], float]]] = []
    for attribute, listed in given.items() if isinstance(given, Mapping) else ((name, None) for name in given):
        if listed is None:
            columns.append((attribute, methodcaller("number", attribute)))
            continue
        groups = listed
        if isinstance(listed, Iterable) and not isinstance(listed, str | Mapping):
            groups = {f"{attribute} {kind}": [kind] for kind in listed}
        if not isinstance(groups, Mapping) or any(isinstance(group, str) for group in groups.values()):
            needed = "must be a list of classes, or must give lists of classes by name"
            raise InvalidModel(f"{argument}[{attribute!r}] {needed}; got {listed!r}")
        known = {kind for choice in choices for kind in choice.classes(attribute)}
        for kind in (kind for group in groups.values() for kind in group if kind not in known):
            near = suggestion(kind, sorted(known, key=str))
            absent = f"{attribute!r} {kind!r}; {near}" if known else f"the attribute {attribute!r}; leave it out"
            raise InvalidModel(f"no edge has {absent}")
        columns += [(name, partial(counted, attribute, frozenset(group))) for name, group in groups.items()]
    return columns


def _features(
    choices: Sequence[_Choice],
    given: Attributes,
    kind: str,
    measure: str | None,
    duration: str | None,
    counts_arrival: bool = False,
) -> dict[str, Any]:
    """The features of the edges, with their names; to count arrival, one more that is 1 for each stay at a goal.

    A stay has none, but for the time that one at a dead end takes: to end there would cost less than any journey.
    """
    columns = _columns(given, f"{kind}_attributes", choices, measure)
    names, values = [name for name, _ in columns] + [AT_GOAL] * counts_arrival, np.zeros((len(choices), len(columns)))
    for row, choice in enumerate(choices):
        for column, (name, value) in enumerate(columns):
            is_edge = choice.attributes is not None
            values[row, column] = value(choice) if is_edge else name == duration and not choice.is_goal
    if counts_arrival:
        values = np.column_stack([values, [choice.is_goal for choice in choices]])
    return {f"{kind}_features": values, f"{kind}_names": names}
