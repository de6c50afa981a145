"""What the fits of a soft learner's answers say (`fit_search`): intervals, rivals, and whether any learner fits.

Samples. The misfits are weighted by W = S^-1/2 (`misfit`), so that at the true parameters they are independent with
variance one. With J their derivative in theta,

    Cov(theta) = (J'J)^-1,           95 % intervals: 1.96 standard errors to both sides,

and what the bias e of samples that end early may add: |pinv(J)| |W| e. Misfits within |W| e reject nothing. Where only
mu_r is seen, exactly, the error of theta is |pinv(J)| times the error of the answers.

An interval contains those of all fits found whose sum of squares is within 1.96^2 of the least. A penalty at the end of
what is searched has no end there. An allowance without influence on any answer is confined by the answers alone: below
mu_c[j] where the preference is paid for, above it where not. Where mu_c is not seen, it stays open.
"""

import math
from collections.abc import Sequence

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.convex.blocks import SURFACE
from tutelage.inference.fit_search import fits_near
from tutelage.inference.misfit import WEIGHT, Evidence, Fit, FitProblem

# The 97.5 % quantile of the normal distribution, and the sum of squares that counts as a misfit: 6 standard deviations.
QUANTILE, MOST_DEVIATIONS = 1.959963985, 6.0


def optimistic_theta(fit: Fit) -> Vector:
    """The learner that gives the answers of a fit, with the least C_c and the largest allowances.

    Where no answer pays C_c in full, C_c is as small as the largest payment. A preference that every answer pays in
    full has its allowance just where the first answer exceeds it. Neither changes an optimality condition.
    """
    theta, largest = fit.theta.copy(), float(fit.paid.max(initial=0.0))
    is_full = (fit.paid >= (1 - SURFACE) * theta[1]).all(axis=0)
    least = fit.answers[:, fit.answers.shape[1] - fit.paid.shape[1] :].min(axis=0)
    theta[2:] = np.where(is_full, least, theta[2:])
    theta[1] = min(theta[1], largest) if largest > 0 else theta[1]
    return theta


def rivals_of(fit: Fit, others: Sequence[Fit]) -> tuple[Vector, ...]:
    """theta of learners that explain the answers too: the most optimistic one of each fit, and the other fits."""
    known = [fit.theta]
    for rival in (*map(optimistic_theta, (fit, *others)), *(other.theta for other in others)):
        if not any(np.array_equal(rival, other) for other in known):
            known.append(rival)
    return tuple(known[1:])


def misfit_of(fit: Fit, evidence: Evidence) -> str:
    """Why no soft learner explains the answers, or an empty string."""
    freedom = max(fit.jacobian.shape[0] - fit.jacobian.shape[1], 1)
    excess = (2 * fit.cost - freedom) / math.sqrt(2 * freedom)
    if excess <= MOST_DEVIATIONS if evidence.is_sampled else _is_exact(fit):
        return ""
    off = f"{excess:.1f} standard deviations off" if evidence.is_sampled else f"off by {math.sqrt(2 * fit.cost):.2g}"
    ended = "; the search ended at the last penalty that it tries, so this rules out none" if any(fit.at_limit) else ""
    return f"no soft learner found gives these answers: the best is {off}{ended}"


def _is_exact(fit: Fit) -> bool:
    return math.sqrt(2 * fit.cost) <= WEIGHT.explained


def is_likely(fit: Fit, best: Fit, evidence: Evidence) -> bool:
    """Whether the answers do not reject a fit beside a better one."""
    if not evidence.is_sampled:
        return _is_exact(fit) or not _is_exact(best)
    return fit.cost - best.cost <= QUANTILE**2 / 2


def fitted_space(evidence: Evidence, fits: Sequence[Fit], accuracy: float) -> Matrix:
    """(2, 2 + d_c), the interval of each parameter: the hull of those of all fits that the answers do not reject."""
    tried = (*fits, *_alternatives(evidence, fits[0]))
    best = min(tried, key=lambda fit: fit.cost)
    ends = [_interval(evidence, fit, accuracy) for fit in tried if is_likely(fit, best, evidence)]
    return np.array([np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)])


def _alternatives(evidence: Evidence, fit: Fit) -> tuple[Fit, ...]:
    """Fits near another one in which one preference is paid for in full, absent, or kept to its allowance."""
    near = list[Vector]()
    for j, kept in enumerate(fit.answers[:, evidence.domain.n_reward :].min(axis=0), start=2):
        for allowed, factor in ((0.0, 1.0), (np.inf, 1.0), (kept, 2.0)):
            if fit.theta[j] != allowed:
                near.append(fit.theta.copy())
                near[-1][j], near[-1][1] = allowed, factor * fit.theta[1]
    return fits_near(evidence, *near)


def _interval(evidence: Evidence, fit: Fit, accuracy: float) -> tuple[Vector, Vector]:
    """Both ends of each parameter (2 + d_c,) around one fit."""
    theta, error = fit.theta, _errors(evidence, fit, accuracy)
    is_open = ~np.isfinite(error)
    error = np.where(is_open, 0.0, error)
    low, high = np.maximum(theta - error, 0.0), theta + error
    low[is_open], high[is_open] = 0.0, np.inf
    # The search ended there, and no answer did.
    low[:2][list(fit.at_limit)], high[:2][list(fit.at_limit)] = 0.0, np.inf
    if evidence.n_seen > evidence.domain.n_reward:
        for j in np.flatnonzero(is_open[2:]):
            low[2 + j], high[2 + j] = _one_sided(evidence, fit, int(j))
    return low, high


def _errors(evidence: Evidence, fit: Fit, accuracy: float) -> Vector:
    """(2 + d_c,), half the width of each interval; infinite where the answers do not determine the parameter."""
    is_sampled = evidence.is_sampled
    unit = np.concatenate([fit.theta[:2], evidence.scales.unit[evidence.domain.n_reward :]])
    columns, sizes, rows = np.linalg.svd(fit.jacobian * unit, full_matrices=False)
    kept = sizes > (1e-3 if is_sampled else 1e-6)
    is_determined = np.linalg.norm(rows[kept], axis=0) >= math.sqrt(1 - 1e-6)
    inverse = rows[kept] / sizes[kept, None]
    if is_sampled:
        allowed = FitProblem.of(evidence).allowed.ravel()
        error = QUANTILE * np.linalg.norm(inverse, axis=0) + np.abs(inverse.T @ columns[:, kept].T) @ allowed
    else:
        exactness = max(accuracy, WEIGHT.fitted, math.sqrt(2 * fit.cost)) * math.sqrt(len(fit.jacobian))
        error = exactness * np.abs(inverse).sum(axis=0)
    return np.where(is_determined & np.isfinite(fit.theta), unit * error, np.inf)


def _one_sided(evidence: Evidence, fit: Fit, j: int) -> tuple[float, float]:
    """The interval of an allowance that no answer depends on: above mu_c where nothing is paid, below where all is."""
    problem, k, paid = FitProblem.of(evidence), evidence.domain.n_reward + j, fit.paid[:, j]
    variance = np.linalg.inv(problem.weight.transpose(0, 2, 1) @ problem.weight)[:, k, k]
    margin, seen = QUANTILE * np.sqrt(variance) + np.array(evidence.bias)[:, k], problem.target[:, k]
    high = np.where(paid > 0.5 * fit.theta[1], seen + margin, np.inf).min()
    low = np.where(paid == 0, seen - margin, 0.0).max(initial=0.0)
    return (float(low), float(high)) if low <= high else (0.0, math.inf)
