"""The parameters of a soft learner by least squares over all its answers: for answers of which only mu_r is seen, and
for answers known from samples.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

mu(theta; mu_hat) is the learner's own answer, and its derivative is exact (`sensitivity`). The problem is not convex,
and where a preference is paid for in full the answer does not depend on delta_j at all. So the search starts from
several learners: without preferences, with all of them, and from a relaxation in which every preference has a penalty
c_j of its own and no allowance,

    the answer is the soft policy of (a, -c),      a = argmin over |a_k| <= C_r of P0 @ V(a, -c) - a @ mu_hat

whose answer is smooth in c. Its solution stands for the learner with C_c = max c, no preference where c_j is near zero,
and delta_j = the relaxed learner's least mu_c[j] where c_j is between.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.learners.dual import SoftProgram
from tutelage.learners.entropy import SoftLearner
from tutelage.learners.penalties import Mismatch
from tutelage.learners.recovery import Scales
from tutelage.learners.sensitivity import response_derivative
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged, TutelageError
from tutelage.roles import Lesson, Response
from tutelage.solvers.blocks import SURFACE
from tutelage.solvers.least_squares import LeastSquares, Residuals, least_squares
from tutelage.solvers.soft_expectations import SoftExpansion

# The penalties searched, in units of one over the range of a feature.
SMALLEST, LARGEST = 1e-2, 1e4
# C_r and C_c at the starts, in units of one over the range of the reward features.
START = 30.0
# The most evaluations of one search.
MAX_EVALUATIONS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One answer. shown: (d_r,), mu_hat. target: (d,), mu, any number where it was not seen. weight: (m, d), W."""

    shown: Vector
    target: Vector
    weight: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """penalty, violation, allowance: theta; an allowance at the largest mu_c of any policy is a preference that is not
    there. cost: 1/2 |r|^2. jacobian: (M, 2 + d_c), dr / d theta. answers: (n, d), mu of the fitted learner. paid:
    (n, d_c), its multipliers.
    """

    penalty: float
    violation: float
    allowance: Vector
    cost: float
    jacobian: Matrix
    answers: Matrix
    paid: Matrix


def fit_learner(
    domain: Domain, scales: Scales, seen: Sequence[Seen], *, enough: float, n_refined: int, n_toggled: int
) -> Fit:
    """The best fit. enough: a cost that counts as exact. n_refined: how many starts are refined. n_toggled: how often
    single preferences are switched on and off in search of a better fit.
    """
    problem = _Problem(domain, scales, tuple(seen))
    best = problem.refined([problem.inside(theta) for theta in problem.starts()], n_refined, enough)
    for _ in range(n_toggled):
        if best.residuals.cost <= enough:
            break
        other = problem.refined(problem.toggled(best), 1, enough)
        if other.residuals.cost >= 0.999 * best.residuals.cost:
            break
        best = other
    return problem.described(best)


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

    def inside(self, theta: Vector) -> Vector:
        """u of a theta, moved into the limits."""
        u = np.concatenate(
            [np.log(theta[:2]), np.minimum(theta[2:], self.most) / self.scales.unit[self.domain.n_reward :]]
        )
        return np.asarray(np.clip(u, *self.limits))

    def theta(self, u: Vector) -> Vector:
        return np.concatenate([np.exp(u[:2]), u[2:] * self.scales.unit[self.domain.n_reward :]])

    def learner(self, u: Vector) -> SoftLearner:
        theta = self.theta(u)
        return SoftLearner(
            self.domain, mismatch_penalty=theta[0], violation_penalty=theta[1], violation_allowance=theta[2:]
        )

    def evaluate(self, u: Vector, last: tuple[Response, ...] | None) -> Residuals[tuple[Response, ...]]:
        """The weighted misfits of all answers and their derivative in u."""
        learner, theta = self.learner(u), self.theta(u)
        chain = np.concatenate([theta[:2], self.scales.unit[self.domain.n_reward :]])
        answers, values, slopes = [], [], []
        for i, one in enumerate(self.seen):
            answer = learner.respond(Lesson.from_expectation(one.shown), start=None if last is None else last[i])
            values.append(one.weight @ (answer.expectation.both - one.target))
            slopes.append(one.weight @ response_derivative(learner, answer) * chain)
            answers.append(answer)
        return Residuals(np.concatenate(values), np.vstack(slopes), tuple(answers))

    def cost(self, u: Vector) -> float:
        try:
            return self.evaluate(u, None).cost
        except TutelageError:
            return np.inf

    def refined(self, starts: Sequence[Vector], n: int, enough: float) -> LeastSquares[tuple[Response, ...]]:
        """The best of the searches from the n most promising starts."""
        ranked = sorted(starts, key=self.cost)
        found = []
        for start in ranked[:n]:
            with suppress(TutelageError):
                found.append(self._searched(start, enough))
                if found[-1].residuals.cost <= enough:
                    break
        if not found:
            raise NotConverged("no soft learner near the starts gives an answer", residual=np.inf, n_steps=0)
        return min(found, key=lambda one: one.residuals.cost)

    def _searched(self, start: Vector, enough: float) -> LeastSquares[tuple[Response, ...]]:
        low, high = self.limits
        return least_squares(self.evaluate, start, low, high, enough=enough, max_evaluations=MAX_EVALUATIONS)

    def toggled(self, best: LeastSquares[tuple[Response, ...]]) -> list[Vector]:
        """The best learner with one preference changed: without it, with it in full, or with it just binding."""
        least = np.array([answer.expectation.preference for answer in best.residuals.source]).min(axis=0)
        changed = []
        for j in range(self.domain.n_preference):
            for allowance in (0.0, 0.5 * least[j], self.most[j]):
                u = best.x.copy()
                u[2 + j] = allowance / self.scales.unit[self.domain.n_reward + j]
                if abs(u[2 + j] - best.x[2 + j]) > 1e-3:
                    changed.append(u)
        return changed or [best.x]

    def described(self, found: LeastSquares[tuple[Response, ...]]) -> Fit:
        theta, answers = self.theta(found.x), found.residuals.source
        chain = np.concatenate([theta[:2], self.scales.unit[self.domain.n_reward :]])
        done = np.array([answer.expectation.both for answer in answers])
        paid = np.array([answer.multipliers.preference for answer in answers])
        allowance = np.where(theta[2:] >= self.most * (1 - 1e-9), np.inf, theta[2:])
        jacobian = found.residuals.jacobian / chain
        return Fit(float(theta[0]), float(theta[1]), allowance, found.residuals.cost, jacobian, done, paid)

    def starts(self) -> list[Vector]:
        """theta of: the relaxed learner fitted from weak to strong preferences, none at all, and all in full."""
        penalty = START / float(self.scales.unit[: self.domain.n_reward].max())
        absent, zero = self.most, np.zeros(self.domain.n_preference)
        found = [np.concatenate([[penalty, penalty], absent]), np.concatenate([[penalty, penalty], zero])]
        for share in (0.03, 0.3, 1.0):
            try:
                found = [*self._relaxed(penalty, share * penalty), *found]
            except TutelageError:
                continue
        return found

    def _relaxed(self, penalty: float, each: float) -> list[Vector]:
        """theta of the relaxed learner, fitted from C_r and c_j = each."""
        d_c, unit = self.domain.n_preference, self.scales.unit[self.domain.n_reward :]
        start = np.concatenate([[np.log(penalty)], np.full(d_c, each) * unit])
        lower = np.concatenate([self.limits[0][:1], np.zeros(d_c)])
        upper = np.concatenate([self.limits[1][:1], np.full(d_c, LARGEST)])
        fitted = least_squares(self._relaxation, start, lower, upper, enough=1e-16, max_evaluations=MAX_EVALUATIONS)
        prices, answers = fitted.x[1:] / unit, np.array([soft.expectation for soft in fitted.residuals.source])
        violation = float(prices.max(initial=0.0)) or 1 / float(unit.max(initial=1.0))
        least = answers[:, self.domain.n_reward :].min(axis=0)
        partly = np.where(prices < 0.05 * violation, self.most, np.where(prices > 0.95 * violation, 0.0, least))
        fully = np.where(prices < 0.3 * violation, self.most, 0.0)
        head = [np.exp(fitted.x[0]), violation]
        return [np.concatenate([head, partly]), np.concatenate([head, fully])]

    def _relaxation(self, u: Vector, last: tuple[SoftExpansion, ...] | None) -> Residuals[tuple[SoftExpansion, ...]]:
        """The misfits of the relaxed learner at u = (log C_r, c * unit), and their derivative."""
        domain, d_r, d_c = self.domain, self.domain.n_reward, self.domain.n_preference
        penalty, unit = float(np.exp(u[0])), self.scales.unit[self.domain.n_reward :]
        base, lift = np.concatenate([np.zeros(d_r), -u[1:] / unit]), np.eye(d_r + d_c)[:, :d_r]
        values, slopes, softs = [], [], []
        for i, one in enumerate(self.seen):
            program = SoftProgram(domain, base, lift, one.shown, [Mismatch(norm=1, penalty=penalty).block(domain)])
            found = program.minimise(np.zeros(d_r) if last is None else last[i].weights[:d_r])
            soft, a = found.expansion.source, found.x
            at_limit = np.abs(a) >= (1 - SURFACE) * penalty
            moved = np.zeros((d_r + d_c, 1 + d_c))
            moved[:d_r, 0] = np.where(at_limit, np.sign(a) * penalty, 0.0)
            moved[d_r:, 1:] = -np.diag(1 / unit)
            free = np.flatnonzero(~at_limit)
            pushed = soft.jacobian[free] @ moved
            moved[free] = -np.linalg.pinv(soft.jacobian[np.ix_(free, free)], hermitian=True) @ pushed
            values.append(one.weight @ (soft.expectation - one.target))
            slopes.append(one.weight @ soft.jacobian @ moved)
            softs.append(soft)
        return Residuals(np.concatenate(values), np.vstack(slopes), tuple(softs))
