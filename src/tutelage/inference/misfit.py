"""How far a soft learner is from the answers seen, by least squares: from samples, or where only mu_r is seen.

    minimise over theta   1/2 sum over answers of |W (mu(theta; mu_hat) - mu)|^2           theta = (C_r, C_c, delta)

The learner's own answer mu(theta; mu_hat) has kinks and flats, where a search gets stuck. So each search follows a path
of smoothed answers (`answering`). Its first steps slightly prefer typical penalties and no preferences.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze, max_abs
from tutelage.convex.blocks import SURFACE
from tutelage.convex.newton import LeastSquares, Residuals, least_squares
from tutelage.inference.answering import Answers, answers_of
from tutelage.inference.recovery import Scales, feature_scales, rare_variance, sampling_weight
from tutelage.model.mdp import Domain

# The penalties searched and the typical ones, in units of the horizon, which is also the size of the entropy, over the
# largest range of a feature of their kind. The range of a preference is that of seeking its feature for ever, of which
# a learner does a small part.
SMALLEST, TYPICAL, LARGEST = np.array([1e-4, 1e-3]), np.array([0.3, 3.0]), np.array([1e3, 1e4])
# The smoothing along a path, in nats; the last step has none.
SMOOTHING = (0.1, 0.01, 1e-3, 0.0)
# The weighted misfit at which a search ends, and the largest with which a fit explains exact answers.
FITTED, EXPLAINED = 1e-8, 1e-4
# The most evaluations of a step of a path, and of a first guess; and the least relative decrease worth one more.
MOST_EVALUATIONS, LEAST_GAIN = 10, 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A learner theta. cost: 1/2 |r|^2, of the misfits r (M,) beyond what the bias of samples allows. jacobian:
    dr / d theta. answers, paid: (n, d), (n, d_c), mu and multipliers. at_limit: whether C_r, C_c are at a limit.
    """

    theta: Vector
    cost: float
    jacobian: Matrix
    answers: Matrix
    paid: Matrix
    at_limit: tuple[bool, bool]


Search = LeastSquares[Answers]


@dataclass(frozen=True)
class Evidence:
    """The answers seen of a learner, and the search over u = theta / unit for a learner that gives them.

    shown: the lessons, d_r numbers each. seen: the answers, d numbers each, of which the first n_seen were seen. bias:
    how far the end of samples may have moved each. n_trajectories: each answer is the mean of this many; 0 where it is
    exact. Evidence with the same numbers, of one domain, is equal.
    """

    domain: Domain
    shown: tuple[tuple[float, ...], ...]
    seen: tuple[tuple[float, ...], ...]
    bias: tuple[tuple[float, ...], ...]
    n_seen: int
    n_trajectories: int = 0

    @property
    def is_sampled(self) -> bool:
        return self.n_trajectories > 0

    @property
    def scales(self) -> Scales:
        return feature_scales(self.domain)

    @property
    def everything(self) -> Matrix:
        """(2, 2 + d_c), both ends of theta before any answer; an infinite allowance is no preference."""
        return np.repeat([[0.0], [np.inf]], 2 + self.domain.n_preference, axis=1)

    @cached_property
    def target(self) -> Matrix:
        """(n, d), mu; any number where not seen."""
        return np.array(self.seen)

    @cached_property
    def weight(self) -> Matrix:
        """(n, m, d), W: the inverse root of the sampling covariance."""
        if self.is_sampled:
            weights = [sampling_weight(self.domain, seen, self.n_seen, self.n_trajectories) for seen in self.seen]
            return np.array(weights)
        # A variance proportional to the distance from the ends of the range, as that of samples, but never zero.
        share = np.clip((self.target - self.scales.low) / self.scales.unit, 0.0, 1.0)
        size = self.scales.unit * np.sqrt(np.minimum(share, 1 - share) + 1e-3)
        return np.eye(size.shape[1])[: self.n_seen] / size[:, None]

    @property
    def allowed(self) -> Matrix:
        """(n, m), what bias may add to W (mu - mu_hat)."""
        return np.asarray((np.abs(self.weight) @ np.array(self.bias)[:, :, None])[:, :, 0])

    @property
    def good(self) -> float:
        """A cost that the answers do not reject: two standard deviations of samples."""
        if not self.is_sampled:
            return 0.5 * EXPLAINED**2
        # Features that are hardly met do not vary between samples.
        rare = np.sum(self.weight**2 * rare_variance(self.domain, self.n_trajectories))
        n = max(self.weight[:, :, 0].size - float(rare), 1.0)
        return 0.5 * (n + 2 * math.sqrt(2 * n))

    @property
    def unit(self) -> Vector:
        """(2 + d_c,), units of C_r, C_c and delta."""
        reward, preference = np.split(self.scales.unit, [self.domain.n_reward])
        sizes = np.array([reward.max(), preference.max(initial=0.0) or 1.0])
        return np.concatenate([self.domain.mdp.steps / sizes, preference])

    @property
    def most(self) -> Vector:
        """(d_c,), the largest mu_c: an allowance there is no preference."""
        scales, d_r = self.scales, self.domain.n_reward
        return np.maximum(scales.high[d_r:], 0.0) + scales.slack[d_r:]

    @property
    def limits(self) -> tuple[Vector, Vector]:
        """Both ends of u."""
        no_preference = self.most / self.unit[2:]
        return np.append(SMALLEST, np.zeros(len(no_preference))), np.append(LARGEST, no_preference)

    def near(self, u: Vector) -> tuple[Vector, Vector]:
        """Both ends of a step from u."""
        lower, upper = self.limits
        longest = np.append(0.6 * u[:2], np.full(len(u) - 2, 0.25))
        return np.maximum(lower, u - longest), np.minimum(upper, u + longest)

    def inside(self, theta: Vector) -> Vector:
        """u of parameters, moved into the limits."""
        return np.clip(theta / self.unit, *self.limits)

    def search(self, start: Vector, near: Answers | None, smoothing: tuple[float, ...]) -> Search:
        """The end of a path. near: answers of other parameters to the first lessons, or to all, to start from."""
        enough, last_gain = (1e-3, 1e-4) if self.is_sampled else (0.5 * FITTED**2, 1e-10)
        for tau in smoothing:
            evaluate = partial(self.evaluate, tau=tau)
            gain = last_gain if tau == smoothing[-1] else LEAST_GAIN
            end = least_squares(
                evaluate, start, self.near, enough=enough, gain=gain, max_evaluations=MOST_EVALUATIONS, source=near
            )
            start = end.answer.x
            near = end.answer.here.source
        return end

    def evaluate(self, u: Vector, last: Answers | None, tau: float) -> Residuals[Answers]:
        """The weighted misfits of all answers and their derivative in u. tau: the smoothing."""
        accuracy = tau or 1e-6
        if tau == 0 and last is not None:
            # Small beside the last misfit.
            accuracy = min(max(1e-4 * max_abs(self.misfits(last.expectation)), 1e-11), 1e-6)
        answers = answers_of(self.domain, self.unit * u, np.array(self.shown), tau, last, accuracy=accuracy)
        values = self.misfits(answers.expectation).ravel()
        slopes = (self.weight @ answers.slopes * self.unit).reshape(-1, len(u))
        if tau >= 0.01:
            # Slightly prefer typical penalties, and, with a tenth of the weight, allowances that bind nothing.
            usual = np.append(TYPICAL, self.limits[1][2:])
            guide = 0.03 * np.append(1 / TYPICAL, np.full(len(u) - 2, 0.1))
            values = np.append(values, guide * (u - usual))
            slopes = np.vstack([slopes, np.diag(guide)])
        return Residuals(values, slopes, answers)

    def misfits(self, answers: Matrix) -> Matrix:
        """(k, m), W (mu - mu_hat) of answers (k, d) to the first k lessons."""
        k = len(answers)
        return (self.weight[:k] @ (answers - self.target[:k])[:, :, None])[:, :, 0]

    def described(self, end: Search) -> Fit:
        """The fit at the end of a path. An allowance that no answer depends on is infinite, or below every mu_c."""
        answers = end.answer.here.source
        done = answers.expectation
        share = answers.paid / answers.theta[1]
        is_absent = (share <= SURFACE).all(axis=0)
        is_full = (share >= 1 - SURFACE).all(axis=0)
        below = 0.5 * done[:, self.domain.n_reward :].min(axis=0)
        delta = np.where(is_absent, np.inf, np.where(is_full, below, answers.theta[2:]))
        theta = freeze(np.append(answers.theta[:2], delta))
        jacobian = end.answer.here.jacobian / self.unit
        jacobian[:, 2:][:, is_absent | is_full] = 0.0
        # A fit of the earlier answers has fewer.
        beyond = np.maximum(np.abs(self.misfits(done)) - self.allowed[: len(done)], 0.0)
        at_limit = (end.answer.x[:2] <= SMALLEST) | (end.answer.x[:2] >= LARGEST)
        return Fit(theta, 0.5 * float((beyond**2).sum()), jacobian, done, answers.paid, tuple(at_limit.tolist()))
