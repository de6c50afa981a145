"""A user's own sweep: domains x learners x teachers x seeds, from a TOML file or the same data in Python.

    seeds = [0, 1, 2]                              # of samples, random players and {seed}; optional
    time_limit = 60                                # seconds for one task; optional

    [[domain]]
    file = "roads.npz"                             # written by tutelage.save; or world = "published:{seed}:10"
    weights = {km = -1}                            # the true weights: a list, or by name (0 for the others)
    group = "roads"                                # means are over the replicates of a group; both optional
    replicate = "north"

    [[learner]]
    model = "soft"
    preferences = ["service_km", "service_km, main_km"]
    mismatch_penalty = [1, 5]
    allowance = {service_km = 0.1}                 # no limit for others; or one number for every preference

    [[teacher]]
    name = ["agnostic", "bilevel"]
    max_rounds = 20

A list always means "each of these"; a group with several lists means every combination. All names are checked before
the first task is computed. A script may give learners and teachers of its own, which the plan may name; those that it
does not name take part once, with their defaults.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from tutelage.data.files import AnyPath, load, open_regular, save
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.experiments.players import METRIC_ARGUMENTS, Given, check_call, takes_round
from tutelage.experiments.settings import FIELDS, LearnerSetting, Options, Task, TeacherSetting, seeds_by_name
from tutelage.experiments.worlds import ALL, DomainFile, WorldName, checksum_of, named_parts
from tutelage.model.allowances import OTHERS
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, Knows, LearnerEntry, Option, TeacherEntry, look_up

GROUPS = ("domain", "learner", "teacher")
SETTINGS = ("title", "seeds", "time_limit")
OF_DOMAIN = ("name", "file", "world", "domain", "weights", "group", "replicate")
OF_LEARNER = ("model", "preferences", "allowance", "n_sampled")
# The rounds of an adaptive teacher where the plan does not limit them.
MOST_ROUNDS = 100
COUNT, AMOUNT = Option("a number of things", 0, 0, 10**9), Option("any amount", 0.0, 0, math.inf)
# The third argument of a registered teacher, by what it knows; the learner for all others.
TOLD = {Knows.NOTHING: "", Knows.EVERY_PREFERENCE: "preference_features"}

Source = WorldName | DomainFile
Players = Mapping[str, Callable[..., Any]]
Entry = LearnerEntry | TeacherEntry


@dataclass(frozen=True, slots=True)
class Offer:
    """What a script gives beside its plan: players and metrics by name, seeds, and a version in place of their code."""

    learners: Players = field(default_factory=dict)
    teachers: Players = field(default_factory=dict)
    metrics: Players = field(default_factory=dict)
    seeds: Iterable[int] | None = None
    version: str = ""

    def __post_init__(self) -> None:
        for name in ("learners", "teachers", "metrics"):
            if not isinstance(getattr(self, name), Mapping):
                raise InvalidInput(f"{name} must be a mapping from names to classes or functions")


@dataclass(frozen=True, slots=True)
class Place:
    """A domain of a plan: the names of its preferences, its group and replicate, and the seeds of its tasks."""

    source: Source
    preferences: tuple[str, ...]
    group: str
    replicate: str | int
    seeds: Sequence[int]


def read_plan(plan: AnyPath | Mapping[str, Any], folder: Path, offer: Offer | None = None) -> list[Task]:
    """Every task of a plan. folder: where domains that are given as objects are saved for the workers."""
    if isinstance(plan, Mapping):
        return _tasks(plan, Path(), folder, offer or Offer())
    if not isinstance(plan, str | PathLike):
        raise InvalidInput(f"a plan must be a TOML file or a mapping, got {plan!r}")
    with open_regular(plan) as file:
        try:
            data = tomllib.loads(file.read().decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{plan} is not a TOML file: {error}") from error
    return _tasks(data, Path(plan).parent, folder, offer or Offer())


def _tasks(plan: Mapping[str, Any], beside: Path, folder: Path, offer: Offer) -> list[Task]:
    _check_names(plan, (*GROUPS, *SETTINGS), "a plan")
    entries = {
        "domain": _entries(plan, "domain"),
        "learner": _with_given(_entries(plan, "learner"), "model", offer.learners),
        "teacher": _with_given(_entries(plan, "teacher"), "name", offer.teachers),
    }
    for group in GROUPS:
        if not entries[group]:
            raise InvalidInput(f"the plan has no [[{group}]]; give at least one")
    limit = float(AMOUNT.read("time_limit", plan.get("time_limit", 0)))
    try:
        seeds = [index(seed) for seed in (plan.get("seeds", [0]) if offer.seeds is None else offer.seeds)]
    except TypeError:
        seeds = []
    if not seeds:
        raise InvalidInput("seeds must be a list of integers")
    learners = [learner for entry in entries["learner"] for learner in _learners(entry, offer)]
    teachers = [teacher for entry in entries["teacher"] for teacher in _teachers(entry, offer)]
    places = [place for entry in entries["domain"] for place in _places(entry, beside, folder, seeds)]
    metrics = tuple(_metric(name, made, offer.version) for name, made in offer.metrics.items())
    tasks = [
        Task(
            place.source,
            _checked(place, preferences, model),
            model,
            teacher,
            seed,
            limit,
            metrics,
            place.group,
            place.replicate,
        )
        for place, (preferences, model), teacher in product(places, learners, teachers)
        for seed in place.seeds
    ]
    return list({(task.key, task.group, task.replicate): task for task in tasks}.values())


def _metric(name: str, made: Any, version: str) -> Given:
    given = Given.of(name, made, version)
    check_call(given, f"metric {name!r}", int(takes_round(made)), {}, dict.fromkeys(METRIC_ARGUMENTS))
    return given


def _entries(plan: Mapping[str, Any], group: str) -> list[Any]:
    given = plan.get(group, ())
    if not isinstance(given, Mapping | list | tuple):
        raise InvalidInput(f"[[{group}]] must be a table of names and values, or a list of them, got {given!r}")
    return [given] if isinstance(given, Mapping) else list(given)


def _with_given(entries: Sequence[Any], name: str, given: Players) -> list[Any]:
    """The entries of a group, and one for each given player that none of them names."""
    named = {each for entry in entries if isinstance(entry, Mapping) for each in _each(entry.get(name))}
    return [*entries, *({name: key} for key in given if key not in named)]


def _check_names(given: Mapping[str, Any], known: Iterable[str], what: str) -> None:
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


def _places(entry: Mapping[str, Any], beside: Path, folder: Path, seeds: Sequence[int]) -> Iterator[Place]:
    """Each domain of an entry. A function, and a name with {seed}, is another domain for each seed."""
    _check_names(entry, OF_DOMAIN, "[[domain]]")
    kinds = [kind for kind in ("file", "world", "domain") if kind in entry]
    if len(kinds) != 1:
        raise InvalidInput("each [[domain]] needs either file = ... or world = ..., and only one of them")
    for given in [entry["domain"]] if kinds == ["domain"] else _each(entry[kinds[0]]):
        is_made = callable(given) or (isinstance(given, str) and "{seed}" in given)
        for seed in seeds if is_made else [None]:
            name, source, preferences = _source(kinds[0], given, seed, entry, beside, folder)
            group = str(entry.get("group", name))
            replicate = entry.get("replicate", str(source) if seed is None else seed)
            yield Place(source, preferences, group, replicate, seeds if seed is None else [seed])


def _source(
    kind: str, given: Any, seed: int | None, entry: Mapping[str, Any], beside: Path, folder: Path
) -> tuple[str, Source, tuple[str, ...]]:
    """A domain, the name of its group if the plan has none, and its preferences. A file is read once."""
    written = str(given) if seed is None else str(given).replace("{seed}", str(seed))
    if kind == "world":
        return str(given), WorldName.parse(written), preference_names("L5")
    domain, weights = given if kind == "domain" else None, entry.get("weights")
    if callable(domain):
        domain = domain(seed)
        # A function may return the true weights beside the domain.
        domain, weights = domain if isinstance(domain, tuple) else (domain, weights)
    path = beside / written if kind == "file" else _saved(domain, folder)
    checksum = checksum_of(path)
    loaded = load(path) if domain is None else domain
    default = getattr(given, "__name__", Path(str(given)).stem) if kind == "file" or callable(given) else path.stem
    name = str(entry.get("name", default))
    return name, DomainFile(name, str(path.resolve()), checksum, _weights(loaded, weights)), loaded.preference_names


def _saved(domain: Any, folder: Path) -> Path:
    """The file of a domain, by its content: the same domain has the same file, whichever run saves it."""
    if not isinstance(domain, Domain):
        raise InvalidInput(f"domain must be a Domain, or a function of the seed that returns one, got {domain!r}")
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


def _learners(entry: Mapping[str, Any], offer: Offer) -> Iterator[tuple[str, LearnerSetting]]:
    """Preferences and model of each combination. An option that is not given has the model's default."""
    _check_names(entry, entry, "[[learner]]")
    for values in _combinations({"model": "soft", "preferences": ALL} | dict(entry)):
        preferences, name = str(values.pop("preferences")), str(values.pop("model"))
        setting: dict[str, Any] = {"n_sampled": COUNT.read("n_sampled", values.pop("n_sampled", 0))}
        allowance = values.pop("allowance", 0.0)
        if isinstance(allowance, Mapping):
            named = {key: AMOUNT.read(key, allowance[key]) for key in allowance if key != OTHERS}
            setting["allowances"], allowance = _pairs(named), allowance.get(OTHERS, math.inf)
        setting["allowance"] = AMOUNT.read("allowance", allowance)
        known = None if name in offer.learners else look_up(LEARNER_MODELS, _dashed(name), "learner model")
        if known is not None and isinstance(known.maker, str):
            _check_names(values, (*OF_LEARNER, *FIELDS), "[[learner]]")
            options = {key: known.options[key] for key in FIELDS if key in known.options}
            read = {key: option.read(key, values.get(key, option.default)) for key, option in options.items()}
            yield preferences, LearnerSetting(_dashed(name), **(values | read | setting))
            continue
        given, options = _own(name, known, values, offer.learners, offer.version)
        allowed = {"violation_allowance": None} if allowance else {}
        check_call(given, f"learner {name!r}", 1, options | allowed, seeds_by_name(0))
        yield preferences, LearnerSetting(given.name, options=_pairs(options), given=given, **setting)


def _teachers(entry: Mapping[str, Any], offer: Offer) -> Iterator[TeacherSetting]:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise InvalidInput(
            f"each [[teacher]] needs a name, one or several of {', '.join((*offer.teachers, *TEACHERS))}"
        )
    for values in _combinations(entry):
        name, most = str(values.pop("name")), int(COUNT.read("max_rounds", values.pop("max_rounds", 0)))
        known = None if name in offer.teachers else look_up(TEACHERS, _dashed(name), "teacher")
        most = most or (MOST_ROUNDS if known is None or known.is_adaptive else 1)
        if known is not None and isinstance(known.maker, str):
            yield TeacherSetting(_dashed(name), _pairs(_read(name, known, values)), most)
            continue
        given, options = _own(name, known, values, offer.teachers, offer.version)
        told = TOLD.get(known.knows, "learner") if known else ""
        offered = {"learner": None, "preference_features": None, **seeds_by_name(0)}
        check_call(given, f"teacher {name!r}", 3 if told else 2, options, offered)
        yield TeacherSetting(given.name, _pairs(options), most, given, told)


def _own(
    name: str, entry: Entry | None, values: Mapping[str, Any], own: Players, version: str
) -> tuple[Given, dict[str, Any]]:
    """The code of a player that workers do not know, of the script or registered in this process, and its options."""
    if entry is None:
        return Given.of(name, own[name], version), _plain(name, values)
    defaults = {key: option.default for key, option in entry.options.items() if key not in seeds_by_name(0)}
    return Given.of(_dashed(name), entry.maker, version), defaults | _read(name, entry, values)


def _read(name: str, entry: Entry, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: look_up(entry.options, key, f"option of {name!r}").read(key, values[key]) for key in values}


def _dashed(name: str) -> str:
    return name.replace("-", "_")


def _pairs(options: Mapping[str, Any]) -> Options:
    return tuple(sorted(options.items()))


def _plain(player: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if not isinstance(value, str | int | float):
            raise InvalidInput(f"{name} of {player!r} must be a number or a text; functools.partial takes others")
    return dict(options)


def _checked(place: Place, preferences: str, model: LearnerSetting) -> str:
    """The preferences of a learner, checked against those that the domain has, as are the names of the allowances."""
    known, source = place.preferences, place.source
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
