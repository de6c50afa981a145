"""What an answer proves about a learner that projects (App. C.1; the proof of Proposition 1).

A learner that projects onto a convex set Omega_r^L answers a lesson mu_T by the point mu_L nearest to it, and all of
Omega_r^L lies on the far side of mu_L:

    <mu_T - mu_L, x - mu_L> <= 0                              for every x in Omega_r^L

So every round is a half-space that holds Omega_r^L, and the most reward within all of them is a bound that no teaching
exceeds.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tutelage.mdp.model import Domain
from tutelage.roles import Round
from tutelage.solvers.half_spaces import HalfSpaces, reward_limits

# By how much, relative to one plus its offset, an answer may be beyond a cut and still be within it.
ROUNDING = 1e-6


def distance(taught: Round) -> float:
    """norm_2(mu_T - mu_L), how far the learner stays from the lesson."""
    return float(np.linalg.norm(taught.lesson.expectation - taught.response.expectation.reward))


def cuts(domain: Domain, rounds: Sequence[Round], slack: Callable[[Round], float]) -> HalfSpaces:
    """<mu_T - mu_L, x - mu_L> <= slack * norm_2(mu_T - mu_L), one for each round in which the two differ.

    slack: how far towards the lesson each cut is moved back.
    """
    telling = [(number, taught) for number, taught in enumerate(rounds, start=1) if distance(taught) > 0]
    normals, offsets = np.zeros((len(telling), domain.n_reward)), np.zeros(len(telling))
    for row, (_, taught) in enumerate(telling):
        done = taught.response.expectation.reward
        normals[row] = (taught.lesson.expectation - done) / distance(taught)
        offsets[row] = normals[row] @ done + slack(taught)
    return reward_limits(domain, normals, offsets, [f"the cut of round {number}" for number, _ in telling])


def are_contradicted(domain: Domain, limits: HalfSpaces, rounds: Sequence[Round]) -> bool:
    """Whether something that the learner did lies beyond a cut: then its answers are not all projections."""
    done = np.array([taught.response.expectation.reward for taught in rounds])
    beyond = limits.normals[:, : domain.n_reward] @ done.T - limits.offsets[:, None]
    return bool((beyond > ROUNDING * (1 + np.abs(limits.offsets))[:, None]).any())


def certified(bound: float, most: float) -> float:
    """The bound; infinite where the learner has been seen to earn more, so that its answers are not all projections."""
    return bound if most <= bound + ROUNDING * (1 + abs(bound)) else math.inf
