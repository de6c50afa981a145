"""Array aliases named by shape, the checks of every array that a user gives, and how objects with arrays are shown.

A check returns the array in its one canonical form (float64 or int64, contiguous, read-only) or raises `InvalidModel`
with a sentence that names the first offending place.
"""

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import fields
from numbers import Real
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.outcomes import InvalidInput, InvalidModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    # Of a field that takes any array-like, or any sequence of names, and holds what `__post_init__` makes of it.
    AsVector: TypeAlias = Any
    AsMatrix: TypeAlias = Any
    AsNames: TypeAlias = Any
else:
    # So that `help` shows these names, and not five lines of what they stand for.
    ArrayLike, Vector, Matrix, Indices, Flags = (
        type(name, (), {"__module__": "builtins"}) for name in ("ArrayLike", "Vector", "Matrix", "Indices", "Flags")
    )
    AsVector, AsMatrix, AsNames = ArrayLike, ArrayLike, Sequence[str]
SparseRows: TypeAlias = sparse.csr_array
ArrayT = TypeVar("ArrayT", bound=NDArray[Any])
InstanceT = TypeVar("InstanceT")
EPSILON = float(np.finfo(np.float64).eps)
# The smallest normal number: dividing by less may overflow.
SMALLEST = float(np.finfo(np.float64).tiny)


def freeze(array: ArrayT) -> ArrayT:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array


def set_fields(instance: object, **values: Any) -> None:
    """Set fields of a frozen dataclass; for its `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def changed(instance: InstanceT, **values: Any) -> InstanceT:
    """A copy of a frozen dataclass with other fields, which are not checked; its other arrays are shared."""
    other = copy.copy(instance)
    set_fields(other, **values)
    return other


def set_state(instance: Any, state: Any) -> None:
    """Set the fields of an unpickled or copied frozen dataclass; its arrays are read-only again."""
    names = (part.name for part in fields(instance))
    for name, value in state.items() if isinstance(state, dict) else zip(names, state, strict=True):
        for held in value.values() if isinstance(value, dict) else (value,):
            for array in (held.data, held.indices, held.indptr) if sparse.issparse(held) else (held,):
                if isinstance(array, np.ndarray):
                    freeze(array)
        object.__setattr__(instance, name, value)


def generator(rng: int | np.random.Generator) -> np.random.Generator:
    """The given random generator, or a new one with the given seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InvalidInput(f"rng must be a non-negative int or a numpy.random.Generator, got {rng!r}")
    return np.random.default_rng(rng)


def any_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """The values as an array of the type that NumPy infers; ragged nesting is refused."""
    if isinstance(values, Mapping):
        raise InvalidModel(f"{name} must be an array of numbers, not a mapping; give a list of the numbers, in order")
    if np.ma.is_masked(values):
        raise InvalidModel(f"{name} has masked entries, which are no numbers; fill them first, as by .filled(0)")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidModel(f"{name} must be an array of numbers: its rows have different lengths") from error


def max_abs(values: NDArray[np.float64]) -> float:
    """The largest |x|; zero where there are none."""
    return float(np.abs(values).max(initial=0.0))


def floats(values: ArrayLike, name: str, *, ndim: int) -> NDArray[np.float64]:
    """A read-only float64 copy with `ndim` axes and finite entries."""
    given = any_array(values, name)
    if given.dtype.kind not in "biufO":
        kind = "text" if given.dtype.kind == "U" else given.dtype
        raise InvalidModel(f"{name} must be an array of numbers, not of {kind}")
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidModel(f"{name} must be an array of numbers: {error}") from error
    if array.ndim != ndim:
        axes = "axis" if ndim == 1 else "axes"
        advice = "" if array.ndim else "; give a list of numbers"
        raise InvalidModel(f"{name} must have {ndim} {axes}, got shape {array.shape}{advice}")
    check_finite(array, name)
    return freeze(array)


def vector(values: ArrayLike, name: str, length: int, what: str) -> Vector:
    """A read-only vector of finite numbers, one per `what`."""
    array = floats(values, name, ndim=1)
    check_length(array, length, name, what)
    return array


def integers(values: ArrayLike, name: str, n_states: int | None = None) -> Indices:
    """A read-only int64 copy of a vector of whole numbers. n_states: where each is the number of a state."""
    array = any_array(values, name)
    if array.ndim != 1:
        raise InvalidModel(f"{name} must be a vector, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iuf":
        raise InvalidModel(f"{name} must hold whole numbers, got {array.dtype}")
    if array.dtype.kind != "i":
        # Doubles beyond 2**53 skip whole numbers; no model has that many states.
        is_wrong = ~(np.abs(array) < 2.0**53) | (array != np.floor(array))
        refuse(is_wrong, lambda i: f"{name}[{i}] is {array[i]}; every entry must be a whole number below 2**53")
    numbers = array.astype(np.int64)
    if n_states is not None:
        is_wrong = (numbers < 0) | (numbers >= n_states)
        refuse(is_wrong, lambda i: f"{name} has state {numbers[i]}, but the states are 0 to {n_states - 1}")
    return freeze(numbers)


def refuse(is_wrong: ArrayLike, sentence: Callable[[int], str]) -> None:
    """Raise `InvalidModel` with the sentence about the first wrong place of a vector, if there is any."""
    for place in np.flatnonzero(is_wrong)[:1].tolist():
        raise InvalidModel(sentence(place))


def check_finite(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN and infinities, naming the first."""
    for place in np.argwhere(~np.isfinite(array))[:1].tolist():
        at = ", ".join(map(str, place))
        raise InvalidModel(f"{name}[{at}] is {array[tuple(place)]}; every entry must be a finite number")


def check_same(name: str, stored: Vector, computed: Vector, unit: Vector | float, share: float = 1e-6) -> None:
    """Refuse stored numbers that differ from the computed ones by more than a share of their unit."""
    if stored.shape != computed.shape:
        raise InvalidModel(f"its {name} has {len(stored)} entries, but {len(computed)} are needed")
    with np.errstate(invalid="ignore"):
        differs = ~((np.abs(stored - computed) <= share * np.asarray(unit)) | (stored == computed))
    place = "[{}]" if len(stored) > 1 else ""
    known = "but by what it follows from it is"
    refuse(differs, lambda j: f"its {name}{place.format(j)} is {stored[j]:.10g}, {known} {computed[j]:.10g}")


def check_length(given: Sized, length: int, name: str, what: str, parts: str = "entries") -> None:
    """Refuse an array or a list that does not have one entry per `what`."""
    if len(given) != length:
        raise InvalidModel(f"{name} has {len(given)} {parts}, but there are {length} {what}; give one for each")


def check_rows(values: NDArray[np.float64], first_choice: Indices, name: str, what: str = "entries") -> None:
    """Refuse values that are neither one per state nor one per choice."""
    n_states, n_choices = len(first_choice) - 1, int(first_choice[-1])
    if len(values) not in (n_states, n_choices):
        needed = f"one per state ({n_states}) or one per choice ({n_choices})"
        raise InvalidModel(f"{name} has {len(values)} {what}; it needs {needed}")


def sum_tolerance(n_terms: int | Indices) -> Any:
    """The largest error of a sum of probabilities that is renormalised; a larger one is refused.
    One part allows for single-precision input (2**-24 relative, about 6e-8), one part for the rounding of each term."""
    return 1e-8 * (8 + np.asarray(n_terms))


def divisors(totals: ArrayLike, n_terms: int | Indices) -> Any:
    """The sums to divide by: exactly one where a sum differs from one by rounding only. Dividing n terms leaves a sum
    within n * 2**-53 of one, so an array that was normalised once passes every further check unchanged, bit for bit."""
    is_one = np.abs(np.asarray(totals) - 1) <= EPSILON * np.asarray(n_terms)
    return np.where(is_one, 1.0, totals)


def distribution(values: ArrayLike, name: str) -> Vector:
    """A read-only probability vector; a small error of its sum is renormalised, a larger one refused."""
    array = floats(values, name, ndim=1)
    refuse(array < 0, lambda i: f"{name}[{i}] is {array[i]}; a probability cannot be negative")
    total = float(array.sum())
    if abs(total - 1) > sum_tolerance(len(array)):
        raise InvalidModel(f"{name} sums to {total:.10g}; probabilities must sum to one")
    return freeze(array / divisors(total, len(array)))


def stochastic_rows(values: Any, name: str, place: Callable[[int], str] = lambda row: "") -> SparseRows:
    """A read-only CSR matrix whose rows are distributions, as `distribution`. place: what a row means, for messages."""
    rows = sparse_rows(values, name)
    rows.sum_duplicates()

    def negative(entry: int) -> str:
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        given = f"{place(row)}row {row} of {name} gives probability {rows.data[entry]} to state {rows.indices[entry]}"
        return f"{given}; probabilities must be finite and not negative"

    refuse(~np.isfinite(rows.data) | (rows.data < 0), negative)
    rows.eliminate_zeros()
    lengths = np.diff(rows.indptr)
    totals = rows.sum(axis=1)
    is_off = np.abs(totals - 1) > sum_tolerance(lengths)
    others = f" ({np.count_nonzero(is_off)} rows do not)" if np.count_nonzero(is_off) > 1 else ""
    told = f"probabilities must sum to one{others}"
    refuse(is_off, lambda row: f"{place(row)}row {row} of {name} sums to {totals[row]:.10g}; {told}")
    rows.data /= np.repeat(divisors(totals, lengths), lengths)
    if rows.nnz < np.iinfo(np.int32).max:
        # 32-bit indices take half the memory, and each kernel is compiled once instead of twice.
        rows = sparse.csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), rows.shape)
    for part in (rows.data, rows.indices, rows.indptr):
        freeze(part)
    return rows


def sparse_rows(values: Any, name: str) -> SparseRows:
    """A CSR copy with two axes and checked indices; SciPy itself reads out of bounds where an index is wrong."""
    if not sparse.issparse(values):
        return sparse.csr_array(floats(values, name, ndim=2))
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise InvalidModel(f"{name} must be a matrix of numbers, got {values.dtype} of shape {values.shape}")
    try:
        rows = values.copy()
        if rows.format in ("csr", "csc", "bsr"):
            height, width = getattr(rows, "blocksize", (1, 1))
            shape = (rows.shape[0] // height, rows.shape[1] // width)
            check_compressed(rows.indptr, rows.indices, shape[::-1] if rows.format == "csc" else shape, name)
            rows.check_format(full_check=True)
        elif rows.format == "coo":
            # `ravel_multi_index` refuses an index outside the matrix.
            np.ravel_multi_index(tuple(map(np.int64, rows.coords)), rows.shape)
        rows = sparse.csr_array(rows, dtype=np.float64)
        rows.check_format(full_check=True)
    except InvalidModel:
        raise
    except ValueError as error:
        raise InvalidModel(f"{name} is not a well-formed sparse matrix: {error}") from error
    return rows


def check_compressed(indptr: Indices, indices: Indices, shape: tuple[int, int], name: str) -> None:
    """Refuse the index arrays of a compressed matrix unless every entry lies within the matrix.
    SciPy does not check where rows begin if there are no entries, and its sorting then writes outside the arrays."""
    n_rows, n_columns = shape
    wrong = f"{name} is not a well-formed sparse matrix:"
    is_begun = len(indptr) == max(n_rows, 0) + 1 and (indptr[0], indptr[-1]) == (0, len(indices))
    if not is_begun or (indptr[1:] < indptr[:-1]).any():
        needed = f"{n_rows + 1} numbers that rise from 0 to {len(indices)}"
        raise InvalidModel(f"{wrong} the starts of its rows (indptr) must be {needed}")
    outside = (indices < 0) | (indices >= n_columns)
    refuse(outside, lambda i: f"{wrong} it leads to state {indices[i]}, but states are 0 to {n_columns - 1}")


def whole_number(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    """The value as an int of at least `least`, and at most `most`; truth values and fractions are refused."""
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_number or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidModel(f"{name} must be a whole number {span}, got {value!r}")
    return int(value)


def check_numbers(
    instance: object, *names: str, least: float = SMALLEST, most: float = sys.float_info.max, is_whole: bool = False
) -> None:
    """Refuse fields that are no numbers from `least` to `most`: by default positive and finite. is_whole: ints only."""
    for name in names:
        value: Any = getattr(instance, name)
        if is_whole:
            whole_number(value, name, least=int(least))
        elif isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:  # type: ignore[operator]
            advice = "" if most == math.inf else "; give a finite number"
            raise InvalidModel(f"{name} must be {'positive' if least > 0 else 'at least zero'}, got {value!r}{advice}")


def finite_or_none(number: float) -> float | None:
    """The number, or None where it is infinite or NaN, which JSON does not have."""
    return number if math.isfinite(number) else None


class Readable:
    """A dataclass that shows long arrays and parts by their sizes, and whose arrays stay read-only in copies."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # In its own dictionary, so that `dataclass` makes no others.
        cls.__repr__, cls.__setstate__ = cls.__repr__, set_state  # type: ignore[method-assign, attr-defined]

    def __repr__(self) -> str:
        parts = [f"{part.name}={brief(getattr(self, part.name))}" for part in fields(self) if part.repr]  # type: ignore[arg-type]
        name = type(self).__name__
        line = ", ".join(parts)
        if len(line) + len(name) < 110:
            return f"{name}({line})"
        shown = parts if len(parts) <= 8 else [*parts[:7], "..."]
        return "\n".join([f"{name}(", *(f"    {part}," for part in shown), ")"])

    def _repr_html_(self) -> str:
        """The picture or the table that a notebook shows."""
        return str(resolve_name("tutelage.pictures.domains:as_html")(self))


def brief(value: Any, longest: int = 90) -> str:
    """A value in at most so many letters: long arrays, lists and parts by their sizes and kinds."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array of shape {value.shape}"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, tuple | list) and len(value) > 3 and len(repr(value)) > longest:
        few = ", ".join(map(repr, value[:2]))
        return f"[{few}, and {len(value) - 2} more]" if len(few) < 70 else f"{len(value)} of {type(value[0]).__name__}"
    text = " ".join(repr(value).split())
    if len(text) <= longest:
        return text
    return f"{type(value).__name__}(...)" if isinstance(value, Readable) else f"{text[: longest - 4]} ..."
