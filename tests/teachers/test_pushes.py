"""Proposition 1, a bound on the reward that a projecting learner can still gain, and the proof of Theorem 3 from it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from problems import random_problem
from scipy.spatial.distance import pdist
from strategies import random_policy, some_of

from tutelage.constrained.problem import no_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.roles import Lesson
from tutelage.teachers.pushes import largest_push, proposition_1_bound

# Random problems with a push of more than 0.01; in the first seven the bound is below gain + norm_2(w*) D, which always
# holds. In the last five the learner cannot gain any reward.
SEEDS = (4, 12, 13, 16, 40, 45, 50, 2, 10, 46, 55, 0, 18, 22, 39, 44)


@pytest.mark.parametrize("seed", some_of(SEEDS, SEEDS[:8]))
def test_proposition_1_bounds_the_remaining_gain(seed):
    """The learner responds to a random lesson, and then to a realised push from its response."""
    problem = random_problem(seed)
    domain, weights = problem.domain, problem.true_weights
    lesson = Lesson.from_policy(domain, random_policy(np.random.default_rng(seed), domain.mdp))
    start = problem.learner.respond(lesson).expectation.reward
    push = largest_push(domain, start, weights, longest=5.0, match_tolerance=1e-9)
    assert push.is_realised and push.size > 0.01
    gain = float(
        weights @ (problem.learner.respond(Lesson.from_policy(domain, push.policy)).expectation.reward - start)
    )
    diameter = float(pdist(vertices(domain, no_limits(domain))).max())
    bound = proposition_1_bound(gain, push.size, diameter, weights)
    assert problem.aware - weights @ start <= bound + 1e-6 * (1 + abs(problem.aware))
    assert bound < gain + np.linalg.norm(weights) * diameter or seed not in SEEDS[:7]


def test_proposition_1_is_attained_in_a_triangle():
    """Omega_r^L is the triangle below the line through (0, 0) and (1, 1/2); w* = (0, 2); the learner is at (0, 0)."""
    weights, push = np.array([0.0, 2.0]), 0.5
    pushed = np.array([0.4, 0.2])  # The projection of (0, 1) onto the line.
    width = 0.6  # The best point is (1, 1/2), with reward 1 and 0.6 to the right of the projection.
    assert proposition_1_bound(weights @ pushed, push, width, weights) == pytest.approx(1.0)


def test_proposition_1_at_the_ends_of_its_range():
    """A push that gains nothing proves that nothing can be gained; a lesson that is matched proves nothing."""
    weights = np.array([3.0, 4.0])
    assert proposition_1_bound(0.0, 0.1, 7.0, weights) == 0.0
    assert proposition_1_bound(-1e-12, 0.1, 7.0, weights) == 0.0
    assert proposition_1_bound(2.5, 0.1, 7.0, weights) == math.inf


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(1, 10), st.floats(1e-6, 1), st.floats(1, 3))
def test_the_steps_of_the_proof_of_theorem_3(eps, shortest, diameter, share, stretch):
    """Eq. 11 to 18, for a unit w*, a push alpha_i >= alpha_min and a gain that leaves more than eps (Eq. 11) to gain.

    Eq. 18 needs eps <= D and eps alpha_min <= D^2, which the paper does not state.
    """
    push = stretch * shortest
    gain = share * push
    remaining = proposition_1_bound(gain, push, diameter, np.array([1.0]))
    assume(remaining > eps)
    c_0, c_1 = eps * math.sqrt(shortest / (4 * diameter**2 + eps**2)), math.sqrt(shortest / 2)
    assert math.sqrt(gain) > min(math.sqrt(eps / 2), c_0) * (1 - 1e-12)  # Eq. 12
    assume(c_0 < math.sqrt(eps / 2) and gain < push - shortest / 2)  # Then Eq. 13 and Eq. 14 hold.
    assert c_0 * c_1 <= math.sqrt((push - gain) * gain)  # Eq. 15
    rate = 1 / (1 + diameter / (c_0 * c_1))
    assert math.sqrt(gain / (push - gain)) <= gain / (c_0 * c_1)  # Eq. 16
    assert rate * remaining <= gain * (1 + 1e-12)  # Eq. 17
    assert rate >= eps * shortest / ((1 + math.sqrt(10)) * diameter**2) * (1 - 1e-12)  # Eq. 18
