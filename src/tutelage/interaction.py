"""The rounds between any teacher and any learner (Algorithm 1).

A learner that remembers is given its last response: neither player keeps anything else. No completed round is lost: the
error of a failed interaction carries the rounds, and with a path every round is on disk before the next.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np

from tutelage import outcomes, roles
from tutelage.data.files import AnyPath
from tutelage.learners.penalties import Preference
from tutelage.outcomes import InvalidInput, InvalidModel, OnProgress, OutOfTime, TutelageError, within
from tutelage.roles import Advice, Learner, Lesson, Response, Round, Teacher, check_lesson, respond_after
from tutelage.teachers.base import KnownLearner
from tutelage.transcripts import Transcript, check_response, save_transcript

OnRound = Callable[[Transcript], object]


class InteractionFailed(TutelageError, RuntimeError):
    """A learner or a teacher failed. transcript: all rounds that were completed before."""

    exit_code = 1

    def __init__(self, message: str, transcript: Transcript) -> None:
        super().__init__(message)
        self.transcript = transcript


def teach(
    teacher: Teacher,
    learner: Learner,
    *,
    max_rounds: int = 100,
    so_far: Transcript | None = None,
    on_round: OnRound | None = None,
    path: AnyPath | None = None,
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> Transcript:
    """Algorithm 1: lesson, response, next lesson, until the teacher has no more lessons or `max_rounds` is reached.

    so_far: earlier rounds to continue. on_round: called with the transcript after every round; a true return value
    ends the interaction. path: an `.npz` file that is written after every round. time_limit: in seconds; after it the
    interaction ends with the rounds that are complete, or raises `OutOfTime` where there is none. progress: called with
    a `Progress` after each step within a round.
    """
    transcript = _begun(teacher, learner, so_far, max_rounds)
    n_before = len(transcript.rounds)
    is_stopped = False
    with outcomes.watched(time_limit, progress):
        try:
            while True:
                rounds = transcript.rounds
                place = f"the teacher has no valid advice after {len(rounds)} rounds"
                # An error of the opening lesson is raised as it is, because there are no rounds to keep.
                with _failing(place, transcript, path) if rounds else nullcontext():
                    # After the last round a teacher that can certify need not plan a lesson.
                    adapt = teacher.adapt if len(rounds) < max_rounds else getattr(teacher, "certify", teacher.adapt)
                    advice = adapt(rounds) if rounds else teacher.open()
                    if not isinstance(advice, Advice):
                        raise InvalidModel(f"open and adapt must return an Advice, got {type(advice).__name__}")
                    if advice.lesson is not None:
                        check_lesson(teacher.domain, advice.lesson)
                transcript = transcript.certified(advice.bound)
                if len(rounds) > n_before:
                    _keep(transcript, path)
                    is_stopped = on_round is not None and bool(on_round(transcript))
                if advice.lesson is None or len(rounds) >= max_rounds or is_stopped:
                    break
                response = _answer(teacher, learner, advice.lesson, transcript, path)
                transcript = transcript.followed_by(Round(advice.lesson, response, advice.reason, advice.bound))
        except OutOfTime:
            if not transcript.rounds:
                raise
            return _keep(transcript.ending("the time limit was reached"), path)
    ended = "stopped on request" if is_stopped else f"the limit of {max_rounds} rounds was reached"
    return _keep(transcript.ending(advice.reason if advice.lesson is None and advice.reason else ended), path)


def _answer(
    teacher: Teacher, learner: Learner, lesson: Lesson, transcript: Transcript, path: AnyPath | None
) -> Response:
    """The learner's checked response. A first lesson that took all the time is answered all the same."""
    place = f"the learner gave no valid response in round {len(transcript.rounds) + 1}"
    in_time = outcomes.unlimited() if outcomes.is_over() and not transcript.rounds else nullcontext()
    after = transcript.rounds[-1].response if transcript.rounds else None
    with _failing(place, transcript, path), in_time:
        return check_response(teacher.domain, respond_after(learner, lesson, after))


def replay(teacher: Teacher, transcript: Transcript, *, on_round: OnRound | None = None) -> Transcript:
    """The same rounds again, with the recorded responses; `InteractionFailed` where the teacher's lessons differ."""
    recorded = iter(transcript.rounds)

    def respond(lesson: Lesson) -> Response:
        before = next(recorded)
        was, now = before.lesson.expectation, lesson.expectation
        if not np.allclose(was, now, rtol=1e-9, atol=1e-9):
            raise InvalidInput(f"the recorded lesson is {was}, but this teacher gives {now}")
        return before.response

    learner = cast(Learner, SimpleNamespace(respond=respond))
    again = teach(teacher, learner, max_rounds=len(transcript.rounds), on_round=on_round)
    return again if len(again.rounds) < len(transcript.rounds) else again.ending(transcript.ended)


def _begun(teacher: Teacher, learner: Learner, so_far: Transcript | None, max_rounds: int) -> Transcript:
    """The transcript to continue; refused if its weights are not the teacher's."""
    if max_rounds < 1:
        raise InvalidInput(f"max_rounds must be at least one, got {max_rounds}")
    roles.check_player("teacher", teacher, "open")
    roles.check_match(teacher.domain, learner)
    begun = Transcript(teacher.true_weights) if so_far is None else so_far
    if not np.array_equal(begun.true_weights, teacher.true_weights):
        raise InvalidInput(f"so_far is for the weights {begun.true_weights}, the teacher has {teacher.true_weights}")
    with within("so_far does not belong to the teacher's domain"):
        for taught in begun.rounds[-1:]:
            check_response(teacher.domain, taught.response)
    norm = getattr(learner, "norm", None)
    if norm is not None and getattr(teacher, "assumed_norm", norm) != norm:
        begun = replace(begun, unverified="the bounds: they need a learner that projects in the 2-norm, not in another")
    is_known = isinstance(getattr(learner, "preference", None), Preference) and hasattr(learner, "domain")
    return replace(begun, learner=cast(KnownLearner, learner) if is_known else None, mdp=teacher.domain.mdp)


@contextmanager
def _failing(place: str, transcript: Transcript, path: AnyPath | None) -> Iterator[None]:
    """Raise `InteractionFailed` with the rounds in place of any error but `OutOfTime`, after they are kept."""
    try:
        yield
    except OutOfTime:
        raise
    except Exception as error:
        sentence = f"{place}: {type(error).__name__}: {error}"
        raise InteractionFailed(sentence, _keep(transcript.ending(sentence), path)) from error


def _keep(transcript: Transcript, path: AnyPath | None) -> Transcript:
    if path is not None:
        save_transcript(transcript, path)
    return transcript
