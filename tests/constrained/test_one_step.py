"""The dual near one policy: its value, slope and curvature, and the decomposition that uses its minimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.families import family_domain, family_problem
from tests.oracles import central_difference
from tutelage.bellman.equations import solve_hard
from tutelage.constrained import objectives, spread
from tutelage.constrained.columns import Improver, is_exact
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.one_step import OneStep
from tutelage.constrained.problem import HalfSpaces, preference_limits

N_STATES, WEIGHTS = 700, np.array([1.0, 0.9, 0.2])
U = np.array([0.3, 0.1, 0.2, 0.4])


def model_at(name, u):
    """The model near the policy that is optimal at price(u), and max over policies of price @ mu for any u."""
    domain = family_domain(name, N_STATES)
    dual = objectives.MostReward(WEIGHTS).dual(preference_limits(domain, 1.0))
    improver = Improver(domain)

    def optimal(v):
        return domain.mdp.initial @ solve_hard(domain.mdp, improver.features @ dual.price(v), accuracy=1e-11).value

    first = improver.evaluate(domain.mdp.first_choice[:-1], None)
    column = improver.improve(dual.price(u), [first], np.inf, is_exact).columns[-1]
    return OneStep(improver, dual, dual.box, column), optimal


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "maintenance"])
def test_near_an_optimal_policy_the_model_has_the_value_and_the_slope_of_the_dual(name):
    model, optimal = model_at(name, U)
    value, gradient, _ = model.expanded(U, 1e-12)
    assert value - model.dual.linear @ U == pytest.approx(optimal(U), rel=1e-9)
    # The dual is convex: its slopes at U lie between difference quotients, and the model has one of them.
    for j, step in enumerate(1e-4 * np.eye(4)):
        slope = gradient[j] - model.dual.linear[j]
        below, above = (optimal(U) - optimal(U - step)) / 1e-4, (optimal(U + step) - optimal(U)) / 1e-4
        assert below - 1e-6 <= slope <= above + 1e-6


def test_away_from_its_policy_the_model_is_better_than_the_slope_alone():
    """The linear bound misses the whole curvature; the model has nearly all of it."""
    model, optimal = model_at("garnet", U)
    there = U + 0.05
    change = optimal(there) - optimal(U)
    value, gradient, _ = model.expanded(U, 1e-12)
    linear = (gradient - model.dual.linear) @ (there - U)
    predicted = model.expanded(there, 1e-12)[0] - value - model.dual.linear @ (there - U)
    assert abs(predicted - change) < 0.2 * abs(linear - change)


def test_the_smoothed_model_is_above_the_model_and_has_its_derivatives():
    model, _ = model_at("slippery grid", U)
    width = 0.05
    value, gradient, hessian = model.expanded(U, width)
    assert value >= model.expanded(U, 1e-12)[0]
    slopes = central_difference(lambda u: model.expanded(u, width)[0], U)
    assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)
    curved = np.array([central_difference(lambda u, j=j: model.expanded(u, width)[1][j], U) for j in range(4)])
    assert_allclose(hessian, curved, rtol=1e-4, atol=1e-5)


def test_the_policy_of_the_minimum_meets_the_limits_in_the_model():
    """The gradient at the minimum is limit minus expectation, so that the policy's expectation is the limit."""
    asked = family_problem("slippery grid", N_STATES)
    found = best_policy(*asked)
    improver, dual = Improver(asked.domain), objectives.MostReward(asked.weights).dual(asked.limits)
    u = found.multipliers
    first = improver.evaluate(asked.domain.mdp.first_choice[:-1], None)
    near = improver.improve(dual.price(u), [first], np.inf, is_exact).columns[-1]
    model = OneStep(improver, dual, dual.box, near)
    least = model.minimum(u, 1e-2, 1e-9)
    assert np.abs(model.expanded(least, 1e-2)[1][least > 0]).max() <= 1e-8
    policy = model.policy(least, 1e-2, 1e-15)
    assert_allclose(np.add.reduceat(policy, asked.domain.mdp.first_choice[:-1]), 1.0, rtol=1e-12)


@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize(
    "objective", [objectives.MostReward(WEIGHTS), objectives.NearestSquared(np.array([1.0, 2, 3]))]
)
def test_no_other_point_of_the_box_has_a_smaller_smoothed_value(width, objective):
    """Most states are left out of most steps, because their choice is clear nearby; the minimum is that of all."""
    domain = family_domain("slippery grid", N_STATES)
    improver, dual = Improver(domain), objective.dual(preference_limits(domain, 3.0))
    model = OneStep(improver, dual, dual.box, improver.evaluate(domain.mdp.first_choice[:-1], None))
    start = np.full(len(dual.linear), 0.3)
    least = model.minimum(start, width, 1e-9, radius=0.5)
    box = dual.box.around(start, 0.5)
    assert (least >= box.lower).all() and (least <= box.upper).all()

    def value(u):
        return model.expanded(u, width)[0] - dual.offset(u) - dual.linear @ u

    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3, 1e-4):
        for _ in range(20):
            near = np.clip(least + size * rng.normal(size=len(least)), box.lower, box.upper)
            assert value(near) >= value(least) - 1e-12 * (1 + abs(value(least)))


@pytest.mark.parametrize(
    "objective",
    [
        objectives.MostReward(WEIGHTS),
        objectives.LeastViolation(),
        objectives.RewardWithinTotal(WEIGHTS, 0.4),
        objectives.Nearest(np.array([1.0, -2.0, 0.5]), 1),
        objectives.Nearest(np.array([1.0, -2.0, 0.5]), np.inf),
        objectives.NearestSquared(np.array([1.0, -2.0, 0.5])),
    ],
)
def test_the_dual_of_an_objective_bounds_it_from_below_and_touches_it(objective):
    """Weak duality at every mixture within the limits; equality at the optimum of the hull."""
    rng = np.random.default_rng(0)
    generate = rng.normal(size=(5, 12))
    normals = np.hstack([np.zeros((2, 3)), np.eye(2)])
    limits = HalfSpaces(normals, np.array([0.1, 0.2]), ("a", "b"))
    hull = objectives.Hull(generate, np.ones((1, 12)), np.ones(1))
    point, dual = objective.solve(hull, limits), objective.dual(limits)
    assert_allclose(dual.price(point.dual), point.price) and dual.offset(point.dual) == pytest.approx(point.offset)
    bound = point.offset - (point.price @ generate).max()
    assert bound == pytest.approx(point.value, abs=1e-7)
    # Any other hull has its own optimum, which the same u bounds as well.
    other = objectives.Hull(rng.normal(size=(5, 12)), np.ones((1, 12)), np.ones(1))
    assert objective.solve(other, limits).value >= point.offset - (point.price @ other.generate).max() - 1e-9


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "maintenance"])
def test_newton_steps_do_not_change_the_answer(name, monkeypatch):
    """The same optimum with and without them; with them in fewer rounds, where all starts have one mixture."""
    asked = family_problem(name, 2_000)
    monkeypatch.setattr(Improver, "groups", None)
    with_steps = best_policy(*asked)
    monkeypatch.setattr(spread.NewtonSteps, "next", lambda *_: None)
    without = best_policy(*asked)
    assert with_steps.value == pytest.approx(without.value, abs=1e-7 * (1 + abs(without.value)))
    assert with_steps.n_rounds < without.n_rounds
