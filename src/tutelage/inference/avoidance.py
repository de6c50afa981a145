"""How strongly behaviour avoids each preference feature: soft inverse constraint learning (docs/behaviour.md).

An agent with reward weights a that pays b_j for each unit of preference feature j acts by the soft policy of (a, -b).
From the mean counts mu_hat of n trajectories, x = (a, b), or b alone where a is known, minimises (`behaviour`)

    f(x) = P0 @ V(L x) - mu_hat @ L x              gradient g = L' (mu(L x) - mu_hat)         Hessian H = L' J L

With S the covariance of one trajectory's counts, given its start (`count_covariance`), the estimate has the covariance
H^-1 (L' S L / n) H^-1 (the sandwich of an estimating equation). Features are measured by what is met of them: the
larger of the observed count and that of the policy with which the search starts.

A value c of b_j is tested by its score: the other unknowns are fitted with b_j = c, and with H, S and g there

    U = -v @ g,   v = e_j - H^-1 H_j on the others,       z(c) = U / sqrt(v' L' S L v / n)

is close to a standard normal number if c is the truth, also where b_j has no finite estimate. The p-value of b_j = 0
against b_j > 0 is 1 - Phi(z(0)), and the interval of b_j has all c with |z(c)| at most the normal quantile. Its ends
are found by Newton's method, dU / dc = -v @ H v. An end is infinite if no c is rejected.

The model is tested by what was not fitted: the counts of the reward features, where a was given, and the surprise of
each trajectory, the sum over its choices of

    log pi(c | s) + entropy of pi(. | s)            which has mean zero, given s, if pi is the agent's policy.

With the counts that were fitted, the means m of these moments have a derivative -G in x, and with their covariance S
over the trajectories

    n min over dx of (m - G dx) @ S^-1 (m - G dx)

has Hotelling's distribution if some x explains them. Far from it the derivative misleads: so the least of several x
counts, of the fit and of the ends of the intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import norm

from tutelage.arrays import Flags, Matrix, Readable, Vector, freeze, max_abs
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.constrained.problem import or_one
from tutelage.data.demonstrations import UNKNOWN, Demonstrations
from tutelage.data.empirical import skewness, trajectory_counts
from tutelage.inference.behaviour import MATCHED, Behaviour, Total
from tutelage.inference.recovery import feature_scales
from tutelage.model.mdp import Domain, Weights, reward_vector
from tutelage.outcomes import EndlessValue, InvalidInput, NotConverged

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
        """Whether the soft policy explains the trajectories, as far as they tell: a p-value of at least 0.0001."""
        return not self.model_p_value < REJECTED

    def avoided(self, level: float = 0.05) -> Flags:
        """(d_c,), whether the test rejects, at this level, that the feature is not avoided."""
        return self.p_value <= level

    def __str__(self) -> str:
        lines = [f"{self.n} trajectories, {100 * self.confidence:g} % intervals"]
        if not self.explained:
            lines.append(f"no soft policy of these features explains the trajectories (p = {self.model_p_value:.2g})")
        for j, name in enumerate(self.domain.preference_names):
            low, high, p = self.low[j], self.high[j], self.p_value[j]
            # Further out the tail of the normal distribution is no approximation.
            tested = "" if math.isnan(p) else f", p = {p:.3g}" if p >= 1e-6 else ", p below 1e-6"
            if not self.reasons[j]:
                error = f"{self.strength[j]:.3g} +- {self.standard_error[j]:.2g}"
                lines.append(f"{name}: {error}, {low:.3g} to {high:.3g}{tested}")
            elif low > -math.inf:
                lines.append(f"{name}: above {low:.3g}{tested}, without an upper end: {self.reasons[j]}")
            elif high < math.inf:
                lines.append(f"{name}: below {high:.3g}{tested}, without a lower end: {self.reasons[j]}")
            else:
                lines.append(f"{name}: not determined: {self.reasons[j]}")
        if math.isnan(self.model_p_value):
            lines.append("the trajectories are too few to test whether such a soft policy explains them")
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
    if not isinstance(pairs, Sequence) or not pairs or (pairs is domain and demonstrations is not None):
        raise InvalidInput("infer_preferences needs a domain and demonstrations, or one list of such pairs, not both")
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
    """A match x (k,). lift: (d, k), L. soft, first: the sum of the soft policies there, and where the search began."""

    lift: Matrix
    x: Vector
    soft: Total
    first: Total


class _Score(NamedTuple):
    """The test of x[column] = c. value, error, bias: those of U. curvature: -dU / dc. x: (k,), the others fitted."""

    value: float
    error: float
    curvature: float
    bias: float
    x: Vector

    def excess(self, side: int, quantile: float) -> float:
        """How far |z| exceeds the quantile, if c lies on this side of what is likely; negative where it does not."""
        beyond = -side * self.value - self.bias
        if self.error == 0:
            return math.copysign(math.inf, beyond)
        return beyond / self.error - quantile


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
        return _Fit(lift / unit, *self.behaviour.matched(self.base, lift / unit, x * unit, first), first)

    def estimate(self, confidence: float) -> PreferenceEstimate:
        fit, behaviour = self.matched(), self.behaviour
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        covariance = behaviour.covariance(fit.soft)
        width, is_constant, is_unmet = self._range(fit, covariance)
        reasons = self._reasons(fit, is_constant[self.n_known :], is_unmet[self.n_known :])
        kept = np.array([not reason for reason in reasons], dtype=bool)
        lift = fit.lift[:, kept]
        # How x moves with the counts, where it is determined.
        influence = np.linalg.pinv(lift.T @ fit.soft.jacobian @ lift, rcond=1e-14, hermitian=True) @ lift.T
        size = np.abs(fit.lift).sum(axis=0)
        weight = size * fit.x
        error = np.full(len(kept), np.inf)
        error[kept] = size[kept] * np.sqrt(np.maximum(np.diag(influence @ covariance @ influence.T), 0.0))
        # What follows is about the preferences alone.
        b = slice(len(kept) - d_c, None)
        words = reasons[b]
        endless = np.where(weight[b] == 0, np.nan, np.copysign(np.inf, weight[b]))
        strength = np.where(is_unmet[d_r:], endless, np.where(kept[b], weight[b], np.nan))
        low, high, p_value, likely = self._tests(fit, kept[b], is_unmet[d_r:], confidence)
        for j in np.flatnonzero(kept[b] & ~np.isfinite(high - low)):
            other = "stronger" if np.isfinite(low[j]) else "weaker" if np.isfinite(high[j]) else "any"
            words[j] = f"{other} avoidance explains the {behaviour.n} trajectories as well"
        p_model, log_likelihood = self._misfit(fit, fit.soft)
        for x in likely:
            if p_model < 0.05:
                p_model = max(p_model, self._misfit(fit, behaviour.total(self.base + fit.lift @ x))[0])
        if p_model < REJECTED:
            low, high, p_value = (np.full(d_c, end) for end in (-np.inf, np.inf, np.nan))
            words = [word or "no soft policy of these features explains the trajectories" for word in words]
        return PreferenceEstimate(
            domain=self.domain,
            strength=strength,
            standard_error=np.where([word != "" for word in words], np.inf, error[b]),
            reasons=tuple(words),
            low=low,
            high=high,
            p_value=p_value,
            reward_weights=self.base[:d_r].copy() if self.n_known else weight[:d_r],
            reward_error=np.zeros(d_r) if self.n_known else error[:d_r],
            n=behaviour.n,
            confidence=confidence,
            bias=float((behaviour.bias / or_one(width)).max(initial=0.0)),
            model_p_value=p_model,
            log_likelihood=log_likelihood,
        )

    def _tests(
        self, fit: _Fit, is_kept: Flags, is_unmet: Flags, confidence: float
    ) -> tuple[Vector, Vector, Vector, list[Vector]]:
        """(d_c,) each: both ends of the interval of each strength, and the p-value of zero; and x (k,) at the ends."""
        d_c, quantile = len(is_kept), float(norm.ppf(0.5 + confidence / 2))
        low, high, p_value = (np.full(d_c, end) for end in (-np.inf, np.inf, np.nan))
        likely = list[Vector]()
        for j in np.flatnonzero(is_kept | is_unmet).tolist():
            column = len(fit.x) - d_c + j
            size = float(np.abs(fit.lift[:, column]).sum())
            score, first, z = self._score(fit.lift, column, 0.0, fit.x), 0.0, math.inf
            if score is not None and score.error > 0:
                z = score.value / score.error
                p_value[j] = norm.sf(z)
            # Where zero is not rejected it lies within the interval, although z need not fall everywhere. A fit without
            # an end has no curvature to begin with.
            if abs(z) > 1.5 * quantile:
                at_fit = self._score(fit.lift, column, float(fit.x[column]), fit.x)
                if at_fit is not None and abs(fit.x[column]) * at_fit.curvature > 0.5 * abs(z) * at_fit.error:
                    score, first = at_fit, float(fit.x[column])
            ends = [self._end(fit, column, side, first, score, quantile) for side in (-1, 1)]
            low[j], high[j] = (size * end for end, _ in ends)
            likely += [near for _, near in ends]
        return low, high, p_value, likely

    def _score(self, lift: Matrix, column: int, value: float, near: Vector) -> _Score | None:
        """The test of x[column] = value, started from x near (k,). None where no policy with it has finite values."""
        others = np.delete(np.arange(len(near)), column)
        base = self.base + value * lift[:, column]
        try:
            fitted, soft = self.behaviour.matched(base, lift[:, others], near[others])
        except (EndlessValue, NotConverged):
            return None
        hessian = lift.T @ soft.jacobian @ lift
        v = np.zeros(len(near))
        v[column] = 1.0
        # Of an unknown that has no effect any more the unit must not overflow.
        unit = 1 / np.sqrt(np.maximum(np.diag(hessian)[others], 1e-30))
        among = unit[:, None] * hessian[np.ix_(others, others)] * unit
        v[others] = -unit * (np.linalg.pinv(among, rcond=1e-10, hermitian=True) @ (unit * hessian[others, column]))
        weights = lift @ v
        variance = float(weights @ self.behaviour.covariance(soft) @ weights)
        # Behaviour that falls short of mu has more avoidance than this.
        missing = float(weights @ (self.behaviour.counts - soft.expectation))
        # The other unknowns are matched to a tolerance only.
        bias = float(np.abs(weights) @ self.behaviour.bias + 2 * MATCHED * np.abs(v).sum())
        x = np.insert(fitted, column, value)
        return _Score(missing, math.sqrt(max(variance, 0.0)), float(v @ hessian @ v), bias, x)

    def _end(
        self, fit: _Fit, column: int, side: int, first: float, score: _Score | None, quantile: float
    ) -> tuple[float, Vector]:
        """The lower (side -1) or upper end (side 1) of x[column], and x (k,) there. first: where to begin, at `score`.

        By secants of z, kept between a value that is not rejected and the nearest one that is. The end itself is
        rejected, at a quantile that is at most a hundredth larger.
        """
        inner = start = float(fit.x[column])
        at = first if side * (first - start) >= 0 else start
        outer, near, reach, last = math.inf, fit.x, 0.0, (math.nan, math.nan)
        for n_steps in range(12):
            score = self._score(fit.lift, column, at, near) if n_steps or at != first else score
            step, excess = math.nan, math.inf
            if score is not None:
                near = score.x
                excess = score.excess(side, quantile)
                slope = (excess - last[1]) / (side * (at - last[0]))
                slope = slope if slope > 0 else score.curvature / max(score.error, 1e-300)
                step = (0.005 * quantile - excess) / slope if slope > 0 else math.nan
                last = at, excess
            # Without any effect left nothing further out is rejected.
            if 0 <= excess <= 0.01 * quantile or excess == -math.inf:
                return (at if excess >= 0 else side * math.inf), near
            inner, outer = (at, outer) if excess < 0 else (inner, at)
            reach = reach or (abs(step) if 0 < abs(step) < math.inf else 1.0)
            room = abs(outer - inner)
            ahead = side * (at - inner) + step
            if math.isinf(room):
                ahead = min(ahead, 8 * max(abs(inner - start), reach)) if ahead > 0 else 8 * reach
            elif not 0 < ahead < room:
                ahead = 0.5 * room
            at = inner + side * ahead
            if at in (inner, outer):
                break
        return (outer if math.isfinite(outer) else side * math.inf), near

    def _range(self, fit: _Fit, covariance: Matrix) -> tuple[Vector, Flags, Flags]:
        """(d,) each: the width of a count's range; whether no choice changes it; whether it may be at its end."""
        counts, signs = self.behaviour.counts, self.behaviour.signs
        low, high = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
        if self.behaviour.journeys.network is None:
            ends = [(scales.low, scales.high) for scales in map(feature_scales, self.behaviour.journeys.domains)]
            low, high = np.einsum("k,kej->ej", self.behaviour.shares, np.array(ends))
        met = np.abs([counts, fit.soft.expectation, fit.first.expectation]).max(axis=0)
        width = np.where(np.isfinite(high - low), high - low, met)
        is_constant = width <= 1e-9 * np.minimum(np.abs(low) + np.abs(high), np.abs(counts)) + 1e-300
        # At the fit a feature that is avoided strongly has no effect any more.
        is_constant |= np.diag(np.maximum(fit.soft.jacobian, fit.first.jacobian)) <= 1e-18 * met**2
        from_end = np.minimum(counts - low, high - counts)
        return width, is_constant, (from_end <= np.sqrt(np.maximum(np.diag(covariance), 0.0))) & ~is_constant

    def _reasons(self, fit: _Fit, is_constant: Flags, is_unmet: Flags) -> list[str]:
        names = self.domain.names[self.n_known :]
        counts = self.behaviour.counts[self.n_known :]
        reasons = ["no choice changes it" if constant else "" for constant in is_constant]
        for k in np.flatnonzero(is_unmet):
            reasons[k] = (
                f"the {self.behaviour.n} trajectories keep it, within its sampling error, at the end of its range"
            )
            if counts[k] == 0:
                reasons[k] = f"none of the {self.behaviour.n} trajectories met it"
        active = np.flatnonzero(~is_constant & ~is_unmet)
        lift = fit.lift[:, active]
        hessian = lift.T @ fit.soft.jacobian @ lift
        size = np.sqrt(np.maximum(np.diag(hessian), np.finfo(np.float64).tiny))
        values, vectors = np.linalg.eigh(hessian / size[:, None] / size)
        # A direction with so small a share of the curvature of its features is a combination without effect.
        without = vectors[:, values <= 1e-9]
        for i, k in enumerate(active):
            if max_abs(without[i]) > 1e-3:
                along = without[:, np.abs(without[i]).argmax()]
                others = [names[active[m]] for m in np.flatnonzero(np.abs(along) > 1e-3) if m != i]
                combined = f"only its combination with {', '.join(others)} is determined"
                reasons[k] = combined if others else "it makes no difference"
        return reasons

    def _misfit(self, fit: _Fit, near: Total) -> tuple[float, float]:
        """The p-value of the model, with the moments linear around one point, and the log-likelihood there."""
        behaviour, n = self.behaviour, self.behaviour.n
        rows = []
        slope, logs = np.zeros(len(behaviour.counts)), 0.0
        for domain, walks, soft in behaviour.softs(near):
            apart = np.hstack(trajectory_counts(domain, walks)) - soft.ahead[walks.states[walks.offsets[:-1]]]
            surprise, change, likelihood = _surprise(domain, walks, soft)
            rows.append(np.column_stack([apart, surprise]))
            slope += change / n
            logs += likelihood
        moments, slopes = np.vstack(rows), np.vstack([near.jacobian, slope]) @ fit.lift
        size = moments.std(axis=0, ddof=1)
        varies = size > 1e-9 * (np.abs(moments).max(axis=0) + np.abs(behaviour.bias).max(initial=0.0))
        # Deviations within the truncation bias of the counts are none.
        mean = moments.mean(axis=0)
        mean = np.sign(mean) * np.maximum(np.abs(mean) - np.append(behaviour.bias, 0.0), 0.0)
        values, vectors = np.linalg.eigh(np.atleast_2d(np.corrcoef(moments[:, varies], rowvar=False)))
        independent = values > 1e-8
        whiten = (vectors / np.sqrt(np.maximum(values, 1e-8)))[:, independent].T / size[varies]
        columns = whiten @ slopes[varies]
        fitted, _, rank, _ = np.linalg.lstsq(columns, whiten @ mean[varies], rcond=1e-9)
        left = whiten @ mean[varies] - columns @ fitted
        k = int(independent.sum()) - int(rank)
        if k <= 0 or n <= len(mean) + 1:
            return math.nan, logs
        # Counts are skewed: where their long tail is hardly sampled, mean and deviation are too small (Johnson 1978).
        lean = float(skewness((moments[:, varies] @ whiten.T @ left)[:, None])[0])
        z = math.sqrt(n) * float(np.linalg.norm(left))
        z = min(z, max(z + lean * (1 + 2 * z**2) / (6 * math.sqrt(n)), 0.0))
        return float(f_distribution.sf(z**2 * (n - k) / (k * (n - 1)), k, n - k)), logs


def _surprise(domain: Domain, walks: Demonstrations, soft: SoftExpansion) -> tuple[Vector, Vector, float]:
    """The surprise (n,), minus the derivative (d,) of its sum in the weights, and the log-likelihood of the choices."""
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
