"""The Python blocks of a page: run in order in one namespace, with what they print and the pictures they save."""

import ast
import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Ran:
    """What a block did: the text it printed, and the pictures it wrote, by name.

    last: the object that its last line printed, if it printed one object. before_last: length of the text before it.
    """

    printed: str
    pictures: Mapping[str, bytes]
    last: object = None
    before_last: int = 0


def blocks(text: str) -> list[str]:
    """The Python blocks of a page of Markdown, as code."""
    return BLOCK.findall(text)


def run(codes: list[str], name: str, file: str) -> Iterator[Ran]:
    """Run the blocks of the page called `name`, with `file` as __file__, in a temporary folder; warnings are errors.

    The folder has the examples in it, as the top folder has.
    """
    names: dict[str, object] = {"__name__": name, "__file__": file}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("error")
        (Path(made) / "examples").symlink_to(EXAMPLES)
        for number, code in enumerate(codes, start=1):
            printed, seen = io.StringIO(), _pictures(made)
            os.chdir(made)
            try:
                with contextlib.redirect_stdout(printed):
                    last, before_last = _executed(code, f"{name}, block {number}", names, printed)
            finally:
                os.chdir(before)
            new = {path: content for path, content in _pictures(made).items() if seen.get(path) != content}
            yield Ran(printed.getvalue(), new, last, before_last)


def _executed(code: str, name: str, names: dict[str, object], printed: io.StringIO) -> tuple[object, int]:
    """Run a block; the object that its last line prints, and how much was printed before."""
    body = ast.parse(code, name).body
    match body[-1:]:
        case [ast.Expr(ast.Call(ast.Name("print"), [shown], []))] if not isinstance(shown, ast.Starred):
            exec(compile(ast.Module(body[:-1], []), name, "exec"), names)
            before_last, last = len(printed.getvalue()), eval(compile(ast.Expression(shown), name, "eval"), names)
            print(last)
            return last, before_last
        case _:
            exec(compile(code, name, "exec"), names)
            return None, 0


def _pictures(folder: str) -> dict[str, bytes]:
    """The .svg pictures in a folder; a .png is taken where no .svg of the same name exists."""
    paths = {path.stem: path for ending in ("png", "svg") for path in sorted(Path(folder).glob(f"*.{ending}"))}
    return {path.name: path.read_bytes() for path in paths.values()}
