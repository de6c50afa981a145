"""Learners in extreme cases: features of any size, infeasible limits, impossible matches."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import random_domain, random_policy

from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import least_violation
from tutelage.constrained.problem import preference_limits
from tutelage.data.sampling import sample_demonstrations
from tutelage.learners.exact import ApproximateHardLearner, GenericLearner, HardLearner, SoftLearner, StandardLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InfeasibleConstraints, NotConverged
from tutelage.roles import Lesson

SIZES = [1e-6, 1.0, 1e4]


def in_other_units(domain, reward_unit, preference_unit):
    reward, preference = reward_unit * domain.reward_features, preference_unit * domain.preference_features
    return Domain(domain.mdp, reward, preference, domain.reward_names, domain.preference_names)


@pytest.mark.parametrize("preference_unit", SIZES)
@pytest.mark.parametrize("reward_unit", SIZES)
def test_the_units_of_the_features_do_not_matter(reward_unit, preference_unit):
    """Features in other units, penalties in their reciprocals: the same policy."""
    rng = np.random.default_rng(7)
    domain = random_domain(rng, max_states=12)
    policy = random_policy(rng, domain.mdp)
    scaled = in_other_units(domain, reward_unit, preference_unit)
    plain = SoftLearner(domain, mismatch_penalty=3.0, violation_penalty=2.0).respond(Lesson.from_policy(domain, policy))
    other = SoftLearner(scaled, mismatch_penalty=3.0 / reward_unit, violation_penalty=2.0 / preference_unit).respond(
        Lesson.from_policy(scaled, policy)
    )
    assert_allclose(other.policy, plain.policy, atol=1e-7)
    assert other.certificate.relative_gap <= 1e-8


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_an_exact_match_is_exact_in_the_units_of_its_features(seed, size):
    rng = np.random.default_rng(seed)
    domain = in_other_units(random_domain(rng, max_states=10), size, 1.0)
    lesson = Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    response = StandardLearner(domain).respond(lesson)
    assert_allclose(response.expectation.reward, lesson.expectation, atol=1e-8 * size)
    assert response.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_a_feature_that_is_always_zero_does_not_set_the_unit(unit):
    """It has no size, so it cannot set the unit of a ball of weights."""
    rng = np.random.default_rng(11)
    domain = random_domain(rng, max_states=12)
    policy = random_policy(rng, domain.mdp)
    expected = 1.5 * unit * expectation(domain, policy).reward
    wider = unit * np.insert(domain.reward_features, 1, 0.0, axis=1)
    given = {"mismatch_penalty": 30.0 / unit, "violation_allowance": expectation(domain, policy).preference}
    plain = in_other_units(domain, unit, 1.0)
    few = ApproximateHardLearner(plain, squared=False, **given).respond(Lesson.from_expectation(expected))
    more = ApproximateHardLearner(Domain(domain.mdp, wider, domain.preference_features), squared=False, **given)
    found = more.respond(Lesson.from_expectation(np.insert(expected, 1, 0.0)))
    assert_allclose(found.policy, few.policy, atol=1e-6)
    assert found.certificate.n_steps <= 2 * few.certificate.n_steps + 5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_choices", [1, 4])
def test_rounding_never_satisfies_infeasible_limits(max_choices, size):
    """Diverging multipliers cause large rounding errors; no feature size may turn these into a response."""
    rng = np.random.default_rng(3)
    domain = random_domain(rng, max_states=6, max_choices=max_choices)
    domain = in_other_units(Domain(domain.mdp, domain.reward_features, 0.5 + domain.preference_features), 1.0, size)
    impossible = 0.1 * size
    lesson = Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    for learner in (
        ApproximateHardLearner(domain, violation_allowance=impossible, mismatch_penalty=5.0),
        ApproximateHardLearner(domain, violation_allowance=impossible, mismatch_penalty=5.0, squared=False),
        GenericLearner(domain, Mismatch(), Preference(allowance=impossible)),
        HardLearner(domain, impossible),
    ):
        with pytest.raises(InfeasibleConstraints, match="preference 0"):
            learner.respond(lesson)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_choices", [1, 4])
def test_rounding_never_satisfies_an_impossible_match(max_choices, size):
    rng = np.random.default_rng(5)
    domain = in_other_units(random_domain(rng, max_states=6, max_choices=max_choices), size, 1.0)
    far = expectation(domain, random_policy(rng, domain.mdp)).reward + 100 * size * domain.mdp.horizon
    with pytest.raises(NotConverged, match="no policy has the expectation shown"):
        StandardLearner(domain).respond(Lesson.from_expectation(far))
    bound = GenericLearner(domain, Mismatch(), Preference(allowance=1e6))
    with pytest.raises(NotConverged, match="no policy within the preferences has the expectation shown"):
        bound.respond(Lesson.from_expectation(far))


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_all_norms_of_one_feature_are_the_same(norm):
    rng = np.random.default_rng(11)
    domain = random_domain(rng, max_states=10, n_reward=1, n_preference=1)
    lesson = Lesson.from_expectation([2 * domain.mdp.horizon])
    expected = SoftLearner(domain, mismatch_penalty=0.3, violation_penalty=0.2).respond(lesson)
    found = GenericLearner(domain, Mismatch(norm=norm, penalty=0.3), Preference(norm=norm, penalty=0.2)).respond(lesson)
    assert_allclose(found.policy, expected.policy, atol=1e-9)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("sizes", [(1e4, 1.0), (1e-6, 1e4), (100.0, 1e-6)])
def test_the_projection_is_exact_for_features_of_different_sizes(sizes, norm):
    """Large features and a long horizon leave few digits for the bound; small features still count."""
    rng = np.random.default_rng(13)
    small = random_domain(rng, max_states=10)
    mdp = MDP.from_choices(small.mdp.transition, small.mdp.first_choice, small.mdp.initial, 0.999)
    domain = in_other_units(Domain(mdp, small.reward_features, small.preference_features), *sizes)
    policy = random_policy(rng, mdp)
    learner = HardLearner(domain, expectation(domain, policy).preference, norm=norm)
    response = learner.respond(Lesson.from_policy(domain, policy))
    assert_allclose(response.expectation.reward, response.lesson.expectation, atol=1e-4 * sizes[0])


def test_the_most_entropic_answer_is_as_uncertain_as_its_lesson():
    rng = np.random.default_rng(17)
    domain = random_domain(rng, max_states=8)
    policy = random_policy(rng, domain.mdp)
    seen = sample_demonstrations(domain.mdp, policy, 20, rng=rng)
    lesson = Lesson.from_demonstrations(domain, seen)
    response = HardLearner(domain, 1e6, entropic_within=0.1).respond(lesson)
    assert_array_equal(response.certificate.uncertainty, lesson.uncertainty)
    assert response.certificate.uncertainty.max() > 0


@pytest.mark.parametrize("mismatch", [Mismatch(norm=1, penalty=3.0), Mismatch(norm=2, penalty=3.0, squared=True)])
@pytest.mark.parametrize("seed", range(6))
def test_hard_preferences_that_no_policy_keeps_are_known_after_a_few_steps(seed, mismatch):
    """The dual falls below what the furthest policy costs: that proves it. Limits that one policy keeps are kept."""
    rng = np.random.default_rng([71, seed])
    base = random_domain(rng, max_states=12, max_choices=3, n_reward=6, n_preference=8, on_choices=True)
    domain = in_other_units(base, 1.0, 10.0 ** rng.integers(-6, 7, size=8))
    lesson = Lesson.from_policy(domain, random_policy(rng, domain.mdp))
    closest = least_violation(domain, preference_limits(domain, 0.0)).expectation.preference
    n_steps = []

    def count(step):
        n_steps.append(step.stage == "Newton steps")

    with pytest.raises(InfeasibleConstraints):
        GenericLearner(domain, mismatch, Preference(allowance=0.9 * closest)).respond(lesson, progress=count)
    assert sum(n_steps) <= 100
    slack = 1e-3 * np.abs(domain.preference_features).max(axis=0) * domain.mdp.horizon
    response = GenericLearner(domain, mismatch, Preference(allowance=closest + slack)).respond(lesson)
    assert response.certificate.relative_gap <= 1e-6
    assert (response.expectation.preference <= closest + slack * (1 + 1e-3)).all()
