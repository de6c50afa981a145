"""Features on arrival: a value for each choice and next state, such as "survived" for the arrival in a state.

Every expectation of a policy is the same for phi(c, s') as for its mean given the choice,

    phi(c) = sum over s' of T(s' | c) phi(c, s')

so solvers use the mean, which is a feature of choices. Where a trajectory is counted, the step from s_t to s_t+1 counts
what happened, phi(c_t, s_t+1); only a last step, whose next state is not known, counts its mean.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, Matrix, SparseRows, Vector, freeze, sparse_rows
from tutelage.outcomes import InvalidModel

# Values that differ from their mean by less than this, relative to the largest, do not depend on the next state.
ROUNDED_VALUE = 1e-12

# By the name of the feature: a sparse (C, S) with the entries of the transition.
Arrivals = Mapping[str, SparseRows]


def choice_of_entry(transition: SparseRows) -> Indices:
    """(nnz,), the choice of each entry of the transition."""
    return np.repeat(np.arange(transition.shape[0]), np.diff(transition.indptr))


def at_entries(transition: SparseRows, values: Vector) -> SparseRows:
    """Values (nnz,) at the entries of the transition (C, S)."""
    return sparse.csr_array((freeze(values), transition.indices, transition.indptr), transition.shape)


def by_name(transition: SparseRows, values: Matrix, names: Sequence[str]) -> dict[str, SparseRows]:
    """The columns of values (nnz, d) at the entries of the transition, by the names of the features."""
    return {name: at_entries(transition, column.copy()) for name, column in zip(names, values.T, strict=True)}


def checked_arrival(transition: SparseRows, given: Any, name: str) -> SparseRows:
    """A feature on arrival from an array or a sparse matrix (C, S); what is no transition does not count."""
    rows = sparse_rows(given, f"the feature {name!r}")
    if rows.shape != transition.shape:
        needed = f"give one value per choice and next state, {transition.shape}"
        raise InvalidModel(f"the feature {name!r} has shape {rows.shape}; {needed}, or one per state or choice")
    values = np.asarray(rows[choice_of_entry(transition), transition.indices], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        place = f"choice {choice_of_entry(transition)[wrong[0]]}, next state {transition.indices[wrong[0]]}"
        raise InvalidModel(f"the feature {name!r} is {values[wrong[0]]} for {place}; give finite numbers")
    return at_entries(transition, values)


def mean_values(transition: SparseRows, arrival: SparseRows) -> Vector:
    """(C,), the mean of a feature on arrival given the choice."""
    return np.asarray(np.add.reduceat(transition.data * arrival.data, transition.indptr[:-1]))


def kept_arrivals(transition: SparseRows, arrivals: Arrivals, features: Matrix, names: Sequence[str]) -> Arrivals:
    """The arrivals of these features (C, d) that depend on the next state; refused where a feature is not their mean.

    Of other names nothing is kept: a domain may have been restricted to some of its features.
    """
    kept = {}
    for column, name in enumerate(names):
        if name not in arrivals:
            continue
        arrival, size = arrivals[name], float(np.abs(arrivals[name].data).max(initial=0.0))
        mean = mean_values(transition, arrival)
        if len(features) != len(mean) or np.abs(features[:, column] - mean).max() > 1e-9 * size:
            raise InvalidModel(
                f"the feature {name!r} is not the mean of its values on arrival; change both with `with_features`"
            )
        if np.abs(arrival.data - np.repeat(mean, np.diff(transition.indptr))).max() > ROUNDED_VALUE * size:
            kept[name] = arrival
    return kept
