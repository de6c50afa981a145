"""What the fits of a soft learner's answers say (`fit_search`): intervals, rivals, and whether any learner fits.

Samples. The mean of n trajectories has the covariance S = Cov / n (`count_covariance`), taken at the soft policy that
matches the answer. The misfits are weighted by W = S^-1/2, so that at the true parameters they are independent with
variance one. With J their derivative in theta, which contains the exact Hessian of the soft return,

    Cov(theta) = (J'J)^-1,           95 % intervals: 1.96 standard errors to both sides.

Only mu_r is seen, exactly. The error of theta is |pinv(J)| times the error of the answers.

Several fits may explain the answers. An allowance that binds and a preference that is paid in full can look alike, for
example. All fits found whose sum of squares is within 1.96^2 of the least are kept; an interval contains all theirs.

A parameter without influence on any answer has no such interval. An allowance is then confined by the answers alone:
below mu_c[j] where the preference is paid for, above it where not. Where mu_c is not seen, it stays open.
"""

import math
from collections.abc import Sequence

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.convex.blocks import SURFACE
from tutelage.inference.fit_search import EXPLAINED, FITTED, START, alternatives
from tutelage.inference.misfit import Evidence, Fit, Parameters
from tutelage.inference.recovery import count_covariance, nearest_soft
from tutelage.inference.version_space import VersionSpace

# The 97.5 % quantile of the normal distribution, and the sum of squares that counts as a misfit: 6 standard deviations.
QUANTILE, MOST_DEVIATIONS = 1.959963985, 6.0


def optimistic_parameters(fit: Fit) -> Parameters:
    """The learner that gives the answers of a fit, with the least C_c and the largest allowances.

    Where no answer pays C_c in full, C_c is as small as the largest payment. A preference that every answer pays in
    full has its allowance just where the first answer exceeds it. Neither changes an optimality condition.
    """
    penalty, violation, allowance = fit.parameters
    largest = float(fit.paid.max(initial=0.0))
    is_full = (fit.paid >= (1 - SURFACE) * violation).all(axis=0)
    least = fit.answers[:, fit.answers.shape[1] - fit.paid.shape[1] :].min(axis=0)
    enough = min(violation, largest) if largest > 0 else violation
    return Parameters(penalty, enough, freeze(np.where(is_full, least, allowance)))


def rivals_of(fit: Fit, larger: Sequence[Fit], others: Sequence[Fit]) -> tuple[Parameters, ...]:
    """Learners that explain the answers too: the most optimistic one of each fit, and the other fits.

    larger: those with a larger C_r.
    """
    rivals, known = list[Parameters](), [fit.parameters]
    for rival in (*map(optimistic_parameters, (fit, *larger, *others)), *(other.parameters for other in others)):
        if not any(rival.equals(other) for other in known):
            rivals.append(rival)
            known.append(rival)
    return tuple(rivals)


def misfit_of(fit: Fit, evidence: Evidence) -> str:
    """Why no soft learner explains the answers, or an empty string."""
    if not evidence.is_sampled:
        size = math.sqrt(2 * fit.cost)
        return "" if _is_exact(fit) else f"no soft learner found gives these answers: the best misses by {size:.2g}"
    freedom = max(fit.jacobian.shape[0] - fit.jacobian.shape[1], 1)
    excess = (2 * fit.cost - freedom) / math.sqrt(2 * freedom)
    is_good = excess <= MOST_DEVIATIONS
    return "" if is_good else f"no soft learner found gives these answers: {excess:.1f} standard deviations off"


def _is_exact(fit: Fit) -> bool:
    return math.sqrt(2 * fit.cost) <= EXPLAINED


def is_likely(fit: Fit, best: Fit, evidence: Evidence) -> bool:
    """Whether the answers do not reject a fit beside a better one."""
    if not evidence.is_sampled:
        return _is_exact(fit) or not _is_exact(best)
    return fit.cost - best.cost <= QUANTILE**2 / 2


def fitted_space(evidence: Evidence, fits: Sequence[Fit], accuracy: float) -> VersionSpace:
    """The interval of each parameter: the hull of those of all fits that the answers do not reject."""
    tried = (*fits, *alternatives(evidence, fits[0]))
    best = min(tried, key=lambda fit: fit.cost)
    ends = [_interval(evidence, fit, accuracy) for fit in tried if is_likely(fit, best, evidence)]
    low, high = np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)
    return VersionSpace(np.array([low[0], high[0]]), np.array([low[1], high[1]]), low[2:], high[2:])


def _interval(evidence: Evidence, fit: Fit, accuracy: float) -> tuple[Vector, Vector]:
    """Both ends of each parameter (2 + d_c,) around one fit."""
    theta = np.concatenate([fit.parameters[:2], fit.parameters.violation_allowance])
    error = _errors(evidence, fit, accuracy)
    is_open = ~np.isfinite(error)
    error = np.where(is_open, 0.0, error)
    low, high = np.maximum(theta - error, 0.0), theta + error
    low[is_open], high[is_open] = 0.0, np.inf
    if evidence.n_seen > evidence.domain.n_reward:
        for j in np.flatnonzero(is_open[2:]):
            low[2 + j], high[2 + j] = _one_sided(evidence, fit, int(j))
    return low, high


def _errors(evidence: Evidence, fit: Fit, accuracy: float) -> Vector:
    """(2 + d_c,), half the width of each interval; infinite where the answers do not determine the parameter."""
    is_sampled = evidence.is_sampled
    unit = np.concatenate([fit.parameters[:2], evidence.scales.unit[evidence.domain.n_reward :]])
    _, sizes, rows = np.linalg.svd(fit.jacobian * unit, full_matrices=True)
    sizes = np.pad(sizes, (0, len(rows) - len(sizes)))
    kept = sizes > (1e-3 if is_sampled else 1e-6)
    is_determined = np.linalg.norm(rows[~kept], axis=0) <= 1e-3
    inverse = rows[kept] / sizes[kept, None]
    spread = QUANTILE * np.linalg.norm(inverse, axis=0) if is_sampled else np.abs(inverse).sum(axis=0)
    exactness = max(accuracy, FITTED, math.sqrt(2 * fit.cost)) * math.sqrt(len(fit.jacobian))
    is_finite = np.isfinite([1, 1, *fit.parameters.violation_allowance])
    return np.where(is_determined & is_finite, unit * (1.0 if is_sampled else exactness) * spread, np.inf)


def _one_sided(evidence: Evidence, fit: Fit, j: int) -> tuple[float, float]:
    """The interval of an allowance that no answer depends on: above mu_c where nothing is paid, below where all is."""
    domain, scales = evidence.domain, evidence.scales
    low, high, k = 0.0, math.inf, domain.n_reward + j
    for answer, paid in zip(evidence.seen, fit.paid, strict=True):
        soft = nearest_soft(domain, scales, np.array(answer), len(domain.names))
        variance = count_covariance(domain, soft)[k, k] / evidence.n_trajectories
        margin = QUANTILE * math.sqrt(max(variance, 0.0)) + START.rare * float(scales.unit[k])
        if paid[j] > 0.5 * fit.parameters.violation_penalty:
            high = min(high, answer[k] + margin)
        elif paid[j] == 0:
            low = max(low, answer[k] - margin)
    return (max(low, 0.0), high) if low <= high else (0.0, math.inf)
