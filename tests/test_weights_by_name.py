"""Weights of the reward features by name mean what they mean in order, wherever weights are taken."""

import numpy as np
import pytest
from strategies import random_domain, random_policy

import tutelage as tl

USES = {
    "best_policy": lambda d, w: tl.best_policy(d, w, tl.no_limits(d)).value,
    "strictest_policy": lambda d, w: tl.strictest_policy(d, w, tl.preference_limits(d, 0.0)).value,
    "a teacher": lambda d, w: tl.AgnosticTeacher(d, w).open().lesson.expectation,
    "preference_costs": lambda d, w: tl.preference_costs(tl.HardLearner(d, 1e3), w).without,
    "teaching_value": lambda d, w: tl.teaching_value(d, w, tl.HardLearner(d, 1e3)).aware,
    "show": lambda d, w: str(tl.AgnosticTeacher(d, [1, 1, 1]).open().lesson.show(1, true_weights=w)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("seed", range(3))
def test_weights_by_name_are_weights_in_order(use, seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, n_reward=3, n_preference=1)
    first, _, last = domain.reward_names
    one, other = rng.normal(size=2)
    by_name, in_order = ({last: other, first: one}, [one, 0.0, other])
    given, wanted = USES[use](domain, by_name), USES[use](domain, in_order)
    assert given == wanted if isinstance(wanted, str) else given == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(tl.InvalidModel, match="which is not one of the reward features; did you mean 'reward 0'"):
        USES[use](domain, {"rewrad 0": 1.0})


def test_known_weights_of_behaviour_may_have_names():
    rng = np.random.default_rng(5)
    domain = random_domain(rng, max_states=8, n_reward=2, n_preference=1)
    seen = tl.sample_demonstrations(domain, random_policy(rng, domain.mdp), 60, rng=0, max_steps=30)
    name = domain.reward_names[1]
    given = tl.infer_preferences(domain, seen, reward_weights={name: 0.3})
    assert given.strength == pytest.approx(tl.infer_preferences(domain, seen, reward_weights=[0, 0.3]).strength)


def test_a_target_has_no_names_because_a_missing_one_is_not_zero():
    domain = random_domain(np.random.default_rng(6), max_states=6, n_reward=2, n_preference=1)
    with pytest.raises(tl.InvalidModel, match="target must be an array of numbers, not a mapping"):
        tl.nearest_policy(domain, {domain.reward_names[0]: 1.0}, tl.no_limits(domain))
