"""Allowances in words: a count, a share of the discounted time, one for all features or by the names of features.

    violation_allowance=2.5                                                a discounted count, for every feature
    violation_allowance={"service_km": 0.1, "main_km": tl.share(0.05)}     by name; other features have no limit
    violation_allowance={"service_km": 0.1, "others": 0}                   by name; zero for other features

A share is a part of the discounted time: of 1 / (1 - discount) steps, or with durations of -1 / log discount units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np

from tutelage.arrays import ArrayLike, Vector, any_array, check_length, floats, freeze
from tutelage.model.mdp import MDP
from tutelage.model.names import suggestion
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the discounted time, from 0 to 1."""

    fraction: float


# In a mapping: the allowance of every feature that it does not name.
OTHERS = "others"
Amount: TypeAlias = float | Share
Allowance: TypeAlias = ArrayLike | Amount | Sequence[Amount] | Mapping[str, Amount]


def share(fraction: float) -> Share:
    """An allowance of a part of the discounted time: `share(0.1)` is a tenth of it."""
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 <= fraction <= 1:
        raise InvalidModel(f"a share must be a number from 0 to 1, got {fraction!r}; 5 per cent is share(0.05)")
    return Share(float(fraction))


def count(number: float) -> float:
    """An allowance of a discounted count, the unit of all allowances: `count(2.5)` is 2.5."""
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= number < np.inf:
        raise InvalidModel(f"a count must be a number of at least zero, got {number!r}")
    return float(number)


def total_time(mdp: MDP) -> float:
    """The discounted time of every policy, in steps, or in units of time where the choices have durations."""
    if np.max(mdp.discount) == 1:
        raise InvalidModel("a share needs a total time, but without discount each policy takes its own; give a count")
    if isinstance(mdp.discount, float):
        return mdp.steps if mdp.duration is None else float(mdp.duration[0]) * mdp.steps
    if mdp.duration is None:
        advice = "give a duration for each choice, or give the allowance as a count"
        raise InvalidModel(f"a share needs a total time, but discounts differ and there are no durations; {advice}")
    return float(-mdp.duration[0] / np.log(mdp.discount[0]))


def checked_allowance(given: Allowance, name: str, least: float = 0.0) -> Allowance:
    """The allowance, its array or mapping read-only; one below `least` is refused, and in a mapping one below zero."""
    if isinstance(given, Share):
        return given
    if isinstance(given, Mapping):
        return MappingProxyType({str(name): _amount(value, f"of {name!r}") for name, value in given.items()})
    if isinstance(given, Sequence) and any(isinstance(amount, Share) for amount in given):
        return tuple(_amount(value, f"number {place}") for place, value in enumerate(given))
    values = any_array(cast(ArrayLike, given), name)
    numbers = floats(values, name, ndim=values.ndim)
    if values.ndim > 1 or numbers.min(initial=np.inf) < least:
        raise InvalidModel(f"{name} must be a number or one per feature, none negative; got {values}")
    return numbers


def _amount(value: Any, place: str) -> Amount:
    try:
        return value if isinstance(value, Share) else count(float(value))
    except (TypeError, ValueError) as error:
        raise InvalidModel(f"the allowance {place} must be a number of at least zero, or a share") from error


def allowance_vector(given: Allowance, mdp: MDP, names: tuple[str, ...], name: str, what: str) -> Vector:
    """(m,), the discounted count allowed of each of the names; infinite for a preference that a mapping leaves out."""
    amounts: Any = given
    if isinstance(given, Mapping):
        for key in given:
            if key not in (*names, OTHERS):
                raise InvalidModel(f"{name} names {key!r}, which is not one of the {what}; {suggestion(key, names)}")
        others = given.get(OTHERS, 0.0 if name == "mismatch_allowance" else np.inf)
        amounts = [given.get(key, others) for key in names]
    elif np.ndim(amounts) == 0:
        amounts = [given] * len(names)
    limits = np.array([part.fraction * total_time(mdp) if isinstance(part, Share) else part for part in amounts])
    check_length(limits, len(names), name, what)
    return freeze(limits)


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
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError as error:
        known = "a number such as 2.5 or 5%, one for each feature with commas between, name=amount"
        raise InvalidModel(f"an allowance must be {known}, or name=amount/journey; got {place!r}") from error
    is_share = text.strip().endswith("%")
    if not 0 <= number < np.inf or (is_share and number > 100):
        known = "a share of 0% to 100%" if is_share else "a count of at least zero"
        raise InvalidModel(f"an allowance must be {known}, got {place!r}")
    return share(number / 100) if is_share else count(number)
