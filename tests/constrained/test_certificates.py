"""Certificates on wrong answers: a solver that is stopped early, or misled, must report a gap of the right size."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import lattice
from strategies import build_mdp, random_domain, random_mdp, random_policy

from tutelage.bellman import equations
from tutelage.bellman.equations import _verdict, solve_hard, solve_soft
from tutelage.chains.expectations import expectation
from tutelage.constrained import columns
from tutelage.constrained.columns import Planner
from tutelage.constrained.objectives import Program
from tutelage.constrained.occupancy_polytope import best_policy, least_violation, nearest_policy, strictest_policy
from tutelage.constrained.problem import no_limits, preference_limits, sizes
from tutelage.model.mdp import Domain
from tutelage.outcomes import Ended, NotConverged

LOOSE = 0.5
TARGET = np.array([3.0, -2.0, 1.0])
WEIGHTS = np.array([1.0, -0.5, 0.7])


def problem(seed):
    """A domain, and limits that a known policy keeps with nothing to spare."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=25, max_choices=4, n_reward=3, n_preference=2)
    return domain, preference_limits(domain, expectation(domain, random_policy(rng, domain.mdp)).preference)


def stricter(limits):
    """Limits that hardly any policy keeps."""
    return limits.relaxed(-0.3 * limits.offsets)


# For each question: the answer at some accuracy, the value of a policy recomputed, and the sign of improvement.
QUESTIONS = {
    "best": (
        lambda domain, limits, accuracy: best_policy(domain, WEIGHTS, limits, accuracy=accuracy),
        lambda limits, mu: WEIGHTS @ mu.reward,
        1,
    ),
    "strictest": (
        lambda domain, limits, accuracy: strictest_policy(domain, WEIGHTS, limits, accuracy=accuracy),
        lambda limits, mu: WEIGHTS @ mu.reward,
        1,
    ),
    "violation": (
        lambda domain, limits, accuracy: least_violation(domain, stricter(limits), accuracy=accuracy),
        lambda limits, mu: stricter(limits).excess(mu.both).sum(),
        -1,
    ),
} | {
    f"nearest, {norm}-norm": (
        lambda domain, limits, accuracy, norm=norm: nearest_policy(
            domain, TARGET, limits, norm=norm, accuracy=accuracy, route="decomposition"
        ),
        lambda limits, mu, norm=norm: np.linalg.norm(mu.reward - TARGET, norm),
        -1,
    )
    for norm in (1, 2, np.inf)
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_decomposition_that_stops_early_reports_how_far_off_it_is(question):
    """The value is that of the policy; the bound is on the other side of the optimum; so the gap covers the error."""
    answer, value_of, sign = QUESTIONS[question]
    errors = []
    for seed in range(6):
        domain, limits = problem(seed)
        rough, exact = answer(domain, limits, LOOSE), answer(domain, limits, 1e-8)
        scale = 1e-6 * (1 + abs(exact.value))
        assert rough.value == pytest.approx(value_of(limits, expectation(domain, rough.policy)), abs=scale)
        assert sign * rough.bound >= sign * exact.value - scale
        assert sign * rough.value <= sign * exact.value + scale
        assert rough.gap >= abs(rough.value - exact.value) - scale
        errors.append(abs(rough.value - exact.value))
    # Some of the answers are really wrong, so the gap was really needed.
    assert max(errors) > 1e-3


def test_a_wrong_answer_of_the_direct_program_is_an_error_with_its_gap(monkeypatch):
    """The libraries are not believed: a value 0.1 above the optimum differs from the certified bound by 0.1."""
    domain, limits = problem(0)
    for answer in (
        lambda: nearest_policy(domain, TARGET, limits, route="direct"),
        lambda: best_policy(domain, WEIGHTS, limits, route="direct"),
    ):
        mislead(monkeypatch, 0.1)
        with pytest.raises(NotConverged, match=r"a relative gap of 0\.1") as caught:
            answer()
        assert caught.value.residual == pytest.approx(0.1, abs=1e-5)
        assert caught.value.answer.gap > 1e-3
        monkeypatch.undo()


def mislead(monkeypatch, error):
    """Let the direct program, the one with sparse columns, return a value that is too large by `error`."""
    honest = Program.solve

    def solve(self, generate, *equalities):
        found = honest(self, generate, *equalities)
        return found if isinstance(generate, np.ndarray) else replace(found, value=found.value + error)

    monkeypatch.setattr(Program, "solve", solve)


@pytest.mark.parametrize(
    ("error", "is_taken"), [(0.0, True), (1e-12, True), (1e-9, False), (1e-8, False), (0.1, False)]
)
def test_a_direct_answer_that_is_not_tight_is_not_taken(monkeypatch, error, is_taken):
    """Where no route is named, a direct answer whose gap is above that of decomposition is discarded."""
    mdp = build_mdp(np.random.default_rng(2), np.full(20, 3), 0.95)
    domain, target = Domain(mdp, np.eye(20), np.eye(20)[:, :6]), np.linspace(0, 3, 20)
    # Together with 20 features to match, six limits make a crowd.
    limits = preference_limits(domain, 100.0)
    long_way = nearest_policy(domain, target, limits, route="decomposition")
    mislead(monkeypatch, error)
    found = nearest_policy(domain, target, limits)
    assert found.n_rounds == (1 if is_taken else long_way.n_rounds) and long_way.n_rounds > 1
    if not is_taken:
        assert_array_equal(found.policy, long_way.policy)


def test_a_decomposition_that_cannot_go_on_says_what_its_gap_is(monkeypatch):
    """Pricing that promises 0.01 too much: no new policy is found, and the gap of 0.01 is no rounding."""
    honest = Planner.price_out

    def promising(*arguments):
        priced = honest(*arguments)
        return priced._replace(best=priced.best + 0.01)

    domain, _ = problem(1)
    monkeypatch.setattr(Planner, "price_out", promising)
    with pytest.raises(NotConverged, match=r"the relative gap is still 0\.01") as caught:
        best_policy(domain, WEIGHTS, no_limits(domain), route="decomposition")
    assert caught.value.residual == pytest.approx(0.01, rel=1e-4)
    # The best answer so far goes with the error, with the gap that is left in the caller's units.
    monkeypatch.undo()
    best, optimum = caught.value.answer, best_policy(domain, WEIGHTS, no_limits(domain))
    largest = np.abs(WEIGHTS * sizes(domain)[: domain.n_reward]).max()
    assert best.value == pytest.approx(optimum.value) and best.gap == pytest.approx(0.01 * largest, rel=1e-4)
    assert WEIGHTS @ expectation(domain, best.policy).reward == pytest.approx(best.value)


def test_a_library_that_fails_in_the_first_round_is_an_error(monkeypatch):
    """There is no mixture yet, so nothing is known up to rounding."""

    def failing(*_):
        raise NotConverged("the library has failed", residual=np.inf, n_steps=1)

    domain, _ = problem(1)
    monkeypatch.setattr(Program, "solve", failing)
    with pytest.raises(NotConverged, match="the library has failed"):
        best_policy(domain, WEIGHTS, no_limits(domain), route="decomposition")


def test_the_price_of_a_policy_includes_the_error_bound_of_its_plan(monkeypatch):
    domain, _ = problem(2)
    price, honest = np.array([1.0, 2.0, -1.0, -0.5, 0.3]), columns.plan_hard
    exact = Planner(domain).price_out(price)
    monkeypatch.setattr(columns, "plan_hard", lambda *a, **k: replace(honest(*a, **k), error_bound=0.25))
    assert Planner(domain).price_out(price).best == pytest.approx(exact.best + 0.25)


@pytest.mark.parametrize("solve", [solve_soft, solve_hard])
def test_the_error_bound_of_a_rough_value_covers_its_error(solve):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(rng, max_states=20)
        reward = rng.normal(size=mdp.n_choices)
        exact = solve(mdp, reward, accuracy=1e-10).value
        for accuracy in (10.0, 1.0, 1e-2, 1e-5):
            solved = solve(mdp, reward, accuracy=accuracy)
            assert np.abs(solved.value - exact).max() <= solved.error_bound + 1e-9
            assert solved.error_bound <= accuracy
            assert solved.residual <= solved.error_bound / mdp.horizon


def test_a_residual_counts_for_the_whole_horizon():
    """One state, reward one, discount 0.99: the value zero has a residual of one and an error of a hundred."""
    bound, ended = _verdict(1.0, np.zeros(1), 100.0, 1e-8, 1.0)
    assert bound == pytest.approx(100.0) and ended is None


def test_policy_iteration_that_cannot_evaluate_says_how_far_off_it_is(monkeypatch):
    """The policy repeats, but the residual remains: that is no convergence, and the bound covers the error."""
    mdp = random_mdp(np.random.default_rng(5), max_states=20)
    reward = np.random.default_rng(6).normal(size=mdp.n_choices)
    exact, evaluated = solve_hard(mdp, reward).value, equations._evaluated
    # Every policy is evaluated with an error of up to 0.01.
    monkeypatch.setattr(equations, "_evaluated", lambda *given: evaluated(*given) + np.linspace(0, 0.01, mdp.n_states))
    plan = equations.plan_hard(mdp, reward, accuracy=1e-8)
    error = np.abs(plan.value - exact).max()
    assert plan.ended is Ended.ROUNDING
    assert plan.error_bound >= error > 1e-3


def test_a_warm_start_that_is_wrong_is_corrected():
    """The certificate is of the value returned, not of the start."""
    mdp = lattice(4, slip=0.1)
    reward = np.arange(16.0)
    right = solve_soft(mdp, reward)
    astray = solve_soft(mdp, reward, start=right.value + np.linspace(0, 1e4, 16))
    assert_allclose(astray.value, right.value, atol=2e-8)
    assert astray.error_bound <= 1e-8


@pytest.mark.parametrize("seed", [216, 222, 251, 257, 260, 261, *range(6)])
def test_limits_in_units_that_differ_by_seven_digits_do_not_loosen_the_bound_on_the_violation(seed):
    """The multiplier of one limit in a small unit has an error; the bound must not lose it on all of forty limits."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, max_states=5, max_choices=3)
    preference = rng.normal(size=(mdp.n_choices, 40)) * 10 ** rng.uniform(-7, 0, 40)
    domain = Domain(mdp, rng.random((mdp.n_choices, 2)), preference)
    limits = preference_limits(domain, 0.0)
    found = least_violation(domain, limits)
    assert found.ended is Ended.CONVERGED
    # To the tolerance that is asked of the linear program.
    assert found.value == pytest.approx(limits.excess(found.expectation.both).sum(), rel=1e-10)
    assert found.gap <= 1e-10 * found.value
