"""A page as an executed notebook: its text, its code, and what the code printed, drew and showed.

The page stays the one source. Where a block ends with `print(object)`, the cell ends with the object, whose table or
picture is its output.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from running import BLOCK, Ran

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)")
LANGUAGE = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(text: str, results: Sequence[Ran]) -> str:
    """JSON, nbformat 4.5. text: the page. results: of its blocks, in their order."""
    cells = list(_cells(text, iter(results)))
    named = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": LANGUAGE, "cells": named}, indent=1) + "\n"


def _cells(text: str, results: Iterator[Ran]) -> Iterator[dict[str, Any]]:
    end, number = 0, 0
    for block in BLOCK.finditer(text):
        yield from _words(text[end : block.start()])
        end, number = block.end(), number + 1
        yield _code(block[1], next(results), number)
    yield from _words(text[end:])


def _words(text: str) -> Iterator[dict[str, Any]]:
    """Links to other pages of the site would lead nowhere, so that only their words are kept."""
    if text.strip():
        yield {"cell_type": "markdown", "metadata": {}, "source": _lines(LINK.sub(r"\1", text.strip()))}


def _code(code: str, ran: Ran, number: int) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = []
    shown = getattr(ran.last, "_repr_html_", None)
    printed = ran.printed if shown is None else ran.printed[: ran.before_last]
    if printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed)})
    for name, picture in ran.pictures.items():
        outputs.append({"output_type": "display_data", "metadata": {}, "data": _picture(name, picture)})
    if shown is not None:
        data = {"text/html": _lines(shown()), "text/plain": _lines(str(ran.last))}
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
        code = without_print(code)
    given = {"cell_type": "code", "execution_count": number, "metadata": {}}
    return {**given, "source": _lines(code.rstrip("\n")), "outputs": outputs}


def without_print(code: str) -> str:
    """The code with its last line, `print(object)`, replaced by `object`."""
    last = ast.parse(code).body[-1]
    assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    lines = code.splitlines()
    shown = ast.get_source_segment(code, last.value.args[0])
    return "\n".join([*lines[: last.lineno - 1], f"{shown}{lines[(last.end_lineno or 1) - 1][last.end_col_offset :]}"])


def _picture(name: str, picture: bytes) -> dict[str, Any]:
    if not name.endswith(".svg"):
        raise ValueError(f"{name}: save the picture as .svg, too")
    return {"image/svg+xml": _lines(picture.decode()), "text/plain": [name]}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
