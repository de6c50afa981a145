"""The best policy within half-spaces and balls of feature expectations, by one cone program over all occupancies.

    maximise over z   weights @ mu_r   subject to   normals @ mu <= offsets,   norm_2(S_k (mu_c - c_k)) <= radius_k

Multipliers y of the half-spaces, and vectors t_k of the balls, give an upper bound for all policies within them:

    bound = max over policies of price @ mu + y @ offsets + sum over k of (radius_k norm_2(t_k) + t_k @ S_k c_k)
    price = (weights, 0) - normals' y - sum over k of (0, S_k t_k)

One MDP solve yields the maximum, so that the bound holds however exact the library is.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.chains.expectations import Expectation, expectation
from tutelage.constrained.columns import Planner
from tutelage.constrained.direct import FEW_CHOICES, flow
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Scaled, in_unit, or_one
from tutelage.convex.programs import minimise_conic
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy
from tutelage.outcomes import Ended

# The largest gap, relative to the largest value that one feature alone could have, plus |value|.
ACCURACY = 1e-8


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

    None for a large model, and where the library's solution has a gap above ACCURACY. The policy keeps limits and balls
    as far as the library does; the caller judges that.
    """
    if domain.mdp.n_choices > FEW_CHOICES:
        return None
    scaled = Scaled.each(domain, limits)
    slope, unit = in_unit(weights, scaled.feature[: domain.n_reward])
    reward, preference = np.split(scaled.feature, [domain.n_reward])
    size = np.array([float(or_one(np.asarray(np.abs(ball.scale * preference).max()))) for ball in balls])
    inner = [
        Ball(ball.centre / preference, ball.scale * preference / one, ball.radius / one)
        for ball, one in zip(balls, size, strict=True)
    ]
    found = _solved(scaled, slope, inner)
    if found is None:
        return None
    visits, y, t = found
    price = np.concatenate([slope, np.zeros(len(preference))]) - scaled.limits.normals.T @ y
    bound = float(y @ scaled.limits.offsets)
    for ball, one in zip(inner, t, strict=True):
        price[len(slope) :] -= ball.scale * one
        bound += ball.radius * float(np.linalg.norm(one)) + float(one @ (ball.scale * ball.centre))
    bound += Planner(scaled.domain).price_out(price).best
    policy = policy_from_occupancy(domain.mdp, visits)
    reached = expectation(scaled.domain, policy)
    value = float(slope @ reached.reward)
    if abs(bound - value) > ACCURACY * (1 + abs(value)):
        return None
    return ConstrainedOptimum(
        policy=policy,
        expectation=Expectation(reward * reached.reward, preference * reached.preference),
        multipliers=freeze(unit * y / scaled.row),
        price=freeze(unit * price / scaled.feature),
        value=unit * value,
        bound=unit * bound,
        n_rounds=1,
        ended=Ended.CONVERGED,
    ), unit * t / size[:, None]


def _solved(scaled: Scaled, slope: Vector, balls: list[Ball]) -> tuple[Vector, Vector, Matrix] | None:
    """Visits (C,), multipliers of the half-spaces (m,) and t of each ball (k, d_c), where the library finds them."""
    hull, limits, d_r = flow(scaled.domain), scaled.limits, scaled.domain.n_reward
    features, n = hull.generate.toarray(), hull.generate.shape[1]
    cones = [np.vstack([np.zeros((1, n)), -ball.scale[:, None] * features[d_r:]]) for ball in balls]
    ends = [np.append(ball.radius, -ball.scale * ball.centre) for ball in balls]
    equal, within, m = hull.equal.toarray(), limits.normals @ features, len(limits)
    solution = minimise_conic(
        np.zeros((n, n)),
        -(slope @ features[:d_r]),
        np.vstack([equal, within, -np.eye(n), *cones]),
        np.concatenate([hull.right, limits.offsets, np.zeros(n), *ends]),
        m + n,
        [len(end) for end in ends],
        n_equal=len(equal),
    )
    found = solution.answer
    if solution.ended is not Ended.CONVERGED or not np.isfinite(found.multipliers).all():
        return None
    y, of_cones = found.multipliers[len(equal) :][:m], found.multipliers[len(equal) + m + n :]
    t = -of_cones.reshape(len(balls), -1)[:, 1:]
    # A limit on a feature that is zero everywhere has any multiplier in the library, but costs nothing.
    y = np.where(within.any(axis=1), np.maximum(y, 0.0), 0.0)
    return np.maximum(found.x, 0.0) * scaled.domain.mdp.steps, y, t
