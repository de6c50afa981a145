"""Pushes: the largest step from mu_L along the true weights that a policy realises (Algorithm 2, LineSearch).

A push of size alpha is realisable if some policy has mu_r = mu_L + alpha w*. Exactly, the largest in [0, longest] is a
constrained MDP, where the rows of B are an orthonormal basis of the complement of w*:

    maximise w* @ mu_r(pi)   subject to   B mu_r(pi) = B mu_L,   w* @ mu_r(pi) <= w* @ mu_L + longest norm_2(w*)^2

As printed, it is found by bisection, with one projection onto the reachable set for every trial.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.mdp.model import Domain
from tutelage.solvers.half_spaces import HalfSpaces, no_limits, reward_limits
from tutelage.solvers.occupancy_polytope import Route, best_policy, nearest_policy


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """A policy (C,) for mu_L + size * w*: one that realises it within the tolerance, or the nearest one."""

    policy: Vector
    size: float
    is_realised: bool


def complement(weights: Vector) -> Matrix:
    """(d_r - 1, d_r), an orthonormal basis of the directions orthogonal to the weights."""
    return np.asarray(np.linalg.svd(weights[None])[2][1:])


def _width(start: Vector, match_tolerance: float) -> float:
    """The largest distance from the line that counts as on it."""
    return match_tolerance * (1 + float(np.abs(start).max()))


def largest_push(
    domain: Domain,
    start: Vector,
    weights: Vector,
    *,
    longest: float,
    match_tolerance: float,
    route: Route = "auto",
) -> Push:
    """The largest realisable push of at most `longest`; raises `InfeasibleConstraints` where there is none at all."""
    found = best_policy(domain, weights, _on_the_line(domain, start, weights, longest, match_tolerance), route=route)
    size = float(weights @ (found.expectation.reward - start) / (weights @ weights))
    return Push(found.policy, size, is_realised=True)


def _on_the_line(domain: Domain, start: Vector, weights: Vector, longest: float, match_tolerance: float) -> HalfSpaces:
    basis, wide = complement(weights), _width(start, match_tolerance)
    normals = np.vstack([basis, -basis, weights])
    end = weights @ start + longest * (weights @ weights)
    offsets = np.concatenate([basis @ start + wide, wide - basis @ start, [end]])
    return reward_limits(domain, normals, offsets, [f"row {number} of the line" for number in range(len(offsets))])


def nearest_push(domain: Domain, start: Vector, weights: Vector, size: float, *, match_tolerance: float) -> Push:
    """The policy nearest to start + size * weights, realisable or not."""
    found = nearest_policy(domain, start + size * weights, no_limits(domain))
    return Push(found.policy, size, found.value <= _width(start, match_tolerance))


@dataclass(frozen=True, slots=True, eq=False)
class Bisection:
    """How Algorithm 2 ends: the largest push lies in [low, high] if it is at least `shortest`; `push` is the lesson."""

    low: float
    high: float
    push: Push


def bisect_push(
    domain: Domain,
    start: Vector,
    weights: Vector,
    ends: tuple[float, float],
    *,
    push_tolerance: float,
    match_tolerance: float,
) -> Bisection:
    """Algorithm 2 as printed, between the shortest and the longest push.

    As in print, the shortest push is the fallback whenever the *last* trial fails, even if an earlier one succeeded.
    The text of the paper asks for the largest push that succeeded.
    """
    low, high = ends
    push = Push(np.zeros(0), low, is_realised=False)
    while high - low > push_tolerance:
        push = nearest_push(domain, start, weights, (high + low) / 2, match_tolerance=match_tolerance)
        if push.is_realised:
            low = push.size
        else:
            high = push.size
    if not push.is_realised:
        push = nearest_push(domain, start, weights, ends[0], match_tolerance=match_tolerance)
    return Bisection(low, high, push)
