"""`python -m benchmarks unknown`: AdAware-BiL teaches soft learners that it knows nothing about.

The learners of the published 10x10 worlds avoid the objects of L2 to L5, with C_r and C_c in [1, 10] and an allowance
of 0, 0.5 or 2. The teacher knows the six features of L5. Measured for each way of seeing the answers: the reward at the
end, relative to that of Aware-BiL, which knows the learner; and the longest round, without the time of its plans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.measure import Figure, Step, check, timed
from tutelage.chains.expectations import expectation
from tutelage.environments.object_world import object_world
from tutelage.interaction import teach
from tutelage.learners.exact import SoftLearner
from tutelage.learners.sampled import SampledLearner
from tutelage.roles import Advice, Round
from tutelage.teachers.adaptive_bilevel import AdaptiveBilevelTeacher
from tutelage.teachers.bilevel import BilevelPlan, BilevelTeacher

SIZE, MAX_ROUNDS, N_TRAJECTORIES = 10, 10, 200
NAMES, ABSENT = ("L2", "L3", "L4", "L5"), 1e6
# What the mean reward at the end must reach, relative to Aware-BiL's, and the seconds of a round beside its plans.
WAYS = {"exact": 0.999, "mu_r alone": 0.97, "200 trajectories": 0.9}
ROUND_BELOW = 1.0
# The least reward of Aware-BiL that others are divided by.
LEAST = 0.1


@dataclass(frozen=True, eq=False)
class TimedTeacher(AdaptiveBilevelTeacher):
    """seconds: of each call of `adapt`, without those of its plans. planned: the seconds of all plans."""

    seconds: list[float] = field(default_factory=list)
    planned: list[float] = field(default_factory=list)

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        before = sum(self.planned)
        seconds, advice = timed(partial(super().adapt, rounds))
        self.seconds.append(seconds - (sum(self.planned) - before))
        return advice

    def _plan_for(self, learner: SoftLearner) -> BilevelPlan:
        seconds, plan = timed(partial(super()._plan_for, learner))
        self.planned.append(seconds)
        return plan


class Taught(NamedTuple):
    """ratio: the reward at the end over that of Aware-BiL. agnostic: the same of the first lesson. longest: the seconds
    of the longest round beside its plans.
    """

    ratio: float
    agnostic: float
    n_rounds: int
    longest: float


def steps(*, large: bool) -> list[Step]:
    """One step for each way of seeing answers. large: worlds 0 to 9 instead of 0."""
    seeds = range(10 if large else 1)
    return [Step(f"unknown learners, {way}", partial(unknown, way, seeds)) for way in WAYS]


def unknown(way: str, seeds: Sequence[int]) -> Iterator[Figure]:
    """Every learner of some worlds."""
    found = [taught(way, *soft_learner(seed, name)) for seed in seeds for name in NAMES]
    ratios, n_rounds = [one.ratio for one in found], max(one.n_rounds for one in found)
    worst = min(one.ratio - one.agnostic for one in found)
    check(way == "200 trajectories" or worst >= -1e-9, f"a learner ends {-worst:.3g} below the agnostic lesson")
    shown, note = f"{len(found)} learners, {way}", f"at most {n_rounds} rounds"
    mean = Figure(f"reward at the end, {shown}", SIZE, value=100 * float(np.mean(ratios)), unit="%", note=note)
    yield mean.at_least(100 * WAYS[way])
    yield Figure(f"lowest of them, {shown}", SIZE, value=100 * min(ratios), unit="%")
    yield Figure(f"longest round, {shown}", SIZE, ours=max(one.longest for one in found)).below(ROUND_BELOW)


def soft_learner(seed: int, name: str) -> tuple[SoftLearner, np.ndarray]:
    """A random learner in the domain with all six features, and the true weights."""
    world = object_world(size=SIZE, seed=seed)
    rng = np.random.default_rng(100 * seed + int(name[1]) - 2)
    domain, n = world.domain("L5"), world.domain(name).n_preference
    delta = np.where(np.arange(domain.n_preference) < n, rng.choice([0, 0.5, 2]), ABSENT)
    penalty, violation = rng.uniform(1, 10, 2)
    learner = SoftLearner(domain, mismatch_penalty=penalty, violation_penalty=violation, violation_allowance=delta)
    return learner, world.true_weights


def taught(way: str, learner: SoftLearner, weights: np.ndarray) -> Taught:
    """The rounds with one learner. The bound that ends exact rounds is no part of them: it is not computed here."""
    domain, is_sampled = learner.domain, way == "200 trajectories"
    teacher = TimedTeacher(
        domain,
        weights,
        observed="reward" if way == "mu_r alone" else "expectation",
        n_trajectories=N_TRAJECTORIES if is_sampled else 0,
        max_cells=0,
    )
    seen = SampledLearner(domain, learner, N_TRAJECTORIES, N_TRAJECTORIES, rng=1) if is_sampled else learner
    transcript = teach(teacher, seen, max_rounds=MAX_ROUNDS)
    best = BilevelTeacher(domain, weights, learner, max_cells=0).plan().achieved
    rewards = [float(expectation(domain, one.response.policy).reward @ weights) for one in transcript.rounds]
    # A learner that can be taught next to nothing is compared in absolute terms.
    last, first = (1 - (best - reward) / max(best, LEAST) for reward in (rewards[-1], rewards[0]))
    return Taught(last, first, len(rewards), max(teacher.seconds))
