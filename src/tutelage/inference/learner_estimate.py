"""The parameters of a soft learner from its answers: what they determine, and nothing that they do not.

    tl.infer_learner(domain, rounds).learner()

The most plausible learner has no preference that the answers do not need. It pays the least multipliers that explain
every answer, C_c is the largest of them, and delta_j is the least mu_c[j] at which one was paid.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np

from tutelage.arrays import Flags, Matrix, Readable, Vector, freeze, max_abs, whole_number
from tutelage.inference.answering import answers_of
from tutelage.inference.fit_search import THOROUGH, Effort, Searches, fits_near, fits_of, more_searches, search_fits
from tutelage.inference.misfit import Evidence
from tutelage.inference.recovery import Answer, Scales, feature_scales, recover
from tutelage.inference.version_space import Contradiction, Explained, fitted_space, misfit_of, narrowed, rivals_of
from tutelage.learners.exact import SoftLearner
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput, NotConverged
from tutelage.roles import Response, Round, check_lesson

# The error of an exact answer, relative to the range of each feature.
EXACT_ANSWER = 1e-12
# A learner gives the answers seen if it misses them by at most this, relative to the range of each feature.
REPRODUCED = 1e-6

Observed = Literal["expectation", "reward"]
Verdict = Literal["there", "not there", "open"]


class Interval(NamedTuple):
    """All values from low to high, both included; high may be infinite."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Real) and self.low <= float(value) <= self.high


@dataclass(frozen=True, slots=True, eq=False)
class LearnerEstimate(Readable):
    """What the answers say about a learner, if it is that of Sec. 3.2.

    space: (2, 2 + d_c), both ends of (C_r, C_c, delta). residual: the largest misfit of an answer, relative to the
    range of the feature. contradiction: why no soft learner gives these answers, or empty; then the intervals say
    nothing. plausible: (2 + d_c,), those of `learner()`. explains: whether `learner()` gives the answers seen: within
    1e-6 of the range of each feature where they are exact, or within two standard deviations of the sum of squared
    sampling errors. answers, explained: what each exact answer determines. rivals: the parameters of other learners
    that explain the answers, where the answers were fitted. searches: those for fits, to be continued.
    """

    domain: Domain
    space: Matrix
    residual: float
    contradiction: str
    plausible: Vector
    explains: bool
    answers: tuple[Answer, ...] = field(default=(), repr=False)
    explained: tuple[Explained, ...] = field(default=(), repr=False)
    rivals: tuple[Vector, ...] = field(default=(), repr=False)
    searches: Searches | None = field(default=None, repr=False)

    @property
    def mismatch_penalty(self) -> Interval:
        """That of C_r."""
        return Interval(*self.space[:, 0].tolist())

    @property
    def violation_penalty(self) -> Interval:
        """That of C_c."""
        return Interval(*self.space[:, 1].tolist())

    @property
    def violation_allowance(self) -> tuple[Interval, ...]:
        """That of delta_j, for each preference feature."""
        return tuple(Interval(*ends) for ends in self.space[:, 2:].T.tolist())

    @property
    def preferences(self) -> tuple[Verdict, ...]:
        """Whether each preference is there, is not there (delta_j exceeds what any policy does), or may be either."""
        (low, high), d_r, scales = self.space[:, 2:], self.domain.n_reward, feature_scales(self.domain)
        most, is_flat = (scales.high - 10 * scales.slack)[d_r:], scales.is_constant[d_r:]
        said = np.where(high < most, "there", np.where(low >= most, "not there", "open"))
        return tuple(np.where(is_flat, "open", said).tolist())

    @property
    def directions(self) -> Matrix:
        """(k, d), an orthonormal basis of all combinations of the weights (a, -b) that an answer determined."""
        # The columns of L have disjoint supports, so that x = (L'w) / |L|^2 column by column.
        rows = [answer.directions / (answer.lift**2).sum(axis=0) @ answer.lift.T for answer in self.answers]
        combinations = np.vstack([np.zeros((0, len(self.domain.names))), *rows])
        sizes = np.linalg.norm(combinations, axis=1, keepdims=True)
        _, values, vectors = np.linalg.svd(combinations / sizes, full_matrices=False)
        return np.asarray(vectors[values > 1e-6 * values.max(initial=0.0)])

    @property
    def identified(self) -> Flags:
        """(d,), whether the weight of each feature was determined by itself."""
        return np.asarray(np.linalg.norm(self.directions, axis=0) >= 1 - 1e-6)

    def learner(self) -> SoftLearner:
        """The most plausible learner."""
        return self.learner_of(self.plausible)

    def learner_of(self, theta: Vector) -> SoftLearner:
        """The learner of some parameters."""
        c_r, c_c, *delta = _finite(theta, self.domain).tolist()
        return SoftLearner(self.domain, mismatch_penalty=c_r, violation_penalty=c_c, violation_allowance=delta)

    def __str__(self) -> str:
        lines = [f"C_r: {_shown(self.mismatch_penalty)}", f"C_c: {_shown(self.violation_penalty)}"]
        rows = zip(self.domain.preference_names, self.preferences, self.violation_allowance, strict=True)
        for name, verdict, allowance in rows:
            lines.append(f"{name}: {verdict.replace('open', 'may or may not be there')}, delta {_shown(allowance)}")
        if self.contradiction or not self.explains:
            lines.append(self.contradiction or "no single learner was computed that gives these answers")
        return "\n".join(lines)


def infer_learner(
    domain: Domain,
    rounds: Sequence[Round],
    *,
    observed: Observed = "expectation",
    n_trajectories: int = 0,
    accuracy: float = EXACT_ANSWER,
) -> LearnerEstimate:
    """What the rounds say about a soft learner of which only its answers are known.

    domain: with every preference feature that the learner might have. observed: "expectation" uses all of mu of each
    response; "reward" uses mu_r alone. n_trajectories: each answer is the mean of this many trajectories; 0 where it is
    exact. accuracy: the error of exact answers, relative to the range of each feature.

    All intervals assume the learner of Sec. 3.2. From exact expectations they then contain the truth, as far as
    `accuracy` holds. Those of samples are 95 % intervals by the normal approximation around every fit found that the
    samples do not reject, and those of "reward" assume that one of the fits found is the learner. A `contradiction` of
    exact expectations rules out a learner of Sec. 3.2. That of a fit says that the search found none, and it may have
    missed one. Without a contradiction such a learner is not proved: with one reward feature, for example, a squared
    mismatch penalty or a mismatch allowance cannot be told from C_r.
    """
    if not accuracy > 0:
        raise InvalidInput(f"accuracy must be positive, got {accuracy}")
    n = whole_number(n_trajectories, "n_trajectories", least=0)
    return estimate_from(domain, rounds, observed=observed, n_trajectories=n, accuracy=accuracy)


def estimate_from(
    domain: Domain,
    rounds: Sequence[Round],
    *,
    observed: Observed,
    n_trajectories: int,
    accuracy: float = EXACT_ANSWER,
    has_intervals: bool = True,
    effort: Effort = THOROUGH,
    begun: Searches | None = None,
) -> LearnerEstimate:
    """As `infer_learner`. has_intervals: also of fits. begun: searches of the same answers, to be continued."""
    if not rounds:
        raise InvalidInput("infer_learner needs at least one round; teach a lesson first")
    if observed not in ("expectation", "reward"):
        raise InvalidInput(f"observed must be 'expectation' or 'reward', got {observed!r}")
    responses = [taught.response for taught in rounds]
    exact = np.zeros(len(domain.names))
    evidence = Evidence(
        domain,
        shown=_rows(check_lesson(domain, response.lesson).expectation for response in responses),
        seen=_rows(response.expectation.both for response in responses),
        bias=_rows(exact if response.bias is None else response.bias for response in responses),
        n_seen=domain.n_reward if observed == "reward" else len(domain.names),
        n_trajectories=n_trajectories,
    )
    if observed == "expectation" and not n_trajectories:
        return _exact(evidence, responses, accuracy)
    searches = search_fits(evidence, effort) if begun is None else more_searches(evidence, begun, effort)
    return _fitted(evidence, searches, accuracy, has_intervals=has_intervals)


def _rows(arrays: Iterable[Vector]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(array.tolist()) for array in arrays)


def _exact(evidence: Evidence, responses: Sequence[Response], accuracy: float) -> LearnerEstimate:
    scales, answers, contradiction = evidence.scales, list[Answer](), ""
    try:
        for place, response in enumerate(responses):
            answers.append(_recovered(evidence, place, response, accuracy))
        space, explained = narrowed(answers, scales, evidence.everything)
        plausible = _most_plausible(scales, answers, space, explained)
        misfit = _misfit(evidence, plausible)
        if misfit > REPRODUCED:
            for fit in fits_near(evidence, plausible):
                if _misfit(evidence, fit.theta) < misfit:
                    plausible, misfit = fit.theta, _misfit(evidence, fit.theta)
    except Contradiction as failure:
        space, explained, contradiction = evidence.everything, [], str(failure)
        plausible, misfit = fits_of(evidence, search_fits(evidence, THOROUGH).ends)[0].theta, math.inf
    residual = max((answer.residual for answer in answers), default=math.inf)
    known = LearnerEstimate(evidence.domain, space, residual, contradiction, plausible, misfit <= REPRODUCED)
    return replace(known, answers=tuple(answers), explained=tuple(explained))


def _fitted(evidence: Evidence, searches: Searches, accuracy: float, *, has_intervals: bool) -> LearnerEstimate:
    best, *others = fits_of(evidence, searches.ends)
    misfit = max_abs(((best.answers - evidence.target) / evidence.scales.unit)[:, : evidence.n_seen])
    contradiction = misfit_of(best, evidence)
    space = evidence.everything
    if has_intervals and not contradiction:
        space = fitted_space(evidence, (best, *others), accuracy)
    is_near = best.cost <= evidence.good if evidence.is_sampled else misfit <= REPRODUCED
    known = LearnerEstimate(evidence.domain, space, misfit, contradiction, best.theta, is_near and not contradiction)
    return replace(known, rivals=rivals_of(evidence, best, others), searches=searches)


def _recovered(evidence: Evidence, place: int, response: Response, accuracy: float) -> Answer:
    number = place + 1
    try:
        answer = recover(evidence.domain, evidence.shown[place], evidence.seen[place], accuracy)
    except NotConverged as failure:
        raise Contradiction(f"no finite weights explain the answer of round {number}: {failure}") from None
    if answer.residual > max(1e-8, 100 * accuracy):
        raise Contradiction(
            f"the answer of round {number} is not that of a soft learner: "
            f"the nearest misses it by {answer.residual:.2g} of the range of a feature"
        )
    # An answer may be as inexact as its residual says, in units of the largest feature, but not more than 1e-5.
    residual = 0.0 if response.certificate is None else response.certificate.residual
    return replace(answer, blur=2 * max_abs(evidence.domain.preference_features) * min(residual, 1e-5))


def _most_plausible(scales: Scales, answers: Sequence[Answer], space: Matrix, explained: Sequence[Explained]) -> Vector:
    """The simplest learner of the space that gives the answers. First C_r, then C_c narrow the choices that follow."""
    d_r = len(answers[0].shown)
    low, high = space[:, 0].tolist()
    doubled = max(2 * low, 10 / float(scales.unit[:d_r].min()))
    penalty = max((low + high) / 2 if math.isfinite(high) else doubled, 1e-9 * doubled)
    place = np.arange(space.shape[1])
    try:
        smaller, within = narrowed(answers, scales, np.where(place == 0, penalty, space))
        violation = _violation(smaller, within, scales)
        smaller, within = narrowed(answers, scales, np.where(place == 1, violation, smaller))
    except Contradiction:
        # Within rounding of an end of the interval.
        smaller, within = space, list(explained)
        violation = _violation(space, explained, scales)
    # The least mu_c at which a preference was paid for, and no preference that no answer needs.
    paid = np.array([each.least for each in within])
    done = np.array([each.answer.seen[d_r:] for each in within])
    needed = paid > 1e-6 * violation + 1e-9 / scales.unit[d_r:]
    allowance = np.where(needed, done, np.inf).min(axis=0)
    allowance = np.clip(allowance, smaller[0, 2:], np.where(allowance < np.inf, smaller[1, 2:], np.inf))
    # An allowance that no policy exceeds is no preference.
    delta = np.where(allowance >= scales.high[d_r:], np.inf, np.maximum(allowance, 0.0))
    return freeze(np.append([penalty, violation], delta))


def _violation(space: Matrix, explained: Sequence[Explained], scales: Scales) -> float:
    """C_c: the least that pays every answer, or where nothing is paid any number."""
    paid = max(float(answer.least.max(initial=0.0)) for answer in explained)
    return max(paid, float(space[0, 1])) or 1 / float(scales.unit.max())


def _misfit(evidence: Evidence, theta: Vector) -> float:
    """How far the answers of a learner are from those seen, at most, relative to the range of each feature."""
    try:
        given = answers_of(evidence.domain, _finite(theta, evidence.domain), np.array(evidence.shown), 0.0, None)
    except NotConverged:
        return math.inf
    return max_abs((given.expectation - evidence.target) / evidence.scales.unit)


def _finite(theta: Vector, domain: Domain) -> Vector:
    """theta, where a preference without limit has an allowance that no policy reaches."""
    most = 2 * np.abs(feature_scales(domain).high[domain.n_reward :]) + 1
    return np.append(theta[:2], np.where(np.isinf(theta[2:]), most, theta[2:]))


def _shown(interval: Interval) -> str:
    low, high = interval
    return f"{low:.6g}" if high - low <= 1e-5 * (1 + abs(low)) else f"{low:.4g} to {high:.4g}"
