"""The driving simulator of Kamalaruban et al. 2019 and Yengera et al. 2021: 40 roads of two lanes and ten rows.

A drive goes up one road to its end, a state without features. Straight on keeps the lane; left and right change it,
and beyond the edge of the road one lands in either lane with equal probability. There are eight types of roads, with
stones, grass, cars, pedestrians, lanes for full cars (HOV) and police. A cell with a car or a pedestrian in front of it
has a feature of its own. The reward is linear in these features, a constant for each step, and "HOV with police".
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, floats, freeze, generator, whole_number
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import feature
from tutelage.outcomes import InvalidModel

ROADS, ROWS, LANES, TYPES = 40, 10, 2, 8
SIDES = ("left", "right")
# The two lanes, equally likely, that each choice of each lane leads to: straight on, left and right.
REACHED = [[[0, 0], [0, 1], [1, 1]], [[1, 1], [0, 0], [0, 1]]]
FEATURES = ("stone", "grass", "car", "pedestrian", "HOV", "car in front", "pedestrian in front", "police")
TRUE_WEIGHTS = {"stone": -1.0, "grass": -0.5, "car": -5.0, "pedestrian": -10.0, "HOV": 1.0, "car in front": -2.0}
TRUE_WEIGHTS |= {"pedestrian in front": -5.0, "police": 0.0, "step": 0.5, "HOV with police": -6.0}
# By types of roads: what lies on their cells at random, with its probability, and what all their right lanes have.
SCATTERED = (("car", (1, 3, 5), 0.25), ("stone", (3,), 0.2), ("grass", (5,), 0.1), ("pedestrian", (6,), 0.1))
ON_THE_RIGHT = (("stone", (2,)), ("grass", (4, 6)), ("HOV", (7,)))


@dataclass(frozen=True, slots=True, eq=False)
class DrivingWorld(Readable):
    """domain: rewards are linear in its features. cells: (800, 8), the features of each cell by road, row and lane."""

    domain: Domain
    true_weights: Vector
    cells: Matrix


def driving_world(
    seed: int = 0, *, cells: ArrayLike | None = None, preferences: tuple[str, ...] = ("HOV", "car in front")
) -> DrivingWorld:
    """A world at random, or with the features of its cells given, (800, 8) in the order of `FEATURES`.

    preferences: the features that a learner may avoid.
    """
    rng = generator(whole_number(seed, "seed", least=0))
    on_cells = _random_cells(rng) if cells is None else floats(cells, "cells", ndim=2)
    needed = (ROADS * ROWS * LANES, len(FEATURES))
    if on_cells.shape != needed:
        raise InvalidModel(f"cells must be of shape {needed}, got {on_cells.shape}")
    has = dict(zip(FEATURES, on_cells.T, strict=True))
    steps = np.ones(len(on_cells))
    # The end follows the cells, without features.
    reward = np.pad(np.column_stack([on_cells, steps, has["HOV"] * has["police"]]), ((0, 1), (0, 0)))
    names = tuple(TRUE_WEIGHTS)
    avoided = reward[:, [names.index(feature(names, name)) for name in preferences]]
    domain = Domain(_mdp(), reward, avoided, names, preferences)
    return DrivingWorld(domain, freeze(np.array(list(TRUE_WEIGHTS.values()))), freeze(on_cells))


def _mdp() -> MDP:
    """Three choices in each cell and one at the end."""
    cells = np.arange(ROADS * ROWS * LANES).reshape(ROADS, ROWS, LANES)
    end = cells.size
    ahead = np.concatenate([cells[:, 1:], np.full((ROADS, 1, LANES), end)], axis=1)
    after = np.append(ahead[:, :, REACHED], [end, end])
    transition = sparse.csr_array((np.full(len(after), 0.5), after, np.arange(0, len(after) + 1, 2)))
    first_choice = np.append(3 * np.arange(end + 1), 3 * end + 1)
    initial = np.append((cells % (ROWS * LANES) == 0) / ROADS, 0.0)
    names = [f"road {road}, row {row}, {SIDES[lane]}" for road, row, lane in np.ndindex(cells.shape)]
    actions = ["straight", *SIDES] * end
    return MDP.from_choices(
        transition, first_choice, initial, 0.99, state_names=[*names, "end"], choice_names=[*actions, "stay"]
    )


def _random_cells(rng: np.random.Generator) -> Matrix:
    """The features of each cell; densities as far as they can be read from published worlds."""
    has = {name: np.zeros((ROADS, ROWS, LANES), dtype=np.bool_) for name in FEATURES}
    kind = np.arange(ROADS) % TYPES
    for name, types, chance in SCATTERED:
        places = np.flatnonzero(np.isin(kind, types))
        has[name][places] = rng.random((len(places), ROWS, LANES)) < chance
    for name, right_types in ON_THE_RIGHT:
        has[name][np.isin(kind, right_types), :, 1] = True
    for name in ("stone", "grass"):
        has[name] &= ~has["car"] & ~has["pedestrian"]
    for road in np.flatnonzero(kind == 7):
        has["police"][road, rng.choice(ROWS, size=2, replace=False)] = True
    for name in ("car", "pedestrian"):
        has[f"{name} in front"][:, :-1] = has[name][:, 1:]
    return np.stack([has[name].reshape(-1) for name in FEATURES], axis=1).astype(np.float64)
