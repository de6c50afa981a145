"""Players and metrics that a script gives to its sweep: how a worker gets one, how it is called, what identifies it."""

import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cloudpickle

from tutelage.experiments.identity import digest
from tutelage.outcomes import InvalidInput
from tutelage.registry import look_up
from tutelage.transcripts import TaughtRound

# The columns of a row that are not metrics.
COLUMNS = (
    *("domain", "group", "replicate", "learner", "model", "preferences", "allowance", "n_sampled", "mismatch_penalty"),
    *("violation_penalty", "max_steps", "teacher", "max_rounds", "seed", "reward", "lesson_reward", "bound", "gap"),
    *("residual", "arrival", "arrival_steps", "n_rounds", "n_demonstrations", "n_steps", "seconds", "ended", "failed"),
)


@dataclass(frozen=True, slots=True)
class Given:
    """A class, or any function, that a script gives under a name.

    identity: the version that the user states, or a digest of the code; with the arguments that a partial has. pickled:
    the code itself, so that a worker does not need the script.
    """

    name: str
    identity: str
    pickled: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, name: str, made: Any, version: str = "") -> "Given":
        """Refused unless it can be called, and can be sent to another process."""
        if not callable(made):
            raise InvalidInput(f"{name!r} must be a class or a function that makes the player, got {made!r}")
        preset = (made.args, made.keywords) if isinstance(made, partial) else ()
        try:
            pickled = cloudpickle.dumps(made)
        except Exception as error:
            raise InvalidInput(f"{name!r} cannot be sent to another process: {error}") from error
        return cls(name, digest((version, preset) if version else made), pickled)

    def load(self) -> Callable[..., Any]:
        """The class or function itself, in this process."""
        made: Callable[..., Any] = pickle.loads(self.pickled)
        return made


def called(made: Callable[..., Any], *first: Any, options: Mapping[str, Any], offered: Mapping[str, Any]) -> Any:
    """The result of a call with `first` and the options, and with each of `offered` that the function has by name."""
    return made(*first, **_wanted(made, len(first), options, offered), **options)


def check_call(
    made: Callable[..., Any], what: str, n_first: int, options: Mapping[str, Any], offered: Mapping[str, Any]
) -> None:
    """Refuse a call with an unknown option, or without an argument that the function needs."""
    signature = inspect.signature(made)
    known = {name: None for name, part in signature.parameters.items() if part.kind is not part.VAR_POSITIONAL}
    if not any(part.kind is part.VAR_KEYWORD for part in signature.parameters.values()):
        for name in options:
            look_up(dict(list(known.items())[n_first:]), name, f"option of {what}")
    try:
        signature.bind(*(None,) * n_first, **_wanted(made, n_first, options, offered), **options)
    except TypeError as error:
        raise InvalidInput(f"{what} cannot be made: {error}; give it a default, or use functools.partial") from error


def _wanted(
    made: Callable[..., Any], n_first: int, options: Mapping[str, Any], offered: Mapping[str, Any]
) -> dict[str, Any]:
    preset = {*options, *(made.keywords if isinstance(made, partial) else ())}
    later = list(inspect.signature(made).parameters)[n_first:]
    return {name: offered[name] for name in later if name in offered and name not in preset}


def metric_of(function: Callable[..., Any], taught: TaughtRound, offered: Mapping[str, Any]) -> float:
    """The value of a metric: a function of the round, or of what it asks for by the names of its arguments."""
    named = {**offered, "lesson": taught.lesson, "response": taught.response}
    first = () if next(iter(inspect.signature(function).parameters), "") in named else (taught,)
    return float(called(function, *first, options={}, offered=named))


def check_metric_names(names: Iterable[str]) -> list[str]:
    """The names; refused where a row has another column of that name."""
    for name in names:
        if name in COLUMNS:
            raise InvalidInput(f"a metric cannot be called {name!r}, as another column of a row is")
    return list(names)
