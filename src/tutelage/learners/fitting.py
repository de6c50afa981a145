"""The parameters of a soft learner by least squares over all its answers: for answers of which only mu_r is seen, and
for answers known from samples.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

mu(theta; mu_hat) is the learner's own answer, and its derivative is exact (`sensitivity`). The answer is continuous in
theta, with kinks, and it has flats: delta_j changes nothing while y_j is zero in every answer, nor while y_j = C_c in
every answer. A flat ends at a kink, delta_j = the largest or the least mu_c[j] of the answers. So on a flat delta_j is
moved to its kink, which changes no answer, and the derivative is that of the far side. A step of the search then
switches a preference on or off where that helps.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.learners.dual import SoftProgram
from tutelage.learners.recovery import Scales
from tutelage.learners.sensitivity import beyond_kink, moves, signs
from tutelage.mdp.model import Domain
from tutelage.outcomes import Ended, NotConverged, TutelageError
from tutelage.solvers.blocks import SURFACE, Block
from tutelage.solvers.least_squares import LeastSquares, Residuals, least_squares
from tutelage.solvers.soft_expectations import SoftExpansion

# The penalties searched, in units of one over the range of a feature.
SMALLEST, LARGEST = 1e-2, 1e3
# C_r at some starts, in units of one over the range of the reward features.
TYPICAL = 30.0
# C_c at the starts, as a share of C_r, and delta, as a share of the largest mu_c of any policy.
SHARES = ((0.3, 0.0), (1.0, 0.2), (1.0, 1.0))
# The evaluations of each search, and the further ones of the closest.
FIRST, LAST = 4, 18
# Searches whose misfits differ by less than this, relative to them, find the same fit.
APART = 0.2
# The evaluations of a search for an alternative.
ALTERNATIVE = 6
# With at least this many answers, one search starts from the best fit of the earlier ones.
WARM = 2
# The longest step of log C_r and log C_c; a third of it is that of delta, in units of the range of mu_c.
LONGEST = 0.7


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
class _Answer:
    """The learner's own x = (a, y), its soft policy, and dx / d theta."""

    x: Vector
    soft: SoftExpansion
    moved: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """The answers to all lessons. theta: (2 + d_c,). paid: (n, d_c)."""

    theta: Vector
    each: tuple[_Answer, ...]
    paid: Matrix


Search = LeastSquares[_Answers]


@lru_cache(maxsize=64)
def fit_learner(domain: Domain, scales: Scales, seen: tuple[Seen, ...], enough: float, gain: float) -> tuple[Fit, ...]:
    """The best fits, the closest first.

    Searches start from the learners of `SHARES` and from the best fit of all answers but the last. After a few steps
    the closest two go on, and one from the closest with its preferences paid in full. enough: a cost that counts as
    exact. gain: a relative decrease that is too small for a step. Cached, so that a teacher's next round continues the
    search of the last one.
    """
    problem = _Problem(domain, scales, seen)
    starts = problem.starts()
    if len(seen) >= WARM:
        with suppress(TutelageError):
            starts = [problem.inside(fit_learner(domain, scales, seen[:-1], enough, gain)[0]), *starts]
    found = problem.continued(problem.begun(starts), enough, gain, FIRST)
    if found:
        found = [*found[:2], *problem.begun([problem.in_full(found[0])])]
        found = problem.continued(found, enough, gain, LAST)
    if not found:
        raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
    return tuple(problem.described(one) for one in found)


def alternatives(domain: Domain, scales: Scales, seen: tuple[Seen, ...], fit: Fit, gain: float) -> tuple[Fit, ...]:
    """Fits near another one in which one preference is absent, or paid for in full."""
    problem = _Problem(domain, scales, seen)
    starts = []
    for j, other in product(range(domain.n_preference), (0.0, np.inf)):
        if fit.allowance[j] != other:
            changed = np.where(np.arange(domain.n_preference) == j, other, fit.allowance)
            starts.append(problem.inside(replace(fit, allowance=changed)))
    found = problem.continued(problem.begun(starts), 0.0, gain, ALTERNATIVE)
    return tuple(problem.described(one) for one in found)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The search over u = (log C_r, log C_c, delta / unit)."""

    domain: Domain
    scales: Scales
    seen: tuple[Seen, ...]

    @property
    def most(self) -> Vector:
        """(d_c,), the largest mu_c: an allowance there is no preference."""
        return np.maximum(self.scales.high[self.domain.n_reward :], 0.0) + self.scales.slack[self.domain.n_reward :]

    @property
    def limits(self) -> tuple[Vector, Vector]:
        """Both ends of u."""
        unit, d_r = self.scales.unit, self.domain.n_reward
        sizes = np.full(2, unit[:d_r].max())
        low = np.concatenate([np.log(SMALLEST / sizes), np.zeros(self.domain.n_preference)])
        return low, np.concatenate([np.log(LARGEST / sizes), self.most / unit[d_r:]])

    def starts(self) -> list[Vector]:
        """u of learners with all preferences and with none; C_r is a typical one, or explains an answer without any."""
        d_r, (lower, upper) = self.domain.n_reward, self.limits
        penalty = max(float(np.abs(one.matched[:d_r]).max()) for one in self.seen)
        typical = TYPICAL / float(self.scales.unit[:d_r].max())
        starts = [
            np.concatenate([np.log([c_r, share * c_r]), allowed * self.most / self.scales.unit[d_r:]])
            for c_r, (share, allowed) in ((penalty, SHARES[0]), *((typical, each) for each in SHARES))
        ]
        paid = -np.array([one.matched[d_r:] for one in self.seen])
        if paid.size and paid.max() > 0:
            absent = paid.max(axis=0) < 0.3 * paid.max()
            delta = np.where(absent, self.most, 0.0) / self.scales.unit[d_r:]
            starts.insert(0, np.concatenate([np.log([penalty, paid.max()]), delta]))
        return [np.clip(start, lower, upper) for start in starts]

    def in_full(self, search: Search) -> Vector:
        """u with C_c the largest mean payment, every preference paid for half as much paid in full, and no other."""
        paid, d_r = search.residuals.source.paid.mean(axis=0), self.domain.n_reward
        most = float(paid.max(initial=0.0))
        delta = np.where(paid >= 0.5 * most, 0.0, self.most) / self.scales.unit[d_r:]
        violation = np.log(most) if most > 0 else search.x[1]
        return np.asarray(np.clip(np.concatenate([[search.x[0], violation], delta]), *self.limits))

    def inside(self, fit: Fit) -> Vector:
        """u of a fit, moved into the limits."""
        delta = np.minimum(fit.allowance, self.most) / self.scales.unit[self.domain.n_reward :]
        return np.asarray(np.clip([*np.log([fit.penalty, fit.violation]), *delta], *self.limits))

    def theta(self, u: Vector) -> Vector:
        return np.concatenate([np.exp(u[:2]), u[2:] * self.scales.unit[self.domain.n_reward :]])

    def begun(self, starts: list[Vector]) -> list[Search]:
        """Searches at their starts; without those where a response cannot be computed."""
        found = list[Search]()
        for start in starts:
            with suppress(TutelageError):
                found.append(LeastSquares(start, self.evaluate(start, None), 1, Ended.STEP_LIMIT))
        return found

    def continued(self, searches: list[Search], enough: float, gain: float, n_evaluations: int) -> list[Search]:
        """The searches after some more evaluations, the closest first; without those that failed."""
        found = list[Search]()
        longest = np.concatenate([[LONGEST, LONGEST], np.full(self.domain.n_preference, LONGEST / 3)])
        for one in searches:
            if one.ended is not Ended.STEP_LIMIT:
                found.append(one)
                continue
            with suppress(TutelageError):
                found.append(
                    least_squares(
                        self.evaluate,
                        one.x,
                        *self.limits,
                        enough=enough,
                        gain=gain,
                        max_evaluations=n_evaluations,
                        longest=longest,
                        moved=self.at_kinks,
                        first=one.residuals,
                    )
                )
        distinct = list[Search]()
        for one in sorted(found, key=lambda one: one.residuals.cost):
            if all(_are_apart(one.residuals.value, other.residuals.value) for other in distinct):
                distinct.append(one)
        return distinct

    def evaluate(self, u: Vector, last: _Answers | None) -> Residuals[_Answers]:
        """The weighted misfits of all answers and their derivative in u."""
        theta, d_r = self.theta(u), self.domain.n_reward
        each = tuple(self._answer(theta, one, last, i) for i, one in enumerate(self.seen))
        answers = _Answers(theta, each, np.array([answer.x[d_r:] for answer in each]))
        chain = np.concatenate([theta[:2], self.scales.unit[d_r:]])
        slopes = self._slopes(answers)
        values = [one.weight @ (mine.soft.expectation - one.target) for one, mine in zip(self.seen, each, strict=True)]
        return Residuals(np.concatenate(values), np.vstack(slopes) * chain, answers)

    def _answer(self, theta: Vector, one: Seen, last: _Answers | None, i: int) -> _Answer:
        """The answer to one lesson, from the last one along its derivative."""
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        sign, near = signs(d_r, d_c), None if last is None else last.each[i].soft
        blocks = [
            Block(np.zeros(d_r), float(theta[0]), np.inf, True, np.arange(d_r)),
            Block(theta[2:], float(theta[1]), np.inf, False, np.arange(d_c)),
        ]
        program = SoftProgram(
            self.domain, np.zeros(d_r + d_c), np.diag(sign), np.concatenate([one.shown, np.zeros(d_c)]), blocks
        )
        start = np.zeros(d_r + d_c)
        if last is not None:
            start = last.each[i].x + last.each[i].moved @ (theta - last.theta)
        try:
            found = program.minimise(start, near)
        except NotConverged:
            found = program.followed()
        soft = found.expansion.source
        hessian = sign[:, None] * soft.jacobian * sign
        return _Answer(found.x, soft, moves(found.x, hessian, d_r, (float(theta[0]), float(theta[1]))))

    def _slopes(self, answers: _Answers) -> list[Matrix]:
        """W d mu / d theta of each answer; on a flat of delta_j that beyond its end."""
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        sign, penalties = signs(d_r, d_c), (float(answers.theta[0]), float(answers.theta[1]))
        moved = [answer.moved.copy() for answer in answers.each]
        for j, _, i in self._flats(answers):
            answer = answers.each[i]
            hessian = sign[:, None] * answer.soft.jacobian * sign
            moved[i][:, 2 + j] = beyond_kink(answer.x, hessian, d_r, penalties, j)
        parts = zip(self.seen, answers.each, moved, strict=True)
        return [one.weight @ answer.soft.jacobian @ (sign[:, None] * way) for one, answer, way in parts]

    def _flats(self, answers: _Answers) -> list[tuple[int, bool, int]]:
        """Each j on whose delta_j no answer depends, whether nothing is paid there, and the answer of the kink."""
        done = np.array([answer.soft.expectation[self.domain.n_reward :] for answer in answers.each])
        found, full = [], (1 - SURFACE) * answers.theta[1]
        for j in range(self.domain.n_preference):
            if (answers.paid[:, j] == 0).all():
                found.append((j, True, int(done[:, j].argmax())))
            elif (answers.paid[:, j] >= full).all():
                found.append((j, False, int(done[:, j].argmin())))
        return found

    def at_kinks(self, u: Vector, answers: _Answers) -> tuple[Vector, Vector, Vector]:
        """u with each delta_j moved from a flat to its end, and the limits that keep it on that side."""
        d_r, (lower, upper) = self.domain.n_reward, self.limits
        u = u.copy()
        for j, is_absent, i in self._flats(answers):
            kink = answers.each[i].soft.expectation[d_r + j] / self.scales.unit[d_r + j]
            u[2 + j] = np.clip(kink, lower[2 + j], upper[2 + j])
            (upper if is_absent else lower)[2 + j] = u[2 + j]
        return u, lower, upper

    def described(self, found: LeastSquares[_Answers]) -> Fit:
        answers, d_r = found.residuals.source, self.domain.n_reward
        theta, chain = answers.theta.copy(), np.concatenate([answers.theta[:2], self.scales.unit[d_r:]])
        jacobian = found.residuals.jacobian / chain
        for j, is_absent, i in self._flats(answers):
            theta[2 + j] = np.inf if is_absent else 0.5 * answers.each[i].soft.expectation[d_r + j]
            jacobian[:, 2 + j] = 0.0
        done = np.array([answer.soft.expectation for answer in answers.each])
        cost = found.residuals.cost
        return Fit(float(theta[0]), float(theta[1]), theta[2:], cost, jacobian, done, answers.paid)


def _are_apart(one: Vector, other: Vector) -> bool:
    return bool(np.linalg.norm(one - other) > APART * np.linalg.norm(one))
