"""A model given as functions becomes the same domain as one built by hand."""

import functools
import itertools
import math
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracles import optimal_value
from scipy import sparse
from strategies import random_domain, some_of

import tutelage as tl
from tutelage.model.mdp import per_choice


def tandem(n):
    """Two queues in a row of at most n customers: serve the first or the second, at a cost for each that waits."""
    arrive, serve = 0.3, 0.6

    def actions(state):
        return [line for line, waiting in zip(("first", "second"), state, strict=True) if waiting] or ["idle"]

    def outcomes(state, action):
        one, two = state
        served = {"first": (one - 1, min(two + 1, n)), "second": (one, two - 1), "idle": state}[action]
        after = [(serve, served), (1 - serve, state)]
        return [(p * q, (min(x + a, n), y)) for p, (x, y) in after for q, a in ((arrive, 1), (1 - arrive, 0))]

    return actions, outcomes


def tandem_by_hand(n):
    """The dense (S, A, S) table over all (n + 1)^2 states; action 0 serves the first line, 1 the second, else idle."""
    states = list(itertools.product(range(n + 1), repeat=2))
    table = np.zeros((len(states), 2, len(states)))
    for number, (one, two) in enumerate(states):
        for action in range(2):
            served = (one - 1, min(two + 1, n)) if action == 0 else (one, two - 1)
            served = served if (one, two)[action] else (one, two)
            for chance, (x, y) in ((0.6, served), (0.4, (one, two))):
                table[number, action, states.index((min(x + 1, n), y))] += 0.3 * chance
                table[number, action, states.index((x, y))] += 0.7 * chance
    return states, table


@pytest.mark.parametrize("n", [1, 4, 9])
def test_two_queues_have_the_optimum_of_the_table_built_by_hand(n):
    """In the table a line without customers is served in vain, which is as being idle while the other is empty too."""
    actions, outcomes = tandem(n)
    domain = tl.explore((0, 0), actions, outcomes, discount=0.95, reward=lambda state, action: -sum(state))
    states, table = tandem_by_hand(n)
    initial = [float(state == (0, 0)) for state in states]
    by_hand = tl.Domain(tl.MDP.from_arrays(table, initial, 0.95), [-sum(state) for state in states])
    assert set(domain.state_names) == set(states)
    # To serve in vain is to wait, which is never better than to serve; so the optimum is the same.
    assert optimal_value(domain, [1.0]) == pytest.approx(optimal_value(by_hand, [1.0]), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_random_model_read_back_through_functions_is_the_same(seed):
    """Each reachable state has the same rows, features and values, under another order of the states."""
    domain = random_domain(np.random.default_rng(seed))
    mdp, features = domain.mdp, per_choice(domain.mdp, domain.reward_features)

    def outcomes(state, action):
        row = mdp.transition[[mdp.first_choice[state] + action]]
        return list(zip(row.data.tolist(), row.indices.tolist(), strict=True))

    found = tl.explore(
        {state: mdp.initial[state] for state in np.flatnonzero(mdp.initial).tolist()},
        lambda state: range(mdp.choices_per_state[state]),
        outcomes,
        discount=mdp.discount,
        reward=lambda state, action: features[mdp.first_choice[state] + action],
        preference=lambda state, action: {"a": state, "b": action},
        reward_names=domain.reward_names,
    )
    order = np.array(list(found.state_names))
    choices = np.concatenate([np.arange(*mdp.first_choice[state : state + 2]) for state in order])
    assert_array_equal(found.mdp.transition.toarray(), mdp.transition[choices][:, order].toarray())
    assert_array_equal(found.mdp.initial, mdp.initial[order])
    assert_array_equal(found.reward_features, features[choices])
    assert found.reward_names == domain.reward_names and found.preference_names == ("a", "b")
    assert_array_equal(found.preference_features[:, 0], mdp.state_of_choice[choices])
    assert [found.choice(state, found.choice_name(c)) for c, state in enumerate(found.preference_features[:, 0])] == [
        *range(found.mdp.n_choices)
    ]


STAGES = 12


def plant(n):
    """n machines of twelve stages of wear: run all, or service one. A machine at the last stage is broken."""

    def outcomes(state, action):
        if action != "run":
            return [(1.0, (*state[:action], 0, *state[action + 1 :]))]
        last = STAGES - 1
        chances = [((0.3, stage + 1), (0.7, stage)) if stage < last else ((1.0, last),) for stage in state]
        return [(math.prod(p for p, _ in one), tuple(s for _, s in one)) for one in itertools.product(*chances)]

    return lambda state: ["run", *range(n)], outcomes


@pytest.mark.parametrize("n", some_of([3, 4], [2, 3]))
def test_a_plant_equals_the_arrays_of_its_machines(n):
    """To run all machines is the Kronecker power of the wear of one, to service one is to reset its digit.

    Four machines have 20,736 states.
    """
    actions, outcomes = plant(n)
    domain = tl.explore((0,) * n, actions, outcomes, discount=0.99, reward=lambda s, a: {"output": a == "run"})
    wear = 0.7 * sparse.eye_array(STAGES, format="lil") + 0.3 * sparse.eye_array(STAGES, k=1, format="lil")
    wear = wear.tolil()
    wear[STAGES - 1, STAGES - 1] = 1
    reset = sparse.csr_array((np.ones(STAGES), (np.arange(STAGES), np.zeros(STAGES, dtype=int))), (STAGES, STAGES))
    same = sparse.eye_array(STAGES)

    def product(parts):
        return functools.reduce(lambda one, other: sparse.kron(one, other, format="csr"), parts)

    by_hand = [product([wear] * n)] + [product([reset if k == i else same for k in range(n)]) for i in range(n)]
    number = np.array(list(domain.state_names)) @ STAGES ** np.arange(n)[::-1]
    assert sorted(number) == list(range(STAGES**n))
    for action, wanted in enumerate(by_hand):
        rows = domain.mdp.transition[domain.mdp.first_choice[:-1] + action]
        assert abs(rows - wanted[number][:, number]).max() < 1e-15
    assert domain.reward_names == ("output",) and domain.reward_features.sum() == STAGES**n


def test_a_state_without_actions_absorbs_with_zero_features():
    found = tl.explore(
        "a", lambda s: ["go"] if s == "a" else [], lambda s, a: [(1, "b")], discount=0.5, reward=lambda s, a: [3, 4]
    )
    assert list(found.state_names) == ["a", "b"] and list(found.choice_names) == ["go", "stay"]
    assert_array_equal(found.reward_features, [[3, 4], [0, 0]])
    assert_array_equal(found.mdp.transition.toarray(), [[0, 1], [0, 1]])


def test_an_action_that_takes_time_is_discounted_by_it():
    """A walk of three steps with reward one each: 1 + g^2 + g^(2 + 0.5)."""
    found = tl.explore(
        0,
        lambda state: ["on"] if state < 3 else [],
        lambda state, action: [(1.0, state + 1)],
        discount=0.9,
        reward=lambda state, action: 1,
        duration=lambda state, action: [2, 0.5, 7][state],
    )
    assert tl.expectation(found, tl.uniform_policy(found.mdp)).reward[0] == pytest.approx(1 + 0.9**2 + 0.9**2.5)


def test_progress_counts_the_states_found_and_those_that_wait():
    seen = []
    tl.explore(
        0,
        lambda state: ["on"],
        lambda state, action: [(1.0, min(state + 1, 2499))],
        discount=0.9,
        reward=lambda state, action: 1,
        progress=lambda step: seen.append((step.done, step.gap)),
    )
    assert seen == [(1000, 1), (2000, 1), (2500, 0)]


def test_a_time_limit_ends_an_endless_model():
    with pytest.raises(tl.OutOfTime, match="states explored"):
        tl.explore(**(MODEL | {"outcomes": lambda s, a: [(1.0, s + 1)]}), time_limit=0.2)


MODEL = {
    "start": 0,
    "actions": lambda state: ["on", "off"],
    "outcomes": lambda state, action: [(0.5, 1 - state), (0.5, state)],
    "discount": 0.9,
    "reward": lambda state, action: 1.0,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"outcomes": lambda s, a: [(0.5, 0), (0.4, 1)]},
            r"state 0 \(0\), action 0 \('on'\): row 0 of transition sums to 0.9",
        ),
        ({"outcomes": lambda s, a: [(1.5, 0), (-0.5, 1)]}, "gives probability -0.5"),
        ({"outcomes": lambda s, a: [(float("nan"), 0)]}, "gives probability nan"),
        ({"outcomes": lambda s, a: []}, "row 0 of transition sums to 0"),
        ({"outcomes": lambda s, a: [(1.0, [1])]}, "with states that are hashable, such as tuples"),
        (
            {"outcomes": lambda s, a: [1.0]},
            r"outcomes must be a list of \(probability, next state\), with .*; got \[1.0\]",
        ),
        ({"outcomes": lambda s, a: None}, "outcomes must be a list"),
        ({"outcomes": lambda s, a: [("1", 0)]}, "outcomes must be a list"),
        (
            {"outcomes": lambda s, a: [(1.0, s + 1)], "max_states": 10},
            "more than 10 states: 10 are explored and 1 wait",
        ),
        ({"start": [0]}, r"the start \[0\] is not hashable"),
        ({"start": {}}, "start is an empty mapping"),
        ({"start": {0: 0.5}}, "initial sums to 0.5"),
        ({"actions": lambda s: "on"}, "state 0: actions must be a list, got 'on'"),
        ({"actions": lambda s: 3}, "actions must be a list, got 3"),
        ({"actions": lambda s: ["on", "on"]}, "the actions of state 0 have different names"),
        ({"actions": lambda s: []}, "no state has an action"),
        ({"reward": lambda s, a: "much"}, "state 0, action 'on': the reward features 'much' are not all finite"),
        ({"reward": lambda s, a: [1] if s else 1}, r"state 1, action 'on': the reward features are \[1\]"),
        ({"reward": lambda s, a: {"x": 1} if s else {"y": 1}}, "give a dict with the names y everywhere"),
        ({"preference": lambda s, a: np.inf}, "the preference features inf are not all finite"),
        ({"duration": lambda s, a: -s}, r"duration\[0\] is 0.0; a choice must take a positive time"),
        ({"duration": lambda s, a: None}, r"duration\[0\] is nan"),
        ({"max_states": 0}, "max_states must be a whole number of at least 1"),
        ({"discount": 1.1}, "discount must be above 0 and at most 1"),
    ],
)
def test_a_wrong_model_is_refused_with_a_sentence(change, message):
    with pytest.raises(tl.InvalidInput, match=message):
        tl.explore(**(MODEL | change))


def test_an_error_in_a_function_of_the_user_is_not_changed():
    with pytest.raises(KeyError, match="mine"):
        tl.explore(**(MODEL | {"outcomes": lambda s, a: {}["mine"]}))


def test_names_lead_back_to_a_long_model():
    """A walk of 30,000 states; the names are tuples and survive a file."""
    n = 30_000
    found = tl.explore(
        (0, "start"),
        lambda state: ["on"] if state[0] < n else [],
        lambda state, action: [(1.0, (state[0] + 1, "on"))],
        discount=0.9,
        reward=lambda state, action: 1,
    )
    assert found.mdp.n_states == n + 1 and found.state((n, "on")) == n
    with pytest.raises(tl.InvalidInput, match=re.escape(f"did you mean ({n}, 'on')")):
        found.state((n, "onn"))
