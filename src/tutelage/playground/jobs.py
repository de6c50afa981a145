"""The jobs of the worker processes, one function for each kind of request.

A job sends events, each a name and data for JSON: rounds as they come, or one answer. The event `later` is for the
server: the request of a job that continues this one when no other job waits.
"""

import base64
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tutelage.arrays import Matrix, Vector, finite_or_none
from tutelage.environments.object_world import ACTIONS, ObjectWorld
from tutelage.interaction import teach
from tutelage.learners.observed import CallbackLearner
from tutelage.mdp.expectations import occupancy
from tutelage.mdp.model import Domain
from tutelage.outcomes import Ended, InvalidModel
from tutelage.playground import schema, snippets
from tutelage.playground.planes import clipped, shadows
from tutelage.registry import TEACHERS, make_teacher
from tutelage.roles import Advice, Learner, Lesson, Response, Round, Teacher
from tutelage.solvers.half_spaces import HalfSpaces, no_limits, preference_limits
from tutelage.solvers.reachable_set import vertices
from tutelage.solvers.soft_expectations import combined_features
from tutelage.teachers.adaptive import cuts
from tutelage.teachers.base import reward_of
from tutelage.teachers.bilevel import BilevelPlan, BilevelTeacher
from tutelage.teachers.climbing import LocalOptimum
from tutelage.teachers.volume_search import VolumeSearchTeacher
from tutelage.transcripts import TaughtRound, Transcript, save_transcript

Send = Callable[[str, Mapping[str, Any]], None]

# The number of demonstrations of a lesson that a person sees, and the largest number of cells of each.
SHOWN, SHOWN_STEPS = 3, 150
# Smaller prices and excesses are rounding errors.
SMALLEST = 1e-6


def run_job(name: str, request: str, send: Send) -> None:
    """Run the job of a name. request: a JSON text of the job's form in `schema`."""
    form, job = JOBS[name]
    job(form.model_validate_json(request), send)


def _teach(asked: schema.Teaching, send: Send) -> None:
    """The rounds as they come, and how they ended. A bi-level lesson comes before the search for its bound."""
    scene = _Scene(asked.world.make(), asked.learner)
    teacher = scene.teacher(asked.teacher)
    if isinstance(teacher, BilevelTeacher):
        plan = teacher.lesson_plan()
        send("round", scene.taught(_planned(teacher, plan)))
        optima = [
            (
                o.weights.tolist(),
                o.expectation.tolist(),
                o.reward,
                o.policy.tolist(),
                finite_or_none(o.gap),
                o.ended.name,
            )
            for o in plan.optima
        ]
        send("later", {"teaching": asked.model_dump(), "optima": optima, "bound": plan.bound})
        return
    reach = _Reach(teacher) if TEACHERS[asked.teacher].is_adaptive else None

    def on_round(rounds: Transcript) -> None:
        left = {"remaining": reach.remaining(rounds.rounds)} if reach else {}
        send("round", scene.taught(rounds) | left)

    transcript = teach(teacher, scene.learner, max_rounds=asked.max_rounds, on_round=on_round)
    send("end", {"ended": transcript.ended, "snippet": snippets.teaching(asked)})


def _bound(asked: schema.Bounding, send: Send) -> None:
    """The round of a bi-level lesson again, with the certified bound; the lesson is not planned again."""
    scene = _Scene(asked.teaching.world.make(), asked.teaching.learner)
    teacher = scene.teacher(asked.teaching.teacher)
    assert isinstance(teacher, BilevelTeacher)
    optima = [
        LocalOptimum(np.array(w), np.array(mu), reward, np.array(pi), math.inf if gap is None else gap, Ended[ended])
        for w, mu, reward, pi, gap, ended in asked.optima
    ]
    lesson = Lesson.from_policy(scene.domain, optima[0].policy)
    response = scene.learner.respond(lesson)
    achieved = reward_of(teacher.true_weights, response)
    plan = BilevelPlan(lesson, response, optima[0].reward, achieved, asked.bound, tuple(optima), 0)
    transcript = _planned(teacher, teacher.bounded(plan))
    send("round", scene.taught(transcript))
    send("end", {"ended": transcript.ended, "snippet": snippets.teaching(asked.teaching)})


def _planned(teacher: BilevelTeacher, plan: BilevelPlan) -> Transcript:
    """The only round of a bi-level plan, as `teach` records it."""
    advice = teacher.advice(plan)
    played = Round(plan.lesson, plan.response, advice.reason, advice.bound)
    return Transcript(teacher.true_weights).followed_by(played).ending(teacher.adapt((played,)).reason)


def _transcript(asked: schema.Teaching, send: Send) -> None:
    """The rounds as the bytes of a file that `load_transcript` reads."""
    scene = _Scene(asked.world.make(), asked.learner)
    transcript = teach(scene.teacher(asked.teacher), scene.learner, max_rounds=asked.max_rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.npz"
        save_transcript(transcript, path)
        send("file", {"base64": base64.b64encode(path.read_bytes()).decode()})


def _answer(asked: schema.Demonstrating, send: Send) -> None:
    """The learner's response to paths that a person drew."""
    scene = _Scene(asked.world.make(), asked.learner)
    lesson = _lesson(scene.world, scene.domain, asked.paths)
    played = Round(lesson, scene.learner.respond(lesson), "paths drawn by a person")
    transcript = Transcript(scene.world.true_weights).followed_by(played)
    send("answer", scene.taught(transcript) | {"snippet": snippets.demonstrating(asked)})


def _adapt(asked: schema.Walking, send: Send) -> None:
    """The next lesson for a person who responded to the earlier ones with walks, or why there is none."""
    world, n_walks = asked.world.make(), len(asked.walks)
    domain = world.domain("L1")
    answers = iter([visits @ domain.reward_features for visits in _path_visits(world, asked.walks)])
    person = CallbackLearner(domain, lambda lesson: next(answers))
    teacher = make_teacher(asked.teacher, domain, world.true_weights, person)
    transcript = Transcript(world.true_weights)
    advice: Advice | None = None

    def adapt(rounds: Sequence[Round]) -> Advice:
        nonlocal advice
        advice = teacher.adapt(rounds)
        return advice

    if n_walks > 0:
        # `teach` asks for advice after the last walk too; that advice is the answer.
        asking: Any = SimpleNamespace(domain=domain, true_weights=teacher.true_weights, open=teacher.open, adapt=adapt)
        transcript = teach(asking, person, max_rounds=n_walks)
        if len(transcript.rounds) < n_walks:
            raise InvalidModel(
                f"the lessons ended after walk {len(transcript.rounds)}: {transcript.ended}; leave out the later walks"
            )
    advice = advice or teacher.open()
    found: dict[str, Any] = {
        "rounds": [_round_numbers(taught) for taught in transcript.rounds],
        "remaining": _Reach(teacher).remaining(transcript.rounds),
        "reason": advice.reason,
        "is_over": advice.lesson is None,
        "lesson": None if advice.lesson is None else _shown(world, advice.lesson, n_walks),
    }
    send("answer", found | {"snippet": snippets.walking(asked)})


def _reach(asked: schema.Reaching, send: Send) -> None:
    """Projections of the reachable reward expectations and, for the hard learner, of those that it accepts."""
    scene = _Scene(asked.world.make(), asked.learner)
    domain = scene.domain
    found = {"reachable": shadows(vertices(domain, no_limits(domain)))}
    if asked.learner.model == "hard":
        limits = preference_limits(domain, asked.learner.allowances)
        found["accepted"] = shadows(vertices(domain, limits, accuracy=1e-4))
    send("answer", found)


JOBS: dict[str, tuple[Any, Callable[[Any, Send], None]]] = {
    "teach": (schema.Teaching, _teach),
    "bound": (schema.Bounding, _bound),
    "transcript": (schema.Teaching, _transcript),
    "answer": (schema.Demonstrating, _answer),
    "adapt": (schema.Walking, _adapt),
    "reach": (schema.Reaching, _reach),
}


class _Scene:
    """A learner in a world, and the data of its rounds."""

    def __init__(self, world: ObjectWorld, asked: schema.LearnerAsked) -> None:
        self.world, self.asked = world, asked
        self.domain: Domain = world.domain(asked.names)
        self.learner: Learner = asked.make(self.domain)

    def teacher(self, name: str) -> Teacher:
        """The teacher of a name; L5 has every preference."""
        every = self.world.domain("L5").preference_features
        return make_teacher(name, self.domain, self.world.true_weights, self.learner, every_preference=every)

    def taught(self, transcript: Transcript) -> dict[str, Any]:
        """The data of the last round."""
        taught, n_cells = transcript.final, self.world.terminal
        answer = taught.response
        reward = combined_features(self.domain) @ answer.learned_weights
        return _round_numbers(taught) | {
            "number": len(transcript.rounds),
            "preferences": self._preferences(answer),
            "reward_map": _rounded(reward[:n_cells]),
            "policy": _rounded(answer.policy[: n_cells * len(ACTIONS)]),
            "visits": _visits(self.world, self.domain, answer.policy),
            "certificate": {
                "gap": finite_or_none(answer.certificate.gap),
                "residual": answer.certificate.residual,
                "ended": answer.certificate.ended.value,
            },
            "explanation": answer.explain(),
        }

    def _preferences(self, answer: Response) -> list[dict[str, Any]]:
        """The outcome of each preference; none for a model without preferences."""
        names = answer.constraint_names
        rows = zip(
            names,
            self.asked.allowances[: len(names)],
            answer.expectation.preference[: len(names)].tolist(),
            answer.violation_excess.tolist(),
            answer.multipliers.preference.tolist(),
            strict=True,
        )
        return [
            {
                "name": name,
                "allowance": allowance,
                "visits": visits,
                "price": price,
                "state": _state(allowance, visits, excess, price),
            }
            for name, allowance, visits, excess, price in rows
        ]


def _state(allowance: float, visits: float, excess: float, price: float) -> str:
    """Exceeded; binding, with a price; reached, without a price; or free: not binding."""
    if excess > SMALLEST:
        return "exceeded"
    if price > SMALLEST:
        return "binds"
    return "reached" if 0 < allowance <= visits + SMALLEST else "free"


class _Reach:
    """The reachable reward expectations, and those that the rounds do not exclude for a learner that projects."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher
        self.vertices: Matrix = vertices(teacher.domain, no_limits(teacher.domain))

    def remaining(self, rounds: Sequence[Round]) -> list[list[list[float]]]:
        """Projections of the part within all cuts."""
        domain = self.teacher.domain
        limits = self._cuts(rounds)
        return shadows(clipped(self.vertices, limits.normals[:, : domain.n_reward], limits.offsets))

    def _cuts(self, rounds: Sequence[Round]) -> HalfSpaces:
        if isinstance(self.teacher, VolumeSearchTeacher):
            return self.teacher.estimate(rounds)
        return cuts(self.teacher.domain, rounds, lambda _: 0.0)


def _lesson(world: ObjectWorld, domain: Domain, paths: Sequence[Sequence[int]]) -> Lesson:
    """The mean expectation of the paths, as a lesson."""
    visits = np.mean(_path_visits(world, paths), axis=0)
    return Lesson.from_expectation(visits @ domain.reward_features)


def _path_visits(world: ObjectWorld, paths: Sequence[Sequence[int]]) -> list[Vector]:
    """(S,) each, the visits of every path; an error names the number of the path."""
    visits = []
    for number, path in enumerate(paths, start=1):
        try:
            visits.append(world.path_visits(path))
        except InvalidModel as error:
            raise InvalidModel(f"path {number}: {error}") from error
    return visits


def _round_numbers(taught: TaughtRound) -> dict[str, Any]:
    return {
        "lesson": taught.lesson.expectation.tolist(),
        "lesson_reward": taught.lesson_reward,
        "response": taught.response.expectation.reward.tolist(),
        "reward": taught.response_reward,
        "bound": finite_or_none(taught.bound),
        "reason": taught.reason,
    }


def _shown(world: ObjectWorld, lesson: Lesson, seed: int) -> dict[str, Any]:
    """A lesson for a person: demonstrations, the expectation and its reward."""
    demonstrations = lesson.demonstrations(SHOWN, rng=np.random.default_rng(seed))
    walks = np.split(demonstrations.states, demonstrations.offsets[1:-1])
    return {
        "expectation": lesson.expectation.tolist(),
        "reward": float(world.true_weights @ lesson.expectation),
        "paths": [walk[walk != world.terminal][:SHOWN_STEPS].tolist() for walk in walks],
    }


def _visits(world: ObjectWorld, domain: Domain, policy: Vector) -> list[float]:
    """(n * n,), the expected discounted visits to each cell."""
    by_choice = occupancy(domain.mdp, policy)[: world.terminal * len(ACTIONS)]
    return _rounded(by_choice.reshape(-1, len(ACTIONS)).sum(axis=1))


def _rounded(values: Vector) -> list[float]:
    """Rounded to the precision of a picture."""
    shown: list[float] = np.round(values, 5).tolist()
    return shown
