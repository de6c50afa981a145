"""What a teacher must know of a learner to teach it without asking, and what any teacher is given."""

import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson, Response


class KnownLearner(Protocol):
    """A learner whose preferences are known."""

    @property
    def domain(self) -> Domain: ...

    @property
    def preference(self) -> Preference: ...

    def respond(self, lesson: Lesson) -> Response: ...


class KnownEntropyLearner(KnownLearner, Protocol):
    """A learner of Eq. 1: what it pays for mismatch is known too."""

    @property
    def mismatch(self) -> Mismatch: ...


def check_weights(domain: Domain, true_weights: ArrayLike) -> Vector:
    """(d_r,), one weight for each reward feature."""
    weights = floats(true_weights, "true_weights", ndim=1)
    check_length(weights, domain.n_reward, "true_weights", "reward features")
    return weights


def check_learner(domain: Domain, learner: KnownLearner) -> None:
    """Refuse a learner whose preferences are not known, or that lives elsewhere."""
    if not isinstance(getattr(learner, "preference", None), Preference):
        raise InvalidModel(
            f"this teacher must know the learner's preferences; {type(learner).__name__} has none to show"
        )
    theirs = learner.domain
    if theirs.mdp.n_choices != domain.mdp.n_choices or theirs.n_reward != domain.n_reward:
        raise InvalidModel(f"the learner lives in {theirs}, but the teacher in {domain}")


def is_soft(learner: KnownEntropyLearner) -> bool:
    """Whether it is Sec. 3.2's learner: 1-norm penalties, both finite, on each feature by itself."""
    mismatch, preference = learner.mismatch, learner.preference
    is_plain = not np.any(mismatch.allowance) and preference.rows is None and not preference.functions
    are_finite = math.isfinite(mismatch.penalty) and math.isfinite(preference.penalty)
    return is_plain and are_finite and mismatch.norm == preference.norm == 1
