"""The Markov chain that a policy makes of an MDP, and the two linear systems that everything is read off.

With P the (S, S) transition matrix under the policy and A = I - discount * P:

    A x = b       expected discounted sums of b from each state (values)
    A' d = p      expected discounted visits from the distribution p (occupancies)

Each answer is verified: |x - A^-1 b| <= |A x - b| / (1 - discount) in the maximum norm, and |d - A'^-1 p| <= |A' d - p|
/ (1 - discount) in the sum norm, because discount * P and its transpose are contractions in those norms.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage.arrays import SparseRows, Vector
from tutelage.mdp.model import MDP
from tutelage.outcomes import NotConverged

# Up to here one sparse factorisation is cheaper than the iterations it saves.
DIRECT_LIMIT = 2_500
RELATIVE_ACCURACY = 1e-11


def chain(mdp: MDP, policy: Vector) -> SparseRows:
    """(S, S), the probability of each next state under the policy."""
    rows = mdp.transition
    weight = np.repeat(policy, np.diff(rows.indptr)) * rows.data
    step = sparse.csr_array(
        (weight, rows.indices, rows.indptr[mdp.first_choice]), (mdp.n_states, mdp.n_states), copy=True
    )
    step.sum_duplicates()
    return step


@dataclass(frozen=True, slots=True)
class Resolvent:
    """The inverse of I - discount * P, ready to be applied from either side.

    values(b): solves A x = b for (S,) or (S, k).
    visits(p): solves A' d = p for (S,).
    """

    values: Callable[[Vector], Vector]
    visits: Callable[[Vector], Vector]


def resolvent(step: SparseRows, discount: float) -> Resolvent:
    """One factorisation (or, for a large chain, none) that serves every system of a chain (S, S)."""
    n_states = step.shape[0]
    system = sparse.eye_array(n_states, format="csr") - discount * step
    if n_states <= DIRECT_LIMIT:
        # The ordering of A + A' suits these nearly symmetric patterns several times better than the default.
        factors = linalg.splu(system.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        return Resolvent(factors.solve, lambda start: factors.solve(start, trans="T"))
    transposed = system.T.tocsr()
    return Resolvent(
        lambda sums: _each_column(system, sums, discount),
        lambda start: _iterate(transposed, start, discount, norm=1),
    )


def _each_column(system: SparseRows, sums: Vector, discount: float) -> Vector:
    if sums.ndim == 1:
        return _iterate(system, sums, discount, norm=np.inf)
    return np.column_stack([_iterate(system, column, discount, norm=np.inf) for column in sums.T])


def _iterate(system: SparseRows, right: Vector, discount: float, *, norm: float) -> Vector:
    """BiCGSTAB, restarted on its own residual until the verified error is small beside the answer, both in `norm`."""
    answer = np.zeros_like(right)
    for _ in range(20):
        residual = right - system @ answer
        error = float(np.linalg.norm(residual, norm)) / (1 - discount)
        if error <= RELATIVE_ACCURACY * float(np.linalg.norm(answer, norm)):
            return answer
        step, _status = linalg.bicgstab(system, residual, rtol=1e-6, maxiter=2_000)
        answer = answer + step
    raise NotConverged(
        f"a linear system of {len(right)} states was solved to {error:.2g} only", residual=error, n_steps=20
    )
