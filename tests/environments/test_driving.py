"""The driving simulator, and the curves of other people's teachers and learners on it."""

from pathlib import Path

import numpy as np
import pytest

import tutelage as tl

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "driving_reference.npz"
needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="the curves of other people's code are not shipped")
PAIRS = [(i, j) for i in range(8) for j in range(i, 8)]


def test_every_drive_ends_after_ten_rows():
    world = tl.driving_world(3)
    shown = tl.sample_demonstrations(world.domain, tl.uniform_policy(world.domain.mdp), 50, rng=0)
    assert set(shown.lengths) == {11}
    assert set(shown.last_states) == {800}


def test_a_road_without_anything_pays_its_constant_for_each_step():
    """Road 0 is empty: 0.5 for each of ten rows, discounted by 0.99."""
    world = tl.driving_world(5)
    start = world.domain.starting_in("road 0, row 0, left")
    value = tl.expectation(start, tl.uniform_policy(start.mdp)).reward @ world.true_weights
    assert value == pytest.approx(0.5 * (1 - 0.99**10) / 0.01, rel=1e-6)


def quadratic(parameters):
    """The reward of Kamalaruban et al. 2019, w1 @ phi + (w2 @ phi)^2, as weights of phi and its products."""
    linear, square = parameters[:8], parameters[8:]
    weights = np.array([(1 + (i != j)) * square[i] * square[j] for i, j in PAIRS])
    slope = np.zeros((8 + len(PAIRS) + 1, 16))
    slope[:8, :8] = np.eye(8)
    for k, (i, j) in enumerate(PAIRS):
        slope[8 + k, 8 + i] += (1 + (i != j)) * square[j]
        slope[8 + k, 8 + j] += (1 + (i != j)) * square[i]
    return np.concatenate([linear, weights, [0.0]]), slope


@pytest.fixture(scope="module")
def reference():
    """The stored curves, with our domain, learner and candidate lessons; features: phi, products, one per step."""
    stored = np.load(REFERENCE)
    world = tl.driving_world(cells=stored["features"][:800])
    phi = stored["features"]
    products = np.array([phi[:, i] * phi[:, j] for i, j in PAIRS]).T
    features = np.hstack([phi, products, np.append(np.ones(800), 0.0)[:, None]])
    domain = tl.Domain(world.domain.mdp, features, world.domain.preference_features)
    weights = np.concatenate([world.true_weights[:8], np.zeros(len(PAIRS)), [0.5]])
    weights[8 + PAIRS.index((4, 7))] = -6.0
    learner = tl.SequentialLearner(domain, rate=0.17, start=stored["w0"], reward=quadratic)
    lessons = []
    for road, drives in enumerate(stored["demos"]):
        states = [[*drive[:, 0], 800] for drive in drives]
        choices = [[*(3 * drive[:, 0] + drive[:, 1]), -1] for drive in drives]
        shown = tl.Demonstrations.from_choice_sequences(domain.mdp, states, choices)
        start = domain.state_name(20 * road)
        lessons.append(tl.Lesson.from_demonstrations(domain, shown, start=start))
    np.testing.assert_array_equal(features @ weights, stored["true_reward"])
    return stored, domain, weights, learner, lessons


def played(reference, number):
    """The rounds of the learner with the starts of one stored curve."""
    stored, _, _, learner, lessons = reference
    rounds, last = [], None
    for start in stored["starts"][number]:
        last = learner.respond(lessons[start // 20], after=last)
        rounds.append(tl.Round(lessons[start // 20], last))
    return rounds


@needs_reference
@pytest.mark.parametrize("number", range(4), ids=["agnostic", "omniscient", "set cover", "curriculum"])
def test_our_learner_follows_the_curves_of_other_peoples_code(reference, number):
    stored, _, weights, _, _ = reference
    rewards = [taught.response.expectation.reward @ weights for taught in played(reference, number)]
    np.testing.assert_allclose(rewards, stored["curves"][number, 1:], atol=1e-9, rtol=0)


@needs_reference
def test_the_omniscient_teacher_chooses_their_starts(reference):
    stored, domain, weights, learner, lessons = reference
    teacher = tl.OmniscientTeacher(domain, weights, learner, candidates=lessons, target=stored["target"])
    rounds = played(reference, 1)
    for t, start in enumerate(stored["starts"][1]):
        if t % 4 == 0:
            assert teacher.scores(rounds[:t]).argmax() == start // 20


@needs_reference
def test_the_curriculum_chooses_their_starts_but_for_ties(reference):
    stored, domain, weights, learner, lessons = reference
    first = learner.policy(stored["w0"], np.zeros(domain.n_preference))
    teacher = tl.CurriculumTeacher(domain, weights, candidates=lessons, initial_policy=first)
    rounds, ties = played(reference, 3), 0
    for t, start in enumerate(stored["starts"][3]):
        scores = teacher.scores(rounds[:t])
        assert scores[start // 20] == pytest.approx(scores.max(), rel=1e-12)
        ties += scores.argmax() != start // 20
    assert ties <= 3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 0.5}, "seed must be"),
        ({"preferences": ("HOW",)}, "there is no feature 'HOW'; did you mean 'HOV'"),
    ],
)
def test_a_world_that_cannot_be_made_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(tl.InvalidInput, match=sentence):
        tl.driving_world(**given)
