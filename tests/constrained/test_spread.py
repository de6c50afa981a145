"""Decomposition with many policies: their evaluations may be rough, the answer is not."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.families import family_domain, family_problem
from tutelage.chains.expectations import expectation
from tutelage.chains.iterations import RELATIVE_ACCURACY
from tutelage.chains.resolvent import Krylov, chain, discounted_rows
from tutelage.constrained import columns, spread
from tutelage.constrained.columns import Improver
from tutelage.constrained.decomposition import decompose, price_out
from tutelage.constrained.objectives import MostReward
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces

# Above the size from which policies are stored.
N_STATES = 700


@pytest.fixture
def by_iteration(monkeypatch):
    """No policy is evaluated by a factorisation."""

    def of_choice(mdp, choice):
        return Krylov(discounted_rows(mdp, choice), mdp.largest_discount)

    def of_policy(mdp, policy):
        return Krylov(chain(mdp, mdp.discount * policy), mdp.largest_discount)

    monkeypatch.setattr(columns, "choice_resolvent", of_choice)
    monkeypatch.setattr(columns, "policy_resolvent", of_policy)
    monkeypatch.setattr(columns, "typical_resolvent", lambda mdp: of_choice(mdp, mdp.first_choice[:-1]))


def test_a_rough_column_knows_that_it_is_rough(by_iteration):
    """Its error is within what it states, and larger than that of the same column refined."""
    improver = Improver(family_domain("slippery grid", N_STATES))
    choice = improver.domain.mdp.first_choice[:-1]
    rough = improver.evaluate(choice, None, 1e-2)
    exact = improver.refined(rough)
    assert (rough.accuracy, exact.accuracy) == (1e-2, RELATIVE_ACCURACY)
    error, size = np.abs(rough.ahead - exact.ahead).max(axis=0), np.abs(exact.ahead).max(axis=0)
    assert (error <= 1e-2 * size).all() and (error > 1e-9 * size).any()
    assert_allclose(improver.evaluate(choice, None).counts, exact.counts, rtol=1e-9)


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "maintenance"])
def test_a_mixture_of_rough_columns_is_refined_before_it_is_the_answer(monkeypatch, by_iteration, name):
    """With columns as rough as the gap itself: the value is that of the policy returned, and the limits are kept."""
    asked = family_problem(name, N_STATES)
    exact = best_policy(asked.domain, asked.weights, asked.limits)
    monkeypatch.setattr(spread, "ROUGH", 1.0)
    monkeypatch.setattr(spread, "ROUGHEST", 1e-2)
    found = best_policy(asked.domain, asked.weights, asked.limits)
    reached = expectation(asked.domain, found.policy)
    assert found.value == pytest.approx(asked.weights @ reached.reward, rel=1e-8)
    assert found.value == pytest.approx(exact.value, rel=1e-7) and found.value <= found.bound + 1e-9 * abs(found.bound)
    excess = asked.limits.excess(reached.both)
    assert (excess <= 1e-7 * asked.limits.offsets).all()


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "maintenance"])
def test_a_rough_column_that_promises_too_much_is_evaluated_again(by_iteration, name):
    """The best policy within the limits, said to earn one percent more than it does: the answer earns what is true."""
    asked = family_problem(name, N_STATES)
    domain, d_r = asked.domain, asked.domain.n_reward
    exact = best_policy(domain, asked.weights, asked.limits)
    improver, objective = Improver(domain), MostReward(asked.weights)
    true = improver.evaluate_policy(exact.policy, None)
    more = np.where(np.arange(len(true.counts)) < d_r, 1.01, 1.0)
    false = replace(true, counts=more * true.counts, ahead=more * true.ahead, accuracy=0.02)
    first = price_out(domain, objective.opening(asked.limits), None)
    found = decompose(domain, objective, asked.limits, (first.column, false), first.plan, tolerance=1e-8)
    assert found.point.value == pytest.approx(-exact.value, rel=1e-7)
    assert found.gap <= 1e-8 * (1 + exact.value)


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
