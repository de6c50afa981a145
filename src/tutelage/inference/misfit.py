"""How far a soft learner is from the answers seen: least squares, for answers of which only mu_r is seen, and for
answers known from samples.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

mu(theta; mu_hat) is the learner's own answer. It is continuous in theta, but it has kinks, and flats: delta_j changes
nothing while y_j is zero in every answer, nor while y_j = C_c in every answer. A search on it stops at the first kink.
So each search follows a path. It first fits smoothed answers (`answering`), in which every parameter has an influence.
It reduces the smoothing step by step to zero. The first steps slightly prefer typical penalties and no preferences. A
path may end in a local minimum (`fit_search` follows several).

A first guess is a learner that pays the same multipliers q in all its answers:

    minimise over C_r, q >= 0 and the free a_i     1/2 sum over answers i of |W (mu(a_i, -q) - mu_i)|^2

mu(a, -q) is the expectation of the soft policy with these weights. a_ik = C_r sign(mu_hat_ik - mu_ik) where the answer
misses the lesson, and any number where it matches. So an evaluation takes one soft policy for each answer, while the
learner's own answer takes a program, and there are no kinks. What is left of the kinks is which preferences are paid
for in full (q_j = C_c), in part (at mu_c[j] = delta_j), or not at all: `guesses` has a learner for each reading.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tutelage.arrays import Flags, Matrix, Vector, freeze
from tutelage.bellman.soft_expectations import SoftExpansions, combined_features, soft_expansions
from tutelage.convex.blocks import SURFACE
from tutelage.convex.least_squares import LeastSquares, Residuals, least_squares
from tutelage.inference.answering import Answers, answers_of
from tutelage.inference.recovery import Scales
from tutelage.model.mdp import Domain

# The penalties searched and the typical ones, in units of the horizon, which is also the size of the entropy, over the
# largest range of a feature of their kind. The range of a preference is that of seeking its feature for ever, of which
# a learner does a small part.
SMALLEST, TYPICAL, LARGEST = np.array([1e-4, 1e-3]), np.array([0.3, 3.0]), np.array([1e3, 1e4])


@dataclass(frozen=True, slots=True)
class PathRule:
    """How a path is followed.

    smoothing: along the path, in nats; the last step has none. guided: steps with at least this smoothing prefer
    typical penalties, with the weight `guide`, and allowances that bind nothing, with a tenth of it. n_evaluations: of
    each step. gain: a relative decrease that is too small for one more evaluation, before the last step. finer: the
    accuracy of answers, as a share of the last misfit, but between `finest` and `coarsest`, relative to their range.
    """

    smoothing: tuple[float, ...] = (0.1, 0.01, 1e-3, 0.0)
    guided: float = 0.01
    guide: float = 0.03
    n_evaluations: int = 10
    gain: float = 1e-3
    finer: float = 1e-4
    finest: float = 1e-11
    coarsest: float = 1e-6


@dataclass(frozen=True, slots=True)
class GuessRule:
    """How a first guess is computed.

    small: the weight that prefers small multipliers where the answers do not determine them. n_evaluations, gain,
    enough: the limits of a search. starts: multipliers to start from. share, shortest: the longest step, this share of
    a variable, or this. readings: multipliers from the first of these shares of the largest on are paid in full, and up
    to the second not at all.
    """

    small: float = 1e-4
    n_evaluations: int = 10
    gain: float = 1e-3
    enough: float = 1e-6
    starts: tuple[float, ...] = (0.1, 1.0)
    share: float = 0.6
    shortest: float = 0.5
    readings: tuple[tuple[float, float], ...] = ((0.7, 0.1), (0.5, 0.5), (np.inf, 0.05))


PATH, GUESS = PathRule(), GuessRule()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The answers seen of a learner. Evidence with the same numbers, of one domain, is equal.

    shown: the lessons, d_r numbers each. seen: the answers, d numbers each, of which the first n_seen were seen. bias:
    how far the end of samples may have moved each. n_trajectories: each answer is the mean of this many; 0 where it is
    exact.
    """

    domain: Domain
    scales: Scales
    shown: tuple[tuple[float, ...], ...]
    seen: tuple[tuple[float, ...], ...]
    bias: tuple[tuple[float, ...], ...]
    n_seen: int
    n_trajectories: int = 0

    @property
    def is_sampled(self) -> bool:
        return self.n_trajectories > 0

    @property
    def before(self) -> "Evidence":
        """All answers but the last."""
        return replace(self, shown=self.shown[:-1], seen=self.seen[:-1], bias=self.bias[:-1])


class Parameters(NamedTuple):
    """C_r, C_c and delta (d_c,); an infinite delta is a preference that the learner does not have."""

    mismatch_penalty: float
    violation_penalty: float
    violation_allowance: Vector

    def equals(self, other: "Parameters") -> bool:
        is_same = (self.violation_allowance == other.violation_allowance).all()
        return self[:2] == other[:2] and bool(is_same)


@dataclass(frozen=True, slots=True, eq=False)
class WeighedAnswer:
    """One answer. shown: (d_r,), mu_hat. target: (d,), mu, any number where it was not seen. weight: (m, d), W.
    matched: (m,), weights of the features seen whose soft policy has this expectation. n_told: how many of the m
    numbers vary between samples; those of features that are hardly met do not. allowed: (m,), what bias may add to W
    (mu - mu_hat).
    """

    shown: Vector
    target: Vector
    weight: Matrix
    matched: Vector
    n_told: float
    allowed: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """parameters: theta; an infinite allowance is a preference that no answer needs. cost: 1/2 |r|^2, of the misfits r
    beyond what the bias of samples allows. jacobian: (M, 2 + d_c), dr / d theta. answers: (n, d), mu of the fitted
    learner. paid: (n, d_c), its multipliers. at_limit: whether C_r or C_c is the least or the largest searched.
    """

    parameters: Parameters
    cost: float
    jacobian: Matrix
    answers: Matrix
    paid: Matrix
    at_limit: tuple[bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """enough: a cost that counts as exact. gain: a relative decrease that is too small for a step of the last part of a
    path. good: a cost that the answers do not reject. rough: a cost after which few paths are followed: one more
    answer tells more. n_least: how many paths to follow, even if the first is good. n_few: the few.
    """

    enough: float
    gain: float
    good: float
    rough: float
    n_least: int
    n_few: int


Search = LeastSquares[Answers]


@dataclass(frozen=True, slots=True, eq=False)
class FitProblem:
    """The search over u = theta / unit. answers: those of the evidence."""

    evidence: Evidence
    answers: tuple[WeighedAnswer, ...]

    @property
    def domain(self) -> Domain:
        return self.evidence.domain

    @property
    def unit(self) -> Vector:
        """(2 + d_c,), the units of C_r, C_c and delta."""
        reward, preference = np.split(self.evidence.scales.unit, [self.domain.n_reward])
        sizes = np.array([reward.max(), preference.max(initial=0.0) or 1.0])
        return np.concatenate([self.domain.mdp.steps / sizes, preference])

    @property
    def most(self) -> Vector:
        """(d_c,), the largest mu_c: an allowance there is no preference."""
        scales, d_r = self.evidence.scales, self.domain.n_reward
        return np.maximum(scales.high[d_r:], 0.0) + scales.slack[d_r:]

    @property
    def limits(self) -> tuple[Vector, Vector]:
        """Both ends of u."""
        no_preference = self.most / self.unit[2:]
        return np.append(SMALLEST, np.zeros(len(no_preference))), np.append(LARGEST, no_preference)

    def near(self, u: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from u."""
        longest, (lower, upper) = np.concatenate([0.6 * u[:2], np.full(len(u) - 2, 0.25)]), self.limits
        return np.maximum(lower, u - longest), np.minimum(upper, u + longest)

    def inside(self, parameters: Parameters) -> Vector:
        """u of some parameters, moved into the limits."""
        penalty, violation, allowance = parameters
        theta = np.concatenate([[penalty, violation], np.minimum(allowance, self.most)])
        return np.asarray(np.clip(theta / self.unit, *self.limits))

    def search(self, start: Vector, smoothing: tuple[float, ...], near: Answers | None, goal: Goal) -> Search:
        """The end of a path. near: answers of other parameters to the first lessons, or to all, to start from."""
        u, last = start, near
        for tau in smoothing:
            end = least_squares(
                partial(self.evaluate, tau=tau),
                u,
                self.near,
                enough=goal.enough,
                gain=goal.gain if tau == smoothing[-1] else PATH.gain,
                max_evaluations=PATH.n_evaluations,
                source=last,
            )
            u, last = end.answer.x, end.answer.here.source
        return end

    def evaluate(self, u: Vector, last: Answers | None, tau: float) -> Residuals[Answers]:
        """The weighted misfits of all answers and their derivative in u. tau: the smoothing."""
        shown = np.array([answer.shown for answer in self.answers])
        found = answers_of(self.domain, self.unit * u, shown, tau, last, accuracy=tau or self._accuracy(last))
        pairs = list(zip(self.answers, found.expectation, found.slopes, strict=True))
        values = [answer.weight @ (mu - answer.target) for answer, mu, _ in pairs]
        slopes = [answer.weight @ slope * self.unit for answer, _, slope in pairs]
        if tau >= PATH.guided:
            guide = PATH.guide * np.concatenate([1 / TYPICAL, np.full(len(u) - 2, 0.1)])
            values.append(guide * (u - np.concatenate([TYPICAL, self.limits[1][2:]])))
            slopes.append(np.diag(guide))
        return Residuals(np.concatenate(values), np.vstack(slopes), found)

    def _accuracy(self, last: Answers | None) -> float:
        """The error of answers, relative to their range, that is small beside the last misfit."""
        if last is None:
            return PATH.coarsest
        pairs = zip(self.answers, last.expectation, strict=False)
        misfit = max(float(np.abs(answer.weight @ (mu - answer.target)).max(initial=0.0)) for answer, mu in pairs)
        return min(max(PATH.finer * misfit, PATH.finest), PATH.coarsest)

    def described(self, end: Search) -> Fit:
        """The fit at the end of a path. An allowance that no answer depends on is infinite, or below every mu_c."""
        answers, d_r = end.answer.here.source, self.domain.n_reward
        theta, jacobian = answers.theta.copy(), end.answer.here.jacobian / self.unit
        done = answers.expectation
        for j in range(self.domain.n_preference):
            is_absent = (answers.paid[:, j] <= SURFACE * theta[1]).all()
            if is_absent or (answers.paid[:, j] >= (1 - SURFACE) * theta[1]).all():
                theta[2 + j] = np.inf if is_absent else 0.5 * float(done[:, d_r + j].min())
                jacobian[:, 2 + j] = 0.0
        parameters = Parameters(float(theta[0]), float(theta[1]), freeze(theta[2:]))
        # A fit of the earlier answers has fewer.
        pairs = zip(self.answers, done, strict=False)
        misfits = np.array([np.abs(answer.weight @ (mu - answer.target)) - answer.allowed for answer, mu in pairs])
        cost = 0.5 * float((np.maximum(misfits, 0.0) ** 2).sum())
        at_limit = (end.answer.x[:2] <= SMALLEST) | (end.answer.x[:2] >= LARGEST)
        return Fit(parameters, cost, jacobian, done, answers.paid, tuple(at_limit.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class SharedProgram:
    """The program of the first guess, in z = (C_r, q, free a) in the units of `FitProblem`.

    signs: (n, d_r), zero where a is free.
    """

    problem: FitProblem
    signs: Matrix

    @property
    def is_free(self) -> Flags:
        return np.asarray(self.signs == 0)

    def lift(self, i: int) -> Matrix:
        """(d, len(z)), the weights of answer i as a linear function of z."""
        d_r, d_c, unit = self.problem.domain.n_reward, self.problem.domain.n_preference, self.problem.unit
        free, before = np.flatnonzero(self.is_free[i]), 1 + d_c + int(self.is_free[:i].sum())
        lift = np.zeros((d_r + d_c, 1 + d_c + int(self.is_free.sum())))
        lift[:d_r, 0] = unit[0] * self.signs[i]
        lift[d_r:, 1 : 1 + d_c] = -unit[1] * np.eye(d_c)
        lift[free, before + np.arange(len(free))] = unit[0]
        return lift

    def evaluate(self, z: Vector, last: SoftExpansions | None) -> Residuals[SoftExpansions]:
        """The weighted misfits and their derivative in z."""
        domain, seen = self.problem.domain, self.problem.answers
        lifts = np.array([self.lift(i) for i in range(len(seen))])
        soft = soft_expansions(domain.mdp, combined_features(domain), lifts @ z, accuracy=1e-9, near=last)
        values = [answer.weight @ (mu - answer.target) for answer, mu in zip(seen, soft.expectation, strict=True)]
        slopes = [answer.weight @ slope for answer, slope in zip(seen, soft.jacobian @ lifts, strict=True)]
        values.append(GUESS.small * z)
        slopes.append(GUESS.small * np.eye(len(z)))
        return Residuals(np.concatenate(values), np.vstack(slopes), soft)

    def near(self, z: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from z."""
        d_c, longest = self.problem.domain.n_preference, np.maximum(GUESS.share * np.abs(z), GUESS.shortest)
        n_free = len(z) - 1 - d_c
        lower = np.concatenate([SMALLEST[:1], np.zeros(d_c), np.full(n_free, -LARGEST[0])])
        upper = np.concatenate([LARGEST[:1], np.full(d_c, LARGEST[1]), np.full(n_free, LARGEST[0])])
        return np.maximum(lower, z - longest), np.minimum(upper, z + longest)

    def minimum(self) -> LeastSquares[SoftExpansions]:
        """The best z from any of the starts."""
        ends = list[LeastSquares[SoftExpansions]]()
        for multiplier in GUESS.starts:
            q = np.full(self.problem.domain.n_preference, multiplier)
            start = np.concatenate([TYPICAL[:1], q, np.zeros(int(self.is_free.sum()))])
            end = least_squares(
                self.evaluate,
                start,
                self.near,
                enough=GUESS.enough,
                gain=GUESS.gain,
                max_evaluations=GUESS.n_evaluations,
            )
            ends.append(end)
            if end.value <= GUESS.enough:
                break
        return min(ends, key=lambda end: end.value)


def guesses(problem: FitProblem, matched: float) -> list[tuple[Vector, Answers]]:
    """u of learners that give about these answers, one for each reading of the multipliers, and about their answers.

    matched: an answer this close to its lesson, relative to the range of the feature, matches it.
    """
    domain, d_c = problem.domain, problem.domain.n_preference
    apart = np.array([(answer.shown - answer.target[: domain.n_reward]) for answer in problem.answers])
    is_missed = np.abs(apart) > matched * problem.evidence.scales.unit[: domain.n_reward]
    best = SharedProgram(problem, np.where(is_missed, np.sign(apart), 0.0)).minimum()
    q = best.answer.x[1 : 1 + d_c]
    largest = max(float(q.max(initial=0.0)), float(SMALLEST[1]))
    done = best.answer.here.source.expectation[:, domain.n_reward :].mean(axis=0) / problem.unit[2:]
    learners = []
    for full, absent in GUESS.readings:
        delta = np.where(q >= full * largest, 0.0, np.where(q <= absent * largest, problem.limits[1][2:], done))
        violation = largest if np.isfinite(full) else 1.5 * largest
        u = np.clip(np.concatenate([[best.answer.x[0], violation], delta]), *problem.limits)
        learners.append((u, _as_answers(problem.unit * u, best.answer.here.source, domain.n_reward)))
    return learners


def _as_answers(theta: Vector, soft: SoftExpansions, d_r: int) -> Answers:
    """Soft policies near the answers of a learner, as a warm start."""
    low = np.where(np.arange(soft.weights.shape[1]) < d_r, -1.0, 0.0)
    size = np.where(low < 0, theta[0], -theta[1])
    unmoved = np.zeros((*soft.weights.shape, len(theta)))
    return Answers(theta, np.clip(soft.weights / size, low, 1.0), soft.expectation, soft, unmoved, unmoved)
