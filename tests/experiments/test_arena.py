"""The arena: every pair can be made, budgets are equal, and no bound is exceeded."""

import numpy as np
import pytest

import tutelage as tl
from tutelage.experiments import arena


@pytest.mark.parametrize("name", arena.WORLDS)
def test_in_every_world_the_limits_bind(name):
    """Otherwise a comparison of aware and agnostic teachers would compare nothing."""
    domain, weights = arena.WORLDS[name](1)
    limits = tl.preference_limits(domain, 1.0)
    free = tl.best_policy(domain, weights, tl.no_limits(domain)).value
    assert tl.best_policy(domain, weights, limits).value < free - 1e-3


@pytest.mark.parametrize("kind", arena.KINDS)
@pytest.mark.parametrize("name", arena.LEARNERS)
def test_rewards_stay_below_the_bound_at_equal_budgets(name, kind):
    domain, weights = arena.feature_grid(0, size=4)
    learner = arena.make_learner(domain, 0, name=name, kind=kind)
    most = arena.bound(weights, learner)
    for teacher_name, is_aware in (("random", False), ("curriculum", True)):
        teacher = arena.make_teacher(domain, weights, learner, 0, name=teacher_name, is_aware=is_aware)
        transcript = tl.teach(teacher, learner, max_rounds=3)
        assert [taught.lesson.n_demonstrations for taught in transcript.rounds] == [arena.N_SHOWN] * 3
        rewards = [taught.response.expectation.reward @ weights for taught in transcript.rounds]
        assert max(rewards) <= most + 1e-5
        if kind == "hard":
            assert (transcript.final.response.expectation.preference <= 1 + 1e-5).all()


def test_without_preferences_an_aware_teacher_is_the_plain_one():
    domain, weights = arena.feature_grid(1, size=4)
    learner = arena.make_learner(domain, 0, name="sequential", kind="none")
    for name in arena.TEACHERS:
        plain, aware = (
            arena.make_teacher(domain, weights, learner, 0, name=name, is_aware=is_aware) for is_aware in (False, True)
        )
        for one, other in zip(plain.candidates, aware.candidates, strict=True):
            assert np.array_equal(one.expectation, other.expectation)


def test_tables_have_a_row_for_each_teacher_and_say_what_failed():
    row = {
        "group": "grid",
        "failed": "",
        "reward": 1.0,
        "most": 2.0,
        "reward_by_round": [0.5, 1.0],
        "seed": 0,
        "replicate": 0,
    }
    row["bound"] = None
    rows = [
        row | {"model": f"{name}, hard", "teacher": teacher, "domain": "grid", "learner": f"{name}, hard"}
        for name in ("cloning", "sequential")
        for teacher in ("random", "aware random")
    ]
    rows.append(rows[0] | {"failed": "no policy"})
    grid, gained = arena.tables(rows)
    assert gained.body == (("grid", "0", "0"),)
    assert len(arena.figure(rows).axes) == 1
    assert grid.header == ("teacher", "cloning", "sequential")
    assert grid.body[0] == ("random", "1, 1 failed", "1")
    assert grid.body[-1] == ("the bound itself", "2.00", "2.00")
    assert not arena.broken_bounds(rows)
    assert arena.broken_bounds([rows[1] | {"reward_by_round": [3.0]}])
