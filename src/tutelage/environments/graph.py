"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. Attributes of the edges are features on choices. This module uses the methods of the graph only and does not
import networkx.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.mdp.model import MDP, Domain
from tutelage.outcomes import InvalidModel

AT_GOAL, STAY = "at goal", "stay"


class _Choice(NamedTuple):
    """An edge in the direction of travel, or a stay (at a goal or a dead end), which has no attributes."""

    node: Hashable
    next_node: Hashable
    key: Hashable | None
    attributes: Mapping[str, Any] | None


def from_graph(
    graph: Any,
    *,
    start: Any,
    discount: float,
    reward_attributes: Sequence[str],
    preference_attributes: Sequence[str] = (),
    goals: Collection[Hashable] = (),
    duration: str | None = None,
) -> Domain:
    """A graph as a domain: states in the order of the nodes, choices in the order of the edges.

    start: a node, or a mapping from nodes to probabilities.
    discount: of each choice; with a duration, of one unit of time.
    duration: the edge attribute, a positive number such as "km", that is the time an edge takes. To stay takes one unit
        of time. Without it a policy that never arrives may be the best, because each edge is discounted alike.
    reward_attributes, preference_attributes: the edge attributes, numbers or truth values, that are the features.
    goals: absorbing nodes. Their edges are dropped, and their one choice is to stay. With goals there is one more
        reward feature, "at goal", which is 1 for this choice, so that an earlier arrival has a higher value.

    A node without edges that is not a goal can only stay, with all features zero. The names of the states are the
    nodes. The name of a choice is the next node, (next node, key) where edges are parallel, or "stay".
    """
    choices = list(_choices(graph, goals))
    ends = frozenset(goals)
    mdp = _mdp(graph, choices, start, discount, _durations(choices, duration), ends)
    for argument, names in (("reward_attributes", reward_attributes), ("preference_attributes", preference_attributes)):
        if isinstance(names, str):
            raise InvalidModel(f"{argument} must be a list of names, got the one string {names!r}")
    reward_names, preference_names = tuple(reward_attributes), tuple(preference_attributes)
    rewards = _features(choices, reward_names)
    if len(goals):
        rewards = np.column_stack([rewards, [choice.node in ends for choice in choices]])
        reward_names = (*reward_names, AT_GOAL)
    preferences = _features(choices, preference_names)
    labels = list(graph.nodes), _choice_names(choices)
    return Domain(mdp, rewards, preferences, reward_names, preference_names, *labels)


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
        edges = () if node in ends else tuple(_edges(graph, node))
        yield from edges or (_Choice(node, node, None, None),)


def _choice_names(choices: Sequence[_Choice]) -> list[Hashable]:
    """The next node of each choice; with the key of the edge where another edge leads to the same node."""
    n_parallel = Counter((choice.node, choice.next_node) for choice in choices)
    return [
        STAY
        if choice.attributes is None
        else choice.next_node
        if n_parallel[choice.node, choice.next_node] == 1
        else (choice.next_node, choice.key)
        for choice in choices
    ]


def _edges(graph: Any, node: Hashable) -> Iterator[_Choice]:
    for next_node, between in graph.adj[node].items():
        if graph.is_multigraph():
            for key, attributes in between.items():
                yield _Choice(node, next_node, key, attributes)
        else:
            yield _Choice(node, next_node, None, between)


def _mdp(
    graph: Any,
    choices: Sequence[_Choice],
    start: Any,
    discount: float,
    durations: Vector | None,
    goals: Collection[Hashable],
) -> MDP:
    """The MDP in which each choice leads to its next node with probability one."""
    number = {node: state for state, node in enumerate(graph.nodes)}
    next_states = [number[choice.next_node] for choice in choices]
    n_choices = np.bincount([number[choice.node] for choice in choices])
    entries = (np.ones(len(choices)), next_states, np.arange(len(choices) + 1))
    transition = sparse.csr_array(entries, shape=(len(choices), len(number)))
    first_choice, initial, ends = np.cumsum([0, *n_choices]), _initial(number, start), [number[goal] for goal in goals]
    return MDP.from_choices(transition, first_choice, initial, discount, duration=durations, goals=ends)


def _durations(choices: Sequence[_Choice], name: str | None) -> Vector | None:
    """(C,), the duration of each choice; a stay takes one unit of time."""
    if name is None:
        return None
    durations = np.ones(len(choices))
    for row, choice in enumerate(choices):
        if choice.attributes is not None:
            durations[row] = _attribute(choice, name)
            if not durations[row] > 0:
                raise InvalidModel(f"{name!r} of {_edge(choice)} is {durations[row]}; a duration must be positive")
    return durations


def _initial(number: Mapping[Hashable, int], start: Any) -> Vector:
    """(S,), one for a start node, or the probabilities of a mapping."""
    initial = np.zeros(len(number))
    for node, probability in start.items() if isinstance(start, Mapping) else [(start, 1.0)]:
        _check_node(number, node, "start")
        initial[number[node]] = _number(probability, f"the probability of start {node!r}")
    return initial


def _features(choices: Sequence[_Choice], names: tuple[str, ...]) -> Matrix:
    """(C, d), the attributes of the edge of each choice; a stay has zeros."""
    features = np.zeros((len(choices), len(names)))
    for row, choice in enumerate(choices):
        if choice.attributes is not None:
            features[row] = [_attribute(choice, name) for name in names]
    return features


def _attribute(choice: _Choice, name: str) -> float:
    edge = _edge(choice)
    assert choice.attributes is not None
    if name not in choice.attributes:
        raise InvalidModel(f"{edge} has no attribute {name!r}; add it to the edge, or leave {name!r} out")
    return _number(choice.attributes[name], f"{name!r} of {edge}")


def _edge(choice: _Choice) -> str:
    return f"edge {choice.node!r} -> {choice.next_node!r}" + ("" if choice.key is None else f" (key {choice.key!r})")


def _number(value: Any, name: str) -> float:
    try:
        number = float(value) if isinstance(value, Real | np.bool_) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidModel(f"{name} must be a finite number or a truth value, got {value!r}")
    return number


def _check_node(nodes: Collection[Any], node: Any, role: str) -> None:
    try:
        hash(node)
    except TypeError as error:
        raise InvalidModel(f"{role} {node!r} cannot be a node of a graph, because it is not hashable") from error
    if node not in nodes:
        raise InvalidModel(f"{role} {node!r} is not a node of the graph; add it, or give another {role}")
