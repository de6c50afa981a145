"""Many journeys on one network: the shared factorisation against each domain by itself."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import road

from tutelage.bellman.journeys import Journeys
from tutelage.bellman.soft_expectations import combined_features, soft_expansion
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import EndlessValue

WEIGHTS = np.array([-1.5, -0.7])


@pytest.mark.parametrize("at_side", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_one_factorisation_gives_the_soft_policies_of_all_destinations(seed, at_side):
    domains = [road(seed, goal, at_side=at_side) for goal in (3, 8, 11)]
    journeys = Journeys.of(domains)
    assert journeys.network is not None
    for domain, shared in zip(domains, journeys.expand(WEIGHTS, ()), strict=True):
        alone = soft_expansion(domain.mdp, combined_features(domain), WEIGHTS, accuracy=1e-12)
        assert_allclose(shared.solved.value, alone.solved.value, atol=1e-10)
        assert_allclose(shared.solved.policy, alone.solved.policy, atol=1e-10)
        for part in ("expectation", "jacobian", "advantages", "visits", "ahead"):
            assert_allclose(getattr(shared, part), getattr(alone, part), atol=1e-8, err_msg=part)
        assert np.abs(shared.solved.value - alone.solved.value).max() <= shared.solved.error_bound + 1e-11


def test_domains_that_differ_in_more_than_their_ends_share_nothing():
    """Other lengths, a discount, or a chance of going astray: each domain is then solved by itself."""
    first, other = road(0, 3), road(0, 8)
    assert Journeys.of([first, road(0, 8, twisted=True)]).network is None
    mdp = other.mdp
    late = MDP.from_choices(mdp.transition, mdp.first_choice, mdp.initial, 0.99)
    assert Journeys.of([first, Domain(late, *(other.reward_features, other.preference_features))]).network is None
    mixed = Journeys.of([first, road(0, 8, twisted=True)])
    values = [soft.soft_return for soft in mixed.expand(WEIGHTS, ())]
    assert_allclose(values[0], soft_expansion(first.mdp, combined_features(first), WEIGHTS).soft_return)


def test_weights_for_which_going_round_pays_are_refused_by_the_name_of_a_cycle():
    journeys = Journeys.of([road(1, 3), road(1, 8)])
    with pytest.raises(EndlessValue, match=r"going on for ever pays: .* in the cycle state"):
        list(journeys.expand(np.array([0.5, 0.5]), ()))
