"""Every number that a job sends is the library's."""

import base64
import json
import math
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from playground_support import CHOSEN, SMALL, beyond, learner_fields, performed, taught, teaching, world_fields
from strategies import hand_worlds

import tutelage as tl
from tutelage.chains.expectations import state_occupancy
from tutelage.playground.grounds import Content

PUBLISHED = tl.object_world(10, 0)
TEACHERS = ("agnostic", "conservative", "aware_cmdp", "bilevel", "volume_search", "line_search")
# Two different penalties, neither of them a default.
PENALTIES = {"mismatch_penalty": 20.0, "violation_penalty": 1.0}
SCENES = {
    "soft": (SMALL, "soft", "L2", 0.0),
    "soft, others": (SMALL, "soft", CHOSEN, (1.5, 0.5)),
    "hard": (SMALL, "hard", "L2", (0.5, 1.0)),
    "hard, published": (PUBLISHED, "hard", "L2", 0.0),
    "soft, avoids nothing": (SMALL, "soft", "L1", ()),
}


def direct(name: str, scene: str):
    """The same teacher and learner by the library's own names."""
    world, model, preferences, allowances = SCENES[scene]
    domain = world.domain(preferences)
    learner = (
        tl.HardLearner(domain, allowances)
        if model == "hard"
        else tl.SoftLearner(domain, mismatch_penalty=20.0, violation_penalty=1.0, violation_allowance=allowances)
    )
    weights = world.true_weights
    teacher = {
        "agnostic": lambda: tl.AgnosticTeacher(domain, weights),
        "conservative": lambda: tl.ConservativeTeacher(domain, weights, world.domain("L5").preference_features),
        "aware_cmdp": lambda: tl.AwareCmdpTeacher(domain, weights, learner),
        "bilevel": lambda: tl.BilevelTeacher(domain, weights, learner),
        "volume_search": lambda: tl.VolumeSearchTeacher(domain, weights),
        "line_search": lambda: tl.LineSearchTeacher(domain, weights),
    }[name]()
    return teacher, learner


def request(name: str, scene: str, max_rounds: int = 4) -> dict:
    world, model, preferences, allowances = SCENES[scene]
    return teaching(name, learner_fields(model, preferences, allowances, **PENALTIES), world, max_rounds)


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def check_round(sent: dict, taught: tl.TaughtRound, domain: tl.Domain, number: int) -> None:
    """One round as it is sent, against one as the library records it."""
    response, mdp, n_cells = taught.response, domain.mdp, domain.mdp.n_states - 1
    assert sent["number"] == number
    assert sent["reward"] == taught.response_reward and sent["lesson_reward"] == taught.lesson_reward
    assert sent["lesson"] == taught.lesson.expectation.tolist()
    assert sent["response"] == response.expectation.reward.tolist()
    assert sent["explanation"] == response.explain()
    assert sent["certificate"]["gap"] == finite(response.certificate.gap)
    assert sent["certificate"]["ended"] == response.certificate.ended.value
    assert_allclose(np.sum(np.reshape(sent["policy"], (n_cells, 5)), axis=1), 1.0, atol=3e-5)
    assert_allclose(sent["policy"], response.policy[: 5 * n_cells], atol=1e-5)
    assert_allclose(sent["visits"], state_occupancy(mdp, response.policy)[:-1], atol=1e-5)
    features = np.hstack([domain.reward_features, domain.preference_features])
    assert_allclose(sent["reward_map"], (features @ response.learned_weights)[:-1], atol=1e-5)


def check_preferences(sent: dict, model: str, allowances) -> None:
    """Complementary slackness (App. E): the full penalty where exceeded, a price only where no allowance is left."""
    for row, allowance in zip(sent["preferences"], np.broadcast_to(allowances, len(sent["preferences"])), strict=True):
        left = allowance - row["visits"]
        assert row["allowance"] == allowance
        if row["state"] == "exceeded":
            assert model == "soft" and left < 0 and row["price"] == pytest.approx(PENALTIES["violation_penalty"])
        elif row["state"] == "binds":
            assert left == pytest.approx(0, abs=1e-4) and row["price"] > 0
        elif row["state"] == "reached":
            assert allowance > 0 and left == pytest.approx(0, abs=1e-4) and row["price"] == pytest.approx(0, abs=1e-5)
        else:
            assert (
                row["state"] == "free"
                and (left > 0 or allowance == 0)
                and left > -1e-4
                and row["price"] == pytest.approx(0, abs=1e-5)
            )


@pytest.mark.parametrize(
    ("name", "scene"),
    [(name, scene) for name in TEACHERS for scene in ("soft", "soft, others", "hard") if name != "bilevel"]
    + [("bilevel", "soft"), ("aware_cmdp", "hard, published")]
    + [("agnostic", "soft, avoids nothing")],
)
def test_the_rounds_of_a_teacher_are_those_of_the_library(name, scene):
    """Every round that is sent, number for number, is the one that `tl.teach` records; so are the bound and the end."""
    teacher, learner = direct(name, scene)
    bounds = []
    expected = tl.teach(teacher, learner, max_rounds=4, on_round=lambda rounds: bounds.append(rounds.final.bound))
    *rounds, (last, ending) = taught(request(name, scene))
    assert [event for event, _ in rounds] == ["round"] * len(rounds) and last == "end"
    sent = [data for _, data in rounds]
    if name == "bilevel":
        # The lesson comes first, with a bound that is not yet tight.
        first = sent.pop(0)
        assert first.pop("is_bounded") is False
        assert first | {"bound": sent[0]["bound"]} == sent[0] and first["bound"] >= sent[0]["bound"]
    assert len(sent) == len(expected.rounds)
    for number, (found, played, bound) in enumerate(zip(sent, expected.rounds, bounds, strict=True), start=1):
        check_round(found, played, learner.domain, number)
        check_preferences(found, SCENES[scene][1], SCENES[scene][3])
        assert found["reason"] == played.reason
        assert found["bound"] == finite(bound)
        assert [row["name"] for row in found["preferences"]] == list(learner.domain.preference_names)
    assert ending["ended"] == expected.ended
    assert sent[-1]["bound"] is None or sent[-1]["reward"] <= sent[-1]["bound"] + 1e-6


def test_a_bilevel_teacher_of_a_hard_learner_is_refused_before_anything_is_sent():
    """Aware-BiL needs a mismatch penalty, which a hard learner does not have: an error, not a wrong lesson."""
    with pytest.raises(tl.InvalidModel, match="use AwareCmdpTeacher"):
        performed("teach", request("bilevel", "hard"))


def test_what_a_projecting_learner_accepts_is_never_cut_off():
    """Every cut contains Omega_r^L (Proposition 1): the accepted set and all later responses stay within the cuts."""
    reach = {"world": world_fields(SMALL), "learner": request("agnostic", "hard")["learner"]}
    ((_, found),) = performed("reach", reach)
    for name in ("volume_search", "line_search"):
        rounds = [data for event, data in performed("teach", request(name, "hard", 5)) if event == "round"]
        assert len(rounds) > 2
        for sent in rounds:
            for axes, polygon, accepted in zip(
                ((0, 1), (0, 2), (1, 2)), sent["remaining"], found["accepted"], strict=True
            ):
                answers = [[later["response"][axis] for axis in axes] for later in rounds]
                assert all(beyond(polygon, place) < 2e-3 for place in [*answers, *accepted])
        areas = [sum(map(area, sent["remaining"])) for sent in rounds]
        assert areas[0] > areas[-1] and (np.diff(areas) < 1e-9).all()


def area(polygon) -> float:
    """By the shoelace formula."""
    x, y = np.array(polygon).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


@pytest.mark.parametrize("scene", ["soft", "hard"])
def test_lessons_and_responses_are_reachable(scene):
    """Lessons and responses are expectations of policies, so each lies in the projections of the reachable set."""
    world, model, preferences, allowances = SCENES[scene]
    asked = {"world": world_fields(world), "learner": learner_fields(model, preferences, allowances)}
    ((event, found),) = performed("reach", asked)
    assert event == "answer" and ("accepted" in found) == (model == "hard")
    for name in ("agnostic", "conservative", "line_search"):
        for _, sent in performed("teach", request(name, scene))[:-1]:
            for axes, polygon in zip(((0, 1), (0, 2), (1, 2)), found["reachable"], strict=True):
                assert beyond(polygon, [sent["lesson"][axis] for axis in axes]) < 1e-5
                assert beyond(polygon, [sent["response"][axis] for axis in axes]) < 1e-5
    for polygon, accepted in zip(found["reachable"], found.get("accepted", [[], [], []]), strict=True):
        assert all(beyond(polygon, place) < 1e-3 for place in accepted)


@pytest.mark.parametrize("scene", SCENES)
def test_a_drawn_path_is_answered_as_the_learner_answers_its_expectation(scene):
    """The lesson is the mean expectation of the paths; the learner responds as to any other lesson."""
    world, model, preferences, allowances = SCENES[scene]
    paths = [[6, 5, 4, 0], [6, 7, 11], [6]] if world is SMALL else [[54, 55, 56, 57], [54]]
    learner = learner_fields(model, preferences, allowances, **PENALTIES)
    ((event, sent),) = performed("answer", {"world": world_fields(world), "learner": learner, "paths": paths})
    _, respondent = direct("agnostic", scene)
    domain = respondent.domain
    shown = sum(world.path_visits(path) for path in paths) @ domain.reward_features / len(paths)
    response = respondent.respond(tl.Lesson.from_expectation(shown))
    assert event == "answer" and sent["bound"] is None
    assert_allclose(sent["lesson"], shown, rtol=1e-12)
    assert_allclose(sent["response"], response.expectation.reward, rtol=1e-6, atol=1e-6)
    assert sent["reward"] == pytest.approx(world.true_weights @ response.expectation.reward, rel=1e-6, abs=1e-6)
    check_preferences(sent, model, allowances)


def test_a_path_that_cannot_be_walked_is_refused_by_its_number():
    """The error has the number of the path."""
    asked = {"world": world_fields(SMALL), "learner": learner_fields("soft", "L1"), "paths": [[6], [6, 4]]}
    with pytest.raises(tl.InvalidModel, match="path 2: no single move leads from cell 6 to cell 4"):
        performed("answer", asked)


@pytest.mark.parametrize("name", ["volume_search", "line_search"])
def test_a_person_who_walks_is_taught_like_a_learner_that_is_asked(name):
    """Replaying all walks gives the rounds of `tl.teach` with a callback, and the lesson that would come next."""
    walks = [[6, 7, 11, 10, 9, 13], [6, 5, 9, 13, 9, 10, 11], [6, 7, 11]]
    domain = SMALL.domain("L1")
    kind = tl.VolumeSearchTeacher if name == "volume_search" else tl.LineSearchTeacher
    teacher = kind(domain, SMALL.true_weights)
    for n_walks in (0, len(walks)):
        asked = {"world": world_fields(SMALL), "teacher": name, "walks": walks[:n_walks]}
        ((event, sent),) = performed("adapt", asked)
        answers = iter(SMALL.path_visits(walk) @ domain.reward_features for walk in walks)
        learner = tl.CallbackLearner(domain, lambda lesson, answers=answers: next(answers))
        rounds = tl.teach(teacher, learner, max_rounds=n_walks).rounds if n_walks else ()
        following = teacher.adapt(rounds).lesson if rounds else teacher.open().lesson
        assert event == "answer" and not sent["is_over"]
        assert [taught["reward"] for taught in sent["rounds"]] == [taught.response_reward for taught in rounds]
        assert [taught["bound"] for taught in sent["rounds"]] == [finite(taught.bound) for taught in rounds]
        assert sent["lesson"]["expectation"] == following.expectation.tolist()
        assert len(sent["remaining"]) == 3


def test_the_demonstrations_shown_are_walks_from_the_start():
    """Each demonstration is a valid path: cells of the grid, each a neighbour of the last, no terminal state."""
    ((_, sent),) = performed("adapt", {"world": world_fields(PUBLISHED), "teacher": "volume_search", "walks": []})
    assert len(sent["lesson"]["paths"]) == 3
    for path in sent["lesson"]["paths"]:
        assert 1 <= len(path) <= 150
        PUBLISHED.path_visits(path)
        assert path[-1] in PUBLISHED.objects["star"]


def test_the_lessons_end_when_the_walk_matches():
    """The rounds end with a reason when the walk equals the lesson; a later walk is refused."""
    world = tl.ObjectWorld(3, 0, {"star": [2]}, {}, discount=0.9)
    asked = {"world": world_fields(world), "teacher": "volume_search", "walks": [[0, 1, 2]]}
    ((_, sent),) = performed("adapt", asked)
    assert sent["is_over"] and sent["lesson"] is None and "matches the lesson" in sent["reason"]
    with pytest.raises(tl.InvalidModel, match="the lessons ended after walk 1"):
        performed("adapt", asked | {"walks": [[0, 1, 2], [0]]})


@pytest.mark.parametrize(("name", "scene"), [("line_search", "soft, others"), ("aware_cmdp", "hard")])
def test_the_transcript_is_the_file_that_the_library_reads(name, scene, tmp_path):
    """The bytes are an `.npz` of the very rounds that were sent, which `load_transcript` accepts for the domain."""
    teacher, learner = direct(name, scene)
    ((event, sent),) = performed("transcript", request(name, scene))
    path = tmp_path / "transcript.npz"
    path.write_bytes(base64.b64decode(sent["base64"]))
    found = tl.load_transcript(path, learner.domain)
    expected = tl.teach(teacher, learner, max_rounds=4)
    assert event == "file" and found.ended == expected.ended
    for one, other in zip(found.rounds, expected.rounds, strict=True):
        assert_array_equal(one.response.policy, other.response.policy)
        assert one.response_reward == other.response_reward
        assert one.bound == other.bound


def test_a_learner_that_no_policy_satisfies_is_refused_by_name():
    """A hard learner that starts on an avoided cell accepts nothing: the error names the preference."""
    world = replace(SMALL, distractors={"green": [6]})
    asked = teaching("agnostic", learner_fields("hard", "L2"), world)
    with pytest.raises(tl.TutelageError, match="green within 0 cells"):
        performed("teach", asked)
    with pytest.raises(tl.InfeasibleConstraints, match="green within 0 cells"):
        performed("reach", {"world": asked["world"], "learner": asked["learner"]})


@settings(max_examples=10)
@given(
    hand_worlds().filter(lambda world: 2 <= world.size <= 4),
    st.sampled_from([name for name in TEACHERS if name != "bilevel"]),
    st.sampled_from(["soft", "hard"]),
    st.sampled_from(["L1", "L2", "L5", CHOSEN]),
)
def test_any_world_has_rounds_or_is_refused_in_a_sentence(world, name, model, preferences):
    """Worlds without objects, with zero weights or full of objects: a round with all its maps, or a `TutelageError`."""
    try:
        events = performed("teach", teaching(name, learner_fields(model, preferences, 1.0), world, 3))
    except tl.TutelageError as error:
        assert str(error)
    else:
        (event, first), n_cells = events[0], world.size**2
        assert event == "round" and events[-1][0] == "end"
        assert len(first["reward_map"]) == len(first["visits"]) == n_cells == len(first["policy"]) / 5
        assert json.dumps(events, allow_nan=False)


def test_the_walks_of_a_picture_are_walks_of_the_policies():
    """Shown and done: each step has a positive probability; a walk ends at its first step into the terminal state."""
    world = SMALL
    domain = world.domain("L2")
    (_, data), _ = taught(teaching("agnostic", learner_fields("soft", "L2")))
    lesson = tl.AgnosticTeacher(domain, world.true_weights).open().lesson
    answer = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10).respond(lesson)
    for walks, policy in ((data["shown"], lesson.policy), (data["done"], answer.policy)):
        mdp = domain.mdp
        step = np.zeros((mdp.n_states, mdp.n_states))
        np.add.at(step, mdp.state_of_choice, policy[:, None] * mdp.transition.toarray())
        assert len(walks) == 12 and all(walk[0] == world.start for walk in walks)
        for walk in walks:
            assert all(step[a, b] > 0 for a, b in pairwise(walk))
            assert len(walk) == 48 + 1 or step[walk[-1], world.terminal] > 0 or len(walk) >= 48


def test_the_teacher_concludes_what_a_person_left_out():
    """A person who is shown cells near green and stays away avoids them, also nearer ones; others cannot be told."""
    things = {"star": [2], "plus": [8]}
    world = tl.ObjectWorld(4, 12, things, {"green": [2]}, discount=0.9, weights=(1.0, 0.1, 0.0))
    request = {"world": world_fields(world), "teacher": "volume_search", "walks": [[12, 8]]}
    ((_, found),) = performed("adapt", request)
    verdicts = {one["name"]: one["verdict"] for one in found["conclusions"]}
    assert verdicts["green within 0 cells"] == verdicts["green within 1 cell"] == "avoids"
    assert verdicts["yellow within 2 cells"] == "unknown"
    ((_, followed),) = performed("adapt", request | {"walks": [[12, 8, 4, 5, 1, 2]]})
    assert {one["verdict"] for one in followed["conclusions"] if one["name"].startswith("green")} == {"accepts"}


def test_the_statistics_about_a_person_are_those_of_infer_learner():
    """Every walk is one trajectory: the verdicts are the library's, from the lessons that the teacher showed."""
    world = tl.ObjectWorld(3, 6, {"star": [2], "plus": [0]}, {"green": [2]}, discount=0.8)
    walk, every, none = [6, 3, 0], world.domain("L5"), world.domain("L1")
    ((_, found),) = performed("infer", {"world": world_fields(world), "teacher": "volume_search", "walks": [walk]})
    visits = world.path_visits(walk)
    lesson = tl.VolumeSearchTeacher(none, world.true_weights).open().lesson
    seen = tl.Expectation(visits @ every.reward_features, visits @ every.preference_features)
    answer = tl.CallbackLearner(every, lambda _: seen).respond(lesson)
    estimate = tl.infer_learner(every, [tl.Round(lesson, answer)], n_trajectories=1)
    known = {"there": "avoids", "not there": "accepts", "open": "unknown"}
    assert found == {"verdicts": [known[one] for one in estimate.preferences], "text": str(estimate)}


def test_a_file_that_a_user_brings_or_takes_is_never_written_to_disk(monkeypatch):
    """A worker may be killed at any time, so it has no files: a domain and a transcript stay in memory."""

    def refuse(*given, **named):
        raise AssertionError("a file was written")

    world, learner = world_fields(SMALL), learner_fields("hard", "L2", 0.5)
    ((_, kept),) = performed("transcript", request("aware_cmdp", "hard"))
    for place, name in ((Path, "open"), (Path, "write_bytes"), (tempfile, "mkdtemp"), (tempfile, "mkstemp")):
        monkeypatch.setattr(place, name, refuse)
    tl.save(SMALL.domain("L2"), content := Content())
    ((_, about),) = performed("domain", {"file": base64.b64encode(content.getvalue()).decode()})
    assert about["n_states"] == 17
    scene = {"world": world, "learner": learner}
    assert performed("transcript", request("aware_cmdp", "hard")) == [("file", kept)]
    ((_, read),) = performed("read", {"file": kept["base64"], "scene": scene})
    assert len(read["rounds"]) == 1
