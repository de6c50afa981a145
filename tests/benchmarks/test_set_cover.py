"""SCOT on the worlds of its public code."""

from itertools import islice

import numpy as np

from benchmarks import set_cover


def test_the_draws_are_those_of_the_c_library():
    """The numbers that every C program printed after `srand(1)` on Linux."""
    assert list(islice(set_cover.c_rand(1), 3)) == [1804289383, 846930886, 1681692777]


def test_the_cover_determines_every_choice_of_the_first_world():
    domain, weights = set_cover.world(0)
    normals, pairs = set_cover.exact(domain, weights)
    assert len(pairs) == 15 and (normals @ weights >= -1e-9).all()
    assert set_cover.wrong(domain, weights, normals) == 0.0
    assert abs(np.abs(weights).sum() - 1) < 1e-12
