"""Which route is taken when none is named, and that it makes no difference to the answer; prices of limits: they prove
the bound, they are those of the whole linear program, and at a kink an interval."""

from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse
from strategies import build_mdp, random_domain, random_policy, some_of

import tutelage as tl
from benchmarks.families import FAMILIES, family_problem
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation
from tutelage.constrained import direct
from tutelage.constrained.columns import Planner
from tutelage.constrained.direct import FEW_CHOICES, Ball, best_within_balls
from tutelage.constrained.objectives import most_reward, nearest_squared
from tutelage.constrained.occupancy_polytope import MANY_ROWS, Problem, best_policy, is_crowded, nearest_policy
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.learners.exact import HardLearner
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InfeasibleConstraints, InvalidModel, NotConverged
from tutelage.roles import Lesson

RANDOM = some_of(range(200), range(0, 200, 9))
FRACTIONS = [(0.1, 0.5), (0.5, 0.3), (0.3, 0.3), (0.05, 0.9), (0.8, 0.4)]


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
    assert is_crowded(domain, nearest_squared(np.zeros(n_features), limits), limits) == nearest
    assert is_crowded(domain, most_reward(np.zeros(len(domain.names)), limits), limits) == best


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


def marginals(domain, weights, limits):
    """The value and the marginals of the flow program, by SciPy's HiGHS, in units of order one.

    It drops probabilities below 1e-9, of which a dense model has many. So its policy is evaluated, and what that uses
    too much or too little is paid at its marginals: an error of second order.
    """
    mdp, horizon = domain.mdp, domain.mdp.horizon
    n = mdp.n_choices
    leave = sparse.csr_array((np.ones(n), np.arange(n), mdp.first_choice), (mdp.n_states, n))
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    reward, use = features[:, : domain.n_reward] @ weights, features @ limits.normals.T
    unit, size = np.abs(reward).max(), np.maximum(np.abs(use).max(axis=0), np.abs(limits.offsets) / horizon)
    size = np.where(size > 0, size, 1.0)
    found = optimize.linprog(
        -reward / unit,
        A_ub=(use / size).T,
        b_ub=limits.offsets / size,
        A_eq=leave - (sparse.diags_array(np.broadcast_to(mdp.discount, n)) @ mdp.transition).T,
        b_eq=mdp.initial,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0
    visits = np.maximum(found.x, 0.0)
    total = np.repeat(np.add.reduceat(visits, mdp.first_choice[:-1]), mdp.choices_per_state)
    uniform = 1 / np.repeat(mdp.choices_per_state, mdp.choices_per_state)
    policy = np.divide(visits, total, out=uniform, where=total > 0)
    done, price = expectation(domain, policy), -unit * found.ineqlin.marginals / size
    return done.reward @ weights - price @ (limits.normals @ done.both - limits.offsets), price


def check(domain, weights, limits):
    """The optimum, whose prices prove its bound and agree with the whole program, or whose interval has its prices."""
    found = best_policy(domain, weights, limits)
    value, price = marginals(domain, weights, limits)
    scale = abs(value) + abs(best_policy(domain, weights, no_limits(domain)).value)
    assert found.value == pytest.approx(value, abs=1e-7 * scale)
    assert prove(domain, weights, limits, found.multipliers) == pytest.approx(found.bound, abs=1e-8 * scale)
    low, high = found.price_low, found.price_high
    # What the prices of all limits are worth: far smaller ones do not count.
    small = 1e-6 * scale / np.maximum(np.abs(limits.offsets), np.finfo(float).tiny)
    assert (low <= found.multipliers + small).all() and (found.multipliers <= high + small).all()
    is_close = np.abs(found.multipliers - price) <= 0.01 * price + small
    is_inside = (low - 0.01 * low - small <= price) & (price <= 1.01 * high + small)
    assert (is_close | is_inside).all()
    return found


def prove(domain, weights, limits, u):
    """D(u): the best reward less the cost of what is used, and the cost of all that is allowed."""
    price = np.concatenate([weights, np.zeros(domain.n_preference)]) - limits.normals.T @ u
    features = np.hstack([per_choice(domain.mdp, f) for f in (domain.reward_features, domain.preference_features)])
    reward = features @ price
    accuracy = 1e-13 * max(np.abs(reward).max(), np.finfo(float).tiny) * domain.mdp.horizon
    return domain.mdp.initial @ solve_hard(domain.mdp, reward, accuracy=accuracy).value + u @ limits.offsets


@pytest.mark.parametrize("seed", RANDOM)
def test_prices_are_those_of_the_whole_program_in_any_unit(seed):
    rng = np.random.default_rng([33, seed])
    base = random_domain(rng, max_states=25, max_choices=4, n_reward=2, n_preference=3)
    reward, preference = 10.0 ** rng.uniform(-6, 6, size=2)
    domain = replace(
        base,
        reward_features=reward * base.reward_features,
        preference_features=preference * base.preference_features,
    )
    weights = rng.normal(size=2)
    free = best_policy(domain, weights, no_limits(domain)).expectation.preference
    some = expectation(domain, random_policy(rng, domain.mdp)).preference
    check(domain, weights, preference_limits(domain, some + rng.uniform(0.0, 0.8) * np.maximum(free - some, 0.0)))


@pytest.mark.parametrize("name", some_of(FAMILIES, ["garnet", "queue"]))
def test_prices_of_the_families_are_those_of_the_whole_program(name):
    asked = family_problem(name, 700)
    found = check(asked.domain, asked.weights, asked.limits)
    assert (found.multipliers > 0).any()


def one_state(*rewards_and_uses, discount=0.5):
    """One state with a choice for each pair of reward and use."""
    n = len(rewards_and_uses)
    mdp = MDP.from_choices(sparse.csr_array(np.ones((n, 1))), np.array([0, n]), np.ones(1), discount)
    reward, use = np.array(rewards_and_uses, dtype=float).T
    return Domain(mdp, reward.reshape(1, n, 1), use.reshape(1, n, 1))


def test_at_a_kink_the_prices_are_an_interval():
    """v(delta) = min(delta, 1 + (delta - 1) / 4): a little less than one loses 1 per unit, a little more gains 1/4."""
    domain = one_state((0.0, 0.0), (0.5, 0.5), (0.625, 1.0))
    found = best_policy(domain, [1.0], preference_limits(domain, 1.0))
    assert found.value == pytest.approx(1.0) and 0.25 <= found.multipliers[0] + 1e-7 <= 1.0 + 2e-7
    assert_allclose([found.price_low[0], found.price_high[0]], [0.25, 1.0], rtol=1e-6)
    inside = best_policy(domain, [1.0], preference_limits(domain, 0.5))
    assert_allclose([inside.price_low[0], inside.multipliers[0], inside.price_high[0]], 1.0, rtol=1e-6)


def test_less_than_the_least_has_an_infinite_price():
    """Every policy uses one unit at least: less would be infeasible, more gains two per unit."""
    domain = one_state((0.0, 0.5), (1.0, 1.0))
    found = best_policy(domain, [1.0], preference_limits(domain, 1.0))
    assert found.price_low[0] == pytest.approx(2.0, rel=1e-5) and np.isinf(found.price_high[0])
    slack = best_policy(domain, [1.0], preference_limits(domain, 5.0))
    assert_allclose([slack.price_low[0], slack.multipliers[0]], 0.0, atol=1e-9) and slack.price_high[0] <= 1e-8


def test_other_problems_have_no_interval():
    domain = one_state((0.0, 0.5), (1.0, 1.0))
    found = nearest_policy(domain, [2.0], preference_limits(domain, 1.5))
    assert np.isnan(found.price_low).all() and np.isnan(found.price_high).all()


@pytest.mark.parametrize("seed", range(5))
def test_solving_again_confirms_the_prices(seed):
    """A little more of a limit gains at most its least price, a little less loses at least the largest one."""
    rng = np.random.default_rng([7, seed])
    domain = random_domain(rng, max_states=20, max_choices=3, n_reward=2, n_preference=2)
    weights = rng.normal(size=2)
    some = expectation(domain, random_policy(rng, domain.mdp)).preference
    limits = preference_limits(domain, some)
    found = best_policy(domain, weights, limits)
    for j in range(2):
        step = 1e-3 * max(abs(some[j]), 1e-3)
        more = best_policy(domain, weights, limits.relaxed(step * np.eye(2)[j])).value
        slack = 1e-7 * (abs(found.value) + 1)
        assert more - found.value <= step * found.price_low[j] * (1 + 1e-5) + slack
        if np.isfinite(found.price_high[j]):
            less = best_policy(domain, weights, limits.relaxed(-1e-3 * step * np.eye(2)[j])).value
            assert found.value - less >= 1e-3 * step * found.price_high[j] * (1 - 1e-5) - slack


@pytest.mark.parametrize("seed", range(6))
def test_prices_of_many_limits_that_meet_in_one_policy_take_few_policies(seed, monkeypatch):
    """Nothing may be left of any limit, and most of the least prices are zero, while the largest ones are infinite.

    A price that is not found is NaN; nobody waits for it.
    """
    rng = np.random.default_rng([13, seed])
    n_limits = int(rng.integers(10, 16))
    mdp = build_mdp(rng, rng.integers(1, 4, size=8), rng.uniform(0.5, 0.95))
    use = np.abs(rng.normal(size=(mdp.n_choices, n_limits))) * (rng.random((mdp.n_choices, n_limits)) < 0.5)
    domain = Domain(mdp, rng.normal(size=(mdp.n_choices, 3)), use)
    weights = rng.normal(size=3)
    limits = preference_limits(domain, expectation(domain, uniform_policy(mdp)).preference)
    found = best_policy(domain, weights, limits)
    n_plans, plan = [], Planner.price_out
    monkeypatch.setattr(Planner, "price_out", lambda *given: n_plans.append(1) or plan(*given))
    low, high = found.price_low, found.price_high
    assert len(n_plans) <= 20 * n_limits
    assert np.isnan(np.concatenate([low, high])).mean() < 0.1
    size = abs(found.value) + 1e-3
    for j in range(n_limits):
        step = 1e-4 * (limits.offsets[j] + 1e-3)
        more = best_policy(domain, weights, limits.relaxed(step * np.eye(n_limits)[j])).value
        assert np.isnan(low[j]) or more - found.value <= step * low[j] * (1 + 1e-5) + 1e-8 * size
        with suppress(InfeasibleConstraints):
            less = best_policy(domain, weights, limits.relaxed(-step * np.eye(n_limits)[j])).value
            assert np.isnan(high[j]) or found.value - less >= step * high[j] * (1 - 1e-5) - 1e-8 * size


def icu_sepsis(discount):
    """The tabular model of the package `icu-sepsis`: survival, with the largest doses of two drugs as preferences."""
    assets = Path(find_spec("icu_sepsis").origin).parent / "envs" / "assets"
    with np.load(assets / "dynamics.npz") as stored:
        transition, reward, initial = stored["tx_mat"], stored["r_mat"], stored["d_0"]
    lines = (assets / "admissible_actions.txt").read_text().splitlines()[1:]
    admissible = [np.array(line.split(), dtype=int) for line in lines]
    # The last three states are ends, in which all actions are alike.
    admissible[-3:] = [np.zeros(1, dtype=int)] * 3
    state = np.repeat(np.arange(len(admissible)), [len(actions) for actions in admissible])
    action = np.concatenate(admissible)
    rows, earned = transition[state, action], (transition * reward).sum(axis=2)[state, action]
    doses = np.column_stack([action // 5 == 4, action % 5 == 4]) * (state < len(admissible) - 3)[:, None]
    first = np.concatenate([[0], np.cumsum([len(actions) for actions in admissible])])
    rows = sparse.csr_array(rows / rows.sum(axis=1, keepdims=True))
    mdp = MDP.from_choices(rows, first, initial / initial.sum(), discount)
    return Domain(mdp, earned[:, None], doses * 1.0, ["survival"], ["vasopressor", "fluid"])


@pytest.mark.skipif(find_spec("icu_sepsis") is None, reason="the data of the package icu-sepsis is not installed")
@pytest.mark.parametrize("discount", some_of([0.9, 0.99, 0.999, 0.9999], [0.9]))
@pytest.mark.parametrize("fraction", some_of(FRACTIONS, FRACTIONS[:1]))
def test_prices_of_treatments(discount, fraction):
    """Far above the reward of at most one lies the largest count of a feature times the horizon."""
    domain = icu_sepsis(discount)
    free = best_policy(domain, [1.0], no_limits(domain)).expectation.preference
    least = []
    for j in range(2):
        alone = Domain(domain.mdp, -domain.preference_features[:, [j]], domain.preference_features, ["less"])
        least.append(-best_policy(alone, [1.0], no_limits(alone)).value)
    check(domain, np.ones(1), preference_limits(domain, least + np.array(fraction) * (free - least)))
