"""What passes between teacher and learner: lessons, responses and their certificates; and what each role must do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats, freeze
from tutelage.mdp.demonstrations import Demonstrations
from tutelage.mdp.empirical import empirical_expectation
from tutelage.mdp.expectations import Expectation, expectation
from tutelage.mdp.model import MDP, Domain
from tutelage.mdp.policy import check_policy
from tutelage.mdp.sampling import sample_demonstrations
from tutelage.outcomes import Ended, InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a teacher shows: a reward expectation, with the policy or the demonstrations it comes from, if any.

    expectation: (d_r,), mu_hat_r. Any finite vector will do, also one that no policy has.
    uncertainty: (d_r,), how far it may be from what the demonstrator expects, one standard error and the truncation
    bias together; zero where the expectation is exact. policy: (C,), what is demonstrated, in `mdp`; recorded: what was
    demonstrated already.
    """

    expectation: Vector
    uncertainty: Vector
    policy: Vector | None = None
    mdp: MDP | None = None
    recorded: Demonstrations | None = None

    @classmethod
    def from_expectation(cls, reward_expectation: ArrayLike) -> Self:
        """An exact reward expectation (d_r,)."""
        shown = floats(reward_expectation, "the lesson's expectation", ndim=1)
        return cls(shown, freeze(np.zeros(len(shown))))

    @classmethod
    def from_policy(cls, domain: Domain, policy: ArrayLike) -> Self:
        """The exact reward expectation of a policy (C,)."""
        checked = check_policy(domain.mdp, policy)
        shown = expectation(domain, checked).reward
        return cls(shown, freeze(np.zeros(len(shown))), policy=checked, mdp=domain.mdp)

    @classmethod
    def from_demonstrations(cls, domain: Domain, demonstrations: Demonstrations) -> Self:
        """The empirical reward expectation of a finite set of demonstrations."""
        seen = empirical_expectation(domain, demonstrations)
        return cls(seen.reward, freeze(seen.reward_standard_error + seen.reward_bias), recorded=demonstrations)

    def demonstrations(self, n: int, *, rng: np.random.Generator) -> Demonstrations:
        """n trajectories of the policy that is demonstrated; refused where the lesson has none."""
        if self.policy is None or self.mdp is None:
            raise InvalidModel("this lesson is an expectation without a policy, so there is nothing to sample from")
        return sample_demonstrations(self.mdp, self.policy, n, rng=rng)


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """How good an answer is, and how it ended.

    primal: the objective that the answer reaches. dual: a bound that no answer exceeds. residual: the largest violation
    of the optimality conditions; for learners that value entropy, in units of the largest feature of its kind, rounded
    to a power of two. uncertainty: (d_r,), the lesson's own.
    """

    primal: float
    dual: float
    residual: float
    n_steps: int
    ended: Ended
    uncertainty: Vector

    @property
    def gap(self) -> float:
        """By how much any other answer could be better."""
        return abs(self.dual - self.primal)

    @property
    def relative_gap(self) -> float:
        """The gap relative to 1 + |primal|."""
        return self.gap / (1 + abs(self.primal))


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """alpha^low and alpha^up, (d_r,), and beta, one per preference constraint (App. E)."""

    lower: Vector
    upper: Vector
    preference: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """What a learner makes of a lesson.

    policy: (C,). expectation: its feature expectations. learned_weights: (d_r + d_c,), the reward it acts as if it had.
    mismatch_excess: (d_r,), |mu_r - mu_hat_r| beyond what is granted. violation_excess: (m,), g(mu_c) likewise.
    constraint_names: (m,), and reward_names, (d_r,), for explaining.
    """

    lesson: Lesson
    policy: Vector
    expectation: Expectation
    learned_weights: Vector
    multipliers: Multipliers
    mismatch_excess: Vector
    violation_excess: Vector
    certificate: Certificate
    reward_names: tuple[str, ...]
    constraint_names: tuple[str, ...] = field(default=())

    def explain(self) -> str:
        """For a person: which preferences bind, what each costs, and what was given up."""
        return "\n".join([*self._matching(), *self._preferences(), self._ending()])

    def _matching(self) -> list[str]:
        lines = ["What was shown, and what the learner does:"]
        for i, name in enumerate(self.reward_names):
            shown, done = self.lesson.expectation[i], self.expectation.reward[i]
            doubt = self.lesson.uncertainty[i]
            margin = f" (known to {doubt:.3g})" if doubt > 0 else ""
            given_up = f"gives up {shown - done:.4g}" if shown > done else f"does {done - shown:.4g} more"
            verdict = "matched" if abs(shown - done) <= 1e-6 * (1 + abs(shown)) else given_up
            lines.append(f"  {name}: shown {shown:.4g}{margin}, done {done:.4g}: {verdict}")
        return lines

    def _preferences(self) -> list[str]:
        if not self.constraint_names:
            return ["The learner has no preferences."]
        lines = ["Its preferences:"]
        for name, cost, excess in zip(
            self.constraint_names, self.multipliers.preference, self.violation_excess, strict=True
        ):
            if excess > 1e-6:
                lines.append(f"  {name}: exceeded by {excess:.4g}, at {cost:.4g} for each unit")
            elif cost > 1e-6:
                lines.append(f"  {name}: binds; granting one unit more would be worth {cost:.4g}")
            else:
                lines.append(f"  {name}: does not matter here")
        return lines

    def _ending(self) -> str:
        proof = self.certificate
        return f"Certificate: gap {proof.gap:.2g}, residual {proof.residual:.2g}; {proof.ended.value}."


class Learner(Protocol):
    """Anything that turns a lesson into a response."""

    def respond(self, lesson: Lesson) -> Response: ...


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One lesson and what the learner made of it."""

    lesson: Lesson
    response: Response


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """What a teacher makes of the rounds so far.

    lesson: the next one, or None where there is nothing more to teach. reason: why this lesson, or why none.
    bound: certified; no lesson whatever gets more reward out of this learner. Infinite where nothing is known.
    """

    lesson: Lesson | None
    reason: str
    bound: float = math.inf


class Teacher(Protocol):
    """Anything that opens with a lesson, in a domain, for the sake of `true_weights @ mu_r`."""

    @property
    def domain(self) -> Domain: ...

    @property
    def true_weights(self) -> Vector: ...

    def open(self) -> Lesson: ...


@runtime_checkable
class AdaptiveTeacher(Teacher, Protocol):
    """A teacher that goes on. Its memory is the rounds: the same rounds call for the same advice."""

    def adapt(self, rounds: Sequence[Round]) -> Advice: ...


def check_lesson(domain: Domain, lesson: Lesson) -> Lesson:
    """The lesson, refused unless it speaks of the domain's reward features."""
    check_length(lesson.expectation, domain.n_reward, "the lesson's expectation", "reward features")
    return lesson


def named(names: Sequence[str], values: Vector) -> str:
    """'star' 1.2, 'dot' -0.3: values with the names of their features, for messages."""
    return ", ".join(f"{name!r} {value:.4g}" for name, value in zip(names, values, strict=True))
