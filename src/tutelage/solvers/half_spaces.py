"""Half-spaces of feature expectations: the limits of a learner, or of a teacher's estimate of one, on policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, check_length, floats
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class HalfSpaces:
    """normals @ mu <= offsets, for mu = (mu_r, mu_c).

    normals: (m, d_r + d_c). offsets: (m,). names: one per row, for messages.
    """

    normals: Matrix
    offsets: Vector
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "normals", floats(self.normals, "normals", ndim=2))
        object.__setattr__(self, "offsets", floats(self.offsets, "offsets", ndim=1))
        check_length(self.offsets, len(self.normals), "offsets", "half-spaces")
        if len(self.names) != len(self.normals):
            raise InvalidModel(f"names has {len(self.names)} entries, but there are {len(self.normals)} half-spaces")

    def __len__(self) -> int:
        return len(self.offsets)

    def excess(self, point: Vector) -> Vector:
        """(m,), the excess of a point (d,) over each limit; zero where the limit is kept."""
        return np.maximum(self.normals @ point - self.offsets, 0.0)

    def relaxed(self, by: Vector) -> Self:
        """The same half-spaces with every offset moved outwards by `by` (m,)."""
        return type(self)(self.normals, self.offsets + by, self.names)


def no_limits(domain: Domain) -> HalfSpaces:
    """No half-space: every policy is within the limits."""
    return HalfSpaces(np.zeros((0, len(domain.names))), np.zeros(0), ())


def preference_limits(domain: Domain, allowance: ArrayLike) -> HalfSpaces:
    """mu_c[j] <= allowance[j] for every preference feature; a scalar is used for all of them."""
    given = floats(allowance, "the allowance", ndim=np.ndim(allowance))
    n = domain.n_preference
    if given.shape not in ((), (n,)):
        raise InvalidModel(f"the allowance has shape {given.shape}, but there are {n} preference features")
    normals = np.eye(len(domain.names))[domain.n_reward :]
    return HalfSpaces(normals, np.broadcast_to(given, (n,)), domain.preference_names)


def reward_limits(domain: Domain, normals: ArrayLike, offsets: ArrayLike, names: Sequence[str]) -> HalfSpaces:
    """normals @ mu_r <= offsets, for normals (m, d_r): a teacher's estimate from responses."""
    given = floats(normals, "normals", ndim=2)
    if given.shape[1] != domain.n_reward:
        raise InvalidModel(f"normals have {given.shape[1]} columns, but there are {domain.n_reward} reward features")
    beside = np.zeros((len(given), domain.n_preference))
    return HalfSpaces(np.hstack([given, beside]), floats(offsets, "offsets", ndim=1), tuple(names))
