"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. This module uses the methods of the graph only and does not import networkx.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from numbers import Real
from typing import Any, NamedTuple, Required, TypedDict, Unpack, overload

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.environments.roads import merged_ways
from tutelage.model.inputs import checked_discount
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import AT_GOAL, is_hashable, suggestion
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
    def is_dead_end(self) -> bool:
        """Whether this is a stay that is not at a goal."""
        return self.attributes is None and not self.is_goal

    @property
    def edge(self) -> str:
        """The edge, for messages."""
        return f"edge {self.node!r} -> {self.next_node!r}" + ("" if self.key is None else f" (key {self.key!r})")

    def number(self, name: str) -> float:
        """A numeric attribute of the edge; a stay has none."""
        if self.attributes is None:
            return 0.0
        if name not in self.attributes:
            near = suggestion(name, list(self.attributes)) if self.attributes else "it has none"
            raise InvalidModel(f"{self.edge} has no attribute {name!r}; add it, or leave it out; {near}")
        return finite_number(self.attributes[name], f"{name!r} of {self.edge}")

    def classes(self, attribute: str | None) -> tuple[Hashable, ...]:
        """The classes of an edge; OSMnx gives a list where an edge has several."""
        value = (self.attributes or {}).get(attribute or "")
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
        edges, starts, rate = list(_choices(graph, ends)), _starts(graph, begin), float(checked_discount(discount, 1))
        ways = merged_ways([edge[:2] for edge in edges], {*starts, *ends} if merge else graph.nodes)
        streets = _Streets(edges, ways, _times(edges, rate, duration), rate, duration, measure)
        rewards = streets.features(reward_attributes, "reward", counts_arrival=len(ends) > 0 and rate < 1)
        preferences = streets.features(preference_attributes, "preference")
        mdp = streets.mdp(starts, choice_names)
        return Domain(mdp, **rewards, **preferences, positions=_coordinates(graph.nodes, mdp.names.states or ()))

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


def _starts(graph: Any, given: Any) -> dict[Hashable, float]:
    """The probability of each node where a journey may start."""
    pairs = list(given.items()) if isinstance(given, Mapping) else [(given, 1.0)]
    for node, _ in pairs:
        _check_node(graph.nodes, node, "start")
    return {node: finite_number(probability, f"the probability of start {node!r}") for node, probability in pairs}


def _times(edges: Sequence[_Choice], discount: float, duration: str | None) -> Vector:
    """(n,), the time that each edge takes; a stay takes one unit."""
    dead = [edge.node for edge in edges if edge.is_dead_end]
    if discount == 1 and dead:
        told = f"node {dead[0]!r} has no edge and is no goal: with discount 1 a journey would end there for nothing"
        raise InvalidModel(f"{told}; make it a goal, leave it out, or give a discount below 1")
    times = np.ones(len(edges))
    for i, edge in enumerate(edges):
        if duration is not None and edge.attributes is not None:
            times[i] = edge.number(duration)
            if times[i] <= 0:
                raise InvalidModel(f"{duration!r} of {edge.edge} is {times[i]}; a duration must be positive")
    return times


class _Streets(NamedTuple):
    """The edges of a graph, and the choices that take them: for each the numbers of its edges, in order.

    times: (n,), of each edge. discount: that of one unit of time. duration, measure: as of `from_graph`.
    """

    edges: Sequence[_Choice]
    ways: Sequence[Sequence[int]]
    times: Vector
    discount: float
    duration: str | None
    measure: str | None

    def mdp(self, starts: Mapping[Hashable, float], attribute: str | None) -> MDP:
        """The MDP in which each choice leads to its last node with probability one. attribute: names the choices."""
        edges, ways = self.edges, self.ways
        begins = [edges[way[0]] for way in ways]
        number = {node: state for state, node in enumerate(dict.fromkeys(edge.node for edge in begins))}
        entries = (np.ones(len(ways)), [number[edges[way[-1]].next_node] for way in ways], np.arange(len(ways) + 1))
        taken = np.array([self.times[way].sum() for way in ways])
        return MDP.from_choices(
            sparse.csr_array(entries, shape=(len(ways), len(number))),
            np.cumsum([0, *Counter(edge.node for edge in begins).values()]),
            [starts.get(node, 0.0) for node in number],
            self.discount**taken if self.duration is None else self.discount,
            duration=None if self.duration is None else taken,
            goals=[number[edge.node] for edge in begins if edge.is_goal],
            state_names=list(number),
            choice_names=self.names(attribute),
        )

    def features(self, given: Attributes, kind: str, *, counts_arrival: bool = False) -> dict[str, Any]:
        """The features of the choices, with their names; to count arrival, one more that is 1 for each stay at a goal.

        A stay has none, but for the time that one at a dead end takes: to end there would cost less than any journey.
        """
        columns = [
            (name, np.add(column, [edge.is_dead_end for edge in self.edges]) if name == self.duration else column)
            for name, column in self._columns(given, f"{kind}_attributes")
        ]
        if counts_arrival:
            columns.append((AT_GOAL, [edge.is_goal for edge in self.edges]))
        values = np.array([column for _, column in columns], dtype=np.float64).reshape(-1, len(self.edges)).T
        # The discount of each edge, from the beginning of its choice.
        before = [time for way in self.ways for time in accumulate(self.times[way[:-1]], initial=0.0)]
        discounts = (self.discount ** np.array(before), np.concatenate(self.ways), np.cumsum([0, *map(len, self.ways)]))
        summed = sparse.csr_array(discounts, shape=(len(self.ways), len(self.edges))) @ values
        return {f"{kind}_features": summed, f"{kind}_names": [name for name, _ in columns]}

    def _columns(self, given: Attributes, argument: str) -> Iterator[tuple[str, list[float]]]:
        """The features that are asked for: a numeric attribute of the edges, or a measure of those of some classes.

        A class that no edge has is refused, because it would be a misspelling.
        """
        if isinstance(given, str):
            raise InvalidModel(f"{argument} must be a list of names, got the one string {given!r}")
        for attribute, listed in given.items() if isinstance(given, Mapping) else ((name, None) for name in given):
            if listed is None:
                yield attribute, [edge.number(attribute) for edge in self.edges]
                continue
            groups = listed
            if isinstance(listed, Iterable) and not isinstance(listed, str | Mapping):
                groups = {f"{attribute} {kind}": [kind] for kind in listed}
            if not isinstance(groups, Mapping) or any(isinstance(group, str) for group in groups.values()):
                needed = "must be a list of classes, or must give lists of classes by name"
                raise InvalidModel(f"{argument}[{attribute!r}] {needed}; got {listed!r}")
            classes = [edge.classes(attribute) for edge in self.edges]
            known = set(chain.from_iterable(classes))
            for kind in (kind for group in groups.values() for kind in group if kind not in known):
                near = suggestion(kind, sorted(known, key=str))
                absent = f"{attribute!r} {kind!r}; {near}" if known else f"the attribute {attribute!r}; leave it out"
                raise InvalidModel(f"no edge has {absent}")
            for name, group in groups.items():
                column = [0.0] * len(self.edges)
                for place, edge in enumerate(self.edges):
                    if not set(group).isdisjoint(classes[place]):
                        column[place] = 1.0 if self.measure is None else edge.number(self.measure)
                yield name, column

    def names(self, attribute: str | None) -> list[Hashable]:
        """The names of the choices, as `from_graph` says; parallel ways along edges have the first node on the way."""
        begins = [self.edges[way[0]] for way in self.ways]
        ends = [(edge.node, self.edges[way[-1]].next_node) for edge, way in zip(begins, self.ways, strict=True)]
        texts = [(edge.node, " / ".join(map(str, edge.classes(attribute)))) for edge in begins]
        n_parallel, n_alike = Counter(ends), Counter(texts)
        names: list[Hashable] = []
        for edge, way, end, text in zip(begins, self.ways, ends, texts, strict=True):
            name: Hashable = "stay" if edge.attributes is None else end[1]
            if n_parallel[end] > 1:
                via = (edge.next_node, edge.key) if edge.key else edge.next_node
                name = (end[1], edge.key if len(way) == 1 else via)
            if text[1]:
                name = text[1] if n_alike[text] == 1 else f"{text[1]} to {name}"
            names.append(name)
        return names


def _check_node(nodes: Collection[Any], node: Any, role: str) -> None:
    if not is_hashable(node):
        raise InvalidModel(f"{role} {node!r} cannot be a node of a graph, because it is not hashable")
    if node not in nodes:
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


def _coordinates(nodes: Mapping[Hashable, Mapping[str, Any]], states: Sequence[Hashable]) -> Matrix | None:
    """(S, 2), the attributes `x` and `y`, or `pos`, of each node; NaN where a node has none; None if all have none."""
    positions = np.full((len(states), 2), np.nan)
    for row, node in enumerate(states):
        given = nodes[node].get("pos", (nodes[node].get("x"), nodes[node].get("y")))
        with suppress(TypeError, ValueError):
            positions[row] = [float(part) for part in given]
    positions[~np.isfinite(positions).all(axis=1)] = np.nan
    return None if np.isnan(positions).all() else positions
