"""`tutelage teach`: the same as in Python, shown by name, kept in files and drawn."""

import networkx
import numpy as np
import pandas
import pytest
from cli_support import printed, shown
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
