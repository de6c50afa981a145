"""The paper's object worlds (Sec. 6): a grid with stars, pluses and dots to collect, and coloured cells to avoid.

The states are the n * n cells, row by row, and one terminal state, the last: absorbing, with all five actions and
without reward. Actions are deterministic; a move off the grid stays. From a cell with an object, *every* action leads
to the terminal state with the end probability, and otherwise to the same cell as without the object.

A world is also a JSON text, such as {"size": 5, "start": 0, "objects": {"star": [24]}, "distractors": {"green": [18]}}.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from tutelage.arrays import Readable, Vector, brief, freeze, refuse, set_fields, vector, whole_number
from tutelage.environments import placement
from tutelage.environments.placement import COLOURS, OBJECT_TYPES, Cells
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import GridNames
from tutelage.outcomes import InvalidModel

ACTIONS = ("up", "left", "down", "right", "stay")
DEFAULT_WEIGHTS = (1.0, 0.9, 0.2)
# The largest grid whose choices can be counted in 32 bits.
LONGEST_SIDE = 20_000
REQUIRED = ("size", "start", "objects", "distractors")
ORIGIN = ("generator", "seed")
OPTIONAL = ("discount", "end_probability", "weights", *ORIGIN)
GENERATORS = {"published": placement.published_placement, "text": placement.text_placement}


@dataclass(frozen=True, slots=True)
class ObjectWorld(Readable):
    """A grid world with objects and distractors, and its true reward weights.

    size: n, for n * n cells; cell (row, column) has index row * n + column. start: the cell of the first state.
    objects: the cells of each type: star, plus, dot; a cell holds at most one object.
    distractors: the cells of each colour: green, yellow; a cell has at most one colour. A distractor may lie on an
        object or on the start. On the start, every policy violates a preference against its cell.
    generator: the origin of the placement: "published", "text" or "hand". seed: of the generator; None for "hand".
    weights: w_r*, one per type.
    """

    size: int
    start: int
    objects: Mapping[str, Sequence[int]]
    distractors: Mapping[str, Sequence[int]]
    generator: str = "hand"
    seed: int | None = None
    discount: float = 0.99
    end_probability: float = 0.1
    weights: Sequence[float] = DEFAULT_WEIGHTS

    def __post_init__(self) -> None:
        size = whole_number(self.size, "size", least=1, most=LONGEST_SIDE)
        if self.generator == "hand" and self.seed is not None:
            raise InvalidModel(f"a world made by hand has no seed, got {self.seed!r}; remove it")
        set_fields(
            self,
            size=size,
            start=whole_number(self.start, "start", least=0, most=size * size - 1),
            objects=_cells(self.objects, OBJECT_TYPES, size, "object"),
            distractors=_cells(self.distractors, COLOURS, size, "distractor"),
            seed=None if self.generator == "hand" else _seed(self.seed, self.generator),
            discount=_fraction(self.discount, "discount"),
            end_probability=_fraction(self.end_probability, "end_probability"),
            weights=tuple(self.true_weights.tolist()),
        )
        if self.discount in (0, 1):
            raise InvalidModel(f"discount must lie strictly between 0 and 1, got {self.discount}")

    @property
    def terminal(self) -> int:
        """The index of the terminal state."""
        return self.size * self.size

    @property
    def true_weights(self) -> Vector:
        """(3,), w_r* for star, plus and dot."""
        return vector(self.weights, "weights", len(OBJECT_TYPES), "types of objects")

    def domain(self, preferences: str | Sequence[str]) -> Domain:
        """What teacher and learner both know. preferences: one of L1 .. L5, or names, as ["green within 1 cell"]."""
        states = np.arange(self.terminal + 1, dtype=np.int32)
        rewards = np.column_stack([np.isin(states, self.objects[kind]) for kind in OBJECT_TYPES])
        # The transition, (5 n^2 + 5, n^2 + 1). A blocked move stays: beyond the edge, each cell is repeated.
        cell = states[:-1].reshape(self.size, self.size)
        wide = np.pad(cell, 1, mode="edge")
        moves = np.stack([wide[:-2, 1:-1], wide[1:-1, :-2], wide[2:, 1:-1], wide[1:-1, 2:], cell], axis=-1)
        next_state = np.append(moves.ravel(), np.full(len(ACTIONS), self.terminal, dtype=np.int32))
        ending = (self.end_probability * rewards.any(axis=1)).repeat(len(ACTIONS))
        starts = np.arange(len(next_state) + 1)
        stays = sparse.csr_array((1 - ending, next_state, starts))
        transition = stays + sparse.csr_array((ending, np.full_like(next_state, self.terminal), starts))
        first_choice = np.arange(self.terminal + 2) * len(ACTIONS)
        mdp = MDP.from_choices(transition, first_choice, states == self.start, self.discount)
        features = placement.preference_features(preferences, self.distractors, self.size)
        cells = GridNames(self.size, self.size)
        return Domain(mdp, rewards, features, OBJECT_TYPES, placement.preference_names(preferences), cells, ACTIONS)

    def path_visits(self, path: Sequence[int]) -> Vector:
        """(S,), the expected discounted visits of an agent that walks along these cells and stays in the last.

        Cell path[t] is reached at time t unless an object ended the game before. Its visit counts
        discount^t * (1 - end_probability)^(objects met before t). The last cell also counts all later terms.
        """
        cells = [whole_number(cell, "each cell of the path", least=0, most=self.terminal - 1) for cell in path]
        if cells[:1] != [self.start]:
            raise InvalidModel(f"a path must begin in the start, cell {self.start}; put this cell first")
        steps = np.abs(np.diff(np.divmod(cells, self.size))).sum(axis=0)
        told = "no single move leads from cell {} to cell {}; add the cells between"
        refuse(steps > 1, lambda t: told.format(*cells[t : t + 2]))
        held = [cell for kind in self.objects.values() for cell in kind]
        later = self.discount * (1 - self.end_probability * np.isin(cells, held))
        weight = np.cumprod([1.0, *later[:-1]])
        weight[-1] /= 1 - later[-1]
        visits = np.bincount(cells, weight, self.terminal + 1).astype(np.float64)
        # All visits sum to 1 / (1 - discount); those not on the grid are in the terminal state.
        visits[self.terminal] = max(1 / (1 - self.discount) - visits.sum(), 0.0)
        return freeze(visits)

    def to_json(self) -> str:
        """The world as a JSON text, one line per field, that `from_json` reads."""
        names = [name for name in REQUIRED + OPTIONAL if name not in ORIGIN or self.generator != "hand"]
        lines = (f"  {json.dumps(name)}: {json.dumps(getattr(self, name))}" for name in names)
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A world from a JSON text; unknown, missing and repeated names of fields are refused."""
        try:
            fields = json.loads(text, object_pairs_hook=_without_repeats)
        except InvalidModel:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidModel(f"a world must be a JSON text: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidModel(f"a world must be a JSON object with {', '.join(REQUIRED)}, got {type(fields).__name__}")
        missing = [name for name in REQUIRED if name not in fields]
        if unknown := [name for name in fields if name not in REQUIRED + OPTIONAL] or missing:
            told = f"the world {'has no' if unknown is missing else 'must not have'} {', '.join(map(brief, unknown))}"
            raise InvalidModel(f"{told}; it needs {', '.join(REQUIRED)}, and may have {', '.join(OPTIONAL)}")
        world = cls(**fields)
        placed = (world.start, world.objects, world.distractors)
        if world.seed is not None and placed != GENERATORS[world.generator](world.size, world.seed):
            told = f"this is not the world that the generator {world.generator!r} makes of seed {world.seed}"
            raise InvalidModel(f"{told}; remove both from a world that was changed by hand")
        return world


def object_world(size: int, seed: int, generator: Literal["published", "text"] = "published") -> ObjectWorld:
    """A random world, placed as in the published experiments or as in the paper's text."""
    checked = _seed(seed, generator)
    placed = GENERATORS[generator](whole_number(size, "size", least=1, most=LONGEST_SIDE), checked)
    return ObjectWorld(size, *placed, generator, seed)


def _seed(seed: Any, generator: Any) -> int:
    if not isinstance(generator, str) or generator not in GENERATORS:
        raise InvalidModel(f"there is no generator {generator!r}; the generators are {', '.join(GENERATORS)}")
    return whole_number(seed, "seed", least=0, most=2**32 - 1)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidModel(f"the world gives {name!r} twice; give it once")
        fields[name] = value
    return fields


def _fraction(value: Any, name: str) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise InvalidModel(f"{name} must be a number from 0 to 1, got {brief(value)}")
    return float(value)


def _cells(given: Any, kinds: tuple[str, ...], size: int, thing: str) -> Cells:
    """The cells of every kind, checked: each lies on the grid and is given once; a kind not given has none."""
    if not isinstance(given, Mapping):
        raise InvalidModel(f"{thing}s must map {', '.join(kinds)} to lists of cells, got {given!r}")
    holder: dict[int, str] = {}
    for kind, places in given.items():
        if kind not in kinds:
            raise InvalidModel(f"there is no {thing} {kind!r}; it must be one of {', '.join(kinds)}")
        if isinstance(places, str) or not isinstance(places, Sequence | np.ndarray):
            raise InvalidModel(f"the cells of {thing} {kind!r} must be a list, got {places!r}")
        for place in places:
            cell = whole_number(place, f"the cell of a {kind}", least=0, most=size * size - 1)
            if cell in holder:
                raise InvalidModel(f"cell {cell} holds both a {holder[cell]} and a {kind}; it can hold one {thing}")
            holder[cell] = kind
    return Cells({kind: tuple(cell for cell, held in holder.items() if held == kind) for kind in kinds})
