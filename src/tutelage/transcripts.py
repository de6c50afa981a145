"""The rounds between a teacher and a learner, and the file that keeps them: one `.npz` without pickle.

A teacher keeps no memory, and that of a learner is in its responses, so the file is enough to continue the rounds, to
replay them, or to check the teacher. It is written completely or not at all.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from tutelage import arrays
from tutelage.arrays import Indices, Readable, Vector
from tutelage.chains.expectations import Arrival, expectation, journey_of
from tutelage.constrained.problem import or_one, sizes
from tutelage.data.files import LARGEST_BYTES, AnyPath, Archive, read_archive, write_archive
from tutelage.model.mdp import MDP, Domain, combined_features, endless
from tutelage.model.names import check_name
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput, InvalidModel, within
from tutelage.roles import Lesson, Response, Round, check_lesson, in_digits, limits_of
from tutelage.teachers.base import KnownLearner

if TYPE_CHECKING:
    from tutelage.teachers.fixed import Costs

# The format that is written, and its version.
TRANSCRIPT = ("tutelage transcript", 2)
# The kinds of arrays that may hold a value of each type.
SCALARS = {float: "fiu", int: "iu", str: "U"}


@dataclass(frozen=True, slots=True, eq=False)
class TaughtRound(Round):
    """A round with the rewards true_weights @ mu_r of both. bound: as certified after the response."""

    lesson_reward: float = math.nan
    response_reward: float = math.nan

    @property
    def distance(self) -> float:
        """norm_2(mu_r of the response - mu_r of the lesson)."""
        return float(np.linalg.norm(self.response.compared - self.lesson.expectation))

    def as_data(self) -> dict[str, Any]:
        """The expectations, the rewards, the bound and the reason, for JSON."""
        return {
            "lesson": self.lesson.expectation.tolist(),
            "lesson_reward": self.lesson_reward,
            "response": self.response.expectation.reward.tolist(),
            "reward": self.response_reward,
            "bound": arrays.finite_or_none(self.bound),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Transcript(Readable):
    """All rounds so far. ended: how they ended, as a sentence. true_weights: (d_r,), those of the teacher.

    learner: the learner that was taught, where its preferences are known; `explain` needs it, and files do not keep it.
    mdp: that of the teacher's domain, for `arrival`. unverified: what is not proved.
    """

    true_weights: Vector
    rounds: tuple[TaughtRound, ...] = ()
    ended: str = "no round has been taught yet"
    learner: KnownLearner | None = None
    mdp: MDP | None = None
    unverified: str = ""

    @property
    def final(self) -> TaughtRound:
        """The last round."""
        if not self.rounds:
            raise InvalidInput(f"this transcript has no rounds: {self.ended}")
        return self.rounds[-1]

    @property
    def best(self) -> TaughtRound:
        """The round with the largest reward of the learner; the final round wins a tie."""
        return max((self.final, *self.rounds), key=lambda taught: taught.response_reward)

    def followed_by(self, taught: Round) -> "Transcript":
        """The rounds with one more."""
        shown = float(self.true_weights @ taught.lesson.expectation)
        done = float(self.true_weights @ taught.response.expectation.reward)
        recorded = TaughtRound(taught.lesson, taught.response, taught.reason, taught.bound, shown, done)
        return replace(self, rounds=(*self.rounds, recorded), ended="the rounds continue")

    @property
    def arrival(self) -> Arrival | None:
        """Whether and when the learner of the final round arrives, in an MDP with goals; None in any other."""
        return journey_of(self.mdp, self.final.response.policy)

    def certified(self, bound: float) -> "Transcript":
        """The same rounds, with a new bound for the last one."""
        last = [replace(taught, bound=bound) for taught in self.rounds[-1:]]
        return replace(self, rounds=(*self.rounds[:-1], *last))

    def ending(self, sentence: str) -> "Transcript":
        """The same rounds, with the sentence that says how they ended."""
        return replace(self, ended=sentence)

    @property
    def unlimited(self) -> tuple[str, ...]:
        """The preference features of a known learner that no limit on its expectations names."""
        if self.learner is None or self.learner.preference.rows is not None:
            return ()
        limited = limits_of(self.learner, self.learner.domain)
        return tuple(name for name in self.learner.domain.preference_names if name not in limited)

    @property
    def costs(self) -> "Costs | None":
        """What the preferences cost in true reward, and how much of them the last response uses; None if not known."""
        if self.learner is None:
            return None
        from tutelage.teachers.fixed import preference_costs

        return preference_costs(self.learner, self.true_weights, self.final.response.expectation.preference)

    def explain(self) -> str:
        """Why the learner earns what it earns, in units of the true reward, and then in the learner's own.

        The best without preferences, what was shown and done, the best that any lesson gets; for each preference its
        limit, its use, and its cost (see `preference_costs`). Without a known learner the costs are left out.
        """
        final, costs = self.final, self.costs
        amounts = {
            "the best, without preferences": costs.without if costs else math.nan,
            "the best within all preferences": costs.within if costs and costs.preferences else math.nan,
            "shown by the lesson": final.lesson_reward,
            "done by the learner": final.response_reward,
            "no lesson gets more than": final.bound,
        }
        known = {what: amount for what, amount in amounts.items() if math.isfinite(amount)}
        size = max(map(abs, known.values()))
        lines = ["In true reward:", *(f"  {what:32} {in_digits(amount, size)}" for what, amount in known.items())]
        if costs and costs.preferences:
            lines += _costs_in_words(costs)
        if self.unlimited:
            lines.append(f"Without a limit on average: {', '.join(self.unlimited)}.")
        return "\n".join([*lines, final.response.explain()])

    def __str__(self) -> str:
        head = " round   lesson  learner  distance    bound  reason"
        lines = [
            f"{number:6} {taught.lesson_reward:8.3f} {taught.response_reward:8.3f} {taught.distance:9.3f} "
            f"{taught.bound:8.3f}  {taught.reason}"
            for number, taught in enumerate(self.rounds, start=1)
        ]
        journey = self.arrival if self.rounds else None
        arrives = [] if journey is None else [f"The learner {journey}."]
        unproved = [f"Not verified: {self.unverified}."] if self.unverified else []
        return "\n".join([head, *lines, f"Ended: {self.ended}.", *arrives, *unproved])


def _costs_in_words(costs: "Costs") -> list[str]:
    longest = max(len(cost.name) for cost in costs.preferences)
    lines = [
        "What each preference costs, in true reward (one unit more gains at most):",
        f"  {'':{longest}} {'limit':>10} {'used':>18} {'one unit more':>14} {'without it':>11}",
    ]
    size = max(abs(number) for cost in costs.preferences for number in (cost.limit, cost.used) if math.isfinite(number))
    for cost in costs.preferences:
        share = f" ({100 * cost.used / cost.limit:.0f} %)" if cost.limit > 0 else ""
        used = in_digits(cost.used, size) + share
        gain, loss = (f"+{number:.4g}" if number == number else "-" for number in (cost.gain, cost.loss))
        lines.append(f"  {cost.name:{longest}} {in_digits(cost.limit, size):>10} {used:>18} {gain:>14} {loss:>11}")
    if math.isnan(costs.within):
        lines.append("  No policy keeps all of these preferences together, so they have no prices.")
    return lines


def check_response(domain: Domain, response: Response) -> Response:
    """The response; refused unless it is possible in the domain and, if not seen (`bias`), follows from its policy."""
    _check_possible(domain, response)
    if response.bias is None:
        done = expectation(domain, response.policy)
        arrays.check_same("expectation", response.expectation.both, done.both, or_one(sizes(domain)))
    proof = response.certificate
    # The bound may lie below what is attained by rounding.
    if proof is not None and proof.dual < proof.primal - 1e-3 * (1 + abs(proof.primal)):
        raise InvalidModel(f"its dual is {proof.dual:.10g}, below its primal {proof.primal:.10g}, which is attained")
    return response


def _check_possible(domain: Domain, response: Response) -> None:
    """Refuse an expectation outside the range of phi / (1 - discount); an unseen tail of a trajectory counts zero."""
    if not isinstance(response, Response):
        raise InvalidModel(f"respond must return a Response, got {type(response).__name__}")
    check_policy(domain.mdp, response.policy)
    counts = response.expectation.both
    arrays.check_length(response.expectation.reward, domain.n_reward, "the learner's expectation", "features")
    arrays.check_length(counts, len(domain.names), "the learner's expectation", "features")
    # Without discount an episode may be longer than expected.
    if np.max(domain.mdp.discount) < 1:
        features = endless(domain.mdp, combined_features(domain))
        low = features.min(axis=0, initial=0.0)
        high = features.max(axis=0, initial=0.0)
        slack = 1e-6 * (high - low)
        told = "the learner's expectation of {!r} is {:.6g}; no trajectory counts less than {:.6g} or more than {:.6g}"
        is_wrong = (counts < low - slack) | (counts > high + slack)
        arrays.refuse(is_wrong, lambda j: told.format(domain.names[j], counts[j], low[j], high[j]))


def save_transcript(transcript: Transcript, path: AnyPath) -> None:
    """Write a transcript to an `.npz` file that `load_transcript` reads."""
    if Path(path).suffix != ".npz":
        raise InvalidInput(f"{path} must end in .npz, the format of a transcript")
    stored: dict[str, Any] = {"true_weights": transcript.true_weights, "ended": np.array(transcript.ended)}
    stored["n_rounds"] = np.array(len(transcript.rounds))
    if transcript.learner is not None:
        from tutelage.learners.verifying import learner_arrays

        stored |= learner_arrays(transcript.learner)
    for number, taught in enumerate(transcript.rounds):
        stored |= dict(packed(str(number), taught))
    write_archive(path, stored, TRANSCRIPT)


def load_transcript(
    path: AnyPath, domain: Domain, *, max_bytes: int = LARGEST_BYTES, verify: bool = True
) -> Transcript:
    """Read a file that `save_transcript` wrote; refused unless its rounds are possible in this domain.

    max_bytes: the largest size of the file, of its arrays and of its Python objects. verify: compute again what each
    lesson shows and, where the learner was a `GenericLearner` or a `HardLearner` with linear preferences on this
    domain, every number of its responses; a number that differs is named. Of a teacher's bound only one below what the
    learner earns is refused. `unverified` says what was not computed, such as the steps of solvers.
    """
    from tutelage.learners import verifying

    needed = ("true_weights", "ended", "n_rounds")
    archive = read_archive(path, needed, TRANSCRIPT, others=r"(\d+|learner)\..+", max_bytes=max_bytes)
    with within(f"{path} holds no valid transcript of this domain"):
        transcript = Transcript(_unpacked(Vector, "true_weights", archive, domain), mdp=domain.mdp)
        arrays.check_length(transcript.true_weights, domain.n_reward, "true_weights", "reward features")
        n_rounds = arrays.whole_number(_unpacked(int, "n_rounds", archive, domain), "n_rounds", least=0)
        learner = verifying.stored_learner(archive, domain) if verify else None
        for number in range(n_rounds):
            taught = _unpacked(TaughtRound, str(number), archive, domain)
            for lesson in (taught.lesson, taught.response.lesson):
                with within(f"round {number + 1}, the lesson"):
                    _check_shown(domain, lesson, verify)
            with within(f"round {number + 1}, the response"):
                _check_done(domain, taught, learner, verify)
                again = transcript.followed_by(taught)
                if verify:
                    _check_rewards(taught, again.final)
            transcript = again
        left = "the teacher's reasons and bounds, and the steps and endings of solvers"
        why = "objectives and bounds of the responses, because the file has no learner for them"
        unverified = left if learner else f"{why}; {left}"
        if not verify:
            unverified = "all numbers, which were read as they are"
        return replace(transcript, ended=_unpacked(str, "ended", archive, domain), unverified=unverified)


def _check_shown(domain: Domain, lesson: Lesson, verify: bool) -> None:
    """Refuse a lesson that is not possible in the domain, or does not follow from its policy or demonstrations."""
    check_lesson(domain, lesson)
    arrays.check_length(lesson.uncertainty, domain.n_reward, "the lesson's uncertainty", "reward features")
    lesson.seen_in(domain)
    again = lesson
    if lesson.recorded is not None:
        lesson.recorded.checked_against(domain.mdp)
        again = Lesson.from_demonstrations(domain, lesson.recorded) if verify else lesson
    if lesson.policy is not None:
        check_policy(domain.mdp, lesson.policy)
        again = Lesson.from_policy(domain, lesson.policy, start=lesson.initial) if verify else lesson
    unit = or_one(sizes(domain)[: domain.n_reward])
    arrays.check_same("expectation", lesson.expectation, again.expectation, unit)
    arrays.check_same("uncertainty", lesson.uncertainty, again.uncertainty, unit)


def _check_done(domain: Domain, taught: Round, learner: Any, verify: bool) -> None:
    """Refuse a response that is not possible in the domain, or whose numbers do not follow from its policy."""
    from tutelage.learners import verifying

    response = taught.response
    multipliers = response.multipliers
    (check_response if verify else _check_possible)(domain, response)
    of_rewards: list[Any] = [response.mismatch_excess, response.reward_names, response.compared]
    of_constraints: list[Any] = [response.violation_excess, response.constraint_names]
    if response.certificate is not None:
        of_rewards.append(response.certificate.uncertainty)
    if multipliers is not None:
        of_rewards += [multipliers.lower, multipliers.upper]
        of_constraints.append(multipliers.preference)
    if {*map(len, of_rewards)} != {domain.n_reward} or len({*map(len, of_constraints)}) > 1:
        raise InvalidModel("the arrays of a response do not fit the features and the constraints")
    if learner is not None:
        unit = or_one(sizes(domain)[: domain.n_reward])
        arrays.check_same("lesson", response.lesson.expectation, taught.lesson.expectation, unit)
        verifying.verify(learner, response)


def _check_rewards(taught: TaughtRound, again: TaughtRound) -> None:
    """Refuse rewards that do not follow, and a bound below the reward, unless samples may exceed it by chance."""
    stored, computed = (np.array([each.lesson_reward, each.response_reward]) for each in (taught, again))
    unit = 1 + np.abs(computed).max()
    arrays.check_same("reward", stored, computed, unit)
    if taught.response.bias is None and taught.bound < computed[1] - 1e-6 * unit:
        told = f"its teacher's bound is {taught.bound:.10g}, but the learner earns {computed[1]:.10g}"
        raise InvalidModel(f"{told}; verify=False reads the file as it is")


def packed(at: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a value, each named by the path of its fields; an MDP or a domain is replaced by a mark."""
    if isinstance(value, MDP | Domain):
        yield at, np.array("the domain's")
    elif is_dataclass(value):
        for field in fields(value):
            yield from packed(f"{at}.{field.name}", getattr(value, field.name))
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from packed(f"{at}.{name}", part)
    elif isinstance(value, Enum):
        yield at, np.array(value.name)
    elif value is not None:
        yield at, np.array(value, dtype=np.str_) if isinstance(value, tuple) else np.asarray(value)


def _unpacked(kind: Any, at: str, archive: Archive, domain: Domain) -> Any:
    """The value of a type from the arrays of the archive under `at`: the inverse of `packed`."""
    if type(None) in get_args(kind):
        if not any(name == at or name.startswith(f"{at}.") for name in archive):
            return None
        kind = get_args(kind)[0]
    if get_origin(kind) is Mapping:
        held = {name.removeprefix(f"{at}."): array for name, array in archive.items() if name.startswith(f"{at}.")}
        if get_args(kind)[1] is not float:
            return held
        for name, array in held.items():
            if array.ndim or array.dtype.kind not in "biuf":
                raise InvalidModel(f"{at}.{name} must be a number, got {array!r}")
        return {name: float(array) for name, array in held.items()}
    if kind in (MDP, Domain):
        return domain.mdp if kind is MDP else domain
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(*(_unpacked(hints[part.name], f"{at}.{part.name}", archive, domain) for part in fields(kind)))
    if at not in archive:
        raise InvalidModel(f"it lacks {at!r}")
    array = archive[at]
    if kind == Vector:
        # One demonstration has no standard error, so its uncertainty is infinite.
        is_endless = at.endswith(".uncertainty") and array.dtype == np.float64 and bool(np.all(array >= 0))
        return arrays.freeze(array) if is_endless and array.ndim == 1 else arrays.floats(array, at, ndim=1)
    if kind == Indices:
        return arrays.integers(array, at)
    is_list = get_origin(kind) is tuple
    if array.ndim != is_list or array.dtype.kind not in SCALARS.get(kind, "U") or (kind is float and np.isnan(array)):
        raise InvalidModel(f"{at} must be {'a list of texts' if is_list else 'one value of its type'}, got {array!r}")
    if array.dtype.kind == "U":
        for text in array.ravel().tolist():
            check_name(text, at)
    if is_list:
        return tuple(array.tolist())
    if kind in SCALARS:
        return kind(array[()])
    if str(array) not in kind.__members__:
        raise InvalidModel(f"{at} must be one of {', '.join(kind.__members__)}, got {array}")
    return kind[str(array)]
