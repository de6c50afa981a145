"""The identity of code: equal for equal code in every process, and another one after any change that matters."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

import tutelage as tl
from tutelage.experiments.identity import digest

CODE = """
import abc, functools, dataclasses
import numpy as np
import tutelage as tl
TABLE = {table}
CALLS = {{abs: "a", lambda x: x: "b"}}
def helper(x):
    CALLS.get(x)
    return TABLE[{{"b": 0, "a": 1}}.get(x, 0)] if x in {{"a", "b", "c"}} else {constant}
class Base(abc.ABC):
    limit = {limit}
    @abc.abstractmethod
    def f(self): ...
@dataclasses.dataclass(frozen=True, slots=True)
class Learner(Base):
    domain: tl.Domain
    rate: float = {default}
    names: list = dataclasses.field(default_factory=list)
    @property
    def speed(self):
        return {attribute}
    @functools.lru_cache
    def g(self):
        return [helper(x) for x in "ab"]
    def f(self):
        {comment}
        return lambda: np.linalg.norm(self.g())
"""
VALUES = {
    "table": "np.arange(2.0)",
    "constant": "1",
    "limit": "[1, 2]",
    "default": "0.1",
    "attribute": "self.rate",
    "comment": "",
}


def learner(**change):
    """The class, defined as a script would; its module is `__main__`."""
    scope = {"__name__": "__main__"}
    exec(CODE.format(**(VALUES | change)), scope)
    return scope["Learner"]


def test_equal_code_is_equal_in_another_process_whatever_its_hash_seed():
    program = f"{CODE.format(**VALUES)}\nfrom tutelage.experiments.identity import digest\nprint(digest(Learner))"
    command = [sys.executable, "-c", program]
    for seed in "01":
        told = subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        )
        assert told.stdout.strip() == digest(learner())


def test_a_comment_changes_nothing():
    assert digest(learner(comment="# another line\n\n")) == digest(learner())


@pytest.mark.parametrize(
    "change",
    [
        {"table": "np.arange(3.0)"},
        {"constant": "2"},
        {"limit": "[1, 3]"},
        {"default": "0.2"},
        {"attribute": "self.names"},
    ],
)
def test_what_changes_the_result_changes_the_identity(change):
    assert digest(learner(**change)) != digest(learner())


def test_a_cache_that_was_used_changes_nothing():
    made, before = learner(), digest(learner())
    made.g.cache_clear()
    assert digest(made) == before


def test_partials_closures_and_objects_count_by_what_they_hold():
    def scaled(factor):
        return lambda domain: factor * domain

    each = [functools.partial(tl.SoftLearner, mismatch_penalty=c) for c in (1, 2)]
    each += [scaled(1), scaled(2), scaled(np.ones(2)), np.random.default_rng(1), np.random.default_rng(2)]
    each += [tl.object_world(size=6, seed=seed).domain("L1") for seed in (0, 1)] + [tl.SoftLearner, "text", ...]
    assert len({digest(value) for value in each}) == len(each)
    assert digest(scaled(1)) == digest(scaled(1))


def test_recursion_and_empty_cells_are_followed_to_their_end():
    def even(n):
        return n == 0 or odd(n - 1)

    before = digest(even)

    def odd(n):
        return n > 0 and even(n - 1)

    assert digest(even) != before


def test_what_has_no_end_asks_for_a_version():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(tl.InvalidInput, match="give version="):
        digest(functools.partial(print, nested))
