"""docs/paper.md: every numbered item of the paper has a row, and every object and test that a row names exists."""

import ast
import re
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OBJECT = re.compile(r"`(tutelage[\w.]*):([\w.]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
# The paper numbers 35 equations, 3 theorems, 1 proposition, 2 algorithms, 2 tables, 7 figures and 1 footnote.
NUMBERED = {"Eq.": 35, "Theorem": 3, "Proposition": 1, "Algorithm": 2, "Table": 2, "Figure": 7, "Footnote": 1}
UNNUMBERED = {"Sec. 2", "Sec. 3", "Sec. 3.1", "Sec. 3.2", "Sec. 4.1", "Sec. 4.2", "Sec. 5.1", "Sec. 5.2", "Sec. 6"}
UNNUMBERED |= {"Sec. 6.1", "Sec. 6.2", "Sec. 7", "App. B.1", "App. B.2", "App. C.1", "App. C.2", "App. C.2.1", "App. F"}
UNNUMBERED |= {f"App. D.{part}" for part in range(1, 6)} | {f"App. E.{part}" for part in range(1, 7)}
UNNUMBERED |= {"App. G.1", "App. G.1.1", "App. G.2"}

TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| item ")]


def items(row: str) -> set[str]:
    """The items of a row: "Eq. 11 to 18" is eight of them, "App. D.2, D.4" two."""
    found = set()
    text = row.split("|")[1] + " ".join(re.findall(r"\(App\. [\w.]+\)", row))
    for kind, first, last in re.findall(r"(Eq\.|[A-Z][a-z]+) (\d+)(?: to (\d+))?", text):
        found |= {f"{kind} {number}" for number in range(int(first), int(last or first) + 1)}
    for kind, numbers in re.findall(r"(Sec\.|App\.) ([A-Z\d][\d.]*(?:, [A-G][\d.]*(?=[, ]))*)", text):
        found |= {f"{kind} {number}" for number in numbers.split(", ")}
    return found


@cache
def function_names(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_item_of_the_paper_has_a_row():
    expected = {f"{kind} {number}" for kind, count in NUMBERED.items() for number in range(1, count + 1)} | UNNUMBERED
    found = set().union(*map(items, ROWS))
    assert sorted(expected - found) == []
    assert sorted(found - expected) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_object_and_test_of_a_row_exists(row):
    objects, tests = OBJECT.findall(row), TEST.findall(row)
    assert objects and tests, "a row names at least one object and one test"
    for module, name in objects:
        attrgetter(name)(import_module(module))
    for path, name in tests:
        assert name in function_names(path), f"{path} has no test {name}"
