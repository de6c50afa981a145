"""Every number of the paper's experiments, as data: which learner is taught by which teacher in which world.

A task is one row of results to be. Its settings are all that could change the row besides the world, the learner's
preferences and the teacher's name; their hash, with the version of the package, tells rows of one experiment from those
of another.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product

import tutelage
from tutelage.environments.object_world import ObjectWorld
from tutelage.experiments.worlds import WORLD_SETS, WorldName

LEARNERS = ("L1", "L2", "L3", "L4", "L5")
# (C_r, C_c), in the order of Table 1 and then of Appendix B.1.
PENALTIES = ((5.0, 10.0), (10.0, 10.0), (10.0, 5.0), (5.0, 5.0), (10.0, 1.0), (1.0, 10.0))
SIZES = (10, 15, 20)
N_WORLDS = 10


@dataclass(frozen=True, slots=True)
class LearnerSetting:
    """How a learner weighs what it is shown against what it minds.

    model: a name in `players.LEARNER_MODELS`. mismatch_penalty, violation_penalty, allowance: C_r, C_c, delta_c; a
    model ignores what it has no use for. max_steps: of the models that follow the published step schedule.
    """

    model: str
    mismatch_penalty: float = 0.0
    violation_penalty: float = 0.0
    allowance: float = 0.0
    max_steps: int = 0


@dataclass(frozen=True, slots=True)
class TeacherSetting:
    """A teacher by its name in `players.TEACHERS`, with what it is told beyond its defaults, and how long it may go on.

    options: pairs of a parameter's name and its value.
    """

    name: str
    options: tuple[tuple[str, int], ...] = ()
    max_rounds: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    """One row to be: this teacher teaches a learner of these preferences in this world."""

    world: WorldName
    learner: str
    model: LearnerSetting
    teacher: TeacherSetting

    @property
    def key(self) -> "RowKey":
        """What tells its row from all others."""
        return RowKey(_digest(self.settings), str(self.world), self.learner, self.teacher.name)

    @property
    def settings(self) -> str:
        """All but the world and the learner, as a JSON text."""
        return _taught(self.model, self.teacher, tutelage.__version__)


@dataclass(frozen=True, slots=True)
class Illustration:
    """A drawing's data in one world, for a learner that minds one kind of cell: Figure 1, or that of App. C.2.

    limit: the share of its time, discounted, that the learner spends on average near a green cell at the most.
    pushes: the shortest and the longest, far enough apart to be seen.
    """

    name: str
    world: ObjectWorld
    limit: float
    pushes: tuple[float, float] = (2.0, 20.0)
    learner: str = field(default="green within 1 cell", init=False)

    @property
    def key(self) -> "RowKey":
        """What tells its row from all others."""
        return RowKey(_digest(self.settings), "by hand", self.learner, self.name)

    @property
    def settings(self) -> str:
        """The world and the numbers, as a JSON text."""
        numbers = {"limit": self.limit, "pushes": self.pushes, "world": json.loads(self.world.to_json())}
        return json.dumps({"version": tutelage.__version__, **numbers}, sort_keys=True)


@dataclass(frozen=True, slots=True, order=True)
class RowKey:
    """What is unique about a row: the hash of its settings, the world, the learner and the teacher, by name."""

    settings: str
    world: str
    learner: str
    teacher: str


AnyTask = Task | Illustration


@cache
def _taught(model: LearnerSetting, teacher: TeacherSetting, version: str) -> str:
    """The same for thousands of tasks."""
    return json.dumps({"version": version, "model": asdict(model), "teacher": asdict(teacher)}, sort_keys=True)


@cache
def _digest(settings: str) -> str:
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


# Sec. 6.1 and App. B.1 -------------------------------------------------------------------------------------------

# How the published learner and the exact one are taught, by the name of the column.
AGNOSTIC = TeacherSetting("agnostic")
BILEVEL = TeacherSetting("bilevel", (("max_cells", 16),))
FRANK_WOLFE = TeacherSetting("bilevel_frank_wolfe", (("max_cells", 0),))


@dataclass(frozen=True, slots=True)
class Table1Column:
    """A column of Table 1: a teacher, the learner model that it teaches, and the printed column it answers to."""

    name: str
    model: str
    teacher: TeacherSetting
    printed: str | None


TABLE_1_COLUMNS = (
    Table1Column("agnostic", "published", AGNOSTIC, "agnostic"),
    Table1Column("agnostic_exact_learner", "soft", AGNOSTIC, None),
    Table1Column("bilevel", "soft", BILEVEL, "bilevel"),
    Table1Column("bilevel_frank_wolfe", "soft", FRANK_WOLFE, "bilevel"),
)


def soft_setting(model: str, mismatch_penalty: float, violation_penalty: float) -> LearnerSetting:
    """Sec. 6.1's learner, exactly or by the published schedule, delta_c = 0."""
    steps = PUBLISHED_STEPS if model == "published" else 0
    return LearnerSetting(model, mismatch_penalty, violation_penalty, max_steps=steps)


PUBLISHED_STEPS = 300


def table_1(n_worlds: int = N_WORLDS) -> Iterator[Task]:
    """Six pairs of penalties, five learners, seeds 0 to 9, every column."""
    worlds = WORLD_SETS["seeds"](10, n_worlds)
    for (c_r, c_c), learner, column, world in product(PENALTIES, LEARNERS, TABLE_1_COLUMNS, worlds):
        yield Task(world, learner, soft_setting(column.model, c_r, c_c), column.teacher)


# Sec. 6.2 and App. B.2 -------------------------------------------------------------------------------------------

ALLOWANCE = 2.5
UNKNOWN_LEARNERS = ("L1", "L2", "L3")

EXACT = LearnerSetting("hard", allowance=ALLOWANCE)
FOOTNOTE = LearnerSetting("footnote", mismatch_penalty=20.0, allowance=ALLOWANCE)
FOOTNOTE_PUBLISHED = replace(FOOTNOTE, model="footnote_published", max_steps=1000)

KNOWING = (TeacherSetting("aware_cmdp"), AGNOSTIC, TeacherSetting("conservative"))
ADAPTIVE = (TeacherSetting("volume_search", max_rounds=100), TeacherSetting("line_search", max_rounds=100))


def table_2(n_worlds: int = N_WORLDS) -> Iterator[Task]:
    """Three learners, three sizes, two sets of worlds, every teacher; footnote 1's learner exactly and as published.

    As published it is taught only on 10x10, and only by the three teachers that do not adapt.
    """
    for world_set, size, learner in product(WORLD_SETS, SIZES, UNKNOWN_LEARNERS):
        for model, teachers in models_of(size):
            for teacher, world in product(teachers, WORLD_SETS[world_set](size, n_worlds)):
                yield Task(world, learner, model, teacher)


def models_of(size: int) -> tuple[tuple[LearnerSetting, tuple[TeacherSetting, ...]], ...]:
    """The learner models of Table 2 on grids of this size, and who teaches them."""
    every = KNOWING + ADAPTIVE
    exact = ((EXACT, every), (FOOTNOTE, every))
    return (*exact, (FOOTNOTE_PUBLISHED, KNOWING)) if size == SIZES[0] else exact


# Figures ---------------------------------------------------------------------------------------------------------

# The paper shows the worlds of its figures without saying which they are; these are ours.
FIGURE_3_WORLD = WorldName("published", 0, 10)
FIGURE_3_PENALTIES = PENALTIES[0]
FIGURE_4_WORLDS = "reachable"


def figure_3() -> Iterator[Task]:
    """The rows of Table 1 that are drawn: one world, agnostic and exact bi-level teaching of the exact learner."""
    for learner, teacher in product(LEARNERS, (AGNOSTIC, BILEVEL)):
        yield Task(FIGURE_3_WORLD, learner, soft_setting("soft", *FIGURE_3_PENALTIES), teacher)


def figure_4(n_worlds: int = N_WORLDS) -> Iterator[Task]:
    """The rows of Table 2 that are drawn: 10x10, every learner, with the exact projection and with footnote 1's."""
    worlds = WORLD_SETS[FIGURE_4_WORLDS](SIZES[0], n_worlds)
    for learner, model, teacher, world in product(UNKNOWN_LEARNERS, (EXACT, FOOTNOTE), KNOWING + ADAPTIVE, worlds):
        yield Task(world, learner, model, teacher)


def _figure_1_world() -> ObjectWorld:
    """Top-left start; both stars have a green cell beside them, the pluses have not; objects never run out."""
    return ObjectWorld(
        size=6,
        start=0,
        objects={"star": (8, 34), "plus": (11, 24)},
        distractors={"green": (9, 28), "yellow": (30,)},
        discount=0.95,
        end_probability=0.0,
    )


def illustrations() -> Iterator[Illustration]:
    """Figure 1 and the line search's figure, in one world."""
    for name in ("figure1", "line_search"):
        yield Illustration(name, _figure_1_world(), limit=0.1)
