"""Random learning problems that cover every model: norms, penalties, allowances, features on states and on choices."""

import math

import numpy as np
from strategies import add_features, random_mdp, random_policy

from tutelage.learners.penalties import Mismatch, Preference
from tutelage.mdp.expectations import expectation
from tutelage.mdp.model import MDP

NORMS = (1, 2, math.inf)
KINDS = ("generic", "squared, hard preferences", "no allowance", "soft", "exact match")


def random_domain_of(rng, seed, *, max_states=12):
    """d_r from 1 to 5 and d_c from 0 to 6; each kind of feature on states or on choices."""
    mdp = random_mdp(rng, max_states=max_states, max_choices=4)
    # Above 0.97 the cone solver is not accurate enough.
    mdp = MDP.from_choices(mdp.transition, mdp.first_choice, mdp.initial, min(mdp.discount, 0.97))
    return add_features(
        rng,
        mdp,
        n_reward=int(rng.integers(1, 6)),
        n_preference=int(rng.integers(0, 7)),
        reward_on_choices=bool(seed % 2),
        preference_on_choices=bool(seed // 2 % 2),
    )


def random_learning_problem(seed):
    """A domain, a mismatch, a preference and a reward expectation, reachable by a policy or not."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 5]
    domain = random_domain_of(rng, seed)
    policy = expectation(domain, random_policy(rng, domain.mdp))
    size = np.abs(policy.reward).max()
    is_reachable = kind == "exact match" or rng.random() < 0.5
    shown = policy.reward + (0.0 if is_reachable else 0.3 * size * rng.normal(size=domain.n_reward))
    is_hard = kind == "squared, hard preferences" or (kind == "exact match" and rng.random() < 0.5)
    mismatch = random_mismatch(rng, kind, seed, 0.1 * rng.integers(2) * np.abs(policy.reward))
    allowance = policy.preference * (1.02 if is_hard else rng.choice([0.0, 0.5, 1.05]))
    penalty = math.inf if is_hard else 10 ** rng.uniform(-1, 1)
    return domain, mismatch, Preference(norm=NORMS[seed // 3 % 3], penalty=penalty, allowance=allowance), shown


def random_mismatch(rng, kind, seed, allowance):
    penalty = 10 ** rng.uniform(-1, 1)
    if kind == "generic":
        return Mismatch(norm=NORMS[seed % 3], penalty=penalty, allowance=allowance)
    if kind == "squared, hard preferences":
        return Mismatch(norm=2, penalty=penalty, allowance=allowance, squared=True)
    if kind == "no allowance":
        return Mismatch(norm=NORMS[seed % 3], penalty=penalty)
    if kind == "soft":
        return Mismatch(norm=1, penalty=penalty)
    return Mismatch(allowance=allowance)
