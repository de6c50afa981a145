"""The set Omega_r of reward expectations that policies can reach, and its part Omega_r^L within limits (Sec. 2, 3.1).

The set is a polytope known only by its support function: the best policy in a direction. Its vertices are found by
maximising along the normal of each face of the hull of the known vertices, until no face can be moved outwards. A set
with fewer dimensions than features is treated within its affine hull.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import ConvexHull

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces, sizes
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, NotConverged

MAX_VERTICES = 10_000
# The error of an expectation relative to the most that it can be.
HIDDEN = 1e-10


def vertices(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-6) -> Matrix:
    """(n, d_r), the vertices of the reachable reward expectations within the limits, for d_r up to 3.

    Every reachable expectation lies within `accuracy` of their hull, in units of the extent of the set in each feature.
    A feature whose extent is less than `accuracy` of the most that it can have counts as constant. In the plane they
    are in counter-clockwise order.
    """
    n = domain.n_reward
    if n > 3:
        raise InvalidModel(f"vertices are found for at most 3 reward features, but this domain has {n}")

    def furthest(direction: Vector) -> Vector:
        return best_policy(domain, direction, limits).expectation.reward

    high, low = (np.array([furthest(sign * axis) for axis in np.eye(n)]) for sign in (1.0, -1.0))
    extent, most = np.diag(high - low), sizes(domain)[:n]
    wide = np.flatnonzero(extent > accuracy * most)
    if not len(wide):
        return freeze(high[:1])
    unit = extent[wide]
    accuracy = max(accuracy, HIDDEN * float((most[wide] / unit).max()))

    def corner(direction: Vector) -> Vector:
        """In units of the extent, of the features that are not constant."""
        weights = np.zeros(n)
        weights[wide] = direction / unit
        return furthest(weights)[wide] / unit

    points, basis = _affine_hull(corner, np.vstack([low, high])[:, wide] / unit, accuracy)
    if basis.shape[1] > 1:
        points = _grow(corner, points, basis, accuracy)
    else:
        along = points @ basis[:, 0]
        points = points[[along.argmin(), along.argmax()]]
    found = np.tile(high[0], (len(points), 1))
    found[:, wide] = unit * points
    return freeze(found)


def _affine_hull(furthest: Callable[[Vector], Vector], points: Matrix, accuracy: float) -> tuple[Matrix, Matrix]:
    """Points that span the set, from some of them, and an orthonormal basis (n, k) of what it extends in."""
    n, flat = points.shape[1], np.zeros((points.shape[1], 0))
    while True:
        basis, size, _ = np.linalg.svd((points - points[0]).T)
        basis = basis[:, : np.count_nonzero(size > 0.5 * accuracy)]
        tried = np.column_stack([basis, flat])
        if tried.shape[1] >= n:
            # A set of full dimension keeps the axes, and with them the orientation.
            return points, np.eye(n) if basis.shape[1] == n else basis
        direction = np.linalg.qr(tried, mode="complete")[0][:, tried.shape[1]]
        both = np.array([furthest(direction), furthest(-direction)])
        if direction @ (both[0] - both[1]) > accuracy:
            points = np.vstack([points, both])
        else:
            flat = np.column_stack([flat, direction])


def _grow(furthest: Callable[[Vector], Vector], points: Matrix, basis: Matrix, accuracy: float) -> Matrix:
    """All vertices: maximise along the normal of each face until none can be moved outwards."""
    origin = points[0]
    inner = (points - origin) @ basis
    final: set[tuple[float, ...]] = set()
    while len(inner) < MAX_VERTICES:
        hull = ConvexHull(inner)
        faces = {tuple(np.round(face, 9)): face for face in hull.equations}
        fresh = [face for key, face in faces.items() if key not in final]
        if not fresh:
            return np.asarray(origin + inner[hull.vertices] @ basis.T)
        for face in fresh:
            vertex = (furthest(basis @ face[:-1]) - origin) @ basis
            if face[:-1] @ vertex + face[-1] > accuracy:
                inner = np.vstack([inner, vertex])
            else:
                final.add(tuple(np.round(face, 9)))
    message = f"the reachable set has more than {MAX_VERTICES} vertices; use a larger accuracy"
    raise NotConverged(message, residual=float("inf"), n_steps=len(inner))
