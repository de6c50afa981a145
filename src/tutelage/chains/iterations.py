"""The linear systems of a large chain without factorisation, each answer verified.

For x = b + moves @ x, where moves is discount * P or its transpose:

    |x - x*| <= |b + moves @ x - x| / (1 - discount)

in the maximum norm for discount * P and in the sum norm for its transpose, because each is a contraction in its norm.
The bound is at most 1e-11 of the norm of the solution. For discounts so near one that rounding exceeds this, the bound
is the smallest that can be verified.

The method is BiCGSTAB, preconditioned by triangular sweeps: I - moves, divided by its diagonal, is I - L - U, where L
has the entries to earlier states and U those to later states. A solve with I - L or I - U carries values through the
whole state space in one pass, in the order of memory; a plain Krylov step carries them one move. The preconditioned
method needs a third of the steps, and by Eisenstat's identity

    (I - L)^-1 (I - L - U) (I - U)^-1 p = t + (I - L)^-1 (p - t),    t = (I - U)^-1 p

a step costs as much as a plain one. Where Krylov steps do not converge, Gauss-Seidel sweeps do.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from tutelage.arrays import EPSILON, Indices, SparseRows, Vector
from tutelage.outcomes import NotConverged

RELATIVE_ACCURACY = 1e-11
# Krylov steps of one attempt: in the test whether few are enough, and in a solution.
FEW_STEPS, MANY_STEPS = 6, 300
# The least fall of the preconditioned residual within one attempt.
LEAST_FALL = 1e-10
# Pairs of sweeps after the first attempt that failed.
FIRST_PAIRS = 8
# Row starts, ends of the entries to earlier states, starts of those to later states, columns and weights.
SplitRows: TypeAlias = tuple[Indices, Indices, Indices, Indices, Vector]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """I - moves, divided by its diagonal, as I - L - U; scale: (S,), the inverse of the diagonal."""

    rows: SplitRows
    scale: Vector

    @staticmethod
    def of(moves: SparseRows) -> "Split":
        """For a matrix (S, S) with row or column sums below one."""
        n = moves.shape[0]
        return Split.of_policy(moves, np.arange(n + 1), np.ones(n))

    @staticmethod
    def of_policy(rows: SparseRows, first: Indices, share: Vector) -> "Split":
        """For the sums of the rows first[s] .. first[s+1] of a matrix (C, S), times their shares (C,)."""
        from tutelage import compiling
        from tutelage.chains import loops

        arrays = (compiling.unsigned(rows.indptr), compiling.unsigned(rows.indices), rows.data)
        return Split(*loops.split_rows(arrays, compiling.unsigned(first.astype(rows.indptr.dtype)), share))

    def solve(self, right: Vector, tolerance: float, max_steps: int) -> Vector:
        """BiCGSTAB until the 2-norm of the preconditioned residual has fallen by `tolerance`.

        After a breakdown or the last step it returns the current iterate; the caller measures the residual.
        """
        from tutelage.chains import loops

        # Scale by the largest entry, so that squares of small entries do not underflow.
        size = float(np.abs(right).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(right)
        return size * np.asarray(loops.bicgstab(self.rows, self.scale * (right / size), tolerance, max_steps))

    def relaxed(self, right: Vector, start: Vector, n_pairs: int) -> Vector:
        """Pairs of Gauss-Seidel sweeps, forward and backward; each multiplies the error by `discount` or less."""
        from tutelage.chains import loops

        value = start.copy()
        loops.relax(self.rows, self.scale * right, value, n_pairs)
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """x = right + moves @ x by iteration; moves is discount * P or its transpose, a contraction in the `norm`.

    max_steps: Krylov steps of one attempt; with none, sweeps alone solve the system.
    """

    moves: SparseRows
    split: Split
    discount: float
    norm: float
    max_steps: int = MANY_STEPS

    @staticmethod
    def of(moves: SparseRows, discount: float, norm: float) -> "Iterations":
        return Iterations(moves, Split.of(moves), discount, norm)

    def is_fast(self, right: Vector) -> bool:
        """Whether a few Krylov steps reduce the error to a thousandth, twice."""
        answer = np.zeros_like(right)
        for _ in range(2):
            residual, error = self.error(right, answer)
            answer = answer + self.split.solve(residual, 1e-6, FEW_STEPS)
            if not self.error(right, answer)[1] <= 1e-3 * min(error, 1 / (1 - self.discount)):
                return False
        return True

    def error(self, right: Vector, answer: Vector) -> tuple[Vector, float]:
        """The residual, and the bound on the relative error that it implies."""
        residual = right + self.moves @ answer - answer
        bound = float(np.linalg.norm(residual, self.norm)) / (1 - self.discount)
        size = float(np.linalg.norm(answer, self.norm))
        return residual, bound / size if size > 0 else (np.inf if bound > 0 else 0.0)

    def solve(self, right: Vector, start: Vector, accuracy: float) -> Vector:
        """Solve to a verified relative accuracy, by Krylov steps, or by sweeps where Krylov steps do not converge.

        Each sweep multiplies the norm of the residual by the discount or less, so the iteration ends. Rounding errors
        of the residual limit the accuracy.
        """
        answer, n_pairs, goal = start, FIRST_PAIRS, max(accuracy, 64 * EPSILON / (1 - self.discount))
        residual, error = self.error(right, answer)
        n_sweeps, most_sweeps = 0, 1_000 + 4 * math.log(goal * (1 - self.discount)) / math.log(self.discount)
        while error > goal and n_sweeps < most_sweeps:
            # A little less than what is missing. The zero vector has no relative error.
            fall = max(LEAST_FALL, 0.1 * goal if math.isinf(error) else 0.3 * goal / error)
            tried = answer + self.split.solve(residual, fall, self.max_steps)
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


@dataclass(frozen=True, slots=True, eq=False)
class Krylov:
    """By iterations, each answer verified. moves: discount * P. discount: the largest sum of a row."""

    moves: SparseRows
    discount: float

    is_exact: ClassVar[bool] = False
    is_quick: ClassVar[bool] = False

    @property
    def is_fast(self) -> bool:
        """Whether a few Krylov steps are enough."""
        right = np.random.default_rng(0).random(self.moves.shape[0])
        return Iterations.of(self.moves, self.discount, np.inf).is_fast(right)

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        from tutelage import compiling

        system = Iterations.of(self.moves, self.discount, np.inf)
        start = np.zeros_like(right) if near is None else near
        if right.ndim == 1:
            return system.solve(right, start, accuracy)
        columns = [(right[:, j].copy(), start[:, j].copy(), accuracy) for j in range(right.shape[1])]
        return np.column_stack(compiling.map_in_threads(lambda column: system.solve(*column), columns))

    def visits(self, start: Vector) -> Vector:
        backwards = Iterations.of(self.moves.T.tocsr(), self.discount, 1)
        return backwards.solve(start, np.zeros_like(start), RELATIVE_ACCURACY)
