"""Make single wrong changes to the package, one at a time, and see whether the tests notice each.

    python tools/mutants.py [--jobs 2] [--only bellman/equations.py] [--list]

The changes are in `mutants.toml`: for each module the tests to run, and pairs of an exact text, which occurs once in
the module, and the wrong text in its place. Each change is made in a temporary copy of the tree; the tests stop at the
first failure. A change is *noticed* if a test fails, *not noticed* if all pass, *stale* if its text is no longer found
once, and *broken* if it is no valid Python or no test is selected. The unchanged tests must pass first. The exit code
is 0 if at least 90 % are noticed and none is stale or broken.
"""

import argparse
import contextlib
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("src", "tests", "benchmarks", "pyproject.toml")
# Loaded once; every test run is forked from a process that has them.
PRELOADED = ["pytest", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "clarabel"]
# Of the changes, this share must be noticed.
WANTED = 0.9
# A change that makes a test hang for this many seconds is noticed.
PATIENCE = 300


@dataclass(frozen=True)
class Mutant:
    """One wrong change of a module, and the arguments of pytest for the tests that should notice it."""

    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.module}: {old}  ->  {new or '(nothing)'}"


def known_mutants() -> list[Mutant]:
    """Every change of `mutants.toml`, in order."""
    sections = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())
    return [
        Mutant(module, old, new, tuple(section["tests"]))
        for module, section in sections.items()
        for old, new in section["changes"]
    ]


def occurrences(mutant: Mutant) -> int:
    """How often the text to change occurs in the module."""
    path = ROOT / "src" / "tutelage" / mutant.module
    return path.read_text().count(mutant.old) if path.exists() else 0


def copy_tree(folder: str) -> Path:
    """A copy of the sources and the tests, with the times of the files, so that compiled kernels remain valid."""
    tree = Path(folder)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part)
        else:
            shutil.copy(source, tree / part)
    return tree


def exit_code(tree: Path, tests: tuple[str, ...]) -> int:
    """That of pytest in this process: 0 if all tests pass, 1 if one fails or hangs."""
    import pytest

    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    sys.path.insert(0, str(tree / "src"))
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"timeout={PATIENCE}", *tests]
    with contextlib.redirect_stdout(io.StringIO()):
        return int(pytest.main(arguments))


def passes(tests: tuple[str, ...]) -> bool:
    """Whether the tests pass without any change."""
    with tempfile.TemporaryDirectory() as folder:
        return exit_code(copy_tree(folder), tests) == 0


def verdict(mutant: Mutant) -> str:
    """What the tests say about the change."""
    with tempfile.TemporaryDirectory() as folder:
        if occurrences(mutant) != 1:
            return "stale"
        path = copy_tree(folder) / "src" / "tutelage" / mutant.module
        text = path.read_text().replace(mutant.old, mutant.new)
        try:
            compile(text, str(path), "exec")
        except SyntaxError:
            return "broken"
        path.write_text(text)
        # 1: a test failed. 2: a module of tests could not build its data. 5: no tests were selected.
        return {0: "not noticed", 1: "noticed", 2: "noticed"}.get(exit_code(Path(folder), mutant.tests), "broken")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="test runs at a time")
    parser.add_argument("--only", action="append", default=[], help="a module, or a part of a change's description")
    parser.add_argument("--trust", action="store_true", help="do not run the unchanged tests first")
    parser.add_argument("--list", action="store_true", help="list the changes and whether their texts are found")
    options = parser.parse_args()
    mutants = [m for m in known_mutants() if not options.only or any(part in str(m) for part in options.only)]
    if options.list:
        for mutant in mutants:
            print(f"{'found' if occurrences(mutant) == 1 else 'STALE':8} {mutant}")
        return 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    found: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        selections = [] if options.trust else list(dict.fromkeys(mutant.tests for mutant in mutants))
        failing = {
            tests for tests, is_fine in zip(selections, pool.map(passes, selections), strict=True) if not is_fine
        }
        for tests in failing:
            print(f"these tests fail without any change, so they say nothing: {' '.join(tests)}")
        mutants = [mutant for mutant in mutants if mutant.tests not in failing]
        for mutant, result in zip(mutants, pool.map(verdict, mutants), strict=True):
            found[result] += 1
            print(f"{result:12} {mutant}", flush=True)
    share = found["noticed"] / max(len(mutants), 1)
    print(", ".join(f"{count} {result}" for result, count in found.items()) + f": {share:.0%} noticed")
    return 0 if share >= WANTED and not (failing or found["stale"] or found["broken"]) else 1


if __name__ == "__main__":
    sys.exit(main())
