"""A learner behind samples: it sees a few demonstrations of the lesson, and is itself seen through a few trajectories.

Any learner can be put behind them. What it is shown is mu_hat_r of n_shown trajectories, what the teacher sees of it is
mu_hat of n_seen; both miss the expectation by a standard error that falls with the root of their number (Sec. 2).
"""

from dataclasses import dataclass, replace

import numpy as np

from tutelage.mdp.expectations import Expectation, empirical_expectation
from tutelage.mdp.model import Domain
from tutelage.mdp.sampling import sample_demonstrations
from tutelage.outcomes import InvalidModel
from tutelage.roles import Learner, Lesson, Response


@dataclass(frozen=True, slots=True, eq=False)
class SampledLearner:
    """A learner taught by n_shown demonstrations of each lesson and seen through n_seen trajectories of its policy.

    A response's `policy` is the learner's own, its `expectation` what was seen of it, and its `lesson` the
    demonstrations it was shown. A lesson that has recorded demonstrations is shown as it is: so the response's lesson,
    taught again, gets the same policy again.
    """

    domain: Domain
    learner: Learner
    n_shown: int
    n_seen: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        for name in ("n_shown", "n_seen"):
            if getattr(self, name) < 1:
                raise InvalidModel(f"{name} must be at least one, got {getattr(self, name)}")

    def respond(self, lesson: Lesson) -> Response:
        """The learner's answer to a sample of the lesson, with the expectation of a sample of the answer."""
        shown = lesson
        if lesson.recorded is None:
            shown = Lesson.from_demonstrations(self.domain, lesson.demonstrations(self.n_shown, rng=self.rng))
        response = self.learner.respond(shown)
        trajectories = sample_demonstrations(self.domain.mdp, response.policy, self.n_seen, rng=self.rng)
        seen = empirical_expectation(self.domain, trajectories)
        return replace(response, lesson=shown, expectation=Expectation(seen.reward, seen.preference))
