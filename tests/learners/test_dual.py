"""The learner at given reward weights: convex, monotone, with exact derivatives, consistent with its responses."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from problems import NORMS, random_domain_of
from strategies import random_policy

import tutelage as tl
from tutelage.learners.dual import Reduction
from tutelage.learners.penalties import Mismatch, Preference

SEEDS = range(24)


def random_reduction(seed):
    """Every norm of preference, soft and hard, with allowances that bind in part."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    shown = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    is_hard = seed % 4 == 3
    allowance = shown * (1.02 if is_hard else rng.uniform(0, 1.05))
    preference = Preference(
        norm=NORMS[seed % 3], penalty=math.inf if is_hard else 10 ** rng.uniform(-1, 1), allowance=allowance
    )
    return Reduction(preference.on(domain)), rng


@pytest.mark.parametrize("seed", SEEDS)
def test_the_derivative_is_that_of_central_differences(seed):
    """d mu_r / d a, symmetric and positive semi-definite, with multipliers at zero, at their limit and in between."""
    reduction, rng = random_reduction(seed)
    a = rng.normal(size=reduction.domain.n_reward)
    here = reduction.settle(a)
    numerical = central_difference(lambda b: reduction.settle(b, near=here).expectation.reward, a, step=1e-4)
    size = max(1.0, np.abs(here.jacobian).max())
    assert_allclose(here.jacobian, numerical, atol=1e-5 * size)
    assert_allclose(here.jacobian, here.jacobian.T)
    assert np.linalg.eigvalsh(here.jacobian).min() >= -1e-9 * size
    moved = central_difference(lambda b: reduction.settle(b, near=here).multipliers, a, step=1e-4).T
    kept = here.multipliers > 1e-3
    assert_allclose(here.multiplier_jacobian[kept], moved[kept], atol=1e-4 * max(1.0, np.abs(moved).max(initial=0.0)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_is_convex_and_its_gradient_is_the_expectation(seed):
    """phi lies above its tangents, and its gradient is mu_r; so u @ mu_r never decreases along u."""
    reduction, rng = random_reduction(seed)
    d_r = reduction.domain.n_reward
    a, u = rng.normal(size=d_r), rng.normal(size=d_r)
    line = [reduction.settle(a + t * u) for t in (-2.0, -0.5, 0.0, 0.7, 3.0)]
    rewards = [float(u @ point.expectation.reward) for point in line]
    assert (np.diff(rewards) >= -1e-7 * (1 + np.abs(rewards).max())).all()
    middle = line[2]
    for point in line:
        tangent = middle.value + middle.expectation.reward @ (point.weights - middle.weights)
        assert point.value >= tangent - 1e-7 * (1 + abs(tangent))
    slope = central_difference(lambda b: reduction.settle(b, near=middle).value, a, step=1e-4)
    assert_allclose(slope, middle.expectation.reward, atol=1e-5 * (1 + np.abs(slope).max()))


@pytest.mark.parametrize("seed", SEEDS)
def test_rough_solutions_bound_phi_from_both_sides(seed):
    """A tangent at a rough solution is below phi everywhere, `above` is above it, near and far; gaps are as asked."""
    reduction, rng = random_reduction(seed)
    a = rng.normal(size=reduction.domain.n_reward)
    near = reduction.settle(a)
    for size in (0.01, 0.3, 3.0):
        b = a + size * rng.normal(size=len(a))
        rough, exact = reduction.settle(b, near=near, gap=0.1), reduction.settle(b, near=near)
        unit = 1e-7 * (1 + abs(exact.value))
        assert rough.value - 0.1 - unit <= rough.bound <= exact.value + unit
        assert exact.value <= reduction.above(b, near, 0.01) + unit
        far = rough.bound + rough.expectation.reward @ (a - b)
        assert far <= near.value + 1e-7 * (1 + abs(near.value))
        if size == 0.01:
            assert reduction.above(b, near, 1e-6) <= exact.value + 1e-3 * (1 + abs(exact.value))


@pytest.mark.parametrize("seed", SEEDS)
def test_taught_its_own_expectation_the_learner_settles_there(seed):
    """The optimality conditions hold by construction: the response to mu_r(a) has the expectation mu_r(a)."""
    reduction, rng = random_reduction(seed)
    penalty = 3.0
    a = rng.uniform(-penalty, penalty, reduction.domain.n_reward)
    here = reduction.settle(a)
    learner = tl.GenericLearner(reduction.domain, Mismatch(norm=1, penalty=penalty), reduction.constraints.preference)
    response = learner.respond(tl.Lesson.from_expectation(here.expectation.reward))
    size = 1 + np.abs(here.expectation.both).max()
    assert_allclose(response.expectation.both, here.expectation.both, atol=1e-6 * size)
    # The objective H - M - N with M = 0 is phi(a) - a @ mu_r.
    kept = here.value - a @ here.expectation.reward
    assert_allclose(response.certificate.primal, kept, atol=1e-6 * (1 + abs(kept)))


def test_a_warm_start_changes_the_time_and_not_the_answer():
    domain = tl.object_world(size=8, seed=3).domain("L4")
    reduction = Reduction(Preference(norm=1, penalty=10, allowance=0.5).on(domain))
    far = reduction.settle(np.array([-5.0, 5.0, 5.0]))
    cold, warm = (reduction.settle(np.array([5.0, 4.0, -3.0]), near=near) for near in (None, far))
    assert_allclose(warm.expectation.both, cold.expectation.both, atol=1e-7)
    assert_allclose(warm.jacobian, cold.jacobian, atol=1e-6 * np.abs(cold.jacobian).max())


def test_convex_preferences_settle_too():
    """A disc instead of a box: the derivative along its curved border is that of differences."""
    domain = tl.object_world(size=6, seed=1).domain("L2")
    disc = tl.distance_constraint("near little", [0.1, 0.2])
    preference = Preference(norm=1, penalty=10, allowance=1.0, rows=np.zeros((0, 2)), functions=(disc,))
    reduction, a = Reduction(preference.on(domain)), np.array([3.0, 2.0, 0.5])
    here = reduction.settle(a)
    assert disc.value(here.expectation.preference) == pytest.approx(1.0, abs=1e-8) and here.multipliers[0] > 0
    slope = central_difference(lambda b: reduction.settle(b, near=here).value, a, step=1e-4)
    assert_allclose(slope, here.expectation.reward, atol=1e-6)
    for i in range(3):
        moved = central_difference(lambda b, i=i: reduction.settle(b, near=here).expectation.reward[i], a, step=1e-4)
        assert_allclose(moved, here.jacobian[i], atol=1e-5 * np.abs(here.jacobian).max())
