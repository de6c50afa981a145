"""Every learner model agrees with the same problem written over occupancies with relative-entropy cones.

CVXPY and Clarabel share nothing with the dual Newton method but the problem: a wrong sign, conjugate or set shows here.
"""

import math
import warnings
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from oracles import cone_optimum
from problems import random_domain_of, random_learning_problem
from strategies import random_policy, some_of

from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.learners.convex_constraints import distance_constraint, quadratic_constraint
from tutelage.learners.exact import GenericLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.roles import Lesson


def solve_both(domain, mismatch, preference, shown, convex=()):
    response = GenericLearner(domain, mismatch, preference).respond(Lesson.from_expectation(shown))
    with warnings.catch_warnings():
        # Clarabel may stop short of 1e-10 and say so; what it reached is compared to 1e-6.
        warnings.simplefilter("ignore", UserWarning)
        value, mu = cone_optimum(domain, mismatch, preference, shown, convex)
    return response, value, mu


def assert_agree(response, value, mu):
    proof = response.certificate
    assert proof.primal == pytest.approx(value, abs=1e-6 * (1 + abs(value)))
    assert np.abs(response.expectation.both - mu).max() <= 1e-3 * (1 + np.abs(mu).max())
    assert proof.residual <= 1e-8
    assert proof.relative_gap <= 1e-8


@pytest.mark.parametrize("seed", some_of(range(200), range(50)))
def test_the_dual_newton_method_agrees_with_the_cone_program(seed):
    domain, mismatch, preference, shown = random_learning_problem(seed)
    response, value, mu = solve_both(domain, mismatch, preference, shown)
    assert_agree(response, value, mu)


@pytest.mark.parametrize("seed", range(75))
def test_the_certificate_can_be_recomputed(seed):
    """The primal value from the policy alone; a dual value above it; multipliers in their sets."""
    domain, mismatch, preference, shown = random_learning_problem(seed)
    response = GenericLearner(domain, mismatch, preference).respond(Lesson.from_expectation(shown))
    again = expectation(domain, response.policy)
    excess = np.maximum(again.preference - preference.on(domain).allowance, 0.0)
    paid = mismatch.cost(again.reward - shown) + preference.cost(excess)
    scale = 1 + abs(response.certificate.primal)
    assert response.certificate.primal == pytest.approx(
        causal_entropy(domain.mdp, response.policy) - paid, abs=1e-8 * scale
    )
    assert response.certificate.dual >= response.certificate.primal - 1e-8 * scale
    multipliers = response.multipliers
    assert (multipliers.lower * multipliers.upper == 0).all() and (multipliers.preference >= 0).all()
    if not preference.is_hard and domain.n_preference:
        dual_norm = {1: math.inf, 2: 2, math.inf: 1}[preference.norm]
        assert np.linalg.norm(multipliers.preference, dual_norm) <= preference.penalty * (1 + 1e-12)
    # Complementary slackness: a constraint with slack has a multiplier of zero.
    slack = preference.on(domain).allowance - again.preference
    assert (multipliers.preference[slack > 1e-5 * scale] <= 1e-4).all()


KINDS = list(product([1, 2, math.inf], [0.5, 20.0, math.inf]))
EVERY_SEED = [(seed, *kind) for seed in range(4) for kind in KINDS]
ONE_SEED = [(place % 3, *kind) for place, kind in enumerate(KINDS)]


@pytest.mark.parametrize(("seed", "norm", "penalty"), some_of(EVERY_SEED, ONE_SEED))
def test_convex_preferences_by_tangents_agree_with_the_cone_program(seed, norm, penalty):
    """A ball and a quadratic beside the linear constraints, soft and hard, by outer approximation."""
    rng = np.random.default_rng(710 + seed)
    domain = random_domain_of(rng, 4 * seed, max_states=6)
    while domain.n_preference < 2:
        domain = random_domain_of(rng, 4 * seed, max_states=6)
    known = expectation(domain, random_policy(rng, domain.mdp))
    centre, root = 0.8 * known.preference, rng.normal(size=(2, domain.n_preference))
    curvature, slope = root.T @ root, rng.random(domain.n_preference)
    ball = distance_constraint("ball", centre)
    bowl = quadratic_constraint("bowl", curvature, slope)
    limits = [*(1.1 * known.preference), 1.05 * ball.value(known.preference), 1.02 * bowl.value(known.preference)]
    preference = Preference(norm=norm, penalty=penalty, allowance=limits, functions=(ball, bowl))
    convex = (lambda mu: cp.norm(mu - centre), lambda mu: 0.5 * cp.sum_squares(root @ mu) + slope @ mu)
    shown = known.reward * 1.5
    response, value, mu = solve_both(domain, Mismatch(norm=1, penalty=5.0), preference, shown, convex)
    assert response.certificate.primal == pytest.approx(value, abs=1e-5 * (1 + abs(value)))
    assert np.abs(response.expectation.both - mu).max() <= 2e-3 * (1 + np.abs(mu).max())
    if math.isinf(penalty):
        assert response.violation_excess.max() <= 1e-6 * (1 + max(limits))
