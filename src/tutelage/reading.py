"""How objects look to people: a representation of at most ten lines, and what a notebook shows."""

from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import numpy as np


class Readable:
    """A dataclass whose arrays and parts are shown by their sizes where they are long."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # In its own dictionary, so that `dataclass` makes no other.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        parts = [f"{part.name}={brief(getattr(self, part.name))}" for part in fields(self) if part.repr]  # type: ignore[arg-type]
        name, line = type(self).__name__, ", ".join(parts)
        if len(line) + len(name) < 110:
            return f"{name}({line})"
        shown = parts if len(parts) <= 8 else [*parts[:7], "..."]
        return "\n".join([f"{name}(", *(f"    {part}," for part in shown), ")"])

    def _repr_html_(self) -> str:
        """The picture or the table that a notebook shows."""
        html: str = resolve_name("tutelage.pictures.notebook:as_html")(self)
        return html


def brief(value: Any, longest: int = 90) -> str:
    """A value in at most so many letters: long arrays, lists and parts by their sizes and kinds."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array of shape {value.shape}"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, tuple | list) and len(value) > 3 and len(repr(value)) > longest:
        few = ", ".join(map(repr, value[:2]))
        return f"[{few}, and {len(value) - 2} more]" if len(few) < 70 else f"{len(value)} of {type(value[0]).__name__}"
    text = " ".join(repr(value).split())
    if len(text) <= longest:
        return text
    return f"{type(value).__name__}(...)" if isinstance(value, Readable) else f"{text[: longest - 4]} ..."
