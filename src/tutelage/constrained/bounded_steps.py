"""Problems over all policies where some policy goes on for ever: one more limit, on the expected steps.

Without discount, occupancies may then have circulations of any size, and at some prices of the features no policy is
the best: going on pays. With one more limit, steps <= N, and a price on steps that is raised until going on does not
pay, the bound is finite. One more column goes round where it pays, and leaves with a small probability. If the limit
does not bind in the end, the answer is that without it, because the problem is convex. If it binds, longer and longer
journeys are better, and the problem has no answer.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.chains.expectations import Expectation
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import ending_choice, uniform_policy
from tutelage.outcomes import EndlessValue

# The name of the limit.
STEPS_NAME = "expected steps"
# Prices of a step to be tried, relative to the largest price of a feature.
STEP_PRICES = tuple(10.0**k for k in range(-12, 4))
# Probabilities to be tried of leaving a cycle that pays.
LEAVING = tuple(10.0**-k for k in range(1, 9))


def with_steps(domain: Domain, limits: HalfSpaces, failure: EndlessValue) -> tuple[Domain, HalfSpaces]:
    """The domain with the steps as its last preference feature, and the limits with a last one on them.

    Raises the failure of a problem that has them already.
    """
    mdp = domain.mdp
    if STEPS_NAME in limits.names or np.isfinite(mdp.horizon):
        raise failure
    steps = np.ones(mdp.n_states)
    steps[mdp.ends] = 0.0
    more = np.vstack([np.hstack([limits.normals, np.zeros((len(limits), 1))]), np.eye(len(domain.names) + 1)[-1]])
    bounded = HalfSpaces(more, np.append(limits.offsets, _most(mdp)), (*limits.names, STEPS_NAME))
    return domain.with_features(preference={STEPS_NAME: steps}), bounded


def _most(mdp: MDP) -> float:
    """The limit: a thousand times the steps of the walk that takes all choices alike."""
    return 1_000 * mdp.steps


def without_steps(found: ConstrainedOptimum, domain: Domain, failure: EndlessValue) -> ConstrainedOptimum:
    """The answer without its last limit; the failure where that limit binds."""
    if found.expectation.preference[-1] > 0.9 * _most(domain.mdp):
        raise failure
    reached = Expectation(found.expectation.reward, found.expectation.preference[:-1])
    multipliers, price = freeze(found.multipliers[:-1].copy()), freeze(found.price[:-1].copy())
    return replace(found, expectation=reached, multipliers=multipliers, price=price, prices=None)


def going_round(mdp: MDP, failure: EndlessValue) -> Iterator[Vector]:
    """Policies (C,) that go round where it pays, for longer and longer, and end; elsewhere they walk at random."""
    if failure.choice is None or failure.is_lost is None:
        return
    stay, leave = np.zeros(mdp.n_choices), np.zeros(mdp.n_choices)
    stay[failure.choice], leave[ending_choice(mdp, np.ones(mdp.n_choices, dtype=np.bool_))] = 1.0, 1.0
    is_there = np.repeat(failure.is_lost, mdp.choices_per_state)
    for left in LEAVING:
        yield np.where(is_there, (1 - left) * stay + left * leave, 0.5 * (stay + uniform_policy(mdp)))
