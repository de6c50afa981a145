"""Every learner follows the protocol: one method, a complete response with a certificate, and no memory."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tutelage.chains.expectations import expectation
from tutelage.environments.object_world import object_world
from tutelage.learners.exact import ApproximateHardLearner, GenericLearner, HardLearner, SoftLearner, StandardLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.published import PublishedHardLearner, PublishedLearner
from tutelage.model.policy import check_policy, uniform_policy
from tutelage.roles import Lesson

LEARNERS = [
    lambda domain: StandardLearner(domain),
    lambda domain: SoftLearner(domain, mismatch_penalty=5, violation_penalty=10),
    lambda domain: GenericLearner(domain, Mismatch(norm=2, penalty=3), Preference(norm=np.inf, penalty=4, allowance=1)),
    lambda domain: ApproximateHardLearner(domain, violation_allowance=2.5),
    lambda domain: HardLearner(domain, 2.5),
    lambda domain: PublishedLearner(domain, mismatch_penalty=5, violation_penalty=10),
    lambda domain: PublishedHardLearner(domain, violation_allowance=2.5, max_steps=200),
]


@pytest.mark.parametrize("make", LEARNERS)
def test_a_learner_answers_in_full_and_again_the_same(make):
    domain = object_world(size=6, seed=1).domain("L2")
    lesson = Lesson.from_policy(domain, uniform_policy(domain.mdp))
    learner = make(domain)
    response = learner.respond(lesson)
    check_policy(domain.mdp, response.policy)
    again = expectation(domain, response.policy)
    assert np.abs(again.both - response.expectation.both).max() <= 1e-7
    assert response.learned_weights.shape == (len(domain.names),)
    assert (
        response.multipliers.lower.shape == response.multipliers.upper.shape == response.mismatch_excess.shape == (3,)
    )
    assert response.multipliers.preference.shape == response.violation_excess.shape == (len(response.constraint_names),)
    assert response.certificate.dual >= response.certificate.primal - 1e-7
    assert response.explain().count("\n") >= 4
    assert_array_equal(learner.respond(lesson).policy, response.policy)
