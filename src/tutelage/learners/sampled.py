"""Learners known by what they show: a function that answers each lesson, and any learner behind samples.

The function may stand for a person or another program; it may sample the lesson, `lesson.demonstrations(n, rng=rng)`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tutelage.arrays import ArrayLike, Readable, check_length, check_numbers, floats, freeze, generator, set_fields
from tutelage.chains.expectations import Expectation
from tutelage.constrained.occupancy_polytope import nearest_policy
from tutelage.constrained.problem import no_limits
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.sampling import sample_demonstrations
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Certificate, Learner, Lesson, Response, check_lesson, named, respond_after


@dataclass(frozen=True, slots=True, eq=False)
class CallbackLearner(Readable):
    """A learner given as a function.

    answer: a function of the lesson that returns `Demonstrations`, an `Expectation`, or the reward expectation (d_r,).
    match_tolerance: an expectation further than this from every policy's, relative to one plus its size, is refused.
    Demonstrations are never refused, since samples deviate by chance.

    A response's `policy` is one nearest to the answer, with a certificate of that distance, but without weights.
    """

    domain: Domain
    answer: Callable[[Lesson], Demonstrations | Expectation | ArrayLike]
    match_tolerance: float = 1e-6

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The function's answer as a response; raises `InvalidModel` where no policy has the expectation answered."""
        domain = self.domain
        given = self.answer(check_lesson(domain, lesson))
        bias = np.zeros(len(domain.names))
        preference = None
        if isinstance(given, Demonstrations):
            seen = empirical_expectation(domain, given)
            reward, preference, bias = seen.reward, seen.preference, seen.bias
        elif isinstance(given, Expectation):
            reward, preference = given.reward, given.preference
        else:
            reward = floats(given, "the answer", ndim=1)
        check_length(reward, domain.n_reward, "the answer", "reward features")
        best = nearest_policy(domain, reward, no_limits(domain))
        allowed = self.match_tolerance * (1 + float(np.abs(reward).max()))
        if not isinstance(given, Demonstrations) and best.value > allowed:
            missing = named(domain.reward_names, reward - best.expectation.reward)
            raise InvalidModel(
                f"no policy has the expectation answered: it differs from the nearest by {missing}; "
                "answer with the expectation of a policy, or raise match_tolerance"
            )
        answered = Expectation(reward, best.expectation.preference if preference is None else preference)
        missed = freeze(np.abs(reward - lesson.expectation))
        proof = Certificate(-best.value, -best.bound, best.gap, best.n_rounds, best.ended, lesson.uncertainty)
        response = Response.of(domain, lesson, best.policy)
        return replace(response, expectation=answered, mismatch_excess=missed, certificate=proof, bias=freeze(bias))


@dataclass(frozen=True, slots=True, eq=False)
class SampledLearner(Readable):
    """A learner taught by n_shown demonstrations of each lesson and seen through n_seen trajectories of its policy.

    rng: an int or a generator; responses draw from it in turn. A response's `policy` is the learner's policy, its
    `expectation` that of the trajectories seen, with its `bias`, and its `lesson` the demonstrations shown. A lesson
    with recorded demonstrations is shown unchanged, so the response's lesson, taught again, leads to the same policy.
    """

    domain: Domain
    learner: Learner
    n_shown: int
    n_seen: int
    rng: int | np.random.Generator = field(kw_only=True)

    def __post_init__(self) -> None:
        check_numbers(self, "n_shown", "n_seen", least=1, is_whole=True)
        set_fields(self, rng=generator(self.rng))

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The learner's response to a sample of the lesson, with the expectation of sampled trajectories."""
        shown, rng = check_lesson(self.domain, lesson), generator(self.rng)
        if lesson.recorded is None:
            sample = lesson.demonstrations(self.n_shown, rng=rng)
            shown = Lesson.from_demonstrations(self.domain, sample, start=lesson.initial)
        response = respond_after(self.learner, shown, after)
        trajectories = sample_demonstrations(self.domain, response.policy, self.n_seen, rng=rng)
        seen = empirical_expectation(self.domain, trajectories)
        return replace(response, lesson=shown, expectation=Expectation(seen.reward, seen.preference), bias=seen.bias)
