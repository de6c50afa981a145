"""The pages that Sphinx reads, from docs/, examples/ and the top folder: with the results of their code."""

import re
import shutil
from pathlib import Path

from commands import command_pages
from notebooks import notebook
from running import BLOCK, Ran, blocks, run

import tutelage

ROOT = Path(__file__).parents[2]
TOP = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "GOVERNANCE.md": "governance.md",
}
# Tutorials that are notebooks, too.
NOTEBOOKS = ("paper-in-ten-minutes", "from-problem-to-lesson", "roads")


def stage(folder: Path) -> None:
    """Write the source of the site into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for source, page in TOP.items():
        (folder / page).write_text((ROOT / source).read_text(encoding="utf-8"), encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.py")):
        page = folder / "examples" / f"{path.stem}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(_example(path), encoding="utf-8")
    for page in sorted(folder.rglob("*.md")):
        text = page.read_text(encoding="utf-8").replace("<!-- commands -->", command_pages())
        if page.parent.name == "reference":
            text = re.sub(r"^## (\w+)$", _entry, text, flags=re.MULTILINE)
        page.write_text(_with_results(_with_links(text, page, folder), page, folder), encoding="utf-8")


def _with_links(text: str, page: Path, folder: Path) -> str:
    """Links to files of the repository lead to their pages of the site."""
    up = "../" * (len(page.relative_to(folder).parts) - 1)
    if page.name in TOP.values():
        text = text.replace("](docs/", "](")
    text = re.sub(r"\]\((?:\.\./)*examples/(\w+)\.py\)", rf"]({up}examples/\1.md)", text)
    text = re.sub(r"\]\((?:\.\./)*examples\)", rf"]({up}examples/index.md)", text)
    for source, target in TOP.items():
        text = re.sub(rf"\]\((?:\.\./)*{source}", f"]({up}{target}", text)
    return text


def _with_results(text: str, page: Path, folder: Path) -> str:
    """Run the code of a page, and show below each block what it printed and drew."""
    name = page.relative_to(folder).as_posix()
    program = ROOT / "examples" / f"{page.stem}.py"
    try:
        results = list(run(blocks(text), name, str(program if page.parent.name == "examples" else page)))
    except Exception as error:
        raise SystemExit(f"the code of {name} failed: {type(error).__name__}: {error}") from error
    there = iter(results)
    with_results = BLOCK.sub(lambda found: found[0] + _shown(next(there), page), text)
    if page.parent.name == "tutorials" and page.stem in NOTEBOOKS:
        page.with_suffix(".ipynb").write_text(notebook(text, results), encoding="utf-8")
        title, rest = with_results.split("\n", 1)
        return f"{title}\n\n*Also as a [notebook]({page.stem}.ipynb), with the results of this run.*\n{rest}"
    return with_results


def _shown(ran: Ran, page: Path) -> str:
    lines = []
    if ran.printed:
        lines += ["", "```output", ran.printed.rstrip("\n"), "```"]
    for name, picture in ran.pictures.items():
        place = page.with_name(f"{page.stem}-{name}")
        place.write_bytes(picture)
        lines += ["", f"![{Path(name).stem.replace('-', ' ').replace('_', ' ')}]({place.name})"]
    return "\n".join([*lines, ""])


def _entry(heading: re.Match[str]) -> str:
    """The heading of a public name, followed by what Sphinx makes of its docstring."""
    found = getattr(tutelage, heading[1])
    kind = (
        "autofunction"
        if not isinstance(found, type)
        else "autoexception"
        if issubclass(found, Exception)
        else "autoclass"
    )
    return f"{heading[0]}\n\n```{{eval-rst}}\n.. {kind}:: tutelage.{heading[1]}\n```\n"


def _example(path: Path) -> str:
    """A page with the program, its text as an introduction."""
    _, text, code = path.read_text(encoding="utf-8").split('"""', 2)
    title, _, rest = text.partition("\n")
    return f"# {title.rstrip('.')}\n{rest}\n```python\n{code.strip()}\n```\n"
