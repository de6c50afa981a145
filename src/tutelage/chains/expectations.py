"""Feature expectations of policies (Sec. 2), their occupancy, causal entropy and reward; arrival, without discount.

Occupancies are unnormalised: z(c) is the expected discounted number of times choice c is taken, and the sum of z is
1 / (1 - discount); where discounts differ, the sum of (1 - discount) z is one.

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

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import sparse, special
from scipy.sparse import csgraph

from tutelage import arrays
from tutelage.arrays import EPSILON, ArrayLike, Flags, Indices, Matrix, Readable, SparseRows, Vector
from tutelage.chains.resolvent import BY_DEGREE, DENSE_LIMIT, chain, policy_resolvent, sparse_factors
from tutelage.model.mdp import MDP, Domain, absorbing_states, choice_reward, combined_features, per_choice
from tutelage.model.policy import check_policy, rounding_of, sum_by_state
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class Expectation(Readable):
    """Expected discounted feature counts: mu_r(pi), (d_r,), and mu_c(pi), (d_c,)."""

    reward: Vector
    preference: Vector

    def __post_init__(self) -> None:
        reward = arrays.floats(self.reward, "expectation.reward", ndim=1)
        arrays.set_fields(
            self, reward=reward, preference=arrays.floats(self.preference, "expectation.preference", ndim=1)
        )

    @property
    def both(self) -> Vector:
        """(d_r + d_c,), reward features first."""
        return np.concatenate([self.reward, self.preference])


def state_occupancy(mdp: MDP, policy: ArrayLike) -> Vector:
    """(S,), expected discounted visits d = departing + discount * P'd; with one discount, 1 / (1 - discount) in all."""
    checked = check_policy(mdp, policy)
    if np.isinf(mdp.horizon):
        # Where a policy goes on for ever does not matter in states that it does not reach.
        moves = chain(mdp, checked, mdp.continuing)
        moves.eliminate_zeros()
        checked = checked * per_choice(mdp, reachable(moves, mdp.initial > 0).astype(np.float64))
    visits = policy_resolvent(mdp, checked).visits(mdp.departing)
    if np.isinf(mdp.horizon):
        _check_steps(np.abs(visits).sum())
    return arrays.freeze(visits)


def _check_steps(steps: ArrayLike) -> None:
    """Refuse a policy with so many expected steps that rounding hides them, and with them all that it collects."""
    if rounding_of(np.asarray(steps)) == np.inf:
        raise InvalidModel("episodes with this policy practically never end: they have more than 1e14 steps on average")


def occupancy(mdp: MDP, policy: ArrayLike) -> Vector:
    """(C,), expected discounted number of times each choice is taken, z(c) = d(s) pi(c)."""
    checked = check_policy(mdp, policy)
    return arrays.freeze(per_choice(mdp, state_occupancy(mdp, checked)) * checked)


def feature_counts(mdp: MDP, features: Matrix, visits: Vector) -> Vector:
    """(d,), z @ features for visits on choices (C,) and features on states or choices."""
    return (visits if len(features) == mdp.n_choices else sum_by_state(mdp, visits)) @ features


def expectation_of_occupancy(domain: Domain, visits: Vector) -> Expectation:
    """mu = z @ features, for both kinds of features."""
    arrays.check_length(visits, domain.mdp.n_choices, "occupancy", "choices")
    both = (domain.reward_features, domain.preference_features)
    return Expectation(*(feature_counts(domain.mdp, features, visits) for features in both))


def expectation(domain: Domain, policy: ArrayLike) -> Expectation:
    """mu_r(pi) and mu_c(pi)."""
    return expectation_of_occupancy(domain, occupancy(domain.mdp, policy))


def successor_features(domain: Domain, policy: ArrayLike) -> Matrix:
    """(S, d_r + d_c), the expected feature counts of a policy from each state on, reward features first.

    F = features_pi + discount P_pi F, so that `mdp.initial @ F` is the feature expectation.
    """
    mdp, checked = domain.mdp, check_policy(domain.mdp, policy)
    means = sum_by_state(mdp, checked[:, None] * per_choice(mdp, combined_features(domain)))
    inverse = policy_resolvent(mdp, checked)
    if np.isinf(mdp.horizon):
        _check_steps(inverse.values(np.ones(mdp.n_states)))
    return arrays.freeze(inverse.values(means))


def expected_reward(mdp: MDP, policy: ArrayLike, reward: ArrayLike) -> float:
    """R(pi) for a reward on states (S,) or choices (C,)."""
    return float(occupancy(mdp, policy) @ choice_reward(mdp, reward))


def causal_entropy(mdp: MDP, policy: ArrayLike) -> float:
    """H(pi) = sum over t of discount^t E[-log pi(a_t | s_t)] (Sec. 3)."""
    checked = check_policy(mdp, policy)
    surprise = special.entr(checked)
    return float(per_choice(mdp, state_occupancy(mdp, checked)) @ surprise)


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
    checked = check_policy(mdp, policy)
    is_goal = _goals(mdp, goals)
    step = chain(mdp, checked)
    # This chain has no moves from goals, where a journey ends.
    onward = chain(mdp, checked * per_choice(mdp, (~is_goal).astype(np.float64)))
    step.eliminate_zeros()
    onward.eliminate_zeros()
    on_the_way = reachable(onward, mdp.initial > 0) & ~is_goal
    can_arrive = reachable(onward.T.tocsr(), is_goal)
    places = np.flatnonzero(on_the_way & can_arrive)
    moves = step[places]
    to_goal = np.asarray(moves[:, is_goal].sum(axis=1)).ravel()
    lost = np.asarray(moves[:, ~is_goal & ~can_arrive].sum(axis=1)).ravel()
    per_visit = np.ones(len(places)) if mdp.duration is None else sum_by_state(mdp, checked * mdp.duration)[places]
    collected = np.column_stack([to_goal, np.ones(len(places)), per_visit])
    sums = _totals(moves[:, places], to_goal + lost, collected)
    starts = np.flatnonzero(mdp.initial[places])
    probability, steps, duration = mdp.initial[places[starts]] @ sums[starts]
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
        is_goal = np.isin(np.arange(mdp.n_states), mdp.goals) if len(mdp.goals) else absorbing_states(mdp)
        if not is_goal.any():
            raise InvalidModel("there are no goals: no state is absorbing; give the states of arrival as goals")
        return is_goal
    states = arrays.integers(given, "goals")
    if not len(states) or states.min() < 0 or states.max() >= mdp.n_states:
        raise InvalidModel(f"goals must be states, numbers from 0 to {mdp.n_states - 1}, at least one; got {given}")
    return np.isin(np.arange(mdp.n_states), states)


def reachable(moves: SparseRows, starts: Flags) -> Flags:
    """(S,), the states that can be reached from the starts, which are among them; by one more state before these."""
    n = moves.shape[0]
    first = sparse.csr_array(np.concatenate([starts, [False]])[None, :].astype(np.float64))
    graph = sparse.vstack([sparse.hstack([moves, sparse.csr_array((n, 1))]), first], format="csr")
    is_reached = np.zeros(n + 1, dtype=np.bool_)
    is_reached[csgraph.breadth_first_order(graph, n, return_predecessors=False)] = True
    return is_reached[:-1]


def _totals(inner: SparseRows, leaves: Vector, here: Matrix) -> Matrix:
    """`totals_without_subtraction` in the order of elimination of a sparse LU of the same pattern."""
    n = len(leaves)
    totals = np.empty_like(here)
    if not n:
        return totals
    loop = _compiled_totals() if n > DENSE_LIMIT else totals_without_subtraction
    pattern = sparse.csr_array((np.full(inner.nnz, 0.5 / n), inner.indices, inner.indptr), inner.shape)
    order = np.argsort(sparse_factors(sparse.eye_array(n, format="csr") - pattern, BY_DEGREE).perm_c)
    moved = sparse.csr_array(inner[order][:, order])
    with np.errstate(over="ignore"):
        totals[order] = loop((moved.indptr, moved.indices, moved.data), leaves[order], here[order])
    return totals


@cache
def _compiled_totals() -> Callable[..., Matrix]:
    from tutelage.compiling import compiled

    return compiled()(totals_without_subtraction)


def totals_without_subtraction(rows: tuple[Indices, Indices, Vector], leaves: Vector, here: Matrix) -> Matrix:
    """(n, d), the expected totals of `here` (n, d), until a chain is left for good.

    States are eliminated in their order. rows: the moves between them. leaves: (n,), the probability to leave for good.
    """
    row, column, weight = rows
    n = len(here)
    start, ends, used = np.zeros(n + 1, np.int64), np.empty(4 * len(weight) + 64, np.int64), 0
    shares, left, totals = np.empty(len(ends)), leaves.copy(), here.copy()
    work, is_waiting = np.zeros(n + 1), np.zeros(n + 1, np.bool_)
    for i in range(n):
        # Moves to earlier states wait in the order of elimination; moves to later states are kept.
        earlier, later = [np.int64(n)], [np.int64(n)]
        for k in range(row[i], row[i + 1]):
            j = np.int64(column[k])
            if j != i:
                work[j] = weight[k]
                is_waiting[j] = True
                heapq.heappush(earlier if j < i else later, j)
        while earlier[0] < n:
            k = int(heapq.heappop(earlier))
            share, work[k], is_waiting[k] = work[k], 0.0, False
            if share == 0.0:
                continue
            left[i] += share * left[k]
            totals[i] += share * totals[k]
            for q in range(start[k], start[k + 1]):
                j = ends[q]
                if j != i:
                    work[j] += share * shares[q]
                    if not is_waiting[j]:
                        is_waiting[j] = True
                        heapq.heappush(earlier if j < i else later, j)
        if used + len(later) > len(ends):
            ends = np.concatenate((ends[:used], np.empty(used + 2 * n, np.int64)))
            shares = np.concatenate((shares[:used], np.empty(used + 2 * n)))
        # Not zero, even if all that leaves the state is below the least double.
        out = max(left[i], 5e-324)
        for j in later:
            out += work[j]
        for j in later:
            ends[used], shares[used] = j, work[j] / out
            used += 1 if shares[used] > 0.0 else 0
            work[j], is_waiting[j] = 0.0, False
        start[i + 1] = used
        left[i], totals[i] = left[i] / out, totals[i] / out
    for i in range(n - 1, -1, -1):
        for q in range(start[i], start[i + 1]):
            totals[i] += shares[q] * totals[ends[q]]
    return totals


def _below_one(probability: float) -> str:
    """The probability in four digits, without rounding it to one."""
    if probability < 0.99995:
        return f"{probability:.4g}"
    missing = 1 - probability
    return f"1 - {missing:.2g}" if missing > 100 * EPSILON else f"1 - less than {100 * EPSILON:.2g}"
