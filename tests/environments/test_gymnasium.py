"""Gymnasium environments as domains, and recorded episodes as demonstrations."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import optimal_value
from strategies import random_domain

from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.environments.gymnasium import from_gymnasium, to_gymnasium
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput, InvalidModel

gymnasium = pytest.importorskip("gymnasium")

ENVIRONMENTS = {
    "FrozenLake-v1": (16, 4),
    "CliffWalking-v1": (48, 4),
    "Taxi-v4": (500, 6),
}


def make(name: str, **options):
    """An environment by name; before Gymnasium 1.4 the latest Taxi was version 3."""
    return gymnasium.make(name if name in gymnasium.registry else name.replace("Taxi-v4", "Taxi-v3"), **options)


def textbook_value(env, discount: float, n_steps: int) -> float:
    """The same value from the environment's table, with the loops of a textbook."""
    table, value = env.unwrapped.P, np.zeros(len(env.unwrapped.P))
    for _ in range(n_steps):
        value = np.array(
            [
                max(
                    sum(p * (reward + (0 if is_end else discount * value[after])) for p, after, reward, is_end in row)
                    for row in table[state].values()
                )
                for state in range(len(table))
            ]
        )
    return float(env.unwrapped.initial_state_distrib @ value)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_real_environment_has_the_optimum_of_its_own_table(name):
    """The domain has the same optimum: after 200 steps at discount 0.9 less than 1e-6 of the reward remains."""
    env = make(name)
    n_states, n_actions = ENVIRONMENTS[name]
    domain = from_gymnasium(env, discount=0.9)
    assert (domain.mdp.n_states, domain.mdp.n_choices) == (n_states + 1, (n_states + 1) * n_actions)
    assert domain.reward_names == ("reward",)
    assert_allclose(domain.mdp.transition.sum(axis=1), 1.0, rtol=1e-14)
    assert optimal_value(domain, [1.0]) == pytest.approx(textbook_value(env, 0.9, 200), abs=1e-6)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_the_best_walk_along_the_cliff_takes_thirteen_steps(discount):
    """Up, eleven to the right, down: -1 each, -(1 - g^13) / (1 - g) in total."""
    domain = from_gymnasium(make("CliffWalking-v1"), discount=discount)
    assert optimal_value(domain, [1.0]) == pytest.approx(-(1 - discount**13) / (1 - discount), rel=1e-10)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_the_best_walk_over_firm_ice_pays_at_its_sixth_step(discount):
    """Six steps to the goal, the first undiscounted: g^5."""
    domain = from_gymnasium(make("FrozenLake-v1", is_slippery=False), discount=discount)
    assert optimal_value(domain, [1.0]) == pytest.approx(discount**5, rel=1e-10)


def test_a_preference_counts_on_arrival_even_where_the_episode_ends():
    """A hole lies three steps down from the start: the third choice arrives there, at discount g^2."""
    holes = np.array(list("SFFFFHFHFFFHHFFG")) == "H"
    env = make("FrozenLake-v1", is_slippery=False)
    domain = from_gymnasium(env, discount=0.9, preference_features=holes[:, None], preference_names=["in a hole"])
    down = np.tile([0.0, 1.0, 0.0, 0.0], domain.mdp.n_states)
    assert domain.preference_names == ("in a hole",)
    assert_allclose(expectation(domain, down).preference, [0.9**2])


def test_the_end_of_an_episode_keeps_its_choices():
    """Reading 6: after the end a policy still gains entropy log 4 per step, so a learner has no reason to delay it."""
    mdp = from_gymnasium(make("FrozenLake-v1"), discount=0.9).mdp
    assert causal_entropy(mdp, uniform_policy(mdp)) == pytest.approx(np.log(4) / (1 - 0.9))


def test_ragged_tables_keep_every_states_own_actions_in_order():
    """Actions may be missing, out of order, or lead twice to one state; the end has the largest number of choices."""
    table = {
        1: {0: [(0.5, 0, 2.0, False), (0.25, 0, 4.0, False), (0.25, 0, 0.0, True)]},
        0: {3: [(1.0, 1, -1.0, False)], 1: [(1.0, 0, 5.0, True)]},
    }
    domain = from_gymnasium(SimpleNamespace(P=table), discount=0.9, initial=[0.5, 0.5])
    expected = [[0, 0, 1], [0, 1, 0], [0.75, 0, 0.25], [0, 0, 1], [0, 0, 1]]
    assert_allclose(domain.mdp.transition.toarray(), expected)
    assert_allclose(domain.reward_features[:, 0], [5.0, -1.0, 2.0, 0.0, 0.0])
    assert_array_equal(domain.mdp.first_choice, [0, 2, 3, 5])
    assert_array_equal(domain.mdp.initial, [0.5, 0.5, 0.0])


LOOP = [(1.0, 0, 0.0, False)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "has no table P"),
        ({}, "has no table P"),
        ("P", "has no table P"),
        ({0: {0: LOOP}, 2: {0: LOOP}}, "numbered from 0 to 1 without a gap"),
        ({"a": {0: LOOP}}, "P has an entry 'a'"),
        ({0: {"left": LOOP}}, r"P\[0\] has an entry 'left'"),
        ({0: {}}, r"P\[0\] is empty"),
        ({0: {0: []}}, r"P\[0\]\[0\] is empty"),
        ({0: {0: [(0.9, 0, 0.0, False)]}}, "state 0, action 0: row 0 of transition sums to 0.9"),
        ({0: {0: [(-0.5, 0, 0.0, False), (1.5, 0, 0.0, False)]}}, r"P\[0\]\[0\] gives probability -0.5"),
        ({0: {0: [(1.0, 0, np.nan, False)]}}, r"P\[0\]\[0\] gives .* reward nan"),
        ({0: {0: [(1.0, 1, 0.0, False)]}}, r"P\[0\]\[0\] gives .* to state 1; .*, and the states are 0 to 0"),
        ({0: {0: [(1.0, 0.5, 0.0, False)]}}, r"P\[0\]\[0\] must be a list of \(probability"),
        ({0: {0: [(1.0, 0, 0.0)]}}, r"P\[0\]\[0\] must be a list of \(probability"),
        ({0: {0: None}}, r"P\[0\]\[0\] must be a list of \(probability"),
    ],
)
def test_tables_that_mean_nothing_are_refused(table, message):
    """The message names the state and the action."""
    with pytest.raises(InvalidModel, match=message):
        from_gymnasium(SimpleNamespace(P=table, initial_state_distrib=[1.0]), discount=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no initial_state_distrib"),
        ({"initial": [0.5, 0.5]}, "initial has 2 entries, but there are 1 states in the environment"),
        ({"initial": [0.5]}, "initial sums to 0.5"),
        ({"initial": [1.0], "preference_features": [[1.0], [0.0]]}, "preference_features has 2 entries"),
        ({"initial": [1.0], "preference_features": [[[[1.0]]]]}, "must have 2 axes"),
        ({"initial": [1.0], "preference_features": [[1.0]], "preference_names": ["a", "b"]}, "different names"),
        ({"initial": [1.0], "discount": 1.5}, "discount"),
    ],
)
def test_arguments_that_do_not_fit_the_table_are_refused(options, message):
    """Arguments beside the table must have one entry per state of the environment."""
    with pytest.raises(InvalidModel, match=message):
        from_gymnasium(SimpleNamespace(P={0: {0: LOOP}}), **({"discount": 0.9} | options))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_states_and_actions_have_names_that_agree_with_the_environment(name):
    """A step by a named action leads to the named state; the names lead back to the numbers."""
    env = make(name, **({"is_slippery": False} if "Lake" in name else {}))
    domain = from_gymnasium(env, discount=0.9)
    assert [domain.state(one) for one in domain.state_names] == list(range(domain.mdp.n_states))
    assert domain.state_name(domain.mdp.n_states - 1) == "end"
    if "Taxi" in name:
        start, action = "taxi at row 1, column 0, passenger at red, destination green", "north"
        wanted = "taxi at row 0, column 0, passenger at red, destination green"
    else:
        start, action, wanted = "row 1, column 2", "up", "row 0, column 2"
    [after] = domain.mdp.transition[[domain.choice(start, action)]].indices
    assert domain.state_name(after) == wanted


def test_names_pass_through_an_environment_and_back():
    domain = random_domain(np.random.default_rng(5))
    named = domain.mdp.n_states
    domain = replace(domain, state_names=[("at", i) for i in range(named)], choice_names=range(domain.mdp.n_choices))
    env = to_gymnasium(domain)
    again = from_gymnasium(env, discount=0.9)
    assert list(again.state_names) == [*domain.state_names, "end"]
    assert list(again.choice_names)[: domain.mdp.n_choices] == list(domain.choice_names)
    _, info = env.reset(seed=1)
    state, _, _, _, after = env.step(0)
    assert info["state_name"][0] == "at" and after["state_name"] == ("at", state)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_features_of_states_count_on_arrival_and_features_of_actions_when_taken(name):
    """As arrays and as functions, which agree; by the loops of a textbook."""
    env, rng = make(name), np.random.default_rng(3)
    table = env.unwrapped.P
    n_states, n_actions = ENVIRONMENTS[name]
    on_states, on_actions = rng.normal(size=(n_states, 2)), rng.normal(size=(n_states, n_actions, 3))
    given = from_gymnasium(env, discount=0.9, reward_features=on_states, preference_features=on_actions)
    called = from_gymnasium(
        env,
        discount=0.9,
        reward_features=lambda state: {"a": on_states[state, 0], "b": on_states[state, 1]},
        preference_features=lambda state, action: on_actions[state, action],
        preference_names=["x", "y", "z"],
    )
    assert called.reward_names == ("a", "b") and called.preference_names == ("x", "y", "z")
    assert_array_equal(given.reward_features, called.reward_features)
    assert_array_equal(given.preference_features, called.preference_features)
    assert_array_equal(given.preference_features[:-n_actions], on_actions.reshape(-1, 3))
    assert not given.preference_features[-n_actions:].any() and not given.reward_features[-n_actions:].any()
    for state in rng.integers(n_states, size=20).tolist():
        for action in range(n_actions):
            arrived = sum(p * on_states[after] for p, after, _, _ in table[state][action])
            assert_allclose(given.reward_features[state * n_actions + action], arrived, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_features": np.zeros((15, 2))}, "reward_features has 15 entries, but there are 16 states"),
        ({"preference_features": lambda state: "x"}, "state 0: the preference features 'x' are not all finite"),
        ({"preference_features": lambda a, b, c, d: 1}, "or these and the next state, not 4"),
        ({"preference_features": lambda s, a: [1] * (1 + s)}, "state 1, action 0: the preference features are"),
        ({"state_names": ["a"]}, "state_names must be a list of 16 names"),
        ({"action_names": ["a", "b"]}, "action_names must be a list of 4 names"),
        ({"action_names": ["a", "b", "c", "c"]}, "action 2 and 3 are 'c'"),
    ],
)
def test_wrong_features_and_names_are_refused_with_a_sentence(options, message):
    with pytest.raises(InvalidInput, match=message):
        from_gymnasium(make("FrozenLake-v1"), discount=0.9, **options)


@pytest.mark.parametrize("table", [{0: 3}, [3]])
def test_a_state_without_a_table_of_actions_is_refused_in_a_sentence(table):
    with pytest.raises(InvalidModel, match=r"P\[0\] must be a mapping or a list, got 3"):
        from_gymnasium(SimpleNamespace(P=table, initial_state_distrib=[1.0]), discount=0.9)
