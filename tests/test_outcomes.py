"""Errors that other people's code can catch: each is a TutelageError and the built-in exception that one expects."""

import numpy as np
import pytest

import tutelage as tl
from tutelage.arrays import generator
from tutelage.experiments.store import Store


@pytest.mark.parametrize(
    ("error", "builtin", "exit_code"),
    [
        (tl.InvalidInput, ValueError, 2),
        (tl.InvalidModel, ValueError, 2),
        (tl.InfeasibleConstraints, ValueError, 1),
        (tl.NotConverged, RuntimeError, 1),
        (tl.InteractionFailed, RuntimeError, 1),
        (tl.MissingExtra, ImportError, 2),
        (tl.Unavailable, OSError, 2),
    ],
)
def test_every_error_is_also_the_builtin_one(error, builtin, exit_code):
    assert issubclass(error, tl.TutelageError) and issubclass(error, builtin)
    assert error.exit_code == exit_code
    others = {ValueError, RuntimeError, ImportError, OSError} - {builtin}
    assert not any(issubclass(error, other) for other in others)


def test_a_bad_model_is_bad_input_but_not_the_other_way_round():
    assert issubclass(tl.InvalidModel, tl.InvalidInput)
    with pytest.raises(tl.InvalidInput) as caught:
        generator(-1)
    assert not isinstance(caught.value, tl.InvalidModel)


def test_a_missing_extra_says_how_to_install_it():
    assert "pip install 'tutelage[graph]'" in str(tl.MissingExtra("a road graph", "graph"))


def test_a_foreign_database_is_an_os_error(tmp_path):
    (tmp_path / "results.sqlite").write_bytes(b"this is no database at all, but a text of some length")
    with pytest.raises(OSError, match="cannot be used as a store"):
        Store(tmp_path / "results.sqlite")


def test_a_message_is_one_line_of_at_most_300_characters():
    error = tl.InvalidModel(f"the weights must be numbers,\ngot {list(range(1000))!r}; give one for each feature")
    assert len(str(error)) <= 300 and "\n" not in str(error)
    assert str(error).startswith("the weights must be numbers, got [0, 1") and str(error).endswith("for each feature")
    assert str(tl.InvalidModel("x" * 300)) == "x" * 300


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["km"], "no policy satisfies the constraint; the least that any policy must exceed it by: 'km' by 2; "),
        (
            ["km", "toll"],
            "the 2 constraints together; the least that any policy must exceed them by in total: 'km' by 2; ",
        ),
    ],
)
def test_limits_that_no_policy_keeps_say_what_to_allow(names, sentence):
    # The second is rounding.
    excess = np.array([2.0, 1e-15])[: len(names)]
    assert f"{sentence}allow at least that much more" in str(tl.InfeasibleConstraints(names, excess, excess))
