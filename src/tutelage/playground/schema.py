"""The requests of the page, with the range of every field; the server refuses all others before it computes."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tutelage.environments.object_world import DEFAULT_WEIGHTS, ObjectWorld
from tutelage.environments.placement import NAMED, PREFERENCES, preference_names
from tutelage.experiments.worlds import Ground, restricted
from tutelage.playground.grounds import LARGEST_DOMAIN, LARGEST_FILE, brought_domain
from tutelage.registry import LEARNER_MODELS, TEACHERS, Entry, Knows

SMALLEST_GRID, LARGEST_GRID = 2, 30
N_CELLS = LARGEST_GRID * LARGEST_GRID
LONGEST_PATH, MOST_PATHS, MOST_LESSONS = 1000, 50, 60
MOST_FEATURES = LARGEST_DOMAIN["reward features"]
# The length of the largest file that a user may bring, as text in base 64.
LONGEST_TEXT = -(-LARGEST_FILE // 3) * 4

Cell = Annotated[int, Field(ge=0, lt=N_CELLS)]
CellList = Annotated[list[Cell], Field(max_length=N_CELLS)]
Path = Annotated[list[Cell], Field(min_length=1, max_length=LONGEST_PATH)]
Allowance = Annotated[float, Field(ge=0, le=10_000)]
Weight = Annotated[float, Field(ge=-100, le=100)]
FileText = Annotated[str, Field(max_length=LONGEST_TEXT, description="the bytes of a file, in base 64")]


def one_of(names: Callable[[], Iterable[str]]) -> tuple[Any, Any]:
    """A check: one of the names that the registry has at the time of the request. The OpenAPI schema lists them."""

    def check(name: str) -> str:
        if name not in names():
            raise PydanticCustomError("unknown_name", "must be one of {names}", {"names": ", ".join(names())})
        return name

    return AfterValidator(check), Field(json_schema_extra=lambda described: described.update(enum=list(names())))


TeacherName = Annotated[str, *one_of(lambda: TEACHERS)]
# A person walks; what the person prefers is not known, so only teachers that need not know it can adapt.
_WALKED = one_of(lambda: [name for name, one in TEACHERS.items() if one.is_adaptive and one.knows is Knows.NOTHING])
AdaptiveName = Annotated[str, *_WALKED]
ModelName = Annotated[str, *one_of(lambda: LEARNER_MODELS)]

_SOFT = LEARNER_MODELS["soft"].options
Mismatch = Annotated[float, Field(ge=_SOFT["mismatch_penalty"].low, le=_SOFT["mismatch_penalty"].high)]
Violation = Annotated[float, Field(ge=_SOFT["violation_penalty"].low, le=_SOFT["violation_penalty"].high)]


class Asked(BaseModel):
    """Part of a request: no unknown fields, no numbers in quotes, no infinite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class World(Asked):
    """An object world, in the form of its file. Cells are counted row by row from 0 at the top left."""

    size: Annotated[int, Field(ge=SMALLEST_GRID, le=LARGEST_GRID)]
    start: Cell
    objects: dict[Literal["star", "plus", "dot"], CellList]
    distractors: dict[Literal["green", "yellow"], CellList]
    discount: Annotated[float, Field(ge=0.01, le=0.999)] = 0.99
    end_probability: Annotated[float, Field(ge=0, le=1)] = 0.1
    weights: Annotated[list[Weight], Field(min_length=3, max_length=3)] = list(DEFAULT_WEIGHTS)
    generator: Literal["published", "text", "hand"] = "hand"
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None

    def make(self) -> ObjectWorld:
        return ObjectWorld.from_json(self.model_dump_json())


class PreferenceAsked(Asked):
    """A preference against cells within a distance of a colour. allowance: the discounted visits that are accepted."""

    colour: Literal["green", "yellow"]
    distance: Annotated[int, Field(ge=0, le=2)]
    allowance: Allowance = 0.0

    @property
    def name(self) -> str:
        return next(name for name, column in NAMED.items() if column == (self.colour, self.distance))


class NamedPreference(Asked):
    """A preference of a domain from a file, by its name."""

    name: Annotated[str, Field(max_length=200)]
    allowance: Allowance = 0.0


PreferenceT = TypeVar("PreferenceT", PreferenceAsked, NamedPreference)


class AnyLearner(Asked, Generic[PreferenceT]):
    """A learner model and its preferences. A penalty that is left out, or null, is the model's default."""

    model: ModelName
    preferences: Annotated[list[PreferenceT], Field(max_length=MOST_FEATURES)]
    mismatch_penalty: Mismatch | None = None
    violation_penalty: Violation | None = None

    @property
    def names(self) -> list[str]:
        return [preference.name for preference in self.preferences]

    @property
    def allowances(self) -> list[float]:
        return [preference.allowance for preference in self.preferences]

    @property
    def options(self) -> dict[str, Any]:
        """All options of the model: as requested, otherwise the default."""
        given = self.model_dump(include={"mismatch_penalty", "violation_penalty"}, exclude_none=True)
        given["violation_allowance"] = self.allowances
        return {name: given.get(name, option.default) for name, option in LEARNER_MODELS[self.model].options.items()}


def aware_teacher(model: str) -> str:
    """The teacher to compare with: Aware-BiL for a learner with a mismatch penalty, otherwise Aware-CMDP."""
    options = LEARNER_MODELS[model].options
    # Of other people's learners, and of those that have none, no preferences are known.
    if model not in LEARNER_MODELS.own or (options and "violation_allowance" not in options):
        return "agnostic"
    return "bilevel" if "mismatch_penalty" in options else "aware_cmdp"


class Reaching(Asked):
    """A learner in a world; of itself, a request for the reachable set."""

    world: World
    learner: AnyLearner[PreferenceAsked]

    def ground(self) -> Ground:
        """Where the learner is taught. L5 has every preference."""
        world = self.world.make()
        return Ground(world.domain(self.learner.names), world.true_weights, world.domain("L5").preference_features)


class Rounds(Asked):
    """A teacher, and the most rounds that it has."""

    teacher: TeacherName
    max_rounds: Annotated[int, Field(ge=1, le=MOST_LESSONS)] = 20


class Teaching(Reaching, Rounds):
    """One teacher and one learner in a world."""


class Opening(Asked):
    """A file that a user brings."""

    file: FileText


class Brought(Opening):
    """A domain from a file, and what its reward features are worth to the teacher."""

    weights: Annotated[list[Weight], Field(min_length=1, max_length=MOST_FEATURES)]


class DomainReaching(Asked):
    """A learner in a domain from a file."""

    domain: Brought
    learner: AnyLearner[NamedPreference]

    def ground(self) -> Ground:
        whole = brought_domain(self.domain.file)
        return Ground(restricted(whole, self.learner.names), np.array(self.domain.weights), whole.preference_features)


class DomainTeaching(DomainReaching, Rounds):
    """One teacher and one learner in a domain from a file."""


class TranscriptReading(Opening):
    """A transcript from a file, in the world or the domain that it was made in."""

    scene: Reaching | DomainReaching


class Demonstrating(Reaching):
    """Paths that a person shows to a learner."""

    paths: Annotated[list[Path], Field(min_length=1, max_length=MOST_PATHS)]


class Walking(Asked):
    """A person's walks, one after each lesson so far."""

    world: World
    teacher: AdaptiveName
    walks: Annotated[list[Path], Field(max_length=MOST_LESSONS)]


class Refusal(BaseModel):
    """The reason of a refusal, as a sentence."""

    detail: str


def known_players() -> dict[str, Any]:
    """The names that a request can have: teachers and learner models, preferences in their order, and L1 .. L5."""
    teachers = {}
    for name, entry in TEACHERS.items():
        knows = {"knows": entry.knows.value, "needs_penalties": entry.knows is Knows.LEARNER}
        teachers[name] = _described(entry) | knows | {"is_adaptive": entry.is_adaptive}
    models = {name: _described(one) | {"aware_teacher": aware_teacher(name)} for name, one in LEARNER_MODELS.items()}
    presets = {}
    for name in PREFERENCES:
        names = preference_names(name)
        # A larger distance includes the smaller ones of its colour.
        widest = {NAMED[preference][0]: preference for preference in names}
        presets[name] = {"about": f"avoids {' and '.join(widest.values()) or 'nothing'}", "preferences": names}
    preferences = [{"name": name, "colour": colour, "distance": distance} for name, (colour, distance) in NAMED.items()]
    return {"teachers": teachers, "learner_models": models, "preferences": preferences, "presets": presets}


def _described(entry: Entry) -> dict[str, Any]:
    options = {name: asdict(option) for name, option in entry.options.items()}
    return {"label": entry.label, "about": entry.about, "options": options}
