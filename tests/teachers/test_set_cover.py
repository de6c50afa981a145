"""SCOT: half-spaces, redundancy and the cover, against brute force."""

from itertools import combinations

import numpy as np
import pytest
from problems import random_domain_of

import tutelage as tl
from tutelage.teachers.set_cover import greedy_cover, half_spaces, irredundant

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_within_the_half_spaces_are_those_with_the_same_optimal_choices(seed):
    """Random weights: inside all half-spaces exactly if the policy's choices are optimal for them."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed, max_states=6)
    policy = tl.solve_hard(domain.mdp, domain.reward_features @ rng.normal(size=domain.n_reward)).policy
    normals, _ = half_spaces(domain, policy, domain.n_reward, policy > 0)
    for _ in range(200):
        weights = rng.normal(size=domain.n_reward)
        solved = tl.solve_hard(domain.mdp, domain.reward_features @ weights)
        best = np.maximum.reduceat(solved.choice_value, domain.mdp.first_choice[:-1])
        lost = (np.repeat(best, domain.mdp.choices_per_state) - solved.choice_value)[policy > 0].max()
        margin = float((normals @ weights).min(initial=1.0))
        if abs(margin) > 1e-6:
            assert (margin > 0) == (lost < 1e-7 * domain.mdp.horizon)


@pytest.mark.parametrize("seed", SEEDS)
def test_redundant_half_spaces_are_those_that_cut_nothing_off(seed):
    """In the plane: of all normals the two extreme ones suffice, if they lie within a half-plane."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-1.2, 1.2, size=7)
    normals = np.column_stack([np.cos(angles), np.sin(angles)])
    assert set(np.flatnonzero(irredundant(normals))) == {int(angles.argmin()), int(angles.argmax())}


@pytest.mark.parametrize("seed", range(50))
def test_the_cover_is_complete_and_no_larger_than_greedy_allows(seed):
    """Against the smallest cover by brute force: complete, and within the harmonic bound of greedy covers."""
    rng = np.random.default_rng(seed)
    covered = rng.random((8, 6)) < 0.35
    order = greedy_cover(covered)
    assert covered[order].any(axis=0).sum() == covered.any(axis=0).sum()
    smallest = next(
        size
        for size in range(9)
        if any(
            covered[list(rows)].any(axis=0).sum() == covered.any(axis=0).sum() for rows in combinations(range(8), size)
        )
    )
    largest = int(covered.sum(axis=1).max(initial=1))
    assert len(order) <= smallest * sum(1 / k for k in range(1, max(largest, 1) + 1)) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_lessons_of_the_cover_show_every_half_space_that_any_candidate_shows(seed):
    rng = np.random.default_rng(100 + seed)
    domain = random_domain_of(rng, seed, max_states=8)
    teacher = tl.SetCoverTeacher(domain, rng.normal(size=domain.n_reward))
    _, shows = half_spaces(domain, teacher.shown_policy, domain.n_reward, teacher.shown_policy > 0)

    def shown(numbers):
        taken = [teacher.candidates[k].recorded.choices for k in numbers]
        choices = np.concatenate([part[part >= 0] for part in taken]) if taken else np.zeros(0, dtype=int)
        return shows[choices].any(axis=0)

    assert (shown(teacher.order) == shown(range(len(teacher.candidates)))).all()
    assert len(set(teacher.order)) == len(teacher.order)
