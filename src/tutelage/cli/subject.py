"""The domain, the weights and the learner that the options of a command name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, look_up, make_learner

if TYPE_CHECKING:
    from tutelage.arrays import Vector
    from tutelage.environments.object_world import ObjectWorld
    from tutelage.model.mdp import Domain
    from tutelage.roles import Learner

WORLD_HELP = "An object world: generator:seed:size, such as published:0:10, or a JSON file."
DOMAIN_HELP = "Instead of a world: a file that tutelage.save or tutelage import wrote."
LEARNER_HELP = "L1 .. L5: the learner has the first 0, 2, 4, 5 or 6 preference features. Default: all of them."
PREFERENCES_HELP = "Instead of L1 .. L5: the names of the preference features that the learner has, such as a,b."
WEIGHTS_HELP = "The true weights: 1,0.9,0.2, or by name, km=-1,at_goal=0; zero for others. A world has its own."
ALLOWANCE_HELP = (
    "delta_c, the discounted count allowed of each preference feature: 2.5, a share of the discounted time such as 5%, "
    "one for each in order, such as 0.1,5%, or by name, such as service_km=0.1,main_km=5%. Default: 0."
)


@dataclass(frozen=True)
class Subject:
    """What a command is about.

    world: the object world, if it is one. whole: the domain with every preference feature; known: with those of the
    learner. true_weights: (d_r,), or None where they were not given.
    """

    world: "ObjectWorld | None"
    whole: "Domain"
    known: "Domain"
    true_weights: "Vector | None"

    @property
    def weights(self) -> "Vector":
        """The true weights; refused where they were not given."""
        if self.true_weights is None:
            names = ",".join(f"{name.replace(' ', '_')}=1" for name in self.whole.reward_names[:2])
            raise InvalidInput(f"--domain needs the true weights of its reward features: --weights {names}")
        return self.true_weights


def read_subject(world: str, path: Path | None, weights: str, learner: str, preferences: str) -> Subject:
    """The subject of the options --world or --domain, --weights, --learner and --preferences."""
    from tutelage.data.files import load, open_regular
    from tutelage.environments.object_world import ObjectWorld
    from tutelage.experiments.worlds import WorldName

    if bool(world) == (path is not None):
        raise InvalidInput("give either --world or --domain")
    if path is not None:
        whole = load(path)
        given = read_weights(weights, whole.reward_names) if weights else None
        return Subject(None, whole, _with_preferences(whole, learner, preferences), given)
    if world.endswith(".json"):
        with open_regular(world) as file:
            made = ObjectWorld.from_json(file.read())
    else:
        made = WorldName.parse(world).make()
    whole = made.domain("L5")
    given = read_weights(weights, whole.reward_names) if weights else made.true_weights
    return Subject(made, whole, _with_preferences(whole, learner, preferences), given)


def read_weights(text: str, names: Sequence[str]) -> "Vector":
    """The weights of the features of these names, from numbers in order or from name=number."""
    import numpy as np

    parts = [part.strip() for part in text.split(",") if part.strip()]
    is_named = any("=" in part for part in parts)
    pairs = [part.rpartition("=") for part in parts]
    try:
        numbers = [float(value) for _, _, value in pairs]
    except ValueError as error:
        raise InvalidInput(f"weights must be numbers with commas between them, or name=number, got {text!r}") from error
    if not is_named:
        return np.array(numbers)
    given = {feature(names, name.strip()): number for (name, _, _), number in zip(pairs, numbers, strict=True)}
    if len(given) < len(parts):
        raise InvalidInput(f"weights must give each name once, got {text!r}")
    return np.array([given.get(name, 0.0) for name in names])


def feature(names: Sequence[str], given: str) -> str:
    """The feature of this name; a space may be written as an underscore."""
    from tutelage.model.names import suggestion

    table = {name.replace(" ", "_"): name for name in names} | {name: name for name in names}
    if given not in table:
        raise InvalidInput(f"there is no feature {given!r}; {suggestion(given, list(table))}")
    return table[given]


def make_pupil(model: str, domain: "Domain", allowance: str, **penalties: float | None) -> "Learner":
    """The learner of a model, with the parameters that were given and that the model has."""
    from tutelage.model.allowances import read_allowance

    options: dict[str, Any] = dict(penalties)
    if allowance:
        amount, names = read_allowance(allowance), domain.preference_names
        if isinstance(amount, dict):
            amount = {feature(names, name): one for name, one in amount.items()}
        options["violation_allowance"] = amount
    known = look_up(LEARNER_MODELS, model, "learner model").options
    return make_learner(model, domain, **{n: value for n, value in options.items() if value is not None and n in known})


def _with_preferences(domain: "Domain", learner: str, preferences: str) -> "Domain":
    """The domain with the preference features of the learner."""
    if learner and preferences:
        raise InvalidInput("give either --learner or --preferences")
    if preferences:
        wanted = [feature(domain.preference_names, name.strip()) for name in preferences.split(",") if name.strip()]
        places = [domain.preference_names.index(name) for name in dict.fromkeys(wanted)]
    elif learner:
        from tutelage.environments.placement import PREFERENCES, preference_names

        if learner not in PREFERENCES:
            own = "--model names a learner model, and --preferences the features that a learner of your own has"
            raise InvalidInput(f"there is no learner {learner!r}; the learners are {', '.join(PREFERENCES)}; {own}")
        places = list(range(len(preference_names(learner))))
        if len(places) > domain.n_preference:
            needed = f"{learner} has {len(places)} preference features"
            raise InvalidInput(f"{needed}, but the domain has only {domain.n_preference}")
    else:
        return domain
    names = tuple(domain.preference_names[place] for place in places)
    return replace(domain, preference_features=domain.preference_features[:, places], preference_names=names)


def read_options(texts: Sequence[str]) -> Mapping[str, str]:
    """name=value pairs."""
    pairs = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if not all(name and value for name, value in pairs.items()):
        raise InvalidInput(f"--option must be name=value, got {', '.join(texts)}")
    return pairs
