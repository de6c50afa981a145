"""What solvers need of the Bellman operators of one MDP and one reward, however these are computed."""

from typing import Protocol

from tutelage.arrays import Indices, Vector

# At first the sweeps of a new problem may improve slowly.
N_PAIRS = 3


class Operators(Protocol):
    """The Bellman operators of one MDP and one reward on choices (C,)."""

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        """log sum exp of Q within each state, (S,), and the policy exp(Q - V), (C,)."""
        ...

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        """max of Q within each state, (S,), and the choice that attains it, (S,).

        The given choice is kept where it is within `slack` of the best, so that the choice among ties does not change.
        """
        ...

    def guess(self) -> Vector:
        """A value (S,) to start from."""
        ...

    def sweep(self, value: Vector, tolerance: float, n_least: int = N_PAIRS) -> Vector:
        """A value closer to the hard optimum, by in-place sweeps where these are cheap; otherwise the same value.

        n_least: how many pairs of sweeps to make at least.
        """
        ...

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        """About (I - discount P)^-1 right, with a residual of `tolerance` relative to `right` in the 2-norm."""
        ...
