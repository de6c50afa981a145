"""The intervals of a least-squares fit (`fitting`): for answers seen in part, or known from samples.

Samples. The mean of n trajectories has the covariance S = Cov / n (`sampling_error`), taken at the soft policy that
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
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.convex.blocks import SURFACE
from tutelage.inference.fits import EXACT, EXPLAINED, THOROUGH, Effort, alternatives, fit_learner
from tutelage.inference.fitting import Fit, Seen
from tutelage.inference.recovery import Scales, match_within
from tutelage.inference.sampling_error import count_covariance
from tutelage.inference.version_space import VersionSpace
from tutelage.model.mdp import Domain

# The 97.5 % quantile of the normal distribution, and the sum of squares that counts as a misfit: 6 standard deviations.
QUANTILE, MISFIT = 1.959963985, 6.0
# Weights of samples are matched up to this, in units of one over the range of a feature.
CAP = 300.0
# A variance below this, relative to the squared range of a feature, is that of a feature too rare to be sampled.
RARE = 1e-5
# Added to the distance of an exact answer from the ends of its range, relative to that range, for its weight.
END = 1e-3


class Parameters(NamedTuple):
    """C_r, C_c and delta (d_c,); an infinite delta is a preference that the learner does not have."""

    mismatch_penalty: float
    violation_penalty: float
    violation_allowance: Vector


def fitted_learners(
    domain: Domain, scales: Scales, seen: tuple[Seen, ...], n_trajectories: int, effort: Effort = THOROUGH
) -> tuple[Fit, ...]:
    """The best fits, the closest first."""
    return fit_learner(domain, scales, seen, n_trajectories > 0, effort)


def answers_seen(
    domain: Domain,
    scales: Scales,
    shown: Sequence[Vector],
    seen: Sequence[Vector],
    observed: str,
    n_trajectories: int,
) -> tuple[Seen, ...]:
    """The answers (d,) to the lessons shown (d_r,), with their weights."""
    n_seen = domain.n_reward if observed == "reward" else len(domain.names)
    return tuple(
        _seen(domain, scales, one.tobytes(), answer.tobytes(), n_seen, n_trajectories)
        for one, answer in zip(shown, seen, strict=True)
    )


def parameters_of(fit: Fit) -> Parameters:
    return Parameters(fit.penalty, fit.violation, freeze(fit.allowance))


def optimistic_parameters(fit: Fit) -> Parameters:
    """The learner that gives the answers of a fit, with the least C_c and the largest allowances.

    Where no answer pays C_c in full, C_c is as small as the largest payment. A preference that every answer pays in
    full has its allowance just where the first answer exceeds it. Neither changes an optimality condition.
    """
    largest = float(fit.paid.max(initial=0.0))
    violation = min(fit.violation, largest) if largest > 0 else fit.violation
    is_full = (fit.paid >= (1 - SURFACE) * fit.violation).all(axis=0)
    least = fit.answers[:, fit.answers.shape[1] - fit.paid.shape[1] :].min(axis=0)
    return Parameters(fit.penalty, violation, freeze(np.where(is_full, least, fit.allowance)))


def rivals_of(fit: Fit, larger: Sequence[Fit], others: Sequence[Fit]) -> tuple[Parameters, ...]:
    """Learners that explain the answers too: the most optimistic one of each fit, and the other fits.

    larger: those with a larger C_r.
    """
    rivals, known = list[Parameters](), [parameters_of(fit)]
    for one in (*map(optimistic_parameters, (fit, *larger, *others)), *map(parameters_of, others)):
        if not any(is_equal(one, other) for other in known):
            rivals.append(one)
            known.append(one)
    return tuple(rivals)


def is_equal(one: Parameters, other: Parameters) -> bool:
    """Whether two learners have the same parameters."""
    return one[:2] == other[:2] and bool((one.violation_allowance == other.violation_allowance).all())


@lru_cache(maxsize=256)
def _seen(domain: Domain, scales: Scales, shown: bytes, seen: bytes, n_seen: int, n_trajectories: int) -> Seen:
    """An answer with its weight: W is the inverse root of the sampling covariance. For an exact answer it is that of a
    variance proportional to the distance from the ends of the range, as for samples: what is done rarely tells most.

    Cached, because the answers of earlier rounds come again in every round.
    """
    target, kept = np.frombuffer(seen), np.eye(len(scales.unit))[:n_seen]
    soft = match_within(domain, scales, target, n_seen, CAP)
    if not n_trajectories:
        share = np.clip((target - scales.low) / scales.unit, 0.0, 1.0)
        weight = kept / (scales.unit * np.sqrt(np.minimum(share, 1 - share) + END))
        return Seen(np.frombuffer(shown), target, weight, soft.weights[:n_seen], n_seen)
    rare = np.diag(RARE * scales.unit**2 / n_trajectories)
    covariance = count_covariance(domain.mdp, soft) / n_trajectories + rare
    weight = np.linalg.inv(np.linalg.cholesky(kept @ covariance @ kept.T)) @ kept
    n_told = n_seen - float(np.trace(weight @ rare @ weight.T))
    return Seen(np.frombuffer(shown), target, weight, soft.weights[:n_seen], n_told)


def misfit_of(fit: Fit, n_trajectories: int) -> str:
    """Why no soft learner explains the answers, or an empty string."""
    if not n_trajectories:
        size = math.sqrt(2 * fit.cost)
        return "" if _is_exact(fit) else f"no soft learner found gives these answers: the best misses by {size:.2g}"
    freedom = max(fit.jacobian.shape[0] - fit.jacobian.shape[1], 1)
    excess = (2 * fit.cost - freedom) / math.sqrt(2 * freedom)
    return (
        "" if excess <= MISFIT else f"no soft learner found gives these answers: {excess:.1f} standard deviations off"
    )


def _is_exact(fit: Fit) -> bool:
    return math.sqrt(2 * fit.cost) <= EXPLAINED


def is_likely(fit: Fit, best: Fit, n_trajectories: int) -> bool:
    """Whether the answers do not reject a fit beside a better one."""
    if not n_trajectories:
        return _is_exact(fit) or not _is_exact(best)
    return fit.cost - best.cost <= QUANTILE**2 / 2


def fitted_space(
    domain: Domain,
    scales: Scales,
    fits: Sequence[Fit],
    answers: tuple[Seen, ...],
    observed: str,
    n_trajectories: int,
    accuracy: float,
) -> VersionSpace:
    """The interval of each parameter: the hull of those of all fits that the answers do not reject."""
    tried = (*fits, *alternatives(domain, scales, answers, fits[0], n_trajectories > 0))
    best = min(tried, key=lambda fit: fit.cost)
    kept = [fit for fit in tried if is_likely(fit, best, n_trajectories)]
    seen = [one.target for one in answers]
    ends = [_interval(domain, scales, fit, seen, observed, n_trajectories, accuracy) for fit in kept]
    low, high = np.min([one[0] for one in ends], axis=0), np.max([one[1] for one in ends], axis=0)
    return VersionSpace(np.array([low[0], high[0]]), np.array([low[1], high[1]]), low[2:], high[2:])


def _interval(
    domain: Domain,
    scales: Scales,
    fit: Fit,
    seen: Sequence[Vector],
    observed: str,
    n_trajectories: int,
    accuracy: float,
) -> tuple[Vector, Vector]:
    """Both ends of each parameter (2 + d_c,) around one fit."""
    theta = np.concatenate([[fit.penalty, fit.violation], fit.allowance])
    error = _errors(fit, scales, domain.n_reward, n_trajectories, accuracy)
    is_open = ~np.isfinite(error)
    error = np.where(is_open, 0.0, error)
    low, high = np.maximum(theta - error, 0.0), theta + error
    low[is_open], high[is_open] = 0.0, np.inf
    if observed == "expectation":
        for j in np.flatnonzero(is_open[2:]):
            low[2 + j], high[2 + j] = _one_sided(domain, scales, fit, seen, int(j), n_trajectories)
    return low, high


def _errors(fit: Fit, scales: Scales, d_r: int, n_trajectories: int, accuracy: float) -> Vector:
    """(2 + d_c,), half the width of each interval; infinite where the answers do not determine the parameter."""
    unit = np.concatenate([[fit.penalty, fit.violation], scales.unit[d_r:]])
    _, sizes, rows = np.linalg.svd(fit.jacobian * unit, full_matrices=True)
    sizes = np.pad(sizes, (0, len(rows) - len(sizes)))
    kept = sizes > (1e-3 if n_trajectories else 1e-6)
    is_determined = np.linalg.norm(rows[~kept], axis=0) <= 1e-3
    inverse = rows[kept] / sizes[kept, None]
    spread = QUANTILE * np.linalg.norm(inverse, axis=0) if n_trajectories else np.abs(inverse).sum(axis=0)
    scale = 1.0 if n_trajectories else max(accuracy, EXACT, math.sqrt(2 * fit.cost)) * math.sqrt(len(fit.jacobian))
    return np.where(is_determined & np.isfinite([1, 1, *fit.allowance]), unit * scale * spread, np.inf)


def _one_sided(
    domain: Domain, scales: Scales, fit: Fit, seen: Sequence[Vector], j: int, n_trajectories: int
) -> tuple[float, float]:
    """The interval of an allowance that no answer depends on: above mu_c where nothing is paid, below where all is."""
    low, high, k = 0.0, math.inf, domain.n_reward + j
    for answer, paid in zip(seen, fit.paid, strict=True):
        soft = match_within(domain, scales, answer, len(domain.names), CAP)
        variance = count_covariance(domain.mdp, soft)[k, k] / n_trajectories
        margin = QUANTILE * math.sqrt(max(variance, 0.0)) + RARE * float(scales.unit[k])
        if paid[j] > 0.5 * fit.violation:
            high = min(high, float(answer[k]) + margin)
        elif paid[j] == 0:
            low = max(low, float(answer[k]) - margin)
    return (max(low, 0.0), high) if low <= high else (0.0, math.inf)
