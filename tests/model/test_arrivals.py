"""Features on arrival: expectations use the mean given the choice, trajectories what happened."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from strategies import build_mdp, random_policy

import tutelage as tl
from tutelage.data.empirical import trajectory_counts
from tutelage.data.sampling import ends
from tutelage.inference.recovery import count_covariance

# A treatment that heals (state 1) or not (state 2), or waiting; both ends are absorbing.
WARD = tl.MDP.from_choices(
    [[0, 0.3, 0.7], [0.9, 0.05, 0.05], [0, 1, 0], [0, 0, 1]],
    [0, 2, 3, 4],
    [1, 0, 0],
    0.9,
    state_names=["ill", "well", "dead"],
    choice_names=["treat", "wait", "stay", "stay"],
)


def survived(state: str, action: str, after: str) -> float:
    return float(after == "well" and state != after)


def random_arrivals(seed: int) -> tuple[tl.Domain, np.ndarray]:
    """A domain whose one reward and one preference feature depend on the next state, and their values (C, S, 2)."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(1, 4, size=9), 0.8)
    values = rng.normal(size=(mdp.n_choices, mdp.n_states, 2))
    domain = tl.Domain(
        mdp, {"gain": values[:, :, 0], "length": np.ones(9)}, {"pain": sparse.csr_array(values[:, :, 1])}
    )
    return domain, values


def test_a_trajectory_counts_what_happened_and_an_expectation_the_mean():
    domain = tl.Domain(WARD, {"survived": survived, "steps": lambda state: float(state == "ill")})
    assert_allclose(domain.reward_features, [[0.3, 1], [0.05, 1], [0, 0], [0, 0]])
    walks = tl.Demonstrations.from_sequences(WARD, [[0, 0, 1], [0, 2], [0, 0]], [[1, 0], [0], [1, 0]])
    counts = trajectory_counts(domain, walks)[0]
    # The third walk breaks off: where its last step led is not known, so it counts its mean.
    assert_allclose(counts, [[0.9, 1.9], [0.0, 1.0], [0.9 * 0.3, 1.9]])
    policy = np.array([0.0, 1.0, 1.0, 1.0])
    assert_allclose(tl.expectation(domain, policy).reward, np.array([0.05, 1]) / (1 - 0.9 * 0.9))
    shown = tl.Lesson.from_policy(domain, np.array([1.0, 0.0, 1.0, 1.0])).show(2, true_weights=[1.0, 0.0], rng=0)
    assert sorted(item.features["survived"] for item in shown) == [0.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_a_plain_loop_and_their_mean_is_the_expectation(seed):
    """Five standard errors of three means in each of three samples: by chance a failure has probability 6e-6."""
    domain, values = random_arrivals(seed)
    rng = np.random.default_rng(seed)
    policy = random_policy(rng, domain.mdp)
    walks = tl.sample_demonstrations(domain, policy, 2_000, rng=rng, truncation_bias=1e-9)
    rewards, preferences = trajectory_counts(domain, walks)
    for number in range(5):
        walk = walks[number]
        weights = 0.8 ** np.arange(len(walk) - 1)
        happened = values[walk.choices[:-1], walk.states[1:]]
        mean = [domain.reward_features[walk.choices[-1], 0], domain.preference_features[walk.choices[-1], 0]]
        # In an absorbing state the last step is repeated for ever.
        n_last = 1 / (1 - 0.8) if ends(domain)[walk.states[-1]] else 1
        total = weights @ happened + n_last * 0.8 ** (len(walk) - 1) * np.array(mean)
        assert_allclose([rewards[number, 0], preferences[number, 0]], total, atol=1e-8)
    seen, exact = tl.empirical_expectation(domain, walks), tl.expectation(domain, policy)
    assert (np.abs(seen.reward - exact.reward) <= 5 * seen.reward_standard_error + 1.01 * seen.reward_bias).all()
    assert np.abs(seen.preference - exact.preference) <= 5 * seen.preference_standard_error + seen.preference_bias


@pytest.mark.parametrize("seed", range(3))
def test_the_covariance_of_counts_has_the_chance_of_the_arrival(seed):
    """Every entry within five standard errors of that of 3,000 trajectories: by chance it fails below 1e-4."""
    domain, _ = random_arrivals(seed)
    rng = np.random.default_rng(seed)
    soft = tl.soft_expansion(domain.mdp, tl.combined_features(domain), rng.normal(size=3))
    walks = tl.sample_demonstrations(domain, soft.solved.policy, 3_000, rng=rng, truncation_bias=1e-9)
    counts = np.hstack(trajectory_counts(domain, walks))
    spread = counts - counts.mean(axis=0)
    products = spread[:, :, None] * spread[:, None]
    error, exact = products.std(axis=0) / np.sqrt(3_000), count_covariance(domain, soft)
    assert (np.abs(products.mean(axis=0) - exact) <= 5 * error + 0.01 * np.abs(exact).max()).all()
    blind = count_covariance(replace(domain, reward_arrivals={}, preference_arrivals={}), soft)
    assert abs(products.mean(axis=0)[0, 0] - blind[0, 0]) > 5 * error[0, 0]


def test_every_form_gives_the_same_feature():
    """Arrays per choice, per state and action, sparse, functions of three names, and `explore`."""
    rng = np.random.default_rng(5)
    mdp = tl.MDP.from_arrays(rng.dirichlet(np.ones(4), size=(4, 3)), np.ones(4) / 4, 0.9)
    values = rng.integers(3, size=(4, 3, 4)).astype(float)
    rows = values.reshape(12, 4)
    forms = [
        tl.Domain(mdp, values[..., None]),
        tl.Domain(mdp, rows[:, :, None]),
        tl.Domain(mdp, {"reward 0": sparse.csr_array(rows)}),
        tl.Domain(mdp, {"reward 0": lambda state, action, after: values[state, action, after]}),
        tl.Domain(mdp, np.zeros(4)).with_features(reward={"reward 0": rows}),
        tl.explore(
            dict.fromkeys(range(4), 0.25),
            lambda state: range(3),
            lambda state, action: list(zip(mdp.transition[[3 * state + action]].toarray()[0], range(4), strict=True)),
            discount=0.9,
            reward=lambda state, action, after: values[state, action, after],
        ),
    ]
    for domain in forms:
        assert_allclose(domain.reward_features[:, 0], (mdp.transition.toarray() * rows).sum(axis=1))
        assert_array_equal(domain.reward_arrivals["reward 0"].toarray(), rows)
    steady = tl.Domain(mdp, {"same": np.repeat([[1.0], [2.0], [3.0]] * 4, 4, axis=1)})
    assert not steady.reward_arrivals and steady.reward_features[1, 0] == 2.0


def test_arrivals_stay_with_their_feature(tmp_path):
    domain = tl.Domain(
        WARD, {"survived": survived, "steps": np.ones(3)}, {"died": lambda s, a, t: float(s < t == "no")}
    )
    tl.save(domain, tmp_path / "ward.npz")
    for copy in (tl.load(tmp_path / "ward.npz"), pickle.loads(pickle.dumps(domain))):
        assert copy.reward_arrivals.keys() == {"survived"} and not copy.preference_arrivals
        assert_array_equal(copy.reward_arrivals["survived"].data, domain.reward_arrivals["survived"].data)
        assert_array_equal(copy.reward_features, domain.reward_features)
    fewer = replace(domain, reward_features=domain.reward_features[:, 1:], reward_names=("steps",))
    assert not fewer.reward_arrivals
    assert not domain.with_features(reward={"survived": np.zeros(4)}).reward_arrivals
    assert domain.with_features(reward={"steps": None}).reward_arrivals.keys() == {"survived"}
    with pytest.raises(tl.InvalidModel, match="'survived' is not the mean of its values on arrival"):
        replace(domain, reward_features=2 * domain.reward_features)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (np.zeros((3, 3)), r"the feature 'x' has shape \(3, 3\); give one value per choice and next state, \(4, 3\)"),
        (sparse.csr_array(np.full((4, 3), np.nan)), "the feature 'x' is nan for choice 0, next state 1"),
        (lambda state, action, after: "high", r"state 0 \('ill'\), action 0 \('treat'\): the 'x' features 'high'"),
    ],
)
def test_a_wrong_feature_on_arrival_is_refused_with_a_sentence(feature, message):
    with pytest.raises(tl.InvalidModel, match=message):
        tl.Domain(WARD, {"x": feature})
    with pytest.raises(tl.InvalidModel, match="reward features have names of their own; leave out reward_names"):
        tl.Domain(WARD, {"x": np.ones(3)}, reward_names=("y",))


def test_an_environment_pays_what_happened():
    gymnasium = pytest.importorskip("gymnasium")
    env = tl.to_gymnasium(tl.Domain(WARD, {"survived": survived}))
    assert env.P[0][0] == [(0.3, 1, 1.0, True), (0.7, 2, 0.0, True)]
    env.reset(seed=0)
    state, reward, is_end, _, _ = env.step(0)
    assert is_end and reward == float(state == 1)
    lake = tl.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.99)
    walks = tl.sample_demonstrations(lake, tl.solve_hard(lake.mdp, lake.reward_features[:, 0]).policy, 50, rng=0)
    counts = trajectory_counts(lake, walks)[0][:, 0]
    # A walk that arrives at step t counts 0.99^t, one that falls into a hole nothing.
    assert_allclose(counts, np.where(counts > 0.1, 0.99 ** (walks.lengths - 2), 0.0))
    assert 0 < (counts > 0.1).sum() < 50
