"""The linear systems of a chain by iteration, each solution verified.

For x = b + moves @ x, where moves is discount * P or its transpose:

    |x - x*| <= |b + moves @ x - x| / (1 - discount)

in the maximum norm for discount * P and in the sum norm for its transpose, because each is a contraction in its norm.
The bound is at most 1e-11 of the norm of the solution. For discounts so near one that rounding exceeds this, the bound
is the smallest that can be verified.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tutelage.arrays import EPSILON, SparseRows, Vector
from tutelage.chains.splitting import Split, split_chain
from tutelage.outcomes import NotConverged

FEW_STEPS, MANY_STEPS, FIRST_PAIRS = 6, 300, 8
# The least fall of the preconditioned residual within one run of Krylov steps: in a few of them, and in many.
FEW_DIGITS, MANY_DIGITS = 1e-6, 1e-10
RELATIVE_ACCURACY = 1e-11


@dataclass(frozen=True, eq=False)
class System:
    """x = right + moves @ x by iteration; moves is discount * P or its transpose, a contraction in the `norm`."""

    moves: SparseRows
    discount: float
    norm: float

    @cached_property
    def split(self) -> Split:
        return split_chain(self.moves)

    def error(self, right: Vector, answer: Vector) -> tuple[Vector, float]:
        """The residual, and the bound on the relative error that it implies."""
        residual = right + self.moves @ answer - answer
        bound = float(np.linalg.norm(residual, self.norm)) / (1 - self.discount)
        size = float(np.linalg.norm(answer, self.norm))
        return residual, bound / size if size > 0 else (np.inf if bound > 0 else 0.0)

    def verifiable(self, accuracy: float) -> float:
        """The requested accuracy, or the accuracy that rounding errors of the residual allow, whichever is larger."""
        return max(accuracy, 64 * EPSILON / (1 - self.discount))

    def try_krylov(self, right: Vector) -> Vector | None:
        """Solve in batches of a few Krylov steps; None as soon as a batch reduces the error too little."""
        answer, residual, last = np.zeros_like(right), right, 1 / (1 - self.discount)
        goal = self.verifiable(RELATIVE_ACCURACY)
        while True:
            answer = answer + self.split.solve(residual, FEW_DIGITS, FEW_STEPS)
            residual, error = self.error(right, answer)
            if error <= goal:
                return answer
            if not error <= 1e-3 * last:
                return None
            last = error

    def solve(self, right: Vector, accuracy: float) -> Vector:
        """Solve to a verified relative accuracy, by Krylov steps, or by sweeps where Krylov steps do not converge.

        Each sweep multiplies the norm of the residual by the discount or less, so the iteration ends.
        """
        answer, n_pairs, goal = np.zeros_like(right), FIRST_PAIRS, self.verifiable(accuracy)
        residual, error = self.error(right, answer)
        n_sweeps, enough = 0, 1_000 + 4 * math.log(goal * (1 - self.discount)) / math.log(self.discount)
        while error > goal and n_sweeps < enough:
            # A little less than what is missing. The zero vector has no relative error.
            fall = max(MANY_DIGITS, 0.1 * goal if math.isinf(error) else 0.3 * goal / error)
            tried = answer + self.split.solve(residual, fall, MANY_STEPS)
            left, reached = self.error(right, tried)
            if not reached < 0.1 * error:
                # Discard the Krylov steps. Each time double the number of sweeps, so that failed attempts cost little.
                tried = self.split.relaxed(right, answer, n_pairs)
                left, reached = self.error(right, tried)
                n_sweeps, n_pairs = n_sweeps + 2 * n_pairs, 2 * n_pairs
            answer, residual, error = tried, left, reached
        if error > goal:
            message = (
                f"a linear system of {len(right)} states has relative error {error:.2g} after {n_sweeps} sweeps, "
                f"but {goal:.2g} is needed; try a discount less close to one than {self.discount}"
            )
            raise NotConverged(message, residual=error, n_steps=n_sweeps)
        return answer
