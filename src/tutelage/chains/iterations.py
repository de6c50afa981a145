"""The linear systems of a large chain without factorisation, each answer verified.

For x = b + moves @ x, where moves is discount * P or its transpose:

    |x - x*| <= |b + moves @ x - x| / (1 - discount)

in the maximum norm for discount * P and in the sum norm for its transpose, because each is a contraction in its norm.
The bound is at most 1e-11 of the norm of the solution. For discounts so near one that rounding exceeds this, the bound
is the smallest that can be verified.

The method is BiCGSTAB, preconditioned by triangular sweeps: I - moves, divided by its diagonal, is I - L - U, where L
has the entries to earlier states and U those to later states. It needs a third of the steps; by Eisenstat's identity

    (I - L)^-1 (I - L - U) (I - U)^-1 p = t + (I - L)^-1 (p - t),    t = (I - U)^-1 p

a step costs as much as a plain one. Where Krylov steps do not converge, sweeps do: the residual falls by the discount.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from tutelage.arrays import EPSILON, Indices, SparseRows, Vector
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.compiling import FASTMATH, Rows, compiled, map_in_threads, unsigned
from tutelage.outcomes import NotConverged

# Krylov steps of one attempt: in the test whether few are enough, and in a solution.
FEW_STEPS, MANY_STEPS = 6, 300
# Row starts, ends of the entries to earlier states, starts of those to later states, columns and weights.
SplitRows: TypeAlias = tuple[Indices, Indices, Indices, Indices, Vector]


@compiled(fastmath=FASTMATH)
def split_rows(rows: Rows, first: Indices, share: Vector) -> tuple[SplitRows, Vector]:
    """I - P, divided by its diagonal, as I - L - U, and the inverse of the diagonal, (S,).

    Row s of P is the sum of share(c) * T(c) over the rows c from first[s] to first[s+1]. Within the place of these
    rows, entries of L are stored from the front and those of U from the back.
    """
    row, column, weight = rows
    n = len(first) - 1
    start = np.empty(n + 1, row.dtype)
    before, after = np.empty(n, row.dtype), np.empty(n, row.dtype)
    columns, weights = np.empty_like(column), np.zeros_like(weight)
    scale = np.empty(n)
    start[n] = row[first[n]]
    for s in range(n):
        low, high = np.int64(row[first[s]]), np.int64(row[first[s + 1]])
        start[s] = low
        stay = 0.0
        for c in range(first[s], first[s + 1]):
            here = share[c]
            for k in range(row[c], row[c + 1]):
                j = np.int64(column[k])
                if j < s:
                    columns[low], weights[low] = j, here * weight[k]
                    low += 1
                elif j > s:
                    high -= 1
                    columns[high], weights[high] = j, here * weight[k]
                else:
                    stay += here * weight[k]
        before[s], after[s] = low, high
        inverse = 1.0 / (1.0 - stay)
        scale[s] = inverse
        for k in range(start[s], row[first[s + 1]]):
            weights[k] *= inverse
    return (start, before, after, columns, weights), scale


@compiled(fastmath=FASTMATH)
def _backward(rows: SplitRows, right: Vector, out: Vector) -> None:
    """(I - U) out = right."""
    row, _, after, column, weight = rows
    for s in range(len(out) - 1, -1, -1):
        total = right[s]
        for k in range(after[s], row[s + 1]):
            total += weight[k] * out[column[k]]
        out[s] = total


@compiled(fastmath=FASTMATH)
def _forward(rows: SplitRows, right: Vector, middle: Vector, shadow: Vector, out: Vector) -> tuple[float, float]:
    """(I - L) rest = right - middle, out = middle + rest (Eisenstat's identity); returns shadow @ out and out @ out."""
    row, before, _, column, weight = rows
    with_shadow = with_itself = 0.0
    rest = np.empty_like(out)
    for s in range(len(out)):
        total = right[s] - middle[s]
        for k in range(row[s], before[s]):
            total += weight[k] * rest[column[k]]
        rest[s] = total
        total += middle[s]
        out[s] = total
        with_shadow += shadow[s] * total
        with_itself += total * total
    return with_shadow, with_itself


@compiled(fastmath=FASTMATH)
def bicgstab(rows: SplitRows, right: Vector, tolerance: float, max_steps: int) -> Vector:
    """Solve (I - L - U) x = right for x, preconditioned from both sides.

    It ends where the 2-norm of the preconditioned residual has fallen by `tolerance`, after a breakdown, or after the
    last step; the caller measures the residual.
    """
    n = len(right)
    zero, r, middle = np.zeros(n), np.empty(n), np.empty(n)
    # In units of the largest entry, so that squares of small entries do not underflow.
    size = np.abs(right).max()
    if size == 0.0:
        return zero
    rho = _forward(rows, right / size, zero, zero, r)[1]
    goal = tolerance**2 * rho
    shadow, p = r.copy(), r.copy()
    y, v, t = np.zeros(n), np.zeros(n), np.zeros(n)
    for _ in range(max_steps):
        _backward(rows, p, middle)
        shadow_v = _forward(rows, p, middle, shadow, v)[0]
        if shadow_v == 0.0 or not np.isfinite(shadow_v):
            break
        alpha = rho / shadow_v
        for s in range(n):
            r[s] -= alpha * v[s]
        _backward(rows, r, middle)
        with_r, with_itself = _forward(rows, r, middle, r, t)
        omega = with_r / with_itself if with_itself > 0.0 else 0.0
        left = rho_next = 0.0
        for s in range(n):
            y[s] += alpha * p[s] + omega * r[s]
            r[s] -= omega * t[s]
            left += r[s] * r[s]
            rho_next += shadow[s] * r[s]
        if not left > goal or omega == 0.0 or rho_next == 0.0:
            break
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
        for s in range(n):
            p[s] = r[s] + beta * (p[s] - omega * v[s])
    _backward(rows, y, middle)
    middle *= size
    return middle


@compiled(fastmath=FASTMATH)
def swept(rows: SplitRows, right: Vector) -> Vector:
    """(I - U)^-1 (I - L)^-1 right, the correction of a residual by a pair of Gauss-Seidel sweeps."""
    zero = np.zeros(len(right))
    middle, out = np.empty_like(right), np.empty_like(right)
    _forward(rows, right, zero, zero, middle)
    _backward(rows, middle, out)
    return out


@dataclass(frozen=True, eq=False)
class Iterations:
    """x = right + moves @ x by iteration; moves is discount * P or its transpose, a contraction in the `norm`."""

    moves: SparseRows
    discount: float
    norm: float

    @cached_property
    def parts(self) -> tuple[SplitRows, Vector]:
        """I - moves as `split_rows` has it."""
        rows = self.moves
        first = unsigned(np.arange(len(rows.indptr), dtype=rows.indptr.dtype))
        arrays = (unsigned(rows.indptr), unsigned(rows.indices), rows.data)
        return split_rows(arrays, first, np.ones(rows.shape[0]))

    def is_fast(self) -> bool:
        """Whether a few Krylov steps reduce the error to a thousandth, twice, for a random right side."""
        right = np.random.default_rng(0).random(self.moves.shape[0])
        rows, scale = self.parts
        answer = np.zeros_like(right)
        for _ in range(2):
            residual, error = self.error(right, answer)
            answer = answer + bicgstab(rows, scale * residual, 1e-6, FEW_STEPS)
            if not self.error(right, answer)[1] <= 1e-3 * min(error, 1 / (1 - self.discount)):
                return False
        return True

    def error(self, right: Vector, answer: Vector) -> tuple[Vector, float]:
        """The residual, and the bound on the relative error that it implies."""
        residual = right + self.moves @ answer - answer
        bound = float(np.linalg.norm(residual, self.norm)) / (1 - self.discount)
        size = float(np.linalg.norm(answer, self.norm))
        return residual, bound / size if size > 0 else (np.inf if bound > 0 else 0.0)

    def solve(self, right: Vector, answer: Vector, accuracy: float) -> Vector:
        """Solve from a first answer to a verified relative accuracy, by Krylov steps, or by sweeps where these fail."""
        if not right.any():
            # Iterations would approach the answer zero without end.
            return np.zeros_like(right)
        goal = max(accuracy, 64 * EPSILON / (1 - self.discount))
        most_sweeps = 1_000 + 4 * math.log(goal * (1 - self.discount)) / math.log(self.discount)
        n_sweeps, n_pairs = 0, 8
        rows, scale = self.parts
        residual, error = self.error(right, answer)
        while error > goal and n_sweeps < most_sweeps:
            # A little less than what is missing, at most what one attempt can. The zero vector has no relative error.
            fall = max(1e-10, 0.1 * goal if math.isinf(error) else 0.3 * goal / error)
            tried = answer + bicgstab(rows, scale * residual, fall, MANY_STEPS)
            left, reached = self.error(right, tried)
            if not reached < 0.1 * error:
                # Discard the Krylov steps. Each time double the number of sweeps, so that failed attempts cost little.
                tried, left = answer, residual
                for _ in range(n_pairs):
                    tried = tried + swept(rows, scale * left)
                    left, reached = self.error(right, tried)
                n_pairs *= 2
                n_sweeps += n_pairs
            answer, residual, error = tried, left, reached
        if error > goal:
            message = (
                f"a linear system of {len(right)} states has relative error {error:.2g} after {n_sweeps} sweeps, "
                f"but {goal:.2g} is needed; try a discount less close to one than {self.discount}"
            )
            raise NotConverged(message, residual=error, n_steps=n_sweeps)
        return answer


def krylov(moves: SparseRows, discount: float) -> Callable[..., Vector]:
    """Solve by iterations, each answer verified. moves: discount * P. discount: the largest sum of a row."""

    def solve(b: Vector, is_visits: bool, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        system = Iterations(moves.T.tocsr(), discount, 1) if is_visits else Iterations(moves, discount, np.inf)
        start = np.zeros_like(b) if near is None else near
        if b.ndim == 1:
            return system.solve(b, start, accuracy)
        columns = [(b[:, j].copy(), start[:, j].copy(), accuracy) for j in range(b.shape[1])]
        return np.column_stack(map_in_threads(lambda column: system.solve(*column), columns))

    return solve
