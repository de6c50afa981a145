"""The weights and the features that options name."""

import pytest

from tutelage.cli.subject import feature, read_weights
from tutelage.outcomes import InvalidInput


def test_weights_by_name():
    names = ("km", "at goal")
    assert read_weights("-1,2", names).tolist() == [-1, 2]
    assert read_weights("at_goal=3", names).tolist() == [0, 3]
    assert read_weights("at goal=3, km=-1e-3", names).tolist() == [-1e-3, 3]
    for text, message in (
        ("kms=1", "there is no feature 'kms'; did you mean 'km'"),
        ("km=1,km=2", "each name once"),
        ("km=x", "weights must be numbers with commas between them, or name=number"),
        ("km=1,2", "there is no feature ''"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_weights(text, names)
    assert feature(["a_b", "a b"], "a_b") == "a_b" and feature(["a b"], "a_b") == "a b"
