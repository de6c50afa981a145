"""`tutelage teach`: one learner and one teacher, in an object world or in a user's domain."""

import inspect
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli import subject
from tutelage.cli.printing import AsJson, complain_of_rounds, progress, say, show_json, written
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS, LearnerEntry, TeacherEntry

if TYPE_CHECKING:
    from tutelage.data.showing import Shown
    from tutelage.model.mdp import Domain
    from tutelage.roles import Learner, Teacher
    from tutelage.transcripts import Transcript

OPTION_HELP = "An option of the teacher, such as stop_tolerance=0.001; may be repeated."
DEFAULT_SHOWN = 20
TIME_HELP = "Seconds after which to stop with the rounds, the lesson and the bound found so far."
SHOW_HELP = "Print at most this many demonstrations of the lesson, by name, with their shares and features."
DEMONSTRATIONS_HELP = "Write the demonstrations to this .jsonl, .csv, .geojson or .gpx file; as many as --show, or 20."
POLICY_HELP = "Write the policy of the lesson to this .csv or .jsonl file, a line for each visited state and choice."
TEACHER_HELP = "The teacher. Default: aware-cmdp in a domain with goals, bilevel in others."
RECORDINGS_HELP = "The recording of --allowance recorded: .csv with a line per visit, .jsonl or .npz."
PLANE_HELP = "With --picture: two reward features, such as star,plus, whose reachable set to draw too."
PICTURE_HELP = (
    "Draw the world, or features and map of a domain, and what was learned, with --show also routes; .png, .svg."
)


def teach(
    world: subject.WorldOption = "",
    domain: subject.DomainOption = None,
    learner: subject.LearnerOption = "",
    preferences: subject.PreferencesOption = "",
    model: subject.ModelOption = "",
    teacher: Annotated[str, typer.Option(help=TEACHER_HELP)] = "",
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    weights: subject.WeightsOption = "",
    mismatch_penalty: subject.MismatchOption = None,
    violation_penalty: subject.ViolationOption = None,
    allowance: subject.AllowanceOption = "",
    learner_option: subject.LearnerOptions = None,
    recordings: Annotated[Path | None, typer.Option(help=RECORDINGS_HELP)] = None,
    max_rounds: Annotated[int, typer.Option(help="The most rounds of an adaptive teacher.")] = 100,
    time_limit: Annotated[float | None, typer.Option(help=TIME_HELP)] = None,
    save: Annotated[Path | None, typer.Option(help="Write the rounds to this .npz file after every round.")] = None,
    show: Annotated[int, typer.Option(min=0, help=SHOW_HELP)] = 0,
    full: subject.FullOption = False,
    demonstrations: Annotated[Path | None, typer.Option(help=DEMONSTRATIONS_HELP)] = None,
    policy: Annotated[Path | None, typer.Option(help=POLICY_HELP)] = None,
    picture: Annotated[Path | None, typer.Option(help=PICTURE_HELP)] = None,
    plane: Annotated[str, typer.Option(help=PLANE_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Teach a learner. Prints its response, what it gives up, and a bound on what any lesson could achieve.

    [bold]tutelage teach --world published:0:10 --learner L3 --teacher bilevel[/bold]

    [bold]tutelage teach --world published:0:10 --learner L2 --model hard --allowance 2.5 --teacher volume-search[/bold]

    [bold]tutelage teach --domain roads.npz --weights km=-1 --allowance kind_lane=0.5/journey --show 3[/bold]
    """
    about = subject.read_subject(world, domain, weights, learner, preferences)
    about, allowed = subject.with_limits(about, allowance, subject.read_log(recordings, about.known))
    model, teacher = about.players(model, teacher)
    player = subject.read_learner(model, about.known, allowed, mismatch_penalty, violation_penalty, learner_option)
    chosen = about.teacher(teacher, player, subject.read_options(option or []))
    transcript = _taught(chosen, player, max_rounds, time_limit, save)
    shown = _shown(about.known, transcript, player, show or (DEFAULT_SHOWN if demonstrations else 0))
    files = _drawn(about, player, learner, transcript, picture, plane) + _routes_drawn(about, shown, picture)
    files += written(shown, demonstrations, about.known, transcript.final.lesson.policy, policy)
    if as_json:
        asked = {"learner": learner or None, "model": model, "teacher": teacher, "files": list(map(str, files))}
        show_json(_data(about, transcript) | ({} if shown is None else shown.as_data()) | asked)
        return
    lines = [*about.limits_in_words(), str(transcript), transcript.explain()]
    lines += [shown.text(full=full)] if shown and show else []
    say("\n".join([*lines, *(f"Written: {path}" for path in files)]))


def _taught(
    teacher: "Teacher", learner: "Learner", max_rounds: int, time_limit: float | None, save: Path | None
) -> "Transcript":
    """The rounds, with progress. If they fail, those that are finished are printed."""
    from tutelage import interaction

    with progress("teaching", None) as done:

        def on_round(rounds: "Transcript") -> None:
            done.step(f"the learner earns {rounds.final.response_reward:.3f}")

        try:
            return interaction.teach(
                teacher,
                learner,
                max_rounds=max_rounds,
                path=save,
                on_round=on_round,
                time_limit=time_limit,
                progress=lambda step: done.note(f"{step.done} {step.stage}"),
            )
        except interaction.InteractionFailed as error:
            complain_of_rounds(error.transcript, save)
            raise


def teach_help() -> str:
    """The help of the command, with every learner model and every teacher of the registry."""

    def listed(table: Mapping[str, LearnerEntry] | Mapping[str, TeacherEntry]) -> str:
        return "\n".join(f"- {name.replace('_', '-')}: {entry.about}" for name, entry in table.items())

    head, models, teachers = inspect.cleandoc(teach.__doc__ or ""), listed(LEARNER_MODELS), listed(TEACHERS)
    return f"{head}\n\nLearner models:\n\n{models}\n\nTeachers:\n\n{teachers}"


def _shown(domain: "Domain", transcript: "Transcript", learner: "Learner", n: int) -> "Shown | None":
    """At most n demonstrations of the last lesson."""
    if not n:
        return None
    lesson = transcript.final.lesson
    return lesson.show(n, domain=domain, true_weights=transcript.true_weights, learner=learner)


def _data(about: subject.Subject, transcript: "Transcript") -> dict[str, Any]:
    """The rounds and the final response, as data."""
    domain = about.known
    from tutelage.arrays import finite_or_none

    final, answer, proof = transcript.final, transcript.final.response, transcript.final.response.certificate
    weights = answer.learned_weights
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
        "learned_weights": None if weights is None else weights.tolist(),
        "costs": transcript.costs_as_data(),
        "unlimited": list(transcript.unlimited),
        "journey_limits": {name: limit for name, (limit, _) in about.journey_limits.items()},
        "certificate": None if proof is None else proof.as_data(),
    }


def _drawn(
    about: subject.Subject,
    learner: "Learner",
    preferences: str,
    transcript: "Transcript",
    picture: Path | None,
    plane: str,
) -> list[Path]:
    """The files of the pictures, if they were requested. preferences: of the learner, L1 .. L5."""
    files = _plane_drawn(about.known, learner, transcript, plane, picture)
    if picture is None:
        return files
    import numpy as np

    from tutelage.experiments.figures import domain_picture, taught_picture
    from tutelage.pictures.files import save_picture
    from tutelage.roles import limits_of

    if about.world is not None:
        drawn = taught_picture(about.world, preferences or "L5", transcript.final.response)
    else:
        limits = limits_of(learner, about.known)
        allowed = np.array([limits.get(name, np.inf) for name in about.known.preference_names]) if limits else None
        drawn = domain_picture(about.known, transcript, allowed)
    return save_picture(drawn, picture) + files


def _routes_drawn(about: subject.Subject, shown: "Shown | None", picture: Path | None) -> list[Path]:
    """The files of the picture of routes, if one was requested with demonstrations to show."""
    if picture is None or shown is None or about.world is not None:
        return []
    from tutelage.pictures.files import save_picture
    from tutelage.pictures.routes import routes_picture

    return save_picture(routes_picture(about.known, shown), picture.with_name(f"{picture.name}-routes"))


def _plane_drawn(
    domain: "Domain", learner: "Learner", transcript: "Transcript", plane: str, picture: Path | None
) -> list[Path]:
    """The files of the picture of two features, if one was requested."""
    names = [subject.feature(domain.reward_names, name.strip()) for name in plane.split(",") if name.strip()]
    if picture is None or not names:
        if names:
            raise InvalidInput("--plane needs --picture, the path of the picture")
        return []
    if len(set(names)) != 2:
        raise InvalidInput(f"--plane needs two different reward features, such as star,plus, got {plane!r}")
    from tutelage.constrained.problem import no_limits, preference_limits
    from tutelage.constrained.reachable_set import vertices
    from tutelage.experiments.figures import plane_picture
    from tutelage.learners.penalties import Preference
    from tutelage.pictures.files import save_picture
    from tutelage.roles import limits_of

    columns = [domain.reward_names.index(name) for name in names]
    flat = replace(domain, reward_features=domain.reward_features[:, columns], reward_names=tuple(names))
    known, accepted = getattr(learner, "preference", None), None
    if isinstance(known, Preference) and known.is_hard and known.rows is None and not known.functions:
        accepted = vertices(flat, preference_limits(flat, limits_of(learner, domain)))
    shown, done = transcript.final.lesson.expectation, transcript.final.response.expectation.reward
    reachable = vertices(flat, no_limits(flat))
    figure = plane_picture((names[0], names[1]), reachable, accepted, shown[columns], done[columns])
    return save_picture(figure, picture.with_name(f"{picture.name}-plane"))
