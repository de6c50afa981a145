"""Every solver, learner and teacher on random episodes without discount: plain programs, and discounts near 1."""

from dataclasses import replace

import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp, episodic_domain, without_ends
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import tutelage as tl
from tutelage.model.mdp import per_choice

MAKERS = [ending_mdp, endless_mdp]


def flow(mdp):
    """z @ columns = initial: the flow equations of occupancies without the visits of ends."""
    leave = np.zeros((mdp.n_states, mdp.n_choices))
    leave[mdp.state_of_choice, np.arange(mdp.n_choices)] = 1
    return leave - mdp.continuing.toarray().T


def best_reward(domain, weights, allowance):
    """The largest reward within limits on the preference features, by HiGHS, and the prices of the limits."""
    reward, preference = (per_choice(domain.mdp, f) for f in (domain.reward_features, domain.preference_features))
    found = linprog(
        -(reward @ weights), A_ub=preference.T, b_ub=allowance, A_eq=flow(domain.mdp), b_eq=domain.mdp.initial
    )
    return -found.fun, -found.ineqlin.marginals


def problem(make, seed, n_states=12, in_ends=2):
    """A domain, true weights, limits that bind, and the lesson of an agnostic teacher."""
    rng = np.random.default_rng(seed)
    domain, weights = episodic_domain(rng, make(rng, n_states, in_ends=in_ends))
    lesson = tl.AgnosticTeacher(domain, weights).open().lesson
    wanted = tl.expectation(domain, lesson.policy).preference
    least = tl.least_violation(domain, tl.preference_limits(domain, 0.0)).expectation.preference
    return domain, weights, least + 0.4 * np.maximum(wanted - least, 0.1), lesson


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("seed", "n_states"), [(0, 8), (1, 30), (2, 30), (3, 250)])
@pytest.mark.parametrize("route", ["decomposition", "direct"])
def test_the_best_policy_within_limits_is_that_of_a_plain_program(make, seed, n_states, route):
    domain, weights, allowance, _ = problem(make, seed, n_states)
    found = tl.best_policy(domain, weights, tl.preference_limits(domain, allowance), route=route)
    value, prices = best_reward(domain, weights, allowance)
    size = 1 + abs(value)
    assert_allclose(found.value, value, atol=1e-7 * size)
    assert found.value <= found.bound + 1e-9 * size and found.gap <= 1e-6 * size
    reached = tl.expectation(domain, found.policy)
    assert_allclose(reached.reward @ weights, found.value, atol=1e-7 * size)
    assert (reached.preference <= allowance + 1e-7).all()
    slack = 1e-4 * (1 + prices)
    assert (found.price_low <= prices + slack).all() and (prices <= found.price_high + slack).all()


@pytest.mark.parametrize("make", MAKERS)
def test_the_least_violation_is_that_of_a_plain_program(make):
    domain, _, allowance, _ = problem(make, 5)
    preference = per_choice(domain.mdp, domain.preference_features)
    n, limit = domain.mdp.n_choices, 0.3 * allowance
    within = np.hstack([preference.T, -np.eye(2)])
    plain = linprog(
        np.append(np.zeros(n), [1, 1]),
        A_ub=within,
        b_ub=limit,
        A_eq=np.hstack([flow(domain.mdp), np.zeros((domain.mdp.n_states, 2))]),
        b_eq=domain.mdp.initial,
    )
    found = tl.least_violation(domain, tl.preference_limits(domain, limit))
    assert_allclose(found.value, plain.fun, atol=1e-8)


def learners(domain, allowance):
    """One of each kind."""
    return {
        "standard": tl.StandardLearner(domain),
        "soft": tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=allowance),
        "generic": tl.GenericLearner(
            domain,
            tl.Mismatch(norm=2, penalty=3, squared=True),
            tl.Preference(norm=1, penalty=np.inf, allowance=allowance),
        ),
    }


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_learners_with_entropy_answer_with_a_proof(make, seed):
    """The gap is between the value of a policy and a bound over all policies, so a small one proves the response."""
    domain, _, allowance, lesson = problem(make, 20 + seed)
    for learner in learners(domain, allowance).values():
        if isinstance(learner, tl.StandardLearner):
            # An exact match needs a lesson inside the reachable set.
            mixed = 0.7 * np.asarray(lesson.policy) + 0.3 / np.repeat(
                domain.mdp.choices_per_state, domain.mdp.choices_per_state
            )
            lesson = tl.Lesson.from_policy(domain, mixed)
        response = learner.respond(lesson)
        assert response.certificate.relative_gap <= 1e-6
        # The policy is the soft policy of the weights, and has the expectation.
        reward = per_choice(domain.mdp, tl.combined_features(domain)) @ response.learned_weights
        assert_allclose(tl.solve_soft(domain.mdp, reward).policy, response.policy, atol=1e-6)
        assert_allclose(tl.expectation(domain, response.policy).reward, response.expectation.reward, atol=1e-6)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_states", [8, 250])
def test_nothing_counts_for_those_who_start_in_an_end(make, n_states):
    """Whatever the number of its choices, an end has no visit, no entropy and the value zero, also in certificates."""
    domain, _, allowance, lesson = problem(make, 40, n_states, in_ends=3)
    start = 0.5 * domain.mdp.initial
    start[domain.mdp.ends[-1]] = 0.5
    there = domain.starting_in(start)
    mdp, learner = there.mdp, learners(there, 0.5 * allowance)["soft"]
    response = learner.respond(tl.Lesson.from_expectation(0.5 * lesson.expectation))
    policy = response.policy
    # All that is done is half of what is done from the other starts.
    whole = domain.mdp
    assert_allclose(tl.occupancy(mdp, policy), 0.5 * without_ends(whole, tl.occupancy(whole, policy)), atol=1e-12)
    assert_allclose(tl.causal_entropy(mdp, policy), 0.5 * tl.causal_entropy(whole, policy))
    surprise = without_ends(mdp, tl.occupancy(whole, policy) * -np.log(np.maximum(policy, 1e-300)))
    assert_allclose(tl.causal_entropy(mdp, policy), 0.5 * surprise.sum())
    features = per_choice(mdp, tl.combined_features(there))
    solved = tl.solve_soft(mdp, features @ response.learned_weights)
    assert_allclose(solved.value[mdp.ends], 0.0, atol=1e-15)
    paid = 5 * np.abs(response.expectation.reward - 0.5 * lesson.expectation).sum()
    paid += 10 * np.maximum(response.expectation.preference - 0.5 * allowance, 0).sum()
    assert_allclose(response.certificate.primal, 0.5 * surprise.sum() - paid, rtol=1e-6)
    assert response.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("make", MAKERS)
def test_learners_and_teachers_are_the_limit_of_discounts(make):
    """With ends of one choice, all is continuous in the discount: 1 - 10^-6 changes the sixth digit."""
    domain, weights, allowance, _ = problem(make, 31, 8, in_ends=1)
    near = replace(domain, mdp=replace(domain.mdp, discount=1 - 1e-6))
    for name, learner in learners(domain, allowance).items():
        if name == "standard":
            continue
        there = learners(near, allowance)[name]
        lessons = (tl.AgnosticTeacher(d, weights).open().lesson for d in (domain, near))
        here, also = (
            one.respond(lesson).expectation.both for one, lesson in zip((learner, there), lessons, strict=True)
        )
        assert_allclose(here, also, atol=1e-4)
    plans = [tl.BilevelTeacher(d, weights, learners(d, allowance)["soft"]).plan().achieved for d in (domain, near)]
    assert_allclose(plans[0], plans[1], atol=1e-3)
    hard = [tl.AwareCmdpTeacher(d, weights, tl.HardLearner(d, violation_allowance=allowance)) for d in (domain, near)]
    lessons = [teacher.open().lesson.expectation for teacher in hard]
    assert_allclose(lessons[0] @ weights, lessons[1] @ weights, atol=1e-4)


def nearest_distance(domain, target, allowance):
    """The least sum of |mu_r - target| within the limits, by HiGHS."""
    reward, preference = (per_choice(domain.mdp, f) for f in (domain.reward_features, domain.preference_features))
    n, d = domain.mdp.n_choices, domain.n_reward
    beside = np.zeros((domain.mdp.n_states, d))
    within = np.block([[preference.T, np.zeros((2, d))], [reward.T, -np.eye(d)], [-reward.T, -np.eye(d)]])
    bound = np.concatenate([allowance, target, -target])
    cost, equal = np.append(np.zeros(n), np.ones(d)), np.hstack([flow(domain.mdp), beside])
    return linprog(cost, A_ub=within, b_ub=bound, A_eq=equal, b_eq=domain.mdp.initial).fun


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_policy_may_go_round_as_often_as_it_takes(make, seed):
    """Some of these targets are nearest to policies that go round for a while; a plain program has them, too."""
    domain, _, allowance, lesson = problem(make, 40 + seed)
    rng = np.random.default_rng(seed)
    for target in (lesson.expectation, lesson.expectation * rng.uniform(0.8, 3, size=3)):
        found = tl.nearest_policy(domain, target, tl.preference_limits(domain, allowance), norm=1)
        assert_allclose(
            found.value, nearest_distance(domain, target, allowance), atol=1e-7 * (1 + np.abs(target).sum())
        )
        reached = tl.expectation(domain, found.policy)
        assert_allclose(np.abs(reached.reward - target).sum(), found.value, atol=1e-6)
        assert (reached.preference <= allowance + 1e-6).all()


def test_a_cycle_that_pays_is_taken_as_often_as_the_limits_allow():
    """0 goes round at a gain of 1 and a toll of 2, or ends. With 5 tolls, it goes round 2.5 times on average."""
    mdp = tl.MDP.from_choices([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1]], [0, 2, 3, 4], [1, 0, 0], 1)
    domain = tl.Domain(mdp, [[1.0], [0.0], [0.0], [0.0]], [[2.0], [0.0], [0.0], [0.0]])
    assert mdp.horizon == np.inf
    found = tl.best_policy(domain, [1.0], tl.preference_limits(domain, 5.0))
    assert_allclose([found.value, found.bound, found.multipliers[0]], [2.5, 2.5, 0.5], atol=1e-6)
    assert_allclose(tl.expectation(domain, found.policy).preference, [5.0], atol=1e-6)
    with pytest.raises(tl.EndlessValue, match="in the cycle state 0, state 1"):
        tl.best_policy(domain, [1.0], tl.no_limits(domain))


@pytest.mark.parametrize("make", MAKERS)
def test_teachers_teach(make):
    """Every teacher's learner gets at least what the agnostic lesson gives, and at most the bound of all lessons."""
    domain, weights, allowance, _ = problem(make, 52, 8)
    hard = tl.HardLearner(domain, violation_allowance=allowance)
    agnostic = tl.teach(tl.AgnosticTeacher(domain, weights), hard, max_rounds=1).final.response_reward
    best, _ = best_reward(domain, weights, allowance)
    aware = tl.teach(tl.AwareCmdpTeacher(domain, weights, hard), hard, max_rounds=1).final.response_reward
    assert_allclose(aware, best, atol=1e-6)
    for teacher in (tl.VolumeSearchTeacher(domain, weights), tl.LineSearchTeacher(domain, weights)):
        reward = max(taught.response_reward for taught in tl.teach(teacher, hard, max_rounds=10).rounds)
        assert agnostic - 1e-6 <= reward <= best + 1e-6
    conservative = tl.teach(tl.ConservativeTeacher(domain, weights), hard, max_rounds=1).final.response_reward
    assert conservative <= best + 1e-6
    soft = learners(domain, allowance)["soft"]
    plan = tl.BilevelTeacher(domain, weights, soft).plan()
    assert_allclose(soft.respond(plan.lesson).expectation.reward @ weights, plan.achieved, atol=1e-5)
    assert (
        plan.achieved
        >= soft.respond(tl.AgnosticTeacher(domain, weights).open().lesson).expectation.reward @ weights - 1e-6
    )
    rounds = tl.teach(tl.AdaptiveBilevelTeacher(domain, weights, max_cells=0), soft, max_rounds=3).rounds
    assert max(taught.response_reward for taught in rounds) <= plan.bound + 1e-6
