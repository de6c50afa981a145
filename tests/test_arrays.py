"""The checks of arrays and generators that users give."""

import numpy as np
import pytest

import tutelage as tl
from tutelage.arrays import generator


@pytest.mark.parametrize("wrong", [True, -3, 1.5, "7", None, np.random.RandomState(0)])
def test_rng_is_an_int_or_a_generator(wrong):
    with pytest.raises(tl.InvalidInput, match="rng must be a non-negative int or a numpy"):
        generator(wrong)


def test_equal_seeds_give_equal_generators_and_a_generator_is_itself():
    assert generator(7).random() == generator(np.int64(7)).random()
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
