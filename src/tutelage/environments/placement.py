"""Random placement of the objects and distractors of an object world (Sec. 6), by one of two generators.

`published_placement` follows the published experiments, `text_placement` the paper's text. Both place two objects of
each type on different cells, and leave the start empty. One green distractor lies on a star, and one beside the other
star. One yellow distractor lies at distance 1 from a plus, and one at distance 2 from the other. The generators differ
in the start, in the cells kept empty, in the star and plus that get each distractor, and in the order of the draws.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutelage.environments.preferences import cells_within
from tutelage.outcomes import InvalidModel

OBJECT_TYPES = ("star", "plus", "dot")
N_PER_TYPE = 2

Source = np.random.RandomState | np.random.Generator


class Cells(Mapping[str, tuple[int, ...]]):
    """The cells of each type or colour: an immutable mapping that can be hashed and pickled."""

    __slots__ = ("_pairs",)

    def __init__(self, cells: Mapping[str, Sequence[int]]) -> None:
        self._pairs = tuple((kind, tuple(places)) for kind, places in cells.items())

    def __getitem__(self, kind: str) -> tuple[int, ...]:
        return dict(self._pairs)[kind]

    def __iter__(self) -> Iterator[str]:
        return (kind for kind, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self._pairs))

    def __repr__(self) -> str:
        return repr(dict(self._pairs))


class Placement(NamedTuple):
    """The cell of the start, the cells of each type of object and the cells of each colour of distractor."""

    start: int
    objects: Cells
    distractors: Cells


def published_placement(size: int, seed: int) -> Placement:
    """The worlds of the published experiments; all draws come from one legacy RandomState, in this order.

    The start is a central cell, and its 3x3 block stays empty. Draw i of the objects has type i mod 3. The first star
    and the first plus are those of lower index. Then follow a green at distance 1 from the first star, a green on the
    second star (no draw), a yellow at distance 2 from the first plus, and one at distance 1 from the second plus.
    """
    source = np.random.RandomState(seed)
    start = _central_cell(source, size)
    kept_free = cells_within([start], 1, size)
    drawn = _draw_objects(source, np.delete(np.arange(size * size), kept_free), "the start's 3x3 block")
    objects = {kind: tuple(sorted(drawn[i :: len(OBJECT_TYPES)])) for i, kind in enumerate(OBJECT_TYPES)}
    taken = {*kept_free.tolist(), *drawn}
    (first_star, second_star), (first_plus, second_plus) = objects["star"], objects["plus"]
    green = _draw_beside(source, first_star, 1, size, taken, "green")
    far_yellow = _draw_beside(source, first_plus, 2, size, taken | {green}, "yellow")
    near_yellow = _draw_beside(source, second_plus, 1, size, taken | {green, far_yellow}, "yellow")
    distractors = {"green": (green, second_star), "yellow": (far_yellow, near_yellow)}
    return Placement(start, Cells(objects), Cells(distractors))


def text_placement(size: int, seed: int) -> Placement:
    """The worlds of the paper's text: the start is the top-left cell (Figure 1), every draw is uniform.

    The text leaves three choices open. Here the start stays empty; only the green at distance 0 lies on an object; and
    the star and the plus drawn first have the nearer distractor.
    """
    source, start = np.random.default_rng(seed), 0
    drawn = _draw_objects(source, np.arange(1, size * size), "the start")
    in_order = {kind: drawn[i :: len(OBJECT_TYPES)] for i, kind in enumerate(OBJECT_TYPES)}
    taken = {start, *drawn}
    (first_star, second_star), (first_plus, second_plus) = in_order["star"], in_order["plus"]
    green = _draw_beside(source, second_star, 1, size, taken, "green")
    near_yellow = _draw_beside(source, first_plus, 1, size, taken | {green}, "yellow")
    far_yellow = _draw_beside(source, second_plus, 2, size, taken | {green, near_yellow}, "yellow")
    objects = {kind: tuple(sorted(cells)) for kind, cells in in_order.items()}
    distractors = {"green": (first_star, green), "yellow": (near_yellow, far_yellow)}
    return Placement(start, Cells(objects), Cells(distractors))


def _central_cell(source: np.random.RandomState, size: int) -> int:
    """The centre of a grid of odd size, without a draw; one of the four central cells of a grid of even size."""
    centre, half = size * size // 2, (size - 1) // 2
    if size % 2:
        return centre
    central = [centre - half - 1, centre - half - 2, centre + half, centre + half + 1]
    return int(source.choice(central, p=[0.25] * 4))


def _draw_objects(source: Source, cells: NDArray[np.int64], outside: str) -> tuple[int, ...]:
    n_objects = N_PER_TYPE * len(OBJECT_TYPES)
    if len(cells) < n_objects:
        raise InvalidModel(
            f"size is too small: {len(cells)} cells lie outside {outside}, and {n_objects} objects need one each; "
            "give a larger size"
        )
    return tuple(int(cell) for cell in source.choice(cells, size=n_objects, replace=False))


def _draw_beside(source: Source, cell: int, distance: int, size: int, taken: set[int], colour: str) -> int:
    """One cell at exactly the given distance that is not taken."""
    ring = np.setdiff1d(cells_within([cell], distance, size), cells_within([cell], distance - 1, size))
    candidates = np.setdiff1d(ring, list(taken))
    if not len(candidates):
        raise InvalidModel(
            f"no free cell at distance {distance} from cell {cell} is left for a {colour} distractor; "
            "try another seed or a larger size"
        )
    return int(source.choice(candidates))
