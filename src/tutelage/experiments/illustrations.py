"""The data of three drawings in the plane of stars and pluses: Figure 1, and Figures 6 and 7 (App. C.2)."""

from typing import Any

from tutelage.arrays import Vector
from tutelage.chains.expectations import expectation
from tutelage.constrained.problem import no_limits, preference_limits
from tutelage.constrained.reachable_set import vertices
from tutelage.environments.object_world import ObjectWorld
from tutelage.experiments.settings import Illustration
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


def illustrate(task: Illustration) -> dict[str, Any]:
    """The reachable set and what is drawn in it, for the figure that the task names."""
    domain = plane(task.world)
    weights = task.world.true_weights[DRAWN]
    learner = HardLearner(domain, task.limit * domain.mdp.steps)
    reachable = vertices(domain, no_limits(domain))
    result: dict[str, Any] = {"reachable": reachable.tolist(), "weights": weights.tolist()}
    if task.name == "figure1":
        return result | _three_policies(domain, weights, learner)
    teacher = LineSearchTeacher(domain, weights, *task.pushes)
    return result | (_two_pushes if task.name == "figure6" else _triangle)(teacher, learner)


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


def _three_policies(domain: Domain, weights: Vector, learner: HardLearner) -> dict[str, Any]:
    """Figure 1: pi*, the learner's response to it, and the best policy that the learner accepts."""
    optimal = optimal_lesson(domain, weights)
    aware = AwareCmdpTeacher(domain, weights, learner).plan().lesson
    points = {
        "optimal": optimal.expectation,
        "answered": learner.respond(optimal).expectation.reward,
        "aware": aware.expectation,
    }
    limits = preference_limits(domain, learner.violation_allowance)
    return {
        "feasible": vertices(domain, limits).tolist(),
        "points": {name: point.tolist() for name, point in points.items()},
        "avoided": (domain.preference_features[:, 0] > 0).tolist(),
    }


def _two_pushes(teacher: LineSearchTeacher, learner: HardLearner) -> dict[str, Any]:
    """App. C.2: a learner at its optimum, where no push is realised, and at its first response, far from the border."""
    domain, weights = teacher.domain, teacher.true_weights
    starts = [
        learner.respond(lesson).expectation.reward
        for lesson in (AwareCmdpTeacher(domain, weights, learner).plan().lesson, optimal_lesson(domain, weights))
    ]
    return {"cases": [_case(teacher, start) for start in starts]}


def _triangle(teacher: LineSearchTeacher, learner: HardLearner) -> dict[str, Any]:
    """App. C.2.1: a response inside the feasible set, the push from there, and the response to it."""
    domain = teacher.domain
    start = expectation(domain, uniform_policy(domain.mdp)).reward
    lesson = Lesson.from_policy(domain, teacher.push(start).policy)
    points = {"start": start, "lesson": lesson.expectation, "answer": learner.respond(lesson).expectation.reward}
    limits = preference_limits(domain, learner.violation_allowance)
    return {"feasible": vertices(domain, limits).tolist()} | {name: point.tolist() for name, point in points.items()}


def _case(teacher: LineSearchTeacher, start: Vector) -> dict[str, Any]:
    push = teacher.push(start)
    shown = Lesson.from_policy(teacher.domain, push.policy).expectation
    aim = start + push.size * teacher.true_weights
    return {"start": start.tolist(), "aim": aim.tolist(), "lesson": shown.tolist(), "is_realised": push.is_realised}
