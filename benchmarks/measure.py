"""Times become figures: alternating pairs, a ratio with its spread, and the limit that the figure must meet.

A ratio is the median over the pairs of the rival's time divided by ours: 10 means ten times faster. Its spread is the
minimum and the maximum. Each benchmark checks the answers that it times; a wrong answer ends the run.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from tutelage.outcomes import TutelageError

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")

# Linux: writing "5" to the first file resets the peak of resident memory, which the second file reports.
PEAK_RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class WrongAnswer(TutelageError):
    """A timed answer is wrong, so the figures of the run mean nothing."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a benchmark.

    what: the task. size: cells along one side of the grid, or 0. rival: the software that it is compared with, or "".
    ours, theirs: median seconds. ratio: theirs over ours. value, unit: another measured quantity, such as memory.
    spread: minimum and maximum over the repeats, of the ratio, else of the value, else of our seconds.
    must_hold: the limit of that number, in words. holds: whether it is met. note: a remark.
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
    def grid(self) -> str:
        """The size in words, as in "10x10"."""
        return f"{self.size}x{self.size}" if self.size else ""

    @property
    def judged(self) -> float | None:
        """The number that a limit applies to: the ratio, else the value, else our seconds."""
        return next((number for number in (self.ratio, self.value, self.ours) if number is not None), None)

    def at_least(self, limit: float | None) -> Self:
        """The same figure, which must be at least the limit; None sets no limit."""
        return self._limited(">=", limit, lambda number, bound: number >= bound)

    def at_most(self, limit: float | None) -> Self:
        """The same figure, which must be at most the limit; None sets no limit."""
        return self._limited("<=", limit, lambda number, bound: number <= bound)

    def below(self, limit: float | None) -> Self:
        """The same figure, which must be below the limit; None sets no limit."""
        return self._limited("<", limit, lambda number, bound: number < bound)

    def _limited(self, sign: str, limit: float | None, is_met: Callable[[float, float], bool]) -> Self:
        if limit is None or self.judged is None:
            return self
        unit = "s" if self.ratio is None and self.value is None else self.unit
        return replace(self, must_hold=f"{sign} {limit:g} {unit}".rstrip(), holds=is_met(self.judged, limit))

    def as_data(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Duel(Generic[Ours, Theirs]):
    """Pairs of seconds (ours, theirs), and the last timed answer of each, for the check."""

    times: list[tuple[float, float]]
    ours: Ours
    theirs: Theirs


class Step(NamedTuple):
    """A part of a benchmark that yields figures, with a name for the progress bar."""

    name: str
    run: Callable[[], Iterable[Figure]]


def check(is_right: bool, what: str) -> None:
    """Raise `WrongAnswer` unless is_right. what: what is wrong, with its numbers."""
    if not is_right:
        raise WrongAnswer(f"a timed answer is wrong: {what}")


def timed(work: Callable[[], Ours]) -> tuple[float, Ours]:
    """The seconds that one call takes, and its result."""
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def fastest(work: Callable[[], object], repeats: int = 3) -> float:
    """The minimum over several calls, for short work that other processes would disturb."""
    return min(timed(work)[0] for _ in range(repeats))


def duel(ours: Callable[[], Ours], theirs: Callable[[], Theirs], repeats: int) -> Duel[Ours, Theirs]:
    """Time both in turns, so that other load on the machine falls on both."""
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
    """A comparison that could not be made, with the reason; not a failure."""
    return Figure(what, size, rival, note=reason)


def exponent(states: Sequence[float], times: Sequence[float]) -> float:
    """The least-squares k of log time = constant + k log states."""
    slope, _ = np.polyfit(np.log(states), np.log(times), 1)
    return float(slope)


def resident(field: str) -> float:
    """Resident bytes of this process: now (VmRSS), or the peak (VmHWM). 0 where the system does not report it."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(field)), 0.0)
