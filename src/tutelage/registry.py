"""Every teacher and every learner model by name: the one table that all front ends read.

The players of this package are in `players.toml`; solvers are imported only when a player is made. Anybody else's
player is added by `register_learner` or `register_teacher`, or is an entry point of an installed package, of the group
`tutelage.learners` or `tutelage.teachers`.
"""

import inspect
import re
import tomllib
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from importlib.metadata import entry_points
from importlib.resources import files
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from tutelage.model.names import unknown
from tutelage.outcomes import InvalidInput

if TYPE_CHECKING:
    from tutelage.arrays import Matrix, Vector
    from tutelage.model.mdp import Domain
    from tutelage.roles import Learner, Teacher

ValueT = TypeVar("ValueT")
MakerT = TypeVar("MakerT", bound=Callable[..., Any])
Maker = str | Callable[..., Any]


class Knows(Enum):
    """What a teacher is told about the learner, as a sentence for a person."""

    NOTHING = "knows nothing about the learner"
    EVERY_PREFERENCE = "knows every preference that a learner might have"
    PREFERENCES = "knows the learner's preferences"
    LEARNER = "knows the learner's preferences and penalties"


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter of a player: its default and the range that front ends accept. The type is that of the default."""

    about: str
    default: float | int | str
    low: float = -1e300
    high: float = 1e300
    choices: tuple[str, ...] = ()

    def read(self, name: str, value: float | int | str) -> float | int | str:
        """The value in the option's own type; refused outside the range or the choices."""
        try:
            number = type(self.default)(value)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name} must be a {type(self.default).__name__}, got {value!r}") from error
        if self.choices and number not in self.choices:
            raise InvalidInput(f"{name} must be one of {', '.join(self.choices)}, got {value!r}")
        if not isinstance(number, str) and not self.low <= number <= self.high:
            raise InvalidInput(f"{name} must lie between {self.low:g} and {self.high:g}, got {value!r}")
        return number


@dataclass(frozen=True, slots=True)
class Entry:
    """A teacher or a learner model; `players.toml` tells what the fields mean."""

    label: str
    about: str
    maker: Maker
    options: Mapping[str, Option] = field(default_factory=dict)
    knows: Knows = Knows.NOTHING
    is_adaptive: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def made_by(self) -> Callable[..., Any]:
        return resolve_name(self.maker) if isinstance(self.maker, str) else self.maker

    def checked(self, player: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options, each in its own type. Shares, and values by preference, are checked by the player itself."""
        read = dict(given)
        for name, value in given.items():
            option = look_up(self.options, name, "option", repr(player))
            if isinstance(value, str) or not (is_dataclass(value) or hasattr(value, "__len__")):
                read[name] = option.read(name, value)
        return read


class Players(UserDict[str, Entry]):
    """Entries by name; an installed package's are loaded at need. n_given: arguments of a maker before its options."""

    def __init__(self, group: str, own: Mapping[str, Entry], n_given: int) -> None:
        super().__init__(own)
        self.own, self.group, self.n_given, self.is_complete = frozenset(own), group, n_given, False

    def _all(self) -> dict[str, Entry]:
        if not self.is_complete:
            self.is_complete = True
            for point in entry_points(group=self.group):
                try:
                    player = point.load()  # a module with decorators registers its players itself
                    self.data.setdefault(point.name, self.entry(point.name, player))
                # A package of somebody else may fail in any way; all other players still work.
                except Exception as error:
                    place = f"the entry point {point.name!r} of {self.group} ({point.value})"
                    warnings.warn(f"{place} is left out: {type(error).__name__}: {error}", stacklevel=2)
        return self.data

    __contains__ = Mapping.__contains__  # asks __getitem__, which may load

    def __missing__(self, name: str) -> Entry:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def entry(
        self,
        name: str,
        maker: Any,
        about: str = "",
        label: str = "",
        options: Mapping[str, Any] | None = None,
        knows: str = "nothing",
        is_adaptive: bool = True,
    ) -> Entry:
        """The entry of a class or a function. Options that are not given are its parameters with a number or a text."""
        if not callable(maker):
            raise InvalidInput(f"the player {name!r} must be a class or a function, got {maker!r}")
        known = look_up({each.name.lower(): each for each in Knows}, knows, "value of knows")
        if options is None:
            n_given = self.n_given + (known is not Knows.NOTHING)
            later = list(inspect.signature(maker).parameters.values())[n_given:]
            options = {each.name: each.default for each in later if type(each.default) in (int, float, str)}
        made = {key: Option(key.replace("_", " "), one) for key, one in options.items() if not isinstance(one, Option)}
        sentence = (inspect.getdoc(maker) or name).partition("\n")[0].rstrip(".")
        return Entry(label or name, about or sentence, maker, {**options, **made}, known, is_adaptive)

    def register(self, name: str, **told: Any) -> Callable[[MakerT], MakerT]:
        """A decorator that adds a player; the names of this package are taken, and a name can be typed."""

        def added(maker: MakerT) -> MakerT:
            if name in self.own or not re.fullmatch(r"[a-z]\w*", name, re.ASCII):
                words = "take a new word of small letters, digits and underscores"
                raise InvalidInput(f"{name!r} cannot name a player: {words}")
            self[name] = self.entry(name, maker, **told)
            return maker

        return added


def _entries(given: Mapping[str, dict[str, Any]], shared: Mapping[str, dict[str, Any]]) -> dict[str, Entry]:
    """The entries of `players.toml`. shared: its options, which those of a player may name, or be like."""
    entries = {}
    for name, told in given.items():
        options = {}
        for key, part in told.pop("options", {}).items():
            own = {"like": part} if isinstance(part, str) else part
            read = shared.get(own.pop("like", ""), {}) | own
            options[key] = Option(**read | {"choices": tuple(read.get("choices", ()))})
        entries[name] = Entry(**told | {"options": options, "knows": Knows[told.get("knows", "nothing").upper()]})
    return entries


_PLAYERS = tomllib.loads(files("tutelage").joinpath("players.toml").read_text(encoding="utf-8"))
LEARNER_MODELS = Players("tutelage.learners", _entries(_PLAYERS["learners"], _PLAYERS["options"]), 1)
TEACHERS = Players("tutelage.teachers", _entries(_PLAYERS["teachers"], _PLAYERS["options"]), 2)


def register_learner(
    name: str, *, about: str = "", label: str = "", options: Mapping[str, Option | float | int | str] | None = None
) -> Callable[[MakerT], MakerT]:
    """A decorator that adds a learner to the command line, to sweeps and to the page.

    It decorates a class or a function that is called with the domain and the options by keyword. about: one sentence;
    otherwise the first line of the docstring. options: a default or an `Option` each; otherwise the parameters that
    have a number or a text as default. A name that was registered before is replaced, those of this package never.
    """
    return LEARNER_MODELS.register(name, about=about, label=label, options=options)


def register_teacher(
    name: str,
    *,
    about: str = "",
    label: str = "",
    options: Mapping[str, Option | float | int | str] | None = None,
    knows: str = "nothing",
    is_adaptive: bool = True,
) -> Callable[[MakerT], MakerT]:
    """As `register_learner`, for a teacher: called with the domain, the true weights and what it knows.

    knows: "nothing"; "learner" or "preferences", then the learner is the third argument; or "every_preference", a
    matrix of features. is_adaptive: whether it has more than one lesson.
    """
    return TEACHERS.register(name, about=about, label=label, options=options, knows=knows, is_adaptive=is_adaptive)


def look_up(table: Mapping[str, ValueT], name: str, what: str, owner: str = "") -> ValueT:
    """The entry of a name."""
    if name not in table:
        raise unknown(name, [*table], what, owner)
    return table[name]


def make_teacher(
    name: str,
    domain: "Domain",
    true_weights: "Vector",
    learner: "Learner",
    *,
    every_preference: "Matrix | None" = None,
    rng: int | None = None,
    **options: Any,
) -> "Teacher":
    """The teacher of a name. every_preference: (S, k) or (C, k), for a conservative teacher. rng: for a random one."""
    entry = look_up(TEACHERS, name, "teacher")
    told = {Knows.NOTHING: (), Knows.EVERY_PREFERENCE: (every_preference,)}.get(entry.knows, (learner,))
    given = entry.checked(name, options)
    if rng is not None and "rng" in inspect.signature(entry.made_by).parameters:
        given["rng"] = rng
    made: Teacher = entry.made_by(domain, true_weights, *told, **entry.fixed, **given)
    return made


def make_learner(model: str, domain: "Domain", **options: Any) -> "Learner":
    """The learner of a model. An option that is not given has the model's default."""
    entry = look_up(LEARNER_MODELS, model, "learner model")
    defaults = {name: option.default for name, option in entry.options.items()}
    made: Learner = entry.made_by(domain, **(defaults | entry.checked(model, options)))
    return made
