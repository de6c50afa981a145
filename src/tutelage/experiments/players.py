"""Players and metrics that a script gives to its sweep: how a worker gets one, how it is called, what identifies it."""

import inspect
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cloudpickle

from tutelage.experiments.identity import digest, is_own
from tutelage.outcomes import InvalidInput
from tutelage.registry import look_up
from tutelage.transcripts import TaughtRound

# What a metric may ask for by name.
METRIC_ARGUMENTS = ("response", "lesson", "transcript", "domain", "true_weights", "learner", "seed")


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
            pickled = _pickled(made)
        except Exception as error:
            raise InvalidInput(f"{name!r} cannot be sent to another process: {error}") from error
        return cls(name, digest((version, preset) if version else made), pickled)

    def load(self) -> Callable[..., Any]:
        """The class or function itself, in this process."""
        made: Callable[..., Any] = pickle.loads(self.pickled)
        return made


def _pickled(made: Any) -> bytes:
    """The code itself, with that of the user's own modules, which a worker may not have; or else by its name there."""
    own = [module for name, module in [*sys.modules.items()] if name != "__main__" and is_own(name)]
    try:
        for module in own:
            cloudpickle.register_pickle_by_value(module)
        pickled: bytes = cloudpickle.dumps(made)
    # As where a module has a lock among what the code names.
    except Exception:
        pickled = b""
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return pickled or cloudpickle.dumps(made)


def called(made: Callable[..., Any], *first: Any, options: Mapping[str, Any], offered: Mapping[str, Any]) -> Any:
    """The result of a call with `first` and the options, and with each of `offered` that the function has by name."""
    return made(*first, **_wanted(made, len(first), options, offered), **options)


def check_call(given: Given, what: str, n_first: int, options: Mapping[str, Any], offered: Mapping[str, Any]) -> None:
    """Refuse a call with an unknown option, or without an argument that the function needs."""
    made = given.load()
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
    first = (taught,) if takes_round(function) else ()
    named = {**offered, "lesson": taught.lesson, "response": taught.response}
    return float(called(function, *first, options={}, offered=named))


def takes_round(function: Callable[..., Any]) -> bool:
    """Whether the first argument of a metric is the round itself."""
    return next(iter(inspect.signature(function).parameters), "") not in METRIC_ARGUMENTS
