"""The fits that explain a soft learner's answers: many searches (`misfit`), because each may end in a local minimum.

They start from the fit of the earlier answers, from a learner that pays the same in all its answers, and from random
learners, until a fit explains the answers. The learner that pays the same multipliers q in all its answers solves

    minimise over C_r, q >= 0 and the free a_i     1/2 sum over answers i of |W (mu(a_i, -q) - mu_i)|^2

mu(a, -q) is the expectation of the soft policy with these weights. a_ik = C_r sign(mu_hat_ik - mu_ik) where the answer
misses the lesson, and any number where it matches. What is left of the kinks is which preferences are paid for in full
(q_j = C_c), in part (at mu_c[j] = delta_j), or not at all: `guesses` has a learner for each reading.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.convex.blocks import SURFACE
from tutelage.convex.newton import LeastSquares, Residuals, least_squares
from tutelage.inference.answering import Answers
from tutelage.inference.misfit import LEAST_GAIN, MOST_EVALUATIONS, SMOOTHING, TYPICAL, Evidence, Fit, Search
from tutelage.model.mdp import combined_features
from tutelage.outcomes import NotConverged, TutelageError

UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to search, in steps of Newton's method, inner ones included.

    n_steps: for each answer that is new. n_straight: along a path without smoothing; a long one is on the way to a
    local minimum. n_more, n_more_paths: added before a teacher's rounds end: steps, and the least number of paths.
    """

    n_steps: int = UNLIMITED
    n_straight: int = UNLIMITED
    n_more: int = UNLIMITED
    n_more_paths: int = 0


THOROUGH = Effort()
Softs = tuple[SoftExpansion, ...]
# Where a path starts, and answers near its start, if they are known. Then it has no smoothing.
Path = tuple[Vector, Answers | None]


class Searches(NamedTuple):
    """The ends of the paths followed, the paths in their order, and how many of them were followed."""

    ends: tuple[Search, ...]
    paths: tuple[Path, ...]
    n_followed: int


@lru_cache(maxsize=64)
def search_fits(evidence: Evidence, effort: Effort) -> Searches:
    """The first searches until a fit is good. Cached: a teacher's next round has one answer more and continues them."""
    last = None
    if len(evidence.shown) > 1:
        before = replace(evidence, shown=evidence.shown[:-1], seen=evidence.seen[:-1], bias=evidence.bias[:-1])
        with suppress(TutelageError):
            last = _best(search_fits(before, effort).ends)
    budget = outcomes.Budget(effort.n_steps)
    begun = Searches((), tuple(_paths(evidence, last, budget)), 0)
    return _followed(evidence, begun, budget, 0, effort.n_straight)


def more_searches(evidence: Evidence, begun: Searches, effort: Effort) -> Searches:
    """The searches begun, and more of the paths that are left."""
    return _followed(evidence, begun, outcomes.Budget(effort.n_more), effort.n_more_paths, effort.n_straight)


def _followed(evidence: Evidence, begun: Searches, budget: outcomes.Budget, n_paths: int, n_straight: int) -> Searches:
    """Follow paths until a fit is good, after at least n_paths, or the budget is used up."""
    ends, number = list(begun.ends), begun.n_followed
    while number < len(begun.paths):
        if ends and (budget.left <= 0 or _is_enough(evidence, _best(ends).value, number, n_paths)):
            break
        start, near = begun.paths[number]
        number += 1
        # The first fit is free, so there is one.
        left = budget.left if ends else UNLIMITED
        if near is not None:
            left = min(left, n_straight)
        spent = outcomes.Budget(left)
        ends += _search(evidence, start, near, spent)
        budget.left -= left - spent.left
        if number == 2 and ends:
            ends += _changed(evidence, _best(ends), budget)
    if not ends:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    if not begun.ends or _best(ends) is not _best(begun.ends):
        ends += _changed(evidence, _best(ends), budget)
    return Searches(tuple(ends), begun.paths, number)


def _is_enough(evidence: Evidence, cost: float, n_followed: int, n_paths: int) -> bool:
    # After four paths a misfit of 0.01 is enough: one more answer tells more.
    good = 0.5 * 0.01**2 if n_followed >= 4 and not evidence.is_sampled else evidence.good
    return n_followed >= max(3 if evidence.is_sampled else 1, n_paths) and cost <= good


def _paths(evidence: Evidence, last: Search | None, budget: outcomes.Budget) -> list[Path]:
    """The paths, in order. last: the best fit of all answers but the last."""
    first = list[Path]()
    with suppress(TutelageError), outcomes.spending(budget):
        first += guesses(evidence)
    others: list[Path] = [(start, None) for start in _starts(evidence)]
    if last is None:
        return [*first, *others]
    u = evidence.inside(evidence.described(last).theta)
    others = [(u, None), *others]
    # A round has steps for one kind of path beside that from the last fit, so the kinds take turns. Samples are
    # explained by many learners, and the first kind finds the simpler ones.
    is_first = evidence.is_sampled or len(evidence.shown) % 2
    both = [*first, *others] if is_first else [*others, *first]
    return [(u, last.answer.here.source), *both]


def _search(evidence: Evidence, start: Vector, near: Answers | None, budget: outcomes.Budget) -> list[Search]:
    """The end of a path, or none where that is not reached."""
    if budget.left > 0:
        with suppress(TutelageError), outcomes.spending(budget):
            return [evidence.search(start, near, SMOOTHING if near is None else (0.0,))]
    if outcomes.is_over():
        raise NotConverged("there was no time to find a fit", residual=np.inf, n_steps=0)
    return []


def _best(ends: Sequence[Search]) -> Search:
    return min(ends, key=lambda end: end.value)


def fits_near(evidence: Evidence, *near: Vector) -> tuple[Fit, ...]:
    """The different fits near some parameters, the closest first; none where they cannot be computed."""
    ends = list[Search]()
    for theta in near:
        with suppress(TutelageError):
            ends.append(evidence.search(evidence.inside(theta), None, (0.0,)))
    return fits_of(evidence, ends)


def _starts(evidence: Evidence) -> list[Vector]:
    """u of random learners, new ones each round."""
    rng = np.random.default_rng(len(evidence.shown))
    lower, upper = evidence.limits
    starts = list[Vector]()
    # All allowances are this share of the largest mu_c, or each is drawn.
    for share in (0.02, 0.2, None) * 2:
        delta = rng.choice([0.0, 0.05, 1.0], len(evidence.most)) * upper[2:]
        if share is not None:
            delta = share * (float(evidence.most.max(initial=0.0)) / evidence.unit[2:])
        penalties = TYPICAL * np.exp(rng.uniform(-1, 1, 2))
        starts.append(np.clip(np.append(penalties, delta), lower, upper))
    return starts


def _changed(evidence: Evidence, best: Search, budget: outcomes.Budget) -> list[Search]:
    """Better fits, in which one preference after the other is moved across its kink, or left out."""
    better = list[Search]()
    # Without mu_c there are too many ways to change a fit: random starts are worth more of the budget.
    for _ in range(3 if evidence.is_sampled else 0):
        if best.value <= evidence.good:
            break
        tried = list[Search]()
        for start in _across_kinks(evidence, best):
            tried += _search(evidence, start, best.answer.here.source, budget)
        if not tried or _best(tried).value > 0.25 * best.value:
            break
        best = _best(tried)
        better.append(best)
    return better


def _across_kinks(evidence: Evidence, search: Search) -> list[Vector]:
    """u with one allowance below the largest mu_c where nothing is paid, above the least where all is, or none."""
    u, answers = search.answer.x, search.answer.here.source
    done = answers.expectation[:, evidence.domain.n_reward :] / evidence.unit[2:]
    lower, upper = evidence.limits
    starts = list[Vector]()
    for j, share in enumerate(answers.paid.T / answers.theta[1]):
        values = [upper[2 + j]]
        if (share <= SURFACE).all():
            values = [0.97 * done[:, j].max()]
        elif (share >= 1 - SURFACE).all():
            values.append(1.03 * done[:, j].min())
        for value in values:
            changed = u.copy()
            changed[2 + j] = value
            starts.append(np.clip(changed, lower, upper))
    return starts


def fits_of(evidence: Evidence, ends: Sequence[Search]) -> tuple[Fit, ...]:
    """The different fits at the ends of searches, the closest first."""
    distinct, points = list[Fit](), list[Vector]()
    for fit in sorted(map(evidence.described, ends), key=lambda fit: fit.cost):
        point = np.append(np.log(fit.theta[:2]), fit.theta[2:] / evidence.unit[2:])
        if not any(np.isclose(point, other, rtol=0, atol=1e-2).all() for other in points):
            distinct.append(fit)
            points.append(point)
    return tuple(distinct)


def shared_lifts(evidence: Evidence, signs: Matrix) -> Matrix:
    """(n, d, len(z)): the weights in z = (C_r, q, free a), in units. signs: (n, d_r), of the misses; zero if free."""
    n, d_r = signs.shape
    d_c = evidence.domain.n_preference
    answer, feature = np.nonzero(signs == 0)
    lifts = np.zeros((n, d_r + d_c, 1 + d_c + len(answer)))
    lifts[:, :d_r, 0] = evidence.unit[0] * signs
    lifts[:, d_r:, 1 : 1 + d_c] = -evidence.unit[1] * np.eye(d_c)
    lifts[answer, feature, 1 + d_c + np.arange(len(answer))] = evidence.unit[0]
    return lifts


def shared_misfits(evidence: Evidence, lifts: Matrix, z: Vector, last: Softs | None) -> Residuals[Softs]:
    """The weighted misfits of the first guess and their derivative in z."""
    mdp, features = evidence.domain.mdp, combined_features(evidence.domain)
    near = last or (None,) * len(lifts)
    softs = tuple(
        soft_expansion(mdp, features, lift @ z, accuracy=1e-9, near=soft)
        for lift, soft in zip(lifts, near, strict=True)
    )
    misfits = evidence.misfits(np.array([soft.expectation for soft in softs])).ravel()
    slopes = evidence.weight @ np.array([soft.jacobian @ lift for soft, lift in zip(softs, lifts, strict=True)])
    # Prefer small multipliers where the answers do not determine them.
    small = 1e-4
    jacobian = np.vstack([slopes.reshape(-1, len(z)), small * np.eye(len(z))])
    return Residuals(np.append(misfits, small * z), jacobian, softs)


def _shared(evidence: Evidence, lifts: Matrix) -> LeastSquares[Softs]:
    """The best z from two starts, which differ in the multipliers."""
    d_c = evidence.domain.n_preference
    parts = [1, d_c, lifts.shape[2] - 1 - d_c]
    least, most = evidence.limits
    lower = np.repeat([least[0], 0.0, -most[0]], parts)
    upper = np.repeat([most[0], most[1], most[0]], parts)

    def near(z: Vector) -> tuple[Vector, Vector]:
        longest = np.maximum(0.6 * np.abs(z), 0.5)
        return np.maximum(lower, z - longest), np.minimum(upper, z + longest)

    ends = list[LeastSquares[Softs]]()
    evaluate, enough = partial(shared_misfits, evidence, lifts), 1e-6
    for multiplier in (0.1, 1.0):
        start = np.repeat([TYPICAL[0], multiplier, 0.0], parts)
        end = least_squares(evaluate, start, near, enough=enough, gain=LEAST_GAIN, max_evaluations=MOST_EVALUATIONS)
        ends.append(end)
        if end.value <= enough:
            break
    return min(ends, key=lambda end: end.value)


def guesses(evidence: Evidence) -> list[tuple[Vector, Answers]]:
    """u of learners that give about these answers, one for each reading of the multipliers, and about their answers."""
    d_r, d_c = evidence.domain.n_reward, evidence.domain.n_preference
    apart = np.array(evidence.shown) - evidence.target[:, :d_r]
    is_missed = np.abs(apart) > (0.02 if evidence.is_sampled else 1e-6) * evidence.scales.unit[:d_r]
    best = _shared(evidence, shared_lifts(evidence, np.where(is_missed, np.sign(apart), 0.0))).answer
    q = best.x[1 : 1 + d_c]
    softs = best.here.source
    weights = np.array([soft.weights for soft in softs])
    expectation = np.array([soft.expectation for soft in softs])
    lower, upper = evidence.limits
    done = expectation[:, d_r:].mean(axis=0) / evidence.unit[2:]
    largest = max(float(q.max(initial=0.0)), lower[1])
    learners = []
    # Multipliers from this share of the largest on are paid in full, and up to that share not at all; C_c is so many
    # times the largest.
    for full, absent, factor in ((0.7, 0.1, 1.0), (0.5, 0.5, 1.0), (np.inf, 0.05, 1.5)):
        delta = np.where(q >= full * largest, 0.0, np.where(q <= absent * largest, upper[2:], done))
        u = np.clip(np.concatenate([[best.x[0], factor * largest], delta]), lower, upper)
        theta = evidence.unit * u
        low, scale = np.repeat([[-1.0, 0.0], [theta[0], -theta[1]]], [d_r, d_c], axis=1)
        x = np.clip(weights / scale, low, 1.0)
        unmoved = np.zeros((*x.shape, len(theta)))
        learners.append((u, Answers(theta, x, expectation, softs, unmoved, unmoved)))
    return learners
