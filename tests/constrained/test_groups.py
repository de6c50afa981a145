"""Mixtures by group of starts: both programs against HiGHS and Clarabel, and the groups themselves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse
from strategies import some_of

from benchmarks.families import family_domain, family_problem
from tutelage.constrained import group_loops, objectives
from tutelage.constrained.columns import Improver
from tutelage.constrained.decomposition import _Rounds
from tutelage.constrained.groups import best_shares, start_groups
from tutelage.constrained.objectives import most_reward, nearest, nearest_squared
from tutelage.constrained.occupancy_polytope import best_policy, least_violation, nearest_policy, strictest_policy
from tutelage.constrained.problem import HalfSpaces, no_limits
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import NotConverged

(N_PROGRAMS,) = some_of([2_000], [150])


def half_spaces(normals, offsets):
    return HalfSpaces(normals, offsets, tuple(f"limit {j}" for j in range(len(offsets))))


def random_program(rng, is_tied):
    """Parts (n, K, d) with limits near what a random mixture uses; rounded entries give many ties."""
    n, n_groups, d, m = rng.integers(1, 12), rng.integers(1, 30), rng.integers(1, 6), rng.integers(1, 7)
    parts, normals = rng.normal(size=(n, n_groups, d)) / n_groups, rng.normal(size=(m, d))
    if is_tied:
        parts, normals = np.round(2 * n_groups * parts) / n_groups, np.round(normals)
    mixture = np.einsum("kn,nkd->d", rng.dirichlet(np.ones(n), size=n_groups), parts)
    limits = half_spaces(normals, normals @ mixture + rng.choice([-0.2, 0.0, 0.05, 0.5], size=m))
    if rng.random() < 0.7:
        return parts, most_reward(rng.normal(size=d), limits), limits
    return parts, objectives.least_violation(limits), limits


def by_library(parts, program, limits):
    """The optimal value of the program written out for HiGHS."""
    n, n_groups, d = parts.shape
    columns, m = parts.reshape(-1, d), len(limits)
    is_reward = program.is_reward
    slope = np.concatenate([-columns @ program.base if is_reward else np.zeros(len(columns)), np.ones(m)])
    return optimize.linprog(
        slope,
        A_ub=np.hstack([limits.normals @ columns.T, -np.eye(m)]),
        b_ub=limits.offsets,
        A_eq=sparse.hstack([*[sparse.eye_array(n_groups)] * n, sparse.csr_array((n_groups, m))]),
        b_eq=np.ones(n_groups),
        bounds=[(0, None)] * len(columns) + [(0, 0 if is_reward else None)] * m,
        method="highs",
    )


@pytest.mark.parametrize("is_tied", [False, True])
def test_the_best_shares_are_those_of_the_library(is_tied):
    rng, n_found, n_missed = np.random.default_rng(int(is_tied)), 0, 0
    for _ in range(N_PROGRAMS):
        parts, program, limits = random_program(rng, is_tied)
        right = by_library(parts, program, limits)
        found = best_shares(program, parts, rng.random(len(limits)))
        if found is None:
            # Infeasible, or too degenerate for the quick method: then its caller asks the library.
            n_missed += right.status == 0 and not is_tied
            continue
        n_found += 1
        assert right.status == 0 and found.value == pytest.approx(right.fun, abs=1e-9 * (1 + abs(right.fun)))
        assert (found.answer.weights >= 0).all() and found.answer.weights.sum(axis=0) == pytest.approx(1.0)
        # The multipliers certify it: at their price no shares are better.
        u = found.answer.dual
        best = (parts @ program.price(u)).max(axis=0).sum()
        assert program.offset(u) - best == pytest.approx(found.value, abs=1e-9 * (1 + abs(found.value)))
    assert n_found > 0.6 * N_PROGRAMS and n_missed <= 0.01 * N_PROGRAMS


@pytest.mark.parametrize("is_tied", [False, True])
def test_the_nearest_shares_are_those_of_the_library(is_tied):
    """With and without limits; targets near and far; in units of the parts and in others."""
    rng, n_found, n_possible = np.random.default_rng(2 + is_tied), 0, 0
    for _ in range(N_PROGRAMS // 3):
        parts, _, limits = random_program(rng, is_tied)
        d = parts.shape[2]
        limits = limits if rng.random() < 0.7 else half_spaces(np.zeros((0, d)), np.zeros(0))
        target = rng.choice([0.1, 1.0, 30.0]) * rng.normal(size=rng.integers(1, d + 1))
        program = nearest_squared(target, limits)
        found = best_shares(program, parts, np.abs(rng.normal(size=len(program.right))))
        n_possible += len(limits) == 0 or by_library(parts, objectives.least_violation(limits), limits).fun < 1e-9
        if found is None:
            continue
        n_found += 1
        mean = np.einsum("nk,nkd->d", found.answer.weights, parts)
        assert (found.answer.weights >= 0).all() and found.answer.weights.sum(axis=0) == pytest.approx(1.0)
        assert (limits.normals @ mean <= limits.offsets + 1e-11).all()
        assert found.value == pytest.approx(0.5 * ((mean[: len(target)] - target) ** 2).sum(), abs=1e-12)
        assert_allclose(
            program.price(found.answer.dual)[: len(target)]
            + limits.normals.T[: len(target)] @ found.answer.dual[: len(limits)],
            target - mean[: len(target)],
            atol=1e-9 * (1 + np.abs(target).max()),
        )
        # The multipliers certify it: at their price no shares are better.
        u = found.answer.dual
        best = (parts @ program.price(u)).max(axis=0).sum()
        assert program.offset(u) - best == pytest.approx(found.value, abs=1e-9 * (1 + abs(found.value)))
    assert 0.95 * n_possible <= n_found


def test_the_nearest_shares_are_those_of_clarabel():
    rng = np.random.default_rng(7)
    parts, target = rng.normal(size=(4, 25, 5)) / 25, np.array([2.5, -1.5, 1.0])
    normals = rng.normal(size=(3, 5))
    limits = half_spaces(normals, normals @ parts.mean(axis=0).sum(axis=0) + 0.01)
    program = nearest_squared(target, limits)
    sums = sparse.hstack([sparse.eye_array(25)] * 4, format="csr")
    right = program.solve(parts.reshape(-1, 5).T, sums, np.ones(25))
    found = best_shares(program, parts, np.zeros(6))
    assert found.value == pytest.approx(right.value, abs=1e-9) and (found.answer.dual[:3] > 0).any()
    assert_allclose(found.answer.dual, right.answer.dual, atol=1e-6)


@pytest.mark.parametrize("target", [0.5, 30.0])
def test_limits_that_no_mixture_keeps_have_no_shares(target):
    """Multipliers of 1e15 made every excess look like rounding."""
    rng, n_refused = np.random.default_rng(3), 0
    for _ in range(60):
        parts = rng.normal(size=(6, 18, 2)) / 18
        normals = rng.normal(size=(4, 2))
        reached = (parts @ normals.T).min(axis=0).sum(axis=0)
        limits = half_spaces(normals, reached - np.array([0.02, -0.5, -0.5, -0.5]))
        program = nearest_squared(np.array([target]), limits)
        n_refused += best_shares(program, parts, np.abs(rng.normal(size=len(program.right)))) is None
    assert n_refused == 60


def test_a_wrong_basis_is_noticed(monkeypatch):
    """The result of the loop is not believed: some combination, whatever it costs, is not optimal."""
    rng = np.random.default_rng(4)
    parts = rng.normal(size=(5, 10, 3))
    limits = half_spaces(np.eye(3), np.full(3, 100.0))
    most, near = most_reward(np.ones(3), limits), nearest_squared(np.ones(3), limits)
    assert best_shares(most, parts, np.zeros(3)) is not None and best_shares(near, parts, np.zeros(6)) is not None
    worst, one = parts.sum(axis=2).argmin(axis=0)[None], np.zeros(1, dtype=int)
    monkeypatch.setattr(group_loops, "nearest_shares", lambda *_: (worst, np.ones(1), np.zeros(3), True))
    assert best_shares(near, parts, np.zeros(6)) is None
    monkeypatch.setattr(group_loops, "best_shares", lambda *_: (worst, one, one, np.ones(1), np.zeros(3), True))
    assert best_shares(most, parts, np.zeros(3)) is None


def test_the_master_problem_asks_the_library_where_the_loop_fails(monkeypatch):
    improver = Improver(family_domain("queue", 700))
    first = improver.domain.mdp.first_choice
    columns = tuple(improver.evaluate(first[:-1] + k, None) for k in range(3))
    normals = np.hstack([np.zeros((4, 3)), np.eye(4)])
    limits = half_spaces(normals, normals @ np.mean([column.counts for column in columns], axis=0))
    weights = np.array([1.0, 0.5, 0.2])
    quick = _Rounds(improver, most_reward(weights, limits), columns)
    assert quick.solve_master() and quick.is_by_group
    monkeypatch.setattr(group_loops, "best_shares", lambda *_: (*[np.zeros(0)] * 5, False))
    slow = _Rounds(improver, most_reward(weights, limits), columns)
    assert slow.solve_master()
    assert slow.value == pytest.approx(quick.value, rel=1e-8)
    assert_allclose(slow.master.dual, quick.master.dual, atol=1e-6 * np.abs(quick.master.dual).max())
    impossible = half_spaces(normals, np.zeros(4))
    with pytest.raises(NotConverged, match="no point satisfies"):
        _Rounds(improver, most_reward(weights, impossible), columns).solve_master()


def test_multipliers_of_limits_and_squared_deviations_can_be_shared():
    limits = half_spaces(np.eye(2), np.ones(2))
    assert most_reward(np.ones(2), limits).can_share and objectives.least_violation(limits).can_share
    assert nearest_squared(np.ones(2), limits).can_share
    for norm in (1, np.inf):
        assert not nearest(np.ones(2), norm, limits).can_share


def test_groups_hold_neighbours_and_every_start():
    """On a grid the members of a group are near each other; a part of the graph without a centre is in some group."""
    mdp = family_domain("slippery grid", 900).mdp
    groups = start_groups(mdp)
    of_state = groups.tocsc().indices
    row, column = np.divmod(np.arange(900), 30)
    spans = [max(np.ptp(row[of_state == k]), np.ptp(column[of_state == k])) for k in range(180)]
    assert len(groups.indptr) == 181 and np.median(spans) <= 4
    assert_allclose((groups @ np.ones((900, 1))).sum(), 1.0)
    alone = sparse.eye_array(600, format="csr")
    apart = MDP.from_choices(alone, np.arange(601), np.full(600, 1 / 600), 0.9)
    assert (start_groups(apart).tocsc().indices < 120).all()
    assert start_groups(MDP.from_choices(alone, np.arange(601), np.eye(600)[0], 0.9)) is None


@pytest.mark.parametrize("name", ["queue", "roads"])
def test_groups_take_fewer_rounds_and_change_nothing_else(name, monkeypatch):
    asked = family_problem(name, 2_000)
    many = best_policy(*asked)
    monkeypatch.setattr(Improver, "groups", None)
    one = best_policy(*asked)
    assert many.value == pytest.approx(one.value, rel=1e-7) and many.n_rounds < one.n_rounds
    assert_allclose(many.multipliers, one.multipliers, atol=1e-4 * one.multipliers.max())


def test_groups_change_no_projection(monkeypatch):
    asked = family_problem("queue", 700)
    target = best_policy(asked.domain, asked.weights, no_limits(asked.domain)).expectation.reward
    many = nearest_policy(asked.domain, target, asked.limits)
    direct = nearest_policy(asked.domain, target, asked.limits, route="direct")
    monkeypatch.setattr(Improver, "groups", None)
    one = nearest_policy(asked.domain, target, asked.limits)
    assert many.n_rounds < one.n_rounds
    assert_allclose(many.expectation.reward, one.expectation.reward, rtol=1e-7)
    assert_allclose(many.expectation.reward, direct.expectation.reward, rtol=1e-6)
    assert many.gap <= 1e-7 * many.value and (asked.limits.excess(many.expectation.both) <= 1e-8).all()


@pytest.mark.parametrize("unit", [1e-7, 1e7])
def test_groups_are_the_same_in_other_units(unit):
    asked = family_problem("roads", 700)
    base = asked.domain
    domain = Domain(base.mdp, unit * base.reward_features, base.preference_features / unit)
    limits = half_spaces(asked.limits.normals, asked.limits.offsets / unit)
    plain, found = best_policy(*asked), best_policy(domain, asked.weights, limits)
    assert Improver(domain).groups is not None
    assert found.value == pytest.approx(unit * plain.value, rel=1e-6) and found.gap <= 1e-6 * found.value
    assert (limits.excess(found.expectation.both) <= 1e-7 * limits.offsets).all()
    target = 2 * plain.expectation.reward
    near, scaled = nearest_policy(base, target, asked.limits), nearest_policy(domain, unit * target, limits)
    assert_allclose(scaled.expectation.reward, unit * near.expectation.reward, rtol=1e-6)


def test_the_strictest_policy_has_the_least_excess_of_all():
    """Its stages have no groups, `least_violation` has; the excess is the same."""
    asked = family_problem("queue", 700)
    strict = half_spaces(asked.limits.normals, 0.02 * asked.limits.offsets)
    found, least = strictest_policy(asked.domain, asked.weights, strict), least_violation(asked.domain, strict)
    assert strict.excess(found.expectation.both).sum() == pytest.approx(least.value, rel=1e-6) and least.value > 0
    assert found.value <= found.bound + 1e-9 and found.gap <= 1e-5 * found.value


def test_starts_with_other_probabilities_and_without_any():
    """Some states are no starts, others are likely ones; the discount depends on the choice."""
    rng, base = np.random.default_rng(8), family_domain("roads", 900)
    initial = np.where(rng.random(900) < 0.5, rng.random(900), 0.0)
    given = base.mdp
    mdp = MDP.from_choices(
        given.transition, given.first_choice, initial / initial.sum(), rng.uniform(0.8, 0.99, given.n_choices)
    )
    domain = Domain(mdp, base.reward_features, base.preference_features)
    weights, free = np.array([1.0, 0.9, 0.2]), half_spaces(np.zeros((0, 7)), np.zeros(0))
    visited = best_policy(domain, weights, free).expectation.preference
    limits = half_spaces(np.hstack([np.zeros((4, 3)), np.eye(4)]), 0.5 * visited)
    assert Improver(domain).groups is not None
    found, direct = (best_policy(domain, weights, limits, route=route) for route in ("decomposition", "direct"))
    assert found.value == pytest.approx(direct.value, rel=1e-7) and found.gap <= 1e-7 * found.value
