"""Decomposition for policies that visit most states: many rounds, each cheap.

A round solves the master problem and then tries prices, in this order, until one gives a policy that the master problem
can use:

- the Newton step (`one_step`) from the prices of the best bound so far, where evaluating a policy is expensive. The
  policy of the smoothed maximum is a column as well. The width of the smoothing falls from round to round, so the last
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
from tutelage.mdp.model import Domain
from tutelage.outcomes import Ended
from tutelage.solvers.bellman import Plan
from tutelage.solvers.columns import Column, Improver, with_stored
from tutelage.solvers.half_spaces import HalfSpaces
from tutelage.solvers.mixtures import MAX_ROUNDS, Mixture, is_known, last, master, matrix, pruned, unfinished
from tutelage.solvers.objectives import Dual, Objective
from tutelage.solvers.one_step import OneStep

# Prices lie between those of the best bound, with this share, and those of the master problem.
INWARD = 0.7
# The width of the smoothing: at first in standard deviations of the advantages, then its factor from round to round.
FIRST_WIDTH, NARROWER, WIDER, LEAST_WIDTH = 0.3, 0.2, 4.0, 1e-9
# The excess that a smoothed policy may have over the limits, in shares of the gap, and the least that is asked for.
EXACT, LEAST_EXCESS = 1e-6, 1e-11
# Newton steps start from the last smoothed policy where it earns almost as much as the best; in shares of the gap.
ALMOST = 0.1
# The most rounds between Newton steps.
MOST_WAITS = 2


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
    bound, steps = -np.inf, NewtonSteps(improver, dual)
    centre: Vector | None = None
    for n_rounds in range(1, MAX_ROUNDS + 1):
        columns, point = pruned(columns, master(objective, limits, columns))
        mixture = Mixture(columns, plan, point, bound, n_rounds, Ended.CONVERGED, improver)
        if point.value <= good_enough or mixture.is_within(tolerance):
            return mixture
        for u, found in _trials(steps, columns, mixture, centre):
            columns, is_better = with_stored((*columns, *found)), False
            price, offset = dual.price(u), dual.offset(u)
            known = float((matrix(columns) @ price).max())
            improved = improver.improve(price, columns, known + 0.5 * max(offset - bound - known, 0.0))
            if offset - improved.best > bound:
                bound, centre, is_better = offset - improved.best, u, bool(found)
            if found:
                steps.judge(is_better, n_rounds)
            mixture = replace(mixture, bound=bound)
            if mixture.is_within(tolerance):
                return mixture
            new = [column for column in improved.columns if not is_known(improver.largest, column, columns)]
            earned = float((matrix(columns) @ point.price).max())
            columns = with_stored((*columns, *new))
            if is_better or any(float(column.counts @ point.price) > earned for column in new):
                break
        else:
            if not new:
                return last(mixture)
        watch.report("rounds of decomposition", n_rounds, mixture.gap, replace(mixture, ended=Ended.TIME_LIMIT))
    raise unfinished(mixture)


def _trials(
    steps: "NewtonSteps", columns: tuple[Column, ...], mixture: Mixture, centre: Vector | None
) -> Iterator[tuple[Vector, tuple[Column, ...]]]:
    """Dual variables to try, in order, each with the columns that were found on the way."""
    if centre is not None:
        step = steps.next(columns, centre, mixture)
        if step is not None:
            yield step
        yield (1 - INWARD) * mixture.point.dual + INWARD * centre, ()
    yield mixture.point.dual, ()


@dataclass(eq=False)
class NewtonSteps:
    """The Newton steps of one decomposition.

    width: of the last smoothing. After a step that gave no better bound, the next one waits for a number of rounds that
    grows each time.
    """

    improver: Improver
    dual: Dual
    width: float = 0.0
    n_waits: int = 0
    next_round: int = 0

    def next(
        self, columns: tuple[Column, ...], centre: Vector, mixture: Mixture
    ) -> tuple[Vector, tuple[Column, ...]] | None:
        """The dual variables of the next step, and its smoothed policy; None where there is no step in this round."""
        # Where policies are evaluated quickly, more rounds with other prices take less time than Newton steps.
        if self.dual.blocks is None or self.improver.is_quick or mixture.n_rounds < self.next_round:
            return None
        near = self._near(columns, self.dual.price(centre), mixture.gap)
        if near is None:
            return None
        model = OneStep(self.improver, self.dual, near)
        self.width = FIRST_WIDTH * model.deviation(centre) if self.width == 0.0 else NARROWER * self.width
        for _ in range(3):
            self.width = max(self.width, LEAST_WIDTH)
            u = model.minimum(centre, self.width, max(EXACT * mixture.gap, LEAST_EXCESS))
            if u is not None:
                return u, (self.improver.evaluate_policy(model.policy(u, self.width), near),)
            self.width *= WIDER
        self.judge(False, mixture.n_rounds)
        return None

    def judge(self, is_better: bool, n_rounds: int) -> None:
        """Go on after a step that gave a better bound, and wait otherwise."""
        if is_better:
            self.n_waits = 0
        else:
            self.next_round, self.n_waits = n_rounds + 1 + self.n_waits, min(self.n_waits + 1, MOST_WAITS)

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
