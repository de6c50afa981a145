"""The entropy learners: certified on every published world, with clear errors for impossible problems and bad input."""

import json
import math
import sys
from functools import cache
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from problems import polytope_problem
from scipy.optimize import linprog
from strategies import domains, random_domain, random_policy, some_of

from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.constrained.occupancy_polytope import least_violation
from tutelage.constrained.problem import preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.sampling import sample_demonstrations
from tutelage.environments.object_world import object_world
from tutelage.learners.convex_constraints import distance_constraint, quadratic_constraint
from tutelage.learners.exact import ApproximateHardLearner, GenericLearner, HardLearner, SoftLearner, StandardLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.published import PublishedHardLearner, PublishedLearner
from tutelage.model.mdp import combined_features
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import Ended, InfeasibleConstraints, InvalidModel, NotConverged
from tutelage.roles import Lesson

SETTINGS = [(5, 10), (10, 10), (10, 5), (5, 5), (10, 1), (1, 10)]


@cache
def published(seed, learner):
    """A published world's domain, and the lesson of its optimal policy."""
    world = object_world(size=10, seed=seed)
    domain = world.domain(learner)
    best = solve_hard(domain.mdp, domain.reward_features @ world.true_weights)
    return domain, Lesson.from_policy(domain, best.policy)


@pytest.mark.parametrize("seed", some_of(range(10), [0, 3, 8]))
@pytest.mark.parametrize("learner", ["L1", "L2", "L3", "L4", "L5"])
def test_every_published_world_is_solved_to_the_promised_residual_and_gap(seed, learner):
    """All six (C_r, C_c) of Appendix B.1."""
    domain, lesson = published(seed, learner)
    for mismatch_penalty, violation_penalty in SETTINGS:
        proof = (
            SoftLearner(domain, mismatch_penalty=mismatch_penalty, violation_penalty=violation_penalty)
            .respond(lesson)
            .certificate
        )
        assert proof.residual < 1e-8
        assert proof.relative_gap < 1e-9
        assert proof.ended is Ended.CONVERGED


def section_2(seed, n_reward):
    """A random domain without preferences, weights of 1-norm 1, an optimal lesson, and the generator."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=12, n_reward=n_reward, n_preference=0)
    weights = rng.normal(size=n_reward)
    weights /= np.abs(weights).sum()
    best = solve_hard(domain.mdp, domain.reward_features @ weights)
    return domain, weights, Lesson.from_policy(domain, best.policy), rng


@pytest.mark.parametrize("n_reward", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_matching_within_eps_costs_at_most_2_eps(seed, n_reward):
    """Sec. 2: R(pi_L) >= R(pi*) - 2 eps if norm_1(w*) <= 1, norm_2(mu_L - mu_hat) <= eps >= norm_2(mu_hat - mu*).

    R(pi*) - R(pi_L) = <w*, mu* - mu_L> <= norm_2(w*) (eps + eps), by Cauchy and Schwarz and the triangle inequality;
    and norm_2(w*) <= norm_1(w*) <= 1. Demonstrations eps from mu* and a learner that matches them within eps, per
    feature eps / sqrt(d_r), in favour of entropy: for one feature both move the same way, and the loss is 2 eps.
    """
    domain, weights, best, rng = section_2(seed, n_reward)
    other = expectation(domain, random_policy(rng, domain.mdp)).reward
    shown = 0.95 * best.expectation + 0.05 * other
    eps = float(np.linalg.norm(shown - best.expectation))
    learner = GenericLearner(domain, Mismatch(allowance=eps / math.sqrt(n_reward)), Preference())
    response = learner.respond(Lesson.from_expectation(shown))
    assert np.linalg.norm(response.expectation.reward - shown) <= eps * (1 + 1e-6)
    loss = float(weights @ (best.expectation - response.expectation.reward))
    assert eps * np.linalg.norm(weights) < loss <= 2 * eps * np.linalg.norm(weights) * (1 + 1e-6)
    assert n_reward > 1 or loss == pytest.approx(2 * eps, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_matching_demonstrations_costs_at_most_2_eps(seed):
    """The same with 30 sampled demonstrations of an optimal policy; eps is the distance of mu_hat from mu*."""
    domain, weights, best, rng = section_2(seed, 3)
    lesson = Lesson.from_demonstrations(domain, sample_demonstrations(domain.mdp, best.policy, 30, rng=rng))
    apart = lesson.expectation - best.expectation
    response = GenericLearner(domain, Mismatch(allowance=np.abs(apart)), Preference()).respond(lesson)
    eps = float(np.linalg.norm(apart))
    assert np.linalg.norm(response.expectation.reward - lesson.expectation) <= eps * (1 + 1e-6)
    loss = float(weights @ (best.expectation - response.expectation.reward))
    assert 0 < loss <= 2 * eps * np.linalg.norm(weights)


@pytest.mark.parametrize("seed", range(30))
def test_the_standard_learner_recovers_a_soft_policy(seed):
    """Shown the soft policy of some weights, MCE-IRL returns it: no other policy has its expectation and entropy."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=20, n_preference=0)
    weights = rng.normal(size=3)
    taught = solve_soft(domain.mdp, domain.reward_features @ weights)
    response = StandardLearner(domain).respond(Lesson.from_policy(domain, taught.policy))
    assert_allclose(response.policy, taught.policy, atol=1e-6)
    assert_allclose(response.mismatch_excess, 0.0, atol=1e-8)


@given(domains(max_states=6))
def test_a_soft_learner_without_need_to_change_keeps_all_its_entropy(domain):
    """Shown the expectation of the most entropic policy, with its violations allowed, the learner keeps that policy."""
    habit = expectation(domain, solve_soft(domain.mdp, np.zeros(domain.mdp.n_states)).policy)
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=habit.preference + 1e-6)
    response = learner.respond(Lesson.from_expectation(habit.reward))
    assert response.certificate.residual < 1e-8
    assert_allclose(response.expectation.reward, habit.reward, atol=1e-6 * (1 + np.abs(habit.reward).max()))


def test_a_learner_without_choices_is_solved():
    """One choice per state: the dual is linear and its Hessian is zero."""
    rng = np.random.default_rng(1)
    domain = random_domain(rng, max_states=5, max_choices=1, n_preference=3)
    for norm in (1, 2, math.inf):
        learner = GenericLearner(domain, Mismatch(norm=norm, penalty=3.0), Preference(norm=norm, penalty=2.0))
        response = learner.respond(Lesson.from_expectation(np.zeros(3)))
        assert_allclose(response.policy, 1.0)
        assert response.certificate.residual < 1e-8


def test_a_warm_start_gives_the_same_answer_in_fewer_steps():
    domain, lesson = published(0, "L3")
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    cold = learner.respond(lesson)
    warm = learner.respond(lesson, start=cold)
    assert warm.certificate.n_steps <= 1 < cold.certificate.n_steps
    assert_allclose(warm.expectation.both, cold.expectation.both, atol=1e-7)


def test_a_start_from_another_kind_of_learner_does_no_harm():
    """A response with another number of multipliers lends only its weights; the result is the same."""
    domain, lesson = published(0, "L3")
    plain = StandardLearner(domain).respond(Lesson.from_policy(domain, uniform_policy(domain.mdp)))
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    lent = learner.respond(lesson, start=plain)
    assert_allclose(lent.expectation.both, learner.respond(lesson).expectation.both, atol=1e-7)


def test_demonstrations_teach_and_the_certificate_says_how_uncertain_they_are():
    domain, lesson = published(0, "L2")
    shown = sample_demonstrations(domain.mdp, lesson.policy, 200, rng=np.random.default_rng(0))
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    response = learner.respond(Lesson.from_demonstrations(domain, shown))
    doubt = response.certificate.uncertainty
    assert (doubt >= 0).all() and doubt.max() > 0
    assert_allclose(response.lesson.expectation, lesson.expectation, atol=6 * doubt.max())
    assert_allclose(learner.respond(lesson).certificate.uncertainty, 0.0)
    assert "known to" in response.explain()


def test_one_demonstration_is_infinitely_uncertain_and_still_teaches():
    domain, lesson = published(0, "L1")
    shown = sample_demonstrations(domain.mdp, lesson.policy, 1, rng=np.random.default_rng(0))
    assert isinstance(shown, Demonstrations)
    response = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10).respond(
        Lesson.from_demonstrations(domain, shown)
    )
    assert np.isinf(response.certificate.uncertainty).any()


def test_explain_names_what_binds_what_it_costs_and_what_was_given_up():
    domain, lesson = published(0, "L3")
    text = (
        SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=2.5).respond(lesson).explain()
    )
    assert "star" in text and "gives up" in text
    assert "green within 1 cell" in text and "binds" in text
    assert "Certificate" in text
    assert (
        "no preferences"
        in StandardLearner(domain).respond(Lesson.from_policy(domain, uniform_policy(domain.mdp))).explain()
    )


def test_an_expectation_that_no_policy_has_is_accepted_by_a_learner_that_need_not_match():
    domain, _ = published(0, "L2")
    response = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10).respond(
        Lesson.from_expectation([500.0, -3.0, 1e6])
    )
    assert response.certificate.residual < 1e-8
    assert response.mismatch_excess[0] > 400


def test_an_impossible_exact_match_is_an_error_that_names_the_features():
    domain, _ = published(0, "L1")
    with pytest.raises(NotConverged, match=r"no policy has the expectation shown.*'star' "):
        StandardLearner(domain).respond(Lesson.from_expectation([500.0, 0.0, 0.0]))


def test_infeasible_hard_preferences_are_named_with_the_least_violation():
    """A world whose start is coloured: the first visit counts one in every nested feature."""
    text = json.loads(object_world(size=6, seed=0).to_json())
    text.update(generator="hand", seed=None, distractors={"green": [text["start"]], "yellow": []})
    world = type(object_world(size=6, seed=0)).from_json(json.dumps({k: v for k, v in text.items() if v is not None}))
    domain = world.domain("L2")
    learner = ApproximateHardLearner(domain, violation_allowance=0.25)
    with pytest.raises(InfeasibleConstraints, match="green within") as caught:
        learner.respond(Lesson.from_policy(domain, uniform_policy(domain.mdp)))
    assert caught.value.least_violation[0] == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: SoftLearner(d, mismatch_penalty=-1, violation_penalty=10), "mismatch penalty must be positive"),
        (lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=-10), "preference penalty must be positive"),
        (lambda d: SoftLearner(d, mismatch_penalty=0, violation_penalty=10), "mismatch penalty must be positive"),
        (
            lambda d: SoftLearner(d, mismatch_penalty=math.nan, violation_penalty=10),
            "mismatch penalty must be positive",
        ),
        (lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=10, violation_allowance=-0.1), "none negative"),
        (
            lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=10, violation_allowance=[1.0]),
            "violation_allowance has 1 entries",
        ),
        (lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=10, violation_allowance=math.nan), "nan"),
        (
            lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=10, violation_allowance=np.ones((2, 2))),
            "a number or one per feature",
        ),
        (
            lambda d: GenericLearner(d, Mismatch(norm=0.5, penalty=1), Preference()),
            "norm must be 1, 2 or infinity, got 0.5",
        ),
        (
            lambda d: GenericLearner(d, Mismatch(norm=3, penalty=1), Preference()),
            "norm must be 1, 2 or infinity, got 3",
        ),
        (lambda d: GenericLearner(d, Mismatch(allowance=[1.0, 2.0]), Preference()), "mismatch_allowance has 2 entries"),
        (lambda d: GenericLearner(d, Mismatch(norm=1, penalty=2, squared=True), Preference()), "needs norm 2"),
        (lambda d: GenericLearner(d, Mismatch(norm=2, squared=True), Preference()), "finite penalty"),
        (lambda d: GenericLearner(d, Mismatch(), Preference(rows=np.ones((1, 5)))), "rows have 5 columns"),
        (lambda d: quadratic_constraint("q", -np.eye(2), np.zeros(2)), "not positive semi-definite"),
        (lambda d: quadratic_constraint("q", np.eye(3), np.zeros(2)), "shape"),
        (lambda d: distance_constraint("b", [np.inf, 0.0]), "inf"),
        (lambda d: Lesson.from_expectation([math.nan, 0, 0]), "nan"),
        (lambda d: Lesson.from_expectation([[1.0]]), "1 axis"),
        (
            lambda d: SoftLearner(d, mismatch_penalty=5, violation_penalty=10).respond(Lesson.from_expectation([1.0])),
            "expectation has 1 entries",
        ),
    ],
)
def test_contradictory_parameters_are_refused_with_a_sentence(make, message):
    domain, _ = published(0, "L2")
    with pytest.raises(InvalidModel, match=message):
        make(domain)


def test_the_named_learners_are_generic_learners_with_keyword_penalties():
    """One class responds; the named ones differ in their data, which they show under the constructor's keywords."""
    domain, lesson = published(0, "L2")
    soft = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=0.5)
    hard = ApproximateHardLearner(domain, mismatch_penalty=5, violation_allowance=0.5)
    assert (soft.mismatch_penalty, soft.violation_penalty, soft.violation_allowance) == (5, 10, 0.5)
    assert (hard.mismatch_penalty, hard.violation_allowance, hard.squared) == (5, 0.5, True)
    same = GenericLearner(domain, Mismatch(norm=1, penalty=5), Preference(norm=1, penalty=10, allowance=0.5))
    assert_array_equal(soft.respond(lesson).policy, same.respond(lesson).policy)
    for learner in (soft, hard, StandardLearner(domain)):
        assert isinstance(learner, GenericLearner) and type(learner).respond is GenericLearner.respond
        with pytest.raises(AttributeError):
            learner.domain = domain
        with pytest.raises(AttributeError):
            learner.anything = 1
    for make in (SoftLearner, ApproximateHardLearner, PublishedLearner, PublishedHardLearner):
        with pytest.raises(TypeError, match="positional argument"):
            make(domain, 5, 10)


def test_a_preference_gradient_of_the_wrong_length_is_refused():
    domain, lesson = published(0, "L2")
    wrong = Preference(functions=(type(distance_constraint("b", [0.0, 0.0]))("mine", np.sum, lambda mu: np.ones(7)),))
    with pytest.raises(InvalidModel, match="gradient of 'mine'"):
        GenericLearner(domain, Mismatch(norm=1, penalty=5), wrong).respond(lesson)


def test_random_policies_are_taught_exactly_by_an_exact_match_with_preferences():
    """Footnote 1 with an exact match: an expectation that the hard preferences allow is matched."""
    rng = np.random.default_rng(4)
    domain = random_domain(rng, max_states=12)
    policy = random_policy(rng, domain.mdp)
    kept = expectation(domain, policy).preference * 1.01
    learner = GenericLearner(domain, Mismatch(), Preference(allowance=kept))
    response = learner.respond(Lesson.from_policy(domain, policy))
    assert_allclose(response.expectation.reward, expectation(domain, policy).reward, atol=1e-7)
    assert (response.expectation.preference <= kept + 1e-7).all()


def test_a_soft_response_is_a_short_path_of_unique_names():
    """From `respond` to the innermost call of the soft solve: at most ten functions, no two of one name."""
    domain = object_world(size=6, seed=0).domain("L3")
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    lesson = Lesson.from_policy(domain, uniform_policy(domain.mdp))
    paths = set()

    def record(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith(("bellman/equations.py",)):
            names = []
            while frame.f_code is not learner.respond.__func__.__code__:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            paths.add((*names, "respond"))

    sys.setprofile(record)
    try:
        learner.respond(lesson)
    finally:
        sys.setprofile(None)
    assert any("solve_soft" in path for path in paths)
    for path in paths:
        assert len(path) <= 10 and len(set(path)) == len(path), path


def test_limits_that_leave_one_policy_are_named_as_the_reason():
    """Hard preferences at the least that is possible, less rounding: no penalty could be made smaller."""
    domain = random_domain(np.random.default_rng(16), max_states=12, max_choices=3, n_reward=2, n_preference=2)
    least = least_violation(domain, preference_limits(domain, 0.0)).expectation.preference
    strict = Preference(norm=1, penalty=np.inf, allowance=np.maximum(least, 0) * (1 - 1e-10))
    learner = GenericLearner(domain, mismatch=Mismatch(norm=1, penalty=1.0), preference=strict)
    with pytest.raises(NotConverged, match="the limits leave hardly any policy; allow a little more"):
        learner.respond(Lesson.from_expectation([1.0, 0.2]))


def problem(seed):
    """A random domain, an allowance that some policy keeps, and that policy."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=12, n_reward=2, n_preference=2)
    policy = random_policy(rng, domain.mdp)
    return domain, expectation(domain, policy).preference * 1.05, policy, rng


@cache
def corners_of(seed):
    """The vertices of Omega_r^L."""
    domain, allowance, _, _ = problem(seed)
    return vertices(domain, preference_limits(domain, allowance))


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("seed", range(10))
def test_learner_can_match(seed, norm):
    """Sec. 3.1 (i): the learner matches an expectation that its preferences allow."""
    domain, allowance, policy, _ = problem(seed)
    response = HardLearner(domain, allowance, norm=norm).respond(Lesson.from_policy(domain, policy))
    size = 1 + np.abs(response.lesson.expectation).max()
    assert np.linalg.norm(response.expectation.reward - response.lesson.expectation) <= 1e-6 * size
    assert response.violation_excess.max() <= 1e-7 * size


@pytest.mark.parametrize("seed", some_of(range(12), range(3)))
def test_learner_cannot_match(seed):
    """Sec. 3.1 (ii): <mu_hat - x, v - x> <= 0 for every vertex v of Omega_r^L characterises the projection x."""
    domain, allowance, _, rng = problem(seed)
    shown = 2 * rng.normal(size=2) * domain.mdp.horizon
    response = HardLearner(domain, allowance).respond(Lesson.from_expectation(shown))
    point = response.expectation.reward
    corners = corners_of(seed)
    scale = 1 + np.abs(shown).max() ** 2
    assert ((corners - point) @ (shown - point)).max() <= 1e-6 * scale
    # The projection lies in the hull of the vertices.
    for direction in rng.normal(size=(50, 2)):
        assert direction @ point <= (corners @ direction).max() + 1e-5 * np.sqrt(scale)
    again = expectation(domain, response.policy)
    assert_allclose(again.both, response.expectation.both, rtol=1e-6, atol=1e-6)


def least_distance(corners, shown, norm):
    """The least norm_p(x - shown) over the hull of the corners, p = 1 or inf, as a linear program in x and slacks."""
    n, d = corners.shape
    slacks = np.eye(d) if norm == 1 else np.ones((d, 1))
    found = linprog(
        np.concatenate([np.zeros(n), np.ones(slacks.shape[1])]),
        A_ub=np.block([[corners.T, -slacks], [-corners.T, -slacks]]),
        b_ub=np.concatenate([shown, -shown]),
        A_eq=np.concatenate([np.ones(n), np.zeros(slacks.shape[1])])[None],
        b_eq=[1.0],
    )
    return found.fun


@pytest.mark.parametrize("norm", [1, math.inf])
@pytest.mark.parametrize("seed", some_of(range(12), range(3)))
def test_learner_cannot_match_for_p_1_and_inf(seed, norm):
    """Sec. 3.1 (ii): no point of Omega_r^L, the hull of its vertices, is nearer than the response."""
    domain, allowance, _, rng = problem(seed)
    shown = 2 * rng.normal(size=2) * domain.mdp.horizon
    response = HardLearner(domain, allowance, norm=norm).respond(Lesson.from_expectation(shown))
    corners = corners_of(seed)
    size = 1 + np.abs(shown).max()
    least = least_distance(corners, shown, norm)
    assert least > 0.1
    assert np.linalg.norm(response.expectation.reward - shown, norm) == pytest.approx(least, abs=1e-5 * size)
    assert least_distance(corners, response.expectation.reward, norm) <= 1e-5 * size
    assert (expectation(domain, response.policy).preference <= allowance + 1e-6 * size).all()


@pytest.mark.parametrize(
    ("norm", "normal", "shown", "ends"),
    [
        (1, [1.0, 1.0], [1.0, 1.0], ([1.0, 0.0], [0.0, 1.0])),
        (math.inf, [1.0, 0.0], [2.0, 0.5], ([1.0, 0.0], [1.0, 1.0])),
    ],
)
def test_the_nearest_expectation_is_determined_for_p_2_only(norm, normal, shown, ends):
    """Omega_r = [0, 2]^2 and normal @ mu_r <= 1: for p = 1 or inf both ends of a side are equally near to the lesson.

    For p = 2 the projection onto a convex set is unique, since the midpoint of two nearest points would be nearer.
    """
    domain = polytope_problem([[0, 0], [2, 0], [2, 2], [0, 2]], [normal], [1.0], [1.0, 0.0]).domain
    lesson, ends = Lesson.from_expectation(shown), np.array(ends)
    for p in (norm, 2):
        found = HardLearner(domain, 1.0, norm=p).respond(lesson).expectation.reward
        distances = np.linalg.norm(ends - lesson.expectation, p, axis=1)
        nearest = np.linalg.norm(found - lesson.expectation, p)
        assert_allclose(distances, distances[0])
        assert nearest == pytest.approx(distances[0]) if p == norm else nearest < distances[0] - 0.1


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seed", some_of(range(4), range(2)))
def test_footnote_one_tends_to_the_projection_as_its_penalty_grows(seed, squared):
    domain, allowance, _, rng = problem(30 + seed)
    shown = rng.normal(size=2) * domain.mdp.horizon
    exact = HardLearner(domain, allowance).respond(Lesson.from_expectation(shown)).expectation.reward
    answers = [
        ApproximateHardLearner(
            domain, violation_allowance=allowance, mismatch_penalty=penalty, squared=squared
        ).respond(Lesson.from_expectation(shown))
        for penalty in (20.0, 2e2, 2e3, 2e4)
    ]
    apart = [np.linalg.norm(answer.expectation.reward - exact) for answer in answers]
    # Weights this large cause rounding errors in the policy; the certificate bounds them.
    doubt = 10 * max(answer.certificate.residual for answer in answers)
    assert apart[-1] <= 1e-3 * (1 + np.abs(exact).max())
    assert all(later <= earlier + doubt + 1e-6 for earlier, later in pairwise(apart))


def test_the_published_worlds_bind_the_hard_learner():
    """Taught the optimal policy, L2 with allowance 2.5 satisfies its preferences and earns less; L1 does not."""
    world = object_world(size=10, seed=0)
    for name, falls_short in (("L1", False), ("L2", True)):
        domain = world.domain(name)
        best = solve_hard(domain.mdp, domain.reward_features @ world.true_weights)
        response = HardLearner(domain, 2.5).respond(Lesson.from_policy(domain, best.policy))
        lost = world.true_weights @ (response.lesson.expectation - response.expectation.reward)
        assert (lost > 0.1) == falls_short
        assert (response.expectation.preference <= 2.5 + 1e-7).all()


def test_the_policy_is_reproducible():
    domain, allowance, _, rng = problem(3)
    lesson = Lesson.from_expectation(rng.normal(size=2) * domain.mdp.horizon)
    learner = HardLearner(domain, allowance)
    assert_array_equal(learner.respond(lesson).policy, learner.respond(lesson).policy)


@pytest.mark.parametrize("seed", range(6))
def test_entropic_within_gives_the_most_entropic_policy_near_the_projection(seed):
    domain, allowance, _, rng = problem(60 + seed)
    lesson = Lesson.from_expectation(rng.normal(size=2) * domain.mdp.horizon)
    plain = HardLearner(domain, allowance).respond(lesson)
    within = 1e-3 * (1 + np.abs(plain.expectation.reward).max())
    spread = HardLearner(domain, allowance, entropic_within=within).respond(lesson)
    assert np.abs(spread.expectation.reward - plain.expectation.reward).max() <= within + 1e-7
    assert (spread.expectation.preference <= allowance * (1 + 1e-7) + 1e-7).all()
    assert causal_entropy(domain.mdp, spread.policy) >= causal_entropy(domain.mdp, plain.policy) - 1e-7


def test_entropic_within_keeps_limits_by_name_and_leaves_the_others_open():
    """A preference that a mapping does not name has no limit, with entropy as without."""
    domain, _, _, rng = problem(61)
    lesson, name = Lesson.from_expectation(rng.normal(size=2) * domain.mdp.horizon), domain.preference_names[0]
    plain = HardLearner(domain, {name: 0.3 * domain.mdp.horizon}).respond(lesson)
    within = 1e-3 * (1 + np.abs(plain.expectation.reward).max())
    spread = HardLearner(domain, {name: 0.3 * domain.mdp.horizon}, entropic_within=within).respond(lesson)
    assert np.abs(spread.expectation.reward - plain.expectation.reward).max() <= within + 1e-7
    assert spread.expectation.preference[0] <= 0.3 * domain.mdp.horizon * (1 + 1e-7)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_convex_preferences_are_kept(norm):
    """A ball around a preferred expectation: the projection lies on its surface."""
    domain, _, policy, _ = problem(5)
    liked = expectation(domain, policy).preference
    ball = distance_constraint("ball", liked)
    learner = HardLearner(domain, [1e6, 1e6, 0.1], norm=norm, functions=(ball,))
    response = learner.respond(Lesson.from_expectation(1e3 * np.ones(2)))
    assert ball.value(response.expectation.preference) <= 0.1 + 1e-6
    assert response.multipliers.preference[2] > 0


def test_infeasible_preferences_and_bad_arguments_are_refused():
    domain, allowance, policy, _ = problem(1)
    lesson = Lesson.from_policy(domain, policy)
    impossible = np.array([0.0, 0.0])
    if expectation(domain, policy).preference.min() > 0:
        with pytest.raises(InfeasibleConstraints, match="preference"):
            HardLearner(domain, impossible).respond(lesson)
    with pytest.raises(InvalidModel, match="norm must be 1, 2 or infinity, got 4; no solver here takes another norm"):
        HardLearner(domain, allowance, norm=4)
    with pytest.raises(InvalidModel, match="entropic_within must be positive"):
        HardLearner(domain, allowance, entropic_within=0.0)
    with pytest.raises(InvalidModel, match="expectation has 3 entries"):
        HardLearner(domain, allowance).respond(Lesson.from_expectation([1.0, 2.0, 3.0]))


def by_cone_program(domain, shown, norm, functions):
    """The least distance over all occupancies, by CVXPY. functions: convex expressions of mu_c with their limits."""
    mdp = domain.mdp
    visits = cp.Variable(mdp.n_choices, nonneg=True)
    leaving = np.zeros((mdp.n_states, mdp.n_choices))
    leaving[mdp.state_of_choice, np.arange(mdp.n_choices)] = 1.0
    flow = leaving @ visits == mdp.initial + mdp.transition.toarray().T @ cp.multiply(mdp.discount, visits)
    features = combined_features(domain)
    of_choices = features if len(features) == mdp.n_choices else features[mdp.state_of_choice]
    reward, preference = np.split(of_choices.T, [domain.n_reward])
    rules = [flow, *(convex(preference @ visits) / limit <= 1 for convex, limit in functions)]
    problem = cp.Problem(cp.Minimize(cp.norm(reward @ visits - shown, norm)), rules)
    return problem.solve(solver=cp.CLARABEL)


# CVXPY doubts its own answer for 12 features, within what is compared here.
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("norm", [1, math.inf])
@pytest.mark.parametrize(("n", "seed"), [(4, 1), (4, 2), (4, 3), (3, 1), (8, 0), (12, 5)])
def test_a_convex_function_and_a_distance_are_kept_in_any_norm(n, seed, norm):
    """Many policies match the lesson: a linear program returns corners that violate one constraint or the other."""
    rng = np.random.default_rng([seed, n])
    domain = random_domain(rng, max_states=12, n_reward=2, n_preference=n)
    liked = expectation(domain, random_policy(rng, domain.mdp)).preference
    root = rng.normal(size=(n, n))
    bowl, ball = quadratic_constraint("bowl", root @ root.T, np.zeros(n)), distance_constraint("far", liked)
    allowance = [1.02 * bowl.value(liked), 0.03 * domain.mdp.horizon]
    learner = HardLearner(domain, allowance, norm=norm, rows=np.zeros((0, n)), functions=(bowl, ball))
    lesson = Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    response = learner.respond(lesson)
    convex = [lambda mu: 0.5 * cp.sum_squares(root.T @ mu), lambda mu: cp.norm(mu - liked, 2)]
    best = by_cone_program(domain, lesson.expectation, norm, list(zip(convex, allowance, strict=True)))
    size = 1 + np.abs(lesson.expectation).max()
    assert -response.certificate.primal == pytest.approx(best, abs=1e-6 * size)
    assert response.certificate.gap <= 1e-7 * size
    assert (response.violation_excess <= 1e-7 * learner.constraints.sizes(response.expectation.preference)).all()
