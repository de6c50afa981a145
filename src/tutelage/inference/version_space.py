"""Every learner that would have given the answers seen: intervals for C_r, C_c and each delta_j (docs/inference.md).

One exact answer (`recovery`) confines its unknowns x to a polytope: |q @ (x - point)| <= error along each direction
that it determines, |a_k| <= C_r and 0 <= b_j <= C_c. The optimality conditions turn it into statements about theta =
(C_r, C_c, delta), and statements about theta into further rows of the polytope, until nothing changes (`narrowed`):

    b_j > 0           =>   delta_j <= mu_c[j]              mu_c[j] > delta_j   =>   b_j = C_c
    b_j < C_c         =>   delta_j >= mu_c[j]              mu_c[j] < delta_j   =>   b_j = 0

Other answers are fitted (`fit_search`). The misfits of samples are weighted by W = S^-1/2 (`misfit`), so that at the
true parameters they are independent with variance one. With J their derivative in theta,

    Cov(theta) = (J'J)^-1,           95 % intervals: 1.96 standard errors to both sides,

and what the bias e of samples that end early may add: |pinv(J)| |W| e. Where only mu_r is seen, exactly, the error of
theta is |pinv(J)| times the error of the answers. An interval contains those of all fits found whose sum of squares is
within 1.96^2 of the least.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze, max_abs
from tutelage.convex.blocks import SURFACE
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.inference.fit_search import fits_near
from tutelage.inference.misfit import FITTED, Evidence, Fit
from tutelage.inference.recovery import Answer, Scales
from tutelage.outcomes import NotConverged, TutelageError

PROGRAM_ACCURACY = 1e-7
# The 97.5 % quantile of the normal distribution.
QUANTILE = 1.959963985


class Contradiction(TutelageError):
    """No soft learner gives these answers; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An answer within a version space. high: (d_c,), the largest possible b. least: (d_c,), the b of least sum."""

    answer: Answer
    high: Vector
    least: Vector


def narrowed(answers: Sequence[Answer], scales: Scales, within: Matrix) -> tuple[Matrix, list[Explained]]:
    """The version space of the answers within another, and each answer in it; `Contradiction` where it is empty."""
    space, explained = within, list[Explained]()
    for _ in range(6):
        before, explained = space, []
        for number, answer in enumerate(answers, start=1):
            try:
                space, reason = _narrowed_by(space, answer, scales)
            except InfeasibleProgram:
                raise Contradiction(
                    f"the answer of round {number} contradicts the optimality conditions of a soft learner, "
                    "given the other rounds"
                ) from None
            explained.append(reason)
        if np.allclose(space, before, rtol=1e-9, atol=0.0):
            break
    return space, explained


def _narrowed_by(space: Matrix, answer: Answer, scales: Scales) -> tuple[Matrix, Explained]:
    """The space within what one answer allows."""
    program = _Polytope.of(space, answer, scales)
    n, d_r = len(answer.point), len(answer.shown)
    done = answer.seen[d_r:]
    slack = scales.slack[d_r:] + answer.blur
    paid = slice(n - len(done), n)
    ends = np.array([program.range_of(k) for k in range(paid.start, n + 2)]).T
    b_low, b_high = ends[:, :-2]
    least = np.maximum(ends[0, -2:], space[0, :2])
    most = np.minimum(ends[1, -2:], space[1, :2])
    fuzz = 10 * PROGRAM_ACCURACY * (1 / scales.unit[d_r:] + b_low)
    is_paid = b_low > fuzz
    # At the least C_c that the answers allow, where the space is bounded by it.
    is_below = b_high < least[1] - fuzz
    low = np.where(is_below, np.maximum(space[0, 2:], done - slack), space[0, 2:])
    high = np.where(is_paid, np.minimum(space[1, 2:], done + slack), space[1, 2:])
    if (low > high).any() or least[1] > most[1] * (1 + PROGRAM_ACCURACY):
        raise InfeasibleProgram("no delta or C_c is left")
    smaller = freeze(np.array([np.append(least, low), np.append(most, high)]))
    # The b of least sum: what the answer does not need counts as absent.
    point = answer.point
    with suppress(NotConverged):
        point = program.least(np.repeat([0.0, 1.0, 0.0, 1e-3], [paid.start, len(done), 1, 1]))
    return smaller, Explained(answer, b_high, point[paid] / answer.unit[paid])


@dataclass(frozen=True, slots=True, eq=False)
class _Polytope:
    """The unknowns (x, C_r, C_c) of one answer, in units `scale`, by their distance from `near`.

    HiGHS drops coefficients below 1e-12. Times the distance, they are less than the error of any row. far: the limit of
    the unknowns; an end of an interval that reaches it is infinite.
    """

    near: Vector
    constraints: LinearConstraints
    scale: Vector
    far: float

    @classmethod
    def of(cls, space: Matrix, answer: Answer, scales: Scales) -> "_Polytope":
        n, d_r = len(answer.point), len(answer.shown)
        d_c = len(answer.seen) - d_r
        done = answer.seen[d_r:]
        slack = scales.slack[d_r:] + answer.blur
        # C_r and C_c in the smallest unit of the features that they limit: in any other, theirs is lost in rounding.
        smallest = [scales.unit[:d_r].min(), scales.unit[d_r:].min(initial=np.inf) if d_c else 1.0]
        scale = np.append(answer.unit, smallest)
        far = 1e4 * (1 + max_abs(answer.point))
        # C_r is both the first unknown, where a feature is missed, and a column of its own.
        first = int(answer.missed.any())
        unknown, small = np.eye(n + 2) / scale, PROGRAM_ACCURACY / scale
        free, paid = slice(0, n - d_c), slice(n - d_c, n)
        c_r, c_c = unknown[n:]
        b, little = unknown[paid], small[paid]
        is_full = done > space[1, 2:] + slack
        is_absent = done < space[0, 2:] - slack
        along = np.pad(answer.directions, ((0, 0), (0, 2)))
        centre = answer.directions @ answer.point
        margin = answer.error + PROGRAM_ACCURACY / 10
        most = np.append(np.full(n, far), np.minimum(space[1, :2] * scale[n:] * (1 + PROGRAM_ACCURACY), 100 * far))
        most[paid] = np.where(is_absent, 0.0, far)
        parts: list[tuple[Matrix, Vector]] = [
            (along, centre + margin),
            (-along, margin - centre),
            (unknown[free] - c_r, small[free]),
            (c_r - unknown[:first], small[:first]),
            (-unknown[free][first:] - c_r, small[free][first:]),
            (b - c_c, little),
            (c_c - b[is_full], little[is_full]),
            (np.eye(n + 2), most + PROGRAM_ACCURACY),
        ]
        rows, bound = (np.concatenate(part) for part in zip(*parts, strict=True))
        lower = np.zeros(n + 2)
        lower[first : n - d_c] = -far
        lower[paid] = answer.floor * answer.unit[paid] * (1 - PROGRAM_ACCURACY)
        lower[n:] = np.maximum(space[0, :2] * scale[n:] * (1 - PROGRAM_ACCURACY) - PROGRAM_ACCURACY, 0.0)
        near = np.append(answer.point, np.zeros(2))
        return cls(near, LinearConstraints(lower - near, within=rows, bound=bound - rows @ near), scale, far)

    def least(self, slope: Vector) -> Vector:
        return self.near + minimise_linear(slope, self.constraints).answer.x

    def range_of(self, k: int) -> Vector:
        """(2,), the least and the largest value of one unknown; infinite where the limit is reached."""
        row = np.eye(len(self.scale))[k]
        low, high = 0.0, self.far
        # A program that the solver gives up on proves nothing: its end stays open.
        with suppress(NotConverged):
            low = float(self.least(row)[k])
        with suppress(NotConverged):
            high = float(self.least(-row)[k])
        least = max(low - PROGRAM_ACCURACY, 0.0)
        most = np.inf if high >= 0.9 * self.far else high + PROGRAM_ACCURACY
        return np.array([least, most]) / float(self.scale[k])


def _optimistic_theta(fit: Fit) -> Vector:
    """The learner that gives the answers of a fit, with the least C_c and the largest allowances."""
    theta = fit.theta.copy()
    is_full = (fit.paid >= (1 - SURFACE) * theta[1]).all(axis=0)
    least = fit.answers[:, fit.answers.shape[1] - fit.paid.shape[1] :].min(axis=0)
    theta[2:] = np.where(is_full, least, theta[2:])
    theta[1] = min(theta[1], fit.paid.max(initial=0.0) or np.inf)
    return theta


def rivals_of(evidence: Evidence, best: Fit, others: Sequence[Fit]) -> tuple[Vector, ...]:
    """theta of learners that explain the answers too: the most optimistic one of each fit, and the other fits."""
    likely = [best, *(fit for fit in others if _is_likely(fit, best, evidence))]
    rivals = [best.theta, *map(_optimistic_theta, likely), *(fit.theta for fit in likely)]
    return tuple({theta.tobytes(): theta for theta in rivals}.values())[1:]


def misfit_of(fit: Fit, evidence: Evidence) -> str:
    """Why no soft learner explains the answers, or an empty string. Samples reject 6 standard deviations."""
    freedom = max(fit.jacobian.shape[0] - fit.jacobian.shape[1], 1)
    excess = (2 * fit.cost - freedom) / math.sqrt(2 * freedom)
    if excess <= 6 if evidence.is_sampled else fit.cost <= evidence.good:
        return ""
    off = f"{excess:.1f} standard deviations off" if evidence.is_sampled else f"off by {math.sqrt(2 * fit.cost):.2g}"
    ended = "" if evidence.is_sampled else ", and the search may have missed another"
    if any(fit.at_limit):
        ended = "; the search ended at the last penalty that it tries, so this rules out none"
    return f"no soft learner found gives these answers: the best is {off}{ended}"


def _is_likely(fit: Fit, best: Fit, evidence: Evidence) -> bool:
    """Whether the answers do not reject a fit beside a better one."""
    if not evidence.is_sampled:
        return fit.cost <= evidence.good or best.cost > evidence.good
    return fit.cost - best.cost <= QUANTILE**2 / 2


def fitted_space(evidence: Evidence, fits: Sequence[Fit], accuracy: float) -> Matrix:
    """(2, 2 + d_c), the interval of each parameter: the hull of those of all fits that the answers do not reject."""
    near, theta = list[Vector](), fits[0].theta
    # One preference is paid for in full, absent, or kept to its allowance.
    for j, kept in enumerate(fits[0].answers[:, evidence.domain.n_reward :].min(axis=0), start=2):
        for allowed, factor in ((0.0, 1.0), (np.inf, 1.0), (kept, 2.0)):
            if theta[j] != allowed:
                changed = theta.copy()
                changed[j] = allowed
                changed[1] *= factor
                near.append(changed)
    tried = (*fits, *fits_near(evidence, *near))
    best = min(tried, key=lambda fit: fit.cost)
    ends = np.array([_interval(evidence, fit, accuracy) for fit in tried if _is_likely(fit, best, evidence)])
    return np.array([ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)])


def _interval(evidence: Evidence, fit: Fit, accuracy: float) -> Matrix:
    """(2, 2 + d_c), both ends of each parameter around one fit."""
    theta, error = fit.theta, _errors(evidence, fit, accuracy)
    is_open = ~np.isfinite(error)
    # Where the search ended at its limit, the answers show no end.
    is_open[:2] |= fit.at_limit
    error = np.where(is_open, 0.0, error)
    low = np.where(is_open, 0.0, np.maximum(theta - error, 0.0))
    high = np.where(is_open, np.inf, theta + error)
    if evidence.n_seen > evidence.domain.n_reward:
        covariance = np.linalg.inv(evidence.weight.transpose(0, 2, 1) @ evidence.weight)
        for j in np.flatnonzero(is_open[2:]):
            # Above mu_c where nothing is paid, below where all is.
            k, paid = evidence.domain.n_reward + j, fit.paid[:, j]
            margin = QUANTILE * np.sqrt(covariance[:, k, k]) + np.array(evidence.bias)[:, k]
            above = np.where(paid > 0.5 * theta[1], evidence.target[:, k] + margin, np.inf).min()
            below = np.where(paid == 0, evidence.target[:, k] - margin, 0.0).max(initial=0.0)
            if below <= above:
                low[2 + j], high[2 + j] = below, above
    return np.array([low, high])


def _errors(evidence: Evidence, fit: Fit, accuracy: float) -> Vector:
    """(2 + d_c,), half the width of each interval; infinite where the answers do not determine the parameter."""
    unit = np.append(fit.theta[:2], evidence.scales.unit[evidence.domain.n_reward :])
    columns, sizes, rows = np.linalg.svd(fit.jacobian * unit, full_matrices=False)
    kept = sizes > (1e-3 if evidence.is_sampled else 1e-6)
    is_determined = np.linalg.norm(rows[kept], axis=0) >= math.sqrt(1 - 1e-6)
    inverse = rows[kept] / sizes[kept, None]
    if evidence.is_sampled:
        allowed = evidence.allowed.ravel()
        error = QUANTILE * np.linalg.norm(inverse, axis=0) + np.abs(inverse.T @ columns[:, kept].T) @ allowed
    else:
        exactness = max(accuracy, FITTED, math.sqrt(2 * fit.cost)) * math.sqrt(len(fit.jacobian))
        error = exactness * np.abs(inverse).sum(axis=0)
    return np.where(is_determined & np.isfinite(fit.theta), unit * error, np.inf)
