"""Road maps: a networkx graph as a domain. Nodes are states, the edges out of a node are its choices.

Directed and undirected graphs are accepted, with or without parallel edges. An undirected edge is a choice of both its
nodes. Attributes of the edges are features on choices. This module uses the methods of the graph only and does not
import networkx.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Matrix, Vector
from tutelage.environments.graph_attributes import (
    Attributes,
    Choice,
    coordinates,
    edge_features,
    finite_number,
    next_nodes,
    number_of,
    street_names,
)
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidModel

AT_GOAL = "at goal"


def from_graph(
    graph: Any,
    *,
    start: Any,
    discount: float,
    reward_attributes: Attributes,
    preference_attributes: Attributes = (),
    goals: Collection[Hashable] = (),
    duration: str | None = None,
    measure: str | None = "length",
    choice_names: str | None = None,
) -> Domain:
    """A graph as a domain: states in the order of the nodes, choices in the order of the edges.

    start: a node, or a mapping from nodes to probabilities.
    discount: of each choice; with a duration, of one unit of time.
    duration: the edge attribute, a positive number such as "km", that is the time an edge takes. To stay takes one unit
        of time, which counts where a journey does not end: a feature of this name is 1 for a stay at a dead end.
        Without a duration, a policy that never arrives may be the best, because each edge is discounted alike.
    reward_attributes, preference_attributes: the edge attributes that are the features: a list of attributes that are
        numbers or truth values; or a mapping from an attribute to the classes to count, {"highway": ["service"]}, to
        groups of them by name, {"highway": {"main": ["primary", "trunk"]}}, or to None for a number.
    measure: the attribute that is counted for the edges of a class; None counts the edges.
    choice_names: an edge attribute, such as "name", that names the choices. Where it is missing the next node does, and
        where the edges of a node have the same name, both do.
    goals: absorbing nodes. Their edges are dropped, and their one choice is to stay. With goals there is one more
        reward feature, "at goal", which is 1 for this choice, so that an earlier arrival has a higher value.

    A node without edges that is not a goal can only stay, with all other features zero. The names of the states are the
    nodes. The name of a choice is the next node, (next node, key) where edges are parallel, or "stay". Node attributes
    `x` and `y`, or `pos`, are the positions of the states.
    """
    choices = list(_choices(graph, goals))
    ends = frozenset(goals)
    mdp = _mdp(graph, choices, start, discount, _durations(choices, duration), ends)
    rewards, reward_names = edge_features(choices, reward_attributes, "reward_attributes", measure)
    preferences, preference_names = edge_features(choices, preference_attributes, "preference_attributes", measure)
    for features, columns in ((rewards, reward_names), (preferences, preference_names)):
        _count_waiting(features, columns, choices, ends, duration)
    if len(goals):
        rewards = np.column_stack([rewards, [choice.node in ends for choice in choices]])
        reward_names = (*reward_names, AT_GOAL)
    names = next_nodes(choices) if choice_names is None else street_names(choices, choice_names)
    places = coordinates(graph.nodes)
    return Domain(mdp, rewards, preferences, reward_names, preference_names, list(graph.nodes), names, places)


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
