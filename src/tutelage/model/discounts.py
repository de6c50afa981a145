"""Discounts and durations: one number, or one per choice.

A choice that takes d units of time is discounted by discount**d, where the discount is that of one unit of time. The
longer the choice, the later is everything after it (a semi-Markov process).
"""

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, any_array, check_length, floats
from tutelage.outcomes import InvalidModel


def checked_discount(value: ArrayLike, n_choices: int) -> float | Vector:
    """The one discount, or a read-only vector (C,) of at least two different ones."""
    given = any_array(value, "discount")
    if given.ndim == 0:
        return _number(value)
    discounts = floats(given, "discount", ndim=1)
    check_length(discounts, n_choices, "discount", "choices")
    wrong = np.flatnonzero((discounts <= 0) | (discounts >= 1))
    if len(wrong):
        found = discounts[wrong[0]]
        raise InvalidModel(f"discount[{wrong[0]}] must lie strictly between 0 and 1, got {found}")
    return float(discounts[0]) if (discounts == discounts[0]).all() else discounts


def checked_duration(value: ArrayLike, n_choices: int) -> Vector:
    """(C,), a read-only vector of positive durations; one number is used for all choices."""
    given = any_array(value, "duration")
    durations = floats(given if given.ndim else np.repeat(given, n_choices), "duration", ndim=1)
    check_length(durations, n_choices, "duration", "choices")
    wrong = np.flatnonzero(durations <= 0)
    if len(wrong):
        raise InvalidModel(f"duration[{wrong[0]}] is {durations[wrong[0]]}; a choice must take a positive time")
    return durations


def timed_discounts(discount: ArrayLike, durations: Vector) -> Vector:
    """(C,), discount**duration, for the discount of one unit of time."""
    if np.ndim(discount):
        raise InvalidModel("with durations, discount must be one number, that of one unit of time")
    base = _number(discount)
    discounts = np.power(base, durations)
    wrong = np.flatnonzero((discounts <= 0) | (discounts >= 1))
    if len(wrong):
        end = "one" if discounts[wrong[0]] > 0.5 else "zero"
        raise InvalidModel(
            f"duration[{wrong[0]}] is {durations[wrong[0]]}, and {base}**{durations[wrong[0]]} rounds to {end}; "
            "measure time in another unit, or give another discount per unit"
        )
    return np.asarray(discounts)


def _number(value: ArrayLike) -> float:
    try:
        discount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        given = value.item() if isinstance(value, np.ndarray) else value
        raise InvalidModel(f"discount must be a number, got {given!r}") from error
    if not 0 < discount < 1:
        raise InvalidModel(f"discount must lie strictly between 0 and 1, got {discount}")
    return discount
