"""`tutelage teach`: one learner, one teacher, in an object world or in a domain of one's own."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli.printing import progress, say, show_json
from tutelage.outcomes import InvalidModel

if TYPE_CHECKING:
    from tutelage.arrays import Vector
    from tutelage.environments.object_world import ObjectWorld
    from tutelage.mdp.model import Domain
    from tutelage.transcripts import Transcript


class Model(StrEnum):
    """How the learner weighs what it is shown against what it minds."""

    soft = "soft"
    hard = "hard"
    footnote = "footnote"
    published = "published"
    standard = "standard"


WORLD_HELP = "An object world: generator:seed:size, such as published:0:10, or a JSON file."
LEARNER_HELP = "L1 .. L5: which preference features it minds (none, or the first 2, 4, 5, 6). Left out: all."


def teach(
    world: Annotated[str, typer.Option(help=WORLD_HELP)] = "",
    domain: Annotated[
        Path | None, typer.Option(help="Instead of a world: a domain that `tutelage.save` wrote.")
    ] = None,
    learner: Annotated[str, typer.Option(help=LEARNER_HELP)] = "",
    model: Annotated[
        Model, typer.Option(help="soft: weighs; hard: keeps limits, projects; see docs/learners.md.")
    ] = Model.soft,
    teacher: Annotated[
        str, typer.Option(help="agnostic, conservative, aware-cmdp, bilevel, volume-search, line-search.")
    ] = "bilevel",
    weights: Annotated[str, typer.Option(help="The true weights, such as 1,0.9,0.2; a world has its own.")] = "",
    mismatch_penalty: Annotated[float, typer.Option(help="C_r, of soft (5 in the paper) and footnote (20).")] = 5.0,
    violation_penalty: Annotated[float, typer.Option(help="C_c, of the soft learner.")] = 10.0,
    allowance: Annotated[float, typer.Option(help="delta_c: discounted visits granted of each feature minded.")] = 0.0,
    max_rounds: Annotated[int, typer.Option(help="For the teachers that adapt.")] = 100,
    save: Annotated[Path | None, typer.Option(help="Keep the rounds in this .npz file, as they come.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the world and what was learned; adds .png and .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Teach a learner, and say what it makes of the lessons, what it gives up, and how much more it could be taught.

    [bold]tutelage teach --world published:0:10 --learner L3 --teacher bilevel[/bold]

    [bold]tutelage teach --world published:0:10 --learner L2 --model hard --allowance 2.5 --teacher volume-search[/bold]

    [bold]tutelage teach --domain roads.npz --weights=-1,50 --model hard --teacher aware-cmdp[/bold]
    """
    from tutelage import interaction
    from tutelage.experiments.players import first_preferences, make_learner, make_teacher, planned
    from tutelage.experiments.settings import PUBLISHED_STEPS, LearnerSetting

    made, whole, true_weights = _subject(world, domain, weights)
    known = first_preferences(whole, learner) if learner else whole
    setting = LearnerSetting(model.value, mismatch_penalty, violation_penalty, allowance, PUBLISHED_STEPS)
    pupil = make_learner(known, setting)
    name = teacher.replace("-", "_")
    options: dict[str, Any] = {"preference_features": whole.preference_features} if name == "conservative" else {}
    with progress("teaching", None) as done:
        tutor = planned(make_teacher(name, known, true_weights, pupil, options))

        def on_round(rounds: "Transcript") -> None:
            done(f"the learner earns {rounds.final.response_reward:.3f}")

        transcript = interaction.teach(tutor, pupil, max_rounds=max_rounds, path=save, on_round=on_round)
    files = _drawn(made, learner, transcript, picture)
    if as_json:
        chosen = {"learner": learner or None, "model": model.value, "teacher": name}
        show_json(chosen | _data(known, transcript) | {"files": [str(path) for path in files]})
        return
    say(str(transcript))
    say(transcript.final.response.explain())
    for path in files:
        say(f"Picture: {path}")


def _subject(world: str, path: Path | None, weights: str) -> "tuple[ObjectWorld | None, Domain, Vector]":
    """The world, if it is one, the domain with all that could be minded, and the true weights."""
    import numpy as np

    from tutelage.mdp.files import load

    if bool(world) == (path is not None):
        raise InvalidModel("give either --world or --domain, and not both")
    given = _numbers(weights)
    if path is not None:
        if not given:
            raise InvalidModel("a domain of one's own needs the true weights of its reward features: --weights 1,0.9")
        return None, load(path), np.array(given)
    made = _world(world)
    return made, made.domain("L5"), np.array(given) if given else made.true_weights


def _world(text: str) -> "ObjectWorld":
    from tutelage.environments.object_world import ObjectWorld
    from tutelage.experiments.worlds import WorldName

    if not text.endswith(".json"):
        return WorldName.parse(text).make()
    return ObjectWorld.from_json(Path(text).read_text(encoding="utf-8"))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise InvalidModel(f"weights must be numbers with commas between them, got {text!r}") from error


def _data(domain: "Domain", transcript: "Transcript") -> dict[str, Any]:
    """What was taught and learned, by name."""
    from tutelage.arrays import finite_or_none

    final = transcript.final
    answer, proof = final.response, final.response.certificate
    return {
        "reward": final.response_reward,
        "bound": finite_or_none(final.bound),
        "rounds": [
            {
                "lesson": taught.lesson.expectation.tolist(),
                "lesson_reward": taught.lesson_reward,
                "reward": taught.response_reward,
                "bound": finite_or_none(taught.bound),
                "reason": taught.reason,
            }
            for taught in transcript.rounds
        ],
        "ended": transcript.ended,
        "reward_expectation": dict(zip(domain.reward_names, answer.expectation.reward.tolist(), strict=True)),
        "preference_expectation": dict(
            zip(domain.preference_names, answer.expectation.preference.tolist(), strict=True)
        ),
        "learned_weights": answer.learned_weights.tolist(),
        "certificate": {"gap": finite_or_none(proof.gap), "residual": proof.residual, "ended": proof.ended.name},
    }


def _drawn(world: "ObjectWorld | None", learner: str, transcript: "Transcript", picture: Path | None) -> list[Path]:
    """The picture, where one was asked for."""
    if picture is None:
        return []
    if world is None:
        raise InvalidModel("only an object world can be drawn; a domain of one's own has no picture")
    from tutelage.experiments.figures import taught_picture
    from tutelage.pictures.files import save_picture

    return save_picture(taught_picture(world, learner or "L5", transcript.final.response), picture)
