"""What preferences cost: finite differences of the constrained optimum, and solving again without a preference."""

import numpy as np
import pytest
from scipy.optimize import linprog
from strategies import random_domain, random_policy, some_of

import tutelage as tl
from tutelage.mdp.model import per_choice


def optimum(domain, weights, limits):
    """V(limits) by HiGHS over occupancies: sum of z over s' = initial + discounted inflow, phi_c' z <= limits."""
    mdp = domain.mdp
    inflow = (mdp.transition.multiply(np.broadcast_to(mdp.discount, mdp.n_choices)[:, None])).T.toarray()
    leaving = np.zeros((mdp.n_states, mdp.n_choices))
    leaving[mdp.state_of_choice, np.arange(mdp.n_choices)] = 1.0
    rows = per_choice(mdp, domain.preference_features).T
    kept = np.isfinite(limits)
    found = linprog(
        -per_choice(mdp, domain.reward_features) @ weights,
        A_ub=rows[kept] if kept.any() else None,
        b_ub=limits[kept] if kept.any() else None,
        A_eq=leaving - inflow,
        b_eq=mdp.initial,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -found.fun


def problem(seed):
    """A ragged random domain, weights, and limits that some policy keeps but the best may not."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng)
    weights = rng.normal(size=domain.n_reward)
    easy = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    return domain, weights, np.maximum(easy, 0.0)


CASES = some_of(range(50), range(0, 50, 4))


@pytest.mark.parametrize("seed", CASES)
def test_gains_and_losses_are_those_of_the_constrained_optimum(seed):
    domain, weights, limits = problem(seed)
    if not domain.n_preference or (tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference < 0).any():
        pytest.skip("no preference, or one that may be negative")
    learner = tl.HardLearner(domain, violation_allowance=limits)
    costs = tl.preference_costs(domain, weights, learner)
    assert isinstance(costs, tl.PreferenceCosts) and costs.names == domain.preference_names
    here = optimum(domain, weights, limits)
    free = optimum(domain, weights, np.full(len(limits), np.inf))
    unit = abs(here) + abs(free)
    assert costs.best == pytest.approx(here, rel=1e-6, abs=1e-7 * unit)
    assert costs.unconstrained == pytest.approx(free, rel=1e-6, abs=1e-7 * unit)
    for j in range(len(limits)):
        step = 1e-6 * costs.sizes[j]
        more = optimum(domain, weights, limits + step * np.eye(len(limits))[j])
        # The error of the quotient is that of HiGHS, about 1e-9 of the rewards, over the step.
        assert costs.gains[j] == pytest.approx((more - here) / step, rel=1e-4, abs=3e-4 * unit / costs.sizes[j])
        without = limits.copy()
        without[j] = np.inf
        assert costs.losses[j] == pytest.approx(optimum(domain, weights, without) - here, rel=1e-4, abs=1e-6 * unit)


def test_a_redundant_limit_costs_and_gains_nothing():
    """Zero visits within one cell, given zero visits within two: the multiplier may be positive, the gain is not."""
    world = tl.object_world(size=10, seed=0)
    domain = world.domain("L3")
    costs = tl.preference_costs(domain, world.true_weights, tl.HardLearner(domain, violation_allowance=0.0))
    losses = dict(zip(costs.names, costs.losses, strict=True))
    assert losses["green within 0 cells"] == losses["green within 1 cell"] == 0
    assert losses["green within 2 cells"] > 0.01
    gains = dict(zip(costs.names, costs.gains, strict=True))
    assert gains["green within 0 cells"] == gains["green within 1 cell"] == 0


def test_without_preferences_nothing_costs():
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L1")
    costs = tl.preference_costs(domain, world.true_weights, tl.HardLearner(domain))
    assert costs.names == () and costs.best == pytest.approx(costs.unconstrained)


def test_a_convex_preference_has_a_gain_too():
    """A ball around the origin: the gain of a larger radius, by a difference of two plans."""
    domain, weights, _ = problem(3)
    ball = tl.distance_constraint("far", np.zeros(domain.n_preference))
    reach = float(np.linalg.norm(tl.expectation(domain, tl.uniform_policy(domain.mdp)).preference))

    def costs(radius):
        rows = np.zeros((0, domain.n_preference))
        preference = tl.Preference(allowance=[radius], rows=rows, functions=(ball,))
        learner = tl.GenericLearner(domain, tl.Mismatch(penalty=5.0), preference)
        return tl.preference_costs(domain, weights, learner)

    here, more = costs(reach), costs(reach * (1 + 1e-3))
    assert here.names == ("far",)
    assert here.gains[0] == pytest.approx((more.best - here.best) / (reach * 1e-3), rel=1e-2, abs=1e-6)


def test_the_explanation_has_the_rewards_and_the_costs():
    world = tl.object_world(size=10, seed=0)
    domain = world.domain("L3")
    learner = tl.HardLearner(domain, violation_allowance=2.5)
    taught = tl.teach(tl.AwareCmdpTeacher(domain, world.true_weights, learner), learner)
    costs = tl.preference_costs(domain, world.true_weights, learner)
    text = taught.explain(learner)
    for part in (
        f"best without preferences: {costs.unconstrained:.4g}",
        f"best within the preferences: {costs.best:.4g}",
        f"the learner does: {taught.final.response_reward:.4g}",
        "green within 2 cells: limit 2.5, used",
    ):
        assert part in text
    assert "e-1" not in text and "e-2" not in text and "e-3" not in text
    assert "What the preferences cost" not in taught.explain()
    with pytest.raises(tl.InfeasibleConstraints):
        tl.preference_costs(domain, world.true_weights, tl.HardLearner(strict(domain), violation_allowance=0.0))


def strict(domain):
    """A preference against every state."""
    return domain.with_features(preference={"anything": np.ones(domain.mdp.n_states)})
