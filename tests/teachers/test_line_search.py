"""AdAware-Lin: Theorem 3 and Proposition 1, the push by linear programming and by bisection, and how it ends."""

import math
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import polytope_problem, published_problem, random_problem, soft_learner
from scipy.spatial.distance import pdist
from strategies import random_policy, some_of

from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy, nearest_policy
from tutelage.constrained.problem import no_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import object_world
from tutelage.interaction import teach
from tutelage.learners.exact import ApproximateHardLearner, HardLearner
from tutelage.learners.sampled import CallbackLearner
from tutelage.outcomes import InfeasibleConstraints, InvalidModel
from tutelage.roles import Lesson
from tutelage.teachers import line_search
from tutelage.teachers.fixed import AgnosticTeacher, AwareCmdpTeacher, ConservativeTeacher
from tutelage.teachers.line_search import LineSearchTeacher, complement

SHORTEST, LONGEST = 0.1, 5.0
# The paper's numbers, whatever the units of a random domain.
PRINTED = {"shortest_push": SHORTEST, "longest_push": 5.0, "stop_tolerance": 1e-3, "push_tolerance": 1e-3}
# Random problems in which the first push is longer than the shortest; in some it is the longest.
PUSHED = (0, 2, 16, 18, 22, 36, 39, 44, 45, 46, 50, 56, 58)


def line_of(domain, start, weights, match_tolerance=1e-6):
    """The pushes of a teacher with this tolerance."""
    teacher = LineSearchTeacher(domain, weights, match_tolerance=match_tolerance)
    return teacher.line(start)


def proposition_1_bound(gain, push, diameter, weights):
    """Proposition 1 (Eq. 8): an upper bound on R-bar_L - R(mu_L), the reward that a projecting learner can still gain.

        R-bar_L - R(mu_L) <= gain + norm_2(w*) D sqrt(gain / (push norm_2(w*)^2 - gain))

    gain: w* @ (mu_L' - mu_L), the reward gained by the realised lesson mu_T = mu_L + push w*. diameter: D, of Omega_r.

    Proof, for weights of any length. Let n = norm_2(w*) and mu_L' - mu_L = gain w* / n^2 + v, with v orthogonal to w*.
    As a projection, mu_L' satisfies <mu_T - mu_L', x - mu_L'> <= 0 for each x in Omega_r^L. At x = mu_L this reads
    v @ v <= gain (push - gain / n^2); hence 0 <= gain <= push n^2. For any x, let s = w* @ (x - mu_L') and let u be the
    part of x - mu_L' that is orthogonal to w*. Then s (push - gain / n^2) <= u @ v, and with norm_2(u) <= D
    s <= n D sqrt(gain / (push n^2 - gain)), which is Eq. 9 with the slope of Eq. 10.

    If gain = push n^2, then v = 0: the learner matches the lesson, the inequality above holds for every x, and the
    proposition bounds nothing. The function returns infinity for gain >= push n^2, and takes a gain below 0 as 0.
    """
    gain, norm = max(gain, 0.0), float(np.linalg.norm(weights))
    rest = push * norm**2 - gain
    return gain + norm * diameter * math.sqrt(gain / rest) if rest > 0 else math.inf


def pushes(transcript):
    """The rounds that follow a push, each with the round before it and the size of the push."""
    weights = transcript.true_weights
    for before, after in pairwise(transcript.rounds):
        if after.reason.startswith("a push"):
            step = after.lesson.expectation - before.response.expectation.reward
            yield before, after, float(weights @ step / (weights @ weights))


def proposition_1(problem, before, after, alpha, diameter):
    """R(mu_L) + r + norm_2(w*) D sqrt(r / (alpha norm_2(w*)^2 - r)), for a push alpha that gained r."""
    gain = after.response_reward - before.response_reward
    return before.response_reward + proposition_1_bound(gain, alpha, diameter, problem.true_weights)


def theorem_3_rounds(problem, first, corners, eps, push):
    """The rounds that suffice for R > R-bar_L - 2 eps after pushes of at least `push`, with the constants of the proof.

    corners: of Omega_r. Rewards are in units of norm_2(w*), so that w* is a unit vector as in the proof. In all but
    N = 2 spread / push rounds the gap g = R-bar_L - R shrinks to at most (1 - lambda) g <= g exp(-lambda), with
    lambda = eps push / ((1 + sqrt(10)) D^2) (Eq. 17 and 18). So g < 2 eps after N + log(g_0 / (2 eps)) / lambda + 1.
    """
    unit, diameter = problem.most_lost, float(pdist(corners).max())
    eps, push, spread = eps / unit, push * unit, float(np.ptp(corners @ problem.true_weights)) / unit
    assert eps <= diameter and eps * push <= diameter**2  # Eq. 18 needs both.
    rate = eps * push / ((1 + math.sqrt(10)) * diameter**2)
    return 2 * spread / push + math.log((problem.aware - first) / unit / (2 * eps)) / rate + 1


def check_theorem_3(problem, transcript, diameter):
    """A push never costs the learner reward, and Proposition 1 holds; the teacher's bound is at least as sharp."""
    size = 1 + abs(problem.aware) + diameter
    for before, after, alpha in pushes(transcript):
        assert alpha >= SHORTEST - 1e-6
        assert after.response_reward >= before.response_reward - 1e-9 * size
        printed = proposition_1(problem, before, after, alpha, diameter)
        assert problem.aware <= printed + 1e-6 * size
        assert after.bound <= printed + 1e-4 * size
    assert all(taught.bound >= problem.aware - 1e-6 * size for taught in transcript.rounds)
    assert all(later.bound <= earlier.bound + 1e-6 * size for earlier, later in pairwise(transcript.rounds))
    assert transcript.final.response_reward >= transcript.best.response_reward - 1e-9 * size


@pytest.mark.parametrize("seed", some_of([*PUSHED, *range(3, 15)], [*PUSHED[:4], *range(3, 5)]))
def test_theorem_3_on_random_domains(seed):
    """Monotone reward and Proposition 1. The learner starts close to its best; for the number of rounds see below."""
    problem = random_problem(seed)
    transcript = teach(
        LineSearchTeacher(problem.domain, problem.true_weights, **PRINTED), problem.learner, max_rounds=25
    )
    corners = vertices(problem.domain, no_limits(problem.domain))
    diameter = float(pdist(corners).max()) if len(corners) > 1 else 0.0
    assert LineSearchTeacher(problem.domain, problem.true_weights).diameter >= diameter - 1e-6
    check_theorem_3(problem, transcript, diameter)


def pushed_rewards(problem, start, push, eps):
    """The learner's rewards from a response `start` on, under realised pushes, until one is above R-bar_L - 2 eps."""
    teacher = LineSearchTeacher(problem.domain, problem.true_weights, push / 2, push)
    rewards = [float(problem.true_weights @ start)]
    while rewards[-1] <= problem.aware - 2 * eps and len(rewards) < 200:
        shown = teacher.push(start)
        assert shown.is_realised and shown.size == pytest.approx(push, rel=1e-4)
        start = problem.learner.respond(Lesson.from_policy(problem.domain, shown.policy)).expectation.reward
        rewards.append(float(problem.true_weights @ start))
    return np.array(rewards)


@pytest.mark.parametrize(("eps", "push"), [(0.04, 0.25), (0.02, 0.25), (0.02, 0.5)])
def test_theorem_3_has_the_right_rate(eps, push):
    """A wedge with slope s = 4 eps: the rounds are D^2 / (8 eps alpha), up to the height of Omega_r.

    Omega_r = [0, 1] x [0, s + alpha], Omega_r^L is its part with y <= s x, w* = (0, 1) and the learner starts at
    (0, 0). A push alpha moves it along the slope and gains alpha s^2 / (1 + s^2). The gap falls from 4 eps to 2 eps in
    2 eps (1 + s^2) / (alpha s^2) rounds. Theorem 3's bound has the same D^2 / (eps alpha); it is about 25 times this.
    """
    slope = 4 * eps
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, slope + push], [0.0, slope + push]])
    problem = polytope_problem(corners, [[-slope, 1.0]], [0.0], [0.0, 1.0])
    rewards = pushed_rewards(problem, np.zeros(2), push, eps)
    n_rounds, promised = len(rewards) - 1, theorem_3_rounds(problem, 0.0, corners, eps, push)
    assert n_rounds == pytest.approx(2 * eps * (1 + slope**2) / (push * slope**2), abs=1)
    assert_allclose(np.diff(rewards), push * slope**2 / (1 + slope**2), rtol=1e-3)
    assert promised / 40 <= n_rounds <= promised


@pytest.mark.parametrize("seed", some_of(range(12), range(2)))
def test_theorem_3_where_many_pushes_are_needed(seed):
    """A random polytope around zero, far from the border of Omega_r; the learner starts at its least reward."""
    rng = np.random.default_rng(seed)
    d = 2 + seed % 2
    corners, weights = np.array(list(product([-3.0, 3.0], repeat=d))), rng.normal(size=d)
    normals = np.vstack([rng.normal(size=(4, d)), np.eye(d), -np.eye(d)])
    offsets = np.concatenate([rng.uniform(0.2, 1.5, 4) * np.linalg.norm(normals[:4], axis=1), np.full(2 * d, 1.5)])
    problem = polytope_problem(corners, normals, offsets, weights)
    eps, push = 0.05 * problem.most_lost, 0.5 / problem.most_lost
    worst = Lesson.from_expectation(corners[(corners @ weights).argmin()])
    rewards = pushed_rewards(problem, problem.learner.respond(worst).expectation.reward, push, eps)
    assert np.diff(rewards).min() > 0
    assert 3 <= len(rewards) - 1 <= theorem_3_rounds(problem, rewards[0], corners, eps, push)
    assert rewards[-1] > problem.aware - 2 * eps


@pytest.mark.parametrize(
    ("norm", "weights"), [(1, [1.0, 0.2]), (2, [1.0, 0.2]), (2, [1.0, 0.8]), (math.inf, [1.0, 0.8])]
)
def test_theorem_3_is_for_p_2_only(norm, weights):
    """From (1/2, 1) on the border of 2 x + y <= 2, a push moves (x, y) by alpha w* and the projection moves it back.

    For p = 1 it moves back by (2 w_1 + w_2) / 2 in x alone and the reward changes by alpha (w_2^2 - w_1 w_2 / 2). For
    p = inf it moves back by (2 w_1 + w_2) / 3 in both. Here both lose reward.
    """
    problem = polytope_problem([[0, 0], [2, 0], [2, 2], [0, 2]], [[2.0, 1.0]], [2.0], weights)
    start = np.array([0.5, 1.0])
    shown = LineSearchTeacher(problem.domain, weights, **PRINTED).push(start)
    assert shown.is_realised
    response = HardLearner(problem.domain, 1.0, norm=norm).respond(Lesson.from_policy(problem.domain, shown.policy))
    assert (weights @ (response.expectation.reward - start) > 0) == (norm == 2)


def test_a_lesson_that_is_no_push_may_cost_reward():
    """Omega_r lies below the line of 10 degrees through the learner at zero, Omega_r^L also left of one of 150 degrees.

    w* = (0, 1). The nearest policy to a push alpha is alpha sin 10 along the line. Projected onto Omega_r^L it changes
    the reward by alpha sin 10 (sin 10 - cos 50 sin 60) < 0.
    """
    flat, steep = math.radians(10), math.radians(60)
    rise = math.tan(flat)
    corners = [[-2.0, -2 * rise], [2.0, 2 * rise], [2.0, -4.0], [-2.0, -4.0]]
    problem = polytope_problem(corners, [[math.cos(steep), math.sin(steep)]], [0.0], [0.0, 1.0])
    shown = LineSearchTeacher(problem.domain, [0.0, 1.0], **PRINTED).push(np.zeros(2))
    assert not shown.is_realised and shown.size == SHORTEST
    lost = problem.taught(Lesson.from_policy(problem.domain, shown.policy), problem.learner)
    expected = SHORTEST * math.sin(flat) * (math.sin(flat) - math.cos(steep - flat) * math.sin(steep))
    assert lost == pytest.approx(expected, rel=1e-5) and lost < -0.006


@pytest.mark.parametrize("seed", some_of(range(10), [3]))
def test_the_learner_of_the_published_worlds_is_pushed_to_where_it_can_be(seed):
    """L2: no round earns less than the one before, and the last is within 0.05 of Aware-CMDP, even without patience."""
    problem = published_problem("L2", seed)
    teacher = LineSearchTeacher(problem.domain, problem.true_weights, patience=1)
    transcript = teach(teacher, problem.learner)
    check_theorem_3(problem, transcript, teacher.diameter)
    rewards = [taught.response_reward for taught in transcript.rounds]
    assert np.diff(rewards).min() >= -1e-9
    assert problem.aware - 0.05 <= rewards[-1] <= transcript.final.bound
    assert transcript.final.bound <= problem.aware + 0.1


@pytest.mark.parametrize("seed", some_of(range(10), [8]))
def test_the_approximate_learner_is_taught_nearly_as_well_as_by_one_who_knows_it(seed):
    problem = published_problem("L2", seed)
    domain, weights, learner = problem.domain, problem.true_weights, soft_learner(problem)
    final = teach(LineSearchTeacher(domain, weights, patience=2), learner).final.response_reward
    everything = object_world(size=10, seed=seed).domain("L5").preference_features
    assert final > problem.taught(AgnosticTeacher(domain, weights).open().lesson, learner)
    assert final > problem.taught(ConservativeTeacher(domain, weights, everything).open().lesson, learner)
    assert final >= 0.95 * problem.taught(AwareCmdpTeacher(domain, weights, learner).open().lesson, learner)


@pytest.mark.parametrize("seed", some_of([*PUSHED, 4, 6, 8], [*PUSHED[:3], 4]))
def test_bisection_and_the_linear_program_agree_on_the_push(seed, monkeypatch):
    """And both routes to the program; and the policy shown has the expectation that was asked for."""
    problem = random_problem(seed)
    domain, weights = problem.domain, problem.true_weights
    start = problem.learner.respond(AgnosticTeacher(domain, weights).open().lesson).expectation.reward
    size = 1 + np.abs(start).max()
    line = line_of(domain, start, weights)
    found = []
    for route in ("decomposition", "direct"):
        monkeypatch.setattr(line_search, "best_policy", partial(best_policy, route=route))
        found.append(line.largest(LONGEST))
    exact, direct = found
    assert exact.size == pytest.approx(direct.size, abs=1e-5 * size)
    reached = expectation(domain, exact.policy).reward - start
    assert np.linalg.norm(reached - exact.size * weights) <= 2e-6 * size
    tolerance = 1e-3
    low, high, push = line.bisected(SHORTEST, LONGEST, tolerance)
    assert high - low <= tolerance
    if exact.size < SHORTEST:
        assert low == SHORTEST and push.size == SHORTEST
    else:
        assert low - tolerance <= exact.size <= high + tolerance
        assert push.size in (low, SHORTEST)


def test_the_printed_line_search_falls_back_whenever_its_last_trial_fails():
    """Algorithm 2 forgets the pushes that succeeded; its bracket, which the text means, does not."""
    problem = random_problem(2)
    start = problem.learner.respond(
        AgnosticTeacher(problem.domain, problem.true_weights).open().lesson
    ).expectation.reward
    found = [
        line_of(problem.domain, start, problem.true_weights).bisected(SHORTEST, longest, 1e-2)
        for longest in np.linspace(4.0, 7.0, 7)
    ]
    forgot = [push.size == SHORTEST for _, _, push in found]
    assert any(forgot) and not all(forgot)
    assert np.ptp([low for low, _, _ in found]) <= 2e-2


def test_taught_by_bisection_the_learner_does_not_lose_either():
    problem = random_problem(9)
    teacher = LineSearchTeacher(problem.domain, problem.true_weights, method="bisection")
    transcript = teach(teacher, problem.learner, max_rounds=10)
    check_theorem_3(problem, transcript, teacher.diameter)


def test_off_the_line_there_is_no_push_and_the_nearest_policy_is_shown():
    problem = random_problem(2)
    domain, weights = problem.domain, problem.true_weights
    beyond = AgnosticTeacher(domain, weights).open().lesson.expectation + 1.0 * complement(weights)[0]
    teacher = LineSearchTeacher(domain, weights, **PRINTED)
    shown = teacher.push(beyond)
    assert shown.size == SHORTEST and not shown.is_realised
    nearest = nearest_policy(domain, beyond + SHORTEST * weights, no_limits(domain))
    assert_allclose(expectation(domain, shown.policy).reward, nearest.expectation.reward, atol=1e-6)
    far = beyond + 1e3 * complement(weights)[0]
    with pytest.raises(InfeasibleConstraints, match="of the line"):
        line_of(domain, far, weights).largest(LONGEST)


def test_a_learner_that_does_what_it_is_shown_cannot_be_pushed_further():
    problem = random_problem(2)
    learner = CallbackLearner(problem.domain, lambda lesson: lesson.expectation)
    transcript = teach(LineSearchTeacher(problem.domain, problem.true_weights, **PRINTED), learner)
    assert len(transcript.rounds) == 1 and transcript.ended == "no lesson can gain 0.001 more"


def test_a_learner_that_will_do_one_thing_only_is_soon_left_alone():
    """Its feasible set is a point, and what it does not do proves it."""
    problem = random_problem(4)
    stubborn = AgnosticTeacher(problem.domain, -problem.true_weights).open().lesson.expectation
    learner = CallbackLearner(problem.domain, lambda lesson: stubborn)
    transcript = teach(LineSearchTeacher(problem.domain, problem.true_weights, **PRINTED), learner)
    assert len(transcript.rounds) <= 3 and transcript.ended == "no lesson can gain 0.001 more"
    assert transcript.final.bound == pytest.approx(transcript.final.response_reward, abs=1e-3)


def test_without_progress_the_rounds_end_with_the_best_lesson():
    """A learner that gets tired earns less every time: its answers are no projections, and nothing is certified."""
    problem = random_problem(10)
    best, worst = (
        AgnosticTeacher(problem.domain, sign * problem.true_weights).open().lesson.expectation for sign in (1, -1)
    )
    n_asked = 0

    def tired(lesson):
        nonlocal n_asked
        n_asked += 1
        return worst + (best - worst) / (1 + n_asked)

    teacher = LineSearchTeacher(problem.domain, problem.true_weights, patience=3, **PRINTED)
    transcript = teach(teacher, CallbackLearner(problem.domain, tired))
    assert len(transcript.rounds) == 5 and transcript.final.bound == math.inf
    assert transcript.final.reason.startswith("none of the last 3 rounds gained more than 0.001; ")
    assert transcript.final.reason.endswith("; the best lesson again, that of round 1")
    assert_array_equal(transcript.final.lesson.expectation, transcript.rounds[0].lesson.expectation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shortest_push": 0.0}, "pushes must be 0 < shortest < longest"),
        ({"shortest_push": 5.0}, "pushes must be 0 < shortest < longest"),
        ({"method": "golden"}, "method must be 'exact' or 'bisection', got 'golden'"),
        ({"stop_tolerance": 0.0}, "stop_tolerance must be positive"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"true_weights": [0.0, 0.0]}, "true_weights are all zero"),
        ({"true_weights": [1.0]}, "true_weights has 1 entries"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    problem = random_problem(0)
    with pytest.raises(InvalidModel, match=message):
        LineSearchTeacher(**{"domain": problem.domain, "true_weights": problem.true_weights, **options})


# Random problems with a push of more than 0.01; in the first seven the bound is below gain + norm_2(w*) D, which always
# holds. In the last five the learner cannot gain any reward.
GAINING = (4, 12, 13, 16, 40, 45, 50, 2, 10, 46, 55, 0, 18, 22, 39, 44)


@pytest.mark.parametrize("seed", some_of(GAINING, GAINING[:8]))
def test_proposition_1_bounds_the_remaining_gain(seed):
    """The learner responds to a random lesson, and then to a realised push from its response."""
    problem = random_problem(seed)
    domain, weights = problem.domain, problem.true_weights
    lesson = Lesson.from_policy(domain, random_policy(np.random.default_rng(seed), domain.mdp))
    start = problem.learner.respond(lesson).expectation.reward
    push = line_of(domain, start, weights, 1e-9).largest(5.0)
    assert push.is_realised and push.size > 0.01
    gain = float(
        weights @ (problem.learner.respond(Lesson.from_policy(domain, push.policy)).expectation.reward - start)
    )
    diameter = float(pdist(vertices(domain, no_limits(domain))).max())
    bound = proposition_1_bound(gain, push.size, diameter, weights)
    assert problem.aware - weights @ start <= bound + 1e-6 * (1 + abs(problem.aware))
    assert bound < gain + np.linalg.norm(weights) * diameter or seed not in GAINING[:7]


def test_proposition_1_is_attained_in_a_triangle():
    """Omega_r^L is the triangle below the line through (0, 0) and (1, 1/2); w* = (0, 2); the learner is at (0, 0)."""
    weights, push = np.array([0.0, 2.0]), 0.5
    pushed = np.array([0.4, 0.2])  # The projection of (0, 1) onto the line.
    width = 0.6  # The best point is (1, 1/2), with reward 1 and 0.6 to the right of the projection.
    assert proposition_1_bound(weights @ pushed, push, width, weights) == pytest.approx(1.0)


def test_proposition_1_at_the_ends_of_its_range():
    """A push that gains nothing proves that nothing can be gained; a lesson that is matched proves nothing."""
    weights = np.array([3.0, 4.0])
    assert proposition_1_bound(0.0, 0.1, 7.0, weights) == 0.0
    assert proposition_1_bound(-1e-12, 0.1, 7.0, weights) == 0.0
    assert proposition_1_bound(2.5, 0.1, 7.0, weights) == math.inf


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(1, 10), st.floats(1e-6, 1), st.floats(1, 3))
def test_the_steps_of_the_proof_of_theorem_3(eps, shortest, diameter, share, stretch):
    """Eq. 11 to 18, for a unit w*, a push alpha_i >= alpha_min and a gain that leaves more than eps (Eq. 11) to gain.

    Eq. 18 needs eps <= D and eps alpha_min <= D^2, which the paper does not state.
    """
    push = stretch * shortest
    gain = share * push
    remaining = proposition_1_bound(gain, push, diameter, np.array([1.0]))
    assume(remaining > eps)
    c_0, c_1 = eps * math.sqrt(shortest / (4 * diameter**2 + eps**2)), math.sqrt(shortest / 2)
    assert math.sqrt(gain) > min(math.sqrt(eps / 2), c_0) * (1 - 1e-12)  # Eq. 12
    assume(c_0 < math.sqrt(eps / 2) and gain < push - shortest / 2)  # Then Eq. 13 and Eq. 14 hold.
    assert c_0 * c_1 <= math.sqrt((push - gain) * gain)  # Eq. 15
    rate = 1 / (1 + diameter / (c_0 * c_1))
    assert math.sqrt(gain / (push - gain)) <= gain / (c_0 * c_1)  # Eq. 16
    assert rate * remaining <= gain * (1 + 1e-12)  # Eq. 17
    assert rate >= eps * shortest / ((1 + math.sqrt(10)) * diameter**2) * (1 - 1e-12)  # Eq. 18


def test_footnote_one_s_learner_without_preferences_earns_less_after_its_first_lesson():
    """Sec. 6.2: "AdAware-Lin performance always increases". For L1 the first lesson, an optimal policy, is the best."""
    world = object_world(size=10, seed=0)
    domain = world.domain("L1")
    teacher = LineSearchTeacher(domain, world.true_weights, **PRINTED)
    taught = teach(teacher, ApproximateHardLearner(domain, violation_allowance=2.5), max_rounds=3).rounds
    first, _, third = (each.response_reward for each in taught)
    assert third < first - 0.05
