"""A new teacher: it needs `domain`, `true_weights`, `open() -> Advice` and `adapt(rounds) -> Advice`.

This example adds a teacher that moves in steps: a lesson differs from the last response by at most half of the last
mismatch. It reaches nearly the reward of volume search, but needs more rounds and has no bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tutelage as tl


@dataclass(frozen=True)
class SteppingTeacher:
    domain: tl.Domain
    true_weights: np.ndarray

    def open(self) -> tl.Advice:
        return tl.AgnosticTeacher(self.domain, self.true_weights).open()

    def adapt(self, rounds: Sequence[tl.Round]) -> tl.Advice:
        done = rounds[-1].response.expectation.reward
        step = np.abs(rounds[-1].lesson.expectation - done).max() / 2
        if step < 0.005:
            return tl.Advice(None, "the learner matches the lesson")
        sides = np.vstack([np.eye(len(done)), -np.eye(len(done))])
        near = tl.reward_limits(self.domain, sides, sides @ done + step, self.domain.reward_names * 2)
        lesson = tl.Lesson.from_policy(self.domain, tl.best_policy(self.domain, self.true_weights, near).policy)
        return tl.Advice(lesson, f"the best policy within {step:.2f} of the learner")


world, played = tl.object_world(size=10, seed=0), []
learner = tl.HardLearner(world.domain("L3"), violation_allowance=2.5)
for teacher in (tl.AgnosticTeacher, SteppingTeacher, tl.VolumeSearchTeacher):
    played.append(tl.teach(teacher(learner.domain, world.true_weights), learner))
    print(f"{teacher.__name__}\n{played[-1]}\n")
agnostic, stepping, volume = (transcript.final.response_reward for transcript in played)
assert 3 * agnostic < stepping < volume < stepping + 0.1 and len(played[1].rounds) > len(played[2].rounds)
