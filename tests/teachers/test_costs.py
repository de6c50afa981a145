"""Costs of preferences, in true reward: the derivative of the constrained optimum, and the optimum without each."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from strategies import add_features, build_mdp, some_of

import tutelage as tl


def _problem(seed):
    """A ragged random domain, and allowances between the least and the usual of each preference, so that some bind."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(2, 5, size=rng.integers(4, 12)), float(rng.uniform(0.5, 0.95)))
    domain = add_features(rng, mdp, n_reward=2, n_preference=2, reward_on_choices=True, preference_on_choices=True)
    inside = tl.least_violation(domain, tl.preference_limits(domain, 0.0)).expectation.preference
    usual = tl.expectation(domain, tl.uniform_policy(mdp)).preference
    return domain, rng.normal(size=2), inside + 0.3 * np.abs(usual - inside)


def _by_linear_program(domain, weights, allowance):
    """The constrained optimum by SciPy, over occupancies; infinite allowances have no row."""
    mdp = domain.mdp
    states = np.repeat(np.arange(mdp.n_states), np.diff(mdp.first_choice))
    leave = (states[None, :] == np.arange(mdp.n_states)[:, None]).astype(float)
    flow = leave - mdp.discount * mdp.transition.toarray().T
    keep = np.isfinite(allowance)
    answer = linprog(
        -(domain.reward_features @ weights),
        A_ub=domain.preference_features.T[keep] if keep.any() else None,
        b_ub=allowance[keep] if keep.any() else None,
        A_eq=flow,
        b_eq=mdp.initial,
    )
    assert answer.status == 0
    return -answer.fun


@pytest.mark.parametrize("seed", some_of(range(50), range(0, 50, 7)))
def test_costs_are_differences_of_the_constrained_optimum(seed):
    """Against an independent linear program: what one more unit gains, and what giving up a preference gains."""
    domain, weights, allowance = _problem(seed)
    learner = tl.HardLearner(domain, allowance)
    costs = tl.preference_costs(learner, weights)
    value = _by_linear_program(domain, weights, allowance)
    size = 1 + abs(value)
    assert costs.within == pytest.approx(value, abs=1e-6 * size)
    assert costs.without == pytest.approx(_by_linear_program(domain, weights, np.full(2, math.inf)), abs=1e-6 * size)
    for j, cost in enumerate(costs.preferences):
        step = 1e-4 * (1 + allowance[j])
        more, less = (
            (_by_linear_program(domain, weights, allowance + sign * step * np.eye(2)[j]) - value) / (sign * step)
            for sign in (1, -1)
        )
        without = np.where(np.arange(2) == j, math.inf, allowance)
        assert cost.loss == pytest.approx(_by_linear_program(domain, weights, without) - value, abs=1e-5 * size)
        # The optimum is concave and piecewise linear in the allowance: the slope to the right is between both slopes.
        least, most = min(more, cost.loss), min(less, cost.loss)
        assert least - 1e-4 * (1 + abs(least)) <= cost.gain <= most + 1e-4 * (1 + abs(most))
        unit = _by_linear_program(domain, weights, allowance + np.eye(2)[j]) - value
        assert unit - 1e-6 * size <= cost.gain <= cost.loss
        assert cost.limit == allowance[j]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_costs_do_not_depend_on_the_unit_of_a_preference(unit):
    """A gain per unit is not compared with a reward: with preferences in small units it read zero."""
    for seed in range(6):
        domain, weights, allowance = _problem(seed)
        plain = tl.preference_costs(tl.HardLearner(domain, allowance), weights)
        slopes = tl.best_policy(domain, weights, tl.preference_limits(domain, allowance)).price_low
        other = replace(domain, preference_features=unit * domain.preference_features)
        scaled = tl.preference_costs(tl.HardLearner(other, unit * allowance), weights)
        for slope, one, again in zip(slopes, plain.preferences, scaled.preferences, strict=True):
            assert again.loss == pytest.approx(one.loss, rel=1e-5, abs=1e-6 * (1 + abs(plain.within)))
            expected = min(slope / unit, one.loss) if one.gain > 0 else 0.0
            assert again.gain == pytest.approx(expected, rel=1e-4)
    assert plain.preferences[0].gain > 0


def test_a_preference_that_never_binds_costs_nothing():
    domain, weights, _ = _problem(1)
    costs = tl.preference_costs(tl.HardLearner(domain, 1e6), weights)
    assert [(cost.gain, cost.loss) for cost in costs.preferences] == [(0.0, 0.0)] * 2
    assert costs.within == pytest.approx(costs.without)


def test_preferences_that_no_policy_keeps_have_no_costs():
    domain, weights, _ = _problem(2)
    soft = tl.SoftLearner(domain, mismatch_penalty=1, violation_penalty=1, violation_allowance=0.0)
    if tl.least_violation(domain, tl.preference_limits(domain, 0.0)).value < 1e-6:
        pytest.fail("the example must be infeasible")
    costs = tl.preference_costs(soft, weights)
    assert math.isnan(costs.within) and all(math.isnan(cost.gain) for cost in costs.preferences)


def test_a_convex_preference_has_costs_too():
    domain, weights, _ = _problem(3)
    centre = tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference
    ball = tl.distance_constraint("near the usual", centre)
    learner = tl.HardLearner(domain, 0.2, rows=np.zeros((0, 2)), functions=(ball,))
    (cost,) = tl.preference_costs(learner, weights, centre).preferences
    assert cost.name == "near the usual" and cost.used == 0.0
    wider = tl.preference_costs(tl.HardLearner(domain, 0.2001, rows=np.zeros((0, 2)), functions=(ball,)), weights)
    now = tl.preference_costs(learner, weights)
    assert cost.loss == pytest.approx(now.without - now.within, abs=1e-6)
    # One unit is more than all that is lost. In units of a hundredth, it gains what the slope says.
    assert (wider.within - now.within) / 1e-4 > cost.loss == cost.gain
    finer = tl.distance_constraint("near the usual", centre, scale=100.0)
    learner = tl.HardLearner(domain, 20.0, rows=np.zeros((0, 2)), functions=(finer,))
    (fine,) = tl.preference_costs(learner, weights).preferences
    assert (wider.within - now.within) / 1e-4 == pytest.approx(100 * fine.gain, rel=1e-2, abs=1e-3)


def test_a_transcript_explains_itself_in_true_reward_and_then_in_the_learners_own_units():
    world = tl.object_world(size=10, seed=0)
    domain = world.domain("L3")
    learner = tl.HardLearner(domain, 2.5)
    taught = tl.teach(tl.AwareCmdpTeacher(domain, world.true_weights, learner), learner)
    text = taught.explain()
    costs = tl.preference_costs(learner, world.true_weights)
    assert f"the best, without preferences    {costs.without:.4g}" in text
    assert f"done by the learner              {taught.final.response_reward:.4g}" in text
    assert "2.5 (100 %)" in text and f"+{costs.preferences[2].gain:.4g}" in text
    assert text.index("in true reward") < text.index("in units of its own objective")
    # The lesson keeps all limits, so that none changes the response to it, although they cost true reward.
    assert text.count("does not change the response to this lesson") == domain.n_preference
    assert "e-1" not in text.split("Certificate")[0], "numbers below accuracy read 0"


def test_a_learner_of_unknown_preferences_is_explained_without_costs():
    world = tl.object_world(size=5, seed=0)
    domain = world.domain("L1")
    person = tl.CallbackLearner(domain, lambda lesson: lesson.expectation)
    text = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), person).explain()
    assert "shown by the lesson" in text and "What each preference costs" not in text


def test_a_redundant_limit_costs_and_gains_nothing():
    """Zero visits within one cell, given zero visits within two: a multiplier may be positive, the gain is not."""
    world = tl.object_world(size=10, seed=0)
    found = tl.preference_costs(tl.HardLearner(world.domain("L3"), violation_allowance=0.0), world.true_weights)
    costs = {cost.name: cost for cost in found.preferences}
    for name in ("green within 0 cells", "green within 1 cell"):
        assert costs[name].loss == costs[name].gain == 0
    assert costs["green within 2 cells"].loss > 0.01
