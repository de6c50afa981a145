"""How a computation ends: in one of a few named ways, or in an error that says what to do; and when it must end.

A solver that stops for a good reason returns a result whose `ended` is an `Ended`. Every other ending is a
`TutelageError`, which is also the built-in exception that Python users expect.

A public function sets the time limit and the callback once, by `with watched(...)`. Every iteration below it calls
`report` once per step, which raises `OutOfTime` when the time is over; a method that has a useful answer at any time
catches it and returns that answer with `Ended.TIME_LIMIT`. Limits nest: the earliest one holds.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar
from unicodedata import category

import numpy as np
from numpy.typing import NDArray


class Ended(Enum):
    """Why an iteration stopped, as a sentence for a person."""

    CONVERGED = "the promised accuracy was verified"
    ROUNDING = "double precision allows no closer answer; the stated error bound is the verified one"
    SETTLED = "the last step was too small to continue; the gap says how close the answer is"
    STEP_LIMIT = "the step limit was reached; the gap says how close the answer is"
    TIME_LIMIT = "the time limit was reached; the gap says how close the answer is"


AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, eq=False)
class Solution(Generic[AnswerT]):
    """What a method has computed, and how it ended: the one result of every solver within the package.
    answer: whatever the method looks for. value: the objective there. bound: no feasible answer is better; not finite
    where the method certifies nothing. residual: the largest violation of the optimality conditions, or of what the
    method says that it measures. n_steps: its iterations or evaluations."""

    answer: AnswerT
    value: float
    bound: float
    residual: float
    ended: Ended
    n_steps: int

    @property
    def gap(self) -> float:
        """The largest possible distance of the value from the optimal one."""
        return abs(self.bound - self.value)


def as_text(name: object) -> str:
    """A name or a message on one line of a terminal or a table: control and direction characters are escapes."""
    text = str(name)
    if text.isprintable():
        return text
    hidden = {letter for letter in text if category(letter) in ("Cc", "Cs", "Cf", "Zl", "Zp")}
    return "".join(repr(letter)[1:-1] if letter in hidden else letter for letter in text)


class TutelageError(Exception):
    """Base class of every error that this package raises on purpose. exit_code: that of the command line.

    The message is one line of at most 300 characters: the middle of a longer one is left out.
    """

    exit_code = 2

    def __init__(self, message: str, longest: int = 300) -> None:
        line, half = as_text(" ".join(message.split())), longest // 2 - 3
        super().__init__(line if len(line) <= longest else f"{line[:half]} ... {line[-half:]}")


class InvalidInput(TutelageError, ValueError):
    """An argument, an option or a file that is not valid; the message says which, and what is expected."""


class InvalidModel(InvalidInput):
    """An MDP, policy, lesson, world or learner that is not valid; the message names the state, choice, row or file."""


@contextmanager
def within(place: str) -> Iterator[None]:
    """Within this block, the message of invalid input begins with the place where it was found."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidModel(f"{place}: {error}") from error


class EndlessValue(InvalidModel):
    """Without discount, a value is infinite: going on for ever pays. The message names states of such a cycle."""


class MissingExtra(TutelageError, ImportError):
    """An optional dependency is not installed; the message gives the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra!r}; install it: pip install 'tutelage[{extra}]'")


@contextmanager
def needed_for(what: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtra` where an import fails."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(what, extra) from error


class Unavailable(TutelageError, OSError):
    """A port, a file, a database or a scheduler that cannot be used; the message says why."""


class NotConverged(TutelageError, RuntimeError):
    """An iteration that could not reach the accuracy that was asked for.

    residual: the last measured error, in the units named by the message. answer: the best answer so far with its own
    certificate, of the type that the function returns; None where there is none.
    """

    exit_code = 1

    def __init__(self, message: str, *, residual: float, n_steps: int, answer: Any = None) -> None:
        super().__init__(message)
        self.residual, self.n_steps, self.answer = residual, n_steps, answer


class OutOfTime(NotConverged):
    """The time limit was reached. stage: what was being computed."""

    def __init__(self, stage: str, n_steps: int, residual: float, answer: Any = None) -> None:
        left = f", with a gap of {residual:.3g}" if residual < math.inf else ""
        kept = "" if answer is None else "; what is known so far is the `answer` of this error"
        message = f"the time limit was reached before a result ({stage}: {n_steps}{left}); give more time{kept}"
        super().__init__(message, residual=residual, n_steps=n_steps, answer=answer)
        self.stage = stage


class InfeasibleConstraints(TutelageError, ValueError):
    """No policy satisfies the constraints.

    names: one name per constraint.
    least_violation: (m,), the excess of each constraint for the policy with the least total excess.
    unavoidable: (m,), the least excess of each constraint if it were the only one.
    """

    exit_code = 1

    def __init__(
        self,
        names: Sequence[str],
        least_violation: NDArray[np.float64],
        unavoidable: NDArray[np.float64],
        message: str = "",
    ) -> None:
        self.names, self.least_violation, self.unavoidable = tuple(names), least_violation, unavoidable
        # Beside a real excess, one that is a billion times smaller is rounding.
        real = 1e-9 * np.max(least_violation, initial=0.0)
        pairs = zip(names, least_violation, strict=True)
        excesses = ", ".join(f"{name!r} by {at_least(excess)}" for name, excess in pairs if excess > real)
        n = len(self.names)
        what, least = ("constraint", "it by") if n == 1 else (f"{n} constraints together", "them by in total")
        told = f"no policy satisfies the {what}; the least that any policy must exceed {least}: {excesses}"
        super().__init__(message or f"{told}; allow at least that much more")


def at_least(number: float) -> str:
    """A positive number in six digits, rounded up, so that allowing what is written is enough."""
    text = f"{number:.6g}"
    return text if float(text) >= number * (1 - 1e-12) else f"{number * (1 + 5e-6):.6g}"


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
    """left: the steps that a search may still take; not seconds, so that its result is the same everywhere."""

    left: int


@dataclass(frozen=True, slots=True)
class _Watch:
    """deadline: of `time.monotonic`. progress: the callback, if any. budget: of the innermost search, if any."""

    deadline: float = math.inf
    progress: OnProgress | None = None
    budget: Budget | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        token = _now.set(self)
        try:
            yield
        finally:
            _now.reset(token)


_UNWATCHED = _Watch()
_now: ContextVar[_Watch] = ContextVar("watch", default=_UNWATCHED)


def watched(time_limit: float | None = None, progress: OnProgress | None = None) -> AbstractContextManager[None]:
    """Within this block steps are reported; `OutOfTime` is raised after `time_limit` seconds. None: as around it."""
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


def time_left() -> float:
    """The seconds until the time limit, negative after it; infinite where there is none."""
    return _now.get().deadline - time.monotonic()


def is_over() -> bool:
    """Whether the time limit has passed."""
    return time_left() < 0


def report(stage: str, done: int, gap: float = math.inf, answer: object = None) -> None:
    """Tell the callback about one step; raise `OutOfTime` if the time limit has passed or the budget is used up."""
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
