"""The set Omega_r of reward expectations that policies can reach, and its part Omega_r^L within limits (Sec. 2, 3.1).

The set is a polytope known only by its support function: the best policy in a direction. Its vertices are found by
maximising along the normal of each face of the hull of the known vertices, until no face can be moved outwards. A set
with fewer dimensions than features is treated within its affine hull.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import ConvexHull

from tutelage.arrays import Matrix, Vector, freeze, max_abs
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, NotConverged

MAX_VERTICES = 10_000


def vertices(domain: Domain, limits: HalfSpaces, *, accuracy: float = 1e-6) -> Matrix:
    """(n, d_r), the vertices of the reachable reward expectations within the limits, for d_r up to 3.

    Every reachable expectation lies within `accuracy` (relative to the size of the set) of their hull. In the plane
    they are in counter-clockwise order.
    """
    if domain.n_reward > 3:
        raise InvalidModel(f"vertices are found for at most 3 reward features, but this domain has {domain.n_reward}")

    def furthest(direction: Vector) -> Vector:
        return best_policy(domain, direction, limits).expectation.reward

    points, basis = _affine_hull(furthest, domain.n_reward, accuracy)
    return freeze(points if basis.shape[1] < 2 else _grow(furthest, points, basis, accuracy))


def _affine_hull(furthest: Callable[[Vector], Vector], n: int, accuracy: float) -> tuple[Matrix, Matrix]:
    """Affinely independent vertices, and an orthonormal basis (n, k) of the directions that the set extends in."""
    points = [furthest(np.eye(n)[0])]
    basis = tried = np.zeros((n, 0))
    while tried.shape[1] < n:
        # A direction orthogonal to all those tried, from their QR decomposition.
        direction = np.linalg.qr(tried, mode="complete")[0][:, tried.shape[1]]
        high, low = furthest(direction), furthest(-direction)
        size = accuracy * max(1.0, max_abs(high))
        step = max((high, low), key=lambda point: abs(direction @ (point - points[0]))) - points[0]
        if abs(direction @ step) <= size:
            tried = np.column_stack([tried, direction])
            continue
        points.append(points[0] + step)
        inside = step - basis @ (basis.T @ step)
        inside /= np.linalg.norm(inside)
        basis = np.column_stack([basis, inside])
        tried = np.linalg.qr(np.column_stack([tried, inside]))[0]
    # A set of full dimension keeps the axes, and with them the orientation.
    return np.array(points), np.eye(n) if basis.shape[1] == n else basis


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
        size = accuracy * max(1.0, float(np.ptp(inner, axis=0).max()))
        for face in fresh:
            vertex = (furthest(basis @ face[:-1]) - origin) @ basis
            if face[:-1] @ vertex + face[-1] > size:
                inner = np.vstack([inner, vertex])
            else:
                final.add(tuple(np.round(face, 9)))
    message = f"the reachable set has more than {MAX_VERTICES} vertices; use a larger accuracy"
    raise NotConverged(message, residual=float("inf"), n_steps=len(inner))
