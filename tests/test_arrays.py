"""The checks of arrays and generators that users give."""

import numpy as np
import pytest

import tutelage as tl
from tutelage.arrays import floats, generator, integers


@pytest.mark.parametrize("wrong", [True, -3, 1.5, "7", None, np.random.RandomState(0)])
def test_rng_is_an_int_or_a_generator(wrong):
    with pytest.raises(tl.InvalidInput, match="rng must be a non-negative int or a numpy"):
        generator(wrong)


def test_equal_seeds_give_equal_generators_and_a_generator_is_itself():
    assert generator(7).random() == generator(np.int64(7)).random()
    rng = np.random.default_rng(0)
    assert generator(rng) is rng


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "sentence"), [(10**400, "too large to convert"), (np.ma.masked, "masked entries"), (None, "is nan")]
)
def test_one_entry_that_is_no_number_is_refused_and_never_read_as_another(wrong, sentence, ndim):
    """A mask was dropped, and the number under it read; a large int was a bare OverflowError."""
    rng = np.random.default_rng(ndim)
    given = np.ma.array(rng.random((3,) * ndim), dtype=object if wrong is not np.ma.masked else float)
    floats(given, "given", ndim=ndim)
    given[(rng.integers(3),) * ndim] = wrong
    with pytest.raises(tl.InvalidModel, match=f"given.*{sentence}"):
        floats(given if wrong is np.ma.masked else given.tolist(), "given", ndim=ndim)


def test_a_number_of_no_state_is_not_wrapped_into_one():
    assert integers(np.array([3], dtype=np.uint64), "states").tolist() == [3]
    with pytest.raises(tl.InvalidModel, match=r"states\[0\] is 1\d*; every entry must be a whole number below"):
        integers([10**19], "states")
