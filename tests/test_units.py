"""The same problem in other units, and with its states and choices in another order, has the same answers.

One factor multiplies all reward features, one all preference features and one the true weights; penalties and
allowances are converted. Answers are compared to six digits, relative to the largest values that features of their size
allow.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from strategies import build_mdp, some_of

import tutelage as tl
from tutelage.constrained.problem import sizes

DISCOUNTS = (0.5, 0.9, 0.99, 0.999, 0.99999)
SEEDS = some_of(range(200), range(0, 200, 67))
NORMS = (1, 2, math.inf)
DIGITS = 1e-6


@dataclass(frozen=True)
class Units:
    """Factors of the reward features, the preference features and the true weights."""

    reward: float = 1.0
    preference: float = 1.0
    weight: float = 1.0

    @classmethod
    def random(cls, seed):
        return cls(*10 ** np.random.default_rng([seed, 1]).uniform(-8, 8, 3))


ONE = Units()


@dataclass(frozen=True)
class Problem:
    domain: tl.Domain
    units: Units
    weights: np.ndarray
    shown: np.ndarray
    reached: np.ndarray
    allowance: np.ndarray
    seed: int

    @property
    def horizon(self):
        return self.domain.mdp.horizon

    @property
    def lesson(self):
        return tl.Lesson.from_expectation(self.shown)

    def mismatch(self, norm, *, squared=False, allowance=0.0):
        size = 10 ** np.random.default_rng([self.seed, 2]).uniform(-1, 2)
        penalty = size / self.units.reward ** (2 if squared else 1)
        within = allowance * self.horizon * self.units.reward
        return tl.Mismatch(norm=norm, penalty=penalty, squared=squared, allowance=within)

    def preference(self, norm, *, is_hard=False):
        penalty = math.inf if is_hard else 10 ** np.random.default_rng([self.seed, 3]).uniform(-1, 2)
        return tl.Preference(norm=norm, penalty=penalty / self.units.preference, allowance=self.allowance)


def problem(seed, units=ONE, *, is_permuted=False):
    """A ragged random domain in these units. The lesson is near what a random policy reaches."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(1, 4, size=rng.integers(2, 8)), DISCOUNTS[seed % len(DISCOUNTS)])
    d_r, d_c = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    features = [rng.random((mdp.n_choices, d)) * (rng.random((mdp.n_choices, d)) < 0.7) for d in (d_r, d_c)]
    policy = rng.exponential(size=mdp.n_choices)
    policy /= np.repeat(np.add.reduceat(policy, mdp.first_choice[:-1]), mdp.choices_per_state)
    weights, noise = rng.normal(size=d_r), rng.normal(size=d_r)
    names = [tuple(f"{kind}{i}" for i in range(d)) for kind, d in (("r", d_r), ("c", d_c))]
    usual = tl.expectation(tl.Domain(mdp, *features, *names), policy)
    if is_permuted:
        mdp, choices = permuted(mdp, np.random.default_rng([seed, 4]))
        features = [matrix[choices] for matrix in features]
    domain = tl.Domain(mdp, units.reward * features[0], units.preference * features[1], *names)
    shown = units.reward * (usual.reward + 0.05 * mdp.horizon * noise)
    reached, allowance = units.reward * usual.reward, units.preference * usual.preference
    return Problem(domain, units, units.weight * weights, shown, reached, allowance, seed)


def permuted(mdp, rng):
    """The MDP with its states, and the choices of each state, in another order, and where each choice came from."""
    states = rng.permutation(mdp.n_states)
    groups = [rng.permutation(np.arange(mdp.first_choice[s], mdp.first_choice[s + 1])) for s in states]
    choices = np.concatenate(groups)
    first = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return tl.MDP.from_choices(mdp.transition[choices][:, states], first, mdp.initial[states], mdp.discount), choices


def response_numbers(given, response):
    """What a response says, in units of one: expectations per horizon, and the objective in nats per horizon."""
    mu, proof, horizon = response.expectation, response.certificate, given.horizon
    numbers = [mu.reward / (given.units.reward * horizon), mu.preference / (given.units.preference * horizon)]
    return np.concatenate([*numbers, np.array([proof.primal, proof.dual]) / horizon])


LEARNERS = {
    "soft": lambda p: tl.GenericLearner(p.domain, p.mismatch(1), p.preference(1)),
    "euclidean": lambda p: tl.GenericLearner(p.domain, p.mismatch(2), p.preference(2)),
    "largest": lambda p: tl.GenericLearner(p.domain, p.mismatch(math.inf), p.preference(math.inf)),
    "approximate": lambda p: tl.GenericLearner(p.domain, p.mismatch(2, squared=True), p.preference(1, is_hard=True)),
    "allowing": lambda p: tl.GenericLearner(p.domain, p.mismatch(1, allowance=0.02), p.preference(2)),
    "standard": lambda p: tl.StandardLearner(p.domain),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_an_entropy_learner_answers_alike_in_all_units(seed, learner):
    """Expectations, objective and bound. Exact matches are asked for what a policy reaches."""
    found = []
    for given in (problem(seed), problem(seed, Units.random(seed)), problem(seed, is_permuted=True)):
        model = LEARNERS[learner](given)
        lesson = tl.Lesson.from_expectation(given.reached) if learner == "standard" else given.lesson
        response = model.respond(lesson)
        found.append(response_numbers(given, response))
        if math.isinf(model.preference.penalty) and len(response.violation_excess):
            assert response.violation_excess.max() <= DIGITS * given.horizon * given.units.preference
    for other in found[1:]:
        assert np.abs(other - found[0]).max() <= DIGITS * (1 + np.abs(found[0][-2:]).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_policies_are_the_best_and_the_nearest_in_all_units(seed):
    here = problem(seed)
    for there in (problem(seed, Units.random(seed)), problem(seed, is_permuted=True)):
        for given_limits in (lambda p: tl.no_limits(p.domain), lambda p: tl.preference_limits(p.domain, p.allowance)):
            best = [tl.best_policy(p.domain, p.weights, given_limits(p)) for p in (here, there)]
            unit = there.units.reward * there.units.weight
            size = here.horizon * np.abs(here.weights).max()
            assert best[1].value / unit == pytest.approx(best[0].value, abs=DIGITS * size)
            assert best[1].bound / unit == pytest.approx(best[0].bound, abs=DIGITS * size)
            for norm in NORMS:
                nearest = [tl.nearest_policy(p.domain, p.shown, given_limits(p), norm=norm) for p in (here, there)]
                size = here.horizon + nearest[0].value
                assert nearest[1].value / there.units.reward == pytest.approx(nearest[0].value, abs=DIGITS * size)
            kept = given_limits(there).excess(nearest[1].expectation.both).max(initial=0.0)
            assert kept <= DIGITS * there.horizon * there.units.preference


@pytest.mark.parametrize("seed", SEEDS)
def test_hard_learners_project_alike_in_all_units(seed):
    here = problem(seed)
    for there in (problem(seed, Units.random(seed)), problem(seed, is_permuted=True)):
        found = [tl.HardLearner(p.domain, p.allowance).respond(p.lesson).expectation.reward for p in (here, there)]
        assert np.abs(found[1] / there.units.reward - found[0]).max() <= DIGITS * (
            here.horizon + np.abs(here.shown).max()
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("teacher", [tl.VolumeSearchTeacher, tl.LineSearchTeacher])
def test_adaptive_teachers_teach_alike_in_all_units_and_orders(seed, teacher):
    here, ended = problem(seed), []
    for given in (here, problem(seed, Units.random(seed)), problem(seed, is_permuted=True)):
        taught = tl.teach(
            teacher(given.domain, given.weights), tl.HardLearner(given.domain, given.allowance), max_rounds=4
        )
        unit = given.units.reward * given.units.weight * here.horizon
        last = taught.rounds[-1]
        ended.append((len(taught.rounds), given.weights @ last.response.expectation.reward / unit, last.bound / unit))
    for other in ended[1:]:
        assert other == pytest.approx(ended[0], rel=DIGITS, abs=DIGITS)


@pytest.mark.parametrize("seed", some_of(SEEDS, (0,)))
def test_the_bilevel_teacher_plans_alike_in_all_units_and_orders(seed):
    """The same lesson. A bound is one of many: its search ends within 0.005, with steps that are powers of sqrt 2."""
    plans = []
    for given in (problem(seed), problem(seed, Units.random(seed)), problem(seed, is_permuted=True)):
        learner = tl.GenericLearner(given.domain, given.mismatch(1), given.preference(1))
        plan = tl.BilevelTeacher(given.domain, given.weights, learner, max_cells=2, n_random=1).plan()
        unit = given.units.reward * given.units.weight * given.horizon
        plans.append((plan.achieved / unit, plan.bound / unit))
    best, most = plans[0]
    for achieved, bound in plans:
        assert achieved == pytest.approx(best, rel=DIGITS, abs=DIGITS)
        assert bound == pytest.approx(most, rel=DIGITS, abs=DIGITS + 0.005 * abs(best))
        assert bound >= best - DIGITS * (1 + abs(best))


@pytest.mark.parametrize("n_rows", [1, 999, 1_000, 2_345])
@pytest.mark.parametrize("n_columns", [0, 1, 7])
def test_units_are_the_largest_entries(n_rows, n_columns):
    """Many rows are reduced as one; none may be left out, nor counted in another column."""
    mdp = tl.MDP.from_choices(np.eye(n_rows), np.arange(n_rows + 1), np.full(n_rows, 1 / n_rows), 0.5)
    features = np.random.default_rng(n_rows).normal(size=(n_rows, n_columns))
    names = tuple(f"r{i}" for i in range(n_columns))
    found = sizes(tl.Domain(mdp, np.ones((n_rows, 1)), features, ("one",), names))
    assert np.array_equal(found, [2.0, *2 * np.abs(features).max(axis=0)])
