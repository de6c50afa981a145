"""Checks of other people's players: are they pure, are their answers possible, do they survive files and processes?"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cloudpickle
import numpy as np
from joblib.externals.loky import ProcessPoolExecutor

from tutelage.arrays import Vector
from tutelage.chains.expectations import expectation
from tutelage.data.sampling import sample_demonstrations
from tutelage.environments.object_world import object_world
from tutelage.interaction import teach
from tutelage.learners.exact import HardLearner
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import uniform_policy
from tutelage.outcomes import InvalidInput, TutelageError
from tutelage.roles import Advice, Learner, Lesson, Response, Round, Teacher, check_lesson, respond_after
from tutelage.transcripts import Transcript, check_response, load_transcript, packed, save_transcript

Held = Mapping[str, Any]


def check_learner(learner: Any, domain: Domain | None = None) -> tuple[str, ...]:
    """The faults of a learner on small problems, each a sentence; they are printed, too.

    learner: a learner, or a class or function that makes one from a domain. domain: what to try it on; by default the
    learner's own, or two small ones.
    """
    if _is_maker(learner, Learner):
        domains = [small for small, _ in _problems()] if domain is None else [domain]
        return _reported(learner, [_learner_faults(partial(learner, each), each) for each in domains])
    known = domain or getattr(learner, "domain", None)
    if known is None:
        raise InvalidInput(f"{type(learner).__name__} has no attribute 'domain'; give the domain to try it on")
    return _reported(learner, [_learner_faults(lambda: learner, known)])


def check_teacher(teacher: Any, learner: Learner | None = None) -> tuple[str, ...]:
    """The faults of a teacher on small problems, each a sentence; they are printed, too.

    teacher: a teacher, or a class or function that makes one from a domain, true weights and, where a third parameter
    has no default, the learner. learner: whom it teaches; by default one with hard preferences.
    """
    if _is_maker(teacher, Teacher):
        required = [each for each in inspect.signature(teacher).parameters.values() if each.default is each.empty]
        checks = []
        for domain, weights in _problems():
            pupil = learner or _pupil(domain)
            checks.append(_teacher_faults(partial(teacher, domain, weights, *[pupil][: len(required) - 2]), pupil))
        return _reported(teacher, checks)
    missing = [name for name in ("domain", "true_weights", "open", "adapt") if not hasattr(teacher, name)]
    if missing:
        return _reported(teacher, [iter([f"it has no {' and no '.join(missing)}"])])
    return _reported(teacher, [_teacher_faults(lambda: teacher, learner or _pupil(teacher.domain))])


def _is_maker(player: Any, role: type) -> bool:
    return isinstance(player, type) or (callable(player) and not isinstance(player, role))


def _reported(player: Any, checks: Iterable[Iterator[str]]) -> tuple[str, ...]:
    """All different faults; an exception is one, after those that were found before it, and ends its checks."""
    faults: dict[str, None] = {}
    for each in checks:
        try:
            for fault in each:
                faults[fault] = None
        # Whatever the player raises is what its author must know.
        except Exception as error:
            faults[f"it raises {type(error).__name__}: {error}"] = None
    name = getattr(player, "__name__", type(player).__name__)
    print("\n".join([f"{name}: {len(faults) or 'no'} faults", *(f"  - {fault}" for fault in faults)]))
    return tuple(faults)


def _problems() -> list[tuple[Domain, Vector]]:
    """A machine that wears, with two features on choices, and an object world; each with true weights."""
    rows = [[0.8, 0.2, 0], [1, 0, 0], [0, 0.6, 0.4], [0.9, 0.1, 0], [1, 0, 0]]
    machine = MDP.from_choices(rows, [0, 2, 4, 5], [1, 0, 0], 0.9)
    features = [[1, 0], [0, 1], [1, 0], [0, 2], [0, 5]]
    wearing = Domain(machine, features, [0, 0, 1], ("output", "cost"), ("broken",))
    world = object_world(size=4, seed=0, generator="text")
    return [(wearing, np.array([1.0, -0.2])), (world.domain("L3"), world.true_weights)]


def _pupil(domain: Domain) -> Learner:
    return HardLearner(domain, expectation(domain, uniform_policy(domain.mdp)).preference)


def _lessons(domain: Domain) -> dict[str, Lesson]:
    policy = uniform_policy(domain.mdp)
    walks = sample_demonstrations(domain, policy, 6, rng=0, max_steps=30)
    return {
        "a policy": Lesson.from_policy(domain, policy),
        "demonstrations": Lesson.from_demonstrations(domain, walks),
        "a start of its own": Lesson.from_policy(domain, policy, start=domain.mdp.n_states - 1),
        "an expectation alone": Lesson.from_expectation(0.9 * Lesson.from_policy(domain, policy).expectation),
    }


def _learner_faults(make: Callable[[], Any], domain: Domain) -> Iterator[str]:
    """Possible answers, purity, files, processes; the later checks need the earlier."""
    learner = make()
    if not isinstance(learner, Learner):
        yield "it has no method respond(lesson)"
        return
    lessons = _lessons(domain)
    shown = {name: _held(lesson) for name, lesson in lessons.items()}
    answers: dict[str, Response] = {}
    refused = []
    for name, lesson in lessons.items():
        try:
            answer = learner.respond(lesson)
        except TutelageError as error:
            refused.append(f"{name}: {error}")
            continue
        except Exception as error:
            yield f"to {name}, respond raises {type(error).__name__}: {error}; refuse a lesson by tl.InvalidInput"
            return
        try:
            answers[name] = check_response(domain, answer)
        except TutelageError as error:
            yield f"to {name}, {error}"
            return
    if not answers:
        yield f"it answers no lesson; to {refused[0]}"
        return
    first, *_, last = [*answers, *answers]
    answered = _held(answers[first])
    calls = {f"to {name}, it answers": partial(learner.respond, lessons[name]) for name in answers}
    known = dict(zip(calls, answers.values(), strict=True))
    after = partial(respond_after, learner, lessons[last], answers[first])
    calls["to the same lesson after the same response, it answers"] = after
    is_sound = True
    for fault in _impurities(calls, known):
        is_sound = False
        yield fault
    for name, lesson in lessons.items():
        if _held(lesson) != shown[name]:
            is_sound = False
            yield f"it writes into the lesson, {name}"
    if _held(answers[first]) != answered:
        yield "it writes into the response that it is given as `after`"
    elif is_sound:
        rounds = Transcript(np.ones(domain.n_reward)).followed_by(Round(lessons[first], answers[first]))
        yield from _lasting_faults(learner, domain, rounds, lessons[last])


def _teacher_faults(make: Callable[[], Any], learner: Learner) -> Iterator[str]:
    teacher = make()
    weights = np.asarray(teacher.true_weights)
    if weights.shape != (teacher.domain.n_reward,) or not np.isfinite(weights).all():
        yield f"its true_weights must be {teacher.domain.n_reward} numbers, one for each reward feature, not {weights}"
        return
    first = teacher.open()
    if not isinstance(first, Advice) or first.lesson is None:
        yield f"open must return an Advice with a lesson, not {first if first is None else type(first).__name__}"
        return
    alone = Round(check_lesson(teacher.domain, first.lesson), learner.respond(first.lesson), first.reason, first.bound)
    held = _held(alone)
    teacher.adapt((alone,))
    if _held(alone) != held:
        yield "it writes into the rounds that it is shown"
        return
    transcript = teach(teacher, learner, max_rounds=4)
    shown = {n: partial(teacher.adapt, transcript.rounds[:n]) for n in range(1, len(transcript.rounds) + 1)}
    calls = {f"after the same {n} rounds, it advises": call for n, call in shown.items()}
    yield from _impurities({"open advises": teacher.open} | calls, {"open advises": first})
    for number, each in enumerate(transcript.rounds, start=1):
        if not each.response_reward <= each.bound + 1e-6 * (1 + abs(each.response_reward)):
            yield f"in round {number} the learner earns {each.response_reward:.6g}, above the bound {each.bound:.6g}"
    yield from _lasting_faults(teacher, teacher.domain, transcript, None)


def _impurities(calls: Mapping[str, Callable[[], Any]], known: Mapping[str, Any]) -> Iterator[str]:
    """What differs when all calls are made a second time, in the same order. known: results of the first time."""
    once = {what: _held(known[what] if what in known else call()) for what, call in calls.items()}
    for what, call in calls.items():
        yield from _differences(_held(call()), once[what], f"{what} otherwise the next time")


def _held(value: Any) -> Held:
    """Every number and word of a value, by the names that lead to it, without the lesson of a response."""
    parts = {name[1:]: np.asarray(array) for name, array in packed("", value)}
    left_out = "lesson." if isinstance(value, Response) else " "
    return {name: (array.dtype.str, array.tobytes()) for name, array in parts.items() if not name.startswith(left_out)}


def _differences(again: Held, before: Held, what: str) -> Iterator[str]:
    different = sorted(name for name in again.keys() | before.keys() if again.get(name) != before.get(name))
    if different:
        yield f"{what} ({', '.join(different[:3])}); a learner remembers by Response.memory, a teacher by its rounds"


def _lasting_faults(player: Any, domain: Domain, rounds: Transcript, lesson: Lesson | None) -> Iterator[str]:
    """Whether the player goes on the same after rounds that were saved, also in another process."""
    wanted = _next(player, rounds, lesson)
    try:
        with TemporaryDirectory() as folder:
            save_transcript(rounds, Path(folder) / "rounds.npz")
            saved = load_transcript(Path(folder) / "rounds.npz", domain)
        again = _next(player, saved, lesson)
    except TutelageError as error:
        yield f"after rounds that were saved and loaded, it cannot go on: {error}"
        return
    yield from _differences(again, wanted, "after rounds that were saved and loaded, it goes on otherwise")
    try:
        cloudpickle.dumps(player)
    except Exception as error:
        yield f"it cannot be pickled, so it cannot be used by several processes: {type(error).__name__}: {error}"
        return
    with ProcessPoolExecutor(max_workers=1) as executor:
        try:
            elsewhere = executor.submit(_next, player, saved, lesson).result()
            yield from _differences(elsewhere, wanted, "in another process it goes on otherwise")
        except Exception as error:
            yield f"in another process it fails: {type(error).__name__}: {error}"


def _next(player: Any, rounds: Transcript, lesson: Lesson | None) -> Held:
    if lesson is None:
        return _held(player.adapt(rounds.rounds))
    return _held(respond_after(player, lesson, rounds.final.response))
