"""Teachers that choose among candidate lessons: one mechanism with four scores.

A candidate is a lesson of demonstrations from one start. Each round the teacher shows the candidate with the highest
score, the first of equals:

    random        none: one at random                                                                    (RandomTeacher)
    OMNI          -|w' - target|, w' the learner's weights after the candidate; or its reward then   (OmniscientTeacher)
    BBOX          |true_weights @ (mu_hat - mu_r(pi_L))|, both from the candidate's start              (BlackBoxTeacher)
    CUR           log pi_T(demonstrations) - log pi_L(demonstrations), per demonstration             (CurriculumTeacher)

OMNI and BBOX are of Kamalaruban et al. 2019, CUR of Yengera et al. 2021. pi_T is what the teacher demonstrates: the
optimal policy, ties split evenly. A teacher that is aware demonstrates the best policy that keeps the learner's
preferences instead; everything else is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutelage.arrays import ArrayLike, Vector, check_length, floats, set_fields
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import successor_features
from tutelage.data.sampling import sample_demonstrations
from tutelage.learners.cloning import choice_counts
from tutelage.model.mdp import Domain, absorbing_states
from tutelage.model.policy import check_policy, uniform_policy
from tutelage.outcomes import InvalidModel
from tutelage.roles import Advice, Lesson, Opening, Response, Round, respond_after
from tutelage.teachers.base import BaseTeacher, best_kept, reward_of


def candidate_lessons(
    domain: Domain,
    policy: ArrayLike,
    *,
    n_demonstrations: int = 1,
    max_starts: int = 50,
    anywhere: bool = False,
    rng: int = 0,
) -> tuple[Lesson, ...]:
    """One lesson of sampled demonstrations from each start of the domain; a random choice where there are more.

    anywhere: from any state but the absorbing ones, not from the starts of the domain alone.
    """
    generator, mdp = np.random.default_rng(rng), domain.mdp
    starts = np.flatnonzero(~absorbing_states(mdp) if anywhere else mdp.initial)
    if len(starts) > max_starts:
        starts = np.sort(generator.choice(starts, size=max_starts, replace=False))
    lessons = []
    for start in starts:
        at = (np.arange(mdp.n_states) == start).astype(np.float64)
        shown = sample_demonstrations(domain.starting_in(at), policy, n_demonstrations, rng=generator)
        lessons.append(Lesson.from_demonstrations(domain, shown, start=at))
    return tuple(lessons)


@dataclass(frozen=True, eq=False)
class CandidateTeacher(BaseTeacher):
    """Shows the candidate with the highest score. A subclass defines `scores(rounds)`, one for each candidate.

    learner: what is known of it, if anything. aware: whether demonstrations keep its preferences, if it has any.
    candidates: by default one lesson of n_demonstrations from each start, at most max_starts, or from anywhere.
    max_lessons: how many lessons it has. rng: the seed of everything random. initial_policy: (C,), what the learner
    does before the first lesson; by default uniform.
    """

    learner: Any = None
    aware: bool = field(default=False, kw_only=True)
    candidates: Sequence[Lesson] = field(default=(), kw_only=True)
    n_demonstrations: int = field(default=1, kw_only=True)
    max_starts: int = field(default=50, kw_only=True)
    anywhere: bool = field(default=False, kw_only=True)
    max_lessons: int = field(default=100, kw_only=True)
    rng: int = field(default=0, kw_only=True)
    initial_policy: ArrayLike | None = field(default=None, kw_only=True)
    shown_policy: Vector = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_limited:
            policy = best_kept(self.learner, self.true_weights).policy
        else:
            policy = solve_hard(self.domain.mdp, self.domain.reward_features @ self.true_weights).policy
        size = {"n_demonstrations": self.n_demonstrations, "max_starts": self.max_starts}
        made = self.candidates or candidate_lessons(self.domain, policy, anywhere=self.anywhere, rng=self.rng, **size)
        set_fields(self, shown_policy=policy, candidates=tuple(made))

    @property
    def is_limited(self) -> bool:
        """Whether the demonstrations keep preferences."""
        preference = getattr(self.learner, "preference", None)
        return self.aware and preference is not None and bool(preference.on(self.domain).names)

    def open(self) -> Opening:
        """The first candidate."""
        return Opening(*self._chosen(()))

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next candidate, until there were `max_lessons`."""
        if len(rounds) >= self.max_lessons:
            return Advice(None, f"all {self.max_lessons} lessons were taught")
        return Advice(*self._chosen(rounds))

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """(n,), of each candidate; here independent random numbers in each round."""
        return np.random.default_rng((self.rng, len(rounds))).random(len(self.candidates))

    def seen(self, rounds: Sequence[Round]) -> Vector:
        """(C,), what the learner does now."""
        if rounds:
            return rounds[-1].response.policy
        given = self.initial_policy
        return uniform_policy(self.domain.mdp) if given is None else check_policy(self.domain.mdp, given)

    def _chosen(self, rounds: Sequence[Round]) -> tuple[Lesson, str]:
        scores = self.scores(rounds)
        chosen = int(np.argmax(scores))
        return self.candidates[chosen], f"candidate {chosen} of {len(scores)}, with score {scores[chosen]:.4g}"


class RandomTeacher(CandidateTeacher):
    """Shows demonstrations from a random start."""


@dataclass(frozen=True, eq=False)
class OmniscientTeacher(CandidateTeacher):
    """OMNI: knows the learner, any, and looks one lesson ahead.

    target: (n,), where its weights are led to; without one, to the most reward after the next lesson.
    """

    target: ArrayLike | None = field(default=None, kw_only=True)

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """Minus the distance to the target after each candidate, or the reward."""
        if self.learner is None:
            raise InvalidModel("this teacher must know the learner; give learner=")
        last = rounds[-1].response if rounds else None
        return np.array([self._score(respond_after(self.learner, lesson, last)) for lesson in self.candidates])

    def _score(self, response: Response) -> float:
        if self.target is None:
            return reward_of(self.true_weights, response)
        target, weights = floats(self.target, "target", ndim=1), response.learned_weights
        if weights is None:
            raise InvalidModel("this learner's responses have no weights to lead to a target; give no target")
        check_length(target, len(weights), "target", "weights of the learner")
        return -float(np.linalg.norm(weights - target))


class BlackBoxTeacher(CandidateTeacher):
    """BBOX: shows the start from which the learner's reward differs most from that of the demonstrations."""

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """The difference of the rewards, without its sign."""
        ahead = successor_features(self.domain, self.seen(rounds))[:, : self.domain.n_reward] @ self.true_weights
        rewards = np.array([lesson.expectation @ self.true_weights for lesson in self.candidates])
        starts = np.array([lesson.seen_in(self.domain).mdp.initial @ ahead for lesson in self.candidates])
        return np.asarray(np.abs(rewards - starts))


@dataclass(frozen=True, eq=False)
class CurriculumTeacher(CandidateTeacher):
    """CUR: shows what is likely for the teacher and unlikely for the learner.

    knows_learner: whether it sees the learner's policy in each round; if not, that before the first lesson stands for
    it, and the candidates are shown in the order of their scores, again and again.
    """

    knows_learner: bool = field(default=True, kw_only=True)

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """The log-likelihood ratio per demonstration; or one for the candidate whose turn it is."""
        mdp, tiny = self.domain.mdp, np.finfo(np.float64).tiny
        learner = self.seen(rounds if self.knows_learner else ())
        ratio = np.log(np.maximum(self.shown_policy, tiny)) - np.log(np.maximum(learner, tiny))
        counts = np.array([choice_counts(self.domain, lesson) for lesson in self.candidates]).reshape(-1, mdp.n_choices)
        scores = np.asarray(counts @ ratio / [lesson.n_demonstrations or 1 for lesson in self.candidates])
        if self.knows_learner:
            return scores
        turn = np.argsort(-scores, kind="stable")[len(rounds) % len(scores)]
        return np.asarray(np.arange(len(scores)) == turn, dtype=np.float64)
