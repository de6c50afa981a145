"""The worlds of an experiment, by name: published:3:10 is the generator, the seed, and the size of the grid.

Seeds 0 to 9 of the published generator reproduce Table 1. They cannot be the worlds of Sec. 6.2: L3 reaches a plus and
a conservative teacher a dot there, as in the *reachable* worlds, the first ten seeds in which both can.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import count, islice

import numpy as np
from scipy.ndimage import label

from tutelage.arrays import Matrix, Vector
from tutelage.data.files import AnyPath, load, open_regular
from tutelage.environments.object_world import GENERATORS, ObjectWorld, object_world
from tutelage.environments.placement import PREFERENCES, preference_features
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput, InvalidModel
from tutelage.registry import look_up

ALL = "all"


@dataclass(frozen=True, slots=True, order=True)
class WorldName:
    """A generated world: its generator, its seed, and the number of cells along one side."""

    generator: str
    seed: int
    size: int

    def __str__(self) -> str:
        return f"{self.generator}:{self.seed}:{self.size}"

    @classmethod
    def parse(cls, text: str) -> "WorldName":
        parts = re.fullmatch(rf"({'|'.join(GENERATORS)}):([+-]?\d+):([+-]?\d+)", text)
        if parts is None:
            known = "a name is generator:seed:size, such as published:0:10 or text:3:15"
            raise InvalidModel(f"{text!r} names no world; {known}")
        return cls(parts[1], int(parts[2]), int(parts[3]))

    def make(self) -> ObjectWorld:
        return object_world(self.size, self.seed, self.generator)  # type: ignore[arg-type]

    def ground(self, preferences: str) -> "Ground":
        """The domain of a learner with these preferences: L1 .. L5, or names with commas between them."""
        world = self.make()
        names = preferences if preferences in PREFERENCES else named_parts(preferences)
        # L5 has every preference of the paper: a conservative teacher assumes all of them.
        return Ground(world.domain(names), world.true_weights, world.domain("L5").preference_features)


@dataclass(frozen=True, slots=True)
class DomainFile:
    """A user's domain: a file that `tutelage.save` wrote, its checksum, and the true weights of its reward features."""

    name: str
    path: str
    checksum: str
    weights: tuple[float, ...]

    def __str__(self) -> str:
        return self.name

    def ground(self, preferences: str) -> "Ground":
        """The domain of a learner with these preferences: names with commas between them, or "all"."""
        whole = load(self.path)
        if checksum_of(self.path) != self.checksum:
            raise InvalidInput(f"{self.path} has changed since the plan was read; run the sweep again")
        names = whole.preference_names if preferences == ALL else named_parts(preferences)
        return Ground(restricted(whole, names), np.array(self.weights), whole.preference_features)


def checksum_of(path: AnyPath) -> str:
    with open_regular(path) as file:
        return sha256(file.read()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Where a learner is taught, and every preference that any learner there may have, (S, k) or (C, k)."""

    domain: Domain
    true_weights: Vector
    every_preference: Matrix


def restricted(domain: Domain, names: Sequence[str]) -> Domain:
    places = {name: place for place, name in enumerate(domain.preference_names)}
    columns = [look_up(places, name, "preference") for name in names]
    return replace(domain, preference_features=domain.preference_features[:, columns], preference_names=tuple(names))


def named_parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@cache
def worlds_in(world_set: str, size: int, n: int) -> tuple[WorldName, ...]:
    """The first n worlds of a set, by the name that results carry: "seeds", "reachable" or "text"."""
    names = (WorldName("text" if world_set == "text" else "published", seed, size) for seed in count())
    if world_set == "reachable":
        worlds = ((name, name.make()) for name in names)
        names = (name for name, world in worlds if can_reach(world, "plus", "L3") and can_reach(world, "dot", "L5"))
    return tuple(islice(names, n))


def can_reach(world: ObjectWorld, kind: str, learner: str) -> bool:
    """Whether some path from the start reaches an object of this type without a cell that the learner avoids."""
    features = preference_features(learner, world.distractors, world.size)[: world.terminal]
    area = label(np.all(features == 0, axis=1).reshape(world.size, world.size))[0].ravel()
    return bool(area[world.start]) and area[world.start] in area[list(world.objects[kind])]
