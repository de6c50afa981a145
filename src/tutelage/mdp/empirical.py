"""What demonstrations show of the features: the empirical feature expectation of Sec. 2, and how far it may be off.

    mu_hat(Xi) = 1/n * sum over trajectories i of sum over t of discount^t phi(s_t^i)

The inner sum has no end, but only the first T visits of a trajectory are known. What is missing is

    tail = sum over t >= T of discount^t phi(s_t)        |tail_j| <= discount^T / (1 - discount) * max |phi_j|

If the trajectory has arrived in an absorbing state, in which feature j is the same phi_j for every choice, the tail is
known: it is discount^T / (1 - discount) * phi_j, and it is added. Otherwise nothing is added and the bound counts as
bias. The mean of these bounds over the trajectories bounds the distance of mu_hat from the same mean over the complete
trajectories.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.arrays import Indices, Matrix, Vector, freeze
from tutelage.mdp.demonstrations import UNKNOWN, Demonstrations, absorbing_states
from tutelage.mdp.model import MDP, Domain, per_choice
from tutelage.outcomes import InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class EmpiricalExpectation:
    """mu_hat_r(Xi) and mu_hat_c(Xi), with the two ways in which they may miss the expectation of the policy shown.

    reward, preference: (d_r,) and (d_c,), the mean discounted feature counts.
    reward_standard_error, preference_standard_error: sample standard deviation / sqrt(n), the error of having seen n
        trajectories; infinite if n = 1, since one trajectory says nothing about their spread.
    reward_bias, preference_bias: a bound on the error of having seen only the beginning of each.
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


def empirical_expectation(domain: Domain, demonstrations: Demonstrations) -> EmpiricalExpectation:
    """mu_hat(Xi) for both kinds of feature; features on choices need demonstrations whose choices are known."""
    demonstrations.checked_against(domain.mdp)
    reward, reward_bias = _counts(domain.mdp, domain.reward_features, demonstrations, "reward")
    preference, preference_bias = _counts(domain.mdp, domain.preference_features, demonstrations, "preference")
    return EmpiricalExpectation(
        reward.mean(axis=0),
        preference.mean(axis=0),
        _standard_error(reward),
        _standard_error(preference),
        reward_bias,
        preference_bias,
    )


def reward_counts(domain: Domain, demonstrations: Demonstrations) -> Matrix:
    """(n, d_r), the discounted reward feature counts of each trajectory, whose mean is mu_hat_r."""
    demonstrations.checked_against(domain.mdp)
    return freeze(_counts(domain.mdp, domain.reward_features, demonstrations, "reward")[0])


def _counts(mdp: MDP, features: Matrix, demonstrations: Demonstrations, kind: str) -> tuple[Matrix, Vector]:
    """(n, d), the discounted feature counts of each trajectory, and (d,), the bound on their mean truncation bias."""
    rows = _feature_rows(mdp, features, demonstrations, kind)
    visits = _discounted_visits(demonstrations, rows, len(features), mdp.discount)
    n_counted = np.add.reduceat(rows != UNKNOWN, demonstrations.offsets[:-1], dtype=np.int64)
    later = (mdp.discount**n_counted / (1 - mdp.discount))[:, None]
    last = demonstrations.last_states
    is_known = _is_steady(mdp, features)[last]
    tail = np.where(is_known, later * per_choice(mdp, features)[mdp.first_choice[last]], 0.0)
    bias = np.where(is_known, 0.0, later).mean(axis=0) * np.abs(features).max(axis=0, initial=0.0)
    return visits @ features + tail, bias


def _feature_rows(mdp: MDP, features: Matrix, demonstrations: Demonstrations, kind: str) -> Indices:
    """(N,), the row of the feature matrix that each visit counts, or UNKNOWN."""
    if len(features) == mdp.n_states:
        return demonstrations.states
    if demonstrations.choices is None:
        raise InvalidModel(
            f"the {kind} features are on choices, but these demonstrations show states only; "
            "give the actions that were taken, or features on states"
        )
    return demonstrations.choices


def _discounted_visits(demonstrations: Demonstrations, rows: Indices, n_rows: int, discount: float) -> sparse.csr_array:
    """(n, n_rows), the discounted number of times each trajectory counts each row; an UNKNOWN row counts nothing."""
    time = np.arange(len(rows)) - np.repeat(demonstrations.offsets[:-1], demonstrations.lengths)
    weights = (discount ** np.arange(demonstrations.lengths.max()))[time]
    is_counted = rows != UNKNOWN
    entries = np.where(is_counted, weights, 0.0), np.where(is_counted, rows, 0), demonstrations.offsets
    return sparse.csr_array(entries, shape=(demonstrations.n, n_rows))


def _is_steady(mdp: MDP, features: Matrix) -> NDArray[np.bool_]:
    """(S, d), whether a feature can never change once the state is reached: absorbing, and equal for all choices."""
    on_choices = per_choice(mdp, features)
    starts = mdp.first_choice[:-1]
    highest = np.maximum.reduceat(on_choices, starts, axis=0)
    lowest = np.minimum.reduceat(on_choices, starts, axis=0)
    is_steady: NDArray[np.bool_] = (highest == lowest) & absorbing_states(mdp)[:, None]
    return is_steady


def _standard_error(counts: Matrix) -> Vector:
    if len(counts) == 1:
        return np.full(counts.shape[1], np.inf)
    error: Vector = counts.std(axis=0, ddof=1) / np.sqrt(len(counts))
    return error
