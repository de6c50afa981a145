"""What `tutelage demo` shows: one world, five learners that weigh their preferences, and one that is found out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from tutelage.experiments import settings
from tutelage.experiments.figures import demo_picture
from tutelage.experiments.settings import LearnerSetting, Task
from tutelage.experiments.targets import TEACHER_NAMES
from tutelage.experiments.worlds import WorldName
from tutelage.pictures.rounds import Curve, Panel

# Who is found out in rounds.
FOUND_OUT = "L2"
# What is known of a task once it is done, by the task.
Found = Mapping[Task, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Demo:
    """Which world, and how many discounted visits the learner that is found out grants to what it minds."""

    world: WorldName
    allowance: float

    def known(self, learner: str) -> tuple[Task, Task]:
        """A learner that weighs its preferences, taught by one that ignores them and by one that knows."""
        soft = settings.soft_setting("soft", *settings.PENALTIES[0])
        return Task(self.world, learner, soft, settings.AGNOSTIC), Task(self.world, learner, soft, settings.BILEVEL)

    def unknown(self) -> tuple[Task, ...]:
        """A learner with limits: three teachers with one lesson each, and the two that adapt."""
        hard = LearnerSetting("hard", allowance=self.allowance)
        return tuple(Task(self.world, FOUND_OUT, hard, teacher) for teacher in settings.KNOWING + settings.ADAPTIVE)

    def tasks(self) -> list[Task]:
        """All that is taught."""
        return [task for learner in settings.LEARNERS for task in self.known(learner)] + list(self.unknown())

    def rows(self, found: Found) -> list[dict[str, Any]]:
        """For each learner what it earns under both teachers, and what no teaching could exceed."""
        rows = []
        for learner in settings.LEARNERS:
            agnostic, aware = (found[task] for task in self.known(learner))
            rows.append(
                {
                    "learner": learner,
                    "optimal": agnostic["lesson_rewards"][0],
                    "agnostic": agnostic["reward"],
                    "aware": aware["reward"],
                    "bound": aware["bound"],
                }
            )
        return rows

    def rounds(self, found: Found) -> dict[str, dict[str, Any]]:
        """What came of each teacher of the learner that is found out, by the teacher's name."""
        return {task.teacher.name: found[task] for task in self.unknown()}

    def picture(self, found: Found) -> Figure:
        """The world, what L3 infers under both teachers, and rewards over rounds."""
        agnostic, aware = (found[task] for task in self.known("L3"))
        weights = {"agnostic": {"L3": agnostic["weights"]}, "aware": {"L3": aware["weights"]}}
        return demo_picture(self.world.make(), weights, self._panel(self.rounds(found)))

    def _panel(self, rounds: Mapping[str, dict[str, Any]]) -> Panel:
        """No curve where the learner's limits leave it no policy."""
        title = f"{FOUND_OUT}, which grants {self.allowance:g} visits to each kind of cell, is found out"
        taught = {name: result for name, result in rounds.items() if "refused" not in result}
        curves = [
            Curve(
                TEACHER_NAMES[teacher.name],
                taught[teacher.name]["learner_rewards"],
                taught[teacher.name]["lesson_rewards"],
            )
            for teacher in settings.ADAPTIVE
            if teacher.name in taught
        ]
        levels = {
            TEACHER_NAMES[teacher.name]: taught[teacher.name]["reward"]
            for teacher in settings.KNOWING
            if teacher.name in taught
        }
        return Panel(title, curves, levels)
