"""Bad input is refused with a message that names the wrong state, choice, row, entry or file."""

import io
import pickle

import numpy as np
import pytest
from scipy import sparse

from tutelage.chains.expectations import (
    Expectation,
    causal_entropy,
    expectation,
    expectation_of_occupancy,
    expected_reward,
    occupancy,
)
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.files import load, load_demonstrations, save, save_demonstrations
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import check_policy, policy_from_occupancy
from tutelage.outcomes import InvalidModel, TutelageError

NAN, INF = np.nan, np.inf
# State 0 offers "go to 1" and "stay", state 1 one even choice.
ROWS = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
GOOD = {"transition": ROWS, "first_choice": [0, 2, 3], "initial": [1.0, 0.0], "discount": 0.9}
MODEL = MDP.from_choices(**GOOD)
DOMAIN = Domain(MODEL, [1.0, 0.0], [0.0, 1.0, 1.0])

MODELS = {
    "row sums to less": ({"transition": [[0, 1], [0.7, 0.2], [0.5, 0.5]]}, r"row 1 of transition sums to 0.9"),
    "row sums to more": ({"transition": [[0, 1], [1, 0], [0.5, 0.6]]}, r"row 2 of transition sums to 1.1"),
    "row of zeros": ({"transition": [[0, 1], [0, 0], [0.5, 0.5]]}, r"row 1 of transition sums to 0"),
    "several rows": ({"transition": [[0, 2], [2, 0], [1, 0]]}, r"row 0 of transition sums to 2.*\(2 rows do not\)"),
    "negative": (
        {"transition": [[0, 1], [1, 0], [-0.5, 1.5]]},
        r"row 2 of transition gives probability -0.5 to state 0",
    ),
    "not a number": ({"transition": [[0, 1], [1, NAN], [0.5, 0.5]]}, r"transition\[1, 1\] is nan"),
    "infinite": ({"transition": [[0, INF], [1, 0], [0.5, 0.5]]}, r"transition\[0, 1\] is inf"),
    "sparse not a number": (
        {"transition": sparse.csr_array([[0, 1], [1, 0], [NAN, 0.5]])},
        r"row 2 of transition gives probability nan to state 0",
    ),
    "complex": ({"transition": np.array(ROWS) + 0j}, r"transition must be an array of numbers, not of complex128"),
    "sparse complex": (
        {"transition": sparse.csr_array(np.array(ROWS) + 0j)},
        r"transition must be a matrix of numbers",
    ),
    "words": ({"transition": [["a", "b"]] * 3}, r"transition must be an array of numbers"),
    "numbers as words": ({"transition": [["0", "1"]] * 3}, r"transition must be an array of numbers"),
    "ragged": (
        {"transition": [[0, 1], [1], [0.5, 0.5]]},
        r"transition must be an array of numbers: its rows have different lengths",
    ),
    "three axes": ({"transition": [ROWS]}, r"transition must have 2 axes, got shape \(1, 3, 2\)"),
    "one axis": ({"transition": [1.0, 0.0]}, r"transition must have 2 axes, got shape \(2,\)"),
    "sparse one axis": ({"transition": sparse.coo_array([1.0, 0.0])}, r"transition must be a matrix of numbers"),
    "nothing": ({"transition": None}, r"transition must have 2 axes|transition must be"),
    "too few rows": ({"transition": ROWS[:2]}, r"first_choice ends at 3, but transition has 2 rows"),
    "too many states": (
        {"transition": [[0, 1, 0], [1, 0, 0], [0, 0, 1]]},
        r"transition leads to 3 states, but first_choice gives choices to 2",
    ),
    "state without choices": ({"first_choice": [0, 3, 3]}, r"state 1 has no choice"),
    "first_choice falls": ({"first_choice": [0, 4, 3]}, r"first_choice must increase.*falls from 4 to 3 at state 1"),
    "first_choice starts late": ({"first_choice": [1, 2, 3]}, r"first_choice must start at 0"),
    "first_choice ends early": ({"first_choice": [0, 1, 2]}, r"first_choice ends at 2, but transition has 3 rows"),
    "first_choice too long": ({"first_choice": [0, 1, 2, 3]}, r"first_choice gives choices to 3"),
    "first_choice too short": ({"first_choice": [0]}, r"first_choice must start at 0 and have one entry per state"),
    "first_choice empty": ({"first_choice": []}, r"first_choice must start at 0"),
    "first_choice fraction": ({"first_choice": [0, 1.5, 3]}, r"first_choice\[1\] is 1.5"),
    "first_choice not a number": ({"first_choice": [0, NAN, 3]}, r"first_choice\[1\] is nan"),
    "first_choice infinite": ({"first_choice": [0, 2, INF]}, r"first_choice\[2\] is inf"),
    "first_choice matrix": ({"first_choice": [[0, 2, 3]]}, r"first_choice must be a vector, got shape \(1, 3\)"),
    "first_choice ragged": ({"first_choice": [[0], [2, 3]]}, r"first_choice must be an array of numbers"),
    "first_choice words": ({"first_choice": ["0", "2", "3"]}, r"first_choice must hold whole numbers"),
    "initial sums to less": ({"initial": [0.5, 0.4]}, r"initial sums to 0.9"),
    "initial negative": ({"initial": [1.5, -0.5]}, r"initial\[1\] is -0.5; a probability cannot be negative"),
    "initial not a number": ({"initial": [1.0, NAN]}, r"initial\[1\] is nan"),
    "initial too long": ({"initial": [1.0, 0.0, 0.0]}, r"initial has 3 entries, but there are 2 states"),
    "initial a number": ({"initial": 1.0}, r"initial must have 1 axis, got shape \(\); give a list of numbers"),
    "initial a name": ({"initial": "new"}, r"initial must be an array of numbers, not of text"),
    "initial a mapping": (
        {"initial": {"new": 1.0}},
        r"initial must be an array of numbers, not a mapping; give a list",
    ),
    "initial ragged": ({"initial": [[1.0], [0.0, 0.0]]}, r"initial must be an array of numbers"),
    "initial empty": ({"initial": []}, r"initial sums to 0"),
    "discount 0": ({"discount": 0}, r"discount must be above 0 and at most 1, got 0"),
    "discount 1": ({"discount": 1}, r"from state 0 no end can be reached"),
    "discount 1.2": ({"discount": 1.2}, r"discount must be above 0 and at most 1, got 1.2"),
    "discount negative": ({"discount": -0.5}, r"discount must be above 0 and at most 1, got -0.5"),
    "discount not a number": ({"discount": NAN}, r"discount must be above 0 and at most 1, got nan"),
    "discount a word": ({"discount": "a"}, r"discount must be a number, got 'a'"),
    "discount nothing": ({"discount": None}, r"discount must be a number, got None"),
    "discount of too few": ({"discount": np.array([0.9, 0.8])}, r"discount has 2 entries, but there are 3 choices"),
}


@pytest.mark.parametrize(("change", "complaint"), MODELS.values(), ids=MODELS.keys())
def test_an_impossible_model_is_refused(change, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        MDP.from_choices(**(GOOD | change))


def _beyond() -> sparse.csr_array:
    return sparse.csr_array((np.ones(2), np.array([0, 700]), np.array([0, 1, 2])), shape=(2, 2))


TABLES = {
    "two axes": (np.eye(2), r"transition must have 3 axes, got shape \(2, 2\)"),
    "not square": (np.ones((2, 1, 3)), r"transition must have shape \(S, A, S\), got \(2, 1, 3\)"),
    "no actions": (np.ones((2, 0, 2)), r"transition must have shape \(S, A, S\)"),
    "no states": (np.ones((0, 1, 0)), r"transition must have shape \(S, A, S\)"),
    "empty list": ([], r"transition must have 3 axes"),
    "one sparse matrix": (sparse.eye_array(2), r"transition must be an array of numbers"),
    "sparse of another shape": (
        [sparse.eye_array(2), sparse.eye_array(3)],
        r"the matrix of action 1 has shape \(3, 3\)",
    ),
    "sparse and a word": ([sparse.eye_array(2), "stay"], r"the matrix of action 1 must be an array of numbers"),
    "sparse row": ([sparse.eye_array(2), 2 * sparse.eye_array(2)], r"row 1 of transition sums to 2"),
    "sparse index beyond": (
        [sparse.eye_array(2), _beyond()],
        r"the matrix of action 1 is not a well-formed sparse matrix",
    ),
}


@pytest.mark.parametrize(("table", "complaint"), TABLES.values(), ids=TABLES.keys())
def test_an_impossible_table_is_refused(table, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        MDP.from_arrays(table, [1.0, 0.0], 0.9)


def test_sparse_indices_beyond_the_matrix_are_refused_before_scipy_follows_them():
    with pytest.raises(InvalidModel, match=r"transition is not a well-formed sparse matrix: it leads to state 700"):
        MDP(_beyond(), np.array([0, 1, 2]), np.array([1.0, 0.0]), 0.9)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_sparse_indices_that_their_type_cannot_hold_are_refused(kind, dtype):
    """The 300 entries wrap around: SciPy itself ends in another error, or in a segmentation fault."""
    matrix = sparse.eye_array(300, format=kind)
    if kind == "coo":
        matrix.coords = tuple(indices.astype(dtype) for indices in matrix.coords)
    else:
        matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
    with pytest.raises(InvalidModel):
        MDP.from_choices(matrix, np.arange(301), np.full(300, 1 / 300), 0.9)
    with pytest.raises(InvalidModel):
        MDP.from_arrays([matrix, matrix], np.full(300, 1 / 300), 0.9)


DOMAINS = {
    "no model": ({"mdp": "grid"}, r"the first argument of a Domain must be an MDP, got str"),
    "no reward feature": ({"reward_features": np.zeros((2, 0))}, r"at least one reward feature"),
    "rows": ({"reward_features": np.ones((4, 2))}, r"reward_features has 4 rows; .*per state \(2\) or .*choice \(3\)"),
    "preference rows": ({"preference_features": np.ones((5, 2))}, r"preference_features has 5 rows"),
    "not a number": ({"reward_features": [[0, 1], [NAN, 0]]}, r"reward_features\[1, 0\] is nan"),
    "infinite": ({"preference_features": [0, 0, -INF]}, r"preference_features\[2, 0\] is -inf"),
    "axes": ({"reward_features": np.ones((2, 1, 1))}, r"reward_features must have 2 axes"),
    "a number": ({"reward_features": 1.0}, r"reward_features must have 2 axes"),
    "ragged": ({"reward_features": [[1], [1, 2]]}, r"reward_features must be an array of numbers"),
    "words": ({"reward_features": ["a", "b"]}, r"reward_features must be an array of numbers"),
    "complex": ({"reward_features": np.array([1j, 0])}, r"reward_features must be an array of numbers"),
    "sparse": ({"reward_features": sparse.eye_array(2)}, r"reward_features must be an array of numbers"),
    "duplicate names": ({"reward_names": ["a", "a"]}, r"2 reward features need 2 different names, got \['a', 'a'\]"),
    "too few names": ({"reward_names": ["a"]}, r"2 reward features need 2 different names"),
    "too many names": ({"preference_names": ["a", "b"]}, r"1 preference features need 1 different names"),
    "one string": ({"reward_names": "ab"}, r"reward_names must be a sequence of names, got the one string 'ab'"),
}


@pytest.mark.parametrize(("change", "complaint"), DOMAINS.values(), ids=DOMAINS.keys())
def test_an_impossible_domain_is_refused(change, complaint):
    good = {"mdp": MODEL, "reward_features": np.eye(2), "preference_features": np.ones(3)}
    with pytest.raises(InvalidModel, match=complaint):
        Domain(**(good | change))


POLICIES = {
    "sums to less": ([0.5, 0.4, 1.0], r"policy sums to 0.9 in state 0"),
    "sums to more": ([0.5, 0.5, 1.1], r"policy sums to 1.1 in state 1"),
    "negative": ([1.5, -0.5, 1.0], r"policy\[1\] is -0.5; a probability cannot be negative"),
    "not a number": ([0.5, NAN, 1.0], r"policy\[1\] is nan"),
    "too short": ([0.5, 0.5], r"policy has 2 entries, but there are 3 choices"),
    "a table": (np.ones((3, 1)), r"policy must have 1 axis, got shape \(3, 1\)"),
    "words": (["a", "b", "c"], r"policy must be an array of numbers"),
    "ragged": ([[1], [1, 2]], r"policy must be an array of numbers"),
    "nothing": (None, r"policy must have 1 axis|policy must be"),
    "empty": ([], r"policy has 0 entries"),
}


@pytest.mark.parametrize(("policy", "complaint"), POLICIES.values(), ids=POLICIES.keys())
def test_a_policy_that_is_none_is_refused_wherever_it_is_given(policy, complaint):
    """Every function that takes a policy makes the same check."""
    for function in (check_policy, occupancy, causal_entropy):
        with pytest.raises(InvalidModel, match=complaint):
            function(MODEL, policy)
    with pytest.raises(InvalidModel, match=complaint):
        expectation(DOMAIN, policy)
    with pytest.raises(InvalidModel, match=complaint):
        sample_demonstrations(MODEL, policy, 3, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("reward", "complaint"),
    [
        (np.ones(4), r"reward has 4 entries; it needs one per state \(2\) or one per choice \(3\)"),
        (np.ones((2, 1)), r"reward must have 1 axis"),
        ([1.0, NAN], r"reward\[1\] is nan"),
        (["a", "b"], r"reward must be an array of numbers"),
    ],
)
def test_a_reward_that_fits_neither_states_nor_choices_is_refused(reward, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        expected_reward(MODEL, [0.5, 0.5, 1.0], reward)


@pytest.mark.parametrize(
    ("visits", "complaint"),
    [
        ([1.0, 2.0], r"occupancy has 2 entries, but there are 3 choices"),
        ([1.0, -2.0, 3.0], r"occupancy\[1\] is -2.0; visits cannot be negative"),
        ([1.0, INF, 3.0], r"occupancy\[1\] is inf"),
    ],
)
def test_visits_that_no_policy_could_make_are_refused(visits, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        policy_from_occupancy(MODEL, visits)


def test_an_expectation_of_visits_of_another_model_is_refused():
    with pytest.raises(InvalidModel, match=r"occupancy has 2 entries, but there are 3 choices"):
        expectation_of_occupancy(DOMAIN, np.ones(2))


def test_an_expectation_is_finite():
    with pytest.raises(InvalidModel, match=r"expectation.preference\[0\] is nan"):
        Expectation(np.zeros(1), np.array([NAN]))


SEQUENCES = {
    "none": ([], None, r"there are no demonstrations"),
    "not a list": (3, None, r"states must be a list of sequences, got int"),
    "a word": ("01", None, r"states must be a list of sequences, got str"),
    "not nested": ([0, 1], None, r"demonstration 0: states must be a vector"),
    "empty": ([[0], []], None, r"demonstration 1 is empty"),
    "state beyond": ([[0], [0, 2]], None, r"demonstration 1, step 1: there is no state 2; states are 0 \.\. 1"),
    "state negative": ([[-1, 0]], None, r"demonstration 0, step 0: there is no state -1"),
    "state fraction": ([[0], [0, 0.5]], None, r"demonstration 1: states\[1\] is 0.5"),
    "state not a number": ([[0, NAN]], None, r"demonstration 0: states\[1\] is nan"),
    "state infinite": ([[0, INF]], None, r"demonstration 0: states\[1\] is inf"),
    "state a word": ([["a"]], None, r"demonstration 0: states must hold whole numbers"),
    "action beyond": ([[0, 1]], [[2]], r"demonstration 0, step 0: state 0 offers actions 0 \.\. 1, not 2"),
    "action negative": ([[0], [0]], [[0], [-1]], r"demonstration 1, step 0: state 0 offers actions 0 \.\. 1, not -1"),
    "action of another state": (
        [[0, 1, 1]],
        [[0, 1]],
        r"demonstration 0, step 1: state 1 offers actions 0 \.\. 0, not 1",
    ),
    "action fraction": ([[0, 1]], [[0.5]], r"demonstration 0: actions\[0\] is 0.5"),
    "impossible move": (
        [[0], [0, 0, 1]],
        [[0], [1, 1]],
        r"demonstration 1, step 1: choice 1 of state 0 never leads to state 1",
    ),
    "too few actions": ([[0, 1, 0]], [[0]], r"demonstration 0 has 3 states and 1 actions; .* or one fewer"),
    "too many actions": ([[0, 1]], [[0, 0, 0]], r"demonstration 0 has 2 states and 3 actions"),
    "sequences differ": ([[0], [1]], [[0]], r"there are 2 sequences of states, but 1 of actions"),
    "no actions": ([[0]], [], r"there are no demonstrations: the list of actions is empty"),
}


@pytest.mark.parametrize(("states", "actions", "complaint"), SEQUENCES.values(), ids=SEQUENCES.keys())
def test_an_impossible_demonstration_is_refused(states, actions, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        Demonstrations.from_sequences(MODEL, states, actions)


def test_a_move_that_no_choice_makes_is_refused_without_actions_too():
    one_way = MDP.from_choices([[0, 1], [0, 1]], [0, 1, 2], [1, 0], 0.9)
    with pytest.raises(InvalidModel, match=r"demonstration 0, step 1: no choice of state 1 leads to state 0"):
        Demonstrations.from_sequences(one_way, [[0, 1, 0]])


def test_counting_the_features_of_another_model_is_refused():
    """Demonstrations have no model of their own; the model whose features are counted must allow them."""
    shown = Demonstrations(np.array([0, 4]), np.array([0, 2]))
    with pytest.raises(InvalidModel, match=r"demonstration 0, step 1: there is no state 4"):
        empirical_expectation(DOMAIN, shown)


def _damaged(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(64) + content[middle + 64 :]


def _array_file(_: bytes) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


FILES = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "damaged": _damaged,
    "pickled": lambda content: pickle.dumps({"states": [0]}),
    "text": lambda content: b'{"states": [0]}',
    "one array": _array_file,
}


@pytest.mark.parametrize("spoil", FILES.values(), ids=FILES.keys())
def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path, spoil):
    path = tmp_path / "spoiled.npz"
    save(DOMAIN, path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InvalidModel, match=r"spoiled\.npz cannot be read as a tutelage domain"):
        load(path)
    save_demonstrations(Demonstrations.from_sequences(MODEL, [[0, 1] * 50]), path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InvalidModel, match=r"spoiled\.npz cannot be read as a tutelage demonstrations"):
        load_demonstrations(path, MODEL)


def test_an_invalid_model_is_both_ours_and_a_value_error():
    """Callers may catch all errors of the package, or ValueError."""
    assert issubclass(InvalidModel, TutelageError)
    assert issubclass(InvalidModel, ValueError)
