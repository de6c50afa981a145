"""Time limits and progress of computations that may take long.

A public function sets the limit and the callback once, around its whole computation, by `with watched(...)`. Every
iteration below it calls `report` once per step, which passes the step on to the callback, and raises `OutOfTime` when
the time is over. A method that has a useful answer at any time catches `OutOfTime` and returns that
answer with `Ended.TIME_LIMIT`. Limits nest: the earliest one holds. The watch is a context variable, so it needs no
argument in the functions between, and each thread or task has its own.

A search that could go on for long has a `Budget` of steps instead of seconds, so that its result is the same on every
machine. `OutOfTime` is raised within `spending(budget)` when the budget is used up.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tutelage.outcomes import InvalidInput, OutOfTime


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long computation.

    stage: what is computed, such as "Newton steps". done: the number of steps so far in this stage. gap: the most by
    which the answer may still improve, or the residual; infinite where neither is known.
    """

    stage: str
    done: int
    gap: float = math.inf


OnProgress = Callable[[Progress], object]


@dataclass(slots=True)
class Budget:
    """left: the number of steps that a search may still take."""

    left: int


@dataclass(frozen=True, slots=True)
class _Watch:
    """deadline: of `time.monotonic`. progress: the callback, if any. budget: of the innermost search, if any."""

    deadline: float = math.inf
    progress: OnProgress | None = None
    budget: Budget | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within this block, this watch holds."""
        token = _now.set(self)
        try:
            yield
        finally:
            _now.reset(token)


_UNWATCHED = _Watch()
_now: ContextVar[_Watch] = ContextVar("watch", default=_UNWATCHED)


def watched(time_limit: float | None = None, progress: OnProgress | None = None) -> AbstractContextManager[None]:
    """Within this block, steps are reported to `progress`, and `OutOfTime` is raised after `time_limit` seconds.

    None leaves the limit, or the callback, of the surrounding block in place.
    """
    if time_limit is not None and not time_limit > 0:
        raise InvalidInput(f"time_limit must be a positive number of seconds, got {time_limit}")
    outer = _now.get()
    deadline = outer.deadline if time_limit is None else min(outer.deadline, time.monotonic() + time_limit)
    return _Watch(deadline, outer.progress if progress is None else progress, outer.budget).held()


def spending(budget: Budget) -> AbstractContextManager[None]:
    """Within this block every reported step takes one from the budget."""
    return replace(_now.get(), budget=budget).held()


def unlimited() -> AbstractContextManager[None]:
    """Within this block no limit holds: for the short last steps of an answer that must be complete."""
    return _Watch(progress=_now.get().progress).held()


def is_over() -> bool:
    """Whether the time limit has passed."""
    return time.monotonic() > _now.get().deadline


def report(stage: str, done: int, gap: float = math.inf, answer: object = None) -> None:
    """Tell the callback about one step.

    Raise `OutOfTime`, with the best answer so far, if the time limit has passed or the budget is used up.
    """
    watch = _now.get()
    if watch.progress is not None:
        watch.progress(Progress(stage, done, gap))
    spend()
    if time.monotonic() > watch.deadline or (watch.budget is not None and watch.budget.left < 0):
        raise OutOfTime(stage, done, gap, answer)


def spend(n_steps: int = 1) -> None:
    """Take steps from the budget, if there is one: for inner steps that are not worth a report."""
    budget = _now.get().budget
    if budget is not None:
        budget.left -= n_steps
