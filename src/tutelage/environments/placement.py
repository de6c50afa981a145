"""Where things are in an object world (Sec. 6): random placement, and the neighbourhoods that learners avoid.

There are two objects of each type. One green distractor lies on a star, and one beside the other star. One yellow
distractor lies at distance 1 from a plus, and one at distance 2 from the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Matrix
from tutelage.outcomes import InvalidModel

Source = np.random.RandomState | np.random.Generator
OBJECT_TYPES = ("star", "plus", "dot")
COLOURS = ("green", "yellow")
# The columns of phi_c in the paper's order: 1 within this distance of a distractor of this colour.
NAMED = {f"{colour} within {k} cell{'' if k == 1 else 's'}": (colour, k) for colour in COLOURS for k in (0, 1, 2)}
# The preferences of each learner of the paper are the first of these columns; their number.
PREFERENCES = {"L1": 0, "L2": 2, "L3": 4, "L4": 5, "L5": 6}


class Cells(dict[str, tuple[int, ...]]):
    """The cells of each type or colour: a dict that cannot be changed, and so can be hashed."""

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise TypeError("the cells of a world cannot be changed; make another world")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Cells, (dict(self),)


class Placement(NamedTuple):
    """The cell of the start, the cells of each type of object and the cells of each colour of distractor."""

    start: int
    objects: Cells
    distractors: Cells


def published_placement(size: int, seed: int) -> Placement:
    """The worlds of the published experiments; all draws come from one legacy RandomState, in this order.

    The start is the centre, or one of the four central cells of an even grid, and its 3x3 block stays empty. The first
    star and the first plus are those of lower index. Then follow a green at distance 1 from the first star, a yellow at
    distance 2 from the first plus, and one at distance 1 from the second plus.
    """
    source = np.random.RandomState(seed)
    start = size * size // 2
    if size % 2 == 0:
        corner = start - size // 2
        start = int(source.choice([corner, corner - 1, corner + size - 1, corner + size], p=[0.25] * 4))
    kept_free = cells_within([start], 1, size)
    drawn = _draw_objects(source, np.delete(np.arange(size * size), kept_free), "the start's 3x3 block")
    objects = Cells({kind: tuple(sorted(cells)) for kind, cells in drawn.items()})
    star, other_star = objects["star"]
    plus, other_plus = objects["plus"]
    taken = {*kept_free.tolist(), *sum(objects.values(), ())}
    green, *yellow = _draw_beside(source, [(star, 1), (plus, 2), (other_plus, 1)], size, taken)
    return Placement(start, objects, Cells(green=(green, other_star), yellow=tuple(yellow)))


def text_placement(size: int, seed: int) -> Placement:
    """The worlds of the paper's text: the start is the top-left cell (Figure 1), every draw is uniform.

    The text leaves three choices open. Here the start stays empty; only the green at distance 0 lies on an object; and
    the star and the plus drawn first have the nearer distractor.
    """
    source = np.random.default_rng(seed)
    drawn = _draw_objects(source, np.arange(1, size * size), "the start")
    star, other_star = drawn["star"]
    plus, other_plus = drawn["plus"]
    taken = {0, *sum(drawn.values(), ())}
    green, *yellow = _draw_beside(source, [(other_star, 1), (plus, 1), (other_plus, 2)], size, taken)
    objects = Cells({kind: tuple(sorted(cells)) for kind, cells in drawn.items()})
    return Placement(0, objects, Cells(green=(star, green), yellow=tuple(yellow)))


def _draw_objects(source: Source, cells: NDArray[np.int64], outside: str) -> dict[str, tuple[int, ...]]:
    """Two cells for each type; draw i has type i mod 3."""
    n_objects = 2 * len(OBJECT_TYPES)
    if len(cells) < n_objects:
        told = f"size is too small: {len(cells)} cells lie outside {outside}"
        raise InvalidModel(f"{told}, and {n_objects} objects need one each; give a larger size")
    drawn = tuple(source.choice(cells, size=n_objects, replace=False).tolist())
    return {kind: drawn[i :: len(OBJECT_TYPES)] for i, kind in enumerate(OBJECT_TYPES)}


def _draw_beside(source: Source, pairs: Sequence[tuple[int, int]], size: int, taken: set[int]) -> list[int]:
    """For each cell and distance, in order, one cell at exactly this distance that is not taken, nor drawn before."""
    drawn: list[int] = []
    for cell, distance in pairs:
        inside = cells_within([cell], distance - 1, size)
        candidates = np.setdiff1d(cells_within([cell], distance, size), [*inside, *taken, *drawn])
        if not len(candidates):
            told = f"no free cell at distance {distance} from cell {cell} is left for a distractor"
            raise InvalidModel(f"{told}; try another seed or a larger size")
        drawn.append(int(source.choice(candidates)))
    return drawn


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
    """(size * size + 1, d_c), phi_c(s): 1 within the distance of a distractor; 0 in the terminal state, the last."""
    names = preference_names(preferences)
    features = np.zeros((size * size + 1, len(names)))
    for column, name in enumerate(names):
        colour, distance = NAMED[name]
        features[cells_within(distractors[colour], distance, size), column] = 1.0
    return features


def cells_within(cells: Sequence[int], distance: int, size: int) -> NDArray[np.int64]:
    """The cells at Chebyshev distance `distance` or less from any of the given cells, in ascending order."""
    is_near = np.zeros((size, size), dtype=np.bool_)
    for cell in cells:
        row, column = divmod(int(cell), size)
        top, left = max(row - distance, 0), max(column - distance, 0)
        is_near[top : row + distance + 1, left : column + distance + 1] = True
    return np.flatnonzero(is_near)
