"""Linear systems of large chains without factorisation: BiCGSTAB, preconditioned by triangular sweeps.

    A = I - discount * P,    A / its diagonal = I - L - U - E

L has the entries to earlier states and U the entries to later states. Where the states are divided into blocks, E has
the entries to other blocks. A solve with I - L or I - U carries values through the whole state space in one pass, in
the order of memory; a plain Krylov step carries them one move. The preconditioned BiCGSTAB needs a third of the steps.
By Eisenstat's identity

    (I - L)^-1 (I - L - U - E) (I - U)^-1 p = t + (I - L)^-1 (p - t - E t),    t = (I - U)^-1 p

a preconditioned step costs as much as a plain one.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.arrays import Indices, SparseRows, Vector

if TYPE_CHECKING:
    from tutelage.compiling import Edges


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some entries of a matrix (S, S) by rows: row starts (S+1,), columns and weights."""

    start: Indices
    column: Indices
    weight: Vector

    @property
    def arrays(self) -> tuple[Indices, Indices, Vector]:
        return self.start, self.column, self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The sparsity patterns of L, U and E, for every policy of an MDP or for one chain.

    rows: (C, S), where rows first[s] .. first[s+1] belong to state s. first: (S+1,). in_blocks: whether to divide the
    states into blocks for several threads.
    """

    rows: SparseRows
    first: Any
    in_blocks: bool
    edges: "Edges" = field(init=False)
    starts: tuple[Any, Any, Any] = field(init=False)
    columns: tuple[Any, Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        from tutelage import compiling
        from tutelage.chains import triangular

        kind, n = self.rows.indptr.dtype, len(self.first) - 1
        edges = compiling.block_edges(self.rows.indptr[self.first]) if self.in_blocks else ((0, n),)
        first = compiling.unsigned(self.first.astype(kind))
        entries = (compiling.unsigned(self.rows.indptr), compiling.unsigned(self.rows.indices), first)
        counts = [np.zeros(n + 1, dtype=kind) for _ in range(3)]
        compiling.in_blocks(edges, triangular.count_parts, *entries, tuple(map(compiling.unsigned, counts)))
        starts = tuple(compiling.unsigned(np.cumsum(count, dtype=kind)) for count in counts)
        columns = tuple(compiling.unsigned(np.empty(int(start[-1]), dtype=kind)) for start in starts)
        compiling.in_blocks(edges, triangular.fill_columns, *entries, starts, columns)
        for name, value in (("first", first), ("edges", edges), ("starts", starts), ("columns", columns)):
            object.__setattr__(self, name, value)

    def weighted(self, shares: Vector) -> "Split":
        """L, U and E for shares of the rows (C,): discount * policy."""
        from tutelage import compiling
        from tutelage.chains import triangular

        rows, scale = self.rows, np.empty(len(self.first) - 1)
        weights = tuple(np.empty(len(column)) for column in self.columns)
        entries = (compiling.unsigned(rows.indptr), compiling.unsigned(rows.indices), rows.data)
        given = (entries, self.first, shares, self.starts, weights, scale)
        compiling.in_blocks(self.edges, triangular.fill_weights, *given)
        lower, upper, across = map(Part, self.starts, self.columns, weights)
        return Split(self.edges, lower, upper, across, scale)


def split_chain(moves: SparseRows) -> "Split":
    """L and U of I - moves, for a matrix (S, S) with row or column sums below one.

    There is one block, so E is empty. Under a policy of few choices most moves lead in one direction. The two sweeps
    are then nearly the exact solution, which a division into blocks would prevent.
    """
    n = moves.shape[0]
    return Pattern(moves, np.arange(n + 1), in_blocks=False).weighted(np.ones(n))


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A, divided by its diagonal, as I - L - U - E; scale: (S,), the inverse of the diagonal."""

    edges: "Edges"
    lower: Part
    upper: Part
    across: Part
    scale: Vector

    def solve(self, right: Vector, tolerance: float, max_steps: int) -> Vector:
        """BiCGSTAB on A x = right until the 2-norm of the preconditioned residual has fallen by `tolerance`.

        After a breakdown or the last step it returns the current iterate; the caller measures the residual.
        """
        # Scale by the largest entry, so that squares of small entries do not underflow.
        size = float(np.abs(right).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(right)
        y, x = self._bicgstab(self._opening(right / size), tolerance, max_steps), np.empty_like(right)
        self._backward(y, 1.0, y, 0.0, y, 0.0, x)
        return size * x

    def _bicgstab(self, r: Vector, tolerance: float, max_steps: int) -> Vector:
        """Solve (I - L)^-1 (I - L - U - E) (I - U)^-1 y = r for y; r is overwritten by the residual."""
        from tutelage import compiling
        from tutelage.chains import triangular

        if len(self.edges) == 1:
            triangles = (self.lower.arrays, self.upper.arrays, self.across.arrays)
            return np.asarray(triangular.bicgstab(*triangles, r, tolerance, max_steps))
        y, shadow, p, v, t = np.zeros_like(r), r.copy(), r.copy(), np.zeros_like(r), np.zeros_like(r)
        middle, rest = np.empty_like(r), np.empty_like(r)
        rho = goal = float(np.einsum("s,s->", r, r))
        beta = omega = 0.0
        for step in range(max_steps):
            self._backward(p, beta if step else 1.0, r, 1.0 if step else 0.0, v, -beta * omega, middle)
            shadow_v, _ = self._forward(p, middle, rest, shadow, v)
            if shadow_v == 0.0 or not math.isfinite(shadow_v):
                break
            alpha = rho / shadow_v
            self._backward(r, 1.0, v, -alpha, v, 0.0, middle)
            tr, tt = self._forward(r, middle, rest, r, t)
            omega = tr / tt if tt > 0.0 else 0.0
            sums = compiling.in_blocks(self.edges, triangular.finish, y, p, alpha, r, omega, t, shadow)
            rr, rho_next = (float(sum(part)) for part in zip(*sums, strict=True))
            if not rr > tolerance**2 * goal or omega == 0.0 or rho_next == 0.0:
                break
            beta, rho = (rho_next / rho) * (alpha / omega), rho_next
        return y

    def relaxed(self, right: Vector, start: Vector, n_pairs: int) -> Vector:
        """Pairs of Gauss-Seidel sweeps, forward and backward; each multiplies the error by `discount` or less."""
        from tutelage.chains import triangular

        value = start.copy()
        triangular.relax(self.lower.arrays, self.upper.arrays, self.across.arrays, self.scale * right, value, n_pairs)
        return value

    def _opening(self, right: Vector) -> Vector:
        """(I - L)^-1 right / diagonal."""
        scaled, zero, r = self.scale * right, np.zeros_like(right), np.empty_like(right)
        self._forward(scaled, zero, np.empty_like(right), zero, r)
        return r

    def _backward(
        self, right: Vector, own: float, one: Vector, by_one: float, other: Vector, by_other: float, out: Vector
    ) -> None:
        from tutelage import compiling
        from tutelage.chains import triangular

        given = (right, one, other, (own, by_one, by_other), out)
        compiling.in_blocks(self.edges, triangular.backward, self.upper.arrays, *given)

    def _forward(self, right: Vector, middle: Vector, rest: Vector, shadow: Vector, out: Vector) -> Vector:
        from tutelage import compiling
        from tutelage.chains import triangular

        given = (self.lower.arrays, self.across.arrays, right, middle, rest, shadow, out)
        return np.asarray(np.sum(compiling.in_blocks(self.edges, triangular.forward, *given), axis=0))
