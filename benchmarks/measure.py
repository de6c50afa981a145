"""How times become figures: pairs that alternate, a ratio with its spread, what must hold, and whether it does.

Nothing here knows what is timed. A ratio is the median of the pairs', rival over ours, so that 10 says ten times
faster; its spread is the least and the greatest. Whoever times an answer checks it too, and a wrong one ends the run.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from tutelage.outcomes import TutelageError

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


class WrongAnswer(TutelageError):
    """A timed answer that is not the answer: the run means nothing."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a benchmark.

    what: the task. size: cells along the side of its grid. rival: what ours is compared with, if anything.
    ours, theirs: median seconds. ratio: theirs over ours. value, unit: what was measured instead, such as memory.
    spread: the least and the greatest of the repeats: of the ratio, or else of the value, or else of our seconds.
    must_hold: what is asked of that number, in words; holds: whether it is so. note: what else is to be said.
    """

    what: str
    size: int
    rival: str = ""
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    value: float | None = None
    unit: str = ""
    must_hold: str = ""
    holds: bool = True
    note: str = ""

    @property
    def judged(self) -> float | None:
        """The number that something may be asked of: the ratio, or else the value, or else our seconds."""
        return next((number for number in (self.ratio, self.value, self.ours) if number is not None), None)

    def at_least(self, limit: float | None) -> Self:
        """The same, which must not be less than the limit; nothing is asked where there is none."""
        return self._asked(">=", limit, lambda number, bound: number >= bound)

    def at_most(self, limit: float | None) -> Self:
        """The same, which must not be more than the limit; nothing is asked where there is none."""
        return self._asked("<=", limit, lambda number, bound: number <= bound)

    def below(self, limit: float | None) -> Self:
        """The same, which must be less than the limit; nothing is asked where there is none."""
        return self._asked("<", limit, lambda number, bound: number < bound)

    def _asked(self, sign: str, limit: float | None, is_met: Callable[[float, float], bool]) -> Self:
        if limit is None or self.judged is None:
            return self
        unit = "s" if self.ratio is None and self.value is None else self.unit
        return replace(self, must_hold=f"{sign} {limit:g} {unit}".rstrip(), holds=is_met(self.judged, limit))

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Duel(Generic[Ours, Theirs]):
    """Pairs of seconds (ours, theirs), and the last answer of each: the one to be checked is one that was timed."""

    times: list[tuple[float, float]]
    ours: Ours
    theirs: Theirs


class Step(NamedTuple):
    """A part of a benchmark that yields some figures, under a name for the progress bar."""

    name: str
    run: Callable[[], Iterable[Figure]]


def check(is_right: bool, what: str) -> None:
    """Raise `WrongAnswer` unless it is right. what: a sentence's subject and the figures that contradict it."""
    if not is_right:
        raise WrongAnswer(f"a timed answer is wrong: {what}")


def timed(work: Callable[[], Ours]) -> tuple[float, Ours]:
    """How many seconds one call takes, and what it returns."""
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def fastest(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of some calls, for work so short that anything else on the machine shows."""
    return min(timed(work)[0] for _ in range(repeats))


def duel(ours: Callable[[], Ours], theirs: Callable[[], Theirs], repeats: int) -> Duel[Ours, Theirs]:
    """Time both in turns, so that whatever else the machine does falls on both."""
    times = []
    for _ in range(repeats):
        first, our_answer = timed(ours)
        second, their_answer = timed(theirs)
        times.append((first, second))
    return Duel(times, our_answer, their_answer)


def compared(what: str, size: int, rival: str, times: Sequence[tuple[float, float]], note: str = "") -> Figure:
    """The figure of pairs (ours, theirs)."""
    each = [slow / fast for fast, slow in times]
    ours, theirs = (median(column) for column in zip(*times, strict=True))
    return Figure(what, size, rival, ours, theirs, median(each), (min(each), max(each)), note=note)


def missing(what: str, size: int, rival: str, reason: str) -> Figure:
    """A comparison that could not be made, and why; it is no failure."""
    return Figure(what, size, rival, note=reason)


def exponent(states: Sequence[float], times: Sequence[float]) -> float:
    """The k of time = constant * states^k that fits best: least squares in the logarithms."""
    slope, _ = np.polyfit(np.log(states), np.log(times), 1)
    return float(slope)
