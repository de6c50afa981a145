"""`tutelage learn`, what a learner makes of recorded demonstrations; `tutelage infer`, what answers tell about one."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import tutelage as tl
from tutelage.cli import subject
from tutelage.cli.printing import AsJson, progress, show
from tutelage.cli.teach import taught
from tutelage.outcomes import InvalidInput

DEMONSTRATIONS_HELP = "The recording: .csv with a line per visit, .jsonl with a line per episode, or .npz."
THEN_HELP = "Then plan what to show instead, for the true weights, by --teacher."
SHOWN_HELP = "With --then-teach: print at most this many demonstrations to show instead."
INSTEAD_HELP = "With --then-teach: write the demonstrations to show instead to this .jsonl or .csv file."
ROUNDS_HELP = "Rounds that teach --save wrote: infer the soft learner that gave these responses."
BEHAVIOUR_HELP = "Demonstrations that tutelage.save_demonstrations wrote: infer what is avoided, and how strongly."
WEIGHTS_HELP = "The reward weights of the behaviour, such as 1,0.9,0.2, where they are known."


def learn(
    demonstrations: Annotated[Path, typer.Option(help=DEMONSTRATIONS_HELP)],
    world: subject.WorldOption = "",
    domain: subject.DomainOption = None,
    learner: subject.LearnerOption = "",
    preferences: subject.PreferencesOption = "",
    model: subject.ModelOption = "",
    weights: subject.WeightsOption = "",
    mismatch_penalty: subject.MismatchOption = None,
    violation_penalty: subject.ViolationOption = None,
    allowance: subject.AllowanceOption = "",
    learner_option: subject.LearnerOptions = None,
    then_teach: Annotated[bool, typer.Option("--then-teach", help=THEN_HELP)] = False,
    teacher: Annotated[str, typer.Option(help="The teacher of --then-teach.")] = "aware-cmdp",
    show_most: Annotated[int, typer.Option("--show", min=0, help=SHOWN_HELP)] = 5,
    full: subject.FullOption = False,
    instead: Annotated[Path | None, typer.Option(help=INSTEAD_HELP)] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from recorded demonstrations: what they show, with its uncertainty, and what the learner makes of them.

    [bold]tutelage learn --domain lake.npz --demonstrations log.csv --preferences action_down --allowance 2[/bold]

    [bold]tutelage learn --domain lake.npz --demonstrations log.csv --model hard --preferences action_down
    --allowance 20% --weights reward=1 --then-teach[/bold]

    [bold]tutelage learn --domain roads.npz --demonstrations trips.csv --allowance recorded --weights km=-1
    --then-teach[/bold]
    """
    about = subject.read_subject(world, domain, weights, learner, preferences)
    log = tl.load_demonstrations(demonstrations, about.known)
    about, allowed = subject.with_limits(about, allowance, log)
    penalties = {"mismatch_penalty": mismatch_penalty, "violation_penalty": violation_penalty}
    player = about.learner(model or about.usual[0], learner_option, violation_allowance=allowed, **penalties)
    with progress("learning", None):
        response = player.respond(tl.Lesson.from_demonstrations(about.known, log, start=_other_starts(about, log)))
    transcript = taught(about.teacher(teacher, player, {}), player) if then_teach else None
    data = _data(about, log, response, transcript)
    lines = _learned(about, data["recorded"], allowed, response)
    shown = subject.shown(about, player, transcript, show_most or bool(instead))
    if transcript is not None:
        lines += ["", "What to show instead:", str(transcript), transcript.explain()]
    if shown is not None:
        lines, data = [*lines, shown.text(full=full)], data | shown.as_data()
    files = subject.write_shown(shown, instead) if shown and instead else []
    show(data, ["\n".join([f"{log} in {demonstrations}", *lines])], files, as_json=as_json)


def _other_starts(about: subject.Subject, log: "tl.Demonstrations") -> Any:
    """(S,), how often the recording begins in each state, if it begins where the domain does not; otherwise None."""
    initial = about.known.mdp.initial
    counts = np.bincount(log.states[log.offsets[:-1]], minlength=len(initial))
    return counts / log.n if counts[initial == 0].any() else None


def _learned(about: subject.Subject, recorded: Any, allowed: Any, response: "tl.Response") -> list[str]:
    """What was recorded of each feature, what the learner does, the weights that it infers, and its reward."""
    from tutelage.chains.expectations import journey_of
    from tutelage.data.describing import recorded_lines

    lines, journey = recorded_lines(recorded), journey_of(about.known.mdp, response.policy)
    lines += [str(allowed)] if isinstance(allowed, tl.RecordedAllowance) else []
    if response.lesson.initial is not None:
        lines.append("The recording begins in other states than the domain; the learner is compared from there.")
    lines.append(response.explain())
    if response.learned_weights is not None:
        pairs = zip(about.known.names, response.learned_weights, strict=True)
        lines.append(f"It infers the weights: {', '.join(f'{name} {value:.4g}' for name, value in pairs)}")
    lines += [] if journey is None else [f"The learner {journey}."]
    if about.true_weights is not None:
        lines.append(f"Its true reward: {float(about.true_weights @ response.expectation.reward):.4g}")
    return lines


def _data(
    about: subject.Subject, log: "tl.Demonstrations", response: "tl.Response", instead: "tl.Transcript | None"
) -> dict[str, Any]:
    """What was recorded, what the learner does, and what it does with the lesson instead, as data."""
    from tutelage.data.describing import recorded_features

    domain, lesson, weights = about.known, response.lesson, about.true_weights
    rewards = zip(lesson.expectation, lesson.uncertainty, response.compared, strict=True)
    data = {
        "demonstrations": log.n,
        "visits": len(log.states),
        "features": {
            name: {"shown": float(shown), "uncertainty": float(doubt), "done": float(done)}
            for name, (shown, doubt, done) in zip(domain.reward_names, rewards, strict=True)
        },
        "recorded": recorded_features(domain, log),
        "preferences": subject.by_name(domain.preference_names, response.expectation.preference),
        "learned_weights": subject.by_name(domain.names, response.feature_weights),
        "reward": None if weights is None else float(weights @ response.expectation.reward),
    }
    if instead is not None:
        last = instead.final
        data["instead"] = {"reward": last.response_reward, "bound": last.bound, "ended": instead.ended}
    return data


def infer(
    world: subject.WorldOption = "",
    domain: subject.DomainOption = None,
    rounds: Annotated[Path | None, typer.Option(help=ROUNDS_HELP)] = None,
    demonstrations: Annotated[Path | None, typer.Option(help=BEHAVIOUR_HELP)] = None,
    observed: Annotated[str, typer.Option(help="expectation: all of mu was seen. reward: mu_r alone.")] = "expectation",
    n_trajectories: Annotated[int, typer.Option(min=0, help="Trajectories of each response; 0 if exact.")] = 0,
    weights: Annotated[str, typer.Option(help=WEIGHTS_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Infer a soft learner from its responses, or preferences from behaviour alone.

    The domain must have every preference feature that the learner might have: do not give --learner to teach.

    [bold]tutelage teach --world published:0:6 --teacher adaptive-bilevel --save rounds.npz[/bold]

    [bold]tutelage infer --world published:0:6 --rounds rounds.npz[/bold]

    [bold]tutelage infer --world published:0:6 --demonstrations walks.npz --weights 1,0.9,0.2[/bold]
    """
    if (rounds is None) == (demonstrations is None):
        raise InvalidInput("give either --rounds or --demonstrations")
    known = subject.read_subject(world, domain, "", "", "").whole
    if demonstrations is not None:
        given = subject.read_weights(weights, known.reward_names) if weights else None
        log = tl.load_demonstrations(demonstrations, known.mdp)
        behaviour = tl.infer_preferences(known, log, reward_weights=given)
        data, text = preference_data(behaviour), str(behaviour)
    else:
        seen: Any = {"observed": observed, "n_trajectories": n_trajectories}
        estimate = tl.infer_learner(known, tl.load_transcript(rounds or "", known).rounds, **seen)
        data, text = learner_data(estimate), str(estimate)
    show(data, [text], as_json=as_json)


def learner_data(estimate: "tl.LearnerEstimate") -> dict[str, Any]:
    """The estimate for JSON."""
    names = estimate.domain.preference_names
    return {
        "mismatch_penalty": estimate.mismatch_penalty,
        "violation_penalty": estimate.violation_penalty,
        "violation_allowance": dict(zip(names, estimate.violation_allowance, strict=True)),
        "preferences": dict(zip(names, estimate.preferences, strict=True)),
        "residual": estimate.residual,
        "contradiction": estimate.contradiction,
    }


def preference_data(estimate: "tl.PreferenceEstimate") -> dict[str, Any]:
    """The estimate for JSON."""
    columns = ("strength", "standard_error", "low", "high", "p_value")
    return {
        "n": estimate.n,
        "preferences": {
            name: {column: float(getattr(estimate, column)[j]) for column in columns}
            | {"not_determined": estimate.reasons[j]}
            for j, name in enumerate(estimate.domain.preference_names)
        },
        "reward_weights": subject.by_name(estimate.domain.reward_names, estimate.reward_weights),
        "bias": estimate.bias,
        "model_p_value": estimate.model_p_value,
    }
