"""Docstrings as reStructuredText, which Sphinx reads; they are written as the docs are, in plain text with backticks.

An indented paragraph is an equation, line by line; `code` is code; the paper's symbols are mathematics; paragraphs of
`name: meaning` become a list.
"""

import re
from collections.abc import Iterator

from symbols import typeset

FIELD = re.compile(r"(?:^|(?<=[.;] ))([a-z]\w*(?:, [a-z]\w*)*): ")


def as_rst(lines: list[str], names: set[str]) -> list[str]:
    """The lines of a docstring; `names` are the fields or parameters that it may describe."""
    made: list[str] = []
    for paragraph in _paragraphs(lines):
        if all(line.startswith("    ") for line in paragraph):
            made += [*(f"    | {_marked(line.strip())}" for line in paragraph), ""]
        else:
            made += [*_text(" ".join(line.strip() for line in paragraph), names), ""]
    return made


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """The paragraphs; neighbouring indented ones are one."""
    text = re.sub(r"\n(?:[ ]*\n)+(?!    )", "\0", "\n".join(lines).strip("\n"))
    for part in text.split("\0"):
        first, _, rest = part.partition("\n\n")  # a paragraph, then an indented one
        yield from ([line for line in piece.split("\n") if line.strip()] for piece in (first, rest) if piece.strip())


def _text(flat: str, names: set[str]) -> list[str]:
    """A paragraph: its text, and then a list of the names that it describes."""
    starts = [found for found in FIELD.finditer(flat) if names.issuperset(found[1].split(", "))]
    bounds = [found.start() for found in starts] + [len(flat)]
    text = [_marked(flat[: bounds[0]].strip()), ""] if bounds[0] else []
    items = (flat[found.end() : end].strip() for found, end in zip(starts, bounds[1:], strict=True))
    marks = ("``" + found[1].replace(", ", "``, ``") + "``" for found in starts)
    return text + [f"- {mark}: {_marked(item)}" for mark, item in zip(marks, items, strict=True)]


def _marked(text: str) -> str:
    """Within backticks the text is code."""
    parts = text.split("`")
    return "".join(f"``{part}``" if number % 2 else typeset(part) for number, part in enumerate(parts))
