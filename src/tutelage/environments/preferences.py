"""What the learners L1..L5 would rather keep away from (Sec. 6): distractors within so many cells.

"At a distance of k cells" is read as *within* k cells, as Figure 1 has it ("within a 3x3 neighborhood, i.e., 1-cell
distance"), so that the columns of one colour are nested: within 0 implies within 1 implies within 2.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Matrix
from tutelage.outcomes import InvalidModel

COLOURS = ("green", "yellow")

# The columns of phi_c in the paper's order: the colour of a distractor, and how near it may be without being noticed.
COLUMNS = tuple((colour, distance) for colour in COLOURS for distance in (0, 1, 2))

# By the names that constraints, tables and pictures give them.
NAMED = {f"{colour} within {distance} cell{'' if distance == 1 else 's'}": (colour, distance)
         for colour, distance in COLUMNS}  # fmt: skip

# A learner of the paper notices the first so many columns.
PREFERENCES = {"L1": 0, "L2": 2, "L3": 4, "L4": 5, "L5": 6}


def preference_names(learner: str | Sequence[str]) -> tuple[str, ...]:
    """(d_c,), such as "green within 1 cell": those of L1 .. L5; or the given ones, in any number and order."""
    if isinstance(learner, str):
        if learner not in PREFERENCES:
            raise InvalidModel(f"there is no learner {learner!r}; the learners are {', '.join(PREFERENCES)}")
        return tuple(NAMED)[: PREFERENCES[learner]]
    for number, name in enumerate(learner):
        if name not in NAMED:
            raise InvalidModel(f"there is no preference {name!r}; they are {', '.join(NAMED)}")
        if name in learner[:number]:
            raise InvalidModel(f"the preference {name!r} is given twice")
    return tuple(learner)


def preference_features(learner: str | Sequence[str], distractors: Mapping[str, Sequence[int]], size: int) -> Matrix:
    """(size * size + 1, d_c), phi_c(s): one where the distractor is near; the terminal state, last, is near nothing.

    learner: as of `preference_names`.
    """
    names = preference_names(learner)
    features = np.zeros((size * size + 1, len(names)))
    for column, name in enumerate(names):
        colour, distance = NAMED[name]
        features[cells_within(distractors[colour], distance, size), column] = 1.0
    return features


def cells_within(cells: Sequence[int], distance: int, size: int) -> NDArray[np.int64]:
    """The cells of the grid at most `distance` from any of the given ones, in steps of a king, ascending."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), size)
    reach = np.arange(-distance, distance + 1)
    # One axis for the cells, one for the steps down, one for the steps across.
    down = rows[:, None, None] + reach[:, None]
    across = columns[:, None, None] + reach
    in_grid = (down >= 0) & (down < size) & (across >= 0) & (across < size)
    return np.unique((down * size + across)[in_grid])
