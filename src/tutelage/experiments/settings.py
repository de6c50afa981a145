"""Every setting of the paper's experiments, as data: which learner is taught by which teacher in which world.

A task describes one row of results. A row is identified by its world, the learner's preferences, the teacher's name,
and a hash of all other settings and the version of the package.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product

import tutelage
from tutelage.environments.object_world import ObjectWorld
from tutelage.environments.preferences import PREFERENCES
from tutelage.experiments.worlds import WORLD_SETS, WorldName
from tutelage.mdp.model import Domain
from tutelage.registry import LEARNER_MODELS, look_up, make_learner
from tutelage.roles import Learner

LEARNERS = tuple(PREFERENCES)
# (C_r, C_c), in the order of Table 1 and then of Appendix B.1.
PENALTIES = ((5.0, 10.0), (10.0, 10.0), (10.0, 5.0), (5.0, 5.0), (10.0, 1.0), (1.0, 10.0))
SIZES = (10, 15, 20)
N_WORLDS = 10


@dataclass(frozen=True, slots=True)
class LearnerSetting:
    """A learner model and its parameters.

    model: a name in `registry.LEARNER_MODELS`. mismatch_penalty, violation_penalty, allowance: C_r, C_c, delta_c.
    max_steps: for the models that follow the published step schedule. A model ignores what it does not have.
    """

    model: str
    mismatch_penalty: float = 0.0
    violation_penalty: float = 0.0
    allowance: float = 0.0
    max_steps: int = 0

    def make(self, domain: Domain) -> Learner:
        """The learner, in a domain."""
        given = {
            "mismatch_penalty": self.mismatch_penalty,
            "violation_penalty": self.violation_penalty,
            "violation_allowance": self.allowance,
            "max_steps": self.max_steps,
        }
        known = look_up(LEARNER_MODELS, self.model, "learner model").options
        return make_learner(self.model, domain, **{name: value for name, value in given.items() if name in known})


@dataclass(frozen=True, slots=True)
class TeacherSetting:
    """A teacher by its name in `registry.TEACHERS`. options: (name, value) pairs of what differs from its defaults."""

    name: str
    options: tuple[tuple[str, int], ...] = ()
    max_rounds: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    """One row of results: this teacher teaches a learner with these preferences (L1 .. L5) in this world."""

    world: WorldName
    learner: str
    model: LearnerSetting
    teacher: TeacherSetting

    @property
    def key(self) -> "RowKey":
        """The identity of its row."""
        return RowKey(_digest(self.settings), str(self.world), self.learner, self.teacher.name)

    @property
    def settings(self) -> str:
        """All settings but the world and the learner's preferences, as a JSON text."""
        return _taught(self.model, self.teacher, tutelage.__version__)


@dataclass(frozen=True, slots=True)
class Illustration:
    """The data of a drawing, for a learner that avoids one kind of cell: Figure 1, or the figure of App. C.2.

    limit: the largest share of discounted time that the learner spends near a green cell. pushes: the shortest and the
    longest push of the line search, large enough to be visible.
    """

    name: str
    world: ObjectWorld
    limit: float
    pushes: tuple[float, float] = (2.0, 20.0)
    learner: str = field(default="green within 1 cell", init=False)

    @property
    def key(self) -> "RowKey":
        """The identity of its row."""
        return RowKey(_digest(self.settings), "by hand", self.learner, self.name)

    @property
    def settings(self) -> str:
        """The world and the numbers, as a JSON text."""
        numbers = {"limit": self.limit, "pushes": self.pushes, "world": json.loads(self.world.to_json())}
        return json.dumps({"version": tutelage.__version__, **numbers}, sort_keys=True)


@dataclass(frozen=True, slots=True, order=True)
class RowKey:
    """The identity of a row: the hash of its settings, and the names of the world, the learner and the teacher."""

    settings: str
    world: str
    learner: str
    teacher: str


AnyTask = Task | Illustration


@cache
def _taught(model: LearnerSetting, teacher: TeacherSetting, version: str) -> str:
    """Cached, since thousands of tasks share it."""
    return json.dumps({"version": version, "model": asdict(model), "teacher": asdict(teacher)}, sort_keys=True)


@cache
def _digest(settings: str) -> str:
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


# Sec. 6.1 and App. B.1 -------------------------------------------------------------------------------------------

AGNOSTIC = TeacherSetting("agnostic")
BILEVEL = TeacherSetting("bilevel", (("max_cells", 16),))
FRANK_WOLFE = TeacherSetting("bilevel_frank_wolfe", (("max_cells", 0),))


@dataclass(frozen=True, slots=True)
class Table1Column:
    """A column of Table 1: a teacher, the learner model that it teaches, and the printed column to compare with."""

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
    """The learner of Sec. 6.1 with delta_c = 0, solved exactly or by the published schedule."""
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

    The published learner is taught only on 10x10, and only by the three teachers that do not adapt.
    """
    for world_set, size, learner in product(WORLD_SETS, SIZES, UNKNOWN_LEARNERS):
        for model, teachers in models_of(size):
            for teacher, world in product(teachers, WORLD_SETS[world_set](size, n_worlds)):
                yield Task(world, learner, model, teacher)


def models_of(size: int) -> tuple[tuple[LearnerSetting, tuple[TeacherSetting, ...]], ...]:
    """The learner models of Table 2 on grids of this size, each with its teachers."""
    every = KNOWING + ADAPTIVE
    exact = ((EXACT, every), (FOOTNOTE, every))
    return (*exact, (FOOTNOTE_PUBLISHED, KNOWING)) if size == SIZES[0] else exact


# Figures ---------------------------------------------------------------------------------------------------------

# The paper does not say which worlds its figures show; these are our choice.
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
    """The start is top left. Only the stars have a green cell next to them. Objects never end the episode."""
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
