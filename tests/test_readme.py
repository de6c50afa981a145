"""Every Python block of the README and of docs/ runs, those of a page in order; links and file names are right."""

import re
import runpy
import shlex
from enum import Enum
from pathlib import Path

import pytest
from strategies import some_of
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli.app import make_app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages that `make docs` makes of other files: links to them are checked by the build.
MADE = {"changelog.md", "contributing.md", "security.md"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


# `make docs` runs every tutorial, too.
RUN = [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", some_of(RUN, (page for page in RUN if page.parent.name != "tutorials")), ids=name_of)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    """In a temporary folder, because some pages write files; the examples are there, as in the top folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {"__name__": page.stem}
    for code in blocks(page):
        exec(compile(code, page.name, "exec"), names)
    kinds = [getattr(tl, name) for name in tl.__all__ if isinstance(getattr(tl, name), type)]
    for value in names.values():
        if type(value) in kinds and not isinstance(value, Enum):
            assert len(repr(value).splitlines()) <= 10 and len(repr(value)) < 1000, "a page on a screen is enough"


def test_the_readme_opens_with_the_two_commands_and_one_short_example():
    text = PAGES[0].read_text(encoding="utf-8")
    assert text.index("make demo") < text.index("make test") < text.index("```python")
    assert len(blocks(PAGES[0])[0].splitlines()) <= 15


def test_the_commands_of_the_readme_for_a_saved_domain_run(tmp_path, monkeypatch):
    """The lesson is that of its Python block."""
    monkeypatch.chdir(tmp_path)
    text = PAGES[0].read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(blocks(PAGES[0])[0], "README.md", "exec"), names)
    exec(re.findall(r"`(tl\.save\(.+?\))`", text)[0], names)
    commands = re.findall(r"^    tutelage (.*garden\.npz.*)$", text.replace("\\\n", ""), re.MULTILINE)
    printed = [CliRunner().invoke(make_app(), shlex.split(command), catch_exceptions=False) for command in commands]
    assert [result.exit_code for result in printed] == [0, 0]
    assert "states: start; lawn; path; big gift; small gift" in printed[0].stdout
    assert "start -[go x2 via path]-> small gift" in printed[1].stdout


def test_the_picture_of_the_readme_tells_what_its_walks_do():
    """tools/front_picture.py: the robot stays where it is after the first lesson, and follows the second one."""
    module = runpy.run_path(str(ROOT / "tools" / "front_picture.py"))
    told = module["story"]()
    assert {module["at"](cell) for cell in told.shown[1:-1]} == {"g"} and module["at"](told.shown[-1]) == "B"
    assert set(told.done) == {told.shown[0]}
    assert told.done_then == told.shown_instead and not {module["at"](cell) for cell in told.done_then} & {"g", "B"}
    assert told.points == (0.0, 6.0)
    assert len(module["draw"](told).axes) == 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_project_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if link not in MADE and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_files_named_in_a_page_exist(page):
    """By their path from the top folder, or from the package."""
    paths = re.findall(r"`(\w+/[\w/]*(?:\.py)?)`", page.read_text(encoding="utf-8"))
    folders = (ROOT, ROOT / "src" / "tutelage")
    assert [path for path in paths if not any((folder / path).exists() for folder in folders)] == []
