"""The fits that explain a soft learner's answers: many searches (`misfit`), because each may end in a local minimum.

The searches start from the fit of the earlier answers, from a learner that pays the same in all its answers, and from
random learners, until a fit explains the answers. The best fit is then changed by moving one allowance across its kink,
or leaving one preference out, as long as that helps.

The learner that pays the same multipliers q in all its answers is a first guess without kinks: it solves

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
from tutelage.inference.misfit import FITS, LARGEST, SMALLEST, TYPICAL, Evidence, Fit, Search
from tutelage.model.mdp import combined_features
from tutelage.outcomes import NotConverged, TutelageError

UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to search, in steps of Newton's method, inner ones included.

    n_steps: for each answer that is new. n_straight: along a path without smoothing; a long one is on the way to a
    local minimum. n_more, n_more_paths: added before a teacher's rounds end: steps, and the least number of paths.
    The teacher's numbers keep a round on a published 10x10 world below one second (`benchmarks unknown`).
    """

    n_steps: int = UNLIMITED
    n_straight: int = UNLIMITED
    n_more: int = UNLIMITED
    n_more_paths: int = 0


@dataclass(frozen=True, slots=True)
class StartRule:
    """Where searches start.

    shares: of random learners, the share of the largest mu_c that is the allowance of all preferences; None for
    allowances drawn one by one. across: how far an allowance is moved across its kink, relatively. n_changes: how often
    the best fit is changed so. helps: the share of the cost that must remain at most. apart: fits whose penalties
    differ by less, relatively, and whose allowances, in units of the range, are the same.
    """

    shares: tuple[float | None, ...] = (0.02, 0.2, None, 0.02, 0.2, None)
    across: float = 0.03
    n_changes: int = 3
    helps: float = 0.25
    apart: float = 1e-2


@dataclass(frozen=True, slots=True)
class GuessRule:
    """How a first guess is computed.

    small: the weight that prefers small multipliers where the answers do not determine them. enough: a cost that ends a
    search. starts: multipliers to start from. share, shortest: the longest step, this share of a variable, or this.
    readings: multipliers from the first of these shares of the largest on are paid in full, and up to the second not at
    all. exact_match, sampled_match: an answer this close to its lesson, relative to the range of the feature, matches
    it.
    """

    small: float = 1e-4
    enough: float = 1e-6
    starts: tuple[float, ...] = (0.1, 1.0)
    share: float = 0.6
    shortest: float = 0.5
    readings: tuple[tuple[float, float], ...] = ((0.7, 0.1), (0.5, 0.5), (np.inf, 0.05))
    exact_match: float = 1e-6
    sampled_match: float = 0.02


Softs = tuple[SoftExpansion, ...]
THOROUGH, START, GUESS = Effort(), StartRule(), GuessRule()


class Path(NamedTuple):
    """Where a path starts, its smoothing, and answers near its start, if it has no smoothing and they are known."""

    start: Vector
    smoothing: tuple[float, ...]
    near: Answers | None = None


class Searches(NamedTuple):
    """The ends of the paths followed, the paths in their order, and how many of them were followed."""

    ends: tuple[Search, ...]
    paths: tuple[Path, ...]
    n_followed: int


@lru_cache(maxsize=64)
def search_fits(evidence: Evidence, effort: Effort) -> Searches:
    """The first searches: from the best fit of all answers but the last, and from other learners until a fit is good.

    Cached by the numbers of the evidence: a teacher's next round has one answer more, and continues from this fit.
    """
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
    budget = outcomes.Budget(effort.n_more)
    return _followed(evidence, begun, budget, effort.n_more_paths, effort.n_straight)


def _followed(evidence: Evidence, begun: Searches, budget: outcomes.Budget, n_paths: int, n_straight: int) -> Searches:
    """Follow paths until a fit is good, after at least n_paths, or the budget is used up."""
    goal, ends, number, paths = evidence.goal, list(begun.ends), begun.n_followed, begun.paths
    while number < len(paths):
        cost = _best(ends).value if ends else np.inf
        is_good = cost <= goal.good or (number >= goal.n_few and cost <= goal.rough)
        if ends and ((number >= max(goal.n_least, n_paths) and is_good) or budget.left <= 0):
            break
        # The first fit is free, so there is one.
        left, path, number = budget.left if ends else UNLIMITED, paths[number], number + 1
        if len(path.smoothing) == 1:
            left = min(left, n_straight)
        spent = outcomes.Budget(left)
        ends += _search(evidence, path, spent)
        budget.left -= left - spent.left
        if number == goal.n_few and ends:
            ends += _changed(evidence, _best(ends), budget)
    if not ends:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    is_new = not begun.ends or _best(ends) is not _best(begun.ends)
    if is_new and _best(ends).value > goal.rough:
        ends += _changed(evidence, _best(ends), budget)
    return Searches(tuple(ends), paths, number)


def _paths(evidence: Evidence, last: Search | None, budget: outcomes.Budget) -> list[Path]:
    """The paths in the order in which they are followed. last: the best fit of all answers but the last."""
    first, others = list[Path](), [Path(start, FITS.smoothing) for start in _starts(evidence)]
    with suppress(TutelageError), outcomes.spending(budget):
        first = [Path(start, FITS.smoothing[-1:], near) for start, near in guesses(evidence)]
    if last is None:
        return [*first, *others]
    u = evidence.inside(evidence.described(last).theta)
    others = [Path(u, FITS.smoothing), *others]
    # A round has steps for one kind of path beside that from the last fit, so the kinds take turns. Samples are
    # explained by many learners, and the first kind finds the simpler ones.
    is_first = evidence.is_sampled or len(evidence.shown) % 2
    both = [*first, *others] if is_first else [*others, *first]
    return [Path(u, FITS.smoothing[-1:], last.answer.here.source), *both]


def _search(evidence: Evidence, path: Path, budget: outcomes.Budget) -> list[Search]:
    """The end of a path, or none where that is not reached."""
    if budget.left > 0:
        with suppress(TutelageError), outcomes.spending(budget):
            return [evidence.search(*path)]
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
            ends.append(evidence.search(evidence.inside(theta), FITS.smoothing[-1:]))
    return fits_of(evidence, ends)


def _starts(evidence: Evidence) -> list[Vector]:
    """u of random learners, new ones each round."""
    rng, limits = np.random.default_rng(len(evidence.shown)), evidence.limits
    starts, largest = list[Vector](), float(evidence.most.max(initial=0.0)) / evidence.unit[2:]
    for share in START.shares:
        drawn = rng.choice([0.0, 0.05, 1.0], len(evidence.most)) * limits[1][2:]
        delta = drawn if share is None else share * largest
        starts.append(np.concatenate([TYPICAL * np.exp(rng.uniform(-1, 1, 2)), delta]))
    return [np.clip(start, *limits) for start in starts]


def _changed(evidence: Evidence, search: Search, budget: outcomes.Budget) -> list[Search]:
    """Better fits, in which one preference after the other is moved across its kink, or left out."""
    best, better = search, list[Search]()
    # Without mu_c there are too many ways to change a fit: random starts are worth more of the budget.
    for _ in range(START.n_changes if evidence.is_sampled else 0):
        if best.value <= evidence.goal.good:
            break
        paths = [Path(start, FITS.smoothing[-1:], best.answer.here.source) for start in _across_kinks(evidence, best)]
        tried = [end for path in paths for end in _search(evidence, path, budget)]
        if not tried or _best(tried).value > START.helps * best.value:
            break
        best = _best(tried)
        better.append(best)
    return better


def _across_kinks(evidence: Evidence, search: Search) -> list[Vector]:
    """u with one allowance below the largest mu_c where nothing is paid, above the least where all is, or none."""
    answers, starts = search.answer.here.source, list[Vector]()
    done = answers.expectation[:, evidence.domain.n_reward :] / evidence.unit[2:]
    for j, paid in enumerate(answers.paid.T / answers.theta[1]):
        values = [evidence.limits[1][2 + j]]
        if (paid <= SURFACE).all():
            values = [(1 - START.across) * float(done[:, j].max())]
        elif (paid >= 1 - SURFACE).all():
            values.append((1 + START.across) * float(done[:, j].min()))
        for value in values:
            changed = np.where(np.arange(len(search.answer.x)) == 2 + j, value, search.answer.x)
            starts.append(np.asarray(np.clip(changed, *evidence.limits)))
    return starts


def fits_of(evidence: Evidence, ends: Sequence[Search]) -> tuple[Fit, ...]:
    """The different fits at the ends of searches, the closest first."""
    distinct, points = list[Fit](), list[Vector]()
    for fit in sorted(map(evidence.described, ends), key=lambda fit: fit.cost):
        point = np.append(np.log(fit.theta[:2]), fit.theta[2:] / evidence.unit[2:])
        if not any(np.isclose(point, other, rtol=0, atol=START.apart).all() for other in points):
            distinct.append(fit)
            points.append(point)
    return tuple(distinct)


def shared_lifts(evidence: Evidence, signs: Matrix) -> Matrix:
    """(n, d, len(z)), the weights of each answer as a linear function of z = (C_r, q, free a), in units.

    signs: (n, d_r), of the misses; zero where a is free.
    """
    (n, d_r), d_c, unit, free = signs.shape, evidence.domain.n_preference, evidence.unit, np.nonzero(signs == 0)
    lifts = np.zeros((n, d_r + d_c, 1 + d_c + len(free[0])))
    lifts[:, :d_r, 0] = unit[0] * signs
    lifts[:, d_r:, 1 : 1 + d_c] = -unit[1] * np.eye(d_c)
    lifts[(*free, 1 + d_c + np.arange(len(free[0])))] = unit[0]
    return lifts


def shared_misfits(evidence: Evidence, lifts: Matrix, z: Vector, last: Softs | None) -> Residuals[Softs]:
    """The weighted misfits of the first guess and their derivative in z."""
    mdp, features = evidence.domain.mdp, combined_features(evidence.domain)
    softs = tuple(
        soft_expansion(mdp, features, lift @ z, accuracy=1e-9, near=None if last is None else last[place])
        for place, lift in enumerate(lifts)
    )
    slopes = evidence.weight @ np.array([soft.jacobian @ lift for soft, lift in zip(softs, lifts, strict=True)])
    misfits = evidence.misfits(np.array([soft.expectation for soft in softs])).ravel()
    jacobian = np.vstack([slopes.reshape(-1, len(z)), GUESS.small * np.eye(len(z))])
    return Residuals(np.append(misfits, GUESS.small * z), jacobian, softs)


def _shared(evidence: Evidence, lifts: Matrix) -> LeastSquares[Softs]:
    """The best z from any of the starts."""
    parts, ends = [1, evidence.domain.n_preference], list[LeastSquares[Softs]]()
    parts.append(lifts.shape[2] - sum(parts))
    lower = np.repeat([SMALLEST[0], 0.0, -LARGEST[0]], parts)
    upper = np.repeat([LARGEST[0], LARGEST[1], LARGEST[0]], parts)

    def near(z: Vector) -> tuple[Vector, Vector]:
        longest = np.maximum(GUESS.share * np.abs(z), GUESS.shortest)
        return np.maximum(lower, z - longest), np.minimum(upper, z + longest)

    for multiplier in GUESS.starts:
        start, evaluate = np.repeat([TYPICAL[0], multiplier, 0.0], parts), partial(shared_misfits, evidence, lifts)
        end = least_squares(
            evaluate, start, near, enough=GUESS.enough, gain=FITS.gain, max_evaluations=FITS.n_evaluations
        )
        ends.append(end)
        if end.value <= GUESS.enough:
            break
    return min(ends, key=lambda end: end.value)


def guesses(evidence: Evidence) -> list[tuple[Vector, Answers]]:
    """u of learners that give about these answers, one for each reading of the multipliers, and about their answers."""
    d_r, d_c = evidence.domain.n_reward, evidence.domain.n_preference
    matched = GUESS.sampled_match if evidence.is_sampled else GUESS.exact_match
    apart = np.array(evidence.shown) - evidence.target[:, :d_r]
    is_missed = np.abs(apart) > matched * evidence.scales.unit[:d_r]
    best = _shared(evidence, shared_lifts(evidence, np.where(is_missed, np.sign(apart), 0.0))).answer
    q, softs = best.x[1 : 1 + d_c], best.here.source
    weights, expectation = np.array([soft.weights for soft in softs]), np.array([soft.expectation for soft in softs])
    largest = max(float(q.max(initial=0.0)), float(SMALLEST[1]))
    done = expectation[:, d_r:].mean(axis=0) / evidence.unit[2:]
    learners = []
    for full, absent in GUESS.readings:
        delta = np.where(q >= full * largest, 0.0, np.where(q <= absent * largest, evidence.limits[1][2:], done))
        violation = largest if np.isfinite(full) else 1.5 * largest
        u = np.clip(np.concatenate([[best.x[0], violation], delta]), *evidence.limits)
        theta, low = evidence.unit * u, np.repeat([-1.0, 0.0], [d_r, d_c])
        x = np.clip(weights / np.where(low < 0, theta[0], -theta[1]), low, 1.0)
        unmoved = np.zeros((*x.shape, len(theta)))
        learners.append((u, Answers(theta, x, expectation, softs, unmoved, unmoved)))
    return learners
