"""`tutelage learn`: from a log as in Python, and an impossible step is named by its line.

`tutelage infer` reads what `teach --save` and `save_demonstrations` wrote.
"""

from pathlib import Path

import numpy as np
import pandas
import pytest
from cli_support import printed, shown

import tutelage as tl
from tutelage.cli import main


@pytest.fixture(scope="module")
def taxi(tmp_path_factory):
    """A domain file of Taxi, and a log of 300 episodes as a program would write it."""
    import gymnasium

    folder = tmp_path_factory.mktemp("taxi")
    name = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
    printed("import", "gymnasium", name, "--discount", "0.95", "-o", str(folder / "taxi.npz"))
    env, domain, rng = gymnasium.make(name), tl.load(folder / "taxi.npz"), np.random.default_rng(0)
    policy = tl.solve_soft(domain.mdp, domain.reward_features[:, 0]).policy.reshape(-1, 6)
    lines = ["episode,state,action,next_state,terminated"]
    for episode in range(300):
        state, is_over = env.reset(seed=episode)[0], False
        while not is_over:
            action = int(rng.choice(6, p=policy[state]))
            after, _, terminated, truncated, _ = env.step(action)
            lines.append(f"{episode},{state},{action},{after},{terminated}")
            state, is_over = after, terminated or truncated
    (folder / "log.csv").write_text("\n".join(lines))
    return folder, env, lines


def test_learning_from_a_log_is_that_of_python(taxi):
    folder, env, lines = taxi
    common = ("learn", "--domain", str(folder / "taxi.npz"), "--demonstrations", str(folder / "log.csv"))
    hard = ("--model", "hard", "--preferences", "action_west", "--allowance", "action_west=1", "--weights", "reward=1")
    found = shown(*common, *hard, "--then-teach", "--show", "3", "--instead", str(folder / "instead.jsonl"))
    domain = tl.load(folder / "taxi.npz")
    assert found["demonstrations"] == 300 and found["visits"] == len(lines) - 1 + 300
    rewards, discount = np.zeros(300), 0.95
    for episode, group in pandas.read_csv(folder / "log.csv").groupby("episode"):
        paid = [env.unwrapped.P[s][a][0][2] for s, a in zip(group.state, group.action, strict=True)]
        rewards[episode] = discount ** np.arange(len(paid)) @ paid
    assert found["features"]["reward"]["shown"] == pytest.approx(rewards.mean())
    # Every episode has terminated, so only the standard error is left.
    assert found["features"]["reward"]["uncertainty"] == pytest.approx(rewards.std(ddof=1) / np.sqrt(300))
    assert found["preferences"]["action west"] <= 1 + 1e-6
    assert found["instead"]["reward"] >= found["reward"] - 1e-9
    assert found["instead"]["reward"] <= found["instead"]["bound"] + 1e-9
    assert len(found["shown"]) == 3 and tl.load_demonstrations(folder / "instead.jsonl", domain).n == 3
    text = printed(*common, "--preferences", "action_west", "--model", "soft")
    assert "Demonstrations(300 of" in text and "known to" in text and "It infers the weights: reward" in text


def test_trips_from_other_starts_are_compared_from_there(tmp_path):
    """A domain starts in a, the recorded trips in b: a learner that does the same has nothing left to match."""
    (tmp_path / "roads.csv").write_text("from,to,km\na,b,5\nb,c,1\nb,d,2\nd,c,2\n")
    domain, trips = str(tmp_path / "roads.npz"), tmp_path / "trips.csv"
    trips.write_text("episode,state\n0,b\n0,c\n1,b\n1,d\n1,c\n")
    graph = ("import", "graph", str(tmp_path / "roads.csv"), "--start", "a", "--goal", "c", "--rewards", "km")
    printed(*graph, "--discount", "1", "-o", domain)
    known = shown("learn", "--domain", domain, "--demonstrations", str(trips), "--model", "hard")["features"]["km"]
    assert known["shown"] == pytest.approx(2.5)
    assert known["done"] == pytest.approx(2.5, abs=1e-6)
    text = printed("learn", "--domain", domain, "--demonstrations", str(trips), "--model", "hard")
    assert "begins in other states than the domain" in text


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("0,{0},5,{0},False", "line 8 of bad.csv (episode '0', step 6): "),
        ("0,never,0,{0},False", "line 8 of bad.csv (episode '0', step 6): there is no state 'never'"),
        ("0,{0},hoot,{0},False", "line 8 of bad.csv (episode '0', step 6): state {0} "),
    ],
)
def test_a_log_with_an_impossible_step_is_refused_by_its_line(wrong, sentence, taxi, monkeypatch, capsys):
    """After six true steps, a step that cannot follow, or that nobody can read."""

    folder, _, lines = taxi
    state = lines[7].split(",")[1]
    far = (int(state) + 250) % 500
    row = wrong.format(far if "5," in wrong[4:] else state)
    monkeypatch.chdir(folder)
    Path("bad.csv").write_text("\n".join([*lines[:7], row]))
    monkeypatch.setattr("sys.argv", ["tutelage", "learn", "--domain", "taxi.npz", "--demonstrations", "bad.csv"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2 and "bad.csv" in told
    assert sentence.format(state) in told or ("step 5" in told and "never leads to" in told)


def test_infer_from_rounds_and_from_behaviour(tmp_path):
    """`teach --save` writes what `infer` reads; the intervals contain the truth."""
    rounds, walks = tmp_path / "rounds.npz", tmp_path / "walks.npz"
    place = ["--world", "published:1:6"]
    told = ["--mismatch-penalty", "3", "--violation-penalty", "2", "--teacher", "adaptive-bilevel"]
    shown("teach", *place, *told, "--option", "max_cells=0", "--max-rounds", "1", "--save", str(rounds))
    found = shown("infer", *place, "--rounds", str(rounds))
    low, high = found["mismatch_penalty"]
    assert low <= 3 and (high is None or high >= 3) and found["contradiction"] == ""
    assert "C_r" in printed("infer", *place, "--rounds", str(rounds))
    domain = tl.object_world(size=6, seed=1).domain("L5")
    policy = tl.uniform_policy(domain.mdp)
    tl.save_demonstrations(tl.sample_demonstrations(domain, policy, 30, rng=0), walks)
    behaviour = shown("infer", *place, "--demonstrations", str(walks), "--weights", "0,0,0")
    assert behaviour["n"] == 30 and len(behaviour["preferences"]) == 6
    assert "trajectories" in printed("infer", *place, "--demonstrations", str(walks))
