"""Ends of episodes: absorbing states, and the final states of the environment that an MDP was made from.

`from_gymnasium` leads every transition that terminates to one absorbing state. A recorded episode ends in the final
state that the environment has shown instead, such as the goal. Such an arrival is complete: the episode has reached the
absorbing state, and the rest of it is known.
"""

from collections.abc import Callable

import numpy as np

from tutelage.arrays import Flags, Indices
from tutelage.model.mdp import MDP, absorbing_states
from tutelage.outcomes import InvalidModel


def with_known_ends(
    mdp: MDP,
    states: Indices,
    offsets: Indices,
    choices: Indices | None,
    place: Callable[[int], str],
    is_terminated: Flags | None = None,
) -> Indices:
    """(N,), the states with the last state of a terminated episode replaced by the absorbing state of the MDP.

    is_terminated: (n,), the episodes that are known to have terminated. Without it, an episode has terminated if it
    ends in a final state of the environment to which the choice before does not lead in the MDP.
    """
    finals, lasts, lengths = mdp.names.finals, offsets[1:] - 1, np.diff(offsets)
    flags = np.zeros(len(lasts), dtype=np.bool_) if is_terminated is None else is_terminated
    is_final = np.isin(states[np.maximum(lasts, 0)], finals) if len(states) else flags
    candidates = np.flatnonzero((lengths > 1) & (flags | is_final))
    if not len(candidates):
        return states
    is_absorbing, known = absorbing_states(mdp), states.copy()
    for episode in candidates.tolist():
        last = int(lasts[episode])
        if is_absorbing[states[last]]:
            continue
        after = _possible(mdp, int(states[last - 1]), None if choices is None else int(choices[last - 1]))
        ends = after[is_absorbing[after]]
        if len(ends) == 1 and (flags[episode] or states[last] not in after):
            known[last] = ends[0]
        elif flags[episode]:
            before = mdp.names.describe_state(int(states[last - 1]))
            found = "no absorbing state can follow" if not len(ends) else "several absorbing states can follow"
            raise InvalidModel(f"{place(last)}: the episode is said to terminate, but {found} {before}")
    return known


def _possible(mdp: MDP, state: int, choice: int | None) -> Indices:
    """The states that a choice, or any choice of a state, can lead to."""
    rows = mdp.transition
    first, end = (choice, choice + 1) if choice is not None else mdp.first_choice[state : state + 2]
    return np.unique(rows.indices[rows.indptr[first] : rows.indptr[end]])
