"""Three drawings in the plane of stars and pluses, as data: Figure 1, and Figures 6 and 7 (App. C.2)."""

import json
from dataclasses import dataclass, field
from typing import Any

import tutelage
from tutelage.arrays import Vector
from tutelage.chains.expectations import expectation
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import ObjectWorld
from tutelage.experiments.settings import RowKey, Task, short_hash
from tutelage.learners.projection import HardLearner
from tutelage.model.mdp import Domain
from tutelage.model.policy import uniform_policy
from tutelage.roles import Lesson
from tutelage.teachers.base import optimal_lesson
from tutelage.teachers.fixed import AwareCmdpTeacher
from tutelage.teachers.line_search import LineSearchTeacher

# The columns that are drawn, of (star, plus, dot), and the preference feature: green within one cell.
DRAWN = [0, 1]
AVOIDED = [1]


@dataclass(frozen=True, slots=True)
class Illustration:
    """The data of a drawing, for a learner that avoids one kind of cell: Figure 1, 6 or 7.

    limit: the largest share of discounted time that the learner spends near a green cell. pushes: the shortest and the
    longest push of the line search, large enough to be visible.
    """

    name: str
    world: ObjectWorld
    limit: float
    pushes: tuple[float, float] = (2.0, 20.0)
    learner: str = field(default="green within 1 cell", init=False)

    @property
    def key(self) -> RowKey:
        """The identity of its row."""
        return RowKey(short_hash(self.settings), "by hand", self.learner, self.name)

    @property
    def settings(self) -> str:
        """The world and the numbers, as a JSON text."""
        numbers = {"limit": self.limit, "pushes": self.pushes, "world": json.loads(self.world.to_json())}
        return json.dumps({"version": tutelage.__version__, **numbers}, sort_keys=True)


AnyTask = Task | Illustration
# The start is top left. Only the stars have a green cell next to them. Objects never end the episode.
WORLD = ObjectWorld(
    size=6,
    start=0,
    objects={"star": (8, 34), "plus": (11, 24)},
    distractors={"green": (9, 28), "yellow": (30,)},
    discount=0.95,
    end_probability=0.0,
)
ILLUSTRATIONS = {name: Illustration(name, WORLD, limit=0.1) for name in ("figure1", "figure6", "figure7")}


def illustrate(task: Illustration) -> dict[str, Any]:
    """The reachable set and what is drawn in it, for the figure that the task names."""
    domain, weights = plane(task.world), task.world.true_weights[DRAWN]
    learner = HardLearner(domain, task.limit * domain.mdp.steps)
    teacher = LineSearchTeacher(domain, weights, *task.pushes)
    draw = {"figure1": _three_policies, "figure6": _two_pushes, "figure7": _triangle}[task.name]
    accepted = vertices(domain, preference_limits(domain, learner.violation_allowance))
    reachable = vertices(domain, no_limits(domain))
    corners = {"reachable": reachable.tolist(), "feasible": accepted.tolist(), "weights": weights.tolist()}
    return corners | draw(teacher, learner)


def plane(world: ObjectWorld) -> Domain:
    """The world for a learner that avoids green within one cell, with stars and pluses as the only rewards."""
    whole = world.domain("L2")
    return Domain(
        whole.mdp,
        whole.reward_features[:, DRAWN],
        whole.preference_features[:, AVOIDED],
        tuple(whole.reward_names[i] for i in DRAWN),
        tuple(whole.preference_names[i] for i in AVOIDED),
    )


def _shown(teacher: LineSearchTeacher, learner: HardLearner) -> tuple[Lesson, Lesson]:
    """The lessons of a teacher that ignores the learner, and of one that knows it."""
    domain, weights = teacher.domain, teacher.true_weights
    return optimal_lesson(domain, weights), AwareCmdpTeacher(domain, weights, learner).plan().lesson


def _three_policies(teacher: LineSearchTeacher, learner: HardLearner) -> dict[str, Any]:
    """Figure 1: pi*, the learner's response to it, and the best policy that the learner accepts."""
    optimal, aware = _shown(teacher, learner)
    answered = learner.respond(optimal).expectation.reward
    points = {"optimal": optimal.expectation, "answered": answered, "aware": aware.expectation}
    avoided = (teacher.domain.preference_features[:, 0] > 0).tolist()
    return {"points": {name: point.tolist() for name, point in points.items()}, "avoided": avoided}


def _two_pushes(teacher: LineSearchTeacher, learner: HardLearner) -> dict[str, Any]:
    """App. C.2: a learner at its optimum, where no push is realised, and at its first response, far from the border."""
    starts = [learner.respond(lesson).expectation.reward for lesson in reversed(_shown(teacher, learner))]
    return {"cases": [_case(teacher, start) for start in starts]}


def _case(teacher: LineSearchTeacher, start: Vector) -> dict[str, Any]:
    push = teacher.push(start)
    shown = Lesson.from_policy(teacher.domain, push.policy).expectation
    aim = start + push.size * teacher.true_weights
    return {"start": start.tolist(), "aim": aim.tolist(), "lesson": shown.tolist(), "is_realised": push.is_realised}


def _triangle(teacher: LineSearchTeacher, learner: HardLearner) -> dict[str, Any]:
    """App. C.2.1: a response inside the feasible set, the push from there, and the response to it."""
    start = expectation(teacher.domain, uniform_policy(teacher.domain.mdp)).reward
    lesson = Lesson.from_policy(teacher.domain, teacher.push(start).policy)
    points = {"start": start, "lesson": lesson.expectation, "answer": learner.respond(lesson).expectation.reward}
    return {name: point.tolist() for name, point in points.items()}
