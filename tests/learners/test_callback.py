"""A person or a program as the learner: its answers become responses; impossible answers are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import published_problem, random_problem

from tutelage.chains.expectations import Expectation, expectation
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.files import load_demonstrations, save_demonstrations
from tutelage.data.sampling import sample_demonstrations
from tutelage.interaction import InteractionFailed, teach
from tutelage.learners.sampled import CallbackLearner
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson
from tutelage.teachers.adaptive import VolumeSearchTeacher
from tutelage.teachers.fixed import AgnosticTeacher

PROBLEM = random_problem(4)
DOMAIN = PROBLEM.domain
LESSON = AgnosticTeacher(DOMAIN, PROBLEM.true_weights).open().lesson


def test_the_response_has_the_expectation_answered():
    done = PROBLEM.learner.respond(LESSON).expectation
    for answer in (done.reward, list(done.reward), done):
        response = CallbackLearner(DOMAIN, lambda lesson, answer=answer: answer).respond(LESSON)
        assert_allclose(response.expectation.reward, done.reward)
        assert_allclose(expectation(DOMAIN, response.policy).reward, done.reward, atol=1e-6)
    assert_allclose(response.expectation.preference, done.preference)


def test_the_response_has_the_empirical_expectation_of_trajectories():
    """An external program: it reads demonstrations from a file and writes trajectories to another."""
    rng = np.random.default_rng(5)

    def program(lesson: Lesson):
        return lesson.demonstrations(40, rng=rng)

    response = CallbackLearner(DOMAIN, program).respond(LESSON)
    again = empirical_expectation(DOMAIN, LESSON.demonstrations(40, rng=np.random.default_rng(5)))
    assert_allclose(response.expectation.both, np.concatenate([again.reward, again.preference]))


def test_a_program_behind_files_is_taught_in_rounds(tmp_path):
    """The file it reads holds the demonstrations; the file it writes holds its trajectories."""
    problem = published_problem("L2", 0)
    domain, rng = problem.domain, np.random.default_rng(1)

    def program(lesson: Lesson):
        save_demonstrations(lesson.demonstrations(300, rng=rng), tmp_path / "shown.jsonl")
        shown = Lesson.from_demonstrations(domain, load_demonstrations(tmp_path / "shown.jsonl", domain.mdp))
        done = sample_demonstrations(domain.mdp, problem.learner.respond(shown).policy, 300, rng=rng)
        save_demonstrations(done, tmp_path / "done.jsonl")
        return load_demonstrations(tmp_path / "done.jsonl", domain.mdp)

    transcript = teach(VolumeSearchTeacher(domain, problem.true_weights), CallbackLearner(domain, program))
    assert transcript.best.response_reward > 2 * transcript.rounds[0].response_reward


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([np.nan, 1.0], r"the answer\[0\] is nan"),
        ([1.0, 2.0, 3.0], "the answer has 3 entries, but there are 2 reward features"),
        ([-1.0, 0.0], "no policy has the expectation answered: it differs from the nearest by 'reward 0' -"),
        ("well", "the answer must be an array of numbers"),
        (None, "the answer"),
    ],
)
def test_an_impossible_answer_is_refused(answer, message):
    learner = CallbackLearner(DOMAIN, lambda lesson: answer)
    with pytest.raises(InvalidModel, match=message):
        learner.respond(LESSON)
    with pytest.raises(InteractionFailed, match=message):
        teach(AgnosticTeacher(DOMAIN, PROBLEM.true_weights), learner)


def test_an_impossible_preference_expectation_is_refused():
    done = PROBLEM.learner.respond(LESSON).expectation
    learner = CallbackLearner(DOMAIN, lambda lesson: Expectation(done.reward, done.preference + 1e6))
    with pytest.raises(InteractionFailed, match="no trajectory counts less"):
        teach(AgnosticTeacher(DOMAIN, PROBLEM.true_weights), learner)


def test_trajectories_that_no_policy_has_on_average_are_accepted_and_their_distance_certified():
    """One choice leads left or right by chance: one walk to the left is no policy's expectation, but it was seen."""
    mdp = MDP.from_choices([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0, 1, 2, 3], [1.0, 0.0, 0.0], 0.5)
    domain = Domain(mdp, np.eye(3)[:, 1:], reward_names=("left", "right"))
    walk = Demonstrations.from_sequences(mdp, [[0, 1]])
    response = CallbackLearner(domain, lambda lesson: walk).respond(Lesson.from_expectation([1.0, 0.0]))
    assert_allclose(response.expectation.reward, [1.0, 0.0])
    assert response.certificate.primal == pytest.approx(-np.sqrt(0.5))
    with pytest.raises(InvalidModel, match="no policy has the expectation answered"):
        CallbackLearner(domain, lambda lesson: [1.0, 0.0]).respond(Lesson.from_expectation([1.0, 0.0]))
