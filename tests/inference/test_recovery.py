"""What one answer determines: its weights, and lower ends of what is paid for features that are hardly met."""

import pytest
from numpy.testing import assert_allclose
from problems import random_rounds
from strategies import some_of

import tutelage as tl
from tutelage.inference.recovery import feature_scales, recover


def test_the_weights_of_an_answer_have_its_expectation():
    """Whatever is not determined, the weights found have the answer's expectation."""
    learner, _, rounds = random_rounds(6)
    domain = learner.domain
    for taught in rounds:
        seen = taught.response.expectation.both
        answer = recover(domain, tuple(taught.lesson.expectation), tuple(seen), accuracy=1e-12)
        soft = tl.soft_expansion(domain.mdp, tl.combined_features(domain), answer.lift @ answer.point)
        assert_allclose(soft.expectation, seen, rtol=1e-8, atol=1e-8)
        assert_allclose(answer.entropy, tl.causal_entropy(domain.mdp, soft.solved.policy), rtol=1e-8)


@pytest.mark.parametrize("seed", some_of(range(60), range(8)))
def test_the_floor_is_below_what_the_learner_pays(seed):
    """Whatever the accuracy that is assumed, and whatever the units."""
    problem = random_rounds(seed, 3.0)
    if problem is None:
        return
    learner, _, rounds = problem
    domain, scales = learner.domain, feature_scales(learner.domain)
    for taught in rounds:
        paid = -taught.response.learned_weights[domain.n_reward :]
        for accuracy in (1e-12, 1e-9, 1e-6):
            seen = taught.response.expectation.both
            answer = recover(domain, tuple(taught.response.lesson.expectation), tuple(seen), accuracy=accuracy)
            assert (answer.floor <= paid * (1 + 1e-6) + 1e-6 / scales.unit[domain.n_reward :]).all()


@pytest.mark.parametrize("violation", [10.0, 30.0, 100.0])
def test_a_strongly_avoided_feature_has_a_lower_end_all_the_same(violation):
    """It is hardly met, so that no direction of its weight is determined; but a smaller weight would be seen."""
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L3")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=violation)
    rounds = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), learner, max_rounds=1).rounds
    found = tl.infer_learner(domain, rounds)
    assert 9.99 < found.violation_penalty.low <= violation * (1 + 1e-6)
    assert found.preferences[2:] == ("there", "there") and found.explains
