"""Exact bi-level teaching: the printed row, every learner of Eq. 1, and nothing that a grid or a teacher beats."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from strategies import random_domain, some_of

import tutelage as tl
from tutelage.experiments.settings import LEARNERS, PENALTIES
from tutelage.experiments.tables import printed_known
from tutelage.learners.dual import Reduction
from tutelage.teachers.climbing import LessonSearch


def plan(world, name, mismatch_penalty, violation_penalty, allowance=0.0, **options):
    domain = world.domain(name)
    learner = tl.SoftLearner(
        domain, mismatch_penalty=mismatch_penalty, violation_penalty=violation_penalty, violation_allowance=allowance
    )
    return learner, tl.BilevelTeacher(domain, world.true_weights, learner, **options).plan()


def reward_of(learner, world, lesson):
    return float(world.true_weights @ learner.respond(lesson).expectation.reward)


def cells():
    """Appendix B.1; or a cell of Table 1."""
    every = [(penalties, name) for penalties in PENALTIES for name in LEARNERS]
    return some_of(every, [((5, 10), "L3")])


@pytest.mark.parametrize(("penalties", "name"), cells())
def test_the_printed_mean_is_reached_and_the_agnostic_teacher_beaten_in_every_world(penalties, name):
    """At least the printed mean less 0.02, and at (5, 10) equal to it to 0.01; predicted is achieved to 1e-6."""
    rewards = []
    for seed in range(10):
        world = tl.object_world(size=10, seed=seed)
        learner, found = plan(world, name, *penalties, max_cells=0, n_random=0)
        agnostic = reward_of(learner, world, tl.AgnosticTeacher(learner.domain, world.true_weights).open().lesson)
        assert found.achieved >= agnostic - 1e-9
        assert_allclose(found.predicted, found.achieved, atol=1e-6)
        assert found.bound >= found.achieved
        rewards.append(found.achieved)
    assert np.mean(rewards) >= printed_known(*penalties, "bilevel", name).mean - 0.02
    if penalties == (5, 10):
        exact = {"L1": 8.00, "L2": 7.20, "L3": 4.87, "L4": 3.15, "L5": 1.30}
        assert_allclose(np.mean(rewards), exact[name], atol=0.01)


ALLOWED = tuple(product([("L2", 3), ("L3", 0), ("L5", 0)], [0.5, 2.5]))


@pytest.mark.parametrize(("problem", "allowance"), some_of(ALLOWED, ALLOWED[1:2]))
def test_predicted_is_achieved_with_allowances_too(problem, allowance):
    name, seed = problem
    world = tl.object_world(size=10, seed=seed)
    learner, found = plan(world, name, 5, 10, allowance, max_cells=0)
    assert_allclose(found.predicted, found.achieved, atol=1e-6)
    assert found.achieved >= reward_of(
        learner, world, tl.AgnosticTeacher(learner.domain, world.true_weights).open().lesson
    )


def test_some_preferences_bind_inside_others_at_the_limit_others_not_at_all():
    """The case that the paper's two all-or-nothing branches cannot express: all three kinds of multiplier at once."""
    domain = tl.object_world(size=6, seed=1).domain("L3")
    found = Reduction(tl.Preference(norm=1, penalty=10, allowance=0.5).on(domain)).settle(np.array([-5.0, 5.0, -5.0]))
    y, excess = found.multipliers, found.expectation.preference - 0.5
    at_limit, inside, idle = excess > 1e-6, np.abs(excess) <= 1e-6, excess < -1e-6
    assert at_limit.any() and inside.any() and idle.any()
    assert_allclose(y[at_limit], 10.0)
    assert (y[inside] > 0.1).all() and (y[inside] < 9.9).all()
    assert_allclose(y[idle], 0.0, atol=1e-6)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10, violation_allowance=0.5)
    response = learner.respond(tl.Lesson.from_policy(domain, found.soft.solved.policy))
    assert_allclose(response.expectation.reward, found.expectation.reward, atol=1e-6)


GRIDS = [(0, "L4", 10, 5), (1, "L2", 1, 10)]


@pytest.mark.parametrize("case", some_of(GRIDS, GRIDS[:1]))
def test_no_grid_point_is_better(case):
    """A 21 by 21 grid (in the sample, half of its lines) on each of the three faces through which w* leads out of the
    box; and R never falls along w*, so that no other point of the box is better than the best of these faces."""
    seed, name, mismatch_penalty, violation_penalty = case
    world = tl.object_world(size=10, seed=seed)
    learner, found = plan(world, name, mismatch_penalty, violation_penalty, max_cells=0)
    reduction, near, best = Reduction(learner.preference.on(learner.domain)), None, -math.inf
    (n_lines,) = some_of([21], [11])
    line = np.linspace(-mismatch_penalty, mismatch_penalty, n_lines)
    for face in range(3):
        for i, u in enumerate(line):
            for v in line[:: 1 if i % 2 == 0 else -1]:
                a = np.insert(np.array([u, v]), face, mismatch_penalty)
                near = reduction.settle(a, near=near)
                best = max(best, float(world.true_weights @ near.expectation.reward))
    assert found.achieved >= best - 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_central_differences(seed):
    """R(a) = w* @ mu_r(a), on a published world with every kind of multiplier."""
    world = tl.object_world(size=10, seed=seed)
    rng = np.random.default_rng(seed)
    for name, allowance in (("L2", 0.0), ("L3", 0.5), ("L5", 2.5)):
        reduction = Reduction(tl.Preference(norm=1, penalty=10, allowance=allowance).on(world.domain(name)))
        a = rng.uniform(-5, 5, 3)
        here = reduction.settle(a)

        def reward(b, reduction=reduction, here=here):
            return float(world.true_weights @ reduction.settle(b, near=here).expectation.reward)

        assert_allclose(here.jacobian @ world.true_weights, central_difference(reward, a, step=1e-4), atol=1e-5)


KINDS = {
    "2-norms": (tl.Mismatch(norm=2, penalty=5), tl.Preference(norm=2, penalty=5, allowance=1)),
    "inf-norms": (tl.Mismatch(norm=math.inf, penalty=5), tl.Preference(norm=math.inf, penalty=5, allowance=1)),
    "hard preferences": (tl.Mismatch(norm=2, penalty=20), tl.Preference(allowance=2.5)),
    "mismatch allowance": (
        tl.Mismatch(norm=1, penalty=5, allowance=0.5),
        tl.Preference(norm=1, penalty=5, allowance=1),
    ),
    "squared": (tl.Mismatch(norm=2, penalty=20, squared=True), tl.Preference(allowance=2.5)),
    "exact match": (tl.Mismatch(), tl.Preference(norm=1, penalty=5, allowance=1)),
    "rows": (tl.Mismatch(norm=1, penalty=5), tl.Preference(norm=1, penalty=5, allowance=1, rows=np.ones((1, 4)))),
}


@pytest.mark.parametrize("kind", some_of(KINDS, list(KINDS)[::3]))
def test_every_learner_of_eq_1_is_taught_as_predicted_and_better_than_by_others(kind):
    """Boxes, balls, allowances, squares, exact matches: a policy shows it, the promise is kept, the bound holds."""
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L3")
    learner = tl.GenericLearner(domain, *KINDS[kind])
    found = tl.BilevelTeacher(domain, world.true_weights, learner, max_cells=1, n_random=0).plan()
    assert_allclose(tl.expectation(domain, found.lesson.policy).reward, found.lesson.expectation, atol=1e-9)
    assert_allclose(found.predicted, found.achieved, atol=1e-5 if kind == "exact match" else 1e-6)
    assert found.achieved <= found.bound + 1e-6
    assert found.predicted == found.optima[0].reward == max(optimum.reward for optimum in found.optima)
    if kind != "exact match":  # which cannot follow a policy from the edge of the reachable set
        for teacher in (
            tl.AgnosticTeacher(domain, world.true_weights),
            tl.AwareCmdpTeacher(domain, world.true_weights, learner),
        ):
            assert found.achieved >= reward_of(learner, world, teacher.open().lesson) - 1e-6


@pytest.mark.parametrize("kind", ["mismatch allowance", "squared"])
def test_the_response_moves_with_the_lesson_as_predicted(kind):
    """d mu_r / d mu_hat by the implicit function theorem, against the learner's responses to nearby lessons."""
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L3")
    learner = tl.GenericLearner(domain, *KINDS[kind])
    reduction, block = Reduction(learner.preference.on(domain)), learner.mismatch.block(domain)
    shown = tl.AwareCmdpTeacher(domain, world.true_weights, learner).open().lesson.expectation
    openings = [LessonSearch(reduction, block, axis, dual=learner.dual).slope(shown, None) for axis in np.eye(3)]

    def response(mu):
        return learner.respond(tl.Lesson.from_expectation(mu)).expectation.reward

    assert_allclose([opening.value for opening in openings], response(shown), atol=1e-7)
    gradients = [opening.gradient for opening in openings]
    assert_allclose(gradients, central_difference(response, shown, step=1e-4).T, atol=1e-4)


def test_a_learner_that_minds_nothing_and_matches_exactly_is_taught_the_optimum():
    """Up to the largest weight, where its policy is all but the optimal one."""
    world = tl.object_world(size=6, seed=2)
    domain = world.domain("L1")
    found = tl.BilevelTeacher(domain, world.true_weights, tl.StandardLearner(domain)).plan()
    assert found.gap < 0.01
    assert_allclose(found.predicted, found.achieved, atol=1e-5)


def test_the_bound_says_how_much_more_there_could_be():
    """On a published world: achieved, bound and gap, the gap below three percent after a few cells."""
    _, found = plan(tl.object_world(size=10, seed=0), "L3", 5, 10)
    assert found.achieved <= found.bound
    assert found.gap == pytest.approx(found.bound - found.achieved)
    assert found.gap <= 0.03 * found.achieved
    assert len(found.optima) >= 2


def test_the_same_problem_is_planned_the_same_way_twice():
    world = tl.object_world(size=6, seed=5)
    first, second = (plan(world, "L4", 5, 10, max_cells=4)[1] for _ in range(2))
    assert_allclose(first.lesson.policy, second.lesson.policy, rtol=0, atol=0)
    assert first.bound == second.bound


PRINTED = [("L2", (5, 10)), ("L4", (10, 5)), ("L3", (1, 10))]


@pytest.mark.parametrize(("name", "penalties"), some_of(PRINTED, PRINTED[:1]))
def test_frank_wolfe_is_never_better(name, penalties):
    """Appendix G as printed, by the learner's own response; both report the same kind of plan."""
    for seed in range(2):
        world = tl.object_world(size=6, seed=seed)
        _, exact = plan(world, name, *penalties, max_cells=0)
        _, printed = plan(world, name, *penalties, max_cells=0, method="frank-wolfe")
        assert exact.achieved >= printed.achieved - 1e-6
        assert printed.achieved <= printed.bound + 1e-9


def test_frank_wolfe_is_for_the_paper_s_soft_learner_only():
    domain = tl.object_world(size=6, seed=1).domain("L3")
    for kind in ("2-norms", "hard preferences", "mismatch allowance", "rows"):
        with pytest.raises(tl.InvalidModel, match=r"Sec\. 3\.2"):
            tl.BilevelTeacher(domain, [1.0, 0.9, 0.2], tl.GenericLearner(domain, *KINDS[kind]), method="frank-wolfe")


@pytest.mark.parametrize("objects", [{}, {"star": [8]}])
def test_a_world_in_which_nothing_can_be_gained_is_taught_and_bounded_all_the_same(objects):
    """No objects, or none that counts: every lesson earns nothing, and the certificate says so."""
    world = tl.ObjectWorld(3, 0, objects, {"green": [4]}, weights=(0.0, 1.0, 1.0))
    _, found = plan(world, "L2", 5, 10)
    assert found.achieved == 0.0
    assert 0.0 <= found.bound < 1e-6


def test_a_response_that_rounding_spoils_starts_from_the_planned_weights():
    """Whether the first attempt comes close enough may depend on the processor; the second one always does."""
    started = []

    class Spoilt(tl.GenericLearner):
        def respond(self, lesson, *, start=None, **limits):
            response = super().respond(lesson, start=start, **limits)
            if start is None:
                raise tl.NotConverged("rounding", residual=1.0, n_steps=1, answer=response)
            started.append(start.learned_weights[: self.domain.n_reward])
            return response

    domain = random_domain(np.random.default_rng(4), max_states=8)
    weights = np.random.default_rng(4).normal(size=domain.n_reward)
    penalties = tl.Mismatch(norm=2, penalty=3.0), tl.Preference(penalty=1.0)
    expected = tl.BilevelTeacher(domain, weights, tl.GenericLearner(domain, *penalties), max_cells=0).plan()
    plan = tl.BilevelTeacher(domain, weights, Spoilt(domain, *penalties), max_cells=0).plan()
    assert plan.achieved == pytest.approx(expected.achieved, abs=1e-6)
    assert_allclose(started[-1], plan.optima[0].weights)


@pytest.mark.parametrize("allowance", [1.6, 2.0])
def test_a_limit_that_no_policy_can_miss_does_not_hide_the_others(allowance):
    """The multiplier of the second limit is free: its feature counts one in each step, and all of that is allowed.

    Carried far out from one point of the search to the next, it once left rounding only, and a plan that breaks the
    first limit: it promised 4.07, more than its own bound of 2.77, and achieved 1.60.
    """
    rows = [[0.6, 0.4], [0.65, 0.35], [0.37, 0.63], [0.37, 0.63], [1, 0]]
    mdp = tl.MDP.from_choices(rows, [0, 4, 5], [0.2, 0.8], 0.85)
    rewards = np.zeros((5, 3))
    rewards[[1, 2, 3], [0, 1, 2]] = 1
    domain, weights = tl.Domain(mdp, rewards, np.array([[1.0, 1.0], [-1.0, 1.0]])), np.array([0.9, 0.45, -0.65])
    limits = tl.Preference(norm=1, penalty=math.inf, allowance=[allowance, 1 / (1 - 0.85)])
    learner = tl.GenericLearner(domain, tl.Mismatch(norm=2, penalty=800), limits)
    plan = tl.BilevelTeacher(domain, weights, learner, max_cells=0).plan()
    best = tl.best_policy(domain, weights, tl.preference_limits(domain, [allowance, 1e9]))
    assert_allclose([plan.predicted, plan.achieved], best.value, rtol=1e-9)
