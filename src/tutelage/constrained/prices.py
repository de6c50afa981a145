"""How well the prices of limits are known: the interval of one-sided derivatives of the best reward.

v(delta), the best reward within limits delta, is concave. For any u >= 0, with D(u) the largest value over all policies
of (reward - u @ use) + u @ delta,

    v(delta') <= D(u) + u @ (delta' - delta)

so u is a price where D(u) is within a tolerance of v(delta): a little more of limit j gains at most u_j per unit, and a
little less loses at least u_j. Of all such u the least u_j is the derivative to the right, and the largest one that to
the left. Where v has a kink they differ. Both are found by cutting planes: a small linear program over the policies
known gives u, the best policy at its price is one more cut, until D(u) is within twice the tolerance.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.constrained.columns import Planner
from tutelage.constrained.objectives import LowerBounds
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged

# A price this many times what the whole reward is worth per unit of a limit counts as infinite: less is infeasible.
ENDLESS = 1e6


@dataclass(frozen=True, eq=False)
class PriceFace:
    """The multipliers u with a bound of at least `least`, for a problem in its own units.

    points: (n, d), expectations of policies that are known. scale: the size of the reward. unit: (m,), of the
    multipliers in the caller's units.
    """

    domain: Domain
    dual: LowerBounds
    points: Matrix
    least: float
    tolerance: float
    scale: float
    unit: Vector

    @cached_property
    def interval(self) -> tuple[Vector, Vector]:
        """(m,) twice: the least and the largest price of each limit, in the caller's units."""
        m, points = len(self.unit), self.points
        ends = np.zeros((2, m))
        for j in range(m):
            for end, sign in enumerate((1.0, -1.0)):
                ends[end, j], points = self._end(j, sign, points)
        return freeze(ends[0] * self.unit), freeze(ends[1] * self.unit)

    def _end(self, j: int, sign: float, points: Matrix) -> tuple[float, Matrix]:
        """The u_j with the least sign * u_j, NaN where it is not found; and the points with those met on the way."""
        planner = Planner(self.domain)
        for _ in range(200):
            try:
                u, is_endless = self._candidate(j, sign, points)
            except (InfeasibleProgram, NotConverged):
                # Rounding leaves nothing of the face: its end is not known.
                break
            priced = planner.price_out(self.dual.price(u))
            if self.dual.offset(u) - priced.best >= self.least - 2 * self.tolerance:
                return (np.inf if is_endless else float(u[j])), points
            points = np.vstack([points, priced.columns[0].counts])
        return np.nan, points

    def _candidate(self, j: int, sign: float, points: Matrix) -> tuple[Vector, bool]:
        """The u with the least sign * u_j such that no point proves a bound below the least one.

        In units in which the reward and what a point leaves of each limit are of order one.
        """
        left = self.dual.linear + points @ self.dual.turn
        room = -(points @ self.dual.base) - self.least + self.tolerance
        size = np.abs(left).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        m = len(size)
        within = np.vstack([left / size, np.eye(m)])
        bound = np.concatenate([room / self.scale, np.full(m, ENDLESS)])
        try:
            x = minimise_linear(
                sign * np.eye(m)[j], LinearConstraints(np.zeros(m), within=within, bound=bound)
            ).answer.x
        except NotConverged:
            x = np.zeros(m)
        return self.scale * x / size, bool(x[j] > 0.5 * ENDLESS)
