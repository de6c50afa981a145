"""How a teacher that adapts ends: with its best lesson.

The learner's answers may be noisy, and the luckiest of many looks better than it is. So what a lesson earns is the mean
over all rounds in which the learner saw it; and a teacher that has reason to doubt the answers teaches its best lesson
again before it believes in it.
"""

import math
from collections.abc import Sequence

import numpy as np

from tutelage.arrays import Vector
from tutelage.roles import Advice, Round

# Rewards this close, relative to one plus their size, are the same.
SAME = 1e-9


def earned(rounds: Sequence[Round], true_weights: Vector) -> Vector:
    """(n,), what the lesson of each round has earned, on average over all rounds in which the learner saw the same."""
    rewards = np.array([true_weights @ taught.response.expectation.reward for taught in rounds])
    return np.array([rewards[_same_lesson(rounds, number)].mean() for number in range(len(rounds))])


def close(rounds: Sequence[Round], true_weights: Vector, reason: str, bound: float) -> Advice:
    """Nothing more to teach, if the last lesson was the best; or else that one again, with the demonstrations shown.

    bound: where nothing is certified, the answers are in doubt, and a lesson taught once is not yet known to be best.
    """
    worth = earned(rounds, true_weights)
    best = int(worth.argmax())
    is_last = worth[-1] >= worth[best] - SAME * (1 + abs(worth[best]))
    if is_last and (bound < math.inf or len(_same_lesson(rounds, len(rounds) - 1)) > 1):
        return Advice(None, reason, bound)
    return Advice(rounds[best].response.lesson, f"{reason}; the best lesson again, that of round {best + 1}", bound)


def _same_lesson(rounds: Sequence[Round], number: int) -> list[int]:
    """The rounds in which the learner saw the same as in the given one."""
    seen = rounds[number].response.lesson.expectation
    return [i for i, taught in enumerate(rounds) if np.array_equal(taught.response.lesson.expectation, seen)]
