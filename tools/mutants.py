"""Make single wrong changes in functions of the package, one at a time, and see whether the tests notice each.

    python tools/mutants.py convex.newton                a sample of the changes of a module
    python tools/mutants.py bellman.equations:solve_soft      all changes of one function, by its name
    python tools/mutants.py                              a small sample of every module of the numerical rooms

The changes are made in the syntax tree, so no list has to follow the sources: comparisons turn round, signs and factors
swap, `min` and `max` change places, `and` becomes `or`, a condition is negated, and a number changes. The tests are
those that mirror the module: tests/<room>/test_<module>.py. Each change is made in a temporary copy of the tree. A
change is *noticed* if a test fails and *not noticed* if all pass. Some changes alter only the time that a method takes:
read those that are not noticed. The exit code is 1 if the unchanged tests fail, or if less than `--at-least` are
noticed.
"""

import argparse
import ast
import contextlib
import copy
import io
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tutelage"
PARTS = ("src", "tests", "benchmarks", "pyproject.toml")
ROOMS = ("model", "chains", "bellman", "convex", "constrained", "learners", "inference", "teachers")
# Loaded once; every test run is forked from a process that has them.
PRELOADED = ["pytest", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "clarabel"]
# A change that makes a test hang for this many seconds is noticed.
PATIENCE = 300

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"min": "max", "minimum": "maximum", "any": "all", "ceil": "floor", "argmin": "argmax"}
NAMES |= {new: old for old, new in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """One wrong change: the text of the changed module, and what was changed."""

    module: str
    text: str
    change: str
    tests: str

    def __str__(self) -> str:
        return f"{self.module}:{self.change}"


def changed(node: ast.AST) -> ast.AST | None:
    """The node with a wrong change, or None for a node that is left alone."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            new.ops = [SWAPS[type(op)]()]  # type: ignore[list-item]
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            new.op = SWAPS[type(op)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            return new.operand
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            new.func.id = NAMES[name]  # type: ignore[attr-defined]
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            new.func.attr = NAMES[name]  # type: ignore[attr-defined]
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value)):
            new.value = value + 1
        case ast.Constant(value=float(value)):
            new.value = 10 * value + (value == 0)
        case _:
            return None
    return new


def replaced(text: str, node: ast.AST, new: ast.AST) -> str:
    """The text of a module with one node written anew; all else stays as it is."""
    lines = text.encode().splitlines(keepends=True)
    at = [0, *(sum(map(len, lines[: n + 1])) for n in range(len(lines)))]
    start = at[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
    end = at[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
    written = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
    return (b"".join(lines)[:start] + written.encode() + b"".join(lines)[end:]).decode()


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is inside it, but for texts, whose parts have no exact place before Python 3.12."""
    if not isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from parts(child)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions and methods of a module, not those within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node)


def mutants_of(module: str, function: str | None) -> list[Mutant]:
    """Every change inside the functions of a module, such as convex.newton, or inside one function of it."""
    path, (*room, name) = SOURCE / Path(*module.split(".")).with_suffix(".py"), module.split(".")
    tests, text = "/".join(["tests", *room, f"test_{name}.py"]), path.read_text()
    mutants = []
    for place in functions(ast.parse(text)):
        for node in (node for statement in place.body for node in parts(statement)):
            if function in (None, place.name) and (new := changed(node)) is not None:
                change = f"{place.name}, line {node.lineno}: {ast.unparse(node)}  ->  {ast.unparse(new)}"  # type: ignore[attr-defined]
                mutants.append(Mutant(module, replaced(text, node, new), change, tests))
    return mutants


def chosen_mutants(names: list[str], sample: int | None, seed: int) -> list[Mutant]:
    """For each name, module or module:function, all of its changes or a sample; without names a few of every module."""
    rng = random.Random(seed)
    if not names:
        paths = sorted(path for room in ROOMS for path in (SOURCE / room).glob("*.py") if path.stem != "__init__")
        names, sample = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in paths], sample or 5
    mutants = []
    for name in names:
        module, _, function = name.partition(":")
        every = mutants_of(module, function or None)
        mutants += every if sample is None or len(every) <= sample else rng.sample(every, sample)
    return mutants


def copy_tree(folder: str) -> Path:
    """A copy of the sources and the tests, with the times of the files, so that compiled loops remain valid."""
    tree = Path(folder)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part)
        else:
            shutil.copy(source, tree / part)
    return tree


def exit_code(tree: Path, tests: str) -> int:
    """That of pytest in this process: 0 if all tests pass, 1 if one fails or hangs."""
    import pytest

    os.chdir(tree)
    os.environ |= {"PYTHONPATH": f"{tree / 'src'}:{tree}", "OPENBLAS_NUM_THREADS": "1"}
    sys.path[:0] = [str(tree / "src"), str(tree)]
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"timeout={PATIENCE}", tests]
    with contextlib.redirect_stdout(io.StringIO()):
        return int(pytest.main(arguments))


def verdict(mutant: Mutant) -> str:
    """What the tests say about the change; an empty text stands for no change."""
    with tempfile.TemporaryDirectory() as folder:
        path = copy_tree(folder) / "src" / "tutelage" / Path(*mutant.module.split(".")).with_suffix(".py")
        if mutant.text:
            path.write_text(mutant.text)
        return "not noticed" if exit_code(Path(folder), mutant.tests) == 0 else "noticed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help="modules such as convex.newton, or functions: bellman.equations:solve_soft"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="test runs at a time")
    parser.add_argument("--sample", type=int, help="at most this many changes for each name, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-least", type=float, default=0.0, help="the share that must be noticed")
    parser.add_argument("--list", action="store_true", help="list the changes, and run nothing")
    options = parser.parse_args()
    mutants = chosen_mutants(options.names, options.sample, options.seed)
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    untested = sorted({mutant.tests for mutant in mutants if not (ROOT / mutant.tests).exists()})
    print("".join(f"there is no {tests}\n" for tests in untested), end="")
    unchanged = {mutant.tests: Mutant(mutant.module, "", "", mutant.tests) for mutant in mutants}
    unchanged = {tests: mutant for tests, mutant in unchanged.items() if tests not in untested}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    verdicts: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        outcomes = dict(zip(unchanged, pool.map(verdict, unchanged.values()), strict=True))
        failing = [tests for tests, outcome in outcomes.items() if outcome == "noticed"]
        print("".join(f"{tests} fails without any change, so it says nothing\n" for tests in failing), end="")
        mutants = [mutant for mutant in mutants if mutant.tests not in (*failing, *untested)]
        for mutant, outcome in zip(mutants, pool.map(verdict, mutants), strict=True):
            verdicts[outcome] += 1
            print(f"{outcome:12} {mutant}", flush=True)
    share = verdicts["noticed"] / max(len(mutants), 1)
    print(f"{verdicts['noticed']} of {len(mutants)} noticed: {share:.0%}")
    return int(bool(failing) or share < options.at_least)


if __name__ == "__main__":
    sys.exit(main())
