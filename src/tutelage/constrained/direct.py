"""The direct route, the whole program over occupancies at once; and the intervals of the prices of limits.

    z >= 0,   sum over choices of s' of z = initial(s') + sum over c of discount(c) T(s' | c) z(c)              (App. F)

(unnormalised: the right-hand side is `initial`, without 1 - discount). It takes more time with more choices, and the
decomposition more rounds with more features to match or limits to keep.

Limits may also be balls, in a cone program that maximises weights @ mu_r:

    normals @ mu <= offsets,   norm_2(S_k (mu_c - c_k)) <= radius_k

Multipliers y of the half-spaces, and vectors t_k of the balls, give an upper bound for all policies within them:

    bound = max over policies of price @ mu + y @ offsets + sum over k of (radius_k norm_2(t_k) + t_k @ S_k c_k)
    price = (weights, 0) - normals' y - sum over k of (0, S_k t_k)

How well the prices of limits are known: v(delta), the best reward within limits delta, is concave. For any u >= 0, with
D(u) the largest value over all policies of (reward - u @ use) + u @ delta,

    v(delta') <= D(u) + u @ (delta' - delta)

so u is a price where D(u) is within a tolerance of v(delta): a little more of limit j gains at most u_j per unit, and a
little less loses at least u_j. Of all such u the least u_j is the derivative to the right, and the largest one that to
the left. Where v has a kink they differ. Both are found by cutting planes: a small linear program over the policies
known gives u, the best policy at its price is one more cut, until D(u) is within twice the tolerance.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from tutelage.arrays import SMALLEST, Matrix, SparseRows, Vector, freeze, max_abs
from tutelage.bellman.equations import plan_hard
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.chains.expectations import expectation
from tutelage.chains.resolvent import discounted_rows
from tutelage.constrained.columns import Planner
from tutelage.constrained.objectives import Mixture, Program
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Scaled, in_unit, or_one, sizes
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_conic, minimise_linear
from tutelage.model.mdp import Domain, combined_features, per_choice
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended, EndlessValue, NotConverged, OutOfTime, Solution

# Up to this number of choices one program over all of them takes a second or less.
FEW_CHOICES = 2_000
# Prices of a step to be tried, relative to the largest feature.
STEP_PRICES = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10)
# The largest relative gap that is accepted of the libraries.
LOOSEST_GAP = 1e-7
# A price this many times what the whole reward is worth per unit of a limit counts as infinite: less is infeasible.
ENDLESS = 1e6


def flow(domain: Domain) -> tuple[SparseRows, SparseRows, Vector]:
    """The hull of all occupancies: v = z / horizon (C,), whose sum is at most one; its equalities are those of flow."""
    mdp = domain.mdp
    n_choices, horizon = mdp.n_choices, mdp.steps
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    features = per_choice(mdp, combined_features(domain))
    flow = (leave - discounted_rows(mdp, np.arange(n_choices)).T).tocsr()
    return sparse.csr_array(horizon * features.T), flow, mdp.initial / horizon


def solve_directly(domain: Domain, program: Program) -> Solution[Mixture]:
    """The optimal occupancy (C,) as weights of the choices, with its certified bound.

    Raises `NotConverged` where the libraries fail, also on programs that are infeasible or nearly so.
    """
    solution = program.solve(*flow(domain))
    u = solution.answer.dual
    visits = np.maximum(solution.answer.weights, 0.0) * domain.mdp.steps
    bound = program.offset(u) - largest_value(domain, program.price(u))
    return replace(solution, answer=Mixture(visits, u), bound=bound)


def largest_value(domain: Domain, price: Vector) -> float:
    """An upper bound on price @ mu for all policies.

    At the best prices a cycle may gain nothing, but for rounding. Where going on pays, a small price of a step is added
    until it does not; the bound is then for all policies that take at most a thousand times the steps of `mdp.steps`.
    """
    mdp, features = domain.mdp, combined_features(domain)
    reward = per_choice(mdp, features @ price)
    # Prices of order one, which may cancel each other, have errors of their own size.
    size = max(max_abs(features) * max(1.0, max_abs(price)), SMALLEST)
    accuracy = RELATIVE_ACCURACY * (max_abs(reward) or size)
    for share in STEP_PRICES:
        try:
            plan = plan_hard(mdp, reward - share * size, accuracy=accuracy)
            break
        except EndlessValue:
            if share == STEP_PRICES[-1]:
                raise
    return float(mdp.initial @ plan.value) + plan.error_bound + share * size * 1_000 * mdp.steps


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """norm_2(scale * (mu_c - centre)) <= radius, with scale and centre (d_c,)."""

    centre: Vector
    scale: Vector
    radius: float


def best_within_balls(
    domain: Domain, weights: Vector, limits: HalfSpaces, balls: list[Ball]
) -> tuple[ConstrainedOptimum, Matrix] | None:
    """The optimum with the multipliers of the half-spaces, and t of each ball (k, d_c).

    None for a large model, and where the library's solution has a gap above a tenth of LOOSEST_GAP. The policy keeps
    limits and balls as far as the library does; the caller judges that.
    """
    if domain.mdp.n_choices > FEW_CHOICES:
        return None
    scaled = Scaled.of(domain, limits, sizes(domain))
    slope, unit = in_unit(weights, scaled.feature[: domain.n_reward])
    preference = scaled.feature[domain.n_reward :]
    size = or_one([max_abs(ball.scale * preference) for ball in balls])
    inner = [
        Ball(ball.centre / preference, ball.scale * preference / length, ball.radius / length)
        for ball, length in zip(balls, size, strict=True)
    ]
    solved = _solved(scaled, slope, inner)
    if solved is None:
        return None
    visits, y, t = solved
    price = np.concatenate([slope, np.zeros(len(preference))]) - scaled.limits.normals.T @ y
    bound = float(y @ scaled.limits.offsets)
    for ball, weight in zip(inner, t, strict=True):
        price[len(slope) :] -= ball.scale * weight
        bound += ball.radius * float(np.linalg.norm(weight)) + float(weight @ (ball.scale * ball.centre))
    bound += largest_value(scaled.domain, price)
    policy = policy_from_occupancy(domain.mdp, visits)
    reached = expectation(scaled.domain, policy)
    value = float(slope @ reached.reward)
    if abs(bound - value) > 0.1 * LOOSEST_GAP * (1 + abs(value)):
        return None
    end = {"value": unit * value, "bound": unit * bound, "n_rounds": 1, "ended": Ended.CONVERGED}
    return scaled.optimum(policy, reached, y, price, unit, **end), unit * t / size[:, None]


def _solved(scaled: Scaled, slope: Vector, balls: list[Ball]) -> tuple[Vector, Vector, Matrix] | None:
    """Visits (C,), multipliers of the half-spaces (m,) and t of each ball (k, d_c), where the library finds them."""
    generate, flows, initial = flow(scaled.domain)
    limits, d_r = scaled.limits, scaled.domain.n_reward
    features = generate.toarray()
    within = limits.normals @ features
    m, n = within.shape
    cones = [np.vstack([np.zeros((1, n)), -ball.scale[:, None] * features[d_r:]]) for ball in balls]
    ends = [np.append(ball.radius, -ball.scale * ball.centre) for ball in balls]
    solution = minimise_conic(
        np.zeros((n, n)),
        -(slope @ features[:d_r]),
        np.vstack([flows.toarray(), within, -np.eye(n), *cones]),
        np.concatenate([initial, limits.offsets, np.zeros(n), *ends]),
        m + n,
        [len(end) for end in ends],
        n_equal=len(initial),
    )
    point = solution.answer
    if solution.ended is not Ended.CONVERGED or not np.isfinite(point.within_multipliers).all():
        return None
    y, of_cones = point.within_multipliers[:m], point.within_multipliers[m + n :]
    t = -of_cones.reshape(len(balls), -1)[:, 1:]
    # A limit on a feature that is zero everywhere has any multiplier in the library, but costs nothing.
    y = np.where(within.any(axis=1), np.maximum(y, 0.0), 0.0)
    return np.maximum(point.x, 0.0) * scaled.domain.mdp.steps, y, t


@dataclass(frozen=True, eq=False)
class PriceFace:
    """The multipliers u with a bound of at least `least`, for a problem in its own units.

    points: (n, d), expectations of policies that are known. scale: the size of the reward. unit: (m,), of the
    multipliers in the caller's units.
    """

    domain: Domain
    program: Program
    points: Matrix
    least: float
    tolerance: float
    scale: float
    unit: Vector

    @cached_property
    def interval(self) -> tuple[Vector, Vector]:
        """(m,) twice: the least and the largest price of each limit, in the caller's units."""
        points = self.points
        ends = np.zeros((2, len(self.unit)))
        for j in range(len(self.unit)):
            for end, sign in enumerate((1.0, -1.0)):
                ends[end, j], points = self._end(j, sign, points)
        low, high = ends * self.unit
        return freeze(low), freeze(high)

    def _end(self, j: int, sign: float, points: Matrix) -> tuple[float, Matrix]:
        """The u_j with the least sign * u_j, NaN where it is not found; and the points with those met on the way.

        Prices may be infinite, so u = w / t with w, t >= 0 and w_j + t = 1. Then D(u) <= v + tolerance / t reads

            w @ (right - rows @ mu) - t (v - base @ mu) <= tolerance          for the mu of every policy

        in units in which the reward and what a point leaves of each limit are of order one. At t = 0 it proves that no
        policy leaves more than the tolerance of limit j.
        """
        planner, program, m = Planner(self.domain), self.program, len(self.unit)
        share = np.eye(m + 1)[[j]]
        for _ in range(200):
            left = program.right - points @ program.rows.T
            room = -self.least - points @ program.base
            size = or_one(np.abs(left).max(axis=0))
            within = np.column_stack([left / size, -room / self.scale])
            bound = np.full(len(points), self.tolerance / self.scale)
            whole = LinearConstraints(np.zeros(m + 1), share + np.eye(m + 1)[m], np.ones(1), within, bound)
            try:
                x = minimise_linear(sign * share[0], whole).answer.x
                w, t = self.scale * x[:m] / size, x[m]
                priced = planner.price_out(t * program.base - w @ program.rows)
            except OutOfTime:
                raise
            except (InfeasibleProgram, NotConverged, EndlessValue):
                break
            if priced.best + w @ program.right <= 2 * self.tolerance - t * self.least:
                return (np.inf if t * ENDLESS < x[j] else float(w[j] / t)), points
            counts = priced.columns[0].counts
            if (np.abs(points - counts).max(axis=1) <= self.tolerance).any():
                # A policy that is known proves nothing more: rounding hides the rest.
                break
            points = np.vstack([points, counts])
        return np.nan, points
