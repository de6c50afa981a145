"""What to show: a few demonstrations by name, each with its share, features and reward.

A policy that mixes a few routes is shown as these routes, each with its probability. They are found best first: of all
beginnings of trajectories, the one with the largest probability is continued. Where the policy has more trajectories
than asked for, n of them are selected whose mean features are close to those of the lesson (`selection`).
"""

import heapq
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats, freeze, whole_number
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import trajectory_counts
from tutelage.data.sampling import horizon
from tutelage.data.selection import TRUNCATION_BIAS, select
from tutelage.model.mdp import MDP, Domain, absorbing_states

# Routes are complete if what is left out has at most this probability.
LEFT_OUT = 1e-6
# A branch of a policy with a smaller probability is rounding.
LEAST_BRANCH = 1e-9
# The most steps of all routes while they are searched.
MOST_STEPS = 200_000
# The most beginnings of trajectories for each demonstration that is asked for.
MOST_LIVE = 20

Step = tuple[Hashable, Hashable | None]


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
class Shown:
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

    def __getitem__(self, index: int) -> ShownDemonstration:
        return self.items[index]

    def __iter__(self) -> Iterator[ShownDemonstration]:
        return iter(self.items)

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
    found = None if policy is None or recorded is not None else routes(domain.mdp, policy, count)
    if found is None:
        selected = select(domain, wanted, count, policy=policy, recorded=recorded, rng=rng).demonstrations
        shown, shares = _grouped(selected)
    else:
        shown, shares = found
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
    return Shown(items, shown, freeze(shares), freeze(mean), float(np.linalg.norm(mean - wanted)), found is not None)


def routes(mdp: MDP, policy: Vector, n: int) -> tuple[Demonstrations, Vector] | None:
    """All trajectories of a policy and their probabilities, the likeliest first; None if there are more than n."""
    is_absorbing, longest = absorbing_states(mdp), horizon(mdp.largest_discount, TRUNCATION_BIAS)
    # (-probability, a number that settles ties, the end of a beginning)
    live = [(-float(mdp.initial[start]), -int(start), _End(int(start))) for start in np.flatnonzero(mdp.initial)]
    heapq.heapify(live)
    done: list[tuple[float, _End]] = []
    n_made, n_steps, missing = 0, 0, 1.0
    while live and missing > LEFT_OUT:
        if len(done) >= n or len(live) > MOST_LIVE * n or n_steps > MOST_STEPS:
            return None
        negative, _, end = heapq.heappop(live)
        n_steps += 1
        branches = _branches(mdp, policy, end.state)
        if is_absorbing[end.state] or end.length >= longest:
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
        if policy[choice] > LEAST_BRANCH
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


def route_text(steps: tuple[Step, ...], most: int = 12) -> str:
    """The steps in one line: a repeated action is counted, a long route is cut."""
    parts = []
    for action, group in groupby(steps[:-1], key=lambda step: step[1]):
        members = list(group)
        times = "" if len(members) == 1 else f" x{len(members)}"
        parts.append(f"{members[0][0]} -[{action}{times}]->")
    last, action = steps[-1]
    shown = parts if len(parts) <= most else [*parts[: most - 1], f"... {len(parts) - most + 1} more ..."]
    return " ".join([*shown, f"{last}"]) + ("" if action is None or action == "stay" else f" ({action})")
