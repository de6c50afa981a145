"""The code of the README, the tutorials and the examples, checked by `mypy --strict` as a user's own code is.

    python tools/typed_docs.py [PAGE ...]

The blocks of a page are one module. An error is shown with the page and the line in it.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code_of(page: Path) -> str:
    """The blocks of a page, each in its own lines; all other lines are empty."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return text
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        lines[first : first + block.group(1).count("\n")] = block.group(1).splitlines()
    return "\n".join(lines) + "\n"


def main(pages: list[Path]) -> int:
    """The exit code of mypy; its messages name the pages."""
    with TemporaryDirectory() as folder:
        modules = {}
        for page in pages:
            module = Path(folder) / f"{re.sub(r'[^a-z0-9]', '_', page.relative_to(ROOT).as_posix().lower())}.py"
            module.write_text(code_of(page), encoding="utf-8")
            modules[module.name] = page.relative_to(ROOT).as_posix()
        settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
        files = sorted(str(path) for path in Path(folder).iterdir())
        command = [sys.executable, "-m", "mypy", "--strict", *settings, *files]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    shown = ended.stdout
    for module, page in modules.items():
        shown = re.sub(rf"\S*{module}", page, shown)
    print(shown + ended.stderr, end="")
    return ended.returncode


if __name__ == "__main__":
    given = [Path(name).resolve() for name in sys.argv[1:]]
    folders = (ROOT / "docs" / "tutorials").glob("*.md"), (ROOT / "examples").glob("*.py")
    sys.exit(main(given or [ROOT / "README.md", *(page for folder in folders for page in sorted(folder))]))
