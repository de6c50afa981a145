"""Convex constraints by tangents: other Hessians, differences, cone programs, and features of unlike sizes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference, lattice
from strategies import random_domain, random_policy, some_of

import tutelage as tl
from tutelage.learners.dual import Reduction
from tutelage.learners.penalties import Tangents
from tutelage.learners.without_entropy import best_within

KINDS = [(1, 4.0), (2, 4.0), (np.inf, 4.0), (1, np.inf), (2, np.inf), (np.inf, np.inf)]


def distance_learner(seed, norm, penalty, *, n_functions=1, scale=1.0, unit=1.0):
    """A learner that should stay near what other policies reach, and a lesson that leads it away."""
    rng = np.random.default_rng([seed, 3])
    domain = random_domain(rng, max_states=12, n_preference=3)
    domain = tl.Domain(domain.mdp, domain.reward_features, unit * domain.preference_features)
    liked = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    functions = tuple(tl.distance_constraint(f"far {k}", liked, scale=scale) for k in range(n_functions))
    # Two distances from one point: only the stricter binds.
    within = [0.02 * (k + 1) * domain.mdp.horizon for k in range(n_functions)]
    preference = tl.Preference(norm=norm, penalty=penalty, allowance=[*(1.5 * liked), *within], functions=functions)
    lesson = tl.Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    return tl.GenericLearner(domain, tl.Mismatch(norm=2, penalty=20.0), preference), lesson


def described_by(learner, **given):
    """The same learner, told less or more about its functions."""
    functions = tuple(replace(function, **given) for function in learner.preference.functions)
    return replace(learner, preference=replace(learner.preference, functions=functions))


@pytest.mark.parametrize(("norm", "penalty"), KINDS)
@pytest.mark.parametrize("seed", some_of(range(25), range(3)))
def test_the_response_needs_no_second_derivatives(seed, norm, penalty):
    """Differences of the gradients serve as well as given Hessians."""
    scale = [1.0, 3.0, 0.2] if seed % 2 else 1.0
    learner, lesson = distance_learner(seed, norm, penalty, n_functions=1 + seed % 3 // 2, scale=scale)
    found, other = learner.respond(lesson), described_by(learner, second=None).respond(lesson)
    assert found.certificate.relative_gap <= 1e-8
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-7, abs=1e-7)
    assert_allclose(found.policy, other.policy, atol=1e-4)
    assert_allclose(found.multipliers.preference, other.multipliers.preference, rtol=1e-3, atol=1e-4)


def test_some_of_these_distances_bind():
    bound = [distance_learner(seed, 1, 4.0) for seed in range(3)]
    assert any(learner.respond(lesson).multipliers.preference[-1] > 1e-3 for learner, lesson in bound)


def test_multipliers_share_the_limit_of_their_norm():
    """On the surface of the ball: the dual norm of the multipliers is the penalty."""
    for norm, dual in ((1, np.inf), (2, 2), (np.inf, 1)):
        learner, lesson = distance_learner(0, norm, 0.05)
        y = learner.respond(lesson).multipliers.preference
        assert y[-1] > 0
        assert np.linalg.norm(y, dual) == pytest.approx(0.05, rel=1e-9)


def test_a_distance_below_the_largest_excess_costs_nothing():
    """For p = inf only the largest excess costs: the multiplier of a smaller one is zero."""
    learner, lesson = distance_learner(0, np.inf, 0.01)
    allowance = np.array(learner.preference.allowance)
    allowance[0] = 0.0
    learner = replace(learner, preference=replace(learner.preference, allowance=allowance))
    found = learner.respond(lesson)
    assert found.multipliers.preference[-1] == 0.0 and 0 < found.violation_excess[-1] < found.violation_excess[0]
    assert found.certificate.relative_gap <= 1e-8


@pytest.mark.parametrize(("norm", "penalty"), [(1, 4.0), (1, np.inf), (2, 0.5), (np.inf, 0.5)])
def test_the_reduced_learner_has_the_derivatives_of_differences(norm, penalty):
    learner, _ = distance_learner(2, norm, penalty, scale=[1.0, 3.0, 0.2])
    reduction, weights = Reduction(learner.dual.constraints), np.linspace(-1, 2, learner.domain.n_reward)
    here = reduction.settle(weights)
    slope = central_difference(lambda a: reduction.settle(a, near=here).value, weights)
    assert_allclose(slope, here.expectation.reward, rtol=1e-6, atol=1e-6)
    for i in range(len(weights)):
        slope = central_difference(lambda a, i=i: reduction.settle(a, near=here).expectation.reward[i], weights)
        assert_allclose(slope, here.jacobian[i], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("penalty", [900.0, np.inf])
def test_features_of_very_unlike_sizes_are_answered(penalty):
    """The largest feature is a thousand times the smallest, at a discount of 0.9999."""
    rng = np.random.default_rng(140)
    mdp = tl.MDP.from_choices(
        rng.dirichlet(np.full(8, 0.3), 24), np.arange(0, 25, 3), rng.dirichlet(np.ones(8)), 0.9999
    )
    features = rng.random((8, 3)) * [0.14, 130.0, 0.19]
    domain = tl.Domain(mdp, 0.01 * rng.random((8, 2)), features, ("a", "b"), ("x", "y", "z"))
    liked = tl.expectation(domain, random_policy(rng, mdp)).preference
    within = [*(1.2 * liked), 0.02 * mdp.horizon]
    preference = tl.Preference(penalty=penalty, allowance=within, functions=(tl.distance_constraint("far", liked),))
    learner = tl.GenericLearner(domain, tl.Mismatch(norm=np.inf, penalty=5000.0), preference)
    found = learner.respond(tl.Lesson.from_policy(domain, random_policy(rng, mdp)))
    assert found.certificate.relative_gap <= 1e-8 and found.certificate.n_steps <= 60
    assert found.multipliers.preference[-1] > 0


def test_a_ball_that_no_policy_reaches_is_refused():
    learner, lesson = distance_learner(0, 1, np.inf)
    away = tl.distance_constraint("away", np.full(3, 10 * learner.domain.mdp.horizon))
    preference = replace(learner.preference, functions=(away,))
    with pytest.raises(tl.InfeasibleConstraints, match="no policy satisfies"):
        replace(learner, preference=preference).respond(lesson)


def test_a_distance_that_no_longer_binds_has_no_multiplier():
    """From the learner of one lesson to that of another, which it starts from."""
    learner, lesson = distance_learner(0, 1, 4.0)
    dual, d_r = learner.dual, learner.domain.n_reward
    found, tangents = dual.optimise(lesson.expectation, np.zeros(d_r), None)
    assert tangents.by_constraint(tangents.touched(found.answer.x[d_r:])[1])[-1] > 0
    near = tl.expectation(learner.domain, tl.uniform_policy(learner.domain.mdp)).reward
    wide = replace(learner, preference=replace(learner.preference, allowance=1e6))
    moved = replace(tangents, constraints=wide.dual.constraints).pruned(found.answer.x[d_r:])
    again, later = wide.dual.optimise(near, found.answer.x[:d_r], moved[1], moved[0])
    fresh = wide.respond(tl.Lesson.from_expectation(near))
    assert later.by_constraint(later.touched(again.answer.x[d_r:])[1])[-1] == 0
    assert_allclose(again.answer.here.source.solved.policy, fresh.policy, atol=1e-7)


@pytest.mark.parametrize("seed", some_of(range(30), (0, 1, 2, 10)))
def test_the_best_policy_by_a_cone_program_is_that_of_tangents(seed):
    """In all units; with the seed 10, one preference feature is zero everywhere, and its limit costs nothing."""
    learner, _ = distance_learner(seed, 1, np.inf, n_functions=1 + seed % 2, scale=[1.0, 3.0, 0.2], unit=10.0**seed)
    constraints, weights = learner.dual.constraints, np.linspace(-1, 2, learner.domain.n_reward)
    found = best_within(constraints, weights)
    other = best_within(described_by(learner, distance=None).dual.constraints, weights)
    size = 1 + abs(other.value)
    assert found.value == pytest.approx(other.value, abs=1e-7 * size)
    assert found.value - 1e-7 * size <= other.bound and other.value - 1e-7 * size <= found.bound
    assert_allclose(found.multipliers, other.multipliers, rtol=1e-3, atol=1e-4 * size)


DOMAIN = tl.Domain(lattice(2, discount=0.9), np.eye(4)[:, :2], np.eye(4)[:, 2:])


def test_the_multipliers_of_a_constraint_s_tangents_are_summed():
    constraints = tl.Preference(allowance=1.0, functions=(tl.distance_constraint("near", [0.0, 0.0]),)).on(DOMAIN)
    tangents = Tangents(constraints, np.ones((4, 2)), np.ones(4), np.array([0, 1, 2, 2]))
    assert_allclose(tangents.by_constraint(np.array([1.0, 2.0, 3.0, 5.0])), [1.0, 2.0, 8.0])


def test_a_tangent_touches_its_function_and_lies_below_it():
    ball = tl.distance_constraint("near", [0.0, 0.0])
    constraints = tl.Preference(rows=np.zeros((0, 2)), allowance=[1.0], functions=(ball,)).on(DOMAIN)
    point = np.array([3.0, 4.0])
    tangents, multipliers = Tangents.opening(constraints).fixed().tightened(point, np.zeros(1))
    assert len(multipliers) == len(tangents.offsets) == 2
    normal, offset = tangents.normals[-1], tangents.offsets[-1]
    # g(x) - allowance >= normal @ x - offset, with equality at the point.
    assert normal @ point - offset == pytest.approx(ball.value(point) - 1.0)
    for other in np.random.default_rng(0).normal(size=(20, 2)) * 5:
        assert normal @ other - offset <= ball.value(other) - 1.0 + 1e-12


def test_a_moved_tangent_touches_where_it_moved_to():
    ball = tl.distance_constraint("near", [0.0, 0.0])
    opening = Tangents.opening(tl.Preference(rows=np.zeros((0, 2)), allowance=[1.0], functions=(ball,)).on(DOMAIN))
    there, y = opening.touched(np.array([5.0, *(np.array([3.0, 4.0]) - opening.moving.centre)]))
    assert_allclose(there.normals, [[0.6, 0.8]])
    assert_allclose(there.offsets, [1.0])
    assert_allclose(y, [5.0])
