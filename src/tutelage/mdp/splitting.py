"""The linear systems of large chains, without factors: triangular sweeps as preconditioner of a Krylov method.

    A = I - discount * P,    A / its diagonal = I - L - U - E

with L the entries to earlier states, U those to later ones, and E, where the states are worked on in blocks, those to
other blocks. Solving with I - L and then with I - U carries values along the whole state space in one pass each, in
memory's own order, where a plain Krylov step carries them one move further. With both, BiCGSTAB needs a third of the
steps; and by Eisenstat's identity

    (I - L)^-1 (I - L - U - E) (I - U)^-1 p = t + (I - L)^-1 (p - t - E t),    t = (I - U)^-1 p

a step costs what it costs without.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.arrays import Indices, SparseRows, Vector

if TYPE_CHECKING:
    from tutelage.kernels.blocks import Edges


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some entries of a matrix (S, S) by rows: starts (S+1,), columns, and weights once a policy has given them."""

    start: Indices
    column: Indices
    weight: Vector

    @property
    def arrays(self) -> tuple[Indices, Indices, Vector]:
        return self.start, self.column, self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Which entries belong to L, U and E, for every policy of an MDP or for one chain.

    rows: (C, S), whose rows first[s] .. first[s+1] belong to state s. first: (S+1,). in_blocks: by several threads.
    """

    rows: SparseRows
    first: Any
    in_blocks: bool
    edges: "Edges" = field(init=False)
    starts: tuple[Any, Any, Any] = field(init=False)
    columns: tuple[Any, Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        from tutelage import kernels

        kind, n = self.rows.indptr.dtype, len(self.first) - 1
        edges = kernels.block_edges(self.rows.indptr[self.first]) if self.in_blocks else ((0, n),)
        first = kernels.unsigned(self.first.astype(kind))
        entries = (kernels.unsigned(self.rows.indptr), kernels.unsigned(self.rows.indices), first)
        counts = [np.zeros(n + 1, dtype=kind) for _ in range(3)]
        kernels.in_blocks(edges, kernels.count_parts, *entries, *map(kernels.unsigned, counts))
        starts = [np.cumsum(count, dtype=kind) for count in counts]
        columns = [np.empty(int(start[-1]), dtype=kind) for start in starts]
        paired = [kernels.unsigned(array) for pair in zip(starts, columns, strict=True) for array in pair]
        kernels.in_blocks(edges, kernels.fill_columns, *entries, *paired)
        for name, value in (
            ("first", first),
            ("edges", edges),
            ("starts", tuple(paired[::2])),
            ("columns", tuple(paired[1::2])),
        ):
            object.__setattr__(self, name, value)

    def weighted(self, policy: Vector, discount: float) -> "Split":
        """The parts under a policy on the rows (C,)."""
        from tutelage import kernels

        rows, scale = self.rows, np.empty(len(self.first) - 1)
        weights = [np.empty(len(column)) for column in self.columns]
        paired = [array for pair in zip(self.starts, weights, strict=True) for array in pair]
        entries = (kernels.unsigned(rows.indptr), kernels.unsigned(rows.indices), rows.data)
        kernels.in_blocks(self.edges, kernels.fill_weights, *entries, self.first, policy, discount, *paired, scale)
        lower, upper, across = map(Part, self.starts, self.columns, weights)
        return Split(self.edges, lower, upper, across, scale)


def split_chain(moves: SparseRows) -> "Split":
    """The parts of I - moves, for a matrix (S, S) with row or column sums below one.

    In one block: where all moves lead the same way, as under a policy of few choices, the two sweeps are then all but
    the whole solution, and any border takes that away.
    """
    n = moves.shape[0]
    return Pattern(moves, np.arange(n + 1), in_blocks=False).weighted(np.ones(n), 1.0)


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

        On a breakdown, or out of steps, it returns what it has: the caller measures the residual.
        """
        # In units of its largest entry, so that no square of a small one is lost.
        size = float(np.abs(right).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(right)
        y, x = self._bicgstab(self._opening(right / size), tolerance, max_steps), np.empty_like(right)
        self._backward(y, 1.0, y, 0.0, y, 0.0, x)
        return size * x

    def _bicgstab(self, r: Vector, tolerance: float, max_steps: int) -> Vector:
        """y of (I - L)^-1 (I - L - U - E) (I - U)^-1 y = r; r is overwritten by the residual."""
        from tutelage import kernels

        y, shadow, p, v, t = np.zeros_like(r), r.copy(), r.copy(), np.zeros_like(r), np.zeros_like(r)
        middle, rest = np.empty_like(r), np.empty_like(r)
        rho = goal = float(np.einsum("s,s->", r, r))
        beta = omega = 0.0
        for step in range(max_steps):
            self._backward(p, beta if step else 1.0, r, 1.0 if step else 0.0, v, -beta * omega, middle)
            across, _ = self._forward(p, middle, rest, shadow, v)
            if across == 0.0 or not math.isfinite(across):
                break
            alpha = rho / across
            self._backward(r, 1.0, v, -alpha, v, 0.0, middle)
            tr, tt = self._forward(r, middle, rest, r, t)
            omega = tr / tt if tt > 0.0 else 0.0
            parts = kernels.in_blocks(self.edges, kernels.finish, y, p, alpha, r, omega, t, shadow)
            rr, rho_next = map(sum, zip(*parts, strict=True))
            if not rr > tolerance**2 * goal or omega == 0.0 or rho_next == 0.0:
                break
            beta, rho = (rho_next / rho) * (alpha / omega), rho_next
        return y

    def relaxed(self, right: Vector, start: Vector, n_pairs: int) -> Vector:
        """Pairs of Gauss-Seidel sweeps, forth and back, each of which shrinks the error by `discount` or better."""
        from tutelage import kernels

        value = start.copy()
        kernels.relax(*self.lower.arrays, *self.upper.arrays, *self.across.arrays, self.scale * right, value, n_pairs)
        return value

    def _opening(self, right: Vector) -> Vector:
        """(I - L)^-1 right / diagonal."""
        scaled, zero, r = self.scale * right, np.zeros_like(right), np.empty_like(right)
        self._forward(scaled, zero, np.empty_like(right), zero, r)
        return r

    def _backward(
        self, right: Vector, own: float, one: Vector, by_one: float, other: Vector, by_other: float, out: Vector
    ) -> None:
        from tutelage import kernels

        given = (right, own, one, by_one, other, by_other, out)
        kernels.in_blocks(self.edges, kernels.backward, *self.upper.arrays, *given)

    def _forward(self, right: Vector, middle: Vector, rest: Vector, shadow: Vector, out: Vector) -> Vector:
        from tutelage import kernels

        given = (*self.lower.arrays, *self.across.arrays, right, middle, rest, shadow, out)
        return np.asarray(np.sum(kernels.in_blocks(self.edges, kernels.forward, *given), axis=0))
