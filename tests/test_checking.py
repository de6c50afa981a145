"""Checks of players: a sound player has no fault, and each kind of faulty player is told which fault it has."""

import threading
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from players import LookAheadTeacher, SequentialLearner

import tutelage as tl

WORLD = tl.object_world(size=4, seed=0, generator="text")
DOMAIN = WORLD.domain("L2")


@dataclass(eq=False)
class Uniform:
    """Answers every lesson by the uniform policy; the faulty learners differ from it in one thing each."""

    domain: tl.Domain

    def respond(self, lesson: tl.Lesson, after: tl.Response | None = None) -> tl.Response:
        return tl.Response.of(self.domain, lesson, tl.uniform_policy(self.domain.mdp))


@dataclass(eq=False)
class Hidden(Uniform):
    """Counts its lessons in a field of its own."""

    n_lessons: int = 0

    def respond(self, lesson, after=None):
        self.n_lessons += 1
        return replace(super().respond(lesson), metrics={"lessons": self.n_lessons})


class Short(Uniform):
    def respond(self, lesson, after=None):
        response = super().respond(lesson)
        return replace(response, policy=response.policy[:-1])


class Nan(Uniform):
    def respond(self, lesson, after=None):
        response = super().respond(lesson)
        return replace(response, policy=np.full(len(response.policy), np.nan))


class Writing(Uniform):
    def respond(self, lesson, after=None):
        lesson.expectation.setflags(write=True)
        lesson.expectation[0] *= 0.5
        return super().respond(lesson)


@dataclass(eq=False)
class Locked(Uniform):
    lock: object = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True, eq=False)
class Richer(tl.Response):
    """A response with a field that files do not know."""

    count: int = 0


class Forgetting(Uniform):
    """Remembers by a field of its own kind of response, not by the memory."""

    def respond(self, lesson, after=None):
        plain, count = super().respond(lesson), getattr(after, "count", 0) + 1
        parts = {name: getattr(plain, name) for name in tl.Response.__dataclass_fields__}
        return Richer(**(parts | {"metrics": {"count": count}}), count=count)


class Elsewhere(Uniform):
    """Lives in another domain than the one that it is told."""

    def __init__(self, domain):
        super().__init__(tl.object_world(size=5, seed=0, generator="text").domain("L2"))


class Raising(Uniform):
    def respond(self, lesson, after=None):
        raise KeyError("no key")


class Returning(Uniform):
    def respond(self, lesson, after=None):
        return super().respond(lesson).policy


class Boasting(Uniform):
    """Claims an expectation that its policy does not have."""

    def respond(self, lesson, after=None):
        response = super().respond(lesson)
        return replace(response, expectation=tl.Expectation(lesson.expectation * 0.99, response.expectation.preference))


class Mute:
    def __init__(self, domain):
        pass


class Scribbling(Uniform):
    """Writes into the memory that it is given."""

    def respond(self, lesson, after=None):
        if after is not None:
            after.memory["n"].setflags(write=True)
            after.memory["n"][0] += 1
        return replace(super().respond(lesson), memory={"n": [1.0]})


class Unhashed(Uniform):
    """Depends on the process: texts have other hashes there."""

    def respond(self, lesson, after=None):
        return replace(super().respond(lesson), metrics={"hash": hash("text")})


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        (Hidden, "it answers otherwise the next time (metrics.lessons)"),
        (Short, "to a policy, policy has 84 entries, but there are 85 choices"),
        (Nan, "to a policy, policy[0] is nan"),
        (Writing, "it writes into the lesson, a policy"),
        (Locked, "it cannot be pickled, so it cannot be used by several processes"),
        (Forgetting, "after rounds that were saved and loaded, it goes on otherwise (count, metrics.count)"),
        (Elsewhere, "to a policy, policy has 130 entries, but there are 85 choices"),
        (Raising, "to a policy, respond raises KeyError: 'no key'; refuse a lesson by tl.InvalidInput"),
        (Returning, "to a policy, respond must return a Response, got ndarray"),
        (Boasting, "to a policy, its expectation[0] is "),
        (Mute, "it has no method respond(lesson)"),
        (Scribbling, "it writes into the response that it is given as `after`"),
        (Unhashed, "in another process it goes on otherwise (metrics.hash)"),
    ],
)
def test_a_faulty_learner_is_told_its_fault(faulty, fault, capsys):
    faults = tl.check_learner(faulty, DOMAIN)
    assert any(fault in each for each in faults), faults
    printed = capsys.readouterr().out
    assert printed.startswith(f"{faulty.__name__}: ") and fault in printed


class Tiring(Hidden):
    """Counts, and raises after the first fault that this makes."""

    def respond(self, lesson, after=None):
        if self.n_lessons > 5:
            raise RuntimeError("tired")
        return super().respond(lesson, after)


class Counting(tl.AgnosticTeacher):
    """Counts its calls."""

    def open(self):
        object.__setattr__(self, "n", getattr(self, "n", 0) + 1)
        return replace(super().open(), reason=f"call {self.n}")


class Stopping(Counting):
    """Raises after the first fault that its counting makes."""

    def adapt(self, rounds):
        if self.n > 2:
            raise RuntimeError("tired")
        return super().adapt(rounds)


@pytest.mark.parametrize(
    ("check", "player", "fault"),
    [
        (tl.check_learner, Tiring(DOMAIN), "to a policy, it answers otherwise the next time (metrics.lessons)"),
        (tl.check_teacher, Stopping(DOMAIN, WORLD.true_weights), "open advises otherwise the next time (reason)"),
    ],
)
def test_the_faults_before_an_exception_are_told_too(check, player, fault, capsys):
    told, ending = check(player)
    assert told.startswith(fault) and ending == "it raises RuntimeError: tired"
    assert capsys.readouterr().out.startswith(f"{type(player).__name__}: 2 faults\n  - {fault}")


@pytest.mark.parametrize(
    "learner",
    [
        SequentialLearner,
        tl.HardLearner(DOMAIN, 20.0),
        lambda domain: tl.SoftLearner(domain, mismatch_penalty=2, violation_penalty=3),
    ],
)
def test_a_sound_learner_has_no_fault(learner, capsys):
    assert tl.check_learner(learner) == ()
    assert capsys.readouterr().out.endswith(": no faults\n")


def test_a_learner_may_refuse_some_lessons():
    """Cloning needs demonstrations, and says so."""

    @dataclass(frozen=True)
    class Cloning:
        domain: tl.Domain

        def respond(self, lesson: tl.Lesson) -> tl.Response:
            if lesson.recorded is None or lesson.recorded.choices is None:
                raise tl.InvalidInput("cloning needs demonstrations with choices")
            counts = np.bincount(lesson.recorded.choices, minlength=self.domain.mdp.n_choices) + 1.0
            return tl.Response.of(self.domain, lesson, tl.policy_from_occupancy(self.domain.mdp, counts))

    assert tl.check_learner(Cloning(DOMAIN)) == ()


def test_a_learner_without_a_domain_needs_one():
    class Bare:
        def respond(self, lesson):
            return tl.Response.of(DOMAIN, lesson, tl.uniform_policy(DOMAIN.mdp))

    assert tl.check_learner(Bare(), DOMAIN) == ()
    with pytest.raises(tl.InvalidInput, match="Bare has no attribute 'domain'; give the domain"):
        tl.check_learner(Bare())


class Silent(tl.AgnosticTeacher):
    def open(self):
        return None


class Ending(tl.AgnosticTeacher):
    def open(self):
        return tl.Advice(None, "nothing to show")


class Wrong(tl.AgnosticTeacher):
    def open(self):
        return tl.Opening(tl.Lesson.from_expectation([1.0]), "too short")


class Certain(tl.AgnosticTeacher):
    def open(self):
        return replace(super().open(), bound=-100.0)


class Erasing(tl.AgnosticTeacher):
    def adapt(self, rounds):
        rounds[-1].response.policy.setflags(write=True)
        rounds[-1].response.policy[:] = 0.0
        return super().adapt(rounds)


class Guarded(tl.AgnosticTeacher):
    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "lock", threading.Lock())


class Crashing(tl.AgnosticTeacher):
    def adapt(self, rounds):
        return rounds[99]


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        (Counting, "open advises otherwise the next time (reason)"),
        (Silent, "open must return an Advice with a lesson, not None"),
        (Ending, "open must return an Advice with a lesson"),
        (Wrong, "the lesson's expectation has 1 entries, but there are 3 reward features"),
        (Certain, "in round 1 the learner earns"),
        (Erasing, "it writes into the rounds that it is shown"),
        (Guarded, "it cannot be pickled"),
        (Crashing, "it raises IndexError: tuple index out of range"),
    ],
)
def test_a_faulty_teacher_is_told_its_fault(faulty, fault):
    faults = tl.check_teacher(faulty(DOMAIN, WORLD.true_weights))
    assert any(fault in each for each in faults), faults


def test_a_sound_teacher_has_no_fault():
    """Also one that looks ahead at a learner that remembers."""
    ahead = SequentialLearner(DOMAIN)
    assert tl.check_teacher(tl.VolumeSearchTeacher) == ()
    assert tl.check_teacher(LookAheadTeacher(DOMAIN, WORLD.true_weights, ahead), ahead) == ()
    assert tl.check_teacher(object()) == ("it has no domain and no true_weights and no open and no adapt",)
