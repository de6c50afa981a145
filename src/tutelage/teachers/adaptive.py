"""What the adaptive teachers share: half-spaces that contain the learner's feasible set, and how the rounds end.

A learner that projects onto a convex set Omega_r^L answers a lesson mu_T with the nearest point mu_L of that set. By
the variational inequality of the projection (App. C.1; the proof of Proposition 1),

    <mu_T - mu_L, x - mu_L> <= 0                              for every x in Omega_r^L

So every round yields a half-space that contains Omega_r^L, and the largest reward within all of them is a bound that no
lesson exceeds.

The learner's responses may be noisy, and the largest of many noisy rewards is biased upwards. So the reward of a lesson
is its mean over all rounds in which the learner saw that lesson. A teacher whose bound is not certified repeats its
best lesson before it ends.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tutelage.arrays import Flags, Vector
from tutelage.constrained.problem import HalfSpaces, reward_limits, sizes
from tutelage.model.mdp import Domain
from tutelage.roles import Advice, Round

# A response may exceed a cut by this much, relative to the largest feature plus the cut's offset, and count as inside.
CUT_SLACK = 1e-6
# The accuracy of a response, relative to the largest feature plus its size.
SOLVED = 1e-8
# Rewards this close, relative to the reward of one step plus their size, are equal.
EQUAL_REWARD = 1e-9


def distance(taught: Round) -> float:
    """norm_2(mu_T - mu_L) of a round."""
    return float(np.linalg.norm(taught.lesson.expectation - taught.response.expectation.reward))


def cuts(domain: Domain, rounds: Sequence[Round], slack: Callable[[Round], float]) -> HalfSpaces:
    """<mu_T - mu_L, x - mu_L> <= slack * norm_2(mu_T - mu_L), one for each round in which the two differ.

    slack: the distance by which each cut is moved towards the lesson.
    """
    differing = [(number, taught) for number, taught in enumerate(rounds, start=1) if distance(taught) > 0]
    normals, offsets = np.zeros((len(differing), domain.n_reward)), np.zeros(len(differing))
    for row, (_, taught) in enumerate(differing):
        done = taught.response.expectation.reward
        normals[row] = (taught.lesson.expectation - done) / distance(taught)
        offsets[row] = normals[row] @ done + slack(taught)
    return reward_limits(domain, normals, offsets, [f"the cut of round {number}" for number, _ in differing])


def are_contradicted(domain: Domain, limits: HalfSpaces, rounds: Sequence[Round]) -> bool:
    """Whether a response lies outside a cut, so that the responses cannot all be projections."""
    done = np.array([taught.response.expectation.reward for taught in rounds])
    excess = limits.normals[:, : domain.n_reward] @ done.T - limits.offsets[:, None]
    largest = sizes(domain)[: domain.n_reward].max()
    unit = largest / domain.mdp.steps
    allowed = CUT_SLACK * (unit + np.abs(limits.offsets)) + SOLVED * largest
    return bool((excess > allowed[:, None]).any())


def certified(bound: float, most: float, unit: float) -> float:
    """The bound, or infinity where the learner has earned more, so that its responses cannot all be projections.

    unit: the reward of one step.
    """
    return bound if most <= bound + CUT_SLACK * (unit + abs(bound)) else math.inf


def mean_rewards(rounds: Sequence[Round], true_weights: Vector) -> Vector:
    """(n,), the reward of each round's lesson, averaged over all rounds in which the learner saw the same lesson."""
    rewards = np.array([taught.response.expectation.reward for taught in rounds]) @ true_weights
    same = _is_same_lesson(rounds)
    return np.asarray(same @ rewards / same.sum(axis=1))


def doubt(bound: float) -> str:
    """What to add to a reason where nothing is certified."""
    return "" if bound < math.inf else "; the responses are not projections onto one convex set: nothing is certified"


def close(rounds: Sequence[Round], rewards: Vector, reason: str, bound: float, unit: float) -> Advice:
    """End the rounds if the last lesson was the best one; otherwise repeat the best lesson with its demonstrations.

    rewards: (n,), of each round's lesson (`mean_rewards`). unit: the reward of one step, below a small part of which
    rewards do not differ. Where the bound is not certified, a lesson that was taught only once is repeated too.
    """
    best = int(rewards.argmax())
    is_last = rewards[-1] >= rewards[best] - EQUAL_REWARD * (unit + abs(rewards[best]))
    if is_last and (bound < math.inf or _is_same_lesson(rounds)[-1].sum() > 1):
        return Advice(None, reason + doubt(bound), bound)
    again = f"{reason}; the best lesson again, that of round {best + 1}{doubt(bound)}"
    return Advice(rounds[best].response.lesson, again, bound)


def _is_same_lesson(rounds: Sequence[Round]) -> Flags:
    """(n, n), whether the learner saw the same lesson in both rounds."""
    seen = np.array([taught.response.lesson.expectation for taught in rounds])
    return np.asarray((seen[:, None] == seen[None]).all(axis=2))
