"""How a teacher that adapts ends: with the best lesson it has, taught once more if the last round fell short of it."""

from collections.abc import Sequence

import numpy as np

from tutelage.arrays import Vector
from tutelage.roles import Advice, Round

# Rewards this close, relative to one plus their size, are the same.
SAME = 1e-9


def response_rewards(rounds: Sequence[Round], true_weights: Vector) -> Vector:
    """(n,), what the learner earned in each round."""
    return np.array([true_weights @ taught.response.expectation.reward for taught in rounds])


def is_taught_again(rounds: Sequence[Round]) -> bool:
    """Whether the last lesson is one that the learner has answered before."""
    last = rounds[-1].lesson.expectation
    return any(np.array_equal(last, taught.response.lesson.expectation) for taught in rounds[:-1])


def close(rounds: Sequence[Round], true_weights: Vector, reason: str, bound: float) -> Advice:
    """Nothing more to teach, or the best lesson again, as the learner saw it: with the demonstrations it was shown."""
    rewards = response_rewards(rounds, true_weights)
    best = int(rewards.argmax())
    if is_taught_again(rounds) or rewards[-1] >= rewards[best] - SAME * (1 + abs(rewards[best])):
        return Advice(None, reason, bound)
    return Advice(rounds[best].response.lesson, f"{reason}; the best lesson again, that of round {best + 1}", bound)
