"""Decomposition: where it ends, what it says of its gap, and its answer in the caller's terms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.families import family_problem
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces

# Above the size from which policies are stored.
N_STATES = 700


@pytest.mark.parametrize("name", ["garnet", "queue", "roads"])
def test_a_large_problem_is_answered_in_all_its_reward_features(name):
    """It is searched with the reward as its only reward feature. A limit on a feature needs all: the same answer."""
    asked = family_problem(name, N_STATES)
    domain, (d_r, d_c) = asked.domain, (asked.domain.n_reward, asked.domain.n_preference)
    found = best_policy(domain, asked.weights, asked.limits)
    far, limits = np.eye(1, d_r + d_c), asked.limits
    with_far = HalfSpaces(np.vstack([limits.normals, far]), [*limits.offsets, 1e6], (*limits.names, "does not bind"))
    whole = best_policy(domain, asked.weights, with_far)
    assert len(found.expectation.reward) == d_r and len(found.price) == d_r + d_c
    assert_allclose(found.expectation.reward, expectation(domain, found.policy).reward, rtol=1e-8)
    assert found.value == pytest.approx(asked.weights @ found.expectation.reward, rel=1e-8)
    assert found.value == pytest.approx(whole.value, rel=1e-7)
    # At the price, no policy earns more than the value and what the limits are worth.
    earned = found.price @ np.concatenate([found.expectation.reward, found.expectation.preference])
    assert earned + found.multipliers @ asked.limits.offsets == pytest.approx(found.bound, rel=1e-6)
    assert_allclose(found.price[:d_r], whole.price[:d_r], rtol=1e-9)
