"""Soft policies of many domains for the same weights; one factorisation for all destinations of a network.

Without discount, and where each choice c of s leads to one state t(c), z = exp V solves a linear system:

    z(s) = sum over choices c of s of exp r(c) z(t(c)),        z = 1 at the ends              (recursive logit)

Domains may be journeys on one network and differ only in where they end. Let M(s, t) be the sum of exp r(c) over the
choices from s to t, W = (I - M)^-1, E the ends of a journey and N its other states. Then

    (I - M_NN)^-1 = W_NN - W_NE (W_EE)^-1 W_EN

and the moves of its soft policy are P = D^-1 M_NN D with D = diag z. So one sparse LU of I - M serves all journeys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage.arrays import EPSILON, Flags, Indices, Matrix, Vector, freeze
from tutelage.bellman.equations import Optimum
from tutelage.bellman.operators import refuse_endless
from tutelage.bellman.soft_expectations import SoftExpansion, combined_features, expansion_around, soft_expansion
from tutelage.chains import RELATIVE_ACCURACY
from tutelage.chains.resolvent import BY_DEGREE
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.policy import max_by_state, sum_by_state
from tutelage.outcomes import Ended

# The largest exponent of exp.
LARGEST_POWER = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class Journeys:
    """Domains whose features have the same weights. network: what they share if they differ in their ends only."""

    domains: tuple[Domain, ...]
    features: tuple[Matrix, ...]
    network: "Network | None"

    @staticmethod
    def of(domains: Sequence[Domain]) -> "Journeys":
        features = tuple(combined_features(domain) for domain in domains)
        return Journeys(tuple(domains), features, Network.of([domain.mdp for domain in domains], features))

    def expand(self, weights: Vector, near: Sequence[SoftExpansion]) -> Iterator[SoftExpansion]:
        """The soft policy of each domain at the weights (d,). near: those at nearby weights, if known.

        Raises `EndlessValue` where going on for ever pays.
        """
        factors = None if self.network is None else self.network.factorise(weights)
        for place, (domain, features) in enumerate(zip(self.domains, self.features, strict=True)):
            solved = None if factors is None else _solve(factors, domain.mdp, features @ weights)
            if solved is None:
                last = near[place] if near else None
                yield soft_expansion(domain.mdp, features, weights, accuracy=1e-13, near=last)
            else:
                yield expansion_around(domain.mdp, features, weights, *solved)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """The moves between states that no journey, or not every one, ends in: from, to (n,), and their features (n, d)."""

    n_states: int
    begin: Indices
    end: Indices
    features: Matrix

    @staticmethod
    def of(mdps: Sequence[MDP], features: Sequence[Matrix]) -> "Network | None":
        """What the MDPs share; None where they differ in more than their ends, or no linear system has their values."""
        n_states = mdps[0].n_states
        for mdp in mdps:
            if mdp.discount != 1.0 or mdp.transition.nnz != mdp.n_choices or mdp.n_states != n_states:
                return None
        tables = [_moves(mdp, values) for mdp, values in zip(mdps, features, strict=True)]
        is_first_end = _flags(mdps[0])
        others = [table[is_first_end[table[:, :2].astype(np.int64)].any(axis=1)] for table in tables[1:]]
        known = _ordered(np.vstack([tables[0], np.unique(np.vstack([tables[0][:0], *others]), axis=0)]))
        begin, end = known[:, 0].astype(np.int64), known[:, 1].astype(np.int64)
        for mdp, table in zip(mdps, tables, strict=True):
            is_end = _flags(mdp)
            if not np.array_equal(known[~(is_end[begin] | is_end[end])], table):
                return None
        return Network(n_states, begin, end, np.ascontiguousarray(known[:, 2:]))

    def factorise(self, weights: Vector) -> linalg.SuperLU | None:
        """The sparse LU of I - M at the weights (d,); None where it has none."""
        reward = self.features @ weights
        if reward.max(initial=0.0) > LARGEST_POWER:
            return None
        moves = sparse.csc_array((np.exp(reward), (self.begin, self.end)), shape=(self.n_states, self.n_states))
        try:
            system = sparse.csc_array(sparse.eye_array(self.n_states, format="csc") - moves)
            return linalg.splu(system, permc_spec=BY_DEGREE, options={"SymmetricMode": True})
        except RuntimeError:
            # Exactly singular.
            return None


def _flags(mdp: MDP) -> Flags:
    is_end = np.zeros(mdp.n_states, dtype=np.bool_)
    is_end[mdp.ends] = True
    return is_end


def _moves(mdp: MDP, features: Matrix) -> Matrix:
    """(n, 2 + d), from, to and features of the choices between states that are no ends, in order."""
    state, after, is_end = mdp.state_of_choice, mdp.transition.indices, _flags(mdp)
    inner = ~(is_end[state] | is_end[after])
    return _ordered(np.column_stack([state, after, per_choice(mdp, features)])[inner])


def _ordered(table: Matrix) -> Matrix:
    return table[np.lexsort(table.T[::-1])]


@dataclass(frozen=True, slots=True, eq=False)
class SharedInverse:
    """The resolvent of the soft policy of one journey, from the LU of I - M. value: (S,), z; one at the ends.

    ends: E. columns: (S, k), W e for the ends e.
    """

    factors: linalg.SuperLU
    value: Vector
    ends: Indices
    columns: Matrix

    is_exact: ClassVar[bool] = True
    is_quick: ClassVar[bool] = False

    def values(self, right: Vector, near: Vector | None = None, accuracy: float = RELATIVE_ACCURACY) -> Vector:
        scale = self.value if right.ndim == 1 else self.value[:, None]
        solved = self.inner(scale * right, self.columns, "N") / scale
        solved[self.ends] = right[self.ends]
        return solved

    def visits(self, start: Vector) -> Vector:
        rows = self.factors.solve(_units(len(start), self.ends), "T")
        solved = self.value * self.inner(start / self.value, rows, "T")
        solved[self.ends] = start[self.ends]
        return solved

    def inner(self, right: Vector, columns: Matrix, kind: str) -> Vector:
        """(I - M_NN)^-1 right on the states N, or with the transpose; not defined at the ends."""
        right = right.copy()
        right[self.ends] = 0.0
        whole = self.factors.solve(right, kind)
        return np.asarray(whole - columns @ np.linalg.solve(columns[self.ends], whole[self.ends]))


def _units(n: int, places: Indices) -> Matrix:
    units = np.zeros((n, len(places)))
    units[places, np.arange(len(places))] = 1.0
    return units


def _solve(factors: linalg.SuperLU, mdp: MDP, reward: Vector) -> tuple[Optimum, SharedInverse] | None:
    """The soft optimum of one journey, and its resolvent; None where z has no solution in doubles."""
    on_choices, is_end = per_choice(mdp, reward), _flags(mdp)
    after = mdp.transition.indices
    columns = factors.solve(_units(mdp.n_states, mdp.ends))
    arriving = sum_by_state(mdp, np.where(is_end[after], np.exp(on_choices), 0.0))
    try:
        z = SharedInverse(factors, np.ones(mdp.n_states), mdp.ends, columns).inner(arriving, columns, "N")
    except np.linalg.LinAlgError:
        # I - M_NN is singular: the value is infinite, which the solution of this journey alone says by name.
        return None
    z[mdp.ends] = 1.0
    if (z < -1e-9 * np.abs(z).max()).any():
        # Every state leads to an end, so a solution that is not negative is positive, and M_NN z < z shows that the
        # powers of M_NN vanish. Otherwise they do not, and z is infinite.
        power = np.exp(on_choices - per_choice(mdp, max_by_state(mdp, on_choices)))
        likely = power / per_choice(mdp, sum_by_state(mdp, power))
        refuse_endless(mdp, z <= 0, likely, "the soft value, which counts entropy,")
    if not (z > 0).all() or not np.isfinite(z).all():
        return None
    inverse, value = SharedInverse(factors, z, mdp.ends, columns), np.log(z)
    choice_value = on_choices + value[after]
    policy = np.exp(choice_value - per_choice(mdp, value))
    total = sum_by_state(mdp, policy)
    residual = float(np.abs(np.log(total)).max())
    # V + t e is above the soft value for small t > residual, with e the expected steps (`operators`).
    bound = 2 * (residual + EPSILON) * float(inverse.values(np.ones(mdp.n_states)).max())
    policy /= per_choice(mdp, total)
    frozen = freeze(value), freeze(choice_value), freeze(policy)
    return Optimum(*frozen, residual, bound, 1, Ended.CONVERGED), inverse
