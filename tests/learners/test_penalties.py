"""Penalties by hand: costs and excesses."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import lattice

from tutelage.learners.penalties import Mismatch, Preference
from tutelage.model.mdp import Domain

DOMAIN = Domain(lattice(2, discount=0.9), np.eye(4)[:, :2], np.eye(4)[:, 2:])


@pytest.mark.parametrize(("norm", "size"), [(1, 7.0), (2, 5.0), (math.inf, 4.0)])
def test_costs_by_hand(norm, size):
    """Beyond an allowance of one, a deviation of (4, -5) is (3, 4), and preferences of (4, 5) are too."""
    mismatch = Mismatch(norm=norm, penalty=10.0, allowance=1.0).on(DOMAIN)
    deviation = np.array([4.0, -5.0])
    assert_allclose(mismatch.excess(deviation), [3.0, 4.0])
    assert_allclose(mismatch.excess(np.array([0.5, -1.5])), [0.0, 0.5])
    assert mismatch.cost(deviation) == pytest.approx(10 * size)
    constraints = Preference(norm=norm, penalty=10.0, allowance=[1.0, 1.0]).on(DOMAIN)
    assert_allclose(constraints.excess(np.array([4.0, 5.0])), [3.0, 4.0])
    assert_allclose(constraints.excess(np.array([0.5, 1.5])), [0.0, 0.5])
    assert constraints.preference.cost(np.array([3.0, 4.0])) == pytest.approx(10 * size)
    if norm == 2:
        squared = Mismatch(norm=2, penalty=10.0, allowance=1.0, squared=True).on(DOMAIN)
        assert squared.cost(deviation) == pytest.approx(250.0)
