"""The jobs of the worker processes, one function for each kind of request; `server.OPERATIONS` says what they answer.

A job sends events, each a name and data for JSON: rounds as they come, or one answer. The event `later` says that the
job `bound` of the same request continues this one, and carries the data of `end` for when that job is stopped.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_type_hints

import numpy as np
from pydantic import TypeAdapter

from tutelage.arrays import Indices, Matrix, Vector
from tutelage.chains.expectations import Expectation, state_occupancy
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.data.files import saved_weights
from tutelage.data.sampling import sample_demonstrations
from tutelage.environments.object_world import ACTIONS, ObjectWorld
from tutelage.environments.placement import NAMED
from tutelage.inference.learner_estimate import infer_learner
from tutelage.interaction import teach
from tutelage.learners.sampled import CallbackLearner
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import InvalidModel, within
from tutelage.playground import schema, snippets
from tutelage.playground.grounds import Content, brought, brought_domain, clipped, described, shadows
from tutelage.registry import TEACHERS, make_learner, make_teacher
from tutelage.roles import Lesson, Response, Round, Teacher
from tutelage.teachers.adaptive import VolumeSearchTeacher, cuts
from tutelage.teachers.bilevel import BilevelTeacher
from tutelage.transcripts import TaughtRound, Transcript, load_transcript, save_transcript

Send = Callable[[str, Mapping[str, Any]], None]
AnyTeaching = schema.Teaching | schema.DomainTeaching
AnyReaching = schema.Reaching | schema.DomainReaching

# Smaller prices and excesses are rounding errors.
ROUNDED_OFF = 1e-6


def run_job(name: str, request: str, send: Send) -> None:
    """Run the job of a name. request: a JSON text in the form of `schema` that is the type of the job's argument."""
    job = JOBS[name]
    job(TypeAdapter(get_type_hints(job)["asked"]).validate_json(request), send)


def _teach(asked: AnyTeaching, send: Send) -> None:
    """The rounds as they come, and how they ended. A bi-level lesson comes before the search for its bound."""
    scene = _Scene(asked)
    teacher = scene.teacher(asked.teacher)
    if not isinstance(teacher, BilevelTeacher):
        _bound(asked, send)
        return
    transcript = teach(replace(teacher, max_cells=0), scene.learner, max_rounds=1)
    send("round", scene.taught(1, transcript.final) | {"is_bounded": False})
    send("later", {"ended": "the search for a tight bound was stopped", "snippet": snippets.teaching(asked)})


def _bound(asked: AnyTeaching, send: Send) -> None:
    """The rounds with their bounds, and how they ended; a bi-level lesson is planned again."""
    scene = _Scene(asked)
    teacher = scene.teacher(asked.teacher)
    reachable = _reachable(scene.domain) if TEACHERS[asked.teacher].is_adaptive else None

    def on_round(rounds: Transcript) -> None:
        left = {} if reachable is None else {"remaining": _remaining(teacher, reachable, rounds.rounds)}
        send("round", scene.taught(len(rounds.rounds), rounds.final) | left)

    transcript = teach(teacher, scene.learner, max_rounds=asked.max_rounds, on_round=on_round)
    send("end", {"ended": transcript.ended, "snippet": snippets.teaching(asked)})


def _transcript(asked: AnyTeaching, send: Send) -> None:
    scene = _Scene(asked)
    transcript = teach(scene.teacher(asked.teacher), scene.learner, max_rounds=asked.max_rounds)
    save_transcript(transcript, content := Content())
    send("file", {"base64": base64.b64encode(content.getvalue()).decode()})


def _answer(asked: schema.Demonstrating, send: Send) -> None:
    scene = _Scene(asked)
    visits = np.mean(_path_visits(asked.world.make(), asked.paths), axis=0)
    lesson = Lesson.from_expectation(visits @ scene.domain.reward_features)
    played = Round(lesson, scene.learner.respond(lesson), "paths drawn by a person")
    taught = Transcript(scene.ground.true_weights).followed_by(played).final
    send("answer", scene.taught(1, taught) | {"snippet": snippets.demonstrating(asked)})


def _adapt(asked: schema.Walking, send: Send) -> None:
    world, visits, teacher, rounds = _walked(asked)
    advice = teacher.adapt(rounds) if rounds else teacher.open()
    domain, lesson, n_cells = teacher.domain, advice.lesson, world.terminal
    told = []
    for taught, gone in zip(rounds, visits, strict=True):
        shown = _visits(domain, taught.lesson.policy, n_cells)
        told.append(taught.as_data() | {"visits": gone[:n_cells].round(5), "shown_visits": shown})
    following = None
    if lesson is not None:
        walks = lesson.demonstrations(3, rng=len(asked.walks))
        following = {
            "expectation": lesson.expectation,
            "reward": world.true_weights @ lesson.expectation,
            "paths": [walk.states[walk.states < n_cells][:150] for walk in walks],
        }
    answer = {
        "conclusions": _conclusions(world, rounds, visits),
        "rounds": told,
        "remaining": _remaining(teacher, vertices(domain, no_limits(domain)), rounds),
        "reason": advice.reason,
        "is_over": lesson is None,
        "lesson": following,
        "snippet": snippets.walking(asked),
    }
    send("answer", answer)


def _walked(asked: schema.Walking) -> tuple[ObjectWorld, list[Vector], Teacher, tuple[TaughtRound, ...]]:
    world = asked.world.make()
    domain = world.domain("L1")
    visits = _path_visits(world, asked.walks)
    answers = (gone @ domain.reward_features for gone in visits)
    person = CallbackLearner(domain, lambda lesson: next(answers))
    teacher = make_teacher(asked.teacher, domain, world.true_weights, person)
    transcript = teach(teacher, person, max_rounds=len(visits)) if visits else Transcript(world.true_weights)
    if (n_rounds := len(transcript.rounds)) < len(visits):
        raise InvalidModel(f"the lessons ended after walk {n_rounds}: {transcript.ended}; leave out the later walks")
    return world, visits, teacher, transcript.rounds


def _infer(asked: schema.Walking, send: Send) -> None:
    """What `infer_learner` says about a person, each of whose walks counts as one trajectory of a soft learner."""
    world, visits, _, rounds = _walked(asked)
    domain = world.domain("L5")
    played = []
    for gone, taught in zip(visits, rounds, strict=True):
        seen = Expectation(gone @ domain.reward_features, gone @ domain.preference_features)
        played.append(Round(taught.lesson, replace(taught.response, expectation=seen, bias=None)))
    estimate = infer_learner(domain, played, n_trajectories=1)
    verdicts = {"there": "avoids", "not there": "accepts", "open": "unknown"}
    send("answer", {"verdicts": [verdicts[verdict] for verdict in estimate.preferences], "text": str(estimate)})


def _reach(asked: AnyReaching, send: Send) -> None:
    domain = _Scene(asked).domain
    reachable = _reachable(domain)
    answer = {"reachable": [] if reachable is None else shadows(reachable)}
    if asked.learner.model == "hard" and reachable is not None:
        limits = preference_limits(domain, asked.learner.allowances)
        answer["accepted"] = shadows(vertices(domain, limits, accuracy=1e-4))
    send("answer", answer)


def _domain(asked: schema.Opening, send: Send) -> None:
    domain = brought_domain(asked.file)
    send("answer", described(domain) | {"true_weights": brought(asked.file, saved_weights, domain=domain)})


def _read(asked: schema.TranscriptReading, send: Send) -> None:
    scene = _Scene(asked.scene)
    whole = brought(asked.file, load_transcript, domain=scene.domain)
    rounds = [scene.taught(*numbered) for numbered in enumerate(whole.rounds[: schema.MOST_LESSONS], start=1)]
    send("answer", {"rounds": rounds, "ended": whole.ended})


JOBS: dict[str, Callable[[Any, Send], None]] = {
    job.__name__.removeprefix("_"): job
    for job in (_teach, _bound, _transcript, _answer, _adapt, _infer, _reach, _domain, _read)
}


class _Scene:
    def __init__(self, asked: AnyReaching) -> None:
        self.ground = asked.ground()
        self.allowances = asked.learner.allowances
        self.domain = self.ground.domain
        # The terminal state of an object world comes last and is not drawn.
        self.is_world = isinstance(asked, schema.Reaching)
        self.n_drawn = self.domain.mdp.n_states - self.is_world
        self.learner = make_learner(asked.learner.model, self.domain, **asked.learner.options)

    def teacher(self, name: str) -> Teacher:
        given, every = self.ground.true_weights, self.ground.every_preference
        return make_teacher(name, self.domain, given, self.learner, every_preference=every)

    def taught(self, number: int, taught: TaughtRound) -> dict[str, Any]:
        n_drawn, answer, shown = self.n_drawn, taught.response, taught.lesson.policy
        proof, weights = answer.certificate, answer.feature_weights
        data = taught.as_data() | {
            "number": number,
            "preferences": self._preferences(answer),
            "weights": [] if weights is None else weights.round(5),
            "visits": _visits(self.domain, answer.policy, n_drawn),
            "shown": None if shown is None else self._walks(shown),
            "shown_visits": _visits(self.domain, shown, n_drawn),
            "done": self._walks(answer.policy),
            "certificate": proof and proof.as_data() | {"ended": proof.ended.value},
            "explanation": answer.explain(),
        }
        if weights is not None and len(features := combined_features(self.domain)) == self.domain.mdp.n_states:
            data["reward_map"] = (features @ weights)[:n_drawn].round(5)
        if self.is_world:
            data["policy"] = answer.policy[: n_drawn * len(ACTIONS)].round(5)
        return data

    def _walks(self, policy: Vector) -> list[Indices]:
        """Walks of a policy for an animation, each until it ends or for this many steps."""
        mdp, n_steps = self.domain.mdp, 48
        tail = mdp.contraction**n_steps * mdp.steps
        walks = sample_demonstrations(self.domain, policy, 12, rng=0, truncation_bias=tail)
        return [walk.states[walk.states < self.n_drawn][: n_steps + 1] for walk in walks]

    def _preferences(self, answer: Response) -> list[dict[str, Any]]:
        """The outcome of each preference; none for a model without preferences. What binds has a price."""
        if answer.multipliers is None:
            return []
        prices, counts = answer.multipliers.preference, answer.expectation.preference
        columns = (answer.constraint_names, self.allowances, counts, answer.violation_excess, prices)
        rows = []
        for name, allowance, visits, excess, price in zip(*columns, strict=False):
            reached = "reached" if 0 < allowance <= visits + ROUNDED_OFF else "free"
            state = "exceeded" if excess > ROUNDED_OFF else "binds" if price > ROUNDED_OFF else reached
            rows.append({"name": name, "allowance": allowance, "visits": visits, "price": price, "state": state})
        return rows


def _visits(domain: Domain, policy: Vector | None, n_drawn: int) -> Vector | None:
    """(n_drawn,), the visits of a policy to the states that are drawn."""
    return None if policy is None else state_occupancy(domain.mdp, policy)[:n_drawn].round(5)


def _reachable(domain: Domain) -> Matrix | None:
    """(k, d_r), the vertices of the reachable reward expectations, if they have two or three dimensions to be drawn."""
    return vertices(domain, no_limits(domain)) if domain.n_reward in (2, 3) else None


def _remaining(teacher: Teacher, reachable: Matrix, rounds: Sequence[Round]) -> list[Matrix]:
    """Projections of the reachable expectations that a projecting learner may accept after these rounds."""
    if isinstance(teacher, VolumeSearchTeacher):
        limits = teacher.estimate(rounds)
    else:
        limits = cuts(teacher.domain, rounds, lambda _: 0.0)
    return shadows(clipped(reachable, limits.normals[:, : teacher.domain.n_reward], limits.offsets))


def _path_visits(world: ObjectWorld, paths: Sequence[Sequence[int]]) -> list[Vector]:
    """(S,) each, the visits of every path. An error has the number of the path."""
    visits = []
    for number, path in enumerate(paths, start=1):
        with within(f"path {number}"):
            visits.append(world.path_visits(path))
    return visits


def _conclusions(world: ObjectWorld, rounds: Sequence[Round], walks: Sequence[Vector]) -> list[dict[str, Any]]:
    """What the teacher concludes about each preference of a person, from the discounted visits to its cells."""
    domain = world.domain("L5")
    policies = [taught.lesson.policy for taught in rounds if taught.lesson.policy is not None]
    none = np.zeros(domain.mdp.n_states)
    shown = sum((state_occupancy(domain.mdp, policy) for policy in policies), none) @ domain.preference_features
    done = sum(walks, none) @ domain.preference_features
    concluded: list[dict[str, Any]] = []
    for name, given, gone in zip(domain.preference_names, shown, done, strict=True):
        verdict = "unknown"
        if given > ROUNDED_OFF and gone < 0.1 * given:
            verdict = "avoids"
        elif gone > ROUNDED_OFF and gone >= 0.5 * given:
            verdict = "accepts"
        concluded.append({"name": name, "shown": given, "done": gone, "verdict": verdict})
    # Who avoids a distance avoids the smaller ones of the colour, and who accepts one accepts the larger ones.
    for verdict, order in (("accepts", concluded), ("avoids", concluded[::-1])):
        for first, then in pairwise(order):
            if first["verdict"] == verdict and NAMED[first["name"]][0] == NAMED[then["name"]][0]:
                then["verdict"] = verdict
    return concluded
