"""Recorded episodes: through a frame, a CSV file and a Minari dataset, with names, with equal expectations."""

import csv
import re
import warnings

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import random_domain, random_policy

import tutelage as tl
from tutelage.outcomes import InvalidModel

gymnasium = pytest.importorskip("gymnasium")
minari = pytest.importorskip("minari")
EpisodeBuffer = pytest.importorskip("minari.data_collector").EpisodeBuffer

STATES, ACTIONS = ["new", "worn", "broken"], ["run", "service"]
TRANSITION = np.zeros((3, 2, 3))
TRANSITION[:, 0] = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]]
TRANSITION[:, 1] = [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
FIELDS = ("reward", "preference", "reward_bias", "preference_bias", "reward_standard_error")


def machine(states=STATES, actions=ACTIONS):
    mdp = tl.MDP.from_arrays(TRANSITION, [1, 0, 0], 0.9)
    return tl.Domain(mdp, np.eye(3), state_names=states, choice_names=actions)


def same(one, other):
    assert_array_equal(one.states, other.states)
    assert_array_equal(one.offsets, other.offsets)
    assert (one.choices is None) == (other.choices is None)
    if one.choices is not None:
        assert_array_equal(one.choices, other.choices)


def sampled(seed, n=8):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng)
    names = [(f"place {i}", i % 3) if i % 2 else f"place {i}" for i in range(domain.mdp.n_states)]
    domain = tl.Domain(domain.mdp, domain.reward_features, domain.preference_features, state_names=names)
    policy = random_policy(rng, domain.mdp)
    return domain, tl.sample_demonstrations(domain.mdp, policy, n, rng=rng, truncation_bias=300)


@pytest.mark.parametrize("seed", range(10))
def test_a_repeated_row_is_refused_and_alternating_episodes_are_not(seed, tmp_path):
    """A row that was written twice would count as two visits."""
    domain, shown = sampled(seed)
    table = pandas.DataFrame(shown.to_frame())
    rng = np.random.default_rng(seed)
    same(tl.Demonstrations.from_frame(domain, table.sort_values(["step", "episode"])), shown)
    row = int(rng.integers(len(table)))
    twice = pandas.concat([table[: row + 1], table[row:]])
    twice.to_csv(tmp_path / "twice.csv", index=False)
    with pytest.raises(InvalidModel, match=rf"step (\d+) of episode '?{table.episode[row]}'? follows its step \1"):
        tl.load_demonstrations(tmp_path / "twice.csv", domain)
    turned = table[::-1]
    if (table.step > 0).any():
        with pytest.raises(InvalidModel, match="sort the rows by step"):
            tl.Demonstrations.from_frame(domain, turned)
    same(tl.Demonstrations.from_frame(domain, table.assign(step="walked on")), shown)
    with pytest.raises(InvalidModel, match="the columns have different lengths"):
        tl.Demonstrations.from_frame(domain, shown.to_frame() | {"step": []})


@pytest.mark.parametrize("seed", range(10))
def test_a_frame_a_file_and_back(seed, tmp_path):
    domain, shown = sampled(seed)
    same(tl.Demonstrations.from_frame(domain, shown.to_frame()), shown)
    same(tl.Demonstrations.from_frame(domain, pandas.DataFrame(shown.to_frame())), shown)
    path = tmp_path / "shown.csv"
    tl.save_demonstrations(shown, path)
    same(tl.load_demonstrations(path, domain), shown)
    read = pandas.read_csv(path)
    assert list(read.columns) == ["episode", "step", "state", "action"]
    same(tl.Demonstrations.from_frame(domain, read), shown)
    states_only = tl.Demonstrations(shown.states, shown.offsets, mdp=domain.mdp)
    tl.save_demonstrations(states_only, path)
    same(tl.load_demonstrations(path, domain.mdp), states_only)
    steps = [step for trajectory in shown for step in trajectory.steps]
    assert [state for state, _ in steps] == [domain.state_name(state) for state in shown.states]
    assert [action for _, action in steps] == [domain.choice_name(choice) for choice in shown.choices]


def test_rows_of_different_episodes_may_alternate_and_numbers_are_read():
    frame = {"who": ["b", "a", "b", "a"], "at": ["new", 0, "worn", 0.0], "did": ["run", 1, None, float("nan")]}
    read = tl.Demonstrations.from_frame(machine(), frame, episode="who", state="at", action="did")
    same(read, tl.Demonstrations.from_sequences(machine().mdp, [[0, 1], [0, 0]], [[0], [1]]))


def test_whole_numbers_are_names_where_some_name_is_one():
    domain = machine(states=[7, 0, "x"], actions=[1, 0])
    read = tl.Demonstrations.from_frame(domain, {"episode": [1, 1], "state": [7, 0], "action": [1, None]})
    assert read.states.tolist() == [0, 1] and read.choices.tolist() == [0, -1]
    with pytest.raises(InvalidModel, match=re.escape("row 0 (episode 1, step 0): there is no state 1;")):
        tl.Demonstrations.from_frame(domain, {"episode": [1], "state": [1], "action": [None]})


def test_lines_of_json_may_have_names(tmp_path):
    path = tmp_path / "named.jsonl"
    path.write_text('{"states": ["new", "worn", 2], "actions": ["run", 0]}\n{"states": ["new"], "actions": ["run"]}\n')
    same(
        tl.load_demonstrations(path, machine()),
        tl.Demonstrations.from_sequences(machine().mdp, [[0, 1, 2], [0]], [[0, 0], [0]]),
    )
    for line in (
        '{"states": ["worn"], "actions": ["run"], "terminated": true}',
        '{"states": ["worn", 2], "actions": ["run"]}',
    ):
        path.write_text(line)
        same(tl.load_demonstrations(path, machine()), tl.Demonstrations.from_sequences(machine().mdp, [[1, 2]], [[0]]))
    path.write_text('{"states": ["new", "won"]}')
    with pytest.raises(
        InvalidModel, match=r"line 1 of .*\(episode 0, step 1\): there is no state 'won'; did you mean 'worn'"
    ):
        tl.load_demonstrations(path, machine())


def stepped(env, n, max_steps, rng):
    """Episodes as a user logs them: one row per observation, with the action taken there, if any."""
    rows = {"episode": [], "state": [], "action": [], "terminated": [], "truncated": []}
    steps = {"episode": [], "state": [], "action": [], "next_state": [], "terminated": []}
    for episode in range(n):
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        flags = False, False
        for time in range(max_steps + 1):
            action = None if any(flags) or time == max_steps else int(rng.integers(env.action_space.n))
            for column, value in zip(rows, (episode, int(state), action, *flags), strict=True):
                rows[column].append(value)
            if action is None:
                break
            after, _, *flags, _ = env.step(action)
            for column, value in zip(steps, (episode, int(state), action, int(after), flags[0]), strict=True):
                steps[column].append(value)
            state = after
    return rows, steps


ENVIRONMENTS = {"FrozenLake-v1": 8, "CliffWalking-v1": 25, "Taxi-v4": 12}


def taken(name, **options):
    return gymnasium.make(name if name in gymnasium.registry else name.replace("Taxi-v4", "Taxi-v3"), **options)


def near_goal(name, env):
    """The distribution of first states from which random episodes terminate often enough to be tested."""
    if "Taxi" in name:
        inner = env.unwrapped
        inner.initial_state_distrib = np.zeros(500)
        inner.initial_state_distrib[[inner.encode(0, 0, 4, 0), inner.encode(1, 0, 4, 0)]] = 0.5
    if "Cliff" in name:
        inner = env.unwrapped
        inner.initial_state_distrib = np.zeros(48)
        inner.initial_state_distrib[[35, 34]] = 0.5


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_episodes_stepped_in_an_environment_have_equal_expectations_by_every_way(name, tmp_path):
    """The oracle is a sum over the log itself: what terminated adds nothing more, what was truncated is a bias."""
    env, rng = taken(name, max_episode_steps=ENVIRONMENTS[name]), np.random.default_rng(4)
    near_goal(name, env)
    n_states, n_actions, discount = env.observation_space.n, env.action_space.n, 0.9
    features = rng.normal(size=(n_states, n_actions, 2))
    domain = tl.from_gymnasium(env, discount=discount, reward_features=features)
    rows, steps = stepped(env, 40, ENVIRONMENTS[name], rng)
    counts = np.zeros(2)
    times = [steps["episode"][:row].count(episode) for row, episode in enumerate(steps["episode"])]
    for time, state, action in zip(times, steps["state"], steps["action"], strict=True):
        counts += discount**time * features[state, action] / 40
    n_ended = sum(steps["terminated"])
    assert 0 < n_ended < 40
    frame = pandas.DataFrame(rows)
    frame.to_csv(tmp_path / "log.csv", index=False)
    pandas.DataFrame(steps).to_csv(tmp_path / "steps.csv", index=False)
    read = [
        tl.Demonstrations.from_frame(domain, rows),
        tl.Demonstrations.from_frame(domain, frame, terminated="terminated"),
        tl.Demonstrations.from_frame(domain, steps, next_state="next_state", terminated="terminated"),
        tl.load_demonstrations(tmp_path / "log.csv", domain),
        tl.load_demonstrations(tmp_path / "steps.csv", domain.mdp),
    ]
    lasts = tl.empirical_expectation(domain, read[0])
    assert_allclose(lasts.reward, counts, rtol=1e-10)
    assert (read[0].last_states == n_states).sum() == n_ended
    for other in read[1:]:
        same(other, read[0])
    tl.save_demonstrations(read[0], tmp_path / "again.csv")
    same(tl.load_demonstrations(tmp_path / "again.csv", domain), read[0])
    # Without the last observation, the flag alone says that the last action led to the end.
    short = tl.Demonstrations.from_frame(
        domain, {k: v for k, v in steps.items() if k != "next_state"}, terminated="terminated"
    )
    for field in FIELDS:
        assert_allclose(getattr(tl.empirical_expectation(domain, short), field), getattr(lasts, field), rtol=1e-10)


@pytest.mark.parametrize("limit", [4, 100])
def test_a_minari_dataset_has_equal_expectations(limit, tmp_path, monkeypatch):
    """Stored and read by Minari itself; with a limit of 4 steps most episodes are truncated."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=limit)
    rows, steps = stepped(env, 20, limit, np.random.default_rng(1))
    buffers = []
    for episode in range(20):
        at = [row for row, number in enumerate(steps["episode"]) if number == episode]
        seen = [steps["state"][row] for row in at] + [steps["next_state"][at[-1]]]
        is_ended = np.array([steps["terminated"][row] for row in at])
        is_cut = np.append(np.zeros(len(at) - 1, dtype=bool), len(at) == limit)
        actions = np.array([steps["action"][row] for row in at])
        arrays = {"observations": np.array(seen), "actions": actions, "rewards": np.zeros(len(at))}
        buffers.append(EpisodeBuffer(id=episode, terminations=is_ended, truncations=is_cut, **arrays))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari asks for an author, an algorithm and so on.
        dataset = minari.create_dataset_from_buffers("lake/random-v0", buffer=buffers, **spaces)
    domain = tl.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.95)
    read = tl.from_minari(domain, dataset)
    same(read, tl.Demonstrations.from_frame(domain, rows))
    same(tl.from_minari(domain, "lake/random-v0"), read)
    same(tl.from_minari(domain, dataset, state=lambda seen: domain.state_name(int(seen))), read)
    is_cut = read.last_states != 16
    assert is_cut.any() == (limit == 4) and (~is_cut).any()
    bias = tl.empirical_expectation(domain, read).reward_bias
    assert (bias > 0).all() == (limit == 4)
    with pytest.raises(InvalidModel, match="is not a whole number; give state="):
        tl.from_minari(domain, FakeDataset())
    with pytest.raises(InvalidModel, match="iterate_episodes"):
        tl.from_minari(domain, 3)


class FakeDataset:
    """One episode whose observations are pictures."""

    id, actions, terminations = 0, np.array([1]), np.array([True])
    observations = np.zeros((2, 3, 3))

    def iterate_episodes(self):
        return [self]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"state": ["won"]}, {}, "row 0 (episode 'a', step 0): there is no state 'won'; did you mean 'worn'?"),
        ({"state": [3]}, {}, "there is no state 3"),
        ({"state": [["new"]]}, {}, "row 0 (episode 'a', step 0): ['new'] is not hashable, so it is no name"),
        ({"episode": [["a"]]}, {}, "row 0: ['a'] is not hashable"),
        ({"action": ["rn"]}, {}, "(episode 'a', step 0): state 0 ('new') has no action 'rn'; did you mean 'run'?"),
        ({"action": [2]}, {}, "state 0 ('new') has no action 2"),
        (
            {"state": ["new", "broken"], "action": ["run", None]},
            {},
            "row 0 (episode 'a', step 0): choice 0 ('run') of state 0 ('new') never leads to state 2 ('broken')",
        ),
        ({"state": ["new", "worn"], "action": [None, None]}, {}, "row 0 (episode 'a', step 0): the action is missing"),
        ({"state": ["new", "new"]}, {}, "the columns have different lengths"),
        ({"state": [], "action": [], "episode": []}, {}, "the table has no rows"),
        ({"state": "new"}, {}, "the column 'state' must be a list, got 'new'"),
        ({}, {"state": "stat"}, "the table has no column 'stat'; did you mean 'state'"),
        ({"done": ["maybe"]}, {"terminated": "done"}, "terminated must be true or false, got 'maybe'"),
        (
            {"done": [True]},
            {"terminated": "done"},
            "said to terminate, but no absorbing state can follow state 0 ('new')",
        ),
        (
            {"state": ["worn", "broken", "broken"], "action": ["run", "run", None], "done": [1, 0, 0]},
            {"terminated": "done"},
            "row 1 (episode 'a', step 1): the episode goes on after it terminated",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_episode_step_and_names(frame, options, message):
    whole = {"state": ["new"], "action": ["run"]} | frame
    whole.setdefault("episode", ["a"] * max(len(whole["state"]), len(whole["action"])))
    with pytest.raises(InvalidModel, match=re.escape(message)):
        tl.Demonstrations.from_frame(machine(), whole, **options)


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidModel, match="a table must be a mapping of columns, such as a dict, got list"):
        tl.Demonstrations.from_frame(machine(), [1, 2])
    with pytest.raises(InvalidModel, match="have no names, because their MDP is not known"):
        tl.Demonstrations([0, 1], [0, 2]).to_frame()
    with pytest.raises(InvalidModel, match="has no names"):
        _ = tl.Trajectory(np.array([0])).steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("episode,state,action\n1,new,run\n1,broken,\n", "line 2 of {} (episode '1', step 0): choice 0 ('run')"),
        ("episode,state,action\n1,new,run\n\n1,won,\n", "line 4 of {} (episode '1', step 1): there is no state 'won'"),
        ("episode,state,action\n1,new\n", "line 2 of {} has 2 values, but there are 3 columns"),
        ("", "{} is empty"),
        ("episode,state\n", "the table has no rows"),
        ("epsode,state\n1,new\n", "no column 'episode'; did you mean 'epsode'"),
        ('episode,state\n1,"new\n', "{} is not a CSV file in UTF-8 after line 1"),
        ("episode,state\n1,\xff\n", "{} is not a CSV file in UTF-8"),
    ],
)
def test_a_wrong_file_is_refused_by_line(text, message, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidModel, match=re.escape(message.format(path))):
        tl.load_demonstrations(path, machine())


def test_names_with_commas_and_quotes_survive_a_csv_file(tmp_path):
    names = ["row 1, column 2", 'a "quoted" one', "two\nlines"]
    domain = machine(states=names)
    shown = tl.Demonstrations.from_sequences(domain.mdp, [[0, 1, 2]], [[0, 0]])
    tl.save_demonstrations(shown, tmp_path / "odd.csv")
    same(tl.load_demonstrations(tmp_path / "odd.csv", domain), shown)
    with (tmp_path / "odd.csv").open(newline="") as file:
        assert [row["state"] for row in csv.DictReader(file)] == names
