"""A user's own sweep: domains x learners x teachers x seeds, from a TOML file or the same data in Python.

    seeds = [0, 1, 2]                              # of samples; optional
    time_limit = 60                                # seconds for one task; optional

    [[domain]]
    file = "roads.npz"                             # written by tutelage.save; or world = "published:0:10"
    weights = {km = -1}                            # the true weights: a list, or by name (0 for the others)

    [[learner]]
    model = "soft"
    preferences = ["service_km", "service_km, main_km"]
    mismatch_penalty = [1, 5]
    allowance = {service_km = 0.1}                 # or one number for every preference

    [[teacher]]
    name = ["agnostic", "bilevel"]
    max_rounds = 20

A list always means "each of these"; a group with several lists means every combination. All names are checked before
the first task is computed.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

from tutelage.data.files import load, open_regular, save
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.experiments.settings import LearnerSetting, Task, TeacherSetting
from tutelage.experiments.worlds import ALL, DomainFile, WorldName, checksum_of, named_parts
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, look_up

GROUPS = ("domain", "learner", "teacher")
SETTINGS = ("title", "seeds", "time_limit")
OF_DOMAIN = ("name", "file", "world", "domain", "weights")
OF_LEARNER = ("preferences", *(field.name for field in fields(LearnerSetting) if field.name != "allowances"))

Source = WorldName | DomainFile


def read_plan(plan: str | Path | Mapping[str, Any], folder: Path) -> list[Task]:
    """Every task of a plan. folder: where domains that are given as objects are saved for the workers."""
    if isinstance(plan, Mapping):
        return _tasks(plan, Path(), folder)
    with open_regular(plan) as file:
        try:
            data = tomllib.loads(file.read().decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{plan} is not a TOML file: {error}") from error
    return _tasks(data, Path(plan).parent, folder)


def _tasks(plan: Mapping[str, Any], beside: Path, folder: Path) -> list[Task]:
    _check_names(plan, (*GROUPS, *SETTINGS), "a plan")
    for group in GROUPS:
        if not plan.get(group):
            raise InvalidInput(f"the plan has no [[{group}]]; give at least one")
    sources = [source for entry in plan["domain"] for source in _sources(entry, beside, folder)]
    learners = [learner for entry in plan["learner"] for learner in _learners(entry)]
    teachers = [teacher for entry in plan["teacher"] for teacher in _teachers(entry)]
    seeds, limit = plan.get("seeds", [0]), float(plan.get("time_limit", 0.0))
    if limit < 0 or not isinstance(seeds, Sequence) or not all(isinstance(seed, int) for seed in seeds):
        raise InvalidInput("seeds must be a list of integers, and time_limit a positive number of seconds")
    tasks = [
        Task(source, _checked(source, names, preferences, model), model, teacher, seed, limit)
        for (source, names), (preferences, model), teacher, seed in product(sources, learners, teachers, seeds)
    ]
    return list({task.key: task for task in tasks}.values())


def _check_names(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{what} must be a table of names and values, got {given!r}")
    for name in given:
        look_up(dict.fromkeys(known), name, f"entry of {what}")


def _each(value: Any) -> list[Any]:
    """A list means each of its values; anything else means itself."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _combinations(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a group."""
    for values in product(*map(_each, entry.values())):
        yield dict(zip(entry, values, strict=True))


def _sources(entry: Mapping[str, Any], beside: Path, folder: Path) -> Iterator[tuple[Source, tuple[str, ...]]]:
    """Each domain of an entry, and the names of its preferences. A file is read once."""
    _check_names(entry, OF_DOMAIN, "[[domain]]")
    if sum(key in entry for key in ("file", "world", "domain")) != 1:
        raise InvalidInput("each [[domain]] needs either file = ... or world = ..., and only one of them")
    if "world" in entry:
        yield from ((WorldName.parse(str(name)), preference_names("L5")) for name in _each(entry["world"]))
        return
    given = [entry["domain"]] if "domain" in entry else _each(entry["file"])
    for source in given:
        path = _saved(source, folder) if isinstance(source, Domain) else beside / str(source)
        checksum = checksum_of(path)
        domain = source if isinstance(source, Domain) else load(path)
        weights = _weights(domain, entry.get("weights"))
        yield DomainFile(str(entry.get("name", path.stem)), str(path), checksum, weights), domain.preference_names


def _saved(domain: Domain, folder: Path) -> Path:
    """The file of a domain, by its content: the same domain has the same file, whichever run saves it."""
    folder.mkdir(parents=True, exist_ok=True)
    # Another run may save its own domain at the same time.
    draft = folder / f"draft-{uuid4().hex}.npz"
    save(domain, draft)
    return draft.rename(folder / f"domain-{checksum_of(draft)[:16]}.npz")


def _weights(domain: Domain, given: Any) -> tuple[float, ...]:
    """(d_r,), the true weights: a list with one for each reward feature, or by name, zero for the others."""
    names = domain.reward_names
    if given is None:
        raise InvalidInput(f"a domain needs the true weights of its reward features: {', '.join(names)}")
    if isinstance(given, Mapping):
        for name in given:
            look_up(dict.fromkeys(names), name, "reward feature")
        given = [given.get(name, 0.0) for name in names]
    if len(given) != len(names):
        raise InvalidInput(f"{len(names)} reward features need {len(names)} weights, got {len(given)}")
    return tuple(float(weight) for weight in given)


def _learners(entry: Mapping[str, Any]) -> Iterator[tuple[str, LearnerSetting]]:
    """Preferences and model of each combination. An option that is not given has the model's default."""
    _check_names(entry, OF_LEARNER, "[[learner]]")
    for given in _combinations({"model": "soft", "preferences": ALL} | dict(entry)):
        preferences, model = str(given.pop("preferences")), given.pop("model").replace("-", "_")
        options = look_up(LEARNER_MODELS, model, "learner model").options
        defaults = {name: options[name].default for name in options if name in OF_LEARNER}
        allowance = given.pop("allowance", 0.0)
        if isinstance(allowance, Mapping):
            given["allowances"] = tuple(sorted((name, float(value)) for name, value in allowance.items()))
        else:
            given["allowance"] = float(allowance)
        yield preferences, LearnerSetting(model, **(defaults | given))


def _teachers(entry: Mapping[str, Any]) -> Iterator[TeacherSetting]:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise InvalidInput(f"each [[teacher]] needs a name, one or several of {', '.join(TEACHERS)}")
    for given in _combinations(entry):
        name = str(given.pop("name")).replace("-", "_")
        known = look_up(TEACHERS, name, "teacher")
        most = int(given.pop("max_rounds", 100 if known.is_adaptive else 1))
        options = {key: look_up(known.options, key, f"option of {name!r}").read(key, given[key]) for key in given}
        yield TeacherSetting(name, tuple(sorted(options.items())), most)


def _checked(source: Source, known: tuple[str, ...], preferences: str, model: LearnerSetting) -> str:
    """The preferences of a learner, checked against those that the domain has, as are the names of the allowances."""
    if isinstance(source, WorldName):
        chosen = "L5" if preferences == ALL else preferences
        known = preference_names(chosen if chosen in PREFERENCES else named_parts(chosen))
    else:
        chosen = preferences
        for name in () if chosen == ALL else named_parts(chosen):
            look_up(dict.fromkeys(known), name, f"preference of {source.name!r}")
    for name, _ in model.allowances:
        look_up(dict.fromkeys(known), name, f"preference of {source}")
    return chosen
