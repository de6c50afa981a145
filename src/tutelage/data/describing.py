"""What a domain holds, and what a policy does, as data for people: sizes, names, features, goals, allowances."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Matrix
from tutelage.bellman.equations import solve_hard
from tutelage.chains.arrival import arrival
from tutelage.chains.expectations import occupancy
from tutelage.model.mdp import MDP, Domain, absorbing_states, per_choice
from tutelage.model.policy import check_policy, uniform_policy

# The most names that are listed.
MOST_NAMES = 12


def describe(domain: Domain) -> dict[str, Any]:
    """The description that `tutelage info` prints.

    least_allowances: for each preference feature, the least expectation of any policy. A smaller allowance of this
    feature is impossible, also if it is the only one.
    """
    mdp, names = domain.mdp, domain.mdp.names
    goals = mdp.goals if len(mdp.goals) else np.flatnonzero(absorbing_states(mdp))
    discounts = np.atleast_1d(mdp.discount)
    actions = dict.fromkeys(names.choice_name(choice) for choice in range(min(mdp.n_choices, 1_000)))
    return {
        "states": mdp.n_states,
        "choices": mdp.n_choices,
        "discount": [float(discounts.min()), float(discounts.max())],
        "starts": [names.state_name(int(state)) for state in np.flatnonzero(mdp.initial)[:MOST_NAMES]],
        "n_starts": int(np.count_nonzero(mdp.initial)),
        "goals": [names.state_name(int(state)) for state in goals[:MOST_NAMES]],
        "n_goals": len(goals),
        "reach": _reach(domain, len(goals)),
        "state_names": [names.state_name(state) for state in range(min(mdp.n_states, MOST_NAMES))],
        "action_names": list(actions)[:MOST_NAMES],
        "reward_features": _ranges(domain.reward_features, domain.reward_names),
        "preference_features": _ranges(domain.preference_features, domain.preference_names),
        "least_allowances": least_allowances(domain),
    }


def least_allowances(domain: Domain) -> dict[str, float]:
    """The least expectation of each preference feature, by name."""
    mdp, found = domain.mdp, {}
    for name, column in zip(domain.preference_names, domain.preference_features.T, strict=True):
        least = -float(mdp.initial @ solve_hard(mdp, -per_choice(mdp, np.ascontiguousarray(column))).value)
        # A feature that is never negative has no negative expectation; rounding might give one.
        found[name] = least if least > 0 or column.min() < 0 else 0.0
    return found


def _reach(domain: Domain, n_goals: int) -> str:
    """Whether goals can be reached: by a walk that takes every choice."""
    if not n_goals:
        return "there are no goals: no state is absorbing, and none is named a goal"
    found = arrival(domain, uniform_policy(domain.mdp))
    if found.probability == 0:
        return "no goal can be reached from the start"
    if not found.is_certain:
        return "goals can be reached, but also states from which no goal can be reached"
    return "goals can be reached from every state on the way"


def _ranges(features: Matrix, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    return {name: (float(column.min()), float(column.max())) for name, column in zip(names, features.T, strict=True)}


def policy_columns(mdp: MDP, policy: ArrayLike, *, least_visits: float = 1e-9) -> dict[str, list[Any]]:
    """A table of what a policy does: the names of each state and choice that it visits, their probability and visits.

    visits: the expected discounted number of times that the choice is taken. least_visits: choices with fewer,
    relative to the most visited, are rounding.
    """
    checked = check_policy(mdp, policy)
    taken = occupancy(mdp, checked)
    places = np.flatnonzero(taken > least_visits * taken.max())
    names, owners = mdp.names, mdp.state_of_choice
    return {
        "state": [names.state_name(int(owners[choice])) for choice in places],
        "action": [names.choice_name(int(choice)) for choice in places],
        "probability": checked[places].tolist(),
        "visits": taken[places].tolist(),
    }
