"""Lessons, responses, certificates and rounds, and the protocols of teachers and learners."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from tutelage.arrays import Vector, check_length, floats, freeze, generator
from tutelage.chains.expectations import Expectation, expectation
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.sampling import sample_demonstrations
from tutelage.data.showing import SelectedDemonstrations, Shown, select, show
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import check_policy
from tutelage.outcomes import Ended, InvalidInput, InvalidModel


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a teacher shows: a reward expectation, with its policy or its demonstrations, if there are any.

    expectation: (d_r,), mu_hat_r, any finite vector. uncertainty: (d_r,), one standard error plus the truncation bias;
    zero where the expectation is exact. policy: (C,), in `mdp`. recorded: demonstrations that exist already. domain:
    where the features and the names are.
    """

    expectation: Vector
    uncertainty: Vector
    policy: Vector | None = None
    mdp: MDP | None = None
    recorded: Demonstrations | None = None
    domain: Domain | None = None

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
        return cls(shown, freeze(np.zeros(len(shown))), policy=checked, mdp=domain.mdp, domain=domain)

    @classmethod
    def from_demonstrations(cls, domain: Domain, demonstrations: Demonstrations) -> Self:
        """The empirical reward expectation of a finite set of demonstrations."""
        seen = empirical_expectation(domain, demonstrations)
        doubt = freeze(seen.reward_standard_error + seen.reward_bias)
        return cls(seen.reward, doubt, recorded=demonstrations, domain=domain)

    def demonstrations(self, n: int, *, rng: int | np.random.Generator) -> Demonstrations:
        """n trajectories of the policy; refused if the lesson has none."""
        if self.policy is None or self.mdp is None:
            raise InvalidModel("this lesson has no policy, so it cannot be sampled; use select_demonstrations")
        return sample_demonstrations(self.domain or self.mdp, self.policy, n, rng=generator(rng))

    def show(
        self,
        n: int,
        *,
        domain: Domain | None = None,
        true_weights: ArrayLike | None = None,
        rng: int | np.random.Generator = 0,
    ) -> Shown:
        """At most n demonstrations by name, each with its share, features and reward.

        A policy with at most n trajectories is shown as these, with their probabilities. Otherwise n trajectories are
        selected whose mean features are close to those of the lesson. domain: needed for a lesson that has an
        expectation only. true_weights: (d_r,), for the rewards.
        """
        known = domain or self.domain
        if known is None:
            raise InvalidInput("this lesson does not know its domain; give domain=")
        return show(
            known,
            check_lesson(known, self).expectation,
            n,
            policy=self.policy,
            recorded=self.recorded,
            true_weights=true_weights,
            rng=rng,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """How good a response is, and how the solver ended.

    primal: the objective of the response. dual: a bound that no response exceeds. residual: the largest violation
    of the optimality conditions; for entropy learners in units of the largest feature of the same kind, rounded to a
    power of two. uncertainty: (d_r,), that of the lesson.
    """

    primal: float
    dual: float
    residual: float
    n_steps: int
    ended: Ended
    uncertainty: Vector

    @property
    def gap(self) -> float:
        """The most by which another response could be better."""
        return abs(self.dual - self.primal)

    @property
    def relative_gap(self) -> float:
        """The gap relative to 1 + |primal|; infinite where the response violates what is hard."""
        return self.gap / (1 + abs(self.primal)) if math.isfinite(self.primal) else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """alpha^low and alpha^up, (d_r,), and beta, one per preference constraint (App. E)."""

    lower: Vector
    upper: Vector
    preference: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """A learner's response to a lesson.

    policy: (C,). expectation: its feature expectations. learned_weights: (d_r + d_c,), the weights of the reward that
    the learner maximises. mismatch_excess: (d_r,), |mu_r - mu_hat_r| beyond the allowance. violation_excess: (m,),
    g(mu_c) beyond the allowance. reward_names: (d_r,). constraint_names: (m,).
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
    constraint_names: tuple[str, ...] = ()

    def explain(self) -> str:
        """A text: which features match the lesson, which preferences bind, and what each costs."""
        proof = self.certificate
        ending = f"Certificate: gap {proof.gap:.2g}, residual {proof.residual:.2g}; {proof.ended.value}."
        return "\n".join([*self._matching(), *self._preferences(), ending])

    def _matching(self) -> list[str]:
        lines = ["What was shown, and what the learner does:"]
        size = float(max(np.abs(self.lesson.expectation).max(), np.abs(self.expectation.reward).max()))
        for i, name in enumerate(self.reward_names):
            shown, done, doubt = self.lesson.expectation[i], self.expectation.reward[i], self.lesson.uncertainty[i]
            margin = f" (known to {doubt:.3g})" if doubt > 0 else ""
            given_up = f"gives up {shown - done:.4g}" if shown > done else f"does {done - shown:.4g} more"
            verdict = "matched" if abs(shown - done) <= 1e-6 * (1 + abs(shown)) else given_up
            lines.append(f"  {name}: shown {in_digits(shown, size)}{margin}, done {in_digits(done, size)}: {verdict}")
        return lines

    def _preferences(self) -> list[str]:
        if not self.constraint_names:
            return ["The learner has no preferences."]
        lines, costs = ["Its preferences, in units of its own objective:"], self.multipliers.preference
        for name, cost, excess in zip(self.constraint_names, costs, self.violation_excess, strict=True):
            if excess > 1e-6:
                lines.append(f"  {name}: exceeded by {excess:.4g}, at {cost:.4g} for each unit")
            elif cost > 1e-6:
                lines.append(f"  {name}: binds; one more unit of allowance would gain {cost:.4g}")
            else:
                lines.append(f"  {name}: does not change the response to this lesson")
        return lines


class Learner(Protocol):
    """Turns a lesson into a response."""

    def respond(self, lesson: Lesson) -> Response:
        """The response to one lesson; it does not depend on earlier lessons."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One lesson and the learner's response to it.

    reason: why the teacher chose this lesson. bound: certified by the teacher; no lesson gets more reward from this
    learner. Infinite where no bound is known.
    """

    lesson: Lesson
    response: Response
    reason: str = ""
    bound: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """What a teacher concludes from the rounds so far.

    lesson: the next one, or None at the end. reason: why this lesson, or why none. bound: as of `Round`.
    """

    lesson: Lesson | None
    reason: str
    bound: float = math.inf


class Teacher(Protocol):
    """Chooses lessons in a domain, to maximise `true_weights @ mu_r` of the learner's response.

    A teacher keeps no memory: the same rounds yield the same advice. It may also have `certify(rounds) -> Advice`,
    which `teach` calls after the last round in place of `adapt`: the bound, the reason to stop or "", and no lesson.
    """

    @property
    def domain(self) -> Domain: ...

    @property
    def true_weights(self) -> Vector: ...

    def open(self) -> Advice:
        """The first lesson."""
        ...

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next lesson after these rounds, or no lesson and the reason to stop."""
        ...


def check_lesson(domain: Domain, lesson: Lesson) -> Lesson:
    """The lesson; refused unless it has one entry for each reward feature of the domain."""
    check_length(lesson.expectation, domain.n_reward, "the lesson's expectation", "reward features")
    return lesson


def select_demonstrations(
    domain: Domain, lesson: Lesson, n: int, *, rng: int | np.random.Generator = 0
) -> SelectedDemonstrations:
    """n trajectories with an empirical reward expectation close to that of the lesson, by greedy search and exchange.

    The pool consists of the lesson's recorded demonstrations, each used at most once; otherwise of samples from the
    lesson's policy; and for a lesson with an expectation only, of samples from the policy nearest to this expectation.
    The selection is not a random sample, so the standard error of `empirical_expectation` does not apply to it.

    rng: a seed or a generator, for the pool and the random selections. The default is seed 0, so equal calls give
    equal demonstrations.
    """
    check_lesson(domain, lesson)
    return select(domain, lesson.expectation, n, policy=lesson.policy, recorded=lesson.recorded, rng=rng)


def in_digits(value: float, size: float, *, rounding: float = 1e-9) -> str:
    """A number for a person; zero where it is a rounding error of numbers of this size."""
    return f"{0.0 if abs(value) <= rounding * size else value:.4g}"


def named(names: Sequence[str], values: Vector) -> str:
    """Values with the names of their features, for messages: 'star' 1.2, 'dot' -0.3."""
    return ", ".join(f"{name!r} {value:.4g}" for name, value in zip(names, values, strict=True))
