"""What teacher and learner exchange: memory, light responses, lessons with a start of their own."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import players
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from players import LookAheadTeacher, SequentialLearner
from problems import assert_same_transcript, random_problem
from strategies import random_domain

import tutelage as tl

DOMAIN = random_domain(np.random.default_rng(1), max_states=6, max_choices=3, n_reward=2, n_preference=2)
WEIGHTS = np.array([1.0, -0.4])
N_ROUNDS = 4


def test_a_learner_with_memory_goes_on_after_a_file_in_another_process(tmp_path):
    """Stopped after every round, saved, and continued elsewhere: every bit is that of the uninterrupted rounds."""
    learner = SequentialLearner(DOMAIN)
    teacher = LookAheadTeacher(DOMAIN, WEIGHTS, learner)
    whole = tl.teach(teacher, learner, max_rounds=N_ROUNDS)
    tl.save(DOMAIN, tmp_path / "domain.npz")
    assert len({taught.response.memory["weights"].tobytes() for taught in whole.rounds}) == N_ROUNDS
    for n_before in range(1, N_ROUNDS):
        path = tmp_path / f"{n_before}.npz"
        tl.teach(teacher, learner, max_rounds=n_before, path=path)
        command = [sys.executable, players.__file__, tmp_path / "domain.npz", path, str(N_ROUNDS)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(Path(tl.__file__).parents[1])})
        assert_same_transcript(tl.load_transcript(path, DOMAIN), whole)


def test_planning_and_looking_ahead_teach_nobody():
    """A bi-level teacher asks the learner many times, and a greedy one three times a round; its answers stay."""

    class Remembering(tl.SoftLearner):
        def respond(self, lesson, after=None, **options):
            response = super().respond(lesson, **options)
            count = 0 if after is None or after.memory is None else int(after.memory["count"])
            return replace(response, memory={"count": np.array(count + 1)}, metrics={"count": count})

    learner = Remembering(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0)
    teacher = tl.BilevelTeacher(DOMAIN, WEIGHTS, learner, max_cells=2, n_random=1)
    lesson = tl.AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson
    first = learner.respond(lesson)
    before = learner.respond(lesson, after=first)
    teacher.open()
    LookAheadTeacher(DOMAIN, WEIGHTS, learner).adapt([tl.Round(lesson, first)])
    after = learner.respond(lesson, after=first)
    assert int(before.memory["count"]) == int(after.memory["count"]) == 2
    assert_array_equal(before.policy, after.policy)
    taught = tl.teach(teacher, learner).final.response
    assert int(taught.memory["count"]) == 1 and taught.metrics == {"count": 0.0}


def test_a_subclass_that_answers_in_its_own_way_comes_back_from_a_file(tmp_path):
    """A soft learner slowed down: its penalties do not determine its responses, so they are not computed again."""

    class Slow(tl.SoftLearner):
        def respond(self, lesson, after=None, **options):
            intended = super().respond(lesson, **options).policy
            policy = intended if after is None else (intended + after.policy) / 2
            return tl.Response.of(self.domain, lesson, policy)

    learner = Slow(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0)
    transcript = tl.teach(tl.AgnosticTeacher(DOMAIN, WEIGHTS), learner, path=tmp_path / "slow.npz")
    assert_same_transcript(tl.load_transcript(tmp_path / "slow.npz", DOMAIN), transcript)


def test_the_memory_of_a_response_is_a_copy_that_cannot_be_changed():
    held = {"weights": np.ones(2)}
    response = tl.Response.of(DOMAIN, lesson_of(uniform()), uniform(), memory=held)
    held["weights"][0] = 5.0
    for kept in (response, pickle.loads(pickle.dumps(response)), replace(response, metrics={"a": 1})):
        assert kept.memory["weights"].tolist() == [1.0, 1.0]
        with pytest.raises(ValueError, match="read-only"):
            kept.memory["weights"][0] = 2.0
        with pytest.raises(ValueError, match="read-only"):
            kept.policy[0] = 2.0
    assert tl.Response.of(DOMAIN, lesson_of(uniform()), uniform(), memory={}).memory is None


@pytest.mark.parametrize("memory", [{"state": {"a": 1}}, {"x": np.array([object()])}, {3: [1.0]}, {"": [1.0]}])
def test_a_memory_that_files_cannot_keep_is_refused(memory):
    with pytest.raises(tl.InvalidModel, match="memory"):
        tl.Response.of(DOMAIN, lesson_of(uniform()), uniform(), memory=memory)


def uniform():
    return tl.uniform_policy(DOMAIN.mdp)


def lesson_of(policy, **start):
    return tl.Lesson.from_policy(DOMAIN, policy, **start)


def test_a_light_response_says_that_it_has_no_certificate(tmp_path):
    """Its expectation is computed; weights of any length, and metrics, come back from a file."""

    class Habit:
        def respond(self, lesson):
            return tl.Response.of(DOMAIN, lesson, uniform(), weights=[1.0] * 7, metrics={"loss": np.inf, "n": 3})

    transcript = tl.teach(tl.AgnosticTeacher(DOMAIN, WEIGHTS), Habit(), path=tmp_path / "habit.npz")
    response = transcript.final.response
    assert response.certificate is None and response.multipliers is None and response.feature_weights is None
    assert_allclose(response.expectation.both, tl.expectation(DOMAIN, uniform()).both)
    missed = np.abs(response.expectation.reward - transcript.final.lesson.expectation)
    assert_allclose(response.mismatch_excess, missed)
    assert "no certificate" in transcript.explain() and "Its preferences" not in response.explain()
    again = tl.load_transcript(tmp_path / "habit.npz", DOMAIN)
    assert_same_transcript(again, transcript)
    assert again.final.response.metrics == {"loss": np.inf, "n": 3.0}
    assert tl.Response.of(DOMAIN, lesson_of(uniform()), uniform()).learned_weights is None


def test_a_response_of_a_bad_policy_is_refused():
    with pytest.raises(tl.InvalidModel, match="policy"):
        tl.Response.of(DOMAIN, lesson_of(uniform()), uniform() * 2)


@pytest.mark.parametrize(
    "learner",
    [
        tl.SoftLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0, violation_allowance=0.3),
        tl.HardLearner(DOMAIN, 7.0),
        tl.PublishedLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0, max_steps=30),
        tl.CallbackLearner(DOMAIN, lambda lesson: lesson.expectation),
        tl.SampledLearner(DOMAIN, tl.HardLearner(DOMAIN, 7.0), 5, 5, rng=0),
    ],
)
def test_no_lesson_is_a_sentence(learner):
    assert isinstance(learner, tl.Learner) and not isinstance(learner, tl.Teacher)
    with pytest.raises(tl.InvalidInput, match="respond needs a Lesson, got NoneType"):
        learner.respond(None)


def test_roles_are_told_apart():
    teacher = tl.AgnosticTeacher(DOMAIN, WEIGHTS)
    assert isinstance(teacher, tl.Teacher) and not isinstance(teacher, tl.Learner)
    assert isinstance(teacher.open(), tl.Opening) and isinstance(teacher.open(), tl.Advice)


@pytest.mark.parametrize(
    "learner",
    [
        tl.SoftLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0, violation_allowance=0.3),
        tl.HardLearner(DOMAIN, 7.0),
        tl.PublishedLearner(DOMAIN, mismatch_penalty=2.0, violation_penalty=1.0, max_steps=30),
    ],
)
def test_a_lesson_from_a_chosen_state_is_compared_with_behaviour_from_there(learner, tmp_path):
    """Eq. 1 in the domain that starts there; the response's expectation is what it does from the domain's start."""
    best = tl.AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson.policy
    last = DOMAIN.mdp.n_states - 1
    lesson = lesson_of(best, start=last)
    there = DOMAIN.starting_in(last)
    assert_allclose(lesson.expectation, tl.expectation(there, best).reward)
    response = learner.respond(lesson)
    given = {
        name: getattr(learner, name) for name in ("mismatch_penalty", "violation_penalty") if hasattr(learner, name)
    }
    given |= {"max_steps": learner.max_steps} if hasattr(learner, "max_steps") else {}
    direct = type(learner)(there, violation_allowance=learner.violation_allowance, **given).respond(
        tl.Lesson.from_policy(there, best)
    )
    assert_array_equal(response.policy, direct.policy)
    assert_array_equal(response.compared, direct.expectation.reward)
    assert_array_equal(response.mismatch_excess, direct.mismatch_excess)
    assert_allclose(response.expectation.both, tl.expectation(DOMAIN, response.policy).both)

    class Elsewhere(tl.OneLessonTeacher):
        def open(self):
            return tl.Advice(lesson, "from the last state")

    transcript = tl.teach(Elsewhere(DOMAIN, WEIGHTS), learner, path=tmp_path / "there.npz")
    assert transcript.final.distance == pytest.approx(np.linalg.norm(direct.expectation.reward - lesson.expectation))
    assert_same_transcript(tl.load_transcript(tmp_path / "there.npz", DOMAIN), transcript)


def test_the_size_of_a_lesson():
    exact = lesson_of(uniform(), start=1)
    assert exact.n_demonstrations is None and exact.n_steps is None
    shown = exact.demonstrations(5, rng=0, max_steps=7)
    assert (shown.lengths <= 7).all() and (shown.states[shown.offsets[:-1]] == 1).all()
    lesson = tl.Lesson.from_demonstrations(DOMAIN, shown, start=1)
    assert lesson.n_demonstrations == 5 and lesson.n_steps == len(shown.states)
    assert_array_equal(lesson.initial, exact.initial)


def test_a_demonstration_from_a_state_is_what_the_learner_is_compared_with():
    """The mean of very many walks from a state is the lesson from there, and the standard learner matches it there."""
    domain = random_problem(4).domain
    policy = tl.uniform_policy(domain.mdp)
    walks = tl.sample_demonstrations(domain.starting_in(1), policy, 4000, rng=0)
    lesson = tl.Lesson.from_demonstrations(domain, walks, start=1)
    assert (
        np.abs(lesson.expectation - tl.Lesson.from_policy(domain, policy, start=1).expectation) < 5 * lesson.uncertainty
    ).all()
    response = tl.StandardLearner(domain).respond(lesson)
    assert_allclose(response.compared, lesson.expectation, atol=1e-5)
    text = response.explain()
    assert text.count("matched") == domain.n_reward
