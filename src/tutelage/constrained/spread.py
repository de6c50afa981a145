"""Decomposition for policies that visit most states: many rounds, each cheap.

A round solves the master problem and then tries prices, in this order, until one gives a policy that the master problem
can use (where every group of starts has a mixture of its own, `shares`, only the last, as long as the gap falls fast):

- prices between those of the best bound and those of the master problem (in-out separation);
- the prices of the master problem itself, which decide whether any policy is missing.

A pricing step ends as soon as its price cannot improve the bound by much; only near the end is it exact. The bound of
every step holds, so the gap is certified whichever prices were tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.bellman.equations import Plan
from tutelage.chains.iterations import RELATIVE_ACCURACY
from tutelage.constrained.columns import Column, Improved, Improver, is_exact, with_stored
from tutelage.constrained.mixtures import MAX_ROUNDS, Master, Mixture, is_known, last, matrix, pruned, unfinished
from tutelage.constrained.objectives import Dual, Objective
from tutelage.constrained.problem import HalfSpaces
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged

# Prices lie between those of the best bound, with this share, and those of the master problem.
INWARD = 0.7
# A pricing step is exact enough if its bound is this close to what its best policy earns; in shares of the gap.
CLOSE = 0.1
# Where every group of starts has a mixture, a gap that falls to this share of the last one falls fast enough with the
# prices of the master problem alone.
FAST = 0.5
# The accuracy of new columns, in shares of the gap, that of columns which are evaluated again, and the largest; these
# hold where a round leaves at most the last share of the gap.
ROUGH, TOO_ROUGH, ROUGHEST, FALLING = 1e-3, 1e-2, 1e-4, 0.9
# A relative gap below this is rounding where so many rounds have not halved it; and where no master problem is solved.
ROUNDED, PATIENCE, NEARLY_ROUNDED = 1e-12, 4, 1e-10


def decompose_spread(
    domain: Domain,
    objective: Objective,
    limits: HalfSpaces,
    columns: tuple[Column, ...],
    plan: Plan,
    tolerance: float,
    good_enough: float,
) -> Mixture:
    """The best mixture of policies; arguments as for `decompose`."""
    improver, dual = Improver(domain), objective.dual(limits)
    bound, closest = -np.inf, Closest()
    centre: Vector | None = None
    master, before = Master.of(objective, limits, columns), np.inf
    for n_rounds in range(1, MAX_ROUNDS + 1):
        try:
            columns, point = pruned(columns, master.solve(columns))
        except NotConverged:
            # Columns that differ only by rounding can be too much for a quadratic program.
            if closest.mixture is None or not closest.mixture.is_within(NEARLY_ROUNDED):
                raise
            return closest.rounded(bound, n_rounds)
        mixture = Mixture(columns, plan, point, bound, n_rounds, Ended.CONVERGED, improver)
        rough = _rough(mixture)
        if rough:
            columns = tuple(improver.refined(one) if k in rough else one for k, one in enumerate(columns))
            continue
        if point.value <= good_enough or mixture.is_within(tolerance):
            return mixture
        is_fast = master.is_by_group and (improver.is_quick or mixture.gap <= FAST * before)
        accuracy = _accuracy(mixture, before)
        before = mixture.gap
        for u in _trials(mixture, None if is_fast else centre):
            offset, improved = dual.offset(u), _improved(improver, dual, u, mixture, columns, accuracy)
            if offset - improved.best > bound:
                bound, centre = offset - improved.best, u
            mixture = replace(mixture, bound=bound)
            if mixture.is_within(tolerance):
                if not _rough(mixture):
                    return mixture
                break
            new = [column for column in improved.columns if not is_known(improver.largest, column, columns)]
            earned = float((matrix(columns) @ point.price).max())
            columns = with_stored((*columns, *new))
            if any(float(column.counts @ point.price) > earned for column in new):
                break
        else:
            if not new and not _rough(mixture):
                return last(mixture)
        if not _rough(mixture) and closest.is_final(mixture):
            return closest.rounded(bound, n_rounds)
        watch.report("rounds of decomposition", n_rounds, mixture.gap, replace(mixture, ended=Ended.TIME_LIMIT))
    raise unfinished(mixture)


def _accuracy(mixture: Mixture, before: float) -> float:
    """The accuracy of new columns: a small share of the gap while that falls, and exact otherwise."""
    if not mixture.gap <= FALLING * before:
        return RELATIVE_ACCURACY
    size = 1 + float(np.abs(mixture.point.price).sum())
    return float(np.clip(ROUGH * mixture.gap / size, RELATIVE_ACCURACY, ROUGHEST))


def _rough(mixture: Mixture) -> set[int]:
    """The columns of the mixture whose counts are not exact enough for its gap."""
    size = 1 + float(np.abs(mixture.point.price).sum())
    used = mixture.weights.max(axis=1) > 0
    return {
        k
        for k, column in enumerate(mixture.columns)
        if used[k] and column.accuracy > max(RELATIVE_ACCURACY, TOO_ROUGH * mixture.gap / size)
    }


def _improved(
    improver: Improver, dual: Dual, u: Vector, mixture: Mixture, columns: tuple[Column, ...], accuracy: float
) -> Improved:
    """Policy iteration at price(u), as far as it serves the bound of the mixture."""
    price, offset, bound, point = dual.price(u), dual.offset(u), mixture.bound, mixture.point
    known = float((matrix(columns) @ price).max())
    # Without any bound one better policy is enough.
    enough = known + 0.5 * max(offset - bound - known, 0.0) if bound > -np.inf else -np.inf
    close = _Close(offset - point.value, CLOSE if bound > -np.inf else 0.0)
    improved = improver.improve(price, columns, enough, close, accuracy)
    if u is not point.dual or not all(is_known(improver.largest, column, columns) for column in improved.columns):
        return improved
    # At the prices of the master problem none may be missed.
    exact = improver.improve(price, columns, enough, is_exact)
    return Improved(exact.columns, min(improved.best, exact.best))


def _trials(mixture: Mixture, centre: Vector | None) -> Iterator[Vector]:
    """Dual variables to try, in order."""
    if centre is not None:
        yield (1 - INWARD) * mixture.point.dual + INWARD * centre
    yield mixture.point.dual


@dataclass(frozen=True, slots=True)
class _Close:
    """Whether a bound is within a share of the gap that it leaves. known: a bound without a gap."""

    known: float
    share: float

    def __call__(self, bound: float, earned: float) -> bool:
        return bound - earned <= self.share * max(bound - self.known, 0.0)


@dataclass(eq=False)
class Closest:
    """The mixture with the smallest gap, and the rounds since that gap was last halved."""

    mixture: Mixture | None = None
    since: int = 0

    def is_final(self, mixture: Mixture) -> bool:
        """Take note of the mixture of a round. Whether the smallest gap is at the level of rounding."""
        if self.mixture is None or mixture.gap <= 0.5 * self.mixture.gap:
            self.mixture, self.since = mixture, 0
        else:
            self.since += 1
        return self.since >= PATIENCE and self.mixture.is_within(ROUNDED)

    def rounded(self, bound: float, n_rounds: int) -> Mixture:
        """The mixture as the answer, with the best bound."""
        assert self.mixture is not None
        return replace(self.mixture, bound=bound, n_rounds=n_rounds, ended=Ended.ROUNDING)
