"""How a computation ends: in one of a few named ways, or in an error that says what to do.

Nothing here computes. A solver that stops for a good reason returns a result whose `ended` is an `Ended`; one that does
not raises a `TutelageError`. No solver returns an unfinished answer as if it were one.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Ended(Enum):
    """Why an iteration stopped, as a sentence for a person."""

    CONVERGED = "the promised accuracy was verified"
    ROUNDING = "double precision allows no closer answer; the stated error bound is the verified one"
    SETTLED = "the published schedule stopped because its last step was small; see the gap"
    STEP_LIMIT = "the published schedule ran out of steps; see the gap"


class TutelageError(Exception):
    """Every error that this package raises on purpose."""


class InvalidModel(TutelageError, ValueError):
    """An input that means nothing; the sentence names the state, choice, row or file at fault."""


class NotConverged(TutelageError, RuntimeError):
    """An iteration that could not keep its promise.

    residual: the last measured error, in the units named by the message.
    n_steps: how many steps were taken.
    """

    def __init__(self, message: str, *, residual: float, n_steps: int) -> None:
        super().__init__(message)
        self.residual = residual
        self.n_steps = n_steps


class InfeasibleConstraints(TutelageError):
    """No policy satisfies the constraints.

    names: one name per constraint.
    least_violation: (m,), by how much each constraint is exceeded by the policy of least total excess.
    unavoidable: (m,), by how much each constraint must be exceeded even if it were the only one.
    """

    def __init__(
        self, names: Sequence[str], least_violation: NDArray[np.float64], unavoidable: NDArray[np.float64]
    ) -> None:
        self.names = tuple(names)
        self.least_violation = least_violation
        self.unavoidable = unavoidable
        excesses = ", ".join(
            f"{name!r} by {excess:.6g}" for name, excess in zip(names, least_violation, strict=True) if excess > 0
        )
        super().__init__(
            f"no policy satisfies the {len(self.names)} constraints together; "
            f"the least that any policy must exceed them by in total: {excesses}"
        )
