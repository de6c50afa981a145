"""Polygons for plots: a convex set of reward expectations, cut by half-spaces, projected onto pairs of axes."""

from itertools import combinations

import numpy as np
from scipy.spatial import ConvexHull

from tutelage.arrays import Matrix, Vector

# Relative to the size of a set: smaller widths count as zero.
THIN = 1e-9


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
        tolerance = THIN * (1 + float(np.abs(points).max(initial=0.0)))
        kept, lost = points[beyond <= tolerance], points[beyond > tolerance]
        if not len(lost):
            continue
        if not len(kept):
            return np.zeros((0, points.shape[1]))
        inside, outside = np.minimum(beyond[beyond <= tolerance], 0.0), beyond[beyond > tolerance]
        share = (-inside[:, None] / (outside - inside[:, None]))[:, :, None]
        crossed = (1 - share) * kept[:, None] + share * lost[None]
        points = corners(np.concatenate([kept, crossed.reshape(-1, points.shape[1])]))
    return points


def shadows(points: Matrix) -> list[list[list[float]]]:
    """The corners of the projections onto each pair of axes, in the order of `itertools.combinations`."""
    pairs = combinations(range(points.shape[1]), 2)
    return [corners(points[:, pair]).tolist() if len(points) else [] for pair in map(list, pairs)]
