"""Players of other people, as a package of theirs would have them; run as a script, it continues a transcript.

python players.py DOMAIN.npz TRANSCRIPT.npz N_ROUNDS
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import tutelage as tl


@dataclass(frozen=True)
class SequentialLearner:
    """One gradient step of maximum-causal-entropy IRL for each lesson; noise makes the order of lessons matter.

    memory: the weights, and the state of the generator of the noise as words of 32 bits.
    """

    domain: tl.Domain
    rate: float = 0.1
    noise: float = 0.01

    def respond(self, lesson: tl.Lesson, after: tl.Response | None = None) -> tl.Response:
        weights, count = np.zeros(self.domain.n_reward), 0
        if after is not None and after.memory is not None:
            weights, count = after.memory["weights"], int(after.memory["count"])
        there = lesson.seen_in(self.domain)
        done = tl.expectation(there, self.policy(weights)).reward
        moved = weights + self.rate * (lesson.expectation - done)
        moved = moved + self.noise * np.random.default_rng(count).normal(size=len(moved))
        memory = {"weights": moved, "count": np.array(count + 1), "names": np.array(self.domain.reward_names)}
        metrics = {"loss": float(np.linalg.norm(lesson.expectation - done))}
        return tl.Response.of(self.domain, lesson, self.policy(moved), weights=moved, memory=memory, metrics=metrics)

    def policy(self, weights: np.ndarray) -> np.ndarray:
        return tl.solve_soft(self.domain.mdp, self.domain.reward_features @ weights).policy


@dataclass(frozen=True)
class LookAheadTeacher:
    """Of the starts of an optimal policy, shows the one after which the learner's reward is the largest."""

    domain: tl.Domain
    true_weights: np.ndarray
    learner: tl.RememberingLearner
    candidates: tuple[tl.Lesson, ...] = field(init=False)

    def __post_init__(self) -> None:
        best = tl.solve_hard(self.domain.mdp, self.domain.reward_features @ self.true_weights).policy
        starts = range(min(3, self.domain.mdp.n_states))
        lessons = tuple(tl.Lesson.from_policy(self.domain, best, start=state) for state in starts)
        object.__setattr__(self, "candidates", lessons)

    def open(self) -> tl.Advice:
        return self.adapt(())

    def adapt(self, rounds: Sequence[tl.Round]) -> tl.Advice:
        after = rounds[-1].response if rounds else None
        answers = [self.learner.respond(lesson, after=after) for lesson in self.candidates]
        rewards = [float(self.true_weights @ answer.expectation.reward) for answer in answers]
        return tl.Advice(self.candidates[int(np.argmax(rewards))], "the best of three, looking ahead")


if __name__ == "__main__":
    domain, so_far = tl.load(sys.argv[1]), None
    so_far = tl.load_transcript(sys.argv[2], domain)
    learner = SequentialLearner(domain)
    teacher = LookAheadTeacher(domain, so_far.true_weights, learner)
    tl.teach(teacher, learner, so_far=so_far, max_rounds=int(sys.argv[3]), path=sys.argv[2])
