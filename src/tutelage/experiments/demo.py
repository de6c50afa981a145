"""What `tutelage demo` shows: one world, five soft learners, and one learner that adaptive teachers identify."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from tutelage.experiments import settings
from tutelage.experiments.figures import demo_picture
from tutelage.experiments.settings import LearnerSetting, Task
from tutelage.experiments.targets import panel
from tutelage.experiments.worlds import WorldName
from tutelage.pictures.rounds import Panel

# The learner that the adaptive teachers identify.
IDENTIFIED = "L2"
# The result of each task.
Outcomes = Mapping[Task, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Demo:
    """allowance: the discounted visits that the identified learner allows to each kind of cell it avoids."""

    world: WorldName
    allowance: float

    def known(self, learner: str) -> tuple[Task, Task]:
        """A soft learner, taught by a teacher that ignores its preferences and by one that knows them."""
        soft = settings.soft_setting("soft", *settings.PENALTIES[0])
        return Task(self.world, learner, soft, settings.AGNOSTIC), Task(self.world, learner, soft, settings.BILEVEL)

    def unknown(self) -> tuple[Task, ...]:
        """A hard learner: three teachers with one lesson each, and the two that adapt."""
        hard = LearnerSetting("hard", allowance=self.allowance)
        return tuple(Task(self.world, IDENTIFIED, hard, teacher) for teacher in settings.KNOWING + settings.ADAPTIVE)

    def tasks(self) -> list[Task]:
        """Every task."""
        return [task for learner in settings.LEARNERS for task in self.known(learner)] + list(self.unknown())

    def rows(self, outcomes: Outcomes) -> list[dict[str, Any]]:
        """For each learner its reward under both teachers, and the bound that no lesson exceeds."""
        rows = []
        for learner in settings.LEARNERS:
            agnostic, aware = (outcomes[task] for task in self.known(learner))
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

    def rounds(self, outcomes: Outcomes) -> dict[str, dict[str, Any]]:
        """The result of each teacher of the identified learner, by the teacher's name."""
        return {task.teacher.name: outcomes[task] for task in self.unknown()}

    def picture(self, outcomes: Outcomes) -> Figure:
        """The world, the reward that L3 infers under both teachers, and rewards over rounds."""
        agnostic, aware = (outcomes[task] for task in self.known("L3"))
        weights = {"agnostic": {"L3": agnostic["weights"]}, "aware": {"L3": aware["weights"]}}
        return demo_picture(self.world.make(), weights, self._panel(outcomes))

    def _panel(self, outcomes: Outcomes) -> Panel:
        """Rewards over rounds; no curve where no policy keeps the learner's limits."""
        title = f"{IDENTIFIED} allows {self.allowance:g} visits to each kind of cell; two teachers identify that"
        return panel(title, {t.teacher: [outcomes[t]] for t in self.unknown() if "refused" not in outcomes[t]})
