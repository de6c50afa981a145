"""The identity of code: a digest of a function, a class or a partial, and of everything of the user's that it uses.

It has the compiled code, so that neither comments nor line numbers matter; constants, defaults, closures, base classes
and attributes; and the same of each function, class, module and value that the code names. An installed package counts
by its version. So a row is computed again when the code that made it has changed, also in a helper of a helper.
"""

import dis
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from tutelage.outcomes import InvalidInput

PLAIN = (str, bytes, int, float, complex, type(None))
DEFINED = (FunctionType, property, classmethod, staticmethod)


def digest(value: Any) -> str:
    """The identity of a value, as 16 digits: equal in every process that runs the same code."""
    try:
        return sha256(repr(_told(value, {})).encode(errors="surrogatepass")).hexdigest()[:16]
    except RecursionError as error:
        name = getattr(value, "__qualname__", type(value).__name__)
        raise InvalidInput(f"the code of {name} cannot be followed to its end; give version=") from error


def _told(value: Any, seen: dict[int, Any]) -> Any:
    """A value as nested lists of plain values. seen: what was told before, by its id; kept, so that ids stay."""
    if isinstance(value, PLAIN):
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
    return [type(value).__qualname__, *(_told(part, seen) for part in _installed(value) or _parts(value))]


def _installed(value: Any) -> tuple[str, ...]:
    """The name and the version of what Python or an installed package has; empty for other values."""
    if not isinstance(value, type | FunctionType | ModuleType) and not inspect.isbuiltin(value):
        return ()
    name = str(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    package = sys.modules.get(name.split(".")[0])
    known = (name, getattr(value, "__qualname__", ""), str(getattr(package, "__version__", "")))
    return () if is_own(name) else known


def is_own(name: str) -> bool:
    """Whether a module is the user's: neither of this package, nor installed, nor of Python itself."""
    file = Path(getattr(sys.modules.get(name), "__file__", None) or sysconfig.get_path("stdlib"))
    is_installed = {"site-packages", "dist-packages"}.intersection(file.parts) or name.split(".")[0] == "tutelage"
    return name == "__main__" or not (is_installed or file.is_relative_to(sysconfig.get_path("stdlib")))


def _parts(value: Any) -> Iterable[Any]:
    """What a value consists of."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_consts
    if isinstance(value, FunctionType):
        used = {name: value.__globals__[name] for name in _global_names(value.__code__) if name in value.__globals__}
        closure = [_contents(cell) for cell in value.__closure__ or ()]
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
    return (reduced,) if isinstance(reduced, str) else [[*p] if isinstance(p, Iterator) else p for p in reduced]


def _contents(cell: CellType) -> Any:
    """What a closure holds; None before its name has a value."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _global_names(code: CodeType) -> Iterator[str]:
    """The global names that a function reads, also within the functions that it defines."""
    steps = dis.get_instructions(code)
    yield from sorted({step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})
    for part in code.co_consts:
        yield from _global_names(part) if isinstance(part, CodeType) else ()
