"""The learners that value causal entropy: each a choice of what mismatch and violation cost (Eq. 1; App. D and E)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tutelage.learners.dual import entropy_response
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.mdp.model import Domain
from tutelage.roles import Lesson, Response


@dataclass(frozen=True, slots=True, eq=False)
class GenericLearner:
    """Eq. 1 in full: any mismatch penalty, any preference penalty."""

    domain: Domain
    mismatch: Mismatch
    preference: Preference

    def __post_init__(self) -> None:
        self.mismatch.block(self.domain)
        self.preference.limits(self.domain)

    def respond(self, lesson: Lesson, *, start: Response | None = None) -> Response:
        """The learner's policy. start: an earlier response of a similar learner, to start from."""
        return entropy_response(self.domain, self.mismatch, self.preference, lesson, start)


@dataclass(frozen=True, slots=True, eq=False)
class SoftLearner:
    """Sec. 3.2: 1-norm penalties on mismatch and on violation, g_j(mu_c) = mu_c[j]."""

    domain: Domain
    mismatch_penalty: float
    violation_penalty: float
    violation_allowance: ArrayLike = 0.0
    mismatch: Mismatch = field(init=False)
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mismatch", Mismatch(norm=1, penalty=self.mismatch_penalty))
        object.__setattr__(
            self,
            "preference",
            Preference(norm=1, penalty=self.violation_penalty, allowance=self.violation_allowance),
        )
        self.preference.limits(self.domain)

    def respond(self, lesson: Lesson, *, start: Response | None = None) -> Response:
        """The learner's policy. start: an earlier response of a similar learner, to start from."""
        return entropy_response(self.domain, self.mismatch, self.preference, lesson, start)


@dataclass(frozen=True, slots=True, eq=False)
class StandardLearner:
    """Standard MCE-IRL (App. D): an exact match, no preferences."""

    domain: Domain
    mismatch: Mismatch = field(init=False, default_factory=Mismatch)
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "preference", Preference(rows=np.zeros((0, self.domain.n_preference))))

    def respond(self, lesson: Lesson, *, start: Response | None = None) -> Response:
        """The learner's policy. start: an earlier response of a similar learner, to start from."""
        return entropy_response(self.domain, self.mismatch, self.preference, lesson, start)


@dataclass(frozen=True, slots=True, eq=False)
class ApproximateHardLearner:
    """Footnote 1: hard preferences, and a 2-norm penalty on mismatch that stands in for the exact projection.

    squared: the penalty C_r norm_2(x)^2, which the published experiments used with C_r = 20; otherwise C_r norm_2(x).
    """

    domain: Domain
    violation_allowance: ArrayLike
    mismatch_penalty: float = 20.0
    squared: bool = True
    mismatch: Mismatch = field(init=False)
    preference: Preference = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mismatch", Mismatch(norm=2, penalty=self.mismatch_penalty, squared=self.squared))
        object.__setattr__(self, "preference", Preference(allowance=self.violation_allowance))
        self.preference.limits(self.domain)

    def respond(self, lesson: Lesson, *, start: Response | None = None) -> Response:
        """The learner's policy. start: an earlier response of a similar learner, to start from."""
        return entropy_response(self.domain, self.mismatch, self.preference, lesson, start)
