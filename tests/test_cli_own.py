"""One's own domains on the command line: in by `import`, described by `info`, shown by name by `teach`."""

import json
import re
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
from strategies import some_of
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli.app import make_app
from tutelage.cli.subject import feature, read_weights
from tutelage.outcomes import InvalidInput

STREETS = str(Path(__file__).parents[1] / "examples" / "data" / "streets.csv")
ROADS = ["--start", "7106818623", "--goal", "42431078", "--duration", "km", "--rewards", "km", "--names", "name"]


def printed(*arguments):
    result = CliRunner().invoke(make_app(), [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(*arguments):
    return json.loads(printed(*arguments, "--json"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a lake, of roads and of a plant."""
    path = tmp_path_factory.mktemp("own")
    printed("import", "gymnasium", "FrozenLake-v1", "--cells", "--discount", "0.9", "-o", str(path / "lake.npz"))
    printed("import", "graph", STREETS, *ROADS, "--preferences", "highway=primary", "-o", str(path / "roads.npz"))
    tl.save(plant(), path / "plant.npz")
    return path


def plant():
    def outcomes(state, action):
        after = {"run": [(0.7, state), (0.3, min(state + 1, 3))], "service": [(1.0, 0)]}
        return after[action]

    return tl.explore(
        0,
        lambda state: ["run", "service"],
        outcomes,
        discount=0.9,
        reward=lambda state, action: {"output": action == "run" and state < 3, "services": action == "service"},
        preference=lambda state, action: {"worn": state >= 2},
    )


def test_an_imported_environment_is_that_of_python(folder):
    import gymnasium

    domain = tl.load(folder / "lake.npz")
    made = tl.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.9)
    assert (domain.mdp.transition != made.mdp.transition).nnz == 0
    assert domain.reward_names[:2] == ("reward", "at row 0, column 0") and domain.n_reward == 17
    assert domain.preference_names == ("action left", "action down", "action right", "action up")
    np.testing.assert_array_equal(domain.reward_features[:, 0], made.reward_features[:, 0])
    # Every choice arrives in one state, unless it is one of the end, and takes one action.
    np.testing.assert_allclose(domain.reward_features[:-4, 1:].sum(axis=1), 1.0)
    np.testing.assert_array_equal(domain.preference_features.sum(axis=1), np.repeat([1, 0], [64, 4]))


def test_an_imported_graph_has_the_shortest_way(folder):
    """At discount 1 - 1e-3 per km the best policy to be at the goal takes networkx's shortest path."""
    domain = tl.load(folder / "roads.npz")
    assert domain.names == ("km", "at goal", "highway primary") and domain.positions.shape == (46, 2)
    graph = tl.read_graph(STREETS)
    shortest = networkx.shortest_path_length(graph, "7106818623", "42431078", weight="km")
    policy = tl.best_policy(domain, [0.0, 1.0], tl.no_limits(domain)).policy
    assert tl.arrival(domain, policy).duration == pytest.approx(shortest, abs=1e-9)


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


def test_info_describes_what_a_file_holds(folder):
    found = shown("info", str(folder / "plant.npz"))
    domain = tl.load(folder / "plant.npz")
    assert (found["states"], found["choices"], found["n_goals"]) == (4, 8, 0)
    assert found["action_names"] == ["run", "service"] and found["discount"] == [0.9, 0.9]
    assert found["least_allowances"]["worn"] == pytest.approx(0.0, abs=1e-9)
    always_run = tl.expectation(domain, [1, 0] * 4).preference[0]
    assert always_run > 1
    roads = shown("info", str(folder / "roads.npz"))
    assert roads["goals"] == ["42431078"] and roads["starts"] == ["7106818623"]
    assert roads["reach"].startswith("goals can be reached")
    text = printed("info", str(folder / "lake.npz"))
    assert "goals: end" in text and "preference feature action left: 0 to 1" in text


def test_the_least_allowance_is_that_of_the_strictest_policy(folder):
    """A little less is refused, a little more is not; with a start in the avoided state."""
    domain = tl.explore(
        1,
        lambda state: ["on", "off"],
        lambda state, action: [(0.5, 0), (0.5, 1)] if action == "on" else [(0.9, 0), (0.1, 1)],
        discount=0.9,
        reward=lambda state, action: state,
        preference=lambda state, action: {"one": state == 1},
    )
    tl.save(domain, folder / "pair.npz")
    least = shown("info", str(folder / "pair.npz"))["least_allowances"]["one"]
    tl.best_policy(domain, [1.0], tl.preference_limits(domain, least * (1 + 1e-6)))
    with pytest.raises(tl.InfeasibleConstraints):
        tl.best_policy(domain, [1.0], tl.preference_limits(domain, least * (1 - 1e-4)))


def test_weights_by_name():
    names = ("km", "at goal")
    assert read_weights("-1,2", names).tolist() == [-1, 2]
    assert read_weights("at_goal=3", names).tolist() == [0, 3]
    assert read_weights("at goal=3, km=-1e-3", names).tolist() == [-1e-3, 3]
    for text, message in (
        ("kms=1", "there is no feature 'kms'; did you mean 'km'"),
        ("km=1,km=2", "each name once"),
        ("km=x", "weights must be numbers with commas between them, or name=number"),
        ("km=1,2", "there is no feature ''"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_weights(text, names)
    assert feature(["a_b", "a b"], "a_b") == "a_b" and feature(["a b"], "a_b") == "a b"


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
    from tutelage.cli import main

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


def test_the_rounds_before_a_failure_are_printed(folder, monkeypatch, capsys):
    from tutelage.cli import main
    from tutelage.learners.projection import HardLearner

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
    assert f"1 rounds were finished; they are saved in {kept}" in told.replace("\n", " ") and " round   lesson" in told


EVERY_COMMAND = [
    *[(name,) for name in ("demo", "teach", "learn", "info", "infer", "sweep", "reproduce", "serve")],
    ("import", "gymnasium"),
    ("import", "graph"),
]


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_help_has_two_examples_at_least(command):
    assert printed(*command, "--help").count(f"tutelage {' '.join(command)} ") >= 2


def test_the_examples_of_the_help_run(tmp_path, monkeypatch):
    """In order, in one folder. `serve`, which does not end by itself, has tests of its own."""
    from tutelage.cli import demo, imports, infer, info, learn, reproduce, sweep, teach

    monkeypatch.chdir(tmp_path)
    roads = networkx.DiGraph([("a", "b", {"km": 1.0, "kind": "lane"}), ("b", "z", {"km": 2.0, "kind": "road"})])
    roads.add_edges_from([("a", "c", {"km": 3.0, "kind": "road"}), ("c", "z", {"km": 2.0, "kind": "road"})])
    networkx.write_graphml(roads, "roads.graphml")
    Path("roads.csv").write_text("source,target,km,kind\na,b,1,lane\nb,z,2,road\na,c,3,road\nc,z,2,road\n")
    Path("log.csv").write_text(
        "episode,state,action,next_state,terminated\n0,0,1,4,False\n0,4,1,5,True\n1,0,2,1,False\n"
    )
    Path("plan.toml").write_text(
        '[[domain]]\nworld = "text:0:4"\n[[learner]]\npreferences = "L2"\n[[teacher]]\nname = "agnostic"\n'
    )
    domain = tl.object_world(size=6, seed=0).domain("L5")
    walks = tl.sample_demonstrations(domain, tl.uniform_policy(domain.mdp), 50, rng=0)
    tl.save_demonstrations(walks, "walks.npz")
    commands = []
    from_outside = (imports.from_environment, imports.from_file, info.info, learn.learn)
    for function in (*from_outside, teach.teach, infer.infer, sweep.sweep, reproduce.reproduce, demo.demo):
        for command in re.findall(r"\[bold\]tutelage (.*?)\[/bold\]", function.__doc__, flags=re.DOTALL):
            commands.append(command.split())
    # The demo has tests of its own; its two examples take as long as all others.
    for command in some_of(commands, (command for command in commands if command[0] != "demo")):
        printed(*command)
    assert len(commands) == 21


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("import", "gymnasium", "FrozenLake-v9", "-o", "x.npz"), "Gymnasium cannot make 'FrozenLake-v9'"),
        (("import", "gymnasium", "CartPole-v1", "-o", "x.npz"), "has no table P"),
        (("import", "gymnasium", "FrozenLake-v1", "--option", "size=3", "-o", "x.npz"), "Gymnasium cannot make"),
        (("import", "graph", "nowhere.graphml", "--start", "a", "-o", "x.npz"), "nowhere.graphml"),
        (("import", "graph", STREETS, "--start", "a", "-o", "x.npz", "--rewards", "km"), "start 'a' is not a node"),
        (
            ("import", "graph", STREETS, *ROADS, "--preferences", "highway=motorwy", "-o", "x.npz"),
            "no edge has 'highway' 'motorwy'",
        ),
        (("import", "graph", STREETS, *ROADS, "-o", "x.txt"), "x.txt must end in .npz"),
        (("info", "nowhere.npz"), "nowhere.npz"),
        (
            ("teach", "--domain", "roads.npz", "--teacher", "agnostic"),
            "--domain needs the true weights of its reward features: --weights km=1,at_goal=1",
        ),
        (("teach", "--domain", "roads.npz", "--weights", "kn=1"), "there is no feature 'kn'; did you mean 'km'"),
        (
            ("teach", "--domain", "roads.npz", "--weights", "km=1", "--preferences", "lanes"),
            "there is no feature 'lanes'",
        ),
        (
            ("teach", "--domain", "roads.npz", "--weights", "km=1", "--allowance", "primary=1"),
            "there is no feature 'primary'; did you mean",
        ),
        (
            (
                "teach",
                "--domain",
                "roads.npz",
                "--weights",
                "km=1",
                "--preferences",
                "highway_primary",
                "--learner",
                "L1",
            ),
            "give either --learner or --preferences",
        ),
        (
            (
                "teach",
                "--domain",
                "roads.npz",
                "--weights",
                "km=-1",
                "--model",
                "hard",
                "--teacher",
                "agnostic",
                "--policy",
                "p.txt",
            ),
            "p.txt must end in .csv or .jsonl",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(arguments, sentence, folder, monkeypatch, capsys):
    from tutelage.cli import main

    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["tutelage", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


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
