"""The parameters of a soft learner by least squares over all its answers: for answers of which only mu_r is seen, and
for answers known from samples.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

mu(theta; mu_hat) is the learner's own answer. It is continuous in theta, but it has kinks, and flats: delta_j changes
nothing while y_j is zero in every answer, nor while y_j = C_c in every answer. A search on it stops at the first kink.
So each search follows a path. It first fits smoothed answers (`answering`), in which every parameter has an influence.
It reduces the smoothing step by step to zero, where the derivative is that of `sensitivity`. The first steps slightly
prefer typical penalties and no preferences. A path may end in a local minimum (`fits` has several).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.blocks import SURFACE
from tutelage.convex.least_squares import LeastSquares, Residuals, least_squares
from tutelage.inference.answering import Answers, answers_of
from tutelage.inference.recovery import Scales
from tutelage.model.mdp import Domain

# The penalties searched and the typical ones, in units of the horizon, which is also the size of the entropy, over the
# largest range of a feature of their kind. The range of a preference is that of seeking its feature for ever, of which
# a learner does a small part.
SMALLEST, TYPICAL, LARGEST = np.array([1e-4, 1e-3]), np.array([0.3, 3.0]), np.array([10.0, 100.0])
# The smoothing along a path, in nats; where the last step is none.
PATH: tuple[float, ...] = (0.1, 0.01, 1e-3, 0.0)
# Steps with at least this smoothing prefer typical penalties, by this weight, and allowances that bind nothing, by a
# tenth of it.
GUIDED, PREFERENCE = 0.01, 0.03
# The evaluations of each step of a path, and the relative decrease that is too small for one more.
EVALUATIONS, GAIN = 10, 1e-3
# The accuracy of answers, relative to their range: this share of the last misfit, between these limits.
FINER, FINEST, ROUGHEST = 1e-4, 1e-11, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One answer. shown: (d_r,), mu_hat. target: (d,), mu, any number where it was not seen. weight: (m, d), W.
    matched: (m,), weights of the features seen whose soft policy has this expectation. n_told: how many of the m
    numbers vary between samples; those of features that are hardly met do not.
    """

    shown: Vector
    target: Vector
    weight: Matrix
    matched: Vector
    n_told: float


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
    answer tells more. n_least: how many paths to follow, even if the first is good. n_few: after how many to
    try changes of the best.
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
    """The search over u = theta / unit. least: the least C_r that is searched."""

    domain: Domain
    scales: Scales
    seen: tuple[Seen, ...]
    least: float = 0.0

    @property
    def unit(self) -> Vector:
        """(2 + d_c,), the units of C_r, C_c and delta."""
        reward, preference = np.split(self.scales.unit, [self.domain.n_reward])
        sizes = np.array([reward.max(), preference.max(initial=0.0) or 1.0])
        return np.concatenate([self.domain.mdp.horizon / sizes, preference])

    @property
    def most(self) -> Vector:
        """(d_c,), the largest mu_c: an allowance there is no preference."""
        return np.maximum(self.scales.high[self.domain.n_reward :], 0.0) + self.scales.slack[self.domain.n_reward :]

    @property
    def limits(self) -> tuple[Vector, Vector]:
        """Both ends of u."""
        no_preference = self.most / self.unit[2:]
        least = max(float(SMALLEST[0]), self.least / self.unit[0])
        lower = np.concatenate([[least], SMALLEST[1:], np.zeros(len(no_preference))])
        return lower, np.concatenate([LARGEST, no_preference])

    def near(self, u: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from u."""
        longest, (lower, upper) = np.concatenate([0.6 * u[:2], np.full(len(u) - 2, 0.25)]), self.limits
        return np.maximum(lower, u - longest), np.minimum(upper, u + longest)

    def inside(self, fit: Fit) -> Vector:
        """u of a fit, moved into the limits."""
        theta = np.concatenate([[fit.penalty, fit.violation], np.minimum(fit.allowance, self.most)])
        return np.asarray(np.clip(theta / self.unit, *self.limits))

    def search(self, start: Vector, path: tuple[float, ...], near: Answers | None, goal: Goal) -> Search:
        """The end of a path. near: answers of other parameters to the first lessons, or to all, to start from."""
        u, last = start, near
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

    def evaluate(self, u: Vector, last: Answers | None, tau: float) -> Residuals[Answers]:
        """The weighted misfits of all answers and their derivative in u. tau: the smoothing."""
        shown = np.array([one.shown for one in self.seen])
        answers = answers_of(self.domain, self.unit * u, shown, tau, last, accuracy=tau or self._accuracy(last))
        values = [one.weight @ (mu - one.target) for one, mu in zip(self.seen, answers.expectation, strict=True)]
        slopes = [one.weight @ slope * self.unit for one, slope in zip(self.seen, answers.slopes, strict=True)]
        if tau >= GUIDED:
            guide = PREFERENCE * np.concatenate([1 / TYPICAL, np.full(len(u) - 2, 0.1)])
            values.append(guide * (u - np.concatenate([TYPICAL, self.limits[1][2:]])))
            slopes.append(np.diag(guide))
        return Residuals(np.concatenate(values), np.vstack(slopes), answers)

    def _accuracy(self, last: Answers | None) -> float:
        """The error of answers, relative to their range, that is small beside the last misfit."""
        if last is None:
            return ROUGHEST
        pairs = zip(self.seen, last.expectation, strict=False)
        misfit = max(float(np.abs(one.weight @ (mu - one.target)).max(initial=0.0)) for one, mu in pairs)
        return min(max(FINER * misfit, FINEST), ROUGHEST)

    def described(self, found: Search) -> Fit:
        """The fit at the end of a path. An allowance that no answer depends on is infinite, or below every mu_c."""
        answers, d_r = found.residuals.source, self.domain.n_reward
        theta, jacobian = answers.theta.copy(), found.residuals.jacobian / self.unit
        done = answers.expectation
        for j in range(self.domain.n_preference):
            is_absent = (answers.paid[:, j] <= SURFACE * theta[1]).all()
            if is_absent or (answers.paid[:, j] >= (1 - SURFACE) * theta[1]).all():
                theta[2 + j] = np.inf if is_absent else 0.5 * float(done[:, d_r + j].min())
                jacobian[:, 2 + j] = 0.0
        return Fit(float(theta[0]), float(theta[1]), theta[2:], found.residuals.cost, jacobian, done, answers.paid)
