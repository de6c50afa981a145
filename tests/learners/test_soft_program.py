"""Convex preferences in the dual: tangents that move, against differences, cone programs' cases and fixed tangents."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from strategies import random_domain, random_policy

import tutelage as tl
from tutelage.learners.convex_constraints import ConvexConstraint
from tutelage.learners.penalties import Tangents
from tutelage.learners.soft_program import SoftProgram


def far_learner(n_features, functions_of, penalty):
    """A learner that must stay near the expectation of a random policy."""
    rng = np.random.default_rng(5)
    domain = random_domain(rng, max_states=30, n_preference=n_features)
    liked = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    functions, allowance = functions_of(liked)
    preference = tl.Preference(
        penalty=penalty, allowance=allowance, rows=np.zeros((0, n_features)), functions=tuple(functions)
    )
    lesson = tl.Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    return domain, tl.GenericLearner(domain, tl.Mismatch(norm=2, penalty=20.0), preference), lesson, liked


@pytest.mark.parametrize("penalty", [30.0, np.inf])
def test_a_smooth_preference_of_many_features_takes_few_programs(monkeypatch, penalty):
    """Fixed tangents took about fifty; the tangent that moves needs one program, or a second where it starts idle."""
    programs = []
    minimise = SoftProgram.minimise
    monkeypatch.setattr(
        SoftProgram, "minimise", lambda self, *given, **how: programs.append(1) or minimise(self, *given, **how)
    )
    _, learner, lesson, liked = far_learner(12, lambda at: ([tl.distance_constraint("far", at)], [0.05]), penalty)
    found = learner.respond(lesson)
    assert found.multipliers.preference[0] > 0 and len(programs) <= 3
    assert found.certificate.relative_gap <= 1e-8
    if np.isinf(penalty):
        assert np.linalg.norm(found.expectation.preference - liked) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("penalty", [3.0, np.inf])
def test_a_preference_with_kinks_is_met_by_fixed_tangents(penalty):
    """max over k of mu_c[k] - liked[k], within an infinity norm: d_c linear constraints have the same response."""

    def largest(liked):
        def gradient(point):
            return np.eye(len(liked))[int((point - liked).argmax())]

        return [ConvexConstraint("largest", lambda point: float((point - liked).max()), gradient)], [0.0]

    domain, kinked, lesson, liked = far_learner(4, largest, penalty)
    preference = tl.Preference(norm=np.inf, penalty=penalty, allowance=liked)
    linear = tl.GenericLearner(domain, kinked.mismatch, preference).respond(lesson)
    found = kinked.respond(lesson)
    assert linear.multipliers.preference.max() > 0
    assert found.certificate.primal == pytest.approx(linear.certificate.primal, rel=1e-7)
    assert_allclose(found.policy, linear.policy, atol=1e-5)


def test_a_preference_that_is_defined_only_inside_is_met():
    """-sum of log mu_c is not defined everywhere where the search for a tangent may go."""
    spread = ConvexConstraint("spread", lambda x: -np.log(x).sum(), lambda x: -1 / x)
    _, learner, lesson, _ = far_learner(2, lambda _: ([spread], [0.0]), 50.0)
    found = learner.respond(lesson)
    assert found.certificate.relative_gap <= 1e-7 and (found.expectation.preference > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_cools_loses_entropy_and_ends_as_the_learner_itself(seed):
    """At temperature T the learner maximises T H - M - N, so that H never decreases in T."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=12)
    learner = tl.SoftLearner(domain, mismatch_penalty=300.0, violation_penalty=200.0, violation_allowance=1.0)
    lesson = tl.Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    program = learner.dual.program(lesson.expectation, Tangents.opening(learner.dual.constraints))
    policies = [found.answer.here.source.solved.policy for found in program.cooled()]
    entropies = [tl.causal_entropy(domain.mdp, policy) for policy in policies]
    assert len(entropies) > 4 and (np.diff(entropies) <= 1e-6 * (1 + entropies[0])).all()
    assert_allclose(policies[-1], learner.respond(lesson).policy, atol=1e-6)


def test_a_program_is_evaluated_where_it_is_asked():
    """The value at its minimum is that of the minimum; elsewhere it is larger, and the bound holds."""
    rng = np.random.default_rng(1)
    domain = random_domain(rng, max_states=12)
    learner = tl.SoftLearner(domain, mismatch_penalty=3.0, violation_penalty=2.0)
    lesson = tl.Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    program = learner.dual.program(lesson.expectation, Tangents.opening(learner.dual.constraints))
    least = program.minimise(np.zeros(len(program.offset)))
    assert program.evaluated(least.answer.x).value == pytest.approx(least.value, rel=1e-12)
    away = program.evaluated(0.5 * least.answer.x)
    assert away.bound <= least.value < away.value and away.residual > least.residual
