"""Every setting of the paper's experiments, as data: which learner is taught by which teacher in which world."""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import tutelage
from tutelage.arrays import finite_or_none
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.experiments.players import Given, called
from tutelage.experiments.worlds import DomainFile, WorldName, worlds_in
from tutelage.model.allowances import OTHERS, read_allowance
from tutelage.model.mdp import Domain
from tutelage.registry import make_learner
from tutelage.roles import Learner

LEARNERS = tuple(PREFERENCES)
# (C_r, C_c), in the order of Table 1 and then of Appendix B.1.
PENALTIES = ((5.0, 10.0), (10.0, 10.0), (10.0, 5.0), (5.0, 5.0), (10.0, 1.0), (1.0, 10.0))
SIZES = (10, 15, 20)
N_WORLDS = 10
# (name, value) pairs. An allowance by name is such pairs again.
Options = tuple[tuple[str, Any], ...]
ALLOWANCE = "violation_allowance"
NUMBERS = ("mismatch_penalty", "violation_penalty", "max_steps")
# The names by which a player may ask for the seed of its task.
SEEDS = ("seed", "rng")


@dataclass(frozen=True, slots=True)
class LearnerSetting:
    """A learner model of the registry, or of a script. n_sampled: trajectories shown; 0 for exact expectations."""

    model: str
    options: Options = ()
    n_sampled: int = 0
    given: Given | None = None

    @property
    def allowances(self) -> dict[str, float | str]:
        """Those of each preference that has its own, and of the others; empty for a learner that is told none."""
        allowed = dict(self.options).get(ALLOWANCE, ())
        return dict(allowed) if isinstance(allowed, tuple) else {OTHERS: allowed}

    def limit(self, preference: str) -> float | str | None:
        """The allowance of a preference, or of the others, a count or a share as 5%; None for no limit."""
        amount = self.allowances.get(preference, self.allowances.get(OTHERS, math.inf))
        return amount if isinstance(amount, str) else finite_or_none(amount)

    def make(self, domain: Domain, seed: int) -> Learner:
        """The learner, in a domain. seed: for a learner that is random."""
        options = dict(self.options)
        if ALLOWANCE in options:
            given = self.allowances.items()
            amounts = {name: read_allowance(part) if isinstance(part, str) else part for name, part in given}
            options[ALLOWANCE] = amounts if isinstance(options[ALLOWANCE], tuple) else amounts[OTHERS]
        if self.given is None:
            return make_learner(self.model, domain, **options)
        learner: Learner = called(self.given.load(), domain, options=options, offered=dict.fromkeys(SEEDS, seed))
        return learner


@dataclass(frozen=True, slots=True)
class TeacherSetting:
    """A teacher by its name in `registry.TEACHERS`. told: the third argument of one that a script gives, if any."""

    name: str
    options: Options = ()
    max_rounds: int = 1
    given: Given | None = None
    told: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One row of results: this teacher teaches a learner with these preferences in this world, or domain.

    learner: L1 .. L5, or names of preferences with commas between them. seed: of samples and of random players.
    time_limit: in seconds; 0 for none. group, replicate: under which its row is averaged; they do not change it.
    """

    world: WorldName | DomainFile
    learner: str
    model: LearnerSetting
    teacher: TeacherSetting
    seed: int = 0
    time_limit: float = 0.0
    metrics: tuple[Given, ...] = ()
    group: str = field(default="", compare=False)
    replicate: str | int = field(default="", compare=False)

    @property
    def key(self) -> "RowKey":
        digest = hashlib.sha256(self.settings.encode()).hexdigest()[:16]
        return RowKey(digest, str(self.world), self.learner, self.teacher.name)

    @property
    def settings(self) -> str:
        """All settings but the names of world and preferences, as JSON: files by content, code by its identity."""
        told: dict[str, Any] = {"version": tutelage.__version__, "seed": self.seed}
        told |= {"time_limit": self.time_limit, "file": None}
        for key, setting in (("model", self.model), ("teacher", self.teacher)):
            values = {name: getattr(setting, name) for name in setting.__slots__ if name not in ("told", "given")}
            told[key] = values | ({"given": setting.given.identity} if setting.given else {})
        if isinstance(self.world, DomainFile):
            told["file"] = {"checksum": self.world.checksum, "weights": self.world.weights}
        if self.metrics:
            told["metrics"] = {metric.name: metric.identity for metric in self.metrics}
        return json.dumps(told, sort_keys=True)


class RowKey(NamedTuple):
    """The identity of a row: the hash of its settings, and the names of the world, the learner and the teacher."""

    settings: str
    world: str
    learner: str
    teacher: str


def tasks_in(
    world_set: str, size: int, n_worlds: int, learner: str, model: LearnerSetting, teacher: TeacherSetting
) -> list[Task]:
    worlds = worlds_in(world_set, size, n_worlds)
    return [Task(world, learner, model, teacher, replicate=str(world)) for world in worlds]


# Sec. 6.1 and App. B.1 -------------------------------------------------------------------------------------------
AGNOSTIC = TeacherSetting("agnostic")
BILEVEL = TeacherSetting("bilevel", (("max_cells", 16),))
# The columns of Table 1: the learner model, its teacher, and the printed column to compare with, if there is one.
TABLE_1_COLUMNS = {
    "agnostic": ("published", AGNOSTIC, "agnostic"),
    "agnostic_exact_learner": ("soft", AGNOSTIC, ""),
    "bilevel": ("soft", BILEVEL, "bilevel"),
    "bilevel_frank_wolfe": ("soft", TeacherSetting("bilevel_frank_wolfe", (("max_cells", 0),)), "bilevel"),
}


def soft_setting(model: str, mismatch_penalty: float, violation_penalty: float) -> LearnerSetting:
    """The learner of Sec. 6.1 with delta_c = 0, solved exactly or by the published schedule."""
    steps = (("max_steps", 300),) if model == "published" else ()
    penalties = (("mismatch_penalty", mismatch_penalty), ("violation_penalty", violation_penalty))
    return LearnerSetting(model, penalties + steps)


# Sec. 6.2 and App. B.2 -------------------------------------------------------------------------------------------
UNKNOWN_LEARNERS = ("L1", "L2", "L3")
# eps in the paper's worlds: a distance of expectations, or a reward.
PAPER_STOPS = {"volume_search": 0.01, "volume_search_printed": 0.01, "line_search": 1e-3, "line_search_printed": 1e-3}
EXACT = LearnerSetting("hard", ((ALLOWANCE, 2.5),))
FOOTNOTE = LearnerSetting("footnote", (("mismatch_penalty", 20.0), (ALLOWANCE, 2.5)))
# By the published schedule. Table 1 has 300 steps; for Sec. 6.2 the paper does not state the number.
STEPS = (100, 300, 500, 1000)
PUBLISHED = tuple(LearnerSetting("footnote_published", (*FOOTNOTE.options, ("max_steps", n))) for n in STEPS)
KNOWING = (TeacherSetting("aware_cmdp"), AGNOSTIC, TeacherSetting("conservative"))
ADAPTIVE = VOLUME, LINE = tuple(TeacherSetting(name, max_rounds=100) for name in ("volume_search", "line_search"))
# As printed, volume search ends only at its limit: footnote 1's learner stays about 0.1 or more from every lesson.
VOLUME_PRINTED = TeacherSetting("volume_search_printed", max_rounds=20)
# Enough for "i = 3rd round". Algorithm 2 needs 13 projections for a lesson.
FEW_ROUNDS = 4
# Algorithm 2 as printed. Its lessons depend on the longest push, which the paper does not state.
LINE_PRINTED = tuple(
    TeacherSetting("line_search_printed", (("longest_push", push),), 20 if push == 5 else FEW_ROUNDS)
    for push in (4.0, 5.0, 6.0, 8.0, 12.0, 20.0)
)
EVERY_TEACHER = (*KNOWING, VOLUME_PRINTED, VOLUME, LINE)


def unknown(n_worlds: int = N_WORLDS) -> Iterator[Task]:
    """Sec. 6.2 and Appendix B.2 with learners that are solved exactly: three sizes, two sets of worlds."""
    for world_set, size, learner in product(("reachable", "seeds"), SIZES, UNKNOWN_LEARNERS):
        for model, teacher in product((EXACT, FOOTNOTE), EVERY_TEACHER):
            yield from tasks_in(world_set, size, n_worlds, learner, model, teacher)


def unknown_slow(n_worlds: int = N_WORLDS) -> Iterator[Task]:
    """The rows that are computed on request: the published learner in rounds, and Algorithm 2."""
    few = (*KNOWING, VOLUME_PRINTED, LINE, *LINE_PRINTED)
    taught = [(FOOTNOTE, teacher) for teacher in LINE_PRINTED] + list(product(PUBLISHED, few))
    for size, learner, (model, teacher) in product(SIZES, UNKNOWN_LEARNERS, taught):
        yield from tasks_in("reachable", size, n_worlds, learner, model, teacher)


# Beyond the paper ------------------------------------------------------------------------------------------------
# Soft learners with unknown parameters: the teacher is told the six features of L5 alone.
UNTOLD_LEARNERS = LEARNERS[1:]
ADAPTIVE_BILEVEL = TeacherSetting("adaptive_bilevel", max_rounds=12)
UNTOLD_TEACHERS = (AGNOSTIC, BILEVEL, replace(VOLUME, max_rounds=12), ADAPTIVE_BILEVEL)


def untold(learner: str) -> LearnerSetting:
    """A soft learner of Sec. 6.1 among the six preferences of L5: those that it does not have are never exceeded."""
    absent = preference_names("L5")[PREFERENCES[learner] :]
    allowed = (*((name, 1e6) for name in absent), (OTHERS, 0.0))
    return LearnerSetting("soft", (*soft_setting("soft", *PENALTIES[0]).options, (ALLOWANCE, allowed)))
