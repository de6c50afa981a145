"""Linear systems of chains too large to factorise, against a factorisation; sweeps; blocks of states."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import spsolve
from strategies import build_mdp, random_policy, random_rows

from tutelage import compiling as parallel
from tutelage.bellman.equations import solve_hard
from tutelage.bellman.operators import Compiled
from tutelage.chains import chain as chain_module
from tutelage.chains.chain import chain, resolvent
from tutelage.chains.expectations import occupancy
from tutelage.chains.splitting import Pattern, Split
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import MDP
from tutelage.model.policy import sum_by_state, uniform_policy

N_STATES, DISCOUNT = 2_000, 0.99


def ragged(rng):
    """One to three choices per state, to up to four states anywhere."""
    mdp = build_mdp(rng, rng.integers(1, 4, size=N_STATES), DISCOUNT)
    return chain(mdp, random_policy(rng, mdp))


def periodic(rng):
    """Cycles of 200 states in shuffled order: the chain does not mix, and no order of sweeps helps."""
    order = rng.permutation(N_STATES)
    after = np.roll(order.reshape(-1, 200), 1, axis=1).ravel()
    return sparse.csr_array((np.ones(N_STATES), (order, after)), (N_STATES, N_STATES))


def bipartite(rng):
    """A chain that alternates between two halves: -1 is an eigenvalue as well as 1."""
    there, half = random_rows(rng, N_STATES, N_STATES // 2), N_STATES // 2
    return sparse.csr_array(sparse.block_array([[None, there[:half]], [there[half:], None]]))


def nearly_uncoupled(rng):
    """Twenty communities, left once in ten million steps."""
    size = N_STATES // 20
    inside = sparse.block_diag([random_rows(rng, size, size) for _ in range(20)], format="csr")
    return sparse.csr_array((1 - 1e-7) * inside + 1e-7 * random_rows(rng, N_STATES, N_STATES))


def absorbing(rng):
    """A walk along a line; a third of its states are left with probability 1e-9 only."""
    keep = np.where(rng.random(N_STATES) < 1 / 3, 1 - 1e-9, 0.0)
    on = sparse.diags_array([np.ones(N_STATES - 1)], offsets=[-1], shape=(N_STATES, N_STATES)).tolil()
    on[0, N_STATES - 1] = 1.0
    return sparse.csr_array(sparse.diags_array(keep) + sparse.diags_array(1 - keep) @ on.tocsr())


CHAINS = (ragged, periodic, bipartite, nearly_uncoupled, absorbing)


@pytest.fixture
def never_factorise(monkeypatch):
    monkeypatch.setattr(chain_module, "FACTOR_LIMIT", 0)
    monkeypatch.setattr(chain_module, "factorised", None)


def check_against_factors(step, accuracy=1e-10):
    """Both systems in the norms in which they are verified."""
    system = (sparse.eye_array(N_STATES) - DISCOUNT * step).tocsc()
    rng = np.random.default_rng(1)
    sums, start = rng.normal(size=N_STATES), np.eye(N_STATES)[7]
    inverse = resolvent(DISCOUNT * step, DISCOUNT)
    values, right_values = inverse.values(sums), spsolve(system, sums)
    assert np.abs(values - right_values).max() <= accuracy * np.abs(right_values).max()
    visits, right_visits = inverse.visits(start), spsolve(system.T.tocsc(), start)
    assert np.abs(visits - right_visits).sum() <= accuracy * right_visits.sum()
    slopes = inverse.slopes(np.column_stack([sums, 2 * sums]))
    assert_allclose(slopes[:, 0], right_values, atol=1e-5 * np.abs(right_values).max())
    assert_allclose(slopes[:, 1], 2 * right_values, atol=2e-5 * np.abs(right_values).max())


@pytest.mark.parametrize("build", CHAINS)
def test_a_chain_is_solved_as_exactly_without_factors(build, never_factorise):
    check_against_factors(build(np.random.default_rng(3)))


@pytest.mark.parametrize("build", CHAINS)
def test_sweeps_alone_always_arrive(build, never_factorise, monkeypatch):
    """Sweeps solve the system even where every Krylov step fails."""
    monkeypatch.setattr(Split, "solve", lambda self, right, tolerance, max_steps: 1e3 * right)
    check_against_factors(build(np.random.default_rng(4)))


@pytest.mark.parametrize("build", CHAINS)
def test_blocks_of_states_change_neither_the_answer_nor_with_the_threads_a_single_bit(build, monkeypatch):
    step, right = build(np.random.default_rng(5)), np.random.default_rng(6).normal(size=N_STATES)
    moves, first = DISCOUNT * step, np.arange(N_STATES + 1)
    whole = Pattern(moves, first, in_blocks=True).weighted(np.ones(N_STATES))
    assert len(whole.edges) == 1
    monkeypatch.setattr(parallel, "BLOCKS_ABOVE", 100)
    answers = []
    for n_threads in (1, 3):
        monkeypatch.setattr(parallel, "thread_count", lambda n_threads=n_threads: n_threads)
        parts = Pattern(moves, first, in_blocks=True).weighted(np.ones(N_STATES))
        assert len(parts.edges) == parallel.N_BLOCKS
        answers.append(parts.solve(right, 1e-13, 1_000))
    assert_array_equal(*answers)
    assert np.abs(right + moves @ answers[0] - answers[0]).max() <= 1e-8
    assert_allclose(answers[0], whole.solve(right, 1e-13, 1_000), atol=1e-6)


def test_backups_in_blocks_are_the_same_to_the_last_bit(monkeypatch):
    rng = np.random.default_rng(9)
    mdp = build_mdp(rng, rng.integers(1, 5, size=N_STATES), DISCOUNT)
    reward, value = 30 * rng.normal(size=mdp.n_choices), 100 * rng.normal(size=N_STATES)
    whole, choice = Compiled(mdp, reward), mdp.first_choice[:-1]
    soft, hard = whole.soft_backup(value), whole.hard_backup(value, choice, 0.0)
    monkeypatch.setattr(parallel, "BLOCKS_ABOVE", 100)
    monkeypatch.setattr(parallel, "thread_count", lambda: 3)
    parts = Compiled(mdp, reward)
    for found, right in ((parts.soft_backup(value), soft), (parts.hard_backup(value, choice, 0.0), hard)):
        assert_array_equal(found[0], right[0])
        assert_array_equal(found[1], right[1])


def test_compiled_soft_policies_are_those_of_the_library_exponential():
    """Also where the exponential of a choice's advantage is a subnormal number."""
    rng = np.random.default_rng(10)
    mdp = build_mdp(rng, rng.integers(1, 5, size=N_STATES), DISCOUNT)
    reward = rng.normal(size=mdp.n_choices) * 10.0 ** rng.integers(-3, 4, size=mdp.n_choices)
    value, policy = Compiled(mdp, reward).soft_backup(np.zeros(N_STATES))
    best = np.repeat(np.maximum.reduceat(reward, mdp.first_choice[:-1]), mdp.choices_per_state)
    power = np.exp(reward - best)
    total = sum_by_state(mdp, power)
    assert_allclose(policy, power / np.repeat(total, mdp.choices_per_state), rtol=1e-14, atol=1e-300)
    assert_allclose(value, best[mdp.first_choice[:-1]] + np.log(total), rtol=1e-14, atol=1e-14)


def test_the_visits_of_a_tie_splitting_policy_flow_as_they_must(never_factorise):
    """150x150: visits sum to 1 / (1 - discount), and the flow into a state equals the flow out of it."""
    world = object_world(size=150, seed=0)
    domain = world.domain("L5")
    mdp = domain.mdp
    policy = solve_hard(mdp, domain.reward_features @ world.true_weights).policy
    for shown in (policy, uniform_policy(mdp)):
        visits = occupancy(mdp, shown)
        assert_allclose(visits.sum(), 1 / (1 - mdp.discount), rtol=1e-10)
        entered = mdp.initial + mdp.discount * (mdp.transition.T @ visits)
        assert np.abs(sum_by_state(mdp, visits) - entered).sum() <= 1e-9


def test_a_chain_without_moves_between_states_is_solved_state_by_state(never_factorise):
    mdp = MDP.from_choices(sparse.eye_array(N_STATES), np.arange(N_STATES + 1), np.eye(N_STATES)[0], DISCOUNT)
    assert_allclose(occupancy(mdp, np.ones(N_STATES)), 100 * np.eye(N_STATES)[0], rtol=1e-12)
