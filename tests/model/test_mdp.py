"""The model: three constructors give the same MDP, and an MDP cannot be changed."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from strategies import SEEDS, domains, mdps, random_mdp

import tutelage as tl
from tutelage.arrays import distribution, integers, stochastic_rows, sum_tolerance
from tutelage.model.mdp import MDP, Domain, choice_reward, per_choice
from tutelage.outcomes import InvalidInput, InvalidModel


def same_arrays(one: MDP, other: MDP) -> bool:
    """Whether two MDPs are equal bit for bit."""
    pairs = (
        (one.transition.data, other.transition.data),
        (one.transition.indices, other.transition.indices),
        (one.transition.indptr, other.transition.indptr),
        (one.first_choice, other.first_choice),
        (one.initial, other.initial),
        (np.array(one.discount), np.array(other.discount)),
    )
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def random_table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A dense (S, A, S) transition table with zeros in it, and an initial distribution."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = rng.integers(1, 8, size=2)
    weights = rng.random((n_states, n_actions, n_states)) * (rng.random((n_states, n_actions, n_states)) < 0.6)
    weights[:, :, 0] += 0.1
    return weights / weights.sum(axis=2, keepdims=True), rng.dirichlet(np.ones(n_states))


@given(SEEDS)
def test_dense_table_sparse_matrices_and_choices_make_the_same_mdp(seed):
    table, initial = random_table(seed)
    n_states, n_actions, _ = table.shape
    dense = MDP.from_arrays(table, initial, 0.9)
    by_action = MDP.from_arrays([sparse.csc_array(table[:, a]) for a in range(n_actions)], initial, 0.9)
    first_choice = np.arange(0, n_states * n_actions + 1, n_actions)
    by_choice = MDP.from_choices(table.reshape(-1, n_states), first_choice, initial, 0.9)
    assert same_arrays(dense, by_action)
    assert same_arrays(dense, by_choice)


@given(SEEDS)
def test_choice_of_action_a_in_state_s_is_row_s_times_n_actions_plus_a(seed):
    table, initial = random_table(seed)
    mdp = MDP.from_arrays(table, initial, 0.9)
    for state in range(table.shape[0]):
        for action in range(table.shape[1]):
            row = mdp.transition[[mdp.first_choice[state] + action]].toarray()[0]
            assert_allclose(row, table[state, action], rtol=1e-15)


@given(mdps())
def test_every_array_is_read_only(mdp):
    """Teacher, learner and solvers share the arrays, so none of them may change them."""
    rows = mdp.transition
    for array in (rows.data, rows.indices, rows.indptr, mdp.first_choice, mdp.initial):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_the_caller_keeps_arrays_that_remain_writeable_and_apart():
    """The model keeps a copy: later changes of the caller's arrays do not affect it."""
    initial = np.array([1.0, 0.0])
    rows = sparse.csr_array(np.eye(2))
    mdp = MDP.from_choices(rows, [0, 1, 2], initial, 0.9)
    initial[:] = 0.5
    rows.data[:] = 7.0
    assert_array_equal(mdp.initial, [1.0, 0.0])
    assert_array_equal(mdp.transition.toarray(), np.eye(2))


def test_fields_cannot_be_set():
    mdp = random_mdp(np.random.default_rng(0))
    with pytest.raises(AttributeError):
        mdp.discount = 0.5


@given(mdps())
def test_building_an_mdp_from_its_own_parts_changes_no_bit(mdp):
    """A second renormalisation changes nothing; otherwise saving and loading would change a model."""
    assert same_arrays(mdp, MDP(mdp.transition, mdp.first_choice, mdp.initial, mdp.discount))


@given(SEEDS)
def test_a_distribution_is_settled_after_one_pass(seed):
    rng = np.random.default_rng(seed)
    once = distribution(rng.dirichlet(np.ones(rng.integers(1, 2000))).astype(np.float32), "initial")
    assert_array_equal(distribution(once, "initial"), once)
    assert abs(once.sum() - 1) <= 1e-15 * len(once)


def test_single_precision_rows_are_accepted_and_renormalised():
    rows = np.random.default_rng(1).dirichlet(np.ones(300), size=4).astype(np.float32)
    assert np.abs(rows.astype(np.float64).sum(axis=1) - 1).max() < sum_tolerance(300)
    assert_allclose(stochastic_rows(rows, "transition").sum(axis=1), 1.0, atol=1e-14)


def test_duplicate_entries_add_up_and_stored_zeros_vanish():
    """Sparse input may have both; afterwards exactly the stored entries are positive."""
    duplicated = sparse.coo_array(([0.5, 0.5, 0.0, 1.0], ([0, 0, 0, 1], [1, 1, 0, 0])), shape=(2, 2))
    mdp = MDP.from_choices(duplicated, [0, 1, 2], [1, 0], 0.9)
    assert_array_equal(mdp.transition.toarray(), [[0, 1], [1, 0]])
    assert mdp.transition.nnz == 2


@given(mdps())
def test_state_of_choice_inverts_first_choice(mdp):
    for state in range(mdp.n_states):
        assert (mdp.state_of_choice[mdp.first_choice[state] : mdp.first_choice[state + 1]] == state).all()
    assert mdp.choices_per_state.sum() == mdp.n_choices == len(mdp.state_of_choice)


@given(mdps())
def test_values_on_states_spread_to_their_choices(mdp):
    assert_array_equal(per_choice(mdp, np.arange(float(mdp.n_states))), mdp.state_of_choice)
    assert_array_equal(choice_reward(mdp, np.arange(mdp.n_states)), mdp.state_of_choice)
    on_choices = np.arange(float(mdp.n_choices))
    assert_array_equal(choice_reward(mdp, on_choices), on_choices)


def test_whole_numbers_may_come_as_floats():
    whole = integers([0.0, 2.0, 5.0], "first_choice")
    assert whole.dtype == np.int64
    assert_array_equal(whole, [0, 2, 5])


@given(domains())
def test_a_domain_names_and_counts_its_columns(domain):
    assert domain.n_reward == domain.reward_features.shape[1]
    assert domain.n_preference == domain.preference_features.shape[1]
    assert len(set(domain.names)) == domain.n_reward + domain.n_preference
    assert not domain.reward_features.flags.writeable
    assert not domain.preference_features.flags.writeable


def test_a_vector_of_features_is_one_column_and_no_preferences_is_the_default():
    mdp = random_mdp(np.random.default_rng(2))
    domain = Domain(mdp, np.ones(mdp.n_states))
    assert domain.reward_features.shape == (mdp.n_states, 1)
    assert domain.preference_features.shape == (mdp.n_states, 0)
    assert domain.names == ("reward 0",)
    assert Domain(mdp, np.ones(mdp.n_states), np.zeros((7, 0))).preference_features.shape == (mdp.n_states, 0)


def test_a_table_of_states_and_actions_is_read_as_its_names_or_its_shape_say():
    """Three states with two actions each: (3, 2) could be two features of states, or one of choices."""
    mdp = MDP.from_arrays(np.full((3, 2, 3), 1 / 3), np.full(3, 1 / 3), 0.9)
    table = np.arange(6.0).reshape(3, 2)
    expected = r"_features has shape \(3, 2\), which may mean 2 features .* give 2 {}_names .* or shape \(3, 2, 1\)"
    for names in ((), ["fuel"]):
        with pytest.raises(InvalidModel, match="reward" + expected.format("reward")):
            Domain(mdp, table, reward_names=names)
        with pytest.raises(InvalidModel, match="preference" + expected.format("preference")):
            Domain(mdp, np.ones(3), table, preference_names=names)
    assert_array_equal(Domain(mdp, table, reward_names=["a", "b"]).reward_features, table)
    assert_array_equal(Domain(mdp, table[:, :, None], table[:, :, None]).preference_features, table.reshape(6, 1))
    both = np.stack([table, -table], axis=2)
    assert_array_equal(Domain(mdp, both).reward_features[3], both[1, 1])


def test_a_matrix_that_can_mean_only_one_thing_needs_no_names():
    ragged = MDP.from_choices([[0, 1], [1, 0], [0.5, 0.5]], [0, 2, 3], [1, 0], 0.9)
    assert Domain(ragged, np.eye(2)).n_reward == 2
    with pytest.raises(InvalidModel, match=r"reward_features must have 2 axes, got shape \(2, 2, 1\)"):
        Domain(ragged, np.ones((2, 2, 1)))
    one_action = MDP.from_arrays(np.eye(3)[:, None], np.full(3, 1 / 3), 0.9)
    assert Domain(one_action, np.ones((3, 1))).n_reward == 1
    two_actions = MDP.from_arrays(np.full((3, 2, 3), 1 / 3), np.full(3, 1 / 3), 0.9)
    assert Domain(two_actions, np.ones((3, 3))).n_reward == 3
    assert Domain(two_actions, np.ones((6, 2))).n_reward == 2


def test_representations_say_what_there_is():
    mdp = MDP.from_choices([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], [0, 1, 3], [1, 0], 0.9)
    assert repr(mdp) == "MDP(2 states, 3 choices, discount 0.9)"
    domain = Domain(mdp, [1, 2], [[1], [0]], ["star"], ["green"])
    assert repr(domain) == f"Domain({mdp}, reward ['star'], preferences ['green'])"


def test_arrays_stay_read_only_when_a_domain_is_pickled_or_copied():
    """A worker process that changed them would compute with another model than it was given."""
    domain = Domain(
        MDP.from_choices(np.eye(2), [0, 1, 2], [1, 0], [0.9, 0.8]), np.ones((2, 1)), positions=np.ones((2, 2))
    )
    for again in (pickle.loads(pickle.dumps(domain)), copy.copy(domain), copy.deepcopy(domain)):
        mdp = again.mdp
        parts = [mdp.transition.data, mdp.transition.indices, mdp.transition.indptr, mdp.first_choice, mdp.initial]
        parts += [mdp.discount, mdp.goals, again.reward_features, again.preference_features, again.positions]
        assert not any(part.flags.writeable for part in parts)


def test_arrays_of_arrivals_and_of_results_stay_read_only_when_they_are_pickled_or_copied():
    domain = Domain(MDP.from_choices([[0.5, 0.5], [1, 0]], [0, 1, 2], [1, 0], 0.9), np.ones((2, 1)))
    domain = domain.with_features(preference={"far": lambda state, choice, after: float(after)})
    ((_, arrivals),) = domain.arrivals("preference")
    assert not arrivals.data.flags.writeable
    optimum = tl.best_policy(domain, [1.0], tl.preference_limits(domain, 100.0))
    for again in (pickle.loads(pickle.dumps(domain)), copy.copy(domain), copy.deepcopy(domain)):
        ((_, arrivals),) = again.arrivals("preference")
        assert not any(part.flags.writeable for part in (arrivals.data, arrivals.indices, arrivals.indptr))
    for again in (pickle.loads(pickle.dumps(optimum)), copy.deepcopy(optimum)):
        assert not again.policy.flags.writeable and not again.expectation.reward.flags.writeable


def test_an_mdp_starts_in_a_named_state_or_by_a_distribution():
    mdp = MDP.from_arrays(np.full((3, 2, 3), 1 / 3), [1, 0, 0], 0.9, state_names=["a", "b", (1, 2)])
    assert mdp.starting_in("b").initial.tolist() == [0, 1, 0]
    assert mdp.starting_in((1, 2)).initial.tolist() == mdp.starting_in(2).initial.tolist() == [0, 0, 1]
    with pytest.raises(InvalidInput, match="there is no state 3"):
        mdp.starting_in(3)
    assert mdp.starting_in([0.5, 0.5, 0]).initial.tolist() == [0.5, 0.5, 0]
    assert mdp.initial.tolist() == [1, 0, 0] and not mdp.starting_in("b").initial.flags.writeable
    domain = Domain(mdp, [1.0, 2.0, 3.0])
    assert domain.starting_in("b").mdp.initial.tolist() == [0, 1, 0] and domain.starting_in("b").state("a") == 0
    with pytest.raises(InvalidInput, match="there is no state 'c'"):
        mdp.starting_in("c")
    with pytest.raises(InvalidModel, match="the start has 2 entries, but there are 3 states"):
        mdp.starting_in([0.5, 0.5])
