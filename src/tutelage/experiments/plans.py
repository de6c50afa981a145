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
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from tutelage.data.files import load, open_regular, save
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.experiments.settings import LearnerSetting, Task, TeacherSetting
from tutelage.experiments.worlds import ALL, DomainFile, WorldName, named_parts
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, look_up

GROUPS = ("domain", "learner", "teacher")
SETTINGS = ("title", "seeds", "time_limit")
OF_DOMAIN = ("name", "file", "world", "domain", "weights")
OF_LEARNER = ("preferences", *(field.name for field in fields(LearnerSetting) if field.name != "allowances"))


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
    learners = [found for entry in plan["learner"] for found in _learners(entry)]
    teachers = [found for entry in plan["teacher"] for found in _teachers(entry)]
    seeds, limit = plan.get("seeds", [0]), float(plan.get("time_limit", 0.0))
    if limit < 0 or not isinstance(seeds, Sequence) or not all(isinstance(seed, int) for seed in seeds):
        raise InvalidInput("seeds must be a list of integers, and time_limit a positive number of seconds")
    tasks = [
        Task(source, _fitting(source, preferences, model), model, teacher, seed, limit)
        for source, (preferences, model), teacher, seed in product(sources, learners, teachers, seeds)
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


def _sources(entry: Mapping[str, Any], beside: Path, folder: Path) -> Iterator[WorldName | DomainFile]:
    _check_names(entry, OF_DOMAIN, "[[domain]]")
    if sum(key in entry for key in ("file", "world", "domain")) != 1:
        raise InvalidInput("each [[domain]] needs either file = ... or world = ..., and only one of them")
    if "world" in entry:
        yield from (WorldName.parse(str(name)) for name in _each(entry["world"]))
        return
    given = [entry["domain"]] if "domain" in entry else _each(entry["file"])
    for one in given:
        path = _saved(one, folder) if isinstance(one, Domain) else beside / str(one)
        with open_regular(path) as file:
            checksum = sha256(file.read()).hexdigest()
        domain = one if isinstance(one, Domain) else load(path)
        yield DomainFile(str(entry.get("name", path.stem)), str(path), checksum, _weights(domain, entry.get("weights")))


def _saved(domain: Domain, folder: Path) -> Path:
    """The file of a domain, by its content: the same domain has the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "domain.npz"
    save(domain, draft)
    return draft.rename(folder / f"domain-{sha256(draft.read_bytes()).hexdigest()[:16]}.npz")


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
    for one in _combinations({"model": "soft", "preferences": ALL} | dict(entry)):
        preferences, model = str(one.pop("preferences")), one.pop("model").replace("-", "_")
        options = look_up(LEARNER_MODELS, model, "learner model").options
        defaults = {name: options[name].default for name in options if name in OF_LEARNER}
        allowance = one.pop("allowance", 0.0)
        if isinstance(allowance, Mapping):
            one["allowances"] = tuple(sorted((name, float(value)) for name, value in allowance.items()))
        else:
            one["allowance"] = float(allowance)
        yield preferences, LearnerSetting(model, **(defaults | one))


def _teachers(entry: Mapping[str, Any]) -> Iterator[TeacherSetting]:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise InvalidInput(f"each [[teacher]] needs a name, one or several of {', '.join(TEACHERS)}")
    for one in _combinations(entry):
        name = str(one.pop("name")).replace("-", "_")
        known = look_up(TEACHERS, name, "teacher")
        most = int(one.pop("max_rounds", 100 if known.is_adaptive else 1))
        options = {key: look_up(known.options, key, f"option of {name!r}").read(key, one[key]) for key in one}
        yield TeacherSetting(name, tuple(sorted(options.items())), most)


def _fitting(source: WorldName | DomainFile, preferences: str, model: LearnerSetting) -> str:
    """The preferences, checked against the domain, as are the names of the allowances."""
    if isinstance(source, WorldName):
        chosen = "L5" if preferences == ALL else preferences
        known = preference_names(chosen if chosen in PREFERENCES else named_parts(chosen))
    else:
        chosen, known = preferences, load(source.path).preference_names
        for name in () if chosen == ALL else named_parts(chosen):
            look_up(dict.fromkeys(known), name, f"preference of {source.name!r}")
    for name, _ in model.allowances:
        look_up(dict.fromkeys(known), name, f"preference of {source}")
    return chosen
