"""What to show: a few demonstrations by name, each with its share, features and reward.

A policy that mixes a few routes is shown as these routes, each with its probability. They are found best first: of all
beginnings of trajectories, the one with the largest probability is continued. Where the policy has more trajectories
than asked for, n of them are selected whose mean feature counts are close to those of the lesson.

Let x_i be the discounted reward feature counts of trajectory i minus the expectation of the lesson. The distance of n
trajectories from the lesson is norm_2(sum of x_i) / n. For a random sample it is about sqrt(trace Cov(x) / n). The best
n trajectories of a pool solve a subset-sum problem. Two heuristics solve it well:

    greedy     n times, add the trajectory j that minimises norm_2(sum + x_j) (herding)
    exchange   replace a selected trajectory i by the j that minimises norm_2(sum - x_i + x_j), until no replacement
               reduces the norm

Each exchange reduces the distance and there are finitely many selections, so the search ends in a local optimum. It
starts from the greedy selection and from random ones, and the best local optimum is returned.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutelage.arrays import (
    ArrayLike,
    Flags,
    Indices,
    Matrix,
    Readable,
    Vector,
    check_length,
    floats,
    freeze,
    generator,
    whole_number,
)
from tutelage.chains.arrival import journey_of
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import reward_counts, trajectory_counts
from tutelage.data.sampling import ends, horizon, sample_demonstrations
from tutelage.data.shown import Shown, ShownDemonstration
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.model.names import AT_GOAL, as_text
from tutelage.outcomes import InvalidInput

# The largest truncation error of the count of a feature in [0, 1].
TRUNCATION_BIAS = 1e-3

# The rounding error of a count that keeps a limit.
KEPT = 1e-9


@dataclass(frozen=True, slots=True)
class RouteSearch:
    """When the routes of a policy are all there, and when there are too many of them."""

    left_out: float = 1e-6  # the probability of all routes that may be missing
    least_branch: float = 1e-9  # a choice with a smaller probability is rounding
    most_steps: int = 200_000  # of all routes while they are searched
    most_live: int = 20  # beginnings of routes for each demonstration that is asked for


@dataclass(frozen=True, slots=True)
class SelectionSearch:
    """How many trajectories the pool has, and how long a selection is improved."""

    pool_size: int = 2_000
    pool_visits: int = 3_000_000  # a pool of long trajectories is smaller, but
    pool_share: int = 5  # it has at least this many for each one that is selected
    n_draws: int = 400  # random selections, whose mean distance is reported for comparison
    most_restarts: int = 16  # searches from random selections
    restarted: int = 1_000  # demonstrations in all restarts after the first
    least_gain: float = 1e-6  # relative reduction of the norm by an exchange; less may be rounding
    rounding: float = 1e-12  # of a sum of counts, relative to the largest count


ROUTES, SELECTION = RouteSearch(), SelectionSearch()


@dataclass(frozen=True, slots=True, eq=False)
class SelectedDemonstrations(Readable):
    """The demonstrations selected for a lesson.

    demonstrations: n trajectories. expectation: (d_r,), their empirical reward expectation, mu_hat_r(Xi).
    distance: 2-norm of its difference from the lesson's expectation. random_distance: the mean distance of 400 random
    selections of n trajectories from the same pool. pool_size: the number of trajectories in the pool.
    """

    demonstrations: Demonstrations
    expectation: Vector
    distance: float
    random_distance: float
    pool_size: int


def show(
    domain: Domain,
    wanted: Vector,
    n: int,
    *,
    policy: Vector | None,
    recorded: Demonstrations | None,
    true_weights: ArrayLike | None,
    limits: Mapping[str, float],
    rng: int | np.random.Generator,
) -> Shown:
    """At most n demonstrations whose mean reward feature counts are close to `wanted` (d_r,).

    limits: of preference features, by name. Of journeys to goals, those that keep them and arrive come first; without
    goals, chance and not a choice may decide which trajectory keeps a limit, so none is preferred.
    """
    limits = limits if len(domain.mdp.goals) else {}
    count = whole_number(n, "the number of demonstrations", least=1)
    whole = None if policy is None or recorded is not None else routes(domain, policy, count)
    if whole is None:
        chosen = select(domain, wanted, count, policy=policy, recorded=recorded, limits=limits, rng=rng)
        shown, shares = _grouped(chosen.demonstrations)
    else:
        shown, shares = whole
    order = np.argsort(~_is_followed(domain, shown, limits), kind="stable")
    shown, shares = shown.take(order), shares[order]
    weights = None if true_weights is None else floats(true_weights, "true_weights", ndim=1)
    if weights is not None:
        check_length(weights, domain.n_reward, "true_weights", "reward features")
    items, rewards = _items(domain, shown, shares, weights, limits), reward_counts(domain, shown)
    mean, compared = shares @ rewards, _compared(domain)
    distance = float(np.linalg.norm((mean - wanted)[compared]))
    warnings = _warnings(domain, policy if recorded is None else None, items, shown)
    places = None if domain.positions is None else domain.positions[shown.states]
    return Shown(items, shown, freeze(shares), freeze(mean), distance, whole is not None, warnings, places)


def _items(
    domain: Domain, shown: Demonstrations, shares: Vector, weights: Vector | None, limits: Mapping[str, float]
) -> tuple[ShownDemonstration, ...]:
    rewards, preferences = trajectory_counts(domain, shown)
    measured = per_choice(domain.mdp, np.ascontiguousarray(domain.reward_features[:, 0]))
    # On a road map the first reward feature is a length, or a time.
    is_map = domain.positions is not None or domain.mdp.duration is not None
    has_lengths = is_map and measured.min() >= 0 and domain.reward_names[0] != AT_GOAL and shown.choices is not None
    arrives, items = _arrives(domain, shown), []
    for i, trajectory in enumerate(shown):
        counts = dict(zip(domain.names, np.concatenate([rewards[i], preferences[i]]).tolist(), strict=True))
        lengths = measured[trajectory.choices].tolist() if has_lengths else ()
        items.append(
            ShownDemonstration(
                float(shares[i]),
                tuple(trajectory.steps),
                counts,
                None if weights is None else float(weights @ rewards[i]),
                tuple(lengths),
                domain.reward_names[0] if has_lengths else "",
                None if arrives is None else bool(arrives[i]),
                tuple(name for name, limit in limits.items() if counts[name] > limit * (1 + KEPT) + KEPT),
            )
        )
    return tuple(items)


def _compared(domain: Domain) -> Flags:
    """(d_r,), the reward features that distances compare: the time at a goal would dwarf all others."""
    is_other = np.array([name != AT_GOAL for name in domain.reward_names])
    return is_other if is_other.any() else ~is_other


def _arrives(domain: Domain, shown: Demonstrations) -> Flags | None:
    """(n,), whether each demonstration ends in a goal; None in a domain without goals."""
    return np.isin(shown.last_states, domain.mdp.goals) if len(domain.mdp.goals) else None


def _is_followed(domain: Domain, shown: Demonstrations, limits: Mapping[str, float]) -> Flags:
    """(n,), whether a person would follow each demonstration: it arrives, and keeps the limits."""
    arrives = _arrives(domain, shown)
    is_kept = np.ones(shown.n, dtype=np.bool_) if arrives is None else arrives
    if limits:
        counts = trajectory_counts(domain, shown)[1]
        columns = [domain.preference_names.index(name) for name in limits]
        largest = np.array(list(limits.values()))
        is_kept = is_kept & (counts[:, columns] <= largest * (1 + KEPT) + KEPT).all(axis=1)
    return is_kept


def _warnings(
    domain: Domain, policy: Vector | None, items: Sequence[ShownDemonstration], shown: Demonstrations
) -> tuple[str, ...]:
    """What a person would not follow in these demonstrations, each in a sentence with what to do."""
    said, journey = [], journey_of(domain.mdp, policy)
    missed = sum(item.share for item in items if item.arrives is False)
    remedy = "give each step a cost or a duration, or use discount 1"
    if journey is not None and (journey.probability < 0.99 or journey.is_endless):
        said.append(f"the lesson {journey}; {remedy}")
    elif missed > 0.01:
        said.append(f"{missed:.0%} of what is shown does not arrive; {remedy}")
    if len(domain.mdp.goals):
        repeats = [np.unique(trajectory.states[:-1], return_counts=True) for trajectory in shown if len(trajectory) > 1]
        state, times = max(((s[c.argmax()], c.max()) for s, c in repeats), key=lambda pair: pair[1], default=(0, 0))
        if times > 2:
            place = as_text(domain.state_name(int(state)))
            said.append(f"a demonstration goes back and forth: it visits {place} {times} times; {remedy}")
    exceeded = {
        name: sum(item.share for item in items if name in item.exceeds) for item in items for name in item.exceeds
    }
    for name, share in exceeded.items():
        said.append(
            f"{name} is kept on average only: {share:.0%} of what is shown exceeds its limit; with_budget, or "
            f"--allowance {name.replace(' ', '_')}=LIMIT/journey, keeps it on every journey"
        )
    return tuple(said)


def routes(domain: Domain, policy: Vector, n: int) -> tuple[Demonstrations, Vector] | None:
    """All trajectories of a policy and their probabilities, the likeliest first; None if there are more than n."""
    mdp, is_last = domain.mdp, ends(domain)
    longest = horizon(mdp.contraction, TRUNCATION_BIAS)
    # (-probability, a number that settles ties, the end of a beginning)
    live = [(-float(mdp.initial[start]), -int(start), _End(int(start))) for start in np.flatnonzero(mdp.initial)]
    heapq.heapify(live)
    done: list[tuple[float, _End]] = []
    n_made, n_steps, missing = 0, 0, 1.0
    while live and missing > ROUTES.left_out:
        if len(done) >= n or len(live) > ROUTES.most_live * n or n_steps > ROUTES.most_steps:
            return None
        negative, _, end = heapq.heappop(live)
        n_steps += 1
        branches = _branches(mdp, policy, end.state)
        if is_last[end.state] or end.length >= longest:
            done.append((-negative, _End(end.state, end, max(branches)[1], end.length)))
            missing += negative
            continue
        for chance, choice, after in branches:
            n_made += 1
            heapq.heappush(live, (negative * chance, n_made, _End(after, end, choice, end.length + 1)))
    paths = [end.path() for _, end in done]
    shares = np.array([share for share, _ in done])
    states, choices = (np.concatenate([path[kind] for path in paths]) for kind in range(2))
    offsets = np.cumsum([0, *(len(path[0]) for path in paths)])
    return Demonstrations(states, offsets, choices, mdp), shares / shares.sum()


class _End(NamedTuple):
    """The last state of the beginning of a trajectory, the beginning before it, and the choice that led here."""

    state: int
    before: "_End | None" = None
    choice: int = -1
    length: int = 1

    def path(self) -> tuple[list[int], list[int]]:
        """The states and the choices of a complete trajectory, whose last link repeats the last state."""
        states, choices = [], []
        end: _End | None = self
        while end is not None and end.before is not None:
            states.append(end.before.state)
            choices.append(end.choice)
            end = end.before
        return states[::-1], choices[::-1]


def _branches(mdp: MDP, policy: Vector, state: int) -> list[tuple[float, int, int]]:
    """(probability, choice, next state) of what a policy does in a state."""
    rows = mdp.transition
    return [
        (float(policy[choice] * rows.data[entry]), choice, int(rows.indices[entry]))
        for choice in range(*mdp.first_choice[state : state + 2].tolist())
        if policy[choice] > ROUTES.least_branch
        for entry in range(rows.indptr[choice], rows.indptr[choice + 1])
    ]


def _grouped(demonstrations: Demonstrations) -> tuple[Demonstrations, Vector]:
    """The different trajectories, with the share of each."""
    first: dict[bytes, int] = {}
    counts: dict[bytes, int] = {}
    for number, trajectory in enumerate(demonstrations):
        key = trajectory.states.tobytes() + (b"" if trajectory.choices is None else trajectory.choices.tobytes())
        first.setdefault(key, number)
        counts[key] = counts.get(key, 0) + 1
    order = sorted(first, key=lambda key: -counts[key])
    shares = np.array([counts[key] / demonstrations.n for key in order])
    return demonstrations.take([first[key] for key in order]), shares


def select(
    domain: Domain,
    wanted: Vector,
    n: int,
    *,
    policy: Vector | None,
    recorded: Demonstrations | None,
    limits: Mapping[str, float],
    rng: int | np.random.Generator,
) -> SelectedDemonstrations:
    """n trajectories whose mean reward feature counts are close to `wanted` (d_r,).

    The pool consists of the recorded demonstrations, or of samples from the policy, or from the policy nearest to
    `wanted`. Of a pool with n trajectories that arrive and keep the limits, only these are selected.
    """
    n, source = whole_number(n, "the number of demonstrations", least=1), generator(rng)
    pool = _pool(domain, wanted, policy, recorded, n, source)
    is_followed = _is_followed(domain, pool, limits)
    if n <= is_followed.sum() < pool.n:
        pool = pool.take(np.flatnonzero(is_followed))
    counts = reward_counts(domain, pool)
    offsets = (counts - wanted)[:, _compared(domain)]
    drawn = [source.choice(pool.n, size=n, replace=False) for _ in range(SELECTION.n_draws)]
    n_restarts = min(SELECTION.most_restarts, 1 + SELECTION.restarted // n)
    starts = [_greedy(offsets, n), *drawn[:n_restarts]]
    optima = [np.sort(_exchange(offsets, start)) for start in starts]
    chosen = min(optima, key=lambda optimum: _distance(offsets, optimum))
    return SelectedDemonstrations(
        demonstrations=pool.take(chosen),
        expectation=freeze(counts[chosen].mean(axis=0)),
        distance=_distance(offsets, chosen),
        random_distance=float(np.mean([_distance(offsets, choice) for choice in drawn])),
        pool_size=pool.n,
    )


def _pool(
    domain: Domain,
    wanted: Vector,
    policy: Vector | None,
    recorded: Demonstrations | None,
    n: int,
    rng: np.random.Generator,
) -> Demonstrations:
    """The trajectories to select from."""
    if recorded is not None:
        if recorded.n < n:
            raise InvalidInput(
                f"the lesson has only {recorded.n} demonstrations, so n must not be {n}; give a smaller n"
            )
        return recorded
    if policy is None:
        # Imported here, because `roles` imports this module and must not load the solvers.
        from tutelage.constrained.occupancy_polytope import nearest_policy
        from tutelage.constrained.problem import no_limits

        policy = nearest_policy(domain, wanted, no_limits(domain)).policy
    usual = min(SELECTION.pool_size, SELECTION.pool_visits // horizon(domain.mdp.contraction, TRUNCATION_BIAS))
    size = max(usual, SELECTION.pool_share * n)
    return sample_demonstrations(domain, policy, size, rng=rng, truncation_bias=TRUNCATION_BIAS)


def _greedy(offsets: Matrix, n: int) -> Indices:
    """(n,), trajectories selected one by one; each brings the sum of the offsets closest to zero."""
    chosen, total = np.zeros(n, dtype=np.int64), np.zeros(offsets.shape[1])
    is_free = np.ones(len(offsets), dtype=np.bool_)
    for place in range(n):
        chosen[place] = best = _nearest(offsets, total, is_free)[0]
        is_free[best] = False
        total = total + offsets[best]
    return chosen


def _exchange(offsets: Matrix, chosen: Indices) -> Indices:
    """(n,), the local optimum that exchanges of one trajectory at a time reach from a selection."""
    chosen, total = chosen.copy(), offsets[chosen].sum(axis=0)
    is_free = np.ones(len(offsets), dtype=np.bool_)
    is_free[chosen] = False
    least = SELECTION.rounding * len(chosen) * float(np.abs(offsets).max())
    n_idle, place = 0, 0
    # After n positions in a row without an exchange the selection is a local optimum.
    while n_idle < len(chosen) and is_free.any() and np.linalg.norm(total) > least:
        without = total - offsets[chosen[place]]
        best, reached = _nearest(offsets, without, is_free)
        if reached < (1 - SELECTION.least_gain) * np.linalg.norm(total):
            is_free[[best, chosen[place]]] = False, True
            chosen[place], total, n_idle = best, without + offsets[best], 0
        else:
            n_idle += 1
        place = (place + 1) % len(chosen)
    return chosen


def _nearest(offsets: Matrix, total: Vector, is_free: Flags) -> tuple[int, float]:
    """The free trajectory that minimises norm_2(total + offset), and this norm."""
    sums = np.where(is_free, ((offsets + total) ** 2).sum(axis=1), np.inf)
    best = int(sums.argmin())
    return best, float(np.sqrt(sums[best]))


def _distance(offsets: Matrix, chosen: Indices) -> float:
    """norm_2(mu_hat_r(Xi) - mu_hat_r), the norm of the mean of the chosen offsets."""
    return float(np.linalg.norm(offsets[chosen].mean(axis=0)))
