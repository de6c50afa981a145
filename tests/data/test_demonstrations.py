"""Demonstrations from sequences: numbering, indexing and checks. More refusals are in test_bad_input."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from strategies import SEEDS, mdps_with_policy

from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import MDP, Domain, absorbing_states
from tutelage.outcomes import InvalidInput, InvalidModel

# State 0 moves on or stays, state 1 moves to 2 or back, state 2 is absorbing with two choices.
LINE = MDP.from_choices(
    [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 2, 4, 6], [1, 0, 0], 0.9
)


def test_actions_are_numbered_within_the_state():
    demonstrations = Demonstrations.from_sequences(LINE, [[0, 1, 2], [1, 0]], [[0, 0], [1, 1]])
    assert_array_equal(demonstrations.choices, [0, 2, UNKNOWN, 3, 1])
    assert_array_equal(demonstrations.offsets, [0, 3, 5])
    assert [trajectory.states.tolist() for trajectory in demonstrations] == [[0, 1, 2], [1, 0]]
    assert repr(demonstrations) == "Demonstrations(2 of 2 to 3 states and choices)"


def test_a_demonstration_may_start_where_the_initial_distribution_never_does():
    """The initial distribution does not restrict the first state of a demonstration."""
    assert LINE.initial[1] == 0
    assert_array_equal(Demonstrations.from_sequences(LINE, [[1, 2]]).states, [1, 2])


@given(mdps_with_policy(), SEEDS)
def test_sequences_of_a_sample_make_the_sample_again(mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    sampled = sample_demonstrations(mdp, policy, 6, rng=np.random.default_rng(seed), truncation_bias=1.0)
    cuts = sampled.offsets[1:-1]
    actions = np.split(sampled.choices - mdp.first_choice[sampled.states], cuts)
    again = Demonstrations.from_sequences(mdp, np.split(sampled.states, cuts), actions)
    assert_array_equal(again.states, sampled.states)
    assert_array_equal(again.choices, sampled.choices)
    assert_array_equal(again.offsets, sampled.offsets)


@given(mdps_with_policy(), SEEDS)
def test_taking_some_is_splitting_and_picking(mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    rng = np.random.default_rng(seed)
    sampled = sample_demonstrations(mdp, policy, 6, rng=rng, truncation_bias=1.0)
    numbers = rng.integers(6, size=rng.integers(1, 9))
    taken = sampled.take(numbers).checked_against(mdp)
    cuts = sampled.offsets[1:-1]
    assert_array_equal(taken.lengths, sampled.lengths[numbers])
    assert_array_equal(taken.states, np.concatenate([np.split(sampled.states, cuts)[i] for i in numbers]))
    assert_array_equal(taken.choices, np.concatenate([np.split(sampled.choices, cuts)[i] for i in numbers]))


@given(mdps_with_policy(), SEEDS)
def test_demonstrations_are_a_sequence_of_trajectories(mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    sampled = sample_demonstrations(mdp, policy, 6, rng=seed, truncation_bias=1.0)
    cuts = sampled.offsets[1:-1]
    parts = list(zip(np.split(sampled.states, cuts), np.split(sampled.choices, cuts), strict=True))
    assert len(sampled) == len(list(sampled)) == 6
    for number, (trajectory, (states, choices)) in enumerate(zip(sampled, parts, strict=True)):
        for same in (trajectory, sampled[number], sampled[number - 6]):
            assert_array_equal(same.states, states)
            assert_array_equal(same.choices, choices)
            assert len(same) == len(states)
    some = sampled[4:0:-2]
    assert isinstance(some, Demonstrations)
    assert_array_equal(some.states, sampled.take([4, 2]).states)


def test_indexing_keeps_to_what_is_there():
    states_only = Demonstrations.from_sequences(LINE, [[0, 1, 2], [1, 0]])
    assert states_only[-1].choices is None and states_only[1:].choices is None
    for number in (2, -3):
        with pytest.raises(IndexError, match=rf"there is no demonstration {number}; they are 0 \.\. 1"):
            states_only[number]
    with pytest.raises(InvalidModel, match="there are no demonstrations"):
        states_only[2:]


def test_taking_keeps_unknown_choices_unknown_and_refuses_what_is_not_there():
    states_only = Demonstrations.from_sequences(LINE, [[0, 1, 2], [1, 0]])
    assert states_only.take([1]).choices is None
    known = Demonstrations.from_sequences(LINE, [[0, 1, 2], [1, 0]], [[0, 0], [1, 1]])
    assert_array_equal(known.take([1, 0]).choices, [3, 1, 0, 2, UNKNOWN])
    with pytest.raises(InvalidModel, match=r"there is no demonstration 2; they are 0 \.\. 1"):
        known.take([0, 2])
    with pytest.raises(InvalidModel, match="there is no demonstration -1"):
        known.take([-1])
    with pytest.raises(InvalidModel, match="there are no demonstrations"):
        known.take([])


def test_absorbing_means_that_no_choice_leads_away():
    mdp = MDP.from_choices([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 1, 3, 5], [1, 0, 0], 0.9)
    assert_array_equal(absorbing_states(mdp), [True, False, True])


RAW = {
    "choice of another state": (
        ([0, 1], [0, 2], [2, 2]),
        r"demonstration 0, step 0: state 0 offers choices 0 \.\. 1, not 2",
    ),
    "choice beyond": (([0, 1], [0, 2], [0, 9]), r"demonstration 0, step 1: state 1 offers choices 2 \.\. 3, not 9"),
    "choice below": (([0, 1], [0, 2], [0, -7]), r"demonstration 0, step 1: state 1 offers choices 2 \.\. 3, not -7"),
    "unknown within": (([0, 1], [0, 2], [UNKNOWN, 2]), r"demonstration 0, step 0: the choice is unknown"),
    "choices too short": (([0, 1], [0, 2], [0]), r"choices has 1 entries, but there are 2 visited states"),
    "offsets start": (([0, 1], [1, 2], None), r"offsets must run from 0 to 2"),
    "offsets end": (([0, 1], [0, 3], None), r"offsets must run from 0 to 2"),
    "offsets fall": (([0, 1], [0, 2, 1, 2], None), r"demonstration 1 is empty"),
    "no trajectories": (([], [0], None), r"there are no demonstrations"),
}


@pytest.mark.parametrize(("parts", "complaint"), RAW.values(), ids=RAW.keys())
def test_parts_that_do_not_fit_together_are_refused(parts, complaint):
    with pytest.raises(InvalidModel, match=complaint):
        Demonstrations(*parts).checked_against(LINE)


def test_concatenated_demonstrations_are_those_of_all_parts():
    parts = [sample_demonstrations(LINE, [0.5, 0.5, 0.5, 0.5, 1, 0], n, rng=n) for n in (2, 3)]
    joined = Demonstrations.concatenate(parts)
    assert joined.n == 5 and joined.mdp is LINE
    for trajectory, part in zip(joined, [*parts[0], *parts[1]], strict=True):
        assert_array_equal(trajectory.states, part.states)
        assert_array_equal(trajectory.choices, part.choices)
    bare = Demonstrations.from_sequences(LINE, [[0, 1]])
    assert Demonstrations.concatenate([parts[0], bare]).choices is None
    with pytest.raises(InvalidInput, match="nothing to concatenate"):
        Demonstrations.concatenate([])


def test_demonstrations_of_one_visit_each_have_no_step_to_explain():
    """Only states are known, and no step leads from one to the next. State 1 is absorbing, and counts for ever."""
    mdp = MDP.from_choices([[0.5, 0.5], [0, 1]], [0, 1, 2], [1, 0], 0.9)
    seen = empirical_expectation(Domain(mdp, np.eye(2)), Demonstrations([0, 1], [0, 1, 2]))
    assert_allclose(seen.reward, [0.5, 5.0])
