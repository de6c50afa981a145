"""Algorithm 1 for any teacher and any learner: kept, saved, continued, replayed, and intact when a learner fails."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import assert_same_transcript, random_problem

from tutelage.arrays import Vector
from tutelage.chains.expectations import Expectation
from tutelage.interaction import InteractionFailed, replay, teach
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput, InvalidModel, TutelageError
from tutelage.roles import Advice, Lesson, Round, Teacher
from tutelage.teachers.adaptive import VolumeSearchTeacher
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.teachers.line_search import LineSearchTeacher
from tutelage.transcripts import Transcript, load_transcript, save_transcript

PROBLEM = random_problem(8)
DOMAIN, WEIGHTS, LEARNER = PROBLEM.domain, PROBLEM.true_weights, PROBLEM.learner
ADAPTIVE = [
    VolumeSearchTeacher(DOMAIN, WEIGHTS),
    LineSearchTeacher(DOMAIN, WEIGHTS, shortest_push=0.1, longest_push=5.0, stop_tolerance=1e-3),
]


def test_a_teacher_with_one_lesson_has_one_round():
    transcript = teach(AgnosticTeacher(DOMAIN, WEIGHTS), LEARNER)
    assert len(transcript.rounds) == 1
    assert transcript.ended == "the teacher has only one lesson"
    assert transcript.final.bound == math.inf and transcript.final.reason == "an optimal policy"


def test_a_round_has_the_bound_that_its_response_certifies():
    """The bound of the advice after a response replaces that of the advice before it."""

    class Certain(AgnosticTeacher):
        def open(self):
            return replace(super().open(), bound=1e6)

        def adapt(self, rounds):
            advice = super().open() if len(rounds) < 2 else Advice(None, "enough")
            return replace(advice, bound=1e6 - len(rounds))

    taught = teach(Certain(DOMAIN, WEIGHTS), LEARNER, max_rounds=5)
    assert [each.bound for each in taught.rounds] == [1e6 - 1, 1e6 - 2]


@pytest.mark.parametrize("teacher", ADAPTIVE)
def test_stopped_and_continued_is_the_same_as_never_stopped(teacher, tmp_path):
    """The teacher's memory is the transcript: on disk, or cut off by a limit, it goes on as if nothing had been."""
    whole = teach(teacher, LEARNER)
    stopped = teach(teacher, LEARNER, on_round=lambda so_far: len(so_far.rounds) == 2, path=tmp_path / "half.npz")
    assert len(stopped.rounds) == 2 and stopped.ended == "stopped on request"
    again = teach(teacher, LEARNER, so_far=load_transcript(tmp_path / "half.npz", DOMAIN))
    limited = teach(teacher, LEARNER, max_rounds=1)
    assert limited.ended == "the limit of 1 rounds was reached"
    for continued in (again, teach(teacher, LEARNER, so_far=limited), teach(teacher, LEARNER, so_far=whole)):
        assert_same_transcript(continued, whole)


@pytest.mark.parametrize("teacher", ADAPTIVE)
def test_a_replay_is_the_same_rounds_without_the_learner(teacher):
    transcript = teach(teacher, LEARNER)
    seen = []
    assert_same_transcript(
        replay(teacher, transcript, on_round=lambda so_far: seen.append(len(so_far.rounds))), transcript
    )
    assert seen == list(range(1, len(transcript.rounds) + 1))
    with pytest.raises(InteractionFailed, match=r"round 2.*the recorded lesson is .* but this teacher gives"):
        replay(LineSearchTeacher(DOMAIN, WEIGHTS, longest_push=0.2), teach(ADAPTIVE[0], LEARNER))


@dataclass(frozen=True)
class BareTeacher:
    """Shows one expectation."""

    domain: Domain
    true_weights: Vector
    shown: tuple[float, ...]

    def open(self) -> Advice:
        return Advice(Lesson.from_expectation(self.shown), "a bare expectation")

    def adapt(self, rounds: tuple[Round, ...]) -> Advice:
        return Advice(None, "no more")


@pytest.mark.parametrize(("off", "is_refused"), [(0.0, False), (1e-12, False), (1e-7, True), (1e-3, True)])
def test_a_replay_allows_rounding_and_no_more(off, is_refused):
    transcript = teach(BareTeacher(DOMAIN, WEIGHTS, (1.0, 2.0)), LEARNER)
    again = BareTeacher(DOMAIN, WEIGHTS, (1.0, 2.0 + off))
    if is_refused:
        with pytest.raises(InteractionFailed, match="the recorded lesson is"):
            replay(again, transcript)
        return
    assert len(replay(again, transcript).rounds) == 1


def test_rounds_are_streamed_as_they_happen(tmp_path):
    path, seen = tmp_path / "taught.npz", []

    def look(so_far: Transcript):
        assert_same_transcript(load_transcript(path, DOMAIN), so_far)
        seen.append(so_far.final.response_reward)

    transcript = teach(ADAPTIVE[0], LEARNER, on_round=look, path=path)
    assert seen == [taught.response_reward for taught in transcript.rounds]


def test_a_callback_that_raises_leaves_the_rounds_on_disk(tmp_path):
    def interrupt(so_far: Transcript):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        teach(ADAPTIVE[0], LEARNER, on_round=interrupt, path=tmp_path / "taught.npz")
    assert len(load_transcript(tmp_path / "taught.npz", DOMAIN).rounds) == 1


class BadLearner:
    """Answers as it should once, and then as it should not."""

    def __init__(self, spoil):
        self.spoil, self.n_asked = spoil, 0

    def respond(self, lesson: Lesson):
        self.n_asked += 1
        response = LEARNER.respond(lesson)
        return response if self.n_asked == 1 else self.spoil(response)


def with_expectation(response, reward):
    """The response with an expectation that its constructor would have refused."""
    spoilt = Expectation(response.expectation.reward, response.expectation.preference)
    object.__setattr__(spoilt, "reward", np.asarray(reward))
    return replace(response, expectation=spoilt)


def raises(_):
    raise ZeroDivisionError("no idea")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda response: with_expectation(response, [np.nan, 1.0]), r"expectation\[0\] is nan"),
        (lambda response: with_expectation(response, [1.0, 2.0, 3.0]), "has 3 entries, but there are 2 features"),
        (lambda response: with_expectation(response, [1e9, 0.0]), "'reward 0' is 1e.09; no trajectory counts"),
        (lambda response: with_expectation(response, [-1.0, 0.0]), "no trajectory counts less than 0"),
        (lambda response: replace(response, policy=response.policy * 2), "the policy sums to 2 in state 0"),
        (lambda response: replace(response, policy=response.policy[1:]), "policy has .* entries"),
        (lambda response: "yes", "respond must return a Response, got str"),
        (raises, "ZeroDivisionError: no idea"),
    ],
)
def test_nonsense_ends_the_interaction_and_keeps_the_rounds(spoil, message, tmp_path):
    teacher, path = ADAPTIVE[0], tmp_path / "taught.npz"
    with pytest.raises(InteractionFailed, match=f"no valid response in round 2.*{message}") as caught:
        teach(teacher, BadLearner(spoil), path=path)
    assert isinstance(caught.value, TutelageError)
    kept = caught.value.transcript
    assert len(kept.rounds) == 1 and kept.ended == str(caught.value)
    assert_same_transcript(load_transcript(path, DOMAIN), kept)
    assert_same_transcript(teach(teacher, LEARNER, so_far=kept), teach(teacher, LEARNER))


@dataclass(frozen=True)
class ForgetfulTeacher:
    """Opens well and then fails in some way."""

    domain: Domain
    true_weights: Vector
    lesson: Lesson | None = None

    def open(self) -> Advice:
        return AgnosticTeacher(self.domain, self.true_weights).open()

    def adapt(self, rounds: tuple[Round, ...]) -> Advice:
        if self.lesson is None:
            raise RuntimeError("lost my notes")
        return Advice(self.lesson, "something else")


def test_a_teacher_that_fails_does_not_lose_the_learners_answer():
    teacher: Teacher = ForgetfulTeacher(DOMAIN, WEIGHTS)
    with pytest.raises(
        InteractionFailed, match="no valid advice after 1 rounds: RuntimeError: lost my notes"
    ) as caught:
        teach(teacher, LEARNER)
    assert len(caught.value.transcript.rounds) == 1
    astray = ForgetfulTeacher(DOMAIN, WEIGHTS, Lesson.from_expectation([1.0]))
    with pytest.raises(InteractionFailed, match="the lesson's expectation has 1 entries"):
        teach(astray, LEARNER)


def test_what_cannot_be_meant_is_refused(tmp_path):
    transcript = teach(ADAPTIVE[0], LEARNER)
    with pytest.raises(InvalidInput, match="max_rounds must be at least one, got 0"):
        teach(ADAPTIVE[0], LEARNER, max_rounds=0)
    with pytest.raises(InvalidInput, match="so_far is for the weights"):
        teach(VolumeSearchTeacher(DOMAIN, 2 * WEIGHTS), LEARNER, so_far=transcript)
    with pytest.raises(InvalidInput, match="this transcript has no rounds: no round has been taught yet"):
        _ = Transcript(WEIGHTS).final
    with pytest.raises(InvalidInput, match=r"must end in \.npz"):
        save_transcript(transcript, tmp_path / "taught.json")
    save_transcript(transcript, tmp_path / "taught.npz")
    with pytest.raises(InvalidModel, match=r"taught\.npz holds no valid transcript"):
        load_transcript(tmp_path / "taught.npz", random_problem(1).domain)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "taught.npz").read_bytes()[:-50])
    with pytest.raises(InvalidModel, match=r"cut\.npz cannot be read as a tutelage transcript"):
        load_transcript(tmp_path / "cut.npz", DOMAIN)


def test_a_learner_in_the_place_of_the_teacher_is_refused():
    with pytest.raises(InvalidInput, match=r"the teacher has no method open; write teach\(teacher, learner\)"):
        teach(LEARNER, ADAPTIVE[0])
    with pytest.raises(InvalidInput, match="the learner has no method respond"):
        teach(ADAPTIVE[0], ADAPTIVE[0])


def test_a_teacher_that_can_certify_is_not_asked_for_a_lesson_that_nobody_sees():
    """After the last round `certify` takes the place of `adapt`; its bound counts, and so does a reason to stop."""
    asked = []

    class Certifying(AgnosticTeacher):
        def adapt(self, rounds):
            asked.append(len(rounds))
            return self.open()

        def certify(self, rounds):
            return Advice(None, "", 5.0)

    problem = random_problem(4)
    transcript = teach(Certifying(problem.domain, problem.true_weights), problem.learner, max_rounds=3)
    assert asked == [1, 2] and transcript.final.bound == 5.0
    assert transcript.ended == "the limit of 3 rounds was reached"
