"""Transcripts: rewards, rounds and files, and what a file must hold to be believed."""

from dataclasses import replace

import numpy as np
import pytest
from problems import assert_same_transcript, random_problem
from strategies import random_domain

from tutelage.chains.expectations import Expectation
from tutelage.environments.object_world import object_world
from tutelage.interaction import teach
from tutelage.learners.exact import HardLearner, SoftLearner
from tutelage.learners.sampled import SampledLearner
from tutelage.learners.sequential import SequentialLearner
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidModel
from tutelage.roles import Advice, Lesson, Round
from tutelage.teachers.adaptive import VolumeSearchTeacher
from tutelage.teachers.base import OneLessonTeacher
from tutelage.teachers.bilevel import BilevelTeacher
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.teachers.line_search import LineSearchTeacher
from tutelage.transcripts import Transcript, check_response, load_transcript, save_transcript

PROBLEM = random_problem(8)
DOMAIN, WEIGHTS, LEARNER = PROBLEM.domain, PROBLEM.true_weights, PROBLEM.learner
ADAPTIVE = [
    VolumeSearchTeacher(DOMAIN, WEIGHTS),
    LineSearchTeacher(DOMAIN, WEIGHTS, shortest_push=0.1, longest_push=5.0, stop_tolerance=1e-3),
]


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
    assert_same_transcript(load_transcript(tmp_path / "taught.npz", DOMAIN), transcript)


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
        assert_same_transcript(load_transcript(tmp_path / "taught.npz", DOMAIN), transcript)


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
    rounded = replace(response, expectation=Expectation([-1e-17, 0.0], [0.0, -1e-16]), bias=np.zeros(4))
    assert check_response(DOMAIN, rounded) is rounded


def test_without_its_learner_a_response_is_checked_as_far_as_possible(tmp_path):
    """Its policy proves its expectation. Its objective and bound need the learner: the transcript says so."""
    lesson = AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson
    response = LEARNER.respond(lesson)
    done, other = response.expectation, uniform_policy(DOMAIN.mdp)
    half = Expectation(0.5 * done.reward, 0.5 * done.preference)
    proof = response.certificate
    for wrong in (
        replace(response, policy=other),
        replace(response, expectation=half),
        replace(response, certificate=replace(proof, dual=proof.primal - 1)),
    ):
        with pytest.raises(InvalidModel, match=r"its (expectation\[\d\]|dual) is"):
            check_response(DOMAIN, wrong)
    assert check_response(DOMAIN, replace(response, expectation=half, bias=np.zeros(4)))
    save_transcript(Transcript(WEIGHTS).followed_by(Round(lesson, response)), tmp_path / "taught.npz")
    assert "Not verified: objectives and bounds" in str(load_transcript(tmp_path / "taught.npz", DOMAIN))
    teach(AgnosticTeacher(DOMAIN, WEIGHTS), LEARNER, path=tmp_path / "taught.npz")
    loaded = load_transcript(tmp_path / "taught.npz", DOMAIN)
    assert "objectives" not in loaded.unverified and "Not verified: the teacher's reasons and bounds" in str(loaded)
    assert "all numbers" in load_transcript(tmp_path / "taught.npz", DOMAIN, verify=False).unverified


def test_a_file_with_a_lesson_of_another_domain_is_refused(tmp_path):
    lesson = AgnosticTeacher(DOMAIN, WEIGHTS).open().lesson
    taught = Transcript(WEIGHTS).followed_by(Round(lesson, LEARNER.respond(lesson)))
    wrong = replace(taught.final, lesson=Lesson.from_expectation([1.0, 2.0, 3.0]))
    save_transcript(replace(taught, rounds=(wrong,)), tmp_path / "taught.npz")
    with pytest.raises(InvalidModel, match="the lesson's expectation has 3 entries"):
        load_transcript(tmp_path / "taught.npz", DOMAIN)


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
        ("0.response.learned_weights", [1.0], "learned_weights has 1 entries, but 4 are needed"),
        ("0.response.multipliers.lower", [1.0], "arrays of a response do not fit"),
        ("0.response.violation_excess", np.zeros(9), "arrays of a response do not fit"),
        ("0.response.reward_names", [1, 2], "must be a list of texts"),
        ("0.response.reward_names", ["a"], "arrays of a response do not fit"),
        ("0.response.certificate.primal", np.nan, "primal must be one value"),
        ("0.response.certificate.n_steps", "many", "n_steps must be one value"),
        ("0.response.certificate.ended", "SOMEHOW", "ended must be one of CONVERGED"),
        ("0.response.expectation.reward", np.full(50_000, "x"), "must be an array of numbers"),
        ("0.reason", np.full((9, 9), "x" * 900), "0.reason must be one"),
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
    assert len(str(caught.value).removeprefix(str(path))) <= 240 and "\n" not in str(caught.value)


def edited(path, field, change):
    """The same file with one array changed."""
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays[field] = change(arrays[field])
    np.savez(path, **arrays)


EDITS = {
    "a permuted policy": ("0.response.policy", lambda policy: np.roll(policy.reshape(-1, 5), 1, axis=1).ravel()),
    "another expectation": ("0.response.expectation.reward", lambda counts: 0.99 * counts),
    "a better objective": ("0.response.certificate.primal", lambda primal: primal + 0.01),
    "an invented bound": ("0.response.certificate.dual", lambda dual: dual - 0.01),
    "another lesson": ("0.lesson.expectation", lambda shown: shown * 0.99),
    "a policy that was not shown": ("0.lesson.policy", lambda policy: np.full_like(policy, 0.2)),
    "other weights": ("0.response.learned_weights", lambda weights: weights + 0.01),
    "other multipliers": ("0.response.multipliers.preference", lambda beta: beta + 0.01),
    "no violation": ("0.response.violation_excess", lambda excess: excess + 0.01),
    "a smaller residual": ("0.response.certificate.residual", lambda residual: residual - 123),
    "less doubt": ("0.response.certificate.uncertainty", lambda doubt: doubt + 1),
    "another reward": ("0.response_reward", lambda reward: reward + 1),
    "other true weights": ("true_weights", lambda weights: 2 * weights),
    "a bound that was beaten": ("0.bound", lambda bound: np.array(-99.0)),
    "another allowance": ("learner.violation_allowance", lambda allowance: allowance + 0.1),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_an_edited_file_is_refused_and_the_number_is_named(tmp_path, kind, edit):
    world = object_world(7, 1)
    domain, path = world.domain("L3"), tmp_path / "taught.npz"
    learner = SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    if kind == "hard":
        learner = HardLearner(domain, violation_allowance=1.5)
    teach(AgnosticTeacher(domain, world.true_weights), learner, path=path)
    assert load_transcript(path, domain).final.response.certificate.gap < 1e-6
    field, change = EDITS[edit]
    edited(path, field, change)
    with pytest.raises(
        InvalidModel,
        match=r"taught\.npz holds no valid transcript of this domain: round 1, the (lesson|response): its",
    ):
        load_transcript(path, domain)
    assert load_transcript(path, domain, verify=False).rounds


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("field", ["0.response.certificate.residual", "0.bound", "0.lesson_reward", "true_weights"])
def test_numbers_of_random_rounds_are_proved_or_refused(tmp_path, seed, field):
    """Inference relies on the residual, and a person on the bound: neither may be made up. On no grid."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=10, n_reward=2, n_preference=1)
    learner = SoftLearner(domain, mismatch_penalty=2, violation_penalty=3, violation_allowance=0.5)
    path = tmp_path / "taught.npz"
    taught = teach(BilevelTeacher(domain, rng.normal(size=2), learner, max_cells=2, n_random=0), learner, path=path)
    assert_same_transcript(load_transcript(path, domain), taught)
    wrong = {"0.bound": taught.final.response_reward - 0.1}
    edited(path, field, lambda value: np.asarray(wrong.get(field, value + 0.1)))
    with pytest.raises(InvalidModel, match=r"its (residual|teacher's bound|reward\[0\]) is"):
        load_transcript(path, domain)


def test_the_numbers_of_steps_and_the_learner_of_a_file_are_refused_in_a_sentence(tmp_path):
    teach(AgnosticTeacher(DOMAIN, WEIGHTS), LEARNER, path=tmp_path / "taught.npz")
    edited(tmp_path / "taught.npz", "learner.domain", lambda checksum: np.zeros(0))
    assert "objectives" in load_transcript(tmp_path / "taught.npz", DOMAIN).unverified
    teach(AgnosticTeacher(DOMAIN, WEIGHTS), LEARNER, path=tmp_path / "taught.npz")
    edited(tmp_path / "taught.npz", "0.response.certificate.n_steps", lambda n: np.array(-5))
    with pytest.raises(InvalidModel, match="the number of steps of the certificate must be a whole number"):
        load_transcript(tmp_path / "taught.npz", DOMAIN)


def test_a_memory_of_nan_is_refused_when_it_is_read(tmp_path):
    """It would be refused in the next round only, when the interaction fails."""
    path = tmp_path / "taught.npz"
    teach(AgnosticTeacher(DOMAIN, WEIGHTS), SequentialLearner(DOMAIN), path=path)
    edited(path, "0.response.memory.weights", lambda weights: np.full_like(weights, np.nan))
    with pytest.raises(InvalidModel, match="memory 'weights' holds NaN"):
        load_transcript(path, DOMAIN)


def test_a_sentence_with_a_terminal_escape_is_refused(tmp_path):
    teach(AgnosticTeacher(DOMAIN, WEIGHTS), LEARNER, path=tmp_path / "taught.npz")
    edited(tmp_path / "taught.npz", "ended", lambda ended: np.array("\x1b[2J"))
    with pytest.raises(InvalidModel, match="control character"):
        load_transcript(tmp_path / "taught.npz", DOMAIN)


def test_a_single_demonstration_can_be_written_and_read(tmp_path):
    """One trajectory has no standard error: its uncertainty is infinite."""
    sampled = SampledLearner(DOMAIN, LEARNER, 1, 1, rng=0)
    transcript = teach(AgnosticTeacher(DOMAIN, WEIGHTS), sampled, path=tmp_path / "taught.npz")
    assert np.isinf(transcript.final.response.lesson.uncertainty).any()
    assert_same_transcript(load_transcript(tmp_path / "taught.npz", DOMAIN), transcript)
