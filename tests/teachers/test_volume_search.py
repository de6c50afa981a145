"""AdAware-Vol: Theorem 2 on random domains and the published worlds; and learners that do not project."""

import math
import zlib
from itertools import pairwise

import numpy as np
import pytest
from oracles import lattice
from problems import published_problem, random_problem, soft_learner
from scipy.spatial import ConvexHull, QhullError
from strategies import some_of

from tutelage.environments.object_world import object_world
from tutelage.interaction import teach
from tutelage.learners.observed import CallbackLearner
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson
from tutelage.solvers.occupancy_polytope import best_policy
from tutelage.solvers.reachable_set import vertices
from tutelage.teachers.fixed import AgnosticTeacher, AwareCmdpTeacher, ConservativeTeacher
from tutelage.teachers.volume_search import VolumeSearchTeacher

EPS = 0.01


def n_facets(corners):
    """m, the number of inequalities of a polytope, or None where it is flat."""
    try:
        return len(np.unique(np.round(ConvexHull(corners).equations, 6), axis=0))
    except (QhullError, ValueError):
        return None


def check_theorem_2(problem):
    """The estimate holds the feasible set, lessons earn no less than the aware teacher, and the end is eps away."""
    domain, weights = problem.domain, problem.true_weights
    teacher = VolumeSearchTeacher(domain, weights, stop_tolerance=EPS)
    transcript = teach(teacher, problem.learner)
    size = 1 + np.abs(transcript.final.lesson.expectation).max()
    estimate = teacher.estimate(transcript.rounds)
    for normal, offset in zip(estimate.normals[:, : domain.n_reward], estimate.offsets, strict=True):
        assert best_policy(domain, normal, problem.limits).value <= offset + 1e-6 * size
    for taught in transcript.rounds:
        assert "again" in taught.reason or taught.lesson_reward >= problem.aware - 1e-6 * size
        assert taught.bound >= problem.aware - 1e-6 * size
    final = transcript.final.response_reward
    assert final >= problem.aware - EPS * problem.most_lost - 1e-6 * size
    assert final >= transcript.best.response_reward - 1e-9 * (1 + abs(final))
    return transcript


def check_corners(problem, transcript, record_property):
    """The same again for every vertex of the feasible set; and the number of rounds beside the theorem's m^d_r."""
    corners = vertices(problem.domain, problem.limits)
    estimate = VolumeSearchTeacher(problem.domain, problem.true_weights).estimate(transcript.rounds)
    padded = np.pad(corners, ((0, 0), (0, problem.domain.n_preference)))
    excess = max(estimate.excess(corner).max(initial=0.0) for corner in padded)
    assert excess <= 1e-6 * (1 + np.abs(corners).max())
    m = n_facets(corners)
    record_property("rounds", len(transcript.rounds))
    record_property("m ** d_r", m and m**problem.domain.n_reward)
    assert m is None or len(transcript.rounds) <= m**problem.domain.n_reward


@pytest.mark.parametrize("seed", some_of(range(100), range(30)))
def test_theorem_2_on_random_domains(seed, record_property):
    problem = random_problem(seed)
    transcript = check_theorem_2(problem)
    if seed < 30:
        check_corners(problem, transcript, record_property)


@pytest.mark.parametrize("name", ["L1", "L2", "L3"])
@pytest.mark.parametrize("seed", some_of(range(10), [0, 3, 8]))
def test_theorem_2_on_the_published_worlds(name, seed, record_property):
    """And for L2 within 0.1 of Aware-CMDP after three rounds, here in every world, and within 0.05 at the end."""
    problem = published_problem(name, seed)
    transcript = check_theorem_2(problem)
    rounds = transcript.rounds
    assert all(later.bound <= earlier.bound + 1e-7 for earlier, later in pairwise(rounds))
    if name == "L2":
        check_corners(problem, transcript, record_property)
        assert rounds[:3][-1].response_reward >= problem.aware - 0.1
        assert rounds[-1].response_reward >= problem.aware - 0.05


@pytest.mark.parametrize("seed", some_of(range(10), [0, 8]))
def test_the_approximate_learner_is_taught_nearly_as_well_as_by_one_who_knows_it(seed):
    """Footnote 1's learner does not project; the teacher says so, and ends where its learner earned most."""
    problem = published_problem("L2", seed)
    domain, weights, learner = problem.domain, problem.true_weights, soft_learner(problem)
    transcript = teach(VolumeSearchTeacher(domain, weights), learner)
    final = transcript.final.response_reward
    everything = object_world(size=10, seed=seed).domain("L5").preference_features
    assert final > problem.taught(AgnosticTeacher(domain, weights).open().lesson, learner)
    assert final > problem.taught(ConservativeTeacher(domain, weights, everything).open().lesson, learner)
    assert final >= 0.95 * problem.taught(AwareCmdpTeacher(domain, weights, learner).open().lesson, learner)
    assert final == pytest.approx(transcript.best.response_reward, abs=1e-9)
    assert transcript.final.bound == math.inf and "nothing is certified" in transcript.ended


def test_answers_that_leave_no_policy_are_said_to_be_no_projections():
    """On a line: shown the top the learner goes half-way, shown half-way it goes to the top. No point fits both."""
    domain = Domain(lattice(3, discount=0.9), np.eye(9)[:, [0]])
    teacher = VolumeSearchTeacher(domain, [1.0])
    top = teacher.open().lesson.expectation
    moody = CallbackLearner(domain, lambda lesson: top / 2 if lesson.expectation > 0.9 * top else top)
    transcript = teach(teacher, moody)
    assert len(transcript.rounds) == 3 and "the best lesson again, that of round 2" in transcript.final.reason
    assert transcript.ended.startswith("no policy is within the cuts; the responses are not projections")
    assert transcript.rounds[0].bound == pytest.approx(0.55 * top[0]) and transcript.final.bound == math.inf


def test_a_noisy_learner_is_never_taught_worse_than_in_its_best_round():
    """Noise of a definite kind, a function of the lesson: whatever happens between, the last round is the best."""
    for seed in range(6):
        problem = random_problem(seed)

        def noisy(lesson: Lesson, problem=problem):
            rng = np.random.default_rng(zlib.crc32(lesson.expectation.tobytes()))
            elsewhere = rng.exponential(size=problem.domain.mdp.n_choices)
            totals = np.add.reduceat(elsewhere, problem.domain.mdp.first_choice[:-1])
            anything = elsewhere / np.repeat(totals, problem.domain.mdp.choices_per_state)
            done = problem.learner.respond(lesson).expectation.reward
            return 0.7 * done + 0.3 * expectation(problem.domain, anything).reward

        learner = CallbackLearner(problem.domain, noisy)
        transcript = teach(VolumeSearchTeacher(problem.domain, problem.true_weights), learner)
        assert transcript.final.response_reward >= transcript.best.response_reward - 1e-9


def test_a_learner_that_does_what_it_is_shown_needs_one_round():
    problem = random_problem(2)
    learner = CallbackLearner(problem.domain, lambda lesson: lesson.expectation)
    transcript = teach(VolumeSearchTeacher(problem.domain, problem.true_weights), learner)
    assert len(transcript.rounds) == 1 and transcript.ended == "the learner matches the lesson within 0.01"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut_tightness": 0.0}, r"cut_tightness must lie in \(0, 1\], got 0"),
        ({"cut_tightness": 1.5}, r"cut_tightness must lie in \(0, 1\], got 1.5"),
        ({"stop_tolerance": 0.0}, "stop_tolerance must be positive, got 0"),
        ({"true_weights": [1.0]}, "true_weights has 1 entries, but there are 2 reward features"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    problem = random_problem(0)
    with pytest.raises(InvalidModel, match=message):
        VolumeSearchTeacher(**{"domain": problem.domain, "true_weights": problem.true_weights, **options})
