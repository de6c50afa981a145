"""Array aliases named by shape, and the checks that every array passes at the door.

A check returns the array in its one canonical form (float64 or int64, contiguous, read-only) or raises `InvalidModel` with
a sentence that names the first offending place.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tutelage.outcomes import InvalidModel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int64]
SparseRows = sparse.csr_array

ArrayT = TypeVar("ArrayT", bound=NDArray[Any])


def freeze(array: ArrayT) -> ArrayT:
    """The same array, from here on read-only."""
    array.setflags(write=False)
    return array


def floats(values: ArrayLike, name: str, *, ndim: int) -> NDArray[np.float64]:
    """A read-only float64 copy with `ndim` axes and finite entries."""
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidModel(f"{name} must be an array of numbers: {error}") from error
    if array.ndim != ndim:
        raise InvalidModel(f"{name} must have {ndim} axes, got shape {array.shape}")
    check_finite(array, name)
    return freeze(array)


def integers(values: ArrayLike, name: str) -> Indices:
    """A read-only int64 copy of a vector of whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidModel(f"{name} must be a vector, got shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        if not np.issubdtype(array.dtype, np.floating) or not np.all(array == np.floor(array)):
            raise InvalidModel(f"{name} must hold whole numbers, got {array.dtype}")
    return freeze(array.astype(np.int64))


def check_finite(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN and infinities, naming the first."""
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = ", ".join(str(i) for i in wrong[0])
        raise InvalidModel(f"{name}[{place}] is {array[tuple(wrong[0])]}; every entry must be a finite number")


def check_length(array: NDArray[Any], length: int, name: str, what: str) -> None:
    """Refuse an array whose first axis is not one entry per `what`."""
    if len(array) != length:
        raise InvalidModel(f"{name} has {len(array)} entries, but there are {length} {what}")


def sum_tolerance(n_terms: int | Indices) -> Any:
    """How far probabilities may drift from one before they are refused rather than renormalised.

    A part for single-precision input (2**-24 relative, about 6e-8) and a part for each term that was rounded.
    """
    return 1e-8 * (8 + np.asarray(n_terms))


def distribution(values: ArrayLike, name: str) -> Vector:
    """A read-only probability vector; tiny drift of its sum is renormalised, more is refused."""
    array = floats(values, name, ndim=1)
    if len(array) and array.min() < 0:
        raise InvalidModel(f"{name}[{array.argmin()}] is {array.min()}; a probability cannot be negative")
    total = float(array.sum())
    if abs(total - 1) > sum_tolerance(len(array)):
        raise InvalidModel(f"{name} sums to {total:.10g}; probabilities must sum to one")
    return freeze(array / total)


def stochastic_rows(values: Any, name: str) -> SparseRows:
    """A read-only CSR matrix whose rows are distributions; tiny drift is renormalised, more is refused."""
    rows = sparse.csr_array(values, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    check_entries(rows, name)
    rows.eliminate_zeros()
    lengths = np.diff(rows.indptr)
    totals = rows.sum(axis=1)
    wrong = np.flatnonzero(np.abs(totals - 1) > sum_tolerance(lengths))
    if len(wrong):
        raise InvalidModel(
            f"row {wrong[0]} of {name} sums to {totals[wrong[0]]:.10g}; probabilities must sum to one"
            + (f" ({len(wrong)} rows do not)" if len(wrong) > 1 else "")
        )
    rows.data /= np.repeat(totals, lengths)
    for part in (rows.data, rows.indices, rows.indptr):
        freeze(part)
    return rows


def check_entries(rows: SparseRows, name: str) -> None:
    """Refuse stored probabilities that are not finite or are negative, naming the first."""
    wrong = np.flatnonzero(~np.isfinite(rows.data) | (rows.data < 0))
    if len(wrong):
        row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
        raise InvalidModel(
            f"row {row} of {name} gives probability {rows.data[wrong[0]]} to state {rows.indices[wrong[0]]}; "
            "probabilities must be finite and not negative"
        )
