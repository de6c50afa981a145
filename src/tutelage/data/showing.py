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
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from tutelage.arrays import (
    ArrayLike,
    Flags,
    Indices,
    Matrix,
    Vector,
    check_length,
    floats,
    freeze,
    generator,
    whole_number,
)
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import reward_counts, trajectory_counts
from tutelage.data.sampling import ends, horizon, sample_demonstrations
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import as_text
from tutelage.outcomes import InvalidInput

# The largest truncation error of the count of a feature in [0, 1].
TRUNCATION_BIAS = 1e-3

Step = tuple[Hashable, Hashable | None]


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
class SelectedDemonstrations:
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


@dataclass(frozen=True, slots=True, eq=False)
class ShownDemonstration:
    """One demonstration.

    share: its probability under the policy, or its weight among those shown. steps: the names of the states and
    actions. features: its discounted counts, by name. reward: <true_weights, counts>, or None if these are not known.
    """

    share: float
    steps: tuple[Step, ...]
    features: Mapping[str, float]
    reward: float | None = None

    def __str__(self) -> str:
        ending = "" if self.reward is None else f", reward {self.reward:.4g}"
        counts = ", ".join(f"{name} {value:.4g}" for name, value in self.features.items())
        return f"{self.share:.1%}{ending}: {counts}\n    {route_text(self.steps)}"

    def as_data(self) -> dict[str, Any]:
        """For JSON; `load_demonstrations` reads the states and actions."""
        states, actions = [state for state, _ in self.steps], [action for _, action in self.steps]
        data = {"share": self.share, "states": states, "actions": [action for action in actions if action is not None]}
        return data | {"features": dict(self.features)} | ({} if self.reward is None else {"reward": self.reward})


@dataclass(frozen=True, slots=True, eq=False)
class Shown(Sequence[ShownDemonstration]):
    """A few demonstrations; a sequence of `ShownDemonstration`.

    demonstrations: the same as arrays. shares: (n,), sum to one. expectation: (d_r,), the mean of the reward feature
    counts by shares. distance: 2-norm of its difference from the lesson. is_whole: whether these are all trajectories
    of the policy.
    """

    items: tuple[ShownDemonstration, ...]
    demonstrations: Demonstrations
    shares: Vector
    expectation: Vector
    distance: float
    is_whole: bool

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __str__(self) -> str:
        kind = "every route of the policy" if self.is_whole else "selected trajectories of the policy"
        number = f"{len(self)} demonstration{'' if len(self) == 1 else 's'}"
        head = f"What to show: {number}, {kind}; their mean is {self.distance:.2g} from the lesson."
        return "\n".join([head, *(f"  {item}" for item in self.items)])

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {"shown": [item.as_data() for item in self.items], "shown_distance": self.distance}

    def to_frame(self) -> dict[str, list[Any]]:
        """A table with one row per visit, by name, with the share of its demonstration."""
        columns = self.demonstrations.to_frame()
        return columns | {"share": np.repeat(self.shares, self.demonstrations.lengths).tolist()}


def show(
    domain: Domain,
    wanted: Vector,
    n: int,
    *,
    policy: Vector | None,
    recorded: Demonstrations | None,
    true_weights: ArrayLike | None,
    rng: int | np.random.Generator,
) -> Shown:
    """At most n demonstrations whose mean reward feature counts are close to `wanted` (d_r,)."""
    count = whole_number(n, "the number of demonstrations", least=1)
    whole = None if policy is None or recorded is not None else routes(domain, policy, count)
    if whole is None:
        selected = select(domain, wanted, count, policy=policy, recorded=recorded, rng=rng).demonstrations
        shown, shares = _grouped(selected)
    else:
        shown, shares = whole
    weights = None if true_weights is None else floats(true_weights, "true_weights", ndim=1)
    if weights is not None:
        check_length(weights, domain.n_reward, "true_weights", "reward features")
    rewards, preferences = trajectory_counts(domain, shown)
    mean = shares @ rewards
    items = tuple(
        ShownDemonstration(
            float(shares[i]),
            tuple(shown[i].steps),
            dict(zip(domain.names, np.concatenate([rewards[i], preferences[i]]).tolist(), strict=True)),
            None if weights is None else float(weights @ rewards[i]),
        )
        for i in range(shown.n)
    )
    return Shown(items, shown, freeze(shares), freeze(mean), float(np.linalg.norm(mean - wanted)), whole is not None)


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
    rng: int | np.random.Generator,
) -> SelectedDemonstrations:
    """n trajectories whose mean reward feature counts are close to `wanted` (d_r,).

    The pool consists of the recorded demonstrations, or of samples from the policy, or from the policy nearest to
    `wanted`.
    """
    n, source = whole_number(n, "the number of demonstrations", least=1), generator(rng)
    pool = _pool(domain, wanted, policy, recorded, n, source)
    counts = reward_counts(domain, pool)
    offsets = counts - wanted
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


def route_text(steps: tuple[Step, ...], most: int = 12) -> str:
    """The steps in one line: a repeated action is counted, a long route is cut."""
    parts = []
    for action, group in groupby(steps[:-1], key=lambda step: step[1]):
        members = list(group)
        times = "" if len(members) == 1 else f" x{len(members)}"
        parts.append(f"{as_text(members[0][0])} -[{as_text(action)}{times}]->")
    last, action = steps[-1]
    shown = parts if len(parts) <= most else [*parts[: most - 1], f"... {len(parts) - most + 1} more ..."]
    ending = "" if action is None or action == "stay" else f" ({as_text(action)})"
    return " ".join([*shown, as_text(last)]) + ending
