"""The fits that explain a soft learner's answers: many searches (`misfit`), because each may end in a local minimum.

The searches start from the fit of the earlier answers, from a learner that pays the same in all its answers, and from
the one that the weights of each answer suggest, and from random learners, until a fit explains the answers. A search
may also end on the wrong side of a kink, where a preference starts or ceases to be paid for. So the best fit is changed
by moving one allowance across its kink, or leaving one preference out, as long as that helps.

What one search hands to the next is `Searches`: the ends of the paths followed, and the paths that are left.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from tutelage import watch
from tutelage.arrays import Vector
from tutelage.convex.blocks import SURFACE
from tutelage.inference.answering import Answers
from tutelage.inference.misfit import (
    PATH,
    TYPICAL,
    Evidence,
    Fit,
    FitProblem,
    Goal,
    Parameters,
    Search,
    WeighedAnswer,
    guesses,
)
from tutelage.inference.recovery import Scales, nearest_soft, rare_variance
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged, TutelageError

# The weighted misfit at which a search ends, the largest with which a fit explains exact answers, and the largest with
# which only few paths are followed.
FITTED, EXPLAINED, NEARLY = 1e-8, 1e-4, 1e-2
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
    allowances drawn one by one. exact_match, sampled_match: an answer this close to its lesson, relative to the range
    of the feature, matches it. local: a search near a known fit starts with this step of the path. across: how far an
    allowance is moved across its kink, relatively. n_changes: how often the best fit is changed so. helps: the share of
    the cost that must remain at most. apart: fits whose penalties differ by less, relatively, and whose allowances, in
    units of the range, are the same. end: added to the distance of an exact answer from the ends of its range, relative
    to that range, for its weight. n_exact: trajectories whose mean is as good as exact.
    """

    shares: tuple[float | None, ...] = (0.02, 0.2, None, 0.02, 0.2, None)
    exact_match: float = 1e-6
    sampled_match: float = 0.02
    local: int = 2
    across: float = 0.03
    n_changes: int = 3
    helps: float = 0.25
    apart: float = 1e-2
    end: float = 1e-3
    n_exact: int = 10**6


THOROUGH, START = Effort(), StartRule()


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


def problem_of(evidence: Evidence) -> FitProblem:
    """The least-squares problem of the evidence."""
    given = evidence.domain, evidence.scales, evidence.n_seen, evidence.n_trajectories
    each = zip(evidence.shown, evidence.seen, evidence.bias, strict=True)
    return FitProblem(evidence, tuple(_weighed(*given, *answer) for answer in each))


@lru_cache(maxsize=256)
def _weighed(
    domain: Domain,
    scales: Scales,
    n_seen: int,
    n_trajectories: int,
    shown: tuple[float, ...],
    seen: tuple[float, ...],
    bias: tuple[float, ...],
) -> WeighedAnswer:
    """An answer with its weight: W is the inverse root of the sampling covariance. For an exact answer it is that of a
    variance proportional to the distance from the ends of the range, as for samples: what is done rarely tells most.

    Cached, because the answers of earlier rounds come again in every round.
    """
    lesson, target = np.array(shown), np.array(seen)
    n = n_trajectories or START.n_exact
    soft, weight = nearest_soft(domain, target, n_seen, n)
    n_told = n_seen - float(np.trace(weight * rare_variance(domain, n) @ weight.T))
    if not n_trajectories:
        share = np.clip((target - scales.low) / scales.unit, 0.0, 1.0)
        kept = np.eye(len(target))[:n_seen]
        weight = kept / (scales.unit * np.sqrt(np.minimum(share, 1 - share) + START.end))
    return WeighedAnswer(lesson, target, weight, soft.weights[:n_seen], n_told, np.abs(weight) @ np.array(bias))


def goal_of(problem: FitProblem) -> Goal:
    """When to end the search for a fit. Samples do not reject two standard deviations."""
    if not problem.evidence.is_sampled:
        enough, good, rough = (0.5 * misfit**2 for misfit in (FITTED, EXPLAINED, NEARLY))
        return Goal(enough=enough, gain=1e-10, good=good, rough=rough, n_least=1, n_few=4)
    n = max(sum(answer.n_told for answer in problem.answers), 1.0)
    good = 0.5 * (n + 2 * math.sqrt(2 * n))
    return Goal(enough=1e-3, gain=1e-4, good=good, rough=good, n_least=3, n_few=2)


def fits_of(evidence: Evidence, searches: Searches) -> tuple[Fit, ...]:
    """The different fits of the searches, the closest first."""
    problem = problem_of(evidence)
    return _distinct([problem.described(end) for end in searches.ends], evidence.scales)


@lru_cache(maxsize=64)
def search_fits(evidence: Evidence, effort: Effort) -> Searches:
    """The first searches: from the best fit of all answers but the last, and from other learners until a fit is good.

    Cached by the numbers of the evidence: a teacher's next round has one answer more, and continues from this fit.
    """
    problem, last = problem_of(evidence), None
    if len(evidence.shown) > 1:
        with suppress(TutelageError):
            last = _closest(search_fits(evidence.before, effort).ends)
    budget = watch.Budget(UNLIMITED)
    begun = Searches((), tuple(_paths(problem, last, budget)), 0)
    left = watch.Budget(effort.n_steps - (UNLIMITED - budget.left))
    return _followed(problem, begun, left, 0, UNLIMITED if evidence.is_sampled else effort.n_straight)


def more_searches(evidence: Evidence, begun: Searches, effort: Effort) -> Searches:
    """The searches begun, and more of the paths that are left."""
    straight = UNLIMITED if evidence.is_sampled else effort.n_straight
    return _followed(problem_of(evidence), begun, watch.Budget(effort.n_more), effort.n_more_paths, straight)


def _followed(problem: FitProblem, begun: Searches, budget: watch.Budget, n_paths: int, n_straight: int) -> Searches:
    """Follow paths until a fit is good, after at least n_paths, or the budget is used up."""
    goal, ends, number, paths = goal_of(problem), list(begun.ends), begun.n_followed, begun.paths
    while number < len(paths) and not (ends and _is_enough(goal, ends, number, n_paths, budget)):
        # The first fit is free, so there is one.
        left, path, number = budget.left if ends else UNLIMITED, paths[number], number + 1
        if len(path.smoothing) == 1:
            left = min(left, n_straight)
        spent = watch.Budget(left)
        end = _search(problem, path, goal, spent)
        ends, budget.left = [*ends, *([] if end is None else [end])], budget.left - (left - spent.left)
        if number == goal.n_few and ends:
            ends += _changed(problem, _closest(ends), goal, budget)
    if not ends:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    is_new = not begun.ends or _closest(ends) is not _closest(begun.ends)
    if is_new and _closest(ends).value > goal.rough:
        end = _search(problem, Path(_in_full(problem, _closest(ends)), PATH.smoothing[START.local :]), goal, budget)
        ends += [] if end is None else [end]
        ends += _changed(problem, _closest(ends), goal, budget)
    return Searches(tuple(ends), paths, number)


def _is_enough(goal: Goal, ends: Sequence[Search], n_followed: int, n_paths: int, budget: watch.Budget) -> bool:
    """Whether a fit is good after enough paths, or the steps are used up."""
    cost = _closest(ends).value
    is_good = cost <= goal.good or (n_followed >= goal.n_few and cost <= goal.rough)
    return (n_followed >= max(goal.n_least, n_paths) and is_good) or budget.left <= 0


def _paths(problem: FitProblem, last: Search | None, budget: watch.Budget) -> list[Path]:
    """The paths in the order in which they are followed. last: the best fit of all answers but the last."""
    first, others = list[Path](), [Path(start, PATH.smoothing) for start in _starts(problem)]
    is_sampled = problem.evidence.is_sampled
    with suppress(TutelageError), watch.spending(budget):
        matched = START.sampled_match if is_sampled else START.exact_match
        first = [Path(start, PATH.smoothing[-1:], near) for start, near in guesses(problem, matched)]
    if last is None:
        return [*first, *others]
    start = problem.inside(problem.described(last).parameters)
    others = [Path(start, PATH.smoothing), *others]
    # A round has steps for one kind of path beside that from the last fit, so the kinds take turns. Samples are
    # explained by many learners, and the first kind finds the simpler ones.
    both = (first, others) if is_sampled or len(problem.answers) % 2 else (others, first)
    return [Path(start, PATH.smoothing[-1:], last.answer.here.source), *both[0], *both[1]]


def _search(problem: FitProblem, path: Path, goal: Goal, budget: watch.Budget) -> Search | None:
    """The end of a path, or None where that is not reached."""
    if budget.left > 0:
        with suppress(TutelageError), watch.spending(budget):
            return problem.search(*path, goal)
    if watch.is_over():
        raise NotConverged("there was no time to find a fit", residual=np.inf, n_steps=0)
    return None


def _closest(ends: Sequence[Search]) -> Search:
    return min(ends, key=lambda end: end.value)


def alternatives(evidence: Evidence, fit: Fit) -> tuple[Fit, ...]:
    """Fits near another one in which one preference is paid for in full, absent, or kept to its allowance."""
    problem, ends, n = problem_of(evidence), list[Search](), evidence.domain.n_preference
    goal, kept = goal_of(problem), fit.answers[:, evidence.domain.n_reward :].min(axis=0)
    penalty, violation, allowance = fit.parameters
    for j, (other, factor) in product(range(n), ((0.0, 1.0), (np.inf, 1.0), (None, 2.0))):
        allowed = kept[j] if other is None else other
        if allowance[j] != allowed:
            changed = np.where(np.arange(n) == j, allowed, allowance)
            near = problem.inside(Parameters(penalty, factor * violation, changed))
            with suppress(TutelageError):
                ends.append(problem.search(near, PATH.smoothing[-1:], None, goal))
    return _distinct([problem.described(end) for end in ends], evidence.scales)


def closer_parameters(evidence: Evidence, near: Parameters) -> Parameters:
    """The parameters of the fit near others; those themselves where it cannot be computed."""
    problem = problem_of(evidence)
    try:
        end = problem.search(problem.inside(near), PATH.smoothing[-1:], None, goal_of(problem))
    except TutelageError:
        return near
    return problem.described(end).parameters


def _starts(problem: FitProblem) -> list[Vector]:
    """u of the learner that the matched weights suggest, if mu_c was seen, and of random ones, new ones each round."""
    d_r, (lower, upper), answers = problem.domain.n_reward, problem.limits, problem.answers
    rng = np.random.default_rng(len(answers))
    starts, paid = list[Vector](), -np.array([answer.matched[d_r:] for answer in answers])
    if paid.size and paid.max() > 0:
        penalty = max(float(np.abs(answer.matched[:d_r]).max()) for answer in answers)
        delta = np.where(paid.max(axis=0) < 0.3 * paid.max(), problem.most, 0.0)
        starts.append(np.concatenate([[penalty, paid.max()], delta]) / problem.unit)
    largest = float(problem.most.max(initial=0.0)) / problem.unit[2:]
    for share in START.shares:
        drawn = rng.choice([0.0, 0.05, 1.0], len(problem.most)) * upper[2:]
        delta = drawn if share is None else share * largest
        starts.append(np.concatenate([TYPICAL * np.exp(rng.uniform(-1, 1, 2)), delta]))
    return [np.clip(start, lower, upper) for start in starts]


def _in_full(problem: FitProblem, search: Search) -> Vector:
    """u with C_c the largest mean payment, every preference paid for half as much paid in full, and no other.

    An allowance that binds and a preference paid in full look alike, and no path leads from one to the other.
    """
    paid = search.answer.here.source.paid.mean(axis=0)
    largest = float(paid.max(initial=0.0))
    delta = np.where(paid >= 0.5 * largest, 0.0, problem.limits[1][2:])
    violation = largest / problem.unit[1] if largest > 0 else search.answer.x[1]
    return np.asarray(np.clip(np.concatenate([[search.answer.x[0], violation], delta]), *problem.limits))


def _changed(problem: FitProblem, search: Search, goal: Goal, budget: watch.Budget) -> list[Search]:
    """Better fits, in which one preference after the other is moved across its kink, or left out."""
    best, better = search, list[Search]()
    # Without mu_c there are too many ways to change a fit: random starts are worth more of the budget.
    for _ in range(START.n_changes if problem.evidence.is_sampled else 0):
        if best.value <= goal.good:
            break
        paths = [Path(start, PATH.smoothing[-1:], best.answer.here.source) for start in _across_kinks(problem, best)]
        ends = [_search(problem, path, goal, budget) for path in paths]
        tried = [end for end in ends if end is not None]
        if not tried or _closest(tried).value > START.helps * best.value:
            break
        best = _closest(tried)
        better.append(best)
    return better


def _across_kinks(problem: FitProblem, search: Search) -> list[Vector]:
    """u with one allowance below the largest mu_c where nothing is paid, above the least where all is, or none."""
    answers, starts = search.answer.here.source, list[Vector]()
    done = answers.expectation[:, problem.domain.n_reward :] / problem.unit[2:]
    for j, paid in enumerate(answers.paid.T / answers.theta[1]):
        values = [problem.limits[1][2 + j]]
        if (paid <= SURFACE).all():
            values = [(1 - START.across) * float(done[:, j].max())]
        elif (paid >= 1 - SURFACE).all():
            values.append((1 + START.across) * float(done[:, j].min()))
        for value in values:
            changed = np.where(np.arange(len(search.answer.x)) == 2 + j, value, search.answer.x)
            starts.append(np.asarray(np.clip(changed, *problem.limits)))
    return starts


def _distinct(fits: Sequence[Fit], scales: Scales) -> tuple[Fit, ...]:
    """The different fits, the closest first."""
    distinct = list[Fit]()
    for fit in sorted(fits, key=lambda fit: fit.cost):
        if all(_are_apart(fit.parameters, other.parameters, scales) for other in distinct):
            distinct.append(fit)
    return tuple(distinct)


def _are_apart(mine: Parameters, other: Parameters, scales: Scales) -> bool:
    n = len(mine.violation_allowance)
    unit = scales.unit[-n:] if n else 1.0
    ratio = np.log(np.array(mine[:2]) / np.array(other[:2]))
    is_same = np.isclose(mine[2] / unit, other[2] / unit, rtol=0, atol=START.apart)
    return bool(np.abs(ratio).max() > START.apart or not is_same.all())
