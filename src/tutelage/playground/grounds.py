"""Domains and transcripts from files that a user brings, and what the page draws of a domain."""

import base64
import io
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.spatial import ConvexHull

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.data.files import load, open_regular
from tutelage.environments.roads import places, ways
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput

# Of a file that a user brings: its bytes, those of its arrays, and the size of its domain.
LARGEST_FILE = 2 * 1024 * 1024
LARGEST_ARRAYS = 64 * 1024 * 1024
LARGEST_DOMAIN = {"states": 20_000, "choices": 200_000, "reward features": 50, "preference features": 50}
MOST_ROADS = 60_000
# Relative to the size of a set of expectations: smaller widths count as zero.
THIN = 1e-9

ReadT = TypeVar("ReadT")


def brought_domain(text: str) -> Domain:
    """The domain in a file, given in base 64; refused if it is larger than the playground takes."""
    domain = brought(text, load)
    sizes = (domain.mdp.n_states, domain.mdp.n_choices, domain.n_reward, domain.n_preference)
    for size, (what, most) in zip(sizes, LARGEST_DOMAIN.items(), strict=True):
        if size > most:
            raise InvalidInput(f"the domain has {size} {what}; the playground takes at most {most}")
    return domain


def opened_file(path: Path) -> bytes:
    """The content of a file that the page opens first; refused if the page would not take it."""
    with open_regular(path, LARGEST_FILE) as file:
        content = file.read()
    if path.suffix == ".npz":
        brought_domain(base64.b64encode(content).decode())
    return content


class Content(io.BytesIO):
    """A file in memory, in place of a path: nothing that a user brings is written to disk."""

    def __str__(self) -> str:
        return "the file"

    def __fspath__(self) -> str:
        return "the file.npz"


def brought(text: str, reader: Callable[..., ReadT], **options: Domain) -> ReadT:
    """What a reader of files returns for a file, given in base 64."""
    try:
        content = Content(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise InvalidInput("the file is not in base 64") from error
    return reader(content, max_bytes=LARGEST_ARRAYS, **options)


def described(domain: Domain) -> dict[str, Any]:
    """The domain as the page needs it: its sizes, its names, its map, and the states and roads with each feature."""
    mdp, at = domain.mdp, places(domain)
    nowhere = np.full_like(at, np.nan)
    avoidable = [_holders(domain, column, at) for column in domain.preference_features.T]
    return {
        "n_states": mdp.n_states,
        "n_choices": mdp.n_choices,
        "reward_names": domain.reward_names,
        "preference_names": domain.preference_names,
        "starts": np.flatnonzero(mdp.initial),
        "rewarding": [_holders(domain, column, nowhere)[0] for column in domain.reward_features.T],
        "avoidable": [states for states, _ in avoidable],
        "avoidable_roads": [roads for _, roads in avoidable],
        "state_names": None if domain.state_names is None else [str(name)[:40] for name in domain.state_names],
        "map": _map(domain, at) if np.isfinite(at).any() else None,
    }


def _map(domain: Domain, at: Matrix) -> dict[str, Any]:
    ends, choices, _ = ways(domain, np.arange(domain.mdp.n_choices), at)
    roads, first = _roads(ends)
    is_placed = np.asarray(np.isfinite(at).all(axis=1))
    known = at[is_placed]
    steps = np.abs(at[roads[:, 0]] - at[roads[:, 1]]).sum(axis=1)
    is_cells = (known == np.round(known)).all() and len(np.unique(known, axis=0)) == len(known)
    streets = None if domain.choice_names is None else [str(domain.choice_name(row))[:40] for row in choices[first]]
    pairs = zip(np.round(at, 6).tolist(), is_placed, strict=True)
    return {
        "places": [place if has_place else None for place, has_place in pairs],
        "roads": roads,
        "streets": streets,
        # A step of a grid may lead back to its start, as from a cliff.
        "is_grid": bool(is_cells and len(steps) and np.median(steps) == 1.0),
    }


def _holders(domain: Domain, column: Vector, at: Matrix) -> tuple[Indices, Indices]:
    """The states and the roads with a feature. A choice that is no road counts as its state."""
    rows = np.flatnonzero(column)
    if len(column) == domain.mdp.n_states:
        return rows, rows[:0]
    ends, made_by, _ = ways(domain, rows, at)
    still = domain.mdp.state_of_choice[np.setdiff1d(rows, made_by)]
    return np.unique(still), _roads(ends)[0]


def _roads(ends: Indices) -> tuple[Indices, Indices]:
    """The different roads between pairs of states (k, 2), in either direction, and the first pair of each."""
    roads, first = np.unique(np.sort(ends, axis=1), axis=0, return_index=True)
    return roads[:MOST_ROADS], first[:MOST_ROADS]


def corners(points: Matrix) -> Matrix:
    """(k, d), the corners of the convex hull of points (n, d), which may be flat; in cyclic order for a polygon."""
    offsets = points - points.mean(axis=0)
    _, sizes, axes = np.linalg.svd(offsets, full_matrices=False)
    rank = int((sizes > THIN * (1 + sizes.max(initial=0.0))).sum())
    if rank == 0:
        return points[:1]
    inner = offsets @ axes[:rank].T
    if rank == 1:
        return points[[int(inner.argmin()), int(inner.argmax())]]
    return np.asarray(points[ConvexHull(inner).vertices])


def clipped(points: Matrix, normals: Matrix, offsets: Vector) -> Matrix:
    """(k, d), the corners of the convex hull of points, within half-spaces normals @ x <= offsets; may be empty.

    Each new corner is the intersection of an edge with the boundary of a half-space. The intersections of all segments
    from inside to outside are computed; those of segments that are not edges lie inside the hull and are dropped.
    """
    for normal, offset in zip(normals, offsets, strict=True):
        beyond = points @ normal - offset
        is_kept = beyond <= THIN * (1 + np.abs(points).max(initial=0.0))
        if is_kept.all():
            continue
        if not is_kept.any():
            return points[:0]
        inside = np.minimum(beyond[is_kept], 0.0)[:, None]
        share = (-inside / (beyond[~is_kept] - inside))[:, :, None]
        crossed = (1 - share) * points[is_kept][:, None] + share * points[~is_kept]
        points = corners(np.concatenate([points[is_kept], crossed.reshape(-1, points.shape[1])]))
    return points


def shadows(points: Matrix) -> list[Matrix]:
    """The corners of the projections onto each pair of axes, in the order of `itertools.combinations`."""
    pairs = combinations(range(points.shape[1]), 2)
    return [corners(points[:, pair]) if len(points) else points[:, pair] for pair in map(list, pairs)]
