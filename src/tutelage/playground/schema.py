"""What the page may ask, and within which bounds; everything else is refused before anything is computed.

The server keeps nothing between two requests: each says all that its answer depends on.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tutelage.environments.object_world import DEFAULT_WEIGHTS, ObjectWorld
from tutelage.environments.preferences import COLUMNS, NAMED
from tutelage.learners.entropy import SoftLearner
from tutelage.learners.projection import HardLearner
from tutelage.mdp.model import Domain

SMALLEST_SIZE, LARGEST_SIZE = 2, 30
N_CELLS = LARGEST_SIZE * LARGEST_SIZE
LONGEST_PATH = 1000
MOST_PATHS = 50
MOST_ROUNDS = 60
LONGEST_PLACE = 100

Cell = Annotated[int, Field(ge=0, lt=N_CELLS)]
CellList = Annotated[list[Cell], Field(max_length=N_CELLS)]
Path = Annotated[list[Cell], Field(min_length=1, max_length=LONGEST_PATH)]
Weight = Annotated[float, Field(ge=-100, le=100)]
Penalty = Annotated[float, Field(ge=0.01, le=1000)]

TeacherName = Literal["agnostic", "conservative", "aware_cmdp", "bilevel", "volume_search", "line_search"]


class Asked(BaseModel):
    """Part of a request: no unknown names, no numbers in quotes, nothing infinite."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Objects(Asked):
    """The cells of each type, counted row by row from 0 at the top left."""

    star: CellList = Field(default_factory=list)
    plus: CellList = Field(default_factory=list)
    dot: CellList = Field(default_factory=list)


class Distractors(Asked):
    """The cells of each colour."""

    green: CellList = Field(default_factory=list)
    yellow: CellList = Field(default_factory=list)


class World(Asked):
    """An object world, in the form of its file."""

    size: Annotated[int, Field(ge=SMALLEST_SIZE, le=LARGEST_SIZE)]
    start: Cell
    objects: Objects
    distractors: Distractors
    discount: Annotated[float, Field(ge=0.01, le=0.999)] = 0.99
    end_probability: Annotated[float, Field(ge=0, le=1)] = 0.1
    weights: Annotated[list[Weight], Field(min_length=3, max_length=3)] = list(DEFAULT_WEIGHTS)
    generator: Literal["published", "text", "hand"] = "hand"
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None

    def make(self) -> ObjectWorld:
        """The world itself; refused where it contradicts itself."""
        return ObjectWorld.from_json(self.model_dump_json())


class PreferenceAsked(Asked):
    """Distractors of a colour within so many cells, and how many discounted visits to those cells are granted."""

    colour: Literal["green", "yellow"]
    distance: Annotated[int, Field(ge=0, le=2)]
    allowance: Annotated[float, Field(ge=0, le=10_000)] = 0.0

    @property
    def name(self) -> str:
        """As the domain calls it."""
        return tuple(NAMED)[COLUMNS.index((self.colour, self.distance))]


class LearnerAsked(Asked):
    """How the learner weighs what it is shown against what it minds; the penalties are the soft learner's."""

    model: Literal["soft", "hard"]
    preferences: Annotated[list[PreferenceAsked], Field(max_length=len(COLUMNS))]
    mismatch_penalty: Penalty = 5.0
    violation_penalty: Penalty = 10.0

    @property
    def names(self) -> list[str]:
        """What it minds, by name."""
        return [preference.name for preference in self.preferences]

    @property
    def allowances(self) -> list[float]:
        """What it grants of each."""
        return [preference.allowance for preference in self.preferences]

    def make(self, domain: Domain) -> SoftLearner | HardLearner:
        """The learner, in a domain of its preferences."""
        if self.model == "hard":
            return HardLearner(domain, self.allowances)
        return SoftLearner(
            domain,
            mismatch_penalty=self.mismatch_penalty,
            violation_penalty=self.violation_penalty,
            violation_allowance=self.allowances,
        )


class Teaching(Asked):
    """One teacher and one learner in a world."""

    world: World
    learner: LearnerAsked
    teacher: TeacherName
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 20


class Demonstrating(Asked):
    """Paths that a person shows to a learner."""

    world: World
    learner: LearnerAsked
    paths: Annotated[list[Path], Field(min_length=1, max_length=MOST_PATHS)]


class Walking(Asked):
    """What a person did after each lesson so far, as one path each; the teacher goes on from there."""

    world: World
    teacher: Literal["volume_search", "line_search"]
    walks: Annotated[list[Path], Field(max_length=MOST_ROUNDS)]


class Reaching(Asked):
    """Whose reachable set is wanted."""

    world: World
    learner: LearnerAsked


class Refusal(BaseModel):
    """Why there is no answer, in a sentence."""

    detail: str


def sentence(errors: Sequence[Any]) -> str:
    """What is wrong with a request, from pydantic's list of errors; of many, the first."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    # An unknown name is the sender's own, of any length.
    place = place if len(place) <= LONGEST_PLACE else f"{place[:LONGEST_PLACE]}..."
    problem = str(first["msg"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place or 'the request'}: {problem[:1].lower()}{problem[1:]}{more}"
