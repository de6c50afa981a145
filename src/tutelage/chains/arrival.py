"""Whether and when a policy reaches a goal, without discount.

The states that a journey can visit before it arrives are those which the policy reaches from the start without passing
a goal. With Q the moves between them from which a goal can still be reached, the expected visits to these are

    v = initial + Q' v

and with R the probability of a move to a goal, c the number of steps or the duration of each state's mean choice

    probability of arrival = initial of the goals + v @ R        expected total until arrival = v @ c

A finite chain arrives with probability one exactly if a goal can be reached from every state on the way. The graph of
possible moves decides this, so rounding does not matter. Otherwise the journey may be endless, and the expected totals
are infinite.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph, linalg

from tutelage.arrays import Flags, SparseRows, Vector, integers
from tutelage.chains.resolvent import chain
from tutelage.model.mdp import MDP, Domain, absorbing_states
from tutelage.model.policy import check_policy, sum_by_state
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True)
class Arrival:
    """probability: of ever reaching a goal; exactly one where it is certain.

    steps: the expected number of choices until then. duration: their expected total duration; equal to `steps` where
    the MDP has no durations. Both are infinite where the probability is below one.
    """

    probability: float
    steps: float
    duration: float

    @property
    def is_certain(self) -> bool:
        """Whether the policy arrives with probability one."""
        return self.probability == 1.0

    def __str__(self) -> str:
        if self.probability == 0.0:
            return "never arrives"
        if not self.is_certain:
            return f"may never arrive: it arrives with probability {_below_one(self.probability)}"
        took = "" if self.duration == self.steps else f", a duration of {self.duration:.4g}"
        return f"arrives with probability 1, after {self.steps:.4g} steps on average{took}"


def arrival(model: Domain | MDP, policy: ArrayLike, goals: ArrayLike | None = None) -> Arrival:
    """The probability that a policy (C,) ever reaches a goal, and the expected steps and duration until it does.

    goals: numbers of states, as `domain.state(name)` gives them; by default the goals of the model, or its absorbing
        states where it has none.
    """
    mdp = model.mdp if isinstance(model, Domain) else model
    checked, is_goal = check_policy(mdp, policy), _goals(mdp, goals)
    step = chain(mdp, checked)
    step.eliminate_zeros()
    on_the_way = _reachable(_blocked(step, is_goal), mdp.initial > 0) & ~is_goal
    can_arrive = _reachable(_blocked(step, is_goal).T.tocsr(), is_goal)
    places = np.flatnonzero(on_the_way & can_arrive)
    visits = _visits(step[places][:, places], mdp.initial[places])
    at_once = float(mdp.initial[is_goal].sum())
    if not (on_the_way & ~can_arrive).any():
        steps = float(visits.sum())
        if mdp.duration is None:
            return Arrival(1.0, steps, steps)
        return Arrival(1.0, steps, float(visits @ sum_by_state(mdp, checked * mdp.duration)[places]))
    reached = at_once + float(visits @ step[places][:, is_goal].sum(axis=1))
    return Arrival(min(max(reached, 0.0), math.nextafter(1.0, 0.0)), math.inf, math.inf)


def journey_of(mdp: MDP | None, policy: Vector | None) -> Arrival | None:
    """The arrival of a policy in an MDP that has goals of its own, for reports; None in any other."""
    return None if mdp is None or policy is None or not len(mdp.goals) else arrival(mdp, policy)


def _goals(mdp: MDP, given: ArrayLike | None) -> Flags:
    """(S,), whether each state is a goal."""
    if given is None:
        is_goal = absorbing_states(mdp)
        if len(mdp.goals):
            is_goal = np.zeros(mdp.n_states, dtype=np.bool_)
            is_goal[mdp.goals] = True
        if not is_goal.any():
            raise InvalidModel("there are no goals: no state is absorbing; give the states of arrival as goals")
        return is_goal
    states = integers(given, "goals")
    if not len(states) or states.min() < 0 or states.max() >= mdp.n_states:
        raise InvalidModel(f"goals must be states, numbers from 0 to {mdp.n_states - 1}, at least one; got {given}")
    return np.isin(np.arange(mdp.n_states), states)


def _blocked(step: SparseRows, is_goal: Flags) -> SparseRows:
    """The chain without the moves from goals, where a journey ends."""
    moves = step.copy()
    moves.data[np.repeat(is_goal, np.diff(moves.indptr))] = 0.0
    moves.eliminate_zeros()
    return moves


def _reachable(moves: SparseRows, starts: Flags) -> Flags:
    """(S,), the states that can be reached from the starts, which are among them; by one more state before these."""
    n = moves.shape[0]
    first = sparse.csr_array(np.concatenate([starts, [False]])[None, :].astype(np.float64))
    graph = sparse.vstack([sparse.hstack([moves, sparse.csr_array((n, 1))]), first], format="csr")
    found = np.zeros(n + 1, dtype=np.bool_)
    found[csgraph.breadth_first_order(graph, n, return_predecessors=False)] = True
    return found[:-1]


def _visits(inner: SparseRows, initial: Vector) -> Vector:
    """(I - Q')^-1 initial. Every row of Q leads out in the end, so the matrix is not singular."""
    if not len(initial):
        return initial
    system = (sparse.eye_array(len(initial), format="csr") - inner).T.tocsc()
    return np.asarray(linalg.spsolve(system, initial)).reshape(len(initial))


def _below_one(probability: float) -> str:
    """The probability in four digits, without rounding it to one."""
    return f"{probability:.4g}" if probability < 0.99995 else f"1 - {1 - probability:.2g}"
