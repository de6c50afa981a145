"""Problems over all policies: two routes and independent programs agree, and every answer is certified."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import deterministic_expectations, lattice, occupancy_program
from scipy.optimize import linprog
from strategies import random_domain, random_policy, some_of

from tutelage.bellman import equations
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation, occupancy
from tutelage.constrained.columns import Column, Planner
from tutelage.constrained.occupancy_polytope import best_policy, least_violation, nearest_policy
from tutelage.constrained.problem import HalfSpaces, no_limits, preference_limits, reward_limits
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import Ended, InfeasibleConstraints, InvalidModel

ROUTES = ("decomposition", "direct")


def problem(seed, *, max_states=60):
    """A random domain, weights, and limits that a known policy meets, some of them tightly."""
    rng = np.random.default_rng(seed)
    domain = random_domain(
        rng, max_states=max_states, n_reward=int(rng.integers(1, 4)), n_preference=int(rng.integers(1, 4))
    )
    known = expectation(domain, random_policy(rng, domain.mdp)).preference
    return domain, rng.normal(size=domain.n_reward), preference_limits(domain, known * rng.choice([1.0, 1.05])), rng


def is_within(limits, found):
    return limits.excess(found.expectation.both).max(initial=0.0) <= 2e-8 * max(
        1.0, np.abs(limits.offsets).max(initial=0.0)
    )


@pytest.mark.parametrize("seed", range(6))
def test_limits_missed_by_less_than_rounding_are_met_as_closely_as_possible(seed):
    """The least possible expectation less 3e-10 of its size: within the tolerance of feasibility, so no error."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=30, n_preference=2)
    cheap = Domain(domain.mdp, -domain.preference_features[:, :1])
    least = -best_policy(cheap, [1.0], no_limits(cheap)).value
    size = float(np.abs(domain.preference_features).max()) * domain.mdp.horizon
    limits = preference_limits(domain, [least - 3e-10 * size, 1e6])
    found = best_policy(domain, rng.normal(size=3), limits, route="decomposition")
    assert found.expectation.preference[0] <= least + 1e-8 * size and found.gap <= 1e-6 * size


def test_a_mixture_visits_what_any_of_its_policies_visits():
    """Two policies that share choices: the occupancy of the mixture is the weighted sum."""
    rng = np.random.default_rng(3)
    domain = random_domain(rng, max_states=8)
    mdp = domain.mdp
    second = np.minimum(mdp.first_choice[:-1] + 1, mdp.first_choice[1:] - 1)
    second[: len(second) // 2] = mdp.first_choice[: len(second) // 2]
    choices, weights = (mdp.first_choice[:-1].copy(), second), np.array([0.25, 0.75])
    columns = tuple(Column(choice, np.zeros(5)) for choice in choices)
    policies = [np.bincount(choice, minlength=mdp.n_choices).astype(float) for choice in choices]
    expected = sum(weight * occupancy(mdp, policy) for weight, policy in zip(weights, policies, strict=True))
    assert_allclose(Planner(domain).occupancy(columns, weights[:, None]), expected, atol=1e-12)


@pytest.mark.parametrize("seed", some_of(range(200), range(20)))
def test_both_routes_to_the_constrained_mdp_agree(seed):
    domain, weights, limits, _ = problem(seed)
    found = {route: best_policy(domain, weights, limits, route=route) for route in ROUTES}
    exact = occupancy_program(domain, weights, limits.normals, limits.offsets)
    for answer in found.values():
        scale = 1 + abs(exact)
        assert answer.value == pytest.approx(exact, abs=1e-6 * scale)
        assert answer.value <= answer.bound + 1e-8 * scale
        assert answer.gap <= 1e-7 * scale
        assert is_within(limits, answer)
        assert (answer.multipliers >= 0).all()
        # The occupancy's policy is the occupancy: evaluated anew it expects the same.
        again = expectation(domain, answer.policy)
        assert_allclose(again.both, answer.expectation.both, rtol=1e-6, atol=1e-6 * scale)
        assert weights @ again.reward == pytest.approx(answer.value, abs=1e-6 * scale)


@pytest.mark.parametrize("seed", some_of(range(200), range(20)))
def test_without_limits_both_routes_earn_what_policy_iteration_earns(seed):
    domain, weights, _, _ = problem(seed)
    best = domain.mdp.initial @ solve_hard(domain.mdp, domain.reward_features @ weights).value
    for route in ROUTES:
        found = best_policy(domain, weights, no_limits(domain), route=route)
        assert found.value == pytest.approx(best, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("seed", some_of(range(200), range(20)))
def test_both_routes_to_the_projection_agree(seed, norm):
    """In value for every norm; for the Euclidean, whose nearest point is unique, in the point as well."""
    domain, _, limits, rng = problem(500 + seed)
    target = rng.normal(size=domain.n_reward) * domain.mdp.horizon
    found = {route: nearest_policy(domain, target, limits, norm=norm, route=route) for route in ROUTES}
    scale = 1 + np.abs(target).max()
    for answer in found.values():
        gone = np.linalg.norm(expectation(domain, answer.policy).reward - target, norm)
        assert gone == pytest.approx(answer.value, abs=1e-6 * scale)
        assert answer.bound <= answer.value + 1e-8 * scale
        assert answer.gap <= 1e-6 * scale
        assert is_within(limits, answer)
    assert found["direct"].value == pytest.approx(found["decomposition"].value, abs=1e-6 * scale)
    if norm == 2:
        assert_allclose(
            found["direct"].expectation.reward, found["decomposition"].expectation.reward, atol=1e-6 * scale
        )


@pytest.mark.parametrize("seed", some_of(range(40), range(16)))
def test_a_reachable_target_within_the_limits_is_reached(seed):
    """Sec. 3.1 (i), learner can match: the distance is zero."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=30)
    shown = expectation(domain, random_policy(rng, domain.mdp))
    limits = preference_limits(domain, shown.preference)
    for norm in (1, 2, np.inf):
        for route in ROUTES:
            found = nearest_policy(domain, shown.reward, limits, norm=norm, route=route)
            assert found.value <= 1e-6 * (1 + np.abs(shown.reward).max())


@pytest.mark.parametrize("chunk", some_of(range(4), [0]))
def test_what_a_best_policy_shows_is_its_own_projection(chunk):
    """At a corner of the reachable set the distance is zero, all multipliers vanish, and many columns lie close by."""
    for seed in range(25 * chunk, 25 * (chunk + 1)):
        rng = np.random.default_rng(seed)
        domain = random_domain(rng, max_states=12, max_choices=4, on_choices=bool(seed % 2))
        best = best_policy(domain, rng.normal(size=domain.n_reward), no_limits(domain))
        found = nearest_policy(domain, best.expectation.reward, no_limits(domain))
        # Relative to the largest expectations, which the mixture is made of.
        assert found.value <= 1e-8 * (1 + domain.mdp.horizon)


@pytest.mark.parametrize("seed", range(25))
def test_projection_satisfies_the_variational_inequality_over_all_policies(seed):
    """<target - x, v - x> <= 0 for every policy's v: tested on every deterministic policy, by brute force."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=6, max_choices=3, n_preference=0)
    target = rng.normal(size=3) * domain.mdp.horizon
    point = nearest_policy(domain, target, no_limits(domain)).expectation.reward
    reached = deterministic_expectations(domain)[:, :3]
    scale = 1 + np.abs(target).max() ** 2
    assert ((reached - point) @ (target - point)).max() <= 1e-7 * scale


@pytest.mark.parametrize("seed", range(25))
def test_best_policy_is_the_best_mixture_of_deterministic_ones(seed):
    """Brute force: the expectations of policies are the hull of those of the deterministic ones."""
    rng = np.random.default_rng(100 + seed)
    domain = random_domain(rng, max_states=6, max_choices=3, n_reward=2, n_preference=2)
    corners = deterministic_expectations(domain)
    limit = corners[:, 2:].min(axis=0) + 0.3 * np.ptp(corners[:, 2:], axis=0)
    weights = rng.normal(size=2)
    mixed = linprog(
        -corners[:, :2] @ weights, A_ub=corners[:, 2:].T, b_ub=limit, A_eq=np.ones((1, len(corners))), b_eq=[1.0]
    )
    if mixed.status == 2:
        with pytest.raises(InfeasibleConstraints):
            best_policy(domain, weights, preference_limits(domain, limit))
        return
    assert best_policy(domain, weights, preference_limits(domain, limit)).value == pytest.approx(-mixed.fun, abs=1e-7)


@pytest.mark.parametrize("seed", some_of(range(40), range(20)))
def test_multipliers_are_the_worth_of_easing_a_limit(seed):
    """By LP sensitivity the value is concave in the limits with the multipliers as supergradient."""
    domain, weights, limits, rng = problem(900 + seed, max_states=20)
    here = best_policy(domain, weights, limits)
    eased = limits.relaxed(rng.random(len(limits)))
    gained = best_policy(domain, weights, eased).value - here.value
    promised = here.multipliers @ (eased.offsets - limits.offsets)
    assert -1e-7 * (1 + abs(here.value)) <= gained <= promised + 1e-6 * (1 + abs(here.value))


@pytest.mark.parametrize("route", ROUTES)
def test_infeasible_limits_are_refused_with_the_least_violation(route):
    """Two states that keep what they get: from a fair start each feature is counted 5 times whatever one does."""
    domain = Domain(
        lattice(2, discount=0.9),
        np.ones((4, 1)),
        np.array([[1.0, 0.0], [0, 0], [0, 0], [0, 1.0]]),
        ("r",),
        ("north", "south"),
    )
    # Start in cell 2: both corners can be avoided, but not with limits below zero.
    limits = preference_limits(domain, [-0.25, 3.0])
    with pytest.raises(InfeasibleConstraints, match=r"'north' by 0\.25") as caught:
        best_policy(domain, [1.0], limits, route=route)
    assert_allclose(caught.value.least_violation, [0.25, 0.0], atol=1e-7)
    assert_allclose(caught.value.unavoidable, [0.25, 0.0], atol=1e-7)
    with pytest.raises(InfeasibleConstraints):
        nearest_policy(domain, [1.0], limits, route=route)


def test_limits_that_clash_only_together_are_told_apart_from_those_that_clash_alone():
    """mu_1 >= 6 and mu_2 >= 6 with mu_1 + mu_2 <= 10 in all: each can be met, both cannot, by 2 in total."""
    domain = Domain(lattice(2, discount=0.9), np.array([[0.0, 0], [1, 0], [0, 1], [0, 0]]))
    limits = reward_limits(domain, -np.eye(2), [-6.0, -6.0], ["first", "second"])
    with pytest.raises(InfeasibleConstraints) as caught:
        best_policy(domain, [1.0, 1.0], limits)
    assert_allclose(caught.value.unavoidable, 0.0, atol=1e-7)
    least = caught.value.least_violation.sum()
    corners = deterministic_expectations(domain)
    # The same by brute force over mixtures: least s1 + s2 with mixture + s >= 6.
    k = len(corners)
    program = linprog(
        np.r_[np.zeros(k), 1, 1], A_ub=np.hstack([-corners.T, -np.eye(2)]), b_ub=[-6, -6],
        A_eq=np.r_[np.ones(k), 0, 0][None], b_eq=[1.0],
    )  # fmt: skip
    assert least == pytest.approx(program.fun, abs=1e-7)
    assert least_violation(domain, limits).value == pytest.approx(program.fun, abs=1e-7)


def test_least_violation_is_zero_where_the_limits_can_be_met():
    domain, _, limits, _ = problem(3)
    found = least_violation(domain, limits)
    assert found.value <= 1e-8 * max(1, np.abs(limits.offsets).max()) and found.bound <= found.value + 1e-12


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_a_grid_beyond_the_compiled_threshold_agrees_with_the_direct_route(slip):
    mdp = lattice(25, slip=slip)
    rng = np.random.default_rng(4)
    domain = Domain(mdp, (rng.random((625, 2)) < 0.02) * 1.0, (rng.random((625, 2)) < 0.1) * 1.0)
    assert mdp.n_states > equations.COMPILED_ABOVE
    free = best_policy(domain, [1.0, 0.5], no_limits(domain))
    limits = preference_limits(domain, 0.5 * np.maximum(free.expectation.preference, 1.0))
    for found in (
        [best_policy(domain, [1.0, 0.5], limits, route=route) for route in ROUTES],
        [nearest_policy(domain, [20.0, 30.0], limits, route=route) for route in ROUTES],
    ):
        assert found[0].value == pytest.approx(found[1].value, rel=1e-6, abs=1e-6)


def test_decomposition_starts_from_every_state_at_once():
    """A uniform start needs more columns than a single cell; the answer is the same."""
    rng = np.random.default_rng(8)
    mdp = lattice(8)
    spread = type(mdp).from_choices(mdp.transition, mdp.first_choice, np.full(64, 1 / 64), 0.95)
    domain = Domain(spread, (rng.random((64, 3)) < 0.1) * 1.0, (rng.random((64, 2)) < 0.2) * 1.0)
    limits = preference_limits(domain, 1.0)
    found = best_policy(domain, [1.0, 0.9, 0.2], limits)
    exact = occupancy_program(domain, np.array([1.0, 0.9, 0.2]), limits.normals, limits.offsets)
    assert found.value == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: best_policy(d, [1.0], no_limits(d)), "weights has 1 entries, but there are 3 reward features"),
        (lambda d: nearest_policy(d, [np.nan, 0, 0], no_limits(d)), r"target\[0\] is nan"),
        (lambda d: nearest_policy(d, [0, 0, 0], no_limits(d), norm=3), "norm must be 1, 2 or infinity, got 3"),
        (lambda d: best_policy(d, [1, 1, 1], no_limits(d), route="other"), "route must be"),
        (lambda d: best_policy(d, [1, 1, 1], no_limits(d), accuracy=0), "accuracy must be positive"),
        (lambda d: best_policy(d, [1, 1, 1], HalfSpaces(np.ones((1, 2)), [1.0], ("x",))), "limits have 2 features"),
        (lambda d: preference_limits(d, [1.0, 2.0, 3.0]), "allowance"),
        (lambda d: preference_limits(d, np.nan), "the allowance.* is nan"),
        (lambda d: preference_limits(d, "much"), "the allowance must be an array of numbers"),
        (lambda d: reward_limits(d, np.ones((1, 2)), [0.0], ["x"]), "normals have 2 columns"),
        (lambda d: HalfSpaces(np.ones((2, 5)), [1.0], ("x", "y")), "offsets has 1 entries"),
        (lambda d: HalfSpaces(np.ones((2, 5)), [1.0, 2.0], ("x",)), "names has 1 entries, but there are 2"),
    ],
)
def test_bad_questions_are_refused_with_a_sentence(call, message):
    domain = random_domain(np.random.default_rng(0), max_states=5)
    with pytest.raises(InvalidModel, match=message):
        call(domain)


def test_a_limit_that_no_unit_can_hold_binds_nothing():
    """1e300 in units of 1e-12 is infinite; that is no warning, and no limit."""
    domain = random_domain(np.random.default_rng(2))
    small = Domain(domain.mdp, domain.reward_features, 1e-12 * domain.preference_features)
    weights = np.ones(domain.n_reward)
    wide = best_policy(small, weights, preference_limits(small, 1e300))
    assert wide.value == pytest.approx(best_policy(small, weights, no_limits(small)).value)


@pytest.mark.parametrize("seed", range(12))
def test_allowing_what_the_error_says_is_enough(seed):
    """The numbers of the message in six digits: rounded down, the limits would still be too strict."""
    rng = np.random.default_rng([6, seed])
    domain = random_domain(rng, max_states=12, n_reward=2, n_preference=2)
    normals = np.vstack([np.eye(4)[2:], -np.eye(4)[2:]])
    reached = normals @ expectation(domain, random_policy(rng, domain.mdp)).both
    names = ("a", "b", "c", "d")
    offsets = reached - 0.3 * np.abs(reached) * (0.1 + rng.random(4))
    with pytest.raises(InfeasibleConstraints) as caught:
        best_policy(domain, [1.0, 0.5], HalfSpaces(normals, offsets, names))
    advice = dict(re.findall(r"'([a-d])' by ([0-9.e+-]+)", str(caught.value)))
    more = np.array([float(advice.get(name, 0.0)) for name in names])
    assert (more > 0).any()
    best_policy(domain, [1.0, 0.5], HalfSpaces(normals, offsets + more, names))


@pytest.mark.parametrize("seed", range(6))
def test_a_small_distance_beside_a_large_feature_is_as_close_as_promised(seed):
    """Features of sizes 1e6, 10 and 1, many limits, and a target that the small ones miss.

    A direct program is exact in the square of the distance, relative to the largest feature: of a distance of 200 it
    proved nothing, and said that it had converged.
    """
    rng = np.random.default_rng(seed)
    rows, initial = rng.dirichlet(np.ones(8), size=16), rng.dirichlet(np.ones(8))
    mdp = MDP.from_choices(rows, np.arange(0, 17, 2), initial, 0.99)
    names = [f"c{j}" for j in range(26)]
    domain = Domain(mdp, rng.random((16, 3)) * [1e6, 10, 1], rng.random((16, 26)), ["large", "ten", "one"], names)
    known = expectation(domain, random_policy(rng, mdp))
    target = known.reward + np.array([0, 200, 50])
    limits = preference_limits(domain, known.preference + rng.random(26))
    found = nearest_policy(domain, target, limits)
    assert found.gap <= 1e-3 * found.value
    assert np.linalg.norm(expectation(domain, found.policy).reward - target) == pytest.approx(found.value, rel=1e-3)
    direct = nearest_policy(domain, target, limits, route="direct")
    assert direct.ended is Ended.ROUNDING or direct.gap <= 1e-7 * 1e8
