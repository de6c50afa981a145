"""A learner behind samples: it sees demonstrations of the lesson, and the teacher sees trajectories of its policy.

Any learner can be wrapped. It is shown mu_hat_r of n_shown trajectories, and the teacher sees mu_hat of n_seen. Both
differ from the expectation by a standard error proportional to 1 / sqrt(n) (Sec. 2).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from tutelage.arrays import generator
from tutelage.mdp.expectations import Expectation, empirical_expectation
from tutelage.mdp.model import Domain
from tutelage.mdp.sampling import sample_demonstrations
from tutelage.outcomes import InvalidModel
from tutelage.roles import Learner, Lesson, Response


@dataclass(frozen=True, slots=True, eq=False)
class SampledLearner:
    """A learner taught by n_shown demonstrations of each lesson and seen through n_seen trajectories of its policy.

    rng: an int or a generator; responses draw from it in turn. A response's `policy` is the learner's policy, its
    `expectation` that of the trajectories seen, and its `lesson` the demonstrations shown. A lesson with recorded
    demonstrations is shown unchanged, so the response's lesson, taught again, leads to the same policy.
    """

    domain: Domain
    learner: Learner
    n_shown: int
    n_seen: int
    rng: int | np.random.Generator = field(kw_only=True)

    def __post_init__(self) -> None:
        for name in ("n_shown", "n_seen"):
            if getattr(self, name) < 1:
                raise InvalidModel(f"{name} must be at least one, got {getattr(self, name)}")
        object.__setattr__(self, "rng", generator(self.rng))

    def respond(self, lesson: Lesson) -> Response:
        """The learner's response to a sample of the lesson, with the expectation of sampled trajectories."""
        shown, rng = lesson, generator(self.rng)
        if lesson.recorded is None:
            shown = Lesson.from_demonstrations(self.domain, lesson.demonstrations(self.n_shown, rng=rng))
        response = self.learner.respond(shown)
        trajectories = sample_demonstrations(self.domain.mdp, response.policy, self.n_seen, rng=rng)
        seen = empirical_expectation(self.domain, trajectories)
        return replace(response, lesson=shown, expectation=Expectation(seen.reward, seen.preference))
