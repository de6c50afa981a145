"""The teachers with one lesson: what each shows, Theorem 1, and who says what cannot be had."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import occupancy_program
from scipy.optimize import linprog
from strategies import add_features, build_mdp, random_domain, some_of

import tutelage as tl
from tutelage.constrained.occupancy_polytope import best_policy, strictest_policy
from tutelage.constrained.problem import preference_limits
from tutelage.model.mdp import per_choice
from tutelage.teachers.fixed import TeachingValue

LEARNERS = ("L1", "L2", "L3", "L4", "L5")


def teaching_problem(seed):
    """A domain, weights, and an allowance between the least that can be minded and what the optimal policy does."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=12, max_choices=4, on_choices=bool(seed % 2))
    weights = rng.normal(size=domain.n_reward)
    least = tl.least_violation(domain, preference_limits(domain, 0.0)).expectation.preference
    minded = tl.expectation(domain, tl.AgnosticTeacher(domain, weights).open().lesson.policy).preference
    room = 0.01 * domain.mdp.horizon
    return domain, weights, least + room + rng.uniform(0, 1.2) * np.maximum(minded - least, 0.0)


def rounding(domain):
    """What answers accurate to 1e-8 of the largest expectation there can be may differ by."""
    return 1e-7 * domain.mdp.horizon


@pytest.mark.parametrize(("norm", "chunk"), [*((2, n) for n in some_of(range(4), [0])), (1, 0), (np.inf, 0)])
def test_theorem_1_on_random_domains(norm, chunk):
    """Taught within its preferences a projecting learner never earns less than when taught the optimum.

    For every p: a nearest point, unique or not, lies in Omega_r^L, and Aware-CMDP's lesson is the best point there. The
    learner matches that lesson exactly, and at a distance of zero the nearest point is unique for every p.
    """
    n_strict, n_seeds = 0, some_of([50 if norm == 2 else 20], [10])[0]
    for seed in range(n_seeds * chunk, n_seeds * (chunk + 1)):
        domain, weights, allowance = teaching_problem(seed)
        learner = tl.HardLearner(domain, allowance, norm=norm)
        found = tl.teaching_value(domain, weights, learner)
        best = occupancy_program(domain, weights, *_rows(domain, allowance))
        assert found.value >= -rounding(domain)
        assert_allclose(found.aware, best, atol=rounding(domain))
        optimum = tl.AgnosticTeacher(domain, weights).open().lesson
        answer = learner.respond(optimum).expectation.reward
        assert_allclose(found.agnostic, weights @ answer, atol=rounding(domain))
        is_infeasible = np.linalg.norm(answer - optimum.expectation) > rounding(domain)
        if is_infeasible and weights @ answer < best - 10 * rounding(domain):
            assert found.value > 0
            n_strict += 1
    assert n_strict >= n_seeds // 5


def _rows(domain, allowance):
    limits = preference_limits(domain, allowance)
    return limits.normals, limits.offsets


@pytest.mark.parametrize("seed", some_of(range(10), [0, 3, 8]))
def test_theorem_1_on_the_published_worlds(seed):
    world = tl.object_world(size=10, seed=seed)
    for name in LEARNERS:
        domain = world.domain(name)
        learner = tl.HardLearner(domain, 2.5)
        found = tl.teaching_value(domain, world.true_weights, learner)
        assert found.value >= -1e-6
        # L1 minds nothing; all others mind what the optimal policy does.
        assert (found.value > 0.1) == (name != "L1")
        lesson = tl.AwareCmdpTeacher(domain, world.true_weights, learner).open().lesson
        assert np.linalg.norm(learner.respond(lesson).expectation.reward - lesson.expectation) < 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_the_aware_lesson_is_matched_exactly_and_is_the_best_there_is(seed):
    """The learner follows, and the value is that of a program written independently."""
    domain, weights, allowance = teaching_problem(seed)
    learner = tl.HardLearner(domain, allowance)
    teacher = tl.AwareCmdpTeacher(domain, weights, learner)
    lesson, plan = teacher.open().lesson, teacher.plan()
    response = learner.respond(lesson)
    best = occupancy_program(domain, weights, *_rows(domain, allowance))
    assert np.linalg.norm(response.expectation.reward - lesson.expectation) < rounding(domain)
    assert_allclose(weights @ lesson.expectation, best, atol=rounding(domain))
    assert plan.gap <= 1e-6 * (1 + abs(plan.predicted))


def test_convex_preferences_are_cut_until_kept():
    """A disc of preference expectations: the lesson keeps it, the learner matches it, and relaxations earn more."""
    world = tl.object_world(size=10, seed=0)
    domain = world.domain("L2")
    disc = tl.distance_constraint("near nothing", np.zeros(2))
    learner = tl.HardLearner(domain, 2.5, rows=np.zeros((0, 2)), functions=(disc,))
    lesson = tl.AwareCmdpTeacher(domain, world.true_weights, learner).open().lesson
    minded = tl.expectation(domain, lesson.policy).preference
    assert np.linalg.norm(minded) <= 2.5 + 1e-6
    response = learner.respond(lesson)
    # Both are exact to about 1e-8 of the largest expectation, 1 / (1 - discount).
    assert np.linalg.norm(response.expectation.reward - lesson.expectation) < 5e-8 * domain.mdp.horizon
    reward = world.true_weights @ lesson.expectation
    # The box of side 2.5 holds the disc, and the disc the box of side 2.5 / sqrt 2.
    outer, inner = (
        best_policy(domain, world.true_weights, preference_limits(domain, side)).value for side in (2.5, 2.5 / 2**0.5)
    )
    assert inner - 1e-6 <= reward <= outer + 1e-6


def test_the_agnostic_lesson_is_the_optimum_with_ties_split():
    """Two equally good ways: both are shown, half the time each."""
    fork = np.array([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]] * 2, [[0.0, 0.0, 1.0]] * 2])
    mdp = tl.MDP.from_arrays(fork, [1.0, 0.0, 0.0], 0.9)
    domain = tl.Domain(mdp, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], reward_names=["left", "right"])
    lesson = tl.AgnosticTeacher(domain, [1.0, 1.0]).open().lesson
    assert_allclose(lesson.policy[:2], [0.5, 0.5])
    assert_allclose(lesson.expectation, [4.5, 4.5])
    assert_allclose(tl.AgnosticTeacher(domain, [1.0, 0.5]).open().lesson.expectation, [9.0, 0.0])


def strictest_program(domain, weights, normals, offsets):
    """Both phases of the conservative teacher as two dense programs with slacks."""
    mdp = domain.mdp
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    flow = (np.arange(mdp.n_states)[:, None] == mdp.state_of_choice) - mdp.transition.toarray().T * mdp.discount
    m = len(offsets)
    equal = np.hstack([flow, np.zeros((mdp.n_states, m))])
    within = np.hstack([normals @ features.T, -np.eye(m)])
    cost = np.concatenate([np.zeros(mdp.n_choices), np.ones(m)])
    least = linprog(cost, A_eq=equal, b_eq=mdp.initial, A_ub=within, b_ub=offsets).fun
    reward = np.concatenate([-features[:, : domain.n_reward] @ weights, np.zeros(m)])
    bounded = np.vstack([within, cost]), np.append(offsets, least + 1e-8)
    return least, -linprog(reward, A_eq=equal, b_eq=mdp.initial, A_ub=bounded[0], b_ub=bounded[1]).fun


@pytest.mark.parametrize("seed", range(20))
def test_the_strictest_policy_violates_least_and_then_earns_most(seed):
    """Against both programs written out; most of these limits cannot be met."""
    domain, weights, allowance = teaching_problem(seed)
    limits = preference_limits(domain, 0.2 * allowance)
    least, reward = strictest_program(domain, weights, limits.normals, limits.offsets)
    found = strictest_policy(domain, weights, limits)
    assert limits.excess(found.expectation.both).sum() <= least + 1e-6
    assert_allclose(found.value, reward, atol=1e-5 * (1 + abs(reward)))
    assert found.bound >= found.value - 1e-9 and found.gap <= 1e-6 * (1 + abs(found.value))


def test_the_conservative_teacher_fears_all_six_preferences():
    """Dots only; taught so, the published L2 earns 1.70 (1.68 in print). Both ways of naming the fears agree."""
    rewards = []
    for seed in (0, 1, 6, 7, 26, 30, 31, 43, 47, 51):
        world = tl.object_world(size=10, seed=seed)
        everything = world.domain("L5")
        lesson = tl.ConservativeTeacher(everything, world.true_weights).open().lesson
        same = (
            tl.ConservativeTeacher(
                world.domain("L2"), world.true_weights, preference_features=everything.preference_features
            )
            .open()
            .lesson
        )
        assert_allclose(same.expectation, lesson.expectation, atol=1e-9)
        violated = tl.expectation(everything, lesson.policy).preference.sum()
        assert violated <= tl.least_violation(everything, preference_limits(everything, 0.0)).value + 1e-6
        response = tl.ApproximateHardLearner(world.domain("L2"), violation_allowance=2.5).respond(lesson)
        rewards.append(world.true_weights @ response.expectation.reward)
    assert_allclose(np.mean(rewards), 1.70, atol=0.01)


def test_the_value_of_aware_teaching_is_what_it_gains():
    assert TeachingValue(aware=3.0, agnostic=1.0).value == 2.0


@pytest.mark.parametrize("seed", range(4))
def test_the_conservative_teacher_uses_its_allowance(seed):
    """What it grants is used: the lesson is the best policy within the allowance, better than without one."""
    domain, weights, allowance = teaching_problem(seed)
    lesson = tl.ConservativeTeacher(domain, weights, allowance=allowance).open().lesson
    best = best_policy(domain, weights, preference_limits(domain, allowance))
    assert_allclose(weights @ lesson.expectation, best.value, atol=rounding(domain))
    strict = tl.ConservativeTeacher(domain, weights).open().lesson
    assert weights @ strict.expectation < weights @ lesson.expectation - 1e-3
    by_name = tl.ConservativeTeacher(domain, weights, domain.preference_features, allowance).open().lesson
    assert_allclose(by_name.expectation, lesson.expectation, atol=1e-9)


def test_what_no_policy_can_keep_is_said_before_teaching():
    """The only state is minded: an aware teacher names the preference and how much of it is unavoidable."""
    mdp = tl.MDP.from_arrays(np.ones((1, 2, 1)), [1.0], 0.9)
    domain = tl.Domain(mdp, [[1.0]], [[1.0]], preference_names=("being there",))
    for teacher in (
        tl.AwareCmdpTeacher(domain, [1.0], tl.HardLearner(domain, 2.5)),
        tl.BilevelTeacher(domain, [1.0], tl.ApproximateHardLearner(domain, violation_allowance=2.5)),
        tl.BilevelTeacher(domain, [1.0], tl.ApproximateHardLearner(domain, violation_allowance=2.5, squared=False)),
    ):
        with pytest.raises(tl.InfeasibleConstraints, match="being there") as refusal:
            teacher.open()
        assert_allclose(refusal.value.least_violation, [7.5], atol=1e-6)


def test_garbage_is_refused_with_a_sentence():
    world = tl.object_world(size=5, seed=0)
    domain = world.domain("L2")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    with pytest.raises(tl.InvalidModel, match="true_weights"):
        tl.AgnosticTeacher(domain, [1.0, 2.0])
    with pytest.raises(tl.InvalidModel, match="true_weights"):
        tl.BilevelTeacher(domain, [1.0, np.nan, 0.0], learner)
    with pytest.raises(tl.InvalidModel, match=r"the learner's domain has .* but the teacher's has"):
        tl.AwareCmdpTeacher(tl.object_world(size=6, seed=0).domain("L2"), world.true_weights, learner)
    with pytest.raises(tl.InvalidModel, match="AwareCmdpTeacher"):
        tl.BilevelTeacher(domain, world.true_weights, tl.HardLearner(domain, 2.5))
    with pytest.raises(tl.InvalidModel, match="method"):
        tl.BilevelTeacher(domain, world.true_weights, learner, method="simulated annealing")
    with pytest.raises(tl.InvalidModel, match="must know the learner's preferences"):
        tl.AwareCmdpTeacher(domain, world.true_weights, tl.CloningLearner(domain))


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


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("common", [1e3, 1e6])
def test_a_reward_of_every_step_hides_no_cost(common, unit):
    """Who earns a million in any case still wants to know about the last unit; all policies earn the same of it."""
    for seed in range(5):
        domain, weights, allowance = _problem(seed)
        plain = tl.preference_costs(tl.HardLearner(domain, allowance), weights)
        discount = domain.mdp.discount
        features = np.column_stack([domain.reward_features, np.ones(len(domain.reward_features))])
        other = tl.Domain(domain.mdp, features, unit * domain.preference_features, [*domain.reward_names, "alike"])
        found = tl.preference_costs(tl.HardLearner(other, unit * allowance), [*weights, common])
        assert found.within == pytest.approx(plain.within + common / (1 - discount), rel=1e-12)
        for one, again in zip(plain.preferences, found.preferences, strict=True):
            assert again.loss == pytest.approx(one.loss, rel=1e-6, abs=1e-8)
    assert plain.preferences[0].loss > 0.1


@pytest.mark.parametrize("extra", [0.05, 5e-4])
def test_a_step_less_of_a_million_is_a_cost(extra):
    mdp = tl.MDP.from_choices([[0, 1], [0, 1], [0, 1]], [0, 2, 3], [1, 0], 0.999999)
    domain = tl.Domain(mdp, [[1 + extra], [1.0], [1.0]], [[1.0], [0.0], [0.0]], ["output"], ["wear"])
    (cost,) = tl.preference_costs(tl.HardLearner(domain, 0.0), [1.0]).preferences
    assert cost.loss == pytest.approx(extra, rel=1e-6) and cost.gain == pytest.approx(extra, rel=1e-3)


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
