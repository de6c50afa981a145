"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. Attributes of the edges are features on choices: numbers, or lengths by class. This module uses the methods of
the graph only and does not import networkx.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from numbers import Real
from typing import Any, NamedTuple, Required, TypedDict, Unpack, overload

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, SparseRows, Vector
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
        edges, starts = list(_choices(graph, ends)), _starts(graph, begin)
        kept, times = {*starts, *ends} if merge else graph.nodes, _times(edges, discount, duration)
        ways = merged_ways([edge[:2] for edge in edges], kept)
        options = (_discounts(ways, times, discount), measure, duration)
        rewards = _features(edges, reward_attributes, "reward", *options, counts_arrival=len(ends) > 0 and discount < 1)
        preferences = _features(edges, preference_attributes, "preference", *options)
        mdp = _mdp(edges, ways, starts, times, discount, duration, _choice_names(edges, ways, choice_names))
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
    times = [1.0 if duration is None or edge.attributes is None else edge.number(duration) for edge in edges]
    for time, edge in zip(times, edges, strict=True):
        if not time > 0:
            raise InvalidModel(f"{duration!r} of {edge.edge} is {time}; a duration must be positive")
    return np.array(times)


def _discounts(ways: Sequence[Sequence[int]], times: Vector, discount: float) -> SparseRows:
    """(C, n), the discount of each edge that a choice takes, from the beginning of the choice."""
    before = [time for way in ways for time in accumulate(times[way[:-1]], initial=0.0)]
    entries = (discount ** np.array(before), np.concatenate(ways), np.cumsum([0, *map(len, ways)]))
    return sparse.csr_array(entries, shape=(len(ways), len(times)))


def _mdp(
    edges: Sequence[_Choice],
    ways: Sequence[Sequence[int]],
    starts: Mapping[Hashable, float],
    times: Vector,
    discount: float,
    duration: str | None,
    choice_names: Sequence[Hashable],
) -> MDP:
    """The MDP in which each choice leads to its last node with probability one."""
    begins, taken = [edges[way[0]] for way in ways], np.array([times[way].sum() for way in ways])
    number = {node: state for state, node in enumerate(dict.fromkeys(edge.node for edge in begins))}
    entries = (np.ones(len(ways)), [number[edges[way[-1]].next_node] for way in ways], np.arange(len(ways) + 1))
    return MDP.from_choices(
        sparse.csr_array(entries, shape=(len(ways), len(number))),
        np.cumsum([0, *Counter(edge.node for edge in begins).values()]),
        [starts.get(node, 0.0) for node in number],
        discount**taken if duration is None and taken.max() > 1 else discount,
        duration=None if duration is None else taken,
        goals=[number[edge.node] for edge in begins if edge.is_goal],
        state_names=list(number),
        choice_names=choice_names,
    )


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


def _choice_names(edges: Sequence[_Choice], ways: Sequence[Sequence[int]], attribute: str | None) -> list[Hashable]:
    """An attribute of each edge as the name of its choice, and the next node where there is none or several are alike.

    The next node stands with the key of the edge, or with the first node on the way, where another choice leads to it.
    """
    begins = [edges[way[0]] for way in ways]
    ends = [(edge.node, edges[way[-1]].next_node) for edge, way in zip(begins, ways, strict=True)]
    texts = [(edge.node, " / ".join(map(str, edge.classes(attribute)))) for edge in begins]
    n_parallel, n_alike = Counter(ends), Counter(texts)
    names: list[Hashable] = []
    for edge, way, end, text in zip(begins, ways, ends, texts, strict=True):
        via = edge.key if len(way) == 1 else (edge.next_node, edge.key) if edge.key else edge.next_node
        plain = end[1] if n_parallel[end] == 1 else (end[1], via)
        if edge.attributes is None:
            names.append("stay")
        elif text[1]:
            names.append(text[1] if n_alike[text] == 1 else f"{text[1]} to {plain}")
        else:
            names.append(plain)
    return names


def _coordinates(nodes: Mapping[Hashable, Mapping[str, Any]], states: Sequence[Hashable]) -> Matrix | None:
    """(S, 2), the attributes `x` and `y`, or `pos`, of each node; NaN where a node has none; None if all have none."""
    positions = np.full((len(states), 2), np.nan)
    for row, node in enumerate(states):
        given = nodes[node].get("pos", (nodes[node].get("x"), nodes[node].get("y")))
        try:
            positions[row] = [float(part) for part in given]
        except (TypeError, ValueError):
            continue
    positions[~np.isfinite(positions).all(axis=1)] = np.nan
    return None if np.isnan(positions).all() else positions


def _columns(
    given: Attributes, argument: str, edges: Sequence[_Choice], measure: str | None
) -> Iterator[tuple[str, list[float]]]:
    """The features that are asked for, each a numeric attribute of the edges, or a measure of those of some classes.

    A class that no edge has is refused, because it would be a misspelling.
    """
    if isinstance(given, str):
        raise InvalidModel(f"{argument} must be a list of names, got the one string {given!r}")
    for attribute, listed in given.items() if isinstance(given, Mapping) else ((name, None) for name in given):
        if listed is None:
            yield attribute, [edge.number(attribute) for edge in edges]
            continue
        groups = listed
        if isinstance(listed, Iterable) and not isinstance(listed, str | Mapping):
            groups = {f"{attribute} {kind}": [kind] for kind in listed}
        if not isinstance(groups, Mapping) or any(isinstance(group, str) for group in groups.values()):
            needed = "must be a list of classes, or must give lists of classes by name"
            raise InvalidModel(f"{argument}[{attribute!r}] {needed}; got {listed!r}")
        classes = [edge.classes(attribute) for edge in edges]
        known = set(chain.from_iterable(classes))
        for kind in (kind for group in groups.values() for kind in group if kind not in known):
            near = suggestion(kind, sorted(known, key=str))
            absent = f"{attribute!r} {kind!r}; {near}" if known else f"the attribute {attribute!r}; leave it out"
            raise InvalidModel(f"no edge has {absent}")
        for name, group in groups.items():
            yield (
                name,
                [
                    0.0 if set(group).isdisjoint(held) else 1.0 if measure is None else edge.number(measure)
                    for edge, held in zip(edges, classes, strict=True)
                ],
            )


def _features(
    edges: Sequence[_Choice],
    given: Attributes,
    kind: str,
    discounts: SparseRows,
    measure: str | None,
    duration: str | None,
    *,
    counts_arrival: bool = False,
) -> dict[str, Any]:
    """The features of the choices, with their names; to count arrival, one more that is 1 for each stay at a goal.

    A stay has none, but for the time that one at a dead end takes: to end there would cost less than any journey.
    """
    columns = [
        (name, np.add(column, [edge.is_dead_end for edge in edges]) if name == duration else column)
        for name, column in _columns(given, f"{kind}_attributes", edges, measure)
    ]
    if counts_arrival:
        columns.append((AT_GOAL, [edge.is_goal for edge in edges]))
    values = np.array([column for _, column in columns], dtype=np.float64).reshape(len(columns), len(edges))
    return {f"{kind}_features": discounts @ values.T, f"{kind}_names": [name for name, _ in columns]}
