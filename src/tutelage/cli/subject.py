"""The options that several commands have, and the domain, the weights and the learner that they name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import tutelage as tl
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, look_up, make_learner, make_teacher

ALLOWANCE_HELP = (
    "delta_c, the discounted count allowed of each preference feature: 2.5, a share of the discounted time such as 5%, "
    "one for each in order, such as 0.1,5%, or by name, such as service_km=0.1,main_km=5%; others have no limit then, "
    "unless others=0. On every journey instead of on average: main_km=0.5/journey. What a recording has of each, with "
    "its error: recorded. Default: 0."
)
WEIGHTS_HELP = "The true weights: 1,0.9,0.2, or by name, km=-1,at_goal=0; zero for others. A world has its own."
LEARNER_HELP = "L1 .. L5: the learner has the first 0, 2, 4, 5 or 6 preference features. Default: all of them."
PREFERENCES_HELP = "Instead of L1 .. L5: the names of the preference features that the learner has, such as a,b."
MODEL_HELP = "The learner model. Default: hard in a domain with goals, soft in others."
WORLD_HELP = "An object world: published:0:10 (generator:seed:size), or a JSON file."
DOMAIN_HELP = "Instead of a world: a file that tutelage.save or tutelage import wrote."
LEARNER_OPTION_HELP = "An option of the learner model, such as max_steps=100; may be repeated."
PER_JOURNEY, RECORDED = "/journey", "recorded"

# The options of several commands.
FullOption = Annotated[bool, typer.Option("--full", help="Print every step of the demonstrations, not only turns.")]
ModelOption = Annotated[str, typer.Option(help=MODEL_HELP)]
WorldOption = Annotated[str, typer.Option(help=WORLD_HELP)]
DomainOption = Annotated[Path | None, typer.Option(help=DOMAIN_HELP)]
LearnerOption = Annotated[str, typer.Option(help=LEARNER_HELP)]
PreferencesOption = Annotated[str, typer.Option(help=PREFERENCES_HELP)]
WeightsOption = Annotated[str, typer.Option(help=WEIGHTS_HELP)]
MismatchOption = Annotated[float | None, typer.Option(help="C_r. Default: 5 for soft, 20 for footnote.")]
ViolationOption = Annotated[float | None, typer.Option(help="C_c of the soft learner. Default: 10.")]
AllowanceOption = Annotated[str, typer.Option(help=ALLOWANCE_HELP)]
LearnerOptions = Annotated[list[str] | None, typer.Option(help=LEARNER_OPTION_HELP)]


@dataclass(frozen=True)
class Subject:
    """What a command is about.

    world: the object world, if it is one. whole: the domain with every preference feature; known: with those of the
    learner. true_weights: (d_r,), or None where they were not given. journey_limits: by name, the limit that every
    journey keeps, and the steps in which it is counted.
    """

    world: "tl.ObjectWorld | None"
    whole: "tl.Domain"
    known: "tl.Domain"
    true_weights: Any
    journey_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def usual(self) -> tuple[str, str]:
        """The learner model and the teacher by default: those that arrive where there are goals."""
        return ("hard", "aware_cmdp") if len(self.whole.mdp.goals) else ("soft", "bilevel")

    @property
    def journey_sentences(self) -> list[str]:
        kept = "Every journey keeps {} within {:g}, counted in steps of {:.4g}, each step rounded up."
        return [kept.format(name, *limit) for name, limit in self.journey_limits.items()]

    def teacher(self, name: str, learner: "tl.Learner", options: Mapping[str, str]) -> "tl.Teacher":
        """The teacher of a name, for this learner; refused where the true weights were not given."""
        if self.true_weights is None:
            names = ",".join(f"{name.replace(' ', '_')}=1" for name in self.whole.reward_names[:2])
            if any(sign in name for name in self.whole.reward_names for sign in ",="):
                # Such names cannot be written there; numbers in order can.
                names = ",".join("1" * self.whole.n_reward)
            raise InvalidInput(f"--domain needs the true weights of its reward features: --weights {names}")
        given: dict[str, Any] = {"every_preference": self.whole.preference_features, **options}
        return make_teacher(name.replace("-", "_"), self.known, self.true_weights, learner, **given)

    def learner(self, model: str, options: Sequence[str] | None, **given: Any) -> "tl.Learner":
        """The learner of a model. options: name=value, which the model must have. given: None, or used if it has it."""
        name = model.replace("-", "_")
        known = look_up(LEARNER_MODELS, name, "learner model").options
        used = {key: value for key, value in given.items() if value is not None and key in known}
        return make_learner(name, self.known, **(used | read_options(options or (), "--learner-option")))


def read_subject(world: str, path: Path | None, weights: str, learner: str, preferences: str) -> Subject:
    """The subject of the options --world or --domain, --weights, --learner and --preferences."""
    from tutelage.data.files import open_regular
    from tutelage.environments.placement import PREFERENCES
    from tutelage.experiments.worlds import WorldName, named_parts, restricted

    if bool(world) == (path is not None):
        raise InvalidInput("give either --world or --domain")
    made = None
    if path is None and world.endswith(".json"):
        with open_regular(world) as file:
            made = tl.ObjectWorld.from_json(file.read())
    elif path is None:
        made = WorldName.parse(world).make()
    whole = made.domain("L5") if made else tl.load(path or "")
    usual = made.true_weights if made else None
    given = read_weights(weights, whole.reward_names) if weights else usual
    if learner and preferences:
        raise InvalidInput("give either --learner or --preferences")
    known = whole
    if preferences:
        names = [feature(whole.preference_names, name) for name in named_parts(preferences)]
        known = restricted(whole, list(dict.fromkeys(names)))
    elif learner:
        if learner not in PREFERENCES:
            own = "--model names a learner model, and --preferences the features that a learner of your own has"
            raise InvalidInput(f"there is no learner {learner!r}; the learners are {', '.join(PREFERENCES)}; {own}")
        count = PREFERENCES[learner]
        if count > whole.n_preference:
            raise InvalidInput(
                f"{learner} has {count} preference features, but the domain has only {whole.n_preference}"
            )
        known = restricted(whole, whole.preference_names[:count])
    return Subject(made, whole, known, given)


def read_weights(text: str, names: Sequence[str]) -> Any:
    """(d_r,), the weights of the features of these names, from numbers in order or from name=number."""
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    try:
        numbers = [float(value) for _, _, value in pairs]
    except ValueError as error:
        raise InvalidInput(f"weights must be numbers with commas between them, or name=number, got {text!r}") from error
    if "=" not in text:
        return np.array(numbers)
    given = {feature(names, name.strip()): number for (name, _, _), number in zip(pairs, numbers, strict=True)}
    if len(given) < len(pairs):
        raise InvalidInput(f"weights must give each name once, got {text!r}")
    return np.array([given.get(name, 0.0) for name in names])


def feature(names: Sequence[str], given: str) -> str:
    """The feature of this name; a space may be written as an underscore."""
    from tutelage.model.names import suggestion

    table = {name.replace(" ", "_"): name for name in names} | {name: name for name in names}
    if given not in table:
        raise InvalidInput(f"there is no feature {given!r}; {suggestion(given, list(table))}")
    return table[given]


def with_limits(about: Subject, text: str, log: "tl.Demonstrations | None" = None) -> tuple[Subject, Any]:
    """The subject with limits on every journey in its states, and the allowance that is left, None for the default.

    log: the recording whose use of each preference is the allowance `RECORDED`.
    """
    if text == RECORDED:
        if log is None:
            raise InvalidInput("--allowance recorded needs a recording; give it as --recordings trips.csv")
        return about, tl.allowance_from(log, about.known)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    journeys = [part.removesuffix(PER_JOURNEY) for part in parts if part.endswith(PER_JOURNEY)]
    others = [part for part in parts if not part.endswith(PER_JOURNEY)]
    if not journeys:
        return about, _named_allowance(about.known.preference_names, text) if parts else None
    if log is not None:
        raise InvalidInput("a recording has no rests of budgets in its states; use teach for limits on every journey")
    from tutelage.environments.budget import usual_resolutions
    from tutelage.experiments.worlds import restricted

    limits = _named_allowance(about.whole.names, ",".join(journeys))
    if not isinstance(limits, dict) or not all(isinstance(limit, float) for limit in limits.values()):
        raise InvalidInput(f"a limit on every journey is name=number{PER_JOURNEY}, such as km=0.5{PER_JOURNEY}")
    left = _named_allowance(about.known.preference_names, ",".join(others)) if others else {}
    steps = usual_resolutions(about.whole, limits)
    whole = tl.with_budget(about.whole, limits, resolution=steps)
    told = {name: (limit, steps[name]) for name, limit in limits.items()}
    return Subject(None, whole, restricted(whole, about.known.preference_names), about.true_weights, told), left


def _named_allowance(names: Sequence[str], text: str) -> Any:
    from tutelage.model.allowances import OTHERS, read_allowance

    amount = read_allowance(text)
    if isinstance(amount, dict):
        return {name if name == OTHERS else feature(names, name): part for name, part in amount.items()}
    return amount


def read_options(texts: Sequence[str], name_of_option: str = "--option") -> dict[str, str]:
    """name=value pairs."""
    pairs = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if not all(name and value for name, value in pairs.items()):
        raise InvalidInput(f"{name_of_option} must be name=value, got {', '.join(texts)}")
    return pairs


def by_name(names: Sequence[str], values: Any) -> dict[str, float] | None:
    """An array by the names of its entries, for JSON."""
    return None if values is None else dict(zip(names, values.tolist(), strict=True))


def shown(about: Subject, learner: "tl.Learner", transcript: "tl.Transcript", n: int) -> "tl.Shown | None":
    """At most n demonstrations of the last lesson; None for no demonstration."""
    told: dict[str, Any] = {"domain": about.known, "true_weights": transcript.true_weights, "learner": learner}
    return transcript.final.lesson.show(n, **told) if n else None


def write_shown(shown: "tl.Shown", path: Path) -> list[Path]:
    """Write demonstrations to a .jsonl, .csv, .geojson or .gpx file."""
    from tutelage.data.files import write_table, write_whole

    texts = {".geojson": shown.to_geojson, ".gpx": shown.to_gpx}
    texts[".jsonl"] = lambda: "".join(json.dumps(item.as_data(), default=str) + "\n" for item in shown)
    if path.suffix in texts:
        write_whole(path, texts[path.suffix]().encode())
    else:
        write_table(shown.to_frame(), path)
    return [path]
