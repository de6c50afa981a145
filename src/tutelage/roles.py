"""Lessons, responses, certificates and rounds, and the protocols of teachers and learners.

A learner is a pure function of the lesson and, if it remembers, of its own last response: what it carries from lesson
to lesson is `Response.memory`. So rounds can be saved, continued and replayed, and a teacher may look ahead,
`learner.respond(candidate, after=rounds[-1].response)`, without teaching anybody.
"""

import inspect
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tutelage import arrays
from tutelage.arrays import ArrayLike, Readable, Vector
from tutelage.chains.expectations import Expectation, expectation
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import empirical_expectation
from tutelage.data.sampling import SelectedDemonstrations, sample_demonstrations, select
from tutelage.data.showing import Shown, show
from tutelage.model.mdp import MDP, Domain, Weights
from tutelage.model.names import check_name
from tutelage.model.policy import check_policy, policy_from_occupancy
from tutelage.outcomes import Ended, InvalidInput, InvalidModel, within

# What a learner carries from lesson to lesson.
Memory = Mapping[str, NDArray[Any]]
# Two domains are the same if their expectations of a policy differ by less, relative to the largest.
SAME_PART = 1e-9
# A start: the name of a state, or a distribution of states (S,).
Start = Hashable | ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Lesson(Readable):
    """What a teacher shows: a reward expectation, with its policy or its demonstrations, if there are any.

    expectation: (d_r,), mu_hat_r, any finite vector. uncertainty: (d_r,), one standard error plus the truncation bias;
    zero where the expectation is exact. policy: (C,), in `mdp`. recorded: demonstrations that exist already. domain:
    where the features and the names are. initial: (S,), where the lesson starts, and so where a learner compares its
    own behaviour with it; None for the start of the domain.
    """

    expectation: Vector
    uncertainty: Vector
    policy: Vector | None = None
    mdp: MDP | None = None
    recorded: Demonstrations | None = None
    domain: Domain | None = None
    initial: Vector | None = None

    @classmethod
    def from_expectation(cls, reward_expectation: ArrayLike) -> Self:
        """An exact reward expectation (d_r,)."""
        shown = arrays.floats(reward_expectation, "the lesson's expectation", ndim=1)
        return cls(shown, arrays.freeze(np.zeros(len(shown))))

    @classmethod
    def from_policy(cls, domain: Domain, policy: ArrayLike, *, start: Start | None = None) -> Self:
        """The exact reward expectation of a policy (C,). start: as of `MDP.starting_in`; None for the domain's."""
        checked = check_policy(domain.mdp, policy)
        there = domain if start is None else domain.starting_in(start)
        initial = None if start is None else there.mdp.initial
        shown = expectation(there, checked).reward
        return cls(shown, arrays.freeze(np.zeros(len(shown))), checked, domain.mdp, domain=domain, initial=initial)

    @classmethod
    def from_demonstrations(cls, domain: Domain, demonstrations: Demonstrations, *, start: Start | None = None) -> Self:
        """The empirical reward expectation of demonstrations. start: where they begin, as of `MDP.starting_in`."""
        seen = empirical_expectation(domain, demonstrations)
        doubt = arrays.freeze(seen.reward_standard_error + seen.reward_bias)
        initial = None if start is None else domain.mdp.starting_in(start).initial
        return cls(seen.reward, doubt, recorded=demonstrations, domain=domain, initial=initial)

    @property
    def n_demonstrations(self) -> int | None:
        """How many demonstrations were recorded; None for an exact expectation."""
        return None if self.recorded is None else self.recorded.n

    @property
    def n_steps(self) -> int | None:
        """How many visits the recorded demonstrations have in total; None for an exact expectation."""
        return None if self.recorded is None else len(self.recorded.states)

    def demonstrations(self, n: int, *, rng: int | np.random.Generator, max_steps: int | None = None) -> Demonstrations:
        """n trajectories of the policy, cut after `max_steps` visits; refused if the lesson has no policy."""
        known = self.domain or self.mdp
        if self.policy is None or known is None:
            raise InvalidModel("this lesson has no policy, so it cannot be sampled; use select_demonstrations")
        there = known if self.initial is None else known.starting_in(self.initial)
        return sample_demonstrations(there, self.policy, n, rng=arrays.generator(rng), max_steps=max_steps)

    def seen_in(self, domain: Domain) -> Domain:
        """The domain with the start of this lesson."""
        return domain if self.initial is None else domain.starting_in(self.initial)

    def show(
        self,
        n: int,
        *,
        domain: Domain | None = None,
        true_weights: Weights | None = None,
        learner: Any = None,
        rng: int | np.random.Generator = 0,
    ) -> Shown:
        """At most n demonstrations by name, each with its share, features and reward.

        A policy with at most n trajectories is shown as these, with their probabilities. Otherwise n trajectories are
        selected whose mean features are close to those of the lesson; those that arrive and keep the limits of the
        learner on their own are preferred. domain: needed for a lesson that has an expectation only. true_weights:
        (d_r,), for the rewards. learner: whose limits on preference features are meant.
        """
        known = domain or self.domain
        if known is None:
            raise InvalidInput("this lesson does not know its domain; give domain=")
        there, limits = check_lesson(known, self).seen_in(known), limits_of(learner, known)
        return show(there, self, n, true_weights=true_weights, limits=limits, rng=rng)


def limits_of(learner: Any, domain: Domain) -> dict[str, float]:
    """The limits of a learner on preference features, by name; none where they are not known."""
    preference = getattr(learner, "preference", None)
    if preference is None or getattr(preference, "rows", None) is not None:
        return {}
    bound = preference.on(domain)
    pairs = zip(bound.names, bound.allowance.tolist(), strict=True)
    return {name: limit for name, limit in pairs if name in domain.preference_names}


@dataclass(frozen=True, slots=True, eq=False)
class Certificate(Readable):
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

    def as_data(self) -> dict[str, Any]:
        """The gap, the residual and how the solver ended, for JSON."""
        return {"gap": arrays.finite_or_none(self.gap), "residual": self.residual, "ended": self.ended.name}

    @property
    def relative_gap(self) -> float:
        """The gap relative to 1 + |primal|; infinite where the response violates what is hard."""
        return self.gap / (1 + abs(self.primal)) if math.isfinite(self.primal) else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers(Readable):
    """alpha^low and alpha^up, (d_r,), and beta, one per preference constraint (App. E)."""

    lower: Vector
    upper: Vector
    preference: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Response(Readable):
    """A learner's response to a lesson; `Response.of` makes one from a policy.

    policy: (C,). expectation: its feature expectations. learned_weights: the weights of the reward that the learner
    maximises, (d_r + d_c,) for the learners of Eq. 1, of any length for others. mismatch_excess: (d_r,), |mu_r -
    mu_hat_r| beyond the allowance. violation_excess: (m,), g(mu_c) beyond the allowance. reward_names: (d_r,).
    constraint_names: (m,). memory: what the learner carries to the next lesson, named arrays of numbers or texts.
    metrics: named numbers for tables and curves. reward_there: (d_r,), mu_r from the start of the lesson, if it has one
    of its own. bias: (d_r + d_c,), where the expectation was seen, not computed from the policy: how far the end of
    samples may have moved it. Weights, multipliers and certificate are None where a learner has none.
    """

    lesson: Lesson
    policy: Vector
    expectation: Expectation
    learned_weights: Vector | None
    multipliers: Multipliers | None
    mismatch_excess: Vector
    violation_excess: Vector
    certificate: Certificate | None
    reward_names: tuple[str, ...]
    constraint_names: tuple[str, ...] = ()
    memory: Memory | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    reward_there: Vector | None = None
    bias: Vector | None = None

    def __post_init__(self) -> None:
        kept = {name: _remembered(name, value) for name, value in (self.memory or {}).items()}
        numbers = {str(check_name(name, "a metric")): float(value) for name, value in self.metrics.items()}
        arrays.set_fields(self, memory=kept or None, metrics=numbers)

    @classmethod
    def of(
        cls,
        domain: Domain,
        lesson: Lesson,
        policy: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        memory: Mapping[str, ArrayLike] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> "Response":
        """The response of a learner that chooses this policy (C,); its expectations are computed."""
        checked = check_policy(domain.mdp, policy)
        there = check_lesson(domain, lesson).seen_in(domain)
        reached = expectation(domain, checked)
        compared = reached.reward if there is domain else expectation(there, checked).reward
        return Response(
            lesson=lesson,
            policy=checked,
            expectation=reached,
            learned_weights=None if weights is None else arrays.floats(weights, "weights", ndim=1),
            multipliers=None,
            mismatch_excess=arrays.freeze(np.abs(compared - lesson.expectation)),
            violation_excess=arrays.freeze(np.zeros(0)),
            certificate=None,
            reward_names=domain.reward_names,
            memory=cast("Memory | None", memory),
            metrics=metrics or {},
            reward_there=None if there is domain else compared,
        )

    @property
    def compared(self) -> Vector:
        """(d_r,), mu_r from the start of the lesson: what is compared with its expectation."""
        return self.expectation.reward if self.reward_there is None else self.reward_there

    @property
    def feature_weights(self) -> Vector | None:
        """(d_r + d_c,), the learned weights where there is one for each feature of the domain; None where not."""
        weights, n_features = self.learned_weights, len(self.expectation.both)
        return weights if weights is not None and len(weights) == n_features else None

    def explain(self) -> str:
        """A text: which features match the lesson, which preferences bind, and what each costs."""
        lesson = self.lesson
        lines = ["What was shown, and what the learner does:"]
        size = float(np.abs([lesson.expectation, self.compared]).max())
        rows = zip(self.reward_names, lesson.expectation, self.compared, lesson.uncertainty, strict=True)
        for name, shown, done, doubt in rows:
            margin = f" (known to {doubt:.3g})" if doubt > 0 else ""
            margin = " (one demonstration: its error is unknown)" if np.isinf(doubt) else margin
            given_up = f"gives up {shown - done:.4g}" if shown > done else f"does {done - shown:.4g} more"
            verdict = "matched" if abs(shown - done) <= 1e-6 * (1 + abs(shown)) else given_up
            lines.append(f"  {name}: shown {in_digits(shown, size)}{margin}, done {in_digits(done, size)}: {verdict}")
        if self.multipliers is not None and not self.constraint_names:
            lines.append("The learner has no preferences.")
        elif self.multipliers is not None:
            lines.append("Its preferences, in units of its own objective:")
            lines += self._preferences(self.multipliers.preference)
        proof = self.certificate
        ending = "This response has no certificate."
        if proof is not None:
            ending = f"Certificate: gap {proof.gap:.2g}, residual {proof.residual:.2g}; {proof.ended.value}."
        return "\n".join([*lines, ending])

    def _preferences(self, costs: Vector) -> Iterator[str]:
        for name, cost, excess in zip(self.constraint_names, costs, self.violation_excess, strict=True):
            effect = "does not change the response to this lesson"
            if excess > 1e-6:
                effect = f"exceeded by {excess:.4g}, at {cost:.4g} for each unit"
            elif cost > 1e-6:
                effect = f"binds; one more unit of allowance would gain {cost:.4g}"
            yield f"  {name}: {effect}"


@dataclass(frozen=True, slots=True, eq=False)
class CertifiedResponse(Response):
    """A response of the learners of Eq. 1: it has weights, multipliers and a certificate."""

    learned_weights: Vector
    multipliers: Multipliers
    certificate: Certificate


@runtime_checkable
class Learner(Protocol):
    """Turns a lesson into a response: any object with `respond(lesson)`."""

    def respond(self, lesson: Lesson) -> Response:
        """The response to one lesson; the same lesson always gets the same response."""


@runtime_checkable
class RememberingLearner(Protocol):
    """A learner that goes on from its last response, `after`, where it finds its memory."""

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The response to a lesson; the same lesson after the same response always gets the same one."""


@dataclass(frozen=True, slots=True, eq=False)
class Round(Readable):
    """One lesson and the learner's response to it.

    reason: why the teacher chose this lesson. bound: certified; no lesson gets more reward; infinite if not known.
    """

    lesson: Lesson
    response: Response
    reason: str = ""
    bound: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Advice(Readable):
    """What a teacher concludes from the rounds so far.

    lesson: the next one, or None at the end. reason: why this lesson, or why none. bound: as of `Round`.
    """

    lesson: Lesson | None
    reason: str
    bound: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Opening(Advice):
    """Advice that has a lesson, as the first always has."""

    lesson: Lesson


@runtime_checkable
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

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next lesson after these rounds, or no lesson and the reason to stop."""


def check_lesson(domain: Domain, lesson: Lesson) -> Lesson:
    """The lesson; refused unless it has one entry for each reward feature of the domain."""
    if not isinstance(lesson, Lesson):
        raise InvalidInput(f"respond needs a Lesson, got {type(lesson).__name__}; make one by Lesson.from_policy")
    arrays.check_length(lesson.expectation, domain.n_reward, "the lesson's expectation", "reward features")
    return lesson


def check_player(role: str, given: Any, method: str) -> None:
    """Refuse what is no teacher or learner; a class in place of an object is named."""
    if isinstance(given, type):
        raise InvalidInput(f"the {role} is the class {given.__name__}; make an object of it, {given.__name__}(...)")
    if not callable(getattr(given, method, None)):
        raise InvalidInput(f"the {role} has no method {method}; write teach(teacher, learner)")


def check_match(domain: Domain, learner: Any) -> None:
    """Refuse a learner of another domain than the teacher's, up to rounding: numbers of both would be mixed."""
    check_player("learner", learner, "respond")
    theirs = getattr(learner, "domain", domain)
    if theirs is domain or not isinstance(theirs, Domain):
        return
    counts = [(each.mdp.n_states, each.mdp.n_choices, each.n_reward, each.n_preference) for each in (theirs, domain)]
    if counts[0] != counts[1]:
        told = "{} states, {} choices, {} reward and {} preference features".format
        raise InvalidModel(f"the learner's domain has {told(*counts[0])}, but the teacher's has {told(*counts[1])}")
    policy = policy_from_occupancy(domain.mdp, 1.0 + np.arange(domain.mdp.n_choices))
    same, done = (expectation(each, policy).both for each in (domain, theirs))
    with within("the learner belongs to another domain than the teacher"):
        arrays.check_same("expectation of a policy", done, same, np.abs(same).max(), share=SAME_PART)


def respond_after(learner: Learner, lesson: Lesson, after: Response | None) -> Response:
    """The learner's response; a learner whose `respond` takes no `after` depends on the lesson alone."""
    check_player("learner", learner, "respond")
    parameters = inspect.signature(learner.respond).parameters.values()
    if any(given.name == "after" or given.kind is given.VAR_KEYWORD for given in parameters):
        return cast(RememberingLearner, learner).respond(lesson, after=after)
    return learner.respond(lesson)


def is_exact(learner: Any) -> bool:
    """Whether a learner says that its responses are the optima of its preferences and penalties (docs/teachers.md).

    The class that has `respond` says so by `is_exact`; a subclass with its own `respond` does not inherit it.
    """
    answering = next((kind for kind in type(learner).__mro__ if "respond" in vars(kind)), object)
    return "is_exact" in vars(answering) and bool(learner.is_exact)


def keeps_limits(learner: Any) -> bool:
    """Whether no response breaks the learner's preferences, so that no lesson gets more than the best within them."""
    return is_exact(learner) and bool(learner.preference.is_hard)


def recalled(after: Response | None, **shapes: tuple[int, ...]) -> Memory:
    """A learner's memory in its last response, empty before the first; refused unless it has these names and shapes."""
    memory = {} if after is None or after.memory is None else after.memory
    for name, shape in shapes.items() if memory else ():
        if name not in memory or memory[name].shape != shape:
            told = f"the last response is that of another learner or domain: it remembers no {name!r} of shape {shape}"
            raise InvalidInput(f"{told}; teach from the first lesson, or give a response of this learner")
    return memory


def _remembered(name: Any, value: ArrayLike) -> NDArray[Any]:
    """A read-only copy of an array to remember; refused unless files can keep it."""
    array = np.array(arrays.any_array(value, f"memory {name!r}"))
    if not isinstance(check_name(name, "a memory"), str) or not name or array.dtype.kind not in "biufU":
        raise InvalidModel(f"memory {name!r} must be a named array of numbers or texts, got {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidModel(f"memory {name!r} holds NaN, from which no learner can go on")
    return arrays.freeze(array)


def select_demonstrations(
    domain: Domain, lesson: Lesson, n: int, *, rng: int | np.random.Generator = 0
) -> SelectedDemonstrations:
    """n trajectories with an empirical reward expectation close to that of the lesson, by exchanges.

    The pool consists of the lesson's recorded demonstrations, each used at most once; otherwise of samples from the
    lesson's policy, or from the policy nearest to its expectation. The selection is not a random sample, so the
    standard error of `empirical_expectation` does not apply to it. rng: for the pool and the random selections.
    """
    return select(check_lesson(domain, lesson).seen_in(domain), lesson, n, limits={}, rng=rng)


def in_digits(value: float, size: float) -> str:
    """A number for a person; zero where it is a rounding error of numbers of this size."""
    return f"{0.0 if abs(value) <= 1e-9 * size else value:.4g}"


def named(names: Sequence[str], values: Vector) -> str:
    """Values with the names of their features, for messages: 'star' 1.2, 'dot' -0.3."""
    return ", ".join(f"{name!r} {value:.4g}" for name, value in zip(names, values, strict=True))
