"""The learners' certificates on wrong answers: a response that is not optimal must show by how much it may be improved.

A response is made wrong by stopping its solver: the entropy learners at other weights than the optimal ones, the
projections at a loose accuracy. Primal and dual are then recomputed from the policy and the multipliers.
"""

import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import random_domain, random_policy

from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.constrained.occupancy_polytope import nearest_policy
from tutelage.convex.blocks import model_minimum
from tutelage.convex.newton import Reached
from tutelage.learners import exact as exact_learners
from tutelage.learners import sampled as observed
from tutelage.learners import soft_program
from tutelage.learners.exact import ApproximateHardLearner, GenericLearner, HardLearner, SoftLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.published import PublishedLearner
from tutelage.learners.sampled import CallbackLearner
from tutelage.model.mdp import MDP, Domain, combined_features
from tutelage.outcomes import Ended, NotConverged, Solution
from tutelage.roles import Lesson

NORMS = (1, 2, math.inf)
C_R, C_C = 3.0, 2.0


def problem(seed):
    """A domain, an allowance below what a random policy does, and an expectation that no policy has."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, max_choices=3, n_reward=2, n_preference=2)
    usual = expectation(domain, random_policy(rng, domain.mdp))
    return domain, 0.8 * usual.preference, usual.reward * rng.uniform(0.5, 1.5, size=2)


def stop_at_the_start(monkeypatch):
    """Let the Newton method return its start, with an honest residual."""

    def stopped(smooth, blocks, start, **_):
        here = smooth(start, None)
        residual = float(np.abs(start - model_minimum(here.gradient, np.eye(len(start)), blocks, start)).max())
        return Solution(Reached(start, here), np.inf, -np.inf, residual, Ended.STEP_LIMIT, 0)

    monkeypatch.setattr(soft_program, "proximal_newton", stopped)


def unfinished(learner, lesson, start):
    """The best response so far, which the error carries."""
    with pytest.raises(NotConverged, match="relative gap") as caught:
        learner.respond(lesson, start=start)
    assert caught.value.residual == caught.value.answer.certificate.relative_gap
    return caught.value.answer


def penalties(norm, mu, allowance, shown):
    """C_r norm_p(mu_r - shown) + C_c norm_p((mu_c - allowance)+), written out."""
    violated = np.maximum(mu.preference - allowance, 0.0)
    return C_R * np.linalg.norm(mu.reward - shown, norm) + C_C * np.linalg.norm(violated, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", [0, 3])
def test_an_unconverged_entropy_learner_reports_its_own_primal_dual_and_gap(seed, norm, monkeypatch):
    domain, allowance, shown = problem(seed)
    lesson = Lesson.from_expectation(shown)
    mismatch = Mismatch(norm=norm, penalty=C_R)
    learner = GenericLearner(domain, mismatch, Preference(norm=norm, penalty=C_C, allowance=allowance))
    optimum = learner.respond(lesson)
    # The response of a learner with half the penalties to another lesson lies in the sets, but far from the optimum.
    half = Preference(norm=norm, penalty=C_C / 2, allowance=0.5 * allowance)
    other = GenericLearner(domain, Mismatch(norm=norm, penalty=C_R / 2), half)
    start = other.respond(Lesson.from_expectation(0.9 * shown))
    stop_at_the_start(monkeypatch)
    wrong = unfinished(learner, lesson, start)
    proof, mu = wrong.certificate, expectation(domain, wrong.policy)
    scale = 1e-8 * (1 + abs(optimum.certificate.primal))
    assert_allclose(wrong.learned_weights, start.learned_weights, rtol=1e-12)
    # The primal is the objective of the policy that was returned.
    primal = causal_entropy(domain.mdp, wrong.policy) - penalties(norm, mu, allowance, shown)
    assert proof.primal == pytest.approx(primal, abs=scale)
    # The dual is P0 @ V - a @ shown + allowance @ beta, for multipliers in their sets.
    a, beta = wrong.learned_weights[:2], wrong.multipliers.preference
    soft = solve_soft(domain.mdp, combined_features(domain) @ wrong.learned_weights)
    assert proof.dual == pytest.approx(domain.mdp.initial @ soft.value - a @ shown + allowance @ beta, abs=scale)
    # The optimum lies between the two, so the gap is at least the reward that was missed.
    assert proof.dual >= optimum.certificate.primal - scale
    missed = optimum.certificate.primal - proof.primal
    assert missed > 1e-4 and proof.gap >= missed - scale
    assert proof.gap == abs(proof.dual - proof.primal) and proof.residual > 1e-3
    assert proof.ended is Ended.STEP_LIMIT and optimum.certificate.gap <= 1e-6 * missed + scale


def test_an_unconverged_squared_mismatch_reports_its_gap(monkeypatch):
    """M*(-a) = |a|^2 / (4 C_r)."""
    domain, _, shown = problem(2)
    lesson = Lesson.from_expectation(shown)
    learner = GenericLearner(domain, Mismatch(norm=2, penalty=C_R, squared=True), Preference(penalty=C_C))
    optimum = learner.respond(lesson)
    start = learner.respond(Lesson.from_expectation(0.8 * shown))
    stop_at_the_start(monkeypatch)
    wrong = unfinished(learner, lesson, start)
    mu, a = expectation(domain, wrong.policy), wrong.learned_weights[:2]
    paid = C_R * np.sum((mu.reward - shown) ** 2) + C_C * mu.preference.sum()
    assert wrong.certificate.primal == pytest.approx(causal_entropy(domain.mdp, wrong.policy) - paid, abs=1e-8)
    soft = solve_soft(domain.mdp, combined_features(domain) @ wrong.learned_weights)
    bound = domain.mdp.initial @ soft.value - a @ shown + a @ a / (4 * C_R)
    assert wrong.certificate.dual == pytest.approx(bound, abs=1e-8)
    assert wrong.certificate.gap >= optimum.certificate.primal - wrong.certificate.primal > 1e-4


@pytest.mark.parametrize("norm", NORMS)
def test_a_projection_that_stops_early_reports_its_own_distance_and_gap(norm, monkeypatch):
    missed = []
    for seed in range(6):
        domain, allowance, shown = problem(seed)
        learner = HardLearner(domain, 1.3 * allowance, norm=norm, route="decomposition")
        lesson = Lesson.from_expectation(-2 * shown)
        exact = learner.respond(lesson)
        with monkeypatch.context() as patch:
            patch.setattr(exact_learners, "nearest_policy", partial(nearest_policy, accuracy=0.5))
            rough = learner.respond(lesson)
        scale = 1e-6 * (1 + abs(exact.certificate.primal))
        distance = np.linalg.norm(expectation(domain, rough.policy).reward - lesson.expectation, norm)
        assert rough.certificate.primal == pytest.approx(-distance, abs=scale)
        assert rough.certificate.dual >= exact.certificate.primal - scale
        missed.append(exact.certificate.primal - rough.certificate.primal)
        assert rough.certificate.gap >= missed[-1] - scale
        assert rough.certificate.residual >= rough.certificate.gap - 1e-12
        assert exact.certificate.gap <= scale
    assert max(missed) > 1e-3


def test_a_violated_preference_shows_in_the_residual_of_a_projection(monkeypatch):
    """A solver that ignores the limits: the residual is at least the violation."""
    domain, allowance, shown = problem(0)

    def careless(domain, target, limits, **options):
        return nearest_policy(domain, target, limits.relaxed(np.full(len(limits), 1e3)), **options)

    monkeypatch.setattr(exact_learners, "nearest_policy", careless)
    response = HardLearner(domain, 0.5 * allowance).respond(Lesson.from_expectation(shown))
    violated = np.maximum(response.expectation.preference - 0.5 * allowance, 0.0)
    assert violated.max() > 0.01
    assert_allclose(response.violation_excess, violated)
    assert response.certificate.residual >= violated.max()


def test_the_distance_of_an_answer_from_every_policy_is_certified(monkeypatch):
    """A person's answer: the certificate is that of the nearest policy, also where the search for it stops early."""
    domain, _, shown = problem(1)
    answer = expectation(domain, random_policy(np.random.default_rng(0), domain.mdp)).reward
    learner = CallbackLearner(domain, lambda lesson: answer, match_tolerance=1e3)
    assert learner.respond(Lesson.from_expectation(shown)).certificate.gap <= 1e-6
    monkeypatch.setattr(observed, "nearest_policy", partial(nearest_policy, accuracy=0.5))
    rough = learner.respond(Lesson.from_expectation(shown))
    distance = np.linalg.norm(expectation(domain, rough.policy).reward - answer)
    assert distance > 1e-3
    assert rough.certificate.primal == pytest.approx(-distance)
    # The answer can be matched exactly, so the whole distance is the error.
    assert rough.certificate.dual >= -1e-9 and rough.certificate.gap >= distance - 1e-9
    assert rough.certificate.residual >= distance - 1e-9


def test_the_certificate_of_a_learner_that_stops_early_is_recomputed():
    domain, allowance, shown = problem(3)
    learner = PublishedLearner(
        domain, mismatch_penalty=C_R, violation_penalty=C_C, violation_allowance=allowance, max_steps=3
    )
    rough = learner.respond(Lesson.from_expectation(shown))
    exact = SoftLearner(domain, mismatch_penalty=C_R, violation_penalty=C_C, violation_allowance=allowance).respond(
        Lesson.from_expectation(shown)
    )
    mu = expectation(domain, rough.policy)
    primal = causal_entropy(domain.mdp, rough.policy) - penalties(1, mu, allowance, shown)
    a, beta = rough.multipliers.lower - rough.multipliers.upper, rough.multipliers.preference
    soft = solve_soft(domain.mdp, combined_features(domain) @ np.concatenate([a, -beta]))
    assert rough.certificate.primal == pytest.approx(primal)
    assert rough.certificate.dual == pytest.approx(domain.mdp.initial @ soft.value - a @ shown + allowance @ beta)
    missed = exact.certificate.primal - rough.certificate.primal
    assert rough.certificate.gap >= missed > 1e-3
    assert rough.certificate.n_steps == 4 and rough.certificate.ended is Ended.STEP_LIMIT


def assert_signs(response, tolerance):
    """alpha^low where the learner does less than was shown, alpha^up where it does more; their difference is a."""
    multipliers, n = response.multipliers, len(response.lesson.expectation)
    apart = response.expectation.reward - response.lesson.expectation
    assert_array_equal(multipliers.lower - multipliers.upper, response.learned_weights[:n])
    assert (multipliers.lower >= 0).all() and (multipliers.upper >= 0).all()
    assert (multipliers.lower[apart < -tolerance] > 0).all() and (multipliers.upper[apart < -tolerance] == 0).all()
    assert (multipliers.upper[apart > tolerance] > 0).all() and (multipliers.lower[apart > tolerance] == 0).all()
    return apart


@pytest.mark.parametrize(
    "make",
    [
        lambda domain, allowance: HardLearner(domain, allowance),
        lambda domain, allowance: HardLearner(domain, allowance, norm=1),
        lambda domain, allowance: SoftLearner(
            domain, mismatch_penalty=C_R, violation_penalty=C_C, violation_allowance=allowance
        ),
        lambda domain, allowance: ApproximateHardLearner(domain, violation_allowance=allowance),
        lambda domain, allowance: PublishedLearner(
            domain, mismatch_penalty=C_R, violation_penalty=C_C, violation_allowance=allowance
        ),
    ],
)
def test_the_lower_multiplier_is_of_what_the_learner_does_too_little(make):
    """Shown more of the first feature, and less of the second, than any policy does."""
    domain, allowance, _ = problem(4)
    horizon = domain.mdp.horizon
    response = make(domain, 3 * allowance).respond(Lesson.from_expectation([2 * horizon, -horizon]))
    apart = assert_signs(response, 1e-3)
    assert apart[0] < -0.1 and apart[1] > 0.1


def rounded_learner(seed):
    """A horizon of up to 1e7 steps, and features and penalties of any size: rounding limits the gap."""
    rng = np.random.default_rng(seed)
    discount, n, k = 1 - 10 ** rng.uniform(-7, -3), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    rows, initial = rng.dirichlet(np.ones(n), n * k), rng.dirichlet(np.ones(n))
    mdp = MDP.from_choices(rows, np.arange(0, n * k + 1, k), initial, discount)
    domain = Domain(mdp, rng.random((n, 1)) * 10 ** rng.uniform(-6, 6), rng.random((n, 1)), ("a",), ("x",))
    penalties = {"mismatch_penalty": 10 ** rng.uniform(-6, 3), "violation_penalty": 10 ** rng.uniform(-6, 3)}
    best = solve_hard(mdp, domain.reward_features[:, 0]).policy
    return SoftLearner(domain, **penalties), Lesson.from_policy(domain, best)


@pytest.mark.parametrize("seed", [*range(20), 61, 139])
def test_a_gap_beyond_the_promise_is_rounding_and_says_so(seed):
    """The relative gap is at most 1e-6, or the gap is below 1e-8 nats for each step and `ended` is ROUNDING."""
    learner, lesson = rounded_learner(seed)
    promise = " ".join(learner.respond.__doc__.split())
    assert "relative gap is at most 1e-6" in promise and "`certificate.ended` is `Ended.ROUNDING`" in promise
    try:
        proof = learner.respond(lesson).certificate
    except NotConverged as failure:
        proof = failure.answer.certificate
        assert proof.relative_gap > 1e-6 and proof.gap > 1e-8 * learner.domain.mdp.horizon
        return
    if proof.relative_gap > 1e-6:
        assert proof.gap <= 1e-8 * learner.domain.mdp.horizon and proof.ended is Ended.ROUNDING


@pytest.mark.parametrize("seed", [0, 3])
def test_the_policy_of_a_warmer_learner_has_the_residual_of_its_own_expectation(seed):
    """Not that of the soft policy at the same weights, which it replaces."""
    domain, allowance, shown = problem(seed)
    preference = Preference(norm=1, penalty=C_C, allowance=allowance)
    learner, lesson = GenericLearner(domain, Mismatch(norm=1, penalty=C_R), preference), Lesson.from_expectation(shown)
    found, tangents = learner.dual.optimise(shown, np.zeros(2), None)
    soft = learner.dual.response(lesson, found, tangents)
    other = next(learner.dual.warmer(lesson, found, tangents))
    assert soft.certificate.residual < 1e-6 < other.certificate.residual
    assert other.certificate.ended is Ended.ROUNDING and other.certificate.primal <= soft.certificate.primal
    apart = np.abs(
        np.concatenate(
            [getattr(other.expectation, of) - getattr(soft.expectation, of) for of in ("reward", "preference")]
        )
    )
    # The units of the residual are powers of two near one.
    assert other.certificate.residual >= 0.25 * apart.max()
