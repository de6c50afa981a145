"""Appendix G as printed: its conditions hold, it predicts the learner where KKT do, and fails where they do not."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import central_difference
from strategies import random_domain, some_of

from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.bellman.soft_expectations import soft_expansion
from tutelage.environments.object_world import object_world
from tutelage.learners.exact import SoftLearner
from tutelage.model.mdp import combined_features
from tutelage.outcomes import Ended, InvalidModel, NotConverged
from tutelage.roles import Lesson
from tutelage.teachers import printed_bilevel as printed
from tutelage.teachers.printed_bilevel import (
    BRANCH_TOLERANCE,
    Branch,
    BranchOptimum,
    branch_optima,
    branch_program,
    branch_start,
    printed_bilevel,
)

CORNERS = list(product([-1, 1], repeat=3))


@cache
def world(seed, size=10):
    return object_world(size=size, seed=seed)


def agnostic_weights(learner, true_weights):
    """What the learner infers when it is shown the optimal policy."""
    domain = learner.domain
    best = solve_hard(domain.mdp, domain.reward_features @ true_weights)
    return learner.respond(Lesson.from_policy(domain, best.policy)).learned_weights[: domain.n_reward]


def taught(learner, true_weights, call=printed_bilevel):
    return call(learner, true_weights, agnostic_weights(learner, true_weights))


def earned(learner, true_weights, found):
    response = learner.respond(Lesson.from_policy(learner.domain, found.policy))
    return float(true_weights @ response.expectation.reward)


def preference_residual(learner, found):
    """Zero exactly where every preference is in one of its three cases, coordinate by coordinate."""
    beta, excess = found.multipliers.preference, found.preference - learner.violation_allowance
    return np.abs(beta - np.clip(beta + excess, 0.0, learner.violation_penalty)).max(initial=0.0)


def assert_branch_holds(learner, found):
    """The printed conditions, word by word."""
    alpha = np.concatenate([found.multipliers.lower, found.multipliers.upper])
    assert (alpha >= 0).all() and (alpha <= learner.mismatch_penalty).all()
    beta, excess = found.multipliers.preference, found.preference - learner.violation_allowance
    if found.branch is Branch.KEPT:
        assert (beta >= 0).all() and (beta <= learner.violation_penalty).all()
        assert (excess <= BRANCH_TOLERANCE).all()
    else:
        assert_array_equal(beta, np.full(len(beta), learner.violation_penalty))
        assert (excess >= -BRANCH_TOLERANCE).all()
    weights = np.concatenate([found.multipliers.lower - found.multipliers.upper, -beta])
    domain = learner.domain
    assert_allclose(solve_soft(domain.mdp, combined_features(domain) @ weights).policy, found.policy, atol=1e-6)


@pytest.mark.parametrize(("seed", "name"), [(0, "L2"), (4, "L3")])
def test_without_allowance_the_learner_does_what_is_predicted(seed, name):
    """delta = 0: step ii is the learner's full KKT conditions, for a soft policy goes everywhere."""
    domain, w = world(seed).domain(name), world(seed).true_weights
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    found = taught(learner, w)
    assert_branch_holds(learner, found)
    assert found.branch is Branch.PAID
    assert preference_residual(learner, found) <= 1e-12
    assert earned(learner, w, found) == pytest.approx(found.reward, abs=1e-5)
    assert found.ended is Ended.CONVERGED
    corners = [np.concatenate([5.0 * np.array(signs), np.full(domain.n_preference, -10.0)]) for signs in CORNERS]
    features = combined_features(domain)
    assert found.reward >= max(w @ soft_expansion(domain.mdp, features, a).expectation[:3] for a in corners) - 1e-3


def test_a_printed_cell():
    """Table 1, L5: 1.30 over ten worlds."""
    learners = [SoftLearner(world(seed).domain("L5"), mismatch_penalty=5, violation_penalty=10) for seed in range(10)]
    found = [taught(learner, world(seed).true_weights) for seed, learner in enumerate(learners)]
    assert np.mean([point.reward for point in found]) == pytest.approx(1.30, abs=0.006)


def test_step_i_leaves_out_complementarity():
    """beta = C_c keeps the learner from what it is granted, and it would let go."""
    learner = SoftLearner(world(0).domain("L3"), mismatch_penalty=5, violation_penalty=10, violation_allowance=2.5)
    found = taught(learner, world(0).true_weights)
    assert_branch_holds(learner, found)
    assert found.branch is Branch.KEPT
    assert preference_residual(learner, found) > 1
    assert found.reward == pytest.approx(7.42, abs=0.006)
    assert earned(learner, world(0).true_weights, found) == pytest.approx(7.26, abs=0.006)


def test_neither_step_has_a_point_where_every_answer_is_mixed():
    """A limit that the start itself exceeds, beside limits that are easily kept."""
    small = world(1, size=6)
    learner = SoftLearner(small.domain("L3"), mismatch_penalty=5, violation_penalty=10, violation_allowance=0.5)
    with pytest.raises(NotConverged, match="neither branch of Appendix G has a point here") as failure:
        taught(learner, small.true_weights)
    assert failure.value.residual == pytest.approx(0.5, abs=1e-3)
    tried = taught(learner, small.true_weights, branch_optima)
    assert not any(point.is_feasible for point in tried)
    shown = solve_soft(learner.domain.mdp, learner.domain.reward_features @ [-5.0, 5.0, -5.0]).policy
    response = learner.respond(Lesson.from_policy(learner.domain, shown))
    assert small.true_weights @ response.expectation.reward == pytest.approx(7.51, abs=0.006)
    assert_allclose(response.multipliers.preference, [0, 0, 10, 0.75], atol=0.006)
    assert_allclose(response.expectation.preference, [0, 0, 1, 0.5], atol=1e-3)


def test_a_mixed_answer_to_the_optimal_policy_may_be_far_better_than_either_branch():
    """L5, C_r = 10, C_c = 1, an allowance of 2.5: some preferences are paid for, one binds, one does not matter."""
    domain, w = world(0).domain("L5"), world(0).true_weights
    learner = SoftLearner(domain, mismatch_penalty=10, violation_penalty=1, violation_allowance=2.5)
    best = solve_hard(domain.mdp, domain.reward_features @ w)
    response = learner.respond(Lesson.from_policy(domain, best.policy))
    beta, excess = response.multipliers.preference, response.expectation.preference - 2.5
    assert ((beta > 1 - 1e-6) & (excess > 0.1)).any()
    assert ((beta > 1e-3) & (beta < 1 - 1e-3) & (np.abs(excess) < 1e-6)).any()
    assert ((beta < 1e-6) & (excess < -0.1)).any()
    assert w @ response.expectation.reward > earned(learner, w, taught(learner, w)) + 5


@pytest.mark.parametrize("seed", some_of(range(4), range(2)))
def test_on_random_domains_branches_hold_and_full_kkt_predict_the_learner(seed):
    """Step ii implies the conditions of every preference; of step i they must be asked for."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, n_preference=2, on_choices=bool(seed % 2))
    true_weights = rng.normal(size=3)
    # What the soft policy of no weights visits, more or less: then limits are met, or not, by halves.
    usual = soft_expansion(domain.mdp, combined_features(domain), np.zeros(5)).expectation[3:]
    learner = SoftLearner(
        domain, mismatch_penalty=2.0, violation_penalty=3.0, violation_allowance=usual * rng.uniform(0.5, 1.2, size=2)
    )
    tried = taught(learner, true_weights, branch_optima)
    feasible = [point for point in tried if point.is_feasible]
    for point in feasible:
        assert_branch_holds(learner, point)
        residual = preference_residual(learner, point)
        assert point.branch is Branch.KEPT or residual <= BRANCH_TOLERANCE
        if residual <= 1e-5:
            assert earned(learner, true_weights, point) == pytest.approx(point.reward, abs=1e-3)
    if feasible:
        best = taught(learner, true_weights)
        assert best.reward == max(point.reward for point in feasible)


@pytest.mark.parametrize("branch", Branch)
def test_the_derivatives_of_a_branch_are_those_of_its_program(branch):
    """w = (low - up, -beta) gives every coordinate its sign, and step ii turns the constraints round."""
    domain, w = world(0).domain("L2"), world(0).true_weights
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    program = branch_program(learner, w, branch)
    x = np.array([1.0, 2.0, 0.5, 0.3, 0.4, 0.1, 2.0, 1.0])
    gradient, slopes = program.derivatives(program.evaluate(x, None))
    assert_allclose(gradient, central_difference(lambda y: program.evaluate(y, None).value, x), rtol=1e-4, atol=1e-5)
    excess = central_difference(lambda y: program.evaluate(y, None).excess, x)
    assert_allclose(slopes, excess.T, rtol=1e-4, atol=1e-5)


def test_without_preferences_there_is_one_branch_and_nothing_to_restore():
    learner = SoftLearner(world(0).domain("L1"), mismatch_penalty=5, violation_penalty=10)
    tried = taught(learner, world(0).true_weights, branch_optima)
    assert [point.branch for point in tried] == [Branch.KEPT, Branch.KEPT]
    assert [point.violation for point in tried] == [0.0, 0.0]


def started(monkeypatch, learner, true_weights, inferred):
    """The programs and the points from which they are climbed, in order."""
    starts = []
    monkeypatch.setattr(
        printed, "_branch_optimum", lambda _, program, alpha: starts.append((program, branch_start(program, alpha)))
    )
    branch_optima(learner, true_weights, inferred)
    return starts


def test_the_starts_are_the_printed_ones(monkeypatch):
    """All zero, and alpha^low = a+ with alpha^up = a-; beta is zero where that is feasible, and C_c in step ii."""
    domain, w = world(3, size=6).domain("L2"), world(3, size=6).true_weights
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=1e3)
    starts = started(monkeypatch, learner, w, np.array([3.0, -2.0, 0.5]))
    agnostic = [3.0, 0.0, 0.5, 0.0, 2.0, 0.0]
    zero = [0.0] * 6
    kept, paid = [0.0, 0.0], [10.0, 10.0]
    assert_array_equal([x for _, x in starts], [zero + kept, agnostic + kept, zero + paid, agnostic + paid])
    # The policy at the second start is the soft policy of (a, -beta).
    for (program, x), beta in ((starts[1], 0.0), (starts[3], 10.0)):
        weights = np.array([3.0, -2.0, 0.5, -beta, -beta])
        solved = program.evaluate(x, None).source.solved
        assert_allclose(solved.policy, solve_soft(domain.mdp, combined_features(domain) @ weights).policy, atol=1e-8)


def test_a_start_of_step_i_that_violates_a_limit_has_the_largest_beta(monkeypatch):
    """Without an allowance no soft policy keeps its preferences; weights beyond C_r are clipped to it."""
    learner = SoftLearner(world(3, size=6).domain("L2"), mismatch_penalty=5, violation_penalty=10)
    starts = started(monkeypatch, learner, world(3, size=6).true_weights, np.array([7.0, -8.0, 0.5]))
    expected = [[0.0] * 6 + [10.0, 10.0], [5.0, 0.0, 0.5, 0.0, 5.0, 0.0, 10.0, 10.0]]
    assert_array_equal([x for _, x in starts[:2]], expected)


def test_step_iii_takes_the_best_feasible_point(monkeypatch):
    """A point with more reward that violates its condition is discarded."""

    def point(reward, violation):
        local = {"weights": None, "expectation": None, "policy": None, "gap": 0.0, "ended": Ended.CONVERGED}
        branch = {"branch": Branch.KEPT, "multipliers": None, "preference": None}
        return BranchOptimum(reward=reward, violation=violation, **local, **branch)

    tried = [point(3.0, 0.0), point(5.0, BRANCH_TOLERANCE), point(9.0, 0.1)]
    monkeypatch.setattr(printed, "branch_optima", lambda *_: tried)
    assert printed_bilevel(None, None, None).reward == 5.0


BAD = {
    "mismatch": ((math.inf, 10, 0.0, np.zeros(3)), "finite 1-norm penalties"),
    "violation": ((5, math.inf, 0.0, np.zeros(3)), "finite 1-norm penalties"),
    "no penalty": ((0, 10, 0.0, np.zeros(3)), "mismatch penalty must be positive"),
    "allowance": ((5, 10, [1.0], np.zeros(3)), "violation_allowance has 1 entries"),
    "weights": ((5, 10, 0.0, np.zeros(2)), "agnostic_weights has 2 entries, but there are 3 reward features"),
}


@pytest.mark.parametrize(("rest", "complaint"), BAD.values(), ids=BAD.keys())
def test_what_appendix_g_cannot_mean_is_refused(rest, complaint):
    mismatch_penalty, violation_penalty, allowance, inferred = rest
    with pytest.raises(InvalidModel, match=complaint):
        learner = SoftLearner(
            world(0).domain("L2"),
            mismatch_penalty=mismatch_penalty,
            violation_penalty=violation_penalty,
            violation_allowance=allowance,
        )
        printed_bilevel(learner, world(0).true_weights, inferred)
