"""Demonstrations in files: both formats return the same demonstrations, and damaged files are refused."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal
from strategies import SEEDS, mdps_with_policy

from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.data.files import load_demonstrations, save, save_demonstrations
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import Labels
from tutelage.outcomes import InvalidModel

LINE = MDP.from_choices([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], [0, 2, 3, 4], [1, 0, 0], 0.9)
SHOWN = Demonstrations.from_sequences(LINE, [[0, 1, 2], [0, 0]], [[0, 0], [1, 1]])


def same(one: Demonstrations, other: Demonstrations) -> bool:
    return (
        np.array_equal(one.states, other.states)
        and np.array_equal(one.offsets, other.offsets)
        and (one.choices is None) == (other.choices is None)
        and (one.choices is None or np.array_equal(one.choices, other.choices))
    )


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
@given(mdp_and_policy=mdps_with_policy(), seed=SEEDS)
def test_samples_come_back(tmp_path_factory, suffix, mdp_and_policy, seed):
    mdp, policy = mdp_and_policy
    sampled = sample_demonstrations(mdp, policy, 5, rng=np.random.default_rng(seed), truncation_bias=1.0)
    path = tmp_path_factory.mktemp("files") / f"sampled{suffix}"
    for demonstrations in (sampled, Demonstrations(sampled.states, sampled.offsets)):
        save_demonstrations(demonstrations, path)
        assert same(load_demonstrations(path, mdp), demonstrations)


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_an_unknown_last_choice_comes_back_unknown(tmp_path, suffix):
    save_demonstrations(SHOWN, tmp_path / f"shown{suffix}")
    again = load_demonstrations(str(tmp_path / f"shown{suffix}"), LINE)
    assert_array_equal(again.choices, [0, 2, UNKNOWN, 1, 1])
    assert same(again, SHOWN)


def test_a_line_is_one_demonstration_that_any_program_can_read(tmp_path):
    save_demonstrations(SHOWN, tmp_path / "shown.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    assert lines == [{"states": [0, 1, 2], "choices": [0, 2]}, {"states": [0, 0], "choices": [1, 1]}]


@given(mdp_and_policy=mdps_with_policy(), seed=SEEDS)
def test_names_come_back_in_a_domain_of_another_order(tmp_path_factory, mdp_and_policy, seed):
    """Numbers would silently mean other states there."""
    mdp, policy = mdp_and_policy
    names = [("cell", number) if number % 2 else f"s{number}" for number in range(mdp.n_states)]
    named = replace(mdp, labels=Labels(mdp.first_choice, names, [f"a{number}" for number in range(mdp.n_choices)]))
    shown = sample_demonstrations(named, policy, 5, rng=seed, truncation_bias=1.0)
    path = tmp_path_factory.mktemp("files") / "named.jsonl"
    save_demonstrations(shown, path)
    assert same(load_demonstrations(path, named), shown)
    again = load_demonstrations(path, _reversed(named))
    assert [each.steps for each in again] == [each.steps for each in shown]


def _reversed(mdp: MDP) -> MDP:
    """The same MDP with its states in the other order."""
    order = np.arange(mdp.n_states)[::-1]
    choices = np.concatenate([np.arange(*mdp.first_choice[state : state + 2]) for state in order])
    first = np.append(0, np.cumsum(np.diff(mdp.first_choice)[order]))
    labels = Labels(first, [mdp.names.states[s] for s in order], [mdp.names.choices[c] for c in choices])
    discount = mdp.discount if isinstance(mdp.discount, float) else mdp.discount[choices]
    rows = mdp.transition.toarray()[np.ix_(choices, order)]
    return MDP(rows, first, mdp.initial[order], discount, labels=labels)


@dataclass(frozen=True)
class Ward:
    side: str


@pytest.mark.parametrize(
    "name", [None, "", Ward("north"), (np.int64(2), 1)], ids=["None", "empty", "dataclass", "tuple"]
)
def test_names_that_json_does_not_have_come_back_too(tmp_path, name):
    mdp = MDP.from_choices([[0, 1.0], [0, 1.0]], [0, 1, 2], [1, 0], 0.9, state_names=[name, "end"])
    shown = Demonstrations.from_sequences(mdp, [[0, 1]], [[0]])
    save_demonstrations(shown, tmp_path / "shown.jsonl")
    assert same(load_demonstrations(tmp_path / "shown.jsonl", mdp), shown)


def test_lines_written_elsewhere_may_number_actions_within_the_state(tmp_path):
    path = tmp_path / "elsewhere.jsonl"
    path.write_text('{"states": [0, 1, 2], "actions": [0, 0]}\n\n{"actions": [1, 1], "states": [0, 0]}')
    assert same(load_demonstrations(path, LINE), SHOWN)


def test_no_truncation_of_an_archive_goes_unnoticed(tmp_path):
    path = tmp_path / "cut.npz"
    save_demonstrations(SHOWN, path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidModel, match=r"cut\.npz cannot be read as a tutelage demonstrations"):
            load_demonstrations(path, LINE)


def test_a_cut_within_a_line_is_noticed_and_the_line_named(tmp_path):
    """A cut exactly between two lines leaves a shorter list, which cannot be distinguished from a complete file."""
    path = tmp_path / "cut.jsonl"
    save_demonstrations(SHOWN, path)
    content = path.read_bytes()
    second = content.index(b"\n") + 1
    for length in range(second + 1, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidModel, match=r"line 2 of .*cut\.jsonl is not JSON"):
            load_demonstrations(path, LINE)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no demonstrations"),
        (b"\n\n", "no demonstrations"),
        (b"[0, 1]\n", "line 1 of .* must be an object"),
        (b'{"actions": [0]}\n', "line 1 of .* must be an object"),
        (b'{"states": [0], "rewards": 1}\n', "line 1 of .* must be an object"),
        (
            b'{"states": [0, 1]}\n{"states": [0, 1], "actions": [0]}\n',
            "mixes kinds of lines; give actions in every line",
        ),
        (b'{"states": [0, 1], "actions": [0], "choices": [0]}\n', "mixes kinds of lines; give actions in every line"),
        (b'{"states": [0, 1], "choices": [2]}\n', "demonstration 0, step 0: state 0 offers choices 0 .. 1, not 2"),
        (
            b'{"states": [0]}\n{"states": [0, 2]}\n',
            r"line 2 of .*episode 1, step 0\): no choice of state 0 leads to state 2",
        ),
        (b'{"states": [0, 3]}\n', r"line 1 of .*episode 0, step 1\): there is no state 3"),
        (b'{"states": []}\n', r"line 1 of .*demonstration 0\) must have a list of at least one state"),
        (b'{"states": [NaN]}\n', r"episode 0, step 0\): the state is missing"),
        (b'{"states": [0.5]}\n', r"episode 0, step 0\): there is no state 0.5"),
        (b'{"states": ["a"]}\n', r"episode 0, step 0\): there is no state 'a'; states are 0 .. 2"),
        (b'{"states": [[0], [1, 2]]}\n', r"episode 0, step 0\): there is no state \(0,\)"),
        (b'{"states": 5, "actions": [1]}\n', "line 1 of .* must have a list of at least one state"),
        (b'{"states": 0}\n', "line 1 of .* must have a list of at least one state"),
        (b'{"states": null}\n', "line 1 of .* must have a list of at least one state"),
        (b'{"states": [1e400]}\n', "there is no state inf"),
        (b'{"states": [123456789012345678901234567890]}\n', "there is no state 123456789012345678901234567890"),
        (b'{"states": [0, 1], "actions": [0, 0, 0]}\n', "line 1 of .* as many actions or one fewer"),
        (b'{"states": [0, 1], "actions": 0}\n', "line 1 of .* as many actions or one fewer"),
        (b'{"states": [0, {}]}\n', "line 1 of .*a name must not be an object"),
        (b'{"states": [' + b"[" * 900 + b"]" * 900 + b"]}\n", "line 1 of .*(is not JSON|there is no state)"),
        (b"[" * 100_000, "line 1 of .* is not JSON"),
        (b"\xff\xfe\n", "line 1 of .* is not JSON"),
    ],
)
def test_lines_that_mean_nothing_are_refused_with_their_place(tmp_path, content, complaint):
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidModel, match=complaint) as caught:
        load_demonstrations(path, LINE)
    assert "wrong.jsonl" in str(caught.value)


def test_demonstrations_of_another_mdp_are_refused(tmp_path):
    smaller = MDP.from_choices([[0, 1], [1, 0]], [0, 1, 2], [1, 0], 0.9)
    for name in ("shown.npz", "shown.jsonl"):
        save_demonstrations(SHOWN, tmp_path / name)
        with pytest.raises(InvalidModel, match=rf"{name} holds no valid demonstrations: demonstration 0, step 2"):
            load_demonstrations(tmp_path / name, smaller)


def test_a_domain_is_not_demonstrations(tmp_path):
    save(Domain(LINE, np.ones(3)), tmp_path / "domain.npz")
    with pytest.raises(InvalidModel, match=r"domain\.npz is not a tutelage demonstrations file.*'tutelage domain'"):
        load_demonstrations(tmp_path / "domain.npz", LINE)


def test_a_pickled_archive_is_refused(tmp_path):
    np.savez(tmp_path / "pickled.npz", states=np.array([None]))
    with pytest.raises(InvalidModel, match=r"pickled\.npz cannot be read"):
        load_demonstrations(tmp_path / "pickled.npz", LINE)


@pytest.mark.parametrize("name", ["shown.txt", "shown", "shown.npz.gz"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(InvalidModel, match=r"must end in \.npz or \.jsonl"):
        save_demonstrations(SHOWN, tmp_path / name)
    with pytest.raises(InvalidModel, match=r"must end in \.npz or \.jsonl"):
        load_demonstrations(tmp_path / name, LINE)


def test_a_missing_file_is_a_file_not_found(tmp_path):
    for name in ("nowhere.npz", "nowhere.jsonl"):
        with pytest.raises(FileNotFoundError):
            load_demonstrations(tmp_path / name, LINE)


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+a", "-b", "@c", "'=d", "''", "\tx", "-3", "plain"])
def test_no_name_is_a_formula_in_a_csv_file_and_every_name_comes_back(tmp_path, name):
    mdp = MDP.from_choices([[0, 1.0], [0, 1.0]], [0, 1, 2], [1, 0], 0.9, state_names=[name, "end"])
    shown = Demonstrations.from_sequences(mdp, [[0, 1]], [[0]])
    save_demonstrations(shown, tmp_path / "shown.csv")
    cell = (tmp_path / "shown.csv").read_text().splitlines()[1].split(",")[2].strip('"')
    assert not cell.startswith(("=", "+", "@", "\t")) and (not cell.startswith("-") or cell == "-3")
    assert_array_equal(load_demonstrations(tmp_path / "shown.csv", mdp).states, shown.states)
