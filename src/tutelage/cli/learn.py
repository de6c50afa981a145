"""`tutelage learn`: what a learner with preferences makes of recorded demonstrations, and what to show it instead."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli import subject
from tutelage.cli.printing import AsJson, progress, say, show_json, written

if TYPE_CHECKING:
    from tutelage.arrays import Vector
    from tutelage.data.demonstrations import Demonstrations
    from tutelage.data.showing import Shown
    from tutelage.roles import Learner, Response
    from tutelage.transcripts import Transcript

DEMONSTRATIONS_HELP = "The recording: .csv with a line per visit, .jsonl with a line per episode, or .npz."
THEN_HELP = "Then plan what to show instead, for the true weights, by --teacher."
SHOWN_HELP = "With --then-teach: print at most this many demonstrations to show instead."
INSTEAD_HELP = "With --then-teach: write the demonstrations to show instead to this .jsonl or .csv file."


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
    show: Annotated[int, typer.Option(min=0, help=SHOWN_HELP)] = 5,
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
    from tutelage.roles import Lesson

    about = subject.read_subject(world, domain, weights, learner, preferences)
    log, (model, _) = subject.read_log(demonstrations, about.known), about.players(model)
    assert log is not None
    about, allowed = subject.with_limits(about, allowance, log)
    asked = subject.read_learner(model, about.known, allowed, mismatch_penalty, violation_penalty, learner_option)
    with progress("learning", None) as done:
        response = asked.respond(Lesson.from_demonstrations(about.known, log, start=_other_starts(about, log)))
        transcript = _taught(about, asked, teacher, done) if then_teach else None
    shown = None if transcript is None or not (show or instead) else _shown(about, asked, transcript, show or 1)
    files = [] if transcript is None else written(shown, instead, about.known, transcript.final.lesson.policy, None)
    if as_json:
        data = _data(about, log, response) | ({} if transcript is None else _instead(transcript))
        show_json(data | (shown.as_data() if shown else {}) | {"files": list(map(str, files))})
        return
    lines = [f"{log} in {demonstrations}", *_learned(about, log, allowed, response)]
    if transcript is not None:
        lines += ["", "What to show instead:", str(transcript), transcript.explain()]
    say("\n".join([*lines, *([shown.text(full=full)] if shown else []), *(f"Written: {path}" for path in files)]))


def _other_starts(about: subject.Subject, log: "Demonstrations") -> "Vector | None":
    """(S,), how often the recording begins in each state, if it begins where the domain does not; otherwise None."""
    import numpy as np

    initial = about.known.mdp.initial
    counts = np.bincount(log.states[log.offsets[:-1]], minlength=len(initial))
    return counts / log.n if counts[initial == 0].any() else None


def _shown(about: subject.Subject, learner: "Learner", transcript: "Transcript", n: int) -> "Shown":
    return transcript.final.lesson.show(n, domain=about.known, true_weights=about.weights, learner=learner)


def _taught(about: subject.Subject, learner: "Learner", teacher: str, done: Any) -> "Transcript":
    """The rounds with a teacher that knows the true weights."""
    from tutelage import interaction

    chosen = about.teacher(teacher, learner, {})
    return interaction.teach(chosen, learner, progress=lambda step: done.note(f"{step.done} {step.stage}"))


def _learned(about: subject.Subject, log: "Demonstrations", allowed: Any, response: "Response") -> list[str]:
    """What was recorded of each feature, what the learner does, the weights that it infers, and its reward."""
    from tutelage.chains.arrival import journey_of
    from tutelage.data.describing import recorded_features, recorded_lines
    from tutelage.data.empirical import RecordedAllowance

    names, journey = about.known.names, journey_of(about.known.mdp, response.policy)
    lines = recorded_lines(recorded_features(about.known, log))
    lines += [str(allowed)] if isinstance(allowed, RecordedAllowance) else []
    if response.lesson.initial is not None:
        lines.append("The recording begins in other states than the domain; the learner is compared from there.")
    lines.append(response.explain())
    if response.learned_weights is not None:
        pairs = zip(names, response.learned_weights, strict=True)
        lines.append(f"It infers the weights: {', '.join(f'{name} {value:.4g}' for name, value in pairs)}")
    lines += [] if journey is None else [f"The learner {journey}."]
    if about.true_weights is not None:
        lines.append(f"Its true reward: {float(about.true_weights @ response.expectation.reward):.4g}")
    return lines


def _data(about: subject.Subject, log: "Demonstrations", response: "Response") -> dict[str, Any]:
    """What was recorded and what the learner does, as data."""
    from tutelage.arrays import finite_or_none
    from tutelage.data.describing import recorded_features

    domain, lesson = about.known, response.lesson
    rewards = zip(lesson.expectation, lesson.uncertainty, response.compared, strict=True)
    weights = response.feature_weights
    return {
        "demonstrations": log.n,
        "visits": len(log.states),
        "features": {
            name: {"shown": float(shown), "uncertainty": finite_or_none(float(doubt)), "done": float(done)}
            for name, (shown, doubt, done) in zip(domain.reward_names, rewards, strict=True)
        },
        "recorded": recorded_features(domain, log),
        "preferences": dict(zip(domain.preference_names, response.expectation.preference.tolist(), strict=True)),
        "learned_weights": None if weights is None else dict(zip(domain.names, weights.tolist(), strict=True)),
        "reward": None if about.true_weights is None else float(about.true_weights @ response.expectation.reward),
    }


def _instead(transcript: "Transcript") -> dict[str, Any]:
    from tutelage.arrays import finite_or_none

    final = transcript.final
    return {
        "instead": {"reward": final.response_reward, "bound": finite_or_none(final.bound), "ended": transcript.ended}
    }
