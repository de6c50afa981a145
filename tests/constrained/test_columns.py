"""Policies as columns: expected counts by every method, policy iteration from stored policies, and its bounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import spsolve

from benchmarks.families import FAMILIES, family_domain, family_problem
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation
from tutelage.chains.resolvent import discounted_rows
from tutelage.constrained.columns import Improver, Planner
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.model.policy import policy_from_occupancy

# Above the size from which loops are compiled and policies are stored.
N_STATES = 700


def size_of(name: str) -> int:
    """Dense rows of 205 states have as many entries as sparse ones of many thousand."""
    return 205 if name == "dense" else N_STATES


def some_choice(domain, seed=0):
    """(S,), a random choice in each state."""
    mdp, rng = domain.mdp, np.random.default_rng(seed)
    return mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)


@pytest.mark.parametrize("name", FAMILIES)
def test_expected_counts_solve_their_linear_system(name):
    """F = features + discount P F, by whichever method suits the family."""
    domain = family_domain(name, size_of(name))
    improver, choice = Improver(domain), some_choice(domain)
    column = improver.evaluate(choice, None)
    system = (sparse.eye_array(domain.mdp.n_states) - discounted_rows(domain.mdp, choice)).tocsc()
    assert_allclose(column.ahead, spsolve(system, improver.features), rtol=1e-9, atol=1e-9)
    assert_allclose(column.counts, domain.mdp.initial @ column.ahead, rtol=1e-12)
    visits = np.asarray(improver.occupancy([column], np.ones((len(column.parts), 1)).T)[choice])
    assert_allclose(visits, spsolve(system.T.tocsc(), domain.mdp.initial), rtol=1e-9, atol=1e-12)
    # From the counts of another policy, the same result.
    again = improver.evaluate(choice, improver.evaluate(some_choice(domain, 1), None))
    assert_allclose(again.ahead, column.ahead, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("garnet", "dense")])
def test_every_group_of_starts_may_have_a_mixture_of_its_own(name):
    """The parts of a policy sum to its expectation, and the occupancy of a mixture by group has its expectation."""
    domain = family_domain(name, size_of(name))
    improver, mdp, rng = Improver(domain), domain.mdp, np.random.default_rng(3)
    columns = [improver.evaluate(some_choice(domain, seed), None) for seed in range(3)]
    assert len(columns[0].parts) == mdp.n_states // 5
    assert_allclose(columns[0].parts.sum(axis=0), columns[0].counts, rtol=1e-10)
    weights = rng.dirichlet(np.ones(3), size=len(columns[0].parts)).T
    mixed = improver.occupancy(columns, weights)
    expected = sum(shares @ column.parts for shares, column in zip(weights, columns, strict=True))
    assert_allclose(mixed @ np.repeat(improver.features, mdp.choices_per_state, axis=0), expected, rtol=1e-8)
    # One stationary policy does the same.
    assert_allclose(expectation(domain, policy_from_occupancy(mdp, mixed)).both, expected, rtol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_policy_iteration_ends_at_the_optimum_with_a_bound_on_it(name):
    domain = family_domain(name, size_of(name))
    price = np.array([1.0, 0.5, 0.2, -0.3, 0.0, -0.1, -0.2])
    improver = Improver(domain)
    first = improver.evaluate(some_choice(domain), None)
    found = improver.price_out(price, [first])
    best = domain.mdp.initial @ solve_hard(domain.mdp, improver.features @ price, accuracy=1e-10).value
    assert found.columns[-1].counts @ price == pytest.approx(best, rel=1e-9)
    assert best - 1e-9 <= found.best <= best * (1 + 1e-6)
    planned = Planner(domain).price_out(price)
    assert planned.columns[0].counts @ price == pytest.approx(best, rel=1e-9) and planned.best >= best - 1e-9


def test_a_bound_of_a_policy_iteration_that_stops_early_still_holds():
    """Certificates are tested on poor answers: a policy that earns three quarters of the bound is enough here."""
    domain = family_domain("maintenance", N_STATES)
    price = np.array([1.0, 0.5, 0.2, -0.3, 0.0, -0.1, -0.2])
    improver = Improver(domain)
    first = improver.evaluate(some_choice(domain), None)
    found = improver.price_out(price, [first], share=0.25)
    best = domain.mdp.initial @ solve_hard(domain.mdp, improver.features @ price).value
    earned = [column.counts @ price for column in (first, *found.columns)]
    assert 0.75 * found.best <= earned[-1] < best <= found.best
    assert earned == sorted(earned)


@pytest.mark.parametrize("name", FAMILIES)
def test_both_routes_agree_where_the_start_is_spread(name):
    asked = family_problem(name, size_of(name))
    found, direct = (best_policy(*asked, route=route) for route in ("decomposition", "direct"))
    scale = 1 + abs(direct.value)
    assert found.value == pytest.approx(direct.value, abs=1e-6 * scale)
    assert found.value <= found.bound + 1e-9 * scale and found.gap <= 1e-7 * scale
    again = expectation(asked.domain, found.policy)
    assert (asked.limits.excess(again.both) <= 1e-7 * asked.limits.offsets).all()
    assert again.reward @ asked.weights == pytest.approx(found.value, abs=1e-7 * scale)


@pytest.mark.parametrize("name", ["queue", "slippery grid"])
def test_the_projection_agrees_where_the_start_is_spread(name):
    asked = family_problem(name, N_STATES)
    target = expectation(asked.domain, solve_hard(asked.domain.mdp, asked.reward).policy).reward
    found, direct = (
        nearest_policy(asked.domain, target, asked.limits, route=route) for route in ("decomposition", "direct")
    )
    assert_allclose(found.expectation.reward, direct.expectation.reward, atol=1e-6 * np.abs(target).max())
