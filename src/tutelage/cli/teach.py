"""`tutelage teach`, `learn` and `infer`: one learner, taught, shown a recording, or known by its answers only."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Option

import tutelage as tl
from tutelage.cli.printing import Result, complain, progress
from tutelage.cli.subject import Chosen, Place, Subject, read_options, read_weights
from tutelage.model.names import feature
from tutelage.outcomes import InvalidInput
from tutelage.registry import LEARNER_MODELS, TEACHERS

RECORDINGS_HELP = "The recording of --allowance recorded: .csv with a line per visit, .jsonl or .npz."
TIME_HELP = "Seconds after which to stop with the lesson and the bound found so far; without any, it is an error."
SHOW_HELP = "Print at most this many demonstrations of the lesson, by name, with their shares and features."
DEMONSTRATIONS_HELP = "Write the demonstrations to this .jsonl, .csv, .geojson or .gpx file; as many as --show, or 20."
POLICY_HELP = "Write the policy of the lesson to this .csv or .jsonl file, a line for each visited state and choice."
PICTURE_HELP = "Draw the world or domain, and what was learned, with --show also routes; .png and .svg are added."
RECORDING_HELP = "The recording: .csv with a line per visit, .jsonl with a line per episode, or .npz."
THEN_HELP = "Then plan what to show instead, for the true weights, by --teacher."
SHOWN_HELP = "With --then-teach: print at most this many demonstrations to show instead."
INSTEAD_HELP = "With --then-teach: write the demonstrations to show instead to this .jsonl or .csv file."
BEHAVIOUR_HELP = "Demonstrations that tutelage.save_demonstrations wrote: infer what is avoided, and how strongly."
FullOption = Annotated[bool, Option("--full", help="Print every step of the demonstrations, not only turns.")]


def teach(
    chosen: Chosen,
    teacher: Annotated[str, "The teacher. Default: aware-cmdp in a domain with goals, bilevel in others."] = "",
    option: Annotated[list[str] | None, "A teacher option, such as stop_tolerance=0.001; may be repeated."] = None,
    recordings: Annotated[Path | None, RECORDINGS_HELP] = None,
    max_rounds: Annotated[int, "The most rounds of an adaptive teacher."] = 100,
    time_limit: Annotated[float | None, TIME_HELP] = None,
    save: Annotated[Path | None, "Write the rounds to this .npz file after every round."] = None,
    show_most: Annotated[int, Option("--show", min=0, help=SHOW_HELP)] = 0,
    full: FullOption = False,
    demonstrations: Annotated[Path | None, DEMONSTRATIONS_HELP] = None,
    policy: Annotated[Path | None, POLICY_HELP] = None,
    picture: Annotated[Path | None, PICTURE_HELP] = None,
    plane: Annotated[str, "With --picture: two reward features, as star,plus, whose reachable set to draw too."] = "",
) -> Result:
    """Teach a learner. Prints its response, what it gives up, and a bound on what any lesson could achieve.

    [bold]tutelage teach --world published:0:10 --learner L3 --teacher bilevel[/bold]

    [bold]tutelage teach --world published:0:10 --learner L2 --model hard --allowance 2.5 --teacher volume-search[/bold]

    [bold]tutelage teach --domain roads.npz --weights km=-1 --allowance kind_lane=0.5/journey --show 3[/bold]
    """
    about = chosen.subject(recordings)
    model, player = chosen.player(about)
    teacher = teacher.replace("-", "_") or ("aware_cmdp" if len(about.whole.mdp.goals) else "bilevel")
    teaching = about.teacher(teacher, player, read_options(option or []))
    transcript = taught(teaching, player, save, max_rounds=max_rounds, time_limit=time_limit)
    shown = about.shown(player, transcript.final.lesson, show_most or (20 if demonstrations else 0))
    files = [*_pictures(about, player, chosen.learner or "L5", transcript, shown, picture, plane)]
    files += _write_shown(shown, demonstrations) + _write_policy(about.known, transcript.final.lesson, policy)
    data = _data(about, transcript) | (shown.as_data() if shown else {})
    data |= {"learner": chosen.learner or None, "model": model, "teacher": teacher}
    kept = "Every journey keeps {} within {:g}, counted in steps of {:.4g}, each step rounded up."
    parts = [kept.format(name, *limit) for name, limit in about.journey_limits.items()]
    parts += [str(transcript), transcript.explain()]
    if shown and show_most:
        parts.append(shown.text(full=full))
    return data, parts, files


def teach_help() -> str:
    def listed(table: Mapping[str, Any]) -> str:
        return "\n".join(f"- {name.replace('_', '-')}: {entry.about}" for name, entry in table.items())

    return f"{inspect.getdoc(teach)}\n\nLearner models:\n\n{listed(LEARNER_MODELS)}\n\nTeachers:\n\n{listed(TEACHERS)}"


def taught(teacher: "tl.Teacher", learner: "tl.Learner", save: Path | None = None, **limits: Any) -> "tl.Transcript":
    with progress("teaching", None) as done:
        told: dict[str, Any] = {
            "on_round": lambda rounds: done(f"the learner earns {rounds.final.response_reward:.3f}"),
            "progress": lambda step: done(f"{step.done} {step.stage}", 0),
        }
        try:
            return tl.teach(teacher, learner, path=save, **told, **limits)
        except tl.InteractionFailed as error:
            kept = "they were not saved; give --save to keep them" if save is None else f"they are saved in {save}"
            if error.transcript.rounds:
                complain(f"rounds finished: {len(error.transcript.rounds)}; {kept}\n{error.transcript}")
            raise


def _write_shown(shown: "tl.Shown | None", path: Path | None) -> list[Path]:
    from tutelage.data.files import known_suffix, write_table, write_whole

    if not shown or path is None:
        return []
    suffix = known_suffix(path, (".csv", ".jsonl", ".geojson", ".gpx"), "demonstrations to show")
    if suffix == ".jsonl":
        write_whole(path, "".join(json.dumps(item.as_data(), default=str) + "\n" for item in shown).encode())
    elif suffix in (".geojson", ".gpx"):
        write_whole(path, (shown.to_gpx() if suffix == ".gpx" else shown.to_geojson()).encode())
    else:
        write_table(shown.to_frame(), path)
    return [path]


def _write_policy(known: "tl.Domain", lesson: "tl.Lesson", path: Path | None) -> list[Path]:
    from tutelage.data.describing import policy_columns
    from tutelage.data.files import write_table

    if path is None:
        return []
    if lesson.policy is None:
        raise InvalidInput("--policy needs a lesson with a policy, but this teacher shows an expectation only")
    write_table(policy_columns(known.mdp, lesson.policy), path)
    return [path]


def _by_name(names: Sequence[str], values: Any) -> dict[str, Any] | None:
    return None if values is None else dict(zip(names, values, strict=True))


def _data(about: Subject, transcript: "tl.Transcript") -> dict[str, Any]:
    final, known = transcript.final, about.known
    answer = final.response
    return {
        "reward": final.response_reward,
        "bound": final.bound,
        "rounds": [taught.as_data() for taught in transcript.rounds],
        "ended": transcript.ended,
        "arrival": transcript.arrival,
        "reward_expectation": _by_name(known.reward_names, answer.expectation.reward),
        "preference_expectation": _by_name(known.preference_names, answer.expectation.preference),
        "learned_weights": answer.learned_weights,
        "costs": transcript.costs,
        "unlimited": transcript.unlimited,
        "journey_limits": {name: limit for name, (limit, _) in about.journey_limits.items()},
        "certificate": answer.certificate and answer.certificate.as_data(),
    }


def _pictures(
    about: Subject,
    learner: "tl.Learner",
    of_learner: str,
    transcript: "tl.Transcript",
    shown: "tl.Shown | None",
    picture: Path | None,
    plane: str,
) -> Iterator[Path]:
    """The files of the pictures, if they were requested. of_learner: L1 .. L5."""
    names = [feature(about.known.reward_names, name.strip()) for name in plane.split(",") if name.strip()]
    if names and len(set(names)) != 2:
        raise InvalidInput(f"--plane needs two different reward features, such as star,plus, got {plane!r}")
    if picture is None:
        if names:
            raise InvalidInput("--plane needs --picture, the path of the picture")
        return
    from tutelage.environments.placement import PREFERENCES
    from tutelage.experiments.figures import domain_picture, plane_picture
    from tutelage.pictures.domains import routes_picture, without_suffix
    from tutelage.roles import limits_of

    # Other preferences than those of a learner are not drawn in a world.
    is_usual = about.known.preference_names == about.whole.preference_names[: PREFERENCES[of_learner]]
    world = about.world if is_usual else None
    drawn = {"": domain_picture(about.known, transcript, limits_of(learner, about.known), world, of_learner)}
    if names:
        drawn["-plane"] = plane_picture(about.known, learner, transcript.final, (names[0], names[1]))
    if shown is not None and about.world is None:
        drawn["-routes"] = routes_picture(about.known, shown)
    for suffix, figure in drawn.items():
        yield from tl.save_picture(figure, f"{without_suffix(picture)}{suffix}")


def learn(
    demonstrations: Annotated[Path, Option(help=RECORDING_HELP)],
    chosen: Chosen,
    then_teach: Annotated[bool, Option("--then-teach", help=THEN_HELP)] = False,
    teacher: Annotated[str, "The teacher of --then-teach."] = "aware-cmdp",
    show_most: Annotated[int, Option("--show", min=0, help=SHOWN_HELP)] = 5,
    full: FullOption = False,
    instead: Annotated[Path | None, INSTEAD_HELP] = None,
) -> Result:
    """Learn from recorded demonstrations: what they show, with its uncertainty, and what the learner makes of them.

    [bold]tutelage learn --domain lake.npz --demonstrations log.csv --preferences action_down --allowance 2[/bold]

    [bold]tutelage learn --domain lake.npz --demonstrations log.csv --model hard --preferences action_down
    --allowance 20% --weights reward=1 --then-teach[/bold]

    [bold]tutelage learn --domain roads.npz --demonstrations trips.csv --allowance recorded --weights km=-1
    --then-teach[/bold]
    """
    from tutelage.data.describing import recorded_features, recorded_lines

    about = chosen.subject(demonstrations)
    log: Any = about.log
    _, player = chosen.player(about)
    # How often the recording begins in each state (S,), where it begins in others than the domain.
    initial, starts = about.known.mdp.initial, log.states[log.offsets[:-1]]
    shares = np.bincount(starts, minlength=len(initial)) / log.n if (initial[starts] == 0).any() else None
    head = f"{log} in {demonstrations}"
    try:
        with progress("learning", None):
            response = player.respond(tl.Lesson.from_demonstrations(about.known, log, start=shares))
    except tl.InfeasibleConstraints:
        advice = "--allowance recorded is what the recording keeps; the default is 0 of everything"
        complain("\n".join([head, *recorded_lines(recorded_features(about.known, log)), advice]))
        raise
    data, lines = _learned(about, log, response)
    shown = None
    if then_teach:
        transcript = taught(about.teacher(teacher, player, {}), player)
        last = transcript.final
        shown = about.shown(player, last.lesson, show_most or (5 if instead else 0))
        data["instead"] = {"reward": last.response_reward, "bound": last.bound, "ended": transcript.ended}
        lines += ["", "What to show instead:", str(transcript), transcript.explain()]
    if shown is not None:
        data |= shown.as_data()
        lines.append(shown.text(full=full))
    return data, ["\n".join([head, *lines])], _write_shown(shown, instead)


def _learned(about: Subject, log: "tl.Demonstrations", response: "tl.Response") -> tuple[dict[str, Any], list[str]]:
    from tutelage.chains.expectations import journey_of
    from tutelage.data.describing import recorded_features, recorded_lines

    domain, lesson, weights = about.known, response.lesson, response.feature_weights
    reward = None if about.true_weights is None else about.true_weights @ response.expectation.reward
    recorded = recorded_features(domain, log)
    rows = zip(domain.reward_names, lesson.expectation, lesson.uncertainty, response.compared, strict=True)
    data = {
        "demonstrations": log.n,
        "visits": len(log.states),
        "features": {name: {"shown": shown, "uncertainty": doubt, "done": done} for name, shown, doubt, done in rows},
        "recorded": recorded,
        "preferences": _by_name(domain.preference_names, response.expectation.preference),
        "learned_weights": _by_name(domain.names, weights),
        "reward": reward,
    }
    lines = recorded_lines(recorded)
    if isinstance(about.allowance, tl.RecordedAllowance):
        lines.append(str(about.allowance))
    if lesson.initial is not None:
        lines.append("The recording begins in other states than the domain; the learner is compared from there.")
    lines.append(response.explain())
    if weights is not None:
        pairs = (f"{name} {value:.4g}" for name, value in zip(domain.names, weights, strict=True))
        lines.append(f"It infers the weights: {', '.join(pairs)}")
    if (journey := journey_of(domain.mdp, response.policy)) is not None:
        lines.append(f"The learner {journey}.")
    if reward is not None:
        lines.append(f"Its true reward: {reward:.4g}")
    return data, lines


def infer(
    chosen: Place,
    rounds: Annotated[Path | None, "Rounds of teach --save: infer the soft learner that gave these responses."] = None,
    demonstrations: Annotated[Path | None, BEHAVIOUR_HELP] = None,
    observed: Annotated[str, "expectation: all of mu was seen. reward: mu_r alone."] = "expectation",
    n_trajectories: Annotated[int, Option(min=0, help="Trajectories of each response; 0 if exact.")] = 0,
    weights: Annotated[str, "The reward weights of the behaviour, such as 1,0.9,0.2, where they are known."] = "",
) -> Result:
    """Infer a soft learner from its responses, or preferences from behaviour alone.

    The domain must have every preference feature that the learner might have: do not give --learner to teach.

    [bold]tutelage teach --world published:3:6 --teacher adaptive-bilevel --save rounds.npz[/bold]

    [bold]tutelage infer --world published:3:6 --rounds rounds.npz[/bold]

    [bold]tutelage infer --world published:3:6 --demonstrations walks.npz --weights 1,0.9,0.2[/bold]
    """
    if (rounds is None) == (demonstrations is None):
        raise InvalidInput("give either --rounds or --demonstrations")
    _, known = chosen.read()
    if demonstrations is not None:
        given = read_weights(weights, known.reward_names) if weights else None
        behaviour = tl.infer_preferences(known, tl.load_demonstrations(demonstrations, known.mdp), reward_weights=given)
        columns = ("strength", "standard_error", "low", "high", "p_value")
        preferences = {
            name: {column: getattr(behaviour, column)[j] for column in columns}
            | {"not_determined": behaviour.reasons[j]}
            for j, name in enumerate(known.preference_names)
        }
        reward_weights = _by_name(known.reward_names, behaviour.reward_weights)
        data = {"n": behaviour.n, "preferences": preferences, "reward_weights": reward_weights}
        data |= {"bias": behaviour.bias, "model_p_value": behaviour.model_p_value}
        return data, [str(behaviour)]
    answers = tl.load_transcript(rounds or "", known).rounds
    estimate = tl.infer_learner(known, answers, observed=observed, n_trajectories=n_trajectories)  # type: ignore[arg-type]
    data = {
        "mismatch_penalty": estimate.mismatch_penalty,
        "violation_penalty": estimate.violation_penalty,
        "violation_allowance": _by_name(known.preference_names, estimate.violation_allowance),
        "preferences": _by_name(known.preference_names, estimate.preferences),
        "residual": estimate.residual,
        "contradiction": estimate.contradiction,
    }
    return data, [str(estimate)]
