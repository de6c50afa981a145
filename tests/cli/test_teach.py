"""`tutelage teach`: the same as in Python, shown by name, kept in files and drawn.

`tutelage learn`: from a log as in Python, and an impossible step is named by its line. `tutelage infer` reads what
`teach --save` and `save_demonstrations` wrote.
"""

from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
from cli_support import printed, refusal, shown
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli import main
from tutelage.cli.app import make_app
from tutelage.cli.subject import read_weights

TEACH = ("teach", "--world", "published:0:8", "--learner", "L2")


def test_teaching_by_the_command_line_is_teaching_in_python():
    found = shown(*TEACH, "--teacher", "bilevel", "--mismatch-penalty", "5", "--violation-penalty", "10")
    world = tl.object_world(size=8, seed=0)
    domain = world.domain("L2")
    plan = tl.BilevelTeacher(
        domain, world.true_weights, tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    ).plan()
    assert found["reward"] == pytest.approx(plan.achieved, abs=1e-9)
    assert found["bound"] == pytest.approx(plan.bound, abs=1e-9)
    assert len(found["learned_weights"]) == 3 + 2 and found["certificate"]["ended"] == "CONVERGED"
    assert found["rounds"][0]["lesson"] == pytest.approx(plan.lesson.expectation.tolist())


def test_rounds_are_kept_in_a_file_and_the_picture_is_drawn(tmp_path):
    kept, drawn = tmp_path / "rounds.npz", tmp_path / "taught"
    options = ("--model", "hard", "--allowance", "2.5", "--teacher", "volume-search")
    found = shown(*TEACH, *options, "--save", str(kept), "--picture", str(drawn))
    again = tl.load_transcript(kept, tl.object_world(size=8, seed=0).domain("L2"))
    assert [taught.response_reward for taught in again.rounds] == [taught["reward"] for taught in found["rounds"]]
    assert found["files"] == [f"{drawn}.png", f"{drawn}.svg"] and drawn.with_suffix(".png").exists()


def test_a_picture_named_with_its_suffix_has_one_suffix(tmp_path):
    """Also where several pictures are made of one name; folders are made, as they are for every file."""
    options = ("--model", "hard", "--allowance", "2.5", "--teacher", "aware-cmdp", "--plane", "star,plus")
    found = shown(
        *TEACH, *options, "--picture", str(tmp_path / "new" / "p.png"), "--save", str(tmp_path / "a" / "b.npz")
    )
    names = ["p-plane.png", "p-plane.svg", "p.png", "p.svg"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    assert sorted(Path(path).name for path in found["files"]) == names and (tmp_path / "a" / "b.npz").exists()


def test_a_file_of_demonstrations_of_another_format_is_refused_with_all_that_there_are(tmp_path):
    with pytest.raises(tl.InvalidInput, match=r"\.csv or \.jsonl or \.geojson or \.gpx"):
        printed(*TEACH, "--teacher", "agnostic", "--demonstrations", str(tmp_path / "d.xyz"))


def test_a_domain_from_a_file_is_taught(tmp_path):
    """L1 has no preference; without a name the learner has every preference of the domain."""
    domain = tl.object_world(size=8, seed=0).domain("L3")
    tl.save(domain, tmp_path / "own.npz")
    common = ("teach", "--domain", str(tmp_path / "own.npz"), "--weights", "1,0.9,0.2", "--model", "hard")
    careful = shown(*common, "--teacher", "aware-cmdp", "--allowance", "1")
    careless = shown(*common, "--teacher", "agnostic", "--learner", "L1")
    best = tl.best_policy(domain, np.array([1, 0.9, 0.2]), tl.preference_limits(domain, 1.0))
    assert careful["reward"] == pytest.approx(best.value, abs=1e-6)
    assert careless["reward"] > careful["reward"]
    assert list(careful["preference_expectation"]) == list(domain.preference_names)


def test_a_journey_is_taught_with_limits_by_name_and_its_arrival_is_printed(tmp_path):
    """Two ways to work, 5 km on main roads or 8 km on others, and a block to go round."""

    roads = networkx.DiGraph()
    for road, km, main_km in ((("home", "home 2"), 0.1, 0), (("home 2", "home"), 0.1, 0), (("home", "work"), 5, 5)):
        roads.add_edge(*road, km=km, main_km=main_km)
    roads.add_edge("home 2", "work", km=8, main_km=0)
    own = tmp_path / "roads.npz"
    attributes = {"reward_attributes": ["km"], "preference_attributes": ["main_km", "km"]}
    tl.save(tl.from_graph(roads, start="home", goals=["work"], discount=0.999, duration="km", **attributes), own)
    common = ("teach", "--domain", str(own), "--weights=-1,0", "--model", "hard", "--teacher", "aware-cmdp")
    found = shown(*common, "--allowance", "main_km=0.2%,km=1%")
    # The total is -1 / log 0.999 = 999.5 km: at most 2.0 km of main roads, so 0.4 of the trips take them.
    share = -0.002 / np.log(0.999) / 5
    assert found["arrival"]["probability"] == 1.0
    assert found["arrival"]["duration"] == pytest.approx(5 * share + 8.1 * (1 - share), rel=1e-4)
    assert "The learner arrives with probability 1" in printed(*common, "--allowance", "main_km=2,km=10")
    assert "The learner never arrives" in printed(*common, "--allowance", "main_km=2,km=1e6", "--weights=1,0")
    wrong = CliRunner().invoke(make_app(), [*common, "--allowance", "main=2"])
    assert "did you mean" in str(wrong.exception) and "main_km" in str(wrong.exception)


def test_the_text_has_the_rounds_the_preferences_and_the_certificate():
    text = printed(*TEACH, "--model", "hard", "--allowance", "2.5", "--teacher", "aware-cmdp")
    for part in ("the best policy that keeps the learner's preferences", "Its preferences,", "Certificate:"):
        assert part in text


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("roads.npz", ("--weights", "km=-1,at_goal=1", "--allowance", "highway_primary=0.2")),
        ("lake.npz", ("--weights", "reward=1", "--preferences", "action_down", "--allowance", "action_down=2")),
        ("plant.npz", ("--weights", "output=1,services=-2", "--allowance", "worn=10%")),
    ],
)
def test_what_is_shown_has_the_features_of_the_lesson_within_the_stated_distance(name, options, folder, tmp_path):
    domain, files = tl.load(folder / name), [tmp_path / part for part in ("shown.jsonl", "shown.csv", "policy.csv")]
    common = (
        "teach",
        "--domain",
        str(folder / name),
        "--model",
        "hard",
        "--teacher",
        "aware-cmdp",
        "--show",
        "6",
        *options,
    )
    found = shown(*common, "--demonstrations", str(files[0]), "--policy", str(files[2]))
    printed(*common, "--demonstrations", str(files[1]))
    lesson = np.array(found["rounds"][-1]["lesson"])
    mean = sum(item["share"] * np.array([item["features"][n] for n in domain.reward_names]) for item in found["shown"])
    assert np.linalg.norm(mean - lesson) == pytest.approx(found["shown_distance"], abs=1e-9)
    assert sum(item["share"] for item in found["shown"]) == pytest.approx(1)
    weights = read_weights(options[1], domain.reward_names)
    for item in found["shown"]:
        assert item["reward"] == pytest.approx(weights @ [item["features"][n] for n in domain.reward_names])
    lines, rows = pandas.read_json(files[0], lines=True), pandas.read_csv(files[1], dtype={"state": str})
    assert lines.share.tolist() == pytest.approx([item["share"] for item in found["shown"]])
    assert rows.groupby("episode").share.first().tolist() == pytest.approx(lines.share.tolist())
    again = tl.load_demonstrations(files[0], domain)
    assert tl.load_demonstrations(files[1], domain).states.tolist() == again.states.tolist()
    assert {str(state) for state in rows.state} <= {str(name) for name in domain.state_names}
    table = pandas.read_csv(files[2], dtype={"state": str})
    total = 1 / (1 - domain.mdp.discount) if isinstance(domain.mdp.discount, float) else None
    assert total is None or table.visits.sum() == pytest.approx(total)
    assert table.groupby("state").probability.sum().to_numpy() == pytest.approx(1, abs=1e-6)
    assert [
        str(domain.state_name(domain.state(one) if name != "plant.npz" else int(one))) for one in table.state
    ] == list(table.state)


def test_the_routes_are_printed_by_name(folder):
    options = (
        "--weights",
        "at_goal=1",
        "--model",
        "hard",
        "--allowance",
        "0.2",
        "--teacher",
        "aware-cmdp",
        "--show",
        "3",
    )
    text = printed("teach", "--domain", str(folder / "roads.npz"), *options)
    assert "What to show:" in text and "7106818623 -[" in text and "West End Avenue" in text


def test_the_rounds_before_a_failure_are_printed(folder, monkeypatch, capsys):
    from tutelage.learners.exact import HardLearner

    answered = []

    def respond(self, lesson, **options):
        if answered:
            raise RuntimeError("tired")
        answered.append(lesson)
        return whole(self, lesson, **options)

    whole = HardLearner.respond
    monkeypatch.setattr(HardLearner, "respond", respond)
    arguments = ("teach", "--world", "published:0:8", "--learner", "L2", "--model", "hard", "--allowance", "2.5")
    kept = folder / "kept.npz"
    monkeypatch.setattr("sys.argv", ["tutelage", *arguments, "--teacher", "volume-search", "--save", str(kept)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 1 and "tired" in told
    assert f"rounds finished: 1; they are saved in {kept}" in told.replace("\n", " ") and " round   lesson" in told


def test_a_picture_of_two_features_shows_what_is_reachable_and_accepted(tmp_path):
    arguments = ("teach", "--world", "published:0:6", "--learner", "L2", "--model", "hard", "--allowance", "2.5")
    stem = tmp_path / "taught"
    text = printed(*arguments, "--teacher", "aware-cmdp", "--picture", str(stem), "--plane", "star,plus")
    assert (tmp_path / "taught-plane.svg").exists() and "taught-plane.png" in text.replace("\n", "")


@pytest.mark.parametrize(
    ("plane", "sentence"), [("star", "two different"), ("star,star", "two"), ("sta,plus", "'sta'")]
)
def test_a_plane_needs_two_features(plane, sentence, tmp_path):
    arguments = ["teach", "--world", "published:0:6", "--teacher", "agnostic", "--picture", str(tmp_path / "x")]
    result = CliRunner().invoke(make_app(), [*arguments, "--plane", plane])
    assert isinstance(result.exception, tl.InvalidInput) and sentence in str(result.exception)


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
    shown(*common, *hard, "--then-teach", "--show", "0", "--instead", str(folder / "instead.csv"))
    assert 0 < tl.load_demonstrations(folder / "instead.csv", domain).n <= 5
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


def test_what_was_recorded_is_printed_where_no_policy_keeps_the_default_allowance(tmp_path, monkeypatch, capsys):
    """Of a recording one wants to know first what it shows; the default allows nothing of any preference."""
    (tmp_path / "roads.csv").write_text("from,to,km,kind\na,b,5,lane\nb,c,1,road\na,c,9,road\n")
    domain, trips = str(tmp_path / "roads.npz"), tmp_path / "trips.csv"
    trips.write_text("episode,state\n0,a\n0,b\n0,c\n1,a\n1,c\n")
    graph = ("import", "graph", str(tmp_path / "roads.csv"), "--start", "a", "--goal", "c", "--rewards", "km")
    printed(*graph, "--preferences", "kind=road", "--discount", "1", "-o", domain)
    common = ("learn", "--domain", domain, "--demonstrations", str(trips))
    code, told = refusal(common, monkeypatch, capsys)
    assert code == 1 and "recorded kind road: 5 +- 4 for each journey, from 1 to 9 --allowance recorded" in told
    assert "recorded kind road: 5" in printed(*common, "--allowance", "recorded")


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


@pytest.mark.parametrize("names", ["green_within_1_cell", "green_within_1_cell,green_within_0_cells"])
def test_a_learner_with_preferences_of_its_own_in_a_world_is_drawn_without_the_world(names, tmp_path):
    """What L1 .. L5 avoid is drawn in the world; the weights of other learners do not fit their features."""
    found = shown(*TEACH[:3], "--preferences", names, "--picture", str(tmp_path / "own"))
    assert [Path(path).suffix for path in found["files"]] == [".png", ".svg"]


def test_weights_are_asked_for_in_order_where_names_cannot_be_written(tmp_path, monkeypatch, capsys):
    mdp = tl.MDP.from_choices(np.eye(2), [0, 1, 2], [1, 0], 0.9)
    domain = tl.Domain(mdp, np.eye(2), reward_names=["at 0, 1", "at 1, 1"])
    tl.save(domain, tmp_path / "cells.npz")
    monkeypatch.setattr("sys.argv", ["tutelage", "teach", "--domain", str(tmp_path / "cells.npz")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--weights 1,1" in capsys.readouterr().err.replace("\n", " ")
