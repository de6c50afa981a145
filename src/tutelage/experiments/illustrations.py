"""Three drawings in the plane of stars and pluses, as data: Figure 1, and Figures 6 and 7 (App. C.2)."""

import json
from dataclasses import dataclass
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


# The start is top left. Only the stars have a green cell next to them. Objects never end the episode.
WORLD = ObjectWorld(
    size=6,
    start=0,
    objects={"star": (8, 34), "plus": (11, 24)},
    distractors={"green": (9, 28), "yellow": (30,)},
    discount=0.95,
    end_probability=0.0,
)
# The largest share of discounted time that the learner spends near a green cell, and the shortest and the longest push
# of the line search, large enough to be visible.
LIMIT, PUSHES = 0.1, (2.0, 20.0)


@dataclass(frozen=True, slots=True)
class Illustration:
    """The data of a drawing, for a learner that avoids one kind of cell: figure1, figure6 or figure7."""

    name: str

    @property
    def key(self) -> RowKey:
        """The identity of its row."""
        return RowKey(short_hash(self.settings), "by hand", "green within 1 cell", self.name)

    @property
    def settings(self) -> str:
        """The world and the numbers, as a JSON text."""
        numbers = {"limit": LIMIT, "pushes": PUSHES, "world": json.loads(WORLD.to_json())}
        return json.dumps({"version": tutelage.__version__, **numbers}, sort_keys=True)


AnyTask = Task | Illustration


def illustrate(task: Illustration) -> dict[str, Any]:
    """The reachable set and what is drawn in it, for the figure that the task names."""
    domain, weights = plane(WORLD), WORLD.true_weights[DRAWN]
    learner = HardLearner(domain, LIMIT * domain.mdp.steps)
    teacher = LineSearchTeacher(domain, weights, *PUSHES)
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
