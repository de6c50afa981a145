"""How much of the package a reader must know: its size, its constants, and what two typical calls run through.

    python tools/footprint.py [--most-entered]

Prints lines, how dense they are, modules, numeric module constants, names that have two values, functions above 50
lines, and for two calls the number of modules entered and the deepest stack of the package's own frames. The limits are
in `LIMITS`; the exit code is 1 where one is exceeded. Fewer lines are no gain where each of them holds more: a line of
code has its width in characters, and its tokens (names, operators, numbers and texts). Docstrings, comments and imports
are no lines of code.
"""

import ast
import statistics
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tutelage as tl

PACKAGE = Path(tl.__file__).parent
LONGEST_FUNCTION = 50
LIMITS = {
    "lines": 25_000,
    "median width of a line of code": 50,
    "tokens in ten lines of code": 126,
    "modules": 135,
    "constants": 180,
    "names with two values": 0,
    "functions above 50 lines": 0,
    "bi-level lesson: modules": 28,
    "bi-level lesson: frames": 16,
    "constrained MDP: modules": 22,
    "constrained MDP: frames": 13,
}


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, perhaps with a sign."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def constants(tree: ast.Module) -> list[tuple[str, str]]:
    """The names in capitals that a module gives to numbers, with these numbers as text."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs += zip(target.elts, node.value.elts, strict=True)
                else:
                    pairs.append((target, node.value))
    names = [(target.id, value) for target, value in pairs if isinstance(target, ast.Name)]
    return [(name, ast.unparse(value)) for name, value in names if name.strip("_").isupper() and is_number(value)]


def code_lines(path: Path, tree: ast.Module) -> Iterator[tuple[int, int]]:
    """The width and the number of tokens of each line of code in a module."""
    others = set[int]()
    for node in ast.walk(tree):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if (is_import or is_text) and node.end_lineno is not None:
            others.update(range(node.lineno, node.end_lineno + 1))
    counted = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    with tokenize.open(path) as file:
        tokens = Counter(token.start[0] for token in tokenize.generate_tokens(file.readline) if token.type in counted)
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if number not in others and line.strip() and not line.lstrip().startswith("#"):
            yield len(line), tokens[number]


def sizes() -> tuple[dict[str, int], list[str]]:
    """The counts of the sources, and what they are, for a person."""
    lines, values, long, code = 0, defaultdict[str, set[str]](set), [], list[tuple[int, int]]()
    files, n_constants = sorted(PACKAGE.rglob("*.py")), 0
    for path in files:
        text = path.read_text()
        tree = ast.parse(text)
        lines += len(text.splitlines())
        code += code_lines(path, tree)
        for name, value in constants(tree):
            values[name].add(value)
            n_constants += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{path.relative_to(PACKAGE)}: {node.name} has {length} lines")
    twice = sorted(name for name, given in values.items() if len(given) > 1)
    counts = {"lines": lines, "modules": len(files), "constants": n_constants}
    counts["median width of a line of code"] = round(statistics.median(width for width, _ in code))
    counts["tokens in ten lines of code"] = round(10 * sum(n for _, n in code) / len(code))
    counts |= {"names with two values": len(twice), "functions above 50 lines": len(long)}
    return counts, [*(f"{name}: {', '.join(sorted(values[name]))}" for name in twice), *long]


def entered(call: Callable[[], object]) -> tuple[set[str], int]:
    """The modules of the package whose functions a call runs, and the most of their frames at one time."""
    modules, deepest, root = set[str](), 0, str(PACKAGE)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest
        if event != "call" or not frame.f_code.co_filename.startswith(root) or frame.f_code.co_name == "<module>":
            return
        modules.add(frame.f_code.co_filename)
        depth, at = 0, sys._getframe(1)
        while at is not None:
            depth, at = depth + at.f_code.co_filename.startswith(root), at.f_back  # type: ignore[assignment]
        deepest = max(deepest, depth)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {str(Path(name).relative_to(PACKAGE)) for name in modules}, deepest


def random_rows(n_states: int = 1_000, n_actions: int = 4) -> tl.Domain:
    """A model with random rows: each choice leads to five random states."""
    rng = np.random.default_rng(0)
    rows = n_states * n_actions
    transition = np.zeros((rows, n_states))
    np.put_along_axis(transition, rng.integers(n_states, size=(rows, 5)), rng.dirichlet(np.ones(5), size=rows), axis=1)
    transition /= transition.sum(axis=1, keepdims=True)
    mdp = tl.MDP.from_choices(transition, np.arange(0, rows + 1, n_actions), np.full(n_states, 1 / n_states), 0.99)
    return tl.Domain(mdp, rng.random((n_states, 3)), rng.random((n_states, 2)))


def bilevel_lesson() -> object:
    """A bi-level lesson for the soft learner L3 on a published 10x10 world."""
    world = tl.object_world(10, 0)
    domain = world.domain("L3")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    teacher = tl.BilevelTeacher(domain, world.true_weights, learner)
    return lambda: tl.teach(teacher, learner, max_rounds=1)


def constrained_mdp() -> object:
    """The plan of Aware-CMDP on a model with random rows."""
    domain = random_rows()
    uniform = tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference
    learner = tl.HardLearner(domain, violation_allowance=0.95 * uniform)
    return tl.AwareCmdpTeacher(domain, np.array([1.0, 0.9, 0.2]), learner).plan


def main() -> None:
    """Print the counts beside their limits."""
    counts, remarks = sizes()
    for name, make in (("bi-level lesson", bilevel_lesson), ("constrained MDP", constrained_mdp)):
        call: Any = make()
        modules, frames = entered(call)
        counts |= {f"{name}: modules": len(modules), f"{name}: frames": frames}
        remarks.append(f"{name} enters {', '.join(sorted(modules))}")
    if "--most-entered" in sys.argv or "-v" in sys.argv:
        print("\n".join(remarks), end="\n\n")
    for name, limit in LIMITS.items():
        print(f"{name:30} {counts[name]:7,} of {limit:,}{'' if counts[name] <= limit else '   too many'}")
    sys.exit(any(counts[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    main()
