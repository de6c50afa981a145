"""Domains as Gymnasium environments: they pass Gymnasium's checker and have the same optimum."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from oracles import optimal_value, ragged_domain
from strategies import domains, random_domain

from tutelage.environments.gymnasium import from_gymnasium, to_gymnasium
from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.model.mdp import MDP, Domain, choice_reward
from tutelage.outcomes import InvalidInput, InvalidModel, MissingExtra

gymnasium = pytest.importorskip("gymnasium")


@pytest.mark.parametrize(
    "domain",
    [
        object_world(6, 0).domain("L3"),
        ragged_domain(),
        from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.9),
        random_domain(np.random.default_rng(5)),
    ],
    ids=["object world", "ragged", "frozen lake", "random"],
)
def test_gymnasiums_own_checker_finds_no_fault(domain):
    """Training code may rely on every property that the checker tests; its warnings are errors here."""
    from gymnasium.utils.env_checker import check_env

    check_env(to_gymnasium(domain))


@given(domains())
def test_there_and_back_again_keeps_every_choice(domain):
    """from_gymnasium after to_gymnasium: the same choices and the same optimum, with one more state for the end."""
    # A table of Gymnasium has no discounts, and `from_gymnasium` takes one for all.
    domain = replace(domain, mdp=replace(domain.mdp, discount=domain.mdp.contraction))
    weights = np.linspace(-1, 1, domain.n_reward)
    back = from_gymnasium(to_gymnasium(domain, weights), discount=domain.mdp.discount)
    n_choices = domain.mdp.n_choices
    assert_array_equal(back.mdp.first_choice[:-1], domain.mdp.first_choice)
    assert_allclose(back.reward_features[:n_choices, 0], choice_reward(domain.mdp, domain.reward_features @ weights))
    assert optimal_value(back, [1.0]) == pytest.approx(optimal_value(domain, weights), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("domain", [object_world(6, 0).domain("L1"), ragged_domain()], ids=["ends", "goes on paying"])
def test_there_and_back_again_keeps_the_optimum_of_a_domain_that_ends(domain):
    """An absorbing state with zero reward ends the episode; one with a reward does not, so no reward is lost."""
    weights = [1.0, 0.9, 0.2][: domain.n_reward]
    back = from_gymnasium(to_gymnasium(domain, weights), discount=domain.mdp.discount)
    assert optimal_value(back, [1.0]) == pytest.approx(optimal_value(domain, weights), rel=1e-10)


def test_a_step_tells_the_discount_of_its_choice():
    mdp = MDP.from_choices(np.ones((2, 1)), [0, 2], [1.0], [0.5, 0.75])
    for model, discounts in ((mdp, [0.5, 0.75]), (replace(mdp, discount=0.25), [0.25, 0.25])):
        env = to_gymnasium(Domain(model, [1.0]))
        env.reset(seed=0)
        assert [env.step(action)[4]["discount"] for action in (0, 1)] == discounts


def test_an_episode_terminates_on_arrival_in_the_terminal_state_only():
    """Where an object ends the game with probability one, the first step from it terminates, and no step before."""
    world = ObjectWorld(2, 0, {"star": [3]}, {}, end_probability=1.0)
    env = to_gymnasium(world.domain("L1"), [1.0, 0.9, 0.2])
    assert env.reset(seed=0)[0] == 0
    down, right = 2, 3
    assert [env.step(action)[:3] for action in (right, down, down)] == [
        (1, 0.0, False),
        (3, 0.0, False),
        (4, 1.0, True),
    ]


def test_an_action_beyond_a_states_choices_repeats_one_of_them():
    """The first state has two choices and the environment three actions: the third repeats the first and is masked."""
    env = to_gymnasium(ragged_domain())
    rewards = []
    for action in range(3):
        _state, info = env.reset(seed=0)
        assert_array_equal(info["action_mask"], [1, 1, 0])
        state, reward, *_, info = env.step(action)
        assert_array_equal(info["action_mask"], [1, 0, 0] if state == 1 else [1, 1, 1] if state == 2 else [1, 1, 0])
        rewards.append(reward)
    assert rewards == [0.0, -1.0, 0.0]


def test_steps_that_mean_nothing_are_refused():
    """Refused: a step before the first reset, an action outside the action space, weights without a feature."""
    env = to_gymnasium(ragged_domain())
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match="no action 3; the actions are 0 to 2"):
        env.step(3)
    with pytest.raises(InvalidModel, match="weights has 2 entries"):
        to_gymnasium(ragged_domain(), [1.0, 2.0])


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch):
    """Without the optional Gymnasium the error is an ImportError that gives the command to install it."""
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "tutelage.environments.domain_env", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'tutelage\[gymnasium\]'"):
        to_gymnasium(ragged_domain())
