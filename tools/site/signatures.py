"""Signatures as they are written in the source: `Vector` and `ArrayLike` instead of what they stand for."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any


def described(obj: Any) -> set[str]:
    """The names that the docstring of a class or function may describe: fields, properties and parameters."""
    if not isinstance(obj, type):
        return set(getattr(obj, "__annotations__", {}))
    return {name for base in obj.__mro__ for name in (*vars(base), *getattr(base, "__annotations__", {}))}


def written(obj: Any) -> tuple[str, str | None] | None:
    """The parameters and the result of a function or class; nothing where the source does not say."""
    if isinstance(obj, type):
        # The source of an `__init__` that a dataclass has generated cannot be read.
        is_ours = getattr(obj.__init__, "__module__", "").startswith("tutelage")
        if is_ours and (found := written(obj.__init__)):
            return found
        return (f"({', '.join(_fields(obj))})", None) if dataclasses.is_dataclass(obj) else None
    node = _node(inspect.unwrap(getattr(obj, "__func__", obj)))
    if not isinstance(node, ast.FunctionDef):
        return None
    for first in (*node.args.posonlyargs, *node.args.args)[:1]:
        if first.arg in ("self", "cls"):
            node.args.args.remove(first)
    returns = ast.unparse(node.returns).strip("'") if node.returns and node.name != "__init__" else None
    return f"({ast.unparse(node.args)})", returns


def _fields(cls: type) -> Iterator[str]:
    """The parameters of a dataclass, with its own names for their types."""
    types = {}
    for base in reversed(cls.__mro__):
        node = _node(base) if dataclasses.is_dataclass(base) else None
        for line in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                types[line.target.id] = (ast.unparse(line.annotation), _default(line.value))
    is_keyword = False
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        if field.kw_only and not is_keyword:
            is_keyword = True
            yield "*"
        annotation, default = types.get(field.name, (str(field.type), ""))
        yield f"{field.name}: {annotation}{default}"


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "field"):
        return f" = {ast.unparse(value)}"
    given = {keyword.arg: keyword.value for keyword in value.keywords}
    if "default" in given:
        return f" = {ast.unparse(given['default'])}"
    return " = ..." if "default_factory" in given else ""


def _node(obj: Any) -> ast.stmt | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(obj))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
