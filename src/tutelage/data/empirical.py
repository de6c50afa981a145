"""The empirical feature expectation of demonstrations (Sec. 2). For n trajectories it is

    mu_hat(Xi) = 1/n * sum over trajectories i of sum over t of discount^t phi(s_t^i)

The inner sum is infinite, but only the first T visits of a trajectory are known. The missing part is

    tail = sum over t >= T of discount^t phi(s_t)        |tail_j| <= discount^T / (1 - discount) * max |phi_j|

If the last known state is absorbing, and feature j and the discount are the same for all its choices, the tail is
known: discount^T / (1 - discount) * phi_j is added. Otherwise nothing is, and the mean of the bounds counts as bias.
Where discounts differ between choices, discount^t is the product of those of the t choices taken before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import stdtrit

from tutelage.arrays import Flags, Matrix, Readable, Vector, freeze
from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.model.mdp import MDP, Domain, absorbing_states, endless, per_choice
from tutelage.model.policy import max_by_state
from tutelage.outcomes import InvalidInput, InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class EmpiricalExpectation(Readable):
    """mu_hat_r(Xi) and mu_hat_c(Xi), with their sampling errors and truncation biases.

    reward, preference: (d_r,) and (d_c,), the mean discounted feature counts.
    reward_standard_error, preference_standard_error: sample standard deviation / sqrt(n), the error due to the finite
        number n of trajectories; infinite if n = 1, because one trajectory has no standard deviation.
    reward_bias, preference_bias: a bound on the error due to the finite length of the trajectories.
    """

    reward: Vector
    preference: Vector
    reward_standard_error: Vector
    preference_standard_error: Vector
    reward_bias: Vector
    preference_bias: Vector

    def __post_init__(self) -> None:
        for name in self.__slots__:
            freeze(getattr(self, name))

    @property
    def bias(self) -> Vector:
        """(d_r + d_c,), that of all features."""
        return freeze(np.concatenate([self.reward_bias, self.preference_bias]))


def empirical_expectation(domain: Domain, demonstrations: Demonstrations) -> EmpiricalExpectation:
    """mu_hat(Xi) for both kinds of features; features on choices need demonstrations with known choices."""
    n, parts = demonstrations.n, dict[str, Vector]()
    for kind in ("reward", "preference"):
        counts, bias = counts_of(domain, demonstrations, kind)
        spread = counts.std(axis=0, ddof=1) if n > 1 else np.full(len(bias), np.inf)
        parts |= {kind: counts.mean(axis=0), f"{kind}_standard_error": spread / np.sqrt(n), f"{kind}_bias": bias}
    return EmpiricalExpectation(**parts)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedAllowance(Mapping[str, float]):
    """What a recorded person accepted of each preference, as an allowance: a mapping from names to `mean` + `error`.

    mean: the mean discounted count of the journeys. error: what the mean of all journeys of this person may exceed it
    by, at about the confidence. Of one journey it is only what the unseen end may add, and the confidence is NaN.
    """

    mean: Mapping[str, float]
    error: Mapping[str, float]
    confidence: float
    n: int

    def __getitem__(self, name: str) -> float:
        return self.mean[name] + self.error[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.mean)

    def __len__(self) -> int:
        return len(self.mean)

    def __str__(self) -> str:
        head = f"Accepted in {self.n} journeys, at most with confidence {self.confidence:.0%}:"
        if self.n == 1:
            head = "Accepted in one journey, which says nothing of others:"
        return "\n".join([head, *(f"  {name}: {self.mean[name]:.4g} + {self.error[name]:.2g}" for name in self)])


def allowance_from(recordings: Any, domain: Domain | None = None, *, confidence: float = 0.95) -> RecordedAllowance:
    """What the recorded person accepted of each preference feature, as limits for a learner.

    recordings: demonstrations, with their domain, or a lesson made of them, which knows its domain. The mean of all
    journeys exceeds that of n independent ones by more than

        t s / sqrt(n) + g s (1 + 2 t^2) / (6 n)

    with a probability of about 1 - confidence, with their standard deviation s, their skewness g, if it is positive
    (Johnson 1978), and t of Student's distribution with n - 1 degrees of freedom. Rare large counts that none of few
    journeys met cannot be seen.
    """
    known = domain or getattr(recordings, "domain", None)
    seen = getattr(recordings, "recorded", recordings)
    if known is None or not isinstance(seen, Demonstrations):
        raise InvalidInput("give demonstrations and their domain, or a lesson made of demonstrations")
    if not 0.5 <= confidence < 1:
        raise InvalidInput(f"confidence must be from 0.5 to below 1, got {confidence}")
    means = empirical_expectation(known, seen)
    error, n = means.preference_bias, seen.n
    if n > 1:
        t = stdtrit(n - 1, confidence)
        lean = np.maximum(skewness(counts_of(known, seen, "preference")[0]), 0.0)
        error = error + means.preference_standard_error * (t + lean * (1 + 2 * t**2) / (6 * np.sqrt(n)))
    parts = (means.preference, error)
    mean, above = (dict(zip(known.preference_names, part.tolist(), strict=True)) for part in parts)
    return RecordedAllowance(mean, above, confidence if n > 1 else np.nan, n)


def skewness(values: Matrix) -> Vector:
    """(d,), that of each column; zero of a constant one."""
    centred = values - values.mean(axis=0)
    size = np.sqrt((centred**2).mean(axis=0))
    return np.asarray((centred**3).mean(axis=0) / np.where(size > 0, size, 1.0) ** 3)


def trajectory_counts(domain: Domain, demonstrations: Demonstrations) -> tuple[Matrix, Matrix]:
    """(n, d_r) and (n, d_c), the discounted feature counts of each trajectory, whose means are mu_hat."""
    return counts_of(domain, demonstrations, "reward")[0], counts_of(domain, demonstrations, "preference")[0]


def counts_of(domain: Domain, demonstrations: Demonstrations, kind: str) -> tuple[Matrix, Vector]:
    """(n, d), the discounted feature counts of each trajectory, and (d,), the bound on their mean truncation bias.
    One kind of features, "reward" or "preference", may need no choices where the other does."""
    mdp, features = domain.mdp, getattr(domain, f"{kind}_features")
    demonstrations = demonstrations.checked_against(mdp).determined(mdp)
    rows = demonstrations.states if len(features) == mdp.n_states else demonstrations.choices
    if rows is None:
        raise InvalidModel(
            f"the {kind} features are on choices, but these demonstrations have states only, "
            f"and {demonstrations.ambiguity(mdp)}; give the actions that were taken, or features on states"
        )
    is_counted = rows != UNKNOWN
    weights, after = _weights(mdp, demonstrations, is_counted)
    entries = np.where(is_counted, weights, 0.0), np.where(is_counted, rows, 0), demonstrations.offsets
    visits = sparse.csr_array(entries, shape=(demonstrations.n, len(features)))
    last = demonstrations.last_states
    is_known = has_known_tail(mdp, features)[last]
    endless_last = endless(mdp, per_choice(mdp, features))[mdp.first_choice[last]]
    tail = np.where(is_known, after[:, None] * endless_last, 0.0)
    later = np.where(is_known, 0.0, after[:, None] * mdp.horizon)
    counts = visits @ features + tail
    largest = np.abs(features).max(axis=0, initial=0.0)
    step = np.flatnonzero(demonstrations.is_followed)
    for column, arrived in domain.arrivals(kind):
        happened = np.where(is_counted, features[rows, column], 0.0)
        happened[step] = arrived[rows[step], demonstrations.states[step + 1]]
        counts[:, column] = np.add.reduceat(weights * happened, demonstrations.offsets[:-1]) + tail[:, column]
        largest[column] = np.abs(arrived.data).max()
    return counts, np.where(largest > 0, later.mean(axis=0), 0.0) * largest


def _weights(mdp: MDP, demonstrations: Demonstrations, is_counted: Flags) -> tuple[Vector, Vector]:
    """(N,), the discount of each visit; (n,), that of the first visit after those which are counted.
    A step with a choice that is not known has the largest discount in its state."""
    states, offsets, choices = demonstrations.states, demonstrations.offsets, demonstrations.choices
    discount = np.broadcast_to(mdp.discount, mdp.n_choices)
    steps = max_by_state(mdp, discount)[states]
    if choices is not None:
        steps = np.where(choices == UNKNOWN, steps, discount[choices])
    else:
        differ = (-max_by_state(mdp, -discount)[states] < steps) & demonstrations.is_followed
        for state in states[differ][:1]:
            told = f"the choices of state {state} have different discounts, but these demonstrations have states only"
            raise InvalidModel(f"{told}, and {demonstrations.ambiguity(mdp)}; give the actions that were taken")
    through = np.concatenate([np.cumprod(part) for part in np.split(steps, offsets[1:-1])])
    weights = np.append(1.0, through[:-1])
    weights[offsets[:-1]] = 1.0
    last = offsets[1:] - 1
    return weights, np.where(is_counted[last], through[last], weights[last])


def has_known_tail(mdp: MDP, features: Matrix) -> Flags:
    """(S, d), whether the tail from a state on is known: it is absorbing, its choices have one value and discount."""
    values = np.column_stack([per_choice(mdp, features), np.broadcast_to(mdp.discount, mdp.n_choices)])
    is_same = max_by_state(mdp, values) == -max_by_state(mdp, -values)
    return np.asarray(is_same[:, :-1] & is_same[:, -1:] & absorbing_states(mdp)[:, None])
