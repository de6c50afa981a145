"""The driving simulator of Kamalaruban et al. 2019 and Yengera et al. 2021: 40 roads of two lanes and ten rows.

A drive goes up one road to its end, a state without features. Straight on keeps the lane; left and right change it,
and beyond the edge of the road one lands in either lane with equal probability. There are eight types of roads, with
stones, grass, cars, pedestrians, lanes for full cars (HOV) and police. A cell with a car or a pedestrian in front of it
has a feature of its own. The reward is linear in these features, a constant for each step, and "HOV with police".
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, floats, freeze
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidModel

ROADS, ROWS, LANES, TYPES = 40, 10, 2, 8
FEATURES = ("stone", "grass", "car", "pedestrian", "HOV", "car in front", "pedestrian in front", "police")
TRUE_WEIGHTS = {"stone": -1.0, "grass": -0.5, "car": -5.0, "pedestrian": -10.0, "HOV": 1.0, "car in front": -2.0}
TRUE_WEIGHTS |= {"pedestrian in front": -5.0, "police": 0.0, "step": 0.5, "HOV with police": -6.0}


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
    on_cells = _random_cells(np.random.default_rng(seed)) if cells is None else floats(cells, "cells", ndim=2)
    if on_cells.shape != (ROADS * ROWS * LANES, len(FEATURES)):
        raise InvalidModel(f"cells must be of shape ({ROADS * ROWS * LANES}, {len(FEATURES)}), got {on_cells.shape}")
    police = on_cells[:, [FEATURES.index("HOV")]] * on_cells[:, [FEATURES.index("police")]]
    reward = np.vstack([np.hstack([on_cells, np.ones((len(on_cells), 1)), police]), np.zeros(len(TRUE_WEIGHTS))])
    avoided = reward[:, [list(TRUE_WEIGHTS).index(name) for name in preferences]]
    domain = Domain(_mdp(), reward, avoided, tuple(TRUE_WEIGHTS), preferences)
    return DrivingWorld(domain, freeze(np.array(list(TRUE_WEIGHTS.values()))), freeze(on_cells))


def _mdp() -> MDP:
    """Three choices in each cell and one at the end."""
    n_cells, entries, cells = ROADS * ROWS * LANES, [], []
    for cell, (road, row, lane) in enumerate(np.ndindex(ROADS, ROWS, LANES)):
        cells.append(f"road {road}, row {row}, {('left', 'right')[lane]}")
        for choice in range(3):
            # Straight on, left, right: the lane that is wanted, or both where there is none.
            wanted = lane if choice == 0 else choice - 1
            lanes = (0, 1) if choice > 0 and lane == wanted else (wanted,)
            ahead = [n_cells] if row == ROWS - 1 else [cell - lane + LANES + side for side in lanes]
            entries += [(3 * cell + choice, state, 1 / len(ahead)) for state in ahead]
    at, to, share = zip(*entries, (3 * n_cells, n_cells, 1.0), strict=True)
    transition = sparse.csr_array((share, (at, to)), shape=(3 * n_cells + 1, n_cells + 1))
    first = np.append(3 * np.arange(n_cells + 1), 3 * n_cells + 1)
    initial = np.append((np.arange(n_cells) % (ROWS * LANES) == 0) / ROADS, 0.0)
    names = {"state_names": [*cells, "end"], "choice_names": [*["straight", "left", "right"] * n_cells, "stay"]}
    return MDP.from_choices(transition, first, initial, 0.99, **names)


def _random_cells(rng: np.random.Generator) -> Matrix:
    """The features of each cell; densities as far as they can be read from published worlds."""
    has = {name: np.zeros((ROADS, ROWS, LANES), dtype=np.bool_) for name in FEATURES}
    kind = np.arange(ROADS) % TYPES
    for name, types, chance in (("car", (1, 3, 5), 0.25), ("stone", (3,), 0.2), ("grass", (5,), 0.1)):
        places = np.isin(kind, types)
        has[name][places] = rng.random((int(places.sum()), ROWS, LANES)) < chance
    has["stone"][kind == 2, :, 1] = has["grass"][np.isin(kind, (4, 6)), :, 1] = has["HOV"][kind == 7, :, 1] = True
    has["pedestrian"][kind == 6] = rng.random((int((kind == 6).sum()), ROWS, LANES)) < 0.1
    for name in ("stone", "grass"):
        has[name] &= ~has["car"] & ~has["pedestrian"]
    for road in np.flatnonzero(kind == 7):
        has["police"][road, rng.choice(ROWS, size=2, replace=False)] = True
    for name in ("car", "pedestrian"):
        has[f"{name} in front"][:, :-1] = has[name][:, 1:]
    return np.stack([has[name].reshape(-1) for name in FEATURES], axis=1).astype(np.float64)
