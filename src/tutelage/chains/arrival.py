"""Whether and when a policy reaches a goal, without discount.

The states that a journey can visit before it arrives are those which the policy reaches from the start without passing
a goal. A finite chain arrives with probability one exactly if a goal can be reached from every one of them. The graph
of possible moves decides this, so rounding does not matter. Otherwise the journey may be endless, and the expected
totals are infinite.

Among the states from which a goal can be reached, let p(s, t) be the probability of a move from s to another state t,
g(s) that of a move to a goal, c(s) the number of steps or the mean duration of one choice, and out(s) the sum of all
probabilities to leave s, lost ways included. Then

    out(s) x(s) = g(s) + sum over t of p(s, t) x(t)        the probability of arrival
    out(s) x(s) = c(s) + sum over t of p(s, t) x(t)        the expected total until arrival

States are eliminated without a subtraction (Grassmann, Taksar and Heyman): what leads back to a state is left out, and
out(s) is the sum of what remains. So every sum has terms of one sign, and all digits are right however small the
probabilities are.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tutelage.arrays import EPSILON, ArrayLike, Flags, Matrix, SparseRows, Vector, integers
from tutelage.chains.resolvent import BY_DEGREE, DENSE_LIMIT, chain, sparse_factors
from tutelage.model.mdp import MDP, Domain, absorbing_states
from tutelage.model.policy import check_policy, sum_by_state
from tutelage.outcomes import InvalidModel

SMALLEST_DOUBLE = math.nextafter(0.0, 1.0)


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

    @property
    def is_endless(self) -> bool:
        """Whether the expected steps are infinite, or more than doubles can count one by one: 4.5e15."""
        return self.steps * EPSILON > 1.0

    def __str__(self) -> str:
        if self.probability == 0.0:
            return "never arrives"
        if not self.is_certain:
            return f"may never arrive: it arrives with probability {_below_one(self.probability)}"
        if self.is_endless:
            return (
                f"arrives with probability 1, but the journey is practically endless: {self.steps:.4g} steps on average"
            )
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
    on_the_way = reachable(_blocked(step, is_goal), mdp.initial > 0) & ~is_goal
    can_arrive = reachable(_blocked(step, is_goal).T.tocsr(), is_goal)
    places = np.flatnonzero(on_the_way & can_arrive)
    moves = step[places]
    to_goal = np.asarray(moves[:, is_goal].sum(axis=1)).ravel()
    lost = np.asarray(moves[:, ~is_goal & ~can_arrive].sum(axis=1)).ravel()
    per_visit = np.ones(len(places)) if mdp.duration is None else sum_by_state(mdp, checked * mdp.duration)[places]
    sums = _totals(moves[:, places], to_goal + lost, np.column_stack([to_goal, np.ones(len(places)), per_visit]))
    starts = np.flatnonzero(mdp.initial[places])
    probability, steps, duration = mdp.initial[places][starts] @ sums[starts]
    if not (on_the_way & ~can_arrive).any():
        return Arrival(1.0, float(steps), float(steps if mdp.duration is None else duration))
    reached = float(mdp.initial[is_goal].sum() + probability)
    return Arrival(min(reached, math.nextafter(1.0, 0.0)), math.inf, math.inf)


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


def reachable(moves: SparseRows, starts: Flags) -> Flags:
    """(S,), the states that can be reached from the starts, which are among them; by one more state before these."""
    n = moves.shape[0]
    first = sparse.csr_array(np.concatenate([starts, [False]])[None, :].astype(np.float64))
    graph = sparse.vstack([sparse.hstack([moves, sparse.csr_array((n, 1))]), first], format="csr")
    is_reached = np.zeros(n + 1, dtype=np.bool_)
    is_reached[csgraph.breadth_first_order(graph, n, return_predecessors=False)] = True
    return is_reached[:-1]


def _totals(inner: SparseRows, leaves: Vector, here: Matrix) -> Matrix:
    """(n, d), the expected totals of `here` (n, d), until the states are left for good with probabilities `leaves`."""
    if len(leaves) <= DENSE_LIMIT:
        return _dense_totals(inner.toarray(), leaves, here)
    from tutelage.chains.elimination import totals_without_subtraction

    # The order of elimination is that of a sparse LU of the same pattern.
    pattern = sparse.csr_array((np.full(inner.nnz, 0.5 / len(leaves)), inner.indices, inner.indptr), inner.shape)
    order = np.argsort(sparse_factors(sparse.eye_array(len(leaves), format="csr") - pattern, BY_DEGREE).perm_c)
    moved, totals = sparse.csr_array(inner[order][:, order]), np.empty_like(here)
    totals[order] = totals_without_subtraction((moved.indptr, moved.indices, moved.data), leaves[order], here[order])
    return totals


def _dense_totals(inner: Matrix, leaves: Vector, here: Matrix) -> Matrix:
    """The same for few states; `inner` (n, n) is overwritten. Rows are divided by the probability to leave a state."""
    n, totals, leaves = len(leaves), here.copy(), leaves.copy()
    with np.errstate(over="ignore"):
        for i in range(n):
            for k in range(i):
                share, inner[i, k] = inner[i, k], 0.0
                if share > 0:
                    inner[i] += share * inner[k]
                    leaves[i] += share * leaves[k]
                    totals[i] += share * totals[k]
            # What stays in i, or leads back to it through earlier states, is left out.
            inner[i, i] = 0.0
            out = max(inner[i].sum() + leaves[i], SMALLEST_DOUBLE)
            inner[i], leaves[i], totals[i] = inner[i] / out, leaves[i] / out, totals[i] / out
        for i in range(n - 1, -1, -1):
            later = np.flatnonzero(inner[i])
            totals[i] += inner[i, later] @ totals[later]
    return totals


def _below_one(probability: float) -> str:
    """The probability in four digits, without rounding it to one."""
    if probability < 0.99995:
        return f"{probability:.4g}"
    missing = 1 - probability
    return f"1 - {missing:.2g}" if missing > 100 * EPSILON else f"1 - less than {100 * EPSILON:.2g}"
