"""`tutelage teach`: one learner and one teacher, in an object world or in a user's domain."""

import inspect
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli.printing import progress, say, show_json
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, LearnerEntry, TeacherEntry, look_up, make_learner, make_teacher

if TYPE_CHECKING:
    from tutelage.arrays import Vector
    from tutelage.environments.object_world import ObjectWorld
    from tutelage.mdp.model import Domain
    from tutelage.roles import Learner
    from tutelage.transcripts import Transcript

WORLD_HELP = "An object world: generator:seed:size, such as published:0:10, or a JSON file."
LEARNER_HELP = "L1 .. L5: the learner has the first 0, 2, 4, 5 or 6 preference features. Default: all of them."
OPTION_HELP = "An option of the teacher, such as stop_tolerance=0.001; may be repeated."
ALLOWANCE_HELP = (
    "delta_c, the discounted count allowed of each preference feature: 2.5, a share of the discounted time such as 5%, "
    "or by name, such as service_km=0.1,main_km=5%. Default: 0."
)
TIME_HELP = "Seconds after which to stop with the rounds, the lesson and the bound found so far."
PICTURE_HELP = "Draw the world, or the features and the map of a domain, and what was learned; adds .png and .svg."


def teach(
    world: Annotated[str, typer.Option(help=WORLD_HELP)] = "",
    domain: Annotated[Path | None, typer.Option(help="Instead of a world: a file that tutelage.save wrote.")] = None,
    learner: Annotated[str, typer.Option(help=LEARNER_HELP)] = "",
    model: Annotated[str, typer.Option(help="The learner model, one of those above.")] = "soft",
    teacher: Annotated[str, typer.Option(help="The teacher, one of those above.")] = "bilevel",
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    weights: Annotated[str, typer.Option(help="The true weights, such as 1,0.9,0.2. A world has its own.")] = "",
    mismatch_penalty: Annotated[float | None, typer.Option(help="C_r. Default: 5 for soft, 20 for footnote.")] = None,
    violation_penalty: Annotated[float | None, typer.Option(help="C_c of the soft learner. Default: 10.")] = None,
    allowance: Annotated[str, typer.Option(help=ALLOWANCE_HELP)] = "",
    max_rounds: Annotated[int, typer.Option(help="The most rounds of an adaptive teacher.")] = 100,
    time_limit: Annotated[float | None, typer.Option(help=TIME_HELP)] = None,
    save: Annotated[Path | None, typer.Option(help="Write the rounds to this .npz file after every round.")] = None,
    picture: Annotated[Path | None, typer.Option(help=PICTURE_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Teach a learner. Prints its response, what it gives up, and a bound on what any lesson could achieve.

    [bold]tutelage teach --world published:0:10 --learner L3 --teacher bilevel[/bold]

    [bold]tutelage teach --world published:0:10 --learner L2 --model hard --allowance 2.5 --teacher volume-search[/bold]

    [bold]tutelage teach --domain roads.npz --weights=-1,50 --model hard --teacher aware-cmdp[/bold]
    """
    from tutelage import interaction

    model, teacher = model.replace("-", "_"), teacher.replace("-", "_")
    made, whole, true_weights = subject(world, domain, weights)
    known = _first_preferences(whole, learner) if learner else whole
    penalties: dict[str, Any] = {"mismatch_penalty": mismatch_penalty, "violation_penalty": violation_penalty}
    penalties["violation_allowance"] = _allowance(allowance)
    pupil = make_learner(model, known, **_applicable(model, penalties))
    options, every = _options(option or []), whole.preference_features
    with progress("teaching", None) as done:
        tutor = make_teacher(teacher, known, true_weights, pupil, every_preference=every, **options)

        def on_round(rounds: "Transcript") -> None:
            done.step(f"the learner earns {rounds.final.response_reward:.3f}")

        transcript = interaction.teach(
            tutor,
            pupil,
            max_rounds=max_rounds,
            path=save,
            on_round=on_round,
            time_limit=time_limit,
            progress=lambda step: done.note(f"{step.done} {step.stage}"),
        )
    files = _drawn(made, known, pupil, learner, transcript, picture)
    if as_json:
        chosen = {"learner": learner or None, "model": model, "teacher": teacher}
        show_json(chosen | _data(known, transcript) | {"files": [str(path) for path in files]})
        return
    pictures = [f"Picture: {path}" for path in files]
    say("\n".join([str(transcript), transcript.explain(), *pictures]))


def teach_help() -> str:
    """The help of the command, with every learner model and every teacher of the registry."""

    def listed(table: Mapping[str, LearnerEntry] | Mapping[str, TeacherEntry]) -> str:
        return "\n".join(f"- {name.replace('_', '-')}: {entry.about}" for name, entry in table.items())

    head, models, teachers = inspect.cleandoc(teach.__doc__ or ""), listed(LEARNER_MODELS), listed(TEACHERS)
    return f"{head}\n\nLearner models:\n\n{models}\n\nTeachers:\n\n{teachers}"


def _allowance(text: str) -> Any:
    from tutelage.mdp.allowances import read_allowance

    return read_allowance(text) if text else None


def _applicable(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were given and that the learner model has."""
    known = look_up(LEARNER_MODELS, model, "learner model").options
    return {name: value for name, value in given.items() if value is not None and name in known}


def _options(texts: list[str]) -> dict[str, str]:
    """name=value pairs."""
    pairs = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if not all(name and value for name, value in pairs.items()):
        raise InvalidInput(f"--option must be name=value, got {', '.join(texts)}")
    return pairs


def _first_preferences(domain: "Domain", learner: str) -> "Domain":
    """The domain with the preference features of one of the learners L1 .. L5, the first of all."""
    from tutelage.environments.preferences import preference_names

    n = len(preference_names(learner))
    if n > domain.n_preference:
        raise InvalidInput(f"{learner} has {n} preference features, but the domain has only {domain.n_preference}")
    features, names = domain.preference_features[:, :n], domain.preference_names[:n]
    return replace(domain, preference_features=features, preference_names=names)


def subject(world: str, path: Path | None, weights: str) -> "tuple[ObjectWorld | None, Domain, Vector]":
    """The world, if there is one; the domain with every preference feature; the true weights."""
    import numpy as np

    from tutelage.environments.object_world import ObjectWorld
    from tutelage.experiments.worlds import WorldName
    from tutelage.mdp.files import load, open_regular

    if bool(world) == (path is not None):
        raise InvalidInput("give either --world or --domain")
    try:
        given = [float(part) for part in weights.split(",")] if weights else []
    except ValueError as error:
        raise InvalidInput(f"weights must be numbers with commas between them, got {weights!r}") from error
    if path is not None:
        if not given:
            raise InvalidInput("--domain needs the true weights of its reward features: --weights 1,0.9")
        return None, load(path), np.array(given)
    if world.endswith(".json"):
        with open_regular(world) as file:
            made = ObjectWorld.from_json(file.read())
    else:
        made = WorldName.parse(world).make()
    return made, made.domain("L5"), np.array(given) if given else made.true_weights


def _data(domain: "Domain", transcript: "Transcript") -> dict[str, Any]:
    """The rounds and the final response, as data."""
    from tutelage.arrays import finite_or_none

    final, answer, proof = transcript.final, transcript.final.response, transcript.final.response.certificate
    rewards, preferences = answer.expectation.reward.tolist(), answer.expectation.preference.tolist()
    journey = transcript.arrival
    return {
        "reward": final.response_reward,
        "bound": finite_or_none(final.bound),
        "rounds": [taught.as_data() for taught in transcript.rounds],
        "ended": transcript.ended,
        "arrival": None if journey is None else {k: finite_or_none(v) for k, v in asdict(journey).items()},
        "reward_expectation": dict(zip(domain.reward_names, rewards, strict=True)),
        "preference_expectation": dict(zip(domain.preference_names, preferences, strict=True)),
        "learned_weights": answer.learned_weights.tolist(),
        "certificate": {"gap": finite_or_none(proof.gap), "residual": proof.residual, "ended": proof.ended.name},
    }


def _drawn(
    world: "ObjectWorld | None",
    domain: "Domain",
    pupil: "Learner",
    learner: str,
    transcript: "Transcript",
    picture: Path | None,
) -> list[Path]:
    """The files of the picture, if one was requested."""
    if picture is None:
        return []
    from tutelage.experiments.figures import domain_picture, taught_picture
    from tutelage.learners.penalties import Preference
    from tutelage.pictures.files import save_picture

    if world is not None:
        return save_picture(taught_picture(world, learner or "L5", transcript.final.response), picture)
    preference = getattr(pupil, "preference", None)
    allowed = preference.on(domain).allowance if isinstance(preference, Preference) else None
    return save_picture(domain_picture(domain, transcript, allowed), picture)
