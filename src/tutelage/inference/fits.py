"""The fits that explain a soft learner's answers: many searches (`fitting`), because each may end in a local minimum.

The searches start from the fit of the earlier answers, from a learner that pays the same in all its answers
(`shared_multipliers`) and from random learners, until a fit explains the answers. A search may also end on the wrong
side of a kink, where a preference starts or ceases to be paid for. So the best fit is changed by moving one allowance
across its kink, or leaving one preference out, as long as that helps.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.blocks import SURFACE
from tutelage.inference.answering import Answers
from tutelage.inference.fitting import PATH, TYPICAL, Fit, FitProblem, Goal, Search, Seen
from tutelage.inference.recovery import Scales
from tutelage.inference.shared_multipliers import guesses
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged, TutelageError

# A search near a known fit starts with this step of the path.
LOCAL = 2
# The random starts, and the shares of the largest mu_c among which they choose the allowances.
N_RANDOM, SHARES = 6, (0.02, 0.2)
# The weighted misfit at which a search ends, the largest with which a fit explains exact answers, and the largest with
# which only few paths are followed.
EXACT, EXPLAINED, ROUGH = 1e-8, 1e-4, 1e-2
UNLIMITED = 10**9
# The most steps along a path without smoothing to an explanation of exact answers, where steps are limited.
SHORT = 600
# An answer this close to its lesson, relative to the range of the feature, matches it.
EXACT_MATCH, SAMPLED_MATCH = 1e-6, 0.02
# How far an allowance is moved across its kink, relatively, how often the best fit is changed so, and the share of the
# cost that must remain at most.
ACROSS, N_MENDED, MENDED = 0.03, 3, 0.25
# Fits whose penalties differ by less than this, relatively, and whose allowances, in units of the range, are the same.
APART = 1e-2


def goal_of(seen: tuple[Seen, ...], is_sampled: bool) -> Goal:
    """When to end the search for a fit of some answers. Samples do not reject two standard deviations."""
    if not is_sampled:
        return Goal(
            enough=0.5 * EXACT**2, gain=1e-10, good=0.5 * EXPLAINED**2, rough=0.5 * ROUGH**2, n_least=1, n_few=4
        )
    n = max(sum(one.n_told for one in seen), 1.0)
    good = 0.5 * (n + 2 * math.sqrt(2 * n))
    return Goal(enough=1e-3, gain=1e-4, good=good, rough=good, n_least=3, n_few=2)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to search. n_paths: how many paths to follow at least, even if the first fit is good. n_steps: how many
    steps of Newton's method, inner ones included, to take at most. n_before: the same for the answers before the last.
    begun: the search that this one continues, if any; its paths count, its steps do not. n_larger: the most steps of
    the search for fits with a larger C_r.
    """

    n_paths: int = 0
    n_steps: int = UNLIMITED
    n_before: int = UNLIMITED
    begun: "Effort | None" = None
    n_larger: int = 0


THOROUGH = Effort()


def fit_learner(
    domain: Domain, scales: Scales, seen: tuple[Seen, ...], is_sampled: bool, effort: Effort
) -> tuple[Fit, ...]:
    """The fits found, the closest first."""
    problem, found = FitProblem(domain, scales, seen), _found(domain, scales, seen, is_sampled, effort).ends
    return _distinct([problem.described(one) for one in found], scales)


class Found(NamedTuple):
    """The ends of the paths followed, and how many of the paths these were."""

    ends: tuple[Search, ...]
    n_paths: int


@lru_cache(maxsize=64)
def _found(domain: Domain, scales: Scales, seen: tuple[Seen, ...], is_sampled: bool, effort: Effort) -> Found:
    """The ends of all paths followed.

    Paths start from the best fit of all answers but the last, and from other learners until a fit is good. Cached, so
    that a teacher's next round continues from the fit of the last one.
    """
    problem, goal, ends, number = FitProblem(domain, scales, seen), goal_of(seen, is_sampled), list[Search](), 0
    paths, n_steps = _paths(domain, scales, seen, is_sampled, effort.n_before)
    if effort.begun is not None:
        begun = _found(domain, scales, seen, is_sampled, effort.begun)
        ends, number, n_steps = list(begun.ends), begun.n_paths, 0
    n_begun, budget = len(ends), watch.Budget(effort.n_steps - n_steps)
    while number < len(paths) and not (ends and _is_enough(goal, effort, ends, number, budget)):
        # The first fit is free, so there is one. A long path without smoothing is on the way to a local minimum.
        left, path, number = budget.left if ends else UNLIMITED, paths[number], number + 1
        if len(path.smoothing) == 1 and effort.n_steps < UNLIMITED and not is_sampled:
            left = min(left, SHORT)
        spent = watch.Budget(left)
        end = _search(problem, path, goal, spent)
        ends, budget.left = [*ends, *([] if end is None else [end])], budget.left - (left - spent.left)
        if number == goal.n_few and ends:
            ends += _mended(problem, _closest(ends), goal, budget)
    if not ends:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    is_new = not n_begun or _closest(ends) is not _closest(ends[:n_begun])
    if is_new and _closest(ends).residuals.cost > goal.rough:
        end = _search(problem, Path(_in_full(problem, _closest(ends)), PATH[LOCAL:]), goal, budget)
        ends += [] if end is None else [end]
        ends += _mended(problem, _closest(ends), goal, budget)
    return Found(tuple(ends), number)


def _is_enough(goal: Goal, effort: Effort, ends: Sequence[Search], n_paths: int, budget: watch.Budget) -> bool:
    """Whether a fit is good after enough paths, or the steps are used up."""
    cost = _closest(ends).residuals.cost
    is_good = cost <= goal.good or (n_paths >= goal.n_few and cost <= goal.rough)
    return (n_paths >= max(goal.n_least, effort.n_paths) and is_good) or budget.left <= 0


class Path(NamedTuple):
    """Where a path starts, its smoothing, and answers near its start, if it has no smoothing and they are known."""

    start: Vector
    smoothing: tuple[float, ...]
    near: Answers | None = None


@lru_cache(maxsize=64)
def _paths(
    domain: Domain, scales: Scales, seen: tuple[Seen, ...], is_sampled: bool, n_before: int
) -> tuple[list[Path], int]:
    """The paths in the order in which they are followed, and the steps that it took to find their starts."""
    problem, budget = FitProblem(domain, scales, seen), watch.Budget(UNLIMITED)
    first, others = list[Path](), [Path(start, PATH) for start in _starts(problem)]
    with suppress(TutelageError), watch.spending(budget):
        matched = SAMPLED_MATCH if is_sampled else EXACT_MATCH
        first = [Path(start, PATH[-1:], near) for start, near in guesses(problem, matched)]
    if len(seen) > 1:
        with suppress(TutelageError):
            before = Effort(0, n_before, n_before)
            last = _closest(_found(domain, scales, seen[:-1], is_sampled, before).ends)
            start = problem.inside(problem.described(last))
            others = [Path(start, PATH), *others]
            # A round has steps for one kind of path beside that from the last fit, so the kinds take turns. Samples are
            # explained by many learners, and the first kind finds the simpler ones.
            both = (first, others) if is_sampled or len(seen) % 2 else (others, first)
            return [Path(start, PATH[-1:], last.residuals.source), *both[0], *both[1]], UNLIMITED - budget.left
    return [*first, *others], UNLIMITED - budget.left


def _search(problem: FitProblem, path: Path, goal: Goal, budget: watch.Budget) -> Search | None:
    """The end of a path, or None where that is not reached."""
    if budget.left > 0:
        with suppress(TutelageError), watch.spending(budget):
            return problem.search(*path, goal)
    if watch.is_over():
        raise NotConverged("there was no time to find a fit", residual=np.inf, n_steps=0)
    return None


def _closest(found: Sequence[Search]) -> Search:
    return min(found, key=lambda one: one.residuals.cost)


def alternatives(domain: Domain, scales: Scales, seen: tuple[Seen, ...], fit: Fit, is_sampled: bool) -> tuple[Fit, ...]:
    """Fits near another one in which one preference is paid for in full, absent, or kept to its allowance."""
    problem, found = FitProblem(domain, scales, seen), list[Search]()
    goal, kept = goal_of(seen, is_sampled), fit.answers[:, domain.n_reward :].min(axis=0)
    for j, (other, factor) in product(range(domain.n_preference), ((0.0, 1.0), (np.inf, 1.0), (None, 2.0))):
        allowed = kept[j] if other is None else other
        if fit.allowance[j] != allowed:
            changed = np.where(np.arange(domain.n_preference) == j, allowed, fit.allowance)
            near = replace(fit, violation=factor * fit.violation, allowance=changed)
            with suppress(TutelageError):
                found.append(problem.search(problem.inside(near), PATH[-1:], None, goal))
    return _distinct([problem.described(one) for one in found], scales)


def with_larger_penalty(
    domain: Domain, scales: Scales, seen: tuple[Seen, ...], fit: Fit, is_sampled: bool, n_steps: int
) -> tuple[Fit, ...]:
    """Fits near another one with a larger C_r, the largest first.

    An answer that matches its lesson shows only that C_r is large enough, and a larger one promises more.
    """
    goal, found, budget = goal_of(seen, is_sampled), list[Fit](), watch.Budget(n_steps)
    typical = float(TYPICAL[0] * FitProblem(domain, scales, seen).unit[0])
    for least in (4 * max(fit.penalty, typical), max(2 * fit.penalty, typical), 1.4 * fit.penalty, 1.2 * fit.penalty):
        problem = FitProblem(domain, scales, seen, least)
        start = problem.inside(replace(fit, penalty=max(fit.penalty, least)))
        for smoothing in (PATH[-1:], PATH[LOCAL - 1 :]):
            end = _search(problem, Path(start, smoothing), goal, budget)
            if end is not None:
                found.append(problem.described(end))
                if end.residuals.cost <= goal.good:
                    break
    return tuple(found)


def _starts(problem: FitProblem) -> list[Vector]:
    """u of the learner that the matched weights suggest, if mu_c was seen, and of others, new ones each round."""
    d_r, (lower, upper), rng = problem.domain.n_reward, problem.limits, np.random.default_rng(len(problem.seen))
    starts, paid = list[Vector](), -np.array([one.matched[d_r:] for one in problem.seen])
    if paid.size and paid.max() > 0:
        penalty = max(float(np.abs(one.matched[:d_r]).max()) for one in problem.seen)
        delta = np.where(paid.max(axis=0) < 0.3 * paid.max(), problem.most, 0.0)
        starts.append(np.concatenate([[penalty, paid.max()], delta]) / problem.unit)
    for number in range(N_RANDOM):
        delta = rng.choice([0.0, 0.05, 1.0], len(problem.most)) * upper[2:]
        if number % (len(SHARES) + 1) < len(SHARES):
            # The same allowance for all preferences.
            largest = float(problem.most.max(initial=0.0))
            delta = SHARES[number % (len(SHARES) + 1)] * largest / problem.unit[2:]
        starts.append(np.concatenate([TYPICAL * np.exp(rng.uniform(-1, 1, 2)), delta]))
    return [np.clip(start, lower, upper) for start in starts]


def _in_full(problem: FitProblem, search: Search) -> Vector:
    """u with C_c the largest mean payment, every preference paid for half as much paid in full, and no other.

    An allowance that binds and a preference paid in full look alike, and no path leads from one to the other.
    """
    paid = search.residuals.source.paid.mean(axis=0)
    largest = float(paid.max(initial=0.0))
    delta = np.where(paid >= 0.5 * largest, 0.0, problem.limits[1][2:])
    violation = largest / problem.unit[1] if largest > 0 else search.x[1]
    return np.asarray(np.clip(np.concatenate([[search.x[0], violation], delta]), *problem.limits))


def _mended(problem: FitProblem, search: Search, goal: Goal, budget: watch.Budget) -> list[Search]:
    """Better fits, in which one preference after the other is moved across its kink, or left out."""
    best, found = search, list[Search]()
    for _ in range(N_MENDED):
        if best.residuals.cost <= goal.good:
            break
        paths = [Path(start, PATH[-1:], best.residuals.source) for start in _across_kinks(problem, best)]
        ends = [_search(problem, path, goal, budget) for path in paths]
        tried = [end for end in ends if end is not None]
        if not tried or _closest(tried).residuals.cost > MENDED * best.residuals.cost:
            break
        best = _closest(tried)
        found.append(best)
    return found


def _across_kinks(problem: FitProblem, search: Search) -> list[Vector]:
    """u with one allowance below the largest mu_c where nothing is paid, above the least where all is, or none."""
    answers, starts = search.residuals.source, list[Vector]()
    done = answers.expectation[:, problem.domain.n_reward :] / problem.unit[2:]
    for j, paid in enumerate(answers.paid.T / answers.theta[1]):
        values = [problem.limits[1][2 + j]]
        if (paid <= SURFACE).all():
            values = [(1 - ACROSS) * float(done[:, j].max())]
        elif (paid >= 1 - SURFACE).all():
            values.append((1 + ACROSS) * float(done[:, j].min()))
        for value in values:
            changed = np.where(np.arange(len(search.x)) == 2 + j, value, search.x)
            starts.append(np.asarray(np.clip(changed, *problem.limits)))
    return starts


def _distinct(found: Sequence[Fit], scales: Scales) -> tuple[Fit, ...]:
    """The different fits, the closest first."""
    distinct = list[Fit]()
    for one in sorted(found, key=lambda one: one.cost):
        if all(_are_apart(one, other, scales) for other in distinct):
            distinct.append(one)
    return tuple(distinct)


def _are_apart(one: Fit, other: Fit, scales: Scales) -> bool:
    unit = scales.unit[-len(one.allowance) :] if len(one.allowance) else 1.0
    ratio = np.log([one.penalty / other.penalty, one.violation / other.violation])
    is_same = np.isclose(one.allowance / unit, other.allowance / unit, rtol=0, atol=APART)
    return bool(np.abs(ratio).max() > APART or not is_same.all())
