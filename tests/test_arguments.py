"""Arguments of players: what is no number of its kind is refused by name, never a bare exception, a hang or a NaN."""

import numpy as np
import pytest
from strategies import random_domain, random_policy

import tutelage as tl

DOMAIN = random_domain(np.random.default_rng(4), max_states=8, n_reward=2, n_preference=1)
W = np.array([1.0, -0.4])
LESSON = tl.AgnosticTeacher(DOMAIN, W).open().lesson
SOFT = tl.SoftLearner(DOMAIN, mismatch_penalty=2, violation_penalty=3)
NAN, INF = float("nan"), float("inf")

# What makes a player or an answer, and of each of its arguments, what the argument must not be.
WRONG = {
    "sequential": (
        lambda **given: tl.SequentialLearner(DOMAIN, **given).respond(LESSON),
        {"rate": [0, NAN, INF, "1"], "n_steps": [0, 1.5, "3", True], "start": [[0, 0, 0], "x"]},
    ),
    "cloning": (lambda **given: tl.CloningLearner(DOMAIN, **given), {"prior": [-1, NAN, INF, "a", None]}),
    "bayesian": (
        lambda **given: tl.BayesianLearner(DOMAIN, **given),
        {"candidates": [-1, 0, 2.5, True, "x"], "rng": ["x", -1], "rationality": [NAN, -1, "1"]},
    ),
    "apprentice": (
        lambda **given: tl.ApprenticeLearner(DOMAIN, **given),
        {"max_steps": [-1, 0, 2.5], "tolerance": [NAN, -1, INF]},
    ),
    "published": (
        lambda **given: tl.PublishedLearner(DOMAIN, mismatch_penalty=1, violation_penalty=1, **given),
        {"max_steps": [0, 1.5, "x"]},
    ),
    "soft": (
        lambda **given: tl.SoftLearner(DOMAIN, **{"mismatch_penalty": 1, "violation_penalty": 1} | given),
        {"mismatch_penalty": [1e308, "x", None], "violation_penalty": [1e308, "x"]},
    ),
    "sampled": (
        lambda **given: tl.SampledLearner(DOMAIN, SOFT, **{"n_shown": 1, "n_seen": 1, "rng": 0} | given),
        {"n_shown": [1.5, "3", 0], "n_seen": [0, None]},
    ),
    "random": (
        lambda **given: tl.RandomTeacher(DOMAIN, W, **given),
        {
            "max_starts": [0, -1, 1.5],
            "max_lessons": [-1, 0],
            "rng": [-1, "a"],
            "n_demonstrations": [0, 1.5],
            "candidates": [[3]],
            "initial_policy": [[1, 2]],
            "learner": [3],
        },
    ),
    "candidate_lessons": (
        lambda **given: tl.candidate_lessons(DOMAIN, tl.uniform_policy(DOMAIN.mdp), **given),
        {"max_starts": [0, -1], "rng": [-1, "a"]},
    ),
    "bilevel": (
        lambda **given: tl.BilevelTeacher(DOMAIN, W, SOFT, **given),
        {"n_random": [1.5, -1], "max_cells": [NAN, -1], "largest_weight": [INF, 0, "x"]},
    ),
    "adaptive_bilevel": (
        lambda **given: tl.AdaptiveBilevelTeacher(DOMAIN, W, **given),
        {"max_cells": [NAN, INF, 1e308], "n_random": [0.5], "n_trajectories": [-1], "stop_tolerance": [NAN, 0, "x"]},
    ),
    "volume_search": (
        lambda **given: tl.VolumeSearchTeacher(DOMAIN, W, **given),
        {"cut_tightness": [0, 2, "x"], "stop_tolerance": [0, INF]},
    ),
    "line_search": (
        lambda **given: tl.LineSearchTeacher(DOMAIN, W, **given),
        {"patience": [0, 1.5], "shortest_push": [-1, "x"], "longest_push": [INF]},
    ),
    "preference_costs": (
        lambda **given: tl.preference_costs(SOFT, W, **given),
        {"preference_expectation": [[1, 2], [NAN], "x"]},
    ),
    "greedy_policy": (
        lambda **given: tl.greedy_policy(
            DOMAIN.mdp, **{"choice_value": np.zeros(DOMAIN.mdp.n_choices), "tie_tolerance": 0.0} | given
        ),
        {"choice_value": [[1, 2], np.full(DOMAIN.mdp.n_choices, NAN)], "tie_tolerance": [-1, NAN]},
    ),
    "soft_expansion": (
        lambda **given: tl.soft_expansion(DOMAIN.mdp, weights=[1.0], **given),
        {"features": [[1, 2], [["a"]], [[10**400]]]},
    ),
}
CASES = [(what, name, bad) for what, (_, given) in WRONG.items() for name, values in given.items() for bad in values]


@pytest.mark.parametrize(("what", "name", "bad"), CASES, ids=[f"{w}-{n}-{str(b)[:12]}" for w, n, b in CASES])
def test_a_wrong_argument_is_refused_by_name(what, name, bad):
    with pytest.raises(tl.TutelageError) as refused:
        WRONG[what][0](**{name: bad})
    told = str(refused.value)
    known = {"candidates": "respond needs a Lesson", "initial_policy": "policy has", "learner": "learner has no"}
    known |= {"mismatch_penalty": "mismatch penalty", "violation_penalty": "preference penalty"}
    assert name in told or known[name] in told


def test_a_list_of_features_is_as_good_as_an_array():
    features = DOMAIN.reward_features
    given = tl.soft_expansion(DOMAIN.mdp, features.tolist(), W)
    assert given.expectation == pytest.approx(tl.soft_expansion(DOMAIN.mdp, features, W).expectation)


@pytest.mark.parametrize(
    ("learner", "other"),
    [
        (tl.SequentialLearner(DOMAIN), tl.CloningLearner(DOMAIN)),
        (tl.CloningLearner(DOMAIN), tl.SequentialLearner(DOMAIN)),
        (tl.BayesianLearner(DOMAIN, 5), tl.BayesianLearner(DOMAIN, 6)),
        (tl.GatheringLearner(SOFT), tl.CloningLearner(DOMAIN)),
    ],
    ids=["sequential", "cloning", "bayesian", "gathering"],
)
def test_the_memory_of_another_learner_is_refused(learner, other):
    with pytest.raises(tl.InvalidInput, match="the last response is that of another learner or domain"):
        learner.respond(LESSON, after=other.respond(LESSON))


@pytest.mark.parametrize("seed", range(4))
def test_a_bayesian_learner_of_extreme_candidates_has_a_posterior(seed):
    """Probabilities underflow to zero, and a choice that was never shown counts 0 * log 0 = 0."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, n_reward=2, n_preference=1)
    shown = tl.sample_demonstrations(domain, random_policy(rng, domain.mdp), 3, rng=seed, max_steps=40)
    lesson = tl.Lesson.from_demonstrations(domain, shown)
    response = tl.BayesianLearner(domain, [[1e5, 0], [0, -1e5], [1e5, 1e5]]).respond(lesson)
    assert np.isfinite(response.memory["log_posterior"]).all() and np.isfinite(response.policy).all()
    assert np.exp(response.memory["log_posterior"]).sum() == pytest.approx(1.0)
