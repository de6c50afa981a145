"""How a teacher that adapts ends: with its best lesson.

The learner's answers may be noisy, and the luckiest of many looks better than it is. So what a lesson earns is the mean
over all rounds in which the learner saw it; and a teacher that has reason to doubt the answers teaches its best lesson
again before it believes in it.
"""

import math
from collections.abc import Sequence

import numpy as np

from tutelage.arrays import Flags, Vector
from tutelage.roles import Advice, Round

# Rewards this close, relative to one plus their size, are the same.
SAME = 1e-9


def earned(rounds: Sequence[Round], true_weights: Vector) -> Vector:
    """(n,), what the lesson of each round has earned, on average over all rounds in which the learner saw the same."""
    rewards = np.array([taught.response.expectation.reward for taught in rounds]) @ true_weights
    same = _is_same_lesson(rounds)
    return np.asarray(same @ rewards / same.sum(axis=1))


def doubt(bound: float) -> str:
    """What to add to a reason where nothing is certified."""
    return "" if bound < math.inf else "; the answers contradict each other as projections, so nothing is certified"


def close(rounds: Sequence[Round], true_weights: Vector, reason: str, bound: float) -> Advice:
    """Nothing more to teach, if the last lesson was the best; or else that one again, with the demonstrations shown.

    bound: where nothing is certified, the answers are in doubt, and a lesson taught once is not yet known to be best.
    """
    worth = earned(rounds, true_weights)
    best = int(worth.argmax())
    is_last = worth[-1] >= worth[best] - SAME * (1 + abs(worth[best]))
    if is_last and (bound < math.inf or _is_same_lesson(rounds)[-1].sum() > 1):
        return Advice(None, reason + doubt(bound), bound)
    again = f"{reason}; the best lesson again, that of round {best + 1}{doubt(bound)}"
    return Advice(rounds[best].response.lesson, again, bound)


def _is_same_lesson(rounds: Sequence[Round]) -> Flags:
    """(n, n), whether the learner saw the same in both rounds."""
    seen = np.array([taught.response.lesson.expectation for taught in rounds])
    return np.asarray((seen[:, None] == seen[None]).all(axis=2))
