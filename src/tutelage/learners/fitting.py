"""The parameters of a soft learner by least squares over all its answers: for answers of which only mu_r is seen, and
for answers known from samples.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

mu(theta; mu_hat) is the learner's own answer. It is continuous in theta, but it has kinks, and flats: delta_j changes
nothing while y_j is zero in every answer, nor while y_j = C_c in every answer. A search on it stops at the first kink.
So each search follows a path. It first fits smoothed answers (`barrier`), in which every parameter has an influence. It
reduces the smoothing step by step to zero, where the derivative is that of `sensitivity`. The first steps slightly
prefer typical penalties and no preferences. A path may end in a local minimum, so there are several starts.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.learners.barrier import Smoothed, smoothed
from tutelage.learners.recovery import Scales
from tutelage.learners.sensitivity import moves, signs
from tutelage.learners.soft_program import SoftProgram
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged, TutelageError
from tutelage.solvers.blocks import SURFACE, Block
from tutelage.solvers.least_squares import LeastSquares, Residuals, least_squares

# The penalties searched and the typical ones, in units of the horizon, which is also the size of the entropy, over the
# largest range of a feature of their kind. The range of a preference is that of seeking its feature for ever, of which
# a learner does a small part.
SMALLEST, TYPICAL, LARGEST = np.array([1e-4, 1e-3]), np.array([0.3, 3.0]), np.array([10.0, 100.0])
# The smoothing along a path, in nats; where the last step is none.
PATH: tuple[float, ...] = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 0.0)
# A search near a known fit starts with this step of the path.
LOCAL = 2
# Steps with at least this smoothing prefer typical penalties, by this weight, and allowances that bind nothing, by a
# tenth of it.
GUIDED, PREFERENCE = 0.01, 0.03
# The evaluations of each step of a path, and the relative decrease that is too small for one more.
EVALUATIONS, GAIN = 10, 1e-3
# The random starts, and the shares of the largest mu_c among which they choose the allowances.
N_RANDOM, SHARES = 6, (0.02, 0.2)
# The weighted misfit at which a search ends, the largest with which a fit explains exact answers, and the largest with
# which only few paths are followed.
EXACT, EXPLAINED, ROUGH = 1e-8, 1e-4, 1e-2
FEW = 3
# How far an allowance is moved across its kink, relatively, how often the best fit is changed so, and the share of the
# cost that must remain at most.
ACROSS, N_MENDED, MENDED = 0.03, 3, 0.25
# Fits whose penalties differ by less than this, relatively, and whose allowances, in units of the range, are the same.
APART = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One answer. shown: (d_r,), mu_hat. target: (d,), mu, any number where it was not seen. weight: (m, d), W.
    matched: (m,), weights of the features seen whose soft policy has this expectation.
    """

    shown: Vector
    target: Vector
    weight: Matrix
    matched: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """penalty, violation, allowance: theta; an infinite allowance is a preference that no answer needs. cost:
    1/2 |r|^2. jacobian: (M, 2 + d_c), dr / d theta. answers: (n, d), mu of the fitted learner. paid: (n, d_c), its
    multipliers.
    """

    penalty: float
    violation: float
    allowance: Vector
    cost: float
    jacobian: Matrix
    answers: Matrix
    paid: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """enough: a cost that counts as exact. gain: a relative decrease that is too small for a step of the last part of a
    path. good: a cost that the answers do not reject. rough: a cost after which few paths are followed: one more
    answer tells more. n_least: how many paths to follow, even if the first is good.
    """

    enough: float
    gain: float
    good: float
    rough: float
    n_least: int


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """The answers to all lessons, smoothed or not. paid: (n, d_c), the multipliers."""

    theta: Vector
    each: tuple[Smoothed, ...]
    paid: Matrix


Search = LeastSquares[_Answers]


def goal_of(seen: tuple[Seen, ...], is_sampled: bool) -> Goal:
    """When to end the search for a fit of some answers. Samples do not reject two standard deviations."""
    if not is_sampled:
        return Goal(enough=0.5 * EXACT**2, gain=1e-10, good=0.5 * EXPLAINED**2, rough=0.5 * ROUGH**2, n_least=1)
    n = sum(len(one.weight) for one in seen)
    good = 0.5 * (n + 2 * math.sqrt(2 * n))
    return Goal(enough=1e-3, gain=1e-4, good=good, rough=good, n_least=3)


@lru_cache(maxsize=64)
def fit_learner(
    domain: Domain, scales: Scales, seen: tuple[Seen, ...], is_sampled: bool, n_least: int
) -> tuple[Fit, ...]:
    """The fits found, the closest first.

    Paths start from the best fit of all answers but the last, and from other learners until a fit is good. n_least: how
    many paths to follow at least. Cached, so that a teacher's next round continues from the fit of the last one.
    """
    problem, goal, found = _Problem(domain, scales, seen), goal_of(seen, is_sampled), list[Search]()
    paths = [(start, PATH) for start in problem.starts()]
    if len(seen) > 1:
        with suppress(TutelageError):
            last = problem.inside(fit_learner(domain, scales, seen[:-1], is_sampled, 0)[0])
            paths = [(last, PATH[-1:]), (last, PATH), *paths]
    for number, (start, path) in enumerate(paths, start=1):
        with suppress(TutelageError):
            found.append(problem.search(start, path, goal))
        if number == FEW and found:
            found += problem.mended(_closest(found), goal)
        cost = _closest(found).residuals.cost if found else np.inf
        if number >= max(goal.n_least, n_least) and (cost <= goal.good or (number >= FEW and cost <= goal.rough)):
            break
    if not found:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    if _closest(found).residuals.cost > goal.rough:
        with suppress(TutelageError):
            found.append(problem.search(problem.in_full(_closest(found)), PATH[LOCAL:], goal))
        found += problem.mended(_closest(found), goal)
    return _distinct([problem.described(one) for one in found], scales)


def _closest(found: list[Search]) -> Search:
    return min(found, key=lambda one: one.residuals.cost)


def alternatives(domain: Domain, scales: Scales, seen: tuple[Seen, ...], fit: Fit, is_sampled: bool) -> tuple[Fit, ...]:
    """Fits near another one in which one preference is paid for in full, absent, or kept to its allowance."""
    problem, found = _Problem(domain, scales, seen), list[Search]()
    goal, kept = goal_of(seen, is_sampled), fit.answers[:, domain.n_reward :].min(axis=0)
    for j, (other, factor) in product(range(domain.n_preference), ((0.0, 1.0), (np.inf, 1.0), (None, 2.0))):
        allowed = kept[j] if other is None else other
        if fit.allowance[j] != allowed:
            changed = np.where(np.arange(domain.n_preference) == j, allowed, fit.allowance)
            near = replace(fit, violation=factor * fit.violation, allowance=changed)
            with suppress(TutelageError):
                found.append(problem.search(problem.inside(near), PATH[-1:], goal))
    return _distinct([problem.described(one) for one in found], scales)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The search over u = theta / unit."""

    domain: Domain
    scales: Scales
    seen: tuple[Seen, ...]

    @property
    def unit(self) -> Vector:
        """(2 + d_c,), the units of C_r, C_c and delta."""
        reward, preference = np.split(self.scales.unit, [self.domain.n_reward])
        sizes = np.array([reward.max(), preference.max(initial=1e-300)])
        return np.concatenate([self.domain.mdp.horizon / sizes, preference])

    @property
    def most(self) -> Vector:
        """(d_c,), the largest mu_c: an allowance there is no preference."""
        return np.maximum(self.scales.high[self.domain.n_reward :], 0.0) + self.scales.slack[self.domain.n_reward :]

    @property
    def limits(self) -> tuple[Vector, Vector]:
        """Both ends of u."""
        no_preference = self.most / self.unit[2:]
        return np.concatenate([SMALLEST, np.zeros(len(no_preference))]), np.concatenate([LARGEST, no_preference])

    def near(self, u: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from u."""
        longest, (lower, upper) = np.concatenate([0.6 * u[:2], np.full(len(u) - 2, 0.25)]), self.limits
        return np.maximum(lower, u - longest), np.minimum(upper, u + longest)

    def starts(self) -> list[Vector]:
        """u of the learner that the matched weights suggest, if mu_c was seen, and of others, new ones each round."""
        d_r, (lower, upper), rng = self.domain.n_reward, self.limits, np.random.default_rng(len(self.seen))
        starts, paid = list[Vector](), -np.array([one.matched[d_r:] for one in self.seen])
        if paid.size and paid.max() > 0:
            penalty = max(float(np.abs(one.matched[:d_r]).max()) for one in self.seen)
            delta = np.where(paid.max(axis=0) < 0.3 * paid.max(), self.most, 0.0)
            starts.append(np.concatenate([[penalty, paid.max()], delta]) / self.unit)
        for number in range(N_RANDOM):
            share: float | Vector = rng.choice([0.0, 0.05, 1.0], len(self.most))
            if number % (len(SHARES) + 1) < len(SHARES):
                share = SHARES[number % (len(SHARES) + 1)]
            starts.append(np.concatenate([TYPICAL * np.exp(rng.uniform(-1, 1, 2)), share * upper[2:]]))
        return [np.clip(start, lower, upper) for start in starts]

    def inside(self, fit: Fit) -> Vector:
        """u of a fit, moved into the limits."""
        theta = np.concatenate([[fit.penalty, fit.violation], np.minimum(fit.allowance, self.most)])
        return np.asarray(np.clip(theta / self.unit, *self.limits))

    def in_full(self, search: Search) -> Vector:
        """u with C_c the largest mean payment, every preference paid for half as much paid in full, and no other.

        An allowance that binds and a preference paid in full look alike, and no path leads from one to the other.
        """
        paid = search.residuals.source.paid.mean(axis=0)
        largest = float(paid.max(initial=0.0))
        delta = np.where(paid >= 0.5 * largest, 0.0, self.limits[1][2:])
        violation = largest / self.unit[1] if largest > 0 else search.x[1]
        return np.asarray(np.clip(np.concatenate([[search.x[0], violation], delta]), *self.limits))

    def search(self, start: Vector, path: tuple[float, ...], goal: Goal) -> Search:
        """The end of a path."""
        u, last = start, None
        for tau in path:
            found = least_squares(
                partial(self.evaluate, tau=tau),
                u,
                self.near,
                enough=goal.enough,
                gain=goal.gain if tau == path[-1] else GAIN,
                max_evaluations=EVALUATIONS,
                source=last,
            )
            u, last = found.x, found.residuals.source
        return found

    def mended(self, search: Search, goal: Goal) -> list[Search]:
        """Better fits, in which one preference after the other is moved across its kink, or left out."""
        best, found = search, list[Search]()
        for _ in range(N_MENDED):
            if best.residuals.cost <= goal.good:
                break
            tried = list[Search]()
            for start in self._across_kinks(best):
                with suppress(TutelageError):
                    tried.append(self.search(start, PATH[-1:], goal))
            if not tried or _closest(tried).residuals.cost > MENDED * best.residuals.cost:
                break
            best = _closest(tried)
            found.append(best)
        return found

    def _across_kinks(self, search: Search) -> list[Vector]:
        """u with one allowance below the largest mu_c where nothing is paid, above the least where all is, or none."""
        answers, starts = search.residuals.source, list[Vector]()
        done = np.array([answer.soft.expectation[self.domain.n_reward :] for answer in answers.each]) / self.unit[2:]
        for j, paid in enumerate(answers.paid.T / answers.theta[1]):
            values = [self.limits[1][2 + j]]
            if (paid <= SURFACE).all():
                values = [(1 - ACROSS) * float(done[:, j].max())]
            elif (paid >= 1 - SURFACE).all():
                values.append((1 + ACROSS) * float(done[:, j].min()))
            for value in values:
                changed = np.where(np.arange(len(search.x)) == 2 + j, value, search.x)
                starts.append(np.asarray(np.clip(changed, *self.limits)))
        return starts

    def evaluate(self, u: Vector, last: _Answers | None, tau: float) -> Residuals[_Answers]:
        """The weighted misfits of all answers and their derivative in u. tau: the smoothing."""
        theta = self.unit * u
        near = [None] * len(self.seen) if last is None else last.each
        pairs = list(zip(self.seen, near, strict=True))
        if tau > 0:
            each = tuple(smoothed(self.domain, theta, one.shown, tau, mine) for one, mine in pairs)
        else:
            each = tuple(self._answer(theta, one, mine) for one, mine in pairs)
        paid = theta[1] * np.array([answer.x[self.domain.n_reward :] for answer in each])
        values = [one.weight @ (mine.soft.expectation - one.target) for one, mine in zip(self.seen, each, strict=True)]
        slopes = [one.weight @ mine.slopes * self.unit for one, mine in zip(self.seen, each, strict=True)]
        if tau >= GUIDED:
            guide = PREFERENCE * np.concatenate([1 / TYPICAL, np.full(len(u) - 2, 0.1)])
            values.append(guide * (u - np.concatenate([TYPICAL, self.limits[1][2:]])))
            slopes.append(np.diag(guide))
        return Residuals(np.concatenate(values), np.vstack(slopes), _Answers(theta, each, paid))

    def _answer(self, theta: Vector, one: Seen, near: Smoothed | None) -> Smoothed:
        """The learner's own answer to one lesson."""
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        sign, penalties = signs(d_r, d_c), (float(theta[0]), float(theta[1]))
        scale = np.concatenate([np.full(d_r, theta[0]), np.full(d_c, theta[1])])
        blocks = [
            Block(np.zeros(d_r), penalties[0], np.inf, True, np.arange(d_r)),
            Block(theta[2:], penalties[1], np.inf, False, np.arange(d_c)),
        ]
        program = SoftProgram(
            self.domain, np.zeros(d_r + d_c), np.diag(sign), np.concatenate([one.shown, np.zeros(d_c)]), blocks
        )
        start = np.zeros(d_r + d_c) if near is None else scale * (near.x + near.moved @ (theta - near.theta))
        try:
            found = program.minimise(start, None if near is None else near.soft)
        except NotConverged:
            found = program.followed()
        soft = found.expansion.source
        moved = moves(found.x, sign[:, None] * soft.jacobian * sign, d_r, penalties)
        x, shares = found.x / scale, moved.copy()
        shares[:d_r, 0] -= x[:d_r]
        shares[d_r:, 1] -= x[d_r:]
        return Smoothed(theta, x, soft, shares / scale[:, None], soft.jacobian @ (sign[:, None] * moved))

    def described(self, found: Search) -> Fit:
        """The fit at the end of a path. An allowance that no answer depends on is infinite, or below every mu_c."""
        answers, d_r = found.residuals.source, self.domain.n_reward
        theta, jacobian = answers.theta.copy(), found.residuals.jacobian / self.unit
        done = np.array([answer.soft.expectation for answer in answers.each])
        for j in range(self.domain.n_preference):
            is_absent = (answers.paid[:, j] <= SURFACE * theta[1]).all()
            if is_absent or (answers.paid[:, j] >= (1 - SURFACE) * theta[1]).all():
                theta[2 + j] = np.inf if is_absent else 0.5 * float(done[:, d_r + j].min())
                jacobian[:, 2 + j] = 0.0
        return Fit(float(theta[0]), float(theta[1]), theta[2:], found.residuals.cost, jacobian, done, answers.paid)


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
