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
    n_cells = ROADS * ROWS * LANES
    road, row, lane = np.unravel_index(np.arange(n_cells), (ROADS, ROWS, LANES))
    is_last = row == ROWS - 1
    ahead = np.where(is_last, n_cells, (road * ROWS + row + 1) * LANES)
    rows = []
    for choice in range(3):
        # Straight on, left, right: the lane that is wanted, or both where there is none.
        for side in range(LANES):
            wanted = lane if choice == 0 else np.full(n_cells, choice - 1)
            is_off = (choice > 0) & (lane == wanted)
            share = np.where(is_last, float(side == 0), np.where(is_off, 0.5, wanted == side))
            rows.append((3 * np.arange(n_cells) + choice, ahead + np.where(is_last, 0, side), share))
    at, to, share = (np.concatenate(part) for part in zip(*rows, strict=True))
    at, to, share = np.append(at, 3 * n_cells), np.append(to, n_cells), np.append(share, 1.0)
    is_real = share > 0
    transition = sparse.csr_array((share[is_real], (at[is_real], to[is_real])), shape=(3 * n_cells + 1, n_cells + 1))
    first = np.append(3 * np.arange(n_cells + 1), 3 * n_cells + 1)
    initial = np.append(((row == 0) & (lane == 0)) / ROADS, 0.0)
    cells = [f"road {r}, row {y}, {('left', 'right')[x]}" for r, y, x in zip(road, row, lane, strict=True)]
    moves = ["straight", "left", "right"] * n_cells
    names = {"state_names": [*cells, "end"], "choice_names": [*moves, "stay"]}
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
