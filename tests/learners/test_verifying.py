"""Responses prove their own numbers, and a wrong number is named."""

from dataclasses import replace

import numpy as np
import pytest
from problems import random_problem
from strategies import some_of

import tutelage as tl
from tutelage.learners.verifying import verify


def learners(domain: tl.Domain) -> list[tl.Learner]:
    squared = tl.Mismatch(norm=2, penalty=3, squared=True)
    return [
        tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10),
        tl.GenericLearner(domain, squared, tl.Preference(norm=2, penalty=4, allowance=0.1)),
        tl.StandardLearner(domain),
        tl.ApproximateHardLearner(domain, violation_allowance=4),
        *(tl.HardLearner(domain, violation_allowance=3, norm=norm) for norm in (1, 2, np.inf)),
    ]


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("seed", some_of(range(40), range(8)))
def test_every_response_is_verified_and_every_invented_certificate_is_not(seed, unit):
    given = random_problem(seed)
    domain = given.domain
    domain = replace(domain, reward_features=unit * domain.reward_features)
    lesson = tl.AgnosticTeacher(domain, given.true_weights).open().lesson
    for learner in learners(domain):
        try:
            response = learner.respond(lesson)
        except (tl.InfeasibleConstraints, tl.NotConverged):
            continue
        verify(learner, response)
        proof = response.certificate
        off = (
            0.01 * (1 + abs(proof.primal))
            + 0.01 * unit * np.abs(given.domain.reward_features).max() * domain.mdp.horizon
        )
        for wrong in (replace(proof, primal=proof.primal + off), replace(proof, dual=proof.dual - off)):
            with pytest.raises(tl.InvalidModel, match=r"its (primal|dual) is"):
                verify(learner, replace(response, certificate=wrong))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize(("reward", "preference"), [(1e300, 0.0), (1e308, 0.0), (1.0, 1e306), (0.0, 1e308)])
def test_multipliers_of_a_damaged_file_are_refused_however_large(norm, reward, preference):
    """Their products overflow; a sentence says so, and no warning does."""
    given = random_problem(0)
    learner = tl.HardLearner(given.domain, violation_allowance=3, norm=norm)
    response = learner.respond(tl.AgnosticTeacher(given.domain, given.true_weights).open().lesson)
    a, y = np.full(given.domain.n_reward, reward), np.full(given.domain.n_preference, preference)
    multipliers = replace(response.multipliers, lower=a, upper=np.zeros_like(a), preference=y)
    damaged = replace(response, multipliers=multipliers, learned_weights=np.concatenate([a, -y]))
    with pytest.raises(tl.InvalidModel, match="its multipliers are larger"):
        verify(learner, damaged)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_an_allowance_of_a_damaged_file_is_refused_however_large(norm):
    """Its product with a multiplier overflows; a sentence says so, and no warning does."""
    domain = random_problem(3).domain
    lesson = tl.AgnosticTeacher(domain, np.ones(domain.n_reward)).open().lesson
    learner = tl.HardLearner(domain, 1e300, norm=norm)
    response = learner.respond(lesson)
    y = np.full(domain.n_preference, 1e10)
    multipliers = replace(response.multipliers, preference=y)
    a = multipliers.lower - multipliers.upper
    damaged = replace(response, multipliers=multipliers, learned_weights=np.concatenate([a, -y]))
    with pytest.raises(tl.InvalidModel, match="its multipliers are larger"):
        verify(learner, damaged)
