"""solve_hard and solve_soft keep their promise: the value is as accurate as they say, on every kind of MDP."""

from dataclasses import replace
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import lattice, log_sum_exp, value_iteration
from scipy import sparse
from scipy.sparse.linalg import spsolve
from strategies import SEEDS, mdps, random_mdp, some_of

from benchmarks.families import family_domain
from tutelage.bellman import equations
from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.chains.expectations import causal_entropy, expected_reward, occupancy
from tutelage.chains.resolvent import discounted_rows
from tutelage.model.mdp import MDP
from tutelage.outcomes import Ended, InvalidModel, NotConverged


@pytest.fixture
def compiled(monkeypatch):
    """The route of large MDPs, on small ones."""
    monkeypatch.setattr(equations, "COMPILED_ABOVE", 0)


def promised(mdp, value):
    """The default accuracy, or 32 roundings of the value over the horizon where that is more."""
    return max(1e-8, 32 * np.finfo(float).eps * max(1, np.abs(value).max()) * mdp.horizon)


@pytest.mark.parametrize("seed", some_of(range(200), range(8)))
def test_soft_value_is_that_of_plain_value_iteration(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    reward = rng.normal(size=mdp.n_choices) * 10 ** rng.uniform(-1, 1.5)
    solved = solve_soft(mdp, reward)
    exact = value_iteration(mdp, reward, log_sum_exp)
    assert_allclose(solved.value, exact, rtol=0, atol=solved.error_bound + 3e-12 * max(1, np.abs(exact).max()))
    assert solved.error_bound <= promised(mdp, exact)


@pytest.mark.parametrize("seed", some_of(range(200), range(8)))
def test_hard_value_is_that_of_plain_value_iteration(seed):
    rng = np.random.default_rng(1000 + seed)
    mdp = random_mdp(rng)
    reward = rng.normal(size=mdp.n_choices)
    solved = solve_hard(mdp, reward)
    exact = value_iteration(mdp, reward, np.max)
    assert_allclose(solved.value, exact, rtol=0, atol=solved.error_bound + 3e-12 * max(1, np.abs(exact).max()))
    assert solved.error_bound <= promised(mdp, exact)


@pytest.mark.parametrize("seed", some_of(range(40), range(15)))
def test_compiled_and_plain_routes_agree(seed, compiled):
    """One algorithm, two sets of loops: large MDPs must not have answers of their own."""
    rng = np.random.default_rng(2000 + seed)
    mdp = random_mdp(rng)
    reward = rng.normal(size=mdp.n_choices) * 5
    for solve, combine in ((solve_soft, log_sum_exp), (solve_hard, np.max)):
        solved = solve(mdp, reward)
        exact = value_iteration(mdp, reward, combine)
        assert_allclose(solved.value, exact, rtol=0, atol=solved.error_bound + 3e-12 * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("seed", some_of(range(200), range(20)))
def test_causal_entropy_is_the_soft_return_less_the_reward(seed):
    """P0 @ V = H(pi) + <w, mu>: the soft value is what the policy earns plus what it leaves open."""
    rng = np.random.default_rng(3000 + seed)
    mdp = random_mdp(rng)
    reward = rng.normal(size=mdp.n_states) * 3
    solved = solve_soft(mdp, reward)
    soft_return = mdp.initial @ solved.value
    entropy = soft_return - expected_reward(mdp, solved.policy, reward)
    allowed = solved.error_bound + 1e-11 * max(1.0, abs(soft_return))
    assert causal_entropy(mdp, solved.policy) == pytest.approx(entropy, abs=allowed)
    assert ((1 - mdp.discount) * occupancy(mdp, solved.policy)).sum() == pytest.approx(1.0, rel=1e-10)


@given(mdps(), SEEDS, st.floats(-3, 4))
def test_soft_value_never_overflows_and_meets_its_bound(mdp, seed, exponent):
    reward = np.random.default_rng(seed).normal(size=mdp.n_choices) * 10**exponent
    solved = solve_soft(mdp, reward)
    assert np.isfinite(solved.value).all()
    assert_allclose(np.add.reduceat(solved.policy, mdp.first_choice[:-1]), 1.0)
    choice_value = reward + mdp.discount * (mdp.transition @ solved.value)
    again = np.array([log_sum_exp(part) for part in np.split(choice_value, mdp.first_choice[1:-1])])
    allowed = solved.error_bound / mdp.horizon
    assert np.abs(again - solved.value).max() <= allowed + 1e-15 * np.abs(again).max()
    assert solved.error_bound <= promised(mdp, solved.value)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("n", [5, 40])
def test_extreme_rewards_on_a_slippery_grid(n, scale):
    """Weights up to 1e4 make the soft policy nearly deterministic; its value stays within log A / (1 - discount)."""
    mdp = lattice(n, slip=0.1)
    reward = scale * np.random.default_rng(0).normal(size=mdp.n_states)
    hard, soft = solve_hard(mdp, reward), solve_soft(mdp, reward)
    slack = soft.error_bound + hard.error_bound
    assert (soft.value >= hard.value - slack).all()
    assert (soft.value <= hard.value + np.log(5) * mdp.horizon + slack).all()


@given(mdps(), SEEDS)
def test_soft_operator_contracts_by_the_discount(mdp, seed):
    rng = np.random.default_rng(seed)
    backups = equations.Operators(mdp, rng.normal(size=mdp.n_choices))
    first, second = rng.normal(size=(2, mdp.n_states)) * 10
    apart = np.abs(backups.soft_backup(first)[0] - backups.soft_backup(second)[0]).max()
    assert apart <= mdp.contraction * np.abs(first - second).max() + 1e-12


def test_a_soft_state_alone_has_the_log_of_its_choices():
    """One state, A choices, reward r: V = (r + log A) / (1 - discount)."""
    mdp = MDP.from_arrays(np.ones((1, 4, 1)), [1.0], 0.9)
    assert solve_soft(mdp, [2.0]).value[0] == pytest.approx((2 + np.log(4)) / 0.1, abs=1e-8)


def test_ties_are_split_evenly():
    """Two equal ways and one worse: the hard policy mixes the two, so that no order of choices is preferred."""
    mdp = MDP.from_arrays(np.ones((1, 3, 1)), [1.0], 0.5)
    assert_allclose(solve_hard(mdp, [1.0, 0.0, 1.0]).policy, [0.5, 0.0, 0.5])


def test_rounding_breaks_no_tie():
    """1.1 + 2.2 exceeds 3.3 by one unit in the last place: they tie, and 3.3 + 1e-6 does not."""
    mdp = MDP.from_arrays(np.ones((1, 3, 1)), [1.0], 0.5)
    solved = solve_hard(mdp, [1.1 + 2.2, 0.0, 3.3])
    assert solved.choice_value[0] > solved.choice_value[2]
    assert_allclose(solved.policy, [0.5, 0.0, 0.5])
    assert_allclose(solve_hard(mdp, [3.3, 3.3 + 1e-6, 0.0]).policy, [0.0, 1.0, 0.0])


@given(mdps(), SEEDS)
def test_hard_policy_earns_the_hard_value(mdp, seed):
    reward = np.random.default_rng(seed).normal(size=mdp.n_choices)
    solved = solve_hard(mdp, reward)
    assert expected_reward(mdp, solved.policy, reward) == pytest.approx(mdp.initial @ solved.value, abs=1e-7)
    assert ((1 - mdp.discount) * occupancy(mdp, solved.policy)).sum() == pytest.approx(1.0)


def test_large_grids_are_solved_to_the_stated_accuracy():
    """Beyond the direct route, soft and hard values still verify: checked by one independent backup."""
    mdp = lattice(60, slip=0.05)
    reward = np.zeros(mdp.n_states)
    reward[[7, 1900, 3100]] = [1.0, 5.0, 0.3]
    for solve, combine in ((solve_soft, log_sum_exp), (solve_hard, np.max)):
        solved = solve(mdp, reward, accuracy=1e-8)
        choice_value = np.repeat(reward, 5) + mdp.discount * (mdp.transition @ solved.value)
        again = np.apply_along_axis(combine, 1, choice_value.reshape(-1, 5))
        assert np.abs(again - solved.value).max() <= 1e-8 / mdp.horizon


def test_running_out_of_steps_is_an_error_not_an_answer(monkeypatch):
    monkeypatch.setattr(equations, "MAX_NEWTON_STEPS", 1)
    mdp = lattice(6, slip=0.2)
    with pytest.raises(NotConverged, match="after 1 ") as caught:
        solve_soft(mdp, np.arange(36.0))
    assert caught.value.residual > 0 and caught.value.n_steps == 1
    monkeypatch.setattr(equations, "STEPS", equations.PolicySteps(most=1))
    with pytest.raises(NotConverged, match="after 1 policy iterations"):
        equations.plan_hard(mdp, np.repeat(np.arange(36.0), 5), accuracy=1e-8)


@pytest.mark.parametrize("accuracy", [0.0, -1.0, float("nan")])
def test_accuracy_must_be_positive(accuracy):
    with pytest.raises(InvalidModel, match="accuracy must be positive"):
        solve_soft(lattice(2), np.zeros(4), accuracy=accuracy)
    with pytest.raises(InvalidModel, match="accuracy must be positive"):
        solve_hard(lattice(2), np.zeros(4), accuracy=accuracy)


def test_an_accuracy_beyond_double_precision_ends_with_the_bound_it_could_verify():
    mdp = lattice(6, discount=0.999)
    solved = solve_soft(mdp, 1e4 * np.arange(36.0), accuracy=1e-15)
    assert solved.ended is Ended.ROUNDING
    assert 1e-15 < solved.error_bound < 1e-10 * np.abs(solved.value).max()


def test_a_warm_start_changes_the_steps_not_the_answer():
    mdp = lattice(8, slip=0.1)
    reward = np.random.default_rng(5).normal(size=64)
    cold = solve_soft(mdp, reward)
    warm = solve_soft(mdp, reward, start=cold.value)
    assert warm.n_steps < cold.n_steps
    assert_allclose(warm.value, cold.value, atol=2e-8)


@pytest.mark.parametrize("discounts", [0.99999, [0.99999, 0.99999, 0.9999, 0.99999]])
def test_a_long_horizon_costs_the_soft_policy_no_digits(discounts):
    """Both choices of each state lead to the same state, so only the difference of their rewards matters.

    The values reach 1e11, and rounding makes 1e-5 of them; the policy is known to 1e-9 all the same.
    """
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    mdp = MDP.from_choices(rows, [0, 2, 4], [1.0, 0.0], discounts)
    more = np.log(3.0)
    solved = solve_soft(mdp, [1e6, 1e6 + more, 1e6, 1e6 + more])
    assert_allclose(solved.policy[:2], [0.25, 0.75], rtol=1e-9)
    assert solved.error_bound >= np.finfo(float).eps * np.abs(solved.value).max()
    if isinstance(discounts, float):
        expected = (1e6 + np.log(4.0)) * mdp.horizon
        assert_allclose(solved.value, expected, rtol=0, atol=solved.error_bound)
        assert_allclose(solved.policy[2:], [0.25, 0.75], rtol=1e-9)


def test_a_price_of_zero_has_the_value_zero():
    """Limits that do not bind have this price. Iterations would halve the value towards zero without end."""
    mdp = family_domain("garnet", 300).mdp
    ones = equations.plan_hard(mdp, np.ones(mdp.n_choices), accuracy=1e-8)
    nothing = equations.plan_hard(mdp, np.zeros(mdp.n_choices), accuracy=1e-320, start=ones)
    assert not nothing.value.any() and nothing.n_steps == 1


@pytest.mark.parametrize("name", ["garnet", "slippery grid", "queue", "roads", "maintenance"])
def test_the_hard_value_is_that_of_its_policy_and_no_choice_is_better(name):
    """However it was found: the Bellman equation has one solution."""
    domain = family_domain(name, 700)
    mdp, reward = domain.mdp, domain.reward_features @ [1.0, 0.9, 0.2]
    found = solve_hard(mdp, reward, accuracy=1e-9)
    plan = equations.plan_hard(mdp, reward[mdp.state_of_choice], accuracy=1e-9)
    moves = discounted_rows(mdp, plan.choice)
    value = spsolve(sparse.csc_array(sparse.eye_array(mdp.n_states) - moves), reward)
    assert_allclose(found.value, value, atol=2e-9)
    ahead = reward[mdp.state_of_choice] + discounted_rows(mdp, np.arange(mdp.n_choices)) @ value
    assert (ahead <= value[mdp.state_of_choice] + 2e-9).all()


def exact_soft_value(mdp, reward):
    """V* in 60 digits, by Newton's method on the soft equation with rows that sum to one exactly."""
    getcontext().prec = 60
    rows = [[Decimal(p) for p in row] for row in mdp.transition.toarray().tolist()]
    rows = [[p / sum(row) for p in row] for row in rows]
    n, discount, gains = mdp.n_states, Decimal(mdp.discount), [Decimal(r) for r in reward.tolist()]
    choices = [range(*mdp.first_choice[s : s + 2]) for s in range(n)]
    value = [Decimal(v) for v in solve_soft(mdp, reward).value.tolist()]
    for _ in range(8):
        ahead = [sum(p * v for p, v in zip(row, value, strict=True)) for row in rows]
        q = [gain + discount * later for gain, later in zip(gains, ahead, strict=True)]
        best = [max(q[c] for c in own) for own in choices]
        sums = [sum((q[c] - top).exp() for c in own) for own, top in zip(choices, best, strict=True)]
        table = []
        for s, own in enumerate(choices):
            share = {c: (q[c] - best[s]).exp() / sums[s] for c in own}
            moves = [discount * sum(share[c] * rows[c][t] for c in own) for t in range(n)]
            table.append([(s == t) - moves[t] for t in range(n)] + [best[s] + sums[s].ln() - value[s]])
        for i in range(n):
            for k in range(n):
                if k != i:
                    factor = table[k][i] / table[i][i]
                    table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
        value = [v + row[-1] / row[i] for i, (v, row) in enumerate(zip(value, table, strict=True))]
    return value


@pytest.mark.parametrize("discount", [0.9, 0.9999, 0.999999, 0.99999999])
def test_the_soft_error_bound_holds_for_rows_that_sum_to_one(discount):
    """Against a solution in 60 digits. The stored rows differ from these by rounding."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mdp = replace(random_mdp(rng, max_states=5, max_choices=3), discount=discount)
        reward = rng.normal(size=mdp.n_choices) * 10 ** rng.uniform(-1, 1.5)
        solved = solve_soft(mdp, reward)
        exact = exact_soft_value(mdp, reward)
        error = max(abs(Decimal(v) - e) for v, e in zip(solved.value.tolist(), exact, strict=True))
        assert error <= Decimal(solved.error_bound)
