"""Algorithm 1 for any teacher and any learner: kept, saved, continued, replayed, and intact when a learner fails."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from problems import random_problem

from tutelage.arrays import Vector
from tutelage.chains.expectations import Expectation
from tutelage.interaction import InteractionFailed, replay, teach
from tutelage.learners.entropy import SoftLearner
from tutelage.learners.sampled import SampledLearner
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidInput, InvalidModel, TutelageError
from tutelage.roles import Advice, Lesson, Round, Teacher
from tutelage.teachers.base import OneLessonTeacher
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.teachers.line_search import LineSearchTeacher
from tutelage.teachers.volume_search import VolumeSearchTeacher
from tutelage.transcripts import Transcript, check_response, load_transcript, save_transcript

PROBLEM = random_problem(8)
DOMAIN, WEIGHTS, LEARNER = PROBLEM.domain, PROBLEM.true_weights, PROBLEM.learner
ADAPTIVE = [
    VolumeSearchTeacher(DOMAIN, WEIGHTS),
    LineSearchTeacher(DOMAIN, WEIGHTS, shortest_push=0.1, longest_push=5.0, stop_tolerance=1e-3),
]


def values(record):
    """Every number and word in a record, by the names that lead to it; the MDP is the domain's own."""
    assert not isinstance(record, MDP) or record is DOMAIN.mdp
    if hasattr(record, "__dataclass_fields__") and not isinstance(record, MDP):
        return {
            f"{name}.{place}": value
            for name in record.__dataclass_fields__
            for place, value in values(getattr(record, name)).items()
        }
    return {"": record}


def assert_same(one: Transcript, other: Transcript):
    assert one.ended == other.ended and len(one.rounds) == len(other.rounds)
    for first, second in zip(one.rounds, other.rounds, strict=True):
        left, right = values(first), values(second)
        assert left.keys() == right.keys()
        for place in left.keys() - {"lesson.mdp.", "response.lesson.mdp."}:
            assert_array_equal(left[place], right[place], err_msg=place)


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
def test_a_transcript_keeps_rewards_and_distances(teacher):
    transcript = teach(teacher, LEARNER)
    assert len(transcript.rounds) > 1
    for taught in transcript.rounds:
        shown, done = taught.lesson.expectation, taught.response.expectation.reward
        assert taught.lesson_reward == pytest.approx(WEIGHTS @ shown)
        assert taught.response_reward == pytest.approx(WEIGHTS @ done)
        assert taught.distance == pytest.approx(np.linalg.norm(shown - done))
    assert transcript.final is transcript.rounds[-1]
    assert transcript.best.response_reward == max(taught.response_reward for taught in transcript.rounds)
    assert str(transcript).count("\n") == len(transcript.rounds) + 1 and transcript.ended in str(transcript)


@pytest.mark.parametrize("teacher", ADAPTIVE)
def test_a_transcript_comes_back_from_its_file(teacher, tmp_path):
    transcript = teach(teacher, LEARNER, path=tmp_path / "taught.npz")
    assert_same(load_transcript(tmp_path / "taught.npz", DOMAIN), transcript)


def test_demonstrations_and_bare_expectations_come_back_too(tmp_path):
    """A sampled learner's lessons have demonstrations; a lesson may also be an expectation alone."""

    class BareTeacher(OneLessonTeacher):
        def open(self) -> Advice:
            return Advice(Lesson.from_expectation([1.0, 2.0]), "a bare expectation")

    sampled = SampledLearner(DOMAIN, LEARNER, 5, 6, rng=np.random.default_rng(3))
    for transcript in (
        teach(ADAPTIVE[0], sampled),
        teach(BareTeacher(DOMAIN, WEIGHTS), SoftLearner(DOMAIN, mismatch_penalty=2, violation_penalty=3)),
    ):
        save_transcript(transcript, tmp_path / "taught.npz")
        assert_same(load_transcript(tmp_path / "taught.npz", DOMAIN), transcript)


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
        assert_same(continued, whole)


@pytest.mark.parametrize("teacher", ADAPTIVE)
def test_a_replay_is_the_same_rounds_without_the_learner(teacher):
    transcript = teach(teacher, LEARNER)
    seen = []
    assert_same(replay(teacher, transcript, on_round=lambda so_far: seen.append(len(so_far.rounds))), transcript)
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


def test_of_equal_rounds_the_final_one_is_the_best():
    lesson = AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson
    taught = Round(lesson, LEARNER.respond(lesson))
    transcript = Transcript(WEIGHTS).followed_by(taught).followed_by(taught)
    assert transcript.best is transcript.final is transcript.rounds[1]
    poor = replace(taught, response=replace(taught.response, expectation=Expectation([0.0, 0.0], [0.0, 0.0])))
    after = transcript.followed_by(poor)
    expected = max(transcript.final.response_reward, 0.0)
    assert after.best.response_reward == expected and after.final.response_reward == 0.0


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (Expectation([-0.1, 0.0], [0.0, 0.0]), "of 'reward 0' is -0.1; no trajectory counts less than 0"),
        (Expectation([0.0, 1e6], [0.0, 0.0]), "of 'reward 1' is 1e"),
        (Expectation([0.0, 0.0], [-0.1, 0.0]), "of 'preference 0' is -0.1"),
        (Expectation([0.0, 0.0], [0.0, 1e6]), "of 'preference 1' is 1e"),
    ],
)
def test_counts_that_no_trajectory_has_are_refused(counts, message):
    response = LEARNER.respond(AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson)
    assert check_response(DOMAIN, response) is response
    with pytest.raises(InvalidModel, match=message):
        check_response(DOMAIN, replace(response, expectation=counts))


def test_counts_that_are_negative_by_rounding_are_accepted():
    """A learner's own solver may give -1e-17 for a feature that its policy never meets."""
    response = LEARNER.respond(AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson)
    rounded = replace(response, expectation=Expectation([-1e-17, 0.0], [0.0, -1e-16]))
    assert check_response(DOMAIN, rounded) is rounded


def test_a_file_with_a_lesson_of_another_domain_is_refused(tmp_path):
    lesson = AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson
    taught = Transcript(WEIGHTS).followed_by(Round(lesson, LEARNER.respond(lesson)))
    wrong = replace(taught.final, lesson=Lesson.from_expectation([1.0, 2.0, 3.0]))
    save_transcript(replace(taught, rounds=(wrong,)), tmp_path / "taught.npz")
    with pytest.raises(InvalidModel, match="the lesson's expectation has 3 entries"):
        load_transcript(tmp_path / "taught.npz", DOMAIN)


def test_rounds_are_streamed_as_they_happen(tmp_path):
    path, seen = tmp_path / "taught.npz", []

    def look(so_far: Transcript):
        assert_same(load_transcript(path, DOMAIN), so_far)
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
    assert_same(load_transcript(path, DOMAIN), kept)
    assert_same(teach(teacher, LEARNER, so_far=kept), teach(teacher, LEARNER))


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


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("n_rounds", -4, "n_rounds must be a whole number of at least 0, got -4"),
        ("n_rounds", 1.5, "n_rounds must be one value"),
        ("n_rounds", 10**9, "it lacks '2.lesson.expectation'"),
        ("true_weights", [np.nan, 1.0], r"true_weights\[0\] is nan"),
        ("true_weights", [1.0], "true_weights has 1 entries"),
        ("true_weights", ["a", "b"], "true_weights must be an array of numbers"),
        ("ended", 3, "ended must be one value"),
        ("0.bound", np.nan, "0.bound must be one value"),
        ("0.bound", "high", "0.bound must be one value"),
        ("0.reason", [["a"]], "0.reason must be one value"),
        ("0.lesson.expectation", [np.inf, 0.0], r"0.lesson.expectation\[0\] is inf"),
        ("0.lesson.uncertainty", [0.0], "the lesson's uncertainty has 1 entries"),
        ("0.lesson.policy", [0.5], "policy"),
        ("0.response.lesson.policy", ["0.5"], "policy must be an array of numbers"),
        ("0.response.learned_weights", [1.0], "arrays of a response do not fit"),
        ("0.response.multipliers.lower", [1.0], "arrays of a response do not fit"),
        ("0.response.violation_excess", np.zeros(9), "arrays of a response do not fit"),
        ("0.response.reward_names", [1, 2], "must be a list of texts"),
        ("0.response.reward_names", ["a"], "arrays of a response do not fit"),
        ("0.response.certificate.primal", np.nan, "primal must be one value"),
        ("0.response.certificate.n_steps", "many", "n_steps must be one value"),
        ("0.response.certificate.ended", "SOMEHOW", "ended must be one of CONVERGED"),
        ("0.response.expectation.reward", np.full(50_000, "x"), "must be an array of numbers"),
        ("0.reason", np.full((9, 9), "x" * 900), "0.reason must be one value"),
    ],
)
def test_a_transcript_with_a_wrong_field_is_refused_in_one_short_sentence(tmp_path, field, value, complaint):
    path = tmp_path / "wrong.npz"
    transcript = teach(ADAPTIVE[0], LEARNER, max_rounds=2)
    save_transcript(transcript, path)
    with np.load(path) as archive:
        np.savez(path, **dict(archive) | {field: np.asarray(value)})
    with pytest.raises(InvalidModel, match=complaint) as caught:
        load_transcript(path, DOMAIN)
    assert "wrong.npz holds no valid transcript" in str(caught.value)
    assert len(str(caught.value)) <= 300 and "\n" not in str(caught.value)


def test_the_rewards_of_a_loaded_transcript_are_those_of_its_rounds(tmp_path):
    """The recorded sums are not believed: they follow from the weights and the expectations."""
    path, transcript = tmp_path / "edited.npz", teach(ADAPTIVE[0], LEARNER)
    save_transcript(transcript, path)
    with np.load(path) as archive:
        np.savez(path, **dict(archive) | {"0.response_reward": np.array(99.0)})
    assert_same(load_transcript(path, DOMAIN), transcript)


def test_a_learner_in_the_place_of_the_teacher_is_refused():
    with pytest.raises(InvalidInput, match=r"the teacher has no method open; write teach\(teacher, learner\)"):
        teach(LEARNER, ADAPTIVE[0])
    with pytest.raises(InvalidInput, match="the learner has no method respond"):
        teach(ADAPTIVE[0], ADAPTIVE[0])
