"""`tutelage infer`: what responses or behaviour say about a learner."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli import subject
from tutelage.cli.printing import AsJson, say, show_json
from tutelage.outcomes import InvalidInput

if TYPE_CHECKING:
    from tutelage.inference.avoidance import PreferenceEstimate
    from tutelage.inference.learner_estimate import LearnerEstimate
    from tutelage.model.mdp import Domain

ROUNDS_HELP = "Rounds that teach --save wrote: infer the soft learner that gave these responses."
BEHAVIOUR_HELP = "Demonstrations that tutelage.save_demonstrations wrote: infer what is avoided, and how strongly."
WEIGHTS_HELP = "The reward weights of the behaviour, such as 1,0.9,0.2, where they are known."


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
    if rounds is not None:
        _from_rounds(known, rounds, observed, n_trajectories, as_json)
    elif demonstrations is not None:
        _from_behaviour(known, demonstrations, weights, as_json)


def _from_rounds(domain: "Domain", path: Path, observed: Any, n_trajectories: int, as_json: bool) -> None:
    from tutelage.inference.learner_estimate import infer_learner
    from tutelage.transcripts import load_transcript

    estimate = infer_learner(
        domain, load_transcript(path, domain).rounds, observed=observed, n_trajectories=n_trajectories
    )
    if as_json:
        show_json(learner_data(estimate))
    else:
        say(str(estimate))


def _from_behaviour(domain: "Domain", path: Path, weights: str, as_json: bool) -> None:
    from tutelage.data.files import load_demonstrations
    from tutelage.inference.avoidance import infer_preferences

    known = subject.read_weights(weights, domain.reward_names) if weights else None
    estimate = infer_preferences(domain, load_demonstrations(path, domain.mdp), reward_weights=known)
    if as_json:
        show_json(preference_data(estimate))
    else:
        say(str(estimate))


def learner_data(estimate: "LearnerEstimate") -> dict[str, Any]:
    """The estimate for JSON; infinite ends are null."""
    from tutelage.arrays import finite_or_none

    def ends(interval: tuple[float, float]) -> list[float | None]:
        return [finite_or_none(interval[0]), finite_or_none(interval[1])]

    names = estimate.domain.preference_names
    return {
        "mismatch_penalty": ends(estimate.mismatch_penalty),
        "violation_penalty": ends(estimate.violation_penalty),
        "violation_allowance": {
            name: ends(interval) for name, interval in zip(names, estimate.violation_allowance, strict=True)
        },
        "preferences": dict(zip(names, estimate.preferences, strict=True)),
        "residual": finite_or_none(estimate.residual),
        "contradiction": estimate.contradiction,
    }


def preference_data(estimate: "PreferenceEstimate") -> dict[str, Any]:
    """The estimate for JSON; what is not determined is null."""
    from tutelage.arrays import finite_or_none

    columns = ("strength", "standard_error", "low", "high", "p_value")
    preferences = {
        name: {column: finite_or_none(float(getattr(estimate, column)[j])) for column in columns}
        | {"not_determined": estimate.reasons[j]}
        for j, name in enumerate(estimate.domain.preference_names)
    }
    rewards = dict(zip(estimate.domain.reward_names, estimate.reward_weights.tolist(), strict=True))
    return {
        "n": estimate.n,
        "preferences": preferences,
        "reward_weights": rewards,
        "bias": estimate.bias,
        "model_p_value": finite_or_none(estimate.model_p_value),
    }
