"""Half-spaces of feature expectations: the limits of a learner, or of a teacher's estimate of one, on policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix, Vector, check_length, floats
from tutelage.model.allowances import Allowance, allowance_vector, checked_allowance, is_in_words
from tutelage.model.mdp import Domain
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


def preference_limits(domain: Domain, allowance: Allowance) -> HalfSpaces:
    """mu_c[j] <= allowance[j] for every preference feature; one number, `share` or `count` is used for all of them.

    A mapping gives allowances by the names of features; those which it does not name are allowed zero.
    """
    names, normals = domain.preference_names, np.eye(len(domain.names))[domain.n_reward :]
    if is_in_words(allowance):
        given = (checked_allowance(allowance, "preference"), domain.mdp, names)
        return HalfSpaces(normals, allowance_vector(*given, "the allowance", "preference features"), names)
    numbers = floats(allowance, "the allowance", ndim=np.ndim(allowance))  # type: ignore[arg-type]
    if numbers.shape not in ((), (len(names),)):
        shape = numbers.shape
        raise InvalidModel(f"the allowance has shape {shape}, but there are {len(names)} preference features")
    return HalfSpaces(normals, np.broadcast_to(numbers, (len(names),)), names)


def reward_limits(domain: Domain, normals: ArrayLike, offsets: ArrayLike, names: Sequence[str]) -> HalfSpaces:
    """normals @ mu_r <= offsets, for normals (m, d_r): a teacher's estimate from responses."""
    given = floats(normals, "normals", ndim=2)
    if given.shape[1] != domain.n_reward:
        raise InvalidModel(f"normals have {given.shape[1]} columns, but there are {domain.n_reward} reward features")
    beside = np.zeros((len(given), domain.n_preference))
    return HalfSpaces(np.hstack([given, beside]), floats(offsets, "offsets", ndim=1), tuple(names))
