"""A few hundred of the random problems of `make fuzz`: no exception but a `TutelageError`, and no loose certificate."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest
from strategies import some_of

SPEC = importlib.util.spec_from_file_location("fuzz", Path(__file__).parents[1] / "tools" / "fuzz.py")
fuzz = sys.modules["fuzz"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz)

N_PROBLEMS = some_of([100], [8])[0]


@pytest.mark.parametrize(
    "case", [case for case in fuzz.CASES if case not in (fuzz.bilevel, fuzz.bounded)], ids=lambda case: case.__name__
)
def test_random_problems_of_every_scale_are_answered_or_refused(case):
    """With every problem, at most one in 100 may end without an answer to the promised accuracy; in the sample, none.

    A limit of time is not part of the test.
    """
    count: Counter[tuple[str, str]] = Counter()
    failed = list(fuzz.failures(range(1000, 1000 + N_PROBLEMS), (case,), count))
    wrong = [str(failure) for failure in failed if failure.kind in ("escaped", "loose")]
    assert not wrong, wrong[0]
    assert sum(failure.kind == "unanswered" for failure in failed) <= N_PROBLEMS // 100
    assert sum(count.values()) == N_PROBLEMS


# Features that are zero everywhere, a ball with one of them, convex preferences of many features, and short steps.
SLOW = [(fuzz.approximate, 113), (fuzz.bilevel, 157), (fuzz.bilevel, 300), (fuzz.bilevel, 366), (fuzz.generic, 132)]
SLOW += [(fuzz.aware, 132), (fuzz.bilevel, 153)]
# Many entries within narrow bounds, coefficients below 1e-9, an interior point that diverges, and no curvature at all.
SMALL = [(fuzz.soft, 9039), (fuzz.violation, 5142), (fuzz.line, 20057), (fuzz.soft, 50001604)]


@pytest.mark.parametrize(("case", "problem"), [(fuzz.generic, 22), (fuzz.bilevel, 3), (fuzz.bilevel, 6), *SLOW, *SMALL])
def test_problems_that_once_had_no_answer_have_one(case, problem):
    """Rejected steps of Newton's method were taken for rounding; a bound or a start that fails ended the plan."""
    kind, detail = fuzz.outcome(case, problem)
    assert kind in ("answered", "refused", "slow"), detail


def test_a_wrong_answer_and_a_foreign_exception_are_noticed():
    """The tool itself: what a case asserts or raises becomes a failure with its reproduction."""

    def loose(_given):
        raise AssertionError("a gap of one")

    def escaped(_given):
        raise ZeroDivisionError("one over nothing")

    found = list(fuzz.failures(range(3, 4), (loose, escaped), Counter()))
    assert [failure.kind for failure in found] == ["loose", "escaped"]
    assert "ZeroDivisionError: one over nothing" in found[1].detail and "--seed 3 --n 1" in str(found[1])
