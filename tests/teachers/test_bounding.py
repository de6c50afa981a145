"""The bound on what any lesson could achieve: never beaten, closing as cells are split, on boxes and on balls."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from strategies import random_domain, some_of

import tutelage as tl
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import no_limits
from tutelage.learners.dual import Reduction
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.teachers.bounding import Cell, opening_cells, search
from tutelage.teachers.climbing import ReducedProblem

NORMS = (1, 2, math.inf)


def bounded(reduction, block, weights, *, achieved=-math.inf, max_cells=20, tolerance=1e-3):
    ceiling = best_policy(reduction.domain, weights, no_limits(reduction.domain)).bound
    problem = ReducedProblem(reduction, block, weights)
    return search(problem, achieved=achieved, ceiling=ceiling, max_cells=max_cells, tolerance=tolerance)


def random_reduction(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=12, max_choices=4, n_reward=1 + seed % 3, on_choices=bool(seed % 2))
    room = rng.uniform(0, 0.3) * domain.mdp.horizon
    return Reduction(Preference(penalty=10 ** rng.uniform(-1, 1), allowance=room).on(domain)), rng


@pytest.mark.parametrize("seed", some_of(range(12), (0, 2, 4)))
def test_no_weights_of_the_set_beat_the_bound(seed):
    """Against forty points of the set, most of them on its border, whatever the number of cells."""
    reduction, rng = random_reduction(seed)
    block = Mismatch(norm=NORMS[seed // 2 % 3], penalty=3.0).block(reduction.domain)
    weights = rng.normal(size=reduction.domain.n_reward)
    ceilings = [bounded(reduction, block, weights, max_cells=n).bound for n in (1, 4, 12)]
    assert (np.diff(ceilings) <= 1e-9 * (1 + abs(ceilings[0]))).all()
    near = None
    for _ in range(40):
        near = reduction.settle(block.contain(4 * rng.normal(size=len(weights))), near=near)
        assert weights @ near.expectation.reward <= ceilings[-1] + 1e-7 * (1 + abs(ceilings[-1]))


@pytest.mark.parametrize(("seed", "norm"), some_of(product((1, 4, 7), NORMS), zip((1, 4, 7), NORMS, strict=True)))
def test_the_gap_closes_as_cells_are_split(seed, norm):
    """With two features some hundred cells prove the best to a hundredth of all there is to gain."""
    reduction, rng = random_reduction(seed)
    domain, mismatch, weights = reduction.domain, Mismatch(norm=norm, penalty=1.0), rng.normal(size=2)
    learner = tl.GenericLearner(domain, mismatch, reduction.constraints.preference)
    best = tl.BilevelTeacher(domain, weights, learner, max_cells=0).plan().achieved
    found = bounded(reduction, mismatch.block(domain), weights, achieved=best, max_cells=400, tolerance=0.01)
    assert best <= found.bound <= best + 0.01 * (1 + abs(best))
    assert found.n_steps < 400


def test_the_search_finds_what_it_was_not_told():
    """Told nothing, it hands back weights that earn what multi-start finds, all but the last percent."""
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L3")
    reduction, block = Reduction(Preference(penalty=10).on(domain)), Mismatch(norm=1, penalty=5).block(domain)
    best = (
        tl.BilevelTeacher(
            domain, world.true_weights, tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10), max_cells=0
        )
        .plan()
        .achieved
    )
    found = bounded(reduction, block, world.true_weights, max_cells=200, tolerance=0.01)
    earned = world.true_weights @ reduction.settle(found.answer).expectation.reward
    assert best <= found.bound + 1e-9
    assert earned >= found.bound - 0.02 * (1 + best)


@pytest.mark.parametrize("seed", some_of(range(6), (0, 1, 3)))
def test_no_point_of_a_fine_grid_beats_the_bound_nor_an_ascent_from_the_best(seed):
    """Two features, all of a box: with three cells and with a hundred, whose bound is closer."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, max_states=8, max_choices=4, n_reward=2, on_choices=bool(seed % 2))
    learner = tl.SoftLearner(domain, mismatch_penalty=4.0, violation_penalty=10 ** rng.uniform(-1, 1))
    reduction, weights = Reduction(learner.preference.on(domain)), rng.normal(size=2)
    few, many = (bounded(reduction, learner.mismatch.block(domain), weights, max_cells=n).bound for n in (3, 100))
    side, near, best = np.linspace(-4, 4, 15), None, -math.inf
    for point in product(side, side):
        near = reduction.settle(np.array(point), near=near)
        best = max(best, float(weights @ near.expectation.reward))
    best = max(best, tl.BilevelTeacher(domain, weights, learner, max_cells=0).plan().achieved)
    assert best <= many + 1e-7 * (1 + abs(best)) and many <= few
    assert many - best <= 0.02 * (1 + abs(best))


def test_a_box_is_searched_on_its_forward_faces_only():
    """One face for each feature that counts, on the side where it counts for more."""
    domain = tl.object_world(size=6, seed=0).domain("L1")
    faces = opening_cells(Mismatch(norm=1, penalty=5).block(domain), np.array([1.0, 0.0, -0.2]))
    assert_allclose([face.low for face in faces], [[5, -5, -5], [-5, -5, -5]])
    assert_allclose([face.high for face in faces], [[5, 5, 5], [5, 5, -5]])
    assert [len(list(face.corners())) for face in faces] == [4, 4]


def test_curvature_counts_as_much_as_length():
    sides = np.zeros(2), np.array([1.0, 4.0])
    assert_allclose(Cell(*sides, np.array([1.0, 1.0])).halves()[0].high, [1, 2])
    assert_allclose(Cell(*sides, np.array([257.0, 1.0])).halves()[0].high, [0.5, 4])
    assert_allclose(Cell(*sides, np.zeros(2)).halves()[0].high, [1, 2])


def test_cells_are_cut_across_the_longest_side_and_dropped_away_from_the_border():
    cell = Cell(np.array([0.0, 0.0]), np.array([1.0, 4.0]))
    first, second = cell.halves()
    assert_allclose(first.high, [1, 2])
    assert_allclose(second.low, [0, 2])
    ball = Mismatch(norm=2, penalty=3).block(
        tl.Domain(tl.object_world(size=6, seed=0).domain("L1").mdp, np.eye(37)[:, :2])
    )
    assert not first.meets_border(ball)  # inside: its furthest point has norm sqrt 5
    assert second.meets_border(ball)
    assert not Cell(np.array([3.0, 3.0]), np.array([4.0, 4.0])).meets_border(ball)  # outside
