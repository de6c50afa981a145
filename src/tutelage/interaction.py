"""The rounds between any teacher and any learner (Algorithm 1): knows roles, not players.

    round 1: the teacher opens with a lesson
    each round: the learner responds to the lesson; the teacher sees the response and advises the next lesson, or none

Whatever happens, the rounds so far are kept: an interaction that fails raises an error that carries them, and where a
path is given every round is on disk before the next begins.
"""

from collections.abc import Callable, Iterator

import numpy as np

from tutelage.mdp.files import AnyPath
from tutelage.outcomes import InvalidModel, TutelageError
from tutelage.roles import AdaptiveTeacher, Advice, Learner, Lesson, Response, Round, Teacher, check_lesson
from tutelage.transcripts import Transcript, check_response, save_transcript

OnRound = Callable[[Transcript], object]


class InteractionFailed(TutelageError, RuntimeError):
    """A learner or a teacher failed. transcript: all rounds that were completed before."""

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
) -> Transcript:
    """Algorithm 1: lesson, response, next lesson, until the teacher has none or there were `max_rounds` in all.

    so_far: rounds to go on from. on_round: is shown the transcript after every round, and ends the interaction by
    returning something true. path: an `.npz` file that holds the transcript after every round.
    """
    transcript, advice = _advised(teacher, _begun(teacher, so_far, max_rounds), path)
    is_stopped = False
    while advice.lesson is not None and len(transcript.rounds) < max_rounds and not is_stopped:
        response = _response(teacher, learner, advice.lesson, transcript, path)
        played = transcript.followed_by(Round(advice.lesson, response), advice.reason)
        transcript, advice = _advised(teacher, played, path)
        _keep(transcript, path)
        is_stopped = on_round is not None and bool(on_round(transcript))
    return _keep(transcript.ending(_how_it_ended(advice, is_stopped, max_rounds)), path)


def replay(teacher: Teacher, transcript: Transcript, *, on_round: OnRound | None = None) -> Transcript:
    """The same rounds once more, without the learner: what the teacher makes of the recorded responses.

    Raises `InteractionFailed` where this teacher would have taught something else.
    """
    learner = _RecordedLearner(iter(transcript.rounds))
    again = teach(teacher, learner, max_rounds=len(transcript.rounds), on_round=on_round)
    return again if len(again.rounds) < len(transcript.rounds) else again.ending(transcript.ended)


class _RecordedLearner:
    """Answers each lesson as it was answered, and refuses one that was not taught."""

    def __init__(self, rounds: Iterator[Round]) -> None:
        self.rounds = rounds

    def respond(self, lesson: Lesson) -> Response:
        recorded = next(self.rounds)
        if not np.allclose(recorded.lesson.expectation, lesson.expectation, rtol=1e-9, atol=1e-9):
            raise InvalidModel(f"the lesson was {recorded.lesson.expectation}, but is {lesson.expectation} now")
        return recorded.response


def _begun(teacher: Teacher, so_far: Transcript | None, max_rounds: int) -> Transcript:
    """The transcript to go on from, refused if it is of other weights."""
    if max_rounds < 1:
        raise InvalidModel(f"max_rounds must be at least one, got {max_rounds}")
    if so_far is None:
        return Transcript(teacher.true_weights)
    if not np.array_equal(so_far.true_weights, teacher.true_weights):
        raise InvalidModel(f"the rounds so far were for weights {so_far.true_weights}, not {teacher.true_weights}")
    return so_far


def _advised(teacher: Teacher, transcript: Transcript, path: AnyPath | None) -> tuple[Transcript, Advice]:
    """What the teacher says to the rounds so far, and those with the bound that it has now certified.

    A teacher that cannot begin says so itself: nothing has been taught that could be lost.
    """
    try:
        advice = _advice(teacher, transcript.rounds)
        if advice.lesson is not None:
            check_lesson(teacher.domain, advice.lesson)
    except Exception as error:
        if not transcript.rounds:
            raise
        place = f"the teacher has no valid advice after {len(transcript.rounds)} rounds"
        raise _failed(transcript, place, error, path) from error
    return transcript.certified(advice.bound), advice


def _advice(teacher: Teacher, rounds: tuple[Round, ...]) -> Advice:
    """A teacher that cannot adapt has nothing to say after its first lesson."""
    if not rounds:
        return Advice(teacher.open(), "the opening lesson")
    if isinstance(teacher, AdaptiveTeacher):
        return teacher.adapt(rounds)
    return Advice(None, "this teacher has one lesson, and it was taught")


def _response(
    teacher: Teacher, learner: Learner, lesson: Lesson, transcript: Transcript, path: AnyPath | None
) -> Response:
    """The learner's answer, checked; or a failure that says what was wrong with it."""
    try:
        return check_response(teacher.domain, learner.respond(lesson))
    except Exception as error:
        place = f"the learner gave no valid answer in round {len(transcript.rounds) + 1}"
        raise _failed(transcript, place, error, path) from error


def _how_it_ended(advice: Advice, is_stopped: bool, max_rounds: int) -> str:
    if advice.lesson is None:
        return advice.reason
    return "stopped on request" if is_stopped else f"the limit of {max_rounds} rounds was reached"


def _failed(transcript: Transcript, place: str, error: Exception, path: AnyPath | None) -> InteractionFailed:
    sentence = f"{place}: {type(error).__name__}: {error}"
    return InteractionFailed(sentence, _keep(transcript.ending(sentence), path))


def _keep(transcript: Transcript, path: AnyPath | None) -> Transcript:
    if path is not None:
        save_transcript(transcript, path)
    return transcript
