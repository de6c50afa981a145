"""How strongly behaviour avoids each preference feature: soft inverse constraint learning (docs/behaviour.md).

An agent with reward weights a that pays b_j for each unit of preference feature j acts by the soft policy of (a, -b).
The mean discounted counts mu_hat of n trajectories estimate its expectation, and x = (a, b), or b alone where a is
known, minimises the convex function of `behaviour`,

    f(x) = P0 @ V(L x) - mu_hat @ L x              gradient g = L' (mu(L x) - mu_hat)         Hessian H = L' J L

With S the covariance of one trajectory's counts, given its start (`count_covariance`), the estimate has the covariance
H^-1 (L' S L / n) H^-1 (the sandwich of an estimating equation). Features are measured by what is met of them, the
larger of the observed count and that of the policy with which the search starts: a car that drives round for ever meets
a thousand times what a trip does.

b_j is not determined where no choice changes the feature, where H vanishes along a combination of features, or where
the count is within its own standard error of the end of its range. In the last case b_j has a lower end at most.

For the test of b_j = 0 against b_j > 0 the zero is fitted, the other unknowns with it, and with H, S and g there

    U = v @ g,   v = e_j - H^-1 H_j on the others,       z = U / sqrt(v' L' S L v / n),       p = 1 - Phi(z)

It holds its level at b_j = 0, and works where b_j has no finite estimate.

That the agent acts by a soft policy of these features is tested by what was not fitted: the counts of the reward
features, where a was given, and the surprise of each trajectory, the sum over its choices of

    log pi(c | s) + entropy of pi(. | s)            which has mean zero, given s, if pi is the agent's policy.

Their means are compared with their covariance over the trajectories, corrected for the fit (Hotelling's T^2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import norm

from tutelage.arrays import Flags, Matrix, Readable, Vector, freeze
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.constrained.problem import or_one
from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.data.empirical import trajectory_counts
from tutelage.inference.behaviour import Behaviour, Total
from tutelage.inference.recovery import feature_scales
from tutelage.model.mdp import Domain, Weights, reward_vector
from tutelage.outcomes import EndlessValue, InvalidInput

# The model is rejected below this p-value.
REJECTED = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceEstimate(Readable):
    """How strongly n trajectories avoid each preference feature, if their agent acts by a soft policy of the features.

    strength: (d_c,), b: what a unit of the feature costs, negative where it is sought, infinite where it was never met.
    standard_error: (d_c,), infinite where the trajectories do not determine b_j. reasons: why not; empty where they do.
    low, high: (d_c,), the interval of level `confidence`. p_value: (d_c,), of the one-sided test that b_j = 0; small
    where the feature is avoided, NaN where nothing can be said. reward_weights, reward_error: (d_r,), a and its
    standard error, zero where a was given. bias: the largest truncation bias of a count, relative to its range; the
    intervals include it. model_p_value: of the test that a soft policy of these features explains the trajectories;
    NaN where there are too few of them. `explained`: whether it is not rejected. log_likelihood: the logarithm of the
    probability of all choices seen, given the states; NaN where none was seen. domain: the first one of several.
    """

    domain: Domain
    strength: Vector
    standard_error: Vector
    reasons: tuple[str, ...]
    low: Vector
    high: Vector
    p_value: Vector
    reward_weights: Vector
    reward_error: Vector
    n: int
    confidence: float
    bias: float
    model_p_value: float
    log_likelihood: float

    def __post_init__(self) -> None:
        for name in ("strength", "standard_error", "low", "high", "p_value", "reward_weights", "reward_error"):
            freeze(getattr(self, name))

    @property
    def explained(self) -> bool:
        """Whether the soft policy explains the trajectories, as far as they tell."""
        return not self.model_p_value < REJECTED

    def avoided(self, level: float = 0.05) -> Flags:
        """(d_c,), whether the test rejects, at this level, that the feature is not avoided."""
        return self.p_value <= level

    def __str__(self) -> str:
        lines = [f"{self.n} trajectories, {100 * self.confidence:g} % intervals"]
        if not self.explained:
            lines.append(f"no soft policy of these features explains the trajectories (p = {self.model_p_value:.2g})")
        for j, name in enumerate(self.domain.preference_names):
            tested = "" if math.isnan(self.p_value[j]) else f", p = {self.p_value[j]:.3g}"
            if not self.reasons[j]:
                lines.append(
                    f"{name}: {self.strength[j]:.3g} +- {self.standard_error[j]:.2g}, "
                    f"{self.low[j]:.3g} to {self.high[j]:.3g}{tested}"
                )
            elif self.low[j] > -math.inf:
                lines.append(f"{name}: above {self.low[j]:.3g}{tested}, without an upper end: {self.reasons[j]}")
            else:
                lines.append(f"{name}: not determined: {self.reasons[j]}")
        return "\n".join(lines)


def infer_preferences(
    domain: Domain | Sequence[tuple[Domain, Demonstrations]],
    demonstrations: Demonstrations | None = None,
    *,
    reward_weights: Weights | None = None,
    confidence: float = 0.95,
) -> PreferenceEstimate:
    """How strongly each preference feature is avoided, from behaviour alone.

    domain: one domain, with its demonstrations, or a list of pairs (domain, demonstrations) that share the weights of
    their features: journeys to several destinations, days, groups of people. reward_weights: (d_r,), a, where it is
    known; otherwise a is estimated too. The trajectories must be long enough that what is cut off hardly counts; `bias`
    says how much it is.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}")
    pairs: Any = [(domain, demonstrations)] if isinstance(domain, Domain) else domain
    if pairs is domain and demonstrations is not None:
        raise InvalidInput("infer_preferences takes a domain and demonstrations, or one list of such pairs, not both")
    if not isinstance(pairs, Sequence) or not pairs:
        raise InvalidInput("infer_preferences needs a domain and demonstrations, or a list of such pairs")
    for number, pair in enumerate(pairs):
        match pair:
            case (Domain(), Demonstrations()):
                continue
        raise InvalidInput(f"pair {number} must be a domain and its demonstrations, got {pair!r}")
    if sum(walks.n for _, walks in pairs) < 2:
        raise InvalidInput("infer_preferences needs at least two trajectories; one has no standard error")
    first: Domain = pairs[0][0]
    base = np.zeros(len(first.names))
    n_known = 0 if reward_weights is None else first.n_reward
    if reward_weights is not None:
        base[:n_known] = reward_vector(first, reward_weights, "reward_weights")
    return _Inference(first, Behaviour.of(pairs), base, n_known).estimate(confidence)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A match. lift: (d, k), L of its unknowns. x: (k,). soft: the sum of the soft policies there."""

    lift: Matrix
    x: Vector
    soft: Total

    def influence(self, kept: Flags) -> Matrix:
        """(k, d), how x moves with the counts, where it is determined; zero elsewhere."""
        lift = self.lift[:, kept]
        moved = np.zeros(self.lift.T.shape)
        moved[kept] = np.linalg.pinv(lift.T @ self.soft.jacobian @ lift, rcond=1e-14, hermitian=True) @ lift.T
        return moved


@dataclass(frozen=True, slots=True, eq=False)
class _Inference:
    """What behaviour tells about the weights. base: (d,), the known weights, the first `n_known` of all."""

    domain: Domain
    behaviour: Behaviour
    base: Vector
    n_known: int

    def matched(self) -> _Fit:
        """The match of all unknowns, each in the unit of what is met of its feature."""
        sign = np.repeat([1.0, -1.0], [self.domain.n_reward, self.domain.n_preference])
        lift = np.diag(sign)[:, self.n_known :]
        x, first = self.behaviour.finite(self.base, lift, np.zeros(lift.shape[1]))
        unit = or_one(np.maximum(np.abs(self.behaviour.counts), np.abs(first.expectation)))[self.n_known :]
        return _Fit(lift / unit, *self.behaviour.matched(self.base, lift / unit, x * unit, first))

    def estimate(self, confidence: float) -> PreferenceEstimate:
        fit, behaviour = self.matched(), self.behaviour
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        covariance = behaviour.covariance(fit.soft)
        width, is_constant, is_unmet = self._range(fit, covariance)
        reasons = self._reasons(fit, is_constant[self.n_known :], is_unmet[self.n_known :])
        kept = np.array([reason == "" for reason in reasons], dtype=bool)
        influence = fit.influence(kept)
        size = np.abs(fit.lift).sum(axis=0)
        weight = size * fit.x
        error = size * np.sqrt(np.maximum(np.diag(influence @ covariance @ influence.T), 0.0))
        # How far the bias of the counts may move the weights.
        moved = size * (np.abs(influence) @ behaviour.bias)
        p_model, log_likelihood = self._model_test(fit, influence)
        # What follows is about the preferences alone.
        b = slice(len(kept) - d_c, None)
        is_open, is_unmet, words = ~kept[b], is_unmet[d_r:], reasons[b]
        endless = np.where(weight[b] == 0, np.nan, np.copysign(np.inf, weight[b]))
        strength = np.where(is_unmet, endless, np.where(is_open, np.nan, weight[b]))
        tested = np.flatnonzero(~is_open | is_unmet)
        p_value = np.full(d_c, np.nan)
        p_value[tested] = [self._p_value(fit, b.start + j) for j in tested.tolist()]
        margin = np.where(is_open, np.inf, float(norm.ppf(0.5 + confidence / 2)) * error[b] + moved[b])
        middle = np.where(is_open, 0.0, strength)
        is_avoided = is_open & is_unmet & (p_value <= (1 - confidence) / 2)
        low, high = np.where(is_avoided, 0.0, middle - margin), middle + margin
        if p_model < REJECTED:
            is_open, p_value = np.ones(d_c, dtype=bool), np.full(d_c, np.nan)
            low, high = np.full(d_c, -np.inf), np.full(d_c, np.inf)
            words = [word or "no soft policy of these features explains the trajectories" for word in words]
        return PreferenceEstimate(
            domain=self.domain,
            strength=strength,
            standard_error=np.where(is_open, np.inf, error[b]),
            reasons=tuple(words),
            low=low,
            high=high,
            p_value=p_value,
            reward_weights=self.base[:d_r].copy() if self.n_known else weight[:d_r],
            reward_error=np.zeros(d_r) if self.n_known else np.where(kept, error, np.inf)[:d_r],
            n=behaviour.n,
            confidence=confidence,
            bias=float((behaviour.bias / or_one(width)).max(initial=0.0)),
            model_p_value=p_model,
            log_likelihood=log_likelihood,
        )

    def _range(self, fit: _Fit, covariance: Matrix) -> tuple[Vector, Flags, Flags]:
        """(d,) each: the range of the mean count over all policies, on a network what signs tell of it; whether no
        choice changes the count; whether it is within its own standard error of an end of the range.
        """
        counts, signs = self.behaviour.counts, self.behaviour.signs
        low, high = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
        if self.behaviour.journeys.network is None:
            ends = [(scales.low, scales.high) for scales in map(feature_scales, self.behaviour.journeys.domains)]
            low, high = np.einsum("k,kej->ej", self.behaviour.shares, np.array(ends))
        width = np.where(np.isfinite(high - low), high - low, np.abs(counts))
        met = np.maximum(np.abs(counts), np.abs(fit.soft.expectation))
        is_constant = width <= 1e-9 * np.minimum(np.abs(low) + np.abs(high), np.abs(counts)) + 1e-300
        is_constant |= np.diag(fit.soft.jacobian) <= 1e-18 * met**2
        from_end = np.minimum(counts - low, high - counts)
        return width, is_constant, (from_end <= np.sqrt(np.maximum(np.diag(covariance), 0.0))) & ~is_constant

    def _reasons(self, fit: _Fit, is_constant: Flags, is_unmet: Flags) -> list[str]:
        """Why each unknown is not determined; empty where it is."""
        names, counts, n = self.domain.names[self.n_known :], self.behaviour.counts[self.n_known :], self.behaviour.n
        reasons = ["no choice changes it" if constant else "" for constant in is_constant]
        for k in np.flatnonzero(is_unmet):
            reasons[k] = f"the {n} trajectories keep it, within its sampling error, at the end of its range"
            if counts[k] == 0:
                reasons[k] = f"none of the {n} trajectories met it"
        active = np.flatnonzero(~is_constant & ~is_unmet)
        lift = fit.lift[:, active]
        hessian = lift.T @ fit.soft.jacobian @ lift
        size = np.sqrt(np.maximum(np.diag(hessian), np.finfo(np.float64).tiny))
        values, vectors = np.linalg.eigh(hessian / size[:, None] / size)
        # A direction with so small a share of the curvature of its features is a combination without effect.
        without = vectors[:, values <= 1e-9]
        for i, k in enumerate(active):
            if np.abs(without[i]).max(initial=0.0) > 1e-3:
                along = without[:, np.abs(without[i]).argmax()]
                others = [names[active[m]] for m in np.flatnonzero(np.abs(along) > 1e-3) if m != i]
                reasons[k] = f"only its combination with {', '.join(others)} is" if others else "it makes no difference"
        return reasons

    def _p_value(self, fit: _Fit, column: int) -> float:
        """1 - Phi(z) of the one-sided score test of x[column] = 0; NaN where no finite value has this zero."""
        others = np.delete(np.arange(len(fit.x)), column)
        try:
            soft = self.behaviour.matched(self.base, fit.lift[:, others], fit.x[others])[1]
        except EndlessValue:
            return math.nan
        hessian = fit.lift.T @ soft.jacobian @ fit.lift
        gradient = fit.lift.T @ (soft.expectation - self.behaviour.counts)
        v = np.zeros(len(fit.x))
        v[column] = 1.0
        among = hessian[np.ix_(others, others)]
        v[others] = -np.linalg.pinv(among, rcond=1e-10, hermitian=True) @ hessian[others, column]
        weights = fit.lift @ v
        variance = float(weights @ self.behaviour.covariance(soft) @ weights)
        # The gradient in b_j is mu_hat - mu: behaviour that falls short of mu has a negative one.
        return float(norm.sf(-float(v @ gradient) / math.sqrt(variance))) if variance > 0 else math.nan

    def _model_test(self, fit: _Fit, influence: Matrix) -> tuple[float, float]:
        """The p-value of Hotelling's test that the means of what was not fitted are those of the soft policies.

        And the logarithm of the likelihood of the choices that were seen.
        """
        behaviour, n = self.behaviour, self.behaviour.n
        rows = []
        slope, logs = np.zeros(len(behaviour.counts)), 0.0
        for domain, walks, soft in behaviour.softs(fit.soft):
            apart = np.hstack(trajectory_counts(domain, walks)) - soft.ahead[walks.states[walks.offsets[:-1]]]
            surprise, change, likelihood = _surprise(domain, walks, soft)
            rows.append(np.column_stack([apart, surprise]))
            slope += change / n
            logs += likelihood
        deviations = np.vstack(rows)
        apart = deviations[:, :-1]
        moments = np.delete(deviations, slice(self.n_known, -1), axis=1)
        slopes = np.vstack([fit.soft.jacobian[: self.n_known], slope])
        corrected = moments - apart @ influence.T @ (slopes @ fit.lift).T
        size = corrected.std(axis=0, ddof=1)
        varies = size > 1e-9 * (np.abs(moments).max(axis=0) + np.abs(behaviour.bias).max(initial=0.0))
        k = int(varies.sum())
        if k == 0 or n <= k + 1:
            return math.nan, logs
        # Deviations within the truncation bias of the counts are none.
        allowed = np.append(behaviour.bias[: self.n_known], 0.0)
        mean = moments.mean(axis=0)
        mean = (np.sign(mean) * np.maximum(np.abs(mean) - allowed, 0.0))[varies] / size[varies]
        spread = np.linalg.pinv(np.atleast_2d(np.corrcoef(corrected[:, varies], rowvar=False)), rcond=1e-8)
        statistic = n * float(mean @ spread @ mean) * (n - k) / (k * (n - 1))
        return float(f_distribution.sf(statistic, k, n - k)), logs


def _surprise(domain: Domain, walks: Demonstrations, soft: SoftExpansion) -> tuple[Vector, Vector, float]:
    """What the choices of trajectories tell about a soft policy.

    The surprise (n,) of each trajectory, minus the derivative (d,) of its sum in the weights, and the logarithm of the
    likelihood of the choices. Where these were not seen, the first two are zero, the last is NaN.
    """
    if walks.choices is None:
        return np.zeros(walks.n), np.zeros(len(domain.names)), math.nan
    policy, first = soft.solved.policy, domain.mdp.first_choice[:-1]
    logs = np.log(np.maximum(policy, np.finfo(np.float64).tiny))
    entropy = -np.add.reduceat(policy * logs, first)
    mixed = np.add.reduceat((policy * logs)[:, None] * soft.advantages, first, axis=0)
    is_known = walks.choices != UNKNOWN
    each = np.where(is_known, logs[walks.choices] + entropy[walks.states], 0.0)
    visits = np.bincount(walks.states[is_known], minlength=len(entropy)).astype(np.float64)
    seen = float(logs[walks.choices[is_known]].sum())
    return np.add.reduceat(each, walks.offsets[:-1]), visits @ mixed, seen
