"""Continuous worlds on a grid: exact where interpolation is, and driven on the true MountainCar, CartPole and stock."""

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_allclose

import tutelage as tl

DEMAND = {0.0: 0.2, 1.0: 0.5, 2.0: 0.3}


def mountain_car(shape=(40, 40), discount=0.99):
    env = gymnasium.make("MountainCar-v0").unwrapped
    env.reset(seed=0)

    def step(x, action):
        env.state = x
        return env.step(action)[0]

    return tl.discretise(
        step,
        low=[-1.2, -0.07],
        high=[0.6, 0.07],
        shape=shape,
        actions={"left": 0, "coast": 1, "right": 2},
        start=[[place, 0.0] for place in np.linspace(-0.6, -0.4, 11)],
        discount=discount,
        reward=lambda x, action: {"steps": 1.0},
        preference=lambda x, action: {"left": float(action == 0)},
        ends=lambda x: x[0] >= 0.5,
        names=["position", "velocity"],
    )


def cart_pole(shape=(7, 9, 11, 9), discount=0.995):
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)

    def step(x, action):
        env.state, env.steps_beyond_terminated = x, None
        return env.step(action)[0]

    return tl.discretise(
        step,
        low=[-2.4, -3, -0.2095, -3],
        high=[2.4, 3, 0.2095, 3],
        shape=shape,
        actions={"left": 0, "right": 1},
        start=np.zeros(4),
        discount=discount,
        reward=lambda x, action: {"upright": 1.0},
        ends=lambda x: "fallen" if abs(x[0]) >= 2.4 or abs(x[2]) >= 0.2095 else None,
        goals=[],
        names=["place", "speed", "angle", "spin"],
    )


def stock(n=21, step_size=1.0):
    """A shop: order up to two, sell the demand; each order costs 1, each sale earns 3, what is kept costs 0.1."""

    def move(x, order, demand):
        return np.maximum(x + order - demand, 0.0)

    def reward(x, order, after):
        return {"orders": order, "sales": float(x[0] + order - after[0]), "kept": float(after[0])}

    return tl.discretise(
        move,
        low=[0.0],
        high=[(n - 1) * step_size],
        shape=[n],
        actions=[0.0, 1.0, 2.0],
        start=[5.0],
        discount=0.9,
        reward=reward,
        noise=DEMAND,
        names=["stock"],
    )


def played(env_name, model, policy, n, discount, seed=0):
    """(length, discounted steps, whether it ended by itself) of n real episodes driven by the policy."""
    results = []
    for episode in range(n):
        env, rng = gymnasium.make(env_name), np.random.default_rng(episode + seed)
        x, _ = env.reset(seed=episode + seed)
        is_over = is_ended = False
        length = 0
        while not is_over:
            x, _, is_ended, is_cut, _ = env.step(model.action_at(x, policy, rng=rng))
            length, is_over = length + 1, is_ended or is_cut
        results.append((length, (1 - discount**length) / (1 - discount), is_ended))
    return map(np.array, zip(*results, strict=True))


def test_twenty_of_twenty_real_cars_arrive_and_the_prediction_is_within_the_stated_error():
    model = mountain_car()
    optimum = tl.solve_hard(model.mdp, -model.reward_features[:, 0])
    _, steps, is_ended = played("MountainCar-v0", model, optimum.policy, 20, 0.99)
    assert is_ended.all()
    predicted = float(model.mdp.initial @ optimum.value)
    assert abs(predicted + steps.mean()) < model.resolution_error(optimum.policy, [-1.0], n=2)
    assert tl.arrival(model, optimum.policy).is_certain
    assert model.state_name(0) == "position -1.200, velocity -0.0700"


def test_nine_of_ten_real_poles_stay_up_for_500_steps():
    model = cart_pole()
    optimum = tl.solve_hard(model.mdp, model.reward_features[:, 0])
    lengths, steps, _ = played("CartPole-v1", model, optimum.policy, 10, 0.995)
    assert (lengths == 500).sum() >= 9
    predicted = float(model.mdp.initial @ optimum.value)
    assert abs(predicted - steps.mean()) < model.resolution_error(optimum.policy, [1.0])


def test_a_lesson_of_a_learner_that_brakes_little_is_driven():
    """Any player works on the model: a limit on pushes to the left is kept in expectation."""
    model = mountain_car((20, 20))
    learner = tl.HardLearner(model, {"left": 15.0})
    lesson = tl.AwareCmdpTeacher(model, [-1.0], learner).open().lesson
    assert tl.expectation(model, lesson.policy).preference[0] <= 15.0 + 1e-6


def test_whole_numbers_of_a_shop_are_exact():
    """Where every next state is a point of the grid, the model is the finite one that `explore` makes."""
    model = stock()

    def outcomes(x, order):
        return [(share, max(min(x + order, 99.0) - demand, 0.0)) for demand, share in DEMAND.items()]

    exact = tl.explore(
        5.0,
        lambda x: [0.0, 1.0, 2.0] if x < 40 else [0.0],
        outcomes,
        discount=0.9,
        reward=lambda x, order, after: {"orders": order, "sales": x + order - after, "kept": after},
    )
    weights = [-1.0, 3.0, -0.1]
    values = [
        float(domain.mdp.initial @ tl.solve_hard(domain.mdp, domain.reward_features @ weights).value)
        for domain in (model, exact)
    ]
    assert_allclose(*values, rtol=1e-9)
    policy = tl.solve_hard(model.mdp, model.reward_features @ weights).policy
    # Between two points the shop does what it does at both.
    assert_allclose(
        model.policy_at([4.5], policy), (model.policy_at([4.0], policy) + model.policy_at([5.0], policy)) / 2
    )


@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (9, 9)])
def test_linear_values_are_exact_on_any_grid(shape):
    """x' = A x within the box and a linear reward: the value is linear, so interpolation has no error at all."""
    pull, discount = np.array([[0.6, 0.2], [0.1, 0.5]]), 0.9
    model = tl.discretise(
        lambda x, action: pull @ x,
        low=[-1, -1],
        high=[1, 1],
        shape=shape,
        actions=["go"],
        start=[0.3, -0.7],
        discount=discount,
        reward=lambda x, action: list(x),
    )
    policy = tl.uniform_policy(model.mdp)
    wanted = np.linalg.solve(np.eye(2) - discount * pull, [0.3, -0.7])
    assert_allclose(tl.expectation(model, policy).reward, wanted, rtol=1e-12)
    assert model.resolution_error(policy, [1.0, 2.0]) <= 1e-12


def test_a_finer_grid_has_a_smaller_error_and_the_error_covers_the_shop():
    """Demands off the grid: predictions converge, and each is within its stated error of the finest one."""
    errors, values = [], []
    for n, size in ((6, 4.1), (21, 1.02), (81, 0.255)):
        model = stock(n, size)
        weights = [-1.0, 3.0, -0.1]
        policy = tl.solve_hard(model.mdp, model.reward_features @ weights).policy
        values.append(float(tl.expectation(model, policy).reward @ weights))
        errors.append(model.resolution_error(policy, weights))
    assert errors[0] > errors[1] > errors[2]
    assert all(abs(value - values[-1]) <= error + errors[-1] for value, error in zip(values, errors, strict=True))


def test_bad_worlds_are_refused_with_a_sentence():
    given = {"low": [0.0], "high": [1.0], "shape": [3], "actions": [0], "start": [0.5], "discount": 0.9}
    given["reward"] = lambda x, action: 1.0
    with pytest.raises(tl.InvalidModel, match="must give 1 finite numbers"):
        tl.discretise(lambda x, action: [np.nan], **given)
    with pytest.raises(tl.InvalidModel, match="one number for each dimension"):
        tl.discretise(lambda x, action: x, **(given | {"high": [0.0]}))
    with pytest.raises(tl.InvalidModel, match=r"sums to 0\.8"):
        tl.discretise(lambda x, action, w: x, **given, noise={1: 0.4, 2: 0.4})
    with pytest.raises(tl.InvalidInput, match="no state ends in the goal 'top'"):
        tl.discretise(lambda x, action: x, **given, goals=["top"])
    with pytest.raises(tl.InvalidInput, match="at least 2"):
        tl.discretise(lambda x, action: x, **(given | {"shape": [1]}))
    with pytest.raises(tl.InvalidModel, match="has 2000000000 transitions; give a coarser shape"):
        tl.discretise(lambda x, action: x, **(given | {"shape": [10**9]}))
    for start in ([2, 1], [[0.1, 0.2]], [[[0.5]]], []):
        with pytest.raises(tl.InvalidModel, match="start must have"):
            tl.discretise(lambda x, action: x, **(given | {"start": start}))
    for start in (0.5, [0.5], [[0.0], [1.0]]):
        assert tl.discretise(lambda x, action: x, **(given | {"start": start})).mdp.initial.sum() == 1
