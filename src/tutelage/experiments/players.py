"""Players and metrics that a script gives to its sweep: how a worker gets one, how it is called, what identifies it.

The identity of code is a digest of a function, a class or a partial, and of everything of the user's that it uses:
compiled code, so that neither comments nor line numbers matter, constants, defaults, closures, base classes, and the
same of each function, class, module and value that the code names. An installed package counts by its version.
"""

import dis
import inspect
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle

from tutelage.outcomes import InvalidInput

METRIC_ARGUMENTS = ("response", "lesson", "transcript", "domain", "true_weights", "learner", "seed")
DEFINED = (FunctionType, property, classmethod, staticmethod)


@dataclass(frozen=True, slots=True)
class Given:
    """A class, or any function, that a script gives under a name. pickled: for workers, which do not have the script.

    identity: the version that the user states, or a digest of the code; with the arguments that a partial has.
    """

    name: str
    identity: str
    pickled: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, name: str, made: Any, version: str = "") -> "Given":
        if not callable(made):
            raise InvalidInput(f"{name!r} must be a class or a function that makes the player, got {made!r}")
        preset = (made.args, made.keywords) if isinstance(made, partial) else ()
        try:
            pickled = _pickled(made)
        except Exception as error:
            raise InvalidInput(f"{name!r} cannot be sent to another process: {error}") from error
        return cls(name, digest((version, preset) if version else made), pickled)

    def load(self) -> Callable[..., Any]:
        made: Callable[..., Any] = pickle.loads(self.pickled)
        return made


def _pickled(made: Any) -> bytes:
    """The code itself, with that of the user's own modules, which a worker may not have; or else by its name there."""
    own = [module for name, module in [*sys.modules.items()] if name != "__main__" and is_own(name)]
    pickled = b""
    with ExitStack() as registered:
        for module in own:
            cloudpickle.register_pickle_by_value(module)
            registered.callback(cloudpickle.unregister_pickle_by_value, module)
        # It fails where a module has a lock among what the code names.
        with suppress(Exception):
            pickled = cloudpickle.dumps(made)
    return pickled or cloudpickle.dumps(made)


def called(made: Callable[..., Any], *first: Any, options: Mapping[str, Any], offered: Mapping[str, Any]) -> Any:
    """The result of a call with `first` and the options, and with each of `offered` that the function has by name."""
    return made(*first, **_wanted(made, len(first), options, offered), **options)


def check_call(given: Given, what: str, n_first: int, options: Mapping[str, Any], offered: Iterable[str]) -> None:
    """Refuse a call with an unknown option, or without an argument that the function needs."""
    made = given.load()
    given_by_name = _wanted(made, n_first, options, dict.fromkeys(offered))
    try:
        inspect.signature(made).bind(*(None,) * n_first, **given_by_name, **options)
    except TypeError as error:
        raise InvalidInput(f"{what} cannot be made: {error}; functools.partial sets what has no default") from error


def _wanted(
    made: Callable[..., Any], n_first: int, options: Mapping[str, Any], offered: Mapping[str, Any]
) -> dict[str, Any]:
    preset = {*options, *(made.keywords if isinstance(made, partial) else ())}
    later = list(inspect.signature(made).parameters)[n_first:]
    return {name: offered[name] for name in later if name in offered and name not in preset}


def takes_round(function: Callable[..., Any]) -> bool:
    """Whether the first argument of a metric is the round itself."""
    return next(iter(inspect.signature(function).parameters), "") not in METRIC_ARGUMENTS


def digest(value: Any) -> str:
    """The identity of a value, as 16 digits: equal in every process that runs the same code."""
    try:
        return sha256(repr(_told(value, {})).encode(errors="surrogatepass")).hexdigest()[:16]
    except RecursionError as error:
        name = getattr(value, "__qualname__", type(value).__name__)
        raise InvalidInput(f"the code of {name} cannot be followed to its end; give version=") from error


def _told(value: Any, seen: dict[int, Any]) -> Any:
    """A value as nested lists of plain values. seen: what was told before, by its id; kept, so that ids stay."""
    if isinstance(value, str | bytes | int | float | complex | None):
        return value
    if isinstance(value, tuple | list):
        return [_told(part, seen) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_told(part, seen)) for part in value)
    if isinstance(value, dict):
        return sorted((repr(_told(key, seen)), repr(_told(part, seen))) for key, part in value.items())
    if id(value) in seen:
        return f"seen {[*seen].index(id(value))}"
    seen[id(value)] = value
    return [type(value).__qualname__, *(_told(part, seen) for part in _parts(value))]


def is_own(name: str) -> bool:
    """Whether a module is the user's: neither of this package, nor installed, nor of Python itself."""
    file = Path(getattr(sys.modules.get(name), "__file__", None) or sysconfig.get_path("stdlib"))
    is_installed = {"site-packages", "dist-packages"}.intersection(file.parts) or name.split(".")[0] == "tutelage"
    return name == "__main__" or not (is_installed or file.is_relative_to(sysconfig.get_path("stdlib")))


def _parts(value: Any) -> Iterable[Any]:
    """What identifies a value; of what Python or an installed package has, its name and version."""
    if isinstance(value, type | FunctionType | ModuleType) or inspect.isbuiltin(value):
        name = str(value.__name__ if isinstance(value, ModuleType) else value.__module__)
        if not is_own(name):
            version = getattr(sys.modules.get(name.split(".")[0]), "__version__", "")
            return name, getattr(value, "__qualname__", ""), str(version)
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_consts
    if isinstance(value, FunctionType):
        used = {name: value.__globals__[name] for name in _global_names(value.__code__) if name in value.__globals__}
        # A cell is empty before its name has a value.
        closure = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        return value.__code__, value.__defaults__, value.__kwdefaults__, closure, used
    if isinstance(value, type):
        # Python makes other attributes with such names, and they may change from run to run.
        is_made = {name: name[:2] == "__" and not isinstance(part, DEFINED) for name, part in vars(value).items()}
        own = {name: part for name, part in vars(value).items() if not is_made[name] and name != "_abc_impl"}
        return value.__bases__, own
    if isinstance(value, ModuleType):
        return (inspect.getsource(value),)
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    # As of a cache or a compiled function, whose own state changes with its calls.
    if hasattr(value, "__wrapped__"):
        return (value.__wrapped__,)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return ()
    # As pickled; the items of lists and dictionaries are iterators there.
    return [[*part] if isinstance(part, Iterator) else part for part in reduced]


def _global_names(code: CodeType) -> Iterator[str]:
    """The global names that a function reads, also within the functions that it defines."""
    steps = dis.get_instructions(code)
    yield from sorted({step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})
    for part in code.co_consts:
        yield from _global_names(part) if isinstance(part, CodeType) else ()
