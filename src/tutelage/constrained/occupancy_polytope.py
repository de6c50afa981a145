"""Problems over all policies: the best within limits, the nearest to a target, the least violation.

Each minimises a convex function of the feature expectation mu = (mu_r, mu_c) over the polytope of occupancies z,

    z >= 0,   sum over choices of s' of z = initial(s') + sum over c of discount(c) T(s' | c) z(c)              (App. F)

(unnormalised: the right-hand side is `initial`, without 1 - discount). `search` has the two routes to the minimum.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats
from tutelage.constrained import objectives
from tutelage.constrained.decomposition import decompose, is_spread
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, Route, Scaled, or_one
from tutelage.constrained.search import FEASIBLE, Search, Whole
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.watch import OnProgress, watched


def best_policy(
    domain: Domain,
    weights: ArrayLike,
    limits: HalfSpaces,
    *,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy with the largest `weights @ mu_r` within the limits: a constrained MDP (Sec. 4.1, App. F).

    Raises `InfeasibleConstraints` if no policy is within the limits. accuracy: of the value, relative to the largest
    value that one feature alone could have, plus |value|; the direct route has its library's accuracy, and raises
    `NotConverged` where that is worse than 1e-7. time_limit: in seconds; `OutOfTime` is raised after it. progress:
    called with a `Progress` after each step.
    """
    _check(domain, limits, accuracy, route)
    scaled = Scaled.each(domain, limits)
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    search = Search(scaled, objectives.MostReward(slope), unit)
    if is_spread(domain.mdp):
        search = _with_one_reward(search, slope)
    with watched(time_limit, progress), _answers_as(_as_maximum):
        found = search.solve(accuracy, route, -np.inf)
    return _as_maximum(found)


def _with_one_reward(search: Search, slope: Vector) -> Search:
    """The same search with the reward as its only reward feature, unless a limit is on one of the others.

    Where many states are starts, each policy is then evaluated for fewer features.
    """
    whole, d_r = search.scaled, len(slope)
    if d_r <= 1 or whole.limits.normals[:, :d_r].any():
        return search
    reward = (whole.domain.reward_features @ slope)[:, None]
    scaled = Scaled(
        whole.domain.with_matrices(reward, whole.domain.preference_features, reward_names=("reward",)),
        replace(whole.limits, normals=whole.limits.normals[:, d_r - 1 :]),
        np.concatenate([[1.0], whole.feature[d_r:]]),
        whole.row,
    )
    return Search(scaled, objectives.MostReward(np.ones(1)), search.unit, Whole(whole, slope))


def nearest_policy(
    domain: Domain,
    target: ArrayLike,
    limits: HalfSpaces,
    *,
    norm: float = 2,
    accuracy: float = 1e-8,
    route: Route = "auto",
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> ConstrainedOptimum:
    """The policy within the limits whose mu_r is nearest to the target in the L^p norm, p = 1, 2 or inf (Sec. 3.1).

    Raises `InfeasibleConstraints` where no policy is within the limits. accuracy: of the distance for p = 1 and inf;
    for p = 2 of the point itself, as far as double precision allows; relative to the largest expectation of a reward
    feature plus the distance. time_limit, progress: as for `best_policy`.
    """
    with watched(time_limit, progress):
        return _nearest(domain, reward_vector(domain, target, "target"), limits, norm, accuracy, route)


def _nearest(
    domain: Domain, wanted: Vector, limits: HalfSpaces, norm: float, accuracy: float, route: Route
) -> ConstrainedOptimum:
    _check(domain, limits, accuracy, route)
    scaled = Scaled.matching(domain, limits)
    unit = float(scaled.feature[0])
    wanted = wanted / unit
    if norm == 2:
        # f is strongly convex: 1/2 |x - x*|^2 <= f(x) - f(x*).
        reached = 0.5 * (accuracy * (1 + float(np.abs(wanted).max()))) ** 2
        search = Search(scaled, objectives.NearestSquared(wanted), unit**2)
        with _answers_as(_as_distance):
            found = search.solve(0.5 * accuracy**2, route, reached)
        return _as_distance(found)
    if norm not in (1, np.inf):
        raise InvalidModel(f"norm must be 1, 2 or infinity, got {norm}; no solver here takes another norm")
    with _answers_as(_as_excess):
        found = Search(scaled, objectives.Nearest(wanted, norm), unit).solve(accuracy, route, -np.inf)
    return _as_excess(found)


def least_violation(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-8) -> ConstrainedOptimum:
    """The policy with the least total excess over the limits; its value is that total."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    search = Search(scaled, objectives.LeastViolation(), float(scaled.row.max(initial=1.0)))
    columns, plan = search.opening()
    return _as_excess(search.mixed(columns, plan, limits=scaled.limits, tolerance=accuracy))


def strictest_policy(
    domain: Domain, weights: ArrayLike, limits: HalfSpaces, *, accuracy: float = 1e-8
) -> ConstrainedOptimum:
    """The policy with the largest reward among those with the least total excess over the limits."""
    _check(domain, limits, accuracy, "auto")
    scaled = Scaled.each(domain, limits).with_common_rows(limits)
    slope, unit = in_unit(reward_vector(domain, weights, "weights"), scaled.feature[: domain.n_reward])
    first = Search(scaled, objectives.LeastViolation(), 1.0)
    least = decompose(scaled.domain, first.objective, scaled.limits, *first.opening(), tolerance=0.1 * FEASIBLE)
    # Relax the limit by the rounding error of the minimum, so that the second stage stays feasible.
    total = float(scaled.limits.excess(least.counts).sum()) + 0.1 * FEASIBLE
    second = Search(scaled, objectives.RewardWithinTotal(slope, total), unit)
    with _answers_as(_as_maximum):
        columns = least.columns_for(second.objective, scaled.limits)
        found = second.mixed(columns, least.plan, limits=scaled.limits, tolerance=accuracy)
    return _as_maximum(found)


def require_feasible(domain: Domain, limits: HalfSpaces) -> None:
    """Raise `InfeasibleConstraints` unless some policy is within the limits."""
    if len(limits):
        search = Search(Scaled.each(domain, limits), objectives.LeastViolation(), 1.0)
        search.feasible(*search.opening())


def _check(domain: Domain, limits: HalfSpaces, accuracy: float, route: str) -> None:
    n_features, n_given = len(domain.names), limits.normals.shape[1]
    if n_given != n_features:
        raise InvalidModel(f"the limits have {n_given} features, but the domain has {n_features}")
    if not accuracy > 0:
        raise InvalidModel("accuracy must be positive")
    if route not in get_args(Route):
        raise InvalidModel(f"route must be 'auto', 'decomposition' or 'direct', got {route!r}")


def in_unit(weights: Vector, feature: Vector) -> tuple[Vector, float]:
    """Reward weights (d_r,) of the scaled features, with a largest entry of one, and the unit of their reward."""
    with np.errstate(over="ignore"):
        slope = weights * feature
    if not np.isfinite(slope).all():
        j = int(np.flatnonzero(~np.isfinite(slope))[0])
        raise InvalidModel(
            f"the weight {weights[j]:.3g} and an expectation of up to {feature[j]:.3g} are too far apart: "
            "their product is no double; use other units"
        )
    unit = float(or_one(np.abs(slope).max(initial=0.0)))
    return slope / unit, unit


def _as_maximum(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """The largest reward, from the least negative reward; subtraction from zero does not yield -0.0."""
    return replace(found, value=0.0 - found.value, bound=0.0 - found.bound)


def _as_excess(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """A value that is never negative, with a bound that is not."""
    return replace(found, bound=max(found.bound, 0.0))


def _as_distance(found: ConstrainedOptimum) -> ConstrainedOptimum:
    """The distance, from half its square."""
    value, bound = (float(np.sqrt(2 * max(half, 0.0))) for half in (found.value, found.bound))
    return replace(found, value=value, bound=bound)


@contextmanager
def _answers_as(convert: Callable[[ConstrainedOptimum], ConstrainedOptimum]) -> Iterator[None]:
    """Convert the best answer that a `NotConverged` carries as the answer itself would be."""
    try:
        yield
    except NotConverged as failure:
        # The answer of another problem, that of finding a policy within the limits, is none.
        failure.answer = convert(failure.answer) if isinstance(failure.answer, ConstrainedOptimum) else None
        raise


def reward_vector(domain: Domain, values: ArrayLike, name: str) -> Vector:
    """(d_r,), the values checked: one finite number for each reward feature."""
    checked = floats(values, name, ndim=1)
    check_length(checked, domain.n_reward, name, "reward features")
    return checked
