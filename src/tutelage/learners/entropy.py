"""The learners that value causal entropy (Eq. 1; App. D and E): they differ in their penalties alone."""

from dataclasses import dataclass, field

import numpy as np

from tutelage.learners.dual import Dual
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.mdp.allowances import Allowance
from tutelage.mdp.model import Domain
from tutelage.roles import Lesson, Response, check_lesson


@dataclass(frozen=True, eq=False)
class EntropyLearner:
    """The data of Eq. 1's learner: C_r, C_c and delta_c^hard. dual: both penalties, bound to the domain."""

    domain: Domain
    mismatch: Mismatch
    preference: Preference
    dual: Dual = field(init=False, repr=False)

    def __post_init__(self) -> None:
        dual = Dual(self.domain, self.mismatch.on(self.domain), self.preference.on(self.domain))
        object.__setattr__(self, "dual", dual)

    @property
    def mismatch_penalty(self) -> float:
        return self.mismatch.penalty

    @property
    def violation_penalty(self) -> float:
        return self.preference.penalty

    @property
    def violation_allowance(self) -> Allowance:
        return self.preference.allowance


@dataclass(frozen=True, eq=False)
class GenericLearner(EntropyLearner):
    """Eq. 1 with any mismatch penalty and any preference penalty."""

    def respond(self, lesson: Lesson, *, start: Response | None = None) -> Response:
        """The response, to a KKT residual below 1e-8 or as close as rounding allows.

        start: an earlier response of a similar learner, to start from.
        """
        shown, d_r = check_lesson(self.domain, lesson).expectation, self.domain.n_reward
        weights = np.zeros(d_r) if start is None else start.learned_weights[:d_r]
        found, tangents = self.dual.optimise(shown, weights, None if start is None else start.multipliers.preference)
        return self.dual.response(lesson, found, tangents)


@dataclass(frozen=True, eq=False, init=False)
class SoftLearner(GenericLearner):
    """Sec. 3.2: 1-norm penalties on mismatch and on violation, g_j(mu_c) = mu_c[j]."""

    def __init__(
        self, domain: Domain, *, mismatch_penalty: float, violation_penalty: float, violation_allowance: Allowance = 0.0
    ) -> None:
        mismatch = Mismatch(norm=1, penalty=mismatch_penalty)
        super().__init__(domain, mismatch, Preference(penalty=violation_penalty, allowance=violation_allowance))


@dataclass(frozen=True, eq=False, init=False)
class StandardLearner(GenericLearner):
    """Standard MCE-IRL (App. D): an exact match, no preferences."""

    def __init__(self, domain: Domain) -> None:
        super().__init__(domain, Mismatch(), Preference(rows=np.zeros((0, domain.n_preference))))


@dataclass(frozen=True, eq=False, init=False)
class ApproximateHardLearner(GenericLearner):
    """Footnote 1: hard preferences, and a 2-norm penalty on mismatch that approximates the exact projection.

    squared: the penalty C_r norm_2(x)^2, which the published experiments used with C_r = 20; otherwise C_r norm_2(x).
    """

    def __init__(
        self,
        domain: Domain,
        *,
        mismatch_penalty: float = 20.0,
        violation_allowance: Allowance = 0.0,
        squared: bool = True,
    ) -> None:
        mismatch = Mismatch(norm=2, penalty=mismatch_penalty, squared=squared)
        super().__init__(domain, mismatch, Preference(allowance=violation_allowance))

    @property
    def squared(self) -> bool:
        return self.mismatch.squared
