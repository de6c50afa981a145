"""The documentation as a whole: every public name has an entry that runs, every page is in the site's contents."""

import ast
import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

import tutelage as tl

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md"))}
ENTRIES = {
    name: text
    for page in REFERENCE.values()
    for name, text in re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
}


def tool(name):
    """A module of tools/site, which is no package that tests can import."""
    spec = importlib.util.spec_from_file_location(name, DOCS.parent / "tools" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIGNATURES, COMMANDS, SYMBOLS = tool("signatures"), tool("commands"), tool("symbols")
TABLE_OF_CONTENTS = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Pages that begin with an equation.
EQUATIONS = (
    "choices",
    "occupancy",
    "soft-solution",
    "limits",
    "demonstrations",
    "learners",
    "teachers",
    "rounds",
    "inference",
    "behaviour",
    "time",
    "scale",
)
# Pages that `make docs` makes of other files.
MADE = {"changelog", "contributing", "security", "governance"}


def test_every_public_name_has_an_entry_in_the_reference():
    assert sorted(set(tl.__all__) - set(ENTRIES)) == [], "add '## NAME' and an example to a page in docs/reference/"
    assert sorted(set(ENTRIES) - set(tl.__all__)) == []
    headings = re.findall(r"^## (\w+)$", "\n".join(REFERENCE.values()), flags=re.MULTILINE)
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("name", tl.__all__)
def test_an_entry_has_an_example_that_uses_the_name(name):
    """The examples run with the code of all other pages, in test_readme.py."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", ENTRIES[name], flags=re.MULTILINE | re.DOTALL))
    assert re.search(rf"\btl\.{name}\b", code)


@pytest.mark.parametrize("name", tl.__all__)
def test_every_public_name_is_described(name):
    """The name, and each of its public methods."""
    found = getattr(tl, name)
    assert inspect.getdoc(found)
    for method, function in vars(found).items() if isinstance(found, type) else ():
        if not method.startswith("_") and inspect.isfunction(inspect.unwrap(getattr(function, "__func__", function))):
            assert getattr(function, "__doc__", None), f"{name}.{method} has no docstring"


@pytest.mark.parametrize("name", [name for name in tl.__all__ if callable(getattr(tl, name))])
def test_the_signature_on_the_site_has_the_parameters_of_the_function(name):
    found = getattr(tl, name)
    shown = SIGNATURES.written(found)
    if shown is None:  # then Sphinx asks `inspect` itself
        return
    given = ast.parse(f"def shown{shown[0]}: ...").body[0].args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(found).parameters.values()
    assert names == [parameter.name for parameter in parameters if parameter.kind not in variable]


def test_every_command_is_on_its_page_with_its_options():
    page = COMMANDS.command_pages()
    for name in ("teach", "learn", "import gymnasium", "import graph"):
        assert f"## `tutelage {name}`" in page
    assert "[bold]" not in page and "| `--goal` |" in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("g_j(mu_c) <= delta_c[j]", r"\ :math:`g_{j}`\ (\ :math:`\mu_{c}`\ ) ≤ \ :math:`\delta_{c}`\ [j]"),
        ("delta_r^hard, w_r*", r"\ :math:`\delta_{r}^{\mathrm{hard}}`\ , \ :math:`w_{r}^{*}`\ "),
        ("norm_2(x - mu_hat)^2", r"‖x - \ :math:`\hat{\mu}`\ ‖₂\ :sup:`2`\ "),
        ("a.mu_r, mu_rows, *", r"a.mu\_r, mu\_rows, \*"),
    ],
)
def test_symbols_of_docstrings_are_typeset(text, shown):
    assert SYMBOLS.typeset(text) == shown


def test_every_page_is_in_the_contents_once():
    listed = []
    for page in DOCS.rglob("*.md"):
        for entries in TABLE_OF_CONTENTS.findall(page.read_text(encoding="utf-8")):
            lines = [line for line in entries.splitlines() if line and not line.startswith(":") and line != "*"]
            names = [re.sub(r".*<(.+)>", r"\1", line) for line in lines]
            listed += [(page.parent / name).relative_to(DOCS).as_posix() for name in names]
    assert len(listed) == len(set(listed))
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert set(listed) == there - {"index"} | MADE


@pytest.mark.parametrize("page", EQUATIONS)
def test_equations_are_typeset(page):
    """They are LaTeX between dollar signs, not indented text; an indented line is a command."""
    text = re.sub(r"^```.*?^```", "", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "$$" in text
    commands = ("make", "python", "PYTHONPATH", "tutelage")
    assert [
        line for line in re.findall(r"^    \S.*", text, flags=re.MULTILINE) if line.split()[0] not in commands
    ] == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_begins_with_a_sentence(page):
    """A reader learns what a page is about before the first formula, command, table or code."""
    heading, first = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert heading.startswith("# ")
    listing = first.startswith("```{toctree}")
    assert listing or re.match(r"(?!    )[A-Z*`\[]", first), f"begins with {first[:40]!r}"


FACTS = ("Equation", "Cost", "Guarantee")


def test_what_computes_says_its_equation_its_cost_and_its_guarantee():
    """All three or none: every solver, every learner and teacher of the package, every inference."""
    told = {name: [fact for fact in FACTS if f"- **{fact}:** " in text] for name, text in ENTRIES.items()}
    assert {name: facts for name, facts in told.items() if facts not in ([], list(FACTS))} == {}
    roles = {"Learner", "Teacher", "RememberingLearner", "CallbackLearner", "OneLessonTeacher"}  # what users write
    wrapped = {"GatheringLearner", "PreferringLearner"}  # they pass lessons on
    players = {name for name in tl.__all__ if name.endswith(("Learner", "Teacher"))} - roles - wrapped
    solvers = {name for name in tl.__all__ if name.startswith(("solve_", "infer_"))} | {"best_policy", "nearest_policy"}
    assert sorted(name for name in players | solvers if not told[name]) == []


PAGE = """# Title

Some words with a [link](other.md) and a [site](https://example.org).

```python
import tutelage as tl
print("before")
mdp = tl.MDP.from_choices([[1.0]], [0, 1], [1.0], 0.9)
print(mdp)  # an object
```

```python
with open("drawn.svg", "w") as file:
    _ = file.write("<svg/>")
print("twice", 2)
```
"""


def test_a_page_becomes_a_notebook_with_its_results(monkeypatch):
    """The cell ends with the object that the page prints, and shows its table; all other code is that of the page."""
    monkeypatch.syspath_prepend(str(DOCS.parent / "tools" / "site"))
    running, notebooks = tool("running"), tool("notebooks")
    results = list(running.run(running.blocks(PAGE), "page", "page.md"))
    made = json.loads(notebooks.notebook(PAGE, results))
    words, first, second = made["cells"]
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert "".join(words["source"]).endswith("a link and a [site](https://example.org).")
    assert "".join(first["source"]).endswith("0.9)\nmdp  # an object")
    assert ["".join(first["outputs"][0]["text"]), "".join(second["outputs"][0]["text"])] == ["before\n", "twice 2\n"]
    shown = first["outputs"][1]
    assert shown["output_type"] == "execute_result" and "MDP(1 states" in "".join(shown["data"]["text/plain"])
    assert "".join(shown["data"]["text/html"]).startswith("<")
    assert second["outputs"][1]["data"]["image/svg+xml"] == ["<svg/>"]
    assert "".join(second["source"]) == running.blocks(PAGE)[1].rstrip("\n")
    assert results[0].printed == f"before\n{results[0].last}\n"
