"""Which route is taken when none is named, and that it makes no difference to the answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build_mdp, random_domain, random_policy

import tutelage as tl
from tutelage.constrained import direct
from tutelage.constrained.direct import FEW_CHOICES, Ball, best_within_balls
from tutelage.constrained.objectives import MostReward, NearestSquared
from tutelage.constrained.occupancy_polytope import MANY_ROWS, Problem, best_policy, is_crowded, nearest_policy
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.learners.projection import HardLearner
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.roles import Lesson


def one_hot_domain(n_features, n_states=40, n_choices=3):
    rng = np.random.default_rng(2)
    mdp = build_mdp(rng, np.full(n_states, n_choices), 0.95)
    # Without names, as many features as choices would be ambiguous.
    names = [f"state {i}" for i in range(n_features)]
    return Domain(mdp, np.eye(n_states)[:, :n_features], np.eye(n_states)[:, ::2], names)


@pytest.mark.parametrize(
    ("n_features", "n_states", "n_limits", "nearest", "best"),
    [
        (4, 40, 0, False, False),
        (MANY_ROWS, 40, 0, True, False),
        (MANY_ROWS - 20, 40, 20, True, False),
        (4, 60, 30, True, True),
        (MANY_ROWS, FEW_CHOICES, 0, False, False),
    ],
)
def test_few_choices_and_many_features_or_limits_make_a_crowd(n_features, n_states, n_limits, nearest, best):
    domain = one_hot_domain(n_features, n_states)
    limits = preference_limits(domain, 1.0)
    limits = type(limits)(limits.normals[:n_limits], limits.offsets[:n_limits], limits.names[:n_limits])
    assert is_crowded(domain, NearestSquared(np.zeros(n_features)), limits) == nearest
    assert is_crowded(domain, MostReward(np.zeros(len(domain.names))), limits) == best


def test_the_route_of_a_crowd_leads_to_the_same_point():
    domain = one_hot_domain(30)
    target = np.linspace(0, 2, 30)
    found = {route: nearest_policy(domain, target, no_limits(domain), route=route) for route in ("auto", "direct")}
    assert_array_equal(found["auto"].expectation.reward, found["direct"].expectation.reward)
    long_way = nearest_policy(domain, target, no_limits(domain), route="decomposition")
    assert found["auto"].gap <= 1e-9 * (1 + found["auto"].value)
    assert_allclose(found["auto"].expectation.reward, long_way.expectation.reward, atol=1e-5)
    assert_allclose(found["auto"].value, long_way.value, rtol=1e-9)


def test_few_features_are_left_to_decomposition():
    domain = one_hot_domain(3)
    limits, weights = preference_limits(domain, 5.0), [1.0, 2.0, 3.0]
    found = [best_policy(domain, weights, limits, route=route) for route in ("auto", "decomposition")]
    assert_array_equal(found[0].policy, found[1].policy)


def test_a_direct_program_that_fails_is_left_to_decomposition(monkeypatch):
    domain, target = one_hot_domain(30), np.linspace(0, 2, 30)
    right = nearest_policy(domain, target, no_limits(domain), route="decomposition")

    def fail(*_):
        raise NotConverged("not today", residual=1.0, n_steps=1)

    monkeypatch.setattr(Problem, "direct", fail)
    found = nearest_policy(domain, target, no_limits(domain))
    assert_array_equal(found.policy, right.policy)


def test_the_learner_takes_the_route_that_its_sizes_ask_for():
    domain = one_hot_domain(30)
    lesson = Lesson.from_expectation(np.linspace(0, 2, 30))
    found = HardLearner(domain, 50.0).respond(lesson)
    direct = HardLearner(domain, 50.0, route="direct").respond(lesson)
    assert_array_equal(found.expectation.reward, direct.expectation.reward)


def test_other_routes_are_refused():
    domain = one_hot_domain(3)
    with pytest.raises(InvalidModel, match="route must be"):
        best_policy(domain, np.ones(3), no_limits(domain), route="scenic")


def test_a_wrong_solution_of_the_cone_program_is_not_taken(monkeypatch):
    """Weak duality: with wrong multipliers, or another policy, the gap is too large."""
    rng = np.random.default_rng([1, 3])
    domain = random_domain(rng, max_states=12, n_preference=3)
    liked = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    ball = Ball(liked, np.ones(3), 0.02 * domain.mdp.horizon)
    problem = (domain, np.linspace(-1, 2, domain.n_reward), tl.preference_limits(domain, 1.5 * liked), [ball])
    right, t = best_within_balls(*problem)
    assert right.gap <= 1e-7 * (1 + abs(right.value)) and np.linalg.norm(t) > 1e-3
    solve = direct._solved
    for wrong in (lambda z, y, t: (z, y, 0.9 * t), lambda z, y, t: (z[::-1], y, t), lambda z, y, t: (z, y + 0.1, t)):
        monkeypatch.setattr(direct, "_solved", lambda *given, wrong=wrong: wrong(*solve(*given)))
        assert best_within_balls(*problem) is None
