"""What a domain holds, and what a policy does, as data for people: sizes, names, features, goals, allowances."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Vector, finite_or_none
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import arrival, occupancy
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation, trajectory_counts
from tutelage.model.mdp import MDP, Domain, absorbing_states, per_choice
from tutelage.model.policy import check_policy, first_maximum, uniform_policy
from tutelage.outcomes import InvalidInput, report

MOST_NAMES = 12


def describe(domain: Domain) -> dict[str, Any]:
    """The description that `tutelage info` prints. cut: the lists of names that are not complete. least_allowances: for
    each preference feature, the least of any policy; on a road map with goals, of any that arrives (`is_arriving`)."""
    mdp, names = domain.mdp, domain.mdp.names
    goals = mdp.goals if len(mdp.goals) else np.flatnonzero(absorbing_states(mdp))
    stored = names.choices.stored if names.choices is not None else range(int(mdp.choices_per_state.max()))
    actions = list(dict.fromkeys(stored))
    journeys = _journeys(domain)
    states: dict[str, Any] = {"starts": np.flatnonzero(mdp.initial), "goals": goals, "state_names": range(mdp.n_states)}
    counts = {kind: len(numbers) for kind, numbers in states.items()} | {"action_names": len(actions)}
    return {
        "states": mdp.n_states,
        "choices": mdp.n_choices,
        "discount": [float(np.min(mdp.discount)), float(np.max(mdp.discount))],
        "horizon": finite_or_none(mdp.horizon),
        **{f"n_{kind}": count for kind, count in counts.items() if kind != "state_names"},
        **{kind: [names.state_name(int(s)) for s in numbers[:MOST_NAMES]] for kind, numbers in states.items()},
        "action_names": actions[:MOST_NAMES],
        "cut": [kind for kind, count in counts.items() if count > MOST_NAMES],
        "reach": _reach(domain, len(goals)),
        "reward_features": _ranges(domain.reward_features, domain.reward_names),
        "preference_features": _ranges(domain.preference_features, domain.preference_names),
        "least_allowances": least_allowances(domain) if journeys is None else journeys,
        "is_arriving": journeys is not None,
    }


def recorded_features(domain: Domain, log: Demonstrations) -> dict[str, dict[str, float | None]]:
    """What was recorded of each feature, by name: the mean discounted count with its error, the least and the most."""
    seen = empirical_expectation(domain, log)
    counts = np.hstack(trajectory_counts(domain, log))
    rows = {
        "mean": np.append(seen.reward, seen.preference),
        "error": np.append(seen.reward_standard_error, seen.preference_standard_error) + seen.bias,
        "least": counts.min(axis=0),
        "most": counts.max(axis=0),
    }
    return {
        name: {kind: finite_or_none(float(row[j])) for kind, row in rows.items()} for j, name in enumerate(domain.names)
    }


def recorded_lines(features: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    """The same as lines of text."""
    lines = []
    for name, seen in features.items():
        error = f"+- {seen['error']:.2g}" if seen["error"] is not None else "(one journey)"
        span = f"from {seen['least']:.4g} to {seen['most']:.4g}"
        lines.append(f"  recorded {name}: {seen['mean']:.4g} {error} for each journey, {span}")
    return lines


def least_allowances(domain: Domain) -> dict[str, float]:
    """The least expectation of each preference feature, by name."""
    least = {}
    for name, column in zip(domain.preference_names, domain.preference_features.T, strict=True):
        value = -float(domain.mdp.initial @ solve_hard(domain.mdp, -np.ascontiguousarray(column)).value)
        # A feature that is never negative has no negative expectation; rounding might give one.
        least[name] = value if value > 0 or column.min() < 0 else 0.0
    return least


def _journeys(domain: Domain) -> dict[str, float] | None:
    """The expectation of each preference feature on the journey to a goal that has the least of it in total: what never
    arrives, or is put off, would have less by discounts. None unless there are goals, each choice leads to one state,
    no feature is negative, and every start can reach a goal."""
    mdp, rows = domain.mdp, domain.mdp.transition
    if not len(mdp.goals) or rows.nnz > mdp.n_choices or domain.preference_features.min(initial=0.0) < 0:
        return None
    least = {}
    is_goal = np.isin(np.arange(mdp.n_states), mdp.goals)
    for name, column in zip(domain.preference_names, domain.preference_features.T, strict=True):
        cost = per_choice(mdp, np.ascontiguousarray(column))
        # The shortest of several journeys with the same total.
        step = cost + 1e-9 * max(float(cost.max()), 1.0) * (1.0 if mdp.duration is None else mdp.duration)
        total = least_totals(mdp, np.where(is_goal[mdp.state_of_choice], 0.0, step), np.where(is_goal, 0.0, np.inf))
        if not np.isfinite(total[mdp.initial > 0]).all():
            return None
        policy = np.zeros(mdp.n_choices)
        policy[first_maximum(mdp, -(step + np.minimum(total, 1e300)[rows.indices]))] = 1.0
        least[name] = float(occupancy(mdp, policy) @ cost)
    return least


def least_totals(mdp: MDP, cost: Vector, value: Vector, most: float = np.inf) -> Vector:
    """(S,), the least total of a cost (nnz,) that a journey is sure to keep, from a first value above or below it:
    h(s) = min over choices c of s of the largest cost + h(s') of its next states s', infinite above `most`."""
    rows = mdp.transition
    for n_sweeps in range(100_000):
        worst = np.maximum.reduceat(cost + value[rows.indices], rows.indptr[:-1])
        new = np.minimum.reduceat(worst, mdp.first_choice[:-1])
        new[new > most] = np.inf
        if np.array_equal(new, value):
            return new
        value = new
        report("sweeps of the least totals", n_sweeps + 1)
    raise InvalidInput("the least total does not settle; give the feature in a coarser unit, or limit another one")


def _reach(domain: Domain, n_goals: int) -> str:
    """Whether goals can be reached: by a walk that takes every choice."""
    if not n_goals:
        return "there are no goals: no state is absorbing, and none is named a goal"
    journey = arrival(domain, uniform_policy(domain.mdp))
    if journey.probability == 0:
        return "no goal can be reached from the start"
    if not journey.is_certain:
        return "goals can be reached, but also states from which no goal can be reached"
    return "goals can be reached from every state on the way"


def _ranges(features: Matrix, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    return {name: (float(column.min()), float(column.max())) for name, column in zip(names, features.T, strict=True)}


def policy_columns(mdp: MDP, policy: ArrayLike) -> dict[str, list[Any]]:
    """A table of what a policy does: the choices that it takes by name, with probabilities and discounted visits."""
    checked = check_policy(mdp, policy)
    taken = occupancy(mdp, checked)
    # Choices with fewer visits are rounding.
    places = np.flatnonzero(taken > 1e-9 * taken.max())
    names = mdp.names
    return {
        "state": [names.state_name(state) for state in mdp.state_of_choice[places].tolist()],
        "action": [names.choice_name(choice) for choice in places.tolist()],
        "probability": checked[places].tolist(),
        "visits": taken[places].tolist(),
    }
