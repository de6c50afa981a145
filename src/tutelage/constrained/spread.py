"""Decomposition for policies that visit most states: many rounds, each cheap.

A round solves the master problem and then tries prices, in this order, until one gives a policy that the master problem
can use (where every group of starts has a mixture of its own, `shares`, only the last, as long as the gap falls fast):

- the Newton step (`one_step`) from the prices of the best bound so far, where evaluating a policy is expensive. The
  policy of the smoothed maximum is a column as well. The width of the smoothing falls with the gap, so the last
  policies differ in a few states only, and both the prices and the expectation converge quadratically;
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
from tutelage.chains.systems import RELATIVE_ACCURACY
from tutelage.constrained.columns import Column, Improved, Improver, is_exact, with_stored
from tutelage.constrained.mixtures import MAX_ROUNDS, Master, Mixture, is_known, last, matrix, pruned, unfinished
from tutelage.constrained.objectives import Dual, Objective
from tutelage.constrained.one_step import OneStep
from tutelage.constrained.problem import HalfSpaces
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged

# Prices lie between those of the best bound, with this share, and those of the master problem.
INWARD = 0.7
# The width of the smoothing: the largest, in standard deviations of the advantages; the factor by which it is made
# narrower until it changes the dual little, and wider where no minimum was found; and the least.
FIRST_WIDTH, NARROWER, WIDER, LEAST_WIDTH = 0.3, 0.1, 4.0, 1e-12
# The change of the dual by the smoothing, in shares of the gap.
SMOOTHED = 0.03
# The excess that a smoothed policy may have over the limits, in shares of the gap, and the least that is asked for.
EXACT, LEAST_EXCESS = 1e-3, 1e-12
# The least share of a choice in a smoothed policy, in shares of the gap, and of all.
LEAST_SHARE, NO_SHARE = 1e-3, 1e-15
# Newton steps start from the last smoothed policy where it earns almost as much as the best; in shares of the gap.
ALMOST = 0.1
# The largest change of u, in units of the last one, after a step that gave a better bound and after one that did not.
AFTER_BETTER, AFTER_WORSE = 10.0, 0.3
# A pricing step is exact enough if its bound is this close to what its best policy earns; in shares of the gap.
CLOSE = 0.1
# The share of the gap that a Newton step has to close, or else other prices are tried in the same round.
GAINED = 0.05
# Where every group of starts has a mixture, a gap that falls to this share of the last one falls fast enough without
# Newton steps.
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
    bound, steps, closest = -np.inf, NewtonSteps(improver, dual), Closest()
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
        for u, found in _trials(steps, columns, mixture, None if is_fast else centre, accuracy):
            columns, gain = with_stored((*columns, *found)), 0.0
            offset, improved = dual.offset(u), _improved(improver, dual, u, mixture, columns, accuracy)
            if offset - improved.best > bound:
                gain, bound, centre = offset - improved.best - bound, offset - improved.best, u
            if found:
                steps.judge(gain > 0)
            is_gained = bool(found) and gain > GAINED * mixture.gap
            mixture = replace(mixture, bound=bound)
            if mixture.is_within(tolerance):
                if not _rough(mixture):
                    return mixture
                break
            new = [column for column in improved.columns if not is_known(improver.largest, column, columns)]
            earned = float((matrix(columns) @ point.price).max())
            columns = with_stored((*columns, *new))
            if is_gained or any(float(column.counts @ point.price) > earned for column in new):
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


def _trials(
    steps: "NewtonSteps", columns: tuple[Column, ...], mixture: Mixture, centre: Vector | None, accuracy: float
) -> Iterator[tuple[Vector, tuple[Column, ...]]]:
    """Dual variables to try, in order, each with the columns that were found on the way."""
    if centre is not None:
        step = steps.next(columns, centre, mixture, accuracy)
        if step is not None:
            yield step
        yield (1 - INWARD) * mixture.point.dual + INWARD * centre, ()
    yield mixture.point.dual, ()


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


@dataclass(eq=False)
class NewtonSteps:
    """The Newton steps of one decomposition.

    length: the largest change of an entry of u in the last step. radius: its bound in the next step, because far from
    the policy that it starts from the model says little.
    """

    improver: Improver
    dual: Dual
    length: float = np.inf
    radius: float = np.inf

    def next(
        self, columns: tuple[Column, ...], centre: Vector, mixture: Mixture, accuracy: float
    ) -> tuple[Vector, tuple[Column, ...]] | None:
        """The dual variables of the next step, and its smoothed policy; None where there is no step in this round."""
        # Where policies are evaluated quickly, more rounds with other prices take less time than Newton steps.
        if self.dual.box is None or self.improver.is_quick:
            return None
        near = self._near(columns, self.dual.price(centre), mixture.gap)
        if near is None:
            return None
        model = OneStep(self.improver, self.dual, self.dual.box, near)
        width = _width(model, centre, mixture.gap)
        for _ in range(3):
            u = model.minimum(centre, width, max(EXACT * mixture.gap, LEAST_EXCESS), self.radius)
            if u is not None:
                self.length = float(np.abs(u - centre).max())
                policy = model.policy(u, width, max(LEAST_SHARE * mixture.gap, NO_SHARE))
                return u, (self.improver.evaluate_policy(policy, near, accuracy),)
            width *= WIDER
        return None

    def judge(self, is_better: bool) -> None:
        """Set the radius of the next step."""
        if is_better:
            self.radius = max(self.radius, AFTER_BETTER * self.length)
        else:
            self.radius = AFTER_WORSE * self.length

    def _near(self, columns: tuple[Column, ...], price: Vector, gap: float) -> Column | None:
        """The column to start from: the last smoothed policy where it is almost the best at the price, or the best.

        None where no column has its expected counts. Near the end the optimal policy takes several choices in some
        states, and only a smoothed policy is close to it.
        """
        stored = [column for column in columns if column.ahead is not None]
        best = max(stored, key=lambda column: float(column.counts @ price), default=None)
        smoothed = [column for column in stored if column.policy is not None]
        if best is not None and smoothed and float((best.counts - smoothed[-1].counts) @ price) <= ALMOST * gap:
            return smoothed[-1]
        return best


def _width(model: OneStep, centre: Vector, gap: float) -> float:
    """The width at which smoothing changes the dual by about a share of the gap."""
    width, least = FIRST_WIDTH * model.deviation(centre), model.expanded(centre, LEAST_WIDTH)[0]
    while width > LEAST_WIDTH and model.expanded(centre, width)[0] - least > SMOOTHED * gap:
        width *= NARROWER
    return max(width, LEAST_WIDTH)
