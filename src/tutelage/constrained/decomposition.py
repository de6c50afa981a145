"""Decomposition of problems over all policies (Dantzig-Wolfe; for the projection, simplicial decomposition).

The state space enters a constrained problem only through a few feature expectations. A small *master* problem
optimises over mixtures of the policies found so far, and its dual variables give a price to every feature. The
*pricing* step solves one unconstrained MDP with these prices as reward weights. The value of that MDP bounds the
objective over all policies, so every round has a certified gap. The mixture is optimal if no policy has a higher value
at these prices.

Prices between those of the master problem and those of the best bound so far (in-out separation) come first, where the
gap does not fall fast without them. The prices of the master problem decide whether any policy is missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage import watch
from tutelage.arrays import Indices, Matrix, Vector
from tutelage.bellman.equations import HardOptimum, plan_hard
from tutelage.chains.expectations import expectation, occupancy
from tutelage.chains.resolvent import choice_visits
from tutelage.constrained.bounded_steps import STEP_PRICES, STEPS_NAME, going_round
from tutelage.constrained.groups import best_shares
from tutelage.constrained.objectives import Hull, LowerBounds, Mixture, Objective
from tutelage.constrained.problem import HalfSpaces, sizes
from tutelage.model.mdp import Domain, per_choice
from tutelage.model.policy import first_maximum
from tutelage.outcomes import Ended, EndlessValue, NotConverged, Solution

MAX_ROUNDS = 1_000
# The accuracy of a plan, relative to the largest reward.
PLANNED = 1e-11


@dataclass(frozen=True, slots=True)
class Pace:
    """The numbers that decide how a decomposition proceeds; the first four are shares, the last three relative gaps.

    inward: of the prices of the best bound, in prices between these and those of the master problem. close: of the gap,
    for a pricing step to end where its bound is this close to what its best policy earns. enough: of the way from what
    is known to what would improve the bound; a policy that earns so much ends the pricing step. Each of these three
    saves rounds or policy iterations (2 to 4 times on models with random rows). fast: of the last gap; where every
    group of starts has a mixture and the gap falls to this share, the prices of the master problem are enough.

    rounded: below this, a round without progress shows that rounding allows no more. nearly_rounded: the same where the
    columns differ so little that no quadratic program is solved. acceptable: below this, a gap that no policy can close
    is rounding; with cancelled, relative to the numbers whose difference is the bound.
    """

    inward: float = 0.7
    close: float = 0.1
    enough: float = 0.5
    fast: float = 0.5
    rounded: float = 1e-12
    nearly_rounded: float = 1e-10
    acceptable: float = 1e-7
    cancelled: float = 1e-10


PACE = Pace()


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A policy, one choice per state (S,), and its feature expectation (d,).

    n_reached: the states that it visits. ahead: (S, d), its expected counts from each state, where they are stored.
    policy: (C,), the probabilities of a policy with several choices in some state; `choice` then has the most probable
    ones. parts: (K, d), the parts of the expectation from each group of starts, where there are several groups.
    """

    choice: Indices
    counts: Vector
    n_reached: int = 0
    ahead: Matrix | None = None
    policy: Vector | None = None
    parts: Matrix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The columns found at some price, and a certified upper bound on the value of any policy there.

    is_exact: whether the last one is the best policy at the price.
    """

    columns: tuple[Column, ...]
    best: float
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Close:
    """Whether a bound is within a share of the gap that it leaves. known: a bound without a gap."""

    known: float
    share: float

    def __call__(self, bound: float, earned: float) -> bool:
        return bound - earned <= self.share * max(bound - self.known, 0.0)


# With this rule, policy iteration ends at the best policy.
EXACTLY = Close(0.0, 0.0)


class Pricer(Protocol):
    """Finds policies at prices of the features, for one domain.

    largest: (d,), the largest |mu_j| of any policy. is_stored: whether policies are stored, so that a second price in a
    round is cheap.
    """

    is_stored: ClassVar[bool]

    @property
    def domain(self) -> Domain: ...

    @property
    def largest(self) -> Vector: ...

    @property
    def is_quick(self) -> bool:
        """Whether a policy is evaluated in little more time than a sweep over the states."""

    def price_out(self, price: Vector, columns: Sequence[Column], enough: float, close: Close) -> Priced:
        """Policies that are better at a price (d,) than the columns known.

        It may end early: where a policy earns `enough`, or its bound is close to what it earns.
        """

    def evaluate_policy(self, policy: Vector) -> Column:
        """The column of a policy (C,) that may have several choices in a state."""

    def kept(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns, with what is stored of them."""

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        """(C,), the occupancy of a mixture. weights: (n, K), of each column for each group of starts."""


@dataclass(eq=False)
class Planner:
    """Plans for every price, from the last plan. Nothing of a policy is kept but its choices and its expectation.

    plan: the last one; None before the first.
    """

    domain: Domain
    plan: HardOptimum | None = None
    is_stored: ClassVar[bool] = False
    is_quick: ClassVar[bool] = False

    @cached_property
    def largest(self) -> Vector:
        return sizes(self.domain)

    def price_out(
        self, price: Vector, columns: Sequence[Column] = (), enough: float = np.inf, close: Close = EXACTLY
    ) -> Priced:
        """The policy with the largest `price @ mu`, and an upper bound over all policies."""
        domain = self.domain
        reward, accuracy = priced_reward(domain, price)
        self.plan = plan = plan_hard(domain.mdp, reward, accuracy=accuracy, start=self.plan)
        # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
        best = float(np.einsum("s,s->", domain.mdp.initial, plan.value)) + plan.error_bound
        visits = choice_visits(domain.mdp, plan.choice)
        both_features = (domain.reward_features, domain.preference_features)
        counts = np.concatenate([_counts(features, plan.choice, visits) for features in both_features])
        return Priced((Column(plan.choice, counts, int(np.count_nonzero(visits))),), best, is_exact=True)

    def evaluate_policy(self, policy: Vector) -> Column:
        counts = expectation(self.domain, policy).both
        return Column(first_maximum(self.domain.mdp, policy), counts, self.domain.mdp.n_states, policy=policy)

    def kept(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return columns

    def occupancy(self, columns: Sequence[Column], weights: Matrix) -> Vector:
        mdp = self.domain.mdp
        visits = np.zeros(mdp.n_choices)
        for weight, column in zip(weights[:, 0], columns, strict=True):
            if weight > 0 and column.policy is not None:
                visits += weight * occupancy(mdp, column.policy)
            elif weight > 0:
                visits[column.choice] += weight * choice_visits(mdp, column.choice)
        return visits


def priced_reward(domain: Domain, price: Vector) -> tuple[Vector, float]:
    """(C,), the reward `price @ features`, and the accuracy of its plan.

    It is close to double precision, because the bound is compared with gaps near rounding.
    """
    mdp, d_r = domain.mdp, domain.n_reward
    parts = (domain.reward_features @ price[:d_r], domain.preference_features @ price[d_r:])
    # If both are on states, add them before they are repeated for every choice.
    both = parts if len(parts[0]) == len(parts[1]) else tuple(per_choice(mdp, part) for part in parts)
    reward = per_choice(mdp, both[0] + both[1])
    return reward, PLANNED * max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)


def _counts(features: Matrix, choice: Indices, visits: Vector) -> Vector:
    """z @ features for visits (S,) to the one choice of each state; a policy may visit few of many states."""
    visited = np.flatnonzero(visits)
    return visits[visited] @ features[visited if len(features) == len(visits) else choice[visited]]


@dataclass(frozen=True, slots=True, eq=False)
class Decomposed:
    """Columns with their weights (n, K) for each group of starts, or (n, 1) where all starts have one mixture.

    dual: (k,), the dual variables whose bound was certified.
    """

    columns: tuple[Column, ...]
    weights: Matrix
    dual: Vector

    @property
    def counts(self) -> Vector:
        """(d,), the feature expectation of the mixture."""
        if self.weights.shape[1] == 1:
            return np.asarray(self.weights[:, 0] @ matrix(self.columns))
        return np.asarray(np.einsum("nk,nkd->d", self.weights, parts(self.columns)))


def matrix(columns: tuple[Column, ...]) -> Matrix:
    """(n, d), one policy's expectation per row."""
    return np.array([column.counts for column in columns])


def parts(columns: tuple[Column, ...]) -> NDArray[np.float64]:
    """(n, K, d), the parts of each policy's expectation from each group of starts."""
    return np.array([column.parts for column in columns])


def decompose(
    pricer: Pricer,
    objective: Objective,
    limits: HalfSpaces,
    columns: tuple[Column, ...],
    *,
    tolerance: float,
    good_enough: float = -np.inf,
) -> Solution[Decomposed]:
    """The best mixture of policies, to a gap of `tolerance * (scale + |value|)` or until the value is `good_enough`.

    columns: policies to start from, some mixture of which satisfies the limits. scale: what the objective can reach.
    The bound is certified: no policy within the limits has a lower value. It is that of the dual variables returned.
    """
    search = _Rounds(pricer, objective, limits, columns)
    for search.n_rounds in range(1, MAX_ROUNDS + 1):
        value, bound = search.value, search.bound
        if not search.solve_master():
            return search.solution(Ended.ROUNDING)
        if search.value <= good_enough or search.is_proved(tolerance):
            return search.solution(Ended.CONVERGED)
        for u in search.trials():
            earned = float((matrix(search.columns) @ search.dual.price(search.master.dual)).max())
            new = search.price_out(u)
            if search.is_proved(tolerance):
                return search.solution(Ended.CONVERGED)
            if any(float(column.counts @ search.dual.price(search.master.dual)) > earned for column in new):
                break
        else:
            if len(search.columns) == len(search.master.weights):
                # No price that was tried has given another policy.
                return search.last()
        if search.is_within(PACE.rounded) and search.value >= value and search.bound <= bound:
            return search.solution(Ended.ROUNDING)
        watch.report("rounds of decomposition", search.n_rounds, search.gap, search.solution(Ended.TIME_LIMIT))
    message = f"after {MAX_ROUNDS} rounds of decomposition the relative gap is still {search.gap:.3g}"
    raise NotConverged(message, residual=search.gap, n_steps=MAX_ROUNDS, answer=search.solution(Ended.STEP_LIMIT))


@dataclass(eq=False)
class _Rounds:
    """What is known after some rounds.

    value: of the mixture. bound: on the value of any policy. master: the mixture that the last master problem found.
    centre: (k,), the dual variables of the best bound; None before the first. own: the bound of the dual variables of
    the last master problem; None while it is not known. scale: what the objective can reach.
    last_gap: when the last round had solved its master problem.
    """

    pricer: Pricer
    objective: Objective
    limits: HalfSpaces
    columns: tuple[Column, ...]
    value: float = np.inf
    bound: float = -np.inf
    centre: Vector | None = None
    own: float | None = None
    last_gap: float = np.inf
    n_rounds: int = 0
    scale: float = field(init=False)
    dual: LowerBounds = field(init=False)
    is_by_group: bool = field(init=False)
    master: Mixture = field(init=False)

    def __post_init__(self) -> None:
        self.scale = self.objective.scale(matrix(self.columns))
        self.dual = self.objective.lower_bounds(self.limits)
        self.is_by_group = self.dual.can_share and all(column.parts is not None for column in self.columns)
        self.master = Mixture(np.zeros(0), np.zeros(len(self.dual.linear)))

    @property
    def gap(self) -> float:
        return self.value - self.bound

    def is_within(self, tolerance: float) -> bool:
        """Whether the gap is at most `tolerance * (scale + |value|)`."""
        return self.gap <= tolerance * (self.scale + abs(self.value))

    def is_proved(self, tolerance: float) -> bool:
        """Whether the dual variables of the last master problem themselves prove the tolerance.

        Where a bound at other prices does, they are priced out as well: a bound within the gap is no proof of prices.
        """
        if not self.is_within(tolerance):
            return False
        if self.own is None:
            self.price_out(self.master.dual, is_exact=True)
        return self.own is not None and self.value - self.own <= tolerance * (self.scale + abs(self.value))

    def solve_master(self) -> bool:
        """The best mixture of the columns within the limits. False where that is beyond a library, but nearly known."""
        try:
            found = self._by_group() if self.is_by_group else self._by_column()
        except NotConverged:
            # Columns that differ only by rounding can be too much for a quadratic program.
            if not self.is_within(PACE.nearly_rounded):
                raise
            return False
        self.value, self.master, self.own = found.value, found.answer, None
        return True

    def _by_column(self) -> Solution[Mixture]:
        """One mixture for all starts."""
        n = len(self.columns)
        simplex = Hull(matrix(self.columns).T, np.ones((1, n)), np.ones(1))
        return _normalised(self.objective.solve(simplex, self.limits), n)

    def _by_group(self) -> Solution[Mixture]:
        """A mixture for every group of starts."""
        known = parts(self.columns)
        n, n_groups, d = known.shape
        found = best_shares(self.dual, known, self.master.dual)
        if found is not None:
            return found
        sums = sparse.hstack([sparse.eye_array(n_groups, format="csr")] * n, format="csr")
        hull = Hull(known.reshape(-1, d).T, sums, np.ones(n_groups))
        return _normalised(self.objective.solve(hull, self.limits), n)

    def trials(self) -> Iterator[Vector]:
        """Dual variables to try in this round, in order."""
        is_fast = self.is_by_group and (self.pricer.is_quick or self.gap <= PACE.fast * self.last_gap)
        self.last_gap = self.gap
        if self.pricer.is_stored and self.centre is not None and not is_fast:
            yield (1 - PACE.inward) * self.master.dual + PACE.inward * self.centre
        yield self.master.dual

    def price_out(self, u: Vector, *, is_exact: bool = False) -> tuple[Column, ...]:
        """Policies at price(u) that are not known, found as far as it serves the bound; they become columns."""
        price, offset = self.dual.price(u), self.dual.offset(u)
        known = float((matrix(self.columns) @ price).max())
        is_first = self.bound == -np.inf
        # Without any bound one better policy is enough.
        enough = (
            np.inf if is_exact else -np.inf if is_first else known + PACE.enough * max(offset - self.bound - known, 0.0)
        )
        close = Close(offset - self.value, 0.0 if is_first or is_exact else PACE.close)
        try:
            priced = self.pricer.price_out(price, self.columns, enough, close)
        except EndlessValue as failure:
            priced, u = self._priced_with_steps(u, failure)
            offset = self.dual.offset(u)
        new, best = self._unknown(priced.columns), priced.best
        if u is self.master.dual and not new and not priced.is_exact:
            # At the prices of the master problem none may be missed.
            exact = self.pricer.price_out(price, self.columns, enough, EXACTLY)
            new, best = self._unknown(exact.columns), min(best, exact.best)
        if offset - best > self.bound:
            self.bound, self.centre = offset - best, u
        if u is self.master.dual:
            self.own = offset - best
        self.columns = self.pricer.kept((*self.columns, *new))
        return new

    def _priced_with_steps(self, u: Vector, failure: EndlessValue) -> tuple[Priced, Vector]:
        """What a price of a step gives at which going on does not pay, and a policy that goes round; dual variables.

        Raises the failure where no limit is on steps (see `bounded_steps`).
        """
        price = self.dual.price(u)
        known = float((matrix(self.columns) @ price).max())
        rounds = (self.pricer.evaluate_policy(policy) for policy in going_round(self.pricer.domain.mdp, failure))
        longer = next((column for column in rounds if float(column.counts @ price) > known), None)
        for share in STEP_PRICES if STEPS_NAME in self.limits.names else ():
            tried = u.copy()
            tried[len(self.limits) - 1] += share * float(np.abs(price).max())
            try:
                priced = self.pricer.price_out(self.dual.price(tried), self.columns, np.inf, EXACTLY)
            except EndlessValue as later:
                failure = later
                continue
            more = () if longer is None else (longer,)
            return replace(priced, columns=(*priced.columns, *more), is_exact=True), tried
        raise failure

    def _unknown(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Those whose expectation differs from every known one by more than rounding."""
        largest, known = PACE.rounded * self.pricer.largest, matrix(self.columns)
        return tuple(column for column in columns if not (np.abs(known - column.counts) <= largest).all(axis=1).any())

    def solution(self, ended: Ended) -> Solution[Decomposed]:
        """The mixture, with dual variables and their bound: those of the master problem where they are as good."""
        n = len(self.master.weights)
        dual, bound = self.master.dual, self.bound if self.own is None else self.own
        if bound == -np.inf:
            # Good enough before any price was tried: then no price is as good a proof as those of the master problem.
            dual = np.zeros_like(dual)
        if self.centre is not None and self.bound - bound > self.gap + PACE.rounded * (self.scale + abs(self.value)):
            dual, bound = self.centre, self.bound
        found = Decomposed(self.columns[:n], self.master.weights.reshape(n, -1), dual)
        return Solution(found, self.value, bound, self.value - bound, ended, self.n_rounds)

    def last(self) -> Solution[Decomposed]:
        """The solution when no better policy was found: its gap is rounding, or else `NotConverged`."""
        offset = self.dual.offset(self.master.dual)
        if self.gap > max(PACE.acceptable * (self.scale + abs(self.value)), PACE.cancelled * abs(offset)):
            message = f"decomposition found no better policy, but the relative gap is still {self.gap:.3g}"
            best = self.solution(Ended.SETTLED)
            raise NotConverged(message, residual=self.gap, n_steps=self.n_rounds, answer=best)
        return self.solution(Ended.ROUNDING)


def _normalised(found: Solution[Mixture], n_columns: int) -> Solution[Mixture]:
    """The same with weights (n, K) that are not negative and sum to one in every group.

    A weight that is no more than rounding is zero, so that a policy which never arrives is no part of the mixture.
    """
    weights = found.answer.weights.reshape(n_columns, -1)
    weights = np.where(weights > PACE.rounded, weights, 0.0)
    return replace(found, answer=replace(found.answer, weights=weights / weights.sum(axis=0)))
