"""Decomposition of problems over all policies (Dantzig-Wolfe; for the projection, simplicial decomposition).

The state space enters a constrained problem only through a few feature expectations. A small *master* problem
optimises over mixtures of the policies found so far, and its dual variables give a price to every feature. The
*pricing* step solves one unconstrained MDP with these prices as reward weights. The value of that MDP bounds the
objective over all policies, so every round has a certified gap. The mixture is optimal if no policy has a higher value
at these prices.

Prices between those of the master problem and those of the best bound so far (in-out separation) come first, where all
starts have one mixture. The prices of the master problem decide whether any policy is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage import outcomes
from tutelage.arrays import Matrix, Vector
from tutelage.constrained.columns import Column, Improver, Planner
from tutelage.constrained.groups import best_shares
from tutelage.constrained.objectives import Mixture, Program
from tutelage.outcomes import Ended, NotConverged, Solution

MAX_ROUNDS = 1_000
# The policies whose expected counts are stored.
MOST_STORED = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """The numbers that decide how a decomposition proceeds; the first two are shares, the others relative gaps.

    inward: of the prices of the best bound, in prices between these and those of the master problem. close: of the gap,
    for a pricing step to end where its bound is this close to what its best policy earns. Both save rounds or policy
    iterations (2 to 4 times on models with random rows).

    rounded: below this, a round without progress shows that rounding allows no more. nearly_rounded: the same where the
    columns differ so little that no quadratic program is solved. acceptable: below this, a gap that no policy can close
    is rounding; with cancelled, relative to the numbers whose difference is the bound.
    """

    inward: float = 0.7
    close: float = 0.2
    rounded: float = 1e-12
    nearly_rounded: float = 1e-10
    acceptable: float = 1e-7
    cancelled: float = 1e-10


PACE = Pace()


@dataclass(frozen=True, slots=True, eq=False)
class Decomposed:
    """Columns, their weights (n, K) for each group of starts, and the dual variables (k,) of the certified bound."""

    columns: tuple[Column, ...]
    weights: Matrix
    dual: Vector

    @property
    def counts(self) -> Vector:
        """(d,), the feature expectation of the mixture."""
        return np.asarray(np.einsum("nk,nkd->d", self.weights, parts(self.columns)))


def matrix(columns: tuple[Column, ...]) -> Matrix:
    """(n, d), one policy's expectation per row."""
    return np.array([column.counts for column in columns])


def parts(columns: tuple[Column, ...]) -> NDArray[np.float64]:
    """(n, K, d), the parts of each policy's expectation from each group of starts."""
    return np.array([column.parts for column in columns])


def decompose(
    pricer: Planner,
    program: Program,
    columns: tuple[Column, ...],
    *,
    tolerance: float,
    good_enough: float = -np.inf,
) -> Solution[Decomposed]:
    """The best mixture of policies, to a gap of `tolerance * (scale + |value|)` or until the value is `good_enough`.

    columns: policies to start from, some mixture of which satisfies the limits. scale: what the objective can reach.
    The bound is certified: no policy within the limits has a lower value. It is that of the dual variables returned.
    """
    search = _Rounds(pricer, program, columns)
    for search.n_rounds in range(1, MAX_ROUNDS + 1):
        value, bound = search.value, search.bound
        if not search.solve_master():
            return search.solution(Ended.ROUNDING)
        if search.value <= good_enough or search.is_proved(tolerance):
            return search.solution(Ended.CONVERGED)
        price = program.price(search.master.dual)
        for u in search.trials():
            earned = float((matrix(search.columns) @ price).max())
            new = search.price_out(u)
            if search.is_proved(tolerance):
                return search.solution(Ended.CONVERGED)
            if any(float(column.counts @ price) > earned for column in new):
                break
        else:
            if len(search.columns) == len(search.master.weights):
                # No price that was tried has given another policy.
                return search.last()
        if search.gap <= PACE.rounded * search.size and search.value >= value and search.bound <= bound:
            return search.solution(Ended.ROUNDING)
        outcomes.report("rounds of decomposition", search.n_rounds, search.gap, search.solution(Ended.TIME_LIMIT))
    message = f"after {MAX_ROUNDS} rounds of decomposition the relative gap is still {search.gap:.3g}"
    raise NotConverged(message, residual=search.gap, n_steps=MAX_ROUNDS, answer=search.solution(Ended.STEP_LIMIT))


@dataclass(eq=False)
class _Rounds:
    """What is known after some rounds.

    value: of the mixture. bound: on the value of any policy. master: the mixture that the last master problem found.
    centre: (k,), the dual variables of the best bound; None before the first. own: the bound of the dual variables of
    the last master problem; None while it is not known. scale: what the objective can reach.
    """

    pricer: Planner
    program: Program
    columns: tuple[Column, ...]
    value: float = np.inf
    bound: float = -np.inf
    centre: Vector | None = None
    own: float | None = None
    n_rounds: int = 0
    scale: float = field(init=False)
    master: Mixture = field(init=False)

    def __post_init__(self) -> None:
        self.scale = self.program.scale(matrix(self.columns))
        self.master = Mixture(np.zeros(0), np.zeros(len(self.program.right)))

    @property
    def is_by_group(self) -> bool:
        """Whether every group of starts has a mixture of its own."""
        return len(self.columns[0].parts) > 1

    @property
    def gap(self) -> float:
        return self.value - self.bound

    @property
    def size(self) -> float:
        """What gaps are relative to; before the first mixture, what the objective can reach."""
        return self.scale + (abs(self.value) if self.value < np.inf else 0.0)

    def is_proved(self, tolerance: float) -> bool:
        """Whether the dual variables of the last master problem themselves prove the tolerance.

        Where a bound at other prices does, they are priced out as well: a bound within the gap is no proof of prices.
        """
        if not self.gap <= tolerance * self.size:
            return False
        if self.own is None:
            self.price_out(self.master.dual, is_exact=True)
        return self.own is not None and self.value - self.own <= tolerance * self.size

    def solve_master(self) -> bool:
        """The best mixture of the columns within the limits. False where that is beyond a library, but nearly known."""
        known = parts(self.columns)
        n, n_groups, d = known.shape
        try:
            master = best_shares(self.program, known, self.master.dual) if self.is_by_group else None
            if master is None:
                sums = np.ones((1, n))
                if self.is_by_group:
                    sums = sparse.hstack([sparse.eye_array(n_groups, format="csr")] * n, format="csr")
                master = self.program.solve(known.reshape(-1, d).T, sums, np.ones(n_groups))
                # A weight that is no more than rounding is zero, so that a policy which never arrives is not mixed in.
                weights = master.answer.weights.reshape(n, -1)
                weights = np.where(weights > PACE.rounded, weights, 0.0)
                master = replace(master, answer=replace(master.answer, weights=weights / weights.sum(axis=0)))
        except NotConverged:
            # Columns that differ only by rounding can be too much for a quadratic program.
            if not self.gap <= PACE.nearly_rounded * self.size:
                raise
            return False
        self.value, self.master, self.own = master.value, master.answer, None
        return True

    def trials(self) -> Iterator[Vector]:
        """Dual variables to try in this round, in order."""
        # With a mixture for every group of starts the gap falls fast without them.
        if isinstance(self.pricer, Improver) and self.centre is not None and not self.is_by_group:
            yield (1 - PACE.inward) * self.master.dual + PACE.inward * self.centre
        yield self.master.dual

    def price_out(self, u: Vector, *, is_exact: bool = False) -> tuple[Column, ...]:
        """Policies at price(u) that are not known, found as far as it serves the bound; they become columns."""
        price, offset = self.program.price(u), self.program.offset(u)
        share = 0.0 if is_exact else PACE.close
        priced = self.pricer.price_out(price, self.columns, offset - self.value, share)
        new, best = self._unknown(priced.columns), priced.best
        if u is self.master.dual and not new and not is_exact and isinstance(self.pricer, Improver):
            # At the prices of the master problem none may be missed.
            exact = self.pricer.price_out(price, self.columns)
            new, best = self._unknown(exact.columns), min(best, exact.best)
        if offset - best > self.bound:
            self.bound, self.centre = offset - best, u
        if u is self.master.dual:
            self.own = offset - best
        # Only the last columns keep their expected counts, which may be many numbers.
        old, last = self.columns[:-MOST_STORED], self.columns[-MOST_STORED:]
        self.columns = (*(replace(column, ahead=None) for column in old), *last, *new)
        return new

    def _unknown(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Those whose expectation differs from every known one by more than rounding."""
        known = matrix(self.columns)
        rounding = PACE.rounded * self.pricer.largest
        return tuple(new for new in columns if not (np.abs(known - new.counts) <= rounding).all(axis=1).any())

    def solution(self, ended: Ended) -> Solution[Decomposed]:
        """The mixture, with dual variables and their bound: those of the master problem where they are as good."""
        n = len(self.master.weights)
        dual = self.master.dual
        bound = self.bound if self.own is None else self.own
        if bound == -np.inf:
            # Good enough before any price was tried: then no price is as good a proof as those of the master problem.
            dual = np.zeros_like(dual)
        if self.centre is not None and self.bound - bound > self.gap + PACE.rounded * self.size:
            dual, bound = self.centre, self.bound
        mixture = Decomposed(self.columns[:n], self.master.weights, dual)
        return Solution(mixture, self.value, bound, self.value - bound, ended, self.n_rounds)

    def last(self) -> Solution[Decomposed]:
        """The solution when no better policy was found: its gap is rounding, or else `NotConverged`."""
        offset = self.program.offset(self.master.dual)
        if self.gap > max(PACE.acceptable * self.size, PACE.cancelled * abs(offset)):
            message = f"decomposition found no better policy, but the relative gap is still {self.gap:.3g}"
            raise NotConverged(message, residual=self.gap, n_steps=self.n_rounds, answer=self.solution(Ended.SETTLED))
        return self.solution(Ended.ROUNDING)
