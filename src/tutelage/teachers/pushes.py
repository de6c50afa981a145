"""Pushes: the largest step from mu_L along the true weights that a policy realises (Algorithm 2, LineSearch).

A push of size alpha is realisable if some policy has mu_r = mu_L + alpha w*. Exactly, the largest in [0, longest] is a
constrained MDP, where the rows of B are an orthonormal basis of the complement of w*:

    maximise w* @ mu_r(pi)   subject to   B mu_r(pi) = B mu_L,   w* @ mu_r(pi) <= w* @ mu_L + longest norm_2(w*)^2

As printed, it is found by bisection, with one projection onto the reachable set for every trial.
"""

import math
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import HalfSpaces, Route, no_limits, or_one, reward_limits
from tutelage.model.mdp import Domain


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """A policy (C,) for mu_L + size * w*: one that realises it within the tolerance, or the nearest one."""

    policy: Vector
    size: float
    is_realised: bool


def complement(weights: Vector) -> Matrix:
    """(d_r - 1, d_r), an orthonormal basis of the directions orthogonal to the weights."""
    return np.asarray(np.linalg.svd(weights[None] / float(np.abs(weights).max()))[2][1:])


def _width(domain: Domain, start: Vector, match_tolerance: float) -> float:
    """The largest distance from the line that counts as on it."""
    unit = float(or_one(np.abs(domain.reward_features).max()))
    return match_tolerance * (unit + float(np.abs(start).max()))


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
    # Divided by the largest weight first, so that no square overflows.
    unit = weights / float(np.abs(weights).max())
    size = float(unit @ (found.expectation.reward - start) / (unit @ weights))
    return Push(found.policy, size, is_realised=True)


def _on_the_line(domain: Domain, start: Vector, weights: Vector, longest: float, match_tolerance: float) -> HalfSpaces:
    basis, wide = complement(weights), _width(domain, start, match_tolerance)
    unit = weights / float(np.abs(weights).max())
    normals = np.vstack([basis, -basis, unit])
    end = unit @ start + longest * (unit @ weights)
    offsets = np.concatenate([basis @ start + wide, wide - basis @ start, [end]])
    return reward_limits(domain, normals, offsets, [f"row {number} of the line" for number in range(len(offsets))])


def nearest_push(domain: Domain, start: Vector, weights: Vector, size: float, *, match_tolerance: float) -> Push:
    """The policy nearest to start + size * weights, realisable or not."""
    found = nearest_policy(domain, start + size * weights, no_limits(domain))
    return Push(found.policy, size, found.value <= _width(domain, start, match_tolerance))


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


def proposition_1_bound(gain: float, push: float, diameter: float, weights: Vector) -> float:
    """Proposition 1 (Eq. 8): an upper bound on R-bar_L - R(mu_L), the reward that a projecting learner can still gain.

        R-bar_L - R(mu_L) <= gain + norm_2(w*) D sqrt(gain / (push norm_2(w*)^2 - gain))

    gain: w* @ (mu_L' - mu_L), the reward gained by the realised lesson mu_T = mu_L + push w*. diameter: D, of Omega_r.

    Proof, for weights of any length. Let n = norm_2(w*) and mu_L' - mu_L = gain w* / n^2 + v, with v orthogonal to w*.
    As a projection, mu_L' satisfies <mu_T - mu_L', x - mu_L'> <= 0 for each x in Omega_r^L. At x = mu_L this reads
    v @ v <= gain (push - gain / n^2); hence 0 <= gain <= push n^2. For any x, let s = w* @ (x - mu_L') and let u be the
    part of x - mu_L' that is orthogonal to w*. Then s (push - gain / n^2) <= u @ v, and with norm_2(u) <= D
    s <= n D sqrt(gain / (push n^2 - gain)), which is Eq. 9 with the slope of Eq. 10.

    If gain = push n^2, then v = 0: the learner matches the lesson, the inequality above holds for every x, and the
    proposition bounds nothing. The function returns infinity for gain >= push n^2, and takes a gain below 0 as 0.
    """
    gain, norm = max(gain, 0.0), float(np.linalg.norm(weights))
    rest = push * norm**2 - gain
    return gain + norm * diameter * math.sqrt(gain / rest) if rest > 0 else math.inf
