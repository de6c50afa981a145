"""The preferences of the learners L1..L5 (Sec. 6): to stay away from the neighbourhoods of distractors.

"At a distance of k cells" means *within* k cells, as in Figure 1 ("within a 3x3 neighborhood, i.e., 1-cell distance").
So the features of one colour are nested: within 0 implies within 1 implies within 2.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Matrix
from tutelage.outcomes import InvalidModel

COLOURS = ("green", "yellow")

# The columns of phi_c in the paper's order: (colour, distance), the feature that is 1 within this distance of a
# distractor of this colour.
COLUMNS = tuple((colour, distance) for colour in COLOURS for distance in (0, 1, 2))

# The same columns by the names in constraints, tables and pictures.
NAMED = {f"{colour} within {k} cell{'' if k == 1 else 's'}": (colour, k) for colour, k in COLUMNS}

# Each learner of the paper has the first columns as its preferences; this is their number.
PREFERENCES = {"L1": 0, "L2": 2, "L3": 4, "L4": 5, "L5": 6}


def preference_names(preferences: str | Sequence[str]) -> tuple[str, ...]:
    """(d_c,), names such as "green within 1 cell", of one of L1 .. L5, or the names themselves, checked."""
    if isinstance(preferences, str):
        if preferences not in PREFERENCES:
            raise InvalidModel(f"there is no learner {preferences!r}; the learners are {', '.join(PREFERENCES)}")
        return tuple(NAMED)[: PREFERENCES[preferences]]
    for number, name in enumerate(preferences):
        if name not in NAMED:
            raise InvalidModel(f"there is no preference {name!r}; the preferences are {', '.join(NAMED)}")
        if name in preferences[:number]:
            raise InvalidModel(f"the preference {name!r} is given twice; give it once")
    return tuple(preferences)


def preference_features(
    preferences: str | Sequence[str], distractors: Mapping[str, Sequence[int]], size: int
) -> Matrix:
    """(size * size + 1, d_c), phi_c(s): 1 within the distance of a distractor; 0 in the terminal state, the last.

    preferences: as in `preference_names`. distractors: the cells of each colour.
    """
    names = preference_names(preferences)
    features = np.zeros((size * size + 1, len(names)))
    for column, name in enumerate(names):
        colour, distance = NAMED[name]
        features[cells_within(distractors[colour], distance, size), column] = 1.0
    return features


def cells_within(cells: Sequence[int], distance: int, size: int) -> NDArray[np.int64]:
    """The cells at Chebyshev distance `distance` or less from any of the given cells, in ascending order."""
    rows, columns = np.divmod(np.asarray(cells, dtype=np.int64), size)
    reach = np.arange(-distance, distance + 1)
    # Axes: the given cells, the steps down, the steps to the right.
    down = rows[:, None, None] + reach[:, None]
    right = columns[:, None, None] + reach
    in_grid = (down >= 0) & (down < size) & (right >= 0) & (right < size)
    return np.unique((down * size + right)[in_grid])
