"""A user's own sweep: domains x learners x teachers x seeds, from a TOML file or the same data in Python.

`docs/experiments.md` has a whole plan. All names are checked before the first task is computed.
"""

import math
import tomllib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from tutelage.data.files import AnyPath, load, make_folder, open_regular, save
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.experiments.players import METRIC_ARGUMENTS, Given, check_call, takes_round
from tutelage.experiments.settings import ALLOWANCE, NUMBERS, SEEDS, LearnerSetting, Task, TeacherSetting
from tutelage.experiments.worlds import ALL, DomainFile, WorldName, checksum_of, named_parts
from tutelage.model.allowances import OTHERS, read_allowance
from tutelage.model.mdp import Domain
from tutelage.model.names import feature
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, Knows, Option, look_up

OF_PLAN = ("domain", "learner", "teacher", "title", "seeds", "time_limit")
NAMED_BY = {"learner": "model", "teacher": "name"}
OF_DOMAIN = ("name", "file", "world", "domain", "weights", "group", "replicate")
# What a learner of a plan has beside its options, with the defaults.
OF_LEARNER = {"model": "soft", "preferences": ALL, "allowance": 0.0, "n_sampled": 0}
COUNT, AMOUNT = Option("a number of things", 0, 0, 10**9), Option("any amount", 0.0, 0, math.inf)
TEACHER_ARGUMENTS = ("learner", "preference_features", *SEEDS)
# The third argument of a registered teacher, by what it knows; the learner for all others.
TOLD = {Knows.NOTHING: "", Knows.EVERY_PREFERENCE: "preference_features"}

Players = Mapping[str, Callable[..., Any]]
# The players of the script.
Own = Mapping[str, Given]
# A domain, the names of its preferences, the group and the replicate of its rows, and its seeds.
Place = tuple[WorldName | DomainFile, Sequence[str], tuple[str, str | int], Sequence[int]]


def read_plan(
    plan: AnyPath | Mapping[str, Any],
    folder: Path,
    *,
    learners: Players | None = None,
    teachers: Players | None = None,
    metrics: Players | None = None,
    seeds: Iterable[int] | None = None,
    version: str = "",
) -> list[Task]:
    """Every task of a plan, with what a script gives. version: in place of its code's identity. folder: for domains."""
    beside, data = (Path(plan).parent, _read(plan)) if isinstance(plan, str | PathLike) else (Path(), plan)
    _check_names(data, OF_PLAN, "a plan")
    own_learners = _own("learners", learners, version)
    own_teachers = _own("teachers", teachers, version)
    measured = tuple(_own("metrics", metrics, version).values())
    for metric in measured:
        check_call(metric, f"metric {metric.name!r}", int(takes_round(metric.load())), {}, METRIC_ARGUMENTS)
    numbers = _seeds(data.get("seeds", [0]) if seeds is None else seeds)
    limit = float(AMOUNT.read("time_limit", data.get("time_limit", 0)))
    taught = [_learner(values, own_learners, version) for values in _combinations(data, "learner", own_learners)]
    who = [_teacher(values, own_teachers, version) for values in _combinations(data, "teacher", own_teachers)]
    tasks: dict[Hashable, Task] = {}
    for entry in _entries(data, "domain", {}):
        for source, known, counted, own_seeds in _places(entry, beside, folder, numbers):
            for ((preferences, model), teacher), seed in product(product(taught, who), own_seeds):
                whom = _checked(source, known, preferences, model)
                task = Task(source, *whom, teacher, seed, limit, measured, *counted)
                tasks.setdefault((task.key, *counted), task)
    return list(tasks.values())


def _read(path: AnyPath) -> dict[str, Any]:
    with open_regular(path) as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} is not a TOML file: {error}") from error


def _own(what: str, players: Any, version: str) -> Own:
    if not isinstance(players, Mapping | None):
        raise InvalidInput(f"{what} must be a mapping from names to classes or functions")
    return {name: Given.of(name, made, version) for name, made in (players or {}).items()}


def _entries(plan: Mapping[str, Any], group: str, own: Own) -> list[dict[str, Any]]:
    """The entries of a group; a player of the script that the plan does not name takes part once."""
    entries, name = _each(plan.get(group, [])), NAMED_BY.get(group, "")
    for entry in entries:
        _check_names(entry, OF_DOMAIN if group == "domain" else entry, f"[[{group}]]")
    named = {each for entry in entries for each in _each(entry.get(name))}
    entries += [{name: key} for key in own if key not in named]
    if not entries:
        raise InvalidInput(f"the plan has no [[{group}]]; give at least one")
    return entries


def _seeds(given: Any) -> list[int]:
    try:
        return [index(seed) for seed in given] or _seeds(None)
    except TypeError as error:
        raise InvalidInput("seeds must be a list of integers") from error


def _check_names(given: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{what} must be a table of names and values, got {given!r}")
    for name in given:
        look_up(dict.fromkeys(known), name, "entry", what)


def _each(value: Any) -> list[Any]:
    """A list means each of its values; anything else means itself."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _combinations(plan: Mapping[str, Any], group: str, own: Own) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a player, with the defaults of what each learner has."""
    for given in _entries(plan, group, own):
        entry = OF_LEARNER | given if group == "learner" else given
        for values in product(*map(_each, entry.values())):
            yield dict(zip(entry, values, strict=True))


def _places(entry: Mapping[str, Any], beside: Path, folder: Path, seeds: Sequence[int]) -> Iterator[Place]:
    """Each domain of an entry. A function, and a name with {seed}, is another domain for each seed."""
    kinds = [kind for kind in ("file", "world", "domain") if kind in entry]
    if len(kinds) != 1:
        raise InvalidInput("each [[domain]] needs either file = ... or world = ..., and only one of them")
    for given in [entry["domain"]] if kinds == ["domain"] else _each(entry[kinds[0]]):
        is_made = callable(given) or (isinstance(given, str) and "{seed}" in given)
        for own in [[seed] for seed in seeds] if is_made else [seeds]:
            written = str(given).replace("{seed}", str(own[0]))
            source: WorldName | DomainFile
            if kinds == ["world"]:
                name = str(given)
                source, known = WorldName.parse(written), tuple[str, ...]()
            else:
                weights = entry.get("weights")
                if kinds == ["file"]:
                    path = beside / written
                    usual = Path(str(given)).stem
                else:
                    domain = given(own[0]) if callable(given) else given
                    # A function may return the true weights beside the domain.
                    if isinstance(domain, tuple):
                        domain, weights = domain
                    path = _saved(domain, folder)
                    usual = getattr(given, "__name__", path.stem)
                name = str(entry.get("name", usual))
                source, known = _source(name, path, weights)
            replicate = entry.get("replicate", own[0] if is_made else str(source))
            yield source, known, (str(entry.get("group", name)), replicate), own


def _saved(domain: Any, folder: Path) -> Path:
    """The file of a domain, by its content: the same domain has the same file, whichever run saves it."""
    if not isinstance(domain, Domain):
        raise InvalidInput(f"domain must be a Domain, or a function of the seed that returns one, got {domain!r}")
    make_folder(folder)
    # Another run may save a domain at the same time.
    draft = folder / f"draft-{uuid4().hex}.npz"
    save(domain, draft)
    return draft.rename(folder / f"domain-{checksum_of(draft)[:16]}.npz")


def _source(name: str, path: Path, given: Any) -> tuple[DomainFile, tuple[str, ...]]:
    """A domain in a file, and its preferences. given: the true weights, in a list, or by name, zero for the others."""
    checksum, domain = checksum_of(path), load(path)
    names = domain.reward_names
    if given is None:
        raise InvalidInput(f"a domain needs the true weights of its reward features: {', '.join(names)}")
    if isinstance(given, Mapping):
        by_name = {feature(names, name, "reward feature", str(path)): weight for name, weight in given.items()}
        given = [by_name.get(name, 0.0) for name in names]
    if len(given) != len(names):
        raise InvalidInput(f"{len(names)} reward features need {len(names)} weights, got {len(given)}")
    weights = tuple(float(weight) for weight in given)
    return DomainFile(name, str(path.resolve()), checksum, weights), domain.preference_names


def _learner(values: dict[str, Any], own: Own, version: str) -> tuple[str, LearnerSetting]:
    """The preferences and the model. An option that is not given has the model's default."""
    model, preferences, allowance, n_sampled = (values.pop(key) for key in OF_LEARNER)
    if isinstance(allowance, Mapping):
        allowance = tuple((key, _amount(key, amount)) for key, amount in allowance.items())
    else:
        allowance = _amount("allowance", allowance)
    name, known, given, options = _player(str(model), own, LEARNER_MODELS, values, version)
    if allowance if given else ALLOWANCE in known.options:
        options[ALLOWANCE] = allowance
    if given is not None:
        check_call(given, f"learner {name!r}", 1, options, SEEDS)
    n = int(COUNT.read("n_sampled", n_sampled))
    return str(preferences), LearnerSetting(name, tuple(options.items()), n, given)


def _amount(name: str, given: Any) -> Any:
    """A count, or the text of a share of the discounted time, such as 5%."""
    is_share = isinstance(given, str) and given.endswith("%") and read_allowance(given)
    return given if is_share else AMOUNT.read(name, given)


def _teacher(values: dict[str, Any], own: Own, version: str) -> TeacherSetting:
    most = int(COUNT.read("max_rounds", values.pop("max_rounds", 0)))
    name, known, given, options = _player(str(values.pop("name", "")), own, TEACHERS, values, version)
    told = TOLD.get(known.knows, "learner") if known and given else ""
    if given is not None:
        check_call(given, f"teacher {name!r}", 3 if told else 2, options, TEACHER_ARGUMENTS)
    # The rounds of an adaptive teacher where the plan does not limit them.
    most = most or (100 if known is None or known.is_adaptive else 1)
    return TeacherSetting(name, tuple(options.items()), most, given, told)


def _player(
    name: str, own: Own, table: Mapping[str, Any], values: Mapping[str, Any], version: str
) -> tuple[str, Any, Given | None, dict[str, Any]]:
    """The name of a player, its entry (none of the script's), its code (none of this package's), and its options."""
    if name in own:
        for key, value in values.items():
            if not isinstance(value, str | int | float):
                raise InvalidInput(f"{key} of {name!r} must be a number or a text; functools.partial takes others")
        return name, None, own[name], dict(sorted(values.items()))
    name = name.replace("-", "_")
    is_teacher = table is TEACHERS
    entry = look_up(table, name, "teacher" if is_teacher else "learner model")
    given = None if isinstance(entry.maker, str) else Given.of(name, entry.maker, version)
    if not given and not is_teacher:
        # A plan may give several models at once what some of them have.
        _check_names(values, (*OF_LEARNER, *NUMBERS), "[[learner]]")
        values = {key: value for key, value in values.items() if key in entry.options}
    options = {}
    if given or not is_teacher:
        options = {key: option.default for key, option in entry.options.items() if key not in (*SEEDS, ALLOWANCE)}
    for key in sorted(values):
        options[key] = look_up(entry.options, key, "option", repr(name)).read(key, values[key])
    return name, entry, given, options


def _checked(
    source: WorldName | DomainFile, known: Sequence[str], preferences: str, model: LearnerSetting
) -> tuple[str, LearnerSetting]:
    """The preferences of a learner and its model, with the names of its domain in both; other names are refused."""

    def found(name: str) -> str:
        return name if name == OTHERS else feature(known, name, "preference", str(source))

    if isinstance(source, WorldName):
        preferences = "L5" if preferences == ALL else preferences
        known = preference_names(preferences if preferences in PREFERENCES else named_parts(preferences))
    elif preferences != ALL:
        names = [found(name) for name in named_parts(preferences)]
        # As it was written where it has the names themselves, so that its rows keep their keys.
        preferences = preferences if names == [*named_parts(preferences)] else ", ".join(names)
    options = dict(model.options)
    if isinstance(options.get(ALLOWANCE), tuple):
        options[ALLOWANCE] = tuple((found(name), amount) for name, amount in options[ALLOWANCE])
    return preferences, replace(model, options=tuple(options.items()))
