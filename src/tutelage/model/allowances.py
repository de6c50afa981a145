"""Allowances in words: a count, a share of the discounted time, one for all features or by the names of features.

    violation_allowance=2.5                                                a discounted count, for every feature
    violation_allowance={"service_km": 0.1, "main_km": tl.share(0.05)}     by name; other features have no limit
    violation_allowance={"service_km": 0.1, "others": 0}                   by name; zero for other features

A share is a part of the discounted time, whose total is the same for every policy: with one discount, and one unit of
time for each choice,

    total = sum over t of discount^t = 1 / (1 - discount)

and with durations the time passes continuously, total = integral of discount^t = -1 / log discount.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from tutelage.arrays import ArrayLike, Vector, check_length, floats, freeze
from tutelage.model.mdp import MDP
from tutelage.model.names import suggestion
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the discounted time, from 0 to 1."""

    fraction: float

    def of(self, mdp: MDP) -> float:
        return self.fraction * total_time(mdp)


@dataclass(frozen=True, slots=True)
class Count:
    """A discounted count, the unit of all allowances."""

    number: float

    def of(self, mdp: MDP) -> float:
        return self.number


# In a mapping: the allowance of every feature that it does not name.
OTHERS = "others"

Amount: TypeAlias = float | Share | Count
Allowance: TypeAlias = ArrayLike | Amount | Sequence[Amount] | Mapping[str, Amount]


def share(fraction: float) -> Share:
    """An allowance of a part of the discounted time: `share(0.1)` is a tenth of it."""
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 <= fraction <= 1:
        raise InvalidModel(f"a share must be a number from 0 to 1, got {fraction!r}; 5 per cent is share(0.05)")
    return Share(float(fraction))


def count(number: float) -> Count:
    """An allowance of a discounted count: `count(2.5)` means the same as 2.5."""
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= number < np.inf:
        raise InvalidModel(f"a count must be a number of at least zero, got {number!r}")
    return Count(float(number))


def total_time(mdp: MDP) -> float:
    """The discounted time of every policy, in steps, or in units of time where the choices have durations."""
    if np.max(mdp.discount) == 1:
        raise InvalidModel("a share needs a total time, but without discount each policy takes its own; give a count")
    if isinstance(mdp.discount, float):
        return mdp.steps if mdp.duration is None else float(mdp.duration[0]) * mdp.steps
    if mdp.duration is None:
        raise InvalidModel(
            "a share needs a total time, but the discounts differ and there are no durations; "
            "give a duration for each choice, or give the allowance as a count"
        )
    return float(-mdp.duration[0] / np.log(mdp.discount[0]))


def is_in_words(given: Allowance) -> bool:
    """Whether an allowance is more than numbers: it has names, shares or counts."""
    if isinstance(given, Mapping | Share | Count):
        return True
    return isinstance(given, Sequence) and any(isinstance(amount, Share | Count) for amount in given)


def checked_allowance(given: Allowance, kind: str) -> Allowance:
    """The allowance with a read-only array or mapping in it; one that is negative or not a number is refused."""
    if isinstance(given, Share | Count):
        return given
    if isinstance(given, Mapping):
        return MappingProxyType({str(name): _amount(value, f"of {name!r}") for name, value in given.items()})
    if is_in_words(given):
        return tuple(_amount(value, f"number {place}") for place, value in enumerate(given))  # type: ignore[arg-type]
    values = np.asarray(given)
    numbers = floats(values, f"the {kind} allowance", ndim=values.ndim)
    if values.ndim > 1 or (values.size and numbers.min() < 0):
        raise InvalidModel(f"the {kind} allowance must be a number or one per feature, none negative; got {values}")
    return numbers


def allowance_vector(given: Allowance, mdp: MDP, names: tuple[str, ...], name: str, what: str) -> Vector:
    """(m,), the discounted count allowed of each of the names; one number, share or count is used for all.

    Infinite for a preference that a mapping does not name, and zero for a mismatch; `OTHERS` in it is for all of these.
    """
    if isinstance(given, Mapping):
        for key in given:
            if key not in (*names, OTHERS):
                raise InvalidModel(f"{name} names {key!r}, which is not one of the {what}; {suggestion(key, names)}")
        others = given.get(OTHERS, 0.0 if name == "mismatch_allowance" else np.inf)
        given = [given.get(key, others) for key in names]
    amounts: Any = given
    if isinstance(given, Share | Count):
        amounts = given.of(mdp)
    elif isinstance(given, Sequence):
        amounts = [amount.of(mdp) if isinstance(amount, Share | Count) else amount for amount in given]
    values = freeze(np.array(amounts, np.float64))
    if values.ndim == 0:
        return freeze(np.full(len(names), float(values)))
    check_length(values, len(names), name, what)
    return values


def read_allowance(text: str) -> Amount | tuple[Amount, ...] | dict[str, Amount]:
    """An allowance from the command line: `2.5`, `5%`, one for each feature as `0.1,5%`, or by name, `a=0.1,b=5%`."""
    if "=" not in text:
        amounts = tuple(_read_amount(part, text) for part in text.split(","))
        return amounts if len(amounts) > 1 else amounts[0]
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    named = {name.strip(): _read_amount(value, f"{name}={value}") for name, _, value in pairs}
    if len(named) < len(pairs) or "" in named:
        raise InvalidModel(f"an allowance must be name=amount with commas between, each name once; got {text!r}")
    return named


def _read_amount(text: str, place: str) -> Amount:
    is_share = text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%"))
    except ValueError as error:
        known = (
            "a number such as 2.5 or 5%, one for each feature with commas between, name=amount, or name=amount/journey"
        )
        raise InvalidModel(f"an allowance must be {known}; got {place!r}") from error
    return share(number / 100) if is_share else count(number).number


def _amount(value: Amount, place: str) -> Amount:
    if isinstance(value, Share | Count):
        return value
    try:
        return count(float(value)).number
    except (TypeError, ValueError) as error:
        raise InvalidModel(f"the allowance {place} must be a number of at least zero, a share or a count") from error
