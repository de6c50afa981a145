"""The resolvent of a chain: each method against a direct solution, and the method for each pattern."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import spsolve
from strategies import (
    CHAIN_DISCOUNT,
    CHAIN_STATES,
    CHAINS,
    absorbing_walk,
    build_mdp,
    periodic,
    ragged,
    random_policy,
    some_of,
)

from benchmarks.families import family_domain
from tutelage.chains.expectations import occupancy
from tutelage.chains.iterations import krylov
from tutelage.chains.resolvent import (
    Resolvent,
    chain,
    choice_resolvent,
    choice_visits,
    components,
    discounted_rows,
    elimination_order,
    factors,
    policy_resolvent,
    typical_method,
)
from tutelage.environments.object_world import object_world
from tutelage.model.mdp import MDP
from tutelage.model.policy import sum_by_state, uniform_policy


def iterated(moves, discount):
    return Resolvent("iterations", krylov(moves, discount))


def check_against_factors(inverse, step, accuracy=1e-10):
    """Both systems in the norms in which they are verified."""
    system = (sparse.eye_array(CHAIN_STATES) - CHAIN_DISCOUNT * step).tocsc()
    rng = np.random.default_rng(1)
    sums, start = rng.normal(size=CHAIN_STATES), np.eye(CHAIN_STATES)[7]
    values, right_values = inverse.values(sums), spsolve(system, sums)
    assert np.abs(values - right_values).max() <= accuracy * np.abs(right_values).max()
    visits, right_visits = inverse.visits(start), spsolve(system.T.tocsc(), start)
    assert np.abs(visits - right_visits).sum() <= accuracy * right_visits.sum()
    rough = inverse.values(np.column_stack([sums, 2 * sums]), accuracy=1e-5)
    assert_allclose(rough[:, 0], right_values, atol=1e-5 * np.abs(right_values).max())
    assert_allclose(rough[:, 1], 2 * right_values, atol=2e-5 * np.abs(right_values).max())
    near = inverse.values(sums, right_values + 0.1 * rng.normal(size=CHAIN_STATES))
    assert np.abs(near - right_values).max() <= accuracy * np.abs(right_values).max()


@pytest.mark.parametrize("build", CHAINS)
def test_a_chain_is_solved_as_exactly_without_factors(build):
    step = build(np.random.default_rng(3))
    check_against_factors(iterated(CHAIN_DISCOUNT * step, CHAIN_DISCOUNT), step)


@pytest.mark.parametrize("build", [periodic, absorbing_walk])
def test_a_chain_is_solved_with_its_states_in_any_order(build):
    step, order = build(np.random.default_rng(3)), np.random.default_rng(4).permutation(CHAIN_STATES)
    check_against_factors(factors(CHAIN_DISCOUNT * step, order), step)


def with_small_components(rng, sizes):
    """Random moves within components of these sizes, and from later components to earlier ones; states shuffled."""
    label = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.zeros((len(label), len(label)))
    for s, own in enumerate(label):
        rows[s, rng.choice(np.flatnonzero(label <= own), 3)] += rng.random(3)
        others = np.flatnonzero(label == own)
        rows[s, others[(np.searchsorted(others, s) + 1) % len(others)]] += 0.5
    order = rng.permutation(len(label))
    return sparse.csr_array((rows / rows.sum(axis=1, keepdims=True))[np.ix_(order, order)])


@pytest.mark.parametrize("width", [1, 3, 8])
def test_a_narrow_band_is_solved_in_the_order_of_the_states(width):
    """Against a dense solution, for a policy of all choices and for one choice per state."""
    rng = np.random.default_rng(width)
    mdp = banded_mdp(rng, 300, width, is_shuffled=False)
    policy = random_policy(rng, mdp)
    choice = mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)
    right = rng.random((300, 3))
    for inverse, step in (
        (policy_resolvent(mdp, policy), chain(mdp, policy)),
        (choice_resolvent(mdp, choice), mdp.transition[choice]),
    ):
        assert inverse.method == "narrow band"
        system = np.eye(300) - mdp.discount * step.toarray()
        assert_allclose(inverse.values(right), np.linalg.solve(system, right), rtol=1e-10)
        assert_allclose(inverse.values(right[:, 0]), np.linalg.solve(system, right[:, 0]), rtol=1e-10)
        assert_allclose(inverse.visits(right[:, 1]), np.linalg.solve(system.T, right[:, 1]), rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_visits_from_one_start_are_those_of_the_whole_chain(seed):
    """Of policies that reach a few states, and of those that reach most."""
    world = object_world(size=20, seed=seed)
    mdp = world.domain("L1").mdp
    choice = mdp.first_choice[:-1] + np.random.default_rng(seed).integers(mdp.choices_per_state)
    assert_allclose(choice_visits(mdp, choice), choice_resolvent(mdp, choice).visits(mdp.initial), rtol=1e-12)
    garnet = family_domain("garnet", 300).mdp
    choice = garnet.first_choice[:-1]
    one_start = replace(garnet, initial=np.eye(300)[0])
    visits = choice_resolvent(garnet, choice).visits(np.eye(300)[0])
    assert_allclose(choice_visits(one_start, choice), visits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", some_of(range(40), range(8)))
def test_components_are_eliminated_one_after_another(seed):
    """Against a dense solution, for one state, small cycles and larger components. SciPy's numbers of components go
    from the last that can be reached to the first."""
    rng = np.random.default_rng(seed)
    step = with_small_components(rng, rng.choice([1, 1, 1, 2, 5, 17], size=40))
    n, moves = step.shape[0], CHAIN_DISCOUNT * step
    inverse = components(moves)
    state = np.repeat(np.arange(n), np.diff(moves.indptr))
    label = csgraph.connected_components(moves, connection="strong")[1]
    assert (label[moves.indices] <= label[state]).all()
    system, right, many = np.eye(n) - moves.toarray(), rng.normal(size=n), rng.normal(size=(n, 4))
    assert_allclose(inverse.values(right), np.linalg.solve(system, right), rtol=1e-9, atol=1e-10)
    assert_allclose(inverse.values(many), np.linalg.solve(system, many), rtol=1e-9, atol=1e-10)
    assert_allclose(inverse.visits(right), np.linalg.solve(system.T, right), rtol=1e-9, atol=1e-10)
    assert (inverse.visits(np.abs(right)) >= 0).all()


def test_a_large_component_is_not_eliminated_densely():
    assert components(CHAIN_DISCOUNT * ragged(np.random.default_rng(0))) is None
    # A cycle of all states: one component.
    after = np.roll(np.arange(CHAIN_STATES), 1)
    assert components(sparse.csr_array((np.full(CHAIN_STATES, 0.9), after, np.arange(CHAIN_STATES + 1)))) is None


@pytest.mark.parametrize(("name", "size"), [("slippery grid", 3_000), ("maintenance", 10_000)])
def test_the_shared_order_of_elimination_gives_the_same_solution(name, size):
    mdp = family_domain(name, size).mdp
    moves = discounted_rows(mdp, mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state))
    order = elimination_order(mdp, False)
    assert_array_equal(np.sort(order), np.arange(mdp.n_states))
    ordered = factors(moves, order)
    system, right = (sparse.eye_array(mdp.n_states) - moves).tocsc(), np.random.default_rng(1).random((mdp.n_states, 3))
    assert_allclose(ordered.values(right), spsolve(system, right), rtol=1e-9, atol=1e-12)
    assert_allclose(ordered.visits(mdp.initial), spsolve(system.T.tocsc(), mdp.initial), rtol=1e-9, atol=1e-15)


def test_each_family_has_the_method_that_suits_it():
    methods = {"garnet": "iterations", "slippery grid": "factors", "queue": "narrow band"}
    methods |= {"roads": "components", "maintenance": "iterations"}
    for name, method in methods.items():
        mdp = family_domain(name, 3_000).mdp
        assert typical_method(mdp) == method
        # With every choice, roads form one component.
        soft = {"roads": "factors"}.get(name, method)
        assert policy_resolvent(mdp, uniform_policy(mdp)).method == soft


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
def test_iterations_agree_with_a_dense_solution(discount):
    rng = np.random.default_rng(7)
    mdp = build_mdp(rng, rng.integers(1, 4, size=550), discount)
    policy, sums = random_policy(rng, mdp), rng.normal(size=(mdp.n_states, 2))
    inverse, system = policy_resolvent(mdp, policy), np.eye(mdp.n_states) - discount * chain(mdp, policy).toarray()
    assert inverse.method == "iterations"
    scale = 1 / (1 - discount)
    assert_allclose(inverse.visits(mdp.initial), np.linalg.solve(system.T, mdp.initial), atol=1e-10 * scale)
    assert_allclose(inverse.values(sums), np.linalg.solve(system, sums), atol=1e-9 * scale)
    assert_array_equal(inverse.values(sums[:, 0]), inverse.values(sums)[:, 0])


@pytest.mark.parametrize("method", ["chosen", "iterations"])
def test_the_visits_of_a_tie_splitting_policy_flow_as_they_must(method):
    """150x150: visits sum to 1 / (1 - discount), and the flow into a state equals the flow out of it."""
    from tutelage.bellman.equations import solve_hard

    world = object_world(size=150, seed=0)
    domain = world.domain("L5")
    mdp = domain.mdp
    policy = solve_hard(mdp, domain.reward_features @ world.true_weights).policy
    for shown in (policy, uniform_policy(mdp)):
        visits = occupancy(mdp, shown)
        if method == "iterations":
            visits = iterated(chain(mdp, mdp.discount * shown), mdp.discount).visits(mdp.initial)
            visits = np.repeat(visits, mdp.choices_per_state) * shown
        assert_allclose(visits.sum(), 1 / (1 - mdp.discount), rtol=1e-10)
        entered = mdp.initial + mdp.discount * (mdp.transition.T @ visits)
        assert np.abs(sum_by_state(mdp, visits) - entered).sum() <= 1e-9


def test_a_chain_without_moves_between_states_is_solved_state_by_state():
    moves, start = CHAIN_DISCOUNT * sparse.eye_array(CHAIN_STATES, format="csr"), np.eye(CHAIN_STATES)[0]
    for inverse in (iterated(moves, CHAIN_DISCOUNT), components(moves)):
        assert_allclose(inverse.visits(start), 100 * start, rtol=1e-12)


def banded_mdp(rng, n_states, width, *, n_discounts=1, is_shuffled=True):
    """One to three choices per state, with next states at most `width` away, before the states are shuffled."""
    n_choices = rng.integers(1, 4, n_states)
    first = np.concatenate([[0], np.cumsum(n_choices)])
    state = np.repeat(np.arange(n_states), n_choices)
    steps = rng.integers(-width, width + 1, (len(state), 3))
    to, chance = np.clip(state[:, None] + steps, 0, n_states - 1), rng.dirichlet(np.ones(3), len(state))
    shuffled = rng.permutation(n_states) if is_shuffled else np.arange(n_states)
    by_state = np.argsort(shuffled[state], kind="stable")
    rows = np.repeat(np.arange(len(state)), 3)
    transition = sparse.csr_array(
        (chance[by_state].ravel(), (rows, shuffled[to[by_state]].ravel())), (len(state), n_states)
    )
    counts = np.empty(n_states, dtype=int)
    counts[shuffled] = n_choices
    first = np.concatenate([[0], np.cumsum(counts)])
    discount = 0.97 if n_discounts == 1 else rng.uniform(0.3, 0.99, len(state))
    return MDP.from_choices(transition, first, np.full(n_states, 1 / n_states), discount)


@pytest.mark.parametrize("seed", some_of(range(60), range(12)))
def test_both_systems_are_solved_for_any_width(seed):
    """Against a dense solve. Narrow bands are found in shuffled states; wide ones are solved otherwise."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(31, 500)), int(rng.choice([1, 4, 12, 100]))
    mdp = banded_mdp(rng, n, min(width, n - 1), n_discounts=1 + seed % 2)
    weights = rng.random(mdp.n_choices)
    policy = weights / np.repeat(np.add.reduceat(weights, mdp.first_choice[:-1]), mdp.choices_per_state)
    system = np.eye(n) - chain(mdp, mdp.discount * policy).toarray()
    right, many = rng.normal(size=n), rng.normal(size=(n, 4))
    choice = mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)
    one_each = np.eye(n) - discounted_rows(mdp, choice).toarray()
    for inverse, matrix in (
        (policy_resolvent(mdp, policy), system),
        (choice_resolvent(mdp, choice), one_each),
    ):
        assert inverse.method == "band" or width > 4
        assert_allclose(inverse.values(right), np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-10)
        assert_allclose(inverse.values(many), np.linalg.solve(matrix, many), rtol=1e-9, atol=1e-10)
        assert (inverse.visits(mdp.initial) >= 0).all() and (inverse.values(np.abs(many)) >= 0).all()
        assert_allclose(inverse.visits(right), np.linalg.solve(matrix.T, right), rtol=1e-9, atol=1e-10)


def test_a_chain_without_a_narrow_band_is_solved_densely():
    """Every state leads to every other: a band as wide as the chain would take more operations than a dense solve."""
    n = 60
    mdp = MDP.from_choices(np.full((n, n), 1 / n), np.arange(n + 1), np.full(n, 1 / n), 0.9)
    assert policy_resolvent(mdp, np.ones(n)).method == "dense"


@pytest.mark.parametrize(("n_states", "n_actions", "share"), [(210, 4, 1.0), (260, 50, 0.3), (300, 3, 0.1)])
def test_dense_chains_are_factorised_densely_and_agree_with_a_sparse_solution(n_states, n_actions, share):
    """Of all transitions 10 to 100 %: policies with one choice, soft ones, and products with the rows."""
    rng = np.random.default_rng(n_states)
    rows = rng.random((n_states * n_actions, n_states)) * (rng.random((n_states * n_actions, n_states)) <= share)
    rows[np.arange(len(rows)), rng.integers(n_states, size=len(rows))] += 1.0
    first = np.arange(0, len(rows) + 1, n_actions)
    mdp = MDP.from_choices(rows / rows.sum(axis=1, keepdims=True), first, np.full(n_states, 1 / n_states), 0.99)
    right, policy = rng.normal(size=(n_states, 3)), random_policy(rng, mdp)
    assert isinstance(mdp.rows, np.ndarray) == (share == 1.0)
    assert_allclose(mdp.rows @ right, mdp.transition @ right, atol=1e-13)
    choice = first[:-1] + rng.integers(n_actions, size=n_states)
    taken = np.zeros(mdp.n_choices)
    taken[choice] = 1.0
    for inverse, weights in ((policy_resolvent(mdp, policy), policy), (choice_resolvent(mdp, choice), taken)):
        assert inverse.method == "dense"
        moves = np.array(
            [weights[first[s] : first[s + 1]] @ mdp.transition[first[s] : first[s + 1]] for s in range(n_states)]
        )
        assert_allclose(chain(mdp, weights).toarray(), moves, atol=1e-14)
        system = np.eye(n_states) - 0.99 * moves
        assert_allclose(inverse.values(right), np.linalg.solve(system, right), rtol=1e-9, atol=1e-9)
        assert_allclose(inverse.visits(mdp.initial), np.linalg.solve(system.T, mdp.initial), rtol=1e-9)
        assert inverse.visits(mdp.initial).min() >= 0
