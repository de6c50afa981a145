"""Problems whose numbers are not of order one.

Each of these was refused, crashed, hung or ended far from the optimum.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from strategies import some_of

import tutelage as tl


def random_model(seed, n_states, n_choices, discount):
    """Dense random transitions, the same number of choices in every state, and the first state as the start."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(n_states), n_choices * n_states)
    first = np.arange(0, n_choices * n_states + 1, n_choices)
    return tl.MDP.from_choices(rows, first, np.eye(n_states)[0], discount), rng


def named(kind, count):
    return tuple(f"{kind} {i}" for i in range(count))


def one_state(feature, discount):
    return tl.Domain(tl.MDP.from_choices(np.ones((1, 1)), [0, 1], [1.0], discount), np.array([[feature]]))


def test_a_plan_for_a_learner_that_cannot_influence_a_feature():
    """Both choices of every state lead to the same distribution: every lesson is answered alike."""
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.dirichlet(np.ones(3), 3), 2, axis=0)
    mdp = tl.MDP.from_choices(rows, [0, 2, 4, 6], [1, 0, 0], 0.5)
    domain = tl.Domain(mdp, rng.random((3, 2)), reward_names=("a", "b"))
    learner = tl.GenericLearner(domain, tl.Mismatch(norm=np.inf, penalty=211.38), tl.Preference())
    plan = tl.BilevelTeacher(domain, [0.5, -0.2], learner).plan()
    only = tl.expectation(domain, tl.uniform_policy(mdp)).reward @ [0.5, -0.2]
    assert plan.achieved == pytest.approx(only) and plan.bound == pytest.approx(only)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_many_features_and_a_long_horizon_are_projected(norm):
    mdp, rng = random_model(0, 6, 3, 0.99999)
    domain = tl.Domain(mdp, rng.random((6, 28)))
    target = 1e5 * rng.random(28)
    found = tl.nearest_policy(domain, target, tl.no_limits(domain), norm=norm)
    assert found.gap <= 1e-6 * mdp.horizon
    assert np.linalg.norm(tl.expectation(domain, found.policy).reward - target, norm) == pytest.approx(found.value)


@pytest.mark.parametrize(("size", "discount"), [(3e4, 0.9), (10.0, 0.999), (100.0, 0.999), (1e4, 0.999)])
def test_the_approximate_hard_learner_is_complementary_at_any_size(size, discount):
    """Its multipliers reach 1e11: a preference that is paid for is used up, to nine digits, and the gap shows it."""
    mdp, _ = random_model(1, 2, 2, discount)
    domain = tl.Domain(mdp, np.array([[size], [0.0]]), np.array([[0.0], [1.0]]))
    allowance = tl.expectation(domain, tl.uniform_policy(mdp)).preference
    learner = tl.ApproximateHardLearner(domain, violation_allowance=allowance)
    for policy in ([1.0, 0, 1, 0], [0.0, 1, 0, 1]):
        found = learner.respond(tl.Lesson.from_policy(domain, policy))
        assert found.certificate.gap <= 1e-6 * (1 + abs(found.certificate.primal)) + 1e-8 * mdp.horizon
        slack = allowance - found.expectation.preference
        assert slack.min() >= -1e-7 * mdp.horizon
        paid = float(found.multipliers.preference @ slack)
        assert abs(paid) <= 1e-6 * (1 + abs(found.certificate.primal)) + 1e-8 * mdp.horizon


@pytest.mark.parametrize("shown", [0.0, 1e9, 3e9])
def test_one_state_with_one_choice_has_its_closed_form(shown):
    """The only policy has mu = feature / (1 - discount) and no entropy; the optimum is what its mismatch costs."""
    domain = one_state(1e6, 0.999)
    missed = abs(1e6 * domain.mdp.horizon - shown)
    lesson = tl.Lesson.from_expectation([shown])
    for learner, cost in (
        (tl.ApproximateHardLearner(domain), 20 * missed**2),
        (tl.SoftLearner(domain, mismatch_penalty=5.0, violation_penalty=5.0), 5 * missed),
        (tl.GenericLearner(domain, tl.Mismatch(norm=2, penalty=7.0), tl.Preference()), 7 * missed),
    ):
        proof = learner.respond(lesson).certificate
        assert proof.primal == pytest.approx(-cost, rel=1e-9, abs=1e-3)
        assert proof.relative_gap <= 1e-6


def test_a_violated_hard_preference_has_no_finite_objective():
    """A learner that stops after two steps: its policy violates the preference, and the certificate says so."""
    mdp, rng = random_model(2, 4, 3, 0.9)
    domain = tl.Domain(mdp, rng.random((4, 2)), rng.random((4, 1)))
    usual = tl.expectation(domain, tl.uniform_policy(mdp)).preference
    learner = tl.PublishedHardLearner(domain, violation_allowance=0.9 * usual, mismatch_penalty=1e-3, max_steps=1)
    response = learner.respond(tl.Lesson.from_policy(domain, tl.uniform_policy(mdp)))
    proof = response.certificate
    assert proof.primal == -math.inf and proof.gap == math.inf and proof.relative_gap == math.inf
    assert response.violation_excess.max() > 0 and proof.residual >= response.violation_excess.max()


@pytest.mark.parametrize("seed", some_of(range(60), range(0, 60, 12)))
def test_more_preferences_than_states_are_answered(seed):
    mdp, rng = random_model(seed, 8, 3, 0.9)
    domain = tl.Domain(mdp, rng.random((8, 5)), rng.random((8, 33)))
    allowance = 0.99 * tl.expectation(domain, tl.uniform_policy(mdp)).preference
    learner = tl.SoftLearner(domain, mismatch_penalty=10.0, violation_penalty=10.0, violation_allowance=allowance)
    policy = rng.dirichlet(np.ones(3), 8).ravel()
    assert learner.respond(tl.Lesson.from_policy(domain, policy)).certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("norms", [(2, 2), (2, np.inf), (np.inf, 2), (np.inf, np.inf)])
@pytest.mark.parametrize("seed", [0, 1])
def test_convex_preferences_with_ball_norms_are_answered(seed, norms):
    mdp, rng = random_model(seed, 2 + seed, 2, 0.9)
    domain = tl.Domain(mdp, rng.random((mdp.n_states, 2)), rng.random((mdp.n_states, 3)), named("r", 2), named("c", 3))
    centre = tl.expectation(domain, rng.dirichlet(np.ones(2), mdp.n_states).ravel()).preference
    functions = (tl.distance_constraint("near", centre), tl.distance_constraint("nearer", 1.1 * centre))
    preference = tl.Preference(norm=norms[1], penalty=5.0, allowance=0.1, functions=functions)
    learner = tl.GenericLearner(domain, tl.Mismatch(norm=norms[0], penalty=5.0), preference)
    lesson = tl.Lesson.from_policy(domain, np.tile([1.0, 0.0], mdp.n_states))
    assert learner.respond(lesson).certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("feature", [1e6, 1e3, 1e-8, 1e8])
def test_the_distance_of_the_only_policy_is_its_expectation(feature):
    domain = one_state(feature, 0.99999)
    found = tl.nearest_policy(domain, [0.0], tl.no_limits(domain))
    assert found.value == pytest.approx(feature * domain.mdp.horizon, rel=1e-9) and found.gap <= 1e-9 * found.value


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_features_of_eight_orders_of_magnitude_are_projected(norm):
    for seed in range(3):
        mdp, rng = random_model(seed, 6, 3, 0.5)
        size = 10 ** rng.uniform(-4, 4, 19)
        domain = tl.Domain(mdp, size * rng.random((6, 19)))
        found = tl.nearest_policy(domain, size * rng.random(19), tl.no_limits(domain), norm=norm)
        assert found.gap <= 1e-8 * (size.max() * mdp.horizon + found.value)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_a_plan_takes_as_little_for_any_norm(norm):
    """The two features of the first case and none to be matched exactly: seconds for each cell before."""
    mdp, rng = random_model(0, 8, 3, 0.9)
    domain = tl.Domain(mdp, rng.random((8, 2)), rng.random((8, 2)))
    learner = tl.GenericLearner(domain, tl.Mismatch(norm=norm, penalty=5.0), tl.Preference(penalty=3.0, allowance=2.0))
    plan = tl.BilevelTeacher(domain, rng.normal(size=2), learner, max_cells=8).plan()
    assert plan.achieved <= plan.bound and plan.achieved == pytest.approx(plan.predicted, rel=1e-5)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.999999])
@pytest.mark.parametrize("reward", [1e-300, 1e-9, 1e-3, 1.0, 1e9])
def test_a_choice_that_earns_more_is_no_tie(reward, discount):
    mdp = tl.MDP.from_choices(np.ones((2, 1)), [0, 2], [1.0], discount)
    solved = tl.solve_hard(mdp, [0.0, reward])
    assert_allclose(solved.policy, [0.0, 1.0])
    assert tl.expected_reward(mdp, solved.policy, [0.0, reward]) == pytest.approx(reward * mdp.horizon, rel=1e-9)
    assert_allclose(tl.solve_hard(mdp, [reward, reward]).policy, [0.5, 0.5])


def test_the_value_of_the_policy_is_certified():
    """Choices that differ by less than the values are accurate may be split, but the policy loses no more than that."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mdp, _ = random_model(seed, 6, 3, float(1 - 10 ** -rng.uniform(0.5, 5)))
        reward = rng.normal(size=6).round(1)[np.repeat(np.arange(6), 3)] + 10 ** rng.uniform(-14, -6) * rng.random(18)
        solved = tl.solve_hard(mdp, reward)
        lost = float(mdp.initial @ solved.value) - tl.expected_reward(mdp, solved.policy, reward)
        assert lost <= 2 * max(1e-8, solved.error_bound)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_what_no_policy_shows_is_not_called_an_edge(size):
    mdp, rng = random_model(0, 4, 3, 0.9)
    domain = tl.Domain(mdp, size * rng.random((4, 2)))
    with pytest.raises(tl.NotConverged, match="no policy has the expectation shown"):
        tl.StandardLearner(domain).respond(tl.Lesson.from_expectation([3 * size, 3 * size]))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1e-310, 0.0], [5e-324, -5e-324]])
def test_weights_of_nothing_are_planned_for_or_refused(weights):
    mdp, rng = random_model(0, 4, 3, 0.9)
    domain = tl.Domain(mdp, rng.random((4, 2)))
    learner = tl.SoftLearner(domain, mismatch_penalty=1.0, violation_penalty=1.0)
    assert tl.BilevelTeacher(domain, weights, learner, max_cells=2).plan().achieved == pytest.approx(0.0, abs=1e-300)
    assert tl.teach(tl.VolumeSearchTeacher(domain, weights), tl.HardLearner(domain), max_rounds=2).rounds
    with pytest.raises(tl.InvalidModel, match="all zero"):
        tl.LineSearchTeacher(domain, weights)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_a_bound_that_a_learner_exceeds_is_not_certified_in_any_unit(size):
    """A learner that earns a hundredth more than the cuts allow, with rewards of any size."""
    mdp, rng = random_model(5, 5, 3, 0.9)
    domain = tl.Domain(mdp, size * rng.random((5, 2)))
    low, high = (tl.best_policy(domain, sign * np.ones(2), tl.no_limits(domain)).expectation for sign in (-1.0, 1.0))
    answers = iter([low.reward, 0.3 * low.reward + 0.7 * high.reward, high.reward])
    learner = tl.CallbackLearner(domain, lambda lesson: next(answers))
    taught = tl.teach(tl.VolumeSearchTeacher(domain, np.ones(2)), learner, max_rounds=3)
    assert taught.rounds[-1].bound == math.inf or taught.rounds[-1].bound >= high.reward.sum() * (1 - 1e-6)
