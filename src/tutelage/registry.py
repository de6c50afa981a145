"""Every teacher and every learner model by name: the one table that all front ends read.

The command line, the playground, the experiments and the reports read it. To add a teacher to this package, write one
file in `teachers/` and one entry in `TEACHERS`; solvers are imported only when a player is made. Anybody else's player
is added by `register_learner` or `register_teacher`, or is an entry point of an installed package, of the group
`tutelage.learners` or `tutelage.teachers`.
"""

import inspect
import re
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from difflib import get_close_matches
from enum import Enum
from functools import partial
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from tutelage.outcomes import InvalidInput

if TYPE_CHECKING:
    from tutelage.arrays import Matrix, Vector
    from tutelage.model.mdp import Domain
    from tutelage.roles import Learner, Teacher

ValueT = TypeVar("ValueT")
MakerT = TypeVar("MakerT", bound=Callable[..., Any])
# What makes a player: a class or a function, or "module:name" of one.
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
    """A teacher or a learner model. label: as in the paper's tables. about: one sentence. options: what a user may set.

    maker: called with the domain and the options; of a teacher with the domain, the true weights, and what it knows
    about the learner. fixed: arguments of this variant.
    """

    label: str
    about: str
    maker: Maker
    options: Mapping[str, Option] = field(default_factory=dict)
    knows: Knows = Knows.NOTHING
    is_adaptive: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def made_by(self) -> Callable[..., Any]:
        """The maker itself, imported now if the entry has only its name."""
        maker: Callable[..., Any] = resolve_name(self.maker) if isinstance(self.maker, str) else self.maker
        return maker

    def checked(self, player: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options, each in its own type."""
        known = {name: look_up(self.options, name, f"option of {player!r}") for name in given}
        return {name: _value(known[name], name, value) for name, value in given.items()}


class Players(UserDict[str, Entry]):
    """Entries by name. Those of installed packages are loaded when a name is unknown, or when all are listed.

    group: of their entry points. n_given: how many arguments a maker has before its options.
    """

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

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self._all()

    def __getitem__(self, name: str) -> Entry:
        return self.data[name] if name in self.data else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

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
        read = {
            key: given if isinstance(given, Option) else Option(key.replace("_", " "), given)
            for key, given in options.items()
        }
        sentence = (inspect.getdoc(maker) or name).partition("\n")[0].rstrip(".")
        return Entry(label or name, about or sentence, maker, read, known, is_adaptive)

    def register(self, name: str, **told: Any) -> Callable[[MakerT], MakerT]:
        """A decorator that adds a player; the names of this package are taken, and a name can be typed."""

        def added(maker: MakerT) -> MakerT:
            if name in self.own or not re.fullmatch(r"[a-z]\w*", name, re.ASCII):
                words = "take a new word of small letters, digits and underscores"
                raise InvalidInput(f"{name!r} cannot name a player: {words}")
            self[name] = self.entry(name, maker, **told)
            return maker

        return added


_CELLS = Option("the most cells to search for the certified bound", 64, 0, 100_000)
_ALLOWANCE = Option("delta_c: the discounted count allowed of each preference feature", 0.0, 0, 1e9)
_MISMATCH = Option("C_r: the penalty for missing the lesson", 5.0, 1e-6, 1e9)
_VIOLATION = Option("C_c: the penalty for violating a preference", 10.0, 1e-6, 1e9)
_STEPS = Option("the step limit of the published schedule", 300, 1, 10**6)
_SOFT = {"mismatch_penalty": _MISMATCH, "violation_penalty": _VIOLATION, "violation_allowance": _ALLOWANCE}
_FOOTNOTE = {"mismatch_penalty": replace(_MISMATCH, default=20.0), "violation_allowance": _ALLOWANCE}
_CUTS = {
    "cut_tightness": Option("eta; 1 cuts at the response, near 0 at the lesson", 0.9, 1e-3, 1),
    "stop_tolerance": Option(
        "end when the response is this close; default: 0.001 of the reward's range", 0.01, 1e-9, 1e9
    ),
}
_PUSHES = {
    "shortest_push": Option("alpha_min, for features and true weights up to 1", 0.1, 1e-9, 1e9),
    "longest_push": Option("alpha_max, for features and true weights up to 1", 5.0, 1e-9, 1e9),
    "stop_tolerance": Option(
        "end when no lesson gains this much; default: 0.0001 of the reward's range", 1e-3, 1e-12, 1e9
    ),
}
_INFERENCE = {
    "observed": Option("what is seen of a response: mu or mu_r", "expectation", choices=("expectation", "reward")),
    "n_trajectories": Option("trajectories seen of each response; 0 for exact ones", 0, 0, 10**9),
    "stop_tolerance": Option("end when no lesson promises this share of the reward's range", 1e-4, 1e-9, 1),
    "max_cells": replace(_CELLS, default=24),
}
_STARTS = {"max_cells": _CELLS, "n_random": Option("random starts beside the paper's", 4, 0, 1000)}
_METHOD = Option("the largest push, exactly or as in Algorithm 2", "exact", choices=("exact", "bisection"))
_EXACT_PUSHES = _PUSHES | {"method": _METHOD}
_BILEVEL, _VOLUME, _LINE = (f"tutelage:{name}Teacher" for name in ("Bilevel", "VolumeSearch", "LineSearch"))
_adaptive = partial(Entry, is_adaptive=True)

_TEACHERS = {
    "agnostic": Entry("Agnostic", "shows an optimal policy and ignores all preferences", "tutelage:AgnosticTeacher"),
    "conservative": Entry(
        "Conservative",
        "assumes that the learner has every preference there is",
        "tutelage:ConservativeTeacher",
        {"allowance": _ALLOWANCE},
        Knows.EVERY_PREFERENCE,
    ),
    "aware_cmdp": Entry(
        "Aware-CMDP",
        "shows the best policy that keeps the preferences",
        "tutelage:AwareCmdpTeacher",
        knows=Knows.PREFERENCES,
    ),
    "bilevel": Entry(
        "Aware-BiL", "plans the lesson with a model of the learner's inference", _BILEVEL, _STARTS, Knows.LEARNER
    ),
    "bilevel_frank_wolfe": Entry(
        "Aware-BiL, Frank-Wolfe",
        "plans as Aware-BiL does, by Appendix G as printed",
        _BILEVEL,
        {"max_cells": _CELLS},
        Knows.LEARNER,
        fixed={"method": "frank-wolfe"},
    ),
    "volume_search": _adaptive(
        "AdAware-Vol", "identifies what the learner accepts by cutting off what it does not do", _VOLUME, _CUTS
    ),
    "volume_search_printed": _adaptive(
        "AdAware-Vol, as printed",
        "cuts as AdAware-Vol does, by Appendix C.1 as printed",
        _VOLUME,
        _CUTS,
        fixed={"method": "printed"},
    ),
    "adaptive_bilevel": _adaptive(
        "AdAware-BiL",
        "infers an unknown soft learner from its responses, and plans the lesson for it",
        "tutelage:AdaptiveBilevelTeacher",
        _INFERENCE,
    ),
    "line_search": _adaptive(
        "AdAware-Lin", "pushes the learner from its response towards the true reward", _LINE, _EXACT_PUSHES
    ),
    "line_search_printed": _adaptive(
        "AdAware-Lin, as printed",
        "pushes as AdAware-Lin does, by Algorithm 2 as printed",
        _LINE,
        _PUSHES,
        fixed={"method": "bisection"},
    ),
}

_LESSONS = {
    "aware": Option("1: demonstrations keep the learner's preferences", 0, 0, 1),
    "n_demonstrations": Option("demonstrations of a lesson", 1, 1, 10**6),
    "max_starts": Option("the most starts to choose from", 50, 1, 10**6),
}
# The teachers of the literature, which choose among demonstrations.
_TEACHERS |= {
    name: Entry(label, about, f"tutelage:{maker}Teacher", _LESSONS, knows, is_adaptive=True)
    for name, label, about, maker, knows in (
        ("random", "Random", "shows demonstrations from random starts", "Random", Knows.PREFERENCES),
        ("set_cover", "SCOT", "shows what determines the reward, by set cover", "SetCover", Knows.PREFERENCES),
        ("omniscient", "OMNI", "tries each lesson on the learner, and shows the best", "Omniscient", Knows.LEARNER),
        ("black_box", "BBOX", "shows where the learner's reward is farthest off", "BlackBox", Knows.PREFERENCES),
        ("curriculum", "CUR", "shows what an expert does and the learner does not", "Curriculum", Knows.PREFERENCES),
    )
}

_LEARNER_MODELS = {
    "soft": Entry(
        "Soft preferences", "weighs its preferences against the lesson (Sec. 3.2)", "tutelage:SoftLearner", _SOFT
    ),
    "hard": Entry(
        "Hard preferences",
        "keeps its preferences and projects the lesson onto what they allow (Sec. 3.1)",
        "tutelage:HardLearner",
        {"violation_allowance": _ALLOWANCE},
    ),
    "footnote": Entry(
        "Footnote 1's learner",
        "keeps its preferences and pays a squared penalty for missing the lesson (footnote 1)",
        "tutelage:ApproximateHardLearner",
        _FOOTNOTE,
    ),
    "published": Entry(
        "Soft preferences, published schedule",
        "the soft learner by the published step schedule (App. E)",
        "tutelage:PublishedLearner",
        _SOFT | {"max_steps": _STEPS},
    ),
    "footnote_published": Entry(
        "Footnote 1's learner, published schedule",
        "footnote 1's learner by the published step schedule",
        "tutelage:PublishedHardLearner",
        _FOOTNOTE | {"max_steps": replace(_STEPS, default=1000)},
    ),
    "standard": Entry(
        "No preferences", "matches the lesson exactly: maximum-causal-entropy IRL (App. D)", "tutelage:StandardLearner"
    ),
    "sequential": Entry(
        "Sequential",
        "takes gradient steps for each lesson, and goes on from there",
        "tutelage:SequentialLearner",
        {
            "rate": Option("size of a step", 0.1, 1e-9, 1e9),
            "n_steps": Option("steps for each lesson", 1, 1, 10**6),
            "violation_penalty": replace(_VIOLATION, default=0.0, low=0),
            "violation_allowance": _ALLOWANCE,
        },
    ),
    "cloning": Entry(
        "Cloning",
        "does what it has seen done in each state",
        "tutelage:CloningLearner",
        {"prior": Option("how often each choice counts as seen before", 0.1, 0, 1e9)},
    ),
    "bayesian": Entry(
        "Bayesian",
        "weighs random rewards by what was shown, and acts by their mean",
        "tutelage:BayesianLearner",
        {
            "candidates": Option("how many rewards it holds possible", 200, 1, 10**5),
            "rationality": Option("how strictly demonstrations follow a reward", 1.0, 1e-9, 1e9),
        },
    ),
    "apprentice": Entry(
        "Apprentice",
        "mixes policies until they match the lesson (Abbeel and Ng)",
        "tutelage:ApprenticeLearner",
        {"max_steps": replace(_STEPS, about="policies mixed at most", default=200)},
    ),
}

LEARNER_MODELS = Players("tutelage.learners", _LEARNER_MODELS, 1)
TEACHERS = Players("tutelage.teachers", _TEACHERS, 2)


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
    told = {"about": about, "label": label, "options": options, "knows": knows, "is_adaptive": is_adaptive}
    return TEACHERS.register(name, **told)


def look_up(table: Mapping[str, ValueT], name: str, what: str) -> ValueT:
    """The entry of a name. The error for an unknown name lists the nearest known ones."""
    if name in table:
        return table[name]
    near = get_close_matches(name, table) or list(table)
    raise InvalidInput(f"there is no {what} {name!r}; did you mean {' or '.join(near)}?")


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
    given, maker = entry.checked(name, options), entry.made_by
    drawn = {"rng": rng} if rng is not None and "rng" in inspect.signature(maker).parameters else {}
    made: Teacher = maker(domain, true_weights, *told, **entry.fixed, **drawn, **given)
    return made


def make_learner(model: str, domain: "Domain", **options: Any) -> "Learner":
    """The learner of a model. An option that is not given has the model's default."""
    entry = look_up(LEARNER_MODELS, model, "learner model")
    defaults = {name: option.default for name, option in entry.options.items()}
    made: Learner = entry.made_by(domain, **(defaults | entry.checked(model, options)))
    return made


def _value(option: Option, name: str, value: Any) -> Any:
    """One value, a sequence with one value per preference, or a mapping from the names of preferences."""
    if isinstance(value, Mapping):
        return {key: _value(option, f"{name} of {key!r}", one) for key, one in value.items()}
    if is_dataclass(value):
        # A share or a count, which was checked when it was made.
        return value
    several = hasattr(value, "__len__") and not isinstance(value, str)
    return [_value(option, name, one) for one in value] if several else option.read(name, value)
