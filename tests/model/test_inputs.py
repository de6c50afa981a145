"""One discount per choice: a semi-Markov process, for which every equation has diag(discount) @ transition.

The random MDPs of `strategies` have such discounts as often as not, so most properties are tested elsewhere too.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from oracles import log_sum_exp, value_iteration
from strategies import SEEDS, add_features, build_mdp, domains_with_policy, random_discounts, random_policy, some_of

import tutelage as tl
from tutelage.bellman import equations
from tutelage.bellman.backups import CompiledOperators
from tutelage.bellman.equations import Operators
from tutelage.chains.resolvent import discounted_rows
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import discounted, endless, per_choice
from tutelage.outcomes import InvalidModel


def expanded(mdp: tl.MDP, base: float, durations: np.ndarray) -> tl.MDP:
    """The MDP in which a choice that takes d whole steps passes through d - 1 waiting states, with one discount."""
    n_waiting = int((durations - 1).sum())
    rows, counts, waiting = [], list(mdp.choices_per_state) + [1] * n_waiting, mdp.n_states
    width = mdp.n_states + n_waiting
    later = []
    for choice, duration in enumerate(durations):
        arrival = np.zeros(width)
        arrival[: mdp.n_states] = mdp.transition[[choice]].toarray()[0]
        states = list(range(waiting, waiting + duration - 1))
        waiting += duration - 1
        steps = [*np.eye(width)[states], arrival]
        rows.append(steps[0])
        later += steps[1:]
    initial = np.concatenate([mdp.initial, np.zeros(n_waiting)])
    return tl.MDP.from_choices(np.array(rows + later), np.cumsum([0, *counts]), initial, base)


@pytest.mark.parametrize("seed", some_of(range(200), range(20)))
def test_a_choice_that_takes_d_steps_is_d_steps_of_waiting(seed):
    """discount**d against one discount with d - 1 waiting states: the same values, visits, entropies and optima."""
    rng = np.random.default_rng(seed)
    plain = build_mdp(rng, rng.integers(1, 4, size=6), 0.9)
    durations = rng.integers(1, 5, size=plain.n_choices)
    base = 1 - 0.5 * 0.02 ** rng.random()
    timed, waiting = replace(plain, discount=base**durations), expanded(plain, base, durations)
    reward = rng.normal(size=plain.n_choices)
    padded = np.concatenate([reward, np.zeros(waiting.n_choices - plain.n_choices)])
    policy = random_policy(rng, plain)
    longer = np.concatenate([policy, np.ones(waiting.n_choices - plain.n_choices)])
    n, c = plain.n_states, plain.n_choices
    for solve in (tl.solve_hard, tl.solve_soft):
        assert_allclose(solve(timed, reward).value, solve(waiting, padded).value[:n], atol=3e-8)
    assert_allclose(tl.occupancy(timed, policy), tl.occupancy(waiting, longer)[:c], rtol=1e-10)
    assert tl.causal_entropy(timed, policy) == pytest.approx(tl.causal_entropy(waiting, longer), rel=1e-10)


@pytest.mark.parametrize("seed", some_of(range(200), range(4)))
@pytest.mark.parametrize("is_hard", [True, False])
def test_the_compiled_loops_of_large_mdps_agree_with_value_iteration(seed, is_hard, monkeypatch):
    monkeypatch.setattr(equations, "COMPILED_ABOVE", 1)
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(1, 4, size=25), 0.9)
    mdp = replace(mdp, discount=np.minimum(random_discounts(rng, mdp.n_choices), 0.99))
    reward = rng.normal(size=mdp.n_choices)
    solved = (tl.solve_hard if is_hard else tl.solve_soft)(mdp, reward)
    exact = value_iteration(mdp, reward, np.max if is_hard else log_sum_exp, tolerance=1e-11)
    assert_allclose(solved.value, exact, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_compiled_operators_agree_with_numpy(seed):
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(1, 5, size=60), 0.9)
    mdp = replace(mdp, discount=random_discounts(rng, mdp.n_choices))
    reward, value, policy = rng.normal(size=mdp.n_choices), rng.normal(size=mdp.n_states), random_policy(rng, mdp)
    plain, compiled = Operators(mdp, reward), CompiledOperators(mdp, reward)
    for one, other in zip(plain.soft_backup(value), compiled.soft_backup(value), strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    choice = mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)
    for one, other in zip(plain.hard_backup(value, choice, 0.0), compiled.hard_backup(value, choice, 0.0), strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert_allclose(plain.solve(policy, value, 1e-12), compiled.solve(policy, value, 1e-12), atol=1e-7)


@settings(max_examples=20)
@given(domains_with_policy(), SEEDS)
def test_a_constant_vector_gives_the_answers_of_the_number_bit_for_bit(domain_and_policy, seed):
    domain, policy = domain_and_policy
    one = domain.mdp.contraction
    scalar = replace(domain, mdp=replace(domain.mdp, discount=one))
    vector = replace(domain, mdp=replace(domain.mdp, discount=np.full(domain.mdp.n_choices, one)))
    weights = np.random.default_rng(seed).normal(size=len(domain.names))
    features = tl.combined_features(domain)
    found = [tl.soft_expansion(each.mdp, features, weights) for each in (scalar, vector)]
    for name in ("expectation", "jacobian", "visits", "advantages"):
        assert_array_equal(*(getattr(expansion, name) for expansion in found))
    hard = [tl.solve_hard(each.mdp, features @ weights) for each in (scalar, vector)]
    assert_array_equal(hard[0].value, hard[1].value)
    assert_array_equal(*(tl.expectation(each, policy).both for each in (scalar, vector)))
    sampled = [sample_demonstrations(each.mdp, policy, 5, rng=seed) for each in (scalar, vector)]
    assert_array_equal(sampled[0].choices, sampled[1].choices)
    counted = [tl.empirical_expectation(*pair) for pair in zip((scalar, vector), sampled, strict=True)]
    assert_array_equal(counted[0].reward, counted[1].reward)


@pytest.mark.parametrize("seed", range(10))
def test_discounts_one_rounding_apart_give_nearly_the_answers_of_one(seed):
    """The equations of a vector, where they must agree with those of one number to rounding."""
    rng = np.random.default_rng(seed)
    one = build_mdp(rng, rng.integers(1, 5, size=rng.integers(2, 30)), 0.97)
    near = replace(one, discount=np.nextafter(0.97, rng.integers(2, size=one.n_choices)))
    assert isinstance(near.discount, np.ndarray) or one.n_choices < 8
    domains = [
        add_features(
            np.random.default_rng(1),
            mdp,
            n_reward=2,
            n_preference=2,
            reward_on_choices=True,
            preference_on_choices=False,
        )
        for mdp in (one, near)
    ]
    policy = random_policy(rng, one)
    assert_allclose(*(tl.expectation(domain, policy).both for domain in domains), rtol=1e-11)
    weights = rng.normal(size=4)
    expansions = [tl.soft_expansion(domain.mdp, tl.combined_features(domain), weights) for domain in domains]
    assert_allclose(*(expansion.expectation for expansion in expansions), rtol=1e-7)
    assert_allclose(*(expansion.jacobian for expansion in expansions), rtol=1e-6, atol=1e-8)
    shown = tl.Lesson.from_policy(domains[0], random_policy(rng, one))
    answers = [tl.SoftLearner(domain, mismatch_penalty=2.0, violation_penalty=3.0).respond(shown) for domain in domains]
    assert_allclose(*(answer.expectation.both for answer in answers), rtol=1e-6, atol=1e-6)


@given(domains_with_policy())
def test_every_expectation_is_between_the_least_and_the_largest_endless_choice(domain_and_policy):
    """mu is a mean of features / (1 - discount) with the weights (1 - discount) z."""
    domain, policy = domain_and_policy
    for features, counts in zip(
        (domain.reward_features, domain.preference_features),
        (tl.expectation(domain, policy).reward, tl.expectation(domain, policy).preference),
        strict=True,
    ):
        rows = endless(domain.mdp, features)
        shares = (1 - domain.mdp.discount) * tl.occupancy(domain.mdp, policy)
        assert_allclose(shares @ per_choice(domain.mdp, rows), counts, rtol=1e-9, atol=1e-12)
        assert (counts >= rows.min(axis=0, initial=np.inf) * (1 - 1e-9)).all()
        assert (counts <= rows.max(axis=0, initial=0.0) * (1 + 1e-9)).all()


def test_discounted_multiplies_rows():
    mdp = tl.MDP.from_choices(np.eye(2)[[0, 1, 1]], [0, 2, 3], [1, 0], [0.5, 0.25, 0.75])
    assert_allclose(discounted(mdp, np.ones((3, 2))), [[0.5, 0.5], [0.25, 0.25], [0.75, 0.75]])
    assert_allclose(discounted(mdp, np.ones(3)), [0.5, 0.25, 0.75])
    assert_allclose(discounted_rows(mdp, np.array([2, 0])).toarray(), [[0, 0.75], [0.5, 0]])
    assert mdp.contraction == 0.75 and mdp.horizon == 4.0
    assert repr(mdp) == "MDP(2 states, 3 choices, discount 0.25 to 0.75)"


def test_discounts_of_actions_may_be_a_table():
    transition = np.ones((1, 2, 1))
    mdp = tl.MDP.from_arrays(transition, [1.0], [[0.5, 0.75]])
    assert_array_equal(mdp.discount, [0.5, 0.75])
    assert not mdp.discount.flags.writeable
    assert tl.MDP.from_arrays(transition, [1.0], [[0.5, 0.5]]).discount == 0.5


@pytest.mark.parametrize(
    ("discount", "message"),
    [
        ([0.5, 0.5], "discount has 2 entries, but there are 3 choices"),
        ([0.5, 1.1, 0.5], r"discount\[1\] must be above 0 and at most 1, got 1.1"),
        ([0.5, -0.1, 2.0], r"discount\[1\] must be above 0 and at most 1, got -0.1"),
        ([0.5, np.nan, 0.5], r"discount\[1\] is nan"),
        ([[0.5, 0.5, 0.4]], "discount must have 1 axis"),
        ("often", "discount must be a number"),
        (None, "discount must be a number"),
    ],
)
def test_wrong_discounts_are_refused_by_choice(discount, message):
    with pytest.raises(InvalidModel, match=message):
        tl.MDP.from_choices(np.eye(2)[[0, 1, 1]], [0, 2, 3], [1, 0], discount)


def test_demonstrations_of_states_only_need_one_discount_per_state():
    """The discount of a step is that of its choice: without choices it is known only where a state has one."""
    rows = np.eye(3)[[1, 1, 2, 2]]
    features = np.arange(3.0)
    seen = [[0, 1, 2]]
    mixed = tl.Domain(tl.MDP.from_choices(rows, [0, 2, 3, 4], [1, 0, 0], [0.5, 0.9, 0.8, 0.7]), features)
    with pytest.raises(
        InvalidModel, match="choices of state 0 have different discounts, but these demonstrations have states only"
    ):
        tl.empirical_expectation(mixed, tl.Demonstrations.from_sequences(mixed.mdp, seen))
    known = tl.Demonstrations.from_sequences(mixed.mdp, seen, [[0, 0]])
    # 0 + 0.5 * 1 + 0.5 * 0.8 * 2 / (1 - 0.7)
    assert tl.empirical_expectation(mixed, known).reward == pytest.approx([0.5 + 0.4 * 2 / 0.3])
    single = tl.Domain(tl.MDP.from_choices(rows, [0, 2, 3, 4], [1, 0, 0], [0.5, 0.5, 0.8, 0.7]), features)
    found = tl.empirical_expectation(single, tl.Demonstrations.from_sequences(single.mdp, seen))
    assert found.reward == pytest.approx([0.5 + 0.4 * 2 / 0.3]) and found.reward_bias == [0.0]


def test_the_tail_of_an_absorbing_state_with_two_discounts_is_a_bias():
    """After the known visit the state may count 2 / (1 - 0.9) at most, times the discount of the choice taken."""
    mdp = tl.MDP.from_choices(np.ones((2, 1)), [0, 2], [1.0], [0.5, 0.9])
    domain = tl.Domain(mdp, [2.0])
    for action, left in ((0, 0.5), (1, 0.9)):
        found = tl.empirical_expectation(domain, tl.Demonstrations.from_sequences(mdp, [[0]], [[action]]))
        assert found.reward == pytest.approx([2.0]) and found.reward_bias == pytest.approx([left * 2 / 0.1])
