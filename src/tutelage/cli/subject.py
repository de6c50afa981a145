"""The options that several commands have, and the domain, the weights and the learner that they name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import tutelage as tl
from tutelage.model.names import feature
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, look_up, make_learner, make_teacher

PER_JOURNEY = "/journey"
LEARNER_HELP = "L1 .. L5: the learner has the first 0, 2, 4, 5 or 6 preference features. Default: all of them."
PREFERENCES_HELP = "Instead of L1 .. L5: the names of the preference features that the learner has, such as a,b."
WEIGHTS_HELP = "The true weights: 1,0.9,0.2, or by name, km=-1,at_goal=0; zero for others. A world has its own."
ALLOWANCE_HELP = (
    "delta_c, the discounted count allowed of each preference feature: 2.5, a share of the discounted time such as 5%, "
    "one for each in order, such as 0.1,5%, or by name, such as service_km=0.1,main_km=5%; others have no limit then, "
    "unless others=0. On every journey instead of on average: main_km=0.5/journey. What a recording has of each, with "
    "its error: recorded. Default: 0."
)


@dataclass(frozen=True)
class Place:
    world: Annotated[str, "An object world: published:0:10 (generator:seed:size), or a JSON file."] = ""
    domain: Annotated[Path | None, "Instead of a world: a file that tutelage.save or tutelage import wrote."] = None

    def read(self) -> "tuple[tl.ObjectWorld | None, tl.Domain]":
        from tutelage.data.files import open_regular
        from tutelage.experiments.worlds import WorldName

        if bool(self.world) == (self.domain is not None):
            raise InvalidInput("give either --world or --domain")
        if self.domain is not None:
            return None, tl.load(self.domain)
        if self.world.endswith(".json"):
            with open_regular(self.world) as file:
                world = tl.ObjectWorld.from_json(file.read())
        else:
            world = WorldName.parse(self.world).make()
        return world, world.domain("L5")


@dataclass(frozen=True)
class Chosen(Place):
    learner: Annotated[str, LEARNER_HELP] = ""
    preferences: Annotated[str, PREFERENCES_HELP] = ""
    model: Annotated[str, "The learner model. Default: hard in a domain with goals, soft in others."] = ""
    weights: Annotated[str, WEIGHTS_HELP] = ""
    mismatch_penalty: Annotated[float | None, "C_r. Default: 5 for soft, 20 for footnote."] = None
    violation_penalty: Annotated[float | None, "C_c of the soft learner. Default: 10."] = None
    allowance: Annotated[str, ALLOWANCE_HELP] = ""
    learner_option: Annotated[list[str] | None, "A learner option, such as max_steps=100; may be repeated."] = None

    def subject(self, recording: Path | None) -> "Subject":
        """What these options name. recording: what the allowance may be taken from."""
        world, whole = self.read()
        true_weights = world.true_weights if world else None
        if self.weights:
            true_weights = read_weights(self.weights, whole.reward_names)
        known = self._known(whole) if self.learner or self.preferences else whole
        log = None if recording is None else tl.load_demonstrations(recording, known)
        return with_limits(Subject(world, whole, known, true_weights, log, None, {}), self.allowance)

    def _known(self, whole: "tl.Domain") -> "tl.Domain":
        from tutelage.environments.placement import PREFERENCES
        from tutelage.experiments.worlds import named_parts, restricted

        if self.learner and self.preferences:
            raise InvalidInput("give either --learner or --preferences")
        if self.preferences:
            names = [feature(whole.preference_names, name) for name in named_parts(self.preferences)]
            return restricted(whole, list(dict.fromkeys(names)))
        if self.learner not in PREFERENCES:
            own = "--model names a learner model, and --preferences the features that a learner of your own has"
            known = ", ".join(PREFERENCES)
            raise InvalidInput(f"there is no learner {self.learner!r}; the learners are {known}; {own}")
        count, most = PREFERENCES[self.learner], whole.n_preference
        if count > most:
            raise InvalidInput(f"{self.learner} has {count} preference features, but the domain has only {most}")
        return restricted(whole, whole.preference_names[:count])

    def player(self, about: "Subject") -> "tuple[str, tl.Learner]":
        """The name of the learner model, and the learner. Penalties and allowance are for models that have them."""
        model = self.model.replace("-", "_") or ("hard" if len(about.whole.mdp.goals) else "soft")
        known = look_up(LEARNER_MODELS, model, "learner model").options
        penalties = {"mismatch_penalty": self.mismatch_penalty, "violation_penalty": self.violation_penalty}
        given = penalties | {"violation_allowance": about.allowance}
        used = {name: value for name, value in given.items() if value is not None and name in known}
        used |= read_options(self.learner_option or [], "--learner-option")
        return model, make_learner(model, about.known, **used)


@dataclass(frozen=True)
class Subject:
    """whole: the domain with every preference feature; known: with those of the learner.

    true_weights: (d_r,), or None where they were not given. allowance: None for the default of the model.
    journey_limits: by name, the limit that every journey keeps, and the steps in which it is counted.
    """

    world: "tl.ObjectWorld | None"
    whole: "tl.Domain"
    known: "tl.Domain"
    true_weights: Any
    log: "tl.Demonstrations | None"
    allowance: Any
    journey_limits: Mapping[str, tuple[float, float]]

    def teacher(self, name: str, learner: "tl.Learner", options: Mapping[str, str]) -> "tl.Teacher":
        if self.true_weights is None:
            names = self.whole.reward_names
            example = [f"{name.replace(' ', '_')}=1" for name in names[:2]]
            if set(",=") & set("".join(names)):
                # Such names cannot be written there; numbers in order can.
                example = ["1"] * len(names)
            raise InvalidInput(f"--domain needs the true weights of its reward features: --weights {','.join(example)}")
        given: dict[str, Any] = {"every_preference": self.whole.preference_features, **options}
        return make_teacher(name.replace("-", "_"), self.known, self.true_weights, learner, **given)

    def shown(self, learner: "tl.Learner", lesson: "tl.Lesson", n: int) -> "tl.Shown | None":
        return lesson.show(n, domain=self.known, true_weights=self.true_weights, learner=learner) if n else None


def with_limits(about: Subject, text: str) -> Subject:
    """The subject with the allowance in a text; limits on every journey are kept by the states of another domain."""
    if text == "recorded":
        if about.log is None:
            raise InvalidInput("--allowance recorded needs a recording; give it as --recordings trips.csv")
        return replace(about, allowance=tl.allowance_from(about.log, about.known))
    from tutelage.environments.budget import usual_resolutions
    from tutelage.experiments.worlds import named_parts, restricted

    names, parts = about.known.preference_names, named_parts(text)
    on_average = ",".join(part for part in parts if not part.endswith(PER_JOURNEY))
    on_journeys = ",".join(part.removesuffix(PER_JOURNEY) for part in parts if part.endswith(PER_JOURNEY))
    if not on_journeys:
        return replace(about, allowance=_named_allowance(names, text) if parts else None)
    if about.log is not None:
        raise InvalidInput("a recording has no rests of budgets in its states; use teach for limits on every journey")
    limits = _named_allowance(about.whole.names, on_journeys)
    if not isinstance(limits, dict) or not all(isinstance(limit, float) for limit in limits.values()):
        raise InvalidInput(f"a limit on every journey is name=number{PER_JOURNEY}, such as km=0.5{PER_JOURNEY}")
    allowance = _named_allowance(names, on_average) if on_average else {}
    steps = usual_resolutions(about.whole, limits)
    whole = tl.with_budget(about.whole, limits, resolution=steps)
    told = {name: (limit, steps[name]) for name, limit in limits.items()}
    return Subject(None, whole, restricted(whole, names), about.true_weights, None, allowance, told)


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


def _named_allowance(names: Sequence[str], text: str) -> Any:
    from tutelage.model.allowances import OTHERS, read_allowance

    amount = read_allowance(text)
    if isinstance(amount, dict):
        return {name if name == OTHERS else feature(names, name): part for name, part in amount.items()}
    return amount


def read_options(texts: Sequence[str], name_of_option: str = "--option") -> dict[str, str]:
    pairs = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if not all(name and value for name, value in pairs.items()):
        raise InvalidInput(f"{name_of_option} must be name=value, got {', '.join(texts)}")
    return pairs
