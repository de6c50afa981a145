"""Groups of the states in which the learner may start, each of states that are near to each other."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tutelage.arrays import Indices, Matrix, SparseRows, Vector
from tutelage.model.mdp import MDP

# The number of groups, the number of starts for each where there are few, and the least number of groups that help.
MOST_GROUPS, FEW_STARTS, FEWEST_GROUPS = 200, 5, 20


@dataclass(frozen=True, eq=False)
class StartGroups:
    """of_state: (S,), the group of each state. initial: (S,), the probability of each start."""

    of_state: Indices
    initial: Vector
    n_groups: int

    @cached_property
    def _mean(self) -> SparseRows:
        """(K, S), the probability of each start in the row of its group."""
        shape = (self.n_groups, len(self.initial))
        return sparse.csc_array((self.initial, self.of_state, np.arange(shape[1] + 1)), shape).tocsr()

    def sums(self, values: Matrix) -> Matrix:
        """(K, d), the mean over all starts of values (S, d), group by group."""
        return np.asarray(self._mean @ values)


@lru_cache(maxsize=8)
def start_groups(mdp: MDP, *, in_order: bool) -> StartGroups | None:
    """Groups of starts of equal size where states that are near have near numbers; otherwise around random starts.

    Each state then belongs to the nearest of these, in moves of either direction. None where there are few starts.
    """
    starts = np.flatnonzero(mdp.initial)
    n_groups = min(MOST_GROUPS, len(starts) // FEW_STARTS)
    if n_groups < FEWEST_GROUPS:
        return None
    if in_order:
        passed = np.cumsum(mdp.initial > 0) - 1
        return StartGroups(np.maximum(passed, 0) * n_groups // len(starts), mdp.initial, n_groups)
    centres = np.sort(np.random.default_rng(0).choice(starts, n_groups, replace=False))
    at = np.repeat(mdp.state_of_choice, np.diff(mdp.transition.indptr))
    moves = sparse.csr_array((np.ones(len(at)), (at, mdp.transition.indices)), (mdp.n_states, mdp.n_states))
    _, _, nearest = csgraph.dijkstra(
        moves + moves.T, indices=centres, unweighted=True, min_only=True, return_predecessors=True
    )
    # A state that no centre reaches has the number -9999, and belongs to the first group.
    return StartGroups(np.searchsorted(centres, nearest), mdp.initial, n_groups)
