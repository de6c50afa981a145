"""Feature expectations of policies (Sec. 2), their occupancy, causal entropy and reward.

Occupancies are unnormalised: z(c) is the expected discounted number of times choice c is taken, and the sum of z is
1 / (1 - discount); where discounts differ, the sum of (1 - discount) z is one.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import ArrayLike, Matrix, Readable, Vector, check_length, floats, freeze, set_fields
from tutelage.chains.arrival import reachable
from tutelage.chains.resolvent import chain, policy_resolvent
from tutelage.model.mdp import MDP, Domain, choice_reward, per_choice
from tutelage.model.policy import check_policy, sum_by_state


@dataclass(frozen=True, slots=True, eq=False)
class Expectation(Readable):
    """Expected discounted feature counts: mu_r(pi), (d_r,), and mu_c(pi), (d_c,)."""

    reward: Vector
    preference: Vector

    def __post_init__(self) -> None:
        reward = floats(self.reward, "expectation.reward", ndim=1)
        set_fields(self, reward=reward, preference=floats(self.preference, "expectation.preference", ndim=1))

    @property
    def both(self) -> Vector:
        """(d_r + d_c,), reward features first."""
        return np.concatenate([self.reward, self.preference])


def state_occupancy(mdp: MDP, policy: ArrayLike) -> Vector:
    """(S,), expected discounted visits d = initial + discount * P'd; with one discount, 1 / (1 - discount) in all."""
    checked = check_policy(mdp, policy)
    if np.isinf(mdp.horizon):
        # Where a policy goes on for ever does not matter in states that it does not reach.
        moves = chain(mdp, checked, mdp.continuing)
        moves.eliminate_zeros()
        checked = checked * per_choice(mdp, reachable(moves, mdp.initial > 0).astype(np.float64))
    return freeze(policy_resolvent(mdp, checked).visits(mdp.initial))


def occupancy(mdp: MDP, policy: ArrayLike) -> Vector:
    """(C,), expected discounted number of times each choice is taken, z(c) = d(s) pi(c)."""
    checked = check_policy(mdp, policy)
    return freeze(per_choice(mdp, state_occupancy(mdp, checked)) * checked)


def feature_counts(mdp: MDP, features: Matrix, visits: Vector) -> Vector:
    """(d,), z @ features for visits on choices (C,) and features on states or choices."""
    return (visits if len(features) == mdp.n_choices else sum_by_state(mdp, visits)) @ features


def expectation_of_occupancy(domain: Domain, visits: Vector) -> Expectation:
    """mu = z @ features, for both kinds of features."""
    check_length(visits, domain.mdp.n_choices, "occupancy", "choices")
    both = (domain.reward_features, domain.preference_features)
    return Expectation(*(feature_counts(domain.mdp, features, visits) for features in both))


def expectation(domain: Domain, policy: ArrayLike) -> Expectation:
    """mu_r(pi) and mu_c(pi)."""
    return expectation_of_occupancy(domain, occupancy(domain.mdp, policy))


def successor_features(domain: Domain, policy: ArrayLike) -> Matrix:
    """(S, d_r + d_c), the expected feature counts of a policy from each state on, reward features first.

    F = features_pi + discount P_pi F, so that `mdp.initial @ F` is the feature expectation.
    """
    mdp, checked = domain.mdp, check_policy(domain.mdp, policy)
    features = [per_choice(mdp, part) for part in (domain.reward_features, domain.preference_features)]
    means = sum_by_state(mdp, checked[:, None] * np.hstack(features))
    return freeze(policy_resolvent(mdp, checked).values(means))


def expected_reward(mdp: MDP, policy: ArrayLike, reward: ArrayLike) -> float:
    """R(pi) for a reward on states (S,) or choices (C,)."""
    return float(occupancy(mdp, policy) @ choice_reward(mdp, reward))


def causal_entropy(mdp: MDP, policy: ArrayLike) -> float:
    """H(pi) = sum over t of discount^t E[-log pi(a_t | s_t)] (Sec. 3)."""
    checked = check_policy(mdp, policy)
    # x log x tends to zero as x does.
    surprise = np.where(checked > 0, -checked * np.log(np.where(checked > 0, checked, 1.0)), 0.0)
    return float(per_choice(mdp, state_occupancy(mdp, checked)) @ surprise)
