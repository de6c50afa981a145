"""Limits that hold on every journey: the rest of the budget is a part of the state.

Let x(c) >= 0 be the feature with limit B, and h(s) the least total of it that a journey from s can still be sure to
keep: h = 0 at the ends, and elsewhere

    h(s) = min over choices c of s of   x(c) + max over possible next states s' of h(s')

A state of the new domain is (s, k): of the budget, h(s) + k * resolution is left. After choice c and next state s'

    k' = k - ceil((x(c) + h(s') - h(s)) / resolution)

and a choice is offered where k' >= 0 for each next state. What is said to be left is never more than what is left, so
the total never exceeds B. A step along the way that uses least is not rounded. So a journey is lost only if its total
is above B - n * resolution, where n is the number of its other steps.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.arrays import EPSILON, Flags, Indices, SparseRows, Vector, refuse
from tutelage.chains.expectations import reachable
from tutelage.data.describing import least_totals
from tutelage.environments.graph import finite_number
from tutelage.model.inputs import at_entries, choice_of_entry, named_features
from tutelage.model.mdp import MDP, Domain, absorbing_states, per_choice
from tutelage.model.names import Labels, suggestion
from tutelage.outcomes import InfeasibleConstraints, InvalidInput, as_text, at_least, report

# Steps of a limit; and the most, where they make every value whole.
USUAL_STEPS, MOST_STEPS = 50, 200
# The rounding error of a total, relative to the limit.
ROUNDING = 64 * EPSILON
# The most pairs of states and rests, visited or not.
MOST_PLACES = 10**8


def with_budget(
    domain: Domain,
    limits: Mapping[str, float],
    *,
    resolution: float | Mapping[str, float] | None = None,
    max_states: int = 2_000_000,
) -> Domain:
    """The same domain with the rest of each budget in the state: every trajectory of every policy keeps the limits.

    limits: the most that a journey may have in total, without discount, of each named feature, which must not be
        negative anywhere. What counts in a goal is after the journey.
    resolution: the steps in which the rest is counted, for all features or by name, in their units. By default one in
        which all values of the feature are whole, if the limit has at most 200 of these, or else a fiftieth of the
        limit. A journey close to its limit may be lost by rounding.
    max_states: a larger domain is refused.

    Choices that may exceed a limit, or after which the limits cut off every way to a goal, are left out, and so are
    states that cannot be visited. A state is named "Plaza, 0.3 primary km left". Limits that no journey keeps raise
    `InfeasibleConstraints`, with the least that one has.
    """
    if not isinstance(limits, Mapping) or not limits:
        raise InvalidInput(f"limits must give at least one feature its limit, such as {{'km': 2.5}}; got {limits!r}")
    costs = {name: _cost(domain, name) for name in limits}
    is_end = _ends(domain.mdp, list(costs.values()))
    budgets = [_budget(domain.mdp, is_end, name, cost, limits[name], resolution) for name, cost in costs.items()]
    return _built(domain, budgets, _kept(domain.mdp, is_end, _explored(domain.mdp, budgets, max_states)))


def usual_resolutions(domain: Domain, limits: Mapping[str, float]) -> dict[str, float]:
    """The resolution that `with_budget` uses by default, by name."""
    return {name: _usual_step(_cost(domain, name), limit) for name, limit in limits.items()}


class _Budget(NamedTuple):
    """least: (S,), h. units: (nnz,), steps of each transition. caps: (S,), the most left above `least`; -1 for none."""

    name: str
    resolution: float
    least: Vector
    units: Indices
    caps: Indices


def _budget(mdp: MDP, is_end: Flags, name: str, cost: Vector, limit: Any, resolution: Any) -> _Budget:
    owner = mdp.state_of_choice[choice_of_entry(mdp.transition)]
    cost = np.where(is_end[owner], 0.0, cost)
    most = finite_number(limit, f"the limit of {name!r}")
    given = resolution.get(name) if isinstance(resolution, Mapping) else resolution
    step = _usual_step(cost, most) if given is None else finite_number(given, f"the resolution of {name!r}")
    if most < 0 or not step > 0:
        raise InvalidInput(f"the limit of {name!r} must not be negative, and its resolution must be positive")
    least = _least_totals(mdp, is_end, cost, most)
    if not least[mdp.initial > 0].max() <= most * (1 + ROUNDING):
        far = 100 * max(most, float(cost.max()))
        totals = np.where(mdp.initial > 0, _least_totals(mdp, is_end, cost, far), -np.inf)
        place = mdp.names.describe_state(int(totals.argmax()))
        needed = float(totals.max())
        says = f"the least that one has is {at_least(needed)}" if math.isfinite(needed) else f"nor within {far:g}"
        excess = np.array([needed - most])
        message = f"no journey from {place} is sure to keep {name!r} within {most:g}; {says}"
        raise InfeasibleConstraints((name,), excess, excess, message)
    slack = ROUNDING * max(most / step, 1.0)
    with np.errstate(invalid="ignore"):
        used = (cost + least[mdp.transition.indices] - least[owner]) / step - slack
        rest = np.floor((most - least) / step + slack)
    # More steps than any limit has: never possible.
    units = np.clip(np.ceil(np.nan_to_num(used, nan=np.inf)), -MOST_PLACES, MOST_PLACES).astype(np.int64)
    return _Budget(name, step, least, units, np.maximum(rest, -1).astype(np.int64))


def _cost(domain: Domain, name: str) -> Vector:
    """(nnz,), the feature of this name for each transition; it must not be negative."""
    if name not in domain.names:
        raise InvalidInput(f"there is no feature {name!r}; {suggestion(name, domain.names)}")
    feature = (named_features(domain, "reward") | named_features(domain, "preference"))[name]
    choice = choice_of_entry(domain.mdp.transition)
    cost: Vector = feature.data if sparse.issparse(feature) else per_choice(domain.mdp, feature)[choice]
    place, needed = domain.mdp.names.describe_choice, "a budget needs a feature that is never negative"
    refuse(cost < 0, lambda i: f"{place(int(choice[i]))}: {name!r} is {cost[i]:.4g}; {needed}")
    return cost


def _ends(mdp: MDP, costs: list[Vector]) -> Flags:
    """(S,), the goals; in a model without any, the absorbing states where nothing that is limited counts."""
    is_absorbing = absorbing_states(mdp)
    if not len(mdp.goals):
        owner = mdp.state_of_choice[choice_of_entry(mdp.transition)]
        return np.asarray(is_absorbing & (np.bincount(owner, np.sum(costs, axis=0)) == 0))
    place, needed = mdp.names.describe_state, "a budget needs goals that end a journey"
    refuse(~is_absorbing[mdp.goals], lambda i: f"{place(int(mdp.goals[i]))} is a goal, but choices lead on; {needed}")
    return np.isin(np.arange(mdp.n_states), mdp.goals)


def _usual_step(cost: Vector, limit: float) -> float:
    values = np.unique(cost[cost > 0])
    if not len(values) or not limit > 0:
        return 1.0
    in_least = values / values[0]
    is_whole = bool((np.abs(in_least - np.round(in_least)) <= 1e-9 * in_least).all())
    return float(values[0]) if is_whole and limit <= MOST_STEPS * values[0] else limit / USUAL_STEPS


def _least_totals(mdp: MDP, is_end: Flags, cost: Vector, most: float) -> Vector:
    """(S,), h, infinite above `most`. A journey may be endless where chance decides, or where none arrives."""
    arriving = np.full(mdp.n_states, np.inf)
    if mdp.transition.nnz == mdp.n_choices:
        arriving = least_totals(mdp, cost, np.where(is_end, 0.0, np.inf))
    if np.isfinite(arriving).all():
        return arriving
    endless = least_totals(mdp, cost, np.zeros(mdp.n_states), most * (1 + ROUNDING))
    return np.where(np.isfinite(arriving), arriving, endless)


class _Pairs(NamedTuple):
    """The n pairs (s, rest) that can be visited, and their m choices, in order.

    rests: (n, J), the steps left. owner: (m,), the pair of each choice. moves: sparse (m, n), transitions, from one.
    """

    states: Indices
    rests: Indices
    owner: Indices
    choice: Indices
    moves: SparseRows
    initial: Vector


def _explored(mdp: MDP, budgets: list[_Budget], max_states: int) -> _Pairs:
    """All pairs that can be visited from the start, breadth first; `number` is that of each pair by key, -1 if new."""
    units = np.column_stack([budget.units for budget in budgets])
    caps = np.column_stack([budget.caps for budget in budgets])
    shape = (mdp.n_states, *(max(int(most) + 1, 1) for most in caps.max(axis=0)))
    if math.prod(shape) > MOST_PLACES:
        told = f"{mdp.n_states} states with {' x '.join(map(str, shape[1:]))} rests of the budgets are too many"
        raise InvalidInput(f"{told}; give a coarser resolution, or fewer limits")
    number: NDArray[np.int32] = np.full(math.prod(shape), -1, dtype=np.int32)
    starts = np.flatnonzero(mdp.initial)
    keys = np.ravel_multi_index((starts, *caps[starts].T), shape)
    n_pairs, layers = 0, []
    while len(new := np.unique(keys[number[keys] < 0])):
        number[new] = np.arange(n_pairs, n_pairs + len(new))
        states, *left = np.unravel_index(new, shape)
        rests = np.array(left).T
        owner, choice, entry, after = _offered(mdp, units, states, rests)
        reached = mdp.transition.indices[entry]
        keys = np.ravel_multi_index((reached, *np.minimum(after, caps[reached]).T), shape)
        layers.append((states, rests, owner + n_pairs, choice, entry, keys))
        n_pairs += len(new)
        report("states with budgets", n_pairs)
        if n_pairs > max_states:
            told = f"there are more than {max_states} states with their rests of the budgets"
            raise InvalidInput(f"{told}; raise max_states, or give a coarser resolution")
    states, rests, owner, choice, entry, key = (np.concatenate(part) for part in zip(*layers, strict=True))
    ends = np.append(0, np.cumsum(np.diff(mdp.transition.indptr)[choice]))
    moves = sparse.csr_array((entry + 1, number[key], ends), shape=(len(choice), n_pairs))
    initial = np.zeros(n_pairs)
    initial[: len(starts)] = mdp.initial[starts]
    return _Pairs(states, rests, owner, choice, moves, initial)


def _offered(mdp: MDP, units: Indices, states: Indices, rests: Indices) -> tuple[Indices, Indices, Indices, Indices]:
    """The choices that pairs offer: the place of the pair, the choice, its transitions, and the rests after these."""
    rows = mdp.transition
    offered = sparse.csr_array((mdp.state_of_choice, np.arange(mdp.n_choices), mdp.first_choice))[states]
    owner, choice = choice_of_entry(offered), offered.indices
    moves = sparse.csr_array((np.arange(rows.nnz), rows.indices, rows.indptr), rows.shape)[choice]
    after = rests[owner[choice_of_entry(moves)]] - units[moves.data]
    is_kept = np.logical_and.reduceat((after >= 0).all(axis=1), moves.indptr[:-1])
    is_made = is_kept.repeat(np.diff(moves.indptr))
    return owner[is_kept], choice[is_kept], moves.data[is_made], after[is_made]


def _kept(mdp: MDP, is_end: Flags, pairs: _Pairs) -> _Pairs:
    """The pairs that are visited and not cut off from the ends, and the choices that lead only to such pairs."""
    could_arrive = _arriving(mdp.state_of_choice, mdp.transition, is_end)
    while True:
        is_good = np.bincount(pairs.owner, minlength=len(pairs.states)) > 0
        is_good &= ~could_arrive[pairs.states] | _arriving(pairs.owner, pairs.moves, is_end[pairs.states])
        is_good &= reachable(_graph(pairs.owner, pairs.moves), pairs.initial > 0)
        if is_good.all():
            return pairs
        if (pairs.initial[~is_good] > 0).any():
            told = "each of the limits can be kept, but after every first choice one may cut off the way to a goal"
            raise InvalidInput(f"{told}; allow more, or give a finer resolution")
        is_kept = is_good[pairs.owner] & (pairs.moves @ ~is_good == 0)
        owner = (np.cumsum(is_good) - 1)[pairs.owner[is_kept]]
        choice, moves = pairs.choice[is_kept], pairs.moves[is_kept][:, is_good]
        pairs = _Pairs(pairs.states[is_good], pairs.rests[is_good], owner, choice, moves, pairs.initial[is_good])


def _arriving(owner: Indices, moves: SparseRows, is_end: Flags) -> Flags:
    """(n,), whether some choices lead to an end from each state; owner: (m,), the state of each row of moves."""
    return reachable(_graph(owner, moves).T.tocsr(), is_end)


def _graph(owner: Indices, moves: SparseRows) -> SparseRows:
    n = moves.shape[1]
    return sparse.csr_array((np.ones(moves.nnz), (owner[choice_of_entry(moves)], moves.indices)), (n, n))


def _built(domain: Domain, budgets: list[_Budget], pairs: _Pairs) -> Domain:
    mdp, known = domain.mdp, domain.mdp.names
    states, choice = pairs.states, pairs.choice
    rests = []
    for budget, steps in zip(budgets, pairs.rests.T, strict=True):
        # What is left at least, rounded down to a digit that tells the steps apart.
        scale = 10 ** max(0, math.ceil(-math.log10(budget.resolution)) + 1)
        left = np.floor((budget.least[states] + steps * budget.resolution) * scale + 1e-6) / scale
        unit = budget.name.replace("_", " ")
        rests.append([f"{amount:.12g} {unit}" for amount in left])
    names = [
        f"{as_text(known.state_name(state))}, {' and '.join(rest)} left"
        for state, *rest in zip(states, *rests, strict=True)
    ]
    moves = pairs.moves
    moves.sort_indices()
    entry = moves.data - 1
    first_choice = np.searchsorted(pairs.owner, np.arange(len(states) + 1))
    choices = [known.choice_name(number) for number in range(mdp.n_choices)]
    finals = np.flatnonzero(np.isin(states, known.finals))
    product = MDP(
        at_entries(moves, mdp.transition.data[entry]),
        first_choice,
        pairs.initial,
        mdp.discount if isinstance(mdp.discount, float) else mdp.discount[choice],
        Labels(first_choice, names, [choices[number] for number in choice], finals),
        duration=None if mdp.duration is None else mdp.duration[choice],
        goals=np.flatnonzero(np.isin(states, mdp.goals)),
    )

    def moved(feature: Vector | SparseRows) -> Vector | SparseRows:
        if sparse.issparse(feature):
            return at_entries(product.transition, feature.data[entry])
        return feature[states if len(feature) == mdp.n_states else choice]

    rewards = {name: moved(feature) for name, feature in named_features(domain, "reward").items()}
    preferences = {name: moved(feature) for name, feature in named_features(domain, "preference").items()}
    positions = None if domain.positions is None else domain.positions[states]
    return Domain(product, rewards, preferences, positions=positions)
