"""The snippets of the page run unchanged and repeat the results of the page."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from playground_support import CHOSEN, SMALL, learner_fields, performed, taught, teaching, world_fields

import tutelage as tl
from tutelage.playground import schema, snippets
from tutelage.registry import make_learner

PUBLISHED = tl.object_world(8, 0)
TEXT = tl.object_world(8, 1, "text")
# As the page sends a generated world once something in it was changed.
EDITED = replace(PUBLISHED, weights=(0.5, 1.0, -0.25))
REPAINTED = replace(TEXT, generator="hand", seed=None, objects={"star": [1], "dot": [20]}, discount=0.95)
PENALTIES = {"mismatch_penalty": 4.0, "violation_penalty": 0.1}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Snippets run and save in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(snippet: str) -> dict:
    """All names that a snippet defines, run as a program."""
    names = {"__name__": "__main__"}
    exec(compile(snippet, "snippet.py", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("teacher", "world", "learner"),
    [
        ("agnostic", PUBLISHED, learner_fields("soft", "L3")),
        ("conservative", TEXT, learner_fields("soft", CHOSEN, (0.1, 0.3), **PENALTIES)),
        ("aware_cmdp", EDITED, learner_fields("hard", "L2", 0.5)),
        ("aware_cmdp", PUBLISHED, learner_fields("hard", CHOSEN, (1.0 / 3.0, 1e-7))),
        ("bilevel", SMALL, learner_fields("soft", "L2", 0.0, mismatch_penalty=20.0, violation_penalty=1.0)),
        ("volume_search", REPAINTED, learner_fields("hard", "L1")),
        ("line_search", SMALL, learner_fields("soft", "L1")),
    ],
    ids=["agnostic", "conservative", "aware_cmdp", "aware_cmdp, chosen", "bilevel", "volume_search", "line_search"],
)
def test_a_teacher_s_rounds_are_found_again_to_the_last_digit(teacher, world, learner, elsewhere, capsys):
    """The snippet's last round is the last that was sent; its file and its pictures are written where it runs."""
    *rounds, (_, ending) = taught(teaching(teacher, learner, world, max_rounds=3))
    found = run(ending["snippet"])
    _, sent = rounds[-1]
    transcript = found["transcript"]
    assert transcript.final.response_reward == sent["reward"]
    assert transcript.final.response.expectation.reward.tolist() == sent["response"]
    assert transcript.final.lesson.expectation.tolist() == sent["lesson"]
    assert transcript.ended == ending["ended"]
    assert len(transcript.rounds) == sent["number"]
    printed = capsys.readouterr().out
    assert sent["explanation"] in printed
    assert "the aware lesson earns" in printed
    if teacher == "bilevel":
        assert f"no lesson more than {sent['bound']}" in printed
    saved = tl.load_transcript(elsewhere / "transcript.npz", found["domain"])
    assert saved.final.response_reward == sent["reward"]
    assert (elsewhere / "taught.png").stat().st_size > 1000 and (elsewhere / "taught.svg").stat().st_size > 1000


@pytest.mark.parametrize("model", ["soft", "hard"])
def test_drawn_paths_are_answered_again(model):
    """The same paths, the same lesson and the same answer."""
    learner = learner_fields(model, CHOSEN, (1.5, 0.5), **PENALTIES)
    asked = {"world": world_fields(SMALL), "learner": learner, "paths": [[6, 5, 4, 0], [6, 7, 11]]}
    ((_, sent),) = performed("answer", asked)
    found = run(sent["snippet"])
    assert found["lesson"].expectation.tolist() == sent["lesson"]
    assert found["response"].expectation.reward.tolist() == sent["response"]
    assert found["response"].explain() == sent["explanation"]


@pytest.mark.parametrize("teacher", ["volume_search", "line_search"])
@pytest.mark.parametrize("walks", [[], [[6, 7, 11, 10, 9, 13]], [[6, 7], [6, 5, 9, 13]]], ids=len)
def test_walks_are_taught_again(teacher, walks, capsys):
    """The same walks, the same rounds; and before the first walk, the lesson that opens them."""
    ((_, sent),) = performed("adapt", {"world": world_fields(SMALL), "teacher": teacher, "walks": walks})
    found = run(sent["snippet"])
    if walks:
        rounds = found["transcript"].rounds
        assert [taught.response_reward for taught in rounds] == [taught["reward"] for taught in sent["rounds"]]
        assert [taught.lesson_reward for taught in rounds] == [taught["lesson_reward"] for taught in sent["rounds"]]
        assert [taught.reason for taught in rounds] == [taught["reason"] for taught in sent["rounds"]]
    else:
        assert str(np.array(sent["lesson"]["expectation"])) in capsys.readouterr().out


def made(world: tl.ObjectWorld) -> tuple[str, tl.ObjectWorld]:
    """The text of a world in a snippet, and the world that it makes."""
    asked = schema.Walking.model_validate_json(
        json.dumps({"world": world_fields(world), "teacher": "line_search", "walks": []})
    )
    text = snippets.walking(asked)
    return text, run(text)["world"]


@pytest.mark.parametrize("world", [PUBLISHED, TEXT], ids=["published", "text"])
def test_a_generated_world_is_written_by_its_seed(world):
    """Two numbers and a name instead of all its cells, and the same world."""
    text, found = made(world)
    assert f"tl.object_world(size=8, seed={world.seed}, generator='{world.generator}')" in text
    assert found == world


@pytest.mark.parametrize("world", [EDITED, REPAINTED, SMALL], ids=["other weights", "repainted", "hand-made"])
def test_any_other_world_is_written_in_full(world):
    """A generated world with other weights is not what its seed makes, so it is written in full."""
    text, found = made(world)
    assert "tl.object_world(" not in text and "tl.ObjectWorld(" in text
    assert found == replace(world, generator="hand", seed=None)


@pytest.mark.parametrize(
    ("preferences", "allowances", "domain", "granted"),
    [
        ("L1", (), "world.domain('L1')", "violation_allowance=0.0)"),
        ("L4", 0.25, "world.domain('L4')", "violation_allowance=0.25)"),
        (CHOSEN, 0.0, f"world.domain({list(CHOSEN)})", "violation_allowance=0.0)"),
        (CHOSEN, (0.0, 0.5), f"world.domain({list(CHOSEN)})", "violation_allowance=[0.0, 0.5])"),
    ],
    ids=["L1", "L4", "chosen", "chosen, unlike"],
)
@pytest.mark.parametrize("model", ["soft", "hard"])
def test_a_learner_is_written_as_one_would_say_it(model, preferences, allowances, domain, granted):
    """A learner of the paper by its name, another by its preferences; one number where all allowances are equal."""
    fields = learner_fields(model, preferences, allowances, **PENALTIES)
    asked = schema.Demonstrating.model_validate_json(
        json.dumps({"world": world_fields(SMALL), "learner": fields, "paths": [[6]]})
    )
    text = snippets.demonstrating(asked)
    assert domain in text and granted in text
    names: dict = {}
    exec(text[: text.index("paths = ")], names)
    learner = names["learner"]
    assert isinstance(learner, tl.HardLearner if model == "hard" else tl.SoftLearner)
    expected = make_learner(asked.learner.model, SMALL.domain(preferences), **asked.learner.options)
    assert_array_equal(learner.domain.preference_features, expected.domain.preference_features)
    n = learner.domain.n_preference
    assert_array_equal(np.broadcast_to(learner.preference.allowance, n), expected.preference.allowance)
    assert learner.preference.penalty == expected.preference.penalty
    assert model == "hard" or learner.mismatch.penalty == expected.mismatch.penalty == 4.0
