"""How strongly behaviour avoids each preference feature: soft inverse constraint learning, without any lesson.

An agent with reward weights a that pays b_j for each unit of preference feature j acts by the soft policy of (a, -b).
The mean discounted counts mu_hat of n trajectories estimate its expectation, and x = (a, b), or b alone where a is
known, minimises the convex function

    f(x) = P0 @ V(L x) - mu_hat @ L x              gradient g = L' (mu(L x) - mu_hat)         Hessian H = L' J L.

With S the covariance of one trajectory's counts (`count_covariance`), the estimate has the covariance

    H^-1 (L' S L / n) H^-1                         the sandwich of an estimating equation

and b_j +- 1.96 standard errors is its 95 % interval. A direction in which H vanishes is not identified: the standard
error is infinite. b_j may be negative: the feature is then sought.

"Avoids it at all" is the hypothesis b_j > 0 against b_j = 0. The zero is fitted, the other unknowns with it, and the
score is what the behaviour falls short of there:

    U = v @ g,   v = e_j - H^-1 H_j on the others,       z = U / sqrt(v' L' S L v / n),       p = 1 - Phi(z)

with H, S and g at the restricted fit. The test is one-sided, holds its level at b_j = 0, and works where b_j itself
has no finite estimate because the trajectories never met the feature.

What it cannot tell apart: a preference from a lower reward, where a feature of either kind is a combination of the
others; a strong preference from a hard one; a preference from an allowance that binds, because b_j is what is paid, not
C_c; and anything about features that no choice changes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from tutelage.arrays import EPSILON, Flags, Matrix, Vector, check_length, floats, freeze
from tutelage.bellman.soft_expectations import SoftExpansion, combined_features, soft_expansion
from tutelage.convex.blocks import Block
from tutelage.convex.newton import Expansion, proximal_newton
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.inference.recovery import Scales, count_covariance, feature_scales
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput

# No weight is searched beyond this, in units of one over the range of its feature.
CAP = 300.0
# A standard error above this, in the same units, is infinite: the normal approximation says nothing any more.
WIDEST = 30.0
# The accuracy of soft values, and of the match relative to the range of each feature.
ACCURACY, MATCHED = 1e-12, 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceEstimate:
    """How strongly n trajectories avoid each preference feature.

    strength: (d_c,), b: what a unit of the feature costs, negative where it is sought. standard_error: (d_c,), infinite
    where the trajectories do not determine b_j. low, high: (d_c,), the interval of level `confidence`. p_value: (d_c,),
    of the one-sided test that b_j = 0; small where the feature is avoided. reward_weights, reward_error: (d_r,), a and
    its standard error, zero where a was given. bias: the largest truncation bias of a count, relative to its range.
    """

    domain: Domain
    strength: Vector
    standard_error: Vector
    low: Vector
    high: Vector
    p_value: Vector
    reward_weights: Vector
    reward_error: Vector
    n: int
    confidence: float
    bias: float

    def __post_init__(self) -> None:
        for name in ("strength", "standard_error", "low", "high", "p_value", "reward_weights", "reward_error"):
            freeze(getattr(self, name))

    def avoided(self, level: float = 0.05) -> Flags:
        """(d_c,), whether the test rejects, at this level, that the feature is not avoided."""
        return np.asarray(self.p_value <= level)

    def __str__(self) -> str:
        lines = [f"{self.n} trajectories, {100 * self.confidence:g} % intervals"]
        for j, name in enumerate(self.domain.preference_names):
            if not np.isfinite(self.standard_error[j]):
                lines.append(f"{name}: not determined (p = {self.p_value[j]:.3g})")
                continue
            lines.append(
                f"{name}: {self.strength[j]:.3g} +- {self.standard_error[j]:.2g}, "
                f"{self.low[j]:.3g} to {self.high[j]:.3g}, p = {self.p_value[j]:.3g}"
            )
        return "\n".join(lines)


def infer_preferences(
    domain: Domain,
    demonstrations: Demonstrations,
    *,
    reward_weights: ArrayLike | None = None,
    confidence: float = 0.95,
) -> PreferenceEstimate:
    """How strongly each preference feature is avoided, from behaviour alone.

    reward_weights: (d_r,), a, where it is known; otherwise it is estimated along. The trajectories must be long enough
    that what is cut off hardly counts; `bias` says how much it is.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}")
    if demonstrations.n < 2:
        raise InvalidInput("infer_preferences needs at least two trajectories; one has no standard error")
    scales, seen = feature_scales(domain), empirical_expectation(domain, demonstrations)
    given = None if reward_weights is None else floats(reward_weights, "reward_weights", ndim=1)
    if given is not None:
        check_length(given, domain.n_reward, "reward_weights", "reward features")
    counts = np.concatenate([seen.reward, seen.preference])
    bias = float((np.concatenate([seen.reward_bias, seen.preference_bias]) / scales.unit).max())
    problem = _Behaviour(domain, scales, counts, demonstrations.n, given)
    return problem.estimate(confidence, bias)


@dataclass(frozen=True, slots=True, eq=False)
class _Behaviour:
    """The match of mu_hat = counts (d,). given: (d_r,), known reward weights."""

    domain: Domain
    scales: Scales
    counts: Vector
    n: int
    given: Vector | None

    @property
    def lift(self) -> Matrix:
        """(d, k), L in units: columns of a, unless it is known, and of b."""
        d_r = self.domain.n_reward
        sign = np.concatenate([np.ones(d_r), -np.ones(self.domain.n_preference)])
        matrix = np.diag(sign / self.scales.unit)
        return matrix if self.given is None else matrix[:, d_r:]

    @property
    def base(self) -> Vector:
        """(d,), the known weights."""
        known = np.zeros(self.domain.n_reward) if self.given is None else self.given
        return np.concatenate([known, np.zeros(self.domain.n_preference)])

    def match(self, lift: Matrix, start: Vector, near: SoftExpansion | None) -> tuple[Vector, SoftExpansion]:
        """argmin over |x| <= CAP of P0 @ V(base + L x) - mu_hat @ L x."""
        features, target = combined_features(self.domain), lift.T @ self.counts

        def expand(x: Vector, last: SoftExpansion | None) -> Expansion[SoftExpansion]:
            weights, start = self.base + lift @ x, near if last is None else last
            soft = soft_expansion(self.domain.mdp, features, weights, accuracy=ACCURACY, near=start)
            reached = lift.T @ soft.expectation
            ulps = 16 * EPSILON * float(np.abs(soft.solved.value).max())
            noise, value = ulps * (1 + float(np.abs(reached).max(initial=0.0))), soft.soft_return - float(target @ x)
            rounding = ulps + 10 * ACCURACY + EPSILON * abs(float(target @ x))
            return Expansion(value, reached - target, lift.T @ soft.jacobian @ lift, noise, rounding, soft)

        block = Block(np.zeros(len(start)), CAP, np.inf, True, np.arange(len(start)))
        found = proximal_newton(expand, [block], start, tolerance=MATCHED)
        return found.answer.x, found.answer.here.source

    def estimate(self, confidence: float, bias: float) -> PreferenceEstimate:
        lift, d_c = self.lift, self.domain.n_preference
        x, soft = self.match(lift, np.zeros(lift.shape[1]), None)
        error = self._errors(lift, x, soft)
        unit = self.scales.unit if self.given is None else self.scales.unit[self.domain.n_reward :]
        quantile = float(norm.ppf(0.5 + confidence / 2))
        values, spread = x / unit, error / unit
        p_value = np.array([self._p_value(lift, x, soft, len(x) - d_c + j) for j in range(d_c)])
        strength, standard_error = values[len(x) - d_c :], spread[len(x) - d_c :]
        margin = quantile * standard_error
        return PreferenceEstimate(
            domain=self.domain,
            strength=strength,
            standard_error=standard_error,
            low=np.where(np.isfinite(margin), strength - margin, -np.inf),
            high=np.where(np.isfinite(margin), strength + margin, np.inf),
            p_value=p_value,
            reward_weights=values[: len(x) - d_c] if self.given is None else self.given.copy(),
            reward_error=spread[: len(x) - d_c] if self.given is None else np.zeros(self.domain.n_reward),
            n=self.n,
            confidence=confidence,
            bias=bias,
        )

    def _errors(self, lift: Matrix, x: Vector, soft: SoftExpansion) -> Vector:
        """(k,), standard errors in units; infinite where x is not determined or lies at the cap."""
        values, vectors = np.linalg.eigh(lift.T @ soft.jacobian @ lift)
        # One standard error along each eigenvector, from the sampling covariance of the counts.
        sampled = vectors.T @ lift.T @ (count_covariance(self.domain.mdp, soft) / self.n) @ lift @ vectors
        along = np.sqrt(np.maximum(np.diag(sampled), 0.0)) / np.maximum(values, 1e-300)
        kept = (values > 1e-12) & (along <= WIDEST)
        inverse = vectors[:, kept] / values[kept]
        error = np.sqrt(np.maximum(np.einsum("ik,kl,il->i", inverse, sampled[np.ix_(kept, kept)], inverse), 0.0))
        is_lost = np.linalg.norm(vectors[:, ~kept], axis=1) > 1e-3
        return np.where(is_lost | (np.abs(x) >= 0.999 * CAP), np.inf, error)

    def _p_value(self, lift: Matrix, x: Vector, soft: SoftExpansion, column: int) -> float:
        """1 - Phi(z) of the one-sided score test of x[column] = 0; 0.5 where the feature makes no difference."""
        others = np.delete(np.arange(lift.shape[1]), column)
        if len(others):
            _, soft = self.match(lift[:, others], x[others], None)
        else:
            soft = soft_expansion(self.domain.mdp, combined_features(self.domain), self.base)
        hessian, gradient = lift.T @ soft.jacobian @ lift, lift.T @ (soft.expectation - self.counts)
        v = np.zeros(lift.shape[1])
        v[column] = 1.0
        v[others] = (
            -np.linalg.pinv(hessian[np.ix_(others, others)], rcond=1e-10, hermitian=True) @ hessian[others, column]
        )
        variance = float(v @ lift.T @ count_covariance(self.domain.mdp, soft) @ lift @ v) / self.n
        if variance <= 1e-18 or float(v @ hessian @ v) <= 1e-12:
            return 0.5
        # The gradient in b_j is mu_hat - mu: behaviour that falls short of mu has a negative one.
        return float(norm.sf(-float(v @ gradient) / np.sqrt(variance)))
